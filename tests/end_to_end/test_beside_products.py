# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""What may stand beside a product: masks, indices, integers, other products, displaced arrays.

NumPy's numbers on either target. A neighbouring matrix and displaced blocks once were the own ones."""

import math

import pytest
from tests.end_to_end.blackwell_programs import check_numbers

import tilewright.frontends.tile.language as tw
from tilewright.driver.compile.compile import compile_kernel
from tilewright.frontends.tile.kernel import Kernel

X, W, Y = tw.Tensor["M", "K"], tw.Tensor["N", "K"], tw.Tensor["M", "N"]
DIMS = {"M": 70, "N": 72, "K": 64}


@tw.kernel
def lower_triangle(x: X, w: W, y: Y):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.where(j <= i, tw.dot(x[i, k], w[j, k], over=k), 0.0)


@tw.kernel
def leaky_loop(x: X, w: W, y: Y):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(x[i, k], w[j, k].T)
    y[i, j] = tw.where(acc < 0, 0.01 * acc, acc) + 0.5 * (i - j)


@tw.kernel
def rows_by_number(x: X, w: W, n: tw.Tensor["M", tw.i32], y: Y):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.where(n[i] > 0, tw.dot(x[i, k], w[j, k], over=k), -1.0)


@tw.kernel
def of_bytes(x: X, w: tw.Tensor["N", "K", tw.i8], s: tw.Tensor["N", "K/32"], y: Y):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(x[i, k], (w[j, k] * s[j, k // 32]).to(tw.bf16), over=k)


@tw.kernel
def nothing_common(a: X, b: W, x: X, w: W, y: Y):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(a[i, k], b[j, k], over=k) * tw.dot(x[i, k], w[j, k], over=k)


@tw.kernel
def nothing_common_in_a_loop(a: X, b: W, x: X, w: W, y: Y):
    i, j = tw.grid("M", "N")
    one, other = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        one += tw.dot(a[i, k], b[j, k].T)
        other += tw.dot(x[i, k], w[j, k].T)
    y[i, j] = one * other


@tw.kernel
def rounded_to_bytes(x: X, w: W, y: tw.Tensor["M", "N", tw.i8], s: tw.Tensor["M", tw.f32]):
    i, j, k = tw.axes("M N K")
    product = tw.dot(x[i, k], w[j, k], over=k)
    scale = tw.max(tw.abs(product), over=j) / 127.0
    s[i] = scale
    y[i, j] = tw.round(product / scale).to(tw.i8)


@tw.kernel
def neighbours(x: X, a: W, b: W, y: Y):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(x[i - 1, k], a[j, k], over=k) + tw.dot(x[i, k], b[j, k + 1], over=k)


@tw.kernel
def next_values(q: tw.Tensor["H", "M", "K"], k: tw.Tensor["H", "N", "K"], v: tw.Tensor["H", "N", "F"],
                o: tw.Tensor["H", "M", "F"]):  # fmt: skip
    h, i, t, e, f = tw.axes("H M N K F")
    scores = tw.dot(q[h, i, e], k[h, t, e], over=e) * 0.125
    o[h, i, f] = tw.dot(tw.softmax(scores, over=t), v[h, t + 1, f], over=t)


@tw.kernel
def two_scores(q: tw.Tensor["H", "E"], r: tw.Tensor["H", "R"], c: tw.Tensor["T", "E"], p: tw.Tensor["T", "R"],
               o: tw.Tensor["H", "E"]):  # fmt: skip
    h, t, e, rest = tw.axes("H T E R")
    scores = (tw.dot(q[h, e], c[t, e], over=e) + tw.dot(r[h, rest], p[t, rest], over=rest)) * 0.1
    o[h, e] = tw.dot(tw.softmax(scores, over=t), c[t, e], over=t)


@tw.kernel
def float32_bias(q: tw.Tensor["H", "M", "K"], k: tw.Tensor["H", "N", "K"], bias: tw.Tensor["M", "N", tw.f32],
                 o: tw.Tensor["H", "M", "K"]):  # fmt: skip
    h, i, t, e = tw.axes("H M N K")
    scores = tw.dot(q[h, i, e], k[h, t, e], over=e) + bias[i, t]
    o[h, i, e] = tw.dot(tw.softmax(scores, over=t), k[h, t, e], over=t)


@tw.kernel
def matrix_of_each_row(x: X, a: tw.Tensor["B", "N", "K"], at: tw.Tensor["M", tw.i32], y: Y):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(x[i, k], a[at[i], j, k], over=k)


@tw.kernel
def attention_of_a_neighbour(q: tw.Tensor["H", "M", "K"], k: tw.Tensor["H", "N", "K"], s: tw.Tensor["H"],
                             o: tw.Tensor["H", "M", "K"]):  # fmt: skip
    h, i, t, e = tw.axes("H M N K")
    scores = tw.where(t <= i, tw.dot(q[h, i, e], k[h, t, e], over=e) * s[h - 1], -math.inf)
    o[h, i, e] = tw.dot(tw.softmax(scores, over=t), k[h, t, e], over=t)


@tw.kernel
def neighbouring_matrix(x: tw.Tensor["B", "M", "K"], w: W, u: tw.Tensor["B"], y: tw.Tensor["B", "M", "N"]):
    b, i, j, k = tw.axes("B M N K")
    y[b, i, j] = tw.dot(x[b, i, k], w[j, k], over=k) + u[b - 1]


PROGRAMS: dict[Kernel, dict[str, int]] = {
    lower_triangle: DIMS,
    leaky_loop: DIMS,
    rows_by_number: DIMS,
    of_bytes: DIMS,
    nothing_common: DIMS,
    nothing_common_in_a_loop: DIMS,
    rounded_to_bytes: DIMS,
    neighbours: DIMS,
    next_values: DIMS | {"H": 2, "F": 64},
    two_scores: {"H": 5, "T": 100, "E": 64, "R": 16},
    neighbouring_matrix: {"B": 3} | DIMS,
    float32_bias: DIMS | {"H": 2},
    matrix_of_each_row: DIMS | {"M": 5, "B": 3},
    attention_of_a_neighbour: {"H": 3, "M": 33, "N": 72, "K": 64},
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("kernel", PROGRAMS, ids=lambda kernel: kernel.name)
def test_it_is_computed(kernel: Kernel, target: str) -> None:
    check_numbers(compile_kernel(kernel, target=target, dims=PROGRAMS[kernel]))


@tw.kernel
def displaced_blocks(x: X, w: W, u: tw.Tensor["M/2"], y: Y):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.where(j <= i, tw.dot(x[i, k], w[j, k], over=k), 0.0) + u[i // 2 + 1]


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_displaced_blocks_are_added_by_a_kernel_of_their_own(target: str) -> None:
    made = compile_kernel(displaced_blocks, target=target, dims=DIMS)
    assert len(made.plan.launches) == 2
    check_numbers(made)


@tw.kernel
def two_long_sums(x: X, a: W, b: W, y: Y):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.softmax(tw.dot(x[i, k], a[j, k], over=k) * tw.dot(x[i, k], b[j, k], over=k), over=j)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_operands_in_slices_are_brought_for_each_product(target: str) -> None:
    check_numbers(compile_kernel(two_long_sums, target=target, dims={"M": 33, "N": 72, "K": 1024}))


@tw.kernel
def biased_batch(x: tw.Tensor["B", "M", "K"], w: W, bias: tw.Tensor["B", "N"], y: tw.Tensor["B", "M", "N"]):
    b, i, j, k = tw.axes("B M N K")
    y[b, i, j] = tw.dot(x[b, i, k], w[j, k], over=k) + bias[b, j]


def test_numbers_of_a_batch_whose_rows_are_joined() -> None:
    """In the small instance of the proof one number is all rows', in the kernel it is not: the text is the same."""
    made = compile_kernel(biased_batch, target="sm_100a", dims={"B": 2, "M": 130, "N": 70, "K": 40})
    assert "rows along B_M" in " ".join(made.decisions.reasons)
    check_numbers(made)


@tw.kernel
def sums_beside(x: X, w: W, v: tw.Tensor["L", "N"], y: tw.Tensor["M", "L"], total: tw.Tensor["M"]):
    i, j, k, n = tw.axes("M N K L")
    product = tw.dot(x[i, k], w[j, k], over=k)
    y[i, n] = tw.dot(tw.softmax(product, over=j), v[n, j], over=j)
    total[i] = tw.sum(product, over=j)


@pytest.mark.sample(1)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_result_without_columns_beside_one_that_has_them(target: str) -> None:
    check_numbers(compile_kernel(sums_beside, target=target, dims={"M": 31, "N": 72, "K": 24, "L": 33}))
