"""Which values of a program that walks an axis do the threads of a tile hold?

Those over rows, streamed columns, a product's columns, or rows and one of these; what is folded, displaced or stored is
refused at its line where it is none. Results whose rows are whole vectors leave by these.

Checked by: tests/ir/test_cascade_facts.py, tests/end_to_end/test_beside_products.py.
"""

from __future__ import annotations

from collections.abc import Collection

from tilewright.base.size import divisor
from tilewright.ir.cascade_facts import CascadeAxes, first_alike, refuse_at
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import index_offset, loads, parameter_name, stores
from tilewright.ir.tile.reduce import ReduceOp
from tilewright.ir.tile.repeats import users
from tilewright.ir.tile.types import axes_text, read_type, tensor_type, value_type
from tilewright.synth.tile.wanted import Wanted

_VECTOR_BYTES = 16
"""That one thread stores at once at most (PTX ISA, st)."""


def check_values(program: tile.ProgramOp, axes: CascadeAxes) -> None:
    """Values that threads hold: over rows, streamed columns, a product's columns, or rows and one of these."""
    for op in program.walk():
        match op:
            case ReduceOp():
                if axes.kept(op.operand) != frozenset({axes.row, axes.streamed}) or op.axis.data != axes.streamed:
                    shown = axes_text(value_type(op.operand).axis_names)
                    remedy = f"fold values over {axes_text([axes.row, axes.streamed])}, and others in another kernel"
                    refuse_at(op, f"a fold of {shown} over {op.axis.data} beside these products", remedy)
            case tile.LoadOp():
                _check_displaced(op)
            case tile.PositionOp():
                kind = op.index.type
                axis = base_axis(kind.axis.data) if isinstance(kind, tile.IndexType) else ""
                if axis not in (axes.row, axes.streamed, *axes.columns, *axes.batch):
                    remedy = f"load it from a tensor over ({axis})"
                    refuse_at(op, f"a number along {axis}, an axis of no value here", remedy)
            case tile.UnaryOp() | tile.BinaryOp() | tile.SelectOp():
                kept = axes.kept(op.result)
                if len(kept & {axes.streamed, *axes.columns}) > 1:
                    shown = axes_text(value_type(op.result).axis_names)
                    refuse_at(op, f"values over {shown}, which no product gives", "compute them in another kernel")
            case _:
                pass


def _check_displaced(load: tile.LoadOp) -> None:
    """A displaced load is one of elements, which may lie past an end, or of neighbouring matrices."""
    for axis, index in zip(read_type(load.tensor).axis_names, load.indices, strict=True):
        if index_offset(index) and block_size(axis) > 1:
            refuse_at(load, "a displaced tile over blocks is not compiled here yet", "displace it in a kernel before")


def check_neighbours(program: tile.ProgramOp, axes: CascadeAxes, brought: Collection[tile.LoadOp]) -> None:
    """Raise TilewrightError at the line of a load of a neighbouring matrix that threads make. A tensor map gives zeros
    for one that there is not, and what it brings, products and reads of rows take out of slots."""
    for load in loads(program):
        indices = zip(read_type(load.tensor).axis_names, load.indices, strict=True)
        moved = [base_axis(axis) for axis, index in indices if index_offset(index) and base_axis(axis) in axes.batch]
        of_slots = axes.kept(load.result) == frozenset({axes.row, axes.streamed}) or all(
            isinstance(user, ContractOp) for user in users(load.result)
        )
        if moved and not (of_slots and first_alike(program, load) in brought):
            remedy = f"compute what is displaced along {moved[0]} into a tensor of its own"
            refuse_at(load, "a tile of a neighbouring matrix is not compiled here yet", remedy)


def check_stores(program: tile.ProgramOp, axes: CascadeAxes) -> None:
    """Raise TilewrightError at the line of a result that the consumers of no tile have."""
    for op in stores(program):
        kept = set(tensor_type(op.tensor).axis_names) - set(axes.batch)
        beside = ({axes.row, each} for each in (*axes.columns, axes.streamed))
        if kept != {axes.row} and kept not in beside:
            shown = axes_text(tensor_type(op.tensor).axis_names)
            refuse_at(op, f"a result over {shown} is not compiled here yet", f"give it the axis {axes.row}")


def stored_in_vectors(program: tile.ProgramOp, axes: CascadeAxes, wanted: Wanted) -> dict[str, bool]:
    """Of each result, whether its rows begin and end at multiples of 16 bytes, so that so many leave at a time."""
    found: dict[str, bool] = {}
    for op in stores(program):
        tensor, name = tensor_type(op.tensor), parameter_name(program, op.tensor)
        size = tensor.element_kind.bytes
        apart = [divisor(stride, program.run_time) for stride in tensor.stride_sizes]
        sizes = dict(zip(tensor.axis_names, apart, strict=True))
        (column,) = [axis for axis in sizes if axis in (*axes.columns, axes.streamed)] or [""]
        dense = bool(column) and sizes[column] == 1
        if dense:
            sizes[column] = divisor(program.sizes[column], program.run_time)
        whole = not any(each * size % _VECTOR_BYTES for each in sizes.values())
        begins = name not in wanted.misaligned and tensor.refinement.alignment_bytes % _VECTOR_BYTES == 0
        found[name] = found.get(name, True) and dense and whole and begins and size > 1
    return found
