"""What does one tensor copy leave in shared memory? The copy engine's load of one box, with nothing around it.

This is the code that the machine runs for `cp.async.bulk.tensor` (`copy_engine`), for a destination that is a multiple
of 1024 bytes, where no swizzle has a phase. Checked by: tests/machine/copy/test_copy_box.py, against what an H200 left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from tilewright.base.error import TilewrightError
from tilewright.base.plan import TensorMap
from tilewright.legal.argument import integers, shown
from tilewright.machine.copy.copy_engine import CopyMode, footprint_bytes, load_box
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.targets import Target
from tilewright.targets import target as target_by_name


class DescribedMap(Protocol):
    """A tensor map of `tilewright.legal`: names or the driver's numbers, with the tensor's address in `address`."""

    @property
    def address(self) -> int: ...

    def to_plan(self) -> TensorMap: ...


@dataclass(frozen=True, eq=False, slots=True)
class BoxImage:
    """Shared memory after one load, from the destination on.

    data: the bytes, zero where nothing was written [footprint]; written: which of them were [footprint];
    transaction_bytes: what the copy added to its mbarrier.
    """

    data: NDArray[np.uint8]
    written: NDArray[np.bool_]
    transaction_bytes: int

    @property
    def footprint_bytes(self) -> int:
        """Bytes that the destination must have: rows times their pitch, written to or not."""
        return self.data.size


def copy_box(
    map: TensorMap | DescribedMap,
    memory: NDArray[np.uint8],
    coords: Iterable[SupportsIndex],
    offsets: Iterable[SupportsIndex] | None = None,
    *,
    target: str | Target,
) -> BoxImage:
    """One `cp.async.bulk.tensor` load. Source: PTX ISA 9.7.9.27 and 5.5.

    map: a tensor map of `legal`, whose tensor begins at `address`, or of a launch plan, where it begins at
    `offset_bytes`; memory: global memory, byte i at address i; coords: start coordinates, innermost first (five for a
    gather of four rows is not this function's); offsets: of an im2col map, in pixels along W, H and D, none if missing;
    target: the architecture whose copy engine it is.
    Raises TilewrightError: coordinates of the wrong number, or misaligned (an illegal instruction on a GPU); a map
    whose fields do not fit together; memory that ends before the box does.
    """
    facts = target if isinstance(target, Target) else target_by_name(target)
    dtype, dimensions = getattr(memory, "dtype", None), getattr(memory, "ndim", None)
    if dtype != np.uint8 or dimensions != 1:
        kind = "no array" if dtype is None else f"an array of {dtype} with {dimensions} dimensions"
        raise TilewrightError(f"memory is {kind}", remedy="give global memory as one dimension of uint8")
    at = integers("coords", coords, "copy")
    taps = () if offsets is None else integers("offsets", offsets, "copy")
    for coordinate in at:
        if not -(1 << 31) <= coordinate < 1 << 31:
            raise TilewrightError(
                f"coordinate {coordinate} is no signed 32-bit number", remedy="start nearer to the tensor"
            )
    if not isinstance(map, TensorMap) and not hasattr(map, "to_plan"):
        raise TilewrightError(f"{shown(map)} is no tensor map", remedy="give one of tilewright.legal")
    plan = map if isinstance(map, TensorMap) else map.to_plan()
    begin = map.offset_bytes if isinstance(map, TensorMap) else map.address
    if not 0 <= begin <= memory.size:
        raise TilewrightError(
            f"the tensor begins at {begin}, outside the {memory.size} bytes of memory",
            remedy="give memory from address 0 on",
        )
    mode: CopyMode = "tile" if plan.im2col is None else "im2col"
    if taps and (mode == "tile" or len(taps) != plan.rank - 2):
        raise TilewrightError(
            f"{len(taps)} pixel offsets for a tensor map of rank {plan.rank} in {mode} mode",
            remedy="im2col maps take rank minus two offsets, others none",
        )
    try:
        load = load_box(plan, at, memory[begin:], 0, facts, mode, taps)
    except EngineFault as fault:
        raise TilewrightError(fault.message, remedy=_REMEDIES.get(fault.name, "fix the tensor map")) from fault
    data = np.zeros(footprint_bytes(plan, facts), np.uint8)
    written = np.zeros(data.size, np.bool_)
    data[load.shared_offsets] = load.values
    written[load.shared_offsets] = True
    return BoxImage(data, written, load.transaction_bytes)


_REMEDIES = {
    "coordinate-alignment": "start at a coordinate of dimension 0 that is a multiple of 16 bytes",
    "global-range": "give all of the memory that the tensor covers",
}
