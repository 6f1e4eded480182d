"""How long a text may run: one that does not end is unknown, and soon; right ones stay far below."""

from dataclasses import replace

import numpy as np
import pytest
from tests.end_to_end.compiled_programs import emitted

from tilewright.base.verdict import Proven, Unknown
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.driver.reproof.step_bound import steps_most
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.run import run_launch
from tilewright.machine.events_only.dropped_values import DroppedValues


@pytest.mark.parametrize(
    "before,claimed",
    [("wgmma.mma_async", True), ("cp.async.bulk.tensor.2d.shared", True), ("ret;", True), ("ret;", False)],
)
def test_a_text_that_does_not_end_is_unknown(before: str, claimed: bool) -> None:
    item = emitted("one-group")
    plan = replace(item.plan, launches=item.plan.launches[-1:])
    lines = item.text.split("\n")
    at = next(number for number, line in enumerate(lines) if before in line)
    endless = "\n".join([*lines[:at], "round_and_round:", "\tbra round_and_round;", *lines[at:]])
    claims = {plan.launches[0].entry: item.claims} if claimed else {}
    assert isinstance(replay_plan(read(item.text, "<k.ptx>"), plan, claims, (0,)), Proven)
    verdict = replay_plan(read(endless, "<k.ptx>"), plan, claims, (0,))
    assert isinstance(verdict, Unknown)
    assert "still running after" in verdict.reasons[0]


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["plain", "one-group", "cluster-1x2-direct", "materialised"])
@pytest.mark.parametrize("claimed", [True, False])
def test_right_texts_take_a_tenth_of_the_bound(name: str, claimed: bool) -> None:
    item = emitted(name)
    text = read(item.text, "<k.ptx>")
    buffers = {buffer.name: np.zeros(max(1, buffer.span_bytes), np.uint8) for buffer in item.plan.buffers}
    launch = item.plan.launches[-1]
    report = run_launch(text, launch, buffers, observe=lambda _event: None, dropped=DroppedValues())
    assert report.instructions * 10 < steps_most(text, launch, item.plan, item.claims if claimed else None)
