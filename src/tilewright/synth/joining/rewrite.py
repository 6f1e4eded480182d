"""How does a program read over two joined axes?

Every op stays, over other axes (`Pair.over`). An index along the inner axis becomes a number: its place along the
joined axis less the inner extent times its place along the outer one, all below 2^24 and so exact. A tensor's stride
along the joined axis is the inner one's, along the blocks that of a block. `require_same_places` holds the views
against the arrays: the address of each element, as a sum over the axes' elements, is what it was.

Checked by: tests/synth/joining/test_rewrite.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilewright.base.size import Size, computed
from tilewright.ir.function import Function
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, derived_extent
from tilewright.ir.tile.facts import index_offset
from tilewright.ir.tile.gather import Direct, GatherOp
from tilewright.ir.tile.types import GatheredType, IndexType, TensorType, ValueType, read_type, tensor_type, value_type
from tilewright.synth.joining.pairs import Pair


def joined(program: tile.ProgramOp, pair: Pair) -> ModuleOp:
    """The program over the joined axis. pair: one in whose way nothing is (`pairs.obstacle`)."""
    extents = _extents(program, pair)
    old = program.body.block.args
    block = Block(arg_types=[_tensor(tensor_type(argument), pair, extents) for argument in old])
    known: dict[SSAValue, SSAValue] = {}
    for before, after in zip(old, block.args, strict=True):
        after.name_hint = before.name_hint
        require_same_places(tensor_type(before), tensor_type(after), pair)
        known[before] = after
    _Writer(pair, known, block, {}).fill(program.body.block, block)
    names = [name.data for name in program.parameters]
    # Blocks of an axis are listed where they are used.
    used = {axis for op in block.walk() for each in (*op.operands, *op.results) for axis in _axes_of(each.type)}
    listed = {axis: extent for axis, extent in extents.items() if axis == base_axis(axis) or axis in used}
    written = tile.ProgramOp(program.sym_name.data, names, listed, Region(block), program.place.data, program.run_time)
    module = ModuleOp([written])
    module.verify()
    return module


def require_same_places(before: TensorType, after: TensorType, pair: Pair) -> None:
    """Raise AssertionError unless the elements of one place in the program have one address in both tensors: strides
    along a block, an element of one, an element of the inner axis, and every other axis are the same."""
    old = dict(zip(before.axis_names, before.stride_sizes, strict=True))
    new = dict(zip(after.axis_names, after.stride_sizes, strict=True))
    own = {pair.outer, pair.outer_blocks, pair.inner, pair.joined, pair.blocks, pair.of_outer}
    outer, joined_ = old.get(pair.outer, 0), new.get(pair.joined, 0)
    of_outer = new.get(pair.of_outer, 0) if pair.of_outer != pair.joined else 0
    same = (
        pair.count == 1 or _sum(outer, pair.size, old.get(pair.outer_blocks, 0)) == new.get(pair.blocks, 0),
        outer == _sum(joined_, pair.length, of_outer),
        pair.length == 1 or old.get(pair.inner, 0) == joined_,
        {axis: old[axis] for axis in old if axis not in own} == {axis: new[axis] for axis in new if axis not in own},
    )
    if not all(same):
        raise AssertionError(f"{before} viewed as {after} has its elements elsewhere")


def _sum(stride: Size, times: int, further: Size) -> Size:
    return computed("+", computed("*", stride, times), further)


def _extents(program: tile.ProgramOp, pair: Pair) -> dict[str, int]:
    """Of the joined program's axes, in order; of blocks too."""
    found: dict[str, int] = {}
    for axis, extent in program.extents.items():
        if axis == pair.outer:
            found |= {pair.blocks: pair.count} if pair.blocks else {}
        elif axis == pair.inner:
            found[pair.joined] = pair.size * pair.length
        elif axis != pair.outer_blocks:
            found[axis] = extent
    return found | {pair.of_outer: derived_extent(pair.of_outer, found)}


def _axes_of(kind: Attribute) -> tuple[str, ...]:
    match kind:
        case ValueType() | TensorType() | GatheredType():
            return kind.axis_names
        case IndexType():
            return (kind.axis.data,)
        case _:
            return ()


def _tensor(kind: TensorType, pair: Pair, extents: Mapping[str, int]) -> TensorType:
    strides = dict(zip(kind.axis_names, kind.stride_sizes, strict=True))
    outer = strides.get(pair.outer, 0)
    views = {
        pair.blocks: computed("*", outer, pair.size) if outer else strides.get(pair.outer_blocks, 0),
        pair.of_outer: outer,
        pair.joined: outer if pair.length == 1 else strides.get(pair.inner, 0),
    }
    axes = pair.over(kind.axis_names)
    apart = [views[axis] if axis in views else strides[axis] for axis in axes]
    return TensorType.of(axes, [extents[axis] for axis in axes], apart, kind.element_kind, kind.refinement)


@dataclass(frozen=True, slots=True)
class _Writer:
    """known: what stands for a value of the program; top: the new program's block; indices: of its grid, by axis, and
    of the outer axis's elements once that is asked for."""

    pair: Pair
    known: dict[SSAValue, SSAValue]
    top: Block
    indices: dict[str, SSAValue]

    def fill(self, source: Block, block: Block) -> None:
        pair, known = self.pair, self.known
        for op in source.ops:
            match op:
                case tile.GridOp():
                    self.grid(op, block)
                case tile.PositionOp():
                    known[op.result] = self.position(op, block)
                case tile.BlockOp() if op.result.type == IndexType.of(pair.outer_blocks):
                    known |= {op.result: self.indices[pair.blocks]} if pair.blocks else {}
                case tile.ShiftOp() if op.result.type in (IndexType.of(pair.outer), IndexType.of(pair.inner)):
                    pass  # it is a number, of which `position` knows
                case GatherOp():
                    self.gather(op, block)
                case tile.LoadOp() | tile.StoreOp():
                    self.access(op, block)
                case _:
                    self.over_other_axes(op, block)

    def grid(self, op: tile.GridOp, block: Block) -> None:
        fresh = tile.GridOp(self.pair.over(op.axis_names), op.place.data)
        block.add_op(fresh)
        self.indices.update(zip(fresh.axis_names, fresh.indices, strict=True))
        for axis, index in zip(op.axis_names, op.indices, strict=True):
            if axis in self.indices:
                self.known[index] = self.indices[axis]
                self.indices[axis].name_hint = index.name_hint

    def of_outer(self, place: str) -> SSAValue:
        """The index along the outer axis's elements."""
        axis = self.pair.of_outer
        if axis not in self.indices:
            index = self.indices[self.pair.joined]
            grid = index.owner
            assert isinstance(grid, tile.GridOp)
            op = tile.BlockOp(index, self.pair.length, place)
            self.top.insert_op_after(op, grid)
            self.indices[axis] = op.result
        return self.indices[axis]

    def gather(self, op: GatherOp, block: Block) -> None:
        """The same of arrays that are seen otherwise: blocks of the outer axis are an axis, or nothing."""
        places: list[str] = []
        for name, each in zip(op.place_names, op.dimensions, strict=True):
            places += self.pair.over([name]) if isinstance(each.where, Direct) else [name]
        axes = self.pair.over(read_type(op.result).axis_names)
        tables = [self.known[each] for each in op.tables]
        fresh = GatherOp(self.known[op.tensor], tables, places, axes, op.place.data)
        block.add_op(fresh)
        self.known[op.result] = fresh.result

    def access(self, op: tile.LoadOp | tile.StoreOp, block: Block) -> None:
        tensor, place = self.known[op.tensor], op.place.data
        own = dict(zip(read_type(op.tensor).axis_names, op.indices, strict=True))
        indices: list[SSAValue] = []
        for axis in read_type(tensor).axis_names:
            if axis == self.pair.of_outer:
                indices.append(self.of_outer(place))
            else:
                indices.append(self.known[own[axis]] if axis in own else self.indices[axis])
        if isinstance(op, tile.StoreOp):
            block.add_op(tile.StoreOp(self.known[op.value], tensor, indices, place))
            return
        fresh = tile.LoadOp(tensor, indices, place)
        block.add_op(fresh)
        self.known[op.result] = fresh.result

    def position(self, op: tile.PositionOp, block: Block) -> SSAValue:
        pair, place = self.pair, op.place.data
        kind = op.index.type
        assert isinstance(kind, IndexType)

        def added(fresh: Operation) -> SSAValue:
            block.add_op(fresh)
            return fresh.results[0]

        def moved(value: SSAValue, by: float) -> SSAValue:
            return of_two(Function.ADD, value, number(by, value_type(value).axis_names)) if by else value

        def number(value: float, axes: Sequence[str]) -> SSAValue:
            return added(tile.BroadcastOp(added(tile.ConstantOp(value, place)), axes, place))

        def of_two(function: Function, left: SSAValue, right: SSAValue) -> SSAValue:
            return added(tile.BinaryOp(function, left, right, place))

        axis, shift = kind.axis.data, float(index_offset(op.index))
        if axis == pair.outer_blocks and not pair.blocks:
            return added(tile.ConstantOp(0.0, place))
        if axis not in (pair.outer, pair.inner):
            return added(tile.PositionOp(self.known[op.index], place))
        if axis == pair.outer:
            return moved(added(tile.PositionOp(self.of_outer(place), place)), shift)
        if pair.length == 1:
            return number(shift, [pair.joined])
        whole = added(tile.PositionOp(self.indices[pair.joined], place))
        outer = added(tile.PositionOp(self.of_outer(place), place))
        outer = added(tile.BroadcastOp(outer, [pair.joined], place))
        before = of_two(Function.MUL, outer, number(float(pair.length), [pair.joined]))
        return moved(of_two(Function.SUB, whole, before), shift)

    def over_other_axes(self, op: Operation, block: Block) -> None:
        """The same op over other axes; nothing where it repeats a tile along, or exchanges, what is one axis now."""
        types = [self.kind(result.type) for result in op.results]
        operands = [self.known[operand] for operand in op.operands]
        if isinstance(op, tile.BroadcastOp | tile.TransposeOp) and operands[0].type == types[0]:
            self.known[op.results[0]] = operands[0]
            return
        regions: list[Region] = []
        for region in op.regions:
            inner = Block(arg_types=[self.kind(argument.type) for argument in region.block.args])
            self.known.update(zip(region.block.args, inner.args, strict=True))
            self.fill(region.block, inner)
            regions.append(Region(inner))
        fresh = op.create(operands=operands, result_types=types, properties=op.properties, regions=regions)
        block.add_op(fresh)
        self.known.update(zip(op.results, fresh.results, strict=True))

    def kind(self, old: Attribute) -> Attribute:
        return ValueType.of(self.pair.over(old.axis_names), old.element_kind) if isinstance(old, ValueType) else old
