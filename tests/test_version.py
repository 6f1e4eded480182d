"""One version everywhere: the distribution, the command line, reports, the citation, the changes, pages and hooks."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date

import pytest

import tilewright
from tests.core_environment import ROOT, project
from tests.docs.pages import PAGES, text_of
from tilewright.report.findings.sarif import check_to_sarif

VERSION = project()["version"]
HOME = project()["urls"]["Homepage"]


def test_the_package_has_the_distribution_s_version() -> None:
    assert tilewright.__version__ == VERSION


def test_the_command_line_says_it() -> None:
    done = subprocess.run([sys.executable, "-m", "tilewright", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"tilewright {VERSION}\n"


def test_reports_carry_it() -> None:
    (run,) = check_to_sarif((), version=tilewright.__version__, rules=())["runs"]  # type: ignore[misc]
    assert run["tool"]["driver"]["version"] == VERSION


def test_the_citation_has_it_and_the_changes_have_its_date() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    fields = dict(re.findall(r'^([a-z-]+): "?(.+?)"?$', citation, re.MULTILINE))
    assert fields["version"] == VERSION
    assert fields["license"] == project()["license"]
    assert fields["repository-code"] == HOME
    released = re.search(rf"^## \[{re.escape(VERSION)}\] - (\S+)$", text_of("CHANGELOG.md"), re.MULTILINE)
    assert released, "no section of this version"
    assert released[1] == fields["date-released"] == date.fromisoformat(released[1]).isoformat()


def test_the_changes_have_an_unreleased_section_before_it() -> None:
    headings = re.findall(r"^## \[(.+?)\]", text_of("CHANGELOG.md"), re.MULTILINE)
    assert headings[:2] == ["Unreleased", VERSION]


NAMED = re.compile(r"(?:tilewright@v|rev: v|\"tool\": \"tilewright |tilewright==)([0-9][0-9.]*)")


@pytest.mark.parametrize("page", PAGES)
def test_pages_name_no_other_version(page: str) -> None:
    assert set(NAMED.findall(text_of(page))) <= {VERSION}


def test_pages_name_it_at_all() -> None:
    assert NAMED.findall(text_of("docs/how-to/check-in-ci.md"))


def test_the_repository_has_one_address_and_no_placeholder() -> None:
    every = [ROOT / page for page in PAGES]
    every += [ROOT / name for name in ("action.yml", ".pre-commit-hooks.yaml", "CITATION.cff", "pyproject.toml")]
    every += sorted((ROOT / "src").rglob("*.py"))
    for path in every:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\b(OWNER|YOUR[-_ ]NAME|TODO|FIXME)\b|example\.com\b", text), path
        for address in re.findall(r"github\.com/[\w.-]+/tilewright\b", text):
            assert f"https://{address}" == HOME, path
