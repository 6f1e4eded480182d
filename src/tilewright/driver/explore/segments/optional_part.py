"""Which kernels stand for one with a loop that does a part of its iteration only in some iterations?

A persistent product whose loop over tiles and loop over slices were made one stores its result in some iterations: in
which ones, a counter says that begins anew as it meets a number of the launch. Its ring of slots goes on meanwhile. No
launch shows all numbers of slices with all slots of the ring. Two kernels are made: one does that part, the *episode*,
in every iteration, the other one in none. If both are clean for all launches, so is the kernel, in whatever iterations
it does that part. For an execution of the kernel, take the executions of both made kernels with the same numbers.

All threads come to every episode, and what it does is the same each time: what steers it is written in it before, or
nowhere in the loop; and nothing that steers the rest is written in it. It has stores, barriers of all threads, waits
for groups, and copies out of shared memory, but no step on an mbarrier, nothing that a wait counts but its own bulk
groups, and no product. So

- what the rest does is what it does without episodes, event by event: barriers of all threads meet as before, since all
  threads come to those of the rest, too, and to equally many; what fills and frees the ring is the same;
- what orders two events is a path: the order of one thread's instructions, a barrier, an arrival and its wait, a copy
  or product and the wait that retires it. A wait for groups retires what it does with fewer groups committed since:
  groups of an episode between make others older, and older ones are waited for all the same;
- so two events of the rest are ordered as in the kernel without episodes;
- an event of the rest and the next episode behind it, in the same iteration or in the one after it, are ordered in the
  kernel with all episodes, by a path that goes through no other episode, since there is none between. A later episode
  in that one's place leaves the path as it is: what comes before the episode still does. So the event is ordered before
  every episode behind it;
- likewise each episode and the rest behind it, up to the next episode, and so up to the end of the kernel; and each
  episode and the next one, hence any later one.

Two stores of one value that no path orders are no part of this: with them nothing is proven (`judge_segments`).

Numbers that all threads of a CTA compute alike before all loops by products and quotients of others are drawn: the made
kernels have parameters instead. Registers that a loop carries and nobody reads behind it have a name of their own in
it, so that what steers another loop is not taken to steer this one.

Source: Lipton, "Reduction", 1975 (events that may be moved); partial orders of executions, as in the judge. Not
handled: clusters; words of memory that steer; parts that alternate between slots of their own; several such parts in
one loop; tensor memory.
Checked by: tests/coverage_attacks/test_optional_parts.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tilewright.base.span import Span
from tilewright.driver.explore.segments.cut_kernel import (
    is_arithmetic,
    is_of_all,
    live_registers,
    loads_what_steers,
    made_instruction,
)
from tilewright.driver.explore.segments.even import parted, uneven
from tilewright.frontends.ptx.ast import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Label,
    Parameter,
    Register,
    RegisterDeclaration,
    Symbol,
)
from tilewright.machine.core.inline import renamed_instruction
from tilewright.machine.protocol.slicing.slice import Slice, Text, closure
from tilewright.machine.protocol.slicing.slice_flow import NaturalLoop
from tilewright.machine.protocol.slicing.slice_operands import reads_answer
from tilewright.machine.protocol.slicing.steering import Steering
from tilewright.machine.symbolic.memory_words import STRONG

_EPISODE_ROWS = frozenset({
    "bar.sync", "bar.warp.sync", "bra", "ld", "st", "ldmatrix", "stmatrix", "shfl.sync", "elect.sync",
    "cp.async.bulk", "cp.async.bulk.tensor", "cp.async.bulk.commit_group", "cp.async.bulk.wait_group",
    "fence.proxy.async", "wgmma.fence", "wgmma.wait_group",
})  # fmt: skip
"""What an episode may execute beside arithmetic; copies only where a bulk group completes them."""
_SPACES = frozenset({"shared", "global", "param", "const", "none"})
_PRODUCTS = ("mul", "mad")
_QUOTIENTS = ("div", "rem")
_WIDTHS = {"b32": 32, "u32": 32, "s32": 32, "b64": 64, "u64": 64, "s64": 64}
_DRAWN = "__drawn_number_"


@dataclass(frozen=True, slots=True)
class OptionalPart:
    """Two kernels that stand for one with an optional part in a loop. place: the branch that decides; drawn: how many
    parameters they have more."""

    always: Kernel
    never: Kernel
    place: Span
    drawn: int


def optional_parts(sliced: Slice, steers: Steering) -> Iterator[OptionalPart]:
    """The ways to see an optional part in a loop of a kernel, if it has any."""
    text = sliced.text
    flow = text.flow
    if steers.memory or sliced.loads or flow.irreducible or text.kernel.branch_tables:
        return
    if any(loads_what_steers(facts, steers) for facts in text.facts):
        return  # a copy may write there meanwhile
    branches = [
        block.end - 1
        for block in flow.blocks[:-1]
        if len(block.successors) == 2 and flow.instructions[block.end - 1].row == "bra"
    ]
    found: list[_Part] = []
    for branch in branches:
        part = _part(text, steers, branch)
        if part is not None:
            found.append(part)
    if not found:
        return
    apart = uneven(text)
    partly = parted(text, apart)
    if not _barriers_are_of_all(text, partly):
        return
    for part in found:
        if part.branch in partly or part.decides in apart:
            continue
        made = _Made(text, steers, _heeded(sliced, steers), apart, part)
        if made.is_the_same_each_time():
            yield OptionalPart(
                made.kernel(done=True), made.kernel(done=False), flow.instructions[part.branch].span, len(made.drawn)
            )


def _heeded(sliced: Slice, steers: Steering) -> frozenset[str]:
    """What steers, and what tells tensor maps apart: these say which bytes a copy touches."""
    maps = {sink.register for sink in sliced.sinks if sink.role == "sync"}
    return steers.registers | closure(sliced.text, maps, sliced.stores, reads_answer)[0]


@dataclass(frozen=True, slots=True)
class _Part:
    """What a branch decides about in a loop. decides: by which register; skips: whether it jumps past it; join: the
    block behind it; again: the blocks of the outermost loop around it."""

    branch: int
    decides: str
    skips: bool
    blocks: frozenset[int]
    join: int
    loop: NaturalLoop
    again: frozenset[int]


def _part(text: Text, steers: Steering, branch: int) -> _Part | None:
    """The part of a loop that a branch decides about, if an episode may execute all that is in it, and it takes a step
    that all threads take."""
    flow = text.flow
    own, item = flow.block_of[branch], flow.instructions[branch]
    around = [loop for loop in flow.loops if own in loop.blocks]
    if not around or item.guard is None or item.guard.register.name not in steers.registers:
        return None
    loop, join, blocks = around[0], flow.postdominator[own], flow.region(branch)
    written = {name for at in flow.positions(loop.blocks) for name in text.facts[at].writes}
    inside = blocks and blocks <= loop.blocks and join in loop.blocks and join in flow.blocks[own].successors
    if not inside or item.guard.register.name not in written:
        return None
    entered = all(set(flow.blocks[each].predecessors) <= blocks | {own} for each in blocks)
    if not entered or own in blocks or any(each.blocks <= blocks for each in flow.loops):
        return None
    positions = flow.positions(blocks)
    if not all(_may_be_in_an_episode(text, at) for at in positions) or not any(text.facts[at].kept for at in positions):
        return None
    skips = flow.block_of[branch + 1] != join
    return _Part(branch, item.guard.register.name, skips, blocks, join, loop, around[-1].blocks)


def _may_be_in_an_episode(text: Text, at: int) -> bool:
    item, facts = text.flow.instructions[at], text.facts[at]
    if facts.kind in ("compute", "hint"):
        return is_arithmetic(item)
    if item.row not in _EPISODE_ROWS or facts.space not in _SPACES or not STRONG.isdisjoint(item.modifiers):
        return False
    if item.row in ("cp.async.bulk", "cp.async.bulk.tensor"):
        return "bulk_group" in item.modifiers
    return item.row != "bar.sync" or is_of_all(item)


def _barriers_are_of_all(text: Text, partly: set[int]) -> bool:
    """Whether barrier 0 is always met by all threads, and which barrier is meant is written down."""
    for at, item in enumerate(text.flow.instructions):
        if not item.row.startswith("bar") or item.row.startswith(("bar.warp", "barrier.cluster")):
            continue
        first = item.operands[0] if item.operands else None
        if not isinstance(first, Immediate) or (first.value == 0 and (not is_of_all(item) or at in partly)):
            return False
    return True


@dataclass(slots=True, eq=False)
class _Made:
    """What is made of a kernel for one part. heeded: what events are made of; apart: what threads hold apart; own: new
    names of registers in the loop; drawn: the parameters for what is drawn, by place."""

    text: Text
    steers: Steering
    heeded: frozenset[str]
    apart: frozenset[str]
    part: _Part
    own: dict[str, str] = field(init=False)
    drawn: dict[int, str] = field(init=False)
    live: list[frozenset[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.live = live_registers(self.text)
        self.own = {name: f"{name}__in_loop" for name in sorted(self._left_in_the_loop())}
        places = (at for at in range(len(self.text.flow.instructions)) if self._is_drawn(at))
        self.drawn = {at: f"{_DRAWN}{number}" for number, at in enumerate(places)}

    @property
    def _inside(self) -> list[int]:
        return self.text.flow.positions(self.part.loop.blocks)

    def _left_in_the_loop(self) -> set[str]:
        """The registers that steer, are written in the loop and elsewhere, and hold nothing of use behind it."""
        flow, facts, blocks = self.text.flow, self.text.facts, self.part.loop.blocks
        ends = {each for block in blocks for each in flow.blocks[block].successors} - blocks
        behind = frozenset[str]().union(*(self.live[each] for each in ends))
        written = {name for at in self._inside for name in facts[at].writes} & self.steers.registers
        outside = set(range(len(flow.instructions))).difference(self._inside)
        elsewhere = {name for at in outside for name in facts[at].writes | facts[at].reads}
        return {name for name in written - behind if name in elsewhere and self._type(name)}

    def _is_drawn(self, at: int) -> bool:
        """Whether an instruction before all loops computes a number that steers by a product or quotient of numbers
        which all threads of the CTA hold alike."""
        item, facts = self.text.flow.instructions[at], self.text.facts[at]
        of_two = item.row in _PRODUCTS and sum(isinstance(each, Register) for each in item.operands[1:3]) == 2
        if not of_two and item.row not in _QUOTIENTS:
            return False
        (name,) = facts.writes if len(facts.writes) == 1 else ("",)
        return (
            name in self.steers.registers
            and name not in self.apart
            and item.guard is None
            and len(self.text.definitions[name]) == 1
            and self._type(name) in _WIDTHS
            and not self.text.flow.is_in_a_loop(at)
        )

    def _type(self, name: str) -> str:
        return next((each.type for each in self.text.kernel.registers if name in each.names), "")

    # What an episode rests on

    def is_the_same_each_time(self) -> bool:
        """Whether nothing that steers an episode changes outside of it, and it writes nothing that steers the rest."""
        flow, facts = self.text.flow, self.text.facts
        positions = flow.positions(self.part.blocks)
        written = {name for at in positions for name in facts[at].writes} & self.heeded
        if written & self.live[self.part.join]:
            return False
        if any(facts[at].kind == "load" and facts[at].writes & self.heeded for at in positions):
            return False
        return all(self._is_fixed(name, frozenset()) for name in self._exposed() & self.heeded)

    def _exposed(self) -> frozenset[str]:
        """What an episode reads before it writes it."""
        flow, facts = self.text.flow, self.text.facts
        found: dict[int, frozenset[str]] = {}

        def before(block: int) -> frozenset[str]:
            if block not in self.part.blocks:
                return frozenset()
            if block not in found:
                read = frozenset[str]().union(*(before(each) for each in flow.blocks[block].successors))
                for at in range(flow.blocks[block].end - 1, flow.blocks[block].begin - 1, -1):
                    if flow.instructions[at].guard is None:
                        read -= facts[at].writes
                    read |= facts[at].reads
                found[block] = read
            return found[block]

        return frozenset[str]().union(*(before(block) for block in self.part.blocks))

    def _is_fixed(self, name: str, above: frozenset[str]) -> bool:
        """Whether a register holds the same in each iteration of all loops around: these do not write it, or compute it
        anew of what holds the same, in the lanes of the warp."""
        places = self.text.definitions.get(name, ())
        inside = [at for at in places if self.text.flow.block_of[at] in self.part.again]
        if not inside:
            return True
        (at, *others) = places
        item, facts = self.text.flow.instructions[at], self.text.facts[at]
        computes = facts.kind == "compute" or item.row == "shfl.sync"
        once = computes and not others and item.guard is None and name not in above
        return once and all(self._is_fixed(each, above | {name}) for each in facts.reads)

    # The text of a made kernel

    def kernel(self, *, done: bool) -> Kernel:
        """The kernel that does the part in every iteration, or in none."""
        kernel, flow = self.text.kernel, self.text.flow
        inside = frozenset(self._inside)
        ahead = self._ahead()
        body: list[Instruction | Label] = []
        at = 0
        for each in kernel.body:
            if isinstance(each, Label):
                body.append(each)
                continue
            item = renamed_instruction(each, self.own) if at in inside else each
            if at in ahead and item.row == "bra":
                body += self._taken_along(item.span)
            if at in self.drawn:
                (name,) = self.text.facts[at].writes
                body.append(_loaded(name, self.drawn[at], self._type(name), item.span))
            elif at != self.part.branch:
                body.append(item)
            elif done != self.part.skips:
                body.append(replace(item, guard=None))
            if at in ahead and item.row != "bra":
                body += self._taken_along(item.span)
            at += 1
        span = flow.instructions[self.part.branch].span
        declared = (RegisterDeclaration(self._type(name), (new,), span) for name, new in self.own.items())
        numbers = (self._parameter(at, name) for at, name in self.drawn.items())
        return replace(
            kernel, body=tuple(body), registers=(*kernel.registers, *declared),
            parameters=(*kernel.parameters, *numbers), locations=(),
        )  # fmt: skip

    def _parameter(self, at: int, name: str) -> Parameter:
        (register,) = self.text.facts[at].writes
        width = _WIDTHS[self._type(register)]
        return Parameter(name, f"u{width}", width // 8, width // 8, self.text.flow.instructions[at].span)

    def _ahead(self) -> frozenset[int]:
        """The last instructions of the blocks from which the loop is entered."""
        flow, loop = self.text.flow, self.part.loop
        before = set(flow.blocks[flow.block_of[loop.head]].predecessors) - loop.blocks
        return frozenset(flow.blocks[block].end - 1 for block in before)

    def _taken_along(self, span: Span) -> Iterator[Instruction]:
        """The registers that have a name of their own in the loop get what they held before it."""
        for name, new in self.own.items():
            kind = self._type(name)
            yield made_instruction(f"mov.{kind}", (Register(new), Register(name)), span)


def _loaded(name: str, parameter: str, kind: str, span: Span) -> Instruction:
    return made_instruction(f"ld.param.b{_WIDTHS[kind]}", (Register(name), Address(Symbol(parameter))), span)
