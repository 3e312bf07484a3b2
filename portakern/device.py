"""Devices as data: instruction sets and products, read from TOML, every figure with its unit and source.

A file describes one instruction set::

    name = "sm_90a"                 # instruction set
    vendor = "NVIDIA"
    kind = "gpu"                    # gpu, cpu or tpu
    title = "Hopper"
    default_product = "h200"
    dtypes = ["f64", "f32", "f16", "bf16", "i64", "i32", "i8", "bool"]
    features = ["async_copy", "tma", "wgmma"]

    [alternatives]                  # for a dtype it lacks: what to use instead
    f16 = "bf16"

    [figures]
    subgroup = { value = 32, unit = "lanes", source = "CUDA C++ Programming Guide, Hardware Implementation" }

    [[matrix]]                      # matrix instructions
    name = "mma.sync.m16n8k16"
    m = 16
    n = 8
    k = 16
    operands = "bf16"
    accumulator = "f32"
    source = "PTX ISA, ..."

    [products.h200]
    title = "NVIDIA H200 SXM"
    [products.h200.figures]
    bandwidth = { value = 4.8e12, unit = "B/s", source = "NVIDIA H200 datasheet" }

Figure names used by neutral code: ``subgroup`` (lanes), ``registers_per_thread``, ``registers_per_unit`` (32-bit),
``threads_per_block``, ``threads_per_unit``, ``blocks_per_unit``, ``shared_bytes_per_block``, ``shared_bytes_per_unit``,
and of products ``units``, ``clock`` (Hz), ``bandwidth`` (B/s), ``memory`` (B), ``last_level_cache`` (B) and
``peak_<dtype>`` (FLOP/s, dense, matrix units where there are any).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from portakern.errors import BackendError


@dataclass(frozen=True)
class Figure:
    """A hardware figure: its value, its unit, and the document it was read from."""

    value: float
    unit: str
    source: str


@dataclass(frozen=True)
class MatrixShape:
    """One matrix instruction: tile sizes m, n, k and the dtypes of operands and accumulator."""

    name: str
    m: int
    n: int
    k: int
    operands: str
    accumulator: str
    source: str


@dataclass(frozen=True)
class Device:
    """An instruction set, or a product built on one (then ``product`` is its name)."""

    isa: str
    vendor: str
    kind: str
    title: str
    dtypes: tuple[str, ...]
    features: tuple[str, ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict, hash=False)
    matrix: tuple[MatrixShape, ...] = ()
    alternatives: Mapping[str, str] = field(default_factory=dict, hash=False)
    default_product: str = ""
    product: str = ""

    @property
    def name(self) -> str:
        """What targets call it: the product's name, or the instruction set's."""
        return self.product or self.isa

    def figure(self, name: str) -> Figure:
        """Raises :class:`BackendError` when the description does not hold the figure."""
        if name not in self.figures:
            raise BackendError(f"the description of {self.name} holds no figure {name!r}",
                               hint=f"it holds {', '.join(sorted(self.figures))}")
        return self.figures[name]

    def value(self, name: str, default: float | None = None) -> float:
        if default is not None and name not in self.figures:
            return default
        return self.figure(name).value

    def count(self, name: str, default: int | None = None) -> int:
        """A figure that is a whole number."""
        return int(self.value(name, default))

    def has(self, feature: str) -> bool:
        return feature in self.features

    def matrix_for(self, operands: str) -> tuple[MatrixShape, ...]:
        return tuple(m for m in self.matrix if m.operands == operands)


def load_devices(folder: Path) -> dict[str, Device]:
    """Every instruction set and product described in ``folder`` by name; raises :class:`BackendError` on a bad file."""
    found: dict[str, Device] = {}
    for path in sorted(folder.glob("*.toml")):
        for device in read_device(path):
            if device.name in found:
                raise BackendError(f"{path.name}: the device {device.name} is described twice")
            found[device.name] = device
    return found


def _alternatives(data: Mapping[str, Any]) -> dict[str, str]:
    """Those that a description names; for a FNUZ format it does not speak of, the OCP one or what takes its place."""
    named = dict(data.get("alternatives", {}))
    for ocp in ("f8e4m3", "f8e5m2"):
        instead = ocp if ocp in data["dtypes"] else named.get(ocp)
        if f"{ocp}fnuz" not in data["dtypes"] and instead is not None:
            named.setdefault(f"{ocp}fnuz", instead)
    return named


def read_device(path: Path) -> list[Device]:
    """The instruction set described by one file, then its products."""
    try:
        data = tomllib.loads(path.read_text())
        isa = Device(
            isa=data["name"], vendor=data["vendor"], kind=data["kind"], title=data["title"],
            dtypes=tuple(data["dtypes"]), features=tuple(data.get("features", ())),
            figures=_figures(data.get("figures", {})),
            matrix=tuple(MatrixShape(**m) for m in data.get("matrix", ())),
            alternatives=_alternatives(data), default_product=data.get("default_product", ""),
        )  # fmt: skip
        products = [
            replace(isa, product=name, title=p.get("title", name), figures={**isa.figures, **_figures(p.get("figures", {}))},
                    dtypes=tuple(p.get("dtypes", isa.dtypes)), features=(*isa.features, *p.get("features", ())))
            for name, p in data.get("products", {}).items()
        ]  # fmt: skip
    except (KeyError, TypeError, AttributeError, tomllib.TOMLDecodeError) as error:
        raise BackendError(f"the device description {path.name} cannot be read: {error!r}",
                           hint="see the module portakern.device for its form") from None
    if isa.default_product and isa.default_product not in {p.product for p in products}:
        raise BackendError(f"{path.name}: the default product {isa.default_product!r} is not described")
    return [isa, *products]


def _figures(table: Mapping[str, Any]) -> dict[str, Figure]:
    figures = {}
    for name, entry in table.items():
        figure = Figure(float(entry["value"]), str(entry["unit"]), str(entry["source"]))
        if not figure.source:
            raise KeyError(f"figure {name} names no source")
        figures[name] = figure
    return figures
