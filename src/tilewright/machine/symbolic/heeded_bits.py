"""Which bits of an operand can the protocol tell apart?

An instruction descriptor of tcgen05 says how wide a product is and of which elements, and so which bytes are read. It
also says whether the elements of A and B are negated, which changes numbers alone: launches that differ in that do the
same. So of a descriptor that inputs choose, only the other bits decide anything. `.kind::i8` negates nothing, and
refuses these bits (TC208), so that it heeds them all.

A register that an instruction reads in another place too is heeded in full.
Checked by: tests/machine/symbolic/test_heeded_bits.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontends.ptx.ast import Immediate, Instruction, Register
from tilewright.legal.descriptor.tensor_core_descriptor import NEGATION_BITS
from tilewright.machine.core.decoder import Decoder
from tilewright.machine.core.program import decode_one
from tilewright.machine.core.step import Plain
from tilewright.machine.symbolic.expression import Applied, Chosen, Node, Source, Table

_DESCRIPTOR_AT = {"tcgen05.mma": 3, "tcgen05.mma.ws": 3, "tcgen05.mma.sp": 4, "tcgen05.mma.ws.sp": 4}
_WORD = (1 << 32) - 1


def heeded_bits(instruction: Instruction) -> tuple[str, int] | None:
    """The register of an operand of which some bits decide nothing, and the others; None where there is none."""
    at = _DESCRIPTOR_AT.get(instruction.row)
    if at is None or "kind::i8" in instruction.modifiers or at >= len(instruction.operands):
        return None
    operand = instruction.operands[at]
    if not isinstance(operand, Register):
        return None
    elsewhere = (repr(each) for index, each in enumerate(instruction.operands) if index != at)
    return None if any(repr(operand.name) in each for each in elsewhere) else (operand.name, _WORD ^ NEGATION_BITS)


def masked(
    table: Table, decoder: Decoder, instruction: Instruction, slot: int, node: Node, bits: int
) -> Node | None:  # fmt: skip
    """The expression of these bits of a register, the others 0; None where they are the same however inputs choose."""
    if _settled(node, bits) is not None:
        return None
    name = decoder.names[slot]
    register = Register(name)
    conjunction = Instruction("and.b32", "and", ("b32",), (register, register, Immediate(bits)), None, instruction.span)
    body = decode_one(decoder, conjunction).body
    assert isinstance(body, Plain), "an instruction that only computes"
    operation = Applied(conjunction, body.full, (slot,), (name,), slot, name, 32)
    return table.applied((conjunction.opcode, bits), operation, (node,))


def _settled(source: Source, bits: int) -> int | None:
    """What these bits are, if constants that inputs choose among agree in them."""
    match source:
        case Node(operation=Chosen(), sources=(_, *choices)):
            return _agreed(choices, bits)
        case Node(operation=Applied(instruction=Instruction(row="selp")), sources=(one, other, _)):
            return _agreed((one, other), bits)
        case Node(operation=Applied(instruction=Instruction(row="or")), sources=(one, other)):
            left, right = _settled(one, bits), _settled(other, bits)
            return None if left is None or right is None else left | right
        case Node():
            return None
        case _:
            return int(source[0]) & bits if source.size == 1 else None


def _agreed(choices: Sequence[Source], bits: int) -> int | None:
    found = {_settled(each, bits) for each in choices}
    return found.pop() if len(found) == 1 else None
