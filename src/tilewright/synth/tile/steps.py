"""How far is it from one tile to the next, so that the last one hardly goes past the operand's end?

The L2 cache is asked for each row of a box that lies past an array's end, and does not serve those of several CTAs
together, as it does with rows that several ask for at about the same time (`bench.probes.past_end`). So the tile that
has most of them keeps all others waiting, and tiles are dealt out evenly: of as many, the step is the least with which
they reach the end. What they load overlaps, and each stores no more than the step: of 530 rows in five tiles of 112
each stores 106, and the last one's boxes pass the end by 3 rows instead of 30. With 1536 columns of a sum of 8960 that
takes 27.9 us instead of 31.1 (H200, `python -m bench few-rows --apart --shape 530,1536,8960`).

What is stored ends inside a box of its own (`StoreDecision.cut`), whose lines are an engine's box, of which there may
be any number: rows where boxes run along the accumulator's columns, columns where they run along its rows. So the axis
along which tiles overlap is that across the result's memory. Units of a tile have equal parts of its rows, and CTAs
that sum its parts have equal parts of its columns; each part has a box of its own in a slot, and parts overlap as tiles
do. wgmma computes whole blocks of 64 rows and whole fragments of eight columns, so no more than those overlap.

Not handled, and left at a tile's extent: batches, several products, scales, rows in groups, operands contiguous along
the axis, results that leave by plain stores, CTAs that load parts of a part, and axes whose extent only a launch knows,
for which no step is the least for all.
Checked by: tests/synth/tile/test_steps.py, tests/lower/test_steps.py.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tilewright.base.error import TilewrightError
from tilewright.ir.ac.split import sum_parts
from tilewright.ir.copy_decisions import BLOCK_ROWS
from tilewright.ir.decisions import StoreDecision
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import parameter_name, stores
from tilewright.ir.tile.types import tensor_type
from tilewright.synth.distribution.cluster_parts import CORE_ROWS
from tilewright.synth.tile.shape import TileQuestion, TileShape

_FRAGMENT_COLUMNS = 8
_LEAST_PART = 32
"""Rows of a box, where a tile's columns come in several."""
_LEAST_SAVED = 4
"""Rows past the end for which tiles overlap."""
_STORED_BYTES = 16
"""Of which lines and pitches of a result are multiples that leaves in boxes (PTX ISA, tensor maps)."""


def even_step(extent: int, size: int, parts: int, whole: int) -> int:
    """The least step with which as many tiles of `size`, each in so many equal parts, reach the end; 0 where that
    leaves about as much past it. whole: how much of a part is computed together, of which less overlaps."""
    part = size // parts
    step = parts * max(math.ceil(extent / (math.ceil(extent / size) * parts)), part - whole + 1)
    saved = past_end(extent, size, size, parts) - past_end(extent, size, min(step, size), parts)
    return step if saved >= _LEAST_SAVED else 0


def past_end(extent: int, size: int, step: int, parts: int) -> int:
    """How much of the last tile's boxes lies past the end. step: from one tile to the next."""
    within = (parts - 1) * step // parts + size // parts if step < size else size
    return (math.ceil(extent / step) - 1) * step + within - extent


def parts_of(shape: TileShape) -> int:
    """Parts of a tile's columns, of which each is one CTA's to store."""
    return sum_parts(shape.columns, shape.split)


def with_steps(question: TileQuestion, shape: TileShape) -> TileShape:
    """A tile, which all consumers share, with the step that deals a product's tiles out evenly, where there can be
    one."""
    if question.products > 1 or question.batch > 1 or question.scaled:
        return shape
    rows, columns = question.extents[1::-1] if shape.swapped else question.extents[:2]
    of_rows, of_columns = reversed(question.loaded_steps) if shape.swapped else question.loaded_steps
    if shape.swapped == question.orientations[0]:
        units = shape.consumers
        if not question.bulk or of_rows != CORE_ROWS or (units > 1 and shape.cluster[1] > 1):
            return shape
        return replace(shape, steps=(even_step(rows, shape.rows, units, BLOCK_ROWS), 0))
    parts = parts_of(shape)
    small = parts > 1 and (shape.cluster[0] > 1 or shape.columns // parts < _LEAST_PART)
    if not question.turnable or of_columns != CORE_ROWS or small:
        return shape
    return replace(shape, steps=(0, even_step(columns, shape.columns, parts, _FRAGMENT_COLUMNS)))


def leave_in_bulk(program: tile.ProgramOp, misaligned: tuple[str, ...]) -> bool:
    """Whether all results leave in boxes along the axis on which they are contiguous. misaligned: arrays that may begin
    anywhere."""
    for store in stores(program):
        if parameter_name(program, store.tensor) in misaligned:
            return False
        tensor = tensor_type(store.tensor)
        size = tensor.element_kind.bytes
        lines = [
            size * extent for extent, stride in zip(tensor.extents, tensor.stride_elements, strict=True) if stride == 1
        ]
        pitches = [size * stride for stride in tensor.stride_elements if stride != 1]
        if len(lines) != 1 or any(each % _STORED_BYTES for each in (*lines, *pitches)):
            return False
    return True


def stepped(
    program: tile.ProgramOp,
    axes: tuple[str, str],
    shape: TileShape,
    parts: tuple[int, int],
    cluster: tuple[int, int],
    major: tuple[str, str],
    leaving: tuple[StoreDecision, ...],
    *,
    asked: bool,
) -> tuple[TileShape, tuple[StoreDecision, ...]]:
    """The tile with its step and stores that end at it; both as they would be without one where boxes cannot end there.
    The arguments are those of `steps_as_decided`. major: of each operand, as `OperandDecision` has it.
    Raises TilewrightError where a step is asked for, and cannot be."""
    if shape.steps == (0, 0):
        return shape, leaving
    along = 0 if shape.steps[0] else 1
    step, size, many = shape.steps[along], (shape.rows, shape.columns)[along], parts[along]
    whole = (BLOCK_ROWS, _FRAGMENT_COLUMNS)[along]
    overlap, rest = divmod(size - step, many)
    if not (
        0 < overlap < whole
        and rest == 0
        and not shape.steps[1 - along]
        and len(leaving) == len(stores(program))
        and all(each.turned == along for each in leaving)
        and major[along] == "K"
        and (many == 1 or cluster[1 - along] == 1)
        and axes[along] not in program.run_time
        and leave_in_bulk(program, ())
    ):
        if asked:
            raise TilewrightError(
                f"tiles of {shape.rows}x{shape.columns} cannot be {shape.row_step}x{shape.column_step} apart",
                remedy="ask for a step across the result's memory that leaves out less than a fragment of each part of "
                "the tile, or leave it to the compiler",
            )
        return replace(shape, steps=(0, 0)), leaving
    if along == 0:
        return shape, tuple(_of_lines(each, step // many) for each in leaving)
    return shape, tuple(_cut(each, size // many, overlap) for each in leaving)


def _of_lines(store: StoreDecision, rows: int) -> StoreDecision:
    """Boxes of so many rows, the first of those that are staged."""
    first, *tail = (replace(each, box=(each.box[0], rows)) for each in (store.map, *store.tail))
    return replace(store, map=first, tail=tuple(tail), staged_lines=store.map.box[1])


def _cut(store: StoreDecision, columns: int, overlap: int) -> StoreDecision:
    """A last box that leaves out so many of the columns."""
    last = store.chunks(columns)[-1]
    return replace(store, cut=(replace(store.map, box=(store.map.box[0], last - overlap)),))
