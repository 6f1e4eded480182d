"""What a tile program computes, in NumPy: the yardstick that compiled kernels are measured against.

Theory: the dialect's rules make a program's meaning blind to the size of tiles, so one tile per axis, the whole axis,
gives the answer: a loop's body runs once and each dot is one matrix product. Values of element f32 are held in float64
(or float32 on request); `tile.cast` and stores round to bf16 and f16 as the program says. So with float64 the result
differs from a kernel's by the kernel's own float32 rounding and by at most one rounding of the output.

Not handled: speed and memory; whole arrays are materialized, broadcasts included.
Checked by tests/frontends/test_tile_reference.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike, NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.ir.function import Function
from tilewright.ir.tile import (
    BinaryOp,
    BroadcastOp,
    CastOp,
    ConstantOp,
    DotOp,
    FullOp,
    GridOp,
    LoadOp,
    LoopOp,
    ReturnOp,
    ShiftOp,
    StoreOp,
    TransposeOp,
    UnaryOp,
    YieldOp,
)
from tilewright.ir.tile_facts import access_of, axes_of, buffers, the_program
from tilewright.ir.tile_types import value_type

Array = NDArray[Any]

DTYPES: dict[Element, np.dtype[Any]] = {
    Element.BF16: np.dtype(ml_dtypes.bfloat16),
    Element.F16: np.dtype(np.float16),
    Element.F32: np.dtype(np.float32),
}
"""The NumPy types of a program's arrays."""

GELU_SCALE = 0.7978845608028654
"""sqrt(2 / pi)."""
GELU_CUBIC = 0.044715


def evaluate(
    module: ModuleOp, arrays: Mapping[str, Array], precision: DTypeLike = np.float64, *, rounded: bool = True
) -> dict[str, Array]:
    """The output tensors by name.

    arrays: every input tensor by name, of the program's shape and element; any strides. precision: float64 or float32.
    rounded: give outputs in their tensors' elements; False gives them before the last rounding, for error measures.
    Raises TilewrightError if arrays are missing, unknown or of the wrong shape or element.
    """
    program = the_program(module)
    inputs = {buffer.name: buffer for buffer in buffers(program) if buffer.role == "input"}
    for name in arrays:
        if name not in inputs:
            raise TilewrightError(f"the program has no input {name}", remedy=f"its inputs are {', '.join(inputs)}")
    for name, buffer in inputs.items():
        if name not in arrays:
            raise TilewrightError(f"input {name} is missing", remedy="give an array for it")
        array = arrays[name]
        if array.shape != buffer.shape or array.dtype != DTYPES[buffer.element]:
            raise TilewrightError(
                f"input {name} is {array.dtype}{list(array.shape)}, not {DTYPES[buffer.element]}{list(buffer.shape)}",
                remedy="give an array of the program's shape and element",
            )
    evaluator = _Evaluator(arrays, np.dtype(precision), program.extents, rounded)
    with np.errstate(all="ignore"):
        evaluator.run(program.body.block.ops)
    return evaluator.outputs


def apply(function: Function, *operands: Array) -> Array:
    """An elementwise function on arrays of float32 or float64, in their own precision."""
    return _FUNCTIONS[function](*operands)


class _Evaluator:
    def __init__(
        self, arrays: Mapping[str, Array], precision: np.dtype[Any], extents: dict[str, int], rounded: bool
    ) -> None:
        self.arrays = arrays
        self.precision = precision
        self.extents = extents
        self.rounded = rounded
        self.values: dict[SSAValue, Array] = {}
        self.outputs: dict[str, Array] = {}

    def run(self, ops: Iterable[Operation]) -> None:
        for op in ops:
            self.step(op)

    def held_in(self, element: Element) -> np.dtype[Any]:
        return self.precision if element is Element.F32 else DTYPES[element]

    def step(self, op: Operation) -> None:
        match op:
            case GridOp() | ShiftOp() | ReturnOp() | YieldOp():
                pass
            case LoadOp():
                access = access_of(op)
                array = _displaced(self.arrays[access.tensor], access.offsets)
                self.values[op.result] = array.astype(self.held_in(value_type(op.result).element_kind))
            case FullOp() | ConstantOp():
                shape = tuple(self.extents[axis] for axis in axes_of(op.result))
                self.values[op.result] = np.full(shape, op.value.value.data, self.precision)
            case BroadcastOp():
                source, target = axes_of(op.operand), axes_of(op.result)
                known = tuple(self.extents[axis] if axis in source else 1 for axis in target)
                full = tuple(self.extents[axis] for axis in target)
                self.values[op.result] = np.broadcast_to(self.values[op.operand].reshape(known), full)
            case TransposeOp():
                self.values[op.result] = self.values[op.operand].T
            case CastOp():
                self.values[op.result] = self.values[op.operand].astype(
                    self.held_in(value_type(op.result).element_kind)
                )
            case UnaryOp():
                self.values[op.result] = apply(op.function.data, self.values[op.operand])
            case BinaryOp():
                self.values[op.result] = apply(op.function.data, self.values[op.left], self.values[op.right])
            case DotOp():
                left, right = (self.values[side].astype(self.precision) for side in (op.left, op.right))
                self.values[op.result] = self.values[op.accumulator] + left @ right
            case LoopOp():
                self.loop(op)
            case StoreOp():
                access = access_of(op)
                self.outputs[access.tensor] = self.stored(op)
            case _:
                raise TilewrightError(f"the reference does not know {op.name}", remedy="give a traced tile program")

    def loop(self, op: LoopOp) -> None:
        block = op.body.block
        for argument, initial in zip(block.args[1:], op.carried, strict=True):
            self.values[argument] = self.values[initial]
        self.run(block.ops)
        last = block.last_op
        assert isinstance(last, YieldOp)
        for output, final in zip(op.outputs, last.values, strict=True):
            self.values[output] = self.values[final]

    def stored(self, op: StoreOp) -> Array:
        if self.rounded:
            return self.values[op.value].astype(DTYPES[value_type(op.value).element_kind])
        owner = op.value.owner
        behind = owner.operand if isinstance(owner, CastOp) else op.value
        return self.values[behind].astype(self.precision)


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
}
