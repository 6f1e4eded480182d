"""Where do a kernel's addresses lead? Shared, global, constant and parameter memory, bounds-checked.

Addresses. Shared: 32 bits, `(rank in the cluster << 24) + offset`; an own-window (`shared::cta`) address whose rank
bits are zero also means the own CTA. Generic: shared addresses plus `SHARED_WINDOW`, parameters from `PARAM_WINDOW`,
global addresses as they are. Every global buffer has its own range with guard gaps, 256-byte aligned and no more, as
the driver promises. Source: PTX ISA, state spaces and generic addressing; CUDA guide, distributed shared memory.

Not handled: `.local` memory. Checked by: tests/machine/test_memory.py.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilewright.base.span import Span
from tilewright.machine.event import Ranges
from tilewright.machine.fault import MachineFault

if TYPE_CHECKING:
    from tilewright.machine.state import Cta

RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1
SHARED_WINDOW = 0x0000_7F00_0000_0000
PARAM_WINDOW = 0x0000_7E00_0000_0000
GLOBAL_START = 0x0000_0010_0000_0100
GUARD_BYTES = 1 << 20
POISON = 0xCC

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Contiguous bytes at a base address, with views as 1-, 2-, 4- and 8-byte words. `cta` is -1 outside shared."""

    name: str
    base: int
    data: npt.NDArray[np.uint8]
    words: dict[int, npt.NDArray[Any]]
    cta: int = -1

    @property
    def size_bytes(self) -> int:
        return self.data.size


def region(name: str, base: int, data: npt.NDArray[np.uint8], cta: int = -1) -> Region:
    """A region over `data` (1-D, contiguous). Word views end at the last whole word."""
    words: dict[int, npt.NDArray[Any]] = {
        width: data[: data.size // width * width].view(dtype) for width, dtype in _UNSIGNED.items()
    }
    return Region(name, base, data, words, cta)


class GlobalMemory:
    """Every buffer, module variable and the parameter block, sorted by address."""

    def __init__(self) -> None:
        self.regions: list[Region] = []
        self.by_name: dict[str, Region] = {}
        self._bases: list[int] = []
        self._next = GLOBAL_START

    def place(self, name: str, data: npt.NDArray[np.uint8]) -> Region:
        """Give `data` an address range of its own."""
        placed = self.place_at(name, self._next, data)
        self._next += (data.size + 2 * GUARD_BYTES) // GUARD_BYTES * GUARD_BYTES
        return placed

    def place_at(self, name: str, base: int, data: npt.NDArray[np.uint8]) -> Region:
        placed = region(name, base, data)
        index = bisect_right(self._bases, base)
        self._bases.insert(index, base)
        self.regions.insert(index, placed)
        self.by_name[name] = placed
        return placed

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
    """Split `addresses` by region. space: "shared::cta", "shared::cluster", "global", "const", "param" or "generic".

    Raises MachineFault for a misaligned address or one whose `size_bytes` are not inside one region.
    """
    crooked = addresses & np.uint64(size_bytes - 1) if size_bytes & (size_bytes - 1) == 0 else np.zeros(1)
    if crooked.any():
        address = int(addresses[np.flatnonzero(crooked)[0]])
        raise MachineFault(
            "MF002",
            "misaligned-address",
            f"address {address:#x} is not a multiple of the access size, {size_bytes} bytes",
            span,
            "PTX ISA, Addresses as Operands: naturally aligned",
        )
    found: list[Located] = []
    remaining = np.arange(addresses.size)
    while remaining.size:
        address = int(addresses[remaining[0]])
        where, base = _region_of(cta, space, address, span)
        offsets = (addresses[remaining] - np.uint64(base)).view(np.int64)
        inside = (offsets >= 0) & (offsets <= where.size_bytes - size_bytes)
        if not inside[0]:
            raise out_of_bounds(where, address, int(offsets[0]), size_bytes, span)
        found.append(Located(where, offsets[inside], remaining[inside]))
        remaining = remaining[~inside]
    return found


def out_of_bounds(where: Region, address: int, offset: int, size_bytes: int, span: Span | None) -> MachineFault:
    """The fault for an access that leaves `where`."""
    return MachineFault(
        "MF001",
        "out-of-bounds",
        f"{size_bytes} bytes at {address:#x} are outside {where.name}: offset {offset} of {where.size_bytes} bytes",
        span,
    )


def _region_of(cta: Cta, space: str, address: int, span: Span) -> tuple[Region, int]:
    """The region `address` should lie in, and the address of that region's first byte in this space."""
    if space == "generic":
        if address >= SHARED_WINDOW:
            where, base = _region_of(cta, "shared::cluster", address - SHARED_WINDOW, span)
            return where, base + SHARED_WINDOW
        space = "param" if address >= PARAM_WINDOW else "global"
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


def merge_ranges(starts: npt.NDArray[Any], size_bytes: int) -> Ranges:
    """The bytes [s, s + size) for every start, as sorted, merged, disjoint half-open ranges."""
    ordered = np.unique(starts).astype(np.int64)
    if not ordered.size:
        return ()
    breaks = np.flatnonzero(np.diff(ordered) > size_bytes)
    begins = ordered[np.concatenate(([0], breaks + 1))]
    ends = ordered[np.concatenate((breaks, [ordered.size - 1]))] + size_bytes
    return tuple((int(begin), int(end)) for begin, end in zip(begins, ends, strict=True))
