"""What the compiler of today decides for a product of the library, without lowering it and without a GPU.

Of several programs, copies of operands first, the product's own is the last one. What result files keep of a product is
named as `bench.tile_names` names it. Checked by: tests/benchmarks/test_tile_names.py, tests/benchmarks/test_slots.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.base.element import Element
    from tilewright.frontends.tile.kernel import Kernel
    from tilewright.ir.cascade import CascadeDecisions
    from tilewright.synth.tile.wanted import Wanted


def decided_walk(
    kernel: Kernel,
    dims: Mapping[str, int],
    elements: Mapping[str, Element],
    strides: Mapping[str, tuple[int, ...]] | None,
    wanted: Wanted | None = None,
) -> CascadeDecisions:
    """The decisions of a program that sums products. Raises TilewrightError where it is refused."""
    from tilewright.driver.compile.sequence import uncut
    from tilewright.frontends.tile.trace import trace
    from tilewright.ir.cascade import CascadeDecisions
    from tilewright.synth.tile.wanted import Wanted
    from tilewright.targets import target

    traced = trace(kernel, dict(dims), dict(elements), None if strides is None else dict(strides))
    decisions = uncut(traced, target("sm_90a"), wanted or Wanted())[-1].decisions
    assert isinstance(decisions, CascadeDecisions)
    return decisions


def decided_product(
    shape: tuple[int, int, int], *, rows_of_b: bool = False, wanted: Wanted | None = None
) -> CascadeDecisions:
    """Of a product of bf16, B held as (N, K), or as (K, N) where its rows are. Raises TilewrightError where it is
    refused."""
    from tilewright.base.element import Element
    from tilewright.driver.compile.kernels import matmul_kernel

    kinds = {each.name: Element.BF16 for each in matmul_kernel.parameters}
    strides = {} if rows_of_b else {"b": (1, shape[2])}
    return decided_walk(matmul_kernel, dict(zip("MNK", shape, strict=True)), kinds, strides, wanted)
