"""Does what a launch chooses step a register that a loop carries, so that one run says nothing of other launches?

That a loop repeats itself is seen in one launch. It holds of others if what an iteration makes of the registers that it
got is the same in all of them. So each register is followed once around the loop, to see what its next value is made
of: registers that the iteration got, what memory holds, and what a launch chooses, be it a number, or a branch or guard
that decides whether the register is stepped at all. A register that rests on itself, and on what a launch chooses, is
another function of the number of iterations in each launch. Of these three are understood:

- it begins at a number of the launch and is stepped by a constant: it gains the same in all launches;
- it is stepped by an amount that the loop does not change, such as the size of the grid: it is *open*. How it differs
  from a number is never taken for granted (`induction` refuses to compare it, but to end the loop);
- what is chosen is only how often it is stepped, and the steps lead through few states, such as a stage and a phase.
  Where a number of the launch decides together with a counter (`i + 5 < n`), either way is followed, so that the
  counter itself is no part of the state.
  Of a counter of which nothing reads more than some low bits, these are the state. The states are enumerated
  (`few_states`): the loop's instructions are followed with what these registers held, both ways where something else
  decides. A counter that is read modulo a number alone (`induction.is_read_modulo`), as one that is divided by the
  number of stages, has no more states than that.

Anything else is an objection. Shared and local memory count as one register more, which may not rest on itself.

Not handled: what barriers count. Source: loop-carried dependences, as in any compiler text.
Checked by: tests/coverage_attacks/test_chosen_steps.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.frontends.ptx.ast import Immediate, Instruction, Operand, Register
from tilewright.machine.core.lanes import WARP_SIZE
from tilewright.machine.protocol.loops.counter_values import Snapshot
from tilewright.machine.protocol.loops.few_states import few_states, heeded_bits
from tilewright.machine.protocol.slicing.slice import Slice
from tilewright.machine.protocol.slicing.slice_flow import NaturalLoop
from tilewright.machine.protocol.slicing.slice_operands import Facts, reads_answer
from tilewright.machine.protocol.slicing.steering import Steering
from tilewright.machine.symbolic.reached import SHAPES

CHOSEN = "*"
"""Stands for what a launch chooses among what a value is made of."""
DECIDED = "?"
"""Stands for a launch's choice whether an instruction is executed, or how often."""
MEMORY = "[memory]"
"""Stands for shared and local memory."""
_READ_BACK = ("shared", "local", "generic")
_NOTHING: frozenset[str] = frozenset()
_THE_CHOICE = frozenset({CHOSEN})
_THE_DECISION = frozenset({DECIDED})

Made = Mapping[str, frozenset[str]]
"""What registers are made of."""


@dataclass(frozen=True, slots=True)
class ChosenSteps:
    """Of one loop. open: registers that are stepped by what a launch chooses, by the same in each iteration; left:
    those (and `MEMORY`) that hold something else after an iteration in each launch, and in each iteration; against: the
    place of what steps a register otherwise, and why that is an objection; few: those that lead through few states as a
    launch chooses, and what is made of these alone."""

    open: frozenset[str] = frozenset()
    left: frozenset[str] = frozenset()
    against: tuple[int, str] | None = None
    few: frozenset[str] = frozenset()


def chosen_steps(
    sliced: Slice, steers: Steering, loop: NaturalLoop, chosen: Collection[str], snapshots: Sequence[Snapshot],
    is_read_modulo: Callable[[str, Collection[str]], bool] = lambda _name, _carried: False,
) -> ChosenSteps:  # fmt: skip
    """What steps the registers that a loop carries. chosen: registers that inputs reach; snapshots: of its iterations
    in a run; is_read_modulo: whether a register is read modulo a small number alone, beside what the loop carries."""
    around = _Around(sliced, steers, loop, frozenset(chosen))
    around.follow()
    carried = around.carried()
    rests_on = {name: around.made_at_the_end(name) for name in carried}
    above = {name: _closure(name, rests_on) for name in carried}
    opened: set[str] = set()
    few: set[str] = set()
    for name in sorted(carried):
        if name not in _unmarked(above[name]):
            continue  # an iteration forgets what it got
        together = (above[name] & carried) | {name}
        sources = frozenset[str]().union(*(rests_on[each] for each in together))
        begun = any(around.begins_chosen(each) for each in together)
        if name == MEMORY:
            return ChosenSteps(against=(around.place_of(name), "what memory holds is stepped in each iteration"))
        if not begun and sources.isdisjoint((CHOSEN, DECIDED)):
            continue
        if len(together) == 1 and DECIDED not in sources and around.is_counter(name):
            opened |= {name} if CHOSEN in sources else _NOTHING
            continue
        if not begun and CHOSEN not in sources and MEMORY not in together:
            starts, fixed = around.held(snapshots, together)
            bits = {each: heeded_bits(sliced, each, steers.registers) for each in together}
            heeded = {each: (1 << found) - 1 for each, found in bits.items() if found is not None}
            if few_states(sliced, loop, together, starts, fixed, around.is_followed, heeded):
                few |= together
                continue
            if len(together) == 1 and is_read_modulo(name, carried):
                few.add(name)
                continue
        return ChosenSteps(against=(around.place_of(name), f"{name} is stepped by what a launch chooses"))
    moved = {name for name in carried if not above[name].isdisjoint((CHOSEN, DECIDED))}
    return ChosenSteps(frozenset(opened), frozenset(few) | around.left(moved), few=around.made_of(few))


def _deciding(sources: frozenset[str]) -> frozenset[str]:
    """What a value is made of, as a part of what is decided by it. Where a launch chooses among other things, either
    way is followed (`few_states`), so that what is decided rests on nothing else: that is marked."""
    if CHOSEN not in sources:
        return sources
    return _THE_DECISION.union(each if each[:1] == DECIDED else DECIDED + each for each in sources - _THE_CHOICE)


def _unmarked(sources: frozenset[str]) -> frozenset[str]:
    """What something is made of, and what decided about it."""
    return frozenset(each.removeprefix(DECIDED) if each != DECIDED else each for each in sources)


def _closure(name: str, rests_on: Made) -> frozenset[str]:
    """All that a register's value rests on, after any number of iterations."""
    found: set[str] = set()
    waiting = [*rests_on[name]]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += rests_on.get(each, _NOTHING)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class _Sum:
    """A register that the iteration got, and something that the loop does not change. base: "" if it is that alone,
    of the grid and read anew in each iteration; open: a launch chooses it."""

    base: str
    open: bool


@dataclass(slots=True, eq=False)
class _Around:
    """One iteration of a loop, followed. writers: where the loop writes each register; made: what registers are made of
    where each block ends; sums: those that are a carried register and something else."""

    sliced: Slice
    steers: Steering
    loop: NaturalLoop
    chosen: frozenset[str]
    writers: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    made: dict[int, dict[str, frozenset[str]]] = field(default_factory=dict[int, dict[str, frozenset[str]]])
    sums: dict[int, dict[str, _Sum | None]] = field(default_factory=dict[int, dict[str, _Sum | None]])
    at_choice: frozenset[int] = frozenset()
    deciding: dict[int, list[int]] = field(default_factory=dict[int, list[int]])

    @property
    def _facts(self) -> Sequence[Facts]:
        return self.sliced.text.facts

    def follow(self) -> None:
        """Follow registers around the loop, until nothing is added."""
        flow = self.sliced.text.flow
        for at in flow.positions(self.loop.blocks):
            if at in self.sliced.executed:
                for name in self._facts[at].writes & self.steers.registers:
                    self.writers.setdefault(name, []).append(at)
                if self._stores(at):
                    self.writers.setdefault(MEMORY, []).append(at)
        self._decisions()
        head = flow.block_of[self.loop.head]
        waiting = [head]
        while waiting:
            block = waiting.pop()
            made, sums = self._before(block)
            for at in range(flow.blocks[block].begin, flow.blocks[block].end):
                if at in self.sliced.executed:
                    self._step(at, block, made, sums)
            if self.made.get(block) == made and self.sums.get(block) == sums:
                continue
            self.made[block], self.sums[block] = made, sums
            waiting += [each for each in flow.blocks[block].successors if each in self.loop.blocks and each != head]
            # What decides about other blocks may be made of more now.
            waiting += [each for each in self.deciding if block in self.deciding[each] and each in self.made]

    def _decisions(self) -> None:
        """Which blocks run, or run again, as branches decide."""
        flow = self.sliced.text.flow
        always = frozenset(flow.passed(self.loop))
        inner = [each for each in flow.loops if each.blocks < self.loop.blocks]
        repeated = frozenset[int]().union(*(each.blocks for each in inner))
        at_choice: set[int] = set()
        for block in self.loop.blocks:
            branch = flow.blocks[block].end - 1
            # Of iterations that come to their end, a way out decides nothing.
            if len(self.loop.blocks.intersection(flow.blocks[block].successors)) < 2:
                continue
            if branch not in self.sliced.executed:
                continue
            decided = (flow.region(branch) & self.loop.blocks) - (always - repeated)
            for each in inner:
                if block in each.blocks and not each.blocks.issuperset(flow.blocks[block].successors):
                    decided |= each.blocks
            if any(use.register in self.chosen for use in self._facts[branch].uses):
                at_choice |= decided
            for each in decided:
                self.deciding.setdefault(each, []).append(block)
        if any(flow.block_of[each] in self.loop.blocks for each in flow.irreducible):
            at_choice |= self.loop.blocks
        self.at_choice = frozenset(at_choice)

    def _before(self, block: int) -> tuple[dict[str, frozenset[str]], dict[str, _Sum | None]]:
        """What registers are made of where a block begins."""
        flow = self.sliced.text.flow
        if block == flow.block_of[self.loop.head]:
            names = self.writers
            itself = {name: frozenset({name}) if name != MEMORY else _NOTHING for name in names}
            return itself, {name: _Sum(name, False) for name in names}
        made: dict[str, frozenset[str]] = {}
        sums: dict[str, _Sum | None] = {}
        for each in flow.blocks[block].predecessors:
            for name, sources in self.made.get(each, {}).items():
                made[name] = made.get(name, _NOTHING) | sources
            for name, found in self.sums.get(each, {}).items():
                sums[name] = found if sums.get(name, found) == found else None
        return made, sums

    def _of(self, name: str, made: Made) -> frozenset[str]:
        if name in self.writers:
            return made.get(name, _NOTHING)
        return _THE_CHOICE if name in self.chosen else _NOTHING

    def _stores(self, at: int) -> bool:
        facts = self._facts[at]
        return facts.kind in ("store", "atomic") and facts.space != "global" and self._steers_by_memory(at)

    def _steers_by_memory(self, at: int) -> bool:
        return self.steers.memory and at in self.sliced.stores

    def _step(
        self, at: int, block: int, made: dict[str, frozenset[str]], sums: dict[str, _Sum | None]
    ) -> None:  # fmt: skip
        """What an instruction makes of registers."""
        facts, item = self._facts[at], self.sliced.text.flow.instructions[at]
        written = facts.writes & self.steers.registers
        stores = self._stores(at)
        if not written and not stores:
            return
        guard = _NOTHING if item.guard is None else _deciding(self._of(item.guard.register.name, made))
        value = frozenset[str]().union(
            *(self._of(use.register, made) for use in facts.uses if use.role not in ("guard", "branch"))
        )
        if facts.kind in ("load", "atomic"):
            value |= self._loaded(facts, made)
        if reads_answer(item):
            value |= _THE_CHOICE
        deciding = guard | (_THE_DECISION if block in self.at_choice else _NOTHING)
        for each in self.deciding.get(block, ()):
            branch = self._facts[self.sliced.text.flow.blocks[each].end - 1]
            for use in branch.uses:
                deciding |= _deciding(self._of(use.register, self.made.get(each, {})))
        sum_made = self._sum(item, sums) if item.guard is None and block not in self.deciding else None
        for name in written:
            kept = made.get(name, _NOTHING) if item.guard is not None else _NOTHING
            made[name] = value | deciding | kept
            sums[name] = sum_made
        if stores:
            # What others stored stays. Where a launch decides whether this is stored, memory remembers how it did.
            remembers = DECIDED in deciding or facts.kind == "atomic" or item.row == "red"
            made[MEMORY] = made.get(MEMORY, _NOTHING) | value | deciding | ({MEMORY} if remembers else _NOTHING)

    def _loaded(self, facts: Facts, made: Made) -> frozenset[str]:
        found = _NOTHING
        if facts.space in _READ_BACK and MEMORY in self.writers:
            found |= made.get(MEMORY, _NOTHING) | {MEMORY}
        if facts.space in ("param", "const", "global", "generic") and not facts.writes.isdisjoint(self.chosen):
            found |= _THE_CHOICE
        return found

    def _sum(self, item: Instruction, sums: Mapping[str, _Sum | None]) -> _Sum | None:
        """A sum of a carried register and what the loop does not change."""
        words = item.modifiers
        match item.row, item.operands:
            case ("mov", (Register(target), Register(name))) if len(words) == 1:
                return _Sum("", target in self.chosen) if name.startswith(SHAPES) else sums.get(name)
            case (("add" | "sub"), (_, one, other)) if len(words) == 1 and words[0][:1] in "sub":
                for base, step in ((one, other), (other, one)) if item.row == "add" else ((one, other),):
                    known = sums.get(base.name) if isinstance(base, Register) else None
                    fixed = self._fixed(step, sums)
                    if known is not None and known.base and fixed is not None:
                        return _Sum(known.base, known.open or fixed)
            case _:
                pass
        return None

    def _fixed(self, operand: Operand, sums: Mapping[str, _Sum | None]) -> bool | None:
        """Whether a launch chooses an operand that the loop does not change; None of what it changes."""
        match operand:
            case Immediate():
                return False
            case Register(name) if name not in self.writers:
                return name in self.chosen
            case Register(name) if (known := sums.get(name)) is not None and not known.base:
                return known.open
            case _:
                return None

    # What is known in the end

    def carried(self) -> frozenset[str]:
        """What the loop writes and an iteration, or what comes after, reads before it is written again."""
        live = _live(self.sliced, self.sliced.text.flow.block_of[self.loop.head])
        return frozenset(name for name in self.writers if name == MEMORY or name in live)

    def _ends(self) -> list[int]:
        flow = self.sliced.text.flow
        return [block for edge in self.loop.back_edges if (block := flow.block_of[edge]) in self.made]

    def made_at_the_end(self, name: str) -> frozenset[str]:
        """What a register is made of when an iteration has ended."""
        return frozenset[str]().union(*(self.made[block].get(name, _NOTHING) for block in self._ends()))

    def left(self, moved: Collection[str]) -> frozenset[str]:
        """What holds something else after each iteration, as a launch chooses. moved: what does so among the registers
        that an iteration gets."""
        found: set[str] = set()
        for made in self.made.values():
            for name, sources in made.items():
                by_choice = not sources.isdisjoint((CHOSEN, DECIDED)) and sources - {CHOSEN, DECIDED}
                if by_choice or not _unmarked(sources).isdisjoint(moved):
                    found.add(name)
        return frozenset(found)

    def made_of(self, few: Collection[str]) -> frozenset[str]:
        """Some registers, and what is computed of them and constants alone, whoever decides whether it is."""
        found: dict[str, bool] = dict.fromkeys(few, True)
        for made in self.made.values():
            for name, sources in made.items():
                if sources <= {name}:
                    continue  # not written yet
                plain = {each for each in sources if each[:1] != DECIDED and each != name}
                found[name] = found.get(name, True) and bool(plain or name in few) and plain <= set(few)
        return frozenset(name for name, holds in found.items() if holds or name in few)

    def is_counter(self, name: str) -> bool:
        """Whether each iteration adds to a register what the loop does not change."""
        found = {self.sums[block].get(name) for block in self._ends()}
        return len(found) == 1 and (one := found.pop()) is not None and one.base == name

    def begins_chosen(self, name: str) -> bool:
        """Whether a launch may choose what a register holds before the loop."""
        if name == MEMORY:
            return False
        text = self.sliced.text
        outside = [at for at in text.definitions.get(name, ()) if text.flow.block_of[at] not in self.loop.blocks]
        return any(self._is_chosen(at) for at in outside if at in self.sliced.executed)

    def _is_chosen(self, at: int) -> bool:
        facts = self._facts[at]
        loaded = facts.kind in ("load", "atomic") and not facts.writes.isdisjoint(self.chosen)
        return loaded or not self.chosen.isdisjoint(facts.reads)

    def held(
        self, snapshots: Sequence[Snapshot], names: Collection[str]
    ) -> tuple[list[dict[str, int]], dict[str, int]]:  # fmt: skip
        """What some registers held together, in any lane where any iteration began, and what those always hold that the
        loop does not write and no launch chooses."""
        found: dict[tuple[tuple[str, int], ...], None] = {}
        for each in snapshots:
            columns = {name: np.asarray(each[name]).astype(np.int64).tolist() for name in sorted(names) if name in each}
            for lane in range(WARP_SIZE):
                found[tuple((name, column[lane]) for name, column in columns.items())] = None
        fixed = {
            name: int(values[0])
            for name, held in (snapshots[-1].items() if snapshots else ())
            if name not in self.writers and name not in self.chosen
            if (values := np.asarray(held).astype(np.int64)).size and (values == values[0]).all()
        }
        return [dict(each) for each in found], fixed

    def is_followed(self, name: str) -> bool:
        """Whether no launch chooses what a register is computed from."""
        if name not in self.writers:
            return name not in self.chosen
        return not any(CHOSEN in made.get(name, _NOTHING) for made in self.made.values())

    def place_of(self, name: str) -> int:
        return max(self.writers.get(name, [self.loop.head]))


def _live(sliced: Slice, head: int) -> frozenset[str]:
    """The registers that are read after the beginning of a block before they are written."""
    flow, facts = sliced.text.flow, sliced.text.facts
    read: list[set[str]] = []
    kept: list[set[str]] = []
    for block in flow.blocks:
        first: set[str] = set()
        written: set[str] = set()
        for at in range(block.begin, block.end):
            if at not in sliced.executed:
                continue
            first |= facts[at].reads - written
            if flow.instructions[at].guard is None:
                written |= facts[at].writes
        read.append(first)
        kept.append(written)
    live = [set(each) for each in read]
    changed = True
    while changed:
        changed = False
        for number in range(len(flow.blocks) - 1, -1, -1):
            after = set[str]().union(*(live[each] for each in flow.blocks[number].successors))
            now = read[number] | (after - kept[number])
            if now != live[number]:
                live[number] = now
                changed = True
    return frozenset(live[head])
