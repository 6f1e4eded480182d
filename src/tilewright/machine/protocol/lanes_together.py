"""May only a part of a warp's lanes come to an instruction that its lanes execute together?

What is `.aligned` must be executed by all threads of a warp, and by none where some have exited (`mma`, `ldmatrix`,
`stmatrix`, `movmatrix`); shuffles, votes, matches, reductions and elections wait for the lanes that their member mask
names. Where the run executes such an instruction, it sees which lanes come. It does not where tensor cores move only
registers, which no protocol depends on, and where a branch that depends on unknown data leads around it. So lanes are
followed through the text: a register *varies* if lanes of one warp may hold different values in it. What is computed
from registers that do not vary does not vary, and a load from one address gives all lanes the same, but where memory
may change meanwhile (volatile, acquire, relaxed). What a branch that varies leads around is executed by a part of a
warp, and what is written there varies.

The number of a thread in a warp whose block has one dimension is followed a little further: its upper bits, and how it
compares with a multiple of 32, are the same in all lanes.

Sound by name and without regard to order. What is not known to be the same varies. Source: PTX ISA, `.aligned`, mma,
ldmatrix, shfl.sync, membermask; divergence analysis, as in compilers. Checked by:
tests/coverage_attacks/test_exited_lanes.py, test_one_way.py, tests/hostile/test_warp_wide.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.frontends.ptx.ast import Immediate, Instruction, PairOfPredicates, Register
from tilewright.machine.protocol.slicing.slice_operands import Facts, is_volatile, symbols_read

if TYPE_CHECKING:
    from tilewright.machine.protocol.slicing.slice import Text

_ALIGNED_ROWS = ("bar.sync", "bar.arrive", "bar.red", "bar.cta.sync", "bar.cta.arrive", "bar.cta.red")
_BY_LANE = ("%tid", "%laneid", "%lanemask")
_BY_CHANCE = frozenset({"volatile", "acquire", "relaxed", "mmio"})
_SAME_SPACES = ("global", "shared", "const")
_WARP = 32


def needs_all_threads(item: Instruction) -> bool:
    """Whether all threads of a warp must execute an instruction."""
    return item.row in _ALIGNED_ROWS or "aligned" in item.modifiers or "aligned" in item.opcode.split(".")


def goes_one_way(item: Instruction) -> bool:
    """Whether lanes that come together to a branch, a call or an end must go one way, by the ISA (`.uni`)."""
    return "uni" in item.modifiers and (item.guard is not None or item.row == "brx.idx")


def varying(text: Text) -> frozenset[str]:
    """The registers in which lanes of one warp may hold different values; kept with the text."""
    if not text.varying:
        text.varying.append(_Lanes(text).follow())
    return text.varying[0]


def apart(text: Text) -> frozenset[int]:
    """The places of instructions for all threads of a warp to which only a part of one may come, among those that a
    protocol run leaves out; and of branches that must go one way for lanes which may want to go several."""
    wanted = [
        at
        for at, (item, facts) in enumerate(zip(text.flow.instructions, text.facts, strict=True))
        if not facts.kept and facts.kind == "compute" and needs_all_threads(item)
    ]
    one_way = [at for at, item in enumerate(text.flow.instructions) if goes_one_way(item)]
    if not wanted and not one_way:
        return frozenset()
    names = varying(text)
    decided = _decided(text, names)
    found = {at for at in one_way if not names.isdisjoint(use.register for use in text.facts[at].uses)}
    for at in wanted:
        guard = text.flow.instructions[at].guard
        if text.flow.block_of[at] in decided or (guard is not None and guard.register.name in names):
            found.add(at)
    return frozenset(found)


def _decided(text: Text, names: frozenset[str]) -> frozenset[int]:
    """The blocks that branches lead around of which lanes may take different ways."""
    found: set[int] = set()
    for at, facts in enumerate(text.facts):
        if facts.kind == "control" and any(use.role == "branch" and use.register in names for use in facts.uses):
            found |= text.flow.region(at)
    return frozenset(found)


class _Lanes:
    """What lanes of a warp hold, followed through a text."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.names: set[str] = set()
        self.decided: set[int] = set()
        self.branches: set[int] = set()
        self.parameters = {each.name for each in text.kernel.parameters}
        self.threads = _thread_numbers(text)

    def follow(self) -> frozenset[str]:
        """All registers that vary."""
        readers: dict[str, list[int]] = {}
        for at, facts in enumerate(self.text.facts):
            for name in facts.reads:
                readers.setdefault(name, []).append(at)
        self.names |= {name for name in readers if name.startswith(_BY_LANE) or _by_time(name)}
        waiting = list(range(len(self.text.facts)))
        while waiting:
            at = waiting.pop()
            fresh = self._at(at) - self.names
            self.names |= fresh
            for name in fresh:
                waiting += readers.get(name, ())
            waiting += self._branches_at(at)
        return frozenset(self.names)

    def _branches_at(self, at: int) -> Sequence[int]:
        """What a branch leads around that lanes may take differently."""
        facts = self.text.facts[at]
        if facts.kind != "control" or at in self.branches:
            return ()
        if not any(use.role == "branch" and use.register in self.names for use in facts.uses):
            return ()
        self.branches.add(at)
        fresh = self.text.flow.region(at) - self.decided
        self.decided |= fresh
        return self.text.flow.positions(frozenset(fresh))

    def _at(self, at: int) -> frozenset[str]:
        """What varies of what an instruction writes."""
        item, facts = self.text.flow.instructions[at], self.text.facts[at]
        if not facts.writes:
            return frozenset()
        guarded = item.guard is not None and item.guard.register.name in self.names
        if guarded or self.text.flow.block_of[at] in self.decided:
            return facts.writes
        if self._of_threads(item):
            return frozenset()
        moved = any(use.register in self.names for use in facts.uses)
        match facts.kind:
            case "compute":
                return facts.writes if moved or needs_all_threads(item) else frozenset()
            case "collective":
                return self._collective(item, facts, moved)
            case "load":
                known = facts.space in _SAME_SPACES or self._is_parameter(item, facts)
                by_chance = not _BY_CHANCE.isdisjoint(item.modifiers)
                whole = item.row in ("ld", "ldu")
                return frozenset() if known and whole and not moved and not by_chance else facts.writes
            case _:
                return facts.writes

    def _is_parameter(self, item: Instruction, facts: Facts) -> bool:
        return facts.space == "param" and any(name in self.parameters for name, _ in symbols_read(item))

    def _collective(self, item: Instruction, facts: Facts, moved: bool) -> frozenset[str]:
        match item.row, item.operands:
            case (("vote.sync" | "redux.sync" | "match.all.sync"), _):
                return frozenset()
            case "elect.sync", (PairOfPredicates(_, second), *_):
                return frozenset({second.name})
            case "shfl.sync", (_, _, lane, Immediate(int() as clamp), *_) if "idx" in item.modifiers:
                same = not isinstance(lane, Register) or lane.name not in self.names
                return frozenset() if same and not clamp >> 8 & 31 else facts.writes
            case "shfl.sync", (Register(name), _, Immediate(), Immediate(), *_) if not moved:
                return facts.writes - {name}
            case _:
                return facts.writes

    def _of_threads(self, item: Instruction) -> bool:
        """Whether an instruction makes something of a thread's number that is the same in all lanes."""
        match item.row, item.operands:
            case "shr", (_, Register(name), Immediate(int() as shift)) if name in self.threads:
                return shift >= 5
            case "and", (_, Register(name), Immediate(int() as mask)) if name in self.threads:
                return not mask & (_WARP - 1)
            case "div", (_, Register(name), Immediate(int() as divisor)) if name in self.threads:
                return divisor > 0 and not divisor % _WARP and item.modifiers == ("u32",)
            case "setp", (Register(), Register(name), Immediate(int() as bound)) if name in self.threads:
                if len(item.modifiers) != 2 or item.modifiers[1] not in ("u32", "s32"):
                    return False
                begins = item.modifiers[0] in ("lt", "ge", "lo", "hs") and not bound % _WARP
                ends = item.modifiers[0] in ("gt", "le", "hi", "ls") and not (bound + 1) % _WARP
                return begins or ends
            case _:
                return False


def _by_time(name: str) -> bool:
    return is_volatile(name) and name.startswith(("%clock", "%globaltimer", "%pm"))


def _thread_numbers(text: Text) -> frozenset[str]:
    """Registers of 32 bits that hold, in lane i of each warp, a multiple of 32 and i."""
    block = text.kernel.directives.get("reqntid") or text.kernel.directives.get("maxntid") or ()
    if not block or any(each != 1 for each in block[1:]):
        return frozenset()
    found: set[str] = {"%tid.x"}
    size = 0
    while size < len(found):
        size = len(found)
        for name, places in text.definitions.items():
            if name not in found and all(_moves_number(text.flow.instructions[at], found) for at in places):
                found.add(name)
    return frozenset(found)


def _moves_number(item: Instruction, known: set[str]) -> bool:
    match item.row, item.modifiers, item.operands:
        case "mov", (("u32" | "b32" | "s32"),), (Register(), Register(name)):
            return item.guard is None and name in known
        case (("add" | "sub"), (("u32" | "s32" | "b32"),), (Register(), Register(name), Immediate(int() as step))):
            return item.guard is None and name in known and not step % _WARP
        case _:
            return False
