"""Kernels of ranges beside exact ones: each case's two kernels serve its extents, and a bundle of each is compiled."""

from __future__ import annotations

from bench.our_products import arguments_of
from bench.range_cost import RangeCase, cases

from tilewright.base.size import Range
from tilewright.driver.compile.compile import compile_kernel


def test_each_case_is_served_by_both_kernels() -> None:
    found = cases()
    assert len({each.name for each in found}) == len(found) >= 20
    for each in found:
        assert dict(each.exact.dims) == dict(each.dims) and not each.exact.ranges
        for axis, least, most, multiple_of in each.ranges:
            assert dict(each.dims)[axis] in Range(least, most, multiple_of) and dict(each.ranged.dims)[axis] == most


def test_cases_of_one_range_have_one_kernel() -> None:
    found = cases()
    assert len({each.ranged for each in found}) == len(found) // 2
    axes = {(each.program, *(axis for axis, *_ in each.ranges)) for each in found}
    assert {("linear_relu", "M"), ("linear_relu", "K"), ("linear_relu", "M", "K"), ("batched", "B")} <= axes
    assert {("attention", "T"), ("attention", "Q"), ("attention", "B"), ("causal_attention", "Q", "T")} <= axes


def test_what_is_compiled_is_the_range_or_the_number() -> None:
    dims = {"B": 3, "M": 64, "N": 64, "K": 64}
    case = RangeCase("batched", tuple(dims.items()), (("B", 1, 8, 1),))
    assert arguments_of(case.exact)[1]["dims"] == dims
    kernel, options = arguments_of(case.ranged)
    sizes = compile_kernel(kernel, **options, assembled=False).plan.run_time
    assert sizes is not None and sizes.ranges == (("B", Range(1, 8)),)
