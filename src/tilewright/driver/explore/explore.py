"""What holds of a kernel for every launch, where none is given?

Launches are made up (`exploration`) until they cover what the kernel can do (`coverage`). Together they give:

- refuted, if a launch fails that is not degenerate;
- a launch that fails is degenerate if a number is zero, a pointer null or a loop without iterations in it, and the
  launch that differs in that alone is clean. It is excluded by an assumption that says so;
- nothing, if the kernel's own assertion fails in it; if an access leaves an array, the array may bound the numbers;
- unknown, if a launch was, or if something that a launch could reach was not covered;
- proven otherwise, for all trip counts.

Not handled: failures at numbers so large that sums may overflow, or at data that no kernel need accept; they leave the
verdict unknown. Checked by: tests/driver/explore/test_explore.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.span import Span
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.driver.explore.assumed_numbers import (
    assume_multiple,
    assume_positive,
    assume_smaller,
    fails_by_alignment,
    fails_by_extent,
    first_finding,
    negative_numbers,
)
from tilewright.driver.explore.control_flow.skipped_loops import (
    Guards,
    Skipped,
    Visit,
    counted_loops,
    skipped_loop,
    skipped_loops,
)
from tilewright.driver.explore.gaps.coverage import cover
from tilewright.driver.explore.gaps.open_so_far import open_loops
from tilewright.driver.explore.search.exact_ranges import SUMS
from tilewright.driver.explore.search.exploration import Exploration, Tried, distinct
from tilewright.driver.explore.search.overflow import overflow_limit, overflows
from tilewright.driver.explore.search.path_search import Assignment
from tilewright.machine.symbolic.expression import (
    Applied,
    Input,
    Leaf,
    Node,
    Not,
    inputs_of,
)
from tilewright.machine.symbolic.tracker import Condition

_ORDINARY = (1, 77)
"""Numbers that take the place of a zero that an assumption excludes."""
_FLOATS = frozenset({"f16", "f32", "f64"})
_ALIGNED = (64, 1024)
"""Numbers that are multiples of these make aligned addresses of what threads access; the larger ones fill tiles, too,
so that none of their counts is zero."""
_UNWRITTEN = "TC122"
_WORDS_MOST = 2
"""Words of memory that a failure may depend on, to refute: data may keep rules that the text does not say."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where things stand in the kernel. name: of an input, or "" if nothing is decided by it; span,
    loop_span: of an instruction, of a loop's head; positions: the instructions of the protocol; lasting: decisions that
    leave a trace; guards: branches that skip a loop."""

    name: Callable[[Input], str]
    span: Callable[[int], Span]
    loop_span: Callable[[int], Span]
    positions: frozenset[int] = frozenset()
    lasting: frozenset[int] = frozenset()
    guards: Guards = field(default_factory=dict[int, tuple[int, bool]])


@dataclass(frozen=True, slots=True)
class Explored:
    """The verdict, and the launches that refute, those with small numbers first. excluded: every launch ends at the
    kernel's own assertion, and these cover it."""

    verdict: Verdict
    shown: tuple[dict[Input, int], ...] = ()
    excluded: bool = False


@dataclass(frozen=True, slots=True)
class _Excuse:
    """Why a launch that fails refutes nothing, as an assumption; empty if another launch's says it."""

    assumption: str


def explore(exploration: Exploration, text: Places) -> Explored:
    """Make launches until they cover the kernel, and say what they show."""
    dimensions = exploration.dimensions
    exploration.stops = lambda tried: _plainly_fails(exploration, text, tried)
    exploration.open = partial(open_loops, exploration, text.loop_span)
    # A launch shows further dimensions: later starts choose these, too.
    starts: tuple[Callable[[], Assignment], ...] = (
        lambda: {each: dimension.first for each, dimension in dimensions.items()},
        lambda: {each: min(64, dimension.largest) for each, dimension in dimensions.items()} | _grid(exploration),
        lambda: {each: int(each.kind == "pointer") for each in dimensions} | _grid(exploration),
        lambda: {each: dimension.first for each, dimension in dimensions.items()},
    )
    excuses: dict[int, _Excuse] = {}
    if not any(exploration.stops(_started(exploration, text, excuses, values())) for values in starts):
        exploration.go()

    def excuse() -> None:
        _excuse(exploration, text, excuses)

    excuse()
    guilty = _guilty(exploration, text, excuses)
    if not guilty:
        covered = cover(exploration, excuse, text.name, text.span, text.loop_span, text.positions, text.lasting)
        excuse()
        guilty = _guilty(exploration, text, excuses)
        if not guilty:
            asserted = all(each.judged.asserted is not None for each in exploration.tried)
            verdict = _open_or_proven(exploration, text, excuses, covered.reasons, covered.claims)
            return Explored(verdict, excluded=asserted and not covered.reasons)
    return _refuted(text, guilty)


def _started(exploration: Exploration, text: Places, excuses: dict[int, _Excuse], values: Assignment) -> Tried:
    """One of the first launches. What its numbers are assumed to be multiples of is found at once."""
    launch = {each: exploration.dimensions[each].nearest(value) for each, value in values.items()}
    tried = exploration.retraced(launch) or exploration.at(launch)
    _excuse_alignment(exploration, text, excuses, tried)
    return tried


def _grid(exploration: Exploration) -> dict[Input, int]:
    """The first cluster, of one as a rule: an empty grid is none."""
    return {
        each: dimension.first if each.kind == "grid" else 0
        for each, dimension in exploration.dimensions.items()
        if each.kind in ("grid", "cluster")
    }


def _open_or_proven(
    exploration: Exploration,
    text: Places,
    excuses: dict[int, _Excuse],
    missing: tuple[str, ...],
    claims: tuple[str, ...],
) -> Verdict:
    asserted = [each for each in exploration.tried if each.judged.asserted is not None]
    places = tuple(dict.fromkeys(str(each.judged.asserted) for each in asserted))
    left = [each for each in exploration.tried if each.judged.asserted is None]
    if not left:
        return Unknown(
            (f"every launch tried ends at the kernel's own assertion at {' and '.join(places)}: give --launch",)
        )
    reasons: list[str] = []
    for each in left:
        verdict = each.judged.verdict
        if isinstance(verdict, Unknown) and not each.judged.too_long:
            reasons += verdict.reasons
    reasons += _all_left_open([each for each in left if each.fails and id(each) not in excuses], text)
    reasons += missing
    if reasons:
        return Unknown(tuple(dict.fromkeys(reasons)))
    clean = [each for each in left if each.clean]
    if not clean:
        if all(each.judged.too_long for each in left):
            return Unknown(("every launch explored ran until its steps were spent: does a loop never end?",))
        return Unknown(("no launch explored was clean",))
    assumptions: list[str] = []
    for each in clean:
        if isinstance(each.judged.verdict, Proven):
            assumptions += each.judged.verdict.assumptions
    assumptions += [excuse.assumption for excuse in excuses.values() if excuse.assumption]
    assumptions += _bounds(exploration)
    assumptions += exploration.assumed
    assumptions += [f"the kernel's own assertion at {place} holds" for place in places]
    said = [found.said for each in clean for found in each.judged.repeats.values() if found.said]
    return Proven("all trip counts", tuple(dict.fromkeys(assumptions)), tuple(dict.fromkeys((*said, *claims))))


def _bounds(exploration: Exploration) -> list[str]:
    """What a proof assumes of inputs that were not tried, nor asked about, up to the largest that their width holds."""
    return [
        f"{dimension.name} are at most {dimension.largest:,}"
        for given, dimension in exploration.dimensions.items()
        if given.kind == "grid"
    ]


# ---------------------------------------------------------------- launches that fail


def _excuse(exploration: Exploration, text: Places, excuses: dict[int, _Excuse]) -> None:
    """Find out of every launch that fails whether something degenerate makes it fail, and bar that."""
    for tried in exploration.tried:
        if tried.judged.asserted is not None and id(tried) not in excuses:
            excuses[id(tried)] = _Excuse("")
            _bar_assertion(exploration, tried)
    for tried in exploration.tried:  # it grows: what excuses a launch takes others
        if not tried.fails or id(tried) in excuses:
            continue
        huge = _huge(exploration, tried)
        if exploration.leaves_out(tried.values):
            excuses[id(tried)] = _Excuse("")
        elif huge:
            _excuse_huge(exploration, text, excuses, tried, huge)
        else:
            _excuse_empty(exploration, text, excuses, tried)
            _excuse_negative(exploration, text, excuses, tried)
            _excuse_alignment(exploration, text, excuses, tried)
        if id(tried) not in excuses and fails_by_extent(tried):
            assumption = assume_smaller(exploration, tried, text.name)
            if assumption:
                excuses[id(tried)] = _Excuse(assumption)
    for tried in exploration.tried:
        if tried.fails and id(tried) not in excuses and exploration.leaves_out(tried.values):
            excuses[id(tried)] = _Excuse("")


def _excuse_empty(exploration: Exploration, text: Places, excuses: dict[int, _Excuse], tried: Tried) -> None:
    """Exclude a launch with a zero, or with a loop without iterations, if the launch without that is clean."""
    zero = [each for each, value in tried.values.items() if not value and each.kind in ("number", "pointer", "memory")]
    loops = _empty_loops(exploration, text, tried)
    clean = [each for each in exploration.tried if each.clean]
    changed = {*zero, *(each for skipped in loops.values() for each in skipped.inputs)}
    if not clean or not changed:
        return
    repaired = _repaired(exploration, tried, changed, clean)
    # A word elsewhere may be another one: what is repaired must have read the same.
    if repaired is not None and repaired.clean and set(tried.judged.inputs) <= set(repaired.judged.inputs):
        nonzero = [each for each in zero if repaired.values.get(each) and each in exploration.dimensions]
        nonzero = _needed(exploration, tried, repaired, nonzero)
        # Loops that a clean launch does not enter either are not what fails.
        harmless = {visit for each in (repaired, *clean) for visit in _empty_loops(exploration, text, each)}
        counted = counted_loops(way for each in (repaired, *clean) for way in each.judged.conditions)
        entered = {
            visit: skipped
            for visit, skipped in loops.items()
            if visit not in harmless and counted.get(skipped.loop, frozenset()).issuperset(skipped.inputs)
        }
        if not nonzero and not entered:
            return
        for each in nonzero:
            exploration.narrow(each, smallest=1)
        _bar_zero_floats(exploration, tried, nonzero)
        if not nonzero:
            _bar_empty_loops(exploration, text, tried, entered)
        # What was clean may differ by more than that it is not zero: any other number must do as well.
        numbers = [each for each in nonzero if each.kind == "number"]
        for other in _ORDINARY if numbers else ():
            exploration.at({**tried.values, **{each: exploration.dimensions[each].nearest(other) for each in numbers}})
        excuses[id(tried)] = _Excuse(_said(tried, nonzero, text, sorted({each.loop for each in entered.values()})))


def _needed(exploration: Exploration, tried: Tried, repaired: Tried, nonzero: list[Input]) -> list[Input]:
    """Which of the numbers that are zero in a launch that fails have to be others: one alone, if that is enough. What
    the others are need not be excluded."""
    for each in nonzero if len(nonzero) > 1 else ():
        alone = exploration.at({**tried.values, each: repaired.values[each]})
        if alone.clean and set(tried.judged.inputs) <= set(alone.judged.inputs):
            return [each]
    return nonzero


def _excuse_negative(exploration: Exploration, text: Places, excuses: dict[int, _Excuse], tried: Tried) -> None:
    """Exclude a launch with a negative number if zero in its place fails at the same place, and is excluded."""
    finding = first_finding(tried)
    for given in () if id(tried) in excuses else negative_numbers(tried):
        if given not in exploration.dimensions:
            continue
        empty = exploration.at({**tried.values, given: 0})
        if not empty.fails:
            continue
        other = first_finding(empty)
        if (other.code, other.primary) != (finding.code, finding.primary):
            continue
        if id(empty) not in excuses:
            _excuse_empty(exploration, text, excuses, empty)
        if id(empty) in excuses and exploration.dimensions[given].smallest:
            excuses[id(tried)] = _Excuse(assume_positive(exploration, tried, given, text.name))
            return


def _excuse_alignment(exploration: Exploration, text: Places, excuses: dict[int, _Excuse], tried: Tried) -> None:
    """Exclude numbers that are no multiples, if nothing but an alignment is wrong with them."""
    zero = any(not value for each, value in tried.values.items() if each.kind == "number")
    if fails_by_alignment(tried) and not zero and not exploration.leaves_out(tried.values):
        assumption = assume_multiple(exploration, tried, text.name)
        if assumption:
            excuses[id(tried)] = _Excuse(assumption)


def _huge(exploration: Exploration, tried: Tried) -> list[Input]:
    """Numbers so large that a sum which decides something overflows."""
    found = [
        given
        for given, value in tried.values.items()
        if given.kind == "number" and given.size_bytes in (4, 8) and value >= overflow_limit(given)
    ]
    return found if found and overflows(exploration, tried.values, _decided(tried), SUMS) else []


def _decided(tried: Tried) -> list[Node]:
    return [each.node for each in tried.judged.conditions]


def _excuse_huge(
    exploration: Exploration, text: Places, excuses: dict[int, _Excuse], tried: Tried, huge: list[Input]
) -> None:
    """Exclude numbers at which sums overflow, if the launch with smaller ones is clean; no others are tried then."""
    clean = [each for each in exploration.tried if each.clean]
    repaired = _repaired(exploration, tried, set(huge), clean) if clean else None
    if repaired is None or not repaired.clean:
        return
    assert isinstance(tried.judged.verdict, Refuted), "asked of launches that fail"
    finding = tried.judged.verdict.findings[0]
    for given in huge:
        most = overflow_limit(given)
        exploration.narrow(given, largest=most - 1)
        said = f"{text.name(given)} is at least 0 and below 2^{most.bit_length() - 1}"
        excuses[id(tried)] = _Excuse(f"{said} (beyond, a sum overflows and the kernel fails with {finding.code})")


def _empty_loops(exploration: Exploration, text: Places, tried: Tried) -> dict[Visit, Skipped]:
    """Loops that a warp does not enter since inputs say so."""
    return skipped_loops(exploration.ways.flow, text.positions, text.guards, tried.judged.conditions)


def _repaired(exploration: Exploration, tried: Tried, changed: set[Input], clean: list[Tried]) -> Tried | None:
    """A launch that differs from one that fails in what is degenerate alone: the first of these that is clean, else
    the last."""
    found: Tried | None = None
    same = [
        each
        for each in clean
        if all(each.values.get(given, value) == value for given, value in tried.values.items() if given not in changed)
    ]
    nearest = sorted(
        clean, key=lambda each: (sum(not each.values.get(given) for given in changed), sum(each.values.values()))
    )
    for other in same:
        if all(other.values.get(given) for given in changed):
            return other
    for other in [*same[:1], *nearest[:2]]:
        found = exploration.at({**tried.values, **{given: other.values.get(given, 1) for given in changed}})
        if found.clean:
            return found
    return found


def _bar_empty_loops(
    exploration: Exploration, text: Places, tried: Tried, loops: Collection[Visit]
) -> None:  # fmt: skip
    """Each of these loops, which a launch does not enter, iterates at least once."""
    ways: dict[tuple[int, int], list[Condition]] = {}
    for condition in distinct(tried.judged.conditions):
        way = ways.setdefault((condition.cta, condition.warp), [])
        skips = skipped_loop(exploration.ways.flow, text.positions, text.guards, condition) >= 0
        if skips and (condition.position, condition.cta, condition.warp) in loops:
            _bar(exploration, (*exploration.ways.needed(way, condition.position), condition))
        way.append(condition)


def _bar_zero_floats(exploration: Exploration, tried: Tried, nonzero: list[Input]) -> None:
    """A floating number that is not 0 is not -0 either: comparisons with 0 do not come out as in this launch."""
    for condition in tried.judged.conditions:
        node = condition.node
        if isinstance(node.operation, Not) and isinstance(node.sources[0], Node):
            node = node.sources[0]
        if not isinstance(node.operation, Applied) or node.operation.instruction.row != "setp":
            continue
        words = {*node.operation.instruction.modifiers}
        if not words & _FLOATS or not words & {"eq", "ne", "equ", "neu"} or len(node.sources) != 2:
            continue
        leaves = [each.operation for each in node.sources if isinstance(each, Node)]
        zeros = [each for each in node.sources if not isinstance(each, Node) and not each.any()]
        if len(zeros) == 1 and all(isinstance(each, Leaf) and each.input in nonzero for each in leaves):
            _bar(exploration, (condition,))


def _bar_assertion(exploration: Exploration, tried: Tried) -> None:
    """No launch decides all as one did whose assertion failed."""
    different = {(each.node.number, each.outcome.tobytes()): each for each in tried.judged.conditions}
    _bar(exploration, tuple(different.values()))


def _bar(exploration: Exploration, way: tuple[Condition, ...]) -> None:
    known = {tuple((each.node.number, each.outcome.tobytes()) for each in other) for other in exploration.barred}
    if tuple((each.node.number, each.outcome.tobytes()) for each in way) not in known:
        exploration.barred.append(way)


def _said(tried: Tried, nonzero: list[Input], text: Places, loops: Sequence[int]) -> str:
    """What an assumption says of a launch that is excluded. nonzero: inputs that are not 0 in one that is clean;
    loops: those that it enters instead."""
    assert isinstance(tried.judged.verdict, Refuted), "asked of launches that fail"
    finding = tried.judged.verdict.findings[0]
    if nonzero:
        names = " and ".join(text.name(each) for each in nonzero)
        verb = "are" if len(nonzero) > 1 else "is"
        zero = "null" if all(each.kind == "pointer" for each in nonzero) else "0"
        return f"{names} {verb} not {zero} (at {zero} the kernel fails with {finding.code})"
    places = " and ".join(str(text.loop_span(loop)) for loop in loops)
    word = "loops" if len(loops) > 1 else "loop"
    iterate = f"iterate{'' if len(loops) > 1 else 's'}"
    return f"the {word} at {places} {iterate} at least once (without iterations the kernel fails with {finding.code})"


def _guilty(exploration: Exploration, text: Places, excuses: dict[int, _Excuse]) -> list[Tried]:
    """The launches that refute: those in which nothing is degenerate first, then those with small numbers; of those in
    which loops are not entered, the ones that do most. Where others are not decided, one in which a number is zero
    refutes nothing: whether it is the zero that fails is not known."""
    clean = any(each.clean for each in exploration.tried)
    doubted = any(isinstance(each.judged.verdict, Unknown) and not each.judged.too_long for each in exploration.tried)
    found = [
        each
        for each in exploration.tried
        if each.fails
        and id(each) not in excuses
        and not (each.judged.overrun and clean)
        and not each.judged.oversized
        and not (doubted and _zeros(each))
        and not _uncertain(exploration, each)
    ]

    def order(each: Tried) -> tuple[int, int, int, tuple[int, ...]]:
        empty = {skipped.loop for skipped in _empty_loops(exploration, text, each).values()}
        done = len(each.judged.covered & text.positions) if empty else 0
        return _zeros(each) + len(empty), -done, sum(each.values.values()), tuple(each.values.values())

    return sorted(found, key=order)


def _zeros(tried: Tried) -> int:
    """How many numbers are 0 and pointers null."""
    return sum(not value for given, value in tried.values.items() if given.kind in ("number", "pointer"))


def _plainly_fails(exploration: Exploration, text: Places, tried: Tried) -> bool:
    """Whether a launch refutes whatever others show: it fails, and nothing in it is degenerate or large."""
    if not tried.fails or tried.judged.overrun or fails_by_alignment(tried) or fails_by_extent(tried):
        return False
    zero = any(not value and given.kind in ("number", "pointer", "memory") for given, value in tried.values.items())
    return not zero and not _empty_loops(exploration, text, tried) and not _uncertain(exploration, tried)


def _uncertain(exploration: Exploration, tried: Tried) -> bool:
    """Whether a launch that fails may be one that no author has to think of."""
    if any(value >> (8 * given.size_bytes - 1) for given, value in tried.values.items()):
        return True
    if overflows(exploration, tried.values, _decided(tried)):
        return True
    operands = [each.node for each in tried.judged.conditions if each.kind == "value"]
    if any(each.kind == "memory" for each in inputs_of(operands)):
        return True
    words = [each for each in inputs_of([each.node for each in tried.judged.conditions]) if each.kind == "memory"]
    return len(words) > _WORDS_MOST or _adds_to_leftovers(exploration, tried)


def _adds_to_leftovers(exploration: Exploration, tried: Tried) -> bool:
    """Whether all that fails is that products add to tensor memory which nobody has written, because an input says so:
    at a launch nothing is there to be added to, and the flag of a product is passed with others of its kind."""
    found, flow = errors(tried.judged.verdict), exploration.ways.flow
    steered = {flow.instructions[each.position].span for each in tried.judged.conditions if inputs_of([each.node])}
    return bool(found) and all(each.code == _UNWRITTEN and each.primary in steered for each in found)


def _all_left_open(failing: list[Tried], text: Places) -> list[str]:
    """What launches that fail leave open: one line for each error, with the launch of the smallest numbers."""
    alike: dict[tuple[str, Span | None], list[Tried]] = {}
    for each in failing:
        assert isinstance(each.judged.verdict, Refuted), "asked of launches that fail"
        finding = each.judged.verdict.findings[0]
        alike.setdefault((finding.code, finding.primary), []).append(each)
    found: list[str] = []
    for group in alike.values():
        first = min(group, key=lambda each: sum(each.values.values()))
        more = f" ({len(group)} launches like this)" if len(group) > 1 else ""
        found.append(_left_open(first, text) + more)
    return found


def _left_open(tried: Tried, text: Places) -> str:
    assert isinstance(tried.judged.verdict, Refuted), "asked of launches that fail"
    finding = tried.judged.verdict.findings[0]
    numbers = _numbers(tried.values, text) or "a launch that is made up"
    if tried.judged.overrun:
        return f"with {numbers}, {tried.judged.overrun}; say by --launch how large the numbers are"
    what = f"{finding.code} {finding.message} ({finding.primary})"
    return f"with {numbers}: {what}; whether a launch has these is not known: give --launch"


def _refuted(text: Places, guilty: list[Tried]) -> Explored:
    first = guilty[0]
    assert isinstance(first.judged.verdict, Refuted), "asked of launches that fail"
    said = _numbers(first.values, text)
    findings = tuple(
        replace(finding, interleaving=(f"with {said}", *finding.interleaving))
        if said and finding.level is Level.ERROR
        else finding
        for finding in first.judged.verdict.findings
    )
    return Explored(Refuted(findings), tuple(dict(each.values) for each in guilty))


def more_ordinary(exploration: Exploration, text: Places, shown: Assignment) -> Iterator[Explored]:
    """The launches nearest to one that refutes whose pointers are not null and whose numbers make aligned addresses, if
    they show the same. Both may be needed where memory is accessed, of which a made-up launch says nothing."""
    (first,) = [each for each in exploration.tried if each.values == shown]
    dimensions = {**exploration.latent, **exploration.dimensions}
    for aligned in _ALIGNED:
        values = dict(shown)
        for given, value in shown.items():
            if given.kind == "pointer":
                values[given] = 1
            elif given.kind == "number" and given in dimensions:
                values[given] = dimensions[given].nearest(value + -value % aligned)
        other = exploration.at(values)
        same = other.fails and first_finding(other).code == first_finding(first).code
        if same and other.values != first.values and not _uncertain(exploration, other):
            yield _refuted(text, [other])


def _numbers(values: Assignment, text: Places) -> str:
    """The values that a reader may want to know: not what is as always."""
    shown = [
        f"{text.name(given)} = {value}"
        for given, value in values.items()
        if text.name(given)
        and not (given.kind == "pointer" and value)
        and not (given.kind == "grid" and value == 1)
        and not (given.kind in ("cluster", "offset") and not value)
        and not (given.kind == "memory" and not value)
        and given.kind != "ticket"
    ]
    return ", ".join(shown)


def errors(verdict: Verdict) -> tuple[Diagnostic, ...]:
    """The errors that a verdict shows."""
    if not isinstance(verdict, Refuted):
        return ()
    return tuple(finding for finding in verdict.findings if finding.level is Level.ERROR)
