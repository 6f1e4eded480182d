"""Numbers and words agree."""

import pytest

from tilewright.base.plural import counted, plural


@pytest.mark.parametrize(
    ("word", "several"),
    [("slot", "slots"), ("launch", "launches"), ("copy", "copies"), ("way", "ways"), ("box", "boxes"),
     ("mbarrier phase", "mbarrier phases"), ("pass", "passes")],
)  # fmt: skip
def test_one_has_the_singular_and_any_other_number_the_plural(word: str, several: str) -> None:
    assert counted(1, word) == f"1 {word}"
    assert [counted(count, word) for count in (0, 2)] == [f"0 {several}", f"2 {several}"]
    assert plural(word, 1) == word


def test_large_numbers_have_commas() -> None:
    assert counted(1_048_576, "byte") == "1,048,576 bytes"
