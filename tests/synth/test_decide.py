# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""What is decided for which program: paths, orientation, limits; and what is refused, at whose line."""

import inspect
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.synth.decided_products import HOPPER, decided, matmul, parts
from tests.synth.walked_products import (
    column_operand,
    major_of,
    ring_slots,
    row_operand,
    slot_along,
    tile_of,
    walk_of,
)

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import ElementwiseDecisions, decisions_of, to_json
from tilewright.ir.tile.facts import the_program
from tilewright.legal.tensor_map.tensormap import cautions, violations
from tilewright.synth.cost.model import pipeline_cycles, raster_group, rates_of
from tilewright.synth.tile.wanted import Wanted


@tw.kernel
def rows_by_rows(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T)
    c[i, j] = acc


@tw.kernel
def displaced_rows(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i + 3, k], b[k, j - 8])
    c[i, j] = acc


@tw.kernel
def displaced_by_less_than_16_bytes(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j + 1])
    c[i, j] = acc


@tw.kernel
def displaced_in_depth(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k + 1], b[k, j])
    c[i, j] = acc


@tw.kernel
def two_results(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"], d: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc
    d[i, j] = tw.relu(acc)


@tw.kernel
def scaled(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] * 2.0


@tw.kernel
def two_unlike_dots_in_one_loop(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    one = tw.zeros(i, j)
    two = tw.zeros(i, j)
    for k in tw.loop("K"):
        one += tw.dot(a[i, k], b[k, j])
        two += tw.dot(a[i + 1, k], b[k, j + 1])
    c[i, j] = one * two


@tw.kernel
def two_dots_in_one_sum(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
        acc += tw.dot(a[i, k], b[k, j + 1])  # here
    c[i, j] = acc


@tw.kernel
def two_loops(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    one = tw.zeros(i, j)
    for k in tw.loop("K"):
        one += tw.dot(a[i, k], b[k, j])
    two = tw.zeros(i, j)
    for k in tw.loop("K"):
        two += tw.dot(a[i, k], b[k, j])  # here
    c[i, j] = one + two


def words(found):
    return " | ".join(reason for part in found for reason in part.decisions.reasons)


# ---------------------------------------------------------------- paths


def test_the_plain_case_copies_both_operands_and_stores_by_the_copy_engine():
    plan = decided(matmul, 4096, 4096, 4096)
    assert (plan.row, plan.column, plan.streamed) == ("M", "N", "K")
    a, b = plan.slots
    assert (a.buffer, a.inner, a.outer, a.piece_bytes) == ("a", "K", "M", 0)
    assert (b.buffer, b.inner, b.outer, b.piece_bytes) == ("b", "N", "K", 0)
    assert a.dims == (4096, 4096) and a.strides_bytes == (8192,)
    assert [store.parameter for store in plan.stores] == ["c"]
    assert ring_slots(plan) >= 4 and plan.consumers == 2


def test_rows_of_198_bytes_are_first_copied_into_rows_of_whole_lines():
    found = parts(matmul, 4096, 4096, 99)
    a, b = walk_of(found).slots
    assert len(found) == 2 and (a.buffer, b.buffer) == ("matmul_a", "b")
    assert a.dims == (99, 4096) and a.strides_bytes == (256,)
    assert "a is copied: no tensor map brings a: row stride 198 bytes" in words(found)


def test_odd_columns_have_the_right_operand_copied_and_are_stored_by_threads():
    found = parts(matmul, 4096, 4095, 4096)
    plan = walk_of(found)
    a, b = plan.slots
    assert (a.buffer, b.buffer) == ("a", "matmul_b")
    assert b.strides_bytes == (8192,) and b.inner == "N"
    assert plan.stores == () and plan.rows_bytes > 0
    assert plan.staging_slots == plan.staging_slot_bytes == 0


def test_a_row_that_ends_inside_16_bytes_is_not_stored_by_the_copy_engine():
    """A legal tensor map, since the pitch is: but the engine would write past the row's end."""
    assert decided(matmul, 256, 100, 64, strides={"c": (104, 1)}).stores == ()
    assert len(decided(matmul, 256, 104, 64, strides={"c": (112, 1)}).stores) == 1


def test_a_transposed_operand_is_k_major():
    for plan in (decided(matmul, 512, 512, 512, strides={"b": (1, 512)}), decided(rows_by_rows, 512, 512, 512)):
        assert major_of(plan, "N") == "K" and slot_along(plan, "N").buffer == "b"
        assert column_operand(plan).box == (64, plan.tile_columns)


def test_a_column_major_output_swaps_the_product():
    plan = decided(matmul, 512, 1024, 256, strides={"c": (1, 512)})
    assert (plan.row, plan.column) == ("N", "M")
    assert (row_operand(plan).buffer, major_of(plan, "N")) == ("b", "MN")
    assert (column_operand(plan).buffer, major_of(plan, "M")) == ("a", "K")
    assert plan.stores[0].map.dims == (512, 1024)


def test_a_displacement_of_rows_goes_into_the_coordinates():
    found = parts(displaced_rows, 512, 512, 512)
    assert len(found) == 1
    plan = walk_of(found)
    assert slot_along(plan, "M").displaced == (0, 3)
    assert slot_along(plan, "N").displaced == (-8, 0)


def test_a_displacement_that_copies_cannot_make_is_made_first():
    found = parts(displaced_by_less_than_16_bytes, 512, 512, 512)
    of_b = slot_along(walk_of(found), "N")
    assert len(found) == 2 and of_b.buffer != "b" and of_b.displaced == (0, 0)
    found = parts(displaced_in_depth, 512, 512, 512)
    of_a = slot_along(walk_of(found), "M")
    assert len(found) == 2 and of_a.buffer != "a" and of_a.displaced == (0, 0)
    # K-major, the same displacement is one of rows.
    found = parts(displaced_by_less_than_16_bytes, 512, 512, 512, {"b": (1, 512)})
    assert len(found) == 1 and slot_along(walk_of(found), "N").displaced == (0, 1)


def test_float32_results_take_narrower_chunks():
    wanted = Wanted((128, 128), swapped=False)
    narrow = decided(matmul, 512, 512, 512, wanted=wanted, c=tw.f32)
    wide = decided(matmul, 512, 512, 512, wanted=wanted)
    assert narrow.stores[0].chunk_columns == 32 and wide.stores[0].chunk_columns == 64
    for plan in (narrow, wide):
        assert plan.stores[0].map.box[0] == plan.stores[0].chunk_columns
        assert plan.stores[0].map.tensor_map().box_bytes == plan.staging_slot_bytes


def test_two_results_are_stored_each_by_its_own_path():
    plan = decided(two_results, 512, 516, 512, d=tw.f32)
    assert [store.parameter for store in plan.stores] == ["d"]


def test_a_program_without_dot():
    plan = decided(scaled, 1000, 1000)
    assert isinstance(plan, ElementwiseDecisions)
    # Two runs of 8 elements in flight.
    assert plan.run == 8 and plan.ctas * plan.threads * 2 * plan.run >= 1000 * 1000 and plan.threads % 32 == 0
    assert decided(scaled, 1, 1).ctas == 1
    assert decided(scaled, 30_000, 30_000).ctas == -(-30_000 * 30_000 // (2 * plan.run * plan.threads))


# ---------------------------------------------------------------- limits, for any shape


extent = st.one_of(st.integers(1, 70), st.integers(1, 9000), st.integers(1, 512).map(lambda count: 64 * count))


@st.composite
def layouts(draw, m, n, k):
    strides = {}
    for name, rows, columns in (("a", m, k), ("b", k, n), ("c", m, n)):
        gap = draw(st.sampled_from([0, 1, 8, 64]))
        choice = draw(st.sampled_from(["dense", "rows", "columns"]))
        if choice != "dense":
            strides[name] = (columns + gap, 1) if choice == "rows" else (1, rows + gap)
    return strides


def check_limits(plan, extents):
    """Every limit that the target's table states and a kernel of these decisions meets."""
    mapped = [slot.map for slot in plan.slots if not slot.piece_bytes]
    for map_ in (*mapped, *(store.map for store in plan.stores)):
        assert not violations(map_.tensor_map(), HOPPER) and not cautions(map_.tensor_map(), HOPPER)
    slots = sum(slot.slots * slot.slot_bytes for slot in plan.slots)
    staging = plan.staging_slots * plan.staging_slot_bytes * plan.consumers
    rows = plan.rows_bytes * plan.consumers
    barriers = 16 * (ring_slots(plan) + plan.turns + (plan.split > 1)) + plan.split_sum.partial_bytes
    assert plan.smem_bytes == slots + staging + rows + barriers <= HOPPER.limit("cta.shared_bytes_max")
    assert slots % 1024 == 0 and plan.staging_slot_bytes % 128 == 0
    threads = 128 * (1 + plan.consumers)
    pool = plan.launch_registers * threads
    assert pool <= HOPPER.limit("multiprocessor.registers")
    assert 128 * (plan.producer_registers + plan.consumers * plan.consumer_registers) <= pool
    for registers in (plan.launch_registers, plan.producer_registers, plan.consumer_registers):
        assert registers % 8 == 0 and 24 <= registers <= 240
    accumulators = plan.unit_rows * plan.tile_columns // 128
    # Of three consumers 56 beside accumulators are enough; where 32 beside 200 are not, a program gets slots in shared
    # memory (tests/driver/compile/test_spills.py).
    most, beside = (200, 32) if plan.turns else ((144, 64), (144, 64), (96, 56))[plan.consumers - 1]
    assert accumulators <= most and accumulators + beside <= plan.consumer_registers
    assert plan.unit_rows % 64 == 0 and plan.tile_columns % 8 == 0 and plan.tile_columns <= 256
    clusters = math.ceil(extents[plan.row] / (plan.row_step * plan.cluster[0]))
    clusters *= math.ceil(extents[plan.column] / (plan.column_step * plan.cluster[1]))
    clusters = clusters * plan.teams + (plan.stream.helpers if plan.stream else 0)
    cluster = math.prod(plan.cluster) * plan.split
    assert plan.ctas % cluster == 0 and 1 <= plan.ctas // cluster <= clusters
    assert plan.ctas <= HOPPER.limit("device.multiprocessors")
    assert ring_slots(plan) >= 2 and plan.raster_group >= 1
    assert plan.reasons


@settings(max_examples=25, deadline=None)
@given(st.data(), extent, extent, extent, st.sampled_from([tw.bf16, tw.f16]), st.sampled_from([tw.bf16, tw.f32]))
def test_any_shape_gets_legal_decisions_within_the_targets_limits(data, m, n, k, operand, result):
    strides = data.draw(layouts(m, n, k))
    plan = decided(matmul, m, n, k, strides, a=operand, b=operand, c=result)
    check_limits(plan, {"M": m, "N": n, "K": k})
    # A tensor map reaches as far as its operand does and no further.
    for axis, outer in (("M", m), ("N", n)):
        dims = (k, outer) if major_of(plan, axis) == "K" else (outer, k)
        assert slot_along(plan, axis).dims == dims


@settings(max_examples=20, deadline=None)
@given(
    extent,
    extent,
    extent,
    st.sampled_from([(128, 256), (256, 128), (128, 192), (128, 128), (128, 64), (64, 256), (64, 128), (64, 64)]),
    st.sampled_from([None, 2, 3]),
    st.sampled_from([tw.bf16, tw.f32]),
)
def test_what_is_asked_for_is_what_is_decided(m, n, k, tile, stages, result):
    plan = decided(two_results, m, n, k, wanted=Wanted(tile, stages), c=result, d=tw.f32)
    assert tile_of(plan) == tile
    assert stages is None or ring_slots(plan) == stages
    check_limits(plan, {"M": m, "N": n, "K": k})


def test_three_consumers_keep_the_limits():
    plan = decided(matmul, 2049, 1921, 65)
    assert (*tile_of(plan), plan.consumers) == (192, 192, 3)
    check_limits(plan, {"M": 2049, "N": 1921, "K": 65})


@pytest.mark.parametrize("cluster", [(2, 1), (1, 2)])
def test_a_cluster_shares_the_boxes_of_the_operand_that_both_need(cluster):
    plan = decided(matmul, 4096, 4096, 4096, wanted=Wanted((128, 256), cluster=cluster), strides={"b": (1, 4096)})
    assert plan.cluster == cluster
    check_limits(plan, {"M": 4096, "N": 4096, "K": 4096})
    assert row_operand(plan).box == (64, 128 // cluster[1])
    assert column_operand(plan).box == (64, 256 // cluster[0])


def test_decisions_stand_on_the_program_and_survive_their_text():
    for part in parts(matmul, 512, 512, 100):
        assert decisions_of(the_program(part.module).attributes["decisions"]) == part.decisions
    plan = part.decisions
    assert isinstance(plan, CascadeDecisions)
    assert to_json(plan)["tile_columns"] == plan.tile_columns


# ---------------------------------------------------------------- refusals


def line_of(kernel, mark="# here"):
    lines, first = inspect.getsourcelines(kernel.function)
    return first + next(number for number, line in enumerate(lines) if mark in line)


@pytest.mark.parametrize("kernel", [two_dots_in_one_sum, two_loops])
def test_two_unlike_dots_are_refused_at_the_second(kernel):
    with pytest.raises(TilewrightError, match="these products do not go into one kernel") as refused:
        decided(kernel, 256, 256, 256)
    span = refused.value.span
    assert span is not None and Path(span.file).name == "test_decide.py"
    assert span.line == line_of(kernel)
    assert refused.value.remedy


def test_two_unlike_dots_in_one_loop_have_no_tile():
    with pytest.raises(TilewrightError, match="no tile of this program fits: values of") as refused:
        decided(two_unlike_dots_in_one_loop, 256, 256, 256)
    span = refused.value.span
    assert span is not None and Path(span.file).name == "test_decide.py" and refused.value.remedy


def test_an_unknown_tile_is_refused_with_the_known_ones():
    with pytest.raises(TilewrightError, match=r"no tile shape \(100, 100\).*128x256"):
        decided(matmul, 512, 512, 512, wanted=Wanted(tile=(100, 100)))


@pytest.mark.parametrize("stages", [-1, 0, 1, 33, 1000])
def test_stages_out_of_range_are_refused_with_the_range(stages):
    with pytest.raises(TilewrightError, match=rf"{stages} stages .*use 2 to \d+ stages"):
        decided(matmul, 512, 512, 512, wanted=Wanted(stages=stages))


def test_the_largest_stage_count_offered_is_accepted():
    with pytest.raises(TilewrightError) as refused:
        decided(matmul, 4096, 4096, 4096, wanted=Wanted((128, 256), 99))
    most = int(refused.value.remedy.split()[-2])
    assert ring_slots(decided(matmul, 4096, 4096, 4096, wanted=Wanted((128, 256), most))) == most
    with pytest.raises(TilewrightError):
        decided(matmul, 4096, 4096, 4096, wanted=Wanted((128, 256), most + 1))


def test_clusters_out_of_range_are_refused():
    with pytest.raises(TilewrightError, match="no cluster shape"):
        decided(matmul, 512, 512, 512, wanted=Wanted(cluster=(4, 4)))


# ---------------------------------------------------------------- the model


def test_the_model_prefers_what_is_known_to_be_better():
    rates = rates_of(HOPPER)
    large, small = (4096, 4096, 4096), (512, 512, 4096)

    def cycles(extents, tile):
        return pipeline_cycles(rates, extents, (*tile, 64), 2, 2)

    assert cycles(large, (128, 256)) < cycles(large, (64, 64))
    # A few large tiles leave most multiprocessors idle.
    assert cycles(small, (64, 64)) < cycles(small, (128, 256))
    shared = decided(matmul, 4096, 4096, 4096, wanted=Wanted(turns=False))
    assert math.prod(tile_of(shared)) == 128 * 256


@given(st.sampled_from([64, 128, 256]), st.sampled_from([64, 128, 192, 256]))
def test_raster_groups_make_a_wave_nearly_square(tile_m, tile_n):
    rates = rates_of(HOPPER)
    group = raster_group(rates, tile_m, tile_n)
    height, width = group * tile_m, rates.multiprocessors / group * tile_n
    assert 0.7 < height / width < 1.4
