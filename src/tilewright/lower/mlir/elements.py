"""How elementwise work is written in `arith`, `math`, `vector` and `memref`: accumulators as vectors, a value a place.

A thread's accumulator is one vector of float32; rows and columns of its values are constant vectors plus the thread's
own offset (PTX ISA, wgmma register fragments). Bounds-checked accesses are `vector.gather` and `vector.scatter` under
a mask, which also stand for the swizzled stores into staging: upstream's `nvvm.stmatrix` would be quicker and means
the same. Global arrays are memrefs of one dimension. Transcendental functions are upstream's `math`, so values differ
from those of our own PTX in their last bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.copy_decisions import BLOCK_ROWS
from tilewright.lower.mlir.protocol import staging_offset
from tilewright.lower.mlir.text import (
    SHARED,
    WORKGROUP,
    Held,
    HeldArray,
    HeldFragment,
    HeldScalar,
    Nvgpu,
    NvgpuText,
    cannot_write,
)
from tilewright.lower.ptx.lowering import WARP_ROWS

_ELEMENT_BYTES = {"bf16": 2, "f16": 2, "f32": 4}
_SWIZZLE_MASK = {"128B": 0x70, "64B": 0x30, "32B": 0x10, "none": 0}
_DIRECT = {
    "add": "arith.addf",
    "sub": "arith.subf",
    "mul": "arith.mulf",
    "div": "arith.divf",
    "max": "arith.maximumf",
    "min": "arith.minimumf",
    "neg": "arith.negf",
    "abs": "math.absf",
    "exp": "math.exp",
    "tanh": "math.tanh",
    "sqrt": "math.sqrt",
    "rsqrt": "math.rsqrt",
    "log": "math.log",
}


def vector_of(length: int, element: str) -> str:
    return f"vector<{length}x{element}>"


def float_constant(text: NvgpuText, value: float, kind: str) -> str:
    words = f"{value:.9e}"
    return text.constant(f"dense<{words}>" if kind.startswith("vector") else words, kind)


def write_function(text: NvgpuText, function: str, inputs: Sequence[str], kind: str) -> str | None:
    """A float32 function of values of type `kind`, f32 or a vector of it; None for a name that has no form here."""

    def apply(opcode: str, *operands: str) -> str:
        return text.into("value", f"{opcode} {', '.join(operands)} : {kind}")

    def sigmoid(x: str) -> str:
        one = float_constant(text, 1.0, kind)
        return apply("arith.divf", one, apply("arith.addf", apply("math.exp", apply("arith.negf", x)), one))

    x = inputs[0]
    match function:
        case "relu":
            return apply("arith.maximumf", x, float_constant(text, 0.0, kind))
        case "sigmoid":
            return sigmoid(x)
        case "silu":
            return apply("arith.mulf", x, sigmoid(x))
        case "gelu":
            scale = 2.0 * math.sqrt(2.0 / math.pi)
            square = apply("arith.mulf", x, x)
            cubic = apply("arith.mulf", square, float_constant(text, 0.044715 * scale, kind))
            inner = apply("arith.mulf", apply("arith.addf", cubic, float_constant(text, scale, kind)), x)
            return apply("arith.mulf", x, sigmoid(inner))
        case _ if function in _DIRECT:
            return apply(_DIRECT[function], *inputs)
        case _:
            return None


def _retyped(kind: str, element: str) -> str:
    return kind.replace("f32", element)


def narrowed(text: NvgpuText, name: str, kind: str, element: str) -> str:
    if element == "f32":
        return name
    return text.into("narrow", f"arith.truncf {name} : {kind} to {_retyped(kind, element)}")


def widened(text: NvgpuText, name: str, kind: str, element: str) -> str:
    if element == "f32":
        return name
    return text.into("wide", f"arith.extf {name} : {_retyped(kind, element)} to {kind}")


def scalar_name(held: dict[SSAValue, Held], value: SSAValue) -> str:
    place = held[value]
    assert isinstance(place, HeldScalar)
    return place.name


def write_scalar_op(state: Nvgpu, held: dict[SSAValue, Held], op: Operation, kind: str) -> bool:
    """Write a scalar op of a region whose float32 values have type `kind`; False if `op` is none."""
    text = state.text
    match op:
        case ac.ScalarOp():
            inputs = [scalar_name(held, item) for item in op.inputs]
            result = write_function(text, op.function.data, inputs, kind)
            if result is None:
                raise cannot_write(op)
            held[op.result] = HeldScalar(result)
        case ac.RoundOp():
            element = op.element.data
            narrow = narrowed(text, scalar_name(held, op.input), kind, element)
            held[op.result] = HeldScalar(widened(text, narrow, kind, element))
        case ac.ConstantOp():
            words = f"0x{op.bits.data & 0xFFFFFFFF:08X}"
            held[op.result] = HeldScalar(text.constant(f"dense<{words}>" if kind != "f32" else words, kind))
        case _:
            return False
    return True


# ---------------------------------------------------------------- fragments


def _rows_and_columns(blocks: Sequence[int], values: Sequence[int]) -> tuple[list[int], list[int]]:
    """Row and column in the unit's tile of each value, without the thread's own offset."""
    rows = [64 * block + 8 * ((value >> 1) & 1) for block in blocks for value in values]
    return rows, [(value & 1) + 8 * (value >> 2) for _ in blocks for value in values]


def _places(state: Nvgpu, origins: tuple[str, str], offsets: tuple[list[int], list[int]]) -> tuple[str, str]:
    """Vectors of rows and columns: origin + the thread's offset + constants."""
    text, thread = state.text, state.warpgroup_thread
    warp = text.binary("warp", "divui", thread, text.constant(32))
    lane = text.binary("lane", "remui", thread, text.constant(32))
    four = text.constant(4)
    row = text.add(text.multiply(warp, state.warp_rows), text.binary("quad", "divui", lane, four))
    column = text.multiply(text.binary("within", "remui", lane, four), 2)
    kind = vector_of(len(offsets[0]), "index")
    vectors: list[str] = []
    for origin, lane_offset, constants in zip(origins, (row, column), offsets, strict=True):
        start = text.add(lane_offset, origin) if origin else lane_offset
        spread = text.into("spread", f"vector.broadcast {start} : index to {kind}")
        vectors.append(text.binary("places", "addi", spread, text.constant(f"dense<{constants}>", kind), kind))
    return vectors[0], vectors[1]


def _linear(state: Nvgpu, array: HeldArray, indices: Sequence[str], length: int) -> tuple[str, str]:
    """Vectors of linear indices into a flat array, and of whether they lie inside its shape."""
    text, kind = state.text, vector_of(length, "index")
    total, mask = "", ""
    for index, extent, stride in zip(indices, array.shape, array.strides, strict=True):
        # As unsigned, so that a negative index is outside too.
        inside = text.into("inside", f"arith.cmpi ult, {index}, {text.constant(f'dense<{extent}>', kind)} : {kind}")
        mask = text.binary("inside", "andi", mask, inside, vector_of(length, "i1")) if mask else inside
        scaled = text.binary("linear", "muli", index, text.constant(f"dense<{stride}>", kind), kind)
        total = text.binary("linear", "addi", total, scaled, kind) if total else scaled
    return total, mask


def write_fragment_load(state: Nvgpu, op: ac.FragmentLoadOp) -> HeldFragment:
    text, source, kind = state.text, state.held[op.source], op.result.type
    assert isinstance(source, HeldArray) and isinstance(kind, ac.FragmentType)
    blocks, n = kind.m.data // 64, kind.n.data
    offsets = _rows_and_columns(range(blocks), range(n // 2))
    rows, columns = _places(state, (state.index(op.row), state.index(op.column)), offsets)
    if not kind.axes.data:
        raise cannot_write(op)
    length = len(offsets[0])
    linear, mask = _linear(state, source, [{"m": rows, "n": columns}[axis] for axis in kind.axes.data], length)
    values = vector_of(length, source.element)
    nothing = float_constant(text, 0.0, values)
    loaded = text.into(
        "loaded",
        f"vector.gather {source.name}[{text.constant(0)}] [{linear}], {mask}, {nothing} : {source.kind}, "
        f"{vector_of(length, 'index')}, {vector_of(length, 'i1')}, {values} into {values}",
    )
    wide = widened(text, loaded, vector_of(length, "f32"), source.element)
    return HeldFragment(wide, blocks, n, source.element)


def write_stage_write(state: Nvgpu, op: ac.StageWriteOp) -> None:
    """Columns [begin, end) of a fragment into a staging slot, in the swizzled rows that the bulk store expects."""
    text, fragment, buffer = state.text, state.held[op.fragment], state.buffer(op.buffer)
    assert isinstance(fragment, HeldFragment)
    if state.warp_rows != WARP_ROWS:
        raise cannot_write(op)
    begin, end = op.column_begin.data, op.column_end.data
    element, element_bytes = fragment.element, _ELEMENT_BYTES[fragment.element]
    turned = op.block is not None
    pitch, mask = (BLOCK_ROWS if turned else end - begin) * element_bytes, _SWIZZLE_MASK[buffer.swizzle]
    elements = buffer.slot_bytes // element_bytes
    kind = f"memref<{elements}x{element}, {WORKGROUP}>"
    offset = staging_offset(state, buffer, op.slot.data, state.index(op.unit))
    slot = text.into("staging", f"memref.view {state.shared}[{offset}][] : {SHARED} to {kind}")
    width = (end - begin) // 2
    index, vector = vector_of(width, "index"), vector_of(width, "f32")
    for block in range(fragment.blocks) if op.block is None else (op.block.data,):
        rows, columns = _places(state, ("", ""), _rows_and_columns([0 if turned else block], range(width)))
        if turned:  # memory's lines are the accumulator's columns
            rows, columns = columns, rows
        row_bytes = text.binary("row", "muli", rows, text.constant(f"dense<{pitch}>", index), index)
        within = text.binary("within", "muli", columns, text.constant(f"dense<{element_bytes}>", index), index)
        if mask:  # address bits 9:7 are xored into bits 6:4
            bits = text.binary("bits", "shrui", row_bytes, text.constant("dense<3>", index), index)
            bits = text.binary("bits", "andi", bits, text.constant(f"dense<{mask}>", index), index)
            within = text.binary("within", "xori", within, bits, index)
        place = text.binary("place", "addi", row_bytes, within, index)
        place = text.binary("place", "divui", place, text.constant(f"dense<{element_bytes}>", index), index)
        first = block * fragment.n // 2 + begin // 2
        part = text.into(
            "part",
            f"vector.extract_strided_slice {fragment.name} {{offsets = [{first}], sizes = [{width}], strides = [1]}}"
            f" : {vector_of(fragment.length, 'f32')} to {vector}",
        )
        _scatter(state, slot, kind, place, text.constant("dense<true>", vector_of(width, "i1")), part, width, element)


def _scatter(
    state: Nvgpu, array: str, kind: str, linear: str, mask: str, values: str, length: int, element: str
) -> None:
    text = state.text
    narrow = narrowed(text, values, vector_of(length, "f32"), element)
    text.line(
        f"vector.scatter {array}[{text.constant(0)}] [{linear}], {mask}, {narrow} : {kind}, "
        f"{vector_of(length, 'index')}, {vector_of(length, 'i1')}, {vector_of(length, element)}"
    )


def write_global_store(state: Nvgpu, op: ac.GlobalStoreOp) -> None:
    fragment, destination = state.held[op.fragment], state.held[op.destination]
    assert isinstance(fragment, HeldFragment) and isinstance(destination, HeldArray)
    offsets = _rows_and_columns(range(fragment.blocks), range(fragment.n // 2))
    places = _places(state, (state.index(op.row), state.index(op.column)), offsets)
    linear, mask = _linear(state, destination, places, fragment.length)
    _scatter(state, destination.name, destination.kind, linear, mask, fragment.name, fragment.length, fragment.element)
