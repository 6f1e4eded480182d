"""The tile programs behind each measured product, compiled for its shape."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from bench.gemm_suites import Product, Wishes
from bench.moe_shapes import Grouped

if TYPE_CHECKING:
    from bench.cliffs import Case
    from bench.kernel_kinds import Computed
    from tilewright.runtime.bundle import Bundle
    from tilewright.synth.wanted import Wanted


def compile_case(case: object) -> Bundle:
    """The bundle of a case, compiled and proved. Raises TilewrightError where the compiler refuses it."""
    from bench.cliffs import Case
    from bench.kernel_kinds import Computed
    from tilewright.base.error import TilewrightError

    match case:
        case Case():
            return _views(case)
        case Product(dtype="bf16" | "f16"):
            return _sixteen_bit(case)
        case Product():
            return _eight_bit(case)
        case Grouped():
            return _grouped(case)
        case Computed():
            return _computed(case)
        case _:
            raise TilewrightError(f"no tile program computes {case!r} yet", remedy="measure another suite")


def _views(case: Case) -> Bundle:
    """The kernel that `tilewright.matmul` makes for such arrays."""
    from tilewright.driver.kernels import matmul_kernel
    from tilewright.driver.ready import compile_for

    strides = {name: view.strides(rows, columns) for name, rows, columns, view in case.views}
    misaligned = tuple(name for name, _, _, view in case.views if view.misaligned)
    extents = {"M": case.m, "N": case.n, "K": case.k}
    begins = {name: 2 * view.offset for name, _, _, view in case.views if view.misaligned}
    aligned = tuple((name, at & -at) for name, at in begins.items() if at % 4 == 0)
    wanted = replace(_wanted(case.wishes), misaligned=misaligned, aligned=aligned)
    return compile_for(matmul_kernel, extents, dtype=case.dtype, strides=strides, wanted=wanted, cached=False).bundle


def _sixteen_bit(case: Product) -> Bundle:
    from tilewright.driver.kernels import matmul_kernel
    from tilewright.driver.ready import compile_for

    strides = {"b": (1, case.k)} if case.transposed else {}
    extents, wanted = {"M": case.m, "N": case.n, "K": case.k}, _wanted(case.wishes)
    return compile_for(matmul_kernel, extents, dtype=case.dtype, strides=strides, wanted=wanted, cached=False).bundle


def _eight_bit(case: Product) -> Bundle:
    from bench.tile_programs import scaled_by_blocks, scaled_by_rows, scaled_by_tensors
    from tilewright.driver.ready import compile_for

    elements = {"a": f"f8{case.dtype}", "b": f"f8{case.dtype}", "of_a": "f32", "of_b": "f32", "c": "bf16"}
    extents = {"M": case.m, "N": case.n, "K": case.k}
    if case.scaling == "block":
        return compile_for(scaled_by_blocks, extents, dtype=elements, cached=False).bundle
    strides = {"b": (1, case.k)} if case.transposed else {}
    kernel = scaled_by_tensors if case.scaling == "tensor" else scaled_by_rows
    wanted = replace(_wanted(case.wishes), accumulation=case.accumulation)
    return compile_for(kernel, extents, dtype=elements, strides=strides, wanted=wanted, cached=False).bundle


def _wanted(wishes: Wishes) -> Wanted:
    """What a case fixes."""
    from tilewright.synth.wanted import Wanted

    return Wanted(**cast("dict[str, Any]", dict(wishes)))


def _computed(case: Computed) -> Bundle:
    from bench.tile_programs import rows_scaled_first
    from tilewright.driver.ready import compile_for

    extents = {"M": case.m, "N": case.n, "K": case.k}
    return compile_for(rows_scaled_first, extents, wanted=_wanted(case.wishes), cached=False).bundle


def _grouped(case: Grouped) -> Bundle:
    from bench.tile_programs import experts
    from tilewright.driver.ready import compile_for

    extents = {"T": case.rows, "G": case.experts, "N": case.n, "K": case.k}
    elements = {"x": "bf16", "w": "bf16", "y": "bf16", "ends": "i32"}
    return compile_for(experts, extents, dtype=elements, cached=False).bundle
