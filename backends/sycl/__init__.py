"""SYCL and OpenCL devices: Intel GPUs, and CPUs through their OpenCL and SYCL runtimes."""

from __future__ import annotations

from pathlib import Path

from portakern.backend import Backend

from .opencl.language import OPENCL
from .sycl.language import SYCL

backend = Backend(name="sycl", languages=(SYCL, OPENCL), devices=Path(__file__).parent / "devices")
