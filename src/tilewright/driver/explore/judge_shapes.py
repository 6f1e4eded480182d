"""What holds of a kernel whose launch is not known, where its text does not fix blocks and clusters either?

Each shape that the text suggests (`launch_shapes`) is explored by itself (`judge_unlaunched`), and the verdicts are
combined:

- a shape at which the kernel fails by a rule of an impossible shape (a multicast to CTAs that are not there) is no
  launch of it and is left out;
- so is a shape at which every launch ends at the kernel's own assertion;
- so is a shape at which nothing but counts of threads or CTAs is wrong (an mbarrier that waits for a warp that is not
  there), with larger numbers, too;
- where every likely shape is left out, blocks are proposed at which counts of barriers are met, until one is proven;
- proven, if the kernel is proven at every shape that is not left out. Once one is proven, others are explored shortly;
  the proof holds for those that were proven, and lists those that were left out;
- refuted, if every shape that was tried, two at least, shows one and the same finding. Where the block is a guess, it
  must be none that counts threads: with more of them it may not be there. Bytes that do not add up count if every
  block lacks equally many;
- unknown otherwise, with what each shape shows.

Not handled: shapes that the text does not suggest.
Checked by: tests/driver/explore/test_judge_shapes.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.driver.explore.judge_unlaunched import UnlaunchedJudgement
from tilewright.driver.explore.search.exploration import DEFAULT_EFFORT, Effort
from tilewright.driver.launch.launch_shapes import Extents, LaunchShapes, Shape

IMPOSSIBLE_CLUSTER = frozenset({"TC211", "CL202", "CL203"})
"""Rules that a cluster breaks which is too small: no pair of CTAs, a multicast to CTAs that are not there, none at
all."""
IMPOSSIBLE_NAMES = frozenset({"foreign-shared-memory"})
"""As these rules, of addresses in CTAs that are not there."""
_NOT_STARTED = "CL102"
"""Of a kernel that stands apart from other CTAs of its cluster, and yet reaches into them."""
IMPOSSIBLE_BLOCK = frozenset({"MF001", "MF005", "NB201", "NB202", "NB203", "TC207"})
"""Rules that a block breaks which is too large or too small for the text: arrays that are too short, a warpgroup with
too few warps, a named barrier that counts other threads, a warp that has no rows of tensor memory."""

COUNTS_BYTES = frozenset({"TX101", "TX104"})
COUNTS = COUNTS_BYTES | {
    "MB106", "MB110", "MB113", "MB114", "MB201", "MB209", "MB217", "NB102", "NB103", "NB107", "SR101", "SR102", "LV102",
}  # fmt: skip
"""Rules that a block or a cluster may break because it has too few or too many threads or CTAs: arrivals, bytes and
registers that warps bring which are not there."""

SHORT_EFFORT = Effort(launches=8)
"""For a shape, once the kernel is proven at another."""

_BYTES = re.compile(r"\d+ of \d+ bytes")
_MASK = re.compile(r"multicast mask 0x([0-9a-f]+)")
_RANK = re.compile(r"CTA rank (\d+)")

Judge = Callable[[Shape, Callable[[Diagnostic], bool], Effort], UnlaunchedJudgement]
"""Explores the launches of one shape; an error of which the second argument is true ends that at once."""


@dataclass(frozen=True, slots=True)
class _Trial:
    """short: its effort was, since another shape was proven."""

    shape: Shape
    judged: UnlaunchedJudgement
    short: bool = False

    @property
    def findings(self) -> tuple[Diagnostic, ...]:
        match self.judged.verdict:
            case Refuted(findings):
                return tuple(finding for finding in findings if finding.level is Level.ERROR)
            case _:
                return self.judged.ended

    @property
    def clean_so_far(self) -> bool:
        """Whether nothing but a larger effort is missing."""
        return self.short and self.judged.spent

    @property
    def proven(self) -> bool:
        return isinstance(self.judged.verdict, Proven)


def judge_shapes(shapes: LaunchShapes, judge: Judge) -> UnlaunchedJudgement:
    """The combined verdict of the shapes."""
    if shapes.fixed:
        (shape,) = shapes.likely
        return _assuming(judge(shape, _never, DEFAULT_EFFORT), shapes.assumptions)
    trials = _likely_trials(shapes, judge)
    if all(_impossible(trial, shapes) for trial in trials):
        trials += _proposed_trials(shapes, judge)
    if all(trial.findings for trial in trials):
        trials += _confirming_trials(trials, shapes, judge)
    return _combined(trials, shapes)


def _likely_trials(shapes: LaunchShapes, judge: Judge) -> list[_Trial]:
    trials: list[_Trial] = []
    pending = list(shapes.likely)
    while pending:
        shape = pending.pop(0)
        # A kernel that asks how many CTAs there are should be right with any number of them.
        short = any(trial.proven for trial in trials) and not shapes.clusters.generic
        judged = judge(
            shape, lambda finding: _cannot_be(finding, shapes), SHORT_EFFORT if short else DEFAULT_EFFORT
        )  # fmt: skip
        trial = _Trial(shape, judged, short)
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


def _proposed_trials(shapes: LaunchShapes, judge: Judge) -> list[_Trial]:
    """The first proposed shape that is proven; else those that do not fail."""
    found: list[_Trial] = []
    for shape in shapes.proposed:
        judged = judge(shape, lambda finding: _cannot_be(finding, shapes), DEFAULT_EFFORT)
        trial = _Trial(shape, judged)
        if trial.proven:
            return [trial]
        if not trial.findings:
            found.append(trial)
    return found


def _confirming_trials(trials: list[_Trial], shapes: LaunchShapes, judge: Judge) -> list[_Trial]:
    """Where every likely shape fails: the shapes that the text allows beside them, until one of them is possible, and
    does not show what all others have in common."""
    found: list[_Trial] = []
    for shape in shapes.others:
        common = {_key(each) for each in _common(_telling([*trials, *found], shapes), shapes)}
        if not common and not all(_impossible(trial, shapes) for trial in [*trials, *found]):
            break
        found.append(
            _Trial(
                shape,
                judge(
                    shape, lambda each, seen=common: _key(each) in seen or _cannot_be(each, shapes), DEFAULT_EFFORT
                ),
            )
        )  # fmt: skip
        if found[-1].proven:
            break
    return found


def _never(_finding: Diagnostic) -> bool:
    return False


def _decided(trials: list[_Trial], shapes: LaunchShapes) -> bool:
    """Would another likely shape change nothing?"""
    possible = _possible(trials, shapes)
    unknown = any(isinstance(trial.judged.verdict, Unknown) and not trial.clean_so_far for trial in possible)
    proven = sum(trial.proven for trial in possible)
    fails = any(trial.findings for trial in possible)
    if shapes.generic:
        return unknown or (proven > 0 and fails)
    return proven >= 2 or (proven > 0 and (unknown or fails))


def _cannot_be(finding: Diagnostic, shapes: LaunchShapes) -> bool:
    """Does the finding alone say that the kernel is not launched so?"""
    if not shapes.clusters.fixed and (finding.code in IMPOSSIBLE_CLUSTER or finding.name in IMPOSSIBLE_NAMES):
        return True
    if shapes.apart and finding.code == _NOT_STARTED:
        return True
    return not shapes.blocks.fixed and finding.code in IMPOSSIBLE_BLOCK


def _impossible(trial: _Trial, shapes: LaunchShapes) -> bool:
    """Is the shape one that the kernel is not launched with? A run that ends at a fault of the shape leaves others
    waiting, so that what else is found follows from it. Counts that are not met say so if nothing else is wrong, and
    if they are not met with larger numbers; a kernel that asks how many CTAs there are should meet them with any."""
    if trial.judged.excluded or any(_cannot_be(finding, shapes) for finding in trial.findings):
        return True
    counted = not shapes.blocks.fixed or not (shapes.clusters.fixed or shapes.clusters.generic)
    counts = bool(trial.findings) and all(finding.code in COUNTS for finding in trial.findings)
    return counted and counts and not trial.judged.clean


def _telling(trials: list[_Trial], shapes: LaunchShapes) -> list[_Trial]:
    """The trials that refute, if they show the same: those that are possible, else those where counts alone are not
    met, else all."""
    counting = [trial for trial in trials if not any(_cannot_be(finding, shapes) for finding in trial.findings)]
    return _possible(trials, shapes) or counting or trials


def _possible(trials: list[_Trial], shapes: LaunchShapes) -> list[_Trial]:
    return [trial for trial in trials if not _impossible(trial, shapes)]


def _ctas_needed(finding: Diagnostic) -> int:
    """How many CTAs a cluster must have for a finding not to be there; 0 where it does not say."""
    if finding.code == "CL202" and (mask := _MASK.search(finding.message)) is not None:
        return int(mask[1], 16).bit_length()
    if finding.code in ("TC211", "CL203"):
        return 2
    if finding.name in IMPOSSIBLE_NAMES and (rank := _RANK.search(finding.message)) is not None:
        return int(rank[1]) + 1
    return 0


def _combined(trials: list[_Trial], shapes: LaunchShapes) -> UnlaunchedJudgement:
    possible = _possible(trials, shapes)
    proven = [trial for trial in possible if trial.proven]
    if proven and all(trial.proven or trial.clean_so_far for trial in possible):
        return _proven(proven, [trial for trial in trials if trial.findings or trial.judged.excluded], shapes)
    shown = _telling(trials, shapes)
    first = next((trial for trial in shown if trial.findings), shown[0])
    whole = _merged(shown, first.judged)
    common = _common(shown, shapes) if len(shown) > 1 else ()
    if common:
        said = f"at each of {_listed(shown, shapes)}"
        found = tuple(replace(each, interleaving=(said, *each.interleaving)) for each in common)
        return replace(whole, verdict=Refuted(found), doubts=())
    reasons = tuple(dict.fromkeys(line for trial in shown for line in _reasons(trial, shapes)))
    return replace(whole, verdict=Unknown(reasons), doubts=reasons, launch=None)


def _proven(proven: list[_Trial], failing: list[_Trial], shapes: LaunchShapes) -> UnlaunchedJudgement:
    verdicts = [trial.judged.verdict for trial in proven]
    known = [verdict for verdict in verdicts if isinstance(verdict, Proven)]
    scope = "all trip counts" if all(each.scope == "all trip counts" for each in known) else "this launch"
    held = f"{_listed(proven, shapes)}, since no directive fixes it"
    failed = [f"not {_said(trial.shape, shapes)} (launched so, {_fails(trial)})" for trial in failing]
    assumptions = (*shapes.assumptions, held, *failed, *(line for each in known for line in each.assumptions))
    claims = tuple(dict.fromkeys(line for each in known for line in each.claims))
    verdict = Proven(scope, tuple(dict.fromkeys(assumptions)), claims)
    return replace(_merged(proven, proven[0].judged), verdict=verdict, doubts=())


def _common(trials: list[_Trial], shapes: LaunchShapes) -> tuple[Diagnostic, ...]:
    """The findings of the first shape that every shape shows, and that another block would show, too."""
    if not all(isinstance(trial.judged.verdict, Refuted) for trial in trials):
        return ()
    keys = [{_key(finding) for finding in trial.findings} for trial in trials]
    if not keys:
        return ()
    shared = keys[0].intersection(*keys[1:])
    return tuple(
        finding
        for finding in trials[0].findings
        if _key(finding) in shared and (shapes.blocks.fixed or finding.code not in _OF_THREADS)
    )


_OF_THREADS = (COUNTS - COUNTS_BYTES) | IMPOSSIBLE_BLOCK


def _key(finding: Diagnostic) -> tuple[object, ...]:
    """What findings of two shapes have in common."""
    bytes_said = tuple(_BYTES.findall(finding.message)) if finding.code in COUNTS_BYTES else ()
    return finding.code, finding.primary, bytes_said


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


def _fails(trial: _Trial) -> str:
    """How a shape fails that a proof leaves out."""
    if not isinstance(trial.judged.verdict, Refuted):
        return _because(trial)
    finding = trial.findings[0]
    return f"the kernel fails with {finding.code} at {finding.primary}"


def _because(trial: _Trial) -> str:
    match trial.judged.verdict:
        case Refuted():
            finding = trial.findings[0]
            return f"{finding.code} {finding.message} ({finding.primary})"
        case Unknown(reasons):
            return reasons[0].removesuffix(": give --launch")
        case Proven():
            return ""


def _merged(trials: list[_Trial], shown: UnlaunchedJudgement) -> UnlaunchedJudgement:
    """The reviews and allowed errors of all shapes, with the timeline of one."""
    reviews = {(each.code, each.primary, each.conflicts_with): each for t in trials for each in t.judged.reviews}
    allowed = {(each.code, each.primary, each.conflicts_with): each for t in trials for each in t.judged.allowed}
    runs = sum(trial.judged.runs for trial in trials)
    ranges = tuple(dict.fromkeys(line for trial in trials for line in trial.judged.ranges))
    return replace(shown, runs=runs, reviews=tuple(reviews.values()), allowed=tuple(allowed.values()), ranges=ranges)


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
