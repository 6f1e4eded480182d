"""How elementwise work is written in `arith`, `math`, `vector` and `memref`: accumulators as vectors, one value a place.

A thread's accumulator is one vector of float32; rows and columns of its values are constant vectors plus the thread's own
offset (PTX ISA, wgmma register fragments). Bounds-checked accesses are `vector.gather` and `vector.scatter` under a mask,
which also stand for the swizzled stores into staging: upstream's `nvvm.stmatrix` would be quicker and means the same.
Global arrays are memrefs of one dimension. Transcendental functions are upstream's `math`, so values differ from those of
our own PTX in their last bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import SSAValue

from tilewright.ir import ac
from tilewright.lower.nvgpu_protocol import integers, staging_offset
from tilewright.lower.nvgpu_text import (
    SHARED,
    WORKGROUP,
    Held,
    HeldAccumulator,
    HeldArray,
    HeldFragment,
    HeldIndex,
    HeldScalar,
    Nvgpu,
    NvgpuText,
    cannot_write,
)

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
}


def vector_of(length: int, element: str) -> str:
    return f"vector<{length}x{element}>"


def _float(text: NvgpuText, value: float, kind: str) -> str:
    words = f"{value:.9e}"
    return text.constant(f"dense<{words}>" if kind.startswith("vector") else words, kind)


def write_function(text: NvgpuText, function: str, inputs: Sequence[str], kind: str) -> str | None:
    """A float32 function of values of type `kind`, f32 or a vector of it; None for a name that has no form here."""

    def apply(opcode: str, *operands: str) -> str:
        return text.into("value", f"{opcode} {', '.join(operands)} : {kind}")

    def sigmoid(x: str) -> str:
        one = _float(text, 1.0, kind)
        return apply("arith.divf", one, apply("arith.addf", apply("math.exp", apply("arith.negf", x)), one))

    x = inputs[0]
    match function:
        case "relu":
            return apply("arith.maximumf", x, _float(text, 0.0, kind))
        case "sigmoid":
            return sigmoid(x)
        case "silu":
            return apply("arith.mulf", x, sigmoid(x))
        case "gelu":
            scale = 2.0 * math.sqrt(2.0 / math.pi)
            square = apply("arith.mulf", x, x)
            cubic = apply("arith.mulf", square, _float(text, 0.044715 * scale, kind))
            inner = apply("arith.mulf", apply("arith.addf", cubic, _float(text, scale, kind)), x)
            return apply("arith.mulf", x, sigmoid(inner))
        case _ if function in _DIRECT:
            return apply(_DIRECT[function], *inputs)
        case _:
            return None


def _retyped(kind: str, element: str) -> str:
    return kind.replace("f32", element)


def _narrowed(text: NvgpuText, name: str, kind: str, element: str) -> str:
    if element == "f32":
        return name
    return text.into("narrow", f"arith.truncf {name} : {kind} to {_retyped(kind, element)}")


def _widened(text: NvgpuText, name: str, kind: str, element: str) -> str:
    if element == "f32":
        return name
    return text.into("wide", f"arith.extf {name} : {_retyped(kind, element)} to {kind}")


def _name(held: dict[SSAValue, Held], value: SSAValue) -> str:
    place = held[value]
    assert isinstance(place, HeldScalar)
    return place.name


def _write_scalar_op(state: Nvgpu, held: dict[SSAValue, Held], op: object, kind: str) -> bool:
    """Write a scalar op of a region whose float32 values have type `kind`; False if `op` is none."""
    text = state.text
    match op:
        case ac.ScalarOp():
            inputs = [_name(held, item) for item in op.inputs]
            result = write_function(text, op.function.data, inputs, kind)
            if result is None:
                raise cannot_write(op)
            held[op.result] = HeldScalar(result)
        case ac.RoundOp():
            element = op.element.data
            narrow = _narrowed(text, _name(held, op.input), kind, element)
            held[op.result] = HeldScalar(_widened(text, narrow, kind, element))
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
    row = text.add(text.multiply(warp, 16), text.binary("quad", "divui", lane, four))
    column = text.multiply(text.binary("within", "remui", lane, four), 2)
    kind = vector_of(len(offsets[0]), "index")
    vectors: list[str] = []
    for origin, lane_offset, constants in zip(origins, (row, column), offsets, strict=True):
        start = text.add(lane_offset, origin) if origin else lane_offset
        spread = text.into("spread", f"vector.broadcast {start} : index to {kind}")
        vectors.append(text.binary("places", "addi", spread, text.constant(f"dense<{constants}>", kind), kind))
    return vectors[0], vectors[1]


def _linear(
    state: Nvgpu, array: HeldArray, indices: Sequence[str], length: int, stem: str = "linear"
) -> tuple[str, str]:
    """Vectors of linear indices into a flat array, and of whether they lie inside its shape."""
    text, kind = state.text, vector_of(length, "index")
    total, mask = "", ""
    for index, extent, stride in zip(indices, array.shape, array.strides, strict=True):
        # As unsigned, so that a negative index is outside too.
        inside = text.into("inside", f"arith.cmpi ult, {index}, {text.constant(f'dense<{extent}>', kind)} : {kind}")
        mask = text.binary("inside", "andi", mask, inside, vector_of(length, "i1")) if mask else inside
        scaled = text.binary(stem, "muli", index, text.constant(f"dense<{stride}>", kind), kind)
        total = text.binary(stem, "addi", total, scaled, kind) if total else scaled
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
    nothing = _float(text, 0.0, values)
    loaded = text.into(
        "loaded",
        f"vector.gather {source.name}[{text.constant(0)}] [{linear}], {mask}, {nothing} : {source.kind}, "
        f"{vector_of(length, 'index')}, {vector_of(length, 'i1')}, {values} into {values}",
    )
    wide = _widened(text, loaded, vector_of(length, "f32"), source.element)
    return HeldFragment(wide, blocks, n, source.element)


def write_map(state: Nvgpu, op: ac.MapOp) -> HeldFragment:
    """The region once, on vectors that hold all of a thread's values."""
    text, accumulator, kind = state.text, state.held[op.accumulator], op.result.type
    assert isinstance(accumulator, HeldAccumulator) and isinstance(kind, ac.FragmentType)
    length = len(accumulator.blocks) * accumulator.n // 2
    vector = vector_of(length, "f32")
    values = [
        text.into("item", f"llvm.extractvalue {block}[{number}] : {accumulator.kind}")
        for block in accumulator.blocks
        for number in range(accumulator.n // 2)
    ]
    body = op.body.block
    held: dict[SSAValue, Held] = {}
    held[body.args[0]] = HeldScalar(text.into("values", f"vector.from_elements {', '.join(values)} : {vector}"))
    for argument, operand in zip(body.args[1:], op.fragments, strict=True):
        fragment = state.held[operand]
        assert isinstance(fragment, HeldFragment)
        held[argument] = HeldScalar(fragment.name)
    result = ""
    for inner in body.ops:
        if isinstance(inner, ac.YieldOp):
            result = _name(held, inner.values[0])
        elif not _write_scalar_op(state, held, inner, vector):
            raise cannot_write(inner)
    return HeldFragment(result, len(accumulator.blocks), accumulator.n, kind.element.data)


def write_stage_write(state: Nvgpu, op: ac.StageWriteOp) -> None:
    """Columns [begin, end) of a fragment into a staging slot, in the swizzled rows that the bulk store expects."""
    text, fragment, buffer = state.text, state.held[op.fragment], state.buffer(op.buffer)
    assert isinstance(fragment, HeldFragment)
    begin, end = op.column_begin.data, op.column_end.data
    element, element_bytes = fragment.element, _ELEMENT_BYTES[fragment.element]
    pitch, mask = (end - begin) * element_bytes, _SWIZZLE_MASK[buffer.swizzle]
    elements = buffer.slot_bytes // element_bytes
    kind = f"memref<{elements}x{element}, {WORKGROUP}>"
    offset = staging_offset(state, buffer, op.slot.data, state.index(op.unit))
    slot = text.into("staging", f"memref.view {state.shared}[{offset}][] : {SHARED} to {kind}")
    width = (end - begin) // 2
    index, vector = vector_of(width, "index"), vector_of(width, "f32")
    for block in range(fragment.blocks):
        rows, columns = _places(state, ("", ""), _rows_and_columns([block], range(width)))
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
    narrow = _narrowed(text, values, vector_of(length, "f32"), element)
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


# ---------------------------------------------------------------- element-by-element kernels


def write_elementwise(state: Nvgpu, op: ac.ElementwiseOp) -> None:
    """Every thread takes points a grid apart."""
    text = state.text
    extents = integers(op.extents)
    block = text.into("block_size", "gpu.block_dim x")
    number = text.into("block", "gpu.block_id x")
    count = text.into("blocks", "gpu.grid_dim x")
    first = text.add(text.multiply(number, block), state.thread)
    step = text.multiply(count, block)
    point = text.name("point")
    with text.block(f"scf.for {point} = {first} to {text.constant(math.prod(extents))} step {step} {{"):
        indices: list[str] = []
        rest = point
        for extent in reversed(extents[1:]):
            indices.append(text.binary("index", "remui", rest, text.constant(extent)))
            rest = text.binary("rest", "divui", rest, text.constant(extent))
        held = dict(state.held)
        for argument, name in zip(op.body.block.args, (rest, *reversed(indices)), strict=True):
            held[argument] = HeldIndex(name)
        for inner in op.body.block.ops:
            _write_element_op(state, held, inner)


def _write_element_op(state: Nvgpu, held: dict[SSAValue, Held], op: object) -> None:
    match op:
        case ac.AffineOp():
            held[op.result] = HeldIndex(write_affine(state.text, op, held))
        case ac.ElementLoadOp():
            held[op.result] = HeldScalar(_element_load(state, held, op))
        case ac.ElementStoreOp():
            array = held[op.destination]
            assert isinstance(array, HeldArray)
            narrow = _narrowed(state.text, _name(held, op.value), "f32", array.element)
            place = _element_place(state.text, held, array, list(op.indices))
            state.text.line(f"memref.store {narrow}, {array.name}[{place}] : {array.kind}")
        case _:
            if not _write_scalar_op(state, held, op, "f32"):
                raise cannot_write(op)  # type: ignore[arg-type]


def _index(held: dict[SSAValue, Held], value: SSAValue) -> str:
    place = held[value]
    assert isinstance(place, HeldIndex)
    return place.name


def _element_place(text: NvgpuText, held: dict[SSAValue, Held], array: HeldArray, indices: list[SSAValue]) -> str:
    total = ""
    for value, stride in zip(indices, array.strides, strict=True):
        scaled = text.multiply(_index(held, value), stride)
        total = text.add(total, scaled) if total else scaled
    return total or text.constant(0)


def _element_load(state: Nvgpu, held: dict[SSAValue, Held], op: ac.ElementLoadOp) -> str:
    text, array = state.text, held[op.source]
    assert isinstance(array, HeldArray)

    def load() -> str:
        place = _element_place(text, held, array, list(op.indices))
        narrow = text.into("loaded", f"memref.load {array.name}[{place}] : {array.kind}")
        return _widened(text, narrow, "f32", array.element)

    if not op.fill.data:
        return load()
    inside = text.constant("true", "i1")
    for value, extent in zip(op.indices, array.shape, strict=True):
        # As unsigned, so that a negative index is outside too.
        fits = text.into("inside", f"arith.cmpi ult, {_index(held, value)}, {text.constant(extent)} : index")
        inside = text.binary("inside", "andi", inside, fits, "i1")
    result = text.name("filled")
    with text.block(f"{result} = scf.if {inside} -> (f32) {{", "} else {"):
        text.line(f"scf.yield {load()} : f32")
    text.line(f"  scf.yield {_float(text, 0.0, 'f32')} : f32")
    text.line("}")
    return result


def write_affine(text: NvgpuText, op: ac.AffineOp, held: dict[SSAValue, Held]) -> str:
    total = ""
    for coefficient, operand in zip(op.coefficients, op.operands_, strict=True):
        assert isinstance(coefficient, IntAttr)
        scaled = text.multiply(_index(held, operand), coefficient.data)
        total = text.add(total, scaled) if total else scaled
    return text.add(total, op.constant.data) if total else text.constant(op.constant.data)
