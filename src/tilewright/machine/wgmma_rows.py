"""Must a row of wgmmas be issued step by step where it was issued before, on the same registers?

A warp multiplies a slot of a ring by several wgmmas with nothing between them but arithmetic on their descriptors. In a
run for its events alone such a row, from its first wgmma to its last, is one step: what it computes and which operands
it names are functions of the registers that it reads, and are remembered by these, as for any stretch of arithmetic
(`remembered_runs`, whose argument this is). What depends on anything else is done each time: the warpgroup is told of
each operation, which faults where its four warps differ, accumulators are passed on, or taken from registers with all
checks, and are in flight. The event is one, `WgmmaRow`, which stands for the issues in their order: a warp that issues
one right after another learns nothing in between, so that no order of events is lost.

A row is issued without a turn of others in between, which is one of the orders that there may be.

Not handled (issued one by one): operands in registers; wgmmas under a guard; rows into which a label leads; a row that
is run by some lanes only; rows whose descriptors seldom come again.
Checked by: tests/machine/test_wgmma_rows.py, against runs in which each wgmma is a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tilewright.machine.event import WgmmaForm, WgmmaRow
from tilewright.machine.lanes import FULL, Registers
from tilewright.machine.remembered_runs import RememberedRuns, Writes, look_at
from tilewright.machine.state import Warp
from tilewright.machine.step import Control, Plain, Signal, Step
from tilewright.machine.warpgroup import WARPS, Issuing, Operation, Warpgroup, WarpMatrixState

_ROW_LEAST = 2
_LOOKED_UP_MOST = 256


@dataclass(frozen=True, slots=True, eq=False)
class _Issue:
    """One wgmma of a row on certain registers."""

    issuing: Issuing
    scale: bool
    a_descriptor: int
    b_descriptor: int
    follows: bool
    """One of the row, of the same shape, has the same accumulator and goes before it."""


@dataclass(slots=True, eq=False)
class _Known:
    """What a row does on certain registers. forms: what is told of it, by the warp's place in its warpgroup."""

    writes: Writes
    issues: tuple[_Issue, ...]
    forms: dict[int, tuple[WgmmaForm, ...]] = field(default_factory=dict[int, "tuple[WgmmaForm, ...]"])


def join_rows(steps: Sequence[Step], remembered: RememberedRuns, accumulators: frozenset[int]) -> list[Step]:
    """The steps, of which the first of each row runs all of it. accumulators: and other registers of wgmmas."""
    found = list(steps)
    at = 0
    while at < len(steps):
        end = _end_of_row(steps, at, remembered, accumulators)
        if end is None:
            at += 1
            continue
        found[at] = replace(steps[at], body=Control(_row(steps, at, end, remembered), converged=True))
        at = end
    return found


def _end_of_row(
    steps: Sequence[Step], begin: int, remembered: RememberedRuns, accumulators: frozenset[int]
) -> int | None:
    """The place behind the last wgmma of the row that begins there, if one does."""
    end, count, at = begin, 0, begin
    while at < len(steps) and (at == begin or at not in remembered.entered):
        step = steps[at]
        if not accumulators.isdisjoint(step.reads | step.writes):
            break
        if isinstance(step.body, Control):
            if not isinstance(step.body, Issuing) or step.guard >= 0 or step.body.text.a_registers:
                break
            end, count = at + 1, count + 1
        elif count == 0 or not remembered.is_arithmetic(at):
            break
        at += 1
    return end if count >= _ROW_LEAST else None


def _row(
    steps: Sequence[Step], begin: int, end: int, remembered: RememberedRuns
) -> Callable[[Warp, int], int | Signal | None]:
    first = steps[begin].body
    assert isinstance(first, Issuing), "a row begins with a wgmma"
    run_first = first.act
    reads, writes = remembered.reads_and_writes(begin, end, steps)
    look = look_at(reads)
    table: dict[tuple[int, ...], _Known] = {}

    def learn(warp: Warp, mask: int, seen: tuple[int, ...] | None) -> int:
        r, strand = warp.r, warp.current
        issues: list[_Issue] = []
        for pc in range(begin, end):
            strand.pc = pc
            body = steps[pc].body
            if isinstance(body, Plain):
                body.full(r)
                continue
            assert isinstance(body, Issuing), "a row has no other control steps"
            scale, a_descriptor, b_descriptor = body.operands(warp, mask)
            follows = any(_same_accumulator(each.issuing, body) for each in issues)
            issues.append(_Issue(body, scale, a_descriptor, b_descriptor, follows))
            body.act(warp, mask)
        if seen is not None:
            table[seen] = _Known(remembered.written(writes, r), tuple(issues))
        return end

    def act(warp: Warp, mask: int) -> int | Signal | None:
        group = warp.group
        if mask != FULL or len(warp.strands) > 1 or group is None:
            return run_first(warp, mask)
        r: Registers = warp.r
        known = table.get(tuple(map(id, look(r))))
        if known is None:
            seen = remembered.unified(reads, look, r)
            known = table.get(seen)
            if known is None:
                return learn(warp, mask, seen if len(table) < _LOOKED_UP_MOST else None)
        for slot, value in known.writes:
            r[slot] = value
        _issue(warp, group, known)
        return end

    return act


def _same_accumulator(one: Issuing, other: Issuing) -> bool:
    return one.text.accumulator == other.text.accumulator and one.text.n == other.text.n


def _issue(warp: Warp, group: Warpgroup, known: _Known) -> None:
    state: WarpMatrixState = warp.wgmma
    operations: list[Operation] = []
    taken: list[bool] = []
    for each in known.issues:
        text = each.issuing.text
        if not each.follows:
            chained = state.chained(text.accumulator)
            if chained is None or chained.instruction.n != text.n:
                operations.append(each.issuing.enter(warp, each.scale, each.a_descriptor, each.b_descriptor))
                taken.append(state.is_taken(text.accumulator))
                continue
        # The accumulator is passed on, and there is nothing else that registers hold.
        operation = group.pass_on(warp, state, text, each.scale, each.a_descriptor, each.b_descriptor)
        state.in_flight.append(operation)
        state.open.append(operation)
        operations.append(operation)
        taken.append(bool(state.taken) and state.is_taken(text.accumulator))
    observe = warp.cta.cluster.observe
    if observe is None:
        return
    place = warp.index % WARPS
    forms = known.forms.get(place)
    if forms is None:
        forms = known.forms[place] = tuple(
            each.issuing.form(operation, place) for each, operation in zip(known.issues, operations, strict=True)
        )
    observe(WgmmaRow(warp.actor, tuple([operation.actor for operation in operations]), forms, tuple(taken)))
