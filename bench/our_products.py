"""The tile programs behind each measured product, compiled for its shape."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from bench.gemm_suites import Product, Wishes
from bench.moe_shapes import Grouped

if TYPE_CHECKING:
    from bench.backward import BackwardCase
    from bench.cliffs import Case
    from bench.fused import FusedCase
    from bench.kernel_kinds import Computed
    from bench.range_cost import RangedProgram
    from bench.row_ranges import RowsCase
    from bench.rows import RowCase
    from tilewright.frontends.tile.kernel import Kernel
    from tilewright.runtime.bundle import Bundle
    from tilewright.synth.tile.wanted import Wanted


def compile_case(case: object) -> Bundle:
    """The bundle of a case, compiled and proved. Raises TilewrightError where the compiler refuses it."""
    from tilewright.driver.compile.compile import compile_kernel

    kernel, options = arguments_of(case)
    return compile_kernel(kernel, **options).bundle()


def arguments_of(case: object) -> tuple[Kernel, dict[str, Any]]:
    """The tile program of a case, and `compile_kernel`'s dims, dtype, strides and wanted for it. Raises TilewrightError
    where there is none."""
    from bench.backward import BackwardCase
    from bench.cliffs import Case
    from bench.fused import FusedCase
    from bench.kernel_kinds import Computed
    from bench.narrow_attention import NarrowForm
    from bench.paged import PagedCase
    from bench.probes.row_forms import RowForm
    from bench.probes.walk_forms import WalkForm
    from bench.range_cost import RangedProgram
    from bench.row_ranges import RowsCase
    from bench.rows import RowCase
    from tilewright.base.error import TilewrightError

    match case:
        case RowsCase():
            return _row_range(case)
        case RangedProgram():
            return _ranged(case)
        case RowCase():
            return _rows(case)
        case RowForm():
            kernel, options = _rows(RowCase(case.program, case.rows, case.length))
            return kernel, options | {"wanted": case.wanted}
        case FusedCase():
            return _fused(case)
        case WalkForm():
            kernel, options = _fused(FusedCase(case.program, tuple(case.dims.items())))
            return kernel, options | {"wanted": case.wanted}
        case BackwardCase():
            return _backward(case)
        case PagedCase():
            return case.program, {"dims": dict(case.dims), "dtype": "bf16"}
        case NarrowForm():
            return case.program
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


def _backward(case: BackwardCase) -> tuple[Kernel, dict[str, Any]]:
    """A program of `tilewright.attention_backward`, whose elements are bf16 where it declares none."""
    from tilewright.driver.compile import kernels_attention as kernels

    made = {"query_gradient": kernels.query_gradient_kernel, "key_gradients": kernels.key_gradients_kernel}
    kernel = kernels.delta_kernel(False) if case.part == "delta" else made[case.part](case.scale, case.causal, 1)
    return kernel, {"dims": case.dims, "dtype": "bf16"}


def _wanted(wishes: Wishes) -> Wanted:
    """What a case fixes."""
    from tilewright.synth.tile.wanted import Wanted

    return Wanted(**cast("dict[str, Any]", dict(wishes)))


def _views(case: Case) -> tuple[Kernel, dict[str, Any]]:
    """The kernel that `tilewright.matmul` makes for such arrays."""
    from tilewright.driver.compile.kernels import matmul_kernel

    begins = {name: 2 * view.offset for name, _, _, view in case.views if view.misaligned}
    aligned = tuple((name, at & -at) for name, at in begins.items() if at % 4 == 0)
    return matmul_kernel, {
        "dims": {"M": case.m, "N": case.n, "K": case.k},
        "dtype": case.dtype,
        "strides": {name: view.strides(rows, columns) for name, rows, columns, view in case.views},
        "wanted": replace(_wanted(case.wishes), misaligned=tuple(begins), aligned=aligned),
    }


def _row_range(case: RowsCase) -> tuple[Kernel, dict[str, Any]]:
    """`tilewright.matmul`'s kernel for exactly these rows, or for a range of them."""
    import tilewright as tw
    from tilewright.driver.compile.kernels import matmul_kernel

    rows = case.least if case.least == case.most else tw.dynamic(case.least, case.most)
    dims = {"M": rows, "N": case.n, "K": case.k}
    return matmul_kernel, {"dims": dims, "dtype": "bf16", "strides": {"b": (1, case.k)}}


def _ranged(case: RangedProgram) -> tuple[Kernel, dict[str, Any]]:
    from examples import fused, rows

    import tilewright as tw
    from tilewright.driver.compile.kernels import batched_kernel

    ranges = {axis: tw.dynamic(least, most, multiple_of=of) for axis, least, most, of in case.ranges}
    module = rows if hasattr(rows, case.program) else fused
    kernel = batched_kernel("none") if case.program == "batched" else getattr(module, case.program)
    return kernel, {"dims": dict(case.dims) | ranges, "dtype": "bf16"}


def _rows(case: RowCase) -> tuple[Kernel, dict[str, Any]]:
    from examples import rows

    return getattr(rows, case.program), {"dims": {"M": case.rows, "N": case.length}, "dtype": "bf16"}


def _fused(case: FusedCase) -> tuple[Kernel, dict[str, Any]]:
    from examples import fused

    return getattr(fused, case.program), {"dims": dict(case.dims), "dtype": "bf16"}


def _sixteen_bit(case: Product) -> tuple[Kernel, dict[str, Any]]:
    from tilewright.driver.compile.kernels import matmul_kernel

    return matmul_kernel, {
        "dims": {"M": case.m, "N": case.n, "K": case.k},
        "dtype": case.dtype,
        "strides": {"b": (1, case.k)} if case.transposed else {},
        "wanted": _wanted(case.wishes),
    }


def _eight_bit(case: Product) -> tuple[Kernel, dict[str, Any]]:
    from bench.tile_programs import scaled_by_blocks, scaled_by_rows, scaled_by_tensors

    options: dict[str, Any] = {
        "dims": {"M": case.m, "N": case.n, "K": case.k},
        "dtype": {"a": f"f8{case.dtype}", "b": f"f8{case.dtype}", "of_a": "f32", "of_b": "f32", "c": "bf16"},
        "wanted": _wanted(case.wishes),
    }
    if case.scaling == "block":
        return scaled_by_blocks, options
    options["strides"] = {"b": (1, case.k)} if case.transposed else {}
    options["wanted"] = replace(options["wanted"], accumulation=case.accumulation)
    return (scaled_by_tensors if case.scaling == "tensor" else scaled_by_rows), options


def _computed(case: Computed) -> tuple[Kernel, dict[str, Any]]:
    from bench.tile_programs import rows_scaled_first

    extents = {"M": case.m, "N": case.n, "K": case.k}
    return rows_scaled_first, {"dims": extents, "wanted": _wanted(case.wishes)}


def _grouped(case: Grouped) -> tuple[Kernel, dict[str, Any]]:
    from bench.tile_programs import experts

    return experts, {
        "dims": {"T": case.rows, "G": case.experts, "N": case.n, "K": case.k},
        "dtype": {"x": "bf16", "w": "bf16", "y": "bf16", "ends": "i32"},
        "wanted": _wanted(case.wishes),
    }
