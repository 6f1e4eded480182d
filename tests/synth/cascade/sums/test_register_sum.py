# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Where a walk computes an operand: in registers, beside its products, or by a kernel before."""

from collections.abc import Mapping
from typing import Any

import pytest

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.sequence import Part, sequence
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.tile.facts import stores, the_program
from tilewright.ir.tile.types import tensor_type
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def scaled(a: tw.Tensor["M", "K"], s: tw.Tensor["M"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((a[i, k] * s[i]).to(tw.bf16), b[k, j])
    c[i, j] = acc


@tw.kernel
def gelu(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(tw.gelu(a[i, k]).to(tw.bf16), b[k, j])
    c[i, j] = acc


@tw.kernel
def right(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], tw.relu(b[j, k]).to(tw.bf16).T)
    c[i, j] = acc


@tw.kernel
def both_axes(a: tw.Tensor["M", "K"], d: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((a[i, k] + d[i, k]).to(tw.bf16), b[k, j])
    c[i, j] = acc


@tw.kernel
def displaced(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(tw.relu(a[i, k + 1]).to(tw.bf16), b[k, j])
    c[i, j] = acc


def parts(kernel: Kernel, dims: Mapping[str, int], strides: Any = None, **wishes: Any) -> tuple[Part, ...]:
    elements = {each.name: tw.bf16 for each in kernel.parameters}
    return sequence(trace(kernel, dict(dims), elements, strides), HOPPER, Wanted(**wishes))


@pytest.mark.parametrize(
    ("kernel", "extents", "tile", "consumers", "slots"),
    [
        (scaled, (4096, 512, 4096), (128, 128, 64), 2, 6),
        (scaled, (512, 512, 512), (64, 64, 64), 1, 9),
        (scaled, (1000, 1024, 2048), (128, 64, 64), 2, 8),
        (right, (4096, 16384, 4096), (128, 256, 64), 2, 4),
        (right, (512, 512, 512), (64, 32, 64), 1, 11),
        # Many tiles of columns, of few rows, and of what takes threads long to compute.
        (scaled, (4096, 16384, 4096), None, 2, 5),
        (scaled, (16, 4096, 4096), None, 1, 8),
        (right, (16, 4096, 4096), None, 1, 8),
        (gelu, (4096, 512, 4096), None, 2, 6),
        (gelu, (512, 512, 512), None, 1, 9),
    ],
)
def test_where_an_operand_is_computed(
    kernel: Kernel, extents: tuple[int, int, int], tile: tuple[int, int, int] | None, consumers: int, slots: int
) -> None:
    """tile: of a walk that computes it in registers, None where a kernel before does."""
    found = parts(kernel, dict(zip("MNK", extents, strict=True)))
    walk = found[-1].decisions
    assert isinstance(walk, CascadeDecisions)
    assert (len(found), walk.computed) == ((1, 1) if tile else (2, 0))
    assert (walk.consumers, walk.slots[0].slots) == (consumers, slots)
    assert tile is None or (walk.tile_rows, walk.tile_columns, walk.tile_streamed) == tile


@tw.kernel
def both(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(tw.relu(a[i, k]).to(tw.bf16), tw.relu(b[k, j]).to(tw.bf16))
    c[i, j] = acc


@pytest.mark.parametrize(
    ("wishes", "kernels"),
    [({}, 2), ({"computed": "workspace"}, 3), ({"tile": (128, 128)}, 2), ({"accumulation": "precise"}, 3)],
)
def test_of_two_operands_the_smaller_is_computed_before(wishes: dict[str, Any], kernels: int) -> None:
    """And the other in registers, unless a workspace is asked for, or sums in two levels, which such walks have not."""
    found = parts(both, {"M": 4096, "N": 512, "K": 4096}, **wishes)
    assert len(found) == kernels
    stored = [store.tensor for store in stores(the_program(found[0].module))]
    assert [tensor_type(each).axis_names for each in stored] == [("K", "N")]
    assert getattr(found[-1].decisions, "computed", 0) == (kernels == 2)


def test_an_order_of_issue_is_not_asked_of_a_product_in_registers() -> None:
    with pytest.raises(TilewrightError, match="issues products as they come"):
        parts(both, {"M": 4096, "N": 512, "K": 4096}, ordered=True)


def test_why_an_operand_is_computed_before_is_said() -> None:
    long, few = (
        parts(kernel, dict(zip("MNK", extents, strict=True)))
        for kernel, extents in ((gelu, (4096, 16384, 4096)), (scaled, (16, 4096, 4096)))
    )
    assert any("not computed in registers: about" in each for each in long[-1].decisions.reasons)
    assert any("small M" in each for each in few[-1].decisions.reasons)


def test_elements_of_four_bytes_are_not_computed_with_in_registers() -> None:
    elements = {each.name: tw.bf16 for each in scaled.parameters} | {"a": tw.f32}
    traced = trace(scaled, {"M": 512, "N": 512, "K": 512}, elements, None)
    assert len(sequence(traced, HOPPER, Wanted())) == 2
    with pytest.raises(TilewrightError, match="from elements of f32"):
        sequence(traced, HOPPER, Wanted(computed="registers"))


def test_a_wish_fixes_the_choice() -> None:
    dims = {"M": 4096, "N": 16384, "K": 4096}
    (found,) = parts(gelu, dims, computed="registers")
    assert isinstance(found.decisions, CascadeDecisions) and found.decisions.computed
    assert len(parts(scaled, dims | {"N": 512}, computed="workspace")) == 2


@pytest.mark.parametrize(
    ("kernel", "wishes", "strides", "k", "why"),
    [
        (both_axes, {}, None, 512, "2 loads of both axes"),
        (displaced, {}, None, 512, "displaced along K"),
        (scaled, {}, {"a": (1, 512)}, 512, "not contiguous along K"),
        (scaled, {}, None, 520, "no whole slots"),
        (scaled, {"misaligned": ("a",)}, None, 512, "begins at no multiple of 16 bytes"),
        (scaled, {"swapped": True}, None, 512, "the other operand's"),
        (scaled, {"cluster": (2, 1)}, None, 512, "share loads"),
        (scaled, {"turns": True}, None, 512, "ping-pong"),
        (scaled, {"accumulation": "precise"}, None, 512, "not summed in two levels"),
    ],
)
def test_what_is_not_computed_in_registers_is_refused_where_wished_for(
    kernel: Kernel, wishes: dict[str, Any], strides: Any, k: int, why: str
) -> None:
    with pytest.raises(TilewrightError, match=why) as caught:
        parts(kernel, {"M": 512, "N": 512, "K": k}, strides, computed="registers", **wishes)
    assert caught.value.remedy


def test_beside_an_operand_in_registers_the_other_is_copied_first() -> None:
    copy, walk = parts(scaled, {"M": 4096, "N": 511, "K": 4096})
    assert not isinstance(copy.decisions, CascadeDecisions)
    assert isinstance(walk.decisions, CascadeDecisions) and walk.decisions.computed
