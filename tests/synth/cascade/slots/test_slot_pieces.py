# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Which arrays threads copy into slots, in pieces of how many bytes, and when that is chosen over a copy before."""

from math import gcd

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.sequence import sequence
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.synth.cascade.slots.slot_pieces import copying_cycles
from tilewright.synth.cascade.slots.unmapped_slots import copied_by_threads
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


def parts_of(dims, strides=None, kernel=matmul_kernel, elements=None, **wishes):
    kinds = elements or dict.fromkeys("abc", Element.BF16)
    module = trace(kernel, dims, kinds, strides or {})
    return sequence(module, HOPPER, Wanted(**{"unmapped": "threads", **wishes}))


def pieces_of(parts):
    """By array, of the product's slots; 0 of what the copy engine brings, None of what is copied first."""
    found = {slot.buffer: slot.piece_bytes for slot in parts[-1].decisions.slots}
    return tuple(found.get(name) for name in "ab")


@pytest.mark.parametrize(
    ("k", "strides", "name", "expected"),
    [
        (1026, {}, "sm_90a", True),
        (1025, {}, "sm_90a", False),
        (1025, {"b": (1, 1026)}, "sm_90a", True),
        (1025, {"b": (1, 1025)}, "sm_90a", False),
        (1026, {}, "sm_100a", False),
    ],
)
def test_where_rows_begin_at_no_multiple_of_a_piece_threads_are_not_tried(k, strides, name, expected):
    module = trace(matmul_kernel, {"M": 64, "N": 63, "K": k}, dict.fromkeys("abc", Element.BF16), strides)
    offered = list(copied_by_threads(the_program(module), Wanted(), target(name)))
    assert bool(offered) is expected


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
    parts = parts_of({"M": m, "N": n, "K": k}, strides)
    for name, found in zip("ab", pieces_of(parts), strict=True):
        piece = gcd(2 * max(strides[name]), 16)
        assert found == {16: 0, 8: 8, 4: 4, 2: None}[piece]


@pytest.mark.parametrize(("aligned", "piece"), [((("b", 4),), 4), ((("b", 8),), 8)])
def test_the_address_bounds_the_piece(aligned, piece):
    wanted = Wanted(unmapped="threads", misaligned=("b",), aligned=aligned)
    compiled = compile_kernel(
        matmul_kernel, dims={"M": 256, "N": 256, "K": 256}, wanted=wanted, rerun=False, assembled=False
    )
    assert pieces_of(compiled.parts) == (0, piece)
    assert compiled.bundle().facts["alignment_bytes"]["b"] == piece


def test_a_launch_checks_the_address_of_what_threads_copy():
    compiled = compile_kernel(
        matmul_kernel, dims={"M": 256, "N": 256, "K": 258}, wanted=Wanted(unmapped="threads"), rerun=False,
        assembled=False,
    )  # fmt: skip
    assert pieces_of(compiled.parts) == (4, 0)
    assert compiled.bundle().facts["alignment_bytes"]["a"] == 16


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
    assert pieces_of(parts_of({"M": 256, "N": 256, "K": 258}, kernel=before))[0] is None


def test_a_displacement_by_half_a_piece_is_copied_first():
    assert pieces_of(parts_of({"M": 256, "N": 258, "K": 256}, kernel=beside))[1] is None


def test_clusters_share_what_is_copied_first():
    assert pieces_of(parts_of({"M": 512, "N": 512, "K": 258}, cluster=(2, 1), tile=(128, 128)))[0] is None


def test_eight_bits_go_in_pieces_along_the_contracted_axis_alone():
    kinds = {"a": Element.F8E4M3, "b": Element.F8E4M3, "c": Element.BF16}
    assert pieces_of(parts_of({"M": 256, "N": 260, "K": 260}, elements=kinds)) == (4, None)


def test_distances_beyond_immediates_are_copied_first():
    strides = {"a": ((1 << 24) - 6, 1)}
    assert pieces_of(parts_of({"M": 128, "N": 256, "K": 256}, strides, tile=(128, 64)))[0] is None


def test_threads_copy_the_weights_of_few_rows():
    """Their bytes are the time, and a kernel that copied them first would move them three times."""
    (only,) = parts_of({"M": 64, "N": 4096, "K": 4098}, {"b": (1, 4098)}, unmapped=None)
    assert pieces_of([only]) == (4, 4)
    assert any("with a kernel that copies first" in reason for reason in only.decisions.reasons)


@pytest.mark.parametrize(("dims", "tile"), [((4096, 4096, 4098), (128, 256)), ((4096, 4098, 4096), (256, 128))])
def test_one_operand_of_a_large_product_goes_in_pieces_to_the_tile_that_asks_for_fewest(dims, tile):
    parts = parts_of(dict(zip("MNK", dims, strict=True)), unmapped=None)
    (d,) = (part.decisions for part in parts)
    assert (d.tile_rows, d.tile_columns) == tile
    assert pieces_of(parts) == ((4, 0) if tile == (128, 256) else (0, 4))


def test_both_operands_of_a_small_square_are_copied_first_by_one_kernel():
    copies, product = parts_of({"M": 1024, "N": 1024, "K": 1026}, {"b": (1, 1026)}, unmapped=None)
    assert pieces_of([product]) == (None, None) and not product.decisions.copies_by_threads
    assert copies.decisions.run > 1
    assert any("if threads copied it in pieces" in reason for reason in product.decisions.reasons)


def test_the_cache_keeps_room_for_what_threads_copy():
    """At most the second largest division of the memory, unless few stages would be left and a slot fits the rest."""
    *_, second, _ = HOPPER.limits("multiprocessor.shared_divisions_bytes")
    few = {"M": 64, "N": 4096, "K": 4098}
    roomy = parts_of(few, {"b": (1, 4098)})[-1].decisions
    assert roomy.smem_bytes + HOPPER.limit("cta.shared_reserved_bytes") <= second
    assert parts_of({"M": 4096, "N": 4096, "K": 4098}, unmapped=None)[-1].decisions.slots[0].slots == 4
    (both,) = (part.decisions for part in parts_of({"M": 4096, "N": 4100, "K": 4100}, tile=(128, 256)))
    assert [(slot.slots, slot.piece_bytes) for slot in both.slots] == [(3, 8), (3, 8)]
    assert parts_of(few, {"b": (1, 4098)}, stages=8)[-1].decisions.slots[0].slots == 8


def test_fewer_stages_are_of_the_same_tile():
    """Of large products the tile that is chosen without a number of stages is not the one chosen with five."""
    dims = {"M": 4096, "N": 4096, "K": 4098}
    asked = parts_of(dims)[-1].decisions
    assert asked.copies_by_threads
    tile = (asked.tile_rows, asked.tile_columns)
    fixed = parts_of(dims, tile=tile, turns=bool(asked.turns))[-1].decisions
    assert (fixed.tile_rows, fixed.tile_columns) == tile and fixed.slots[0].slots == asked.slots[0].slots


def test_copies_take_time_by_pieces_and_by_rows():
    """In pieces of 4 and of 8 bytes as long where rows run along the contracted axis."""
    one, other = (
        parts_of({"M": 4096, "N": 4096, "K": k}, tile=(128, 256), stages=4)[-1].decisions for k in (4098, 4100)
    )
    assert copying_cycles(one, HOPPER) == copying_cycles(other, HOPPER) > 0
    assert copying_cycles(parts_of({"M": 512, "N": 512, "K": 512})[-1].decisions, HOPPER) == 0


def test_workspaces_have_rows_of_whole_lines_where_that_adds_little():
    def pitches(k):
        product = parts_of({"M": 4096, "N": 4096, "K": k}, {"b": (1, k)}, unmapped="workspace")[-1].decisions
        return {slot.strides_bytes[0] for slot in product.slots}

    assert pitches(1025) == {2176}
    # Lines would make rows of 16 bytes eight times as long, and sectors those of 48 bytes longer by a third.
    assert [pitches(k) for k in (7, 23, 99)] == [{16}, {64}, {256}]
