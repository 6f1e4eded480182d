"""Small instances of programs over a streamed axis: two of each tile, every ring comes round, the same text."""

import math
import sys
from pathlib import Path

import pytest

from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.kernels_scaled import scaled_kernel
from tilewright.driver.reproof.small import immediate_pairs, same_but_for_extents, small_instance
from tilewright.driver.reproof.small_cascade import reduced
from tilewright.frontends.ptx.reader import read
from tilewright.ir.decisions import decisions_of
from tilewright.ir.tile.facts import the_program
from tilewright.synth.decide import Wanted

sys.path.insert(0, str(Path(__file__).parents[2] / "lower"))
from tests.lower.cascade_programs import PROGRAMS, dims_of
from tests.lower.lowered_programs import lower, lower_decided


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_text_of_the_small_instance_is_the_large_one_but_for_extents(name):
    large = lower(PROGRAMS[name], dims_of(name, 5000, 3000))
    instance = small_instance(large.module)
    small = lower_decided(instance, large.decisions)
    assert the_program(instance).extents != the_program(large.module).extents
    pairs = immediate_pairs(the_program(large.module), the_program(instance))
    assert same_but_for_extents(large.parsed, small.parsed, pairs) == ""


def test_every_ring_comes_round_and_ctas_take_several_tiles():
    large = lower(PROGRAMS["attention"], {"B": 8, "H": 16, "Q": 4096, "T": 4096, "E": 64, "F": 64})
    instance = the_program(small_instance(large.module))
    small = decisions_of(instance.attributes["decisions"])
    walked = -(-instance.extents["T"] // small.tile_streamed)
    assert all(walked > slot.slots for slot in small.slots if not slot.resident)
    tiles = -(-instance.extents["Q"] // small.tile_rows) * instance.extents["B"] * instance.extents["H"]
    assert (tiles, small.ctas) == (12, 2)
    assert all(tiles // small.ctas > slot.slots for slot in small.slots if slot.resident)


def test_tiles_of_a_cta_come_from_the_batch_where_rows_are_few():
    large = lower(PROGRAMS["attention"], {"B": 8, "H": 16, "Q": 64, "T": 256, "E": 64, "F": 64})
    instance = the_program(small_instance(large.module))
    small = decisions_of(instance.attributes["decisions"])
    tiles = instance.extents["B"] * instance.extents["H"]
    assert all(tiles // small.ctas > slot.slots for slot in small.slots if slot.resident), instance.extents


def test_another_bound_of_what_is_walked_is_seen():
    large = lower(PROGRAMS["attention"], {"B": 1, "H": 1, "Q": 4096, "T": 4001, "E": 64, "F": 64})
    instance = small_instance(large.module)
    small = lower_decided(instance, large.decisions)
    pairs = immediate_pairs(the_program(large.module), the_program(instance))
    bound = "0f457A1000"  # 4001
    assert bound in large.ptx
    edited = read(large.ptx.replace(bound, "0f457A2000"))
    assert same_but_for_extents(edited, small.parsed, pairs) != ""


def test_a_number_for_the_whole_product_keeps_the_instance_small():
    """It is one block of each axis; two of them would be the whole product."""
    kernel = scaled_kernel("none", biased=False, added=False, scaling=(True, True))
    elements = {"a": "f8e4m3", "b": "f8e4m3", "c": "bf16"}
    options = {"dims": {"M": 1561, "N": 15360, "K": 5120}, "strides": {"b": (1, 5120)}, "dtype": elements}
    made = compile_kernel(kernel, **options, wanted=Wanted(), rerun=False, assembled=False)
    (part,) = made.parts
    extents = the_program(small_instance(part.module)).extents
    assert extents["M"] < 1024 and extents["N"] < 1024, extents


def test_last_tiles_are_as_full():
    assert [reduced(extent, 64, 2) for extent in (1, 64, 100, 128, 129, 200, 256)] == [1, 64, 100, 128, 65, 72, 128]


@pytest.mark.parametrize("tile", [(128, 136), (256, 128)])
def test_sums_of_products_keep_their_text_and_take_turns_again(tile):
    """Boxes of the small result have its own dimensions; each of two CTAs has three tiles where they are in turn."""
    wanted = Wanted(tile=tile, turns=tile[0] == 128, stream_k=False)
    options = {"dims": {"M": 4096, "N": 4096, "K": 4096}, "strides": {"b": (1, 4096)}, "wanted": wanted}
    (part,) = compile_kernel(matmul_kernel, **options, rerun=False, assembled=False).parts
    instance = small_instance(part.module)
    decisions = decisions_of(the_program(instance).attributes["decisions"])
    tiles = math.prod(-(-the_program(instance).extents[axis] // size) for axis, size in zip("MN", tile, strict=True))
    assert tiles == (6 if decisions.turns else 4)
    assert [each.map.dims[1::-1] for each in decisions.stores] == [
        tuple(the_program(instance).extents[axis] for axis in "MN")
    ]


@pytest.mark.parametrize(("m", "n"), [(13, 4480), (4480, 13)])
@pytest.mark.parametrize("split", [1, 2])
def test_one_of_two_clusters_takes_another_tile_where_an_axis_has_one_alone(m: int, n: int, split: int) -> None:
    """What is left undone at the end of a tile shows in the next one."""
    wanted = Wanted(tile=(64, 16), split=split, swapped=n > m)
    options = {"dims": {"M": m, "N": n, "K": 200}, "wanted": wanted, "strides": {"b": (1, 200)}}
    (part,) = compile_kernel(matmul_kernel, **options, rerun=False, assembled=False).parts
    instance = the_program(small_instance(part.module))
    small = decisions_of(instance.attributes["decisions"])
    tiles = -(-instance.extents[small.row] // 64) * -(-instance.extents[small.column] // 16)
    assert tiles > small.ctas // split > 1


def test_streamed_tiles_that_are_not_full_have_full_ones_beside_them():
    """Else products of whatever rows only a full tile has may be left out: the last one has 4 of 128 here."""
    wanted = Wanted(tile=(128, 136), turns=True, stream_k=True)
    options = {"dims": {"M": 4100, "N": 4104, "K": 4104}, "wanted": wanted}
    (part,) = compile_kernel(matmul_kernel, **options, rerun=False, assembled=False).parts
    instance = the_program(small_instance(part.module))
    small = decisions_of(instance.attributes["decisions"])
    assert small.stream is not None
    assert (instance.extents[small.row] % small.row_step, instance.extents[small.column] % small.column_step) == (4, 24)
    assert instance.extents[small.row] > small.row_step and instance.extents[small.column] > small.column_step
