"""Tables read section by section say what they say when they are read at once."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tilewright.base.error import TilewrightError
from tilewright.targets.sections import Sections, table_text

_DATA = Path(__file__).parents[2] / "src" / "tilewright" / "targets" / "data"
_TABLES = sorted(path.stem for path in _DATA.glob("*.toml") if path.stem != "fragments")


@pytest.mark.parametrize("name", _TABLES)
def test_sections_say_what_the_file_says(name: str) -> None:
    text = table_text(name)
    sections = Sections(text, name)
    found: dict[str, object] = {}
    for key, section in sections.items():
        group, dot, row = key.partition(".")
        if dot:
            of_group = found.setdefault(group, {})
            assert isinstance(of_group, dict)
            of_group[row] = section
        else:
            found[group] = section
    assert found == tomllib.loads(text)
    assert len(sections) > 3


def test_a_section_is_parsed_when_it_is_asked_for() -> None:
    sections = Sections("# first\n[one.a]\nx = 1\n[one.b] # a comment\nx = [\n  1, 2,\n]\n[two]\nx = = 3\n", "t.toml")
    assert sections["one.b"] == {"x": [1, 2]}
    assert list(sections) == ["one.a", "one.b", "two"]
    with pytest.raises(TilewrightError, match=r"t\.toml is not TOML: \[two\]"):
        sections["two"]
    with pytest.raises(KeyError):
        sections["three"]


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\n[one]\n",
        "[one]\nx = 1\n[one]\nx = 2\n",
        "[one]\nx = [\n[1, 2]\n]\n",
        '[one]\nx = """\n[two]\n"""\n',
        "[[one]]\nx = 1\n",
        "[one.two.three]\nx = 1\n",
    ],
)
def test_what_cannot_be_cut_at_headers_is_refused(text: str) -> None:
    with pytest.raises(TilewrightError, match=r"t\.toml"):
        list(Sections(text, "t.toml").values())
