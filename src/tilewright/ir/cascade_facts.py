"""What a program of products and folds over a streamed axis says, in plain values: its axes' parts, its products.

A product over the streamed axis contracts values over (row, streamed), which threads hold, with an array over
(streamed, column): its `held` operand and its `brought` one. A product over another axis makes values over (row,
streamed): its held operand is the one with rows, brought too. Every other axis of an operand is one of the batch.

Not handled: what `cascade_axes` refuses, with the author's line. Checked by: tests/ir/test_cascade_facts.py.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from xdsl.ir import Operation, SSAValue

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.ir.decisions import RUN_BYTES
from tilewright.ir.function import Function
from tilewright.ir.group_rows import group_pitches
from tilewright.ir.scaled_terms import scale_ops, scaled_term
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.axes import base_axis, block_size
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import every, grouping, index_offset, loads, loops
from tilewright.ir.tile.gather import Dimension, Direct, Table, Where, read_dimensions
from tilewright.ir.tile.repeats import bare, computed_of, users
from tilewright.ir.tile.rules import place_of
from tilewright.ir.tile.types import TensorType, axes_text, read_type, value_type
from tilewright.ir.tile.unedited import remembered
from tilewright.ir.tile.walked_block import WalkedBlockOp

_ELEMENT_BY_ELEMENT = (
    tile.UnaryOp, tile.BinaryOp, tile.CastOp, tile.BroadcastOp, tile.TransposeOp, tile.ConstantOp, tile.FullOp,
)  # fmt: skip
_WIDENED_BYTES = 2
"""Of an element that is multiplied for one of 8 bits."""


@dataclass(frozen=True, slots=True)
class CascadeAxes:
    """batch: in the grid's order. column: "" where no product runs over the streamed axis. further: columns of other
    products over it, each taken whole in every tile, as `column` is then too. group: the axis of groups of rows, which
    is one of the batch; pitch: where the rows of all groups are one line in arrays, from one group's to the next's."""

    batch: tuple[str, ...]
    row: str
    column: str
    streamed: str
    further: tuple[str, ...] = ()
    group: str = ""
    pitch: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        """Of products over the streamed axis."""
        return (self.column, *self.further) if self.column else ()

    def kept(self, value: SSAValue) -> frozenset[str]:
        """Of a value's axes those along which a tile extends."""
        return frozenset(map(base_axis, value_type(value).axis_names)) & {self.row, self.streamed, *self.columns}

    def column_of(self, axes: Collection[str]) -> str:
        """The column among these axes; "" where there is none."""
        return next((axis for axis in self.columns if axis in axes), "")


@dataclass(frozen=True, slots=True)
class Product:
    """held: the operand with the rows; brought: the other one, a load. A load stands for all that are like it. widened:
    whether what is brought has 8 bits and is multiplied as what `element` says."""

    op: ContractOp
    held: SSAValue
    brought: tile.LoadOp
    element: Element

    @property
    def element_bytes(self) -> int:
        """Of what the tensor core multiplies."""
        return self.element.bytes

    @property
    def widened(self) -> bool:
        return read_type(self.brought.tensor).element_kind is not self.element


def may_end_within(program: tile.ProgramOp, axis: str, size: int) -> bool:
    """Whether the last of an axis's tiles of so many elements reaches past its end, at some extent."""
    values = program.run_time.get(axis)
    return (program.extents[axis] if values is None else values.multiple_of) % size != 0


@remembered
def contractions(program: tile.ProgramOp) -> tuple[ContractOp, ...]:
    """Every contraction, in program order."""
    return every(program, ContractOp)


class NoTensorMap(TilewrightError):
    """No tensor map brings an array as a product takes it; `parameter` is its name. inner: the axis along which a copy
    has to be contiguous, "" where its own order serves."""

    def __init__(self, parameter: str, message: str, span: Span | None, remedy: str, inner: str = "") -> None:
        super().__init__(message, span=span, remedy=remedy)
        self.parameter, self.inner = parameter, inner


def refuse_map(op: Operation, parameter: str, message: str, remedy: str, inner: str = "") -> NoReturn:
    """Raise NoTensorMap at the author's line of an op."""
    raise NoTensorMap(parameter, message, _line_of(op), remedy, inner)


def refuse_at(op: Operation, message: str, remedy: str) -> NoReturn:
    """Raise TilewrightError at the author's line of an op."""
    raise TilewrightError(message, span=_line_of(op), remedy=remedy)


def _line_of(op: Operation) -> Span | None:
    file, _, line = place_of(op).rpartition(":")
    return Span(file, int(line)) if line.isdecimal() else None


def streamed_axis(program: tile.ProgramOp) -> str:
    """The axis of the program's loops. Raises TilewrightError where there is not one."""
    axes = list(dict.fromkeys(op.axis.data for op in loops(program)))
    if len(axes) != 1:
        refuse_at(program, f"a program whose loops run over {axes_text(axes)}", "fold and multiply over one axis")
    return axes[0]


@remembered
def products_of(program: tile.ProgramOp) -> tuple[Product, ...]:
    """The program's products, in order. Raises TilewrightError for operands that no product here has."""
    streamed = streamed_axis(program)
    found: list[Product] = []
    for op in contractions(program):
        if not isinstance(op.parent_op(), tile.LoopOp):
            refuse_at(op, "a product of what a fold has given", "store its operands, and multiply in another kernel")
        over = op.axis.data
        sides = [(op.left, op.right), (op.right, op.left)]
        if over != streamed:
            sides = [pair for pair in sides if streamed in value_type(pair[1]).axis_names]
        known = [pair for pair in sides if isinstance(pair[1].owner, tile.LoadOp)]
        known += [pair for pair in sides if widened_load(pair[1]) is not None]
        chosen = known[0] if known else None
        if chosen is None or (over != streamed and not isinstance(chosen[0].owner, tile.LoadOp)):
            refuse_at(op, f"a product over {over} of computed operands", "compute one of them in a kernel before")
        held, brought = chosen
        load = brought.owner if isinstance(brought.owner, tile.LoadOp) else widened_load(brought)
        assert load is not None
        if over != streamed and isinstance(held.owner, tile.LoadOp):
            held = first_alike(program, held.owner).result
        found.append(Product(op, held, first_alike(program, load), value_type(brought).element_kind))
    return tuple(found)


def widened_load(value: SSAValue) -> tile.LoadOp | None:
    """The load of 8-bit elements that a value has as 16-bit ones, which have every number of those."""
    owner = value.owner
    if not isinstance(owner, tile.CastOp) or value_type(value).element_kind.bytes != _WIDENED_BYTES:
        return None
    load = owner.operand.owner
    narrow = isinstance(load, tile.LoadOp) and read_type(load.tensor).element_kind.is_float8
    return load if narrow and isinstance(load, tile.LoadOp) else None


def first_alike(program: tile.ProgramOp, load: tile.LoadOp) -> tile.LoadOp:
    """The first of the program's loads that brings the same tiles: several walks may load one array."""
    return _first_by_tiles(program)[_tiles_of(load)]


@remembered
def _first_by_tiles(program: tile.ProgramOp) -> dict[tuple[object, ...], tile.LoadOp]:
    return {_tiles_of(load): load for load in reversed(loads(program))}


def _tiles_of(load: tile.LoadOp) -> tuple[object, ...]:
    return (load.tensor, *(index_offset(index) for index in load.indices), *load.result.type.parameters)


@remembered
def cascade_axes(program: tile.ProgramOp) -> CascadeAxes:
    """Which part each axis of the program plays. Raises TilewrightError where they play none that this compiler
    knows."""
    streamed, products, groups = streamed_axis(program), products_of(program), grouping(program)
    group = frozenset[str]() if groups is None else frozenset({groups.group})
    batch: dict[str, None] = dict.fromkeys(group)
    rows: list[set[str]] = []
    columns: list[set[str]] = []
    for product in products:
        over = product.op.axis.data
        held = [base_axis(axis) for axis in value_type(product.held).axis_names if axis != over]
        brought = [base_axis(axis) for axis in value_type(product.brought.result).axis_names if axis != over]
        batch |= dict.fromkeys(axis for axis in held if axis in brought)
        own, other = set(held) - set(brought) - group, set(brought) - set(held) - group
        if not own or not other:
            remedy = f"give each one, or fold what is multiplied along {over} by tw.sum"
            refuse_at(product.op, f"a product over {over} whose operands have no axis of their own", remedy)
        if over != streamed and streamed not in other:
            refuse_at(product.op, f"a product over {over} beside {streamed}", f"give an operand the axis {streamed}")
        rows.append(own if groups is None or groups.ragged not in own else {groups.ragged})
        columns += [other] if over == streamed else []
        batch |= dict.fromkeys(sorted(own | other))
    row = _longest(program, rows)
    if row is None:
        refuse_at(products[-1].op, "products over different rows in one program", "give all products the same rows")
    common = _longest(program, columns) if columns else ""
    own = [common] if common is not None else [_longest(program, [each]) or "" for each in columns]
    column, *further = dict.fromkeys(own)
    order = list(program.extents)
    others = [axis for axis in batch if axis not in (row, streamed, *own)]
    pitches = group_pitches(program, groups) if groups is not None and groups.kind == "within" else ()
    listed = tuple(sorted(others, key=order.index))
    return CascadeAxes(listed, row, column, streamed, tuple(further), "".join(group), max(pitches, default=0))


def _longest(program: tile.ProgramOp, sets: Sequence[set[str]]) -> str | None:
    """The longest of the axes that all sets have, in the program's order the last of those; None where there is
    none."""
    order = list(program.extents)
    common = set[str].intersection(*sets)
    return max(common, key=lambda axis: (program.extents[axis], order.index(axis)), default=None)


def slot_sums(program: tile.ProgramOp, loop: tile.LoopOp) -> tuple[Product, ...]:
    """The products of a walk that does nothing but sum each of them, from 0 on, by the sums that it carries, and whose
    operands are all loads of the walk; none of any other walk. Numbers of blocks may scale them (`ir.scaled_terms`)."""
    found = _sums_of_walk(program, loop, ())
    inside = set(loop.body.block.ops)
    operands = [operand.owner for each in found for operand in each.op.operands]
    return found if all(isinstance(each, tile.LoadOp) and each in inside for each in operands) else ()


@remembered
def computed_sum(program: tile.ProgramOp) -> tuple[Product, ...]:
    """The product of a program whose one walk only sums it, unscaled, and computes one operand of it of loads, element
    by element; none of any other program."""
    if len(loops(program)) != 1:
        return ()
    (loop,) = loops(program)
    found = _sums_of_walk(program, loop, _ELEMENT_BY_ELEMENT)
    if len(found) != 1 or scaled_term(found[0].op)[1]:
        return ()
    computed = isinstance(found[0].held.owner, _ELEMENT_BY_ELEMENT)
    return found if computed and found[0].brought.parent_op() is loop and not found[0].widened else ()


def _sums_of_walk(
    program: tile.ProgramOp, loop: tile.LoopOp, computed: tuple[type[Operation], ...]
) -> tuple[Product, ...]:
    """The products of a walk that does nothing but sum each of them. computed: operations that operands may be made
    by."""
    inside, carried = list(loop.body.block.ops), loop.body.block.args[1:]
    found = [op for op in inside if isinstance(op, ContractOp)]
    end = inside[-1]
    if not isinstance(end, tile.YieldOp) or not len(found) == len(carried) == len(end.values):
        return ()
    terms = {op: scaled_term(op) for op in found}
    by_term: dict[SSAValue, ContractOp] = {term: op for op, (term, _) in terms.items()}
    known: set[Operation] = {end, *found}
    known |= {made for _, scales in terms.values() for scale in scales for made in scale_ops(scale) or ()}
    known |= {use.operation for _, scales in terms.values() for scale in scales for use in scale.uses}
    listed: list[ContractOp] = []
    for argument, initial, value in zip(carried, loop.carried, end.values, strict=True):
        total, start = value.owner, initial.owner
        if not isinstance(total, tile.BinaryOp) or total.function.data is not Function.ADD:
            return ()
        if not isinstance(start, tile.FullOp) or start.value.value.data != 0.0:
            return ()
        sides = {total.left, total.right}
        product = next((by_term[each] for each in sides if each in by_term), None)
        if product is None or sides != {argument, terms[product][0]} or product.axis.data != loop.axis.data:
            return ()
        listed.append(product)
        known.add(total)
    others = (tile.LoadOp, tile.ShiftOp, tile.BlockOp, *computed)
    if not all(op in known or isinstance(op, others) for op in inside):
        return ()
    return tuple(next(each for each in products_of(program) if each.op is op) for op in listed)


def is_of_slots(program: tile.ProgramOp, product: Product) -> bool:
    """Whether both operands of a product are loads of one tile of the walk, of which nothing but products makes use: it
    takes both out of slots."""
    held = product.held.owner
    if product.op.axis.data != streamed_axis(program):
        return True
    if not isinstance(held, tile.LoadOp) or held.parent is not product.op.parent:
        return False
    alike = [load for load in loads(program) if _tiles_of(load) == _tiles_of(held)]
    return all(isinstance(user, ContractOp) for load in alike for user in users(load.result))


@remembered
def all_slot_sums(program: tile.ProgramOp) -> tuple[Product, ...]:
    """The products of a program all of whose walks only sum; none of any other."""
    found = [slot_sums(program, loop) for loop in loops(program)]
    return tuple(each for products in found for each in products) if all(found) else ()


@remembered
def shared_sums(program: tile.ProgramOp) -> tuple[Product, ...]:
    """The products of a program whose one walk only sums them, of one operand with the rows and others that differ in
    nothing but the array: together they are one product; none of any other program."""
    found = all_slot_sums(program)
    if not found or len(loops(program)) > 1:
        return ()
    held = {first_alike(program, each.held.owner) for each in found if isinstance(each.held.owner, tile.LoadOp)}
    brought = {each.brought for each in found}
    kinds = {(each.brought.result.type, each.op.result.type) for each in found}
    return found if len(held) == len(kinds) == 1 and len(brought) == len(found) and not held & brought else ()


def sum_of(op: ContractOp, axes: CascadeAxes) -> tuple[SSAValue | None, SSAValue]:
    """What a product is added to, if the program adds it to one value and uses it for nothing else; and what the sum
    is."""
    uses = users(op.result)
    if len(uses) == 1 and isinstance(uses[0], tile.BinaryOp) and uses[0].function.data is Function.ADD:
        total = uses[0]
        other = total.right if bare(total.left) is op.result else total.left
        # What only repeats a value of fewer axes is no fragment that an accumulator could begin as.
        fits = value_type(other).axis_names and axes.kept(bare(other)) == axes.kept(op.result)
        if fits and total.parent is op.parent and not _comes_later(other, op):
            return other, total.result
    return None, op.result


def corrected_sum(op: ContractOp, axes: CascadeAxes) -> SSAValue | None:
    """What a product is added to, where that is a sum times a number of each row, as where an extreme is followed."""
    other, _ = sum_of(op, axes)
    owner = None if other is None else bare(other).owner
    if not isinstance(owner, tile.BinaryOp) or owner.function.data is not Function.MUL:
        return None
    return bare(owner.result) if any(axes.kept(bare(each)) <= {axes.row} for each in owner.operands) else None


def carried_sum(product: Product, axes: CascadeAxes) -> int | None:
    """Which value of its walk a product is added to, where that begins at 0 and nothing else is done with it while the
    axis is walked; None of any other product."""
    loop = product.op.parent_op()
    if not isinstance(loop, tile.LoopOp) or product.op.axis.data != axes.streamed:
        return None
    other, total = sum_of(product.op, axes)
    end = loop.body.block.last_op
    arguments: list[SSAValue] = list(loop.body.block.args[1:])
    if other is None or bare(other) not in arguments or not isinstance(end, tile.YieldOp):
        return None
    number = arguments.index(bare(other))
    start = loop.carried[number].owner
    begins = isinstance(start, tile.FullOp) and start.value.value.data == 0.0
    alone = len(users(arguments[number])) == 1 and users(total) == [end] and end.values[number] is total
    return number if begins and alone else None


def _comes_later(other: SSAValue, op: ContractOp) -> bool:
    """Whether the other side of a sum is a product behind `op`, or computed of one: of two, the later one begins as the
    first, or each as 0."""
    block = op.parent
    assert block is not None
    made = (each.owner for each in computed_of(other, block))
    return any(isinstance(each, ContractOp) and each.parent is block and op.is_before_in_block(each) for each in made)


def load_number(program: tile.ProgramOp, load: tile.LoadOp) -> int:
    """A load's number among the program's, by which decisions name it."""
    return loads(program).index(load)


@dataclass(frozen=True, slots=True)
class MapDimensions:
    """Dimensions of the array that a load reads, as a tensor map has them: along which elements are contiguous, of the
    rows of a box, and the others, the innermost first."""

    inner: Dimension
    outer: Dimension
    further: tuple[Dimension, ...]

    @property
    def own_axes(self) -> tuple[str, ...]:
        """Of the array."""
        return tuple(each.axis for each in (self.inner, self.outer, *self.further))

    def strides_bytes(self, element_bytes: int) -> tuple[int, ...]:
        """Of all dimensions but the innermost. A single element is apart from no other: any stride describes it."""
        apart = [(each.extent, each.stride * element_bytes) for each in (self.outer, *self.further)]
        return tuple(-(-size // RUN_BYTES) * RUN_BYTES if extent == 1 else size for extent, size in apart)


def map_dimensions(load: tile.LoadOp, axes: CascadeAxes) -> MapDimensions | None:
    """The dimensions of a load that a box has two axes of: one along which its array is contiguous, and another one or
    places in blocks of one. None for others."""
    listed = _in_line(read_dimensions(load.tensor), axes)
    spread = [each for each in listed if _extends(each.where, axes)]
    dense = [each for each in listed if each.stride == 1]
    if len(spread) != 2 or not dense or dense[-1] not in spread or not isinstance(dense[-1].where, Direct):
        return None
    inner = dense[-1]
    (outer,) = (each for each in spread if each is not inner)
    return MapDimensions(inner, outer, tuple(each for each in reversed(listed) if each not in (inner, outer)))


def innermost_of_copy(load: tile.LoadOp, axes: CascadeAxes) -> str:
    """The axis along which a copy of an array is contiguous where its own order leads along none that a tile extends
    along, such as that of a batch: of these the one of the narrowest stride; "" where it does along one."""
    if map_dimensions(load, axes) is not None:
        return ""
    kind = read_type(load.tensor)
    apart = kind.stride_elements if isinstance(kind, TensorType) else (1,) * len(kind.axis_names)
    strides = dict(zip(kind.axis_names, apart, strict=True))
    # Of equal ones the last: reads of the copying kernel run along the narrowest stride.
    spread = [axis for axis in reversed(kind.axis_names) if base_axis(axis) not in axes.batch]
    nearest = min(spread, key=lambda axis: strides[axis] or math.inf, default="")
    return nearest if nearest and block_size(nearest) == 1 else ""


def _in_line(listed: Sequence[Dimension], axes: CascadeAxes) -> list[Dimension]:
    """Dimensions with those of groups that stand apart and of their rows as one."""
    found = list(listed)
    if axes.pitch and [each.where for each in found[:2]] == [Direct(axes.group), Direct(axes.row)]:
        groups, rows = found[:2]
        found[:2] = [replace(rows, extent=(groups.extent - 1) * axes.pitch + rows.extent)]
    return found


def _extends(where: Where, axes: CascadeAxes) -> bool:
    """Whether a tile extends along the axis that a dimension is read at, itself, in blocks or within them."""
    return not isinstance(where, Table) and base_axis(where.axis) not in axes.batch


def axis_of(where: Where) -> str:
    """The axis that a dimension is read along; "" where a table says."""
    return "" if isinstance(where, Table) else where.axis


def multiplied_loads(program: tile.ProgramOp, axes: CascadeAxes) -> tuple[tile.LoadOp, ...]:
    """The loads that are operands of products as they are, each once."""
    found: dict[tile.LoadOp, None] = {}
    for product in products_of(program):
        held = product.held.owner
        if product.op.axis.data != axes.streamed and isinstance(held, tile.LoadOp):
            found[held] = None
        found[product.brought] = None
    return tuple(found)


def rows_loaded(program: tile.ProgramOp, axes: CascadeAxes) -> tuple[tile.LoadOp, ...]:
    """The loads of 16-bit rows along the streamed axis, which threads may read out of shared memory; of those that are
    alike, the first."""
    return tuple(dict.fromkeys(first_alike(program, load) for load in loads(program) if _is_of_rows(load, axes)))


def _is_of_rows(load: tile.LoadOp, axes: CascadeAxes) -> bool:
    dense = [each.where for each in read_dimensions(load.tensor) if each.stride == 1]
    along = any(isinstance(where, Direct) and base_axis(where.axis) == axes.streamed for where in dense)
    kept = set(axes.kept(load.result))
    by_blocks = any(isinstance(use.operation, WalkedBlockOp) for use in load.result.uses)
    narrow = read_type(load.tensor).element_kind.bytes == 2 and not by_blocks
    return kept == {axes.row, axes.streamed} and along and narrow


def loads_of_walk(
    loop: tile.LoopOp, products: Sequence[Product], brought: Collection[tile.LoadOp]
) -> dict[tile.LoadOp, int]:
    """The loads that go through shared memory and that a walk needs: how many of its products and reads of its own do,
    of each. brought: those that go through shared memory."""
    found: dict[tile.LoadOp, int] = {}
    inside = set(loop.body.block.ops)
    for product in products:
        if product.op in inside:
            sides = [product.brought]
            if isinstance(product.held.owner, tile.LoadOp) and product.op.axis.data != loop.axis.data:
                sides.append(product.held.owner)
            for load in sides:
                found[load] = found.get(load, 0) + 1
    program = loop.parent_op()
    assert isinstance(program, tile.ProgramOp)
    for op in inside:
        first = first_alike(program, op) if isinstance(op, tile.LoadOp) else None
        if first is not None and first in brought and first not in found:
            found[first] = 1
    return found


def is_resident(load: tile.LoadOp) -> bool:
    """Whether a load stands outside the loops, and so does not change as the streamed axis is walked."""
    return not isinstance(load.parent_op(), tile.LoopOp)
