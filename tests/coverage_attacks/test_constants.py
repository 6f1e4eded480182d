"""Constant memory: what the host may have written there is not known; what has a value keeps it, which is assumed."""

from __future__ import annotations

import pytest

from tests.coverage_attacks.hanging import checked, hanging
from tilewright.driver.check.check import check_text
from tilewright.driver.launch.launch_file import launch_from_json

_OPEN = ".const .align 4 .b8 c[16];"
_VALUED = ".const .align 4 .u32 c[4] = {1, 2, 3, 7};"
_AT_N = (
    "and.b32 %r_i, %r_n, 3; mul.wide.u32 %rd_o, %r_i, 4; mov.u64 %rd_c, c; add.s64 %rd_c, %rd_c, %rd_o; "
    "{convert}{load} %r_x, [%rd_c]; setp.eq.s32 %p_bug, %r_x, 7;"
)
_GENERIC = "mov.u64 %rd_c, c; cvta.const.u64 %rd_c, %rd_c; "
OPEN = {
    "a word": "ld.const.u32 %r_x, [c+4]; setp.eq.s32 %p_bug, %r_x, 7;",
    "a byte": "ld.const.u8 %r_x, [c+5]; setp.eq.s32 %p_bug, %r_x, 7;",
    "two words": "ld.const.v2.u32 {%r_x, %r_y}, [c]; add.s32 %r_x, %r_x, %r_y; setp.eq.s32 %p_bug, %r_x, 7;",
    "a bound": "ld.const.u32 %r_x, [c]; setp.gt.s32 %p_bug, %r_x, 7;",
    "a generic load": f"{_GENERIC}ld.u32 %r_x, [%rd_c]; setp.eq.s32 %p_bug, %r_x, 7;",
    "by lane": (
        "and.b32 %r_i, %r_tid, 3; mul.wide.u32 %rd_o, %r_i, 4; mov.u64 %rd_c, c; add.s64 %rd_c, %rd_c, %rd_o; "
        "ld.const.u32 %r_x, [%rd_c]; setp.eq.s32 %p_l, %r_x, 7; vote.sync.any.pred %p_bug, %p_l, -1;"
    ),
    "at an index": _AT_N.format(load="ld.const.u32", convert=""),
    "a pointer in its own place": (
        "mov.u64 %rd_c, c; ld.const.u64 %rd_c, [%rd_c]; setp.eq.s64 %p_bug, %rd_c, 1234567;"
    ),
}
VALUED_AT_AN_INDEX = {
    "const": _AT_N.format(load="ld.const.u32", convert=""),
    "generic": _AT_N.format(load="ld.u32", convert="cvta.const.u64 %rd_c, %rd_c; "),
}


@pytest.mark.parametrize("body", OPEN.values(), ids=OPEN)
def test_nothing_is_proven_behind_a_constant_without_a_value(body: str) -> None:
    assert checked(hanging(body, module=_OPEN)).verdict == "unknown"


@pytest.mark.parametrize("body", OPEN.values(), ids=OPEN)
def test_nor_is_it_with_a_launch(body: str) -> None:
    launch = {
        "grid": [1], "block": [64],
        "params": [{"kind": "ptr", "bytes": 64, "buffer": "x"}, {"kind": "ptr", "bytes": 4096, "buffer": "y"},
                   {"kind": "i32", "value": 3}],
    }  # fmt: skip
    (report,) = check_text(hanging(body, module=_OPEN), "k.ptx", launch=launch_from_json(launch, "k.json")).kernels
    assert report.verdict == "unknown"
    assert any("constant memory that the host may write" in each for each in report.reasons)


@pytest.mark.parametrize("body", VALUED_AT_AN_INDEX.values(), ids=VALUED_AT_AN_INDEX)
def test_nothing_is_proven_behind_a_constant_at_a_chosen_index(body: str) -> None:
    assert checked(hanging(body, module=_VALUED)).verdict != "proven"


def test_a_constant_that_cancels_is_proven() -> None:
    body = "ld.const.u32 %r_x, [c]; add.s32 %r_y, %r_x, 1; sub.s32 %r_x, %r_y, %r_x; setp.ne.s32 %p_bug, %r_x, 1;"
    report = checked(hanging(body, module=_OPEN))
    assert report.verdict == "proven", report.reasons
    assert not any("constant" in each for each in report.assumptions)


def test_a_constant_with_a_value_keeps_it_and_the_proof_says_so() -> None:
    report = checked(hanging("ld.const.u32 %r_x, [c+4]; setp.ne.s32 %p_bug, %r_x, 2;", module=_VALUED))
    assert report.verdict == "proven", report.reasons
    assert "the host does not write the constant c, which has a value" in report.assumptions
