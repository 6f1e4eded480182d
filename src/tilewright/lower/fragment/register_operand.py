"""How an operand that is computed in registers becomes PTX: matrices read from a slot, scalar code, wgmma on registers.

A warp has 16 rows of each 64-row block; of each step of 16 elements one `ldmatrix.x4` brings it four 8x8 matrices in
the very order in which wgmma wants A's registers: rows 0-7 and 8-15 of the first eight elements, then of the others. A
thread holds two neighbouring elements of a row in a register. Under swizzle 128B a row's 16-byte chunks are exchanged
by the row's number modulo 8, so that the eight rows that one matrix takes lie in different banks.

What is computed stays in registers of its own until the product before is done, and is moved to A's registers then: so
the work of one slot passes while the tensor core multiplies the one before.

What PTX promises of A's registers, ptxas (12.9 and 13.0) does not keep round a loop: it lets other values have them
after the wgmma, while the tensor core reads them. So what writes them is such that old values stay alive
(`keeps_old_values`, `keep_until_here`); no proof of the text sees the difference, the machine code does.

Source: PTX ISA, wgmma: register fragments of A; ldmatrix. Checked by: tests/lower/fragment/test_register_operand.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import FragmentIssueOp, FragmentReadOp
from tilewright.ir.ac.register_operand import ComputedIssueOp, ComputedType, OperandReadOp, VectorLoadOp, VectorType
from tilewright.lower.fragment.held_operand import is_kept_by_waits, waits_of
from tilewright.lower.ptx.copies.global_access import ELEMENT_BYTES, element_address, load_as_float
from tilewright.lower.ptx.lowering import Emitters, Lowering, integers, placed, slot_of
from tilewright.lower.ptx.numbers.scalar import widened_pair
from tilewright.lower.ptx.numbers.scalar_region import lower_scalar_op, scalar_register
from tilewright.lower.ptx.places import (
    AccumulatorPlace,
    BufferPlace,
    ComputedPlace,
    LoadedFragmentPlace,
    Places,
    ScalarPlace,
    SlotPlace,
    VectorPlace,
)
from tilewright.lower.ptx.products.tensor_core import (
    instruction_of,
    matrix_descriptor,
    offset_descriptor,
    scale_predicate,
)

_ROW_BYTES = 128
"""A row in shared memory is one span of the swizzle."""
_BLOCK_ROWS = 64
_UNIT_THREADS = 128
_STEP_ELEMENTS = 16
_REGISTERS = 4
"""Of A for each thread and wgmma, two elements of 16 bits in each."""
_REGISTER_BYTES = 4
_MOST_WARPGROUPS = 32
"""More than a CTA has."""


def _load(lowering: Lowering, op: VectorLoadOp) -> VectorPlace:
    """This thread's numbers of a slice: pairs at 2 (lane % 4), eight elements apart."""
    text, source, kind = lowering.text, lowering.array(op.source), op.result.type
    assert isinstance(kind, VectorType)
    pair = text.into("b32", "shl.b32", text.into("b32", "and.b32", lowering.warpgroup_thread, 3), 1)
    first = text.into("b32", "mad.lo.u32", lowering.index(op.slice), kind.k.data, pair)
    (extent,), (stride,) = source.shape, source.steps
    values: dict[int, str] = {}
    for group in range(0, kind.k.data, _STEP_ELEMENTS // 2):
        for odd in (0, 1):
            element = text.into("b32", "add.u32", first, group + odd) if group + odd else first
            inside = text.into("pred", "setp.lt.u32", element, extent)
            address = element_address(text, source.register, element, stride, ELEMENT_BYTES[source.element])
            values[group + odd] = load_as_float(text, source, f"[{address}]", inside)
    return VectorPlace(values)


def _read(lowering: Lowering, op: OperandReadOp) -> ComputedPlace:
    slot, kind, buffer = slot_of(lowering, op.phase), op.result.type, lowering.place(op.a)
    assert isinstance(kind, ComputedType) and isinstance(buffer, BufferPlace)
    blocks: list[list[tuple[str, ...]]] = [[] for _ in range(kind.m.data // _BLOCK_ROWS)]
    for block, step, words in read_matrices(lowering, op, slot, len(blocks)):
        blocks[block].append(
            tuple(
                _computed(lowering, op, kind.element.data, (buffer.element, word), (block, step, number))
                for number, word in enumerate(words)
            )
        )
    meet_after_reading(lowering, op)
    return ComputedPlace(slot, tuple(map(tuple, blocks)))


def read_matrices(
    lowering: Lowering, op: OperandReadOp | FragmentReadOp, slot: SlotPlace, blocks: int
) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """A unit's rows of a slot: 64-row block, step of 16 elements, and the registers with them, loaded as they come."""
    text, buffer = lowering.text, lowering.place(op.a)
    assert isinstance(buffer, BufferPlace) and buffer.swizzle == "128B"
    thread, steps = lowering.warpgroup_thread, integers(op.step_bytes)
    origin = text.into("b32", "add.u32", lowering.shared_base, buffer.address)
    origin = text.into("b32", "mad.lo.u32", slot.stage, buffer.slot_bytes, origin)
    if op.instance_bytes.data:
        origin = text.into("b32", "mad.lo.u32", lowering.index(op.unit), op.instance_bytes.data, origin)
    # Lane l gives the address of row l % 16 of the warp's, of the elements' half l / 16.
    lane = text.into("b32", "and.b32", thread, 31)
    row = text.into(
        "b32", "mad.lo.u32", text.into("b32", "shr.u32", thread, 5), 16, text.into("b32", "and.b32", lane, 15)
    )
    line = text.into("b32", "mad.lo.u32", row, _ROW_BYTES, origin)
    half = text.into("b32", "shl.b32", text.into("b32", "shr.u32", lane, 4), 4)
    exchanged = text.into("b32", "shl.b32", text.into("b32", "and.b32", lane, 7), 4)
    chunk = text.into("b32", "xor.b32", half, exchanged)
    addresses: dict[int, str] = {}
    for block in range(blocks):
        for step, offset in enumerate(steps):
            within = offset % _ROW_BYTES
            if within not in addresses:
                place = text.into("b32", "xor.b32", chunk, within) if within else chunk
                addresses[within] = text.into("b32", "add.u32", line, place)
            words = tuple(text.register("b32") for _ in range(_REGISTERS))
            address = f"[{addresses[within]}+{block * op.block_bytes.data + offset - within}]"
            registers = "{" + ", ".join(words) + "}"
            text.emit("ldmatrix.sync.aligned.m8n8.x4.shared.b16", registers, address)
            yield block, step, words


def meet_after_reading(lowering: Lowering, op: OperandReadOp | FragmentReadOp) -> None:
    """Each thread fences its reads towards the async proxy, and then knows that all of the unit's have."""
    text = lowering.text
    number = text.into("b32", "add.u32", lowering.index(op.unit), op.first_barrier.data)
    text.emit("fence.proxy.async.shared::cta")
    text.emit("bar.sync", number, _UNIT_THREADS)


def _computed(
    lowering: Lowering, op: OperandReadOp, element: str, word: tuple[str, str], place: tuple[int, int, int]
) -> str:
    """The expression of both elements in a register, packed. word: their element and register; place: block of rows,
    step, number of the register."""
    text = lowering.text
    block, step, number = place
    row = _BLOCK_ROWS * block + 8 * (number & 1)
    along = _STEP_ELEMENTS * step + 8 * (number >> 1)
    low, high = (_value(lowering, op, value, row, along + odd) for odd, value in enumerate(widened_pair(text, *word)))
    return text.into("b32", f"cvt.rn.{element}x2.f32", high, low)


def _value(lowering: Lowering, op: OperandReadOp, element: str, row: int, along: int) -> str:
    body = op.body.block
    numbers = [element]
    for value in op.rows:
        place = lowering.place(value)
        assert isinstance(place, LoadedFragmentPlace)
        numbers.append(place.values[row, 0])
    for value in op.along:
        place = lowering.place(value)
        assert isinstance(place, VectorPlace)
        numbers.append(place.values[along])
    scalars: Places = {argument: ScalarPlace(number) for argument, number in zip(body.args, numbers, strict=True)}
    for item in body.ops:
        if isinstance(item, ac.YieldOp):
            return scalar_register(scalars, item.values[0])
        if not lower_scalar_op(lowering.text, scalars, item):
            raise AssertionError(f"{item.name} cannot stand in an operand's region")
    raise AssertionError("an operand's region yields its result")


def _issue(lowering: Lowering, op: ComputedIssueOp) -> None:
    computed = lowering.place(op.computed)
    assert isinstance(computed, ComputedPlace)
    issue_from_registers(lowering, op, computed.blocks, computed.slot)


def operand_registers(lowering: Lowering, count: int, bank: int) -> Sequence[str]:
    """A's registers of the bank's products that take so many."""
    known = lowering.operand_registers.setdefault((bank, count), [])
    while len(known) < count:
        known.append(lowering.text.register("b32"))
    return known


def keeps_old_values(lowering: Lowering) -> str:
    """A predicate that is always true, which the assembler cannot know: a write that may not happen keeps the
    registers' old values alive up to there, past the wait for the product that reads them. It ends the life of A's
    registers at the wgmma, though the tensor core reads them later, and else gives them to what is computed meanwhile
    (measured: wrong sums)."""
    return lowering.text.into("pred", "setp.lt.u32", lowering.warpgroup, _MOST_WARPGROUPS)


def keep_read_registers(lowering: Lowering, reading: SSAValue) -> None:
    """Behind the wait for a product: A's registers that were computed right there live until here."""
    registers = lowering.read_registers.get(reading)
    if registers is not None:
        keep_until_here(lowering, registers)


def keep_until_here(lowering: Lowering, registers: Sequence[str]) -> None:
    """The same for registers that what follows computes into: a store of them, which a branch that is always taken
    passes over. Writes that may not happen would take as many moves besides. Not for values that are moved to A's
    registers: then the assembler has the tensor core read them where they come from, and stores copies (measured: wrong
    sums). Each stands at a place of its own: of several stores to one place it keeps the last."""
    text, label = lowering.text, lowering.text.label("kept")
    text.emit("bra", label, guard=keeps_old_values(lowering))
    for first in range(0, len(registers), _REGISTERS):
        words = registers[first : first + _REGISTERS]
        place = f"[{lowering.shared_base}+{_REGISTER_BYTES * first}]"
        text.emit(f"st.shared.v{len(words)}.b32", place, "{" + ", ".join(words) + "}")
    text.place(label)


def issue_from_registers(
    lowering: Lowering,
    op: ComputedIssueOp | FragmentIssueOp,
    operand: Sequence[Sequence[tuple[str, ...]]],
    slot: SlotPlace,
) -> None:
    """operand[b][s]: A's registers for 64-row block b and step s, before they are moved. slot: B's."""
    text, b = lowering.text, lowering.place(op.b)
    assert isinstance(b, BufferPlace)
    m, n = op.m.data, op.n.data
    accumulator = lowering.place(op.accumulator) if op.accumulator is not None else lowering.fresh_accumulator(m, n)
    assert isinstance(accumulator, AccumulatorPlace)
    bank = op.bank_number if isinstance(op, FragmentIssueOp) else 0
    known = operand_registers(lowering, len(operand) * op.steps.data * _REGISTERS, bank)
    registers = iter(known)
    # What was computed right into A's registers is there (`held_operand`).
    there = list(known) == [each for block in operand for packed in block for each in packed]
    keeps = "" if there else keeps_old_values(lowering)
    moved: list[list[str]] = []
    for block in operand:
        words: list[str] = []
        for packed in block:
            mine = [next(registers) for _ in packed]
            for target, source in zip(mine, packed, strict=True):
                if not there:
                    text.emit("mov.b32", target, source, guard=keeps)
            words.append("{" + ", ".join(mine) + "}")
        moved.append(words)
    base = matrix_descriptor(lowering, b, op.b_leading_bytes.data, op.b_stride_bytes.data, slot.stage, "")
    kind, depth, transposes = instruction_of(op.element.data)
    majors = (int(op.b_major.data == "MN"),) if transposes else ()
    opcode = f"wgmma.mma_async.sync.aligned.m64n{n}k{depth}.f32.{kind}.{kind}"
    advances = integers(op.b_step_bytes)
    text.emit("wgmma.fence.sync.aligned")
    for step in range(op.steps.data):
        descriptor = offset_descriptor(text, base, advances[step])
        scale = scale_predicate(text, overwrite=op.accumulator is None and step == 0)
        for number, block in enumerate(accumulator.blocks):
            sums = "{" + ", ".join(block) + "}"
            text.emit(opcode, sums, moved[number][step], descriptor, scale, 1, 1, *majors)
    lowering.places[op.inflight] = accumulator
    lowering.places[op.reading] = slot
    if there and isinstance(op, FragmentIssueOp) and is_kept_by_waits(op.a):
        lowering.read_registers |= dict.fromkeys(waits_of(op.reading), known)


EMITTERS: Emitters = {
    VectorLoadOp: placed(_load),
    OperandReadOp: placed(_read),
    ComputedIssueOp: _issue,
}
