"""How operations on handles become ops: the tracer that stands behind `language` while a kernel's body runs.

Theory: handles stand for SSA values (`recorder`). Accumulators are the one mutable handle: the first `+=` in a loop
makes the accumulator a carried value of that loop, the loop's end makes it the loop's result. What the dialect's own
rules refuse is reported at the author's line, which every op carries; so the rules stand in one place, `ir.tile` and
`ir.tile.rules`.

Not handled: Python control flow on tiles, loops in loops, kernels calling kernels.
Checked by tests/frontends/test_tile_trace.py and test_tile_errors.py.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.transforms.dead_code_elimination import dce
from xdsl.utils.exceptions import VerifyException

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.size import Range
from tilewright.frontends.tile.habits import index_remedy
from tilewright.frontends.tile.handles import (
    Accumulator,
    Expression,
    Groups,
    Index,
    Product,
    Remainder,
    TensorHandle,
    Tile,
    Within,
)
from tilewright.frontends.tile.kernel import Kernel, Parameter, nearest_name
from tilewright.frontends.tile.loop_form import in_loop_form
from tilewright.frontends.tile.recorder import Recorder, Scope, span_of
from tilewright.frontends.tile.shapes import element_name
from tilewright.ir.function import Function
from tilewright.ir.tile.axes import MOST_BLOCK_ELEMENTS, base_axis, block_axis, covers, derived_extent
from tilewright.ir.tile.contract import ContractOp, contracted_axes
from tilewright.ir.tile.gather import GatherOp, remainder_place, table_place
from tilewright.ir.tile.operations import (
    BinaryOp,
    BlockOp,
    DotOp,
    FullOp,
    GridOp,
    GroupingKind,
    LoadOp,
    LoopOp,
    ProgramOp,
    ReturnOp,
    SelectOp,
    ShiftOp,
    StoreOp,
    TransposeOp,
    UnaryOp,
    YieldOp,
)
from tilewright.ir.tile.product import check_contraction, check_scale, product_type
from tilewright.ir.tile.reduce import ArgReduceOp, ReduceOp
from tilewright.ir.tile.repeats import untransposed
from tilewright.ir.tile.rules import violations
from tilewright.ir.tile.types import ELEMENT_TYPES, MAX_RANK, IndexType, TensorType, axes_text, tensor_type, value_type


@dataclass(frozen=True, slots=True)
class _Factors:
    """What a product is of, and where it was written."""

    left: SSAValue
    right: SSAValue
    scales: tuple[SSAValue, ...]
    place: str


class KernelTracer(Recorder):
    """Implements `handles.Tracer` for one run of one kernel."""

    def __init__(
        self, kernel: Kernel, types: Mapping[str, TensorType], extents: Mapping[str, int], ranges: Mapping[str, Range]
    ) -> None:
        """types: of the parameters; extents: of every axis, the largest of one that only a launch knows; ranges: of
        these."""
        block = Block(arg_types=list(types.values()))
        super().__init__(block)
        self.kernel = kernel
        self.extents = extents
        self.ranges = ranges
        self.tensors: dict[str, SSAValue] = {}
        self.products: dict[Product, _Factors] = {}
        self.pending: dict[Product, str] = {}
        self.grid_indices: tuple[Index, ...] = ()
        for parameter, argument in zip(kernel.parameters, block.args, strict=True):
            argument.name_hint = parameter.name
            self.tensors[parameter.name] = argument

    def tensor(self, parameter: Parameter) -> TensorHandle:
        return TensorHandle(self, parameter.name)

    def tile(self, value: SSAValue) -> Tile:
        handle = Tile(self)
        self.bind(handle, value)
        return handle

    # ------------------------------------------------------------ structure

    def axes(self, names: tuple[object, ...]) -> tuple[Index, ...]:
        listed: list[object] = []
        for name in names:
            listed += name.split() if isinstance(name, str) else [name]
        if not listed:
            self.refuse("tw.axes names no axis", 'name the axes, as in tw.axes("M N K")')
        return self.grid(tuple(listed))

    def grid(self, axes: tuple[object, ...]) -> tuple[Index, ...]:
        if self.grid_indices:
            self.refuse("the kernel calls tw.grid or tw.axes twice", "call one of them once, at the start")
        names: list[str] = []
        groupings: list[tuple[GroupingKind, str, SSAValue]] = []
        for axis in axes:
            match axis:
                case Groups(group, ragged, ends):
                    bounds = self._bounds("tw.group", ends)
                    if tensor_type(bounds).axis_names != (self._axis(group),):
                        self.refuse(
                            f"the groups {group} end at a tensor over {axes_text(tensor_type(bounds).axis_names)}",
                            f"give a tensor over ({group}), with the end of each group",
                        )
                    names += [self._axis(group), self._axis(ragged)]
                    groupings.append(("consecutive", self._axis(ragged), bounds))
                case Within(ragged, counts):
                    names.append(self._axis(ragged))
                    groupings.append(("within", self._axis(ragged), self._bounds("tw.within", counts)))
                case _:
                    names.append(self._axis(axis))
        if len(groupings) > 1:
            self.refuse("the grid has more than one tw.group or tw.within", "limit one axis by groups")
        op = self.record(GridOp(names, self.place(), groupings[0] if groupings else None))
        handles: list[Index] = []
        for axis, value in zip(op.axis_names, op.indices, strict=True):
            value.name_hint = axis
            handle = Index(self, axis)
            self.bind(handle, value)
            handles.append(handle)
        self.grid_indices = tuple(handles)
        return self.grid_indices

    def _bounds(self, what: str, tensor: object) -> SSAValue:
        if not isinstance(tensor, TensorHandle) or tensor.tracer is not self:
            self.refuse(f"{what} of {tensor!r}", "give it a parameter of the kernel, a tensor of i32")
        bounds = self.tensors[tensor.name]
        if tensor_type(bounds).element_kind is not Element.S32 or len(tensor_type(bounds).axis_names) != 1:
            self.refuse(
                f"{what} of {tensor.name}, a tensor of {tensor_type(bounds).element_kind.value} over "
                f"{axes_text(tensor_type(bounds).axis_names)}",
                f'declare it with one integer per group, as in {tensor.name}: tw.Tensor["G", tw.i32]',
            )
        return bounds

    def _axis(self, axis: object) -> str:
        if not isinstance(axis, str):
            self.refuse(f"{axis!r} is no axis name", 'write it in quotes, as in "M"')
        if axis in self.kernel.block_axes:
            self.refuse(f"{axis} names blocks of {base_axis(axis)}", f"name {base_axis(axis)}, and divide its index")
        if axis not in self.kernel.axes:
            self.refuse(f"kernel {self.kernel.name} has no axis {axis}", nearest_name(axis, self.kernel.axes))
        return axis

    def begin_loop(self, axis: object) -> Index:
        name = self._axis(axis)
        if not self.grid_indices:
            self.refuse("a loop comes before tw.grid", "call tw.grid first")
        if len(self.scopes) > 1:
            outer = self.scopes[-1]
            self.refuse(
                f"a loop over {name} inside the loop over {outer.axis}, which is nested or was left by break",
                "write one loop after the other; leave loops only at their end",
            )
        if name in [index.axis for index in self.grid_indices]:
            self.refuse(f"the loop runs over {name}, an axis of the grid", "loop over an axis to contract")
        block = Block(arg_types=[IndexType.of(name)])
        block.args[0].name_hint = name
        self.scopes.append(Scope(self.scope_count, block, name, self.place()))
        self.scope_count += 1
        handle = Index(self, name)
        self.bind(handle, block.args[0])
        return handle

    def end_loop(self) -> None:
        scope = self.scopes.pop()
        initial = [scope.carried[accumulator] for accumulator in scope.carried]
        final = [self.bound[accumulator].value for accumulator in scope.carried]
        scope.block.add_op(YieldOp(final))
        loop = LoopOp(scope.axis, initial, Region(scope.block), scope.place)
        try:
            loop.verify_()
        except VerifyException as violation:
            self.refuse_violation(violation, scope.place)
        self.scopes[-1].block.add_op(loop)
        for accumulator, output in zip(scope.carried, loop.outputs, strict=True):
            output.name_hint = "acc"
            self.bind(accumulator, output)

    def shift(self, index: Index, offset: object) -> Index:
        if isinstance(offset, bool) or not isinstance(offset, numbers.Integral):
            self.refuse(f"an index is displaced by {offset!r}", "displace it by a whole number of elements")
        offset = int(offset)
        value = self.resolve(index)
        self.refuse_group(value, f"the index of the group along {index.axis} is displaced")
        if isinstance(value.owner, ShiftOp):
            offset += value.owner.offset.value.data
            value = value.owner.index
        if not -(2**31) < offset < 2**31:
            self.refuse(f"an index is displaced by {offset} elements", "stay within 2^31")
        handle = Index(self, index.axis)
        self.bind(handle, value if offset == 0 else self.build(ShiftOp, value, offset).result)
        return handle

    def divide(self, index: Index, size: object) -> Index:
        if not isinstance(size, int) or isinstance(size, bool) or not 2 <= size < MOST_BLOCK_ELEMENTS:
            self.refuse(f"an index is divided by {size!r}", "divide it by a whole number of elements, 2 or more")
        value = self.resolve(index)
        self.refuse_group(value, f"the index of the group along {index.axis} is divided")
        handle = Index(self, block_axis(index.axis, size))
        self.bind(handle, self.build(BlockOp, value, size).result)
        return handle

    def remainder(self, index: Index, size: object) -> Remainder:
        if not isinstance(size, int) or isinstance(size, bool) or not 2 <= size < MOST_BLOCK_ELEMENTS:
            self.refuse(f"{index.axis} % {size!r}", "give the elements of a block, a whole number, 2 or more")
        value = self.resolve(index)
        self.refuse_group(value, f"the index of the group along {index.axis} is divided")
        if isinstance(value.owner, ShiftOp) or base_axis(index.axis) != index.axis:
            what = "a displaced index" if isinstance(value.owner, ShiftOp) else f"the index of blocks {index.axis}"
            self.refuse(f"the place of {what} in blocks of {size}", "take it of the index of an axis as it is")
        return Remainder(self, index, size)

    # ------------------------------------------------------------ memory

    def _indices(self, indices: object) -> list[SSAValue]:
        listed = cast("tuple[object, ...]", indices) if isinstance(indices, tuple) else (indices,)
        values: list[SSAValue] = []
        for index in listed:
            if isinstance(index, Expression | Remainder):
                self.refuse(
                    "a tile of numbers is used as an index of a store", "store at the grid's indices as they are"
                )
            if not isinstance(index, Index):
                self.refuse(f"{index!r} is no index", index_remedy(index))
            values.append(self.resolve(index))
        return values

    def load(self, tensor: TensorHandle, indices: object) -> Tile:
        source = self.tensors[tensor.name]
        listed = cast("tuple[object, ...]", indices) if isinstance(indices, tuple) else (indices,)
        if any(isinstance(each, Expression | Remainder) for each in listed):
            return self._gathered(source, listed)
        return self.tile(self.build(LoadOp, source, self._indices(listed)).result)

    def _gathered(self, source: SSAValue, listed: tuple[object, ...]) -> Tile:
        """A load at places that tensors of integers say, or that are places in blocks."""
        places: list[str] = []
        tables: list[SSAValue] = []
        indices: dict[str, SSAValue] = {}
        for each in listed:
            match each:
                case Remainder():
                    places.append(remainder_place(each.axis, each.size))
                    indices[each.axis] = self.resolve(each.index)
                case Expression():
                    load = self._table(each)
                    places.append(table_place(len(tables)))
                    tables.append(load.tensor)
                    indices |= self._by_axes(load.indices)
                case _:
                    value, *_ = self._indices((each,))
                    if not isinstance(value.type, IndexType) or isinstance(value.owner, ShiftOp):
                        self.refuse(
                            "a displaced index, or one of a group, beside places that integers say",
                            "gather at indices as they are",
                        )
                    places.append(value.type.axis.data)
                    indices |= self._by_axes([value])
        named = tuple(indices)
        for axis in named:
            # Blocks of one size stay blocks; what is read by several, or within them, is read element by element.
            if any(base_axis(other) == base_axis(axis) and other != axis for other in named):
                value = indices.pop(axis)
                indices[base_axis(axis)] = value.owner.index if isinstance(value.owner, BlockOp) else value
        axes = self._in_order(indices)
        gather = self.build(GatherOp, source, tables, places, axes)
        return self.tile(self.build(LoadOp, gather.result, [indices[axis] for axis in axes]).result)

    def _by_axes(self, indices: Iterable[SSAValue]) -> dict[str, SSAValue]:
        return {each.type.axis.data: each for each in indices if isinstance(each.type, IndexType)}

    def _table(self, expression: Expression) -> LoadOp:
        """The load of a tensor of integers that a tile used as an index is."""
        value = self.resolve(expression)
        owner = value.owner
        if not isinstance(owner, LoadOp) or isinstance(owner.tensor.owner, GatherOp):
            self.refuse(
                "a tile of numbers is used as an index",
                "load a tensor of tw.i32 there, as it is: x[rows[i], j]; an index is displaced by whole numbers, as in "
                "x[i + 1, j], and divided into blocks, as in x[i // 8, j]",
            )
        if tensor_type(owner.tensor).element_kind is not Element.S32:
            self.refuse(
                f"a tile of {tensor_type(owner.tensor).element} is used as an index", "load a tensor of tw.i32 there"
            )
        if any(isinstance(each.owner, ShiftOp) or not isinstance(each.type, IndexType) for each in owner.indices):
            self.refuse(
                "a tensor of integers is loaded at a displaced index, or in a group, to be an index",
                "load it at indices as they are",
            )
        return owner

    def store(self, tensor: TensorHandle, indices: object, value: object) -> None:
        target = self.tensors[tensor.name]
        type_ = tensor_type(target)
        if len(self.scopes) > 1:
            self.refuse(
                f"{tensor.name} is stored inside the loop over {self.scopes[-1].axis}, once per tile of it",
                "store after the loop, which ends by itself, not by break",
            )
        where = self._indices(indices)
        stored = self.value_of(value)
        if type_.element_kind not in (*ELEMENT_TYPES, value_type(stored).element_kind):
            what = "factors" if type_.element_kind.is_factor else "integers"
            self.refuse(
                f"a tile of {value_type(stored).element} is stored to {tensor.name}, a tensor of {what}",
                "store to a tensor of floats; integers come from tw.argmax and tw.argmin",
            )
        found, wanted = value_type(stored).axis_names, type_.axis_names
        # Two axes in the other order are the author's to transpose: it may be a slip, as it would be in NumPy.
        if set(found) < set(wanted) or (set(found) == set(wanted) and len(wanted) > 2):
            stored = self.broadcast(stored, wanted)
        # The cast comes last, so that it alone is the store's rounding.
        self.build(StoreOp, self.converted(stored, type_.element_kind), target, where)

    # ------------------------------------------------------------ products

    def zeros(self, indices: tuple[object, ...]) -> Accumulator:
        if len(self.scopes) > 1:
            self.refuse("tw.zeros inside a loop", "make the accumulator before the loop")
        if not indices:
            self.refuse("tw.zeros without indices", "write tw.zeros(i, j), i and j from tw.grid")
        axes: list[str] = []
        for index in indices:
            if not isinstance(index, Index) or not any(index is each for each in self.grid_indices):
                self.refuse(
                    "tw.zeros takes the grid's indices as they are", "write tw.zeros(i, j), i and j from tw.grid"
                )
            self.refuse_group(self.resolve(index), f"tw.zeros over the groups {index.axis}, of which a program has one")
            axes.append(index.axis)
        accumulator = Accumulator(self)
        self.bind(accumulator, self.build(FullOp, 0.0, tuple(axes)).result)
        return accumulator

    def dot(self, left: object, right: object) -> Product:
        for operand in (left, right):
            if isinstance(operand, numbers.Real):
                self.refuse(f"tw.dot of the number {operand!r}", "multiply by numbers with *, on the accumulator")
        if len(self.scopes) == 1:
            self.refuse(
                "tw.dot outside a loop does not say what it sums over",
                "name the axis, as in tw.dot(x, y, over=k), or write `acc += tw.dot(x, y)` in a loop",
            )
        left_value, right_value = self.value_of(left), self.value_of(right)
        try:
            product_type(value_type(left_value), value_type(right_value))
            check_contraction(value_type(left_value), self.scopes[-1].axis)
        except VerifyException as violation:
            self.refuse_violation(violation)
        return self._product(_Factors(left_value, right_value, (), self.place()))

    def contract(self, left: object, right: object, over: object) -> Tile:
        for operand in (left, right):
            if isinstance(operand, numbers.Real):
                self.refuse(f"tw.dot of the number {operand!r}", "multiply by numbers with *")
        axis = self._summed_axis(over, "a product")
        if len(self.scopes) > 1:
            self.refuse(
                f"a product summed over {axis} inside a loop",
                f"compute it outside the loop, or loop over {axis} and leave out `over`",
            )
        values = [self.value_of(operand) for operand in (left, right)]
        try:
            axes = contracted_axes(value_type(values[0]), value_type(values[1]), axis)
        except VerifyException as violation:
            self.refuse_violation(violation)
        # Axes meet by name: which way an operand lies says nothing.
        sides = map(untransposed, values)
        return self.tile(self.build(ContractOp, *sides, axis, self._in_order(axes)).result)

    def _in_order(self, axes: Iterable[str]) -> tuple[str, ...]:
        """Axes in the grid's order, blocks of an axis in its place; a loop's last."""
        grid = [*(index.axis for index in self.grid_indices), *(scope.axis for scope in self.scopes[1:])]
        return tuple(sorted(axes, key=lambda axis: (grid.index(base_axis(axis)), axis)))

    def _product(self, factors: _Factors) -> Product:
        product = Product(self)
        self.products[product] = factors
        self.pending[product] = factors.place
        self.bind(product, factors.left)
        return product

    def scale(self, product: Product, scale: object) -> Product:
        self.resolve(product)
        if isinstance(scale, Product):
            self.refuse("a product is multiplied by a product", "write `acc += tw.dot(x, y)` for each")
        value = self.widened(self.value_of(scale))
        factors = self.products[product]
        try:
            check_scale(value_type(factors.left), value_type(factors.right), value_type(value))
        except VerifyException as violation:
            self.refuse_violation(violation)
        self.pending.pop(product, None)
        return self._product(replace(factors, scales=(*factors.scales, value)))

    def accumulate(self, accumulator: Accumulator, product: object) -> None:
        if self.bound.get(accumulator) is None:
            self.refuse("this accumulator belongs to another kernel", "make it with tw.zeros in this kernel")
        if len(self.scopes) == 1:
            self.refuse("`+=` on an accumulator outside a loop", "write `acc = acc + tile`")
        if not isinstance(product, Product):
            self.refuse(
                "an accumulator takes only products, whose sum does not depend on the size of tiles",
                "write `acc += tw.dot(x, y)`, once per product, and add other tiles after the loop",
            )
        self.resolve(product)
        factors = self.products[product]
        self.pending.pop(product, None)
        scope = self.scopes[-1]
        if accumulator not in scope.carried:
            outer = self.bound[accumulator].value
            scope.carried[accumulator] = outer
            argument = scope.block.insert_arg(outer.type, len(scope.block.args))
            argument.name_hint = "acc"
            self.bind(accumulator, argument)
        held = self.bound[accumulator].value
        op = self.record(DotOp(factors.left, factors.right, held, factors.place, factors.scales))
        self.bind(accumulator, op.result)

    # ------------------------------------------------------------ elementwise

    def unary(self, function: Function, operand: object) -> Tile:
        if isinstance(operand, numbers.Real):
            self.refuse(f"tw.{function.value} of the number {operand!r}", "use Python's math on numbers")
        return self.tile(self.build(UnaryOp, function, self.widened(self.value_of(operand))).result)

    def binary(self, function: Function, left: object, right: object) -> Tile:
        if isinstance(left, numbers.Real) and isinstance(right, numbers.Real):
            self.refuse(f"{function.value} of two numbers", "compute it in Python")
        if Function.ADD is function and (isinstance(left, Product) or isinstance(right, Product)):
            self.refuse(
                "tw.dot is added to something other than an accumulator's `+=`",
                "write `acc += tw.dot(x, y)` in the loop, with acc from tw.zeros",
            )
        values = [self.widened(self.value_of(operand)) for operand in (left, right)]
        axes = self._joined_axes(*(value_type(value).axis_names for value in values))
        first, second = (self.broadcast(value, axes) for value in values)
        return self.tile(self.build(BinaryOp, function, first, second).result)

    def select(self, condition: object, chosen: object, other: object) -> Tile:
        if isinstance(condition, numbers.Real):
            self.refuse(f"tw.where of the condition {condition!r}", "compare tiles or indices, or use Python's if")
        values = [self.widened(self.value_of(operand)) for operand in (condition, chosen, other)]
        axes = value_type(values[0]).axis_names
        for value in values[1:]:
            axes = self._joined_axes(axes, value_type(value).axis_names)
        return self.tile(self.build(SelectOp, *(self.broadcast(value, axes) for value in values)).result)

    def _joined_axes(self, left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
        """Axes of the result: those of the operand that has them all, and of two that do those in the grid's order;
        else those of the grid in its order; else left ones first, an axis of elements in the place of its blocks."""
        if all(covers(left, axis) for axis in right):
            return right if set(left) == set(right) and self._only_in_order(right, left) else left
        if all(covers(right, axis) for axis in left):
            return right
        finer = {axis: next((other for other in right if covers((other,), axis)), axis) for axis in left}
        joined = tuple(dict.fromkeys((*finer.values(), *(axis for axis in right if not covers(left, axis)))))
        in_order = tuple(index.axis for index in self.grid_indices if index.axis in joined)
        if len(joined) > MAX_RANK:
            self.refuse(
                f"tiles over {axes_text(left)} and {axes_text(right)} make one of {len(joined)} axes",
                f"use tiles over at most {MAX_RANK} axes together",
            )
        return in_order if len(in_order) == len(joined) else joined

    def _only_in_order(self, axes: tuple[str, ...], others: tuple[str, ...]) -> bool:
        """Whether `axes`, three or more, stand as the program names them, and `others` do not."""
        in_order = tuple(index.axis for index in self.grid_indices if index.axis in axes)
        return len(axes) > 2 and axes == in_order != others

    def _summed_axis(self, over: object, what: str = "a reduction") -> str:
        if not isinstance(over, Index) or not any(over is each for each in self.grid_indices):
            example = "tw.sum(x[i, j], over=j)" if what == "a reduction" else "tw.dot(x[i, k], y[k, j], over=k)"
            self.refuse(f"{what} over {over!r}", f"give an index of tw.axes or tw.grid as it is, as in {example}")
        self.refuse_group(self.resolve(over), f"{what} over the groups {over.axis}, of which a program has one")
        return over.axis

    def reduce(self, function: Function, operand: object, over: object) -> Tile:
        return self._reduced(ReduceOp, function, operand, over)

    def arg_reduce(self, function: Function, operand: object, over: object) -> Tile:
        return self._reduced(ArgReduceOp, function, operand, over)

    def _reduced(self, kind: type[ReduceOp | ArgReduceOp], function: Function, operand: object, over: object) -> Tile:
        if isinstance(operand, numbers.Real):
            self.refuse(f"a reduction of the number {operand!r}", "compute it in Python")
        axis = self._summed_axis(over)
        if len(self.scopes) > 1:
            self.refuse(f"a reduction over {axis} inside a loop", "reduce before the loop or after it")
        return self.tile(self.build(kind, function, self.widened(self.value_of(operand)), axis).result)

    def extent(self, over: object) -> int | None:
        """Elements along an axis that is reduced over; None where only a launch knows that."""
        axis = self._summed_axis(over)
        return None if axis in self.ranges else self.extents[axis]

    def cast(self, operand: object, element: object) -> Tile:
        if not isinstance(element, Element) or element not in ELEMENT_TYPES:
            kinds = "tw.bf16, tw.f16, tw.f32, tw.f8e4m3, tw.f8e5m2 or tw.i8"
            self.refuse(f".to takes no {element_name(element)}", f"use {kinds}")
        return self.tile(self.converted(self.value_of(operand), element))

    def transpose(self, operand: object) -> Tile:
        value = self.value_of(operand)
        if isinstance(value.owner, TransposeOp):
            return self.tile(value.owner.operand)
        return self.tile(self.build(TransposeOp, value).result)

    # ------------------------------------------------------------ the end

    def finish(self, returned: object) -> ModuleOp:
        """The module, once the kernel's body has run. Raises TilewrightError for what the whole program breaks."""
        if len(self.scopes) > 1:
            scope = self.scopes[-1]
            self.refuse(
                f"the loop over {scope.axis} was left by break or return", "leave loops only at their end", scope.place
            )
        if returned is not None:
            raise TilewrightError(
                f"kernel {self.kernel.name} returns a value", span=self.kernel.span, remedy="store it to a tensor"
            )
        for place in self.pending.values():
            self.refuse("the result of tw.dot is not used", "write `acc += tw.dot(x, y)`", place)
        block = self.scopes[0].block
        block.add_op(ReturnOp())
        divided = {each.result.type.axis.data for each in block.ops if isinstance(each, BlockOp)}
        program = ProgramOp(
            self.kernel.name,
            [parameter.name for parameter in self.kernel.parameters],
            {**self.extents, **{axis: derived_extent(axis, self.extents) for axis in sorted(divided)}},
            Region(block),
            f"{self.kernel.file}:{self.kernel.line}",
            self.ranges,
        )
        module = ModuleOp([program])
        dce(module)
        for op, violation in violations(program):
            raise TilewrightError(str(violation), span=span_of(op), remedy=violation.remedy) from violation
        module.verify()
        return in_loop_form(module)
