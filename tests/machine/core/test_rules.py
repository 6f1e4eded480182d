"""The machine's catalogue of rules and its source agree: every code that is raised has a row, and the reverse."""

from __future__ import annotations

import re
from pathlib import Path

from tilewright.machine.core import rules
from tilewright.machine.core.rules import MACHINE_RULES

SOURCE = Path(rules.__file__).parents[1]


def test_rows_and_raised_codes_agree() -> None:
    raised: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        if path.name not in ("rules.py", "tensor_rules.py", "copy_rules.py"):
            raised.update(re.findall(r'"((?:MF|MB|TX|NB|CL|SR|LV|TC|AL|TM)\d{3})"', path.read_text(encoding="utf-8")))
    assert raised == set(MACHINE_RULES)


def test_every_row_is_complete() -> None:
    for code, rule in MACHINE_RULES.items():
        assert code == rule.code
        assert all((rule.name, rule.summary, rule.rule, rule.source, rule.example, rule.remedy))
        assert re.fullmatch(r"[a-z0-9-]+", rule.name)
