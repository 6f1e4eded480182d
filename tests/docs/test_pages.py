"""Is what the documentation shows true? Code runs, outputs are real, commands parse, links lead somewhere."""

from __future__ import annotations

import linecache
import re
import shlex
from pathlib import Path

import pytest
from tests.docs.outputs import OUTPUTS, first_missing, output
from tests.docs.pages import PAGES, ROOT, Block, all_blocks, blocks_of, links_of, text_of

from tilewright.cli.main import build_parser
from tilewright.driver.rules.catalog import all_rules
from tilewright.runtime.device import probe_libcuda

BLOCKS = all_blocks()


def test_blocks_are_marked_with_known_words() -> None:
    known = {"run", *(f"from={name}" for name in OUTPUTS)}
    for block in BLOCKS:
        assert set(block.words[1:]) <= known, f"{block}: {block.words}"


@pytest.mark.sample(3)
@pytest.mark.parametrize("page", [page for page in PAGES if any("run" in block.words for block in blocks_of(page))])
def test_code_of_a_page_runs_in_order(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks_of(page):
        if "run" in block.words:
            # Lines count as in the page, so that an error names the page's line.
            source = "\n" * (block.line - 1) + block.body
            linecache.cache[page] = (len(source), None, source.splitlines(keepends=True), page)
            exec(compile(source, page, "exec"), names)


@pytest.mark.sample(7)
@pytest.mark.parametrize("block", [block for block in BLOCKS if block.source], ids=str)
def test_output_is_real(block: Block) -> None:
    if block.source == "demo" and probe_libcuda() is None:
        pytest.skip("with a GPU the demo runs there, and the page shows it without")
    missing = first_missing(block.body, output(block.source))
    assert not missing, f"{block}: not in the output {block.source!r}, in this order: {missing}"


def test_a_line_that_is_not_there_is_noticed() -> None:
    lines = ("first", "second line", "third")
    assert first_missing("first\n...\nthird\n", lines) == ""
    assert first_missing("second ...\n", lines) == ""
    assert first_missing("third\n...\nfirst\n", lines) == "first"
    assert first_missing("first\nthird\n", lines) == "third"
    assert first_missing("second\n", lines) == "second"


def command_lines() -> list[str]:
    lines: list[str] = []
    for block in BLOCKS:
        if block.words[0] in ("sh", "console"):
            for line in block.body.splitlines():
                line = line.removeprefix("$ ").split("#")[0].strip()
                if line.startswith("tilewright "):
                    lines.append(line)
    return lines


def test_commands_parse() -> None:
    assert command_lines()
    for line in command_lines():
        words = shlex.split(line)
        words = words[: words.index(">")] if ">" in words else words
        build_parser().parse_args(words[1:])
        for word in words:
            if word.startswith(("examples/", "docs/")):
                assert (ROOT / word.partition(":")[0]).exists(), line


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str) -> None:
    for target in links_of(page):
        assert (ROOT / page).parent.joinpath(target).exists(), f"{page} links to {target}"


def test_codes_in_pages_exist() -> None:
    """Every code that a page names in backquotes is one that `explain` knows."""
    known = {rule.code for rule in all_rules()}
    for page in PAGES:
        for code in re.findall(r"`([A-Z]{2}\d{3})`", text_of(page)):
            assert code in known, f"{page} names {code}"


def test_the_index_has_every_page() -> None:
    linked = {(ROOT / "docs" / target).resolve() for target in links_of("docs/README.md")}
    for page in PAGES:
        if page.startswith("docs/") and page != "docs/README.md":
            assert (ROOT / page).resolve() in linked, f"docs/README.md does not lead to {page}"
