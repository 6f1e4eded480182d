"""Which launch of a kernel is worth writing down? One that exploration has run clean, or the one that refutes.

The kernel's likeliest block and cluster are explored as `check` does without a launch, within a limit in seconds. Of
the launches that were clean the one that executes most of the protocol is taken, with small numbers.
Checked by: tests/driver/launch/test_launch_template.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Refuted
from tilewright.contract.rules.interpretations import tolerant
from tilewright.driver.check.defect import DefectError, defects_as_errors
from tilewright.driver.check.limits.budget import BudgetSpent, bounded
from tilewright.driver.explore.judge_unlaunched import judge_unlaunched
from tilewright.driver.launch.given_launch import LaunchFile, PartialLaunch, require_shape
from tilewright.driver.launch.launch_shapes import GivenShape, launch_shapes
from tilewright.driver.launch.launch_template import launch_template
from tilewright.frontends.ptx.ast import Kernel, Module
from tilewright.frontends.ptx.reader import read


@dataclass(frozen=True, slots=True)
class ExampleLaunch:
    """document: of a launch file; said: where its numbers come from."""

    document: Mapping[str, object]
    said: str


def example_launch(
    text: str,
    file: str,
    *,
    entry: str | None = None,
    shape: GivenShape | None = None,
    seconds: float = 60.0,
    progress: Callable[[float], None] | None = None,
) -> ExampleLaunch:
    """A launch file for one kernel of a PTX text. shape: what is known of block, cluster and grid; seconds: that the
    exploration may take, 0 for none. Raises TilewrightError: the text can't be read, or has several kernels and `entry`
    names none of them, or the shape contradicts the kernel's directives."""
    module = read(text, file, tolerant=True)
    kernel = LaunchFile("--entry" if entry else "the launch", entry, None, None, None, None, None, ()).kernel(
        module, file
    )
    shape = shape or GivenShape()
    require_shape(kernel, shape)
    found, said = _explored(module, kernel, shape, seconds, progress)
    document = launch_template(module, kernel, found)
    given = {"grid": shape.grid, "block": shape.block, "cluster": shape.cluster}
    return ExampleLaunch({**document, **{name: list(each) for name, each in given.items() if each}}, said)


def _explored(
    module: Module, kernel: Kernel, shape: GivenShape, seconds: float, progress: Callable[[float], None] | None
) -> tuple[Mapping[str, object] | None, str]:
    if not seconds:
        return None, "nothing was explored: what the text does not say is left open"
    likely = launch_shapes(module, kernel, shape).likely[0]
    own = False
    try:
        with bounded(seconds) as own, defects_as_errors(f"the exploration of {kernel.name}"):
            found = judge_unlaunched(
                module, kernel, tolerant(), shape=likely, given=PartialLaunch(shape), progress=progress
            )
    except BudgetSpent:
        if not own:
            raise
        return None, f"exploration was stopped after {seconds:g} s (--budget): what the text does not say is left open"
    except TilewrightError as error:
        if isinstance(error, DefectError):
            raise
        return None, f"the kernel can't be run ({error.message}): what the text does not say is left open"
    if isinstance(found.verdict, Refuted) and found.launch is not None:
        finding = found.verdict.findings[0]
        return found.launch, f"this launch shows {finding.code}: {finding.message}"
    if found.example is not None:
        return found.example, "numbers and sizes are of a launch that was explored, and clean: write yours"
    return None, "no launch that was explored was clean: what the text does not say is left open"
