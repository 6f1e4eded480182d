"""Names of parameters by the TTGIR beside a PTX file."""

from __future__ import annotations

from pathlib import Path

from tilewright.driver.check.check import check_file
from tilewright.driver.launch.parameter_names import names_beside, names_in_ttgir

DATA = Path(__file__).parents[2] / "data"
LOCATED = """module attributes {ttg.target = "cuda:100"} {
  tt.func public @mm(%a: !tt.tensordesc<tensor<64x64xf16, #shared>> loc("a"(#loc1)), %a_0: i32 loc("a"(#loc1)), \
%a_1: i32 loc("a"(#loc1)), %a_2: i64 loc("a"(#loc1)), %a_3: i64 loc("a"(#loc1)), \
%out: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("out"(#loc1)), %K: i32 loc("K"(#loc1))) attributes {noinline = false} {
    tt.return loc(#loc)
  }
}
"""  # noqa: E501


def test_names_stand_in_the_signature_and_descriptors_bring_theirs() -> None:
    expected = ("a", "a.shape[0]", "a.shape[1]", "a.stride[0]", "a.stride[1]", "out", "K")
    assert names_in_ttgir(LOCATED, "mm") == expected
    assert names_in_ttgir(LOCATED, "m") == () and names_in_ttgir("", "mm") == ()


def test_names_without_locations_are_those_of_the_values() -> None:
    text = (DATA / "ttgir" / "matmul_pipelined.ttgir").read_text(encoding="utf-8")
    names = names_in_ttgir(text, "mm_desc")
    assert names[:5] == ("da", "da.shape[0]", "da.shape[1]", "da.stride[0]", "da.stride[1]")
    assert names[-1] == "K" and len(names) == 16


def test_a_check_takes_the_names_of_the_file_beside(tmp_path: Path) -> None:
    kernel = DATA / "ptx" / "corpus" / "triton" / "sm_90a" / "matmul_tma_s2.ptx"
    (tmp_path / "mm.ptx").write_text(kernel.read_text(encoding="utf-8"), encoding="utf-8")
    assert names_beside(str(tmp_path / "mm.ptx"), "mm_desc") == ()
    (tmp_path / "mm.ttgir").write_text(
        (DATA / "ttgir" / "matmul_pipelined.ttgir").read_text(encoding="utf-8"), encoding="utf-8"
    )
    (report,) = check_file(str(tmp_path / "mm.ptx")).kernels
    assert report.verdict == "proven" and report.ranges == ("K from 0 to 2^32 - 1",)
    assert "da's box is 16,384 bytes" in report.assumptions


def test_a_file_beside_that_is_no_text_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "k.ttgir").write_bytes(b"\xff\xfe\x00")
    assert names_beside(str(tmp_path / "k.ptx"), "k") == ()
