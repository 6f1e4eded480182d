"""Registers to shared memory of a given layout: the tile arrives, by the widest accesses that fit."""

from __future__ import annotations

import numpy as np
import pytest
from bench.exchange_kernel import memory_kernel_text
from bench.register_layouts import register_layouts
from tests.lower.exchange_runs import launch_of, stored_run, tile

from tilewright.driver.check.check import check_text
from tilewright.ir.exchange import ExchangePlan, Store
from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear.maps import LinearLayout, images, linear_layout
from tilewright.synth.exchange.memory import plan_store

LAYOUTS = register_layouts(64)


def row_major(element_bytes: int, *, swizzled: bool) -> LinearLayout:
    """64 x 64 elements; swizzled: 16-byte chunks of a row by the row's low bits, as the copy engine's 128B swizzle."""
    columns = [(0, 1 << bit) for bit in range(6)]
    chunk = 16 // element_bytes
    rows = [(1 << bit, (chunk << bit) % 64 if swizzled and bit < 3 else 0) for bit in range(6)]
    return linear_layout({"offset": [*columns, *rows]}, {"row": 64, "column": 64})


def planned(source: str, memory: LinearLayout, element_bytes: int) -> ExchangePlan:
    store = plan_store(LAYOUTS[source], memory, element_bytes, "sm_90a")
    assert isinstance(store, ExchangePlan)
    return store


@pytest.mark.sample(4)
@pytest.mark.parametrize("swizzled", [False, True])
@pytest.mark.parametrize(
    ("source", "element_bytes"),
    [
        ("row8", 2),
        ("wgmma D", 2),
        ("column1", 1),
        ("slice, lanes repeat", 4),
        ("slice of columns, lanes repeat", 1),
    ],
)
def test_the_tile_arrives(source: str, element_bytes: int, swizzled: bool) -> None:
    memory = row_major(element_bytes, swizzled=swizzled)
    given = tile(LAYOUTS[source], element_bytes)
    run = stored_run(LAYOUTS[source], planned(source, memory, element_bytes), given)
    assert not run.findings and run.finished
    places = images(memory, np.arange(memory.size, dtype=np.int64)).reshape(-1)
    assert np.array_equal(run.arrays["tile_out"].reshape(-1, element_bytes), given.reshape(-1, element_bytes)[places])


def test_an_accumulator_goes_by_stmatrix_to_swizzled_rows_without_conflicts() -> None:
    store = planned("wgmma D", row_major(2, swizzled=True), 2)
    (first,) = store.steps
    assert isinstance(first, Store) and first.access.form == "matrix" and first.access.wavefronts == 4
    assert planned("wgmma D", row_major(2, swizzled=False), 2).cost.wavefronts > store.cost.wavefronts


def test_the_judge_proves_the_kernel() -> None:
    store = planned("wgmma D", row_major(2, swizzled=True), 2)
    text = memory_kernel_text(LAYOUTS["wgmma D"], store)
    report = check_text(text, "exchange.ptx", launch=launch_of(LAYOUTS["wgmma D"], store))
    assert [kernel.verdict for kernel in report.kernels] == ["proven"]


def test_without_its_barrier_the_kernel_is_refuted() -> None:
    store = planned("wgmma D", row_major(2, swizzled=True), 2)
    text = memory_kernel_text(LAYOUTS["wgmma D"], store)
    without = "\n".join(line for line in text.split("\n") if "bar.sync" not in line)
    report = check_text(without, "exchange.ptx", launch=launch_of(LAYOUTS["wgmma D"], store))
    assert [kernel.verdict for kernel in report.kernels] == ["refuted"]


def test_memory_that_repeats_elements_is_no_place_to_store() -> None:
    memory = linear_layout({"offset": [(0, 1), (0, 0)]}, {"row": 64, "column": 64})
    assert isinstance(plan_store(LAYOUTS["row8"], memory, 2, "sm_90a"), NotExpressible)
