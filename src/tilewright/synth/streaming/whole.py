"""A program whose streamed axis fits one tile needs one walk, of one tile, whatever its folds wait for.

All that changes along the axis, and what is folded of it, is computed in a loop over it that has one iteration: a fold
of the tile is the fold, so nothing is carried and nothing corrected. What does not depend on the axis stays before the
loop. Whoever takes such a program takes the axis in one tile (`whole`).

Not handled: which programs fit (`synth.cascade`). Checked by: tests/synth/streaming/test_whole.py.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from tilewright.base.element import Element
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis
from tilewright.ir.tile.facts import the_grid, the_program
from tilewright.ir.tile.types import IndexType, value_type


def in_one_tile(program: tile.ProgramOp, axis: str) -> ModuleOp:
    """The program with one iteration over `axis`, an axis of its grid that no groups cut."""
    module = ModuleOp([program.clone()])
    copy = the_program(module)
    body = Block(arg_types=[IndexType.of(axis)])
    _without_axis(the_grid(copy), axis, body.args[0])
    inside = _depending(copy.body.block, axis, body.args[0])
    outer: dict[tile.StoreOp, SSAValue] = {}
    for op in inside:
        if isinstance(op, tile.StoreOp) and body.args[0] not in op.indices:
            outer[op] = _widest(op.value)
            continue
        op.detach()
        body.add_op(op)
    yielded = list(dict.fromkeys(outer.values()))
    place = next(iter(inside)).properties["place"]
    initial = [_zero(value, str(copy.place.data)) for value in yielded]
    for value in yielded:
        body.insert_arg(value.type, len(body.args))
    body.add_op(tile.YieldOp(yielded))
    loop = tile.LoopOp(axis, [op.results[0] for op in initial], Region(body), getattr(place, "data", ""), streamed=True)
    loop.make_whole()
    last = copy.body.block.last_op
    assert last is not None
    for store in outer:
        store.detach()
    for op in (*initial, loop, *outer):
        copy.body.block.insert_op_before(op, last)
    finals = dict(zip(yielded, loop.outputs, strict=True))
    for store, value in outer.items():
        _store_final(store, finals[value])
    module.verify()
    return module


def _without_axis(grid: tile.GridOp, axis: str, index: SSAValue) -> None:
    """Put a grid without the axis in the grid's place, and `index` in that of the axis's."""
    kept = [each for each in grid.indices if each.type != IndexType.of(axis)]
    axes = [name for name in grid.axis_names if name != axis]
    op = tile.GridOp.create(
        operands=list(grid.operands),
        properties={**grid.properties, "axes": tile.GridOp(axes, grid.place.data).axes},
        result_types=[each.type for each in kept],
    )
    block = grid.parent_block()
    assert block is not None
    block.insert_op_before(op, grid)
    for old, new in zip(kept, op.results, strict=True):
        old.replace_all_uses_with(new)
    for old in grid.indices:
        if old not in kept:
            old.replace_all_uses_with(index)
    grid.detach()
    grid.erase()


def _depending(block: Block, axis: str, index: SSAValue) -> list[Operation]:
    """The ops that depend on an axis's index, or repeat something along the axis, in order."""
    known: set[SSAValue] = {index}
    found: list[Operation] = []
    for op in block.ops:
        tiles = (kind for kind in op.result_types if isinstance(kind, tile.ValueType))
        along = any(base_axis(each) == axis for kind in tiles for each in kind.axis_names)
        if along or known.intersection(op.operands):
            known.update(op.results)
            found.append(op)
    return found


def _widest(value: SSAValue) -> SSAValue:
    """A stored value before its last rounding, which a loop may carry."""
    owner = value.owner
    rounded = value_type(value).element_kind is not Element.F32
    return owner.operand if rounded and isinstance(owner, tile.CastOp) else value


def _zero(value: SSAValue, place: str) -> Operation:
    axes = value_type(value).axis_names
    return tile.FullOp(0.0, axes, place) if axes else tile.ConstantOp(0.0, place)


def _store_final(store: tile.StoreOp, final: SSAValue) -> None:
    """Store what the loop gives instead of what is computed in it."""
    element = value_type(store.value).element_kind
    block = store.parent_block()
    assert block is not None
    if element is not Element.F32:
        cast = tile.CastOp(final, element, store.place.data)
        block.insert_op_before(cast, store)
        final = cast.result
    store.operands[0] = final
