"""What holds of a kernel for every value of its numbers, where no launch is given?

The numbers that steer a kernel (loop bounds, mostly) are given boundary values: all of them 0 and 1, each of them alone
larger and larger until its loops turn often enough to repeat themselves, values at which a loop turns a few times, and
all together at such values. Each choice is one launch, judged as such. Together they give:

- refuted, if a launch of the largest kind fails, or one that no clean launch exceeds in every number;
- nothing, if the kernel's own assertion fails in it; if an access leaves an array in launches with larger numbers than
  a clean one has, the verdict is unknown, since the array may bound the numbers;
- proven under the assumption that the numbers are not as small as in those that failed, if all others are clean: an
  author may rely on at least one tile, one iteration; the failures are kept as findings for review;
- proven else: for all trip counts if every loop repeats itself (`machine.induction`), for the values tried otherwise;
- unknown, if any launch was, or if time ran out before a loop had turned twice.

Not handled: values that no boundary choice reaches, such as a bug at a trip count of 1000 alone: such a comparison is
what `machine.induction` objects to. Checked by: tests/driver/test_explore.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import monotonic

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.span import Span
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict

Values = tuple[int, ...]
"""One value for each number, in the order of the numbers."""

_ENOUGH_TURNS = 28
"""A loop that turned so often has had time to repeat itself."""
_FEW_TURNS = (1, 2, 3, 4, 5, 7)
_AGAIN_TURNS = (2,)
_SMALL = 1
_FIRST = 64
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Judged:
    """One launch, judged. turns: how often each loop with a protocol turned at most (by the loop's place); steps: warp
    instructions run; repeats: of loops that turned often enough, None if the loop repeats itself, else why that is not
    shown; repetitions: in words; too_long: the run was given up, and says nothing; asserted: where the kernel's own
    assertion failed, which excludes the launch; overrun: it failed since an access left an array, in words."""

    verdict: Verdict
    turns: Mapping[str, int]
    steps: int
    repeats: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    repetitions: tuple[str, ...] = ()
    too_long: bool = False
    asserted: Span | None = None
    overrun: str = ""


@dataclass(slots=True)
class _Exploration:
    names: tuple[str, ...]
    judge: Callable[[Values], Judged]
    deadline: float
    judged: dict[Values, Judged] = field(default_factory=dict[Values, Judged])
    ran_out: bool = False

    def at(self, values: Values) -> Judged | None:
        """The judgement of a launch, or None once time is up. The first two are made in any case."""
        known = self.judged.get(values)
        if known is None:
            if len(self.judged) >= 2 and monotonic() > self.deadline:
                self.ran_out = True
                return None
            known = self.judged[values] = self.judge(values)
        return known


def explore(names: tuple[str, ...], judge: Callable[[Values], Judged], *, seconds: float) -> Verdict:
    """The verdict for all values of the numbers `names`. judge: makes and judges one launch; seconds: time after which
    no further launch is begun."""
    exploration = _Exploration(names, judge, monotonic() + seconds)
    if not names:
        return _together(exploration, exploration.judge(()), complete=True)
    _try_values(exploration)
    return _together(exploration, None, complete=not exploration.ran_out)


def _try_values(exploration: _Exploration) -> None:
    """Small numbers; each number alone, until its loops turn often; each at few turns; all together at few turns."""
    count = len(exploration.names)
    small = (_SMALL,) * count
    if exploration.at(small) is None or exploration.at((0,) * count) is None:
        return
    steps: list[int] = []
    seen: set[str] = set()
    for index in range(count):
        step, loops = _turning(exploration, index, seen)
        steps.append(step)
        for turns in _FEW_TURNS if loops - seen else _AGAIN_TURNS if step else ():
            if exploration.at(_one_apart(count, index, step * turns)) is None:
                return
        seen |= loops
    if count > 1:
        exploration.at(tuple(max(2 * step, _FIRST) for step in steps))


def _turning(exploration: _Exploration, index: int, seen: set[str]) -> tuple[int, set[str]]:
    """How much more of a number makes a loop turn once more, 0 if none does, and which loops do. The number alone is
    made larger until a loop turns often; once is enough where other numbers were seen to turn the same loops."""
    count = len(exploration.names)
    least = exploration.judged[(_SMALL,) * count].turns
    value, step = _FIRST, 0
    loops: set[str] = set()
    while value <= _LARGEST:
        judged = exploration.at(_one_apart(count, index, value))
        if judged is None or judged.too_long:
            break
        if judged.asserted is not None:
            value *= 16
            continue
        more = [turns - least.get(loop, 0) for loop, turns in judged.turns.items() if turns > least.get(loop, 0)]
        if not more:
            value *= 16
            continue
        step = max(1, value // max(more))
        loops = {loop for loop, turns in judged.turns.items() if turns > least.get(loop, 0)}
        if max(more) >= _ENOUGH_TURNS or loops <= seen:
            break
        value = max(2 * value, step * (_ENOUGH_TURNS + 2))
    return step, loops


def _one_apart(count: int, index: int, value: int) -> Values:
    """One number has a value, all others are small."""
    return tuple(value if place == index else _SMALL for place in range(count))


def _together(exploration: _Exploration, alone: Judged | None, *, complete: bool) -> Verdict:
    tried: dict[Values, Judged] = dict(exploration.judged) if alone is None else {(): alone}
    names = exploration.names
    asserted = tuple(dict.fromkeys(str(each.asserted) for each in tried.values() if each.asserted is not None))
    tried = {values: each for values, each in tried.items() if each.asserted is None}
    if not tried:
        places = " and ".join(asserted)
        return Unknown((f"every launch tried ends at the kernel's own assertion at {places}: give --launch",))
    judged = {values: each for values, each in tried.items() if not each.too_long} or tried
    unknown = {values: each.verdict for values, each in judged.items() if isinstance(each.verdict, Unknown)}
    failed = {values: each.verdict for values, each in judged.items() if isinstance(each.verdict, Refuted)}
    clean = {values: each.verdict for values, each in judged.items() if isinstance(each.verdict, Proven)}
    excused = {values for values in failed if any(_exceeds(other, values) for other in clean)}
    guilty = {values: verdict for values, verdict in failed.items() if values not in excused}
    too_large = {values: judged[values].overrun for values in guilty if clean and judged[values].overrun}
    guilty = {values: verdict for values, verdict in guilty.items() if values not in too_large}
    if guilty:
        values = min(guilty, key=lambda each: (sum(each), each))
        return Refuted(tuple(_at_values(finding, names, values) for finding in guilty[values].findings))
    if unknown:
        values = min(unknown)
        return Unknown(tuple(dict.fromkeys(reason for verdict in unknown.values() for reason in verdict.reasons)))
    if too_large:
        values = min(too_large, key=lambda each: (sum(each), each))
        said = f"with {_said(names, values)}, {too_large[values]}; say by --launch how large the numbers are"
        return Unknown((said,))
    if not clean:
        return Unknown(("no choice of the numbers was clean",))
    if not complete and all(max(judged[values].turns.values(), default=0) < _AGAIN_TURNS[0] for values in clean):
        return Unknown((f"time ran out after {len(judged)} choices of the numbers {', '.join(names)}: raise --budget",))
    proven = _proven(judged, clean, {values: failed[values] for values in excused}, names, complete=complete)
    held = tuple(f"the kernel's own assertion at {place} holds" for place in asserted)
    return replace(proven, assumptions=(*proven.assumptions, *held))


def _exceeds(one: Values, other: Values) -> bool:
    return one != other and all(mine >= theirs for mine, theirs in zip(one, other, strict=True))


def _proven(
    judged: Mapping[Values, Judged],
    clean: Mapping[Values, Proven],
    excused: Mapping[Values, Refuted],
    names: tuple[str, ...],
    *,
    complete: bool,
) -> Proven:
    assumptions = [line for verdict in clean.values() for line in verdict.assumptions]
    for values, verdict in sorted(excused.items()):
        finding = verdict.findings[0]
        assumptions.append(f"not {_said(names, values)}: there {finding.code} {finding.message} ({finding.primary})")
    reason = _not_repeating([judged[values] for values in clean]) if complete else "time ran out (raise --budget)"
    said = tuple(dict.fromkeys(line for each in judged.values() for line in each.repetitions))
    if reason is None:
        return Proven("all trip counts", tuple(dict.fromkeys(assumptions)), said)
    tried = "; ".join(_said(names, values) for values in sorted(clean))
    assumptions.append(f"the numbers are as in one of the launches tried ({tried}), since {reason}")
    return Proven("this launch", tuple(dict.fromkeys(assumptions)), said)


def _not_repeating(clean: list[Judged]) -> str | None:
    """Why a loop whose turns depend on the numbers is not shown to repeat itself; None if all are."""
    loops = dict.fromkeys(loop for judged in clean for loop in judged.turns)
    for loop in loops:
        counts = {judged.turns.get(loop, 0) for judged in clean}
        if len(counts) == 1:
            continue
        longest = max(clean, key=lambda judged: (loop in judged.repeats, judged.turns.get(loop, 0)))
        reason = longest.repeats.get(loop, f"the loop at {loop} turned {max(counts)} times at most")
        if reason is not None:
            return reason
    return None


def _said(names: tuple[str, ...], values: Values) -> str:
    return ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))


def _at_values(finding: Diagnostic, names: tuple[str, ...], values: Values) -> Diagnostic:
    """A finding that says for which values it was found."""
    if not values or finding.level is not Level.ERROR:
        return finding
    return replace(finding, interleaving=(f"with {_said(names, values)}", *finding.interleaving))
