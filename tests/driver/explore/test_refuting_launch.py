"""A refutation without a launch comes with a launch file that refutes by the same rule."""

from __future__ import annotations

import json

import pytest
from tests.driver.boxed_kernels import COPY_B, EXPECT, READ_B, boxed_text
from tests.driver.hanging_kernels import hanging, judged

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.plan import Launch, PointerParam, ScalarParam, UnknownTensorMapParam
from tilewright.base.verdict import Refuted
from tilewright.contract.rules.interpretations import tolerant
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.explore.refuting_launch import GivenAgain, given_again
from tilewright.driver.launch.judge_launch import LaunchJudgement, judge_launch
from tilewright.driver.launch.launch_file import parse_launch
from tilewright.frontends.ptx.reader import read

FULL_WAIT = ("mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r8], %r6;\n    @!%p4 bra FULL;", "")
POINTERS = {
    "parameters": ".param .u64 a, .param .u64 b",
    "addresses": "    ld.param.u64 %rd1, [a];\n    ld.param.u64 %rd2, [b];",
}


@pytest.mark.parametrize("parts", [{}, POINTERS])
def test_the_launch_of_a_refutation_refutes_when_it_is_given(parts: dict[str, str]) -> None:
    text = boxed_text(FULL_WAIT, **parts)  # type: ignore[arg-type]
    (found,) = check_text(text, "boxed.ptx", options=CheckOptions()).kernels
    assert found.verdict == "refuted" and found.launch is not None
    given = parse_launch(json.dumps(found.launch), "launch.json")
    (again,) = check_text(text, "boxed.ptx", launch=given, options=CheckOptions()).kernels
    assert again.verdict == "refuted" and again.launch is None
    assert found.errors[0].code in {finding.code for finding in again.errors}


def test_a_proof_has_no_launch() -> None:
    edits = ((COPY_B, ""), (READ_B, ""), (EXPECT, EXPECT.replace("3072", "1024")))
    (found,) = check_text(boxed_text(*edits), "boxed.ptx", options=CheckOptions()).kernels
    assert found.verdict == "proven" and found.launch is None


def _given_again(code: str, *edits: tuple[str, str]) -> GivenAgain:
    """The pipeline with boxes of 1,024 and 2,048 bytes, given as a launch that should show a finding of `code`."""
    module = read(boxed_text(*edits, **POINTERS), "boxed.ptx")  # type: ignore[arg-type]
    kernel = module.kernels[0]
    finding = Diagnostic(code, "name", "it breaks", kernel.span)
    held = ((0, UnknownTensorMapParam(1024)),), ((0, UnknownTensorMapParam(2048)),)
    pointers = tuple(PointerParam(name, 0, maps) for name, maps in zip(("a", "b"), held, strict=True))
    launch = Launch("pipe", (1, 1, 1), (64, 1, 1), (*pointers, ScalarParam("i32", 4)))

    def judge(launch: Launch, buffers: object, _contents: object) -> LaunchJudgement:
        return judge_launch(module, launch, buffers, tolerant())  # type: ignore[arg-type]

    return given_again(kernel, launch, {"a": 4096, "b": 4096}, (finding,), judge)


def test_a_finding_that_the_given_launch_does_not_show_is_none() -> None:
    again = _given_again("MB101")
    assert "MB101 it breaks" in again.against and "it shows nothing" in again.against


def test_a_hang_is_one_whichever_rule_explains_it() -> None:
    """Where no boxes are given the arrival is missing, where they are the bytes are too few."""
    more = EXPECT, EXPECT.replace("3072", "4096")
    assert not _given_again("MB113", more).against
    assert "it shows TX104" in _given_again("MB101", more).against


def test_numbers_that_align_what_threads_access_are_tried() -> None:
    """The first number beyond 100 hangs, and makes an odd address of global memory; a larger one hangs, too."""
    store = "mul.wide.u32 %d2, %r1, 4; add.s64 %d2, %d1, %d2; st.global.v4.b32 [%d2], {%r3, %r3, %r3, %r3};"
    text = hanging("setp.gt.u32 %p1, %r1, 100;", before=store.replace("; ", ";\n    "))
    (found,) = check_text(text, "k.ptx").kernels
    assert found.verdict == "refuted" and found.launch is not None
    (again,) = check_text(text, "k.ptx", launch=parse_launch(json.dumps(found.launch), "launch.json")).kernels
    assert found.errors[0].code in {finding.code for finding in again.errors}
    assert any("parameter 0 = 128" in line for line in found.errors[0].interleaving)


def test_a_pointer_that_is_read_through_is_not_null() -> None:
    """Two words of memory differ where it hangs: with a null pointer they are nowhere."""
    words = "ld.global.u32 %r4, [%d1];\n    ld.global.u32 %r5, [%d1+4];\n    sub.s32 %r6, %r5, %r4;"
    words += "\n    max.s32 %r6, %r6, 0;"
    (found,) = check_text(hanging("setp.gt.s32 %p1, %r6, 0;", before=words), "k.ptx").kernels
    assert found.verdict == "refuted", found.reasons
    assert isinstance(found.launch, dict) and all(each.get("bytes") != 0 for each in found.launch["params"])


def test_a_launch_whose_tiles_count_none_is_replaced_by_one_that_fills_them() -> None:
    """At the number that is tried first, a count of tiles is 0 and what is divided by it addresses no buffer."""
    before = """
    shr.u32 %r4, %r1, 7; mov.u32 %r5, %ctaid.x; div.s32 %r6, %r5, %r4; mul.wide.s32 %d2, %r6, 64;
    add.s64 %d3, %d1, %d2; st.global.u32 [%d3], %r5;
    """
    found = judged(hanging("setp.ge.u32 %p1, %r2, 5;", before=before))
    assert isinstance(found.verdict, Refuted), found.verdict
    assert found.launch is not None
