# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""A loop over products is a walk on sm_90a: of both operands as they lie, where tensor maps bring them, else behind a
copy, or a kernel that computes one."""

from typing import Any

import pytest
from tests.synth.walked_products import parts_of, walk_of

import tilewright.frontends.tile.language as tw
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.synth.cascade.decide import is_cascade
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def computed(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((a[i, k] * 2.0).to(tw.bf16), b[k, j])
    c[i, j] = acc


@tw.kernel
def displaced(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k + 1], b[k, j])
    c[i, j] = acc


def is_walk(kernel: Kernel, m: int, n: int, k: int, *, element: Any = tw.bf16, strides: Any = None, **wanted: Any):
    elements = {each.name: element if each.name != "c" else tw.bf16 for each in kernel.parameters}
    wishes = Wanted(**wanted)
    return is_cascade(the_program(walked(trace(kernel, {"M": m, "N": n, "K": k}, elements, strides), HOPPER, wishes)))


@pytest.mark.parametrize("shape", [(1, 4096, 512), (300, 264, 320), (7, 8, 8), (4096, 17, 64)])
def test_operands_that_maps_bring_are_walked(shape: tuple[int, int, int]) -> None:
    assert is_walk(matmul_kernel, *shape, strides={"b": (1, shape[2])})


def test_a_result_without_a_map_changes_nothing() -> None:
    assert is_walk(matmul_kernel, 64, 64, 64, misaligned=("c",))
    assert is_walk(matmul_kernel, 63, 65, 64, strides={"b": (1, 64)})


def before(
    kernel: Kernel, m: int, n: int, k: int, *, element: Any = tw.bf16, strides: Any = None, **wanted: Any
) -> int:
    """Kernels before the walk of a product."""
    elements = {each.name: element for each in kernel.parameters if each.name != "c"}
    wishes = Wanted(unmapped="workspace", computed="workspace", **wanted)
    parts = parts_of({"M": m, "N": n, "K": k}, kernel, strides=strides, elements=elements, wanted=wishes)
    assert is_cascade(the_program(parts[-1].module)) and walk_of(parts).slots
    return len(parts) - 1


def test_operands_that_no_map_brings_are_copied_first() -> None:
    # Rows of no multiple of 16 bytes, an address of none, elements that the tensor core takes along the other axis.
    assert before(matmul_kernel, 64, 64, 65) == 1
    assert before(matmul_kernel, 64, 64, 64, misaligned=("b",)) == 1
    assert before(matmul_kernel, 64, 64, 64, element=tw.f8e4m3) == 1
    assert before(matmul_kernel, 64, 64, 64, element=tw.f8e4m3, strides={"b": (1, 64)}) == 0
    # Elements past the end of what is summed must not count.
    assert before(displaced, 64, 64, 64) == 1


def test_operands_that_are_computed_are_computed_first_where_that_is_asked_for() -> None:
    assert before(computed, 64, 64, 64) == 1
