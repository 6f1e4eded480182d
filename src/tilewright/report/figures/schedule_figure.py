"""How is a chart of lanes shown as lines of text, and as a Chrome trace with durations?

The chart is `figure.LaneChart`, which `figure.draw` draws as SVG. As text, a lane is a row of characters, a bar what
of its label fits; bars narrower than a character still show. As a trace (source: "Trace Event Format" of the Chromium
project), a unit of the chart is a microsecond, since the format has no cycles. Checked by:
tests/report/figures/test_schedule_figure.py.
"""

from __future__ import annotations

from tilewright.report.figures.figure import Bar, LaneChart

_MIN_COLUMNS = 16


def chart_text(chart: LaneChart, columns: int = 96) -> str:
    """The chart as lines of at most about `columns` characters beside the lanes' names."""
    columns = max(columns, _MIN_COLUMNS)
    last = max((bar.end for lane in chart.lanes for bar in lane.bars), default=1.0)
    names = max((len(lane.name) for lane in chart.lanes), default=0)
    lines = [f"{chart.title}: {last:g} {chart.unit}"]
    for lane in chart.lanes:
        row = [" "] * columns
        for bar in sorted(lane.bars, key=lambda bar: bar.begin):
            begin = min(columns - 1, int(bar.begin / last * columns))
            width = max(1, min(columns, int(bar.end / last * columns)) - begin)
            row[begin : begin + width] = _bar_text(bar.label, width)
        lines.append(f"{lane.name:>{names}} |{''.join(row).rstrip()}")
    if chart.caption:
        lines.append(chart.caption)
    return "\n".join(lines)


def _bar_text(label: str, width: int) -> list[str]:
    if width == 1:
        return ["|"]
    inside = label[: width - 1].ljust(width - 1, "=")
    return list(f"[{inside}")


def chart_to_trace(chart: LaneChart) -> dict[str, object]:
    """The chart as a trace for ui.perfetto.dev: each lane a thread, each bar a complete event."""
    events: list[dict[str, object]] = [_name("process_name", chart.title, 0)]
    for thread, lane in enumerate(chart.lanes, start=1):
        events.append(_name("thread_name", lane.name, thread))
        events.append({"name": "thread_sort_index", "ph": "M", "pid": 1, "tid": thread, "args": {"sort_index": thread}})
        events += [_event(bar, thread, chart.legend) for bar in lane.bars]
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"time": f"1 us is 1 of {chart.unit}"}}


def _event(bar: Bar, thread: int, legend: tuple[str, ...]) -> dict[str, object]:
    category = legend[bar.kind] if bar.kind < len(legend) else "else"
    times = {"ts": bar.begin, "dur": bar.end - bar.begin}
    return {
        "name": bar.label, "cat": category, "ph": "X", "pid": 1, "tid": thread, **times, "args": {"detail": bar.detail},
    }  # fmt: skip


def _name(kind: str, name: str, thread: int) -> dict[str, object]:
    return {"name": kind, "ph": "M", "pid": 1, "tid": thread, "args": {"name": name}}
