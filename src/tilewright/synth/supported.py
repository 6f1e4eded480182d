"""Which tile programs does this compiler not schedule yet, though the language has them?

Whatever the lowering would not carry out in full is refused here, at the author's line, before anything is decided: no
part of a program is left out silently. Checked by tests/synth/test_supported.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from xdsl.ir import Operation

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.ir.cascade_facts import refuse_at, refuse_map
from tilewright.ir.decisions import RUN_BYTES
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size, blocks_of
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import (
    dots,
    grid_axes,
    grouping,
    index_offset,
    loads,
    parameter_name,
    reductions,
    stores,
    the_grid,
)
from tilewright.ir.tile.gather import GatherOp, read_tensor
from tilewright.ir.tile.products import shared_products
from tilewright.ir.tile.rules import place_of
from tilewright.ir.tile.types import IndexType, axes_text, read_type, tensor_type, value_type
from tilewright.targets import Target


def refuse_unsupported(program: tile.ProgramOp, target: Target) -> None:
    """Raise TilewrightError for the first part of a verified program that nothing lowers."""
    _refuse_gathers(program)
    # One after the other: what a program may not hold is not looked at by those that come later.
    for op, message, remedy in chain(_unsupported(program), _of_registers(program, target)):
        file, _, line = place_of(op).rpartition(":")
        raise TilewrightError(message, span=Span(file, int(line)), remedy=remedy)


def refuse_loops(program: tile.ProgramOp) -> None:
    """Raise TilewrightError for a loop over products that is no walk (`streaming.loop_products`), though it is
    supported as such: nothing else lowers one."""
    groups = grouping(program)
    if groups is not None:
        refuse_at(
            program,
            f"groups of {groups.ragged} in a loop that does more than sum products of these rows",
            "give one product or several of the same rows in one loop, with an epilogue",
        )
    for dot in dots(program):
        refuse_at(
            dot,
            f"no walk over {dot.contracted} takes this product: one of its operands must be loaded as it is",
            "store one operand in a kernel before, and load it here",
        )


def is_supported(program: tile.ProgramOp, target: Target) -> bool:
    """Whether `refuse_unsupported` lets a program pass."""
    try:
        refuse_unsupported(program, target)
    except TilewrightError:
        return False
    return True


def _of_registers(program: tile.ProgramOp, target: Target) -> Iterator[tuple[Operation, str, str]]:
    """Loops over products that are no walks (`streaming.loop_products`)."""
    if target.supports("tensor_memory"):
        for dot in dots(program):
            yield (
                dot,
                f"this product in a loop is not compiled for {target.name} yet",
                "scale one product alone, by numbers of rows or of columns, or use a target without tensor memory",
            )


def _unsupported(program: tile.ProgramOp) -> Iterator[tuple[Operation, str, str]]:
    yield from _contractions(program)
    yield from _integers(program)
    products = dots(program)
    groups = grouping(program)
    if groups is not None and not products:
        yield the_grid(program), "a program over groups without dot is not compiled yet", "compile one for each group"
    if products and shared_products(program) is None:
        yield (
            products[-1],
            "these products do not go into one kernel: they differ in both operands, in their axes or in their loops",
            "give all dots one operand in common and an accumulator each, in one loop, or split the kernel",
        )
    for dot in products:
        if groups is None and set(value_type(dot.result).axis_names) != set(grid_axes(program)):
            yield (
                dot,
                f"no operand of a product has the axis {axes_text(grid_axes(program)[:1])} of the grid",
                "leave the axis out of the grid, or store what does not depend on it in a kernel of its own",
            )
        if dot.scales:
            yield (
                dot,
                "a scaled product is not compiled yet in a loop that does more than sum products, or of two operands "
                "that are computed",
                "sum it from 0 on and compute one of its operands in a kernel before",
            )
    grid = grid_axes(program)
    for load in loads(program):
        # The epilogue reads the part of its own matrix.
        outer = [i for i in load.indices if isinstance(i.type, IndexType) and i.type.axis.data in grid[:-2]]
        if products and isinstance(load.parent_op(), tile.ProgramOp) and any(index_offset(index) for index in outer):
            yield load, "a tile of a neighbouring matrix is not compiled yet", "compute it into a tensor of its own"
    yield from _blocks(program, grid[:-2])
    yield from _reductions(program)
    yield from _choices(program)
    if len(products) > 1:
        yield (
            products[-1],
            "several products in a loop that is no walk over tiles, as their operands are, are not compiled",
            "multiply what is loaded, and compute operands in a kernel before",
        )


def _contractions(program: tile.ProgramOp) -> Iterator[tuple[Operation, str, str]]:
    """Products as values that are not those of a loop (`frontends.tile.loop_form`)."""
    for op in program.walk():
        if isinstance(op, ContractOp):
            yield (
                op,
                f"this product over {op.axis.data} is not compiled yet: it is none of two matrices, or stands beside a "
                "reduction, tw.where, a product over another axis or one of its result",
                "store it as it is, and go on from there in a kernel of its own",
            )


def _refuse_gathers(program: tile.ProgramOp) -> None:
    """What tables lead to, beside products of a loop."""
    for load in loads(program):
        if isinstance(load.tensor.owner, GatherOp) and dots(program):
            # A program before may put it together (`cut.laid_out`).
            refuse_map(
                load,
                parameter_name(program, read_tensor(load.tensor)),
                "an array that integers lead to is not compiled yet beside a product in a loop",
                "name all axes by tw.axes and multiply by tw.dot(..., over=...), or gather in a kernel before",
            )


def _integers(program: tile.ProgramOp) -> Iterator[tuple[Operation, str, str]]:
    if not dots(program):
        return
    for load in loads(program):
        if read_type(load.tensor).element_kind in (Element.S8, Element.S32):
            yield load, "a tensor of integers as numbers is not compiled yet beside a product", "give it as tw.f32"
    for op in program.walk():
        if isinstance(op, tile.CastOp) and value_type(op.result).element_kind is Element.S8:
            yield op, "rounding to i8 beside a product is not compiled yet", "round in a kernel of its own"


def _choices(program: tile.ProgramOp) -> Iterator[tuple[Operation, str, str]]:
    if not dots(program):
        return
    for op in program.walk():
        if isinstance(op, tile.PositionOp | tile.SelectOp):
            what = "an index used as a number" if isinstance(op, tile.PositionOp) else "tw.where"
            yield op, f"{what} beside a product is not compiled yet", "split the kernel"


def _reductions(program: tile.ProgramOp) -> Iterator[tuple[Operation, str, str]]:
    found = reductions(program)
    axes = list(dict.fromkeys(op.axis.data for op in found))
    for op in found:
        if dots(program):
            yield op, "a reduction beside a product is not compiled yet", "split the kernel"
        if grouping(program) is not None:
            yield op, "a reduction in a program over groups is not compiled yet", "compile one for each group"
        if op.axis.data != axes[0]:
            remedy = f"reduce over {axes[0]} alone, and over {op.axis.data} in a kernel of its own"
            yield op, f"reductions over {axes[0]} and {op.axis.data} in one program are not compiled yet", remedy
    for store in stores(program) if found else ():
        missing = [axis for axis in grid_axes(program) if axis not in tensor_type(store.tensor).axis_names]
        if any(axis != axes[0] for axis in missing):
            yield store, f"a result without the axes {axes_text(missing)} is not compiled yet", "split the kernel"


def _blocks(program: tile.ProgramOp, batch: Sequence[str]) -> Iterator[tuple[Operation, str, str]]:
    """Loads over blocks beside products. batch: axes of the grid besides rows and columns."""
    products = dots(program)
    for load in loads(program) if products else ():
        axes = [axis for axis in tensor_type(load.tensor).axis_names if blocks_of(axis) is not None]
        if not axes:
            continue
        size = min(map(block_size, axes))
        if not isinstance(load.parent_op(), tile.ProgramOp):
            if any(block_size(axis) % RUN_BYTES for axis in axes):
                remedy = f"use blocks of a multiple of {RUN_BYTES} elements, or compute the operand before"
                yield load, f"an operand of a product is computed from blocks of {size} elements", remedy
        elif any(index_offset(index) for index in load.indices):
            yield load, "a displaced tile over blocks is not compiled yet beside a product", "displace it before"
        elif {base_axis(axis) for axis in axes} & set(batch) or grouping(program) is not None:
            yield load, "blocks of matrices or of groups are not compiled yet", "give a number for each"
