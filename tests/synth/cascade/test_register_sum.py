# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Where a walk computes an operand: as the pipeline of products does, whose models decide, with the same tiles."""

from collections.abc import Mapping
from typing import Any

import pytest

import tilewright.frontends.tile.language as tw
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.sequence import Part, sequence
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import PipelineDecisions
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


@pytest.mark.parametrize("kernel", [scaled, gelu, right], ids=lambda each: each.name)
@pytest.mark.parametrize(
    "extents", [(4096, 512, 4096), (4096, 16384, 4096), (512, 512, 512), (1000, 1024, 2048), (16, 4096, 4096)]
)
def test_the_choice_and_the_tile_are_those_of_a_pipeline(kernel: Kernel, extents: tuple[int, int, int]) -> None:
    dims = dict(zip("MNK", extents, strict=True))
    (before,) = parts(kernel, dims)
    found = parts(kernel, dims, walked=True)
    d, walk = before.decisions, found[-1].decisions
    assert isinstance(d, PipelineDecisions) and isinstance(walk, CascadeDecisions)
    assert len(found) == (1 if d.computed else 2) and walk.computed == d.computed
    if d.computed:
        assert (walk.tile_rows, walk.tile_columns, walk.tile_streamed) == (d.tile_m, d.tile_n, d.tile_k)
        assert (walk.consumers, walk.slots[0].slots, walk.staging_slots) == (d.consumers, d.stages, d.staging_slots)
        assert (walk.ctas, walk.split, walk.teams, walk.smem_bytes) == (d.ctas, d.split, d.teams, d.smem_bytes)
        assert (walk.release_distance, walk.raster_group) == (d.release_distance, d.raster_group)


def test_a_wish_fixes_the_choice() -> None:
    dims = {"M": 4096, "N": 16384, "K": 4096}
    (found,) = parts(gelu, dims, walked=True, computed="registers")
    assert isinstance(found.decisions, CascadeDecisions) and found.decisions.computed
    assert len(parts(scaled, dims | {"N": 512}, walked=True, computed="workspace")) == 2


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
        parts(kernel, {"M": 512, "N": 512, "K": k}, strides, walked=True, computed="registers", **wishes)
    assert caught.value.remedy


def test_beside_an_operand_in_registers_the_other_is_copied_first() -> None:
    copy, walk = parts(scaled, {"M": 4096, "N": 511, "K": 4096}, walked=True)
    assert not isinstance(copy.decisions, CascadeDecisions)
    assert isinstance(walk.decisions, CascadeDecisions) and walk.decisions.computed
