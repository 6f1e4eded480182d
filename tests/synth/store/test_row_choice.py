"""Which form rows take: where they wait, and how many CTAs share one."""

import pytest
from examples.rows import argmax, layer_norm, quantize, quantize_int8, rms_norm, softmax

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import compile_kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.rows import RowDecision
from tilewright.ir.tile.facts import the_program
from tilewright.synth.decide import Wanted, decide
from tilewright.targets import target

HOPPER = target("sm_90a")


def row_of(
    kernel, rows: int, length: int, wanted: Wanted | None = None, element=Element.BF16, on=HOPPER
) -> RowDecision:
    elements = {each.name: each.element or element for each in kernel.parameters}
    module = trace(kernel, {"M": rows, "N": length}, elements)
    (row,) = decide(the_program(module), on, wanted).rows
    return row


@pytest.mark.parametrize("kernel", [softmax, layer_norm, rms_norm, quantize], ids=lambda each: each.name)
def test_rows_are_read_once_up_to_what_a_cluster_holds(kernel):
    for length in (1000, 8192, 38139, 57000, 65536, 131072, 262144, 1_000_000):
        row = row_of(kernel, 500, length)
        assert row.kept == ("x",) or not row.streamed, length
        assert row.kept_bytes(length, 2) <= HOPPER.limit("cta.shared_bytes_max")


def test_rows_that_no_cluster_holds_are_read_anew():
    row = row_of(softmax, 3, 4_000_000)
    assert row.streamed and not row.kept and row.ctas == 1


def test_a_row_of_one_walk_waits_nowhere():
    for length in (4096, 50257, 262144):
        assert not row_of(argmax, 500, length).kept


def test_rows_of_norms_wait_where_what_they_share_stays_in_a_cache():
    """Threads that make the last strip full: 14336 elements are two strips of 448."""
    for length, threads in ((8192, 256), (16384, 512)):
        row = row_of(layer_norm, (1 << 25) // length, length)
        assert (row.kept, row.threads, row.ctas) == (("x",), threads, 1), length
    assert row_of(layer_norm, 2340, 14336).threads == 448


def test_few_rows_are_shared_by_more_threads():
    assert row_of(quantize, 9, 29120).threads > row_of(quantize, 9000, 29120).threads
    assert row_of(rms_norm, 3, 248512).ctas > row_of(rms_norm, 3, 20000).ctas > 1


def test_short_rows_are_a_warps_or_less():
    for length in (64, 97, 185, 333, 515, 768):
        assert row_of(softmax, 5000, length).threads <= 32
        assert row_of(quantize, 5000, length).ctas == 1


def test_rows_of_four_runs_of_a_warp_are_two_warps_where_they_are_stored():
    """4096 rows of 1024: softmax 5.35 us against 6.13 of a warp each, LayerNorm 5.38 against 5.43; 16384 rows of 896:
    softmax 15.1 against 15.5. argmax takes 9.7 us by warps and 11.9 by two of them; 43690 rows of 768 30 % longer by
    two where bytes are stored."""
    for kernel, rows, length, threads, together in (
        (softmax, 4096, 1024, 64, 1),
        (softmax, 16384, 896, 64, 1),
        (layer_norm, 4096, 1024, 64, 1),
        (layer_norm, 16384, 896, 64, 1),
        (argmax, 16384, 896, 32, 1),
        (quantize, 43690, 768, 32, 1),
    ):
        row = row_of(kernel, rows, length)
        assert (row.threads, row.together, row.ctas) == (threads, together, 1), (kernel.name, rows, length)


def test_many_short_rows_are_taken_several_at_once():
    """A run of each thread, of two rows; where weights and biases are loaded too, also if threads have two runs."""
    for length, lanes in ((64, 8), (128, 16), (256, 32)):
        row = row_of(softmax, 200_000, length)
        assert (row.threads, row.pieces, row.together) == (lanes, 1, 2), length
        assert row_of(layer_norm, 200_000, length).together == 2
    assert row_of(layer_norm, 200_000, 512).together == 2 > row_of(softmax, 200_000, 512).together
    assert row_of(layer_norm, 200_000, 768).together == 1
    for kernel, rows, length in (
        (softmax, 500, 128),
        (softmax, 200_000, 123),
        (softmax, 40_000, 1024),
        (argmax, 200_000, 128),
    ):
        assert row_of(kernel, rows, length).together == 1, (kernel.name, rows, length)
    # Of more lanes many would have nothing.
    assert row_of(softmax, 200_000, 72).threads == 4
    assert row_of(softmax, 200_000, 192).threads == 8
    assert row_of(softmax, 3001, 384).threads == 16


def test_few_rows_whose_ends_cut_runs_take_more_lanes_where_these_have_something() -> None:
    """Rows of bytes, whose words are four elements of the other array: so runs follow vectors."""
    for rows, length, lanes in (
        (6013, 253, 16),
        (12007, 253, 8),
        (9001, 189, 16),
        (20_001, 189, 8),
        (3001, 381, 32),
        (3001, 253, 16),  # 33 runs: of 32 lanes 31 would have one of two
    ):
        row = row_of(quantize, rows, length)
        assert (row.threads, row.run, row.shifted) == (lanes, 8, "x"), (rows, length)


def test_rows_that_begin_anywhere_in_a_vector_are_taken_by_words() -> None:
    """Runs that are whole where a row is whole words, else shifted by an element in every other row."""
    for kernel, length, lanes, pieces in (
        (layer_norm, 446, 32, 7),
        (layer_norm, 118, 8, 8),
        (rms_norm, 118, 16, 4),  # one fold: more lanes exchange little
        (softmax, 138, 8, 9),
        (softmax, 70, 8, 5),  # no part of a sector
        (softmax, 758, 32, 12),
        (layer_norm, 447, 32, 7),
        (softmax, 119, 8, 8),
    ):
        row = row_of(kernel, (1 << 24) // length, length)
        assert (row.run, row.threads, row.pieces, row.together) == (2, lanes, pieces, 1), (kernel.name, length)
        assert bool(row.shifted) == bool(length % 2)
        assert set(row.vectors) >= {"x", "y"}
    row = row_of(softmax, 50_000, 333, element=Element.F32)
    assert (row.run, row.vectors, row.shifted) == (1, ("x", "y"), "")


def test_long_rows_are_taken_by_words_where_all_rows_share_something() -> None:
    """Weights begin elsewhere in a vector than most rows do, and words anywhere."""
    assert row_of(layer_norm, 4094, 4098).run == row_of(rms_norm, 4094, 4098).run == 2
    row = row_of(softmax, 4094, 4098)
    assert (row.run, row.shifted) == (8, "x")


def test_few_rows_by_words_take_as_many_threads_as_vectors_would() -> None:
    row = row_of(softmax, 500, 253)
    assert (row.run, row.threads) == (2, 32)


def test_a_unit_of_several_warps_is_all_of_its_cta():
    """Of 96 threads, too: fewer than CTAs of single warps have."""
    made = compile_kernel(quantize_int8, dims={"M": 446, "N": 1453}, dtype="bf16", rerun=False, assembled=False)
    assert row_of(quantize_int8, 446, 1453).threads == 96
    assert [launch.block for launch in made.plan.launches] == [(96, 1, 1)]


def test_forms_that_are_asked_for():
    row = row_of(softmax, 64, 8192, Wanted(row_threads=256, row_ctas=4, row_kept=True))
    assert (row.cta_threads, row.ctas, row.kept) == (256, 4, ("x",))
    for run, shifted in ((2, ""), (8, "x")):
        row = row_of(softmax, 64, 446, Wanted(row_run=run))
        assert (row.run, row.shifted) == (run, shifted)
    row = row_of(softmax, 64, 8192, Wanted(row_threads=128, row_ctas=2, row_kept=False))
    assert (row.cta_threads, row.ctas, row.kept, row.streamed) == (128, 2, (), 0)
    with pytest.raises(TilewrightError, match="no rows of 2048 by 16 threads"):
        row_of(softmax, 64, 2048, Wanted(row_threads=16, row_kept=True))
    with pytest.raises(TilewrightError, match="no rows of 8192 by 128 threads of 3 CTAs"):
        row_of(softmax, 64, 8192, Wanted(row_threads=128, row_ctas=3))


def test_a_target_of_which_nobody_measured_rows_has_estimates():
    row = row_of(softmax, 500, 65536, on=target("sm_100a"))
    assert row.kept == ("x",) or not row.streamed
