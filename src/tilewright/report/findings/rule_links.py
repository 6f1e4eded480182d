"""Where does the page of a rule stand? Checked by: tests/report/test_html.py, tests/report/findings/test_sarif.py."""

from __future__ import annotations

RULE_PAGES = "https://github.com/tilewright/tilewright/blob/main/docs/rules/"


def rule_address(code: str) -> str:
    """The address of a code's page."""
    return f"{RULE_PAGES}{code}.md"
