"""Are the tables that are made from data what the data say?"""

from __future__ import annotations

from tests.docs import contested_table
from tests.docs.bug_index import FOLDER, page


def test_page_is_current() -> None:
    assert (FOLDER / "README.md").read_text("utf-8") == page(), "run `python -m tests.docs.bug_index`"


def test_every_pair_has_a_row() -> None:
    for folder in FOLDER.iterdir():
        if folder.is_dir():
            assert f"({folder.name}/buggy.ptx)" in page()


def test_table_of_contested_points_is_current() -> None:
    assert contested_table.current() == contested_table.table(), "run `python -m tests.docs.contested_table`"
