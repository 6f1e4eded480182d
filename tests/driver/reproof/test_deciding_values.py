"""A text in which numbers of the arrays decide something is unknown: a run shows what it does for some numbers only."""

import re
from dataclasses import replace

from tests.end_to_end.compiled_programs import emitted

from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.frontends.ptx.reader import read

_MEETING = re.compile(r"\tbar\.sync (%r\d+), 128;")
_PACKED = re.compile(r"\tcvt\.rn\.bf16x2\.f32 (%r\d+), ")


def judged(name: str, text: str) -> Verdict:
    item = emitted(name)
    plan = replace(item.plan, launches=item.plan.launches[-1:])
    return replay_plan(read(text, "<k.ptx>"), plan, {plan.launches[0].entry: item.claims}, (0,))


def test_a_barrier_s_number_that_a_sum_decides() -> None:
    """All sums are alike in a run that does without them."""
    lines = emitted("one-group").text.split("\n")
    at, packed = next((at, found[1]) for at, line in enumerate(lines) if (found := _PACKED.match(line)) is not None)
    meetings = [number for number, line in enumerate(lines) if number > at and _MEETING.match(line)]
    assert meetings
    for meeting in meetings:
        spoiled = "\n".join([*lines[:meeting], f"\tbar.sync {packed}, 128;", *lines[meeting + 1 :]])
        assert isinstance(judged("one-group", spoiled), Refuted | Unknown)


def test_a_way_that_an_array_s_element_decides() -> None:
    """Whether the last wait for wgmmas is passed by, as it is not with the numbers of any run."""
    lines = emitted("bias-gelu").text.split("\n")
    assert isinstance(judged("bias-gelu", "\n".join(lines)), Proven)
    bias = next(found[1] for line in lines if (found := re.search(r"ld\.param\.u64 (%rd\d+), \[bias_param\];", line)))
    at = max(number for number, line in enumerate(lines) if "wgmma.wait_group" in line)
    opening = lines.index("{")
    added = [f"\tld.global.b32 %datum, [{bias}];", "\tsetp.eq.u32 %chosen, %datum, 1234567;"]
    spoiled = [
        *lines[: opening + 1], "\t.reg .b32 %datum;", "\t.reg .pred %chosen;", *lines[opening + 1 : at], *added,
        "\t@%chosen bra passed_by;", lines[at], "passed_by:", *lines[at + 1 :],
    ]  # fmt: skip
    verdict = judged("bias-gelu", "\n".join(spoiled))
    assert isinstance(verdict, Unknown)
    assert "may decide" in verdict.reasons[0]
