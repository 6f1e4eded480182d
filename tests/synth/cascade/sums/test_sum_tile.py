"""Sums of products as walks: their tiles are those of products, and what leaves in boxes has a legal map."""

from typing import Any

import pytest

import tilewright.frontends.tile.language as tw
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import decisions_of, to_attribute
from tilewright.ir.tile.facts import the_program
from tilewright.legal.tensor_map.legality import check
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.synth.decide import Wanted, decide
from tilewright.synth.streaming.loop_products import as_walk
from tilewright.targets import target

HOPPER = target("sm_90a")


def decided(m: int, n: int, k: int, kind: Any = tw.bf16, **wanted: Any) -> CascadeDecisions:
    kinds = {each.name: tw.bf16 for each in matmul_kernel.parameters} | {"c": kind}
    module = as_walk(trace(matmul_kernel, {"M": m, "N": n, "K": k}, kinds, {"b": (1, k)}))
    assert module is not None
    decisions = decide(the_program(module), HOPPER, Wanted(**wanted))
    assert isinstance(decisions, CascadeDecisions)
    return decisions


@pytest.mark.parametrize("shape", [(4096, 4096, 4096), (8192, 10240, 8192), (1, 3072, 1024), (1000, 1024, 16384)])
@pytest.mark.parametrize("kind", [tw.bf16, tw.f32])
def test_tiles_fit_the_multiprocessor(shape: tuple[int, int, int], kind: Any) -> None:
    d = decided(*shape, kind)
    assert d.smem_bytes <= HOPPER.limit("cta.shared_bytes_max")
    threads = 128 * (d.consumers * d.consumer_registers + d.producer_registers)
    assert threads <= HOPPER.limit("multiprocessor.registers")
    assert decisions_of(to_attribute(d)) == d


def test_large_tiles_are_taken_in_turn_and_small_ones_are_not() -> None:
    assert decided(4096, 4096, 4096).turns == 1
    assert decided(4096, 4096, 64).turns == 0  # a turn needs two slots
    assert decided(4096, 4096, 4096, turns=False, tile=(128, 256)).tile_rows == 128


@pytest.mark.parametrize("tile", [(128, 128), (128, 136), (128, 200), (256, 128)])
def test_boxes_cover_a_tile_by_legal_maps(tile: tuple[int, int]) -> None:
    d = decided(4096, 4096, 4096, tile=tile)
    (store,) = d.stores
    assert sum(width for _, _, width in store.boxes(d.unit_rows, d.tile_columns)) == tile[1]
    for each in (store.map, *store.tail):
        map_ = TensorMap(each.element, each.dims, each.strides_bytes, each.box, swizzle=each.swizzle)
        assert not check(map_, HOPPER).violations
        assert each.tensor_map().box_bytes <= d.staging_slot_bytes


def test_what_no_box_ends_at_is_stored_by_threads() -> None:
    odd, beginning_anywhere = decided(512, 508, 512), decided(512, 512, 512, misaligned=("c",))
    for d in (odd, beginning_anywhere):
        assert (d.stores, d.staging_slots, d.rows_bytes > 0) == ((), 0, True)


def test_threads_have_room_for_rows_only_where_they_store_along_them() -> None:
    """16 rows of 32001 columns are a transposed product, whose result no box ends at, and threads store its columns."""
    kinds = {each.name: tw.bf16 for each in matmul_kernel.parameters}
    source = trace(matmul_kernel, {"M": 16, "N": 32001, "K": 4096}, kinds, {"b": (1, 4096)})
    wanted = Wanted()
    d = decide(the_program(walked(source, HOPPER, wanted)), HOPPER, wanted)
    assert isinstance(d, CascadeDecisions)
    assert (d.row, d.stores, d.staging_slots, d.rows_bytes) == ("N", (), 0, 0)
