"""What holds of a kernel whose launch is not known, where its text does not fix blocks and clusters either?

Each shape that the text suggests (`launch_shapes`) is explored by itself (`judge_unlaunched`), and the verdicts are
combined:

- a shape at which the kernel fails by a rule of an impossible shape (a multicast to CTAs that are not there) is no
  launch of it and is left out, unless every shape is such; where the rule says how many CTAs it takes, so many are
  tried next;
- proven, if the kernel is proven at every other likely shape; the proof says for which. A kernel that does not ask how
  large its block or cluster is was written for one shape: it is proven if it is proven at one, and the proof says at
  which other shapes it fails;
- refuted, if every shape that was tried, two at least, shows one and the same finding;
- unknown otherwise, with what each shape shows.

Not handled: shapes that the text does not suggest.
Checked by: tests/driver/test_judge_shapes.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.driver.judge_unlaunched import UnlaunchedJudgement
from tilewright.driver.launch_shapes import Extents, LaunchShapes, Shape

IMPOSSIBLE_CLUSTER = frozenset({"TC211", "CL202"})
"""Rules that a cluster breaks which is too small: no pair of CTAs, a multicast to CTAs that are not there."""
IMPOSSIBLE_NAMES = frozenset({"foreign-shared-memory"})
"""As these rules, of addresses in CTAs that are not there."""
IMPOSSIBLE_BLOCK = frozenset({"MF001", "MF005", "NB201", "NB202", "NB203", "TC207"})
"""Rules that a block breaks which is too large or too small for the text: arrays that are too short, a warpgroup with
too few warps, a named barrier that counts other threads, a warp that has no rows of tensor memory."""

_MASK = re.compile(r"multicast mask 0x([0-9a-f]+)")
_RANK = re.compile(r"CTA rank (\d+)")

Judge = Callable[[Shape, Callable[[Diagnostic], bool]], UnlaunchedJudgement]
"""Explores the launches of one shape; an error of which the second argument is true ends that at once."""


@dataclass(frozen=True, slots=True)
class _Trial:
    shape: Shape
    judged: UnlaunchedJudgement

    @property
    def findings(self) -> tuple[Diagnostic, ...]:
        match self.judged.verdict:
            case Refuted(findings):
                return tuple(finding for finding in findings if finding.level is Level.ERROR)
            case _:
                return ()


def judge_shapes(shapes: LaunchShapes, judge: Judge) -> UnlaunchedJudgement:
    """The combined verdict of the shapes."""
    if shapes.fixed:
        (shape,) = shapes.likely
        return _assuming(judge(shape, _never), shapes.assumptions)
    trials = _likely_trials(shapes, judge)
    possible = [trial for trial in trials if not _impossible(trial, shapes)]
    if all(trial.findings for trial in possible):
        trials += _confirming_trials(trials, shapes, judge)
        possible = [trial for trial in trials if not _impossible(trial, shapes)]
    return _combined(possible or trials, trials, shapes)


def _likely_trials(shapes: LaunchShapes, judge: Judge) -> list[_Trial]:
    trials: list[_Trial] = []
    pending = list(shapes.likely)
    while pending:
        shape = pending.pop(0)
        trial = _Trial(shape, judge(shape, lambda finding: _of_shape(finding, shapes)))
        trials.append(trial)
        least = 0 if shapes.clusters.fixed else max(map(_ctas_needed, trial.findings), default=0)
        if least > prod(shape.cluster):
            pending = [each for each in pending if prod(each.cluster) >= least]
            wider = replace(shape, cluster=(1 << (least - 1).bit_length(), 1, 1))
            if wider not in pending and shapes.takes(wider.cluster):
                pending.insert(0, wider)
        if _decided(trials, shapes):
            break
    return trials


def _confirming_trials(trials: list[_Trial], shapes: LaunchShapes, judge: Judge) -> list[_Trial]:
    """Where every possible shape is refuted: the shapes that the text allows beside the likely ones, until one of them
    does not show what all others have in common."""
    found: list[_Trial] = []
    for shape in shapes.others:
        possible = [trial for trial in (*trials, *found) if not _impossible(trial, shapes)]
        common = {(each.code, each.primary) for each in _common(possible)}
        if possible and not common:
            break
        found.append(
            _Trial(
                shape,
                judge(shape, lambda each, seen=common: (each.code, each.primary) in seen or _of_shape(each, shapes)),
            )
        )
        if isinstance(found[-1].judged.verdict, Proven):
            break
    return found


def _never(_finding: Diagnostic) -> bool:
    return False


def _decided(trials: list[_Trial], shapes: LaunchShapes) -> bool:
    """Would another likely shape change nothing?"""
    possible = [trial for trial in trials if not _impossible(trial, shapes)]
    proven = [trial for trial in possible if isinstance(trial.judged.verdict, Proven)]
    unknown = [trial for trial in possible if isinstance(trial.judged.verdict, Unknown)]
    if shapes.generic:
        return bool(unknown) or (bool(proven) and len(proven) < len(possible))
    return len(proven) >= 2 or (bool(proven) and len(proven) < len(possible))


def _of_shape(finding: Diagnostic, shapes: LaunchShapes) -> bool:
    """Does the finding say that the kernel is not launched so?"""
    if not shapes.clusters.fixed and (finding.code in IMPOSSIBLE_CLUSTER or finding.name in IMPOSSIBLE_NAMES):
        return True
    return not shapes.blocks.fixed and finding.code in IMPOSSIBLE_BLOCK


def _impossible(trial: _Trial, shapes: LaunchShapes) -> bool:
    """Is the shape one that the kernel is not launched with? A run that ends at such a fault leaves others waiting, so
    that what else is found follows from it."""
    match trial.judged.verdict:
        case Refuted():
            return any(_of_shape(finding, shapes) for finding in trial.findings)
        case _:
            return False


def _ctas_needed(finding: Diagnostic) -> int:
    """How many CTAs a cluster must have for a finding not to be there; 0 where it does not say."""
    if finding.code == "CL202" and (mask := _MASK.search(finding.message)) is not None:
        return int(mask[1], 16).bit_length()
    if finding.code == "TC211":
        return 2
    if finding.name in IMPOSSIBLE_NAMES and (rank := _RANK.search(finding.message)) is not None:
        return int(rank[1]) + 1
    return 0


def _combined(possible: list[_Trial], trials: list[_Trial], shapes: LaunchShapes) -> UnlaunchedJudgement:
    proven = [trial for trial in possible if isinstance(trial.judged.verdict, Proven)]
    if proven and (len(proven) == len(possible) or not shapes.generic):
        failing = [trial for trial in trials if trial not in proven]
        return _proven(proven, failing, shapes)
    first = next((trial for trial in possible if trial.findings), possible[0])
    whole = _merged(possible, first.judged)
    common = _common(possible) if len(possible) > 1 else ()
    if common:
        said = f"at each of {_listed(possible, shapes)}"
        found = tuple(replace(each, interleaving=(said, *each.interleaving)) for each in common)
        return replace(whole, verdict=Refuted(found), doubts=())
    reasons = tuple(dict.fromkeys(line for trial in possible for line in _reasons(trial, shapes)))
    return replace(whole, verdict=Unknown(reasons), doubts=reasons)


def _proven(proven: list[_Trial], failing: list[_Trial], shapes: LaunchShapes) -> UnlaunchedJudgement:
    verdicts = [trial.judged.verdict for trial in proven]
    known = [verdict for verdict in verdicts if isinstance(verdict, Proven)]
    scope = "all trip counts" if all(each.scope == "all trip counts" for each in known) else "this launch"
    held = f"{_listed(proven, shapes)}, since no directive fixes it"
    failed = [
        f"not {_said(trial.shape, shapes)}: there {_because(trial)}"
        for trial in failing
        if trial.findings or _impossible(trial, shapes)
    ]
    assumptions = (*shapes.assumptions, held, *failed, *(line for each in known for line in each.assumptions))
    claims = tuple(dict.fromkeys(line for each in known for line in each.claims))
    verdict = Proven(scope, tuple(dict.fromkeys(assumptions)), claims)
    return replace(_merged(proven, proven[0].judged), verdict=verdict, doubts=())


def _common(trials: list[_Trial]) -> tuple[Diagnostic, ...]:
    """The findings of the first shape that every shape shows."""
    places = [{(finding.code, finding.primary) for finding in trial.findings} for trial in trials]
    if not places:
        return ()
    shared = places[0].intersection(*places[1:])
    return tuple(finding for finding in trials[0].findings if (finding.code, finding.primary) in shared)


def _reasons(trial: _Trial, shapes: LaunchShapes) -> tuple[str, ...]:
    said = _said(trial.shape, shapes)
    options = " and ".join(
        option for option, choices in (("--block", shapes.blocks), ("--cluster", shapes.clusters)) if not choices.fixed
    )
    match trial.judged.verdict:
        case Unknown(reasons):
            return reasons
        case Refuted():
            return (f"no directive fixes the launch's shape, and with {said} {_because(trial)}; give {options}",)
        case Proven(scope):
            return (f"no directive fixes the launch's shape; with {said} it is proven for {scope}; give {options}",)


def _because(trial: _Trial) -> str:
    match trial.judged.verdict:
        case Refuted():
            finding = trial.findings[0]
            return f"{finding.code} {finding.message} ({finding.primary})"
        case Unknown(reasons):
            return reasons[0]
        case Proven():
            return ""


def _merged(trials: list[_Trial], shown: UnlaunchedJudgement) -> UnlaunchedJudgement:
    """The reviews and allowed errors of all shapes, with the timeline of one."""
    reviews = {(each.code, each.primary, each.conflicts_with): each for t in trials for each in t.judged.reviews}
    allowed = {(each.code, each.primary, each.conflicts_with): each for t in trials for each in t.judged.allowed}
    runs = sum(trial.judged.runs for trial in trials)
    return replace(shown, runs=runs, reviews=tuple(reviews.values()), allowed=tuple(allowed.values()))


def _assuming(judged: UnlaunchedJudgement, assumptions: tuple[str, ...]) -> UnlaunchedJudgement:
    match judged.verdict:
        case Proven(scope, listed, claims):
            return replace(judged, verdict=Proven(scope, (*assumptions, *listed), claims))
        case _:
            return judged


# ---------------------------------------------------------------- words


def _listed(trials: list[_Trial], shapes: LaunchShapes) -> str:
    said = [_said(trial.shape, shapes) for trial in trials]
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} or {said[-1]}"


def _said(shape: Shape, shapes: LaunchShapes) -> str:
    words: list[str] = []
    if not shapes.blocks.fixed:
        words.append(f"a block of {_extents(shape.block)} threads")
    if not shapes.clusters.fixed:
        ctas = prod(shape.cluster)
        words.append(f"clusters of {_extents(shape.cluster)} CTA{'' if ctas == 1 else 's'}")
    return " and ".join(words)


def _extents(extents: Extents) -> str:
    x, y, z = extents
    return f"{x}" if y == z == 1 else f"{x}x{y}" if z == 1 else f"{x}x{y}x{z}"
