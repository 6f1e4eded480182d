"""Axes that can be joined, and what is in the way of others."""

import pytest
from tests.synth.joining.grouped_programs import attention, batched_product, no_mask, numbered

import tilewright as tw
from tilewright.base.element import Element
from tilewright.frontends.tile.trace import trace
from tilewright.ir.tile.facts import the_program
from tilewright.synth.joining import joined_forms
from tilewright.synth.joining.pairs import Pair, obstacle, pairs

DIMS = {"B": 2, "H": 8, "Q": 5, "T": 40, "E": 16, "F": 24}


def program(kernel, dims=DIMS, strides=None):
    kinds = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    extents = {axis: dims[axis] for axis in kernel.axes}
    return the_program(trace(kernel, extents, kinds, strides))


def only_obstacle(kernel, **options) -> str:
    """Of heads and queries."""
    traced = program(kernel, **options)
    (pair,) = (each for each in pairs(traced) if (each.outer, each.inner) == ("H", "Q"))
    assert not list(joined_forms(traced)) or obstacle(traced, pair) == ""
    return obstacle(traced, pair)


def with_bias(axes: tuple[str, ...]) -> tw.Kernel:
    def biased(q, k, v, bias, o):
        b, h, i, t, e, f = tw.axes("B H Q T E F")
        at = {"B": b, "H": h, "Q": i, "T": t}
        s = tw.dot(q[b, h, i, e], k[b, t, e], over=e) + bias[tuple(at[axis] for axis in axes)]
        o[b, h, i, f] = tw.dot(tw.softmax(s, over=t), v[b, t, f], over=t)

    tensors = {"q": ("B", "H", "Q", "E"), "k": ("B", "T", "E"), "v": ("B", "T", "F"), "o": ("B", "H", "Q", "F")}
    biased.__annotations__ = {name: tw.Tensor[each] for name, each in (tensors | {"bias": axes}).items()}
    return tw.kernel(biased)


@pytest.mark.parametrize(
    ("group", "heads", "found"),
    [(4, 8, Pair("H", "Q", 4, 2, 5)), (3, 6, Pair("H", "Q", 3, 2, 5)), (8, 8, Pair("H", "Q", 8, 1, 5))],
)
def test_heads_of_a_group_are_rows(group, heads, found):
    assert list(pairs(program(attention(group), DIMS | {"H": heads}))) == [found]


def test_heads_of_all_keys_are_rows_in_either_order():
    assert list(pairs(program(attention(None)))) == [Pair("H", "Q", 8, 1, 5), Pair("Q", "H", 5, 1, 8)]


def test_matrices_that_meet_one_other_are_rows():
    found = list(pairs(program(batched_product, {"B": 3, "M": 5, "N": 16, "K": 16})))
    assert found == [Pair("B", "M", 3, 1, 5)]


def test_matrices_of_a_loop_s_product_join_their_rows_and_not_the_other_way_round():
    def looped(a, b, c):
        p, i, j = tw.grid("B", "M", "N")
        acc = tw.zeros(p, i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[p, k, j])
        c[p, j, i] = acc.T

    tensors = {"a": "MK", "b": "BKN", "c": "BNM"}
    looped.__annotations__ = {name: tw.Tensor[tuple(axes)] for name, axes in tensors.items()}
    found = list(pairs(program(tw.kernel(looped), {"B": 3, "M": 5, "N": 16, "K": 16})))
    assert found == [Pair("B", "N", 3, 1, 16)]


@pytest.mark.parametrize(("group", "heads"), [(4, 6), (1, 8)])
def test_groups_that_are_not_full_and_heads_of_their_own_keys_stay(group, heads):
    found = attention(group) if group > 1 else attention_of_own_keys()
    assert not list(pairs(program(found, DIMS | {"H": heads})))


def attention_of_own_keys() -> tw.Kernel:
    def own(q, k, v, o):
        b, h, i, t, e, f = tw.axes("B H Q T E F")
        s = tw.softmax(tw.dot(q[b, h, i, e], k[b, h, t, e], over=e), over=t)
        o[b, h, i, f] = tw.dot(s, v[b, h, t, f], over=t)

    tensors = {"q": "BHQE", "k": "BHTE", "v": "BHTF", "o": "BHQF"}
    own.__annotations__ = {name: tw.Tensor[tuple(axes)] for name, axes in tensors.items()}
    return tw.kernel(own)


def test_nothing_is_in_the_way_of_dense_rows_or_of_one_row_anywhere():
    assert only_obstacle(attention(4)) == ""
    one = DIMS | {"Q": 1}
    assert only_obstacle(attention(4, no_mask, "B Q H"), dims=one) == ""
    apart = {"q": (8 * 999, 999, 16, 1), "o": (8 * 777, 777, 24, 1), "sums": (8 * 3, 3, 3)}
    assert only_obstacle(attention(4), dims=one, strides=apart) == ""


def test_rows_with_something_between_them():
    assert "between" in only_obstacle(attention(4), strides={"q": (8 * 96, 96, 16, 1)})
    assert "between" in only_obstacle(attention(4, no_mask, "B Q H"))


@pytest.mark.parametrize(
    ("axes", "words"),
    [(("Q", "T"), "has Q and not H"), (("H", "T"), ""), (("B", "H", "Q", "T"), ""), (("T",), "")],
)
def test_arrays_over_one_of_the_axes(axes, words):
    assert words in only_obstacle(with_bias(axes)) if words else only_obstacle(with_bias(axes)) == ""


def test_results_of_heads_alone_and_numbers_of_heads_in_groups_stay():
    def of_heads(q, k, v, o, weight, double):
        b, h, i, t, e, f = tw.axes("B H Q T E F")
        s = tw.softmax(tw.dot(q[b, h, i, e], k[b, t, e], over=e), over=t)
        o[b, h, i, f] = tw.dot(s, v[b, t, f], over=t)
        double[h] = weight[h] * 2

    tensors = {"q": "BHQE", "k": "BTE", "v": "BTF", "o": "BHQF", "weight": "H", "double": "H"}
    of_heads.__annotations__ = {name: tw.Tensor[tuple(axes)] for name, axes in tensors.items()}
    assert "a result over H" in only_obstacle(tw.kernel(of_heads))

    assert only_obstacle(attention(4, numbered)) == "a number along H, of which 2 blocks join"
    assert only_obstacle(attention(8, numbered)) == ""


def test_a_number_for_the_one_head_of_keys_keeps_heads_apart():
    """Over the blocks of heads, of which there is one: nothing of its axes would be left."""

    def scaled(q, k, s, o):
        b, h, i, t, e = tw.axes("B H Q T E")
        o[b, h, i, t] = tw.dot(q[b, h, i, e], k[b, h // 8, t, e], over=e) * s[h // 8]

    tensors = {"q": ("B", "H", "Q", "E"), "k": ("B", "H/8", "T", "E"), "s": ("H/8",), "o": ("B", "H", "Q", "T")}
    scaled.__annotations__ = {name: tw.Tensor[each] for name, each in tensors.items()}
    assert only_obstacle(tw.kernel(scaled)) == "s would have no axis"
