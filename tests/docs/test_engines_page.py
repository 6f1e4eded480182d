"""Are the numbers about engines and operands in the pages those that were measured?"""

from __future__ import annotations

import json

from bench.engines import table
from tests.docs.pages import ROOT


def test_the_table_is_that_of_the_results() -> None:
    text = (ROOT / "docs" / "engines.md").read_text("utf-8")
    shown = text.partition("<!-- engines: begin -->\n")[2].partition("\n<!-- engines: end -->")[0]
    rows = json.loads((ROOT / "bench" / "results" / "engines.json").read_text("utf-8"))["rows"]
    assert shown == table(rows), "python -m bench engines"


def test_the_share_of_operands_is_that_of_the_results() -> None:
    rows = json.loads((ROOT / "bench" / "results" / "operands.json").read_text("utf-8"))["rows"]
    whole = next(row for row in rows if row["group"] == "all")
    text = " ".join((ROOT / "docs" / "tensor-maps.md").read_text("utf-8").split())
    assert whole["by_map"] == whole["count"]
    assert f"On {whole['count']} operands of public models" in text
    assert f"{whole['legal']} are legal as they stand" in text and f"{whole['in_place']} without touching" in text
