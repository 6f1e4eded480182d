"""`tilewright explain CODE`: a rule in words, its source, an example that breaks it and what fixes it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.error import TilewrightError

if TYPE_CHECKING:
    from tilewright.contract.rules.interpretations import ContestedPoint
    from tilewright.contract.rules.typestate_codes import Rule

EXAMPLES = """examples:
  tilewright explain TX001
  tilewright explain staging-not-fenced
  tilewright explain fence_before_refill
  tilewright explain --format json
  tilewright explain --write docs/rules
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "code", nargs="?", help="a finding's code or name, or a contested point; without it, all rules are listed"
    )
    parser.add_argument("--write", metavar="FOLDER", help="write a page of Markdown for every code, and an index")


def run(arguments: argparse.Namespace) -> int:
    if arguments.write:
        return _write(Path(arguments.write), arguments)
    if arguments.code is None:
        return _list(arguments)
    from tilewright.driver.check.finding_filter import nearest_rule
    from tilewright.driver.rules.catalog import explain, points_of

    rules = explain(arguments.code)
    if not rules and (point := _contested(arguments.code)) is not None:
        if arguments.format == "json":
            from dataclasses import asdict

            print(json.dumps(asdict(point), indent=2))
        else:
            print(_point_words(point), end="")
        return 0
    if not rules:
        raise TilewrightError(f"there is no rule {arguments.code}", remedy=nearest_rule(arguments.code))
    if arguments.format == "json":
        from dataclasses import asdict

        from tilewright.driver.rules.rule_examples import rule_examples

        document: list[dict[str, object]] = []
        for rule in rules:
            pair = rule_examples().get(rule.code)
            contested = [point.name for point in points_of(rule.code)]
            document.append({**asdict(rule), "contested": contested, "code_example": pair and asdict(pair)})
        print(json.dumps(document, indent=2))
    else:
        print("\n".join(_words(rule) for rule in rules), end="")
    return 0


def _list(arguments: argparse.Namespace) -> int:
    from tilewright.driver.rules.catalog import all_rules

    rules = all_rules()
    if arguments.format == "json":
        listed = [{"code": rule.code, "name": rule.name, "summary": rule.summary} for rule in rules]
        print(json.dumps(listed, indent=2))
    else:
        for rule in rules:
            print(f"{rule.code}  {rule.name}: {rule.summary}")
    return 0


def _write(folder: Path, arguments: argparse.Namespace) -> int:
    """Pages of codes that no longer exist are removed."""
    from tilewright.cli.terminal.files import write_files
    from tilewright.driver.rules.catalog import rule_pages

    if arguments.code is not None:
        raise TilewrightError("--write writes all rules", remedy="give no code with it")
    pages = rule_pages()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TilewrightError(f"cannot make {folder}: {error.strerror}", remedy="choose another folder") from error
    write_files({folder / name: text.encode() for name, text in pages.items()})
    for pattern in ("[A-Z][A-Z][0-9][0-9][0-9].md", "contested-*.md"):
        for path in folder.glob(pattern):
            if path.name not in pages:
                path.unlink()
    if arguments.format == "json":
        print(json.dumps({"written": len(pages), "folder": str(folder)}))
    else:
        print(f"wrote {len(pages)} pages to {folder}")
    return 0


def _contested(name: str) -> ContestedPoint | None:
    from tilewright.contract.rules.interpretations import POINTS

    wanted = name.strip().lower().replace("-", "_")
    return next((point for point in POINTS if point.name == wanted), None)


def _point_words(point: ContestedPoint) -> str:
    rows = (
        ("Strict", point.strict),
        ("Tolerant", point.tolerant),
        ("Rules", ", ".join(point.codes)),
        ("Evidence", "; ".join(point.sources)),
        ("Switch", f"--isa tolerant,{point.name}=strict"),
    )
    lines = [f"contested: {point.name}", "", point.question, *(f"{title}: {text}" for title, text in rows)]
    return "\n".join(lines) + "\n"


def _words(rule: Rule) -> str:
    from tilewright.driver.rules.catalog import points_of, sentence
    from tilewright.driver.rules.rule_examples import rule_examples

    example = rule_examples().get(rule.code)
    lines = [f"{rule.code} {rule.name}", "", sentence(rule.summary), f"Rule: {rule.rule}", f"Source: {rule.source}"]
    if example is None:
        lines += [f"Example: {rule.example}", f"Remedy: {rule.remedy}"]
    else:
        title = f" {example.title}." if example.title else ""
        lines += ["", f"Buggy code:{title}", *_indented(example.buggy, example.buggy_lines, "-")]
        lines += ["", f"Remedy: {rule.remedy}", *_indented(example.fixed, example.fixed_lines, "+")]
        lines += ["", f"Pair: {', '.join(example.files)}"]
        if example.command:
            lines.append(f"Check: {example.command}")
    for point in points_of(rule.code):
        lines += ["", f"Contested: {point.name}. {point.question}", f"  Strict: {point.strict}"]
        lines += [f"  Tolerant: {point.tolerant}", f"  Switch: --isa tolerant,{point.name}=strict"]
    return "\n".join(lines) + "\n"


def _indented(code: str, changed: tuple[int, ...], mark: str) -> list[str]:
    """Code, with a mark before the lines that differ between the buggy and the fixed one."""
    lines = enumerate(code.splitlines(), 1)
    return [f"  {mark if number in changed else ' '} {line}".rstrip() for number, line in lines]
