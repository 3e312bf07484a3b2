"""SYCL and OpenCL devices: Intel GPUs, and CPUs through their OpenCL and SYCL runtimes."""

from __future__ import annotations

from pathlib import Path

from portakern.backend import Backend

from .opencl.language import opencl
from .sycl.language import sycl

backend = Backend(name="sycl", languages=(sycl, opencl), devices=Path(__file__).parent / "devices")
