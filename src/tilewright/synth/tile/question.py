"""What does a product ask of a tile? Its extents, elements and orientations, as every model of tiles takes them.

The accumulator's columns run along the result's contiguous axis. Where rows are few, the product may be transposed.
Checked by: tests/synth/test_decide.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import parameter_name, stores
from tilewright.ir.tile.types import tensor_type, value_type
from tilewright.synth.operand.batch import batch_axis
from tilewright.synth.operand.operands import loaded_step
from tilewright.synth.store.turned_store import is_turnable
from tilewright.synth.tile.accumulation import level_depth, require_promotable
from tilewright.synth.tile.shape import TileQuestion
from tilewright.synth.tile.steps import leave_in_bulk
from tilewright.synth.tile.thin_product import FEW_ROWS
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and what was decided before it could be put."""

    question: TileQuestion
    natural: bool
    """Whether the product as written is transposed."""
    batch: str
    """The axis of a batch, if there is one."""


def ask(program: tile.ProgramOp, dot: tile.DotOp, target: Target, wanted: Wanted) -> Asked:
    """The question of a program's product. Raises TilewrightError for sums that are asked for as they cannot be."""
    left, right = value_type(dot.left), value_type(dot.right)
    rows, contracted = left.axis_names[-2:]
    columns = right.axis_names[-1]
    batch = batch_axis(program, dot)
    natural = _wants_swap(program, columns)
    element_bytes = left.element_kind.bytes
    extents = (program.extents[rows], program.extents[columns], program.extents[contracted])
    stored_bytes = sum(tensor_type(store.tensor).element_kind.bytes for store in stores(program))
    steps = (loaded_step(dot.left, contracted, target), loaded_step(dot.right, contracted, target))
    stored = {parameter_name(program, store.tensor) for store in stores(program)}
    # Few rows waste most of a wgmma's, which are 64 at least; as its columns they need not.
    few = extents[1 if natural else 0] <= FEW_ROWS and not stored & set(wanted.mapped)
    orientations = (natural, not natural) if few else (natural,)
    promoted = level_depth(element_bytes, extents[2], wanted)
    require_promotable(promoted, wanted)
    plain = not batch and wanted.swapped is None
    question = TileQuestion(
        extents,
        element_bytes,
        stored_bytes,
        orientations,
        steps,
        scaled_depth=promoted,
        batch=program.extents.get(batch, 1),
        turnable=plain and is_turnable(program, rows if natural else columns, wanted.misaligned),
        bulk=plain and leave_in_bulk(program, wanted.misaligned),
    )
    return Asked(question, natural, batch)


def _wants_swap(program: tile.ProgramOp, columns: str) -> bool:
    """True if the first stored tensor is contiguous along the rows and not along the columns."""
    tensor = tensor_type(stores(program)[0].tensor)
    strides = dict(zip(tensor.axis_names, tensor.stride_elements, strict=True))
    return strides[columns] != 1 and 1 in strides.values()
