"""Every rule that a finding may cite, from whoever owns it, in one list: what `explain` prints.

The typestate proof numbers its rules from 001 in each family, the judge of runs from 101, the machine from 201; the
legality of descriptors has tensor maps from TM001 and matrix descriptors from LY001. No two rules share a code.
Checked by: tests/driver/rules/test_catalog.py.
"""

from __future__ import annotations

from dataclasses import astuple
from functools import cache

from tilewright.contract.rules.interpretations import POINTS, ContestedPoint
from tilewright.contract.rules.replay_codes import REPLAY_RULES
from tilewright.contract.rules.schedule_codes import SCHEDULE_RULES
from tilewright.contract.rules.text_codes import OTHER_TEXT, TILES_MISPLACED
from tilewright.contract.rules.typestate_codes import RULES, Rule
from tilewright.driver.check.allowance import ALLOWANCE_RULES
from tilewright.driver.rules.descriptor_rules import descriptor_rules
from tilewright.driver.rules.isa import point_file, point_page
from tilewright.driver.rules.rule_examples import RuleExample, rule_examples
from tilewright.machine.core.rules import MACHINE_RULES

_FAMILIES = {
    "AL": "alignment and places in shared memory",
    "AW": "comments that allow findings",
    "BG": "bulk groups, cp.async groups and bulk stores",
    "CA": "copies by threads",
    "CL": "clusters and global memory",
    "GD": "dependent grids",
    "LV": "hangs, and tokens of programs",
    "LY": "matrix descriptors",
    "MB": "mbarriers",
    "MF": "faults of single instructions",
    "NB": "named barriers and shared memory between warps",
    "PX": "proxies and their fences",
    "SC": "schedules",
    "SR": "registers and roles",
    "TC": "tensor memory and tcgen05",
    "TM": "tensor maps, and copies through them",
    "TX": "transaction bytes",
    "UM": "what compiled programs compute",
    "WG": "wgmma",
}
"""What the letters of codes stand for."""


@cache
def all_rules() -> tuple[Rule, ...]:
    """All rules, by code."""
    machine = (Rule(*astuple(rule)) for rule in MACHINE_RULES.values())
    proofs = (*RULES.values(), *REPLAY_RULES.values(), *SCHEDULE_RULES.values())
    rules = (*proofs, *machine, *descriptor_rules(), *ALLOWANCE_RULES, OTHER_TEXT, TILES_MISPLACED)
    return tuple(sorted(rules, key=lambda rule: rule.code))


def explain(code: str) -> tuple[Rule, ...]:
    """The rule of a code, or the rules of a name (the proofs use the same name where they enforce the same thing),
    whatever the case; empty where there is none."""
    wanted = code.strip()
    return tuple(rule for rule in all_rules() if rule.code == wanted.upper() or rule.name == wanted.lower())


def codes_named(name: str) -> tuple[str, ...]:
    """The codes that `explain` has something to say of by a name: a code, a rule's name, a contested point; empty where
    there is none."""
    wanted = name.strip().lower().replace("-", "_")
    governed = (point.codes for point in POINTS if point.name == wanted)
    return tuple(rule.code for rule in explain(name)) or next(governed, ())


def points_of(code: str) -> tuple[ContestedPoint, ...]:
    """The contested points that govern a rule."""
    return tuple(point for point in POINTS if code in point.codes)


def rule_page(rule: Rule) -> str:
    """A rule as a page of Markdown: what is wrong and why, buggy and fixed code, how to allow it, sources."""
    example = rule_examples().get(rule.code)
    contested = ", ".join(f"[{point.name}]({point_file(point)})" for point in points_of(rule.code))
    rows = [] if example is not None else [("Example", rule.example), ("Remedy", rule.remedy)]
    rows.append(("Source", rule.source))
    rows += [("Contested", contested)] if contested else []
    if rule.code in REPLAY_RULES:
        comment = f"`// tilewright: allow[{rule.code}] because ...`, or `--allow {rule.code}=REASON`"
        rows.append(("To allow it", f"{comment}; see [allowing a finding](../check.md#allowing-a-finding)"))
    code = _code_sections(rule, example) + "## Sources\n\n" if example is not None else ""
    notes = "".join(f"- **{title}:** {text}\n" for title, text in rows)
    head = f"# {rule.code} {rule.name}\n\n{sentence(rule.summary)}\n\n{rule.rule}\n\n"
    return f"{head}{code}{notes}\n[All rules](index.md)\n"


def _code_sections(rule: Rule, example: RuleExample) -> str:
    """The excerpts of a rule's page, with links to the files of the pair."""
    names = ("buggy", "fixed") if example.language == "ptx" else [path.rpartition("/")[2] for path in example.files]
    links = ", ".join(
        f"[{name}](../{path.removeprefix('docs/')})" for name, path in zip(names, example.files, strict=True)
    ).replace("(../rules/", "(")
    result = "reports the buggy kernel for review" if example.review else "refutes the buggy kernel"
    command = f" `{example.command}` {result}." if example.command else ""
    title = f"{example.title}.\n\n" if example.title else ""
    return (
        f"## Buggy code\n\n{title}"
        f"{_fenced(example.language, example.buggy, example.buggy_lines)}\n"
        f"## Fixed code\n\n{rule.remedy}\n\n"
        f"{_fenced(example.language, example.fixed, example.fixed_lines)}\nThe whole pair: {links}.{command}\n\n"
    )


def _fenced(language: str, code: str, lines: tuple[int, ...]) -> str:
    """A fenced block. The site marks `lines`; other readers of Markdown take no notice of them."""
    marked = f' hl_lines="{" ".join(map(str, lines))}"' if lines else ""
    return f"```{language}{marked}\n{code}```\n"


def rule_index() -> str:
    """All rules as a table of Markdown, with links to their pages."""
    lines = ["# Rules", "", "A page for each code. The letters say what a rule is about."]
    lines += ["`tilewright explain CODE` shows the same in a terminal."]
    for family, subject in _FAMILIES.items():
        lines += ["", f"## {family}: {subject}", "", "| code | name | what is wrong |", "| --- | --- | --- |"]
        rules = (rule for rule in all_rules() if rule.code.startswith(family))
        lines += [f"| [{rule.code}]({rule.code}.md) | {rule.name} | {rule.summary} |" for rule in rules]
    lines += ["", "## Contested points", "", "| point | question |", "| --- | --- |"]
    lines += [f"| [{point.name}]({point_file(point)}) | {point.question} |" for point in POINTS]
    return "\n".join(lines) + "\n"


def rule_pages() -> dict[str, str]:
    """Every page by its file's name."""
    return {
        "index.md": rule_index(),
        **{f"{rule.code}.md": rule_page(rule) for rule in all_rules()},
        **{point_file(point): point_page(point) for point in POINTS},
    }


def sentence(summary: str) -> str:
    """A summary as a sentence."""
    return f"{summary[0].upper()}{summary[1:]}."
