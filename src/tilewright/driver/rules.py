"""Every rule that a finding may cite, from whoever owns it, in one list: what `explain` prints."""

from __future__ import annotations

from tilewright.contract.codes import RULES, Rule


def all_rules() -> list[Rule]:
    """All rules by code."""
    return [RULES[code] for code in sorted(RULES)]


def explain(code: str) -> Rule | None:
    """The rule of a code, whatever its case."""
    return RULES.get(code.upper())
