"""Registers to shared memory of a given layout and back: the tile arrives, by the widest accesses that fit."""

from __future__ import annotations

import numpy as np
import pytest
from bench.exchange_kernel import memory_kernel_text
from bench.register_layouts import register_layouts
from tests.lower.exchange_runs import expected, launch_of, ran_through, tile

from tilewright.driver.check.check import check_text
from tilewright.ir.exchange import ExchangePlan, Load, Store
from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear.maps import LinearLayout, linear_layout
from tilewright.synth.exchange.memory import plan_load, plan_store

LAYOUTS = register_layouts(64)


def row_major(element_bytes: int, *, swizzled: bool) -> LinearLayout:
    """64 x 64 elements; swizzled: 16-byte chunks of a row by the row's low bits, as the copy engine's 128B swizzle."""
    columns = [(0, 1 << bit) for bit in range(6)]
    chunk = 16 // element_bytes
    rows = [(1 << bit, (chunk << bit) % 64 if swizzled and bit < 3 else 0) for bit in range(6)]
    return linear_layout({"offset": [*columns, *rows]}, {"row": 64, "column": 64})


def planned(first: str, second: str, memory: LinearLayout, element_bytes: int) -> tuple[ExchangePlan, ExchangePlan]:
    store = plan_store(LAYOUTS[first], memory, element_bytes, "sm_90a")
    load = plan_load(memory, LAYOUTS[second], element_bytes, "sm_90a")
    assert isinstance(store, ExchangePlan) and isinstance(load, ExchangePlan)
    return store, load


@pytest.mark.sample(4)
@pytest.mark.parametrize("swizzled", [False, True])
@pytest.mark.parametrize(
    ("first", "second", "element_bytes"),
    [
        ("row8", "wgmma D", 2),
        ("wgmma D", "column8", 2),
        ("column1", "row16", 1),
        ("slice, lanes repeat", "square4", 4),
        ("slice of columns, lanes repeat", "dot B, 8 bits", 1),
    ],
)
def test_the_tile_arrives(first: str, second: str, element_bytes: int, swizzled: bool) -> None:
    memory = row_major(element_bytes, swizzled=swizzled)
    store, load = planned(first, second, memory, element_bytes)
    source, destination = LAYOUTS[first], LAYOUTS[second]
    given = tile(source, element_bytes)
    run = ran_through(source, destination, store, load, given)
    assert not run.findings and run.finished
    assert np.array_equal(run.arrays["tile_out"], expected(destination, given, element_bytes))


def test_an_accumulator_goes_by_stmatrix_to_swizzled_rows_without_conflicts() -> None:
    store, load = planned("wgmma D", "row8", row_major(2, swizzled=True), 2)
    (first,), second = store.steps, load.steps[0]
    assert isinstance(first, Store) and first.access.form == "matrix" and first.access.wavefronts == 4
    assert isinstance(second, Load) and len(second.access.elements[0]) == 8 and second.access.wavefronts == 4
    plain, _ = planned("wgmma D", "row8", row_major(2, swizzled=False), 2)
    assert plain.cost.wavefronts > store.cost.wavefronts


def test_the_judge_proves_the_kernel() -> None:
    store, load = planned("wgmma D", "column8", row_major(2, swizzled=True), 2)
    text = memory_kernel_text(LAYOUTS["wgmma D"], LAYOUTS["column8"], store, load)
    report = check_text(text, "exchange.ptx", launch=launch_of(LAYOUTS["wgmma D"], store))
    assert [kernel.verdict for kernel in report.kernels] == ["proven"]


def test_without_its_barrier_the_kernel_is_refuted() -> None:
    store, load = planned("wgmma D", "column8", row_major(2, swizzled=True), 2)
    text = memory_kernel_text(LAYOUTS["wgmma D"], LAYOUTS["column8"], store, load)
    without = "\n".join(line for line in text.split("\n") if "bar.sync" not in line)
    report = check_text(without, "exchange.ptx", launch=launch_of(LAYOUTS["wgmma D"], store))
    assert [kernel.verdict for kernel in report.kernels] == ["refuted"]


def test_memory_that_repeats_elements_is_no_place_to_store() -> None:
    memory = linear_layout({"offset": [(0, 1), (0, 0)]}, {"row": 64, "column": 64})
    assert isinstance(plan_store(LAYOUTS["row8"], memory, 2, "sm_90a"), NotExpressible)
