"""Range kernels beside exact ones: each case's two kernels serve its rows, and a bundle of each is compiled."""

from __future__ import annotations

import itertools

from bench.our_products import arguments_of
from bench.row_ranges import RANGES, cases, kernels_of

from tilewright.base.size import Range
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.row_ranges import ENDS


def test_ranges_are_those_of_products() -> None:
    ends = [(low + 1, high) for low, high in itertools.pairwise(ENDS)]
    assert set(RANGES) <= set(ends)


def test_each_case_is_served_by_both_kernels() -> None:
    found = cases()
    assert len({(rows, ranged) for rows, _, ranged in found}) == len(found)
    for rows, exact, ranged in found:
        assert exact.least == exact.most == rows and ranged.least <= rows <= ranged.most
        assert (exact.n, exact.k) == (ranged.n, ranged.k)


def test_what_is_compiled_is_the_range_or_the_number() -> None:
    exact, ranged = kernels_of(17, (17, 32), "layer", 128, 64)
    assert arguments_of(exact)[1]["dims"]["M"] == 17
    kernel, options = arguments_of(ranged)
    sizes = compile_kernel(kernel, **options, assembled=False).plan.run_time
    assert sizes is not None and sizes.ranges == (("M", Range(17, 32)),)
