"""Is a kernel proven by kernels that are made of it, each of which stands for a part of what it does?

Two ways are tried: what a loop does in some iterations is done in all of them and in none (`optional_part`); or the
kernel is cut where it passes a barrier of its CTA (`cut_kernel`). The made kernels are explored as any other. If all of
them are proven, so is the kernel, with what they assume, and where it is cut, that the loops around the barrier end.
Else nothing is known, and the kernel is explored as it is: what a made kernel does wrong may be nothing that the kernel
does.
Checked by: tests/coverage_attacks/test_segments.py, tests/coverage_attacks/test_optional_parts.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from tilewright.base.span import Span
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.driver.check.limits import work
from tilewright.driver.explore.judge_unlaunched import UnlaunchedJudgement, sliced_of
from tilewright.driver.explore.segments.cut_kernel import CutKernels, cut_kernels, has_known_rows
from tilewright.driver.explore.segments.optional_part import OptionalPart, optional_parts
from tilewright.driver.launch.given_launch import PartialLaunch
from tilewright.driver.launch.launch_shapes import Shape
from tilewright.driver.launch.unknown_launch import unknown_launch
from tilewright.frontends.ptx.ast import Kernel, Module
from tilewright.machine.core.inline import inlined
from tilewright.machine.core.model import model_of
from tilewright.machine.protocol.slicing.steering import steering

_STEPS = 250_000
"""Warp instructions of all launches that are made of the stretches."""
_STEPS_OF_PARTS = 1_000_000
"""The same of two kernels with an optional part in all iterations, or in none: each is explored as a kernel is."""
_WAYS_MOST = 2
"""Barriers at which a kernel is cut, one after the other, until it is proven."""

_POINTERS = re.compile(r"the \d+ pointers lead to|no access leaves the buffer")
"""What is assumed of pointers, with their number."""
_SAME_VALUE = "NB104"
"""Unordered stores that are let pass since they are of one value: no path orders them."""
_ASTRAY = "what the kernel writes through pointers that it loads is none of the words by which it decides"

Judge = Callable[[Module, Kernel], UnlaunchedJudgement]


def judge_segments(
    module: Module, kernel: Kernel, shape: Shape, given: PartialLaunch, judge: Judge
) -> UnlaunchedJudgement | None:
    """The proof of a kernel by kernels that are made of it, or None. given: what is known of a launch, no parameters;
    judge: explores a kernel, for a proof alone."""
    if shape.cluster != (1, 1, 1) or given.params:
        return None
    flat = inlined(module, kernel)
    sliced = sliced_of(flat)
    steers = steering(sliced)
    try:
        for part in islice(optional_parts(sliced, steers), _WAYS_MOST):
            with work.counted(_STEPS_OF_PARTS):
                found = _by_parts(module, part, judge)
            if isinstance(found.verdict, Proven):
                return found
    except work.WorkSpent:
        pass
    if not has_known_rows(flat):
        return None
    target = model_of(module)
    made_up = unknown_launch(module, kernel, target, shape, given)
    ways = cut_kernels(module, sliced, steers, shape.block, made_up.dynamic_smem_bytes, target)
    try:
        with work.counted(_STEPS):
            for cut in islice(ways, _WAYS_MOST):
                found = _by_stretches(module, cut, made_up.assumptions, judge)
                if not isinstance(found.verdict, Refuted):
                    return found if isinstance(found.verdict, Proven) else None
    except work.WorkSpent:
        pass
    return None


def _by_parts(module: Module, part: OptionalPart, judge: Judge) -> UnlaunchedJudgement:
    """What the kernels show that do a part of a loop in all iterations and in none."""
    said = (
        "what the loop does in some iterations ({place}) was done in all of them and in none, in {runs} launches: what "
        "comes before it, and behind it, is ordered with it"
    )
    drawn = range(len(part.never.parameters) - part.drawn, len(part.never.parameters))
    found = _joined(module, (part.always, part.never), judge, said, part.place, drawn)
    if any(each.code == _SAME_VALUE for each in found.reviews):
        return replace(found, verdict=Unknown(("in other iterations two stores may not be of one value",)))
    return found


def _by_stretches(
    module: Module, cut: CutKernels, assumed: tuple[str, ...], judge: Judge
) -> UnlaunchedJudgement:  # fmt: skip
    """What the kernels show that stand for all stretches. assumed: of the kernel's own launches."""
    said = (
        "{runs} launches covered what is done from one pass of the barrier at {place} to the next, whatever was done "
        "before: all that was done before it is ordered and done then"
    )
    beside = (*(f"the loop at {span} ends" for span in cut.loops), *([_ASTRAY] if cut.writes_astray else []))
    drawn = (len(cut.later.parameters) - 1,)
    return _joined(module, (cut.later, cut.first), judge, said, cut.barrier, drawn, assumed, beside)


def _joined(
    module: Module, made: Sequence[Kernel], judge: Judge, said: str, place: Span, drawn: Sequence[int],
    assumed: tuple[str, ...] = (), beside: tuple[str, ...] = (),
) -> UnlaunchedJudgement:  # fmt: skip
    """What made kernels show together: the first that is not proven, or a proof. said: what they cover; place: of what
    is made; drawn: the parameters that the kernel has not; assumed: of its own launches, which holds instead of what is
    assumed of pointers; beside: what is assumed besides."""
    found: list[UnlaunchedJudgement] = []
    proofs: list[Proven] = []
    for each in made:
        kernels = tuple(each if other.name == each.name else other for other in module.kernels)
        judged = judge(replace(module, kernels=kernels), each)
        if not isinstance(judged.verdict, Proven):
            return judged
        found.append(judged)
        proofs.append(judged.verdict)
    runs = sum(each.runs for each in found)
    words = [each for proof in proofs for each in proof.assumptions if not assumed or not _POINTERS.search(each)]
    of_drawn = re.compile(rf"parameters? (\d+(, | and ))*({'|'.join(map(str, drawn))})\b|memory that is read")
    if any(of_drawn.search(each) for each in words):
        return UnlaunchedJudgement(Unknown(("of what was drawn nothing may be assumed",)), (), runs)
    assumptions = tuple(dict.fromkeys((*assumed, *words, *beside)))
    reviews = tuple(each for judged in found for each in judged.reviews if not assumed or each.primary != place)
    return UnlaunchedJudgement(
        Proven("all trip counts", assumptions, (said.format(runs=runs, place=place),)), (), runs,
        reviews=tuple(dict.fromkeys(reviews)),
    )  # fmt: skip
