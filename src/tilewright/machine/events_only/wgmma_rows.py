"""Must a row of wgmmas be issued step by step where it was issued before, on the same registers?

A warp multiplies a slot of a ring by several wgmmas with nothing between them but arithmetic on their descriptors. In a
run for its events alone such a row, from its first wgmma to its last, is one step, with the wgmma.fence before it and
the commit behind it: what it computes and which operands it names are functions of the registers that it reads, and are
remembered by these, as for any stretch of arithmetic (`remembered_runs`, whose argument this is). The event of the
issues is one, `WgmmaRow`, which stands for them in their order: a warp that issues one right after another learns
nothing in between, so that no order of events is lost.

What depends on anything else is done each time. A row whose accumulators are passed on, or were left alone since the
last fence, is issued as one: its checks have nothing to report, and of the operations only the last on each accumulator
counts for what follows. The warpgroup holds it against what its other warps have issued. Where anything is otherwise,
each wgmma is issued by itself, with all checks, which faults where the four warps differ.

A row is issued without a turn of others in between, which is one of the orders that there may be.

Not handled (issued one by one): operands in registers; wgmmas under a guard; rows into which a label leads; a row that
is run by some lanes only; rows whose descriptors seldom come again.
Checked by: tests/machine/events_only/test_wgmma_rows.py, against runs in which each wgmma is a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.base.span import Span
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.core.event import TensorCoreActor, WgmmaForm, WgmmaRow
from tilewright.machine.core.lanes import FULL, Registers
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Control, Plain, Signal, Step
from tilewright.machine.events_only.remembered_runs import RememberedRuns, Writes, look_at
from tilewright.machine.tensor_core.warpgroup import (
    WARPS,
    Committing,
    Fencing,
    IssuedRow,
    Issuing,
    RowForm,
    Warpgroup,
    WarpMatrixState,
    row_form,
)
from tilewright.machine.tensor_core.wgmma_registers import are_left_alone, settle

_ROW_LEAST = 2
_LOOKED_UP_MOST = 256


@dataclass(slots=True, eq=False)
class _Row:
    """What a row does on certain operands. registers: of its accumulators; apart: no two of these have one in common;
    looks: what they hold; none_taken: of each wgmma, that its accumulator was not read; forms: what is told of it, by
    the warp's place in its warpgroup."""

    issuings: tuple[Issuing, ...]
    form: RowForm
    registers: frozenset[int]
    apart: bool
    looks: tuple[Callable[[Registers], tuple[Any, ...]], ...]
    none_taken: tuple[bool, ...]
    forms: dict[int, tuple[WgmmaForm, ...]] = field(default_factory=dict[int, "tuple[WgmmaForm, ...]"])

    def told(self, place: int) -> tuple[WgmmaForm, ...]:
        """What is told of its wgmmas, by the warp at this place."""
        found = self.forms.get(place)
        if found is None:
            found = self.forms[place] = tuple([
                each.form(scale, a_descriptor, b_descriptor, place)
                for each, (_, scale, a_descriptor, b_descriptor) in zip(self.issuings, self.form.wgmmas, strict=True)
            ])  # fmt: skip
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """What a row does on certain registers."""

    writes: Writes
    row: _Row


def join_rows(steps: Sequence[Step], remembered: RememberedRuns) -> list[Step]:
    """The steps, of which the first of each row runs all of it."""
    found = list(steps)
    at = 0
    while at < len(steps):
        body = steps[at].body
        begins = isinstance(body, Control) and isinstance(body, Fencing | Issuing)  # most are told by the first
        end = _end_of_row(steps, at, remembered) if begins else None
        if end is None:
            at += 1
            continue
        found[at] = steps[at].doing(Control(_row(steps, at, end, remembered), converged=True))
        at = end
    return found


def _end_of_row(steps: Sequence[Step], begin: int, remembered: RememberedRuns) -> int | None:
    """The place behind the row that begins there, if one does: behind its last wgmma, or the commit that follows it."""
    fenced = isinstance(steps[begin].body, Fencing) and steps[begin].guard < 0
    end, count, at = begin, 0, begin + fenced
    while at < len(steps) and (at == begin or at not in remembered.entered):
        step = steps[at]
        if not remembered.by_identity.isdisjoint(step.reads | step.writes):
            break
        if isinstance(step.body, Control):
            if not isinstance(step.body, Issuing) or step.guard >= 0 or step.body.text.a_registers:
                break
            end, count = at + 1, count + 1
        elif (count == 0 and not fenced) or not remembered.is_arithmetic(at):
            break
        at += 1
    if count < _ROW_LEAST:
        return None
    committed = end < len(steps) and isinstance(steps[end].body, Committing) and steps[end].guard < 0
    return end + (committed and end not in remembered.entered)


def _row(
    steps: Sequence[Step], begin: int, end: int, remembered: RememberedRuns
) -> Callable[[Warp, int], int | Signal | None]:
    first, last = steps[begin].body, steps[end - 1].body
    assert isinstance(first, Fencing | Issuing), "a row begins with a fence or a wgmma"
    run_first = first.act
    places = _Places(
        next(place for place in range(begin, end) if isinstance(steps[place].body, Issuing)),
        first if isinstance(first, Fencing) else None, steps[begin].span,
        last if isinstance(last, Committing) else None, steps[end - 1].span,
    )  # fmt: skip
    fence = places.fence.fence if places.fence is not None else None
    reads, writes = remembered.reads_and_writes(begin, end, steps)
    look = look_at(reads)
    table: dict[tuple[int, ...], _Known] = {}
    # The same from the first wgmma on: the CTAs of a cluster have the same descriptors, not the same addresses.
    rest_reads, rest_writes = remembered.reads_and_writes(places.first, end, steps)
    look_at_rest = look_at(rest_reads)
    rests: dict[tuple[int, ...], _Known] = {}
    rows: dict[tuple[tuple[bool, int, int], ...], _Row] = {}

    def issue_alone(
        warp: Warp, at: Sequence[int], issuings: Sequence[Issuing], operands: Sequence[tuple[bool, int, int]]
    ) -> None:
        places.tell_fence(warp)
        for place, each, of_each in zip(at, issuings, operands, strict=True):
            warp.current.pc = place
            _issue_alone(warp, each, *of_each)

    def learn(warp: Warp, group: Warpgroup, mask: int, seen: tuple[int, ...] | None) -> None:
        r, strand = warp.r, warp.current
        at: list[int] = []
        issuings: list[Issuing] = []
        operands: list[tuple[bool, int, int]] = []
        known: _Known | None = None
        rest: tuple[int, ...] = ()
        try:
            for pc in range(begin, end):
                strand.pc = pc
                if pc == places.first:
                    rest = remembered.unified(rest_reads, look_at_rest, r)
                    known = rests.get(rest)
                    if known is not None:
                        break
                body = steps[pc].body
                if isinstance(body, Plain):
                    body.full(r)
                    continue
                if not isinstance(body, Issuing):
                    continue  # its fence and its commit
                operands.append(body.operands(warp, mask))
                issuings.append(body)
                at.append(pc)
        except Exception:
            failed = strand.pc
            issue_alone(warp, at, issuings, operands)  # what comes before it has been issued
            strand.pc = failed
            raise
        if known is not None:
            for slot, value in known.writes:
                r[slot] = value
            row = known.row
        else:
            try:
                row = rows.get(tuple(operands)) or _row_of(issuings, operands)
            except EngineFault:
                issue_alone(warp, at, issuings, operands)  # it fails where it is issued, or executed
                places.end(warp, mask)
                return
            strand.pc = at[-1]
        _issue(warp, mask, group, row, places)
        if seen is None:
            return
        if known is None:
            rows[tuple(operands)] = row
            rests[rest] = _Known(remembered.written(rest_writes, r), row)
        table[seen] = _Known(remembered.written(writes, r), row)

    def act(warp: Warp, mask: int) -> int | Signal | None:
        group = warp.group
        if mask != FULL or len(warp.strands) > 1 or group is None:
            return run_first(warp, mask)
        if fence is not None:
            fence(warp)
        r: Registers = warp.r
        known = table.get(tuple(map(id, look(r))))
        if known is None:
            seen = remembered.unified(reads, look, r)
            known = table.get(seen)
            if known is None:
                learn(warp, group, mask, seen if len(table) < _LOOKED_UP_MOST else None)
                return end
        for slot, value in known.writes:
            r[slot] = value
        # A wgmma that is refused is told of at its own place, not at the fence.
        warp.current.pc = places.first
        _issue(warp, mask, group, known.row, places)
        return end

    return act


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """What stands around the wgmmas of a row. first: the place of the first one; fence, commit: the steps before and
    behind them, if they are of the row; begin, close: where the row begins and ends in the text."""

    first: int
    fence: Fencing | None
    begin: Span
    commit: Committing | None
    close: Span

    def tell_fence(self, warp: Warp) -> None:
        """The fence's event, by itself."""
        if self.fence is not None:
            self.fence.tell(warp)

    def end(self, warp: Warp, mask: int) -> None:
        """The commit, by itself."""
        if self.commit is not None:
            self.commit.act(warp, mask)


def _row_of(issuings: Sequence[Issuing], operands: Sequence[tuple[bool, int, int]]) -> _Row:
    """Raises EngineFault for a descriptor that is none."""
    form = row_form([(each.text, *of_each) for each, of_each in zip(issuings, operands, strict=True)])
    # By identity, of which there is one for each accumulator (`Decoder.interned`), as in `RowForm.begun`.
    begun = {(id(each.text.accumulator), each.text.n): each.text.accumulator for each in issuings}
    slots = [slot for accumulator in begun.values() for slot in accumulator]
    registers = frozenset(slots)
    return _Row(
        tuple(issuings), form, registers, len(registers) == len(slots), tuple(map(look_at, begun.values())),
        (False,) * len(issuings),
    )  # fmt: skip


def _issue(warp: Warp, mask: int, group: Warpgroup, row: _Row, places: _Places) -> None:
    """Issue a row, with all that belongs to it."""
    state: WarpMatrixState = warp.wgmma
    passed_on = row.apart and _are_passed_on(state, row.form)
    issued = group.issue_row(warp, row.form) if passed_on or _are_ready(warp, state, row) else None
    if issued is None:
        places.tell_fence(warp)
        _issue_each(warp, state, row)
        places.end(warp, mask)
        return
    state.in_flight.append(issued)
    if not passed_on:
        settle(warp)
    whole = places.commit is not None and not state.open
    if whole:
        state.commit([issued])
    else:
        state.open.append(issued)
    taken = row.none_taken
    if not state.taken.isdisjoint(row.registers):
        taken = tuple([state.is_taken(each.text.accumulator) for each in row.issuings])
    observe = warp.cta.cluster.observe
    if observe is not None:
        told = row.told(warp.index % WARPS)
        fence = places.begin if places.fence is not None else None
        if whole:
            observe(WgmmaRow(warp.actor, issued.actors, told, taken, fence, places.close, state.committed - 1))
        else:
            observe(WgmmaRow(warp.actor, issued.actors, told, taken, fence))
    if not whole:
        places.end(warp, mask)


def _issue_alone(warp: Warp, issuing: Issuing, scale: bool, a_descriptor: int, b_descriptor: int) -> None:
    operation = issuing.enter(warp, scale, a_descriptor, b_descriptor)
    observe = warp.cta.cluster.observe
    if observe is not None:
        taken = warp.wgmma.is_taken(issuing.text.accumulator)
        form = issuing.form(scale, a_descriptor, b_descriptor, warp.index % WARPS)
        observe(WgmmaRow(warp.actor, operation.actors, (form,), (taken,)))


def _are_passed_on(state: WarpMatrixState, form: RowForm) -> bool:
    """Is what is newest in flight a row on the same accumulators, of the same shapes?"""
    newest = state.in_flight[-1] if state.in_flight else None
    return isinstance(newest, IssuedRow) and (newest.form is form or newest.form.begun == form.begun)


def _are_ready(warp: Warp, state: WarpMatrixState, row: _Row) -> bool:
    """Is each accumulator passed on, or can it be taken from registers with nothing to report?"""
    if not row.apart:
        return False
    begun = set[int]()
    for text, scale, _, _ in row.form.wgmmas:
        accumulator = text.accumulator
        if id(accumulator) in begun:
            continue
        look = row.looks[len(begun)]
        begun.add(id(accumulator))
        chained = state.chained(accumulator)
        if chained is None:
            if not are_left_alone(warp, state, accumulator, look, added=scale):
                return False
        elif chained.n != text.n:
            return False
    return True


def _issue_each(warp: Warp, state: WarpMatrixState, row: _Row) -> None:
    actors: list[TensorCoreActor] = []
    taken: list[bool] = []
    for each, (text, scale, a_descriptor, b_descriptor) in zip(row.issuings, row.form.wgmmas, strict=True):
        actors.append(each.enter(warp, scale, a_descriptor, b_descriptor).actor)
        taken.append(state.is_taken(text.accumulator))
    observe = warp.cta.cluster.observe
    if observe is not None:
        observe(WgmmaRow(warp.actor, tuple(actors), row.told(warp.index % WARPS), tuple(taken)))
