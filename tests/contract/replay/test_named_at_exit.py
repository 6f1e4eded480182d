"""Arrivals that no use of a named barrier has taken when a CTA ends."""

import re

from tilewright.base.span import Span
from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.replay.named_at_exit import LeftArrivals
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.kernels_attention import query_gradient_kernel
from tilewright.driver.compile.walked import walked
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.machine.core.event import Event, NamedBarrier, NamedBarrierArrive, WarpActor
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target


def arrive(cta: int, warp: int, line: int) -> Event:
    return NamedBarrierArrive(WarpActor(cta, warp), cta, 1, False, Span("text", line))


def complete(cta: int, line: int) -> Event:
    return NamedBarrier(cta, 1, (), (), Span("text", line))


def left(*launches: tuple[Event, ...]) -> list[tuple[str, int]]:
    watcher = LeftArrivals()
    for events in launches:
        watcher.begin()
        for event in events:
            watcher.handlers[type(event)](event)
    spans = [finding.primary for finding in watcher.findings()]
    return [("NB107", span.line) for span in spans if span is not None]


def test_uses_that_end() -> None:
    assert left((arrive(0, 0, 1), arrive(0, 1, 2), complete(0, 2), arrive(1, 0, 1), complete(1, 1))) == []


def test_uses_that_do_not() -> None:
    assert left((arrive(0, 0, 1), complete(0, 1), arrive(0, 0, 3))) == [("NB107", 3)]
    # Each launch for itself; one line for an instruction, whichever CTAs it is of.
    assert left((arrive(0, 0, 5), arrive(1, 0, 5)), (arrive(0, 0, 6), complete(0, 6))) == [("NB107", 5)]


def test_a_last_turn_that_nobody_takes() -> None:
    kernel = query_gradient_kernel(0.125, False, 1)
    dims = {"B": 1, "H": 1, "Q": 128, "T": 256, "E": 64, "F": 64}
    module = walked(trace(kernel, dims, elements_of(kernel, "bf16"), None), target("sm_90a"))
    decide(the_program(module), target("sm_90a"), Wanted(consumers=2, ordered=True))
    lowered = lower_program(the_program(module))
    text, plan = lower_to_ptx([kernel.module for kernel in lowered.kernels], "sm_90a"), launch_plan(lowered)
    assert isinstance(replay_plan(read(text), plan, {}, (0,)), Proven)
    last = re.findall(r"^\t@%p\d+ bar\.sync %r\d+, 256;\n", text, re.MULTILINE)[-1]
    verdict = replay_plan(read(text.replace(last, "")), plan, {}, (0,))
    assert isinstance(verdict, Refuted) and {finding.code for finding in verdict.findings} == {"NB107"}
