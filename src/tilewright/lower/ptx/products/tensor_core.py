"""How a slot's product becomes wgmma: matrix descriptors, one instruction for each 64-row block and step of 32 bytes.

Source: PTX ISA, wgmma matrix descriptor and wgmma.mma_async.
Checked by: tests/lower/test_ptx_text.py and test_values.py.
"""

from __future__ import annotations

from tilewright.ir.ac import operations as ac
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.lowering import Lowering, integers, slot_of
from tilewright.lower.ptx.numbers.float8 import PTX_NAMES
from tilewright.lower.ptx.places import AccumulatorPlace, BufferPlace

_INSTRUCTION = {
    "bf16": ("bf16", 16, True),
    "f16": ("f16", 16, True),
    "f8e4m3": (PTX_NAMES["f8e4m3"], 32, False),
    "f8e5m2": (PTX_NAMES["f8e5m2"], 32, False),
}
"""By element: its name in PTX, elements of the contracted axis that one wgmma takes, whether it may be MN-major (and
the instruction says which it is)."""
_DESCRIPTOR_SWIZZLE = {"none": 0, "128B": 1, "64B": 2, "32B": 3}


def instruction_of(element: str) -> tuple[str, int, bool]:
    """The element's name in PTX, elements of the contracted axis that one wgmma takes, whether operands may be
    MN-major. Raises KeyError for an element that is not multiplied."""
    return _INSTRUCTION[element]


def matrix_descriptor(lowering: Lowering, buffer: BufferPlace, leading: int, stride: int, slot: str, extra: str) -> str:
    """The 64-bit matrix descriptor of a slot's operand (PTX ISA, wgmma matrix descriptor): start address in 16-byte
    units in bits 13:0, leading offset in 29:16, stride offset in 45:32, swizzle in 63:62."""
    text = lowering.text
    constant = ((leading >> 4) & 0x3FFF) << 16 | ((stride >> 4) & 0x3FFF) << 32
    constant |= _DESCRIPTOR_SWIZZLE[buffer.swizzle] << 62
    address = text.into("b32", "add.u32", lowering.shared_base, buffer.address)
    address = text.into("b32", "mad.lo.u32", slot, buffer.slot_bytes, address)
    if extra:
        address = text.into("b32", "add.u32", address, extra)
    units = text.into("b32", "shr.u32", text.into("b32", "and.b32", address, 0x3FFFF), 4)
    wide = text.into("b64", "cvt.u64.u32", units)
    return text.into("b64", "or.b64", wide, constant - (1 << 64) if constant >> 63 else constant)


def lower_wgmma_issue(lowering: Lowering, op: ac.WgmmaIssueOp) -> None:
    text = lowering.text
    a, b = lowering.place(op.a), lowering.place(op.b)
    assert isinstance(a, BufferPlace) and isinstance(b, BufferPlace)
    slot = slot_of(lowering, op.phase)
    a_slot = slot if op.a_phase is None else slot_of(lowering, op.a_phase)
    m, n = op.m.data, op.n.data
    if op.accumulator is not None:
        accumulator = lowering.place(op.accumulator)
        assert isinstance(accumulator, AccumulatorPlace)
    else:
        accumulator = lowering.fresh_accumulator(m, n)
    extra = ""
    if op.a_instance_bytes.data:
        extra = text.into("b32", "mul.lo.u32", lowering.index(op.unit), op.a_instance_bytes.data)
    a_base = matrix_descriptor(lowering, a, op.a_leading_bytes.data, op.a_stride_bytes.data, a_slot.stage, extra)
    b_base = matrix_descriptor(lowering, b, op.b_leading_bytes.data, op.b_stride_bytes.data, slot.stage, "")
    majors = (int(op.a_major.data == "MN"), int(op.b_major.data == "MN"))
    kind, depth, transposes = instruction_of(op.element.data)
    opcode = f"wgmma.mma_async.sync.aligned.m64n{n}k{depth}.f32.{kind}.{kind}"
    a_steps, b_steps = integers(op.a_step_bytes), integers(op.b_step_bytes)
    for step in range(op.steps.data):
        b_descriptor = offset_descriptor(text, b_base, b_steps[step])
        for number, block in enumerate(accumulator.blocks):
            a_descriptor = offset_descriptor(text, a_base, a_steps[step] + number * op.a_block_bytes.data)
            scale = scale_predicate(text, overwrite=op.accumulator is None and step == 0)
            registers = "{" + ", ".join(block) + "}"
            text.emit(opcode, registers, a_descriptor, b_descriptor, scale, 1, 1, *(majors if transposes else ()))
    lowering.places[op.inflight] = accumulator
    lowering.places[op.reading] = slot
    if op.a_reading is not None:
        lowering.places[op.a_reading] = a_slot


def scale_predicate(text: Text, *, overwrite: bool) -> str:
    """A predicate that is false to overwrite the accumulator, true to add to it."""
    return text.into("pred", "setp.ne.u32", 0 if overwrite else 1, 0)


def offset_descriptor(text: Text, base: str, offset_bytes: int) -> str:
    """The descriptor of a matrix that begins further on."""
    return text.into("b64", "add.s64", base, offset_bytes >> 4) if offset_bytes else base
