"""Is a kernel proven by what it does from one pass of a barrier of its CTA to the next?

The two kernels that stand for these stretches (`cut_kernel`) are explored as any other. If both are proven, so is the
kernel, with what they assume and that the loops around the barrier end. Else nothing is known, and the kernel is
explored as it is: what a made kernel does wrong may be nothing that the kernel does.
Checked by: tests/coverage_attacks/test_segments.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import islice

from tilewright.base.verdict import Proven, Refuted
from tilewright.driver.check.limits import work
from tilewright.driver.explore.judge_unlaunched import UnlaunchedJudgement, sliced_of
from tilewright.driver.explore.segments.cut_kernel import CutKernels, cut_kernels, has_known_rows
from tilewright.driver.launch.given_launch import PartialLaunch
from tilewright.driver.launch.launch_shapes import Shape
from tilewright.driver.launch.unknown_launch import unknown_launch
from tilewright.frontends.ptx.ast import Kernel, Module
from tilewright.machine.core.inline import inlined
from tilewright.machine.core.model import model_of
from tilewright.machine.protocol.slicing.steering import steering

_STEPS = 250_000
"""Warp instructions of all launches that are made of the stretches."""
_WAYS_MOST = 2
"""Barriers at which a kernel is cut, one after the other, until it is proven."""

_POINTERS = re.compile(r"the \d+ pointers lead to|no access leaves the buffer")
"""What is assumed of pointers, with their number."""
_ASTRAY = "what the kernel writes through pointers that it loads is none of the words by which it decides"

Judge = Callable[[Module, Kernel], UnlaunchedJudgement]


def judge_segments(
    module: Module, kernel: Kernel, shape: Shape, given: PartialLaunch, judge: Judge
) -> UnlaunchedJudgement | None:
    """The proof of a kernel by its stretches, or None. given: what is known of a launch, no parameters; judge: explores
    a kernel, for a proof alone."""
    if shape.cluster != (1, 1, 1) or given.params:
        return None
    flat = inlined(module, kernel)
    if not has_known_rows(flat):
        return None
    target = model_of(module)
    made_up = unknown_launch(module, kernel, target, shape, given)
    sliced = sliced_of(flat)
    ways = cut_kernels(module, sliced, steering(sliced), shape.block, made_up.dynamic_smem_bytes, target)
    try:
        with work.counted(_STEPS):
            for cut in islice(ways, _WAYS_MOST):
                found = _judged(module, cut, made_up.assumptions, judge)
                if found is None or isinstance(found.verdict, Proven):
                    return found
    except work.WorkSpent:
        pass
    return None


def _judged(module: Module, cut: CutKernels, assumed: tuple[str, ...], judge: Judge) -> UnlaunchedJudgement | None:
    """The proof by one way to cut the kernel, or what refutes one of the made kernels; None if neither is found.
    assumed: of the kernel's own launches."""
    found: list[UnlaunchedJudgement] = []
    proofs: list[Proven] = []
    for made in (cut.later, cut.first):
        kernels = tuple(made if each.name == made.name else each for each in module.kernels)
        judged = judge(replace(module, kernels=kernels), made)
        if not isinstance(judged.verdict, Proven):
            return judged if isinstance(judged.verdict, Refuted) else None
        found.append(judged)
        proofs.append(judged.verdict)
    drawn = f"parameter {len(cut.later.parameters) - 1}"
    assumptions = [
        *assumed,
        *(each for proof in proofs for each in proof.assumptions if not _POINTERS.search(each)),
        *(f"the loop at {span} ends" for span in cut.loops),
        *([_ASTRAY] if cut.writes_astray else []),
    ]
    if any("memory that is read" in each or drawn in each for each in assumptions):
        return None  # of what was drawn nothing may be assumed
    said = (
        f"{sum(each.runs for each in found)} launches covered what is done from one pass of the barrier at "
        f"{cut.barrier} to the next, whatever was done before: all that was done before it is ordered and done then"
    )
    verdict = Proven("all trip counts", tuple(dict.fromkeys(assumptions)), (said,))
    reviews = tuple(each for judged in found for each in judged.reviews if each.primary != cut.barrier)
    return UnlaunchedJudgement(verdict, (), sum(each.runs for each in found), reviews=tuple(dict.fromkeys(reviews)))
