"""The figure of all suites is of the result files, and each case stands at its ratio."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from bench.overview_plot import SuiteRatios, overview_plot
from bench.page import FIGURE, figure


def _circles(svg: str, kind: str) -> list[float]:
    return [float(x) for x in re.findall(rf'<circle class="{kind}" cx="([\d.]+)"[^>]*><title>', svg)]


def test_the_figure_is_of_the_result_files_there() -> None:
    assert FIGURE.read_text("utf-8") == figure(), "write it anew with python -m bench.page"


def test_every_case_has_a_dot_on_its_side_of_one() -> None:
    svg = overview_plot([SuiteRatios("a & b", (0.95, 1.0, 2.0, 50.0), 1.5, 1.1), SuiteRatios("c", (1.2,), 1.2, None)])
    ElementTree.fromstring(svg)
    ahead, behind = _circles(svg, "ahead"), _circles(svg, "behind")
    assert len(ahead) == 4 and len(behind) == 1
    assert behind[0] < ahead[0] < ahead[1] < ahead[2]
    assert "a &amp; b" in svg and ">1.500<" in svg
    # A goal for one suite, and the legend's.
    assert svg.count('class="goal"') == 2


def test_both_colour_schemes_have_a_background_of_their_own() -> None:
    svg = overview_plot([SuiteRatios("a", (1.0,), 1.0, None)])
    assert 'class="page"' in svg and svg.count(".page{fill:") == 2 and "prefers-color-scheme:dark" in svg
