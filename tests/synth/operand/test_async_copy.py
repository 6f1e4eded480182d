# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Which operands threads copy, in pieces of how many bytes, and when that is chosen over a launch that copies first."""

from math import gcd

from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.decisions import DEFERRED_ARRIVALS
from tilewright.ir.tile.facts import the_program
from tilewright.synth.decide import Wanted, decide
from tilewright.targets import target

HOPPER = target("sm_90a")


def decided(dims, strides=None, kernel=matmul_kernel, elements=None, **wishes):
    kinds = elements or dict.fromkeys("abc", Element.BF16)
    module = trace(kernel, dims, kinds, strides or {})
    return decide(the_program(module), HOPPER, Wanted(**{"unmapped": "threads", **wishes}))


extent = st.sampled_from([2, 8, 63, 64, 130, 1023, 1026, 4100])
layout = st.tuples(st.booleans(), st.integers(0, 9))
"""(column-major?, elements from a dense pitch to the real one)."""


def strides_of(rows, columns, chosen):
    by_columns, more = chosen
    pitch = (rows if by_columns else columns) + more
    return (1, pitch) if by_columns else (pitch, 1)


@settings(max_examples=20, deadline=None)
@given(extent, extent, extent, layout, layout)
def test_threads_copy_what_pieces_divide_and_no_map_describes(m, n, k, a, b):
    shapes = {"a": (m, k), "b": (k, n)}
    strides = {name: strides_of(*shapes[name], chosen) for name, chosen in zip("ab", (a, b), strict=True)}
    plan = decided({"M": m, "N": n, "K": k}, strides)
    for operand, load in zip((plan.a, plan.b), plan.async_plans, strict=False):
        pitch_bytes = 2 * max(strides["a" if operand.side == "left" else "b"])
        piece = gcd(pitch_bytes, 16)
        assert operand.materialized == int(piece == 2)
        assert operand.piece_bytes == (piece if piece in (4, 8) else 0)
        assert (load.mechanism == DEFERRED_ARRIVALS) == bool(operand.piece_bytes)
    engine = sum(
        load.stage_bytes
        for operand, load in zip((plan.a, plan.b), plan.async_plans, strict=False)
        if not operand.piece_bytes
    )
    assert plan.announced_bytes == engine


@tw.kernel
def before(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i - 1, k], b[k, j])
    c[i, j] = acc


@tw.kernel
def beside(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j + 1])
    c[i, j] = acc


def test_rows_before_the_array_are_copied_first():
    plan = decided({"M": 256, "N": 256, "K": 258}, kernel=before, swapped=False)
    assert plan.a.materialized and not plan.a.piece_bytes


def test_a_displacement_by_half_a_piece_is_copied_first():
    plan = decided({"M": 256, "N": 258, "K": 256}, kernel=beside, swapped=False)
    assert plan.b.materialized and not plan.b.piece_bytes


def test_clusters_share_what_is_copied_first():
    plan = decided({"M": 512, "N": 512, "K": 258}, cluster=(2, 1), tile=(128, 128))
    assert plan.a.materialized


def test_eight_bits_go_in_pieces_along_the_contracted_axis_alone():
    kinds = {"a": Element.F8E4M3, "b": Element.F8E4M3, "c": Element.BF16}
    plan = decided({"M": 256, "N": 260, "K": 260}, elements=kinds, swapped=False)
    assert plan.a.piece_bytes == 4 and plan.b.materialized


def test_distances_beyond_immediates_are_copied_first():
    plan = decided({"M": 128, "N": 256, "K": 256}, {"a": ((1 << 24) - 6, 1)}, swapped=False, tile=(128, 64))
    assert plan.a.materialized


def choice(m, n, k, **wishes):
    return decided({"M": m, "N": n, "K": k}, **{"unmapped": None, **wishes})


def test_threads_copy_the_weights_of_few_rows():
    """Their bytes are the time, and a launch that copied them first would move them three times."""
    plan = choice(64, 4096, 4098, strides={"b": (1, 4098)})
    assert plan.a.piece_bytes == plan.b.piece_bytes == 4
    assert any("with a launch that copies first" in reason for reason in plan.reasons)


def test_one_operand_of_a_large_product_goes_in_pieces_to_the_tile_that_asks_for_fewest():
    for dims, wide in (((4096, 4096, 4098), (128, 256)), ((4096, 4098, 4096), (256, 128))):
        plan = choice(*dims)
        assert (plan.tile_m, plan.tile_n) == wide
        assert bool(plan.a.piece_bytes) == (wide == (128, 256)) and bool(plan.b.piece_bytes) == (wide == (256, 128))


def test_both_operands_of_a_small_square_are_copied_first():
    plan = choice(1024, 1024, 1026, strides={"b": (1, 1026)})
    assert plan.a.materialized and plan.b.materialized and not plan.copies_by_threads
    assert any("if threads copied it in pieces" in reason for reason in plan.reasons)


def test_the_cache_keeps_room_for_what_threads_copy():
    """At most the second largest division of the memory, unless few stages would be left and a slot fits the rest."""
    *_, second, _ = HOPPER.limits("multiprocessor.shared_divisions_bytes")
    roomy = choice(64, 4096, 4098, strides={"b": (1, 4098)})
    assert roomy.smem_bytes + HOPPER.limit("cta.shared_reserved_bytes") <= second
    assert choice(4096, 4096, 4098).stages == 4
    both = choice(4096, 4100, 4100, unmapped="threads", tile=(128, 256))
    assert both.stages == 3 and both.a.piece_bytes == both.b.piece_bytes == 8
    assert choice(64, 4096, 4098, strides={"b": (1, 4098)}, stages=8).stages == 8


def test_fewer_stages_are_of_the_same_tile():
    """Of large products the tile that is chosen without a number of stages is not the one chosen with five."""
    unlimited = decided({"M": 4096, "N": 4096, "K": 4098}, unmapped=None)
    asked = decided({"M": 4096, "N": 4096, "K": 4098})
    assert asked.copies_by_threads and unlimited.copies_by_threads
    fixed = decided({"M": 4096, "N": 4096, "K": 4098}, tile=(asked.tile_m, asked.tile_n), turns=bool(asked.turns))
    assert (fixed.tile_m, fixed.tile_n, fixed.stages) == (asked.tile_m, asked.tile_n, asked.stages)


def test_workspaces_have_rows_of_whole_lines_where_that_adds_little():
    plan = choice(1024, 1024, 1025, strides={"b": (1, 1025)})
    assert plan.a.map.strides_bytes == plan.b.map.strides_bytes == (2176,)
    # Lines would make rows of 16 bytes eight times as long, and sectors those of 48 bytes longer by a third.
    for k, row_bytes in ((7, 16), (23, 64), (99, 256)):
        assert choice(4096, 4096, k).a.map.strides_bytes == (row_bytes,)
