"""Which traces does an instruction leave that is missing? Operands that nothing uses: predicates, and addresses of
shared memory.

Checked by: tests/driver/repair/test_repair.py.
"""

from __future__ import annotations

from tilewright.driver.repair.text import Place, Subject, read_by, written
from tilewright.frontends.ptx.ast import Instruction, PairOfPredicates, Symbol

_ADDRESSING = ("add", "mov", "mad", "or", "selp", "mapa", "sub", "cvta")


def predicates_of(item: Instruction) -> set[str]:
    """Names of the predicates that an instruction computes."""
    if item.row == "setp" or item.opcode.endswith(".pred"):
        return written(item)
    match item.operands[:1]:
        case (PairOfPredicates(_, second),) if item.row in ("elect.sync", "shfl.sync"):
            return {second.name}
        case _:
            return set()


def constant_text(at: tuple[str, int]) -> str:
    """`smem+16`, as it stands between brackets."""
    return f"{at[0]}+{at[1]}" if at[1] else at[0]


def addresses_among(subject: Subject, places: list[Place]) -> list[Place]:
    """Those that compute an address in shared memory: something of a symbol is in it."""
    return [
        place for place in places
        if place.item.row in ("add", "mov", "mad", "or", "selp", "mapa", "sub") and _of_a_symbol(subject, place.item)
    ]  # fmt: skip


def _of_a_symbol(subject: Subject, item: Instruction, depth: int = 8) -> bool:
    if any(isinstance(operand, Symbol) for operand in item.operands[1:]):
        return True
    names = read_by(item)
    makers = [place.item for place in subject.places if written(place.item) & names and place.item is not item]
    return depth > 0 and any(_of_a_symbol(subject, each, depth - 1) for each in makers[:4] if each.row in _ADDRESSING)


def unused_results(subject: Subject) -> list[Place]:
    """Unused results that are not the operand of another unused one."""
    consumed = {
        name for place in subject.dead for name in read_by(place.item) if name not in written(place.item)
    }  # fmt: skip
    return [place for place in subject.dead if not written(place.item) & consumed]
