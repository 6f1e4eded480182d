"""Is the asynchronous protocol of a structured program free of hangs and races, for every trip count?

1. The trip counts that the program leaves open are symbols, and so are conditions that nothing decides. Each choice of
   counts and decisions has one word per agent (`words.walk`) and one judged run (`words.run`).
2. For each symbol, a period of trips can be inserted into every longer run without changing anything else: the words
   repeat (evaluated with slopes, at two cuts; and trip by trip, compared), and the run's canonical state at one trip is
   that at one period before, with every agent one period on. So the run with a period more is this run with a piece
   that was judged repeated, by induction for any number of periods.
3. All counts below that, and one whole period of counts for which it holds, are run. With several symbols, all
   combinations are run, and each symbol is stretched in each of them.
What holds only if a loop makes at least one trip is an assumption that the proof states.

Not decided, and unknown: what `words.walk` does not follow, more runs than the limits allow, and findings under
decisions that may contradict each other, or where several trip counts are functions of the same unknown, such as those
of warpgroups that take tiles in turn: combinations that cannot occur are run too. Checked by:
tests/contract/words/test_structured_proof.py (longer runs than the proof looked at agree with it),
tests/driver/check/mlir/test_check_mlir.py, test_check_nvgpu.py.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import lcm

from tilewright.contract.words.accesses import WARP_THREADS
from tilewright.contract.words.relevance import Relevance, relevance
from tilewright.contract.words.run import Run
from tilewright.contract.words.scalar import Atoms, NotPeriodic
from tilewright.contract.words.snapshot import snapshot
from tilewright.contract.words.state import Trouble
from tilewright.contract.words.values import NotFollowed
from tilewright.contract.words.walk import Choice, Dialects, Distance, Program, Stretch
from tilewright.contract.words.word import Mark, Symbol, Word
from tilewright.frontends.mlir.ast import Region as Body

SYMBOLS_MAX = 3
CONDITIONS_MAX = 4
PERIOD_MAX = 48
COUNT_MAX = 120

Counts = Mapping[Distance, int]
Decisions = Mapping[Hashable, bool]
Begin = Callable[[Program], None]
"""Evaluates the words of a program's agents."""


@dataclass(frozen=True, slots=True)
class StructuredVerdict:
    """troubles: broken rules; doubts: reasons for which nothing is proven, with lines (0: none); floors: lines of loops
    that must make at least one trip; reviews: what breaks if such a loop makes none; contested: points on which
    interpretations differ, taken as the tolerant one has them; claims: what was found."""

    troubles: tuple[Trouble, ...] = ()
    doubts: tuple[tuple[int, str], ...] = ()
    floors: tuple[int, ...] = ()
    reviews: tuple[Trouble, ...] = ()
    claims: tuple[str, ...] = ()
    contested: tuple[Trouble, ...] = ()


class _Undecided(Exception):
    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


@dataclass(slots=True)
class _Evaluated:
    words: dict[str, Word]
    choice: Choice
    steps: int


@dataclass(slots=True)
class _Problem:
    """A function to judge."""

    begin: Begin
    by_threads: bool
    dialects: Dialects
    atoms: Atoms
    relevant: Relevance
    spend: Callable[[int], None]
    symbols: dict[Distance, Symbol] = field(default_factory=dict[Distance, Symbol])
    conditions: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    contested: dict[tuple[str, int], Trouble] = field(default_factory=dict[tuple[str, int], Trouble])
    runs: int = 0
    steps: int = 0

    def judged(self, steps: int) -> None:
        """A run of so many steps was judged."""
        self.runs += 1
        self.steps += steps
        self.spend(steps)

    def evaluate(self, counts: Counts, decisions: Decisions, stretch: Stretch | None = None) -> _Evaluated:
        """The words for a choice."""
        choice = Choice(counts, decisions, stretch)
        for symbol, count in counts.items():
            choice.know(symbol, count)
        program = Program(self.dialects, self.atoms, choice, self.relevant)
        self.begin(program)
        self.spend(program.evaluated + sum(map(_pieces, program.words.values())))
        return _Evaluated(program.words, choice, sum(len(each.steps) for each in program.words.values()))


def _pieces(word: Word) -> int:
    """How many pieces of memory a word's steps touch thread by thread, in warps."""
    return sum(len(region.pieces) for step in word.steps for region in step.regions) // WARP_THREADS


def prove(
    body: Body,
    begin: Begin,
    dialects: Dialects,
    *,
    by_threads: bool = False,
    spend: Callable[[int], None] = lambda steps: None,
) -> StructuredVerdict:
    """Judge a function's body. by_threads: its agents are groups of threads, see `words.run`; spend: is told of the
    operations that are evaluated and the steps that are judged, and may end the proof by an exception of its own."""
    try:
        problem = _Problem(begin, by_threads, dialects, Atoms(), relevance(body, dialects), spend)
        _discover(problem)
    except NotFollowed as reason:
        return StructuredVerdict(doubts=((reason.line, reason.reason),))
    except NotPeriodic as reason:
        return StructuredVerdict(doubts=((0, str(reason)),))
    except _Undecided as reason:
        return StructuredVerdict(doubts=((reason.line, reason.reason),))
    decided = [
        dict(zip(problem.conditions, values, strict=True))
        for values in product((True, False), repeat=len(problem.conditions))
    ]
    found = [_judge(problem, decisions) for decisions in decided]
    return _together(problem, found)


def _discover(problem: _Problem) -> None:
    """Evaluate until no new symbol or condition turns up."""
    conditions: dict[Hashable, int] = {}
    while True:
        counts = dict.fromkeys(problem.symbols, 3)
        fresh = False
        for values in product((True, False), repeat=len(problem.conditions)):
            decisions = dict(zip(problem.conditions, values, strict=True))
            choice = problem.evaluate(counts, decisions).choice
            if choice.open_symbols:
                problem.symbols.update(choice.open_symbols)
                fresh = True
                break
            conditions.update(choice.open_conditions)
        if not fresh and conditions.keys() <= problem.conditions.keys():
            return
        if not fresh:
            problem.conditions.update(conditions)
        else:
            # What a condition meant may be decided by the new symbol.
            problem.conditions, conditions = {}, {}
        if len(problem.symbols) > SYMBOLS_MAX:
            lines = ", ".join(str(each.line) for each in problem.symbols.values())
            raise _Undecided(0, f"{len(problem.symbols)} trip counts are open (loops at lines {lines})")
        if len(problem.conditions) > CONDITIONS_MAX:
            line = next(iter(problem.conditions.values()))
            raise _Undecided(line, f"what happens depends on {len(problem.conditions)} conditions that are not decided")


@dataclass(slots=True)
class _Found:
    """What the runs under one set of decisions showed. zero: troubles only where loops at these symbols make no
    trip."""

    troubles: tuple[Trouble, ...] = ()
    doubts: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    zero: dict[Distance, tuple[Trouble, ...]] = field(default_factory=dict[Distance, tuple[Trouble, ...]])
    claims: list[str] = field(default_factory=list[str])


def _together(problem: _Problem, found: list[_Found]) -> StructuredVerdict:
    doubts = list(dict.fromkeys(doubt for each in found for doubt in each.doubts))
    troubled = [each for each in found if each.troubles]
    dependent = _dependent_lines(problem)
    if troubled and len(troubled) == len(found) and not dependent:
        return StructuredVerdict(troubled[0].troubles, contested=tuple(problem.contested.values()))
    if troubled:
        first = troubled[0].troubles[0]
        if dependent:
            lines = ", ".join(map(str, dependent))
            reason = f"that loops at lines {lines} make numbers of trips which depend on each other is not followed"
            doubts.insert(0, (first.line, f"{reason}; without that, {first.code} {first.message}"))
        else:
            lines = ", ".join(str(line) for line in problem.conditions.values())
            reason = f"{first.code} {first.message}, for one outcome of the conditions at {lines}"
            doubts.insert(0, (first.line, reason))
    if doubts:
        return StructuredVerdict(doubts=tuple(doubts))
    zero = {symbol: troubles for each in found for symbol, troubles in each.zero.items()}
    floors = tuple(sorted(problem.symbols[symbol].line for symbol in zero))
    reviews = tuple(trouble for troubles in zero.values() for trouble in troubles)
    claims = tuple(dict.fromkeys(claim for each in found for claim in each.claims))
    claims = (f"{problem.runs} runs of {problem.steps} protocol steps cover all trip counts", *claims)
    return StructuredVerdict((), (), floors, reviews, claims, tuple(problem.contested.values()))


def _dependent_lines(problem: _Problem) -> tuple[int, ...]:
    """Lines of loops over different symbols that are functions of the same unknown: not every combination of their
    counts occurs."""
    atoms = problem.atoms
    roots = {each: atoms.roots(each[0]) | atoms.roots(each[1]) for each in problem.symbols}
    shared = [each for each in roots if any(roots[each] & roots[other] for other in roots if other != each)]
    return tuple(sorted({problem.symbols[each].line for each in shared}))


# ---------------------------------------------------------------- one set of decisions


def _judge(problem: _Problem, decisions: Decisions) -> _Found:
    found = _Found()
    # Inner loops first: their periods do not depend on how often they are entered.
    symbols = tuple(reversed(problem.symbols))
    try:
        if _small_runs(problem, decisions, symbols, found):
            return found
        _explore(problem, decisions, {}, symbols, found)
    except NotFollowed as reason:
        found.doubts.append((reason.line, reason.reason))
    except NotPeriodic as reason:
        found.doubts.append((0, str(reason)))
    except _Undecided as reason:
        found.doubts.append((reason.line, reason.reason))
    except _Refuted as refuted:
        found.troubles = refuted.troubles
        found.doubts = []
    return found


class _Refuted(Exception):
    def __init__(self, troubles: tuple[Trouble, ...]) -> None:
        super().__init__("refuted")
        self.troubles = troubles


def _run(problem: _Problem, words: dict[str, Word]) -> Run:
    run = Run(words, by_threads=problem.by_threads)
    run.go()
    problem.contested |= run.reviews
    problem.judged(sum(len(word.steps) for word in words.values()))
    return run


def _judged(run: Run) -> tuple[Trouble, ...]:
    """The troubles of a run. Raises _Undecided if they may be due to memory told apart too coarsely."""
    troubles = tuple(run.troubles.values())
    exact = tuple(trouble for trouble in troubles if trouble.exact)
    if troubles and not exact:
        first = troubles[0]
        raise _Undecided(first.line, f"{first.code} {first.message}, unless the views that are seen otherwise differ")
    return exact


def _small_runs(problem: _Problem, decisions: Decisions, symbols: tuple[Distance, ...], found: _Found) -> bool:
    """Runs of few trips, which find most troubles; then which loops must make a trip. True if refuted."""
    for counts in ((2, 1, 3), (7, 5, 6), (1, 1, 1), (1, 2, 2), (3, 2, 1)) if symbols else ():
        chosen = {each: _within(problem, each, count) for each, count in zip(symbols, counts, strict=False)}
        troubles = _judged(_run(problem, problem.evaluate(chosen, decisions).words))
        if troubles:
            found.troubles = troubles
            return True
    for place, symbol in enumerate(symbols):
        for other in (1, 3):
            chosen = {
                each: 0 if index == place else _within(problem, each, other) for index, each in enumerate(symbols)
            }
            try:
                troubles = _judged(_run(problem, problem.evaluate(chosen, decisions).words))
            except NotFollowed:
                # With at least one trip everything is followed: see the runs above.
                found.zero.setdefault(symbol, ())
                continue
            if troubles:
                found.zero[symbol] = troubles
    return False


def _within(problem: _Problem, symbol: Distance, count: int) -> int:
    """A count, or the most that the symbol's loops can make."""
    most = problem.symbols[symbol].most
    return count if most is None else min(count, max(0, most))


def _explore(
    problem: _Problem,
    decisions: Decisions,
    fixed: dict[Distance, int],
    rest: tuple[Distance, ...],
    found: _Found,
    wanted: frozenset[Distance] = frozenset(),
) -> dict[Distance, int]:
    """Judge every count of `rest` with those of `fixed`, up to where all longer ones repeat a period of them. The
    periods with which the symbols of `fixed` that are `wanted` can be stretched in every one of these runs."""
    if not rest:
        return _one_run(problem, decisions, fixed, wanted)
    symbol = rest[0]
    count = 1 if symbol in found.zero else 0
    common: dict[Distance, int] | None = None
    periods: list[int] = []
    most = problem.symbols[symbol].most
    while (not periods or len(periods) < lcm(*periods)) and (most is None or count <= most):
        if count > COUNT_MAX:
            line = problem.symbols[symbol].line
            raise _Undecided(line, f"the loop at line {line} is not seen to repeat within {COUNT_MAX} trips")
        asked = frozenset(wanted if common is None else common) | {symbol}
        stretched = _explore(problem, decisions, {**fixed, symbol: count}, rest[1:], found, asked)
        if symbol in stretched:
            periods.append(stretched[symbol])
        else:
            periods = []
        kept = {each: period for each, period in stretched.items() if each in fixed}
        if common is None:
            common = kept
        else:
            common = {each: lcm(period, kept[each]) for each, period in common.items() if each in kept}
        count += 1
    line = problem.symbols[symbol].line
    if periods and len(periods) >= lcm(*periods):
        claim = f"the loop at line {line} repeats with period {lcm(*periods)}"
    else:
        claim = f"the loop at line {line} makes at most {count - 1} trips"
    if not fixed and claim not in found.claims:
        found.claims.append(claim)
    return common or {}


def _one_run(
    problem: _Problem, decisions: Decisions, counts: dict[Distance, int], wanted: frozenset[Distance]
) -> dict[Distance, int]:
    """Judge one choice of counts; the symbols among `wanted` of which a period of trips can be inserted into it, with
    the period."""
    plain = problem.evaluate(counts, decisions)
    zones = {symbol: tuple(_zones(plain, symbol)) for symbol in counts if symbol in wanted}
    run = Run(plain.words, by_threads=problem.by_threads)
    watches: dict[Distance, _Watch] = {}
    for symbol, found in zones.items():
        if found and not found[0].idle:
            watches[symbol] = _Watch(symbol, plain.words)
            run.agents[watches[symbol].leader].watched.append(watches[symbol])
    run.go()
    problem.contested |= run.reviews
    problem.judged(plain.steps)
    troubles = _judged(run)
    if troubles:
        raise _Refuted(troubles)
    stretched: dict[Distance, int] = {}
    for symbol, found in zones.items():
        for zone in found:
            repeats = zone.idle or watches[symbol].repeats(zone)
            if repeats and _stretches(problem, plain, counts, decisions, symbol, zone):
                stretched[symbol] = zone.period
                break
    return stretched


@dataclass(frozen=True, slots=True)
class _Zone:
    """Trips `begin` to `end` of every loop over a symbol repeat with `period`; idle: no agent does anything in such a
    loop."""

    period: int
    begin: int = 0
    end: int = 0
    idle: bool = False


def _zones(plain: _Evaluated, symbol: Distance) -> Iterator[_Zone]:
    """Where a period of trips may be inserted as far as the words of this run go, by increasing period."""
    trips = [trip for word in plain.words.values() for trip in _trip_steps(word, symbol)]
    if not trips:
        yield _Zone(1, idle=True)
        return
    idle = not any(steps for each in trips for steps in each)
    count = min(len(each) for each in trips)
    for period in range(1, min(PERIOD_MAX, count // 2) + 1):
        longest = _repeating(trips, period, count)
        if longest is None:
            continue
        # What a loop begins with may be of another kind than what it goes on with.
        for begin in range(longest.begin, min(longest.begin + 2, longest.end - 2 * period) + 1):
            yield _Zone(period, begin, longest.end, idle)


def _trip_steps(word: Word, symbol: Distance) -> Iterator[list[tuple[object, ...]]]:
    """For every time that an agent enters a loop over `symbol`: what it does in each trip."""
    positions: list[int] = []
    for mark in word.marks:
        if mark.symbol != symbol:
            continue
        if mark.trip == 0:
            positions = []
        positions.append(mark.position)
        if mark.ends:
            yield [tuple(word.steps[one:other]) for one, other in pairwise(positions)]


def _repeating(trips: list[list[tuple[object, ...]]], period: int, count: int) -> _Zone | None:
    """The longest zone of trips in which every loop does the same again after `period` trips."""
    best: _Zone | None = None
    begin = 0
    for place in range(count - period + 1):
        if place < count - period and all(each[place] == each[place + period] for each in trips):
            continue
        if place > begin and (best is None or place - begin > best.end - best.begin - period):
            best = _Zone(period, begin, place + period)
        begin = place + 1
    return best


def _stretches(
    problem: _Problem,
    plain: _Evaluated,
    counts: dict[Distance, int],
    decisions: Decisions,
    symbol: Distance,
    zone: _Zone,
) -> bool:
    """Do the words stay the same, but for what is inserted, however many periods are?"""
    if not any(mark.symbol == symbol for word in plain.words.values() for mark in word.marks):
        return True
    history = {key[1:]: values for key, values in plain.choice.history.items() if key[0] == symbol}
    for cut in (zone.begin, zone.begin + zone.period):
        try:
            other = problem.evaluate(counts, decisions, Stretch(symbol, zone.period, zone.begin, cut, history))
        except (NotPeriodic, NotFollowed):
            return False
        if any(word.steps != plain.words[name].steps for name, word in other.words.items()):
            return False
        if other.words.keys() != plain.words.keys():
            return False
    return True


@dataclass(slots=True)
class _Watch:
    """Snapshots of a run at the trips in a zone, as its leader, the first agent with such a loop, begins them."""

    symbol: Distance
    words: Mapping[str, Word]
    leader: str = ""
    places: dict[int, Mark] = field(default_factory=dict[int, Mark])
    seen: dict[tuple[int, int], tuple[Hashable, dict[str, int]]] = field(
        default_factory=dict[tuple[int, int], tuple[Hashable, dict[str, int]]]
    )
    marks: dict[str, list[Mark]] = field(default_factory=dict[str, list[Mark]])

    def __post_init__(self) -> None:
        for name, word in self.words.items():
            self.marks[name] = [mark for mark in word.marks if mark.symbol == self.symbol]
        self.leader = next(name for name, marks in self.marks.items() if _is_busy(marks))
        for mark in self.marks[self.leader]:
            if not mark.ends:
                self.places.setdefault(mark.position, mark)

    def __call__(self, run: Run, position: int) -> None:
        mark = self.places.get(position)
        if mark is None or (mark.instance, mark.trip) in self.seen:
            return
        places = {name: state.position for name, state in run.agents.items()}
        self.seen[mark.instance, mark.trip] = (snapshot(run), places)

    def repeats(self, zone: _Zone) -> bool:
        """Is there, in every loop that the leader enters, a trip in the zone at which the run is where it was a period
        before? All agents that do anything in such loops must enter as many of them."""
        instances = {mark.instance for mark in self.marks[self.leader]}
        if any({mark.instance for mark in marks} != instances for marks in self.marks.values() if _is_busy(marks)):
            return False
        trips = range(zone.begin, zone.end - zone.period)
        return all(any(self._pair(instance, trip, zone) for trip in trips) for instance in instances)

    def _pair(self, instance: int, trip: int, zone: _Zone) -> bool:
        one, other = self.seen.get((instance, trip)), self.seen.get((instance, trip + zone.period))
        if one is None or other is None:
            return False
        for name, marks in self.marks.items():
            inside = [mark.position for mark in marks if mark.instance == instance]
            if not inside or inside[0] == inside[-1]:
                # It has nothing to do in this loop, and nothing is inserted into its word.
                if one[1][name] != other[1][name]:
                    return False
                continue
            before, after = _place(marks, one[1][name]), _place(marks, other[1][name])
            if before is None or after is None or before[0] != instance or after[0] != instance:
                return False
            if after[1] != before[1] + zone.period or after[2] != before[2]:
                return False
            if not zone.begin <= before[1] < zone.end - zone.period:
                return False
        return one[0] == other[0]


def _is_busy(marks: list[Mark]) -> bool:
    """Does an agent do anything in its loops over a symbol?"""
    begins: dict[int, int] = {}
    return any(begins.setdefault(mark.instance, mark.position) != mark.position for mark in marks)


def _place(marks: list[Mark], position: int) -> tuple[int, int, int] | None:
    """The loop, the trip and how far in it: where an agent's position lies; None outside of such loops."""
    index = bisect_right(marks, position, key=lambda mark: mark.position) - 1
    if index < 0 or marks[index].ends:
        return None
    mark = marks[index]
    return mark.instance, mark.trip, position - mark.position
