"""Is the table of docs/engines.md the one that was measured?"""

from __future__ import annotations

import json

from bench.engines import table
from tests.docs.pages import ROOT


def test_the_table_is_that_of_the_results() -> None:
    text = (ROOT / "docs" / "engines.md").read_text("utf-8")
    shown = text.partition("<!-- engines: begin -->\n")[2].partition("\n<!-- engines: end -->")[0]
    rows = json.loads((ROOT / "bench" / "results" / "engines.json").read_text("utf-8"))["rows"]
    assert shown == table(rows), "python -m bench engines"
