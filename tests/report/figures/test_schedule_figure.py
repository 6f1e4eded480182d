"""Do the text and the trace of a chart show every bar at its place?"""

from __future__ import annotations

from typing import Any, cast

from tilewright.report.figures.figure import Bar, Lane, LaneChart
from tilewright.report.figures.schedule_figure import chart_text, chart_to_trace

CHART = LaneChart(
    "pipe",
    "cycles",
    (
        Lane("engine", (Bar(0, 50, "load 0", 0, "whole"), Bar(50, 100, "load 1", 0))),
        Lane("cores", (Bar(50, 99, "product 0", 1), Bar(99, 100, "x", 7))),
    ),
    ("copy", "tensor"),
    "caption",
)


def test_text_has_a_row_for_each_lane() -> None:
    title, engine, cores, caption = chart_text(CHART, 40).splitlines()
    assert title == "pipe: 100 cycles" and caption == "caption"
    assert engine == "engine |[load 0=============[load 1============="
    assert cores == " cores |                    [product 0=========|"


def test_a_narrow_terminal_still_shows_something() -> None:
    lines = chart_text(CHART, 1).splitlines()
    assert all(len(line) <= 24 for line in lines[1:3]) and "|" in lines[2]


def test_an_empty_chart_is_no_error() -> None:
    assert chart_text(LaneChart("none", "cycles", (), ())) == "none: 1 cycles"


def test_a_trace_has_a_thread_for_each_lane_and_an_event_for_each_bar() -> None:
    trace = chart_to_trace(CHART)
    events = cast("list[dict[str, Any]]", trace["traceEvents"])
    whole = [event for event in events if event["ph"] == "X"]
    assert [(event["name"], event["tid"], event["ts"], event["dur"]) for event in whole] == [
        ("load 0", 1, 0, 50),
        ("load 1", 1, 50, 50),
        ("product 0", 2, 50, 49),
        ("x", 2, 99, 1),
    ]
    assert [event["cat"] for event in whole] == ["copy", "copy", "tensor", "else"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert names == {1: "engine", 2: "cores"}
