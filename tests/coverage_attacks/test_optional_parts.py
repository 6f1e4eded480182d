"""Bugs of persistent products whose loops are one, each with a twin that does not have it.

A proof by the kernels with all episodes and with none speaks of any number of slices in a tile, and of any slot of the
ring that a tile begins with. No bug may be proven; a twin may stay unknown, and those that are proven are named.
"""

from __future__ import annotations

import pytest

from tests.coverage_attacks.flattened_tiles import PARTS, kernel
from tests.coverage_attacks.kernel_parts import is_proven_by_made_kernels
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.explore.judge_unlaunched import sliced_of
from tilewright.driver.explore.segments.optional_part import optional_parts
from tilewright.frontends.ptx.reader import read
from tilewright.machine.protocol.slicing.steering import steering

_Parts = dict[str, str]
_ONE = "add.u32 %r_c1, %r_c1, 1; "
_WAIT = "cp.async.bulk.wait_group.read 0; "
_SUMS = PARTS["SUMS"]
_STAGE_AT = "st.shared.b32 [%r_stage{0}], %f_0; st.shared.b32 [%r_stage{0}+512], %f_1; "
_STORE_FROM = PARTS["STORE"].replace("[%r_staged]", "[%r_from]")
_COUNTED = "add.u32 %r_c1, %r_c1, 1; setp.{} %p_z, %r_c1, {}; "


def _skipped(condition: str, what: str) -> str:
    """What is done unless `%p_z` holds, which a condition computes."""
    return f"{condition}@%p_z bra KEPT; {what}KEPT: "


PAIRS: dict[str, tuple[_Parts, _Parts]] = {
    # What one tile's end leaves to the next one's
    "the staged tile may still be read": ({"FREE": "bar.sync 0; "}, {}),
    "one store too many may be under way": (
        {"FREE": "cp.async.bulk.wait_group.read 1; bar.sync 0; "},
        {"FREE": "cp.async.bulk.wait_group 0; bar.sync 0; "},
    ),
    "other warps stage before the store is waited for": (
        {"FREE": f"{_WAIT}"},
        {"FREE": f"@%p_t {_WAIT}bar.sync 0; ",
         "STORE": PARTS["STORE"].replace("cp.async.bulk.commit", "@%p_t cp.async.bulk.commit"),
         "END": f"@%p_t cp.async.bulk.wait_group 0; {_SUMS}bar.sync 0; "},
    ),
    "the store is issued before all have staged": (
        {"STAGED": "fence.proxy.async; "},
        {"STAGED": "fence.proxy.async; bar.sync 0; bar.sync 0; "},
    ),
    "nothing carries what was staged to the async proxy": (
        {"STAGED": "bar.sync 0; "},
        {"STAGED": "fence.proxy.async.shared::cta; bar.sync 0; "},
    ),
    "the store is in no group": (
        {"STORE": PARTS["STORE"].replace("cp.async.bulk.commit_group; ", "")},
        {"STORE": PARTS["STORE"] + "cp.async.bulk.commit_group; "},
    ),
    "the fifth tile does not wait": (
        {"FREE": _skipped(_COUNTED.format("eq.u32", 5), _WAIT) + "bar.sync 0; "},
        {"ITERATION": "mov.u32 %r_five, 5; ",
         "FREE": _skipped("setp.eq.u32 %p_z, %r_five, 6; ", _WAIT) + "bar.sync 0; "},
    ),
    "a tile that follows the next but one does not wait": (
        {"ITERATION": _ONE, "FREE": _skipped("setp.eq.u32 %p_z, %r_c1, 2; ", _WAIT) + "bar.sync 0; mov.u32 %r_c1, 0; "},
        {"ITERATION": _ONE, "FREE": f"{_WAIT}bar.sync 0; "},
    ),
    "a tile of more than four slices does not wait": (
        {"ITERATION": _ONE, "FREE": _skipped("setp.gt.u32 %p_z, %r_c1, 4; ", _WAIT) + "bar.sync 0; mov.u32 %r_c1, 0; "},
        {"ITERATION": _ONE, "FREE": f"{_WAIT}bar.sync 0; "},
    ),
    "buffers alternate, and each waits for the other": (
        {"FREE": "cp.async.bulk.wait_group.read 2; bar.sync 0; xor.b32 %r_c1, %r_c1, 0x2000; ",
         "STAGE": "add.u32 %r_to, %r_stage, %r_c1; st.shared.b32 [%r_to+4096], %f_0; ",
         "STORE": "add.u32 %r_from, %r_staged, %r_c1; add.u32 %r_from, %r_from, 4096; " + _STORE_FROM},
        {},
    ),
    # What a tile's end does with the sums
    "sums are read while the last product runs": ({"SUMS": "wgmma.wait_group.sync.aligned 1; "}, {"SUMS": _SUMS * 2}),
    "sums are read without a wait": (
        {"SUMS": ""},
        {"SUMS": "", "MULTIPLIED": f"{_SUMS}bar.sync 0; "},
    ),
    "sums are begun anew before they are read": (
        {"SUMS": "mov.b32 %f_0, 0; mov.b32 %f_1, 0; " + _SUMS},
        {"ANEW": "mov.b32 %f_0, 0; mov.b32 %f_1, 0; "},
    ),
    # What a tile's end has in common with the ring
    "a tile is staged in a slot of the ring": (
        {"STAGE": _STAGE_AT.format("-4096"),
         "STORE": "sub.u32 %r_from, %r_staged, 4096; " + _STORE_FROM},
        {"STAGE": _STAGE_AT.format(""), "STORE": "add.u32 %r_from, %r_staged, 0; " + _STORE_FROM},
    ),
    "the last thread stages beyond its place, in the first slot": (
        {"STAGE": "setp.eq.u32 %p_z, %r_tid, 127; @%p_z st.shared.b32 [buf], %f_0; " + PARTS["STAGE"]},
        {"STAGE": "setp.eq.u32 %p_z, %r_tid, 127; @%p_z st.shared.b32 [%r_stage], %f_0; " + PARTS["STAGE"]},
    ),
    "a barrier of the ring is written": (
        {"STAGE": "@%p_t st.shared.b32 [%r_bars+16], %r_c2; " + PARTS["STAGE"]},
        {},
    ),
    "a tile is stored out of a slot": (
        {"STORE": "sub.u32 %r_from, %r_staged, 8192; " + _STORE_FROM},
        {"STORE": "mov.u32 %r_from, %r_staged; " + _STORE_FROM},
    ),
    "the ninth iteration's store is longer": (
        {"ITERATION": "setp.eq.u32 %p_z, %r_i, 8; selp.b32 %r_v, 2048, 1024, %p_z; ",
         "STORE": PARTS["STORE"].replace("1024", "%r_v")},
        {"ITERATION": "mov.u32 %r_long, 1024; ", "STORE": PARTS["STORE"].replace("1024", "%r_long")},
    ),
    # What goes on from tile to tile
    "parities begin anew with a tile": ({"ANEW": PARTS["ANEW"] + "mov.u32 %r_par, 0; "}, {}),
    "slots begin anew with a tile": ({"AGAIN": PARTS["AGAIN"] + "@%p_l mov.u32 %r_slot, 2; "}, {}),
    "the last slice of a tile announces fewer bytes": (
        {"EXPECT": "mov.u32 %r_e, 4096; setp.eq.u32 %p_z, %r_c, %r_b; @%p_z mov.u32 %r_e, 2048; "},
        {"EXPECT": "mov.u32 %r_e, 2048; add.u32 %r_e, %r_e, %r_e; "},
    ),
    "the last slice of a tile does not refill": (
        {"REFILL": PARTS["REFILL"] + "setp.ne.and.u32 %p_f, %r_c, %r_b, %p_f; "},
        {"REFILL": "setp.ge.s32 %p_f, %r_i, %r_m; not.pred %p_f, %p_f; "},
    ),
    "a tile's end arrives at a barrier": (
        {"STORE": PARTS["STORE"] + "@%p_t mbarrier.arrive.shared.b64 _, [%r_bars]; "},
        {},
    ),
    "a tile's end waits for a slot": (
        {"FREE": "OTHER: mbarrier.try_wait.parity.shared.b64 %p_z, [%r_w], %r_par; @!%p_z bra OTHER; "
         "xor.b32 %r_par, %r_par, 1; " + PARTS["FREE"]},
        {},
    ),
    "the ring has a slot less than its parities": (
        {"AHEAD": PARTS["AHEAD"], "AGAIN": PARTS["AGAIN"] + "@%p_l add.u32 %r_slot, %r_slot, 0; "
         "setp.eq.u32 %p_z, %r_slot, 1; @%p_z mov.u32 %r_slot, 2; "},
        {},
    ),
    # Which iterations there are
    "a slot is filled for which nobody waits": (
        {"AHEAD": "sub.s32 %r_m, %r_n, 1; "},
        {"AHEAD": "add.s32 %r_m, %r_n, -2; "},
    ),
    "one slot too few is filled": ({"AHEAD": "sub.s32 %r_m, %r_n, 3; "}, {}),
    "a kernel without slices waits for one": (
        {"END": PARTS["END"] + "setp.gt.s32 %p_z, %r_n, 0; @%p_z bra DONE; "
         "LATE: mbarrier.try_wait.parity.shared.b64 %p_z, [%r_bars], 0; @!%p_z bra LATE; DONE: "},
        {"END": PARTS["END"] + "setp.gt.s32 %p_z, %r_n, -1; @%p_z bra DONE; bar.sync 0; DONE: "},
    ),
    "the loop is left at the end of a tile by one warp": (
        {"ANEW": PARTS["ANEW"] + "setp.eq.u32 %p_z, %r_warp, 3; @%p_z bra OUT; "},
        {},
    ),
    "the last store may be read when the CTA ends": (
        {"END": f"{_SUMS}bar.sync 0; "},
        {"END": f"cp.async.bulk.wait_group.read 0; {_SUMS}bar.sync 0; "},
    ),
    # Who comes to the end of a tile
    "one warp has another bound": (
        {"LAST": "setp.eq.u32 %p_z, %r_warp, 2; selp.b32 %r_v, 1, 0, %p_z; add.u32 %r_v, %r_v, %r_b; "
         "setp.eq.u32 %p_l, %r_c, %r_v; "},
        {"LAST": "add.u32 %r_v, %r_b, 1; sub.u32 %r_v, %r_v, 1; setp.eq.u32 %p_l, %r_c, %r_v; "},
    ),
    "threads read different words to know": (
        {"LAST": "mul.wide.u32 %rd_w, %r_tid, 4; add.u64 %rd_w, %rd_w, %rd_words; ld.global.u32 %r_v, [%rd_w]; "
         "setp.eq.u32 %p_l, %r_c, %r_v; "},
        {"LAST": "mov.u32 %r_v, %ctaid.x; add.u32 %r_v, %r_v, %r_b; setp.eq.u32 %p_l, %r_c, %r_v; "},
    ),
    "threads read a word to know that tiles overwrite": (
        {"LAST": "ld.global.u32 %r_v, [%rd_out]; setp.eq.u32 %p_l, %r_c, %r_v; "},
        {"LAST": "setp.ge.u32 %p_l, %r_c, %r_b; "},
    ),
    "every other tile has a barrier more": (
        {"STAGED": "xor.b32 %r_c1, %r_c1, 1; setp.eq.u32 %p_z, %r_c1, 1; fence.proxy.async; @%p_z bra KEPT; "
         "bar.sync 0; KEPT: "},
        {"STAGED": "fence.proxy.async; bar.sync 0; bar.sync 0; "},
    ),
    "half of the threads meet at the end of a tile": (
        {"STAGED": "fence.proxy.async; setp.gt.u32 %p_z, %r_tid, 63; @%p_z bra KEPT; bar.sync 1, 64; KEPT: "},
        {"STAGED": "fence.proxy.async; setp.gt.u32 %p_z, %r_tid, 63; @%p_z bra KEPT; st.shared.b32 [%r_stage], %f_0; "
         "KEPT: fence.proxy.async; bar.sync 0; "},
    ),
    "warps meet before and behind the end of a tile": (
        {"ARRIVED": "bar.sync 0; setp.gt.u32 %p_w, %r_warp, 1; @%p_w bra OTHERS; bar.sync 0; OTHERS: ",
         "AGAIN": PARTS["AGAIN"] + "setp.gt.u32 %p_w, %r_warp, 1; @!%p_w bra THESE; bar.sync 0; THESE: ",
         "STAGED": "fence.proxy.async; bar.sync 0; "},
        {},
    ),
}  # fmt: skip
"""A bug, and a kernel without it; no parts where the kernel as it is is that one."""
UNKNOWN_TWINS = frozenset[str]()
"""Twins that are not proven by their episodes."""


def by_parts(parts: _Parts) -> bool:
    """Whether a kernel is proven by its episodes, without a look at the kernel as a whole."""
    return is_proven_by_made_kernels(kernel(**parts))


@pytest.mark.parametrize("name", PAIRS)
def test_a_bug_at_some_numbers_of_slices_is_never_proven(name: str) -> None:
    assert not by_parts(PAIRS[name][0])


@pytest.mark.parametrize("name", sorted(name for name in PAIRS.keys() - UNKNOWN_TWINS if PAIRS[name][1]))
def test_its_twin_is_proven(name: str) -> None:
    assert by_parts(PAIRS[name][1])


def test_a_proof_says_what_it_rests_on_and_no_number_that_was_drawn() -> None:
    (report,) = check_text(kernel(), "flattened.ptx").kernels
    assert report.verdict == "proven" and report.scope == "all trip counts"
    assert any("was done in all of them and in none" in each for each in report.claims)
    assert not any("parameter 5" in each for each in report.assumptions)


def test_stores_of_one_value_that_nothing_orders_prove_nothing() -> None:
    """Each warp stores the same number. What is of one value in all iterations need not be in some."""
    one_lane = "and.b32 %r_v, %r_tid, 31; setp.eq.u32 %p_z, %r_v, 0; @%p_z "
    text = kernel(STAGE=PARTS["STAGE"] + one_lane + "st.shared.b32 [buf+13336], 7; ")
    (report,) = check_text(text, "same.ptx").kernels
    assert report.verdict != "proven"


@pytest.mark.parametrize("step", [0, 4096])
def test_an_episode_that_an_outer_loop_changes_is_not_the_same_each_time(step: int) -> None:
    text = kernel(END=PARTS["END"] + "add.u32 %r_c2, %r_c2, 1; setp.lt.u32 %p_w, %r_c2, 2; @%p_w bra AGAIN; ")
    text = text.replace("mov.u32 %r_i, 0;\n", "AGAIN:\nmov.u32 %r_i, 0;\n")
    moved = f"sub.u32 %r_stage, %r_stage, {step};\n" if step else ""
    module = read(text.replace("add.u32 %r_c2, %r_c2, 1;\n", f"add.u32 %r_c2, %r_c2, 1;\n{moved}"), "outer.ptx")
    sliced = sliced_of(module.kernels[0])
    assert len(list(optional_parts(sliced, steering(sliced)))) == (step == 0)


@pytest.mark.full
@pytest.mark.parametrize("name", PAIRS)
def test_no_bug_is_proven_by_a_look_at_the_whole_either(name: str) -> None:
    (report,) = check_text(kernel(**PAIRS[name][0]), "attack.ptx", options=CheckOptions(isa="strict")).kernels
    assert report.verdict != "proven"
