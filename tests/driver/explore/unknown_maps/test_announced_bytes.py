"""Numbers that are what boxes add up to: proven with that assumption alone, and only where they decide nothing else."""

from __future__ import annotations

import pytest
from tests.driver.boxed_kernels import ADDRESSES, BY_VALUE, COPY_B, EXPECT, boxed

from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.rules.interpretations import tolerant
from tilewright.driver.explore.judge_unlaunched import judge_unlaunched

PARAMETERS = f"{BY_VALUE}, .param .u32 bytes"
LOADED = f"{ADDRESSES}\n    ld.param.u32 %r30, [bytes];"
ANNOUNCED = (EXPECT, EXPECT.replace("3072", "%r30"))


def _verdict(*edits: tuple[str, str]) -> Verdict:
    module, kernel = boxed(*edits, parameters=PARAMETERS, addresses=LOADED)
    return judge_unlaunched(module, kernel, tolerant()).verdict


def test_a_number_that_is_announced_is_what_the_boxes_add_up_to() -> None:
    verdict = _verdict(ANNOUNCED)
    assert isinstance(verdict, Proven), verdict
    assert "parameter 2 is 3,072, which the boxes of its copies add up to" in verdict.assumptions
    assert "parameter 0's box is 1,024 bytes" in verdict.assumptions


def test_a_number_that_is_announced_only_by_some_threads_is_chosen_among() -> None:
    chosen = f"setp.eq.u32 %p8, %r3, 0;\n    selp.b32 %r31, %r30, 0, %p8;\n    {EXPECT.replace('3072', '%r31')}"
    assert isinstance(_verdict((EXPECT, chosen)), Proven)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "edit",
    [
        ("mov.u32 %r4, 0;", "mov.u32 %r4, 0;\n    setp.gt.u32 %p8, %r30, 4096;\n    @%p8 trap;"),
        ("mov.u32 %r4, 0;", "mov.u32 %r4, 0;\n    setp.gt.u32 %p9, %r30, 9000;\n    @%p9 bra DONE;"),
        ("ld.param.u32 %r1, [steps];", "ld.param.u32 %r1, [steps];\n    add.u32 %r1, %r1, %r30;"),
    ],
    ids=["a trap", "a branch", "a bound"],
)
def test_a_number_that_decides_something_else_is_not_assumed_in_a_proof(edit: tuple[str, str]) -> None:
    assert isinstance(_verdict(ANNOUNCED, edit), Unknown)


def test_what_a_number_that_is_announced_decides_is_named() -> None:
    other = "setp.eq.u32 %p9, %r30, 77;\n    mov.u32 %r4, 0;\n    @%p9 bra DONE;\n    setp.ge"
    verdict = _verdict(ANNOUNCED, ("mov.u32 %r4, 0;\n    setp.ge", other))
    assert isinstance(verdict, Unknown), verdict
    assert any("which the kernel announces as the bytes of its copies" in reason for reason in verdict.reasons)


def test_a_copy_that_is_not_announced_is_refuted_with_any_boxes() -> None:
    """The number may be the bytes of one copy; both signal the barrier, which is not filled in step with its phases."""
    twice = f"{ANNOUNCED[1]}\n    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r8], %r30;"
    assert not isinstance(_verdict((EXPECT, twice)), Proven)


def test_a_missing_wait_is_refuted_where_the_bytes_are_a_number() -> None:
    no_wait = ("mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r8], %r6;\n    @!%p4 bra FULL;", "")
    verdict = _verdict(ANNOUNCED, no_wait)
    assert isinstance(verdict, Refuted), verdict


def test_a_number_announced_late_is_found_where_it_is() -> None:
    """Only launches with more than nine steps copy through the second map, for a phase that a number fills."""
    late = f"setp.gt.u32 %p8, %r1, 9;\n    @%p8 {COPY_B}"
    bytes_of = "selp.b32 %r31, %r30, 1024, %p8;"
    verdict = _verdict(
        (EXPECT, f"setp.gt.u32 %p8, %r1, 9;\n    {bytes_of}\n    {EXPECT.replace('3072', '%r31')}"),
        (COPY_B, late),
    )
    assert not isinstance(verdict, Refuted), verdict
