"""One launch of a pipeline, judged: findings, doubts, turns and repetition of its loops."""

from __future__ import annotations

import pytest
from tests.driver.checked_kernels import pipe

from tilewright.base.plan import Launch, PointerParam, ScalarParam
from tilewright.contract.rules.interpretations import tolerant
from tilewright.driver.launch.judge_launch import LaunchJudgement, judge_launch

_BUFFERS = {"source": 1 << 16, "out": 1 << 16}


def _judged(steps: int, old: str = "", new: str = "", ctas: int = 1, **options: object) -> LaunchJudgement:
    module, _ = pipe(old, new)
    params = (PointerParam("source"), PointerParam("out"), ScalarParam("i32", steps), ScalarParam("i32", 64))
    launch = Launch("pipe", (ctas, 1, 1), (64, 1, 1), params)
    return judge_launch(module, launch, _BUFFERS, tolerant(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 40])
def test_a_correct_pipeline_is_clean(steps: int) -> None:
    judged = _judged(steps)
    assert judged.complete and not judged.errors and not judged.doubts
    assert max(judged.turns.values(), default=0) == steps


def test_its_loops_repeat_every_four_turns() -> None:
    judged = _judged(40)
    assert {each.reason for each in judged.repeats.values()} == {None}
    assert [each.period for each in judged.repeats.values()] == [4, 4]
    assert all("every 4 iterations" in each.said for each in judged.repeats.values())


@pytest.mark.parametrize("lane", [1, 7, 31])
def test_a_loop_of_one_lane_repeats_whichever_lane_that_is(lane: int) -> None:
    judged = _judged(40, "setp.eq.u32 %p1, %r3, 0;", f"setp.eq.u32 %p1, %r3, {lane};")
    assert judged.complete and not judged.errors
    assert len(judged.repeats) == 2 and {each.reason for each in judged.repeats.values()} == {None}


_READERS = """    @%p1 mbarrier.init.shared::cta.b64 [bars+16], 32;
    @%p1 mbarrier.init.shared::cta.b64 [bars+24], 32;
    @%p1 fence.mbarrier_init.release.cluster;
    bar.sync 0;
"""
_LESS = """    setp.ge.u32 %p5, %r3, LAST;
    @%p5 bra DONE;
"""


@pytest.mark.parametrize("lanes", [1, 2, 4, 24])
def test_a_loop_of_some_lanes_repeats(lanes: int) -> None:
    fewer = _READERS.replace("], 32;", f"], {lanes};") + _LESS.replace("LAST", str(32 + lanes))
    judged = _judged(40, _READERS, fewer)
    assert judged.complete and not judged.errors
    assert len(judged.repeats) == 2 and {each.reason for each in judged.repeats.values()} == {None}


def test_a_threshold_that_the_run_never_met_keeps_the_loop_from_repeating() -> None:
    judged = _judged(
        40,
        "    ld.shared.b32 %r12, [%r10];",
        "    setp.eq.u32 %p5, %r4, 1000;\n    @%p5 bra FULL;\n    ld.shared.b32 %r12, [%r10];",
    )
    assert not judged.errors
    assert any(each.reason and "before they met" in each.reason for each in judged.repeats.values())


def test_a_missing_release_is_found() -> None:
    judged = _judged(4, "    mbarrier.arrive.shared::cta.b64 _, [%r8+16];\n", "")
    assert {finding.code[:2] for finding in judged.errors} <= {"MB", "LV"} and judged.errors


def test_a_branch_on_data_is_a_doubt_and_nothing_is_refuted_by_it() -> None:
    judged = _judged(
        4, "    mbarrier.arrive.shared::cta.b64 _, [%r8+16];",
        "    setp.eq.u32 %p5, %r12, 7;\n    @%p5 mbarrier.arrive.shared::cta.b64 _, [%r8+16];",
    )  # fmt: skip
    assert not judged.errors
    assert any("depends on data" in doubt for doubt in judged.doubts)


def test_made_up_addresses_make_no_race_in_global_memory() -> None:
    assert {finding.code for finding in _judged(2, ctas=2).errors} == {"CL101"}
    assert not _judged(2, ctas=2, any_global_address=True).errors


def test_a_trap_of_the_kernel_is_seen_as_its_own_assertion() -> None:
    start = "    mov.u32 %r4, 0;"
    judged = _judged(9, start, start + "\n    setp.gt.u32 %p6, %r1, 8;\n    @%p6 trap;")
    assert judged.asserted is not None and "trap" in judged.asserted.text
    assert _judged(8, start, start + "\n    setp.gt.u32 %p6, %r1, 8;\n    @%p6 trap;").asserted is None


def test_an_access_beyond_shared_memory_is_an_overrun_and_one_beyond_a_buffer_is_none() -> None:
    start = "    mov.u32 %r4, 0;"
    judged = _judged(9, start, start + "\n    mad.lo.u32 %r20, %r1, 65536, 0;\n    ld.shared.b32 %r21, [%r20];")
    assert judged.overrun is not None
    assert _judged(2).overrun is None
