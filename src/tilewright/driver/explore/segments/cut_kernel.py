"""Which kernels stand for the stretches of one that comes to a barrier of its CTA again and again?

A loop over groups, and in it one over tiles, whose bounds are read from memory, makes a run a sequence of stretches
between two passes of one `bar.sync 0` in it. Two kernels are made, with the kernel's own instructions in them, that
stand for all of these:

- the *first*: from the kernel's entry to its first pass of the barrier, or to its end;
- a *later*: from a pass of the barrier to the next one, or to the end.

What a stretch begins with is any that it may begin with. At the barrier, and where a loop around it begins anew, each
register that steers, is live and is written in the loops gets a number out of memory that nobody knows: any number, the
same for all threads of the CTA. Before the barrier that a later stretch begins with, threads write all of shared
memory, each warp some bytes of whatever a matrix product reads: ordinary accesses by all threads, of which none is
fenced, are the most that any stretch before may have left there. Behind the barrier that a stretch ends with they do
so again: an access that the barrier does not order, or a copy or a matrix product that is still under way, races with
that.

By induction over its passes of the barrier, the kernel is clean if both of these are, since

- the barrier is of all threads, and orders what each of them has done before what any of them does behind it;
- what was under way at the end of a stretch would have raced with what is written there; counts of groups that were
  waited for are counted from the newest on, so that older ones change nothing;
- a stretch that decides by a register decides by what the made kernel may have drawn: registers of which not all
  threads of a CTA are known to hold the same are none that may be drawn;
- from the first head of a loop that a stretch comes to, to the next one, if it comes to that without the barrier, it
  takes no step of the protocol: it has changed registers alone, which are any there. So a made kernel goes on from any
  of the heads when it comes to the first one, and just ends at the next;
- nothing else lasts: a kernel with any instruction that is not on a short list is not cut.

Source: cutpoints and inductive assertions (R. Floyd, "Assigning Meanings to Programs", 1967). Not handled: clusters;
tensor memory; mbarriers and bulk copies; ring stages that go on from tile to tile; blocks of
several dimensions; barriers of a part of the threads. Checked by: tests/coverage_attacks/test_segments.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tilewright.base.span import Span
from tilewright.driver.explore.segments.even import LOADED, WAYS, is_same_for_all, roots, roots_written, uneven
from tilewright.frontends.ptx.ast import (
    Address,
    Guard,
    Immediate,
    Instruction,
    Kernel,
    Label,
    Module,
    Operand,
    Parameter,
    Register,
    RegisterDeclaration,
    Symbol,
    Vector,
)
from tilewright.machine.core.shared_layout import Frame, shared_layout
from tilewright.machine.protocol.slicing.slice import Slice, Text
from tilewright.machine.protocol.slicing.slice_flow import NaturalLoop
from tilewright.machine.protocol.slicing.slice_operands import Facts, kind_of, registers_of
from tilewright.machine.protocol.slicing.steering import Steering
from tilewright.machine.symbolic.memory_words import STRONG
from tilewright.targets import Target

_WARP = 32
_WORD_BYTES, _WIDE_BYTES = 4, 16
_FEW_WARPS = 8
"""So many pieces of 16 bytes, one of each warp, are in any operand of a wgmma: in its 8 rows, swizzled or not."""
_KEPT_ROWS = frozenset({
    "bar.sync", "bar.warp.sync", "bra", "ret", "exit", "ld", "st", "ldmatrix", "stmatrix", "shfl.sync", "elect.sync",
    "cp.async", "cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all", "fence.proxy.async", "wgmma.fence",
    "wgmma.mma_async", "wgmma.commit_group", "wgmma.wait_group",
})  # fmt: skip
"""What a kernel that is cut may execute beside arithmetic: of what these do, nothing lasts beyond a stretch but what
the module's head speaks of."""
_NEVER_ROWS = (
    "alloca",
    "clusterlaunchcontrol",
    "getctarank",
    "mapa",
    "mbarrier",
    "stack",
    "su",
    "wmma.load",
    "wmma.store",
)
"""Beginnings of rows that count as arithmetic elsewhere, and are none that a kernel that is cut may have."""
_WIDTHS = {"b16": 16, "u16": 16, "s16": 16, "b32": 32, "u32": 32, "s32": 32, "b64": 64, "u64": 64, "s64": 64}
_WORDS, _BASE, _PART, _DRAWN, _REST = "%__words", "%__base", "%__part", "%__drawn", "%__rest"
_PARAMETER = "__drawn_words"


@dataclass(frozen=True, slots=True)
class CutKernels:
    """Two kernels that stand for all stretches. barrier: where these begin and end; loops: the heads of the loops
    around it, which are taken to end; writes_astray: it writes through pointers that it loads."""

    first: Kernel
    later: Kernel
    barrier: Span
    loops: tuple[Span, ...]
    writes_astray: bool


def cut_kernels(
    module: Module, sliced: Slice, steers: Steering, block: tuple[int, int, int], dynamic_bytes: int, target: Target
) -> Iterator[CutKernels]:  # fmt: skip
    """The ways to cut a kernel, the likeliest first; none where it is not one that can be cut."""
    text = sliced.text
    flow = text.flow
    if block[1:] != (1, 1) or block[0] % _WARP or not _may_be_cut(text, sliced, steers):
        return
    of_all = [at for at, item in enumerate(flow.instructions) if is_of_all(item)]
    for position in sorted(of_all, key=lambda at: not _follows_a_wait(text, at)):
        around = [loop for loop in flow.loops if flow.block_of[position] in loop.blocks]
        if not around or not _reads_words(text, steers, around[-1]):
            continue
        cut = _Cut(module, text, steers, position, tuple(around), block[0] // _WARP, dynamic_bytes, target)
        if cut.fits():
            yield cut.kernels()


def is_of_all(item: Instruction) -> bool:
    """Whether an instruction is a barrier of all threads of a CTA."""
    return item.row == "bar.sync" and item.guard is None and item.operands == (Immediate(0),)


def _follows_a_wait(text: Text, position: int) -> bool:
    """Whether the step of the protocol before it waits for all groups of copies or products: there little is under
    way."""
    flow = text.flow
    for at in range(position - 1, flow.blocks[flow.block_of[position]].begin - 1, -1):
        item = flow.instructions[at]
        if not _is_quiet(text, at):
            return "wait_all" in item.row or ("wait_group" in item.row and item.operands == (Immediate(0),))
    return False


def is_arithmetic(item: Instruction) -> bool:
    """Whether nothing lasts of an instruction that only computes."""
    return item.row == "sub" or not item.row.startswith(_NEVER_ROWS)


def has_known_rows(kernel: Kernel) -> bool:
    """Whether nothing lasts of what a kernel executes but what the induction speaks of, by its instructions alone."""
    found = False
    for item in kernel.body:
        if isinstance(item, Label):
            continue
        if kind_of(item) in ("compute", "hint"):
            if not is_arithmetic(item):
                return False
        elif item.row not in _KEPT_ROWS or (item.row == "bar.sync" and not is_of_all(item)):
            return False
        found = found or is_of_all(item)
    return found


def _may_be_cut(text: Text, sliced: Slice, steers: Steering) -> bool:
    """The same of where instructions access memory."""
    if sliced.loads or steers.memory or text.flow.irreducible or text.kernel.branch_tables:
        return False
    written = roots_written(text)
    for item, facts in zip(text.flow.instructions, text.facts, strict=True):
        if facts.space in ("generic", "local") or (item.row in ("ld", "st") and not STRONG.isdisjoint(item.modifiers)):
            return False
        if loads_what_steers(facts, steers) and not roots(text, item).isdisjoint(written):
            return False
    return True


def loads_what_steers(facts: Facts, steers: Steering) -> bool:
    """Whether an instruction loads a word of global memory that steers."""
    return facts.kind == "load" and facts.space == "global" and not steers.registers.isdisjoint(facts.writes)


def _reads_words(text: Text, steers: Steering, loop: NaturalLoop) -> bool:
    """Whether words of global memory steer a loop that has another one with steps of the protocol in it."""
    inside = [each for each in text.flow.loops if each.blocks < loop.blocks and _takes_steps(text, each.blocks)]
    return bool(inside) and any(loads_what_steers(text.facts[at], steers) for at in text.flow.positions(loop.blocks))


def _takes_steps(text: Text, blocks: Iterable[int]) -> bool:
    return any(not _is_quiet(text, at) for at in text.flow.positions(frozenset(blocks)))


def _is_quiet(text: Text, at: int) -> bool:
    """Whether an instruction is none of the protocol: arithmetic, a way through the text, a load of a word."""
    facts = text.facts[at]
    if facts.kind in ("compute", "hint") or text.flow.instructions[at].row in WAYS:
        return True
    return facts.kind == "load" and facts.space in ("global", "param", "const")


# ---------------------------------------------------------------- the cut


_Node = tuple[int, bool]
"""A block, and whether the head of a loop was come to since the stretch began."""


@dataclass(slots=True, eq=False)
class _Cut:
    """One way to cut a kernel. around: the loops around the barrier, the innermost first."""

    module: Module
    text: Text
    steers: Steering
    position: int
    around: tuple[NaturalLoop, ...]
    warps: int
    dynamic_bytes: int
    target: Target
    live: list[frozenset[str]] = field(init=False)
    heads: frozenset[int] = field(init=False)
    blocks: frozenset[int] = field(init=False)
    written: frozenset[str] = field(init=False)
    drawn: int = 0

    def __post_init__(self) -> None:
        flow = self.text.flow
        self.live = live_registers(self.text)
        self.heads = frozenset(flow.block_of[loop.head] for loop in self.around)
        self.blocks = self.around[-1].blocks
        self.written = frozenset(name for at in flow.positions(self.blocks) for name in self.text.facts[at].writes)

    @property
    def own(self) -> int:
        return self.text.flow.block_of[self.position]

    def fits(self) -> bool:
        """Whether walks without a step of the protocol come back to the head of a loop, if any comes there without the
        barrier; and all threads of a CTA know what they go by, and what is to be drawn."""
        if self.live[0] & (self._live_ahead() | self._live_behind()) & self.written:
            return False  # nobody may have written it before the first stretch
        flow = self.text.flow
        products = (at for at, item in enumerate(flow.instructions) if item.row.startswith("wgmma"))
        if not self._frame().symbols or any(flow.block_of[at] not in self.blocks for at in products):
            return False
        apart = uneven(self.text)
        places = [
            (self._live_behind(), self.position + 1),
            *((self.live[each], self._begin(each)) for each in self.heads),
        ]
        drawn = {name for live, place in places for name in self._plan(live, place)[0]}
        if not apart.isdisjoint(drawn) or any(self._type(name) not in (*_WIDTHS, "pred") for name in drawn):
            return False
        return self._goes_together(apart) and all(map(self._is_quiet_around, self.heads))

    def _plan(self, live: frozenset[str], place: int) -> tuple[list[str], list[int]]:
        """What is to be drawn before an instruction, of the registers that are live there, and what is to be computed
        of that again, by position: what has one value given others has it there, too."""
        drawn: list[str] = []
        again: list[int] = []
        seen: set[str] = set()

        def need(name: str) -> None:
            if name in seen or name not in self.written:
                return
            seen.add(name)
            at = self._made_once(name, place)
            if at is None:
                drawn.append(name)
                return
            for source in sorted(self.text.facts[at].reads):
                need(source)
            again.append(at)

        for name in sorted(live & self.steers.registers):
            need(name)
        return drawn, again

    def _made_once(self, name: str, place: int) -> int | None:
        """The one instruction that gives a register, if it holds before `place` what that gives of what its sources
        hold there: all ways there go through it, and from where one of these is written on again."""
        text = self.text
        found = text.definitions.get(name, ())
        if len(found) != 1:
            return None
        (at,) = found
        facts, item = text.facts[at], text.flow.instructions[at]
        declared = all(is_same_for_all(text, each) for each in facts.reads)
        if facts.kind != "compute" or item.guard is not None or facts.writes != frozenset({name}) or not declared:
            return None
        sources = [each for source in facts.reads for each in text.definitions.get(source, ())]
        ways = (-1, *sources)
        return None if at in sources or any(self._leads(way, place, at) for way in ways) else at

    def _leads(self, start: int, place: int, without: int) -> bool:
        """Whether a way leads from behind an instruction to before another one, not through a third one."""
        flow = self.text.flow
        seen: set[int] = set()
        waiting = [start + 1]
        while waiting:
            begin = waiting.pop()
            if begin == place:
                return True
            if begin >= len(flow.instructions):
                continue
            block = flow.blocks[flow.block_of[begin]]
            if begin <= place < block.end and not begin <= without < place:
                return True
            if not begin <= without < block.end:
                for each in block.successors:
                    if each not in seen:
                        seen.add(each)
                        waiting.append(flow.blocks[each].begin)
        return False

    def _goes_together(self, apart: frozenset[str]) -> bool:
        """Whether all threads come to the same head from the barrier, and from a head without the barrier."""
        flow = self.text.flow
        tail = set[int]().union(*(self._reached(head, forward=False) for head in self.heads), {self.own})
        ends = (flow.instructions[flow.blocks[block].end - 1] for block in tail)
        guards = [item.guard.register.name for item in ends if item.row in WAYS and item.guard is not None]
        return apart.isdisjoint(guards)

    def _is_quiet_around(self, head: int) -> bool:
        """Whether nothing but arithmetic is on the ways from a head to one of the heads without the barrier."""
        behind = set[int]().union(*(self._reached(other, forward=False) for other in self.heads))
        around = self._reached(head, forward=True) & behind
        return all(_is_quiet(self.text, at) for at in self.text.flow.positions(frozenset(around)))

    def _reached(self, start: int, *, forward: bool) -> set[int]:
        """The blocks of the loops on ways from a head, or to one, that do not pass the barrier."""
        flow = self.text.flow
        found: set[int] = set()
        waiting = [start] if forward else list(flow.blocks[start].predecessors)
        while waiting:
            block = waiting.pop()
            if block in found or block not in self.blocks:
                continue
            if block == self.own:
                if forward:
                    found.add(block)
                continue
            found.add(block)
            waiting += flow.blocks[block].successors if forward else flow.blocks[block].predecessors
        return found

    def _live_behind(self) -> frozenset[str]:
        """What is live behind the barrier."""
        return _live_at(self.text, self.live, self.position + 1)

    def _frame(self) -> Frame:
        return shared_layout(self.module, self.text.kernel, self.dynamic_bytes, self.target)

    def _live_ahead(self) -> frozenset[str]:
        """What is live where the outermost loop begins."""
        return self.live[self.text.flow.block_of[self.around[-1].head]]

    def kernels(self) -> CutKernels:
        flow = self.text.flow
        spans = tuple(flow.instructions[loop.head].span for loop in self.around)
        return CutKernels(
            self._made(later=False), self._made(later=True), flow.instructions[self.position].span, spans,
            LOADED in roots_written(self.text),
        )  # fmt: skip

    # The text of a made kernel

    def _made(self, *, later: bool) -> Kernel:
        self.drawn = 0
        kernel, flow = self.text.kernel, self.text.flow
        span = flow.instructions[self.position].span
        body: list[Instruction | Label] = [
            made_instruction("ld.param.b64", (Register(_WORDS), Address(Symbol(_PARAMETER))), span)
        ]
        entry: _Node = (0, False)
        names: dict[object, str] = {}
        waiting: list[object] = []

        def label(place: object) -> str:
            if place not in names:
                names[place] = f"$cut_{len(names)}"
                waiting.append(place)
            return names[place]

        def goto(place: object, guard: Guard | None = None) -> Instruction:
            return Instruction("bra", "bra", (), (Symbol(label(place)),), guard, span)

        def target_of(node: _Node, after: int) -> object:
            block, began = node
            if after in self.blocks and block not in self.blocks and later:
                return ("begin",)
            if after in self.heads:
                return ("around",) if began else ("heads",)
            return (after, began)

        body.append(goto(entry))
        while waiting:
            place = waiting.pop()
            body.append(Label(names[place], span))
            match place:
                case ("around",):
                    body.append(Instruction("ret", "ret", (), (), None, span))
                case ("begin",):
                    body += self._written_all()
                    body += self._given(self._live_behind())
                    body.append(flow.instructions[self.position])
                    body += self._draw(self._live_behind(), self.position + 1)
                    body.append(goto(("behind",)))
                case ("stop",):
                    body += self._written_all()
                    body += self._sums_touched()
                    body.append(Instruction("ret", "ret", (), (), None, span))
                case ("heads",):
                    *others, outermost = sorted(self.heads)
                    for number, head in enumerate(others):
                        body += self._drawn_word(_DRAWN)
                        body.append(
                            made_instruction(
                                "setp.eq.b32", (Register(_REST), Register(_DRAWN), Immediate(number)), span
                            )
                        )
                        body.append(goto(("head", head), Guard(Register(_REST), negated=False)))
                    body.append(goto(("head", outermost)))
                case ("head", int() as head):
                    body += self._given(self.live[head] - self._live_ahead())
                    body += self._draw(self.live[head], self._begin(head))
                    body.append(goto((head, True)))
                case ("behind",):
                    body += self._rest((self.own, False), self.position + 1, goto, target_of)
                case (int() as block, bool() as began) if block == self.own:
                    body += flow.instructions[flow.blocks[block].begin : self.position + 1]
                    body.append(goto(("stop",)))
                case (int() as block, bool() as began):
                    body += self._rest((block, began), flow.blocks[block].begin, goto, target_of)
                case _:
                    raise AssertionError(place)
        declared = (
            *kernel.registers,
            RegisterDeclaration("b64", (_WORDS,), span),
            RegisterDeclaration("b32", (_BASE, _PART, _DRAWN), span),
            RegisterDeclaration("pred", (_REST,), span),
        )
        parameters = (*kernel.parameters, Parameter(_PARAMETER, "u64", 8, 8, span))
        return replace(kernel, body=tuple(body), registers=declared, parameters=parameters, locations=())

    def _rest(
        self, node: _Node, begin: int, goto: Callable[..., Instruction], target_of: Callable[[_Node, int], object]
    ) -> Iterator[Instruction]:
        """A block from an instruction on, and the ways from it."""
        flow, end = self.text.flow, self.text.flow.blocks[node[0]].end
        if begin == end == len(flow.instructions):
            yield Instruction("ret", "ret", (), (), None, flow.instructions[self.position].span)
            return
        last = flow.instructions[end - 1] if end > begin else None
        if last is not None and last.row == "bra":
            yield from flow.instructions[begin : end - 1]
            taken, falls = self._ways(node[0])
            yield replace(goto(target_of(node, taken)), guard=last.guard, span=last.span)
            if falls is not None:
                yield goto(target_of(node, falls))
            return
        yield from flow.instructions[begin:end]
        if last is None or last.row not in ("ret", "exit") or last.guard is not None:
            yield goto(target_of(node, flow.block_of[end]))

    def _ways(self, block: int) -> tuple[int, int | None]:
        """Where the branch at a block's end leads if it is taken, and if it is not."""
        flow = self.text.flow
        end = flow.blocks[block].end
        item = flow.instructions[end - 1]
        successors = flow.blocks[block].successors
        if item.guard is None:
            return successors[0], None
        falls = flow.block_of[end]
        taken = [each for each in successors if each != falls]
        return (taken[0] if taken else falls), falls

    def _begin(self, block: int) -> int:
        return self.text.flow.blocks[block].begin

    def _draw(self, live: frozenset[str], place: int) -> Iterator[Instruction]:
        """Any number in each register that steers and is live before an instruction."""
        span = self.text.flow.instructions[self.position].span
        drawn, again = self._plan(live, place)
        for name in drawn:
            kind = self._type(name)
            if kind == "pred":
                yield from self._drawn_word(_DRAWN)
                yield made_instruction("setp.ne.b32", (Register(name), Register(_DRAWN), Immediate(0)), span)
            else:
                yield from self._drawn_word(name, _WIDTHS[kind])
        for at in again:
            yield self.text.flow.instructions[at]

    def _drawn_word(self, name: str, width: int = 32) -> Iterator[Instruction]:
        """A word of memory of which nobody knows anything, another one each time."""
        place = Address(Register(_WORDS), self.drawn)
        self.drawn += 8
        yield made_instruction(
            f"ld.global.b{width}", (Register(name), place), self.text.flow.instructions[self.position].span
        )

    def _given(self, live: frozenset[str]) -> Iterator[Instruction]:
        """Zeros in what is live, is written in the loops, and steers nothing."""
        span = self.text.flow.instructions[self.position].span
        for name in sorted(live & self.written - self.steers.registers):
            kind = self._type(name)
            zero: Operand = Immediate(0)
            if kind == "pred":
                yield made_instruction("setp.ne.b32", (Register(name), zero, zero), span)
            elif kind[1:].isdigit() and int(kind[1:]) in (16, 32, 64):
                yield made_instruction(f"mov.b{kind[1:]}", (Register(name), zero), span)

    def _sums_touched(self) -> Iterator[Instruction]:
        """Each register that a wgmma adds to is written."""
        products = (item for item in self.text.flow.instructions if item.row == "wgmma.mma_async")
        sums = {name for item in products for name in registers_of(item.operands[0])}
        for name in sorted(sums):
            yield made_instruction(
                "mov.b32", (Register(name), Immediate(0)), self.text.flow.instructions[self.position].span
            )

    def _type(self, name: str) -> str:
        return next((each.type for each in self.text.kernel.registers if name in each.names), "")

    def _written_all(self) -> Iterator[Instruction]:
        """Stores to all of shared memory, of which each warp makes some in each stretch of `warps` pieces."""
        warps, frame = self.warps, self._frame()
        span = self.text.flow.instructions[self.position].span
        first = min(frame.symbols, key=lambda name: frame.symbols[name])
        size = frame.size_bytes - frame.symbols[first]
        piece = _WIDE_BYTES if warps <= _FEW_WARPS and not size % _WIDE_BYTES else _WORD_BYTES
        step = piece * _WARP * warps
        at, part = Register(_BASE), Register(_PART)
        yield made_instruction("mov.u32", (part, Register("%tid.x")), span)
        yield made_instruction("and.b32", (at, part, Immediate(_WARP - 1)), span)
        yield made_instruction("shr.u32", (part, part, Immediate(_WARP.bit_length() - 1)), span)
        yield made_instruction("mad.lo.u32", (at, at, Immediate(warps), part), span)
        yield made_instruction("mul.lo.u32", (at, at, Immediate(piece)), span)
        yield made_instruction("setp.lt.u32", (Register(_REST), at, Immediate(size % step)), span)
        yield made_instruction("mov.u32", (part, Symbol(first)), span)
        yield made_instruction("add.u32", (at, at, part), span)
        wide = piece == _WIDE_BYTES
        opcode, value = ("st.shared.v4.b32", Vector((part,) * 4)) if wide else ("st.shared.b32", part)
        for offset in range(0, size - size % step, step):
            yield made_instruction(opcode, (Address(at, offset), value), span)
        if size % step:
            rest = Guard(Register(_REST), negated=False)
            yield replace(made_instruction(opcode, (Address(at, size - size % step), value), span), guard=rest)


def made_instruction(opcode: str, operands: tuple[Operand, ...], span: Span) -> Instruction:
    """An instruction without a guard."""
    row, *modifiers = opcode.split(".")
    return Instruction(opcode, row, tuple(modifiers), operands, None, span)


def live_registers(text: Text) -> list[frozenset[str]]:
    """The registers that are live where each block begins."""
    flow = text.flow
    used: list[frozenset[str]] = []
    killed: list[frozenset[str]] = []
    for block in flow.blocks:
        first: set[str] = set()
        written: set[str] = set()
        for at in range(block.begin, block.end):
            facts = text.facts[at]
            first |= facts.reads - written
            if flow.instructions[at].guard is None:
                written |= facts.writes
        used.append(frozenset(first))
        killed.append(frozenset(written))
    live = list(used)
    waiting = list(range(len(flow.blocks)))
    while waiting:
        block = waiting.pop()
        after = frozenset[str]().union(*(live[each] for each in flow.blocks[block].successors))
        now = used[block] | (after - killed[block])
        if now != live[block]:
            live[block] = now
            waiting += flow.blocks[block].predecessors
    return live


def _live_at(text: Text, live: Sequence[frozenset[str]], position: int) -> frozenset[str]:
    """The registers that are live before an instruction."""
    flow = text.flow
    block = flow.blocks[flow.block_of[position - 1]]
    found = frozenset[str]().union(*(live[each] for each in block.successors))
    for at in range(block.end - 1, position - 1, -1):
        facts = text.facts[at]
        if flow.instructions[at].guard is None:
            found -= facts.writes
        found |= facts.reads
    return found
