"""What is a timeline as a Chrome trace, which ui.perfetto.dev and chrome://tracing show?

Source: "Trace Event Format" (the Chromium project): complete events (`X`), flow events (`s`, `f`) for arrows, metadata
(`M`) for names. A kernel is a process, a lane a thread, a unit of logical time a microsecond, since the format has no
unit of its own for order. Checked by: tests/report/test_check_report.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.base.check_report import FileReport
from tilewright.base.timeline import Timeline


def check_to_trace(files: Iterable[FileReport]) -> dict[str, object]:
    """All timelines of a check as one trace; kernels without one are left out."""
    kernels = [
        (f"{file.path}: {kernel.name}", kernel.timeline)
        for file in files
        for kernel in file.kernels
        if kernel.timeline is not None
    ]
    return timelines_to_trace(kernels)


def timelines_to_trace(timelines: Sequence[tuple[str, Timeline]]) -> dict[str, object]:
    """Named timelines as a trace."""
    events: list[dict[str, object]] = []
    for process, (name, timeline) in enumerate(timelines, start=1):
        events.append(_name("process_name", name, process, 0))
        events += [_name("thread_name", lane, process, thread) for thread, lane in enumerate(timeline.lanes, start=1)]
        for thread in range(1, len(timeline.lanes) + 1):
            order: dict[str, object] = {"name": "thread_sort_index", "ph": "M", "pid": process, "tid": thread}
            events.append({**order, "args": {"sort_index": thread}})
        for mark in timeline.marks:
            place: dict[str, object] = {}
            if mark.span is not None:
                place = {"file": mark.span.file, "line": mark.span.line, "text": mark.span.text.strip()}
            events.append(
                {
                    "name": mark.label, "cat": mark.kind, "ph": "X", "pid": process, "tid": mark.lane + 1,
                    "ts": mark.begin, "dur": max(1, mark.end - mark.begin), "args": place,
                }
            )  # fmt: skip
        for number, arrow in enumerate(timeline.arrows):
            source, target = timeline.marks[arrow.source], timeline.marks[arrow.target]
            kind = "conflict" if arrow.conflict else "order"
            flow: dict[str, object] = {"name": arrow.label, "cat": kind, "id": f"{process}.{number}", "pid": process}
            events.append({**flow, "ph": "s", "tid": source.lane + 1, "ts": max(source.begin, source.end - 1)})
            # Bound to the slice that encloses its end, which begins at that time.
            events.append(
                {**flow, "ph": "f", "bp": "e", "tid": target.lane + 1, "ts": max(target.begin, target.end - 1)}
            )
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"time": "order of events, no duration"}}


def _name(kind: str, name: str, process: int, thread: int) -> dict[str, object]:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
