"""How an element-by-element kernel is written upstream: one `scf.for` over points, `memref.load` and `memref.store`.

Linear numbers of points are decoded into indices by division, as in the PTX; displaced loads that may leave the array
are guarded by `scf.if` and give 0 outside.
"""

from __future__ import annotations

import math

from xdsl.ir import Operation, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.lower.mlir.elements import float_constant, narrowed, scalar_name, widened, write_scalar_op
from tilewright.lower.mlir.text import Held, HeldArray, HeldIndex, HeldScalar, Nvgpu, NvgpuText, cannot_write
from tilewright.lower.ptx.run_time import fixed_sizes


def write_elementwise(state: Nvgpu, op: ac.ElementwiseOp) -> None:
    """Every thread takes points a grid apart."""
    text = state.text
    extents = fixed_sizes(op.extents)
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


def _write_element_op(state: Nvgpu, held: dict[SSAValue, Held], op: Operation) -> None:
    match op:
        case ac.AffineOp():
            held[op.result] = HeldIndex(write_affine(state.text, op, held))
        case ac.ElementLoadOp():
            held[op.result] = HeldScalar(_element_load(state, held, op))
        case ac.ElementStoreOp():
            array = held[op.destination]
            assert isinstance(array, HeldArray)
            narrow = narrowed(state.text, scalar_name(held, op.value), "f32", array.element)
            place = _element_place(state.text, held, array, list(op.indices))
            state.text.line(f"memref.store {narrow}, {array.name}[{place}] : {array.kind}")
        case _:
            if not write_scalar_op(state, held, op, "f32"):
                raise cannot_write(op)


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
        return widened(text, narrow, "f32", array.element)

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
    text.line(f"  scf.yield {float_constant(text, 0.0, 'f32')} : f32")
    text.line("}")
    return result


def write_affine(text: NvgpuText, op: ac.AffineOp, held: dict[SSAValue, Held]) -> str:
    total = ""
    for coefficient, operand in zip(op.coefficients, op.operands_, strict=True):
        scaled = text.multiply(_index(held, operand), coefficient.data)
        total = text.add(total, scaled) if total else scaled
    return text.add(total, op.constant.data) if total else text.constant(op.constant.data)
