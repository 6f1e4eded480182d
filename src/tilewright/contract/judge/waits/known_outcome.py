"""What follows in a text from the outcome of one wait? Numbers carried through `mov`, `selp`, `setp`, `not` and `cvt`.

Only registers whose value the outcome fixes are known; anything else is left open. Source: PTX ISA 9.7.4 (mov), 9.7.8
(setp, selp). Not handled: other arithmetic; its results are unknown. Checked by:
tests/contract/judge/waits/test_retried_waits.py, tests/contract/judge/waits/test_backing_off_waits.py.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from tilewright.frontends.ptx.ast import Immediate, Instruction, Operand, Register
from tilewright.machine.protocol.slicing.slice_operands import registers_of


def outcome_of(item: Instruction, known: Mapping[str, int]) -> bool | None:
    """Whether an instruction happens; None where its guard is not known."""
    if item.guard is None:
        return True
    value = known.get(item.guard.register.name)
    return None if value is None else bool(value) != item.guard.negated


def evaluate(item: Instruction, known: MutableMapping[str, int], *, certain: bool = True) -> None:
    """Note what is known of the results of an instruction. certain: it happens."""
    if not item.operands:
        return
    result = item.operands[0]
    value: int | None = None
    match item.row, [_value(operand, known) for operand in item.operands[1:]]:
        case "mov", [only]:
            value = only
        case "cvt", [int(only)] if only in (0, 1):
            value = only
        case "not", [int(only)] if "pred" in item.modifiers:
            value = 1 - only
        case "selp", [yes, no, int(which)]:
            value = yes if which else no
        case "setp", [int(one), int(other)] if item.modifiers and item.modifiers[0] in ("eq", "ne"):
            value = int((one == other) == (item.modifiers[0] == "eq"))
        case _:
            pass
    for name in registers_of(result):
        known.pop(name, None)
    if value is not None and certain and isinstance(result, Register):
        known[result.name] = value


def _value(operand: Operand, known: Mapping[str, int]) -> int | None:
    match operand:
        case Immediate(value):
            return value
        case Register(name):
            return known.get(name)
        case _:
            return None
