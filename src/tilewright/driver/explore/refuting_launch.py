"""Does a made-up launch refute a kernel when it is given as well?

A finding without a launch is worth what the launch is worth that shows it. So that launch is written as a launch file,
read as one, and judged as one: with buffers of a size and all accesses of global memory judged. The findings count if
one of their rules is broken then, too. Otherwise the verdict is unknown, and says both.
Checked by: tests/driver/explore/test_refuting_launch.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.plan import Launch
from tilewright.driver.launch.given_launch import placed
from tilewright.driver.launch.judge_launch import LaunchJudgement
from tilewright.driver.launch.launch_buffers import BufferContents, shifted
from tilewright.driver.launch.launch_file import launch_from_json
from tilewright.driver.launch.written_launch import launch_document
from tilewright.frontends.ptx.ast import Kernel

Judge = Callable[[Launch, Mapping[str, int], Sequence[BufferContents]], LaunchJudgement]
GIVEN_STEPS = 2_000_000
"""Warp instructions after which a launch that is given again is given up."""

_HANGS = frozenset({"LV102", "MB113", "MB114", "TX104"})
"""Rules of one hang: which of them explains it best depends on bytes, which count where the boxes are given."""


@dataclass(frozen=True, slots=True)
class GivenAgain:
    """A made-up launch as a launch file. against: why it does not show the finding, empty if it does; cut_short,
    reached: as of a `KernelReport`."""

    document: Mapping[str, object]
    against: str
    cut_short: bool = False
    reached: int = 0


def given_again(
    kernel: Kernel,
    launch: Launch,
    buffers: Mapping[str, int],
    findings: Sequence[Diagnostic],
    judge: Judge,
    contents: Sequence[BufferContents] = (),
) -> GivenAgain:
    """The launch that shows `findings`, judged as one that is given. buffers: bytes of each, by name; contents: of
    those whose bytes are given; judge: judges a given launch on such buffers."""
    document = launch_document(launch, buffers, contents)
    given = launch_from_json(document, "the launch")
    whole = placed(given.resolve(kernel), given.buffers)
    sizes = {buffer.name: buffer.size_bytes for buffer in whole.buffers}
    judged = judge(whole.launch, sizes, shifted(given.contents, whole.shifts))
    codes = {each.code for each in findings}
    if codes & _HANGS:
        codes |= _HANGS
    if any(each.code in codes for each in judged.errors):
        return GivenAgain(document, "", not judged.complete, judged.report.counts.instructions)
    finding = findings[0]
    found = f"{finding.code} {finding.message} ({finding.primary})"
    said = f"{found} with a launch that was made up; given as a launch file"
    if judged.errors:
        other = judged.errors[0]
        return GivenAgain(document, f"{said}, it shows {other.code} {other.message} ({other.primary})")
    if judged.doubts:
        return GivenAgain(document, f"{said}, it is not decided: {judged.doubts[0]}")
    return GivenAgain(document, f"{said}, it shows nothing")
