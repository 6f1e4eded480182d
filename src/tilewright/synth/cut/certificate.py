"""Do several programs, one after the other, store what the one did that they were cut from?

All are run in exact arithmetic at small extents, with roundings that nothing undoes (`streaming.meaning`), those behind
the first on what it has stored. That is independent of how cuts are found and written.
A failure is a fault of this compiler. Checked by: tests/synth/cut/test_handover.py, which breaks cuts and sees them
refuted.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tilewright.base.error import TilewrightError
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size, blocks_of
from tilewright.ir.tile.facts import buffers, gathers, grid_axes, positions, the_program
from tilewright.ir.tile.gather import blocks_along
from tilewright.ir.tile.types import tensor_type, value_type
from tilewright.synth.cut.handover import Cut
from tilewright.synth.streaming.made_up import points
from tilewright.synth.streaming.meaning import Array, cuts, meaning

EXTENTS = (1, 2)
"""Of each axis, one after the other; of axes with blocks, so many blocks."""
PARTS = ((2, 1), (3, 2))
"""Parts of an axis, and elements of each, or blocks of what is gathered along it; of parts that are shorter, as many
blocks of them as there are parts here."""
OVERLAPPING = ((2, 2), (3, 2))
"""The same from one part's begin to the next one's, where two neighbours have one element or block both."""
_SHORT = 8


def require_same(whole: tile.ProgramOp, cut: Cut) -> None:
    """Raises TilewrightError where the two programs store other numbers than the whole."""
    before, *after = map(the_program, cut.programs)
    if cut.parts:
        found = (_difference_in_parts(whole, before, after, parts, cut) for parts in _parts(whole, before, cut))
    else:
        found = (_difference(whole, before, after, length) for length in EXTENTS)
    for name in found:
        if name:
            raise TilewrightError(
                f"{whole.sym_name.data} cut at {cut.place} stores other numbers in {name}",
                remedy="this is a fault of the compiler; please report the program",
            )


def _difference(whole: tile.ProgramOp, before: tile.ProgramOp, after: Sequence[tile.ProgramOp], length: int) -> str:
    """A result that differs at these extents, or ""."""
    chance = random.Random(length)
    extents = {axis: length for axis in whole.extents if blocks_of(axis) is None}
    for axis in whole.extents:
        extents[base_axis(axis)] = max(extents[base_axis(axis)], 1 + block_size(axis) * (length - 1))
    of = partial(meaning, whole, extents, cut=(), rounds=True)
    for inputs, expected in points(whole, extents, chance, of):
        first = meaning(before, extents, inputs, (), rounds=True)
        stored = dict(first)
        for each in after:
            stored |= meaning(each, extents, inputs | first, (), rounds=True)
        name = _other(expected, stored)
        if name:
            return name
    return ""


def _other(expected: Mapping[str, Array], stored: Mapping[str, Array]) -> str:
    for name, values in expected.items():
        if name not in stored or not all(
            other is not None and each.same(other) for each, other in zip(values.flat, stored[name].flat, strict=True)
        ):
            return name
    return ""


def _divided_axis(whole: tile.ProgramOp, before: tile.ProgramOp) -> str:
    """The axis that the program before has a part of."""
    plain = {axis: extent for axis, extent in before.extents.items() if blocks_of(axis) is None}
    (axis,) = (each for each, extent in plain.items() if whole.extents.get(each, extent) != extent)
    return axis


def _tilings(length: int) -> list[tuple[int, ...]]:
    """Ways to cut a part into tiles: all of a short one."""
    half = length // 2
    return cuts(length) if length <= _SHORT else [(length,), (half, length - half), (1, half, length - half - 1)]


@dataclass(frozen=True, slots=True)
class _Parts:
    """count: of parts; step: elements from one's begin to the next one's; overlap: elements that both have."""

    count: int
    step: int
    overlap: int

    @property
    def length(self) -> int:
        return self.step + self.overlap

    @property
    def whole(self) -> int:
        return self.count * self.step + self.overlap

    def number(self, index: int, step: int, overlap: int) -> int:
        """Of an element of the axis, the number of one with parts so far apart: the first one that two parts have is
        the first one there."""
        part, within = divmod(index, self.step)
        if within < self.overlap:
            return part * step + within * overlap // self.overlap
        return part * step + overlap + (within - self.overlap) * (step - overlap) // (self.step - self.overlap)


def _parts(whole: tile.ProgramOp, before: tile.ProgramOp, cut: Cut) -> Iterator[_Parts]:
    """Those of which a cut is tried: of whole blocks of what is gathered along the axis, or where those of the cut are
    shorter, of their own length."""
    axis = _divided_axis(whole, before)
    blocks = math.lcm(*(size for op in gathers(whole) for size in blocks_along(op.dimensions, axis)))
    length = before.extents[axis]
    for parts, step in OVERLAPPING if cut.overlap else PARTS:
        if cut.overlap or length % blocks == 0:
            yield _Parts(parts, step * blocks, blocks if cut.overlap else 0)
        else:
            yield _Parts(parts * (blocks // length), length, 0)


def _difference_in_parts(
    whole: tile.ProgramOp, before: tile.ProgramOp, after: Sequence[tile.ProgramOp], parts: _Parts, cut: Cut
) -> str:
    """A result that differs where an axis has these parts, as has each whose indices are numbers, and every other axis
    one, for some cut of a part into tiles. What states are corrected by is not rounded: sums of rounded operands are no
    sums."""
    (along,) = {*grid_axes(before)} - whole.extents.keys()
    axis = _divided_axis(whole, before)
    chance = random.Random(parts.count)
    numbered = {base_axis(axis) for op in positions(whole) for axis in value_type(op.result).axis_names}
    plain = {each: parts.whole if each in numbered else 1 for each in whole.extents if blocks_of(each) is None}

    def number(index: int) -> int:
        # The program before has the number of elements from one part to the next, and of those that both have.
        return parts.number(index, before.extents[axis] - cut.overlap, cut.overlap)

    numbers = dict.fromkeys({*numbered, axis}, number)
    of = partial(meaning, whole, {**plain, axis: parts.whole}, cut=(), numbers=numbers)
    # A dimension that is a block's parts has as many as in the program.
    extents = {each: extent for each, extent in before.extents.items() if blocks_of(each) is None}
    extents |= {**plain, axis: parts.length, along: parts.count}
    for inputs, expected in points(whole, {**plain, axis: parts.whole}, chance, of, number):
        divided = _divided(before, inputs, parts, axis, along)
        for tiles in _tilings(parts.length):
            states = meaning(before, extents, divided, tiles, numbers=numbers)
            stored: dict[str, Array] = {}
            for each in after:
                stored |= meaning(each, {**plain, along: parts.count}, inputs | states, (), numbers=numbers)
            name = _other(expected, stored)
            if name:
                return name
    return ""


def _divided(
    before: tile.ProgramOp, inputs: Mapping[str, Array], parts: _Parts, axis: str, along: str
) -> dict[str, Array]:
    """The arrays as the program before sees them: of `axis`, parts along `along`."""
    divided = dict(inputs)
    for argument, buffer in zip(before.body.block.args, buffers(before), strict=True):
        axes = tensor_type(argument).axis_names
        if buffer.role == "input" and along in axes:
            at = next(place for place, each in enumerate(axes) if base_axis(each) == axis) - 1
            size = block_size(axes[at + 1])
            begins = range(0, parts.count * parts.step, parts.step)
            taken = [np.arange(begin, begin + parts.length, size) // size for begin in begins]
            divided[buffer.name] = np.stack([inputs[buffer.name].take(each, axis=at) for each in taken])
        elif buffer.role == "input" and len(axes) > inputs[buffer.name].ndim:
            # A dimension of places in blocks is two: which part of the block, and where in it.
            at, shape = axes.index(axis), inputs[buffer.name].shape
            divided[buffer.name] = inputs[buffer.name].reshape(*shape[: at - 1], -1, parts.step, *shape[at:])
    return divided
