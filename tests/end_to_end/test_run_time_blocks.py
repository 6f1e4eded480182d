# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Ranges of axes of which some arrays have blocks, and of pools that tables lead to: pages of keys, heads that share
keys. Proven once, right at every extent on the CPU machine."""

from dataclasses import dataclass, field

import numpy as np
import pytest

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.size import Range
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.run.run import CompiledKernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.reference import DTYPES, evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.axes import derived_extent
from tilewright.ir.tile.facts import buffers, the_program


@tw.kernel
def in_pages(
    q: tw.Tensor["B", "H", "E"],
    k: tw.Tensor["P", "S", "H/4", "E"],
    v: tw.Tensor["P", "S", "H/4", "F"],
    table: tw.Tensor["B", "T/16", tw.i32],
    lengths: tw.Tensor["B", tw.i32],
    o: tw.Tensor["B", "H", "F"],
):
    b, h, t, e, f = tw.axes("B H T E F")
    at = table[b, t // 16]
    s = tw.where(t < lengths[b], tw.dot(q[b, h, e], k[at, t % 16, h // 4, e], over=e) * 0.2, -np.inf)
    o[b, h, f] = tw.dot(tw.softmax(s, over=t), v[at, t % 16, h // 4, f], over=t)


@tw.kernel
def sharing(
    q: tw.Tensor["M", "H", "E"], k: tw.Tensor["T", "H/3", "E"], v: tw.Tensor["T", "H/3", "F"],
    o: tw.Tensor["M", "H", "F"],
):  # fmt: skip
    i, h, t, e, f = tw.axes("M H T E F")
    s = tw.dot(q[i, h, e], k[t, h // 3, e], over=e) * 0.2
    o[i, h, f] = tw.dot(tw.softmax(s, over=t), v[t, h // 3, f], over=t)


@dataclass(frozen=True)
class Kind:
    kernel: Kernel
    dims: dict[str, int]
    ranges: dict[str, Range]
    at: list[tuple[int, ...]]
    """Extents of the axes that have a range."""
    integers: dict[str, str] = field(default_factory=dict)
    """By array of integers, the axis whose places it has."""


PAGES, IN_PAGES = tw.dynamic(16, 400, multiple_of=16), {"H": 8, "S": 16, "E": 32, "F": 32}
KINDS = {
    "keys in pages": Kind(
        in_pages, {"B": 2, "P": 9, **IN_PAGES}, {"T": PAGES}, [(16,), (112,), (128,), (144,), (400,)],
        {"table": "P", "lengths": "T"},
    ),
    "sequences, keys and pages": Kind(
        in_pages, IN_PAGES, {"B": tw.dynamic(0, 5), "T": PAGES, "P": tw.dynamic(1, 40)},
        [(0, 16, 1), (1, 16, 1), (5, 400, 40), (3, 144, 7)], {"table": "P", "lengths": "T"},
    ),
    "heads that share keys": Kind(
        sharing, {"M": 3, "T": 70, "E": 32, "F": 32}, {"H": tw.dynamic(1, 10)}, [(1,), (3,), (4,), (7,), (10,)]
    ),
    "heads, keys and queries": Kind(
        sharing, {"E": 32, "F": 32},
        {"M": tw.dynamic(1, 100), "H": tw.dynamic(3, 9, multiple_of=3), "T": tw.dynamic(1, 300)},
        [(1, 3, 1), (100, 9, 300), (65, 6, 129)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("name", KINDS)
def test_extents_of_one_kernel(name: str, target: str) -> None:
    kind = KINDS[name]
    elements = {each.name: each.element or Element.BF16 for each in kind.kernel.parameters}
    made = compile_kernel(
        kind.kernel, dims=kind.dims | kind.ranges, dtype=elements, target=target, assembled=target == "sm_90a"
    )
    assert made.proof.scope == "all trip counts" and made.text_proof is not None
    kernel = CompiledKernel(made.bundle())
    for extents in kind.at:
        dims = kind.dims | dict(zip(kind.ranges, extents, strict=True))
        program = trace(kind.kernel, dims, elements)
        random = np.random.default_rng(3)
        inputs = {}
        for each in buffers(the_program(program)):
            if each.role == "input" and each.element is Element.S32:
                # Places, and numbers next to these on either side.
                most = derived_extent(kind.integers[each.name], dims)
                inputs[each.name] = random.integers(-1, most, each.shape, dtype=np.int32, endpoint=True)
            elif each.role == "input":
                inputs[each.name] = random.standard_normal(each.shape).astype(DTYPES[each.element])
        expected = evaluate(program, inputs)["o"].astype(np.float64)
        found = kernel(*inputs.values()).astype(np.float64)
        near = np.isclose(found, expected, rtol=2e-2, atol=2e-2, equal_nan=True)
        assert found.shape == expected.shape and near.all(), f"{dims}: {np.argwhere(~near)[:4]}"
