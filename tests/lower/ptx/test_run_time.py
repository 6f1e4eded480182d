# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""A program with a run-time axis has one text for all its extents, and passes what depends on them."""

from functools import cache

import pytest
from tests.lower.distribution.evaluated_raster import evaluated
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, i64

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.plan import LaunchPlan, ScalarParam
from tilewright.base.run_time import plan_at
from tilewright.base.size import Extent, Range, ceil_div, value_of
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.sequence import uncut
from tilewright.driver.reproof.small import small_instance
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.ir.tile.order import TILE_ORDERS, TileOrder, place_in_order
from tilewright.lower.distribution.raster import raster
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.run_time import PassedSizes, RasterSizes
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

KINDS = {
    "rows": Wanted(tile=(64, 64), swapped=False),
    "columns": Wanted(tile=(64, 64), swapped=True),
    "ping-pong": Wanted(tile=(128, 64), turns=True, swapped=False),
    "pairs": Wanted(tile=(64, 128), cluster=(2, 1), swapped=False),
    "pairs along the axis": Wanted(tile=(64, 64), cluster=(1, 2), swapped=False),
    "asking ahead": Wanted(tile=(64, 64), prefetch=2, swapped=False),
    "hilbert": Wanted(tile=(64, 64), tile_order="hilbert", tile_group=4, swapped=True),
}


@tw.kernel
def attention(q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["M", "F"]):
    i, t, e, f = tw.axes("M T E F")
    o[i, f] = tw.dot(tw.softmax(tw.dot(q[i, e], k[t, e], over=e), over=t), v[t, f], over=t)


@cache
def decided(name: str) -> ModuleOp:
    return walk({"M": tw.dynamic(1, 1000), "N": 256, "K": 192}, name)


def walk(dims: dict[str, Range | int], name: str) -> ModuleOp:
    """Decided as the kind of this name."""
    (part,) = uncut(trace(matmul_kernel, dims, dict.fromkeys("abc", Element.BF16)), target("sm_90a"), KINDS[name])
    return part.module


def emitted(module: ModuleOp, target: str = "sm_90a") -> tuple[str, LaunchPlan]:
    lowered = lower_program(the_program(module))
    return lower_to_ptx([each.module for each in lowered.kernels], target), launch_plan(lowered)


@pytest.mark.parametrize("name", KINDS)
def test_the_text_is_the_same_at_every_extent(name: str) -> None:
    module = decided(name)
    text, plan = emitted(module)
    assert plan.run_time is not None and ".param .u32 size_tiles" in text
    for extent in (1, 63, 64, 65, 999):
        instance = small_instance(module, {"M": extent, "N": 256, "K": 192})
        again, at = emitted(instance)
        assert again == text
        assert at.run_time is not None and at.run_time.ranges == plan.run_time.ranges


@pytest.mark.parametrize("name", KINDS)
def test_a_launch_passes_the_numbers_of_its_extent(name: str) -> None:
    """As many numbers as the text has parameters for, and no grid larger than the tiles of the extent."""
    text, plan = emitted(decided(name))
    for extent in (1, 64, 65, 1000):
        (launch,) = plan_at(plan, {"M": extent}).launches
        passed = [param for param in launch.params if isinstance(param, ScalarParam)]
        assert len(passed) == text.count(".param .u32 size_") > 0
        x, y, z = launch.grid
        assert all(ctas % of == 0 for ctas, of in zip(launch.grid, launch.cluster, strict=True))
        assert x * y * z <= max(132, 2)
    assert plan_at(plan, {"M": 1}).launches[0].grid[0] < plan_at(plan, {"M": 1000}).launches[0].grid[0]


@pytest.mark.parametrize("target_name", ["sm_90a", "sm_100a"])
def test_a_walk_takes_its_count_and_its_end(target_name: str) -> None:
    dims = {"M": tw.dynamic(1, 300), "T": tw.dynamic(1, 1000), "E": 64, "F": 64}
    traced = trace(attention, dims, dict.fromkeys("qkvo", Element.BF16))
    (part,) = uncut(traced, target(target_name), Wanted())
    text, plan = emitted(part.module, target_name)
    assert plan.run_time is not None
    for rows, length in ((1, 1), (63, 127), (64, 128), (65, 129), (300, 999)):
        instance = small_instance(part.module, {**dims, "M": rows, "T": length})
        assert emitted(instance, target_name)[0] == text
        (launch,) = plan_at(plan, {"M": rows, "T": length}).launches
        names = [line.split("size_")[1].rstrip(",") for line in text.split("\n") if ".param .u32 size_" in line]
        numbers = [param.value for param in launch.params if isinstance(param, ScalarParam)]
        passed = dict(zip(names, numbers, strict=True))
        assert (passed["count_K"], passed["extent_T"]) == (-(-length // part.decisions.tile_streamed), length)


def test_nothing_is_passed_where_all_is_known() -> None:
    module = walk({"M": 1000, "N": 256, "K": 192}, "rows")
    text, plan = emitted(module)
    assert plan.run_time is None and " size_" not in text


def test_one_tile_at_every_extent_passes_no_number_of_tiles() -> None:
    module = walk({"M": tw.dynamic(1, 64), "N": 256, "K": 192}, "rows")
    text, plan = emitted(module)
    assert plan.run_time is not None and "size_tiles" not in text


@pytest.mark.parametrize("order", TILE_ORDERS)
@pytest.mark.parametrize("along_m", [False, True])
def test_tiles_of_passed_numbers_are_those_of_the_order(order: TileOrder, along_m: bool) -> None:
    tiles = ceil_div(Extent("M"), 64)
    counts = (tiles, 5) if along_m else (5, tiles)
    group = 4
    named = RasterSizes.of(*counts, group).named(order).items()
    passed = {what: size for what, size in named if not isinstance(size, int)}
    for extent in (1, 64, 65, 250, 257, 520, 1100):
        numbers = {f"size_{what}": value_of(size, {"M": extent}) for what, size in passed.items()}
        tiles_m, tiles_n = (value_of(count, {"M": extent}) for count in counts)
        for tile in range(tiles_m * tiles_n):
            text = Text()
            results = raster(text, text.into("b32", "mov.u32", tile), *counts, group, order, PassedSizes(passed))
            assert evaluated(text, results, numbers) == place_in_order(tile, tiles_m, tiles_n, group, order)


def test_axes_of_a_program_may_be_changed_beside_its_ranges() -> None:
    """The extents that a program's own types have are among its ranges; the verifier asks for that."""
    module = decided("rows").clone()
    program = the_program(module)
    axes = {axis: IntegerAttr(extent, i64) for axis, extent in program.extents.items()}
    program.properties["axes"] = DictionaryAttr({**axes, "M": IntegerAttr(1001, i64)})
    with pytest.raises(Exception, match="none of 1 to 1000"):
        module.verify()
