"""An operand's diagnostics: one line each, at the place given, with a repair that was judged again."""

from dataclasses import replace

from tilewright.base.diagnostic import Level
from tilewright.base.element import Element
from tilewright.base.plan import TensorMap
from tilewright.base.span import Span
from tilewright.legal.operand import diagnose
from tilewright.targets import target

HOPPER = target("sm_90a")
LEGAL = TensorMap(Element.BF16, dims=(4096, 4096), strides_bytes=(8192,), box=(64, 128), swizzle="128B")
PLACE = Span("matmul.py", 7, 5, "a = load(A)")


def test_a_legal_operand_has_no_diagnostics() -> None:
    assert diagnose(LEGAL, HOPPER, PLACE) == ()


def test_an_odd_row_stride_names_the_padding_and_the_other_path() -> None:
    odd = replace(LEGAL, dims=(100, 64), strides_bytes=(200,))
    (found,) = diagnose(odd, HOPPER, PLACE, dimension_names=("K", "M"))
    assert (found.code, found.primary, found.level) == ("TM012", PLACE, Level.ERROR)
    assert found.message == "row stride 200 bytes is not a multiple of 16"
    assert "cuTensorMapEncodeTiled" in found.source
    assert found.repair is not None
    assert found.repair.title == "pad K from 100 to 104 elements, or copy it without a tensor map"
    assert found.repair.rechecked


def test_each_broken_rule_has_its_own_diagnostic_and_its_own_repair() -> None:
    found = diagnose(replace(LEGAL, strides_bytes=(8200,), box=(100, 300)), HOPPER)
    assert [diagnostic.code for diagnostic in found] == ["TM012", "TM014", "TM015", "TM016"]
    assert all(diagnostic.repair is not None for diagnostic in found)
    assert all("\n" not in diagnostic.message for diagnostic in found)


def test_a_misaligned_tensor_has_advice_that_was_not_checked() -> None:
    (found,) = diagnose(replace(LEGAL, offset_bytes=8), HOPPER)
    assert found.repair is not None
    assert "multiple of 16" in found.repair.title and not found.repair.rechecked


def test_a_repair_that_breaks_another_rule_is_not_called_rechecked() -> None:
    narrow = TensorMap(Element.U32, (64, 64), (256,), (5, 8), swizzle="32B")
    (found,) = diagnose(narrow, HOPPER)
    assert found.code == "TM015" and found.repair is not None and found.repair.rechecked
    # Widened from 63 to 64 elements, this one no longer fits into shared memory.
    wide = TensorMap(Element.U32, (64, 256, 64), (256, 65536), (63, 13, 71))
    (found,) = diagnose(wide, HOPPER)
    assert found.code == "TM015" and found.repair is not None and not found.repair.rechecked


def test_cautions_ask_for_review() -> None:
    tall = TensorMap(Element.U8, (4096,) * 3, (4096, 1 << 24), (16, 100, 100), swizzle="128B")
    (found,) = diagnose(tall, HOPPER, PLACE)
    assert (found.code, found.level, found.primary) == ("TM032", Level.REVIEW, PLACE)
