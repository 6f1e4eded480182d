# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Axes whose extents only a launch knows: what is not compiled is refused at the author's line."""

import pytest
from tests.synth.walked_products import parts_of, walk_of

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.size import Extent
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.kernels import batched_kernel, grouped_kernel, matmul_kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.synth.run_time_extents import SUPPORTED, refuse_run_time

SOME = tw.dynamic(1, 300)


@tw.kernel
def rows_by_columns(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["N", "M"]):  # here
    i, j = tw.grid("N", "M")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(w[i, k], x[j, k].T)
    y[i, j] = acc


@tw.kernel
def both_outermost(x: tw.Tensor["K", "M"], w: tw.Tensor["K", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[k, i].T, w[k, j])
    y[i, j] = acc


@tw.kernel
def attention(q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["M", "F"]):
    i, t, e, f = tw.axes("M T E F")
    s = tw.dot(q[i, e], k[t, e], over=e)
    o[i, f] = tw.dot(tw.softmax(s, over=t), v[t, f], over=t)  # here


@tw.kernel
def of_many(
    q: tw.Tensor["B", "M", "E"], k: tw.Tensor["B", "T", "E"], v: tw.Tensor["B", "T", "F"], o: tw.Tensor["B", "M", "F"]
):
    b, i, t, e, f = tw.axes("B M T E F")
    s = tw.dot(q[b, i, e], k[b, t, e], over=e)
    o[b, i, f] = tw.dot(tw.softmax(s, over=t), v[b, t, f], over=t)


@tw.kernel
def summed(x: tw.Tensor["M", "N"], y: tw.Tensor["N"]):
    i, j = tw.grid("M", "N")
    y[j] = tw.sum(x[i, j], over=i)  # here


@tw.kernel
def in_blocks(x: tw.Tensor["M", "N"], s: tw.Tensor["M/2", "N"], y: tw.Tensor["M", "N"]):  # here
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] * s[i // 2, j]


@tw.kernel
def second_of_the_grid(x: tw.Tensor["M", "A"], t: tw.Tensor["A"], y: tw.Tensor["M", "A"]):
    j, i = tw.grid("A", "M")  # here
    y[i, j] = x[i, j] + t[j]


@tw.kernel
def turned(x: tw.Tensor["M", "A", "B"], y: tw.Tensor["M", "B", "A"]):
    i, b, a = tw.grid("M", "B", "A")
    y[i, b, a] = x[i, a, b].T


REFUSED = [
    (second_of_the_grid, {"M": SOME, "A": 64}, "is not the first axis of the grid"),
    (rows_by_columns, {"M": SOME, "N": 64, "K": 64}, "is an inner axis of y over (N, M)"),
    (both_outermost, {"M": 64, "N": 64, "K": SOME}, "the loop sums over K"),
    (matmul_kernel, {"M": 64, "N": SOME, "K": 64}, "N, whose extent only the launch knows, is an inner axis of b"),
    (attention, {"M": 64, "T": SOME, "E": 64, "F": 64}, "this folds along T"),
    (summed, {"M": SOME, "N": 64}, "this folds along M"),
    (in_blocks, {"M": SOME, "N": 64}, "has blocks of M"),
    (batched_kernel("none"), {"B": SOME, "M": 64, "N": 64, "K": 64}, "B is the axis of a batch"),
    (grouped_kernel("none", False), {"T": SOME, "G": 4, "N": 64, "K": 64}, "rows stand in groups"),
    (matmul_kernel, {"M": SOME, "N": tw.dynamic(1, 4), "K": 64}, "extents of M and N are both"),
]


@pytest.mark.parametrize(("kernel", "dims", "words"), REFUSED)
def test_what_is_refused(kernel, dims, words) -> None:
    elements = {item.name: item.element or Element.BF16 for item in kernel.parameters}
    module = trace(kernel, dims, elements)
    with pytest.raises(TilewrightError) as caught:
        refuse_run_time(the_program(module))
    assert words in caught.value.message and caught.value.remedy == SUPPORTED
    assert caught.value.span is not None
    marked = [at for at, line in enumerate(kernel.source.splitlines()) if line.endswith("# here")]
    if marked:
        assert caught.value.span.line in (kernel.line + marked[0], kernel.line)


def test_a_walk_has_run_time_rows_and_no_run_time_batch() -> None:
    dims = {"T": 64, "E": 64, "F": 64}
    made = compile_kernel(attention, dims={"M": SOME, **dims}, rerun=False, assembled=False)
    assert len(made.plan.launches) == 1 and made.plan.run_time is not None
    with pytest.raises(TilewrightError, match="is not that of this walk's rows") as caught:
        compile_kernel(of_many, dims={"B": SOME, "M": 64, **dims}, rerun=False, assembled=False)
    assert caught.value.span is not None


def test_a_result_that_has_elements_where_nothing_is_launched() -> None:
    @tw.kernel
    def beside(
        x: tw.Tensor["M", "K"], w: tw.Tensor["K", "N"], t: tw.Tensor["N"], y: tw.Tensor["M", "N"], z: tw.Tensor["N"]
    ):
        i, j, k = tw.axes("M N K")
        y[i, j] = tw.dot(x[i, k], w[k, j], over=k)
        z[j] = t[j] * 2.0

    with pytest.raises(TilewrightError, match="M may be 0, where nothing is launched, and z") as caught:
        compile_kernel(beside, dims={"M": tw.dynamic(0, 70), "N": 64, "K": 64}, rerun=False, assembled=False)
    assert caught.value.span is not None and caught.value.span.line == beside.line + 6
    compile_kernel(beside, dims={"M": tw.dynamic(1, 70), "N": 64, "K": 64}, rerun=False, assembled=False)


def test_a_line_of_its_own() -> None:
    """Where one operation is to blame, the line is its own and not the declaration's."""
    module = trace(summed, {"M": SOME, "N": 64}, {"x": Element.BF16, "y": Element.BF16})
    with pytest.raises(TilewrightError) as caught:
        refuse_run_time(the_program(module))
    assert caught.value.span is not None and caught.value.span.line == summed.line + 3


def test_a_promise_that_some_extent_breaks() -> None:
    @tw.kernel(where="M % 8 == 0, M <= 256")
    def promised(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[k, j])
        c[i, j] = acc

    elements = dict.fromkeys("abc", Element.BF16)
    for values in (tw.dynamic(8, 256), tw.dynamic(8, 264, multiple_of=8)):
        with pytest.raises(TilewrightError, match="breaks the promise"):
            trace(promised, {"M": values, "N": 64, "K": 64}, elements)
    trace(promised, {"M": tw.dynamic(0, 256, multiple_of=8), "N": 64, "K": 64}, elements)


def test_an_operand_is_copied_before() -> None:
    """The copy has as many rows."""
    made = compile_kernel(matmul_kernel, dims={"M": SOME, "N": 64, "K": 65}, rerun=False, assembled=False)
    assert made.plan.run_time is not None and made.plan.run_time.shapes[-1] == (Extent("M"), 65)
    (workspace,) = (buffer for buffer in made.plan.buffers if buffer.role == "workspace")
    assert workspace.shape == (300, 65) and workspace.strides[0] * 2 % 16 == 0


def test_tiles_that_warps_would_transpose() -> None:
    compile_kernel(turned, dims={"M": 9, "A": 64, "B": 64}, rerun=False, assembled=False)
    with pytest.raises(TilewrightError, match="lie along different axes") as caught:
        compile_kernel(turned, dims={"M": SOME, "A": 64, "B": 64}, rerun=False, assembled=False)
    assert caught.value.span is not None and caught.value.span.line == turned.line


def test_tiles_are_shared_through_memory_only_where_their_number_is_known() -> None:
    def decided(values):
        return walk_of(parts_of({"M": values, "N": 64, "K": 32768}))

    assert decided(tw.dynamic(1, 64)).teams > 1
    several = decided(tw.dynamic(1, 4096))
    assert (several.teams, several.stream) == (1, None)
