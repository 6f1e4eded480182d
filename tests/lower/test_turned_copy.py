# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Operands of 8 bits that lie the other way: turned on the way to their copy, right, and proved."""

import numpy as np
import pytest
from tests.lower.lowered_programs import Lowered, instructions, lower, random_inputs, reference, run, small

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.verdict import Proven
from tilewright.contract.typestate.typestate import verify
from tilewright.ir.decisions import ElementwiseDecisions
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def product(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc


def lowered_product(m: int, n: int, k: int, **strides: tuple[int, int]) -> Lowered:
    elements = {"a": Element.F8E4M3, "b": Element.F8E4M3, "c": Element.F32}
    return lower(product, {"M": m, "N": n, "K": k}, elements, strides, Wanted(tile=(64, 64)))


def turned(lowered: Lowered) -> list[Lowered]:
    """The programs whose warps turn tiles."""
    decided = [(each, each.decisions) for each in lowered.apart]
    return [each for each, d in decided if isinstance(d, ElementwiseDecisions) and d.transpose]


def assert_right(lowered: Lowered) -> None:
    arrays = random_inputs(lowered)
    exact = reference(lowered, arrays)["c"]
    assert np.abs(run(lowered, arrays)["c"] - exact).max() <= 1e-5 * np.abs(exact).max()


@pytest.mark.parametrize("dims", [(64, 128, 144), (64, 128, 136), (80, 200, 272), (40, 68, 160)])
def test_the_right_operand(dims: tuple[int, int, int]) -> None:
    lowered = lowered_product(*dims)
    assert len(turned(lowered)) == 1
    for module in lowered.kernels:
        assert isinstance(verify(module, HOPPER), Proven)
    assert_right(lowered)


def test_the_left_operand() -> None:
    lowered = lowered_product(96, 64, 144, a=(1, 96), b=(1, 144))
    (copy,) = turned(lowered)
    assert "a" in {buffer.name for buffer in copy.plan.buffers}
    assert_right(lowered)


def test_the_small_instance_is_turned_alike() -> None:
    (copy,) = turned(lowered_product(512, 1024, 1024))
    instance = small(copy)
    assert turned(instance) == [instance]
    arrays = random_inputs(instance)
    ((name, copied),) = run(instance, arrays).items()
    np.testing.assert_array_equal(copied, reference(instance, arrays)[name].astype(copied.dtype))


def test_nothing_is_loaded_byte_by_byte() -> None:
    copy = instructions(turned(lowered_product(64, 128, 144))[0].parsed)
    loads = {item.opcode for item in copy if item.opcode.startswith("ld.global")}
    assert loads and all(".v4." in opcode or ".v2." in opcode or opcode.endswith(("b32", "u32")) for opcode in loads)


def test_runs_of_two_bytes_are_copied_point_by_point() -> None:
    lowered = lowered_product(64, 130, 144)
    assert len(lowered.parts) > 1 and not turned(lowered)
    assert_right(lowered)


def test_both_operands_are_turned_each_by_a_kernel() -> None:
    lowered = lowered_product(96, 128, 144, a=(1, 96))
    assert len(turned(lowered)) == 2
    assert_right(lowered)
