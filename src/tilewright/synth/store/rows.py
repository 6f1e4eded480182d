"""How do threads share the rows of a program that folds its points along an axis?

Neighbouring elements are taken 16 bytes at a time where all arrays allow it. Rows that begin anywhere in such a vector
may be taken by words of 4 bytes, whole ones or, where ends of rows cut words, shifted ones, or by shifted vectors.
Words need no more bytes of a warp's accesses, and what all rows share begins at words too, or is loaded by single
elements; shifted vectors take predicates for each element at a row's ends. How many threads of how many CTAs share a
row, by which of these ways, and where it waits between walks, is `row_choice`'s. Where neighbouring rows, not
neighbouring elements of a row, are neighbours in memory, each thread takes a row of its own: a warp then reads 32
neighbours at once. A fold along the rows of a matrix, as of a bias's gradient, is such a one.

Not handled: folds of one walk that correct each other as they go, by which rows that nobody holds would be read less
often. Checked by: tests/lower/points/test_rows.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilewright.base.size import Size, bounds, divisor, number_of
from tilewright.ir.decisions import RUN_BYTES, Decisions, ElementwiseDecisions
from tilewright.ir.refinement import DEFAULT_ALIGNMENT_BYTES
from tilewright.ir.rows import RowDecision
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import (
    access_of,
    gathers,
    grid_axes,
    index_offset,
    loads,
    parameter_name,
    reductions,
    stores,
)
from tilewright.ir.tile.gather import read_tensor
from tilewright.ir.tile.types import read_type, tensor_type
from tilewright.synth.store.row_choice import SHORT_THREADS, chosen
from tilewright.synth.store.row_uses import Shared, has_narrow_results
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_WARP_THREADS = 32
_WORD_BYTES = 4
_RUN_MOST = 8
"""Elements that a thread takes together."""
_ALONE_ELEMENTS = 16
"""Of a strip, where a thread takes a row by itself: so many loads of it are on their way at once."""
_MANY_ELEMENTS = 1 << 20
"""Of all rows: with fewer, what counts is how soon a row is done, which more threads for each bring about."""
_WORTH_SHIFT = 4
"""How many times the elements vectors have that a row begins within, to be considered: its two ends cost as much as
many."""
_SHIFTED_RUNS = 8
"""Of a row, at least, for that."""


def row_axis(program: tile.ProgramOp) -> str:
    """The axis that the program folds its points along; "" where there is none."""
    return next((op.axis.data for op in reductions(program)), "")


def decide_rows(program: tile.ProgramOp, target: Target, wanted: Wanted) -> ElementwiseDecisions:
    """Of a program without dot that folds along one axis."""
    ways = ways_of_rows(program, wanted)
    axis, rows, narrow = ways[0].axis, ways[0].rows, ways[0].narrow
    length = program.extents[axis]
    held = length <= target.limit("rows.alone_elements_most")
    if (held or rows * length >= _MANY_ELEMENTS) and (across := _axis_of_neighbours(program, axis)):
        return _alone(axis, across, rows, length, length if held else _ALONE_ELEMENTS, narrow)
    row = chosen(program, ways, target, wanted)
    if row.shifted:
        row = replace(row, spaced=_spaced(program, row.vectors))
    block = row.cta_threads if row.cta_threads > _WARP_THREADS else SHORT_THREADS
    ctas = number_of(row.grid(rows, block))
    several = f"{row.together} rows at once by " if row.together > 1 else ""
    unit = f"a CTA of {row.threads} threads" if row.threads > _WARP_THREADS else f"{row.threads} lanes of a warp"
    if row.ctas > 1:
        unit = f"{row.ctas} CTAs of {row.cta_threads} threads"
    walk = f"by strips of {row.strip}" if row.streamed else "held in registers"
    walk += f", {' and '.join(row.kept)} in shared memory meanwhile" if row.kept else ""
    along = f"{row.run} elements at a time" if row.run > 1 else "an element at a time"
    along += f" from where vectors of {row.shifted} begin" if row.shifted else ""
    reasons = (f"no dot: {rows} rows of {length} along {axis}, {several}{unit} for each, {along}, {walk}",)
    return ElementwiseDecisions(ctas, block, reasons, rows=(row,))


def last_first(program: tile.ProgramOp, decisions: Decisions, before: tile.ProgramOp, target: Target) -> Decisions:
    """The decisions of a program that reads what the kernel before stores: rows are taken from the last to the first
    where the L2 cache does not hold all of that, since what was stored last is there still."""
    if not isinstance(decisions, ElementwiseDecisions) or not decisions.rows:
        return decisions
    stored = {parameter_name(before, op.tensor): tensor_type(op.tensor) for op in stores(before)}
    read = {parameter_name(program, read_tensor(op.tensor)) for op in loads(program)}
    sizes = [math.prod(kind.extents) * kind.element_kind.bytes for name, kind in stored.items() if name in read]
    if sum(sizes) <= target.limit("device.l2_bytes"):
        return decisions
    return replace(decisions, rows=tuple(replace(row, backwards=1) for row in decisions.rows))


def ways_of_rows(program: tile.ProgramOp, wanted: Wanted) -> tuple[Shared, ...]:
    """What the rows are that threads share, for each way in which runs may lie; the shortest runs come first."""
    axis = row_axis(program)
    rows = math.prod(program.extents[each] for each in grid_axes(program) if each != axis)
    narrow = int(has_narrow_results(program, axis))
    several = len(grid_axes(program)) == 2 and all(each == axis for each in program.run_time)
    return tuple(
        Shared(
            axis, rows, program.extents[axis] + (each.run - 1 if each.shifted else 0), each.run, each.vectors,
            each.shifted, narrow, apart=bool(each.shifted) or not several, words=each.words,
        )
        for each in _runs(program, axis, wanted)
    )  # fmt: skip


def _axis_of_neighbours(program: tile.ProgramOp, axis: str) -> str:
    """The axis along which neighbouring rows' elements lie side by side, in every array that goes along it and along
    the rows; "" where there is none. What is gathered has no strides, so its elements lie nowhere side by side."""
    reached = [tensor_type(op.tensor) for op in (*_plain_loads(program), *stores(program))]
    strides = [dict(zip(tensor.axis_names, tensor.stride_elements, strict=True)) for tensor in reached]
    strides += [dict.fromkeys(read_type(op.result).axis_names, 0) for op in gathers(program)]
    for other in grid_axes(program):
        steps = [each[other] for each in strides if other in each and axis in each]
        if other != axis and program.extents[other] > 1 and steps and set(steps) == {1}:
            return other
    return ""


def _alone(axis: str, across: str, rows: int, length: int, pieces: int, narrow: int) -> ElementwiseDecisions:
    """Each row by one thread. pieces: elements of a strip."""
    decision = RowDecision(axis, 1, 1, pieces, int(length > pieces), (), across, narrow=narrow)
    reason = f"no dot: {rows} rows of {length} along {axis}, a thread for each, neighbours along {across}"
    return ElementwiseDecisions(-(-rows // SHORT_THREADS), SHORT_THREADS, (reason,), rows=(decision,))


@dataclass(frozen=True, slots=True)
class _Runs:
    """run: elements that a thread takes together; vectors: the parameters that are reached so; shifted: the one whose
    vectors runs follow where rows begin anywhere in one; words: whether a run is a word of the widest of them, where
    vectors are longer."""

    run: int
    vectors: tuple[str, ...] = ()
    shifted: str = ""
    words: bool = False


def _runs(program: tile.ProgramOp, axis: str, wanted: Wanted) -> list[_Runs]:
    """How runs may lie: one way, or two of which the first has the shorter runs. Single elements that no array is
    reached otherwise by."""
    # What is gathered may lie outside of its array, and is loaded element by element.
    widths = {parameter_name(program, each): 0 for op in gathers(program) for each in (op.tensor, *op.tables)}
    for op in (*_plain_loads(program), *stores(program)):
        tensor, name = tensor_type(op.tensor), parameter_name(program, op.tensor)
        if axis in tensor.axis_names:
            along = tensor.axis_names.index(axis)
            dense = tensor.stride_elements[along] == 1 and not any(map(index_offset, op.indices))
            aligned = name not in wanted.misaligned and (tensor.refinement.alignment_bytes >= DEFAULT_ALIGNMENT_BYTES)
            if dense and aligned and tensor.axis_names.count(axis) == 1:
                widths.setdefault(name, tensor.element_kind.bytes)
            else:
                widths[name] = 0
    widest = max(widths.values(), default=0)
    if not widest:
        return [_Runs(1)]
    most, word = min(_RUN_MOST, RUN_BYTES // widest), max(1, _WORD_BYTES // widest)
    runs = [wanted.row_run] if wanted.row_run else [most >> each for each in range(most.bit_length())]
    for run in runs:
        if vectors := tuple(name for name, width in widths.items() if width and _whole(program, name, axis, run)):
            words = most >= _WORTH_SHIFT * run
            by_vectors = _shifted(program, widths, axis, most) if words and not wanted.row_run else []
            if by_vectors and not set(vectors).intersection(by_vectors[0].vectors):
                return by_vectors  # words reach what all rows share, and nothing that each has for itself
            return [_Runs(run, vectors, words=words), *by_vectors]
    if wanted.row_run:
        return _shifted(program, widths, axis, wanted.row_run, words=wanted.row_run == word) or [_Runs(1)]
    by_words = _shifted(program, widths, axis, word, words=True)
    by_vectors = _shifted(program, widths, axis, most) if most > word else []
    # What words leave out would go element by element.
    if by_words and by_vectors and len(by_words[0].vectors) < len(by_vectors[0].vectors):
        return by_vectors
    return by_words + by_vectors or [_Runs(1)]


def _shifted(
    program: tile.ProgramOp, widths: Mapping[str, int], axis: str, run: int, *, words: bool = False
) -> list[_Runs]:
    """Runs of the most arrays whose rows begin at the same place of one, if that is not always its first; none of rows
    that are short, which few whole runs have."""
    ranges = program.run_time
    if bounds(program.sizes[axis], ranges)[0] < run * _SHIFTED_RUNS or run == 1:
        return []
    begins: dict[frozenset[tuple[str, Size]], list[str]] = {}
    for op in (*_plain_loads(program), *stores(program)):
        tensor, name = tensor_type(op.tensor), parameter_name(program, op.tensor)
        if widths.get(name) and run * widths[name] % _WORD_BYTES == 0:
            strides = zip(tensor.axis_names, tensor.stride_sizes, strict=True)
            moving = [side for side in strides if side[0] != axis and divisor(side[1], ranges) % run]
            # Of what only the launch knows, that it is the same.
            steps = frozenset((each, stride % run if isinstance(stride, int) else stride) for each, stride in moving)
            begins.setdefault(steps, []).append(name)
    if not begins:
        return []
    # What every row has its own part of is most of what is moved.
    most = max(begins, key=lambda steps: (bool(steps), len(begins[steps])))
    vectors = tuple(dict.fromkeys(begins[most]))
    return [_Runs(run, vectors, vectors[0], words)]


def _spaced(program: tile.ProgramOp, vectors: tuple[str, ...]) -> tuple[str, ...]:
    """Those of these arrays that have bytes of no element."""
    found: list[str] = []
    for op in _plain_loads(program):
        tensor = tensor_type(op.tensor)
        sizes = zip(tensor.extents, tensor.stride_elements, strict=True)
        if 1 + sum((extent - 1) * stride for extent, stride in sizes) > math.prod(tensor.extents):
            found.append(parameter_name(program, op.tensor))
    return tuple(each for each in vectors if each in found)


def _plain_loads(program: tile.ProgramOp) -> list[tile.LoadOp]:
    return [op for op in loads(program) if read_tensor(op.tensor) is op.tensor]


def _whole(program: tile.ProgramOp, name: str, axis: str, run: int) -> bool:
    """Whether each row of an array is whole runs, each of which begins at a multiple of the vectors that reach it."""
    for op in (*_plain_loads(program), *stores(program)):
        if access_of(op).tensor != name:
            continue
        tensor = tensor_type(op.tensor)
        vector = min(run, RUN_BYTES // tensor.element_kind.bytes)
        others, ranges = zip(tensor.axis_names, tensor.stride_sizes, strict=True), program.run_time
        if divisor(program.sizes[axis], ranges) % run or run * tensor.element_kind.bytes % _WORD_BYTES:
            return False
        if any(divisor(stride, ranges) % vector for each, stride in others if each != axis):
            return False
    return True
