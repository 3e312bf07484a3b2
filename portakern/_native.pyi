"""Types of the native module; use it through :mod:`portakern.native`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

from portakern.native import CopySpec, DeviceFacts, DeviceHealth, FillSpec, LaunchSpec

DRIVER_ABI: int

class Stream:
    """A stream of our own, which ends with the object."""

    @property
    def handle(self) -> int:
        """The native handle, as other libraries take it. Raises DriverError where the driver does not say."""

class Kernel:
    """A function of a loaded binary, which it keeps loaded."""

    @property
    def name(self) -> str: ...

class Module:
    """A loaded binary."""

    def kernel(self, name: str, shared_bytes: int = 0) -> Kernel:
        """The kernel of that name, ready for launches with up to ``shared_bytes`` of dynamic shared memory."""

@final
class Call:
    """A prepared call: its arguments are packed and its kernels, module and device are kept.

    Pointer slots count the pointer arguments and the targets of copies and fills in order of the steps.
    """

    def __call__(self, stream: int | Stream | None = 0, pointers: Sequence[int] | None = None) -> None:
        """Queues all steps on a stream, given by its native handle (0: the default stream).

        From the third call in a row on one stream on, launches go as one graph where the driver has that, which costs the
        host less; a stream that is being captured takes them one by one.

        Args:
            stream: where to queue.
            pointers: one address for every slot, which replace what was there and stay; ``None`` leaves them.  Setting
                them and queueing is one step for other threads.

        Raises:
            DriverError: the driver refused a launch; later steps were not queued.
            ValueError: another number of pointers than slots.
        """

    def __len__(self) -> int: ...
    @property
    def device(self) -> Device: ...
    @property
    def pointer_count(self) -> int: ...
    @property
    def pointers(self) -> list[int]: ...
    def rebind(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Replaces the addresses of some slots, given as (slot, address). IndexError for a slot that is not there."""

    def keep(self, *objects: Any) -> None:
        """Keeps objects alive as long as the call, such as the arrays that it points into."""

class Device:
    """An open device. Streams are given by their native handle, 0 being the default stream."""

    @property
    def driver(self) -> str: ...
    @property
    def ordinal(self) -> int: ...
    @property
    def facts(self) -> DeviceFacts: ...
    @property
    def stuck(self) -> bool:
        """A deadline passed or the device was lost: what it holds is not freed any more, since that would hang."""

    def health(self) -> DeviceHealth:
        """How it is now. Raises DriverError ``unsupported`` where the driver does not say."""

    def allocate(self, n: int) -> int:
        """The address of ``n`` bytes, which the caller frees."""

    def free(self, p: int) -> None: ...
    def copy_in(self, p: int, host_address: int, n: int) -> None:
        """Copies ``n`` bytes from the host; has ended when it returns."""

    def copy_out(self, host_address: int, p: int, n: int) -> None:
        """Copies ``n`` bytes to the host; has ended when it returns."""

    def copy(self, to: int, from_: int, n: int, stream: int | Stream | None = 0) -> None: ...
    def fill(self, p: int, byte: int, n: int, stream: int | Stream | None = 0) -> None: ...
    def load(self, binary: bytes) -> Module:
        """Loads the driver's binary format, so that nothing is left to be loaded at the first launch.

        The ``host`` driver takes the path of a shared object, or nothing for what the process has loaded already.
        """

    def tensor_map(
        self,
        address: int,
        dtype: str,
        itemsize: int,
        shape: Sequence[int],
        strides: Sequence[int],
        box: Sequence[int],
        swizzle: int = 0,
        lower: Sequence[int] = (),
        upper: Sequence[int] = (),
        steps: Sequence[int] = (),
    ) -> bytes:
        """What a kernel takes by value to copy boxes of an array; see :func:`portakern.launch.tensor_maps.encode`."""

    def call(self, launches: Iterable[LaunchSpec | CopySpec | FillSpec]) -> Call: ...
    def stream(self) -> Stream: ...
    def synchronize(self, timeout_s: float | None = None, stream: int | Stream | None = None) -> None:
        """Waits for a stream, or for everything on the device (``None``).

        Raises:
            DriverError: ``timeout`` after ``timeout_s`` seconds (the work still runs), or what the work failed with.
        """

def now_ns() -> int: ...
def clock_resolution_ns() -> int: ...
def clock_tick_ns(reads: int = 10_000) -> int: ...
def clock_name() -> str: ...
def driver_names() -> list[str]: ...
def probe_driver(name: str, path: str = "") -> dict[str, Any]: ...
def register_driver(table: Any) -> None: ...
def driver_table(name: str) -> Any: ...
def open_device(driver: str | Any, ordinal: int = 0, path: str = "") -> Device: ...
def array_address(array: Any, /) -> int:
    """The address of the first element of an array with ``__array_struct__``, as numpy's have it."""

def watch_faults(memory: int, bytes: int, report: int) -> None:
    """From now on the first access to ``memory`` that the system refuses leaves its place, counted from 1, at the address
    ``report``; the process ends by it as it would have."""

# ---- timing; see portakern.timing

FLAG_THROTTLED: int
FLAG_UNGATED: int

def measure(
    device: Device,
    contenders: list[tuple[str, Any, int]],
    options: Any,
    failed: list[str],
    refresh: Callable[[int, list[float]], Any] | None = None,
) -> dict[str, Any]:
    """Contenders are (name, calls or callable, native stream); the name of one that raises is appended to ``failed``.

    ``refresh`` is given the number of each block before it is sampled, outside of every sample, and the samples of the last
    block, in microseconds by contender; what is ``False`` ends the sampling.
    """

def median(samples: Sequence[float]) -> float: ...
def quantile(samples: Sequence[float], share: float) -> float: ...
def bootstrap_median(
    samples: Sequence[float], confidence: float = 0.95, seed: int = 0, resamples: int = 1000
) -> tuple[float, float]: ...
def bootstrap_ratio(
    a: Sequence[float], b: Sequence[float], confidence: float = 0.95, seed: int = 0, resamples: int = 1000
) -> tuple[float, float, float]: ...
def verdict(low: float, high: float, margin: float = 0.01) -> str: ...
