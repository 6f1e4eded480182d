"""What are the two programs of one that scales blocks of one operand, where the tensor core takes factors of both?

The other operand's factors are 1, which changes no number. A program before stores them, as bytes; the program after
loads them as it does the given ones. So nothing later knows of products with factors of one operand.

Not handled, and None: products that are scaled otherwise, or outside of loops; rows without factors of which only a
launch knows how many there are. Checked by: tests/synth/cut/test_factors_before.py and
tests/end_to_end/test_block_factors.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Block, Region, SSAValue

from tilewright.base.element import Element
from tilewright.ir.block_factors import SHARED_BY
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_axis, blocks_of
from tilewright.ir.tile.elementwise import CastOp
from tilewright.ir.tile.facts import dots, grid_axes, index_offset, the_grid, the_program
from tilewright.ir.tile.rules import violations
from tilewright.ir.tile.types import IndexType, TensorType, tensor_type, value_type
from tilewright.synth.cut.handover import free_name, padded_strides
from tilewright.targets import Target

_ONE = {Element.UE8M0: 127, Element.UE4M3: 0x38}
"""The bits of 1: the exponent's bias, in place."""


def factors_before(module: ModuleOp, target: Target) -> tuple[ModuleOp, ModuleOp] | None:
    """The program that stores factors of 1, and the one that takes them; None where no product lacks any."""
    program = the_program(module)
    if not target.supports("block_scales"):
        return None
    for number, dot in enumerate(dots(program)):
        missing = _missing(program, dot, target)
        if missing is not None:
            return _divided(module, number, *missing)
    return None


def _missing(program: tile.ProgramOp, dot: tile.DotOp, target: Target) -> tuple[str, int, Element] | None:
    """The axis of an operand's rows that have no factors, the size of blocks, and the given ones' element."""
    if len(dot.scales) != 1 or dot.contracted in program.run_time:
        return None
    load = dot.scales[0].owner
    while isinstance(load, tile.TransposeOp):
        load = load.operand.owner
    if not isinstance(load, tile.LoadOp) or any(map(index_offset, load.indices)):
        return None
    factor, operand = tensor_type(load.tensor).element_kind, value_type(dot.left).element_kind
    row = SHARED_BY.get((operand, factor))
    sizes = [found[1] for axis in value_type(load.result).axis_names if (found := blocks_of(axis)) is not None]
    numbers = 2 if operand.is_pair else 1
    if row is None or [size * numbers for size in sizes] != [target.limit(f"block_scales.{row}")]:
        return None
    given = set(map(base_axis, value_type(load.result).axis_names)) - {dot.contracted}
    rows = {value_type(dot.left).axis_names[-2], value_type(dot.right).axis_names[-1]}
    others = rows - given
    if not given <= rows or len(others) != 1 or not others <= set(grid_axes(program)) - program.run_time.keys():
        return None
    return others.pop(), sizes[0], factor


def _divided(module: ModuleOp, number: int, row: str, size: int, factor: Element) -> tuple[ModuleOp, ModuleOp] | None:
    program = the_program(module)
    after = module.clone()
    written = the_program(after)
    dot = dots(written)[number]
    loop = dot.parent_op()
    indices = [each for each in the_grid(written).indices if each.type == IndexType.of(row)]
    if not isinstance(loop, tile.LoopOp) or not indices:
        return None
    names = [each.data for each in program.parameters]
    taken = free_name(f"{program.sym_name.data}_ones", names)
    shape = [program.extents[row], -(-program.extents[dot.contracted] // size)]
    strides = padded_strides(shape, factor)
    fresh = written.body.block.insert_arg(
        TensorType.of((row, block_axis(dot.contracted, size)), shape, strides, factor), len(names)
    )
    written.properties["parameters"] = ArrayAttr([StringAttr(each) for each in (*names, taken)])
    place = dot.place.data
    block = tile.BlockOp(loop.body.block.args[0], size, place)
    load = tile.LoadOp(fresh, [indices[0], block.result], place)
    ones: SSAValue = load.result
    loop.body.block.insert_ops_before([block, load], dot)
    if row == value_type(dot.right).axis_names[-1]:
        turned = tile.TransposeOp(ones, place)
        loop.body.block.insert_op_before(turned, dot)
        ones = turned.result
    again = tile.DotOp(dot.left, dot.right, dot.accumulator, place, (*dot.scales, ones))
    loop.body.block.insert_op_before(again, dot)
    dot.result.replace_all_uses_with(again.result)
    dot.detach()
    dot.erase()
    if next(violations(written), None) is not None:
        return None
    return _ones(program, taken, (row, free_name("blocks", [row])), shape, strides, factor), after


def _ones(
    program: tile.ProgramOp, taken: str, axes: Sequence[str], shape: Sequence[int], strides: Sequence[int],
    factor: Element,
) -> ModuleOp:  # fmt: skip
    """The program that stores them: over places, as bytes."""
    place = program.place.data
    block = Block(arg_types=[TensorType.of(axes, shape, strides, factor.copied_as)])
    block.args[0].name_hint = taken
    grid, one = tile.GridOp(axes, place), tile.FullOp(float(_ONE[factor]), axes, place)
    byte = CastOp(one.result, factor.copied_as, place)
    block.add_ops([grid, one, byte, tile.StoreOp(byte.result, block.args[0], grid.indices, place), tile.ReturnOp()])
    sizes = dict(zip(axes, shape, strict=True))
    module = ModuleOp([tile.ProgramOp(f"{taken}_stored", [taken], sizes, Region(block), place)])
    assert next(violations(the_program(module)), None) is None, "a program that stores a number"
    return module
