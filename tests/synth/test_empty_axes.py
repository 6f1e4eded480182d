# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Axes without elements: what is left of a program stores what the reference evaluator does of the whole one."""

import numpy as np
import pytest

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile import kernels
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.run.run import CompiledKernel
from tilewright.frontends.tile.reference import DTYPES, evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import buffers, the_program
from tilewright.synth.empty_axes import without_empty_axes


@tw.kernel
def several(x: tw.Tensor["M", "N"], t: tw.Tensor["N"], y: tw.Tensor["M"], z: tw.Tensor["N"]):
    i, j = tw.axes("M N")
    y[i] = tw.max(x[i, j], over=j)
    z[j] = tw.min(x[i, j], over=i) + t[j]


@tw.kernel
def means(x: tw.Tensor["M", "N"], y: tw.Tensor["M"], z: tw.Tensor["M"]):
    i, j = tw.axes("M N")
    y[i] = tw.mean(x[i, j], over=j)
    z[i] = tw.logsumexp(x[i, j], over=j)


@tw.kernel
def attention(q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["M", "F"]):
    i, t, e, f = tw.axes("M T E F")
    s = tw.dot(q[i, e], k[t, e], over=e)
    o[i, f] = tw.dot(tw.softmax(s, over=t), v[t, f], over=t)  # here


@tw.kernel
def scores(q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], y: tw.Tensor["M", "T"]):
    i, t, e = tw.axes("M T E")
    y[i, t] = tw.softmax(tw.dot(q[i, e], k[t, e], over=e), over=t)


@tw.kernel
def looked_up(x: tw.Tensor["V", "N"], ids: tw.Tensor["M", tw.i32], y: tw.Tensor["M", "N"]):
    i, j = tw.axes("M N")
    y[i, j] = x[ids[i], j] + 1.0


@tw.kernel
def in_blocks(x: tw.Tensor["M", "N"], s: tw.Tensor["M", "N/32"], y: tw.Tensor["M"]):
    i, j = tw.axes("M N")
    y[i] = tw.sum(x[i, j] * s[i, j // 32], over=j)


@tw.kernel
def place(x: tw.Tensor["M", "N"], y: tw.Tensor["M", tw.i32]):
    i, j = tw.axes("M N")
    y[i] = tw.argmax(x[i, j], over=j)  # here


PRODUCT = kernels.matmul_kernel
GROUPED = kernels.grouped_kernel("none", False)
CASES = [
    (PRODUCT, {"M": 0, "N": 8, "K": 16}, 0),
    (PRODUCT, {"M": 5, "N": 0, "K": 16}, 0),
    (PRODUCT, {"M": 70, "N": 8, "K": 0}, 1),
    (PRODUCT, {"M": 0, "N": 0, "K": 0}, 0),
    (kernels.batched_kernel("relu"), {"B": 0, "M": 5, "N": 8, "K": 8}, 0),
    (kernels.batched_kernel("relu"), {"B": 2, "M": 5, "N": 8, "K": 0}, 1),
    (kernels.gated_kernel("silu"), {"M": 5, "N": 8, "K": 0}, 1),
    (GROUPED, {"T": 0, "G": 2, "N": 8, "K": 8}, 0),
    (GROUPED, {"T": 8, "G": 0, "N": 8, "K": 8}, 0),
    (several, {"M": 0, "N": 5}, 1),
    (several, {"M": 5, "N": 0}, 1),
    (several, {"M": 0, "N": 0}, 0),
    (means, {"M": 5, "N": 0}, 1),
    (attention, {"M": 5, "T": 0, "E": 8, "F": 8}, 1),
    (attention, {"M": 0, "T": 9, "E": 8, "F": 8}, 0),
    (attention, {"M": 5, "T": 9, "E": 8, "F": 0}, 0),
    (attention, {"M": 5, "T": 0, "E": 0, "F": 8}, 1),
    (scores, {"M": 5, "T": 70, "E": 0}, 1),
    (scores, {"M": 5, "T": 0, "E": 8}, 0),
    (looked_up, {"V": 0, "M": 5, "N": 8}, 1),
    (looked_up, {"V": 7, "M": 0, "N": 8}, 0),
    (in_blocks, {"M": 5, "N": 0}, 1),
    (place, {"M": 0, "N": 0}, 0),
]


def _elements(kernel):
    return {item.name: item.element or Element.F16 for item in kernel.parameters}


def _inputs(program):
    random = np.random.default_rng(5)
    return {
        each.name: (random.integers(-3, 4, each.shape) * (each.name != "ends")).astype(DTYPES[each.element])
        for each in buffers(program)
        if each.role == "input"
    }


@pytest.mark.parametrize(("kernel", "dims", "launches"), CASES)
def test_what_is_left_stores_the_same(kernel, dims, launches) -> None:
    module = trace(kernel, dims, _elements(kernel))
    inputs = _inputs(the_program(module))
    found = {}
    for each in without_empty_axes(module):
        program = the_program(each)
        program.verify()
        assert 0 not in program.extents.values()
        own = {name.data for name in program.parameters}
        found |= evaluate(each, {name: array for name, array in inputs.items() if name in own})
    wanted = {name: array for name, array in evaluate(module, inputs).items() if array.size}
    assert bool(found) == bool(launches)
    if launches:
        assert found.keys() == wanted.keys()
    for name, array in found.items():
        np.testing.assert_array_equal(array, wanted[name])


@pytest.mark.parametrize(("kernel", "dims", "launches"), CASES)
def test_programs_run_on_the_machine(kernel, dims, launches) -> None:
    made = compile_kernel(kernel, dims=dims, dtype=_elements(kernel), assembled=False)
    assert len(made.plan.launches) >= launches and bool(made.plan.launches) == bool(launches)
    inputs = _inputs(the_program(made.source))
    outputs = CompiledKernel(made.bundle())(*inputs.values())
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    for array, wanted in zip(outputs, evaluate(made.source, inputs).values(), strict=True):
        np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize(
    ("kernel", "dims", "words"),
    [
        (place, {"M": 5, "N": 0}, "N has no elements, of which this would find one"),
        (attention, {"M": 5, "T": 9, "E": 0, "F": 8}, "E has no elements, so that this multiplies a number along T"),
        (GROUPED, {"T": 8, "G": 2, "N": 8, "K": 0}, "K has no elements, so that these groups are multiplied by"),
    ],
)
def test_what_is_refused(kernel, dims, words) -> None:
    with pytest.raises(TilewrightError, match=words) as caught:
        without_empty_axes(trace(kernel, dims, _elements(kernel)))
    assert caught.value.span is not None
    marked = [at for at, text in enumerate(kernel.source.splitlines()) if text.endswith("# here")]
    assert not marked or caught.value.span.line == kernel.line + marked[0]


@tw.kernel
def of_both(x: tw.Tensor["M", "N"], y: tw.Tensor["M"], z: tw.Tensor["N"]):
    i, j = tw.axes("M N")
    y[i] = tw.max(x[i, j], over=j)
    z[j] = tw.sum(x[i, j], over=i)


FROM_0 = [
    (attention, {"M": 5, "T": tw.dynamic(0, 200), "E": 64, "F": 64}, [(0,), (1,), (200,)]),
    (
        attention,
        {"M": tw.dynamic(0, 70), "T": tw.dynamic(0, 200), "E": 64, "F": 64},
        [(0, 0), (3, 0), (0, 3), (70, 65)],
    ),
    (PRODUCT, {"M": tw.dynamic(0, 9), "N": 64, "K": tw.dynamic(0, 96, multiple_of=8)}, [(0, 8), (9, 0), (9, 96)]),
    (means, {"M": 5, "N": tw.dynamic(0, 70)}, [(0,), (1,), (70,)]),
    (of_both, {"M": tw.dynamic(0, 9), "N": tw.dynamic(0, 70)}, [(0, 0), (0, 7), (7, 0), (9, 70)]),
]


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(("kernel", "dims", "extents"), FROM_0)
def test_ranges_from_0(kernel, dims, extents, target) -> None:
    elements = _elements(kernel)
    made = compile_kernel(kernel, dims=dims, dtype=elements, target=target, assembled=False)
    assert made.proof.scope == "all trip counts" and made.text_proof is not None
    run, random = CompiledKernel(made.bundle()), np.random.default_rng(0)
    axes = [axis for axis, each in dims.items() if not isinstance(each, int)]
    for each in extents:
        module = trace(kernel, {**dims, **dict(zip(axes, each, strict=True))}, elements)
        inputs = {
            buffer.name: (random.integers(-3, 4, buffer.shape) / 4).astype(np.float16)
            for buffer in buffers(the_program(module)) if buffer.role == "input"
        }  # fmt: skip
        results = run(*inputs.values())
        results = results if isinstance(results, tuple) else (results,)
        for result, exact in zip(results, evaluate(module, inputs).values(), strict=True):
            np.testing.assert_allclose(result.astype("f4"), exact.astype("f4"), 4e-3, 2e-3)


def test_the_place_of_the_largest_of_none_is_refused() -> None:
    with pytest.raises(TilewrightError, match="N has no elements, of which this would find one") as caught:
        compile_kernel(place, dims={"M": 5, "N": tw.dynamic(0, 70)}, dtype=_elements(place), assembled=False)
    assert caught.value.span is not None and caught.value.span.line == place.line + 3


def test_a_range_beside_an_empty_axis() -> None:
    made = compile_kernel(PRODUCT, dims={"M": tw.dynamic(0, 9), "N": 8, "K": 0}, dtype="f16", assembled=False)
    compiled = CompiledKernel(made.bundle())
    for rows in (0, 1, 9):
        result = compiled(np.zeros((rows, 0), np.float16), np.zeros((0, 8), np.float16))
        assert result.shape == (rows, 8) and not result.any()
    made = compile_kernel(PRODUCT, dims={"M": tw.dynamic(0, 9), "N": 0, "K": 8}, dtype="f16", assembled=False)
    assert not made.plan.launches
    assert CompiledKernel(made.bundle())(np.zeros((4, 8), np.float16), np.zeros((8, 0), np.float16)).shape == (4, 0)
