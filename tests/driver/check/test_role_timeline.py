"""Timelines: lanes by role, waits with what ended them, the places of a finding marked and joined."""

from __future__ import annotations

from pathlib import Path

from tests.cli.checked_texts import NO_FENCE, launch_document
from tests.contract.replay_kernels import copy_text

from tilewright.base.timeline import Timeline
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.check.role_timeline import TimelineRecorder
from tilewright.driver.launch.launch_file import launch_from_json


def timeline(**changed: str) -> Timeline:
    launch = launch_from_json(launch_document(), "launch.json")
    report = check_text(copy_text(**changed), launch=launch, options=CheckOptions(timeline=True))
    found = report.kernels[0].timeline
    assert found is not None
    return found


def test_lanes_are_roles() -> None:
    found = timeline()
    assert found.lanes == ("CTA 0 producer warp 0", "CTA 0 store warp 1", "CTA 0 copy engine")
    assert {mark.kind for mark in found.marks} >= {"copy", "signal", "wait", "access"}
    assert all(0 <= mark.begin < mark.end and 0 <= mark.lane < len(found.lanes) for mark in found.marks)


def test_a_copy_lasts_until_its_bytes_are_reported_and_a_wait_points_at_what_ended_it() -> None:
    found = timeline()
    loads = [mark for mark in found.marks if mark.lane == 2 and mark.label.startswith("loads")]
    assert len(loads) == 4 and all(mark.label == "loads 512 bytes" for mark in loads)
    waits = [arrow for arrow in found.arrows if found.marks[arrow.target].kind == "wait"]
    assert any(found.marks[arrow.source].label.startswith("loads") for arrow in waits)


def test_the_places_of_a_finding_are_marked_and_joined() -> None:
    found = timeline(**NO_FENCE)
    assert any(mark.kind == "finding" for mark in found.marks)
    (conflict,) = [arrow for arrow in found.arrows if arrow.conflict]
    lines = {found.marks[index].span.line for index in (conflict.source, conflict.target) if found.marks[index].span}
    text = copy_text(**NO_FENCE).splitlines()
    assert any(text[line - 1].startswith("st.shared") for line in lines)


def test_the_warps_that_the_words_name_are_marked() -> None:
    """Two warps write, and one of them is the copy's issuer, which is what the finding is about."""
    path = Path(__file__).parents[3] / "docs" / "bugs" / "store-without-a-proxy-fence" / "buggy.ptx"
    kernel = check_text(path.read_text("utf-8"), str(path), options=CheckOptions(timeline=True)).kernels[0]
    found, finding = kernel.timeline, kernel.errors[0]
    assert found is not None
    marked = {found.lanes[mark.lane] for mark in found.marks if mark.kind == "finding"}
    assert marked == {"CTA 0 store warp 0"} and all(lane in finding.message for lane in marked)


def test_a_kernel_without_a_launch_has_one_too() -> None:
    text = copy_text(expect="mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r12], 1024;\n")
    text = text.replace(".param .u32 steps)", ".param .u32 steps) .reqntid 64")
    kernel = check_text(text, options=CheckOptions(timeline=True)).kernels[0]
    assert kernel.timeline is not None and "CTA 0 producer warp 0" in kernel.timeline.lanes


def test_a_run_without_events_is_an_empty_timeline() -> None:
    assert TimelineRecorder().timeline() == Timeline((), (), (), 0)
