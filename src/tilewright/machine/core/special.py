"""What do the special registers read as? Each is fixed when a warp starts (clocks excepted: `mov` reads those).

Source: PTX ISA, Special Registers. A CTA's `%smid` is its index in the grid modulo the device's multiprocessors; where
the target's table tells of no device, every CTA has a multiprocessor of its own. Counters of the performance monitor
and environment registers read as 0. Shared memory that the system reserves stands past the CTA's own, so that offsets
begin at 0. Checked by: tests/machine/core/test_run.py.
"""

from __future__ import annotations

from math import prod
from re import fullmatch
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilewright.machine.core.decoder import PREDICATE, TypeName, WarpConstant
from tilewright.machine.core.lanes import WARP_SIZE

if TYPE_CHECKING:
    from tilewright.machine.core.state import Cta

_U32 = TypeName("u32", 32)
_U64 = TypeName("u64", 64)
CLOCKS = {
    "%clock": _U32,
    "%clock_hi": _U32,
    "%clock64": _U64,
    "%globaltimer": _U64,
    "%globaltimer_lo": _U32,
    "%globaltimer_hi": _U32,
}
"""Registers that tick: their values differ from one read to the next."""


def _multiprocessors(cta: Cta) -> int:
    """Of the device that the target's table measured; where it tells of none, one for each CTA."""
    launch, target = cta.cluster.launch, cta.cluster.target
    known = "device.multiprocessors" in target.facts
    return target.limit("device.multiprocessors") if known else prod(launch.grid)


def _reserved(cta: Cta) -> int:
    return cta.cluster.target.limit("cta.shared_reserved_bytes")


def _shared_bytes(cta: Cta) -> int:
    return cta.shared.size_bytes - cta.shared.reserved_bytes


def _full(value: int) -> npt.NDArray[Any]:
    return np.full(WARP_SIZE, value, np.uint32)


def _threads(warp: int) -> npt.NDArray[Any]:
    return np.arange(WARP_SIZE, dtype=np.uint32) + np.uint32(warp * WARP_SIZE)


def _thread_index(cta: Cta, warp: int, axis: int) -> npt.NDArray[Any]:
    x, y, _ = cta.cluster.launch.block
    linear = _threads(warp)
    parts = (linear % np.uint32(x), linear // np.uint32(x) % np.uint32(y), linear // np.uint32(x * y))
    return parts[axis].astype(np.uint32)


def _lane_mask(relation: str) -> npt.NDArray[Any]:
    lane = np.arange(WARP_SIZE, dtype=np.uint64)
    bit = np.uint64(1) << lane
    below = bit - np.uint64(1)
    everything = np.uint64(0xFFFF_FFFF)
    masks = {"eq": bit, "lt": below, "le": below | bit, "gt": everything ^ (below | bit), "ge": everything ^ below}
    return masks[relation].astype(np.uint32)


def special_register(name: str) -> tuple[TypeName, WarpConstant] | None:
    """Type and value of the special register called `name` (with its `%`), or None."""
    base, _, component = name.partition(".")
    if component:
        if component == "w" and base in ("%tid", "%ntid", "%ctaid", "%nctaid"):
            return _U32, lambda _cta, _warp: _full(0)
        if component not in ("x", "y", "z"):
            return None
        axis = "xyz".index(component)
        return _vector_register(base, axis)
    if name.startswith("%lanemask_") and name[10:] in ("eq", "lt", "le", "gt", "ge"):
        mask = _lane_mask(name[10:])
        return _U32, lambda _cta, _warp: mask
    return _scalar_register(name)


def _vector_register(base: str, axis: int) -> tuple[TypeName, WarpConstant] | None:
    match base:
        case "%tid":
            return _U32, lambda cta, warp: _thread_index(cta, warp, axis)
        case "%ntid":
            return _U32, lambda cta, _warp: _full(cta.cluster.launch.block[axis])
        case "%ctaid":
            return _U32, lambda cta, _warp: _full(cta.index[axis])
        case "%nctaid":
            return _U32, lambda cta, _warp: _full(cta.cluster.launch.grid[axis])
        case "%clusterid":
            return _U32, lambda cta, _warp: _full(cta.index[axis] // cta.cluster.launch.cluster[axis])
        case "%nclusterid":
            return _U32, lambda cta, _warp: _full(cta.cluster.launch.grid[axis] // cta.cluster.launch.cluster[axis])
        case "%cluster_ctaid":
            return _U32, lambda cta, _warp: _full(cta.index[axis] % cta.cluster.launch.cluster[axis])
        case "%cluster_nctaid":
            return _U32, lambda cta, _warp: _full(cta.cluster.launch.cluster[axis])
        case _:
            return None


def _scalar_register(name: str) -> tuple[TypeName, WarpConstant] | None:
    match name:
        case "%laneid":
            return _U32, lambda _cta, _warp: np.arange(WARP_SIZE, dtype=np.uint32)
        case "%warpid":
            return _U32, lambda _cta, warp: _full(warp)
        case "%nwarpid":
            return _U32, lambda cta, _warp: _full(len(cta.warps))
        case "%smid":
            return _U32, lambda cta, _warp: _full(cta.linear % _multiprocessors(cta))
        case "%nsmid":
            return _U32, lambda cta, _warp: _full(_multiprocessors(cta))
        case "%gridid":
            return _U64, lambda _cta, _warp: np.ones(WARP_SIZE, np.uint64)
        case "%cluster_ctarank":
            return _U32, lambda cta, _warp: _full(cta.rank)
        case "%cluster_nctarank":
            return _U32, lambda cta, _warp: _full(len(cta.cluster.ctas))
        case "%is_explicit_cluster":
            return PREDICATE, lambda cta, _warp: np.full(WARP_SIZE, cta.cluster.launch.cluster != (1, 1, 1))
        case "%dynamic_smem_size":
            return _U32, lambda cta, _warp: _full(cta.cluster.launch.dynamic_smem_bytes)
        case "%total_smem_size":
            return _U32, lambda cta, _warp: _full(_shared_bytes(cta))
        case "%aggr_smem_size":
            return _U32, lambda cta, _warp: _full(_shared_bytes(cta) + _reserved(cta))
        case "%reserved_smem_offset_begin" | "%reserved_smem_offset_0" | "%reserved_smem_offset_1":
            return _U32, lambda cta, _warp: _full(cta.shared.size_bytes)
        case "%reserved_smem_offset_end" | "%reserved_smem_offset_cap":
            return _U32, lambda cta, _warp: _full(cta.shared.size_bytes + _reserved(cta))
        case "%current_graph_exec":
            return _U64, lambda _cta, _warp: np.zeros(WARP_SIZE, np.uint64)
        case _ if fullmatch(r"%pm[0-7]|%envreg(?:[12]?[0-9]|3[01])", name):
            return _U32, lambda _cta, _warp: _full(0)
        case _ if fullmatch(r"%pm[0-7]_64", name):
            return _U64, lambda _cta, _warp: np.zeros(WARP_SIZE, np.uint64)
        case _:
            return None
