"""Which registers hold the same in all threads of a CTA, and which words does a kernel write?

A register is *uneven* if threads may hold different values in it at one place of the text: what is made of the number
of a thread, of what a warp exchanges or loads from shared memory, or is written where a branch that is uneven leads
around it. A load of global memory gives all threads the same at one address, as long as nobody writes there. Where
memory is, is followed back to parameters and variables: arrays that different pointers among the parameters lead to are
taken to be distinct, as everywhere, and a pointer that was loaded to lead to none of them.

Sound by name and without regard to order. Source: divergence analysis, as in compilers. Checked by:
tests/driver/explore/segments/test_even.py.
"""

from __future__ import annotations

from collections.abc import Collection

from tilewright.frontends.ptx.ast import Address, Instruction, Register, Symbol
from tilewright.machine.protocol.slicing.slice import Text
from tilewright.machine.symbolic.memory_words import STRONG

WAYS = frozenset({"bra", "ret", "exit"})
LOADED = "a pointer that was loaded"
"""Stands for where such a pointer leads."""
_SAME_FOR_ALL = ("%ctaid.", "%nctaid.", "%ntid.")
_BY_THREAD_ROWS = ("activemask", "fns", "istypep", "mma", "movmatrix", "t", "wmma")
"""Beginnings of rows that count as arithmetic elsewhere, and may give threads different values out of equal ones."""


def uneven(text: Text) -> frozenset[str]:
    """The registers of which threads of a CTA may hold different values at one place: by name, without regard to
    order. Words of global memory that the kernel may write count as such."""
    found: set[str] = set()
    written = roots_written(text)
    while True:
        before = len(found)
        partly = parted(text, found)
        for at, facts in enumerate(text.facts):
            if facts.writes <= found:
                continue
            apart = at in partly or any(_differs(text, found, name) for name in facts.reads)
            if apart or not _gives_all_the_same(text, at, written):
                found |= facts.writes
        if len(found) == before:
            return frozenset(found)


def is_same_for_all(text: Text, name: str) -> bool:
    """Whether a name is a register of the kernel, or a special one that all threads of a CTA read alike."""
    return name in text.declared or name.startswith(_SAME_FOR_ALL)


def _differs(text: Text, found: Collection[str], name: str) -> bool:
    return name in found or not is_same_for_all(text, name)


def parted(text: Text, found: Collection[str]) -> set[int]:
    """The places to which a part of the threads may come. found: the registers that are uneven."""
    places: set[int] = set()
    for at, item in enumerate(text.flow.instructions):
        guard = item.guard
        if item.row in WAYS and guard is not None and _differs(text, found, guard.register.name):
            places.update(text.flow.positions(text.flow.region(at)))
    return places


def _gives_all_the_same(text: Text, at: int, written: frozenset[str]) -> bool:
    facts, item = text.facts[at], text.flow.instructions[at]
    if facts.kind == "compute":
        return not item.row.startswith(_BY_THREAD_ROWS)
    if facts.kind != "load" or item.row != "ld" or not STRONG.isdisjoint(item.modifiers):
        return False
    if facts.space in ("param", "const"):
        return True
    return facts.space == "global" and roots(text, item).isdisjoint(written)


def roots(text: Text, item: Instruction) -> set[str]:
    """The parameters and variables that the addresses of an instruction are made of, and that one is made of what was
    loaded."""
    found: set[str] = set()
    seen: set[str] = set()
    waiting = _bases(item, found)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for at in text.definitions.get(name, ()):
            facts, other = text.facts[at], text.flow.instructions[at]
            if facts.kind == "load" and facts.space != "param":
                found.add(LOADED)
            else:
                found.update(operand.name for operand in other.operands if isinstance(operand, Symbol))
                waiting += [*_bases(other, found), *facts.reads]
    return found


def _bases(item: Instruction, found: set[str]) -> list[str]:
    """The registers that an instruction's addresses begin at. found: gets the symbols, those of parameters with the
    offset in them."""
    addresses = [each for each in item.operands if isinstance(each, Address)]
    for each in addresses:
        if isinstance(each.base, Symbol):
            found.add(f"{each.base.name}+{each.offset}" if "param" in item.modifiers else each.base.name)
    return [each.base.name for each in addresses if isinstance(each.base, Register)]


def roots_written(text: Text) -> frozenset[str]:
    """What the addresses of global memory are made of that the kernel writes. A pointer that was loaded is taken to
    lead elsewhere than the parameters do."""
    found: set[str] = set()
    for facts, item in zip(text.facts, text.flow.instructions, strict=True):
        if facts.kind == "store" and facts.space == "global":
            found |= roots(text, item)
    return frozenset(found)
