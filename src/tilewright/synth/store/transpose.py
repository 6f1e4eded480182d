"""Should an element-by-element program go through shared memory, because its loads run along another axis than its
stores?

Theory: memory is fetched and written in sectors of 32 bytes, so accesses of neighbouring lanes must lie together on
both sides; where they cannot, tiles change their layout in between. The exchange is the cheapest that
`synth.exchange.search` knows between the two layouts of `ir.transpose`, for every size of element that is turned. A
tile's side is 128 bytes of its widest element, at most 64 points: whole sectors on both sides, and a file of 32 or 64
registers. A thread takes as many neighbouring points at once as 16 bytes hold and as extents, strides and alignments of
all arrays on that side divide.

Turned are loads that run along one axis, whose indices are the program's axes as they are, and which depend on the
stored axis too. Not handled: displaced loads (they stay element by element), stores that run along different axes, and
elements of one byte where runs are shorter than a word. Who checks: tests/synth/store/test_transpose.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from tilewright.ir.decisions import ElementwiseDecisions
from tilewright.ir.exchange import ExchangePlan
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import access_of, gathers, grid_axes, loads, parameter_name, positions, stores
from tilewright.ir.tile.types import TensorType, tensor_type
from tilewright.ir.transpose import TransposeDecision, tile_counts
from tilewright.synth.exchange.search import plan_exchange
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_VECTOR_BYTES = 16
_SIDE_BYTES = 128
_MOST_SIDE = 64
_WARPS = 4
_CTAS_RESIDENT = 6
"""CTAs of a multiprocessor: what its shared memory holds, with a file of 64 registers and as many of addresses."""
_WORD_BYTES = 4
_LEAST_EXTENT = 16
"""Shorter axes fill no sector however they are taken."""


def decide_transpose(program: tile.ProgramOp, target: Target, wanted: Wanted) -> TransposeDecision | None:
    """How the program's tiles change their layout, or None where loads and stores run along one axis already."""
    axes = grid_axes(program)
    stored = {_along(tensor_type(store.tensor)) for store in stores(program)}
    if len(stored) != 1 or not target.supports("stmatrix") or positions(program) or gathers(program):
        return None
    (stored_axis,) = stored
    turned = _turned(program, stored_axis)
    if not turned:
        return None
    loaded_axis = _along(tensor_type(turned[0].tensor))
    turned = [load for load in turned if _along(tensor_type(load.tensor)) == loaded_axis]
    extents = program.extents
    if min(extents[stored_axis], extents[loaded_axis]) < _LEAST_EXTENT:
        return None
    ours = [store.tensor for store in stores(program)]
    ours += [load.tensor for load in _plain(program) if _along(tensor_type(load.tensor)) == stored_axis]
    theirs = [load.tensor for load in turned]
    stored_run = _run(program, ours, stored_axis, wanted)
    loaded_run = _run(program, theirs, loaded_axis, wanted)
    sizes = sorted({tensor_type(each).element_kind.bytes for each in theirs})
    widest = max([*sizes, *(tensor_type(store.tensor).element_kind.bytes for store in stores(program))])
    narrowest = min([*sizes, *(tensor_type(store.tensor).element_kind.bytes for store in stores(program))])
    places = (axes.index(stored_axis), axes.index(loaded_axis))
    most = wanted.turned_side or _MOST_SIDE
    return turned_tiles(places, (stored_run, loaded_run), sizes, (narrowest, widest), target, most)


def turned_tiles(
    axes: tuple[int, int],
    runs: tuple[int, int],
    sizes: Sequence[int],
    widths: tuple[int, int],
    target: Target,
    most_side: int = _MOST_SIDE,
) -> TransposeDecision | None:
    """How tiles of points change their layout; None for runs too short for it.

    axes: places among the grid's of those that stores and turned loads run along; runs: neighbouring points that are
    taken at once along either; sizes: bytes of the elements that are turned; widths: of the narrowest and the widest
    element of all; most_side: points of a tile along either axis, a power of two.
    """
    narrowest, widest = widths
    if narrowest == 1 and min(runs) < _WORD_BYTES:
        return None
    side = min(_SIDE_BYTES // widest, most_side)
    bare = TransposeDecision(*axes, side, min(runs[0], side), min(runs[1], side), _WARPS, (), 0)
    # Between one tile and the next a warp waits for memory, so that warps do not come to stand in each other's way.
    plans = [plan_exchange(bare.loaded_layout, bare.stored_layout, size, target, repeated=False) for size in sizes]
    found = tuple(plan for plan in plans if isinstance(plan, ExchangePlan))
    assert len(found) == len(plans), "both layouts hold every point once"
    return replace(bare, plans=found, smem_bytes=sum(plan.shared_bytes for plan in found))


def decide_turned(program: tile.ProgramOp, target: Target, wanted: Wanted) -> ElementwiseDecisions | None:
    """The whole decision on a program without dot, if its warps turn tiles; else None."""
    decision = decide_transpose(program, target, wanted)
    if decision is None:
        return None
    axes = grid_axes(program)
    tiles, ctas = turning_ctas(decision, tuple([program.extents[axis] for axis in axes]), target)
    words = f"no dot: {tiles} tiles on {ctas} CTAs of {decision.warps} warps"
    return ElementwiseDecisions(ctas, 32 * decision.warps, (words, transpose_words(decision, axes)), (decision,))


def turning_ctas(decision: TransposeDecision, extents: tuple[int, ...], target: Target) -> tuple[int, int]:
    """(tiles of so many points, CTAs whose warps turn them)."""
    tiles = math.prod(tile_counts(decision, extents))
    return tiles, max(1, min(-(-tiles // decision.warps), _CTAS_RESIDENT * target.limit("device.multiprocessors")))


def transpose_words(decision: TransposeDecision, axes: tuple[str, ...]) -> str:
    """The decision as its reason."""
    loaded, stored = axes[decision.loaded_axis], axes[decision.stored_axis]
    kinds = ", ".join(f"{8 * plan.element_bytes} bits by {plan.kind}" for plan in decision.plans)
    return (
        f"loads run along {loaded}, stores along {stored}: warps turn tiles of {decision.side} x {decision.side} "
        f"points ({kinds}), loading {decision.loaded_run} and storing {decision.stored_run} points at once"
    )


def _along(tensor: TensorType) -> str:
    """The axis along which neighbours lie together; empty where there is none or more than one."""
    found = [axis for axis, stride in zip(tensor.axis_names, tensor.stride_elements, strict=True) if stride == 1]
    return found[0] if len(found) == 1 else ""


def _plain(program: tile.ProgramOp) -> list[tile.LoadOp]:
    """Loads whose indices are the grid's axes as they are."""
    axes = set(grid_axes(program))
    accesses = [(load, access_of(load)) for load in loads(program)]
    return [
        load for load, access in accesses
        if not any(access.offsets) and not access.picked and axes.issuperset(access.axes)
    ]  # fmt: skip


def _turned(program: tile.ProgramOp, stored_axis: str) -> list[tile.LoadOp]:
    if not stored_axis:
        return []
    return [
        load for load in _plain(program)
        if _along(tensor_type(load.tensor)) not in ("", stored_axis)
        and stored_axis in tensor_type(load.tensor).axis_names
    ]  # fmt: skip


def _run(program: tile.ProgramOp, tensors: Iterable[SSAValue], axis: str, wanted: Wanted) -> int:
    """Neighbouring points along `axis` that every array takes as one aligned access of at most 16 bytes."""
    run = math.gcd(_VECTOR_BYTES, program.extents[axis])
    for argument in tensors:
        tensor = tensor_type(argument)
        size = tensor.element_kind.bytes
        loose = parameter_name(program, argument) in wanted.misaligned
        alignment = size if loose else tensor.refinement.alignment_bytes
        others = zip(tensor.axis_names, tensor.stride_elements, strict=True)
        strides = [stride for other, stride in others if other != axis]
        run = math.gcd(run, *strides, max(1, min(_VECTOR_BYTES, alignment) // size))
    return run
