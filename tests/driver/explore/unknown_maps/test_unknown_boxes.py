"""Launches with unknown tensor maps: what is proven or refuted does not rest on a box that was made up."""

from __future__ import annotations

from typing import Any

import pytest
from tests.driver.boxed_kernels import COPY_A, COPY_B, EXPECT, READ_A, READ_B, boxed

from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.rules.interpretations import tolerant
from tilewright.driver.explore import judge_unlaunched as judging
from tilewright.driver.explore.judge_unlaunched import judge_unlaunched

ALONE = ((COPY_B, ""), (READ_B, ""), (EXPECT, EXPECT.replace("3072", "1024")))
"""Edits that leave one map."""
STEPS = "ld.param.u32 %r1, [steps];"
ROOMY = {"slots": 16384, "stride": 8192, "second": 4096}
NO_FULL_WAIT = ("mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r8], %r6;\n    @!%p4 bra FULL;", "")
NO_EMPTY_WAIT = ("mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r8+16], %r7;\n    @!%p4 bra EMPTY;", "")


def _verdict(*edits: tuple[str, str], **parts: int | str) -> Verdict:
    module, kernel = boxed(*edits, **parts)
    return judge_unlaunched(module, kernel, tolerant()).verdict


def _boxes(verdict: Verdict) -> list[str]:
    assert isinstance(verdict, Proven), verdict
    return [line for line in verdict.assumptions if "box" in line or "tensor map" in line]


def test_one_map_in_each_phase_has_the_bytes_that_the_phase_expects() -> None:
    assert _boxes(_verdict(*ALONE)) == ["parameter 0's box is 1,024 bytes"]


def test_slots_that_lie_side_by_side_decide_two_maps() -> None:
    assert _boxes(_verdict()) == ["parameter 0's box is 1,024 bytes", "parameter 1's box is 2,048 bytes"]


def test_slots_with_room_leave_a_sum_and_their_lengths() -> None:
    (line,) = _boxes(_verdict(**ROOMY))
    assert line.startswith(
        "parameter 0's box and parameter 1's box add up to 3,072 bytes, none being longer than its slot (4,096 and"
    )
    assert line.count(";") >= 2


def test_boxes_that_some_slot_forbids_refute_nothing() -> None:
    verdict = _verdict((EXPECT, EXPECT.replace("3072", "3584")), slots=8192, stride=4096, second=2560)
    assert not isinstance(verdict, Refuted), verdict


@pytest.mark.parametrize("edit", [NO_FULL_WAIT, NO_EMPTY_WAIT])
@pytest.mark.parametrize("parts", [{}, ROOMY])
def test_what_goes_wrong_with_every_box_refutes(edit: tuple[str, str], parts: dict[str, int]) -> None:
    assert isinstance(_verdict(edit, **parts), Refuted)


def test_what_goes_wrong_only_with_large_boxes_is_unknown() -> None:
    """Threads write into the middle of what `a` may bring while it may arrive: fine if the box of `a` is small."""
    verdict = _verdict(("bra READ;\nDONE", "st.shared.b32 [slots+2048], %r3;\n    bra READ;\nDONE"), **ROOMY)
    assert isinstance(verdict, Unknown), verdict
    assert any("boxes that the kernel leaves open" in reason for reason in verdict.reasons)


@pytest.mark.parametrize("edits", [ALONE[:2], ()])
def test_without_any_bytes_expected_nothing_is_proven(edits: tuple[tuple[str, str], ...]) -> None:
    verdict = _verdict(*edits, (EXPECT, "mbarrier.arrive.shared::cta.b64 _, [%r8];"))
    assert not isinstance(verdict, Proven), verdict


def test_a_copy_whose_bytes_nobody_expects_is_named() -> None:
    """The copy of `b` signals a barrier that is never given bytes, and that nobody waits for."""
    verdict = _verdict(
        (EXPECT, EXPECT.replace("3072", "1024")),
        (READ_B, ""),
        (COPY_B, COPY_B.replace("[%r8]", "[bars+32]")),
        (".b8 bars[32];", ".b8 bars[40];"),
        ("bars], 1;", "bars], 1;\n    @%p1 mbarrier.init.shared::cta.b64 [bars+32], 9;"),
    )
    assert isinstance(verdict, Unknown | Refuted), verdict


def test_phases_that_contradict_each_other_refute() -> None:
    """The first two steps expect 1024 bytes, the others 2048, of the same copy."""
    expect = f"setp.lt.u32 %p8, %r4, 2;\n    selp.b32 %r30, 1024, 2048, %p8;\n    {EXPECT.replace('3072', '%r30')}"
    verdict = _verdict(*ALONE[:2], (EXPECT, expect))
    assert isinstance(verdict, Refuted), verdict
    assert any("no box fits" in line for line in verdict.findings[0].interleaving)


def test_expected_bytes_that_depend_on_a_number_leave_the_box_open() -> None:
    """The host passes the bytes: with another number, another box."""
    expect = f"shl.b32 %r30, %r1, 4;\n    {EXPECT.replace('3072', '%r30')}"
    verdict = _verdict(*ALONE[:2], (EXPECT, expect))
    assert isinstance(verdict, Unknown), verdict


@pytest.mark.parametrize(("edits", "runs"), [((), 2), (((STEPS, "mov.u32 %r1, 4;"),), 1)])
def test_what_decides_alike_is_sized_once(
    edits: tuple[tuple[str, str], ...], runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody expects bytes, so that each launch is looked at that decides otherwise than the one before: of those whose
    loops go on for longer than is looked at, one."""
    counted: list[object] = []
    judge = judging.judge_launch

    def counting(*values: Any, **named: Any) -> object:
        if named["any_box"]:
            counted.append(named)
        return judge(*values, **named)

    monkeypatch.setattr(judging, "judge_launch", counting)
    monkeypatch.setattr(judging, "explore", _nothing)
    with pytest.raises(_NothingError):
        _verdict(*edits, (EXPECT, "mbarrier.arrive.shared::cta.b64 _, [%r8];"))
    assert len(counted) == runs


class _NothingError(Exception):
    pass


def _nothing(*_: object) -> None:
    raise _NothingError


POINTERS = {
    "parameters": ".param .u64 a, .param .u64 b",
    "addresses": "    ld.param.u64 %rd1, [a];\n    ld.param.u64 %rd2, [b];",
}
IN_BUFFER = "the tensor map at byte {} of parameter {}'s buffer"


def test_maps_behind_pointers_have_boxes_of_their_own() -> None:
    assert _boxes(_verdict(**POINTERS)) == [
        f"{IN_BUFFER.format(0, 0)} has a box of 1,024 bytes",
        f"{IN_BUFFER.format(0, 1)} has a box of 2,048 bytes",
    ]


def test_an_array_of_maps_behind_one_pointer() -> None:
    found = _boxes(
        _verdict(
            parameters=".param .u64 maps",
            addresses="    ld.param.u64 %rd1, [maps];\n    add.s64 %rd2, %rd1, 256;",
        )
    )
    assert found == [
        f"{IN_BUFFER.format(0, 0)} has a box of 1,024 bytes",
        f"{IN_BUFFER.format(256, 0)} has a box of 2,048 bytes",
    ]


def test_an_array_of_maps_indexed_by_the_step_is_sized_as_it_is_used() -> None:
    index = "and.b32 %r31, %r4, 3;\n    mul.wide.u32 %rd4, %r31, 128;\n    add.s64 %rd1, %rd3, %rd4;\n    "
    found = _boxes(
        _verdict(
            *ALONE,
            (COPY_A, index + COPY_A),
            parameters=".param .u64 maps",
            addresses="    ld.param.u64 %rd3, [maps];",
        )
    )
    assert found == [f"{IN_BUFFER.format(128 * number, 0)} has a box of 1,024 bytes" for number in range(4)]


def test_a_missing_wait_with_maps_behind_pointers_refutes() -> None:
    verdict = _verdict(NO_FULL_WAIT, **POINTERS)
    assert isinstance(verdict, Refuted)
    assert all(finding.code != "TM201" for finding in verdict.findings)


STORE = """    ld.shared.b32 %r12, [%r10];
    bar.warp.sync -1;
    setp.ne.u32 %p6, %r3, 32;
    @%p6 bra STORED;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd2, {%r4, %r4}], [%r10];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
STORED:
    bar.warp.sync -1;"""


def test_a_map_that_is_stored_through_has_a_bound() -> None:
    edits = (*ALONE, (READ_A, STORE))
    bound = "parameter 1's box is at most the 1,024 bytes before the next copy or mbarrier"
    assert bound in _boxes(_verdict(*edits, slots=2048, stride=1024))
    early = ("    cp.async.bulk.wait_group 0;\n", "")
    assert isinstance(_verdict(*edits, early, slots=2048, stride=1024), Refuted)


def test_what_is_stored_must_not_be_overwritten_beyond_the_first_bytes_either() -> None:
    """A store may still read the slot when threads write its end: wrong with the bound, fine with the least box."""
    late = (
        "    cp.async.bulk.wait_group 0;\n",
        "    st.shared.b32 [%r10+1000], %r12;\n    cp.async.bulk.wait_group 0;\n",
    )
    verdict = _verdict(*ALONE, (READ_A, STORE), late, slots=2048, stride=1024)
    assert isinstance(verdict, Unknown), verdict


# ---------------------------------------------------------------- stores behind a long loop

STAGED = """.shared .align 128 .b8 staged[1024];
    .shared .align 128 .b8 slots["""
EPILOGUE = """DONE:
    mov.u32 %r23, 0;
AGAIN:
    bar.sync 0;
    add.u32 %r23, %r23, 1;
    setp.lt.u32 %p9, %r23, 40;
    @%p9 bra AGAIN;
    setp.lt.u32 %p7, %r3, 32;
    @%p7 bra END;
    sub.u32 %r20, %r3, 32;
    shl.b32 %r21, %r20, 4;
    mov.u32 %r22, staged;
    add.u32 %r21, %r21, %r22;
    st.shared.v4.b32 [%r21], {%r20, %r20, %r20, %r20};
    fence.proxy.async.shared::cta;
    bar.warp.sync -1;
    setp.ne.u32 %p8, %r20, 0;
    @%p8 bra STORED;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd2, {%r20, %r20}], [staged];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group.read 0;
STORED:
    bar.warp.sync -1;
    st.shared.b32 [%r21], %r3;
END:
    ret;"""
"""After 40 barriers, threads stage 512 bytes and store them through the second map. Once the store has read them, they
are written anew."""
BEHIND_THE_LOOP = (*ALONE, ("DONE:\n    ret;", EPILOGUE), (".shared .align 128 .b8 slots[", STAGED))
WAIT_LATE = (
    ("    cp.async.bulk.wait_group.read 0;\n", ""),
    ("END:\n    ret;", "END:\n    cp.async.bulk.wait_group.read 0;\n    ret;"),
)
"""The store is waited for when its source has been written anew."""
WRITTEN_ANEW = "    st.shared.b32 [%r21], %r3;\nEND"


@pytest.fixture
def short_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look at the boxes of any launch ends before it stores, as in kernels with much work before."""
    monkeypatch.setattr("tilewright.driver.explore.judge_unlaunched._SIZING_STEPS", 150)


@pytest.mark.usefixtures("short_look")
def test_a_map_that_is_stored_through_late_has_a_bound() -> None:
    bound = "parameter 1's box is at most the 512 bytes that threads write where it is stored from"
    boxes = _boxes(_verdict(*BEHIND_THE_LOOP))
    assert boxes == ["parameter 0's box is 1,024 bytes", bound]


@pytest.mark.usefixtures("short_look")
def test_a_late_store_that_races_with_every_box_refutes() -> None:
    """Its first 16 bytes are written anew while it may read them."""
    verdict = _verdict(*BEHIND_THE_LOOP, *WAIT_LATE)
    assert isinstance(verdict, Refuted), verdict
    assert all(finding.code != "BG102" for finding in verdict.findings), verdict


@pytest.mark.usefixtures("short_look")
def test_a_late_store_that_races_only_with_large_boxes_is_unknown() -> None:
    """The last of the bytes that were staged are written anew: wrong with the bound, fine with the least box."""
    late = (WRITTEN_ANEW, "    setp.ne.u32 %p5, %r20, 31;\n    @%p5 bra END;\n" + WRITTEN_ANEW)
    assert isinstance(_verdict(*BEHIND_THE_LOOP, late), Proven)
    verdict = _verdict(*BEHIND_THE_LOOP, *WAIT_LATE, late)
    assert isinstance(verdict, Unknown), verdict
    assert any("boxes that the kernel leaves open" in reason for reason in verdict.reasons)
