"""CTAs that hand data on through flags in global memory: right ones are proven, each spoiled line is refuted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.contract.flag_kernel import PIECES, THREADS, flag_buffers, flag_launch, flag_text

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.plan import Launch
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.judge.order.awaited_words import ALL_RESIDENT, KEPT_RESIDENT, RESIDENT
from tilewright.contract.replay.replay import replay
from tilewright.frontends.ptx.reader import read

WAIT, RELEASE = PIECES["wait"], PIECES["release"]
CIRCLE = """@%p1 bra GO;
add.u32 %r21, %r2, 1; rem.u32 %r21, %r21, %r3; mul.wide.u32 %rd20, %r21, 4; add.u64 %rd20, %rd2, %rd20;
FIRST: ld.acquire.gpu.global.u32 %r22, [%rd20]; setp.ne.u32 %p5, %r22, 1; @%p5 bra FIRST;
GO:
"""
SAME_FLAG = """@!%p2 bra SKIP;
mov.u64 %rd5, %rd2; mul.wide.u32 %rd7, %r1, 8; add.u64 %rd7, %rd1, %rd7;
SKIP:
"""


def judge(
    changed: dict[str, str] | None = None, *, ctas: int = 3, flag: int = 0, programmatic: bool = False,
    seeds: tuple[int, ...] = (0, 1, 2),
) -> Verdict:  # fmt: skip
    module = read(flag_text(**(changed or {})), "flag.ptx")
    launch = flag_launch(ctas, programmatic=programmatic)
    return replay(module, launch, flag_buffers(ctas, flag), seeds=seeds, restored=("flags",))


def findings(verdict: Verdict) -> tuple[Diagnostic, ...]:
    assert isinstance(verdict, Refuted), verdict
    return verdict.findings


@pytest.mark.parametrize("ctas", [1, 2, 5])
def test_sums_are_handed_up(ctas: int) -> None:
    buffers = flag_buffers(ctas)
    verdict = replay(read(flag_text(), "flag.ptx"), flag_launch(ctas), buffers, seeds=range(4), restored=("flags",))
    assert isinstance(verdict, Proven), verdict
    assert (RESIDENT in verdict.assumptions) == (ctas > 1)
    sums = buffers["sums"].view(np.uint32).reshape(ctas, THREADS, 2)
    for cta in range(1, ctas):
        assert (sums[cta, :, 0] == np.arange(THREADS) + THREADS * (cta - 1)).all()
        assert (sums[cta, :, 1] == 2 * cta - 1).all()


HARMLESS = {
    "red in place of st": {"release": "red.release.gpu.global.add.u32 [%rd4], 1;\n"},
    "a fence, then a relaxed store": {"release": "fence.acq_rel.gpu;\n" + RELEASE.replace("release", "relaxed")},
    "relaxed looks, then a fence": {"wait": WAIT.replace("acquire", "relaxed") + "fence.acq_rel.gpu;\n"},
    "a wider scope": {"release": RELEASE.replace("gpu", "sys"), "wait": WAIT.replace("gpu", "sys")},
    "a weak reset": {"reset": "st.global.u32 [%rd5], 0;\n"},
    "until it is no longer 0": {"wait": WAIT.replace("setp.ne.u32 %p4, %r8, 1", "setp.eq.u32 %p4, %r8, 0")},
    "a pause between looks": {
        "wait": WAIT.replace("@%p4 bra WAIT;", "@!%p4 bra OUT;\nnanosleep.u32 20;\nbra WAIT;\nOUT:")},
    "all threads look": {
        "handed": "HANDED:\n@%p3 bra DONE;\n", "reset": "",
        "spread": "bar.sync 1;\n@!%p1 st.relaxed.gpu.global.u32 [%rd5], 0;\n"},
    "by an atomic exchange": {"reset": "atom.relaxed.gpu.global.exch.b32 %r25, [%rd5], 0;\n"},
}  # fmt: skip


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_edits_stay_proven(name: str) -> None:
    verdict = judge(HARMLESS[name])
    assert isinstance(verdict, Proven), verdict


MUTANTS: dict[str, tuple[dict[str, str], set[str]]] = {
    "the release relaxed": ({"release": RELEASE.replace("release", "relaxed")}, {"CL101"}),
    "the release weak": ({"release": "st.global.u32 [%rd4], %r20;\n"}, {"CL101"}),
    "the release of CTA scope": ({"release": RELEASE.replace("gpu", "cta")}, {"CL104"}),
    "the acquire relaxed": ({"wait": WAIT.replace("acquire", "relaxed")}, {"CL101"}),
    "the acquire of CTA scope": ({"wait": WAIT.replace("gpu", "cta")}, {"CL104"}),
    "a fence of CTA scope": (
        {"release": "fence.acq_rel.cta;\n" + RELEASE.replace("release", "relaxed")}, {"CL101"}),
    "the fence after the flag": (
        {"release": RELEASE.replace("release", "relaxed") + "fence.acq_rel.gpu;\n"}, {"CL101"}),
    "no barrier before the release": ({"gather": ""}, {"CL101"}),
    "no barrier after the acquire": ({"spread": ""}, {"CL101"}),
    "released before it is written": ({"gather": "", "write": "@!%p1 " + RELEASE + PIECES["write"], "release": ""},
                                      {"CL101"}),
    "no wait": ({"wait": "", "reset": ""}, {"CL101"}),
    "no release": ({"release": ""}, {"LV104"}),
    "no reset": ({"reset": ""}, {"LV103"}),
    "reset to another value": ({"reset": "st.relaxed.gpu.global.u32 [%rd5], 2;\n"}, {"LV103"}),
    "the wrong value": ({"wait": WAIT.replace(", 1;", ", 2;")}, {"LV104"}),
    "read by the non-coherent path": ({"read": PIECES["read"].replace("global", "global.nc")}, {"CL107"}),
    "read by ldu": ({"read": PIECES["read"].replace("ld.", "ldu.")}, {"CL107"}),
    "waits in a circle": ({"before": CIRCLE}, {"LV104"}),
    "two CTAs take one part": ({"before": SAME_FLAG}, {"CL106", "LV104"}),
    "the part overwritten after the release": ({"release": RELEASE + PIECES["write"]}, {"CL101"}),
    "taken before the flag is seen": ({"spread": "", "taken": "TAKEN:\n", "handed": "HANDED:\n@%p3 bra DONE;\n"
                                       + PIECES["read"] + "@%p1 bra TAKEN;\n", "read": ""}, {"CL101"}),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_spoiled_hand_over_is_refuted(name: str) -> None:
    changed, expected = MUTANTS[name]
    for seed in (0, 1, 2):
        found = {finding.code for finding in findings(judge(changed, seeds=(seed,)))}
        assert found & expected, found


def test_two_ctas_that_take_one_part_in_each_interleaving() -> None:
    changed = {"before": SAME_FLAG}
    found = {finding.code for seed in range(8) for finding in findings(judge(changed, seeds=(seed,)))}
    assert found >= {"LV104"}
    once = "@%p2 bra TAKEN;\n"  # the last CTA sees the flag and leaves it to the other to set it back
    late = {
        finding.code for finding in findings(judge(changed | {"reset": once + PIECES["reset"]}, seeds=tuple(range(8))))
    }
    assert late & {"CL106", "LV104"}


def test_a_circle_says_who_waits_for_what() -> None:
    (finding,) = (each for each in findings(judge({"before": CIRCLE})) if each.code == "LV104")
    assert "nobody has written it" in finding.message
    assert sum("waits for the word of global memory" in line for line in finding.interleaving) == 3


def test_a_flag_that_is_set_from_before_is_not_waited_for() -> None:
    assert {finding.code for finding in findings(judge(flag=1))} & {"CL101", "CL106"}
    verdict = judge(ctas=2, flag=1, seeds=(0, 1, 2, 3, 4))
    assert not isinstance(verdict, Proven)


def test_a_launch_may_say_that_its_ctas_are_resident() -> None:
    launch = replace(flag_launch(), resident=True)
    verdict = replay(read(flag_text(), "flag.ptx"), launch, flag_buffers())
    assert isinstance(verdict, Proven) and KEPT_RESIDENT in verdict.assumptions


def test_waits_for_higher_ctas_ask_for_all_to_be_resident() -> None:
    verdict = judge({
        "before": "add.u64 %rd5, %rd4, 4; add.u64 %rd7, %rd6, 512;\n", "last": "@%p3 bra HANDED;\n",
        "handed": "HANDED:\n@%p2 bra DONE;\n@%p1 bra TAKEN;\n",
    })  # fmt: skip
    assert isinstance(verdict, Proven), verdict
    assert ALL_RESIDENT in verdict.assumptions


def test_the_grid_before_may_use_the_same_flags() -> None:
    wait = "griddepcontrol.wait;\n"
    assert isinstance(judge({"grid_wait": wait}), Proven)
    assert isinstance(judge({"grid_wait": wait}, programmatic=True), Proven)
    for changed in ({}, {"after": wait}, {"handed": wait + PIECES["handed"]}, {"spread": wait + PIECES["spread"]}):
        found = findings(judge(changed, programmatic=True))
        assert {finding.code for finding in found} == {"GD101"}
    assert {"GD101"} == {finding.code for finding in findings(judge({"after": "griddepcontrol.launch_dependents;\n"}))}


def test_one_thread_may_wait_for_the_grid_before_if_the_others_wait_for_it() -> None:
    wait = "setp.eq.u32 %p6, %r1, 1;\n@%p6 griddepcontrol.wait;\n"
    assert isinstance(judge({"grid_wait": wait + "bar.sync 0;\n"}, programmatic=True), Proven)
    found = findings(judge({"grid_wait": wait}, programmatic=True))
    assert {finding.code for finding in found} == {"GD101"}


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "wait",
    [
        WAIT.replace("%r8, 1;", "%r8, %r20;"),
        WAIT + "st.global.u32 [%rd8], %r8;\n",
        "mov.u32 %r21, 0;\nWAIT:\nadd.u32 %r21, %r21, 1;\nsetp.eq.u32 %p5, %r21, 4000;\n@%p5 bra OUT;\n"
        "ld.acquire.gpu.global.u32 %r8, [%rd5];\nsetp.ne.u32 %p4, %r8, 1;\n@%p4 bra WAIT;\nOUT:\n",
    ],
)
def test_a_wait_that_is_not_understood_is_a_doubt(wait: str) -> None:
    assert isinstance(judge({"wait": wait}), Unknown)


def test_several_ctas_that_add_to_one_flag_are_a_doubt() -> None:
    add = "red.release.gpu.global.add.u32 [%rd2], 1;\n"
    two = {"release": add, "handed": "HANDED:\n@!%p2 bra DONE;\n@%p1 bra TAKEN;\n"}
    wait = WAIT.replace("%rd5", "%rd2").replace(", 1;", ", 2;")
    verdict = judge({**two, "wait": wait, "reset": "st.relaxed.gpu.global.u32 [%rd2], 0;\n"})
    assert isinstance(verdict, Unknown), verdict


def test_a_wait_for_a_word_of_shared_memory_is_a_doubt() -> None:
    """By a generic address, which the text does not tell from one of global memory."""
    text = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry shared() {
.reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
.shared .align 4 .b8 flag[4];
mov.u32 %r1, %tid.x;
mov.u32 %r2, flag;
cvt.u64.u32 %rd1, %r2;
cvta.shared.u64 %rd1, %rd1;
setp.ne.u32 %p1, %r1, 0;
@!%p1 st.u32 [%rd1], 0;
bar.sync 0;
setp.ge.u32 %p2, %r1, 32;
@%p2 bra WAIT;
@!%p1 st.release.cta.u32 [%rd1], 1;
bra DONE;
WAIT: ld.acquire.cta.u32 %r3, [%rd1]; setp.ne.u32 %p3, %r3, 1; @%p3 bra WAIT;
DONE: ret;
}
"""
    verdict = replay(read(text, "shared.ptx"), Launch("shared", (1, 1, 1), (64, 1, 1), ()), {}, seeds=(0, 1))
    assert isinstance(verdict, Unknown), verdict
