"""Which registers does a loop write that hold the same in each iteration? A compiler computes them anew from what the
loop does not change (`last = n - 1`), since that costs less than to keep them.

Such a register has one instruction in the loop, without a guard and of arithmetic alone, that every iteration comes to;
what that reads the loop does not write, or is such a register that is written before.

Source: loop-invariant code, as in any compiler text. Not handled: loads.
Checked by: tests/machine/protocol/loops/test_steady_registers.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tilewright.frontends.ptx.ast import Immediate, Instruction, Operand, Register
from tilewright.machine.protocol.slicing.slice_operands import is_volatile

Step = tuple[int, int]
"""A place in an iteration: of the block, then in the body."""
_ARITHMETIC = frozenset({"mov", "add", "sub", "mul", "mad", "shl", "shr", "and", "or", "xor", "min", "max", "cvt"})


def steady_registers(
    body: Sequence[Instruction], places: Sequence[Step | None], writes: Counter[str]
) -> Mapping[str, Step]:  # fmt: skip
    """The registers that hold the same in each iteration from some place on. places: of the body's instructions, None
    where some iterations do not come to them; writes: how many instructions write each register."""
    found: dict[str, Step] = {}
    for place in sorted(each for each in places if each is not None):
        item = body[place[1]]
        match item.operands:
            case (Register(name), *sources) if writes[name] == 1 and item.guard is None and item.row in _ARITHMETIC:
                if all(_is_steady(each, writes, found) for each in sources):
                    found[name] = place
            case _:
                pass
    return found


def _is_steady(operand: Operand, writes: Counter[str], found: Mapping[str, Step]) -> bool:
    match operand:
        case Immediate():
            return True
        case Register(name):
            return name in found or (not writes[name] and not is_volatile(name))
        case _:
            return False
