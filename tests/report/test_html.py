"""The page: one well-formed file that needs nothing else, in which every text is text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.base.diagnostic import Diagnostic, Repair
from tilewright.base.span import Span
from tilewright.report.figures.figure import Bar, Lane, LaneChart, MemoryMap, Region
from tilewright.report.findings.rule_links import rule_address
from tilewright.report.html import render_page
from tilewright.report.page import (
    Badge,
    Column,
    Excerpt,
    Facts,
    FindingCard,
    Folded,
    Items,
    Link,
    Page,
    Paragraph,
    Section,
    SideBySide,
    SourceLine,
    Table,
    Words,
    excerpt_around,
)

VOID = {"meta", "link", "br", "hr", "img", "line"}


class Checker(HTMLParser):
    """Tags must nest; text is collected."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def page_with(word: str) -> Page:
    """Every kind of block, with `word` everywhere that a text can stand."""
    span = Span(word, 3, 1, word)
    finding = Diagnostic(word, word, word, span, span, (word,), word, Repair(word, cost=word))
    blocks = (
        Paragraph(word),
        Facts(((word, word),)),
        Table((word, word), ((word, word),), (1,)),
        Items((word,)),
        excerpt_around(word, f"a\n{word}\nb\n", {2: "primary"}, replaced={1: word}),
        FindingCard(finding),
        Folded(word, word),
        SideBySide((Column(word, Badge(word, "bad"), (Paragraph(word),)),)),
        MemoryMap(word, 64, (Region(word, word, 0, 64, 0),), word),
        LaneChart(word, word, (Lane(word, (Bar(0, 1, word, 0, word),)),), (word,), word),
    )
    return Page(word, word, (Badge(word, "good"),), (Section(word, blocks, word, Badge(word)),), word)


def check(html: str) -> Checker:
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert checker.open == []
    return checker


def test_nothing_comes_from_elsewhere() -> None:
    html = render_page(page_with("word"))
    checker = check(html)
    assert "script" not in checker.seen and "link" not in checker.seen and "img" not in checker.seen
    assert not {"src", "srcset", "data", "action"} & checker.attributes
    assert not re.search(r"url\(|@import", html)
    targets = re.findall(r'href="([^"]*)"', html)
    assert all(target.startswith("#") or target == rule_address("word") for target in targets)
    assert html.count("https:") == sum(target.startswith("https:") for target in targets)
    assert "prefers-color-scheme: dark" in html


def test_every_colour_has_a_dark_one() -> None:
    html = render_page(page_with("word"))
    light, dark = re.findall(r":root \{(.*?)\}", html, re.DOTALL)[:2]
    assert set(re.findall(r"--\w+", light)) == set(re.findall(r"--\w+", dark))
    assert set(re.findall(r"var\((--\w+)\)", html)) <= set(re.findall(r"--\w+", light))


@given(st.sampled_from(["<script>alert(1)</script>", '"><b onclick="', "</pre></style>", "&lt;", "<!--", "]]>"]))
def test_text_is_never_markup(word: str) -> None:
    checker = check(render_page(page_with(word)))
    assert "script" not in checker.seen and "onclick" not in checker.attributes
    assert any(word in text for text in checker.text)


def test_links_lead_to_sections() -> None:
    html = render_page(page_with("word"))
    for target in re.findall(r'href="#([^"]*)"', html):
        assert f'id="{target}"' in html


@pytest.mark.parametrize(("count", "links", "folded"), [(1, 0, False), (2, 2, False), (12, 12, False), (13, 13, True)])
def test_navigation_is_left_out_for_one_section_and_folded_for_many(count: int, links: int, folded: bool) -> None:
    sections = tuple(Section(f"kernel {number}", ()) for number in range(count))
    html = render_page(Page("t", "", (), sections))
    check(html)
    assert html.count('<a href="#') == links and ('<details class="contents">' in html) == folded


def test_figures_scroll_inside_a_frame_and_their_captions_do_not() -> None:
    html = render_page(page_with("word"))
    frames = re.findall(r'<div class="frame" tabindex="0".*?</div>', html, re.DOTALL)
    assert len(frames) == html.count("<figure>") == html.count("<svg") == 2
    assert all("<svg" in frame and "figcaption" not in frame for frame in frames)


def test_text_without_numbers_has_no_margin_for_them() -> None:
    plain = Excerpt("k", (SourceLine(None, "one"), SourceLine(None, "two")))
    html = render_page(Page("t", "", (), (Section("s", (plain,)),)))
    assert "<i>" not in html and html.count('<span class="line">') == 2 and 'class="code text"' in html
    assert "<i>" in render_page(Page("t", "", (), (Section("s", (excerpt_around("k", "a", {1: "primary"}),)),)))


def test_a_code_that_begins_a_line_of_text_is_a_link() -> None:
    lines = ("TM011 dim-range: too large", "  see TM011 there", "GH200 is not one: TM9 neither")
    html = render_page(Page("t", "", (), (Section("s", (Excerpt("k", tuple(SourceLine(None, x) for x in lines)),)),)))
    assert f'<a href="{rule_address("TM011")}">TM011</a> dim-range' in html
    assert html.count("TM011</a>") == 1 and "see TM011 there" in html


def test_a_cell_can_lead_to_several_places() -> None:
    row = (Words((Link("A", "#s1"), " x 1, ", Link("<B>", "#s1"))),)
    html = render_page(Page("t", "", (), (Section("s", (Table(("h",), (row,)),)),)))
    assert '<td><a href="#s1">A</a> x 1, <a href="#s1">&lt;B&gt;</a></td>' in html


def test_an_excerpt_shows_marks_gaps_and_what_was_there() -> None:
    text = "\n".join(f"line {number}" for number in range(1, 31))
    excerpt = excerpt_around("k", text, {5: "primary", 20: "conflict"}, context=1, replaced={6: "was here"})
    assert [line.number for line in excerpt.lines] == [4, 5, None, 6, 7, 19, 20, 21]
    assert [line.mark for line in excerpt.lines] == ["", "primary", "removed", "", "", "", "conflict", ""]
    html = render_page(Page("t", "", (), (Section("s", (excerpt,)),)))
    assert html.count('class="gap"') == 1


def test_an_excerpt_of_a_line_dropped_at_the_end() -> None:
    excerpt = excerpt_around("k", "a\nb\n", {}, replaced={3: "c"})
    assert isinstance(excerpt, Excerpt)
    assert [(line.number, line.text) for line in excerpt.lines] == [(1, "a"), (2, "b"), (None, "c")]
