# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Batches of a range of which few places leave multiprocessors idle: kernels that take the keys in parts are launched
for these, one kernel for more. Each is proven, one of them is launched at every extent, and results are right."""

from functools import cache

import numpy as np
import pytest

import tilewright as tw
from tilewright.base.element import Element
from tilewright.base.run_time import plan_at
from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.driver.run.run import CompiledKernel
from tilewright.frontends.tile.reference import DTYPES, evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.synth.empty_axes import parts_of_range


@tw.kernel
def decoded(
    q: tw.Tensor["B", "H", "E"], k: tw.Tensor["B", "H/4", "T", "E"], v: tw.Tensor["B", "H/4", "T", "F"],
    o: tw.Tensor["B", "H", "F"],
):  # fmt: skip
    b, h, t, e, f = tw.axes("B H T E F")
    s = tw.dot(q[b, h, e], k[b, h // 4, t, e], over=e) * 0.2
    o[b, h, f] = tw.dot(tw.softmax(s, over=t), v[b, h // 4, t, f], over=t)


DIMS = {"H": 16, "T": 1024, "E": 32, "F": 32}
MOST = 64


@cache
def made() -> Compilation:
    return compile_kernel(decoded, dims=DIMS | {"B": tw.dynamic(0, MOST)}, assembled=False)


def test_one_case_is_launched_at_every_extent() -> None:
    assert made().proof.scope == "all trip counts" and made().text_proof is not None
    plan = made().plan
    cases = {each.launched for each in made().parts}
    assert len(cases) > 2 and not plan_at(plan, {"B": 0}).launches
    for batch in range(1, MOST + 1):
        entries = [launch.entry for launch in plan_at(plan, {"B": batch}).launches]
        assert len(entries) == (1 if entries == ["decoded"] else 2), (batch, entries)
        few = [int(entry.split("_")[3]) for entry in entries if entry != "decoded"]
        assert all(batch <= each for each in few)
    assert len(plan_at(plan, {"B": 1}).launches) == 2 and len(plan_at(plan, {"B": MOST}).launches) == 1


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_results(batch: int) -> None:
    random = np.random.default_rng(7)
    extents = DIMS | {"B": batch}
    program = trace(decoded, extents, dict.fromkeys("qkvo", Element.BF16))
    shapes = {"q": (batch, 16, 32), "k": (batch, 4, 1024, 32), "v": (batch, 4, 1024, 32)}
    inputs = {name: random.standard_normal(shape).astype(DTYPES[Element.BF16]) for name, shape in shapes.items()}
    expected = evaluate(program, inputs)["o"].astype(np.float64)
    found = CompiledKernel(made().bundle())(*inputs.values()).astype(np.float64)
    assert np.abs(found - expected).max() <= 2e-3


def test_parts_of_a_range() -> None:
    module = trace(decoded, DIMS | {"B": tw.dynamic(2, 40, multiple_of=2)}, dict.fromkeys("qkvo", Element.BF16))
    (few, is_few), (many, is_more) = parts_of_range(module, "B", 8)
    ranges = [the_program(each).run_time["B"] for each in (few, many)]
    assert [(each.least, each.most, each.multiple_of) for each in ranges] == [(2, 8, 2), (10, 40, 2)]
    assert [the_program(each).extents["B"] for each in (few, many)] == [8, 40]
    assert {str(is_few), str(is_more)} == {"choose(ceil_div(B, 8), 1, 1, 0)", "choose(ceil_div(B, 8), 0, 0, 1)"}
