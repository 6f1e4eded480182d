# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Attention whose keys are its values, over an axis that one product sums over and another has as its columns; and
scores that threads load something for, whose rows end within a tile.
"""

import pytest
from tests.end_to_end.blackwell_programs import check_numbers

import tilewright.frontends.tile.language as tw
from tilewright.driver.compile.compile import compile_kernel
from tilewright.synth.tile.wanted import Wanted


@tw.kernel
def latent(q: tw.Tensor["B", "H", "C"], c: tw.Tensor["B", "T", "C"], o: tw.Tensor["B", "H", "C"]):
    b, h, t, x = tw.axes("B H T C")
    s = tw.dot(q[b, h, x], c[b, t, x], over=x) * 0.1
    o[b, h, x] = tw.dot(tw.softmax(s, over=t), c[b, t, x], over=t)


@pytest.mark.sample(1)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_columns_that_another_product_sums_over_are_not_cut(target: str) -> None:
    made = compile_kernel(latent, dims={"B": 2, "H": 8, "T": 72, "C": 320}, target=target)
    check_numbers(made)


@tw.kernel
def added_scores(
    q: tw.Tensor["Q", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], m: tw.Tensor["Q", "T", tw.f32],
    o: tw.Tensor["Q", "F"],
):  # fmt: skip
    i, t, e, f = tw.axes("Q T E F")
    s = tw.dot(q[i, e], k[t, e], over=e) + m[i, t]
    o[i, f] = tw.dot(tw.softmax(s, over=t).to(tw.bf16), v[t, f], over=t)


def test_what_is_added_to_scores_is_loaded_once() -> None:
    """The fold leaves out what is past the axis's end, and the exponential takes the scores again."""
    made = compile_kernel(
        added_scores, dims={"Q": 64, "T": 200, "E": 64, "F": 64}, target="sm_100a", wanted=Wanted(cut=False)
    )
    # Of 64 rows by 208 columns, of which a thread has 104.
    assert made.ptx.count("ld.global.f32") == 104
    assert made.assembly is not None and made.assembly.spill_bytes == 0
    check_numbers(made)
