"""Widths of texts in figures: no less than those of a wide font, so that labels do not touch."""

from __future__ import annotations

import pytest

from tilewright.report.figures.text_width import text_width

# DejaVu Sans, 2048 units an em: advance widths of some characters.
_ADVANCES = dict.fromkeys("0123456789", 1303) | {"W": 2025, "L": 1141, "R": 1423, "M": 1767}
_ADVANCES |= {"a": 1255, "m": 1995, "i": 569, " ": 651}


@pytest.mark.parametrize("text", ["W0L12R10", "1023", "aim", "M 9", "WWWW"])
def test_a_text_is_given_the_room_that_a_wide_font_takes(text: str) -> None:
    taken = sum(_ADVANCES[character] for character in text) * 11 / 2048
    assert taken <= text_width(text) <= 1.5 * taken


def test_a_longer_text_takes_more() -> None:
    assert text_width("") == 0 < text_width("i") < text_width("ii") < text_width("mm") == text_width("語語")
