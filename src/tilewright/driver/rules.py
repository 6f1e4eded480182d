"""Every rule that a finding may cite, from whoever owns it, in one list: what `explain` prints.

The typestate proof, the judge of runs, the machine and the legality of descriptors number their rules by themselves;
where two of them use one code, both rules have it, and their names differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from tilewright.contract.codes import RULES, Rule
from tilewright.contract.replay_codes import REPLAY_RULES
from tilewright.driver.descriptor_rules import descriptor_rules
from tilewright.driver.machine_rules import MACHINE_RULES

_OWN_RULES = (
    Rule(
        "LV090",
        "text-is-not-the-proven-text",
        "the emitted text is not that of its small instance but for extents",
        "The text that is run stands for the text that is shipped only if they differ in extents alone.",
        "derived: the argument of the second proof",
        "A lowering that unrolls by the extent.",
        "Report the program: this is a fault of the compiler.",
    ),
)


@cache
def all_rules() -> tuple[Rule, ...]:
    """All rules by code; rules of one code by name."""
    rules = (*RULES.values(), *REPLAY_RULES.values(), *MACHINE_RULES, *descriptor_rules(), *_OWN_RULES)
    return tuple(sorted(rules, key=lambda rule: (rule.code, rule.name)))


def explain(code: str) -> tuple[Rule, ...]:
    """The rules of a code, whatever its case, or of a rule's name; empty where there is none."""
    wanted = code.strip()
    return tuple(rule for rule in all_rules() if rule.code == wanted.upper() or rule.name == wanted.lower())


def rule_page(rules: Iterable[Rule]) -> str:
    """The rules of one code as a page of Markdown."""
    parts = [
        f"# {rule.code} {rule.name}\n\n{sentence(rule.summary)}\n\n{rule.rule}\n\n"
        f"- **Source:** {rule.source}\n- **Example:** {rule.example}\n- **Remedy:** {rule.remedy}\n"
        for rule in rules
    ]
    return "\n".join(parts)


def rule_index() -> str:
    """All rules as a table of Markdown, with links to their pages."""
    lines = ["# Rules", "", "| code | name | what is wrong |", "| --- | --- | --- |"]
    lines += [f"| [{rule.code}]({rule.code}.md) | {rule.name} | {rule.summary} |" for rule in all_rules()]
    return "\n".join(lines) + "\n"


def rule_pages() -> dict[str, str]:
    """Every page by its file's name."""
    codes = dict.fromkeys(rule.code for rule in all_rules())
    return {"index.md": rule_index(), **{f"{code}.md": rule_page(explain(code)) for code in codes}}


def sentence(summary: str) -> str:
    """A summary as a sentence."""
    return f"{summary[0].upper()}{summary[1:]}."
