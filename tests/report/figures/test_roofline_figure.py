"""The drawn roofline: a roof for each memory, a point under each, and words that stand clear of the lines."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from tilewright.report.figures.roofline_figure import Roof, RooflinePlot, draw_roofline
from tilewright.report.figures.text_width import text_width

LARGE = RooflinePlot(
    "tensor cores", 1070e12,
    (Roof("device memory", 4.3e12, 1365.0), Roof("L2 cache", 16.7e12, 42.2, True), Roof("shared memory", 33.5e12, 32)),
    achieved=619e12, words="predicted 222.04 us: 619.0 Top/s",
)  # fmt: skip
SKINNY = RooflinePlot(
    "tensor cores", 1070e12,
    (Roof("device memory", 4.3e12, 15.9, True), Roof("L2 cache", 16.7e12, 14.2), Roof("shared memory", 33.5e12, 12.8)),
    achieved=59.2e12, words="predicted 31.75 us: 59.2 Top/s",
)  # fmt: skip
COMPUTE = RooflinePlot("tensor cores", 1070e12, (Roof("device memory", 4.3e12, 2000.0),), True, 1000e12, "predicted")

Line = tuple[float, float, float, float]


def svg_of(plot: RooflinePlot) -> ElementTree.Element:
    return ElementTree.fromstring(draw_roofline(plot))


def lines(plot: RooflinePlot, kind: str) -> list[Line]:
    found = [each for each in svg_of(plot).iter("line") if each.get("class", "").split()[0] == kind]
    return [(float(e.get("x1", 0)), float(e.get("y1", 0)), float(e.get("x2", 0)), float(e.get("y2", 0))) for e in found]


@pytest.mark.parametrize("plot", [LARGE, SKINNY, COMPUTE])
def test_each_memory_has_a_roof_and_a_point(plot: RooflinePlot) -> None:
    slopes = [each for each in lines(plot, "roof") if each[1] != each[3]]
    assert len(slopes) == len(plot.roofs) and len(lines(plot, "roof")) == len(slopes) + 1
    # The same number of decades up as across.
    ticks = [each for each in lines(plot, "rule") if each[0] == each[2]]
    decade = ticks[1][0] - ticks[0][0]
    levels = [each for each in lines(plot, "rule") if each[1] == each[3]]
    up = abs(levels[1][1] - levels[0][1])
    for x1, y1, x2, y2 in slopes:
        assert math.isclose((x2 - x1) / decade, (y1 - y2) / up, rel_tol=0.01)
    points = list(svg_of(plot).iter("circle"))
    assert len(points) == len(plot.roofs) and len({each.get("cy") for each in points}) == 1


@pytest.mark.parametrize(("plot", "strong"), [(LARGE, "L2"), (SKINNY, "device"), (COMPUTE, "tensor")])
def test_the_roof_that_bounds_is_drawn_strong(plot: RooflinePlot, strong: str) -> None:
    groups = [g for g in svg_of(plot).iter("g") if any(e.get("class") == "roof bound" for e in g.iter("line"))]
    titles = [title.text or "" for g in groups for title in g.iter("title")]
    assert [title.split(" ")[0] for title in titles] == [strong]


@pytest.mark.parametrize("plot", [LARGE, SKINNY, COMPUTE])
def test_everything_stands_inside_the_figure_and_the_prediction_off_the_slopes(plot: RooflinePlot) -> None:
    root = svg_of(plot)
    _, _, width, height = map(float, root.get("viewBox", "").split())
    for text in root.iter("text"):
        x, y, words = float(text.get("x", 0)), float(text.get("y", 0)), text.text or ""
        begin = {"end": x - text_width(words), "middle": x - text_width(words) / 2}.get(text.get("text-anchor", ""), x)
        assert begin >= 0 and 8 <= y <= height
        if text.get("transform") is None:
            assert begin + text_width(words) <= width + 1, words
        if words == plot.words:
            for x1, y1, x2, y2 in lines(plot, "roof"):
                if y1 == y2:
                    assert y - 11 > y1
                    continue
                here = x1 + (y1 - y) / (y1 - y2) * (x2 - x1)
                assert not begin <= here <= begin + text_width(words) or not y2 <= y <= y1, "a slope runs through it"


def test_nothing_predicted_draws_no_point() -> None:
    plot = RooflinePlot("arithmetic", 66e12, (Roof("device memory", 4.3e12, 0.25, True),))
    assert not list(svg_of(plot).iter("circle")) and not re.search("predicted", draw_roofline(plot))
