"""What is known of a kernel whose launch is not given, or not all of it? Launches are made up and explored.

Where the text leaves the shape of a block open, each shape that it allows is judged (`explore.judge_shapes`).
Checked by: tests/driver/explore/test_judge_shapes.py, tests/driver/check/test_check.py.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.span import Span
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.driver.check.judge_kernel import Judgement, JudgeOptions
from tilewright.driver.explore.judge_shapes import judge_shapes
from tilewright.driver.explore.judge_unlaunched import UnlaunchedJudgement, judge_unlaunched
from tilewright.driver.explore.search.exploration import Effort
from tilewright.driver.explore.segments.judge_segments import judge_segments
from tilewright.driver.launch.given_launch import PartialLaunch
from tilewright.driver.launch.launch_shapes import Shape, launch_shapes
from tilewright.frontends.ptx.ast import Kernel, Module


def judge_without_launch(
    module: Module,
    kernel: Kernel,
    given: PartialLaunch,
    options: JudgeOptions,
    doubts: tuple[str, ...],
    peeks: frozenset[Span],
    *,
    only_proof: bool = False,
) -> Judgement:
    """The judgement of all launches that the text and what is given of one allow. doubts: of the text; peeks: waits
    that never block; only_proof: whoever asks wants nothing but a proof."""

    def by_made_kernels(shape: Shape) -> UnlaunchedJudgement | None:
        """The proof of a kernel by kernels that are made of it."""

        def explored(made: Module, its_kernel: Kernel) -> UnlaunchedJudgement:
            return judge_unlaunched(
                made, its_kernel, options.interpretations, shape=shape, peeks=peeks, given=given,
                ends=lambda _finding: True, only_proof=True,
            )  # fmt: skip

        return judge_segments(module, kernel, shape, given, explored)

    def judge(shape: Shape, ends: Callable[[Diagnostic], bool], effort: Effort) -> UnlaunchedJudgement:
        return by_made_kernels(shape) or judge_unlaunched(
            module,
            kernel,
            options.interpretations,
            shape=shape,
            peeks=peeks,
            effort=effort,
            timeline=options.timeline,
            given=given,
            progress=options.progress,
            allows=options.allows,
            ends=ends,
            watchers=options.watchers,
            only_proof=only_proof,
        )

    found = judge_shapes(launch_shapes(module, kernel, given.shape), judge)
    beside = (*found.reviews, *found.allowed)
    match found.verdict:
        case Proven(scope, assumptions, claims):
            return Judgement(
                beside, doubts, True, scope, assumptions, claims, found.timeline, launches=found.runs,
                ranges=found.ranges,
            )  # fmt: skip
        case Refuted(findings):
            # Findings of one choice of numbers: what others show is not among them.
            return Judgement(
                (*findings, *found.allowed), doubts, complete=False, timeline=found.timeline, launch=found.launch,
                cut_short=found.cut_short, reached=found.reached,
            )  # fmt: skip
        case Unknown(reasons):
            return Judgement(beside, (*doubts, *reasons), complete=False, timeline=found.timeline)
