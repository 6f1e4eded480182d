"""Are the true causes of public issues named first, and does the page say what is answered?"""

from __future__ import annotations

import pytest
from tests.docs.tensormap_issues import ISSUES, Case, current, table

from tilewright.base.error import TilewrightError
from tilewright.cli.tensormap.judge import maps_of
from tilewright.legal import TensorMap, check, decode_map, encode_map, parse_where, prove
from tilewright.legal.symbolic.symbolic_map import Dim, SymbolicMap

CASES = [case for issue in ISSUES for case in issue.cases]
NAMES = [f"{issue.links[0]}-{at}" for issue in ISSUES for at in range(len(issue.cases))]


def test_the_page_has_every_issue_as_it_is_answered() -> None:
    assert current() == table(), "python -m tests.docs.tensormap_issues"
    assert len(ISSUES) == 25


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_cause_is_named_first(case: Case) -> None:
    judged = case.judged()
    if judged.violations:
        assert judged.violations[0].code == case.cause
    elif case.cause:
        assert case.cause in [warning.code for warning in judged.warnings]
    else:
        assert judged.legal and judged.remarks
    assert case.words in case.answer()


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_what_mends_it_is_legal(case: Case) -> None:
    repairs = [each for each in case.judged().repairs if each.kind == case.repair]
    assert bool(case.repair) == bool(repairs) and case.mend()
    for repair in repairs:
        assert maps_of(repair) and repair.checked
        assert all(check(map, case.target, case.driver).legal for map in maps_of(repair))


def test_errors_of_the_context_are_told_from_illegal_maps() -> None:
    """The same answer of the encoder for a map that is illegal says nothing of an earlier error."""
    illegal = Case(TensorMap("bf16", (100, 8), (200,), (64, 8)), "TM012", "", error=700)
    assert not any("earlier error" in remark for remark in illegal.judged().remarks)
    legal = Case(TensorMap("bf16", (64, 8), (128,), (64, 8)), "", "", error=1)
    assert "the map breaks no rule known" in legal.judged().remarks[0]


def test_a_map_itself_must_be_aligned() -> None:
    """Triton pull request 9439: 64 bytes are enough for the encoder, and not for who compiled for 128."""
    map = TensorMap("bf16", (64, 8), (128,), (64, 8))
    assert Case(map, "TM201", "", map_address=0x20).judged().violations[0].code == "TM201"
    assert not Case(map, "", "", map_address=0x80).judged().remarks


def test_device_made_maps_are_decided_for_every_size() -> None:
    """Triton issue 10927: what the device must check before it makes the map, and nothing where the size is known."""
    rows = SymbolicMap(
        "bf16", ("K", "M"), ("2*K",), (64, 64), swizzle="128B", sizes=(Dim("K", 1, 65536), Dim("M", 1, 65536))
    )
    found = prove(rows, "sm_90a")
    assert found.answer == "maybe" and found.guard is not None and found.guard.text == "K % 8 == 0"
    promised = SymbolicMap(
        "bf16", ("K", "M"), ("2*K",), (64, 64), swizzle="128B", sizes=(Dim("K", 8, 65536, 8), Dim("M", 1, 65536)),
        where=parse_where("K % 8 == 0"),
    )  # fmt: skip
    assert prove(promised, "sm_90a").answer == "legal"


def test_bytes_of_another_architecture_are_refused_and_not_guessed() -> None:
    """CUTLASS issue 3236 compares the bytes of 4-bit maps for sm_120: what is known of bytes is Hopper's."""
    four_bit = TensorMap("u4x16_align16", (128, 128), (64,), (128, 128), swizzle="128B")
    with pytest.raises(TilewrightError, match="Hopper does not have"):
        encode_map(four_bit)
    content = bytearray(encode_map(TensorMap("u8", (128, 128), (128,), (128, 128), swizzle="128B")))
    content[8] |= 0x80
    content[9] |= 0x07  # the element's code beyond those of Hopper
    with pytest.raises(TilewrightError, match="no tensor map"):
        decode_map(bytes(content))
