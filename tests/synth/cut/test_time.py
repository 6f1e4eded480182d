"""Estimates of decided programs: beside what was measured, and above what no kernel undercuts."""

import pytest
from examples.fused import attention, causal_attention, decode_in_pages
from tests.synth.cut.cut_programs import layers, norm_of_product, product_of_norm, softmax_of_product, traced

from tilewright.driver.compile.sequence import decided, sequence
from tilewright.frontends.tile.kernel import Kernel
from tilewright.ir.tile.facts import the_program
from tilewright.synth.cut.time import Parts, least_microseconds, microseconds, microseconds_in_parts
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

_TARGET = target("sm_90a")


def _time(kernel: Kernel, **dims: int) -> tuple[float, float]:
    module = traced(kernel, **dims)
    part = decided(module, _TARGET, Wanted())
    time = microseconds(the_program(part.module), part.decisions, _TARGET)
    return time, least_microseconds(the_program(module), _TARGET)


@pytest.mark.parametrize(
    ("kernel", "dims"),
    [
        (softmax_of_product, {"M": 4096, "N": 4096, "K": 1024}),
        (norm_of_product, {"M": 100, "N": 4096, "K": 1024}),
        (product_of_norm, {"M": 8192, "N": 4096, "K": 4096}),
        (layers, {"M": 65536, "K": 128, "L": 512, "N": 128}),
        (attention, {"B": 1, "H": 8, "Q": 1024, "T": 1024, "E": 128, "F": 128}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_no_estimate_is_below_what_no_kernel_undercuts(kernel: Kernel, dims: dict[str, int]) -> None:
    time, least = _time(kernel, **dims)
    assert time >= least


def test_a_mask_that_leaves_half_takes_half() -> None:
    dims = {"B": 4, "H": 16, "Q": 4096, "T": 4096, "E": 64, "F": 64}
    (plain, _), (causal, _) = _time(attention, **dims), _time(causal_attention, **dims)
    assert 0.5 < causal / plain < 0.7


def test_small_pages_take_the_thread_that_asks_for_them_longer() -> None:
    """Than one consumer computes of a tile, on few multiprocessors; pages of 16 and 64 rows do not."""
    times: list[float] = []
    for page in (8, 16, 64):
        dims = {"B": 4, "H": 32, "T": 8192, "E": 128, "F": 128, "P": 4 * 8192 // page, "S": page}
        (part,) = sequence(traced(decode_in_pages(page), **dims), _TARGET, Wanted(cut=False))
        times.append(microseconds(the_program(part.module), part.decisions, _TARGET))
    # 370.7, 302.1 and 278.3 us, of one sequence of 32768 keys on one CTA of an H200.
    assert 1.2 < times[0] / times[1] < 1.6 and times[1] == times[2]


def _in_parts(count: int, heads: int, length: int) -> float:
    """The estimate of attention of one query in so many parts of keys, before any is decided."""
    module = traced(attention, B=1, H=heads, Q=1, T=length, E=128, F=128)
    part = decided(module, _TARGET, Wanted())
    of_parts = microseconds_in_parts(the_program(part.module), part.decisions, _TARGET)
    return of_parts(Parts(count, -(-length // count), length, 4 * heads * 130))


@pytest.mark.parametrize(
    ("heads", "length", "parts"),
    [
        (200, 22144, {2: 589.3, 3: 525.2, 5: 522.9, 7: 516.1, 13: 528.2}),
        (140, 8192, {2: 160.7, 3: 153.0, 5: 143.5, 8: 139.3}),
        (200, 4096, {2: 112.8, 3: 104.5, 5: 103.6, 8: 103.4}),
        (272, 2048, {2: 75.3, 3: 77.1, 5: 77.9, 8: 72.5}),
    ],
)
def test_parts_take_about_what_was_measured(heads: int, length: int, parts: dict[int, float]) -> None:
    """On an H200, 2026-12-01."""
    for count, measured in parts.items():
        assert 0.93 < _in_parts(count, heads, length) / measured < 1.12, count


def test_a_product_that_is_computed_twice_takes_twice_as_long() -> None:
    """Of rows that no tile holds a softmax needs two walks; of rows that one holds, one."""
    long, _ = _time(softmax_of_product, M=8448, N=2560, K=1024)
    short, _ = _time(softmax_of_product, M=8448, N=256, K=1024)
    assert 12 < long / short < 24  # ten times the columns, twice; a launch counts once
