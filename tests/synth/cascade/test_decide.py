"""Which tiles and slots programs over a streamed axis get: within every limit, wider where nothing is in the way."""

import pytest
from tests.lower.cascade_programs import PROGRAMS, attention, causal, dims_of, matmul_softmax, mlp, rms_norm_matmul
from tests.lower.lowered_programs import lower

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.kernels_attention import key_gradients_kernel, query_gradient_kernel
from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import decisions_of, to_attribute
from tilewright.ir.tile.facts import the_program
from tilewright.synth.cascade.walk.walk_time import walked_lengths
from tilewright.synth.decide import Wanted
from tilewright.targets import target


def attention_of(width: int, **wanted):
    dims = {"B": 1, "H": 2, "Q": 512, "T": 512, "E": width, "F": width}
    return lower(attention, dims, wanted=Wanted(**{"consumers": 2, **wanted})).decisions


def test_decisions_are_read_back_as_they_were_written():
    for name in PROGRAMS:
        decisions = lower(PROGRAMS[name], dims_of(name, 100, 128)).decisions
        assert decisions_of(to_attribute(decisions)) == decisions


@pytest.mark.parametrize("width", [16, 64, 128, 192, 256])
def test_wider_heads_take_narrower_tiles_within_shared_memory_and_registers(width):
    facts, decisions = target("sm_90a"), attention_of(width)
    assert decisions.smem_bytes <= facts.limit("cta.shared_bytes_max")
    assert decisions.tile_streamed >= (128 if width <= 128 else 32)
    threads = 128 * (decisions.consumers * decisions.consumer_registers + decisions.producer_registers)
    assert threads <= facts.limit("multiprocessor.registers")
    assert all(slot.slots >= 2 for slot in decisions.slots if not slot.resident)


def test_queries_stay_and_keys_come_by():
    queries, keys, values = attention_of(64).slots
    assert (queries.resident, keys.resident, values.resident) == (1, 0, 0)
    assert queries.rows == 128 and keys.rows == values.rows == 128


@pytest.mark.parametrize(("keys", "width"), [(128, 128), (130, 80), (200, 112), (512, 128), (4096, 128), (4100, 128)])
def test_narrower_tiles_are_taken_where_the_last_one_would_be_mostly_empty(keys, width):
    # 130 keys are two tiles either way, and 80 at a time leave less of the second.
    dims = {"B": 1, "H": 2, "Q": 512, "T": keys, "E": 64, "F": 64}
    assert lower(attention, dims, wanted=Wanted(consumers=2)).decisions.tile_streamed == width


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_keys_leave_room_for_64_queries(causal):
    dims = {"B": 1, "H": 16, "Q": 1024, "T": 1024, "E": 128, "F": 128}
    kernel = key_gradients_kernel(0.1, causal, 1)
    decisions = lower(kernel, dims, {each.name: each.element or Element.BF16 for each in kernel.parameters}).decisions
    assert (decisions.tile_streamed, len(decisions.shared_columns)) == (64, 2)
    assert set(decisions.in_vectors) == {"key_gradient", "value_gradient"}


@pytest.mark.parametrize(
    ("rows", "causal", "tile"),
    [(4096, False, (3, 80)), (4096, True, (3, 80)), (1024, True, (3, 80)), (512, True, (3, 64))],
)
def test_what_a_mask_leaves_counts_where_all_products_are_waited_for(rows, causal, tile):
    """Each iteration takes something besides, which matters where there are few; tiles of more rows walk no more."""
    found = query_gradient(rows, causal, Wanted(ordered=False))
    assert (found.consumers, found.tile_streamed) == tile and not found.late


@pytest.mark.parametrize(("rows", "causal"), [(4096, False), (4096, True), (1024, True), (512, True)])
def test_two_consumers_in_order_take_less_time_than_three(rows, causal):
    found = query_gradient(rows, causal, Wanted())
    assert (found.consumers, found.tile_streamed, found.ordered) == (2, 128, 1)


def test_consumers_in_order_have_what_the_producer_does_not_need_where_their_tile_does():
    wide, narrow = (query_gradient(4096, causal=False, wanted=Wanted(depth=depth)) for depth in (128, 112))
    assert (wide.producer_registers, wide.consumer_registers, wide.ordered) == (24, 240, 1)
    assert (narrow.producer_registers, narrow.consumer_registers, narrow.ordered) == (40, 232, 1)


def query_gradient(rows, causal, wanted):
    kernel = query_gradient_kernel(0.125, causal=causal, sharing=1)
    dims = {"B": 16384 // rows, "H": 32, "Q": rows, "T": rows, "E": 64, "F": 64}
    elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    return lower(kernel, dims, elements, wanted=wanted).decisions


def test_what_is_asked_for_is_done_or_refused():
    assert attention_of(64, depth=48).tile_streamed == 48
    assert attention_of(64, consumers=1).tile_rows == 64
    with pytest.raises(TilewrightError, match="no tile of this program fits"):
        attention_of(64, depth=24)


def test_three_consumers_are_taken_of_many_rows_whose_values_leave_them_registers():
    facts, many = target("sm_90a"), {"B": 4, "H": 64, "Q": 512, "T": 512}
    narrow = lower(attention, many | {"E": 64, "F": 64}).decisions
    assert (narrow.consumers, narrow.tile_streamed, narrow.consumer_registers) == (3, 128, 160)
    threads = facts.limit("warpgroup.threads")
    assert threads * (3 * narrow.consumer_registers + narrow.producer_registers) <= facts.limit(
        "multiprocessor.registers"
    )
    assert lower(attention, many | {"E": 128, "F": 128}).decisions.consumers == 2
    assert lower(matmul_softmax, {"M": 65536, "N": 256, "K": 64}).decisions.consumers == 2


@pytest.mark.parametrize("rows", [512, 1024, 2048, 4096])
def test_consumers_of_a_tile_walk_what_a_mask_leaves_of_their_own_rows(rows):
    """So tiles of three consumers walk no more than those of two, of short sequences too."""
    dims = {"B": 32 * 16384 // rows, "Q": rows, "T": rows, "E": 64, "F": 64}
    lowered = lower(causal, dims)
    found = lowered.decisions
    assert found.consumers == 3
    walked, keys = walked_lengths(the_program(lowered.module), found), found.tile_streamed
    firsts = [[64 * (3 * tile + unit) - found.rows_before for unit in range(3)] for tile in range(len(walked))]
    assert walked == [[-(-(first + 64) // keys) if 0 <= first < rows else 1 for first in each] for each in firsts]
    # The last tile, which walks most, is whole.
    assert (rows + found.rows_before) % 192 == 0 and found.rows_before < 192


def test_the_first_tile_is_the_one_with_fewer_rows_where_the_last_one_walks_most():
    """Eight consumers' rows under a diagonal: 1, 3, 4 tiles of 128 keys are walked instead of 2, 3, 4."""
    lowered = lower(causal, {"B": 1024, "Q": 512, "T": 512, "E": 64, "F": 64})
    walked = walked_lengths(the_program(lowered.module), lowered.decisions)
    assert [max(lengths) for lengths in walked] == [1, 3, 4]
    (op,) = (each for each in lowered.kernels[0].walk() if isinstance(each, ac.UnitRangeOp))
    assert [op.part((0, most), tile, unit, 8) for tile, most in enumerate((1, 3, 4)) for unit in range(3)] == [
        length for lengths in walked for length in lengths
    ]


def test_consumers_that_would_pass_several_slices_of_an_iteration_end_with_their_tile():
    dims = {"B": 4, "Q": 1024, "T": 1024, "E": 512, "F": 64}
    lowered = lower(causal, dims, wanted=Wanted(consumers=3, depth=64))
    assert lowered.decisions.sliced and lowered.decisions.walked and lowered.decisions.unit_end is None
    assert isinstance(verify(lowered.kernels[0], target("sm_90a")), Proven)


@pytest.mark.parametrize(
    ("wanted", "width"),
    [(Wanted(consumers=1), 64), (Wanted(consumers=2), 64), (Wanted(), 128)],
)
def test_consumers_that_all_walk_as_far_as_their_tile_end_with_it(wanted, width):
    found = lower(causal, {"B": 4, "Q": 1024, "T": 1024, "E": width, "F": width}, wanted=wanted).decisions
    assert found.walked and found.unit_end is None


def test_consumers_in_order_end_with_their_tile():
    assert query_gradient(1024, True, Wanted()).unit_end is None


@pytest.mark.parametrize(("places", "width", "together"), [(512, 64, True), (512, 128, False), (128, 64, False)])
def test_two_ctas_of_few_rows_share_a_multiprocessor_where_there_are_more_and_half_its_memory_does(
    places, width, together
):
    facts = target("sm_90a")
    decisions = lower(attention, {"B": places, "H": 1, "Q": 4, "T": 1024, "E": width, "F": width}).decisions
    assert (decisions.ctas > facts.limit("device.multiprocessors")) == together
    if together:
        threads = 2 * facts.limit("warpgroup.threads") * (decisions.consumers + 1)
        assert threads * decisions.launch_registers <= facts.limit("multiprocessor.registers")
        reserved = facts.limit("cta.shared_reserved_bytes")
        assert 2 * (decisions.smem_bytes + reserved) <= facts.limit("multiprocessor.shared_bytes")


def test_few_rows_take_one_consumer():
    assert lower(attention, dims_of("attention", 64, 128)).decisions.consumers == 1


def test_one_consumer_is_taken_where_smaller_tiles_end_sooner():
    """4 CTAs of 128 rows leave most multiprocessors idle, 8 of 64 fewer; of many tiles two consumers do more."""
    few = dims_of("attention", 128, 128)
    assert lower(attention, few).decisions.consumers == 1
    assert lower(attention, few | {"B": 33}).decisions.consumers == 1
    assert lower(attention, few | {"B": 66}).decisions.consumers == 2


def test_wide_tiles_by_slices_are_taken_before_narrow_ones_of_whole_rows():
    decisions = lower(matmul_softmax, {"M": 4096, "N": 4096, "K": 1024}).decisions
    assert decisions.sliced == ("K",) and decisions.tile_streamed >= 128


def test_an_axis_that_one_tile_holds_is_walked_once():
    once = lower(matmul_softmax, {"M": 256, "N": 256, "K": 128})
    assert once.decisions.tile_streamed == 256 and str(once.module).count("tile.loop") == 1
    assert str(lower(matmul_softmax, {"M": 256, "N": 264, "K": 128}).module).count("tile.loop") == 2


def test_long_products_are_sliced_and_short_ones_stay():
    assert lower(matmul_softmax, {"M": 256, "N": 2048, "K": 64}).decisions.sliced == ()
    assert lower(matmul_softmax, {"M": 256, "N": 2048, "K": 4096}).decisions.sliced == ("K",)
    with pytest.raises(TilewrightError, match="slices that two products of a walk take"):
        lower(mlp, {"M": 256, "D": 4096, "H": 512, "N": 128})


def test_many_columns_are_cut():
    decisions = lower(rms_norm_matmul, {"M": 256, "K": 512, "N": 1000}).decisions
    assert decisions.tile_columns in (128, 256) and decisions.column == "N"


def test_arrays_that_begin_anywhere_are_copied():
    lowered = lower(attention, dims_of("attention", 64, 64), wanted=Wanted(misaligned=("k",)))
    copy, walk = lowered.parts
    assert "k" not in {slot.buffer for slot in walk.decisions.slots}
    assert any("begins at no multiple of 16 bytes" in reason for reason in copy.decisions.reasons)
