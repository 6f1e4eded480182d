"""What a tile program says, in plain values: buffers, loads, products, epilogue, and whether zero fill suffices.

Theory: reading facts off SSA. Every function takes a verified program and changes nothing.
`is_zero_past_end` is conservative: True is a proof, False means not known.
Checked by tests/ir/test_tile_facts.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer
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
    ProgramOp,
    ReturnOp,
    ShiftOp,
    StoreOp,
    TransposeOp,
    UnaryOp,
)
from tilewright.ir.tile_rules import parameter_name
from tilewright.ir.tile_types import tensor_type, value_type


@dataclass(frozen=True, slots=True)
class Access:
    """A tensor reached at indices. axes in the tensor's order; offsets: elements each index is displaced by."""

    tensor: str
    axes: tuple[str, ...]
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DotOperand:
    """A side of a product that comes straight from memory. transposed: the tile is the transpose of what is loaded."""

    access: Access
    transposed: bool


def the_program(module: ModuleOp) -> ProgramOp:
    """The module's one tile program. Raises TilewrightError unless there is exactly one."""
    programs = [op for op in module.ops if isinstance(op, ProgramOp)]
    if len(programs) != 1:
        raise TilewrightError(f"a module with {len(programs)} tile programs", remedy="give a module with exactly one")
    return programs[0]


def the_grid(program: ProgramOp) -> tuple[str, ...]:
    """The axes that programs are spread over."""
    return next(op.axis_names for op in program.body.block.ops if isinstance(op, GridOp))


def buffers(program: ProgramOp) -> tuple[Buffer, ...]:
    """The parameters as launch plans describe them, in order: stored ones are outputs, the others inputs."""
    stored = {store.tensor for store in stores(program)}
    result: list[Buffer] = []
    for argument in program.body.block.args:
        tensor = tensor_type(argument)
        role = "output" if argument in stored else "input"
        name = parameter_name(program, argument)
        result.append(Buffer(name, tensor.element_kind, tensor.extents, tensor.stride_elements, role))
    return tuple(result)


def loads(program: ProgramOp) -> tuple[LoadOp, ...]:
    """Every load, in program order, those in loops included."""
    return tuple(op for op in program.walk() if isinstance(op, LoadOp))


def stores(program: ProgramOp) -> tuple[StoreOp, ...]:
    return tuple(op for op in program.body.block.ops if isinstance(op, StoreOp))


def loops(program: ProgramOp) -> tuple[LoopOp, ...]:
    return tuple(op for op in program.body.block.ops if isinstance(op, LoopOp))


def dots(program: ProgramOp) -> tuple[DotOp, ...]:
    return tuple(op for op in program.walk() if isinstance(op, DotOp))


def epilogue_ops(program: ProgramOp) -> tuple[Operation, ...]:
    """What every program does outside loops to compute and store its tile, in order: loads, elementwise ops, stores.

    Grid, index and accumulator set-up, and the loops themselves, are not among them.
    """
    structure = (GridOp, ShiftOp, FullOp, LoopOp, ReturnOp)
    return tuple(op for op in program.body.block.ops if not isinstance(op, structure))


def access_of(op: LoadOp | StoreOp) -> Access:
    """Where a load reads or a store writes."""
    program = op.parent_op()
    while not isinstance(program, ProgramOp):
        assert program is not None, "a load or store stands in a program"
        program = program.parent_op()
    offsets = tuple(_offset(index) for index in op.indices)
    return Access(parameter_name(program, op.tensor), tensor_type(op.tensor).axis_names, offsets)


def dot_operand(value: SSAValue) -> DotOperand | None:
    """The load behind a side of a product, or None where anything is computed in between."""
    owner = value.owner
    if isinstance(owner, LoadOp):
        return DotOperand(access_of(owner), False)
    if isinstance(owner, TransposeOp) and isinstance(owner.operand.owner, LoadOp):
        return DotOperand(access_of(owner.operand.owner), True)
    return None


def is_zero_past_end(value: SSAValue, axis: str) -> bool:
    """True if a tile is zero wherever it reaches past the extent of `axis`, given that loads fill with zero.

    If both sides of a product are, along its contracted axis, then a last, partial tile needs no masking. One side is
    not enough: zero times an infinity is NaN.
    """
    match value.owner:
        case LoadOp() as load:
            # A tensor's extent along an axis is the axis's own, so an index displaced forward stays outside.
            return any(
                axis == name and offset >= 0
                for name, offset in zip(access_of(load).axes, access_of(load).offsets, strict=True)
            )
        case ConstantOp() | FullOp() as constant:
            return constant.value.value.data == 0.0
        case CastOp() | TransposeOp() as plain:
            return is_zero_past_end(plain.operand, axis)
        case BroadcastOp() as broadcast:
            return is_zero_past_end(broadcast.operand, axis)
        case UnaryOp() as unary:
            return unary.function.data.preserves_zero and is_zero_past_end(unary.operand, axis)
        case BinaryOp() as binary:
            left, right = (is_zero_past_end(side, axis) for side in (binary.left, binary.right))
            if binary.function.data is Function.MUL:
                return (left and (right or _constant(binary.right) is not None)) or (
                    right and _constant(binary.left) is not None
                )
            if binary.function.data is Function.DIV:
                return left and _constant(binary.right) not in (None, 0.0)
            return left and right
        case _:
            return False


def _constant(value: SSAValue) -> float | None:
    """The finite number that a tile repeats everywhere, or None."""
    owner = value.owner
    if isinstance(owner, BroadcastOp):
        return _constant(owner.operand)
    return owner.value.value.data if isinstance(owner, ConstantOp) else None


def _offset(index: SSAValue) -> int:
    return index.owner.offset.value.data + _offset(index.owner.index) if isinstance(index.owner, ShiftOp) else 0


def axes_of(value: SSAValue) -> tuple[str, ...]:
    """The axes of a tile."""
    return value_type(value).axis_names
