"""Rows that wait in shared memory, and rows that the CTAs of a cluster share: their values on the CPU machine."""

from dataclasses import replace

import numpy as np
import pytest
from examples import rows as row_examples
from tests.lower.lowered_programs import Lowered, lower, random_inputs, run
from tests.lower.row_programs import PROGRAMS, assert_near

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import compile_kernel
from tilewright.frontends.tile import language as tw
from tilewright.synth.decide import Wanted

KEPT = Wanted(row_kept=True, row_threads=128, row_ctas=1)
"""Strips of 2048 points."""
FORMS = {
    "kept": KEPT,
    "kept, by words": replace(KEPT, row_run=2),
    "a cluster, in registers": Wanted(row_kept=False, row_threads=128, row_ctas=2),
    "a cluster, kept": Wanted(row_kept=True, row_threads=128, row_ctas=2),
    "a cluster of more warps than lanes": Wanted(row_kept=False, row_threads=128, row_ctas=16),
}


def lowered(name: str, rows: int, length: int, form: Wanted, element: Element = Element.BF16) -> Lowered:
    kernel = PROGRAMS.get(name) or getattr(row_examples, name)
    elements = {each.name: each.element or element for each in kernel.parameters}
    return lower(kernel, {"M": rows, "N": length}, elements, wanted=form)


@pytest.mark.sample(6)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "quantize", "log_softmax"])
@pytest.mark.parametrize("length", [2047, 2048, 2049, 4095, 4096, 4097, 4104])
def test_values_around_what_a_strip_holds(name, length, form):
    """In rows that are all the same, and in such that begin anywhere in a vector."""
    made = lowered(name, 3, length, FORMS[form])
    (row,) = made.decisions.rows
    assert bool(row.kept) == ("kept" in form) and row.ctas == (FORMS[form].row_ctas)
    arrays = random_inputs(made, length)
    arrays["x"][1] = 0.5
    assert_near(made, arrays)


@pytest.mark.sample(2)
@pytest.mark.parametrize("length", [1, 7, 129, 1025])
@pytest.mark.parametrize("name", ["argmax", "first_largest", "extremes"])
def test_places_across_a_cluster(name, length):
    """Some threads, and whole CTAs, have no point of the row."""
    made = lowered(name, 3, length, FORMS["a cluster of more warps than lanes"])
    arrays = random_inputs(made, length)
    arrays["x"][1] = 0.5
    arrays["x"][2] = -np.inf
    assert_near(made, arrays)


@pytest.mark.sample(2)
@pytest.mark.parametrize("form", FORMS)
def test_extreme_values(form):
    made = lowered("log_softmax", 7, 2100, FORMS[form], Element.F32)
    x = np.random.default_rng(0).standard_normal((7, 2100)).astype(np.float32)
    x[0] *= 1e4
    x[1] = 3e38
    x[2, 1999] = -np.inf
    x[3] = -np.inf
    x[4, 7] = np.inf
    x[5, 2099] = np.nan
    x[6] = -3e38
    got = run(made, {"x": x})
    assert_near(made, {"x": x[[0, 1, 2, 2, 2, 2, 6]]})
    for row in (3, 4, 5):
        assert np.isnan(got["sums"][row])
    assert np.isneginf(got["y"][2, 1999]) and np.isfinite(np.delete(got["y"][2], 1999)).all()


def test_arrays_of_other_widths_wait_beside_each_other():
    made = lowered("projected", 3, 4100, KEPT)
    (row,) = made.decisions.rows
    assert row.kept == ("g", "x") and row.run == 4
    assert_near(made, random_inputs(made))


def test_what_one_walk_needs_does_not_wait():
    made = lowered("layer_norm", 3, 4096, KEPT)
    (row,) = made.decisions.rows
    assert row.kept == ("x",)
    with pytest.raises(TilewrightError, match="no rows of 4096"):
        lowered("argmax", 3, 4096, KEPT)


def test_a_cluster_gets_the_same_bits_in_every_cta():
    """A sum is the same wherever in its row it is used: all points are scaled by one number."""
    made = lowered("rms_norm", 2, 4096, FORMS["a cluster, in registers"], Element.F32)
    ones = {"x": np.ones((2, 4096), np.float32), "weight": np.ones(4096, np.float32)}
    ones["x"][:, ::3] = 1.0 / 3
    for row in run(made, ones)["y"]:
        assert len(np.unique(row[::3])) == 1 and len(np.unique(np.delete(row, np.s_[::3]))) == 1


@tw.kernel
def divergence(x: tw.Tensor["M", "N"], z: tw.Tensor["M", "N"], y: tw.Tensor["M"]):  # noqa: F821
    i, j = tw.axes("M N")
    p = x[i, j] - tw.logsumexp(x[i, j], over=j)
    q = z[i, j] - tw.logsumexp(z[i, j], over=j)
    y[i] = tw.sum(tw.exp(p) * (p - q), over=j)


def test_folds_of_a_cluster_are_proven_in_whichever_order_walks_come_to_them():
    """Two maxima in the first walk and two sums in the second, which alternate in the program."""
    wanted = FORMS["a cluster, in registers"]
    made = compile_kernel(divergence, dims={"M": 2, "N": 600}, wanted=wanted, assembled=False)
    assert made.decisions.rows[0].ctas == 2 and made.text_proof is not None
