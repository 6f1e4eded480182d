"""Whether the first product adds to what is in tensor memory, as a parameter says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.driver.check.check import check_text

_BUGGY = Path(__file__).parents[2] / "docs" / "bugs" / "first-product-accumulates" / "buggy.ptx"
_FIRST_AS_SAID = "setp.gt.u32 %p7, %r5, 0;\n\tsetp.ne.or.u32 %p5, %r40, 0, %p7;"
_STEP = "\t$step:\n"


def _kernel(accumulates: str) -> str:
    text = _BUGGY.read_text("utf-8").replace(".param .u64 result)", ".param .u64 result, .param .u32 flag)")
    assert "setp.ge.u32 %p5, %r5, 0;" in text
    return text.replace("setp.ge.u32 %p5, %r5, 0;", f"ld.param.u32 %r40, [flag];\n\t{accumulates}")


def test_a_launch_whose_flag_says_so_is_left_open() -> None:
    (report,) = check_text(_kernel(_FIRST_AS_SAID), "flag.ptx").kernels
    assert report.verdict == "unknown" and any("TC122" in reason for reason in report.reasons)


@pytest.mark.parametrize("compared", ["setp.eq.or.u32 %p5, %r40, 37, %p7;", "setp.gt.or.u32 %p5, %r40, 100, %p7;"])
def test_a_number_that_is_no_flag_is_not_assumed_away(compared: str) -> None:
    """One number of many makes the first product add: that is a bug, not a use that nobody means."""
    (report,) = check_text(_kernel(f"setp.gt.u32 %p7, %r5, 0;\n\t{compared}"), "flag.ptx").kernels
    assert report.verdict != "proven"


@pytest.mark.parametrize(
    "writer",
    [
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r30], {%r5};",
        "@%p0 tcgen05.cp.cta_group::1.128x128b [%r30], %rd5;",
    ],
)
def test_a_flag_is_left_open_where_something_else_may_write_what_is_added_to(writer: str) -> None:
    text = _kernel(_FIRST_AS_SAID)
    assert text.count(_STEP) == 1
    text = text.replace(
        _STEP, f"\t@%p3 bra $none;\n\tsetp.ne.u32 %p8, %r0, %r0;\n\t@!%p8 bra $none;\n\t{writer}\n\t$none:\n{_STEP}"
    )
    (report,) = check_text(text, "flag.ptx").kernels
    assert report.verdict == "unknown" and any("TC122" in reason for reason in report.reasons)


def test_a_flag_that_decides_something_else_is_left_open() -> None:
    text = _kernel(_FIRST_AS_SAID)
    again = "\t@%p0 tcgen05.commit"
    assert text.count(again) == 1
    also = f"\tsetp.eq.u32 %p8, %r40, 7;\n\t@%p8 bra $once;\n\tbar.sync 0;\n\t$once:\n{again}"
    (report,) = check_text(text.replace(again, also), "flag.ptx").kernels
    assert report.verdict != "proven"


def test_what_fails_at_0_as_well_is_not_assumed_away() -> None:
    text = _kernel(_FIRST_AS_SAID).replace("\t$wait:\n", "\tbra $hangs;\n\t$wait:\n").replace(
        "\ttcgen05.fence::after_thread_sync;\n\tshl.b32", "\t$hangs:\n\ttcgen05.fence::after_thread_sync;\n\tshl.b32"
    )  # fmt: skip
    assert text.count("$hangs") == 2
    (report,) = check_text(text, "flag.ptx").kernels
    assert report.verdict == "refuted"


def test_what_adds_whatever_the_flag_says_is_refuted() -> None:
    (report,) = check_text(_kernel("setp.ge.u32 %p5, %r5, 0;"), "flag.ptx").kernels
    assert report.verdict == "refuted"
