"""Whether the first product adds to what is in tensor memory, as a parameter says."""

from __future__ import annotations

from pathlib import Path

from tilewright.driver.check.check import check_text

_BUGGY = Path(__file__).parents[2] / "docs" / "bugs" / "first-product-accumulates" / "buggy.ptx"


def _kernel(accumulates: str) -> str:
    text = _BUGGY.read_text("utf-8").replace(".param .u64 result)", ".param .u64 result, .param .u32 flag)")
    assert "setp.ge.u32 %p5, %r5, 0;" in text
    return text.replace("setp.ge.u32 %p5, %r5, 0;", f"ld.param.u32 %r40, [flag];\n\t{accumulates}")


def test_a_launch_whose_flag_says_so_is_left_open() -> None:
    flagged = _kernel("setp.gt.u32 %p7, %r5, 0;\n\tsetp.ne.or.u32 %p5, %r40, 0, %p7;")
    (report,) = check_text(flagged, "flag.ptx").kernels
    assert report.verdict == "unknown" and any("TC122" in reason for reason in report.reasons)


def test_what_adds_whatever_the_flag_says_is_refuted() -> None:
    (report,) = check_text(_kernel("setp.ge.u32 %p5, %r5, 0;"), "flag.ptx").kernels
    assert report.verdict == "refuted"
