# ruff: noqa: F821, B007, F841, RUF059  (axis names are quoted in annotations; wrong kernels leave things unused)
"""What the language refuses, with the message and at the author's line.

Each kernel is wrong on the line that ends in `# here`; one without such a line is blamed where it is declared.
"""

import numpy as np
import pytest
from tests.frontends.refusals import COLUMN, DIMS, ROW, A, B, C, collector, elements, refused_at_its_line, trace_plainly

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile.trace import trace

CASES: dict[str, tuple[object, str]] = {}
refused = collector(CASES)


# ---------------------------------------------------------------- structure


@refused(r"the program has no grid")
def no_grid(x: C, y: C):
    pass


@refused(r"the kernel calls tw.grid or tw.axes twice \(call one of them once, at the start\)")
def two_grids(x: C, y: C):
    i, j = tw.grid("M", "N")
    i, j = tw.grid("M", "N")  # here


@refused(r"kernel misspelt_grid has no axis m \(did you mean M\?\)")
def misspelt_grid(x: C, y: C):
    i, j = tw.grid("m", "N")  # here


@refused(r"3 is no axis name")
def grid_of_number(x: C, y: C):
    i, j = tw.grid(3, "N")  # here


@refused(r"a grid over \(M, N, K, L, A, B, C, D, E\) has 9 axes \(use one to 8\)")
def grid_of_nine(a: A, b: B, x: tw.Tensor["L"], y: tw.Tensor["A", "B", "C", "D", "E"]):
    tw.grid("M", "N", "K", "L", "A", "B", "C", "D", "E")  # here


@refused(r"kernel misspelt_axes has no axis Nn \(did you mean N\?\)")
def misspelt_axes(x: C, y: C):
    tw.axes("M Nn")  # here


@refused(r"5 is no axis name")
def axes_of_numbers(x: C, y: C):
    tw.axes("M", 5)  # here


@refused(r"tw.axes names no axis")
def axes_of_nothing(x: C, y: C):
    tw.axes(" ")  # here


@refused(r"the kernel calls tw.grid or tw.axes twice")
def axes_after_a_grid(x: C, y: C):
    i, j = tw.grid("M", "N")
    tw.axes("M N")  # here


@refused(r"a grid over \(\) has 0 axes")
def grid_of_none(y: C):
    tw.grid()  # here


@refused(r"a grid over \(M, M\) names an axis twice")
def grid_twice_the_same(y: C):
    tw.grid("M", "M")  # here


@refused(r"a loop comes before tw.grid")
def loop_before_grid(a: A, y: C):
    for k in tw.loop("K"):  # here
        tw.grid("M", "N")


@refused(r"kernel misspelt_loop has no axis KK \(did you mean K\?\)")
def misspelt_loop(a: A, y: C):
    i, j = tw.grid("M", "N")
    for k in tw.loop("KK"):  # here
        pass


@refused(r"the loop runs over N, an axis of the grid")
def loop_over_grid_axis(a: A, y: C):
    i, j = tw.grid("M", "N")
    for k in tw.loop("N"):  # here
        pass


@refused(r"a loop over L inside the loop over K, which is nested or was left by break")
def nested_loops(a: A, b: tw.Tensor["L", "N"], y: C):
    i, j = tw.grid("M", "N")
    for k in tw.loop("K"):
        for m in tw.loop("L"):  # here
            pass


@refused(r"the loop over K was left by break or return")
def left_by_break(a: A, b: B, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):  # here
        acc += tw.dot(a[i, k], b[k, j])
        break


@refused(r"the loop over K updates no accumulator \(write `acc \+= tw.dot\(x, y\)` in its body\)")
def idle_loop(a: A, x: C, y: C):
    i, j = tw.grid("M", "N")
    for k in tw.loop("K"):  # here
        a[i, k]
    y[i, j] = x[i, j]


@refused(r"kernel returns_a_tile returns a value")
def returns_a_tile(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j]
    return x[i, j]


# ---------------------------------------------------------------- indices


@refused(r"the index over K is used outside its loop")
def loop_index_after_loop(a: A, b: B, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    y[i, j] = acc + b[k, j]  # here


@refused(r"a tensor over \(M, K\) is read at \(K, M\) \(index it by \(M, K\), and transpose the tile with .T\)")
def axes_swapped(a: A, b: B, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[k, i], b[k, j])  # here


@refused(r"a tensor over \(N\) is read at \(M\)")
def wrong_axis(x: ROW, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i]  # here


@refused(r"a tensor over \(M, N\) is read at \(M\)")
def too_few_indices(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i]  # here


@refused(r"0 is no index")
def number_as_index(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[0, j]  # here


@refused(r"slice\(None, None, None\) is no index")
def slice_as_index(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[:, j]  # here


@refused(r"a tile of numbers is used as an index \(.*displaced by whole numbers")
def fractional_shift(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i + 0.5, j]  # here


@refused(r"an index is displaced by True")
def boolean_shift(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i + True, j]  # here


@refused(r"an index is displaced by 4294967296 elements")
def huge_shift(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i + 2**32, j]  # here


@refused(r"a tile of numbers is used as an index")
def sum_of_indices(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i - j, j]  # here


@refused(r"a tile of numbers is used as an index")
def scaled_index(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i * 2, j]  # here


@refused(r"the index over M is used as a number")
def index_in_range(x: C, y: C):
    i, j = tw.grid("M", "N")
    for row in range(i):  # here
        pass


# ---------------------------------------------------------------- stores


@refused(r"the program stores nothing \(assign to a tensor")
def stores_nothing(x: C):
    i, j = tw.grid("M", "N")
    x[i, j] + 1


@refused(r"y is stored outside the program's own tile")
def store_shifted(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i + 1, j] = x[i, j]  # here


@refused(r"y over \(M\) is stored by a grid over \(M, N\), so several programs would write the same tile")
def store_by_several(x: C, y: COLUMN):
    i, j = tw.grid("M", "N")
    y[i] = 1.0  # here


@refused(r"y is stored twice")
def store_twice(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j]
    y[i, j] = x[i, j]  # here


@refused(r"y is read and stored; programs run in any order")
def read_output(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] += x[i, j]  # here


@refused(r"y is stored inside the loop over K, once per tile of it")
def store_in_loop(a: A, x: C, y: C):
    i, j = tw.grid("M", "N")
    for k in tw.loop("K"):
        y[i, j] = x[i, j]  # here


@refused(r"a tile computed inside the loop over K is used after it")
def store_loop_tile(a: A, b: B, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
        last = a[i, k]
    y[i, j] = last  # here


@refused(r"a tile over \(N, M\) is stored to a tensor over \(M, N\) \(transpose the tile with .T\)")
def store_transposed(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j].T  # here


@refused(r"a tile over \(M, N\) is stored to a tensor over \(M\)")
def store_too_much(x: C, y: COLUMN):
    i, j = tw.grid("M", "N")
    y[i] = x[i, j]  # here


@refused(r"parameter x reaches no store: it is neither stored nor read for one \(use it or remove it\)")
def unused_parameter(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = 0.0


@refused(r"'text' is neither a tile nor a number")
def store_text(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = "text"  # here


@refused(r"tensor x is used without indices \(write x\[...\] to load a tile\)")
def store_tensor(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x  # here


# ---------------------------------------------------------------- products and accumulators


@refused(r"dot of tiles over \(M, K\) and \(N, K\) \(transpose the right tile with .T\)")
def dot_needs_transpose(a: A, b: tw.Tensor["N", "K"], y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k])  # here


@refused(r"dot of tiles over \(K, M\) and \(K, N\) \(transpose the left tile with .T\)")
def dot_needs_left_transpose(a: tw.Tensor["K", "M"], b: B, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[k, i], b[k, j])  # here


@refused(r"dot of tiles over \(M, K\) and \(N\) \(give two tiles of two axes each, or three")
def dot_of_vector(a: A, x: ROW, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], x[j])  # here


@refused(r"dot of tiles over \(M, K\) and \(K, M\) \(both operands share both axes; name one of the outer axes")
def dot_with_itself(a: A, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], a[i, k].T)  # here


@refused(r"dot of f32 tiles, which no tensor core multiplies exactly \(cast both with .to\(tw.bf16\)\)")
def dot_of_float32(a: A, b: B, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(tw.relu(a[i, k]), b[k, j] * 2)  # here


@refused(r"dot of f16 with bf16 \(cast one of them with .to\(...\)\)")
def dot_of_mixed(a: A, b: B, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k].to(tw.f16), b[k, j])  # here


@refused(r"tw.dot of the number 2")
def dot_of_number(a: A, b: B, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(2, b[k, j])  # here


@refused(r"dot contracts M inside a loop over K")
def dot_over_grid_axis(a: tw.Tensor["K", "M"], b: C, y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[k, i], b[i, j])  # here


@refused(r"a product of tiles over \(M, K\) and \(N\) summed over K \(name an axis that both have\)")
def dot_over_an_axis_of_one(a: A, b: B, z: tw.Tensor["N"], y: C):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(a[i, k], z[j], over=k)  # here


@refused(r"a product over 'K' \(give an index of tw.axes or tw.grid as it is, as in tw.dot")
def dot_over_a_name(a: A, b: B, y: C):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(a[i, k], b[k, j], over="K")  # here


@refused(r"a product over <index over K> \(give an index of tw.axes or tw.grid as it is")
def dot_over_a_displaced_index(a: A, b: B, y: C):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(a[i, k], b[k, j], over=k + 1)  # here


@refused(r"of f32, which no tensor core multiplies exactly \(cast one with .to\(tw.bf16\)\)")
def dot_over_of_float32(a: A, b: B, y: C):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(a[i, k] * 2, b[k, j] * 2, over=k)  # here


@refused(r"of bf16 and f16 \(cast one of them with .to\(...\)\)")
def dot_over_of_two_elements(a: A, b: B, y: C):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(a[i, k], b[k, j].to(tw.f16), over=k)  # here


@refused(r"tw.dot of the number 2.0 \(multiply by numbers with \*\)")
def dot_over_of_a_number(a: A, b: B, y: C):
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.dot(a[i, k], 2.0, over=k)  # here


@refused(r"a product summed over L inside a loop \(compute it outside the loop, or loop over L")
def dot_over_in_a_loop(a: A, b: B, x: tw.Tensor["M", "L"], z: tw.Tensor["N", "L"], y: C):
    i, j, e = tw.axes("M N L")
    for k in tw.loop("K"):
        tw.dot(x[i, e], z[j, e], over=e)  # here


@refused(r"a product over M, which groups cut \(reduce over another axis\)")
def dot_over_what_groups_cut(a: A, ends: tw.Tensor["G", tw.i32], y: tw.Tensor["K", "N"], x: C):
    g, i, j, k = tw.grid(tw.group("G", "M", ends), "N", "K")
    y[k, j] = tw.dot(a[i, k], x[i, j], over=i).T  # here


@refused(r"a tile over \(M, N\) is stored to a tensor over \(N, M\) \(transpose the tile with .T\)")
def dot_over_stored_across(a: A, b: B, y: tw.Tensor["N", "M"]):
    i, j, k = tw.axes("M N K")
    y[j, i] = tw.dot(a[i, k], b[k, j], over=k)  # here


@refused(r"tw.dot outside a loop does not say what it sums over \(name the axis")
def dot_without_loop(x: C, y: COLUMN):
    i, j = tw.grid("M", "N")
    y[i] = tw.dot(x[i, j], x[i, j].T)  # here


@refused(r"an accumulator takes only products, whose sum does not depend on the size of tiles")
def accumulate_a_tile(a: A, b: B, bias: ROW, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += bias[j]  # here


@refused(
    r"a product over \(M, N\) is scaled by a tile over \(\), which is the same for every K \(multiply the accumulator"
)
def scaled_product(a: A, b: B, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j]) * 2  # here


@refused(r"tw.dot is added to something other than an accumulator's `\+=`")
def rebound_accumulator(a: A, b: B, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc = acc + tw.dot(a[i, k], b[k, j])  # here


@refused(r"the result of tw.dot is not used")
def forgotten_product(a: A, b: B, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
        tw.dot(a[i, k], b[k, j])  # here
    y[i, j] = acc


@refused(r"a tile computed inside the loop over K is used after it \(accumulate with `acc \+= tw.dot")
def escaping_tile(a: A, b: B, x: C, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
        scaled = x[i, j] * 2
    y[i, j] = acc + scaled  # here


@refused(r"a tile computed inside the loop over K is used after it")
def escaping_product(a: A, b: B, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        product = tw.dot(a[i, k], b[k, j])
        acc += product
    for k in tw.loop("K"):
        acc += product  # here


@refused(r"an accumulator is read inside a loop")
def accumulator_read_in_loop(a: A, b: B, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
        half = acc * 0.5  # here


@refused(r"`\+=` on an accumulator outside a loop \(write `acc = acc \+ tile`\)")
def accumulate_after_loop(a: A, b: B, bias: ROW, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    acc += bias[j]  # here


@refused(r"a product over \(M, N\) is added to a f32 tile over \(N, M\)")
def accumulator_transposed(a: A, b: B, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(j, i)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])  # here


@refused(r"tw.zeros inside a loop")
def zeros_in_loop(a: A, b: B, y: C):
    i, j = tw.grid("M", "N")
    for k in tw.loop("K"):
        acc = tw.zeros(i, j)  # here


@refused(r"tw.zeros takes the grid's indices as they are")
def zeros_shifted(a: A, b: B, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i + 1, j)  # here


@refused(r"tw.zeros without indices")
def zeros_of_nothing(a: A, b: B, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros()  # here


@refused(r"a tile over \(M, M\) names an axis twice")
def zeros_of_the_same(a: A, b: B, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, i)  # here


# ---------------------------------------------------------------- elementwise


@refused(r"a tile over \(N, M\) does not broadcast to \(M, N\) \(transpose one of the tiles with .T\)")
def add_transposed(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] + x[i, j].T  # here


@refused(r"tiles over \(L, M, N\) and \(C, D, E\) make one of 6 axes")
def add_sixth_axis(x: tw.Tensor["L", "M", "N"], z: tw.Tensor["C", "D", "E"], y: C):
    c, d, e, p, i, j = tw.axes("C D E L M N")
    x[p, i, j] + z[c, d, e]  # here


@refused(r"'1' is neither a tile nor a number")
def add_text(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] + "1"  # here


@refused(r"True is used as a number")
def add_truth(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] + True  # here


@refused(r"None is neither a tile nor a number")
def add_none(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = None * x[i, j]  # here


@refused(r"an array \(ndarray\) meets a tile \(pass it as a parameter")
def add_array(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = np.ones(2) * x[i, j]  # here


@refused(r"the constant nan is not a finite float32")
def add_nan(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] + float("nan")  # here


@refused(r"the constant 1e\+39 is not a finite float32")
def add_too_large(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] + 1e39  # here


@refused(r"a constant is past all floats")
def add_huge(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] + 10**5000  # here


@refused(r"a tile has no truth value while tracing")
def branch_on_tile(x: C, y: C):
    i, j = tw.grid("M", "N")
    if x[i, j]:  # here
        pass


@refused(r"`@` is not an operator of tiles")
def matmul_operator(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] @ x[i, j]  # here


@refused(r"not enough values to unpack .*tw.axes and tw.grid give one index for each axis")
def one_index_too_many(x: C, y: C):
    i, j, k = tw.grid("M", "N")  # here
    y[i, j] = x[i, j] + 0.0 * k


@refused(r"`\*\*` is not an operator of tiles")
def power(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] ** 2  # here


@refused(r"`//` and `%` are no operators of tiles \(.*k // 128 is a block")
def floor_division(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] // 2  # here


@refused(r"a tile is not a number while tracing")
def as_number(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = float(x[i, j])  # here


@refused(r"tw.exp of the number 1.0")
def exp_of_number(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = tw.exp(1.0)  # here


@refused(r"max of two numbers \(compute it in Python\)")
def maximum_of_numbers(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = tw.maximum(1.0, 2)  # here


@refused(r"tensor x is used without indices")
def tensor_in_arithmetic(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x + 1  # here


@refused(r"a tile over \(N\) has no transpose")
def transpose_vector(x: ROW, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[j].T  # here


@refused(r"\.to takes no 'bf16' \(use tw.bf16, tw.f16, tw.f32")
def cast_to_text(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j].to("bf16")  # here


@refused(r"\.to takes no f64 ")
def cast_to_double(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j].to(Element.F64)  # here


SAVED: list[object] = []


@tw.kernel
def lends(x: C, y: C):
    i, j = tw.grid("M", "N")
    SAVED.append(x[i, j])
    y[i, j] = x[i, j]


@refused(r"this tile or index belongs to another kernel")
def borrows(x: C, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] + SAVED[0]  # here


# ---------------------------------------------------------------- the tests


@pytest.mark.parametrize("name", CASES)
def test_wrong_kernels_are_refused_at_the_authors_line(name):
    trace_plainly(lends)
    refused_at_its_line(*CASES[name], __file__)


@tw.kernel
def matmul(a: A, b: B, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    y[i, j] = acc


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"M": 64, "N": 32}, "axis K of kernel matmul has no extent"),
        ({**DIMS, "K/8": 2}, "kernel matmul has no axis K/8"),
        ({**DIMS, "Q": 1}, "kernel matmul has no axis Q"),
        ({**DIMS, "k": 1}, r"kernel matmul has no axis k \(did you mean K\?\)"),
        ({**DIMS, "K": -4}, "axis K of kernel matmul has extent -4"),
        ({**DIMS, "K": 2.5}, "axis K of kernel matmul has extent 2.5"),
        ({**DIMS, "K": True}, "axis K of kernel matmul has extent True"),
        ({**DIMS, "M": 2**20, "K": 2**12}, r"parameter a: .* spans 4294967296 elements \(stay within 2\^31"),
    ],
)
def test_wrong_dims_are_refused(dims, message):
    with pytest.raises(TilewrightError, match=message) as caught:
        trace(matmul, dims, elements(matmul))
    assert caught.value.span == matmul.span
    assert caught.value.remedy


@tw.kernel
def blocks(x: C, s: tw.Tensor["M", "N/5"], y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j] * s[i, j // 5]


def test_extents_of_blocks_follow_or_agree():
    free = trace(blocks, {"M": 64, "N": 32}, elements(blocks))
    assert str(free) == str(trace(blocks, {"M": 64, "N": 32, "N/5": 7}, elements(blocks)))
    with pytest.raises(
        TilewrightError, match="N/5 of kernel blocks has extent 6, but N of 32 elements has 7"
    ) as caught:
        trace(blocks, {"M": 64, "N": 32, "N/5": 6}, elements(blocks))
    assert caught.value.remedy
    with pytest.raises(TilewrightError, match="axis N of kernel blocks has no extent"):
        trace(blocks, {"M": 64, "N/5": 7}, elements(blocks))


@tw.kernel
def fixed(x: tw.Tensor["M", tw.f16], y: COLUMN):
    i = tw.grid("M")
    y[i] = x[i]


def test_an_element_fixed_in_the_annotation_is_kept():
    trace(fixed, {"M": 8}, elements(fixed))
    with pytest.raises(TilewrightError, match="parameter x is declared f16 and given as bf16") as caught:
        trace(fixed, {"M": 8}, {"x": tw.bf16, "y": tw.bf16})
    assert caught.value.remedy


def test_a_tensor_of_exactly_two_to_the_31_elements_is_accepted():
    trace(matmul, {"M": 2**20, "K": 2**11, "N": 2**11}, elements(matmul))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"a": Element.F64}, "parameter a has element f64"),
        ({"b": Element.U8}, "parameter b has element u8"),
        ({"b": "bf16"}, "parameter b has element 'bf16'"),
        ({"z": tw.bf16}, "kernel matmul has no parameter z"),
        ({"a": tw.f16}, "dot of f16 with bf16"),
        ({"a": tw.f32, "b": tw.f32}, "dot of f32 tiles"),
    ],
)
def test_wrong_elements_are_refused(changed, message):
    with pytest.raises(TilewrightError, match=message) as caught:
        trace(matmul, DIMS, {**elements(matmul), **changed})
    assert caught.value.span is not None
    assert caught.value.remedy


def test_a_missing_element_is_refused():
    with pytest.raises(TilewrightError, match="parameter y of kernel matmul has no element"):
        trace(matmul, DIMS, {"a": tw.bf16, "b": tw.bf16})


@pytest.mark.parametrize(
    ("strides", "message"),
    [
        ({"a": (16,)}, "parameter a: a tensor over .* has 2 extents and 1 strides"),
        ({"a": (16, 0)}, r"parameter a: a tensor over \(M, K\) has strides \(16, 0\)"),
        ({"a": (-16, 1)}, "has strides"),
        ({"a": (16.0, 1)}, r"parameter a has strides \(16.0, 1\)"),
        ({"c": (16, 1)}, "kernel matmul has no parameter c"),
        ({"a": (2**27, 1)}, "spans"),
        ({"y": (16, 1)}, r"y is stored, but its strides \(16, 1\) make elements overlap"),
    ],
)
def test_wrong_strides_are_refused(strides, message):
    with pytest.raises(TilewrightError, match=message) as caught:
        trace(matmul, DIMS, elements(matmul), strides)
    assert caught.value.remedy


def test_inputs_may_overlap_themselves():
    trace(matmul, DIMS, elements(matmul), {"a": (1, 1)})


def test_a_kernel_traced_by_a_kernel_is_refused():
    @tw.kernel
    def outer(x: C, y: C):
        trace(matmul, DIMS, elements(matmul))

    with pytest.raises(TilewrightError, match="kernel matmul is traced while another is"):
        trace_plainly(outer)
