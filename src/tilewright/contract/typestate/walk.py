"""How is a role walked once so that what is found holds for every iteration of every loop?

Abstract interpretation over `token` values. A loop is rehearsed from its entry state to learn how far one iteration
moves each position; then its body is walked at a general iteration j, with every position put at entry + j * movement,
and the state at its end must be the state at j + 1. That is the inductive step, so what is found at j holds at all
iterations, and the state after n of them is entry + n * movement. Facts about bulk stores are joined over iterations
until they stop growing. Findings and facts are recorded only at the general iteration.

Linear tokens are used once, in the block that made them; a loop must carry them.

Not handled: conditionals (the dialect has none), a loop whose symbol may be below its first index.
Checked by: tests/contract/typestate/test_typestate.py, and by `token_machine`, which runs the same roles at concrete
counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.polynomial import Polynomial, variable
from tilewright.contract.typestate.program import Buffer, Kernel, Map, Ring, Role
from tilewright.contract.typestate.summary import WAIT, Counter, LoopEvents, RingEvent, RoleSummary
from tilewright.contract.typestate.token import (
    UNIT,
    Accumulating,
    Computed,
    Cursor,
    Filling,
    Fragment,
    Index,
    Part,
    Promoted,
    Reading,
    Scalar,
    Scales,
    Settled,
    Slot,
    Staged,
    TensorAccumulating,
    TensorFactors,
    TensorFilling,
    TensorOperand,
    TensorSettled,
    Token,
    UnitState,
    Values,
    Vector,
    describe,
    is_linear,
    moved,
)
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import AccumulatorStartOp, FragmentIssueOp, taken_over
from tilewright.ir.ac.promotion import PromotedType, ScalesType
from tilewright.ir.ac.register_operand import ComputedIssueOp, ComputedType, VectorType
from tilewright.ir.ac.stream import STREAM_INDICES, StreamPartOp, TurnStreamPartOp
from tilewright.ir.ac.tensor_memory import (
    TensorAccumulatorType,
    TensorFactorsType,
    TensorFillingType,
    TensorInflightType,
    TensorOperandType,
)

_Kind = TypeVar("_Kind")

Step = Callable[["RoleWalk", Operation], bool]
"""Interprets one operation, or returns False if it isn't of the step's kind."""

EnterGroups = Callable[["RoleWalk", ac.GroupLoop, tuple[str, ...]], None]
"""Checks a loop over groups whose indices have the names given."""

TakeTurns = Callable[["RoleWalk", "Turns", Callable[[], None]], None]
"""Walks a loop over tiles that units take in turn, and checks what that rests on."""

Turns = ac.TurnLoop | TurnStreamPartOp
"""Loops over what a role's units take in turn."""
Loop = ac.LoopOp | ac.TilesOp | Turns | ac.GroupTilesOp | StreamPartOp

_GROWTH_LIMIT = 200
"""Iterations of a join before giving up: more than every may-set can grow (slots, groups kept and flags)."""


@dataclass(slots=True)
class RoleWalk:
    """One role being walked. env: what each value stands for; None where an earlier finding spoiled it. around: names
    of the indices of the loops around the operation being walked."""

    kernel: Kernel
    role: Role
    findings: Findings
    steps: Sequence[Step]
    enter_groups: EnterGroups
    take_turns: TakeTurns
    shared: frozenset[tuple[str, str]]
    """Rings and sides on which other roles wait as well."""
    summary: RoleSummary
    state: UnitState = field(default_factory=UnitState)
    env: dict[SSAValue, Token | None] = field(default_factory=dict[SSAValue, "Token | None"])
    used: dict[SSAValue, Operation] = field(default_factory=dict[SSAValue, Operation])
    block: Block | None = None
    ordinals: dict[Operation, str] = field(default_factory=dict[Operation, str])
    counters: int = 0
    around: tuple[str, ...] = ()
    counting: tuple[Counter, ...] = ()
    """Of the loops around, at their general iteration."""
    heads: dict[Operation, UnitState] = field(default_factory=dict[Operation, UnitState])
    """The state in which each loop's body was last begun."""
    known_steps: dict[type[Operation], Step] = field(default_factory=dict[type[Operation], "Step"])
    """Which step interprets operations of a class, once one did: which it is, their class alone decides."""
    defined: dict[Block, list[tuple[SSAValue, Operation]]] = field(
        default_factory=dict[Block, "list[tuple[SSAValue, Operation]]"]
    )
    """What each block defines, and who makes it."""

    # ------------------------------------------------------------ values

    @property
    def recording(self) -> bool:
        """Whether this is the general iteration, where facts are recorded."""
        return not self.findings.muted

    def report(
        self,
        code: str,
        op: Operation,
        message: str,
        *,
        against: Operation | None = None,
        steps: tuple[str, ...] = (),
    ) -> None:
        self.findings.report(code, op, f"{self.role.name}: {message}", against=against, steps=steps)

    def name_of(self, op: Operation) -> str:
        """A name of `op` that is unique within the role."""
        return self.ordinals.setdefault(op, f"{op.name}#{len(self.ordinals)}")

    def look(self, op: Operation, value: SSAValue) -> Token | None:
        """What `value` stands for; None, with a doubt, if nothing defined it before `op`, in its block or around it."""
        try:
            token = self.env[value]
        except KeyError:
            pass
        else:
            if _is_around(_home(value), self.block):
                return token
        self.findings.doubt("uses a value that nothing before it defines", op)
        return None

    def take(self, op: Operation, value: SSAValue) -> Token | None:
        """Use `value`: once only, and in the block that made it, if it is linear."""
        token = self.look(op, value)
        if token is None or not is_linear(token):
            return token
        if _home(value) is not self.block:
            self.report("LV003", op, f"{describe(token)} comes from outside the loop and is not carried by it")
        elif value in self.used:
            self.report("LV002", op, f"{describe(token)} is used a second time", against=self.used[value])
        self.used.setdefault(value, op)
        return token

    def give(self, op: Operation, value: SSAValue, token: Token | None) -> None:
        """Define `value`, and compare its declared type with what it stands for."""
        self.env[value] = token
        self.used.pop(value, None)
        if token is not None and not _agrees(token, value.type):
            self.report("LV006", op, f"{describe(token)} is declared {value.type}")

    def spoil(self, op: Operation) -> None:
        """Nothing is known of what `op` gives."""
        for result in op.results:
            self.give(op, result, None)

    def expect(self, op: Operation, token: Token | None, kind: type[_Kind], verb: str = "take") -> _Kind | None:
        """`token`, which `op` takes, if it is of that class; else None, with a finding."""
        if isinstance(token, kind):
            return token
        self.wrong(op, token, verb)
        return None

    def take_as(self, op: Operation, value: SSAValue, kind: type[_Kind], verb: str = "take") -> _Kind | None:
        """`take`, where `value` must stand for a token of that class."""
        return self.expect(op, self.take(op, value), kind, verb)

    def wrong(self, op: Operation, token: Token | None, verb: str = "take") -> None:
        """`op` takes a token of the wrong class (or one that was spoiled before, which needs no second finding)."""
        if token is not None:
            self.report("LV008", op, f"{op.name} cannot {verb} {describe(token)}")

    def expect_filled(self, op: Operation, token: Token | None) -> Slot | None:
        """`token`, if it is a slot; a finding if threads of the unit may not read it."""
        slot = self.expect(op, token, Slot, "read")
        if slot is not None and slot.side == "empty":
            self.report("MB012", op, f"reads {describe(slot)}")
        elif slot is not None:
            self.require_all_waited(op, slot)
        return slot

    def require_all_waited(self, op: Operation, slot: Slot) -> None:
        """All threads of the unit read the slot, so all must have waited for it."""
        if slot.issuer:
            self.report("TC005", op, f"all threads read {describe(slot)}, for which only the first warp has waited")

    def require_instances(self, op: Operation, buffer: Buffer) -> None:
        """Each unit must have an instance of the buffer of its own."""
        if buffer.instances < self.role.count:
            units, instances = self.role.count, buffer.instances
            message = f"{units} units share {instances} instances of buffer {buffer.name}"
            self.report("AL003", op, message, against=buffer.op)

    def ring_of(self, op: Operation, value: SSAValue) -> Ring | None:
        """The ring that `value` is, or None with a doubt."""
        declared = self.kernel.declared.get(value)
        if isinstance(declared, Ring):
            return declared
        self.findings.doubt("takes something that is no ring", op)
        return None

    def buffer_of(self, op: Operation, value: SSAValue) -> Buffer | None:
        declared = self.kernel.declared.get(value)
        if isinstance(declared, Buffer):
            return declared
        self.findings.doubt("takes something that is no buffer", op)
        return None

    def map_of(self, op: Operation, value: SSAValue) -> Map | None:
        declared = self.kernel.declared.get(value)
        if isinstance(declared, Map):
            return declared
        self.findings.doubt("takes something that is no tensor map", op)
        return None

    def global_of(self, op: Operation, value: SSAValue) -> ac.GlobalOp | None:
        declared = self.kernel.declared.get(value)
        if isinstance(declared, ac.GlobalOp):
            return declared
        self.findings.doubt("takes something that is no global array", op)
        return None

    def require_unit(self, op: Operation, value: SSAValue) -> None:
        """The operand must be the role's unit number: it picks the unit's own memory and barrier."""
        token = self.look(op, value)
        if not isinstance(token, Index) or not token.is_unit:
            self.findings.doubt("its unit operand is not the role's unit number", op)

    def indices(self, op: Operation, values: Sequence[SSAValue]) -> tuple[Index, ...]:
        """The indices that `values` are; a doubt, and an unknown constant 0, for what is none."""
        found: list[Index] = []
        for value in values:
            token = self.look(op, value)
            if not isinstance(token, Index):
                self.findings.doubt("takes something that is no index", op)
                token = Index()
            found.append(token)
        return tuple(found)

    def ring_event(self, kind: str, op: Operation, slot: Slot | Filling, number: Polynomial | None = None) -> None:
        """Record a wait or a signal, before it is counted."""
        if not self.recording:
            return
        side = slot.side if isinstance(slot, Slot) and kind == "wait" else "full" if kind == "release" else "empty"
        waited, events = _waits(self.state), self.summary.events
        event = RingEvent(kind, slot.ring, side, op, slot.position, number, waited, self.counting)
        known = events[-1] if events and number is None else None
        if known is None or replace(known, op=op, number=None) != event:
            events.append(event)

    # ------------------------------------------------------------ blocks and loops

    def run_role(self) -> RoleSummary:
        """Walk the role's body; the summary is complete only if nothing was reported or doubted."""
        block = self.role.op.body.block
        if len(block.args) != 1:
            self.findings.doubt("a role's region has one argument", self.role.op)
            return self.summary
        self.run_block(block, [Index(((UNIT, 1),))], self.role.op)
        self.summary.totals = dict(self.state.counts)
        return self.summary

    def run_block(self, block: Block, arguments: Sequence[Token | None], owner: Operation) -> list[SSAValue] | None:
        """Walk `block`; the operands of its yield, or None if it has none."""
        outer, self.block = self.block, block
        for argument, token in zip(block.args, arguments, strict=True):
            self.give(owner, argument, token)
        yielded: list[SSAValue] | None = None
        for op in block.ops:
            known = self.known_steps.get(type(op))
            if known is not None and known(self, op):
                continue
            if isinstance(op, ac.YieldOp):
                yielded = list(op.values)
                for value in yielded:
                    self.take(op, value)
            elif isinstance(op, ac.LoopOp):
                self._loop(op, op.symbol.data, op.begin.data, 1)
            elif isinstance(op, ac.TilesOp):
                self._loop(op, op.symbol.data, 0, op.indices)
            elif isinstance(op, Turns):
                self._turns(op)
            elif isinstance(op, StreamPartOp):
                self._loop(op, op.symbol.data, 0, STREAM_INDICES)
            elif isinstance(op, ac.GroupTilesOp):
                self._loop(op, op.symbol.data, 0, ac.GROUP_INDICES)
            elif (step := next((step for step in self.steps if step(self, op)), None)) is not None:
                self.known_steps[type(op)] = step
            else:
                self.findings.doubt("is not understood in a role", op)
                self.spoil(op)
        defined = self.defined.get(block)
        if defined is None:
            defined = self.defined[block] = _defined(block, owner)
        for value, maker in defined:
            token = self.env.get(value)
            if token is not None and is_linear(token) and value not in self.used:
                self.report("LV001", maker, f"{describe(token)} is never used")
        self.block = outer
        return yielded

    def _turns(self, op: Turns) -> None:
        """A loop over tiles that units take in turn, walked as if one unit took them all; `take_turns` says why."""
        indices = op.indices if isinstance(op, ac.TurnTilesOp) else ac.GROUP_INDICES
        indices = STREAM_INDICES if isinstance(op, TurnStreamPartOp) else indices
        self.take_turns(self, op, lambda: self._loop(op, op.symbol.data, 0, indices))

    def _loop(self, op: Loop, symbol: str, begin: int, indices: int) -> None:
        block, carried = op.body.block, list(op.carried)
        if len(block.args) != indices + len(carried) or len(op.outputs) != len(carried):
            self.findings.doubt("a loop whose carried values, arguments and results differ in number", op)
            self.spoil(op)
            return
        minimum = self.kernel.minima.get(symbol)
        if minimum is None or symbol not in self.kernel.symbols:
            self.findings.doubt(f"{symbol!r} is no symbol of the kernel with a minimum", op)
        elif minimum < begin:
            self.findings.doubt(f"{symbol} may be {minimum}, less than the loop's first index {begin}", op)
        if begin < 0:
            self.findings.doubt(f"a loop that begins at {begin}; indices have no sign", op)
        entry = [self.take(op, value) for value in carried]
        if any(isinstance(token, Settled | Fragment) for token in entry):
            # Its registers belong to a wgmma of the body, which the next iteration issues again.
            self.findings.doubt("carries the values of an accumulator from one iteration to the next", op)
        atoms = tuple(f"{self.name_of(op)}.{number}" for number in range(indices))
        leading: list[Token | None] = [Index(((atom, 1),)) for atom in atoms]
        outer, self.around = self.around, (*self.around, *atoms)
        if isinstance(op, ac.TilesOp | ac.TurnTilesOp | StreamPartOp | TurnStreamPartOp):
            self.summary.tile_loops[op] = atoms
        elif isinstance(op, ac.LoopOp):
            self.summary.trips[atoms[0]] = self.kernel.symbols.get(symbol, 0)
        if isinstance(op, ac.GroupLoop):
            self.enter_groups(self, op, atoms)

        was_muted, self.findings.muted = self.findings.muted, True
        entry_state = self.state
        head, after = entry_state, self._iterate(op, entry_state, leading + entry)
        for _ in range(_GROWTH_LIMIT):
            grown = head.joined(after[1])
            if grown.may_part() == head.may_part():
                break
            head, after = grown, self._iterate(op, grown, leading + entry)
        else:
            self.findings.doubt("what a loop leaves pending never stops growing", op)
        self.findings.muted = was_muted

        yielded, end = after
        if len(yielded) != len(entry):
            self.findings.doubt("a loop's body yields another number of values than it carries", op)
            yielded = entry
        entry = [_entering(old, new, head, end) for old, new in zip(entry, yielded, strict=True)]
        self.counters += 1
        counter = variable(f"{symbol}'{self.counters}")
        own = Counter(f"{symbol}'{self.counters}", symbol, begin, self.kernel.count_of(symbol))
        outside, self.counting = self.counting, (*self.counting, own)
        before = len(self.summary.events)
        at_counter = _state_at(head, end, counter)
        general = [_token_at(old, new, counter) for old, new in zip(entry, yielded, strict=True)]
        for number, (old, new) in enumerate(zip(entry, yielded, strict=True)):
            if old is not None and new is not None and moved(old, new, counter) is None:
                code = "WG005" if isinstance(old, Accumulating) or isinstance(new, Accumulating) else "LV008"
                self.report(
                    code, op, f"carried value {number} enters as {describe(old)} and is yielded as {describe(new)}"
                )
        for argument, value, old in zip(block.args[indices:], _yielded_by(block), entry, strict=False):
            if isinstance(old, Accumulating) and _sums_of(value) is not argument:
                self.findings.doubt("yields another accumulator than it carries, in other registers", op)
        last, last_end = self._iterate(op, at_counter, leading + general)
        self._check_inductive(op, (entry, yielded, last), (head, end, last_end), counter)
        if self.recording and (after_last := len(self.summary.events)) > before:
            begun = _waits(head)
            moves = {key: count - begun.get(key, Polynomial()) for key, count in _waits(end).items()}
            self.summary.loops.append(LoopEvents(self.counting, begun, moves, before, after_last))
        self.around, self.counting = outer, outside
        trips = own.trips
        self.state = _state_at(head, end, trips)
        for result, old, new in zip(op.outputs, entry, yielded, strict=True):
            self.give(op, result, _token_at(old, new, trips))

    def _iterate(
        self, op: Loop, state: UnitState, arguments: Sequence[Token | None]
    ) -> tuple[list[Token | None], UnitState]:
        self.state, self.heads[op] = state.copy(), state
        values = self.run_block(op.body.block, arguments, op)
        if values is None:
            self.findings.doubt("a loop's body without a yield", op)
            values = []
        return [self.env.get(value) for value in values], self.state

    def _check_inductive(
        self,
        op: Operation,
        tokens: tuple[list[Token | None], list[Token | None], list[Token | None]],
        states: tuple[UnitState, UnitState, UnitState],
        counter: Polynomial,
    ) -> None:
        """The state after the general iteration must be the state before it, one iteration on."""
        entry, yielded, last = tokens
        for old, new, now in zip(entry, yielded, last, strict=False):
            if old is None or new is None or now is None:
                continue
            expected = moved(old, new, counter + 1)
            if expected is not None and expected != now:
                self.findings.doubt(f"{describe(now)} does not move alike in each iteration", op)
        head, end, now = states
        if end.uncommitted != head.uncommitted or now.uncommitted != head.uncommitted:
            code = "WG001" if end.uncommitted else "LV007"
            self.report(code, op, f"an iteration leaves {end.uncommitted} wgmma uncommitted")
        if _state_at(head, end, counter + 1).counts != now.counts:
            self.findings.doubt("events do not occur alike in each iteration", op)
        if head.joined(now).may_part() != head.may_part():
            self.findings.doubt("what is pending grows beyond its invariant", op)


def _waits(state: UnitState) -> dict[tuple[str, str], Polynomial]:
    """How often the unit has waited, by ring and side."""
    found: dict[tuple[str, str], Polynomial] = {}
    for event, count in state.counts.items():
        if event.startswith(WAIT):
            ring, side = event.removeprefix(WAIT).rsplit(":", 1)
            found[ring, side] = count
    return found


def _state_at(head: UnitState, end: UnitState, count: Polynomial) -> UnitState:
    """`head` with every event counted as after `count` iterations that each move like head to end."""
    state = head.copy()
    for event, after in end.counts.items():
        before = head.count(event)
        state.counts[event] = before if before == after else before + (after - before) * count
    return state


def _yielded_by(block: Block) -> Sequence[SSAValue]:
    end = block.last_op
    return end.operands if isinstance(end, ac.YieldOp) else ()


def _sums_of(value: SSAValue) -> SSAValue:
    """The accumulator that products and loops went on with until they gave this one: they leave it where it is."""
    while isinstance(value, OpResult):
        op, number = value.op, value.index
        if isinstance(op, ac.WgmmaIssueOp | ComputedIssueOp | FragmentIssueOp) and op.accumulator is not None:
            value = op.accumulator
        elif isinstance(op, AccumulatorStartOp):
            carried = taken_over(op)
            if carried is None:
                break
            value = carried
        elif isinstance(op, Loop) and number < len(op.carried):
            value = op.carried[number]
        else:
            break
    return value


def _entering(old: Token | None, new: Token | None, head: UnitState, end: UnitState) -> Token | None:
    """What enters a loop, seen as what its body yields where that may do less, or owes more: a full slot as one that
    was read, an accumulator that no wgmma has written as one whose group is an iteration older than the one yielded."""
    if isinstance(old, Slot) and isinstance(new, Slot) and (old.side, new.side) == ("full", "retired"):
        return replace(old, side="retired")
    if isinstance(old, Accumulating) and isinstance(new, Accumulating) and old.idle and not new.idle:
        return replace(old, group=new.group - (end.count("groups") - head.count("groups")), idle=False)
    return old


def _token_at(old: Token | None, new: Token | None, count: Polynomial) -> Token | None:
    if old is None or new is None:
        return None
    return moved(old, new, count) or old


def _home(value: SSAValue) -> Block | None:
    if type(value) is OpResult:  # quicker than isinstance, of a class with a metaclass of its own
        return value.op.parent
    owner = value.owner
    return owner if isinstance(owner, Block) else owner.parent


def _is_around(home: Block | None, block: Block | None) -> bool:
    """Whether `home` is `block` or one that `block` lies in."""
    while block is not None:
        if block is home:
            return True
        owner = block.parent_op()
        block = owner.parent_block() if owner is not None else None
    return False


def _defined(block: Block, owner: Operation) -> list[tuple[SSAValue, Operation]]:
    values: list[tuple[SSAValue, Operation]] = [(argument, owner) for argument in block.args]
    values.extend((result, op) for op in block.ops for result in op.results)
    return values


def _agrees(token: Token, kind: Attribute) -> bool:
    """Whether a declared type says what the token's history says."""
    if isinstance(token, Promoted | Scales):
        wanted = PromotedType if isinstance(token, Promoted) else ScalesType
        return isinstance(kind, wanted) and (kind.m.data, kind.n.data) == (token.m, token.n)
    if isinstance(token, Vector):
        return isinstance(kind, VectorType) and kind.k.data == token.k
    if isinstance(token, Computed):
        wanted = (token.ring, token.m, token.k, token.element)
        return isinstance(kind, ComputedType) and wanted == (
            kind.ring.data, kind.m.data, kind.k.data, kind.element.data
        )  # fmt: skip
    if isinstance(token, TensorAccumulating | TensorSettled):
        wanted = TensorInflightType if isinstance(token, TensorAccumulating) else TensorAccumulatorType
        shown = (token.m, token.n, token.column)
        return isinstance(kind, wanted) and (kind.m.data, kind.n.data, kind.column.data) == shown
    if isinstance(token, TensorOperand):
        shown = (token.m, token.k, token.column, token.element)
        return isinstance(kind, TensorOperandType) and shown == (
            kind.m.data, kind.k.data, kind.column.data, kind.element.data
        )  # fmt: skip
    if isinstance(token, TensorFilling):
        return isinstance(kind, TensorFillingType) and kind.ring.data == token.ring
    if isinstance(token, TensorFactors):
        shown = (token.ring, token.rows, token.cells, token.element)
        return isinstance(kind, TensorFactorsType) and shown == (
            kind.ring.data, kind.rows.data, kind.cells.data, kind.element.data
        )  # fmt: skip
    match token, kind:
        case Cursor(), ac.CursorType():
            return kind.ring.data == token.ring
        case Slot(), ac.PhaseType():
            return (kind.ring.data, kind.side.data) == (token.ring, token.side)
        case Filling(), ac.TransactionType():
            return (kind.ring.data, kind.bytes.data) == (token.ring, token.bytes_left)
        case Reading(), ac.ReadingType():
            return kind.ring.data == token.ring
        case Accumulating(), ac.InflightType():
            return (kind.m.data, kind.n.data) == (token.m, token.n)
        case Settled(), ac.AccumulatorType():
            return (kind.m.data, kind.n.data) == (token.m, token.n)
        case Fragment() | Values(), ac.FragmentType():
            return (kind.m.data, kind.n.data, kind.axes.data, kind.element.data) == (
                token.m, token.n, token.axes, token.element
            )  # fmt: skip
        case Staged(), ac.StagedType():
            return (kind.buffer.data, kind.state.data) == (token.buffer, token.state)
        case Index(), ac.IndexType():
            return True
        case Part(), ac.GlobalType():
            return True
        case Scalar(), ac.ScalarType():
            return True
        case _:
            return False
