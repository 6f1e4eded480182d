"""Does a kernel's text keep the asynchronous protocol for this launch, and do what was proven of its program?

The text is run by `machine`, once for each seed, with the judge of `happens_before` watching; a finding, a fault or a
hang refutes. Without any, the partial order admits no other behaviour than the one that was run, so the verdict holds
for every interleaving of this launch (not for other sizes: `typestate` proves those, where the program is known). More
seeds are a check on the machine and the judge, not needed for the argument. What the judge can't follow gives Unknown;
so does a wait whose failure the text may notice, since a run shows one of its outcomes (`retried_waits`).

With `claims`, what happened is compared with what the typestate proof promised: barrier addresses, arrivals, bytes,
phases, slots, stores, registers. Nothing here knows who wrote the text.
Checked by: tests/contract/replay/test_replay.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.base.diagnostic import Diagnostic, Level, Repair
from tilewright.base.plan import Launch
from tilewright.base.plural import counted
from tilewright.base.span import Span
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.judge.happens_before import HappensBefore, Interpretations
from tilewright.contract.judge.waits.asking_loads import asking_loads
from tilewright.contract.judge.waits.retried_waits import waits_not_retried
from tilewright.contract.replay.events import Tally, differences
from tilewright.contract.replay.unwritten import UnwrittenBuffers
from tilewright.contract.rules.replay_codes import REPLAY_RULES
from tilewright.contract.typestate.claims import ProtocolClaims
from tilewright.frontends.ptx.ast import Module
from tilewright.machine.core.event import Event
from tilewright.machine.core.fault import MachineFault, MachineHang
from tilewright.machine.core.inline import inlined
from tilewright.machine.core.model import model_of
from tilewright.machine.core.run import STEP_LIMIT, RunReport, kernel_of, run_launch
from tilewright.machine.core.shared_layout import shared_layout
from tilewright.machine.events_only.dropped_values import DroppedValues, ValueNeeded
from tilewright.machine.protocol.loops.polls import Poll, polls_of

_LIMIT_CODE = "LV202"


class Watcher(Protocol):
    """Who puts down what a run does, beside the judge. handlers: who takes which kind of event."""

    @property
    def handlers(self) -> Mapping[type, Callable[[Any], None]]: ...

    def begin(self) -> None:
        """A launch begins."""
        ...


def replay(
    module: Module,
    launch: Launch,
    buffers: Mapping[str, NDArray[np.uint8]],
    *,
    claims: ProtocolClaims | None = None,
    seeds: Sequence[int] = (0,),
    interpretations: Interpretations | None = None,
    step_limit: int = STEP_LIMIT,
    progress: Callable[[float], None] | None = None,
    restored: Collection[str] = (),
    unwritten: UnwrittenBuffers | None = None,
    dropped: DroppedValues | None = None,
    watchers: Sequence[Watcher] = (),
    shared_high: bool = False,
) -> Verdict:
    """Judge one launch of a PTX module.

    buffers: bytes of every buffer that the launch names; left as the last run leaves them, while each run starts from
    what they held at the call. restored: names of those that the launch must leave as it found them.
    unwritten: bytes that hold nothing yet; when the launch has ended, those that it left so.
    dropped: if given, the runs do without values that decide nothing, the buffers that it names hold none, and those
    that are left without are noted; raises ValueNeeded where that does not do.
    watchers: are fed the events of the first run.
    shared_high: shared variables do not begin at address 0 (`machine.core.shared_layout`), so that an address which is
    computed without theirs is wrong.
    Raises TilewrightError where the text can't be run at all (an unknown instruction, a
    launch that does not fit).
    """
    if not seeds:
        return Unknown(("no run was asked for",))
    before = {name: data.copy() for name, data in buffers.items() if len(seeds) > 1 or name in restored}
    verdicts: list[Proven] = []
    kernel = inlined(module, kernel_of(module, launch.entry))
    polls, asking = polls_of(kernel), asking_loads(kernel)
    frame = shared_layout(module, kernel, launch.dynamic_smem_bytes, model_of(module), high=shared_high)
    doubts = [
        f"{span}: where this wait fails, it is not simply tried again; a run shows one of its outcomes"
        for span in waits_not_retried(module, launch.entry)
    ]
    contents = (unwritten or UnwrittenBuffers()).placed({name: data.size for name, data in buffers.items()})
    left = contents.fresh
    for seed in seeds:
        for name, data in before.items():
            buffers[name][...] = data
        judge = HappensBefore(
            launch, interpretations, polls=polls, contents=contents, reserved_bytes=frame.reserved_bytes, asking=asking
        )
        watching = watchers if seed == seeds[0] else ()
        verdict = _judge_run(
            module, launch, buffers, claims, seed, judge, step_limit, progress, polls, dropped, watching, shared_high
        )  # fmt: skip
        left = judge.left_unwritten()
        judge.let_go()
        if dropped is not None and not dropped.regions.isdisjoint(restored):
            raise ValueNeeded("what a buffer holds that is to be left as it was")
        if not isinstance(verdict, Refuted):
            changed = tuple(found for name in restored if (found := _unlike_before(name, before[name], buffers[name])))
            verdict = Refuted(changed) if changed else verdict
        match verdict:
            case Refuted():
                return verdict
            case Unknown(reasons):
                doubts.extend(reason for reason in reasons if reason not in doubts)
            case Proven():
                verdicts.append(verdict)
    if unwritten is not None:
        unwritten.keep(left)
    if dropped is not None:
        doubts += [
            f"{span}: fields that overlap are put together by or: another place of shared memory would show another sum"
            for span in dropped.overlapping
        ]
    if doubts:
        return Unknown(tuple(doubts))
    assumptions = dict.fromkeys(line for verdict in verdicts for line in verdict.assumptions)
    return Proven("this launch", tuple(assumptions), verdicts[0].claims)


def _judge_run(
    module: Module,
    launch: Launch,
    buffers: Mapping[str, NDArray[np.uint8]],
    claims: ProtocolClaims | None,
    seed: int,
    judge: HappensBefore,
    step_limit: int,
    progress: Callable[[float], None] | None,
    polls: Mapping[Span, Poll],
    dropped: DroppedValues | None,
    watchers: Sequence[Watcher],
    shared_high: bool,
) -> Verdict:
    tally = Tally()
    for watcher in watchers:
        watcher.begin()
    takers: dict[type, Callable[[Any], None]] = judge.handlers
    for each in watchers if claims is None else (tally, *watchers):  # nobody asks for a tally without claims
        for kind, handler in each.handlers.items():
            takers[kind] = _both(takers[kind], handler)

    def observe(event: Event) -> None:
        takers[type(event)](event)

    try:
        report = run_launch(
            module,
            launch,
            buffers,
            seed=seed,
            observe=observe,
            step_limit=step_limit,
            progress=progress,
            polls=polls,
            dropped=dropped,
            shared_high=shared_high,
        )
    except MachineFault as fault:
        return Refuted((fault.diagnostic, *judge.findings))
    except MachineHang as hang:
        if hang.code == _LIMIT_CODE:
            errors = _errors(judge.findings)
            return Refuted(errors) if errors else Unknown((f"{launch.entry}: {hang.message}",))
        return Refuted(judge.hang(hang))
    findings = judge.finish()
    errors = _errors(findings) + judge.below_shared()
    if claims is not None:
        errors += _unlike_claims(tally, claims, prod(launch.grid))
    if errors:
        return Refuted(errors)
    if judge.doubts:
        return Unknown(judge.doubts)
    reviews = tuple(f"{finding.code} {finding.message} ({finding.primary})" for finding in findings)
    return Proven("this launch", (*judge.assumptions, *reviews), _facts(launch, report, claims))


def _both(first: Callable[[Any], None], second: Callable[[Any], None]) -> Callable[[Any], None]:
    """Takes an event to one after the other."""

    def take(event: Any) -> None:
        first(event)
        second(event)

    return take


def _unlike_before(name: str, before: NDArray[np.uint8], after: NDArray[np.uint8]) -> Diagnostic | None:
    """Where a buffer that is to be left as it was is not."""
    differing = np.flatnonzero(before != after)
    if not differing.size:
        return None
    rule = REPLAY_RULES["LV103"]
    first = int(differing[0])
    message = f"{differing.size} bytes of {name} are not what they were before the launch; the first is at {first}"
    return Diagnostic(rule.code, rule.name, message, source=rule.source, repair=Repair(rule.remedy))


def _errors(findings: tuple[Diagnostic, ...]) -> tuple[Diagnostic, ...]:
    return tuple(finding for finding in findings if finding.level is Level.ERROR)


def _unlike_claims(tally: Tally, claims: ProtocolClaims, ctas: int) -> tuple[Diagnostic, ...]:
    rule = REPLAY_RULES["LV101"]
    return tuple(
        Diagnostic(rule.code, rule.name, f"{claims.kernel}: {line}", source=rule.source, repair=Repair(rule.remedy))
        for line in differences(tally, claims, ctas)
    )


def _facts(launch: Launch, report: RunReport, claims: ProtocolClaims | None) -> tuple[str, ...]:
    ran = (
        f"{launch.entry}: {counted(report.phases, 'mbarrier phase')}, {counted(report.copies, 'bulk copy')} and "
        f"{counted(report.wgmmas, 'wgmma')} are ordered in every interleaving"
    )
    return (ran,) if claims is None else (ran, *(f"as run: {line}" for line in claims.lines()))
