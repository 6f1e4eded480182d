"""Which two axes of a program can be joined, and what is in the way of it?

To every product both axes are rows: one operand has both, the other has neither, or the outer one by blocks. All else
that the program does with them has to be expressible along the joined axis: tensors by a view of theirs, an index along
the inner axis as a number, and values along the outer one as values of blocks of the joined one.

Not handled: axes whose extents only the launch knows. Checked by: tests/synth/joining/test_pairs.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from xdsl.ir import Operation, SSAValue

from tilewright.base.size import computed
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_axis, block_size
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import axes_of, parameter_name, the_grid
from tilewright.ir.tile.gather import GatherOp, Remainder, Table
from tilewright.ir.tile.reduce import ArgReduceOp, ReduceOp
from tilewright.ir.tile.types import MAX_RANK, IndexType, TensorType, ValueType, axes_text, tensor_type
from tilewright.layout.numbers.condition import names_of


@dataclass(frozen=True, slots=True)
class Pair:
    """Axes that are joined. size: elements of the outer axis that join with all of the inner one, its extent or a block
    of it; count: of such blocks; length: elements of the inner axis."""

    outer: str
    inner: str
    size: int
    count: int
    length: int

    @property
    def joined(self) -> str:
        """What the axis of both is called."""
        return f"{self.outer}_{self.inner}"

    @property
    def blocks(self) -> str:
        """What the axis of the outer one's blocks is called; "" where there is one block."""
        return f"{self.outer}_blocks" if self.count > 1 else ""

    @property
    def outer_blocks(self) -> str:
        """The same as the program has it."""
        return block_axis(self.outer, self.size)

    @property
    def of_outer(self) -> str:
        """An element of the outer axis, as a block of the joined one."""
        return block_axis(self.joined, self.length) if self.length > 1 else self.joined

    def over(self, axes: Sequence[str]) -> tuple[str, ...]:
        """Axes of a tile over the joined one."""
        both = self.inner in axes
        found: list[str] = []
        for axis in axes:
            if axis == self.outer:
                found += [*([self.blocks] if self.blocks else []), *([] if both else [self.of_outer])]
            elif axis == self.outer_blocks:
                found += [self.blocks] if self.blocks else []
            else:
                found.append(self.joined if axis == self.inner else axis)
        return tuple(found)


def pairs(program: tile.ProgramOp) -> Iterator[Pair]:
    """The axes of the grid that are rows to every product, two by two."""
    products = [op for op in program.walk() if isinstance(op, ContractOp | tile.DotOp)]
    grid, extents = the_grid(program), program.extents
    if not products or grid.bounds is not None:
        return
    for outer, inner in permutations([axis for axis in grid.axis_names if axis not in program.run_time], 2):
        sizes = {_size(op, outer, inner, extents[outer]) for op in products}
        # An operand without the outer axis serves all of its blocks.
        size = min(sizes)
        if size > 1 and sizes <= {size, extents[outer]} and extents[outer] % size == 0:
            yield Pair(outer, inner, size, extents[outer] // size, extents[inner])


def _size(op: ContractOp | tile.DotOp, outer: str, inner: str, extent: int) -> int:
    """Elements of the outer axis that a product's other operand serves; 0 where the axes are no rows to the product."""
    sides = axes_of(op.left), axes_of(op.right)
    held = [axes for axes in sides if outer in axes and inner in axes]
    other = [axis for axes in sides if axes not in held for axis in axes if base_axis(axis) in (outer, inner)]
    contracted = op.contracted if isinstance(op, tile.DotOp) else op.axis.data
    if len(held) != 1 or contracted in (outer, inner) or any(base_axis(axis) == inner for axis in other):
        return 0
    if isinstance(op, tile.DotOp) and inner not in held[0][-2:]:
        return 0  # the joined axis stands in the inner one's place, and this product knows its axes by theirs
    return min([block_size(axis) for axis in other], default=extent)


def obstacle(program: tile.ProgramOp, pair: Pair) -> str:
    """What keeps the axes of a pair apart, in words; "" where nothing does."""
    if {pair.joined, pair.blocks} & set(program.extents):
        return f"an axis is called {pair.joined} or {pair.blocks}"
    if pair.size * pair.length > tile.MOST_EXACT_POSITION:
        return f"numbers along {pair.joined} past 2^24 are no float32"
    for argument in program.body.block.args:
        found = _of_tensor(tensor_type(argument), pair)
        if found:
            return f"{parameter_name(program, argument)} {found}"
    for op in program.walk():
        found = _of_op(op, pair) or next((words for each in op.results if (words := _of_value(each, pair))), "")
        if found:
            return found
    return ""


def _of_tensor(tensor: TensorType, pair: Pair) -> str:
    strides = dict(zip(tensor.axis_names, tensor.stride_sizes, strict=True))
    found = _of_axes(tensor.axis_names, pair)
    if found:
        return found
    if pair.inner in strides and pair.outer not in strides:
        return f"has {pair.inner} and not {pair.outer}"
    if names_of(tensor.refinement.condition) & {pair.outer, pair.outer_blocks, pair.inner}:
        return f"promises something of {pair.outer} or {pair.inner}"
    whole = computed("*", strides.get(pair.inner, 0), pair.length)
    if pair.inner in strides and pair.length > 1 and strides[pair.outer] != whole:
        return f"has other elements between those of {pair.inner} and the next of {pair.outer}"
    if len(pair.over(tensor.axis_names)) > MAX_RANK:
        return f"would have more than {MAX_RANK} axes"
    # A number for the one block that there is.
    return "" if pair.over(tensor.axis_names) else "would have no axis"


def _of_axes(axes: Sequence[str], pair: Pair) -> str:
    known = {pair.outer, pair.outer_blocks, pair.inner}
    strange = [axis for axis in axes if base_axis(axis) in (pair.outer, pair.inner) and axis not in known]
    if strange:
        return f"is over {strange[0]}, which is no part of {pair.joined}"
    return f"is over {axes_text(axes)}" if {pair.outer, pair.outer_blocks} <= set(axes) else ""


def _of_value(value: SSAValue, pair: Pair) -> str:
    if not isinstance(value.type, ValueType):
        return ""
    found = _of_axes(value.type.axis_names, pair)
    if not found and len(pair.over(value.type.axis_names)) > MAX_RANK:
        found = f"would have more than {MAX_RANK} axes"
    return f"a tile {found}" if found else ""


def _of_op(op: Operation, pair: Pair) -> str:
    match op:
        case ReduceOp() | ArgReduceOp() if op.axis.data in (pair.outer, pair.inner):
            return f"a fold over {op.axis.data}"
        case tile.LoopOp() if op.axis.data in (pair.outer, pair.inner):
            return f"a loop over {op.axis.data}"
        case tile.TransposeOp() | tile.BroadcastOp():
            axes, into = (pair.over(axes_of(each)) for each in (op.operand, op.result))
            if isinstance(op, tile.BroadcastOp):
                # Where both had what is now one axis, nothing is repeated, and only the order may be another.
                return "" if axes == into or set(axes) != set(into) else f"{axes_text(axes)} as {axes_text(into)}"
            return "" if into in (axes, (*axes[:-2], *axes[:-3:-1])) else f"{axes_text(axes)} as {axes_text(into)}"
        case GatherOp():
            return _of_gather(op, pair)
        case tile.StoreOp() if pair.outer in axes_of(op.value) and pair.inner not in axes_of(op.value):
            return f"a result over {pair.outer} and not {pair.inner}"
        case tile.ShiftOp() | tile.BlockOp() | tile.PositionOp():
            return _of_index(op, pair)
        case _:
            return ""


def _of_gather(op: GatherOp, pair: Pair) -> str:
    """What is gathered may have blocks of the outer axis, as an axis of the tensor or of a table."""
    for each in op.dimensions:
        named = each.where.axes if isinstance(each.where, Table) else (each.where.axis,)
        for axis in named:
            whole = isinstance(each.where, Remainder) or axis != pair.outer_blocks
            if base_axis(axis) in (pair.outer, pair.inner) and whole:
                return f"what is gathered along {axis}"
    return ""


def _of_index(op: tile.ShiftOp | tile.BlockOp | tile.PositionOp, pair: Pair) -> str:
    """Indices along the joined axes: as numbers, of the outer one where it has one block; the outer one's blocks."""
    kind = op.index.type
    axis = kind.axis.data if isinstance(kind, IndexType) else ""
    match op:
        case tile.PositionOp():
            cut = axis == pair.outer and pair.count > 1
            return f"a number along {axis}, of which {pair.count} blocks join" if cut else ""
        case tile.BlockOp():
            fits = base_axis(axis) not in (pair.outer, pair.inner) or op.result.type == IndexType.of(pair.outer_blocks)
            return "" if fits else f"blocks of {axis}"
        case _:
            only_numbers = all(isinstance(use.operation, tile.PositionOp | tile.ShiftOp) for use in op.result.uses)
            moved = axis == pair.outer_blocks or (axis in (pair.outer, pair.inner) and not only_numbers)
            return f"a displaced index of {axis}" if moved else ""
