"""What a tile program computes, in NumPy: the yardstick that compiled kernels are measured against.

Theory: the dialect's rules make a program's meaning blind to the size of tiles, so one tile per axis, the whole axis,
gives the answer: a loop's body runs once and each dot is one matrix product. Of an axis cut into groups, the elements
of one group are its tile, and groups are computed one by one. A loop that the compiler derived visits tiles of the size
that the caller names, since whether its result depends on them is the question there. Values of element f32 are held in
float64 (or float32 on request); `tile.cast` and stores round to narrower elements as the program says, to 8 bits with
saturation. So with float64 the result differs from a kernel's by the kernel's own float32 rounding (of a dot of 8-bit
operands, the tensor core's coarser one) and by at most one rounding of the output. An operand of a contraction that
kernels round as they multiply is exact here.

Not handled: speed and memory; whole arrays are materialized, broadcasts included.
Checked by tests/frontends/test_tile_reference.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike, NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.ir.function import Function
from tilewright.ir.tile.axes import base_axis, block_size, covers, derived_extent
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import (
    Access,
    Grouping,
    access_of,
    axes_of,
    buffers,
    grouping,
    index_offset,
    parameter_name,
    stores,
    the_program,
)
from tilewright.ir.tile.gather import Direct, GatherOp, Remainder, Table
from tilewright.ir.tile.operations import (
    BinaryOp,
    BlockOp,
    BroadcastOp,
    CastOp,
    ConstantOp,
    DotOp,
    FullOp,
    GridOp,
    LoadOp,
    LoopOp,
    PositionOp,
    ProgramOp,
    ReturnOp,
    SelectOp,
    ShiftOp,
    StoreOp,
    TransposeOp,
    UnaryOp,
    YieldOp,
)
from tilewright.ir.tile.reduce import ArgReduceOp, ReduceOp
from tilewright.ir.tile.types import IndexType, read_type, tensor_type, value_type
from tilewright.ir.tile.walked_block import WalkedBlockOp

Array = NDArray[Any]

DTYPES: dict[Element, np.dtype[Any]] = {
    Element.BF16: np.dtype(ml_dtypes.bfloat16),
    Element.F16: np.dtype(np.float16),
    Element.F32: np.dtype(np.float32),
    Element.S32: np.dtype(np.int32),
    Element.F8E4M3: np.dtype(ml_dtypes.float8_e4m3fn),
    Element.F8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    Element.UE8M0: np.dtype(ml_dtypes.float8_e8m0fnu),
    Element.UE4M3: np.dtype(ml_dtypes.float8_e4m3fn),
    Element.F4E2M1X2: np.dtype(np.uint8),
    Element.S8: np.dtype(np.int8),
}
"""The NumPy types of a program's arrays."""
_HALF = np.dtype(ml_dtypes.float4_e2m1fn)
"""Of each half of a pair."""

GELU_SCALE = 0.7978845608028654
"""sqrt(2 / pi)."""
GELU_CUBIC = 0.044715


def evaluate(
    module: ModuleOp,
    arrays: Mapping[str, Array],
    precision: DTypeLike = np.float64,
    *,
    rounded: bool = True,
    held: Mapping[str, Array] | None = None,
    tile_elements: Mapping[str, int] | None = None,
) -> dict[str, Array]:
    """The output tensors by name.

    arrays: every input tensor by name, of the program's shape and element; any strides. They say the extents of
    run-time axes. precision: float64 or float32.
    rounded: give outputs in their tensors' elements; False gives them before the last rounding, for error measures:
    numbers past an element's range are still what its conversion makes of them.
    held: what outputs hold before, by name; zeros where not given. Elements in no group keep it.
    tile_elements: of the tiles that derived loops visit, by axis; the whole axis where not given.
    Raises TilewrightError if arrays are missing, unknown or of the wrong shape or element, for tiles of no elements,
    and for bounds of groups that decrease or leave their axis.
    """
    program = the_program(module)
    inputs = {buffer.name: buffer for buffer in buffers(program) if buffer.role == "input"}
    extents = _extents(program, arrays)
    shapes = {
        name.data: tuple(extents[axis] for axis in tensor_type(argument).axis_names)
        for name, argument in zip(program.parameters, program.body.block.args, strict=True)
    }
    for name in arrays:
        if name not in inputs:
            raise TilewrightError(f"the program has no input {name}", remedy=f"its inputs are {', '.join(inputs)}")
    for name, buffer in inputs.items():
        if name not in arrays:
            raise TilewrightError(f"input {name} is missing", remedy="give an array for it")
        array, shape = arrays[name], shapes[name]
        if array.shape != shape or array.dtype != DTYPES[buffer.element]:
            raise TilewrightError(
                f"input {name} is {array.dtype}{list(array.shape)}, not {DTYPES[buffer.element]}{list(shape)}",
                remedy="give an array of the program's shape and element",
            )
    for axis, elements in (tile_elements or {}).items():
        if elements < 1:
            raise TilewrightError(f"tiles of {elements} elements along {axis}", remedy="give tiles of 1 or more")
    groups = grouping(program)
    stored = [buffer.name for buffer in buffers(program) if buffer.role == "output"]
    results = {name: (held or {}).get(name, np.zeros(shapes[name])) for name in stored}
    evaluator = _Evaluator(arrays, np.dtype(precision), program, extents, rounded, results, tile_elements or {})
    with np.errstate(all="ignore"):
        if groups is None or groups.kind == "within":
            evaluator.run(program.body.block.ops)
        else:
            for group, (begin, end) in enumerate(group_ranges(groups, arrays[groups.bounds], extents)):
                evaluator.enter(groups, group, begin, end)
                evaluator.run(program.body.block.ops)
    return evaluator.outputs


def _extents(program: ProgramOp, arrays: Mapping[str, Array]) -> dict[str, int]:
    """The extents of all axes; those of run-time axes, and of their blocks, as the first array that has one says."""
    known = program.extents
    for axis, values in program.run_time.items():
        for name, argument in zip(program.parameters, program.body.block.args, strict=True):
            axes = tensor_type(argument).axis_names
            if name.data in arrays and axis in axes and arrays[name.data].ndim == len(axes):
                known[axis] = arrays[name.data].shape[axes.index(axis)]
                break
        if known[axis] not in values:
            raise TilewrightError(f"axis {axis} is {known[axis]}, none of {values}", remedy="give arrays of the range")
    return {axis: derived_extent(axis, known) for axis in known}


def group_ranges(groups: Grouping, bounds: Array, extents: Mapping[str, int]) -> list[tuple[int, int]]:
    """(first element, first element past it) of every group along the axis that groups limit.

    Raises TilewrightError for bounds below 0 or above the axis's extent, and for ends that decrease.
    """
    ends = [int(bound) for bound in bounds]
    begins = [0, *ends[:-1]] if groups.kind == "consecutive" else [0] * len(ends)
    extent = extents[groups.ragged]
    for group, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        if not begin <= end <= extent:
            raise TilewrightError(
                f"group {group} of {groups.ragged} runs from {begin} to {end}, of {extent} elements",
                remedy=f"give {groups.bounds} numbers from 0 to {extent}"
                + (", none less than the one before" if groups.kind == "consecutive" else ""),
            )
    return list(zip(begins, ends, strict=True))


def apply(function: Function, *operands: Array) -> Array:
    """An elementwise function on arrays of float32 or float64, in their own precision."""
    return _FUNCTIONS[function](*operands)


class _Evaluator:
    """extents: of every axis, in the group and in the tile of a derived loop at hand; whole: of every axis, all of it;
    begins: the first element of an axis that these limit; picked: the group's number, by its axis; kept: which elements
    of the outputs are in a tile, by name."""

    def __init__(
        self,
        arrays: Mapping[str, Array],
        precision: np.dtype[Any],
        program: ProgramOp,
        extents: dict[str, int],
        rounded: bool,
        held: Mapping[str, Array],
        tile_elements: Mapping[str, int],
    ) -> None:
        self.arrays = arrays
        self.program = program
        self.whole = dict(extents)
        self.precision = precision
        self.extents = extents
        self.tile_elements = tile_elements
        self.begins: dict[str, int] = {}
        self.picked: dict[str, int] = {}
        self.rounded = rounded
        self.values: dict[SSAValue, Array] = {}
        self.outputs: dict[str, Array] = {}
        self.kept: dict[str, Array] = {}
        groups = grouping(program)
        for buffer in buffers(program):
            if buffer.role == "output":
                dtype = DTYPES[buffer.element] if rounded else self.precision
                self.outputs[buffer.name] = held[buffer.name].astype(dtype)
        if groups is not None and groups.kind == "within":
            ranges = group_ranges(groups, arrays[groups.bounds], extents)
            counts = np.array([end for _, end in ranges])
            inside = np.arange(extents[groups.ragged]) < counts[:, None]
            for store in stores(program):
                axes = access_of(store).axes
                self.kept[access_of(store).tensor] = self.spread(inside, (groups.group, groups.ragged), axes)

    def enter(self, groups: Grouping, group: int, begin: int, end: int) -> None:
        """Compute in this group from now on: elements begin to end - 1 of the axis it limits."""
        self.extents[groups.ragged] = end - begin
        self.begins[groups.ragged] = begin
        self.picked[groups.group] = group

    def spread(self, array: Array, source: tuple[str, ...], target: tuple[str, ...]) -> Array:
        """A tile over the axes `source` as one over `target`, which covers them: blocks are repeated for their
        elements, and missing axes have extent 1."""
        places = [next(place for place, axis in enumerate(target) if covers((axis,), name)) for name in source]
        order = sorted(range(len(source)), key=places.__getitem__)
        result = array.transpose(order)
        for position, number in enumerate(order):
            name, axis = source[number], target[places[number]]
            if name != axis:
                elements = self.begins.get(axis, 0) + np.arange(self.extents[axis])
                result = result.take(elements // block_size(name), axis=position)
        shape = [1] * len(target)
        for position, number in enumerate(order):
            shape[places[number]] = result.shape[position]
        return result.reshape(shape)

    def positions(self, index: SSAValue) -> Array:
        """The numbers of an index's elements, within the whole axis."""
        assert isinstance(index.type, IndexType)
        axis = index.type.axis.data
        first, extent = self.begins.get(base_axis(axis), 0), self.extents[axis]
        return (np.arange(extent) + first + index_offset(index)).astype(self.precision)

    def product(self, op: DotOp) -> Array:
        """left times right, each block of the contracted axis times its scales."""
        total = np.zeros((), self.precision)
        for left, right in zip(self.numbers(op.left), self.numbers(op.right), strict=True):
            total = total + self.scaled(op, left, right)
        return total

    def numbers(self, value: SSAValue) -> list[Array]:
        """Of a value the numbers, of pairs each half's."""
        array = self.values[value]
        if not value_type(value).element_kind.is_pair:
            return [array.astype(self.precision)]
        return [(array >> shift & 15).astype(np.uint8).view(_HALF).astype(self.precision) for shift in (0, 4)]

    def scaled(self, op: DotOp, left: Array, right: Array) -> Array:
        """One product of numbers, each block of the contracted axis times its scales."""
        if not op.scales:
            return left @ right
        axes, extent = axes_of(op.result), self.extents[op.contracted]
        sizes = [block_size(axis) for scale in op.scales for axis in axes_of(scale) if base_axis(axis) == op.contracted]
        step = math.gcd(*sizes)
        total = np.zeros((), self.precision)
        for begin in range(0, extent, step):
            part = left[..., begin : begin + step] @ right[..., begin : begin + step, :]
            for scale in op.scales:
                named = axes_of(scale)
                along = next(place for place, axis in enumerate(named) if base_axis(axis) == op.contracted)
                values = self.values[scale].take(begin // block_size(named[along]), axis=along)
                part = part * self.spread(values, (*named[:along], *named[along + 1 :]), axes)
            total = total + part
        return total

    def contracted(self, op: ContractOp) -> Array:
        """left times right, summed over an axis: a product of matrices for each place along the axes of both."""
        wanted, summed = axes_of(op.result), op.axis.data
        total = np.zeros((), self.precision)
        for left, right in zip(self.numbers(op.left), self.numbers(op.right), strict=True):
            sides = [self.elements(*side, (*wanted, summed)) for side in ((op.left, left), (op.right, right))]
            total = total + self.multiplied(wanted, summed, *sides)
        return total

    def multiplied(
        self, wanted: tuple[str, ...], summed: str, one: tuple[Array, tuple[str, ...]],
        other: tuple[Array, tuple[str, ...]],
    ) -> Array:  # fmt: skip
        """The same of numbers, each with their axes."""
        (left, left_axes), (right, right_axes) = one, other
        batch = [axis for axis in wanted if axis in left_axes and axis in right_axes]
        rows = [axis for axis in wanted if axis not in right_axes]
        columns = [axis for axis in wanted if axis not in left_axes]
        places, count = [self.extents[axis] for axis in batch], self.extents[summed]
        matrices = left.transpose([left_axes.index(axis) for axis in (*batch, *rows, summed)])
        others = right.transpose([right_axes.index(axis) for axis in (*batch, summed, *columns)])
        height, width = (math.prod(self.extents[axis] for axis in side) for side in (rows, columns))
        product = matrices.reshape(*places, height, count) @ others.reshape(*places, count, width)
        made = (*batch, *rows, *columns)
        return product.reshape([self.extents[axis] for axis in made]).transpose([made.index(axis) for axis in wanted])

    def elements(self, value: SSAValue, numbers: Array, within: tuple[str, ...]) -> tuple[Array, tuple[str, ...]]:
        """A value and its axes, with a number for each element of those among `within` of which it has blocks."""
        axes = tuple(
            axis if axis in within else next(finer for finer in within if covers((finer,), axis))
            for axis in axes_of(value)
        )
        return self.spread(numbers, axes_of(value), axes), axes

    def run(self, ops: Iterable[Operation]) -> None:
        for op in ops:
            self.step(op)

    def held_in(self, element: Element) -> np.dtype[Any]:
        return self.precision if element is Element.F32 else DTYPES[element]

    def step(self, op: Operation) -> None:
        match op:
            case GridOp() | ShiftOp() | BlockOp() | ReturnOp() | YieldOp():
                pass
            case GatherOp():
                self.values[op.result] = self.gathered(op)
            case LoadOp() if op.tensor in self.values:
                self.values[op.result] = self.read_gathered(op)
            case LoadOp():
                access = access_of(op)
                array = _displaced(self.arrays[access.tensor], access.offsets)
                array = array[
                    tuple(
                        self.picked[axis]
                        if axis == access.picked
                        else slice(self.begins[axis], self.begins[axis] + self.extents[axis])
                        if axis in self.begins
                        else slice(None)
                        for axis in access.axes
                    )
                ]
                if array.dtype == DTYPES[Element.S32]:
                    array = array.astype(np.float32)
                if tensor_type(op.tensor).element_kind is Element.UE4M3:
                    array = np.abs(array.astype(np.float32))  # it has no sign
                self.values[op.result] = array.astype(self.held_in(value_type(op.result).element_kind))
            case WalkedBlockOp():
                named, blocks = axes_of(op.operand), op.axis.data
                number = self.begins.get(base_axis(blocks), 0) // block_size(blocks)
                self.values[op.result] = self.values[op.operand].take(number, axis=named.index(blocks))
            case FullOp() | ConstantOp():
                shape = tuple(self.extents[axis] for axis in axes_of(op.result))
                self.values[op.result] = np.full(shape, op.value.value.data, self.precision)
            case BroadcastOp():
                spread = self.spread(self.values[op.operand], axes_of(op.operand), axes_of(op.result))
                full = tuple(self.extents[axis] for axis in axes_of(op.result))
                self.values[op.result] = np.broadcast_to(spread, full)
            case TransposeOp():
                self.values[op.result] = self.values[op.operand].swapaxes(-1, -2)
            case CastOp():
                element = value_type(op.result).element_kind
                self.values[op.result] = converted(self.values[op.operand], element, self.held_in(element))
            case UnaryOp():
                self.values[op.result] = apply(op.function.data, self.values[op.operand])
            case BinaryOp():
                self.values[op.result] = apply(op.function.data, self.values[op.left], self.values[op.right])
            case PositionOp():
                self.values[op.result] = self.positions(op.index)
            case SelectOp():
                operands = (self.values[each] for each in op.operands)
                self.values[op.result] = apply(Function.WHERE, *operands)
            case ReduceOp():
                along = axes_of(op.operand).index(op.axis.data)
                self.values[op.result] = _FOLDS[op.function.data](self.values[op.operand], axis=along)
            case ArgReduceOp():
                along = axes_of(op.operand).index(op.axis.data)
                found = _ARG_FOLDS[op.function.data](self.values[op.operand], axis=along)
                self.values[op.result] = np.asarray(found).astype(DTYPES[Element.S32])
            case ContractOp():
                self.values[op.result] = self.contracted(op)
            case DotOp():
                self.values[op.result] = self.values[op.accumulator] + self.product(op)
            case LoopOp():
                self.loop(op)
            case StoreOp():
                self.store(access_of(op), self.stored(op))
            case _:
                raise TilewrightError(f"the reference does not know {op.name}", remedy="give a traced tile program")

    def gathered(self, op: GatherOp) -> Array:
        """The whole array that a gather makes: element by element what lies where tables say, 0 where that is no
        place."""
        axes = read_type(op.result).axis_names
        shape = tuple(self.whole[axis] for axis in axes)

        def along(name: str) -> Array:
            """The number of each element along an axis, or of the block that it lies in."""
            at = axes.index(name if name in axes else base_axis(name))
            numbers = np.arange(shape[at]) // (1 if name in axes else block_size(name))
            return numbers.reshape([-1 if number == at else 1 for number in range(len(axes))])

        array, inside, places = self.arrays[self.name_of(op.tensor)], np.ones(shape, np.bool_), list[Array]()
        for each in op.dimensions:
            match each.where:
                case Direct(axis):
                    at = along(axis)
                case Remainder(axis, size):
                    at = along(axis) % size
                case Table(table):
                    at = self.arrays[self.name_of(table)][tuple(along(axis) for axis in each.where.axes)]
            inside = inside & (at >= 0) & (at < array.shape[len(places)])
            places.append(np.broadcast_to(at, shape))
        found = array[tuple(np.where(inside, at, 0) for at in places)]
        return np.where(inside, found, np.zeros((), array.dtype))

    def name_of(self, tensor: SSAValue) -> str:
        return parameter_name(self.program, tensor)

    def read_gathered(self, op: LoadOp) -> Array:
        """The tile at hand of what was gathered, whose axes of blocks a derived loop cuts with their elements."""
        array = self.values[op.tensor]
        for number, axis in enumerate(read_type(op.tensor).axis_names):
            begin = self.begins.get(axis, 0)
            if base_axis(axis) in self.begins:
                array = array.take(np.arange(begin, begin + self.extents[axis]), axis=number)
        if array.dtype == DTYPES[Element.S32]:
            array = array.astype(np.float32)
        return array.astype(self.held_in(value_type(op.result).element_kind))

    def loop(self, op: LoopOp) -> None:
        """The body for one tile after the other, with the carried values."""
        block, axis = op.body.block, op.axis.data
        first, extent = self.begins.get(axis), self.extents[axis]
        step = self.tile_elements.get(axis, extent) if op.streamed is not None else extent
        held = [self.values[initial] for initial in op.carried]
        for begin in range(0, extent, max(step, 1)):
            if op.streamed is not None:
                self.begins[axis] = (first or 0) + begin
                self.extents[axis] = min(step, extent - begin)
            self.values.update(zip(block.args[1:], held, strict=True))
            self.run(block.ops)
            last = block.last_op
            assert isinstance(last, YieldOp)
            held = [self.values[final] for final in last.values]
        self.values.update(zip(op.outputs, held, strict=True))
        self.extents[axis] = extent
        if op.streamed is not None:
            self.begins.pop(axis, None)
        if first is not None:
            self.begins[axis] = first

    def store(self, access: Access, value: Array) -> None:
        """Elements outside every group, or outside a derived loop's tile, keep what the output holds."""
        where = tuple(
            slice(self.begins[axis], self.begins[axis] + self.extents[axis]) if axis in self.begins else slice(None)
            for axis in access.axes
        )
        output = self.outputs[access.tensor]
        if access.tensor in self.kept:
            value = np.where(np.broadcast_to(self.kept[access.tensor], output.shape)[where], value, output[where])
        output[where] = value

    def stored(self, op: StoreOp) -> Array:
        element = value_type(op.value).element_kind
        if self.rounded:
            return converted(self.values[op.value], element, DTYPES[element])
        owner = op.value.owner
        behind = owner.operand if isinstance(owner, CastOp) else op.value
        return _in_range(self.values[behind].astype(self.precision), element)


def _in_range(values: Array, element: Element) -> Array:
    """`values` as they are where `element` reaches; past it what a conversion makes of them, which no rounding does."""
    if not element.is_float and element is not Element.S8:
        return values
    limits = cast("Any", ml_dtypes.finfo if element.is_float else ml_dtypes.iinfo)(DTYPES[element])
    reached = (values >= float(limits.min)) & (values <= float(limits.max))
    return np.where(reached, values, converted(values, element, DTYPES[element]).astype(values.dtype))


def converted(values: Array, element: Element, dtype: np.dtype[Any]) -> Array:
    """`values` as numbers of `element`, rounded to nearest even, held in `dtype`. To floats of 8 bits, what is past the
    largest finite number becomes that, an infinity too unless the element has infinities; NaN stays NaN. To integers of
    8 bits, what is past the range becomes its end, and NaN 0."""
    if element is Element.S8:
        return np.nan_to_num(np.clip(np.rint(values), -128, 127), nan=0.0).astype(dtype)
    if not element.is_float8:
        return values.astype(dtype)
    wide = values.astype(np.float64)
    limits = cast("Any", ml_dtypes.finfo)(DTYPES[element])
    largest = float(limits.max)
    keeps = np.isinf(wide) & (element is Element.F8E5M2)
    return np.where(keeps, wide, np.clip(wide, -largest, largest)).astype(dtype)


def _displaced(array: Array, offsets: tuple[int, ...]) -> Array:
    """result[p] = array[p + offset], zero where that is outside."""
    result = np.zeros_like(array)
    source = tuple(slice(max(offset, 0), max(extent + min(offset, 0), 0)) for offset, extent in _zip(offsets, array))
    target = tuple(slice(max(-offset, 0), max(extent - max(offset, 0), 0)) for offset, extent in _zip(offsets, array))
    result[target] = array[source]
    return result


def _zip(offsets: tuple[int, ...], array: Array) -> list[tuple[int, int]]:
    return list(zip(offsets, array.shape, strict=True))


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _comparison(holds: Callable[..., Array]) -> Callable[..., Array]:
    def compared(x: Array, y: Array) -> Array:
        return holds(x, y).astype(x.dtype)

    return compared


def _where(condition: Array, chosen: Array, other: Array) -> Array:
    return np.where(condition != 0, chosen, other)


def _fused(x: Array, y: Array, z: Array) -> Array:
    """x y + z: of float32, rounded once. A product is exact in float64; where its sum with z is not, the last bit is
    set to odd, which a second rounding, to fewer bits, cannot tell from the exact sum."""
    if x.dtype != np.float32:
        return x * y + z
    product, added = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
    total = product + added
    part = total - product
    error = (product - (total - part)) + (added - part)
    bits = np.asarray(total).view(np.int64)
    towards_zero = np.where((error < 0) == (total > 0), bits - 1, bits)
    exact = (error == 0) | ~np.isfinite(total)
    return np.where(exact, bits, towards_zero | 1).view(np.float64).astype(np.float32)


def _relu(x: Array) -> Array:
    return np.maximum(x, np.zeros_like(x))


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(GELU_SCALE * (x + GELU_CUBIC * x * x * x)))


_FUNCTIONS: dict[Function, Callable[..., Array]] = {
    Function.ADD: np.add,
    Function.SUB: np.subtract,
    Function.MUL: np.multiply,
    Function.DIV: np.divide,
    Function.MAX: np.maximum,
    Function.MIN: np.minimum,
    Function.NEG: np.negative,
    Function.ABS: np.abs,
    Function.EXP: np.exp,
    Function.TANH: np.tanh,
    Function.SIGMOID: _sigmoid,
    Function.RELU: _relu,
    Function.GELU: _gelu,
    Function.SILU: _silu,
    Function.SQRT: np.sqrt,
    Function.RSQRT: _rsqrt,
    Function.LOG: np.log,
    Function.ROUND: np.rint,
    Function.LT: _comparison(np.less),
    Function.LE: _comparison(np.less_equal),
    Function.EQ: _comparison(np.equal),
    Function.WHERE: _where,
    Function.EXP2: np.exp2,
    Function.FMA: _fused,
}
_FOLDS: dict[Function, Callable[..., Array]] = {Function.ADD: np.sum, Function.MAX: np.max, Function.MIN: np.min}
_ARG_FOLDS: dict[Function, Callable[..., Array]] = {Function.MAX: np.argmax, Function.MIN: np.argmin}
