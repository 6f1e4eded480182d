"""Rows of names and words keep apart, however long a name is."""

from __future__ import annotations

import pytest

from tilewright.cli.terminal.show import show_rows


def test_a_long_name_stays_apart_from_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows("decisions", [("tile", "64 x 64"), ("operand scores_of_a_product", "8 slots"), ("tile", "128 x 64")])
    (_, first, long, last) = capsys.readouterr().out.splitlines()
    assert long == "  operand scores_of_a_product 8 slots"
    assert first.index("64 x 64") == long.index("8 slots") == last.index("128 x 64")
