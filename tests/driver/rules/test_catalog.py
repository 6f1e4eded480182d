"""The catalogue that `explain` prints: every code that a finding can carry is in it, once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tilewright
from tilewright.driver.rules.catalog import all_rules, explain, rule_pages

PACKAGE = Path(tilewright.__file__).parent
DOCS = PACKAGE.parent.parent / "docs" / "rules"

CODE = re.compile(r'"((?:MB|TX|BG|TM|PX|CA|WG|TC|CL|NB|SR|AL|LY|LV|MF)\d{3})"')


def test_no_two_rules_share_a_code() -> None:
    codes = [rule.code for rule in all_rules()]
    assert len(codes) == len(set(codes)) and codes == sorted(codes)


@pytest.mark.parametrize("package", ["contract", "driver", "legal", "machine", "synth", "lower", "frontends"])
def test_every_code_in_the_sources_has_a_rule(package: str) -> None:
    known = {rule.code for rule in all_rules()}
    cited = {
        code for path in (PACKAGE / package).rglob("*.py") for code in CODE.findall(path.read_text(encoding="utf-8"))
    }
    assert cited <= known


def test_names_of_descriptor_rules_are_those_of_legal() -> None:
    names = {rule.code: rule.name for rule in all_rules()}
    pair = re.compile(r'"((?:TM|LY)0\d\d)",\s*"([a-z][a-zA-Z0-9-]*)"')
    text = "".join(path.read_text(encoding="utf-8") for path in (PACKAGE / "legal").rglob("*.py"))
    pairs = set(pair.findall(text))
    assert len({code for code, _ in pairs}) >= 26
    assert all(names[code] == name for code, name in pairs)


def test_every_rule_says_everything() -> None:
    for rule in all_rules():
        assert re.fullmatch(r"[A-Z]{2}\d{3}", rule.code)
        assert re.fullmatch(r"[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*", rule.name), rule.code
        for text in (rule.summary, rule.rule, rule.source, rule.example, rule.remedy):
            assert text and text == text.strip(), rule.code
        assert not rule.summary.endswith("."), rule.code


def test_a_rule_is_found_by_code_and_by_name() -> None:
    (rule,) = explain("tx001")
    assert rule.name == "bytes-do-not-add-up" and explain(rule.name) == (rule,)
    assert explain("TX999") == ()


def test_a_page_is_short() -> None:
    pages = rule_pages()
    assert all(pages[f"{rule.code}.md"].count("\n") <= 80 for rule in all_rules())


def test_the_index_has_every_rule_under_its_family() -> None:
    index = rule_pages()["index.md"]
    for rule in all_rules():
        assert index.count(f"| [{rule.code}]({rule.code}.md) |") == 1, rule.code
        section = index[: index.index(f"[{rule.code}]")].rpartition("\n## ")[2]
        assert section.startswith(f"{rule.code[:2]}: "), rule.code


def test_the_pages_in_the_documentation_are_up_to_date() -> None:
    pages = rule_pages()
    there = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}
    stale = sorted(name for name in pages.keys() | there.keys() if pages.get(name) != there.get(name))
    assert not stale, f"run `python -m tilewright explain --write docs/rules`: {stale}"
