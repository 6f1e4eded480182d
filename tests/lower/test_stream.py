"""Tiles streamed over CTAs by slices of the contracted axis: who computes what, what is handed over, and the sums."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered_programs import (
    TARGET,
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
from tilewright.driver.small import immediate_pairs, same_but_for_extents, small_instance
from tilewright.ir.decisions import PipelineDecisions, decisions_of, to_attribute
from tilewright.ir.tile_facts import the_program
from tilewright.lower.stream_share import share_quantities
from tilewright.machine.plan import run_plan
from tilewright.synth.decide import Wanted
from tilewright.synth.stream_k import leftover

COOPERATIVE = {"tile": (128, 128), "stages": 3, "turns": False}
IN_TURN = {"tile": (128, 64), "stages": 3, "turns": True, "consumers": 2}


def streamed(
    shape: tuple[int, int, int], ctas: int, tiles: int, granule: int, kernel: tw.Kernel = matmul, **wanted: Any
) -> Lowered:
    """A product whose first tiles are streamed over a few CTAs."""
    decided = lower(kernel, dict(zip("MNK", shape, strict=True)), wanted=Wanted(**wanted))
    assert isinstance(decided.decisions, PipelineDecisions)
    decisions = replace(decided.decisions, streamed=tiles, granule=granule, ctas=ctas)
    the_program(decided.module).attributes["decisions"] = to_attribute(decisions)
    return lower_decided(decided.module, decisions)


@pytest.mark.parametrize(
    ("shape", "ctas", "tiles", "granule", "wanted"),
    [
        pytest.param((128, 640, 448), 3, 2, 1, COOPERATIVE, id="a share lies in two tiles, whole tiles follow"),
        pytest.param((128, 256, 384), 3, 1, 1, COOPERATIVE, id="three CTAs in one tile"),
        pytest.param((256, 256, 192), 4, 4, 1, COOPERATIVE, id="each share is a tile"),
        pytest.param((128, 128, 320), 2, 1, 1, COOPERATIVE, id="one tile only"),
        pytest.param((200, 320, 392), 5, 2, 1, COOPERATIVE, id="edges of all axes, five CTAs"),
        pytest.param((128, 320, 512), 3, 2, 2, IN_TURN, id="in turn: a share lies in two tiles"),
        pytest.param((128, 448, 640), 5, 2, 2, IN_TURN, id="in turn: two partial sums to a tile"),
        pytest.param((128, 64, 384), 3, 1, 2, IN_TURN, id="in turn: one tile only"),
        pytest.param((128, 192, 512), 2, 2, 2, IN_TURN, id="in turn: each share is a tile, then another"),
    ],
)
def test_the_sums_are_right(
    shape: tuple[int, int, int], ctas: int, tiles: int, granule: int, wanted: dict[str, Any]
) -> None:
    program = streamed(shape, ctas, tiles, granule, **wanted)
    assert_close(program, random_inputs(program))


def test_an_epilogue_is_applied_to_whole_sums_alone() -> None:
    program = streamed((128, 256, 512), 3, 2, 2, matmul_bias_relu, **IN_TURN)
    assert_close(program, random_inputs(program))


def test_sums_have_one_order_of_terms() -> None:
    program = streamed((128, 128, 384), 3, 1, 1, **COOPERATIVE)
    arrays = random_inputs(program)
    results: list[bytes] = []
    for seed in (0, 1):  # which changes who runs when
        images = {name: array.copy().view(np.uint8).reshape(-1) for name, array in arrays.items()}
        images["c"] = np.zeros(program.plan.buffer("c").span_bytes, np.uint8)
        run_plan({"matmul": program.parsed}, program.plan, images, seed=seed)
        results.append(images["c"].tobytes())
    assert results[0] == results[1] != bytes(len(results[0]))


def test_the_flag_is_released_behind_the_partial_sum_and_set_back_by_who_waited() -> None:
    text = streamed((128, 640, 448), 3, 2, 1, **COOPERATIVE).ptx
    filecheck(
        text,
        """
CHECK:      // role consumer
CHECK:      st.global.v4.f32 [{{%rd[0-9]+}}+0],
CHECK:      st.global.v4.f32 [{{%rd[0-9]+}}+30720],
CHECK-NEXT: add.u32 [[BARRIER:%r[0-9]+]], {{%r[0-9]+}}, 1;
CHECK-NEXT: bar.sync [[BARRIER]], 128;
CHECK:      @%p0 st.release.gpu.global.u32
CHECK:      partials_{{[0-9]+}}:
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


def test_the_plan_says_what_begins_as_zeros_and_that_ctas_wait_for_one_another() -> None:
    plan = streamed((128, 640, 448), 3, 2, 1, **COOPERATIVE).plan
    (launch,) = plan.launches
    assert launch.resident and launch.grid == (3, 1, 1)
    sums, flags = (buffer for buffer in plan.buffers if buffer.role == "workspace")
    assert (sums.shape, sums.zeroed, flags.shape, flags.zeroed) == ((6, 64 * 128), False, (6,), True)
    assert streamed((128, 320, 512), 3, 2, 2, **IN_TURN).plan.buffer("partial_sums").shape == (3, 128 * 64)


def test_nothing_of_it_is_there_where_no_tile_is_streamed() -> None:
    whole = gemm(128, 640, 448, **COOPERATIVE)
    assert not whole.plan.launches[0].resident
    assert not any(each.opcode.startswith(("ld.acquire", "st.release")) for each in instructions(whole.parsed))


def test_the_small_instance_has_the_same_text() -> None:
    large = streamed((4096, 2112, 7168), 132, 120, 2, tile=(128, 176), turns=True)
    module = small_instance(large.module)
    program = the_program(module)
    small = lower_decided(module, decisions_of(program.attributes["decisions"]))
    pairs = immediate_pairs(the_program(large.module), program)
    assert same_but_for_extents(large.parsed, small.parsed, pairs) == ""
    assert small.plan.launches[0].grid == (5, 1, 1)
    assert "sm_90a" in TARGET


@given(st.integers(1, 400), st.integers(2, 120), st.integers(1, 3), st.integers(1, 132))
def test_every_slice_of_a_streamed_tile_is_in_one_share_and_no_share_is_longer_than_a_tile(
    tiles: int, slices: int, least: int, ctas: int
) -> None:
    stream = leftover(tiles, slices, least, ctas)
    if stream is None:
        return
    whole, _, _, base, larger = share_quantities(stream.tiles, slices, stream.granule, ctas)
    edges = [cta * base + min(cta, larger) for cta in range(ctas + 1)]
    assert edges[0] == 0 and edges[-1] == stream.tiles * whole and slices == whole * stream.granule
    assert all(1 <= high - low <= whole for low, high in itertools.pairwise(edges))
    for tile in range(stream.tiles):
        begin, end = tile * whole, (tile + 1) * whole
        writers = [cta for cta in range(ctas) if edges[cta] < end and begin < edges[cta + 1] < end]
        assert len(writers) <= stream.contributors
        # Who finishes it comes next, and nobody between is without slices of it.
        finishers = [cta for cta in range(ctas) if edges[cta] < end <= edges[cta + 1]]
        assert len(finishers) == 1 and writers == list(range(finishers[0] - len(writers), finishers[0]))
