"""What does one kernel's run say of its protocol? Findings, doubts, and a timeline of what its roles did.

The kernel is run by `machine` with the judge of `contract.happens_before` watching. A finding of level error refutes;
a doubt keeps a clean run from standing for all interleavings. Nothing here decides the verdict: `check` does, after it
has looked at what the text allows.

Not handled: kernels without a launch. Checked by: tests/driver/test_check.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.plan import Launch
from tilewright.base.timeline import Timeline
from tilewright.contract.happens_before import ASSUMPTIONS, HappensBefore, Readings
from tilewright.contract.retried_waits import waits_not_retried
from tilewright.driver.launch_file import BufferSize
from tilewright.driver.role_timeline import TimelineRecorder
from tilewright.frontends.ptx.ast import Kernel, Module
from tilewright.machine.event import Event
from tilewright.machine.fault import MachineFault, MachineHang
from tilewright.machine.run import run_launch

STEP_LIMIT = 50_000_000
"""Warp instructions of a run that is only judged."""
BUFFER_BYTES_MAX = 1 << 30
"""Bytes of all buffers that a run for judging allocates."""
_LIMIT_CODE = "LV202"


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """A launch whose every parameter is known, and the buffers that they name."""

    launch: Launch
    buffers: tuple[BufferSize, ...]


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """readings: contested points of the ISA; timeline: record one; progress: told the share that is done."""

    readings: Readings
    timeline: bool = False
    progress: Callable[[float], None] | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is known of a kernel after its run.

    findings: errors and reviews; doubts: why a clean run would not be a proof; complete: the run came to its end, so
    that what was not found is not there; scope, assumptions, claims: of the proof, where there is one.
    """

    findings: tuple[Diagnostic, ...] = ()
    doubts: tuple[str, ...] = ()
    complete: bool = True
    scope: str = "this launch"
    assumptions: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    timeline: Timeline | None = None


def judge_kernel(module: Module, kernel: Kernel, launch: KernelLaunch | None, options: JudgeOptions) -> Judgement:
    """Run `kernel` and judge it. Raises TilewrightError where the text can't be run at all."""
    if launch is None:
        return Judgement(doubts=("how the kernel is launched is not known; give --launch launch.json",), complete=False)
    total = sum(buffer.size_bytes for buffer in launch.buffers)
    if total > BUFFER_BYTES_MAX:
        return Judgement(
            doubts=(f"the launch's buffers have {total} bytes; a run allocates at most {BUFFER_BYTES_MAX}",),
            complete=False,
        )
    buffers: dict[str, NDArray[np.uint8]] = {
        buffer.name: np.zeros(buffer.size_bytes, np.uint8) for buffer in launch.buffers
    }
    doubts = [
        f"{span}: where this wait fails, it is not simply tried again; a run shows one of its outcomes"
        for span in waits_not_retried(module, kernel.name)
    ]
    judge = HappensBefore(launch.launch, options.readings)
    recorder = TimelineRecorder() if options.timeline else None

    def observe(event: Event) -> None:
        judge.feed(event)
        if recorder is not None:
            recorder.feed(event)

    claims: tuple[str, ...] = ()
    complete = True
    try:
        report = run_launch(
            module, launch.launch, buffers, observe=observe, step_limit=STEP_LIMIT, progress=options.progress
        )
        findings = judge.finish()
        claims = (
            f"{report.phases} mbarrier phases, {report.copies} bulk copies and {report.wgmmas} wgmmas are ordered in "
            "every interleaving",
        )
    except MachineFault as fault:
        findings, complete = (fault.diagnostic, *judge.findings), False
    except MachineHang as hang:
        findings, complete = judge.findings, False
        if hang.code == _LIMIT_CODE:
            doubts.append(hang.message.splitlines()[0])
        else:
            findings = (hang.diagnostic, *findings)
    doubts.extend(judge.doubts)
    return Judgement(
        findings,
        tuple(dict.fromkeys(doubts)),
        complete,
        "this launch",
        ASSUMPTIONS,
        claims,
        recorder.timeline(findings) if recorder is not None else None,
    )
