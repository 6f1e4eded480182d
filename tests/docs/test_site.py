"""Is the site whole? Every page stands in its navigation, every public name in its reference, links leave docs/ well.

`make lint` builds the site strictly; what mkdocs cannot see is checked here."""

from __future__ import annotations

import importlib.util
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from tests.docs import command_page
from tests.docs.pages import ROOT, text_of

import tilewright

_NAMED = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
_REFERENCE = sorted((ROOT / "docs" / "reference").glob("*.md"))


def _hook() -> ModuleType:
    found = importlib.util.spec_from_file_location("outside_links", ROOT / "docs_site" / "outside_links.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def _named() -> list[str]:
    return [name for page in _REFERENCE for name in _NAMED.findall(page.read_text("utf-8"))]


def test_the_reference_has_every_public_name() -> None:
    assert {f"tilewright.{name}" for name in tilewright.__all__} <= set(_named())


@pytest.mark.parametrize("name", [name for name in _named() if "integrations" not in name])
def test_the_reference_names_what_there_is(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    assert getattr(import_module(module), attribute) is not None


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="argparse prints options otherwise since Python 3.13")
def test_the_page_of_commands_is_current() -> None:
    current = command_page.PAGE.read_text("utf-8")
    assert current == command_page.page(), "run `python -m tests.docs.command_page`"


def test_the_page_of_commands_has_every_command() -> None:
    page = command_page.page()
    assert {"check", "explain", "tensormap"} <= set(command_page.commands())
    assert all(f"\n## {name}\n" in page for name in command_page.commands())


def test_the_navigation_has_every_page() -> None:
    """Of the pages that a reader may look for; those of single rules are reached from their index."""
    named = set(re.findall(r": ([\w/.-]+\.md)$", text_of("mkdocs.yml"), re.MULTILINE))
    docs = ROOT / "docs"
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md") if page.parent.name != "rules"}
    assert named == pages | {"rules/index.md"}


def _site(markdown: str, page: str = "docs/how-to/check-a-kernel.md") -> tuple[str, list[str]]:
    return _hook().for_site(
        markdown,
        ROOT / page,
        repository="https://example.org/project/",
        on_site=lambda path: path == ROOT / "docs" / "check.md",
    )


def test_links_out_of_the_site_lead_to_the_repository() -> None:
    text, missing = _site("[a](../../README.md#install) [b](../check.md#verdicts) [c](../bugs) [d](https://x.org/a.md)")
    assert text == (
        "[a](https://example.org/project/blob/main/README.md#install) [b](../check.md#verdicts) "
        "[c](https://example.org/project/tree/main/docs/bugs) [d](https://x.org/a.md)"
    )
    assert not missing


def test_a_dead_link_is_noticed() -> None:
    assert _site("[a](../nowhere.md) [b](../../../../etc/hosts)")[1] == ["../nowhere.md", "../../../../etc/hosts"]


def test_blocks_lose_their_marks_and_keep_their_text() -> None:
    block = "```text from=check-ring\n[a](../../README.md)\n```\n"
    assert _site(f"{block}[a](../../README.md)\n")[0] == (
        "```text\n[a](../../README.md)\n```\n[a](https://example.org/project/blob/main/README.md)\n"
    )


def test_pages_use_no_links_that_the_site_does_not_know() -> None:
    """The hook reads inline links alone."""
    for page in (ROOT / "docs").rglob("*.md"):
        assert not re.search(r"^\[[^\]]+\]: ", page.read_text("utf-8"), re.MULTILINE), Path(page).name
