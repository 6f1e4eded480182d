"""The table of contested points in docs/check.md, made from `contract.rules.interpretations`: `python -m
tests.docs.contested_table` writes it anew."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT

from tilewright.contract.rules.interpretations import POINTS, Interpretations, strict, tolerant
from tilewright.driver.rules.isa import point_file


def table() -> str:
    """Every point with what each reading makes of it."""
    lines = ["| point | question | `strict` | `tolerant` |", "| --- | --- | --- | --- |"]
    lines += [
        f"| [{point.name}](rules/{point_file(point)}) | {point.question} "
        f"| {_level(strict(), point.name)} | {_level(tolerant(), point.name)} |"
        for point in POINTS
    ]
    return "\n".join(lines) + "\n"


def _level(interpretations: Interpretations, name: str) -> str:
    level = interpretations.level_of(name)
    return "says nothing" if level is None else {"error": "refutes", "review": "for review"}[level.value]


PAGE = ROOT / "docs" / "check.md"
_TABLE = re.compile(r"\| point \| question \|.*?\n(?=\n)", re.DOTALL)


def current() -> str:
    """The table that the page has."""
    found = _TABLE.search(PAGE.read_text("utf-8"))
    return found[0] if found is not None else ""


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text("utf-8").replace(current(), table()), encoding="utf-8")
