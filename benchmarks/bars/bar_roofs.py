"""What memory can do, as contenders beside the kernels: a copy and a read of as many bytes, by plain kernels of PTX.

The copy is measured twice, by the driver's own and by a kernel with 16-byte accesses and 4 of them in flight per thread;
the faster one is the roof.  On a host only the driver's copy is there.
"""

from __future__ import annotations

from portakern import native
from portakern.timing import Contender

THREADS = 512
IN_FLIGHT = {"copy": 4, "read": 8}
"""16-byte loads that a thread issues before it uses the first one."""


def ptx() -> str:
    """Both kernels; a block moves ``THREADS * 16 * IN_FLIGHT`` bytes, the array must be a multiple of that."""
    return "\n".join([".version 7.4", ".target sm_80", ".address_size 64", _kernel("copy"), _kernel("read")])


def _kernel(name: str) -> str:
    """``copy`` stores what it loads; ``read`` stores a word only if all that it loaded adds up to an unlikely value."""
    count, row = IN_FLIGHT[name], THREADS * 16
    registers = [f"%v{i}_{lane}" for i in range(count) for lane in range(4)]
    loads = [f"    ld.global.nc.L1::no_allocate.v4.u32 {{{', '.join(registers[4 * i : 4 * i + 4])}}}, [%from+{i * row}];"
             for i in range(count)]  # fmt: skip
    if name == "copy":
        ends = [f"    st.global.v4.u32 [%to+{i * row}], {{{', '.join(registers[4 * i : 4 * i + 4])}}};" for i in range(count)]
    else:
        ends = ["    mov.u32 %sum, 0;", *(f"    add.u32 %sum, %sum, {r};" for r in registers),
                "    setp.eq.u32 %hit, %sum, 0x9e3779b9;", "    @%hit st.global.u32 [%to], %sum;"]  # fmt: skip
    at = ["    add.u64 %to, %to, %at;"] if name == "copy" else []
    return "\n".join([
        f".visible .entry {name}(.param .u64 to, .param .u64 from)", "{",
        f"    .reg .b32 %block, %thread, %sum, {', '.join(registers)};",
        "    .reg .b64 %to, %from, %at, %offset;", "    .reg .pred %hit;",
        "    ld.param.u64 %to, [to];", "    ld.param.u64 %from, [from];",
        "    mov.u32 %block, %ctaid.x;", "    mov.u32 %thread, %tid.x;",
        f"    mul.wide.u32 %at, %block, {row * count};", "    mul.wide.u32 %offset, %thread, 16;",
        "    add.u64 %at, %at, %offset;", "    add.u64 %from, %from, %at;", *at, *loads, *ends, "    ret;", "}",
    ])  # fmt: skip


class Roofs:
    """Copies and reads of a number of bytes in all (read plus written), for one device."""

    def __init__(self, device: native.Device) -> None:
        self.device = device
        self.module = device.load(ptx().encode()) if device.driver == "cuda" else None
        self.places: list[int] = []

    def contenders(self, kind: str, moved: int) -> list[Contender]:
        """``kind`` is ``copy`` or ``read``.  Bytes are rounded up to whole blocks by less than 0.1% at the sizes here."""
        self.free()
        size = moved // 2 if kind == "copy" else moved
        block = THREADS * 16 * IN_FLIGHT[kind]
        size = -(-size // block) * block
        to, from_ = (self._place(size if kind == "copy" else 4096), self._place(size))
        found = []
        if kind == "copy":
            found.append(Contender("copy by the driver", lambda i: self.device.copy(to, from_, size)))
        if self.module is not None:
            kernel = self.module.kernel(kind)
            arrays = native.pointer(to), native.pointer(from_)
            launch = native.LaunchSpec(kernel, (size // block, 1, 1), (THREADS, 1, 1), arrays)
            found.append(Contender(f"{kind} by a kernel", [self.device.call([launch])]))
        return found

    def _place(self, size: int) -> int:
        place = self.device.allocate(size)
        self.device.fill(place, len(self.places) + 1, size)
        self.places.append(place)
        return place

    def free(self) -> None:
        self.device.synchronize()
        for p in self.places:
            self.device.free(p)
        self.places = []
