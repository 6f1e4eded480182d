"""A check's report in every format: what is shown, and that nothing of a text reaches a format as its syntax."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

from tilewright.base.check_report import FileReport, KernelReport, Suppressed
from tilewright.base.diagnostic import Diagnostic, Level, Repair
from tilewright.base.span import Span
from tilewright.base.timeline import Arrow, Mark, Timeline
from tilewright.report.figures.timeline_figure import draw_timeline
from tilewright.report.figures.trace import check_to_trace, timelines_to_trace
from tilewright.report.findings.check_json import check_to_json
from tilewright.report.findings.check_page import check_page
from tilewright.report.findings.check_text import render_check
from tilewright.report.findings.finding_lines import View
from tilewright.report.findings.findings_json import finding_to_json
from tilewright.report.findings.github import workflow_commands
from tilewright.report.findings.rule_links import RULE_PAGES, rule_address
from tilewright.report.findings.sarif import check_to_sarif
from tilewright.report.html import render_page

EVIL = "</script><b>\x1b[31m\u202e%0A::error::"
TEXT = "one\ntwo " + EVIL + "\nthree\n"

TIMELINE = Timeline(
    ("CTA 0 producer warp 0", f"lane {EVIL}"),
    (
        Mark(0, 0, 1, "copy", "issues a load", Span("k.ptx", 1, text="one")),
        Mark(1, 1, 4, "wait", EVIL, Span("k.ptx", 2, text="two")),
        Mark(1, 2, 3, "finding", "reads", None),
    ),
    (Arrow(0, 1, "ends the phase"), Arrow(0, 2, "PX101", conflict=True)),
    omitted=3,
)
FINDING = Diagnostic(
    "PX101",
    "write-not-fenced",
    f"first line\nsecond {EVIL}",
    Span("k.ptx", 2, 5, f"two {EVIL}"),
    Span("k.ptx", 1, text="one"),
    ("a step", EVIL),
    "PTX ISA 8.6",
    Repair("add a fence", ((Span("k.ptx", 1, text="one"), "one\nfence.proxy.async;"),), rechecked=True),
    origin=Span("kernel.py", 7),
)
REVIEW = Diagnostic("MB109", "phase-not-waited", "not waited", Span("k.ptx", 3), level=Level.REVIEW)
FILES = (
    FileReport(
        "k.ptx",
        TEXT,
        (
            KernelReport("good", "sm_90a", "proven", "this launch", ("an assumption",), ("a claim",), seconds=0.5),
            KernelReport("bad", "sm_90a", "refuted", findings=(REVIEW, FINDING), timeline=TIMELINE),
            KernelReport(
                "doubtful", "sm_100a", "unknown", reasons=(f"a reason {EVIL}",), suppressed=(Suppressed(FINDING, EVIL),)
            ),
        ),
        (Diagnostic("AW001", "allowance-unused", "nothing there", Span("k.ptx", 3), level=Level.REVIEW),),
    ),
    FileReport("a,b:c%.ptx", error=f"cannot read {EVIL}", error_line=4, remedy="check the path"),
)
NOTED = FileReport("noted.ptx", TEXT, (KernelReport("bad", "sm_90a", "refuted", findings=(FINDING,)),), notes=(EVIL,))
MANY = tuple(f"k.ptx:{line}:{1 + line % 2}: depends on data" for line in range(1, 41))
"""One reason at many places."""
CROWDED = FileReport("k.ptx", TEXT, (KernelReport("k", "sm_90a", "unknown", reasons=(*MANY, *"abcdefg")),))


def test_text_has_errors_first_and_no_control_characters() -> None:
    shown = render_check(FILES)
    assert "k.ptx: good (sm_90a): proven for this launch [0.50 s]" in shown
    assert shown.index("error[PX101]") < shown.index("review[MB109] phase-not-waited: at k.ptx:3")
    assert "compiled from kernel.py:7" in shown and "  allowed PX101: </script>" in shown
    assert "not decided: a reason" in shown and "a,b:c%.ptx:4: error: cannot read" in shown
    assert shown.endswith("3 kernels checked: 1 proven, 1 refuted, 1 unknown, 1 file not checked")
    assert "\x1b" not in shown and "\u202e" not in shown
    assert "+ fence.proxy.async;" in shown and "- one" not in shown
    assert "(at k.ptx:2:5, from kernel.py:7)" in shown


def test_reasons_are_grouped_and_capped_unless_all_are_asked_for() -> None:
    shown = render_check((CROWDED,)).splitlines()
    assert shown[1:-1] == [
        "  not decided: k.ptx:1:2: depends on data (and at 39 more places)",
        "  not decided: a",
        "  not decided: b",
        "  not decided: c",
        "  and 4 more reasons (--all shows them)",
    ]
    assert render_check((CROWDED,), View(everything=True)).count("not decided:") == 47
    document = check_to_json((CROWDED,), tool="tilewright 1")
    assert len(json.loads(json.dumps(document))["files"][0]["kernels"][0]["reasons"]) == 47
    (command,) = workflow_commands((CROWDED,))
    assert command.count("%0A") == 5 and "and 4 more reasons" in command
    assert render_page(check_page((CROWDED,), "")).count("depends on data") == 1
    (note,) = check_to_sarif((CROWDED,), version="1")["runs"][0]["invocations"][0]["toolExecutionNotifications"]  # type: ignore[index]
    assert note["message"]["text"].count("\n") == 8


def test_notes_of_a_file_are_in_every_format() -> None:
    text = render_check((NOTED,))
    assert "noted.ptx: note: </script>" in text and "\x1b" not in text
    assert check_to_json((NOTED,), tool="t")["files"][0]["notes"] == [EVIL]  # type: ignore[index]
    assert any(line.startswith("::notice file=noted.ptx") for line in workflow_commands((NOTED,)))
    assert "Notes on the check." in render_page(check_page((NOTED,), ""))
    (note,) = check_to_sarif((NOTED,), version="1")["runs"][0]["invocations"][0]["toolExecutionNotifications"]  # type: ignore[index]
    assert note["level"] == "note" and note["message"]["text"] == EVIL


def test_json_has_every_key_and_survives_a_round_trip() -> None:
    document = json.loads(json.dumps(check_to_json(FILES, tool="tilewright 1"), allow_nan=False))
    assert (document["version"], document["tool"]) == (1, "tilewright 1")
    first, second = document["files"]
    assert [kernel["verdict"] for kernel in first["kernels"]] == ["proven", "refuted", "unknown"]
    assert all(set(kernel) == set(first["kernels"][0]) for kernel in first["kernels"])
    assert first["kernels"][2]["suppressed"][0]["reason"] == EVIL
    assert second["error"]["line"] == 4 and second["kernels"] == []
    assert first["findings"][0]["code"] == "AW001"


def test_a_remedy_in_words_is_no_repair() -> None:
    advice = finding_to_json(Diagnostic("X", "x", "x", repair=Repair("wait")))
    assert advice["repair"] is None and advice["remedy"] == "wait"
    repair = finding_to_json(FINDING)["repair"]
    assert isinstance(repair, dict) and repair["rechecked"] is True


def test_github_commands_are_one_line_each_and_escaped() -> None:
    lines = workflow_commands(FILES)
    assert len(lines) == 5
    for line in lines:
        assert re.fullmatch(r"::(error|warning) file=[^:]*?(,line=\d+)?(,col=\d+)?,title=[^:,]*::[^\n\r]*", line), line
    assert lines[0].startswith("::warning file=k.ptx,line=3,title=MB109")
    assert lines[1].startswith("::error file=k.ptx,line=2,col=5,title=PX101") and "%250A" in lines[1]
    assert lines[4].startswith("::error file=a%2Cb%3Ac%25.ptx,line=4")


def test_sarif_has_results_suppressions_notifications_and_stable_fingerprints() -> None:
    (run,) = check_to_sarif(FILES, version="1")["runs"]  # type: ignore[misc]
    results = run["results"]
    assert [result["ruleId"] for result in results] == ["MB109", "PX101", "AW001", "PX101"]
    assert [result["level"] for result in results] == ["warning", "error", "warning", "error"]
    assert results[3]["suppressions"][0]["kind"] == "inSource" and "suppressions" not in results[1]
    prints = [result["partialFingerprints"]["tilewright/v1"] for result in results]
    assert len(set(prints)) == 4 and prints[1].split(":")[0] == prints[3].split(":")[0]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False and len(invocation["toolExecutionNotifications"]) == 2
    assert [place["id"] for place in results[1]["relatedLocations"]] == [1, 2]


class _Page(HTMLParser):
    """Tags in order, and text; complains about what does not nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag not in ("meta", "rect", "line", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("meta", "rect", "line", "path"):
            assert self.open.pop() == tag


def test_html_nests_escapes_and_loads_nothing() -> None:
    html = render_page(check_page(FILES, "footer"))
    page = _Page()
    page.feed(html)
    assert page.open == [] and "script" not in page.tags
    assert not any(name in ("src", "onclick") for name, _ in page.attributes)
    links = {value for name, value in page.attributes if name == "href"}
    assert all(link and link.startswith(("#", RULE_PAGES)) for link in links)
    ids = {f"#{value}" for name, value in page.attributes if name == "id"}
    assert {link for link in links if link and link.startswith("#")} <= ids
    assert "1 proven" in html and "1 refuted" in html and "1 not checked" in html
    assert html.count('class="timeline"') == 1 and "3 events are not shown" in html
    # In the table of kernels, too, a code leads to its page.
    assert f'<a href="{rule_address("PX101")}">PX101</a>\u00a0x\u00a01' in html
    # A proven kernel among others is a row of the table, no section.
    assert "<h2>good" not in html and "<h2>bad" in html


def test_a_single_proven_kernel_has_a_section_of_its_own() -> None:
    (file,) = (FileReport("k.ptx", TEXT, FILES[0].kernels[:1]),)
    assert "<h2>good" in render_page(check_page((file,), ""))


def test_timelines_are_drawn_with_arrows_and_tooltips() -> None:
    drawn = draw_timeline(TIMELINE, 'a "title"')
    assert drawn.count('<path class="arrow') == 2 and 'class="arrow conflict"' in drawn
    assert "k.ptx:1\none" in drawn and "the finding" in drawn and "&lt;/script&gt;" in drawn
    # The marks of the second lane overlap in time: one stands below the other.
    tops = re.findall(r'<rect class="k\d" x="[\d.]+" y="([\d.]+)" width="[\d.]+" height="20"', drawn)
    assert len(set(tops)) == 3
    assert draw_timeline(Timeline((), ()), "empty").startswith("<svg")


def test_an_arrow_over_the_first_lane_stays_inside_the_drawing() -> None:
    marks = (Mark(0, 0, 1, "copy", "a", None), Mark(0, 6, 7, "finding", "b", None))
    for conflict in (False, True):
        drawn = draw_timeline(Timeline(("lane",), marks, (Arrow(0, 1, "PX101", conflict=conflict),)), "t")
        (numbers,) = re.findall(r' d="M([\d.]+),([\d.-]+) Q[\d.]+,([\d.-]+) ', drawn)
        _, begin, bend = map(float, numbers)
        # A curve with one control point rises half as high; its stroke and the head of the arrow need room above.
        assert (begin + bend) / 2 >= 4 and begin >= 10


def test_traces_have_names_slices_and_flows() -> None:
    trace = json.loads(json.dumps(check_to_trace(FILES)))
    events = trace["traceEvents"]
    assert [event["ph"] for event in events].count("X") == 3
    assert {event["args"]["name"] for event in events if event["name"] == "thread_name"} == set(TIMELINE.lanes)
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert starts.keys() == ends.keys() and len(starts) == 2
    assert all(starts[key]["ts"] <= ends[key]["ts"] for key in starts)
    assert timelines_to_trace([])["traceEvents"] == []
