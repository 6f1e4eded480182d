"""Is a guarded kernel buggy, and its twin not? And what does a check without a launch say of both?

With a launch, a check decides. Where a guard reads global memory, a run on the CPU machine with these words does, under
the judge of runs, and the check must not say the opposite: of words that the kernel changes it knows nothing.
Checked by: tests/guarded/test_guarded_kernels.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tests.guarded.kernels import GuardedKernel
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.launch.launch_file import launch_from_json
from tilewright.driver.rules.isa import interpretations_of
from tilewright.driver.run.run_ptx import buffers_for, run_on_machine


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Of a buggy kernel and its fixed twin, without a launch. why: assumptions of a proof, findings, or reasons."""

    name: str
    protocol: str
    guard: str
    group: str
    buggy: str
    fixed: str
    buggy_why: str
    fixed_why: str
    buggy_scope: str
    fixed_scope: str
    seconds: float
    excuse: str = ""

    @property
    def falsely_proven(self) -> bool:
        return self.buggy == "proven" and not (self.excuse and self.excuse in self.buggy_why)

    @property
    def wrong(self) -> bool:
        return self.falsely_proven or self.fixed == "refuted" or "error" in (self.buggy, self.fixed)


def unlaunched(kernel: GuardedKernel) -> Verdicts:
    """What a check without a launch says."""
    buggy, buggy_why, buggy_scope, one = _check(kernel, kernel.buggy, None)
    fixed, fixed_why, fixed_scope, other = _check(kernel, kernel.fixed, None)
    return Verdicts(
        kernel.name,
        kernel.protocol,
        kernel.guard,
        kernel.group,
        buggy,
        fixed,
        buggy_why,
        fixed_why,
        buggy_scope,
        fixed_scope,
        one + other,
        kernel.excuse,
    )


def ground_truth(kernel: GuardedKernel) -> list[str]:
    """What is not as the family claims: nothing, if the buggy kernel fails at the witness and the twin nowhere."""
    wrong: list[str] = []
    launches = (kernel.witness, *kernel.launches)
    for index, launch in enumerate(launches):
        words = kernel.words[index] if kernel.words else None
        expected = [(kernel.fixed, "fixed", "proven")]
        if index == 0:
            expected.append((kernel.buggy, "buggy", "refuted"))
        for text, which, verdict in expected:
            if words is None:
                said, why = _check(kernel, text, launch)[:2]
            else:
                said, why = _run(kernel, text, launch, words)
                checked, reason = _check(kernel, text, launch)[:2]
                if checked not in (verdict, "unknown"):
                    wrong.append(f"{kernel.name}: {which} at launch {index}: the check says {checked} {reason}")
            if said != verdict:
                wrong.append(f"{kernel.name}: {which} at launch {index}: {said} {why}")
    return wrong


def _check(kernel: GuardedKernel, text: str, launch: Mapping[str, object] | None) -> tuple[str, str, str, float]:
    """Verdict, why, scope and seconds."""
    given = launch_from_json(dict(launch), "launch.json") if launch is not None else None
    report = check_text(text, f"{kernel.name}.ptx", launch=given, options=CheckOptions())
    if report.error:
        return "error", f"{report.error} ({report.error_line})", "", 0.0
    (found,) = report.kernels
    if found.defect:
        return "error", found.defect, "", 0.0
    why: tuple[str, ...]
    match found.verdict:
        case "refuted":
            why = tuple(f"{each.code} line {each.primary.line if each.primary else 0}" for each in found.errors)
        case "unknown":
            why = found.reasons
        case _:
            why = found.assumptions
    return found.verdict, " | ".join(why), found.scope, found.seconds


def _run(kernel: GuardedKernel, text: str, launch: Mapping[str, object], words: tuple[int, ...]) -> tuple[str, str]:
    """`refuted` or `proven`, of one run, and the codes."""
    given = launch_from_json(dict(launch), "launch.json")
    arrays = buffers_for(given, {}, "zeros")
    data = np.array(words, np.uint32).view(np.uint8)
    arrays["data"][: data.size] = data
    outcome = run_on_machine(text, f"{kernel.name}.ptx", given, arrays, interpretations=interpretations_of("tolerant"))
    codes = [each.code for each in outcome.errors]
    return ("refuted", ", ".join(codes)) if codes or not outcome.finished else ("proven", "")
