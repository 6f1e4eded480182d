"""Tiles that idle CTAs help with by slices of the contracted axis: who computes what, what is handed over, the sums."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lower.lowered_programs import (
    Lowered,
    assert_close,
    filecheck,
    gemm,
    instructions,
    lower,
    lower_decided,
    matmul,
    matmul_bias_relu,
    random_inputs,
)

import tilewright.frontends.tile.language as tw
from tilewright.driver.reproof.small import immediate_pairs, same_but_for_extents, small_instance
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import decisions_of, to_attribute
from tilewright.ir.tile.facts import the_program
from tilewright.ir.tile_stream import TileStream
from tilewright.machine.core.plan import run_plan
from tilewright.synth.decide import Wanted
from tilewright.synth.distribution.stream_k import costs_of, leftover
from tilewright.targets import target

COOPERATIVE: dict[str, Any] = {"tile": (128, 128), "stages": 3, "turns": False}
IN_TURN: dict[str, Any] = {"tile": (128, 64), "stages": 3, "turns": True, "consumers": 2}


def streamed(
    shape: tuple[int, int, int], ctas: int, tiles: int, head: int, kernel: tw.Kernel = matmul, **wanted: Any
) -> Lowered:
    """A product whose first tiles are streamed over a few CTAs."""
    decided = lower(kernel, dict(zip("MNK", shape, strict=True)), wanted=Wanted(**wanted))
    assert isinstance(decided.decisions, CascadeDecisions)
    decisions = replace(decided.decisions, cut=(TileStream(tiles, ctas - tiles, head),), ctas=ctas)
    the_program(decided.module).attributes["decisions"] = to_attribute(decisions)
    return lower_decided(decided.module, decisions)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("shape", "ctas", "tiles", "head", "wanted"),
    [
        pytest.param((128, 640, 448), 3, 2, 2, COOPERATIVE, id="one helper of two tiles, whole tiles follow"),
        pytest.param((128, 384, 384), 4, 1, 3, COOPERATIVE, id="more helpers than tiles"),
        pytest.param((128, 128, 320), 2, 1, 1, COOPERATIVE, id="one tile only, of which one slice is lent"),
        pytest.param((200, 320, 392), 5, 3, 2, COOPERATIVE, id="edges of all axes, helpers with two tiles and one"),
        pytest.param((128, 320, 512), 3, 2, 2, IN_TURN, id="in turn: one helper of two tiles"),
        pytest.param((128, 448, 640), 5, 3, 3, IN_TURN, id="in turn: helpers with two tiles and one"),
        pytest.param((128, 448, 640), 5, 4, 7, IN_TURN, id="in turn: a helper of four tiles, longer heads than tails"),
        pytest.param((128, 64, 384), 2, 1, 2, IN_TURN, id="in turn: one tile only"),
    ],
)
def test_the_sums_are_right(
    shape: tuple[int, int, int], ctas: int, tiles: int, head: int, wanted: dict[str, Any]
) -> None:
    program = streamed(shape, ctas, tiles, head, **wanted)
    assert_close(program, random_inputs(program))


def test_an_epilogue_is_applied_to_whole_sums_alone() -> None:
    program = streamed((128, 192, 512), 3, 2, 2, matmul_bias_relu, **IN_TURN)
    assert_close(program, random_inputs(program))


def test_sums_have_one_order_of_terms() -> None:
    program = streamed((128, 256, 384), 3, 2, 2, **COOPERATIVE)
    arrays = random_inputs(program)
    results: list[bytes] = []
    for seed in (0, 1):  # which changes who runs when
        images = {name: array.copy().view(np.uint8).reshape(-1) for name, array in arrays.items()}
        images["c"] = np.zeros(program.plan.buffer("c").span_bytes, np.uint8)
        run_plan({"matmul": program.parsed}, program.plan, images, seed=seed)
        results.append(images["c"].tobytes())
    assert results[0] == results[1] != bytes(len(results[0]))


def test_the_flag_is_released_behind_the_partial_sum_and_set_back_by_who_waited() -> None:
    text = streamed((128, 640, 448), 3, 2, 2, **COOPERATIVE).ptx
    filecheck(
        text,
        """
CHECK:      // role consumer
CHECK:      st.global.v4.f32 [{{%rd[0-9]+}}+0],
CHECK:      st.global.v4.f32 [{{%rd[0-9]+}}+30720],
CHECK-NEXT: add.u32 [[BARRIER:%r[0-9]+]], {{%r[0-9]+}}, 1;
CHECK-NEXT: bar.sync [[BARRIER]], 128;
CHECK:      @%p0 st.release.gpu.global.u32
CHECK:      @!%p0 bra [[MET:polled_[0-9]+]];
CHECK-NEXT: [[POLL:poll_[0-9]+]]:
CHECK-NEXT: ld.acquire.gpu.global.u32 [[SEEN:%r[0-9]+]], {{\\[}}[[FLAG:%rd[0-9]+]]];
CHECK-NEXT: setp.ne.u32 [[AGAIN:%p[0-9]+]], [[SEEN]], 1;
CHECK-NEXT: @[[AGAIN]] bra [[POLL]];
CHECK-NEXT: mov.u32 [[ZERO:%r[0-9]+]], 0;
CHECK-NEXT: st.relaxed.gpu.global.u32 {{\\[}}[[FLAG]]], [[ZERO]];
CHECK-NEXT: [[MET]]:
CHECK:      bar.sync
CHECK:      ld.global.v4.f32
""",
    )


def test_units_that_take_parts_in_turn_pass_over_the_others() -> None:
    filecheck(
        streamed((128, 448, 640), 5, 3, 3, **IN_TURN).ptx,
        """
CHECK:      // role consumer
CHECK:      mov.u32 [[TILE:%r[0-9]+]], %ctaid.x;
CHECK-NEXT: mov.u32 {{%r[0-9]+}}, 0;
CHECK:      mov.u32 [[ITEMS:%r[0-9]+]], 0;
CHECK:      mov.u32 [[HELPERS:%r[0-9]+]], 2;
CHECK-NEXT: setp.ge.u32 [[OWNER:%p[0-9]+]], [[TILE]], [[HELPERS]];
CHECK-NEXT: @[[OWNER]] bra [[END:head_end_[0-9]+]];
CHECK-NEXT: [[HEAD:head_part_[0-9]+]]:
CHECK-NEXT: setp.ge.u32 [[DONE:%p[0-9]+]], [[TILE]], 3;
CHECK-NEXT: @[[DONE]] bra [[END]];
CHECK-NEXT: and.b32 [[TURN:%r[0-9]+]], [[ITEMS]], 1;
CHECK-NEXT: setp.eq.u32 [[OWN:%p[0-9]+]], [[TURN]],
CHECK-NEXT: add.u32 [[ITEMS]], [[ITEMS]], 1;
CHECK-NEXT: @[[OWN]] bra [[MINE:own_part_[0-9]+]];
CHECK:      bra [[NEXT:head_next_[0-9]+]];
CHECK-NEXT: [[MINE]]:
CHECK-NEXT: turn_{{[0-9]+}}:
CHECK:      [[NEXT]]:
CHECK:      add.u32 [[TILE]], [[TILE]],
CHECK-NEXT: bra [[HEAD]];
CHECK-NEXT: [[END]]:
""",
    )


def test_the_plan_says_what_begins_as_zeros_and_that_ctas_wait_for_one_another() -> None:
    plan = streamed((128, 640, 448), 3, 2, 2, **COOPERATIVE).plan
    (launch,) = plan.launches
    assert launch.resident and launch.grid == (3, 1, 1)
    sums, flags = (buffer for buffer in plan.buffers if buffer.role == "workspace")
    assert (sums.shape, sums.zeroed, flags.shape, flags.zeroed) == ((4, 64 * 128), False, (4,), True)
    assert streamed((128, 320, 512), 3, 2, 2, **IN_TURN).plan.buffer("partial_sums").shape == (2, 128 * 64)


def test_nothing_of_it_is_there_where_no_tile_is_streamed() -> None:
    whole = gemm(128, 640, 448, **COOPERATIVE)
    assert not whole.plan.launches[0].resident
    assert not any(each.opcode.startswith(("ld.acquire", "st.release")) for each in instructions(whole.parsed))


@pytest.mark.parametrize(
    ("shape", "wanted"), [((4096, 2112, 7168), {"tile": (128, 176), "turns": True}), ((4096, 6144, 4096), COOPERATIVE)]
)
def test_the_small_instance_has_the_same_text(shape: tuple[int, int, int], wanted: dict[str, Any]) -> None:
    large = streamed(shape, 132, 120, 9, **wanted)
    module = small_instance(large.module)
    program = the_program(module)
    small = lower_decided(module, decisions_of(program.attributes["decisions"]))
    pairs = immediate_pairs(the_program(large.module), program)
    assert same_but_for_extents(large.parsed, small.parsed, pairs) == ""
    assert small.plan.launches[0].grid == (5, 1, 1)


@given(st.integers(1, 400), st.integers(2, 120), st.integers(1, 3), st.integers(2, 132), st.booleans())
def test_no_share_is_longer_than_a_tile_and_helpers_are_done_when_owners_are(
    tiles: int, slices: int, least: int, ctas: int, turns: bool
) -> None:
    stream = leftover(tiles, slices, least, ctas, slice_cycles=700, costs=costs_of(target("sm_90a"), turns=turns))
    if stream is None:
        return
    assert 0 < stream.tiles < stream.ctas == ctas and (tiles - stream.tiles) % ctas == 0
    most = -(-stream.tiles // (ctas - stream.tiles))
    tail = slices - stream.head_slices
    assert least <= stream.head_slices <= tail and most * stream.head_slices <= tail < slices
