# ruff: noqa: F821, B007, F841, RUF059  (axis names are quoted in annotations; wrong kernels leave things unused)
"""What the language refuses of batches, blocks and groups, with the message and at the author's line.

Each kernel is wrong on the line that ends in `# here`; one without such a line is blamed where it is declared.
"""

import pytest
from tests.frontends.refusals import COLUMN, A, B, C, collector, refused_at_its_line

import tilewright.frontends.tile.language as tw

CASES: dict[str, tuple[object, str]] = {}
refused = collector(CASES)


# ---------------------------------------------------------------- batches


BATCH = tw.Tensor["B", "M", "K"]
OUTPUTS = tw.Tensor["B", "M", "N"]


@refused(r"a tensor over \(B, M, K\) is read at \(M, K\)")
def batch_left_out(a: BATCH, b: B, y: OUTPUTS):
    p, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(p, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])  # here


@refused(r"a product over \(M, N\) is added to a f32 tile over \(B, M, N\)")
def batch_of_no_operand(a: A, b: B, y: OUTPUTS):
    p, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(p, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])  # here


@refused(
    r"dot of tiles over \(M, B, K\) and \(B, K, N\), whose first axes are different ones \(put the batch axis first"
)
def batch_in_the_middle(a: tw.Tensor["M", "B", "K"], b: tw.Tensor["B", "K", "N"], y: OUTPUTS):
    p, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(p, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, p, k], b[p, k, j])  # here


@refused(r"y over \(M, N\) is stored by a grid over \(B, M, N\), so several programs would write the same tile")
def batch_summed_away(a: BATCH, b: B, y: C):
    p, i, j = tw.grid("B", "M", "N")
    y[i, j] = 0.0  # here


# ---------------------------------------------------------------- blocks


@refused(r"a tensor over \(M, K/8\) is read at \(M, K/64\)")
def blocks_of_another_size(a: A, b: B, s: tw.Tensor["M", "K/8"], y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j]) * s[i, k // 64]  # here


@refused(r"a tensor over \(M, K/8\) is read at \(M, K\)")
def blocks_read_at_elements(a: A, b: B, s: tw.Tensor["M", "K/8"], y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j]) * s[i, k]  # here


@refused(r"an index is divided by 0")
def blocks_of_none(a: A, s: tw.Tensor["K/8"], y: tw.Tensor["M", "K"]):
    i, k = tw.grid("M", "K")
    y[i, k] = a[i, k] * s[k // 0]  # here


@refused(r"an index is divided by 8.0")
def blocks_of_fractions(a: A, s: tw.Tensor["K/8"], y: tw.Tensor["M", "K"]):
    i, k = tw.grid("M", "K")
    y[i, k] = a[i, k] * s[k // 8.0]  # here


@refused(r"a displaced index is divided into blocks \(divide first, then displace by blocks\)")
def blocks_of_a_displaced_index(a: A, s: tw.Tensor["K/8"], y: tw.Tensor["M", "K"]):
    i, k = tw.grid("M", "K")
    y[i, k] = a[i, k] * s[(k + 1) // 8]  # here


@refused(r"are divided into blocks \(divide the index of an axis, once\)")
def blocks_of_blocks(a: A, s: tw.Tensor["K/8"], y: tw.Tensor["M", "K"]):
    i, k = tw.grid("M", "K")
    y[i, k] = a[i, k] * s[k // 8 // 2]  # here


@refused(r"K/8 names blocks of K \(name K, and divide its index\)")
def grid_over_blocks(a: A, s: tw.Tensor["K/8"], y: tw.Tensor["K/8"]):
    k = tw.grid("K/8")  # here


@refused(r"K/8 names blocks of K \(name K, and divide its index\)")
def loop_over_blocks(a: A, s: tw.Tensor["K/8"], y: C):
    i, j = tw.grid("M", "N")
    for k in tw.loop("K/8"):  # here
        pass


@refused(r"y is stored outside the program's own tile")
def store_at_blocks(a: A, y: tw.Tensor["M", "K/8"]):
    i, k = tw.grid("M", "K")
    y[i, k // 8] = 0.0  # here


@refused(r"a product over \(M, N\) is scaled by a tile over \(M\), which is the same for every K")
def scale_of_every_block(a: A, b: B, s: COLUMN, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j]) * s[i]  # here


@refused(r"a product over \(M, N\) is scaled by a tile over \(M, K\): one number for each K")
def scale_of_every_element(a: A, b: B, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += a[i, k] * tw.dot(a[i, k], b[k, j])  # here


@refused(r"a product is multiplied by a product")
def product_of_products(a: A, b: B, y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j]) * tw.dot(a[i, k], b[k, j])  # here


@refused(r"the result of tw.dot is not used")
def forgotten_scaled_product(a: A, b: B, s: tw.Tensor["K/8"], y: C):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
        tw.dot(a[i, k], b[k, j]) * s[k // 8]  # here
    y[i, j] = acc


# ---------------------------------------------------------------- groups


ENDS = tw.Tensor["G", tw.i32]
PARTS = tw.Tensor["G", "K", "N"]


@refused(r"tw.group of ends, a tensor of bf16 over \(G\) \(declare it with one integer per group")
def ends_of_floats(x: C, ends: tw.Tensor["G"], y: C):
    g, i, j = tw.grid(tw.group("G", "M", ends), "N")  # here


@refused(r"tw.group of 3 \(give it a parameter of the kernel, a tensor of i32\)")
def ends_of_numbers(x: C, ends: ENDS, y: C):
    g, i, j = tw.grid(tw.group("G", "M", 3), "N")  # here


@refused(r"the groups N end at a tensor over \(G\)")
def ends_of_other_groups(x: C, ends: ENDS, y: C):
    i, j = tw.grid(tw.group("N", "M", ends))  # here


@refused(r"a grid over \(G, M\) names an axis twice|a grid over \(G, M, M\) names an axis twice")
def groups_of_an_axis_named_again(x: C, ends: ENDS, y: C):
    tw.grid(tw.group("G", "M", ends), "M")  # here


@refused(r"a grid over \(M, N\) has groups G of M \(name both axes in the grid\)")
def within_no_axis_of_the_grid(x: C, ends: ENDS, y: C):
    tw.grid(tw.within("M", ends), "N")  # here


@refused(r"the grid has more than one tw.group or tw.within")
def groups_of_two(x: C, ends: ENDS, y: C):
    tw.grid(tw.group("G", "M", ends), tw.within("N", ends))  # here


@refused(r"a tile of bf16 is stored to y, a tensor of integers \(store to a tensor of floats")
def integers_stored(x: C, y: tw.Tensor["M", "N", tw.i32]):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j]  # here


@refused(r"parameter ends reaches no store")
def ends_left_out(x: C, ends: ENDS, y: C):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j]


@refused(r"tw.zeros over the groups G, of which a program has one")
def zeros_over_groups(x: C, ends: ENDS, y: C):
    g, i, j = tw.grid(tw.group("G", "M", ends), "N")
    tw.zeros(g, i, j)  # here


@refused(r"the index of the group along G is displaced")
def next_group(x: C, s: tw.Tensor["G"], ends: ENDS, y: C):
    g, i, j = tw.grid(tw.group("G", "M", ends), "N")
    y[i, j] = x[i, j] * s[g + 1]  # here


@refused(r"the index of the group along G is divided")
def groups_of_groups(x: C, s: tw.Tensor["G/2"], ends: ENDS, y: C):
    g, i, j = tw.grid(tw.group("G", "M", ends), "N")
    y[i, j] = x[i, j] * s[g // 2]  # here


@refused(r"y over \(G\) is stored by a grid over \(M, N\), so several programs would write the same tile")
def stored_for_each_group(x: C, ends: ENDS, y: tw.Tensor["G"]):
    g, i, j = tw.grid(tw.group("G", "M", ends), "N")
    y[g] = 1.0  # here


@refused(r"the loop runs over G, an axis of the grid")
def loop_over_groups(x: C, ends: ENDS, y: C):
    g, i, j = tw.grid(tw.group("G", "M", ends), "N")
    for k in tw.loop("G"):  # here
        pass


@refused(r"the index of the group along G is used as a number")
def group_as_a_number(x: C, ends: ENDS, y: C):
    g, i, j = tw.grid(tw.group("G", "M", ends), "N")
    y[i, j] = x[i, j] * g  # here


@pytest.mark.parametrize("name", CASES)
def test_wrong_kernels_are_refused_at_the_authors_line(name):
    refused_at_its_line(*CASES[name], __file__)
