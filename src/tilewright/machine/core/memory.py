"""Where do a kernel's addresses lead? Shared, global, constant, local and parameter memory, bounds-checked.

Addresses. Shared: 32 bits, `(rank in the cluster << 24) + offset`; an own-window (`shared::cta`) address whose rank
bits are zero also means the own CTA. Generic: shared addresses plus `SHARED_WINDOW`, parameters from `PARAM_WINDOW`,
local memory from `LOCAL_WINDOW`, constants from `CONST_WINDOW`, global addresses as they are. Every global buffer has
its own range with guard gaps, 256-byte aligned and no more, as the driver promises. Local memory: every thread's frame
has addresses of its own, so that a local address is generic already. Source: PTX ISA, state spaces and generic
addressing; CUDA guide, distributed shared memory.

A `VirtualBuffer` has a size and no bytes: reads give zeros, writes are dropped.

Not handled: an access past a thread's frame that stays within the CTA's frames. Checked by:
tests/machine/core/test_memory.py.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import numpy.typing as npt

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.machine.core.event import Ranges
from tilewright.machine.core.fault import MachineFault

if TYPE_CHECKING:
    from tilewright.machine.core.state import Cta

RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1
SHARED_WINDOW = 0x0000_7F00_0000_0000
PARAM_WINDOW = 0x0000_7E00_0000_0000
LOCAL_WINDOW = 0x0000_7D00_0000_0000
LOCAL_RANK_SHIFT = 34
CONST_WINDOW = 0x0000_7C00_0000_0000
FUNCTION_WINDOW = 0x0000_7B00_0000_0000
GLOBAL_START = 0x0000_0010_0000_0100
GUARD_BYTES = 1 << 20
PARAMETER_BLOCK = "the kernel's parameters"
"""The name of the region that holds them."""
POISON = 0xCC

_WORDS: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
    16: np.dtype("V16"),
}

_ZEROS = {width: np.zeros((), dtype) for width, dtype in _WORDS.items()}

RegionSpace = Literal["shared", "global", "const", "param", "local"]


@dataclass(frozen=True, slots=True)
class VirtualBuffer:
    """A global buffer of `size_bytes` bytes that holds no data: it reads as zeros, and what is written is dropped."""

    size_bytes: int


class _Nothing:
    """Stands for the array of a virtual buffer: `size` elements that are zero whatever is written."""

    def __init__(self, size: int, dtype: np.dtype[Any]) -> None:
        self.size = size
        self.dtype = dtype

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return _Nothing(len(range(self.size)[index]), self.dtype)
        return np.zeros(np.shape(index), self.dtype)[()]

    def __setitem__(self, index: Any, value: Any) -> None:
        pass

    def copy(self) -> npt.NDArray[Any]:
        return np.zeros(self.size, self.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Contiguous bytes at a base address, with views as words of 1, 2, 4, 8 and 16 bytes. `cta` is -1 outside shared.

    reserved_bytes: at the start, which no access may touch (`locate`).
    virtual: `data` and `words` are stand-ins without bytes, which can only be indexed, sliced, assigned to and copied.
    """

    name: str
    base: int
    data: npt.NDArray[np.uint8]
    words: dict[int, npt.NDArray[Any]]
    cta: int = -1
    space: RegionSpace = "global"
    virtual: bool = False
    reserved_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        return self.data.size


def region(
    name: str, base: int, data: npt.NDArray[np.uint8], cta: int = -1, space: RegionSpace = "global",
    reserved_bytes: int = 0,
) -> Region:  # fmt: skip
    """A region over `data` (1-D, contiguous). Word views end at the last whole word."""
    words = {width: data[: data.size // width * width].view(dtype) for width, dtype in _WORDS.items()}
    return Region(name, base, data, words, cta, "shared" if cta >= 0 else space, reserved_bytes=reserved_bytes)


def clear(where: Region, offsets: npt.NDArray[np.int64], size_bytes: int) -> None:
    """Let the `size_bytes` at each of some offsets, which are multiples of it, be zeros."""
    width = min(size_bytes, 16)
    words, first = where.words[width], offsets // width
    for index in range(size_bytes // width):
        words[first + index] = _ZEROS[width]


def virtual_region(name: str, base: int, buffer: VirtualBuffer) -> Region:
    """A region of global memory without bytes."""
    words = {
        width: cast("npt.NDArray[Any]", _Nothing(buffer.size_bytes // width, dtype)) for width, dtype in _WORDS.items()
    }
    return Region(name, base, words[1], words, virtual=True)


FIRST_WINDOW = min(SHARED_WINDOW, PARAM_WINDOW, CONST_WINDOW, LOCAL_WINDOW)
"""Generic addresses below are of global memory."""
_ANYWHERE = virtual_region("global memory", 0, VirtualBuffer(FIRST_WINDOW))


class GlobalMemory:
    """Every buffer, module variable and the parameter block, sorted by address.

    virtual_maps: tensor maps that the kernel wrote to virtual buffers, which hold no bytes, by address. forgiving: no
    global address is wrong, whatever it is; for launches whose sizes and strides are not known. solid: buffers whose
    bytes count even then. open_constants, open_globals: begin and end of the `.const` and `.global` variables that
    have no value, which the host may fill.
    """

    def __init__(self) -> None:
        self.forgiving = False
        self.solid: tuple[Region, ...] = ()
        self.virtual_maps: dict[int, bytes] = {}
        self.open_constants: list[tuple[int, int]] = []
        self.open_globals: list[tuple[int, int]] = []
        self.regions: list[Region] = []
        self.by_name: dict[str, Region] = {}
        self._bases: list[int] = []
        self._next = GLOBAL_START

        self._next_constant = CONST_WINDOW

    def is_left_to_host(self, address: int) -> bool:
        """Whether a variable without a value stands at an address."""
        return any(begin <= address < end for begin, end in (*self.open_constants, *self.open_globals))

    def place(self, name: str, data: npt.NDArray[np.uint8] | VirtualBuffer) -> Region:
        """Give `data` an address range of its own. Raises TilewrightError where no addresses are left."""
        if isinstance(data, VirtualBuffer):
            placed = self._insert(virtual_region(name, self._next, data))
        else:
            placed = self._insert(region(name, self._next, data))
        self._next += (placed.size_bytes + 2 * GUARD_BYTES) // GUARD_BYTES * GUARD_BYTES
        if self._next > FUNCTION_WINDOW:
            raise TilewrightError(f"buffer {name} of {placed.size_bytes} bytes does not fit the address space")
        return placed

    def place_constant(self, name: str, data: npt.NDArray[np.uint8]) -> Region:
        """Give a `.const` variable an address range of its own."""
        placed = self._insert(region(name, self._next_constant, data, space="const"))
        self._next_constant += (data.size + 511) // 256 * 256
        return placed

    def place_parameters(self, data: npt.NDArray[np.uint8]) -> Region:
        """The block of the kernel's parameters stands at the start of its window."""
        return self._insert(region(PARAMETER_BLOCK, PARAM_WINDOW, data, space="param"))

    def _insert(self, placed: Region) -> Region:
        index = bisect_right(self._bases, placed.base)
        self._bases.insert(index, placed.base)
        self.regions.insert(index, placed)
        self.by_name[placed.name] = placed
        return placed

    def put_map(self, address: int, content: bytes) -> None:
        """Let a tensor map stand in a buffer, which may have no bytes. Raises TilewrightError where it does not fit."""
        where = self.find(address)
        if where is None or address + len(content) > where.base + where.size_bytes:
            raise TilewrightError(f"a tensor map at {address:#x} leaves its buffer", remedy="give a larger buffer")
        if where.virtual:
            self.virtual_maps[address] = content
            return
        begin = address - where.base
        where.data[begin : begin + len(content)] = np.frombuffer(content, np.uint8)

    def put_bytes(self, address: int, content: bytes) -> None:
        """Let bytes stand in a buffer that has bytes. Raises TilewrightError where they do not fit."""
        where = self.find(address)
        if where is None or where.virtual or address + len(content) > where.base + where.size_bytes:
            raise TilewrightError(f"{len(content)} bytes at {address:#x} leave their buffer, or it holds no bytes")
        begin = address - where.base
        where.data[begin : begin + len(content)] = np.frombuffer(content, np.uint8)

    def find(self, address: int) -> Region | None:
        """The region that begins at or below `address` (the address may lie past its end)."""
        index = bisect_right(self._bases, address) - 1
        return self.regions[index] if index >= 0 else None


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """The accesses of some lanes that fall into one region. `chosen` indexes into the addresses asked about."""

    region: Region
    offsets: npt.NDArray[np.int64]
    chosen: npt.NDArray[np.int64]


def locate(cta: Cta, space: str, addresses: npt.NDArray[np.uint64], size_bytes: int, span: Span) -> list[Located]:
    """Split `addresses` by region. space: "shared::cta", "shared::cluster", "global", "const", "param", "local" or
    "generic".

    Raises MachineFault for a misaligned address or one whose `size_bytes` are not inside one region.
    """
    forgiving = cta.cluster.memory.forgiving
    if forgiving and (space == "global" or (space == "generic" and int(addresses.max()) < FIRST_WINDOW)):
        return _forgiven(cta.cluster.memory.solid, addresses, size_bytes)
    bits = addresses.item() if addresses.size == 1 else int(np.bitwise_or.reduce(addresses))
    if size_bytes & (size_bytes - 1) == 0 and bits & (size_bytes - 1):
        address = int(addresses[np.flatnonzero(addresses & np.uint64(size_bytes - 1))[0]])
        raise MachineFault(
            "MF002",
            "misaligned-address",
            f"address {address:#x} is not a multiple of the access size, {size_bytes} bytes",
            span,
            "PTX ISA, Addresses as Operands: naturally aligned",
        )
    if addresses.size:
        where, base = region_of(cta, space, int(addresses[0]), span)
        offsets = (addresses - np.uint64(base)).view(np.int64)
        low, high = (offsets.item(),) * 2 if offsets.size == 1 else (int(offsets.min()), int(offsets.max()))
        if low >= where.reserved_bytes and high <= where.size_bytes - size_bytes:
            return [Located(where, offsets, _first(addresses.size))]
    found: list[Located] = []
    remaining = np.arange(addresses.size)
    while remaining.size:
        address = int(addresses[remaining[0]])
        where, base = region_of(cta, space, address, span)
        offsets = (addresses[remaining] - np.uint64(base)).view(np.int64)
        inside = (offsets >= where.reserved_bytes) & (offsets <= where.size_bytes - size_bytes)
        if not inside[0]:
            raise out_of_bounds(where, address, int(offsets[0]), size_bytes, span)
        found.append(Located(where, offsets[inside], remaining[inside]))
        remaining = remaining[~inside]
    return found


def _forgiven(solid: tuple[Region, ...], addresses: npt.NDArray[np.uint64], size_bytes: int) -> list[Located]:
    """Global accesses none of which is wrong: to the solid buffers where they fall into one, else to anywhere."""
    found: list[Located] = []
    remaining = np.arange(addresses.size)
    for where in solid:
        offsets = addresses[remaining].view(np.int64) - where.base
        inside = (offsets >= 0) & (offsets <= where.size_bytes - size_bytes)
        inside &= (offsets + where.base) % size_bytes == 0
        if inside.any():
            found.append(Located(where, offsets[inside], remaining[inside]))
            remaining = remaining[~inside]
    if remaining.size:
        found.append(Located(_ANYWHERE, addresses[remaining].view(np.int64), remaining))
    return found


@lru_cache(maxsize=256)
def _first(count: int) -> npt.NDArray[np.int64]:
    """The numbers below `count`, not to be changed."""
    numbers = np.arange(count)
    numbers.setflags(write=False)
    return numbers


def out_of_bounds(where: Region, address: int, offset: int, size_bytes: int, span: Span | None) -> MachineFault:
    """The fault for an access that leaves `where`, or touches what is reserved of it."""
    if 0 <= offset < where.reserved_bytes:
        return MachineFault(
            "MF001",
            "out-of-bounds",
            f"{size_bytes} bytes at {address:#x} are outside {where.name}, below its first variable: an address that "
            f"is computed without the variable's own, {where.reserved_bytes:#x} in this run",
            span,
        )
    return MachineFault(
        "MF001",
        "out-of-bounds",
        f"{size_bytes} bytes at {address:#x} are outside {where.name}: offset {offset} of {where.size_bytes} bytes",
        span,
    )


def region_of(cta: Cta, space: str, address: int, span: Span | None = None) -> tuple[Region, int]:
    """The region `address` should lie in, and the address of that region's first byte in this space. Raises
    MachineFault where there is none."""
    in_window = SHARED_WINDOW <= address < SHARED_WINDOW + (1 << 32)
    if in_window and space in ("generic", "shared::cta", "shared::cluster"):
        # An instruction of a shared space takes the low 32 bits of a 64-bit register: a generic address does as well.
        narrow = "shared::cluster" if space == "generic" else space
        where, base = region_of(cta, narrow, address - SHARED_WINDOW, span)
        return where, base + SHARED_WINDOW
    if space == "param" and address < 1 << 32:
        # The text's own address of a parameter, which cvta.param has not made generic.
        where, base = region_of(cta, "generic", address + PARAM_WINDOW, span)
        return where, base - PARAM_WINDOW
    if space == "param":
        space = "generic"  # parameters of a call lie in the caller's local memory
    if space == "generic":
        space = "local" if LOCAL_WINDOW <= address < PARAM_WINDOW else "global"
    if space == "local":
        where = cta.local
        if where is None or not where.base <= address < where.base + where.size_bytes:
            raise MachineFault("MF001", "out-of-bounds", f"address {address:#x} is in no thread's local memory", span)
        return where, where.base
    if space == "shared::cta":
        rank = address >> RANK_SHIFT
        if rank == 0:
            return cta.shared, 0
        if rank != cta.rank:
            raise MachineFault(
                "MF001", "foreign-shared-memory", f"address {address:#x} lies in CTA rank {rank}, not in its own", span
            )
        return cta.shared, rank << RANK_SHIFT
    if space == "shared::cluster":
        rank = address >> RANK_SHIFT
        if rank >= len(cta.cluster.ctas):
            raise MachineFault(
                "MF001",
                "foreign-shared-memory",
                f"address {address:#x} names CTA rank {rank}, not in the cluster",
                span,
            )
        return cta.cluster.ctas[rank].shared, rank << RANK_SHIFT
    where = cta.cluster.memory.find(address)
    if where is None:
        raise MachineFault("MF001", "out-of-bounds", f"address {address:#x} belongs to no buffer", span)
    return where, where.base


def local_region(rank: int, threads: int, frame_bytes: int) -> Region:
    """The local memory of a CTA's threads, one frame after the other; it begins as zeros."""
    data = np.zeros(threads * frame_bytes, np.uint8)
    return region(f"local memory of CTA rank {rank}", LOCAL_WINDOW + (rank << LOCAL_RANK_SHIFT), data, space="local")


def merge_ranges(starts: npt.NDArray[Any], size_bytes: int) -> Ranges:
    """The bytes [s, s + size) for every start, as sorted, merged, disjoint half-open ranges; for the same starts again,
    mostly the same object."""
    return _merge_ranges(np.ascontiguousarray(starts, np.int64).tobytes(), size_bytes)


def merge_spans(begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Ranges:
    """The bytes of all [begin, end), which are some, as sorted, merged, disjoint half-open ranges."""
    order = np.argsort(begins)
    begins, reached = begins[order], np.maximum.accumulate(ends[order])
    breaks = np.flatnonzero(begins[1:] > reached[:-1])
    firsts = begins[np.concatenate(([0], breaks + 1))].tolist()
    lasts = reached[np.concatenate((breaks, [-1]))].tolist()
    return tuple(zip(firsts, lasts, strict=True))


@lru_cache(maxsize=4096)
def _merge_ranges(starts: bytes, size_bytes: int) -> Ranges:
    if not starts:
        return ()
    ordered = np.sort(np.frombuffer(starts, np.int64))
    first, last = int(ordered[0]), int(ordered[-1])
    breaks = np.flatnonzero(ordered[1:] - ordered[:-1] > size_bytes)
    if not breaks.size:
        return ((first, last + size_bytes),)
    begins: list[int] = [first, *ordered[breaks + 1].tolist()]
    ends: list[int] = [*ordered[breaks].tolist(), last]
    return tuple((begin, end + size_bytes) for begin, end in zip(begins, ends, strict=True))
