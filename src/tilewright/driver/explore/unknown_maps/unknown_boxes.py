"""What holds of a made-up launch whose tensor maps are unknown, if it does not depend on the boxes that are made up?

The kernel's own phases are equations in the boxes (`copied_bytes`). A launch is run without boxes first, which shows
what each phase expects and of which maps; then with boxes that solve the equations. From there on:

- a clean run counts if the equations or the slots decide the boxes, or if a spread of other solutions is clean as well;
- an error counts if it shows with every solution of the launch's own equations: maps that they leave open are left
  unknown in one more run, in which they bring what their phases expect and touch no more than any box does. An error
  that this run does not show is a doubt;
- phases that contradict each other have no solution: with one map in each, an error counts that either choice shows;
- a map whose copies signal an mbarrier that nobody gives bytes to has no equation: a few sizes are tried for errors
  that all of them show, and nothing is proven;
- a map that is only stored through has a bound instead of an equation (`store_extents`), which is an assumption of a
  proof. Nothing waits for these bytes, and a smaller box touches a part of what a larger one does, so that a run with
  the bound is clean only if each smaller box is. An error counts if the least box shows it, too.

The first look at a kernel's boxes is short. A launch that copies through a map which this look did not reach is sized
as far as it runs.

Maps are found as they are used: by value among the parameters, or in a buffer that a pointer leads to.
Checked by: tests/driver/explore/unknown_maps/test_unknown_boxes.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.plan import Launch
from tilewright.base.span import Span
from tilewright.driver.explore.unknown_maps.announced_bytes import marked
from tilewright.driver.explore.unknown_maps.copied_bytes import (
    UNIT_BYTES,
    BoxSolutions,
    PhaseEquation,
    Place,
    StoreExtent,
    Sum,
    solve_boxes,
    store_extents,
)
from tilewright.driver.launch.judge_launch import LaunchJudgement
from tilewright.driver.launch.launch_space import Chosen
from tilewright.driver.launch.unknown_launch import UnknownLaunch, map_name
from tilewright.frontends.ptx.ast import Instruction, TensorAddress
from tilewright.machine.core.event import Access, Event, Ranges
from tilewright.machine.symbolic.expression import Input

Boxes = Mapping[Place, int]

_UNFED_BYTES = (1024, 16, 16384)
"""Sizes of a box that no equation is about."""
_TRIED = 4
_ROUNDS = 3
"""So often may a run show maps that no run before has used."""
_ASKED_MOST = 4
"""Launches in which a number is looked for among what phases expect."""


class RunLaunch(Protocol):
    """Makes, runs and judges one launch."""

    def __call__(
        self,
        values: Chosen,
        boxes: Boxes,
        /,
        *,
        sizing: bool = False,
        short: bool = False,
        any_box: bool = False,
        show: bool = False,
        watch: Callable[[Event], None] | None = None,
    ) -> LaunchJudgement:
        """sizing: the run is for its boxes only; short: a few steps of it; any_box: as `judge_launch` takes it; show:
        it may be reported; watch: gets its events."""
        ...


@dataclass(frozen=True, slots=True)
class _Sized:
    """What runs without boxes show. fed: maps of which some phase expects bytes; unfed: the others that signal an
    mbarrier, with the place of the copy; stored: bounds of maps that are only stored through."""

    equations: tuple[PhaseEquation, ...] = ()
    landmarks: frozenset[int] = frozenset()
    fed: frozenset[Place] = frozenset()
    unfed: Mapping[Place, Span] = field(default_factory=dict[Place, Span])
    stored: Mapping[Place, StoreExtent] = field(default_factory=dict[Place, StoreExtent])

    def with_more(self, other: _Sized) -> _Sized:
        fed = self.fed | other.fed
        stored = dict(self.stored)
        for place, extent in other.stored.items():
            stored[place] = min(extent, stored.get(place, extent))
        signalling = fed | set(self.unfed) | set(other.unfed)
        return _Sized(
            (*self.equations, *other.equations),
            self.landmarks | other.landmarks,
            fed,
            {place: span for place, span in {**other.unfed, **self.unfed}.items() if place not in fed},
            {place: extent for place, extent in stored.items() if place not in signalling},
        )

    @property
    def places(self) -> frozenset[Place]:
        """Every map that was used."""
        return self.fed | set(self.unfed) | set(self.stored)

    def solved(self) -> BoxSolutions:
        return solve_boxes(self.equations, self.landmarks)

    def choices(self) -> tuple[Boxes, ...]:
        """Boxes for all maps, the likeliest first."""
        solutions = self.solved().solutions or ({},)
        count = max(len(solutions), len(_UNFED_BYTES) if self.unfed else 0, 2 if self.stored else 0)
        return tuple(
            {
                **solutions[min(number, len(solutions) - 1)],
                **{place: _UNFED_BYTES[min(number, len(_UNFED_BYTES) - 1)] for place in self.unfed},
                **{place: extent.bytes if number == 0 else UNIT_BYTES for place, extent in self.stored.items()},
            }
            for number in range(count)
        )


@dataclass(slots=True)
class UnknownBoxes:
    """Judges the launches of one kernel. shared_bytes_max: that a CTA may have; announced: the numbers that the last
    run announced as they are; sized: what all sizing runs so far show; of_launch: what that of each launch shows; cut:
    launches whose sizing run was short and did not come to its end; bytes_announced: numbers that are taken for what
    boxes add up to; asked: how often a number was looked for."""

    unknown: UnknownLaunch
    run: RunLaunch
    shared_bytes_max: int
    announced: Callable[[], Sequence[Input]]
    sized: _Sized = _Sized()
    of_launch: dict[Chosen, tuple[_Sized, LaunchJudgement]] = field(
        default_factory=dict[Chosen, tuple[_Sized, LaunchJudgement]]
    )
    cut: set[Chosen] = field(default_factory=set[Chosen])
    boxes: Boxes = field(default_factory=dict[Place, int])
    bytes_announced: dict[Input, int] = field(default_factory=dict[Input, int])
    asked: Counter[Input] = field(default_factory=Counter[Input])

    def prepare(self, choices: Iterable[Chosen]) -> bool:
        """Look for the boxes of a kernel that copies through tensor maps, before the first launch is judged. choices:
        launches to look at, one after the other. Returns whether there are any."""
        if not any(
            isinstance(operand, TensorAddress)
            for item in self.unknown.kernel.body
            if isinstance(item, Instruction)
            for operand in item.operands
        ):
            return False
        for values in choices:
            self._learn(values, short=True)
            learned, self.sized = self.sized, _Sized()
            if not self._announce(values):
                self.sized = learned
            else:
                # What phases expect by these numbers is not what their copies bring.
                self._learn(tuple({**dict(values), **self.bytes_announced}.items()), short=True)
            if self.sized.fed:
                break
        return True

    def _announce(self, values: Chosen) -> bool:
        """Take numbers that the last run announced for what the copies of their phases bring, where a box that nothing
        else decides fills its slot. Returns whether there are any that were not known."""
        numbers = [each for each in self.announced() if self.asked[each] < _ASKED_MOST]
        if not numbers:
            return False
        self.asked.update(numbers)
        marks = marked(numbers)
        sized, _ = self._size(tuple({**dict(values), **marks}.items()), short=True)
        slots = self.sized.with_more(sized).solved().slots
        bytes_of = {**slots, **{each: self.boxes[each] for each in self.sized.fed if each in self.boxes}}
        known = len(self.bytes_announced)
        for given, mark in marks.items():
            sums = Counter(
                sum(bytes_of[place] for place, _ in each.copies)
                for each in sized.equations
                if each.expected_bytes == mark and all(place in bytes_of for place, _ in each.copies)
            )
            if sums:
                self.bytes_announced[given] = sums.most_common(1)[0][0]
                self.asked[given] = _ASKED_MOST
        return len(self.bytes_announced) > known

    def judge(self, values: Chosen) -> LaunchJudgement:
        """One launch, judged with boxes that its phases allow. Where it shows numbers that have to be what boxes add up
        to (`bytes_announced`), and it has others, the launch says nothing."""
        judged = self.run(values, self.boxes, show=True)
        if self._announce(values):
            return judged
        for _ in range(_ROUNDS):
            unsized = _unsized_places(judged)
            # Of a map that has a box but not in this run, a longer look shows no more.
            if not unsized or not self._learn(values, short=unsized <= set(self.boxes)):
                break
            judged = self.run(values, self.boxes, show=True)
        if not self.boxes or judged.asserted is not None or _unsized_places(judged):
            return judged
        if judged.errors:
            return self._failing(values, judged)
        if not judged.doubts:
            judged = self._clean(values, judged)
        return judged

    def words(self) -> tuple[str, ...]:
        """What is assumed of the tensor maps."""
        solved = self.sized.solved()
        words: list[str] = []
        for place in sorted(self.boxes):
            if place in self.sized.stored:
                which = self.sized.stored[place].which
                words.append(self._has(place, f"at most the {self.boxes[place]:,} bytes {which}"))
            elif place in solved.decided or place in solved.packed:
                words.append(self._has(place, f"{self.boxes[place]:,} bytes"))
        words += [self._sum_words(each) for each in solved.sums]
        used = set(self.boxes)
        for place in self.unknown.map_places:
            if place not in used:
                words.append(f"{self._name(place)} is a legal tensor map")
        return tuple(dict.fromkeys(words))

    # ------------------------------------------------------------ sizes

    def _learn(self, values: Chosen, *, short: bool) -> bool:
        """Size the maps of one launch, and choose boxes anew. Returns whether there is anything new."""
        if values in self.of_launch and (short or values not in self.cut):
            return False
        more, _ = self._sized(values, short=short)
        before = set(self.boxes)
        self.sized = self.sized.with_more(more)
        self.boxes = self.sized.choices()[0]
        return bool(set(self.boxes) - before)

    def _sized(self, values: Chosen, *, short: bool) -> tuple[_Sized, LaunchJudgement]:
        """What one launch shows of its boxes, and what goes wrong in it with any. short: a part of it is enough."""
        known = self.of_launch.get(values)
        if known is None or (values in self.cut and not short):
            known = self.of_launch[values] = self._size(values, short)
            self.cut.discard(values)
            if short and not known[1].complete:
                self.cut.add(values)
        return known

    def _size(self, values: Chosen, short: bool) -> tuple[_Sized, LaunchJudgement]:
        written = _Written()
        judged = self.run(values, {}, sizing=True, short=short, any_box=True, watch=written.see)
        report = judged.report
        equations: list[PhaseEquation] = []
        fed: set[Place] = set()
        unfed: dict[Place, Span] = {}
        barriers: set[int] = set()
        for phase in report.unknown_phases:
            barriers.add(phase.address)
            shares = [((share.where, share.at), share) for share in phase.shares]
            if phase.expected_bytes > 0:
                fed.update(place for place, _ in shares)
                copies = tuple((place, share.offset) for place, share in shares)
                equations.append(PhaseEquation(phase.expected_bytes, copies))
            for place, share in shares:
                unfed.setdefault(place, share.span)
        starts = {start for equation in equations for _, start in equation.copies}
        stores = [((each.share.where, each.share.at), each.share.offset) for each in report.unknown_stores]
        # Slots are bounds where a copy's bytes are stored as they came; else what is stored may lie across slots.
        between = starts if any(start in starts for _, start in stores) else set[int]()
        stored = store_extents(stores, barriers | between, written.merged(), self.shared_bytes_max)
        shown = _Sized((), frozenset(), frozenset(fed), unfed, stored)
        return _Sized(tuple(equations), frozenset(barriers)).with_more(shown), judged

    def _tried(self, solved: BoxSolutions) -> tuple[Boxes, ...]:
        """The choices of boxes that a proof is made for."""
        return self.sized.choices()[: min(_TRIED, solved.inside or _TRIED)]

    # ------------------------------------------------------------ verdicts

    def _clean(self, values: Chosen, judged: LaunchJudgement) -> LaunchJudgement:
        """A clean run, unless it is clean only with the boxes at hand."""
        if self.sized.unfed:
            doubts = tuple(
                f"{span}: nothing expects the bytes of this copy through {self._name(place)}, so that its box is not "
                "known"
                for place, span in self.sized.unfed.items()
            )
            return replace(judged, doubts=doubts)
        solved = self.sized.solved()
        if not solved.sums:
            return judged
        for boxes in self._tried(solved)[1:]:
            other = self.run(values, boxes)
            if other.errors or other.doubts:
                return replace(judged, doubts=(self._depends(self.boxes, (), boxes, other.errors),))
        return judged

    def _failing(self, values: Chosen, judged: LaunchJudgement) -> LaunchJudgement:
        """The errors of a run that do not depend on its boxes, or a doubt where all of them may."""
        own, least = self._sized(values, short=True)
        solved = own.solved()
        if solved.contradiction is not None and _one_map_each(solved.contradiction):
            return self._contradicting(values, judged, own, solved.contradiction)
        known: Boxes = {}
        if solved.contradiction is None and solved.solutions:
            known = {place: solved.solutions[0][place] for place in solved.decided}
        common = judged.errors
        unfed = set(own.unfed) - self.sized.fed
        for size in _UNFED_BYTES if unfed else _UNFED_BYTES[:1]:
            boxes = {**known, **dict.fromkeys(unfed, size)}
            # A sizing run that did not come to its end may lack maps that the whole run uses.
            used = own.places if least.complete else {*own.places, *self.boxes}
            if used <= set(boxes) and all(self.boxes.get(place) == box for place, box in boxes.items()):
                continue
            other = least if least.errors and not unfed else self.run(values, boxes, any_box=True)
            shown = {(finding.code, finding.primary) for finding in other.errors}
            both = tuple(finding for finding in common if (finding.code, finding.primary) in shown)
            if other.asserted is not None or (other.errors and not both and not unfed):
                # Errors of their own, which hold with every box.
                return replace(other, launch=self._showing(values, own, other) or judged.launch)
            common = both
            if not common:
                return self._only_with(judged, boxes, other)
        return _with_errors(judged, common)

    def _showing(self, values: Chosen, own: _Sized, other: LaunchJudgement) -> Launch | None:
        """A launch with boxes for all maps that shows one of these errors."""
        shown = {(finding.code, finding.primary) for finding in other.errors}
        for boxes in (*own.choices()[:_TRIED], *self.sized.choices()[1:_TRIED]):
            tried = self.run(values, {**self.boxes, **boxes})
            if any((finding.code, finding.primary) in shown for finding in tried.errors):
                return tried.launch
        return None

    def _contradicting(
        self, values: Chosen, judged: LaunchJudgement, own: _Sized, pair: tuple[Sum, Sum]
    ) -> LaunchJudgement:
        """Phases of one launch that no boxes satisfy: an error, if each choice for either of them shows one."""
        for boxes in own.choices()[:_TRIED]:
            other = self.run(values, boxes)
            if not other.errors:
                return self._only_with(judged, boxes, other)
        first, *others = judged.errors
        first = replace(first, interleaving=(self._contradiction_words(pair), *first.interleaving))
        return _with_errors(judged, (first, *others))

    def _only_with(self, judged: LaunchJudgement, boxes: Boxes, other: LaunchJudgement) -> LaunchJudgement:
        """The run whose errors another choice of boxes does not show: a doubt."""
        doubt = self._depends(self.boxes, judged.errors, boxes, other.errors)
        return replace(_with_errors(judged, ()), doubts=(*judged.doubts, doubt), complete=False)

    # ------------------------------------------------------------ words

    def _has(self, place: Place, size: str) -> str:
        verb = "'s box is" if place in self.unknown.map_places else " has a box of"
        return f"{self._name(place)}{verb} {size}"

    def _name(self, place: Place) -> str:
        return map_name(self.unknown, place)

    def _depends(
        self, one: Boxes, findings: tuple[Diagnostic, ...], other: Boxes, others: tuple[Diagnostic, ...]
    ) -> str:
        """That two choices of boxes, both of which the phases allow, show different things."""
        places = [place for place in one if one[place] != other.get(place)]
        said = [
            f"with {self._boxes_words(boxes, places)}: {_finding_words(errors)}"
            for boxes, errors in ((one, findings), (other, others))
        ]
        return f"what holds depends on boxes that the kernel leaves open ({'; '.join(said)}); give --launch"

    def _boxes_words(self, boxes: Boxes, places: list[Place]) -> str:
        if not any(place in boxes for place in places):
            return "smaller boxes"
        return ", ".join(f"{self._name(place)}'s box of {boxes[place]:,} bytes" for place in places if place in boxes)

    def _sum_words(self, each: Sum) -> str:
        terms = [
            f"{self._name(place)}'s box" if count == 1 else f"{count} times {self._name(place)}'s box"
            for place, count in each.counts
        ]
        if len(terms) == 1:
            return f"{terms[0]} is {each.bytes:,} bytes"
        solved = self.sized.solved()
        slots = ""
        if solved.inside and all(place in solved.slots for place, _ in each.counts):
            lengths = " and ".join(f"{solved.slots[place]:,}" for place, _ in each.counts)
            slots = f", none being longer than its slot ({lengths} bytes)"
        tried = [" and ".join(f"{boxes[place]:,}" for place, _ in each.counts) for boxes in self._tried(solved)]
        return f"{' and '.join(terms)} add up to {each.bytes:,} bytes{slots}; tried: {'; '.join(dict.fromkeys(tried))}"

    def _contradiction_words(self, pair: tuple[Sum, Sum]) -> str:
        one, other = pair
        name = self._name(one.counts[0][0])
        return (
            f"no box fits: one phase expects {one.bytes:,} bytes and another {other.bytes:,} bytes of copies through "
            f"{name}"
        )


def _unsized_places(judged: LaunchJudgement) -> set[Place]:
    """The maps that the run copied through whose boxes it was not given."""
    shares = [share for phase in judged.report.unknown_phases for share in phase.shares]
    shares += [store.share for store in judged.report.unknown_stores]
    return {(share.where, share.at) for share in shares}


def _one_map_each(pair: tuple[Sum, Sum] | None) -> bool:
    return pair is not None and {len(each.counts) for each in pair} == {1}


def _with_errors(judged: LaunchJudgement, errors: tuple[Diagnostic, ...]) -> LaunchJudgement:
    """The judgement with these errors in place of its own."""
    return replace(
        judged, findings=(*errors, *(finding for finding in judged.findings if finding.level is not Level.ERROR))
    )


def _finding_words(findings: tuple[Diagnostic, ...]) -> str:
    return f"{findings[0].code} {findings[0].message} ({findings[0].primary})" if findings else "nothing is wrong"


@dataclass(slots=True)
class _Written:
    """Shared memory that threads write in a run, of whichever CTA: CTAs have the same layout."""

    ranges: set[Ranges] = field(default_factory=set[Ranges])

    def see(self, event: Event) -> None:
        if isinstance(event, Access) and event.write and event.space == "shared" and event.proxy == "generic":
            self.ranges.add(event.ranges)

    def merged(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for begin, end in sorted(each for ranges in self.ranges for each in ranges):
            if found and begin <= found[-1][1]:
                found[-1] = (found[-1][0], max(end, found[-1][1]))
            else:
                found.append((begin, end))
        return found
