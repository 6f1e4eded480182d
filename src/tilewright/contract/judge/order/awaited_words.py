"""When CTAs wait for words of global memory, is it certain which write each wait sees?

A run shows one write that lets a wait go (`machine.protocol.loops.polls`); the verdict stands for all interleavings
only if it is the same one in each. So all writes to such a word must be in order (happens-before), which then is their
order in every run, and of each wait, on what was written as the n-th:

- what it accepted earlier was overwritten before the wait began, as far as the waiter knows. So it cannot see that;
- whoever writes the word next knows that the wait is over. So nothing else can be there, and the wait cannot miss it.
  Lanes of one warp that wait are threads: one knows of another only by a synchronization (`lane_order`).

With that a wait is like one on a phase of an mbarrier: it ends, in every interleaving, by the n-th write, and learns
what that released. A look that the word did not satisfy teaches nothing, though it may have read a release.

A launch that leaves such a word as it found it can be repeated. Kernels may also start before the grid before has ended
(programmatic dependent launch), which may be the same kernel with the same words.

Source: PTX ISA 8.9 (coherence, causality order), 8.5 (scopes). Not handled: counters to which several CTAs add, words
of other widths (both doubts). Checked by: tests/contract/judge/test_grid_flags.py, test_awaited_words.py.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import field

from tilewright.base.diagnostic import Level
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.contract.history.shadow_memory import Record
from tilewright.contract.judge.order import lane_order
from tilewright.contract.judge.order.global_order import WORD_BYTES, GlobalOrder, words_in
from tilewright.contract.judge.order.grid_dependency import GridUse, knows_grids_before
from tilewright.contract.judge.run_state import ClusterState, name_of
from tilewright.contract.judge.vector_clock import VectorClock
from tilewright.contract.rules.replay_codes import RunFindings
from tilewright.machine.core.event import WarpActor
from tilewright.machine.protocol.loops.polls import Poll

Told = Sequence[tuple[int, int, int]]
"""Address, contents before and after, of the words of an access."""

RESIDENT = "CTAs that wait for others are resident together with these, or start in the order of their numbers"
KEPT_RESIDENT = "CTAs wait for others, and whoever launches sees to it that the whole grid is resident at once"
ALL_RESIDENT = "all CTAs of the grid are resident at once, since some wait for CTAs of higher numbers"


@dataclass(slots=True)
class Word:
    """What a word held. initial: before the first strong access; values, writes: what was written then, and by which
    access (None: not known what); accepted: the waits that ended on the newest; seen: those that ended on each older
    one; unordered: two writes that are."""

    initial: int | None
    values: list[int | None] = field(default_factory=list["int | None"])
    writes: list[Record] = field(default_factory=list[Record])
    accepted: list[tuple[Poll, Record]] = field(default_factory=list["tuple[Poll, Record]"])
    seen: list[list[Record]] = field(default_factory=list["list[Record]"])
    unordered: tuple[Span, Span] | None = None
    polled: bool = False

    def follows(self, index: int, order: GlobalOrder, cluster: ClusterState, clock: VectorClock) -> bool:
        """Does whoever knows `clock` come after write `index` of the word: by knowing it, or a wait that has seen it
        (coherence: what is then done to the word follows what was read)?"""
        seen = self.seen[index] if index < len(self.seen) else [wait for _, wait in self.accepted]
        return any(order.knows(cluster, clock, each) for each in (self.writes[index], *seen))


class AwaitedWords:
    """The words that strong accesses touch, and who waits for them. polls: the loads that wait, by their places."""

    def __init__(self, polls: Mapping[Span, Poll]) -> None:
        self.polls = polls
        self.words: dict[int, Word] = {}
        self._addresses: list[int] = []
        self._waits: set[tuple[int, int]] = set()
        self._early: dict[Span, bool] = {}

    def accepted(self, span: Span, told: Told) -> frozenset[int] | None:
        """The addresses of the words on which a wait at `span` ended; None if it is no wait."""
        poll = self.polls.get(span)
        return None if poll is None else frozenset(address for address, _, after in told if poll.accepts(after))

    def note(
        self, order: GlobalOrder, cluster: ClusterState, record: Record, clock: VectorClock, told: Told,
        findings: RunFindings,
    ) -> None:  # fmt: skip
        """An access of global memory, by someone who knew `clock`."""
        if not self.polls:
            return
        poll = None if record.write else self.polls.get(record.span)
        if not told and poll is None and not (record.write and words_in(self._addresses, record.ranges)):
            return
        for address, before, _ in told:
            if address not in self.words:
                self.words[address] = Word(before)
                insort(self._addresses, address)
        if record.write:
            for address, value in self._written(record, told):
                _check_write(order, cluster, clock, self.words[address], (address, value, record), findings)
        if poll is not None:
            if not told:
                findings.doubt(f"{record.span}: what this wait reads is not known")
            for address, _, value in told:
                self._check_wait(order, cluster, clock, (address, value, record), poll, findings)
        if told and not knows_grids_before(cluster, clock, record.issuer or record.actor, record.lanes):
            self._early.setdefault(record.span, record.write)

    def _written(self, record: Record, told: Told) -> list[tuple[int, int | None]]:
        """What an access writes to which of the words."""
        if told:
            return [(address, after) for address, _, after in told]
        found: list[tuple[int, int | None]] = []
        for address in words_in(self._addresses, record.ranges):
            whole = any(begin <= address and address + WORD_BYTES <= end for begin, end in record.ranges)
            # Elements may be narrower than a word: only of zeros is it certain what they make up.
            zeros = record.completion is None and bool(record.constant) and not any(record.constant)
            found.append((address, 0 if whole and zeros else None))
        return found

    def _check_wait(
        self, order: GlobalOrder, cluster: ClusterState, clock: VectorClock, access: tuple[int, int, Record],
        poll: Poll, findings: RunFindings,
    ) -> None:  # fmt: skip
        address, value, record = access
        word = self.words[address]
        word.polled = True
        if word.unordered is not None:
            _doubt_unordered(word.unordered, findings)
        if not poll.accepts(value):
            return
        for index, (held, overwriting) in enumerate(zip((word.initial, *word.values), word.writes, strict=False)):
            if (held is None or poll.accepts(held)) and not word.follows(index, order, cluster, clock):
                what = "what may be" if held is None else f"{held}, which is"
                findings.doubt(
                    f"{record.span}: the word at {address:#x} may still hold {what} waited for, from before "
                    f"{overwriting.span} wrote it; which write ends the wait is not certain"
                )
        word.accepted.append((poll, record))
        if word.writes and isinstance(record.actor, WarpActor):
            writer = word.writes[-1].actor
            if isinstance(writer, WarpActor) and word.writes[-1].cluster != cluster.index:
                self._waits.add((record.actor.cta, writer.cta))

    def finish(self, order: GlobalOrder, grid: GridUse, findings: RunFindings, *, programmatic: bool) -> None:
        """The launch has ended."""
        for address, word in self.words.items():
            if word.polled and word.writes and word.values[-1] != word.initial:
                findings.report(
                    "LV103",
                    f"the word at {address:#x}, for which CTAs wait, holds {word.values[-1]} at the end of the launch "
                    f"and held {word.initial} before",
                    word.writes[-1].span,
                    word.accepted[-1][1].span if word.accepted else None,
                    level=Level.REVIEW,
                )
        if not (programmatic or grid.waits or grid.launches):
            return
        early = {**{span: write for span, write in grid.early.items() if span in order.communicating}, **self._early}
        for span, write in early.items() if self._polled() else ():
            findings.report(
                "GD101",
                f"the kernel {'writes' if write else 'reads'} words by which its CTAs tell each other something before "
                "griddepcontrol.wait; the grid before may be of the same kernel, and use the same words",
                span,
                grid.waits[0] if grid.waits else None,
                (
                    "the grid before lets this one begin early, and still uses the words",
                    f"this grid {'writes' if write else 'reads'} them ({span})",
                ),
            )

    def assumptions(self, *, resident: bool) -> tuple[str, ...]:
        """What waits between CTAs rest on. resident: the launch is one of CTAs that are all resident at once."""
        if not self._waits:
            return ()
        if resident:
            return (KEPT_RESIDENT,)
        return (RESIDENT if all(waiter > writer for waiter, writer in self._waits) else ALL_RESIDENT,)

    def _polled(self) -> bool:
        return any(word.polled for word in self.words.values())

    def describe(self, address: int) -> tuple[str, Span | None]:
        """What became of a word for which somebody waits forever, and where."""
        word = self.words.get(address)
        if word is None or not word.writes:
            return "nobody has written it", None
        value = word.values[-1]
        what = "something" if value is None else str(value)
        return f"{name_of(word.writes[-1].actor)} wrote {what} last", word.writes[-1].span


def _check_write(
    order: GlobalOrder, cluster: ClusterState, clock: VectorClock, word: Word, access: tuple[int, int | None, Record],
    findings: RunFindings,
) -> None:  # fmt: skip
    address, value, record = access
    if word.writes and word.unordered is None and not word.follows(len(word.writes) - 1, order, cluster, clock):
        word.unordered = (word.writes[-1].span, record.span)
        if word.polled:
            _doubt_unordered(word.unordered, findings)
    for poll, wait in word.accepted:
        if order.knows(cluster, clock, wait):
            if wait.cluster == cluster.index and lane_order.lanes_conflict(cluster, wait, record):
                findings.doubt(
                    f"{record.span}: other lanes of {name_of(wait.actor)} may not have seen what they wait for "
                    f"({wait.span}) when one writes the word"
                )
            continue
        waiter = name_of(wait.actor)
        if value is None or poll.accepts(value):
            findings.doubt(f"{record.span}: may end the wait of {waiter} ({wait.span}) in place of another write")
            continue
        findings.report(
            "CL106",
            f"{name_of(record.actor)} writes {value} to the word at {address:#x} while {waiter}, which waits for it to "
            f"be {poll.wanted}, may not have seen that it was",
            record.span,
            wait.span,
            (
                f"the word at {address:#x} holds what {waiter} waits for",
                f"{name_of(record.actor)}, which does not know whether {waiter} has seen it, writes {value} "
                f"({record.span})",
                f"{waiter} looks only now ({wait.span}), and waits forever",
            ),
        )
    if word.writes:
        word.seen.append([wait for _, wait in word.accepted])
    word.accepted.clear()
    word.values.append(value)
    word.writes.append(record)


def _doubt_unordered(places: tuple[Span, Span], findings: RunFindings) -> None:
    one, other = places
    findings.doubt(f"{other}: writes a word for which CTAs wait, unordered with {one}; which comes last is not certain")
