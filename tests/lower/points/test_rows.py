# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Programs that fold along an axis: each element's value on the CPU machine, at every length, element and layout."""

from dataclasses import replace

import numpy as np
import pytest
from examples import rows as row_examples
from examples.rows import softmax
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lower.lowered_programs import lower, random_inputs, run
from tests.lower.row_programs import PROGRAMS, assert_near

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.driver.compile.compile import compile_kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.decisions import ElementwiseDecisions
from tilewright.ir.tile.facts import the_program
from tilewright.synth.decide import Wanted, decide
from tilewright.synth.store import rows as store_rows
from tilewright.targets import target

ANEW = Wanted(row_threads=1024, row_ctas=1, row_kept=False)
"""Rows of one CTA, which each walk reads anew where registers do not hold them."""


def dims_of(name: str, rows: int, length: int) -> dict[str, int]:
    dims = {"M": rows, "N": length}
    if "axes" in name:
        dims |= dict(zip(["A", "B", "C"] if "five" in name else ["A", "B"], (2, 3, 2), strict=False))
    if name == "spread":
        return {"B": 3, "M": length, "N": rows}
    return dims


def elements_of(name: str, element: Element) -> dict[str, Element]:
    found = dict.fromkeys([parameter.name for parameter in PROGRAMS[name].parameters], element)
    return found | {each.name: each.element for each in PROGRAMS[name].parameters if each.element is not None}


@pytest.mark.sample(7)
@pytest.mark.parametrize("element", [Element.F32, Element.BF16, Element.F16], ids=lambda element: element.value)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name, element):
    for rows, length in ((5, 1), (3, 33), (2, 264), (2, 1040)):
        lowered = lower(PROGRAMS[name], dims_of(name, rows, length), elements_of(name, element))
        assert_near(lowered, random_inputs(lowered, length))


@pytest.mark.parametrize("length", [2, 31, 32, 127, 128, 129, 1023, 1024, 1025, 2048])
def test_lengths_around_what_units_hold(length):
    lowered = lower(softmax, {"M": 2, "N": length}, dict.fromkeys("xy", Element.F32))
    assert_near(lowered, random_inputs(lowered, length))


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["log_softmax", "layer_norm", "cross_entropy", "neighbours"])
@pytest.mark.parametrize("length", [70000, 65544])
def test_rows_that_are_walked_by_strips(name, length):
    lowered = lower(PROGRAMS[name], {"M": 1, "N": length}, elements_of(name, Element.BF16), wanted=ANEW)
    (row,) = lowered.decisions.rows
    assert row.streamed and not row.kept
    assert_near(lowered, random_inputs(lowered))


def test_strips_and_registers_give_the_same_values():
    held = lower(softmax, {"M": 2, "N": 16384}, wanted=Wanted(row_ctas=1, row_kept=False))
    (row,) = held.decisions.rows
    assert not row.streamed and row.strip == 16384


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([name for name in PROGRAMS if name != "neighbours"]),
    st.integers(1, 7),
    st.integers(1, 700),
    st.sampled_from([Element.F32, Element.BF16, Element.F16]),
    st.booleans(),
)
def test_any_program_at_any_shape(name, rows, length, element, misaligned):
    names = tuple(parameter.name for parameter in PROGRAMS[name].parameters)
    wanted = Wanted(misaligned=names[:1]) if misaligned else None
    lowered = lower(PROGRAMS[name], dims_of(name, rows, length), elements_of(name, element), wanted=wanted)
    assert_near(lowered, random_inputs(lowered, length))


@pytest.mark.sample(2)
@pytest.mark.parametrize("strides", [(1, 8), (520, 1), (1040, 2), (513, 1)])
def test_strided_arrays(strides):
    lowered = lower(softmax, {"M": 8, "N": 512}, strides={"x": strides})
    assert_near(lowered, random_inputs(lowered))


def test_extreme_values():
    """Infinities, NaN and magnitudes whose exponentials would overflow, as the program says."""
    lowered = lower(PROGRAMS["log_softmax"], {"M": 7, "N": 40}, elements_of("log_softmax", Element.F32))
    x = np.random.default_rng(0).standard_normal((7, 40)).astype(np.float32)
    x[0] *= 1e4
    x[1] = 3e38
    x[2, 5] = -np.inf
    x[3] = -np.inf
    x[4, 7] = np.inf
    x[5, 9] = np.nan
    x[6] = -3e38
    got = run(lowered, {"x": x})
    assert_near(lowered, {"x": x[[0, 1, 2, 2, 2, 2, 6]]})
    for row in (3, 4, 5):
        assert np.isnan(got["sums"][row])
    assert np.isneginf(got["y"][2, 5]) and np.isfinite(np.delete(got["y"][2], 5)).all()


def test_places_and_picked_elements():
    x = np.random.default_rng(1).integers(-3, 4, (6, 300)).astype(np.float32)
    lowered = lower(PROGRAMS["first_largest"], {"M": 6, "N": 300}, elements_of("first_largest", Element.F32))
    np.testing.assert_array_equal(run(lowered, {"x": x})["place"], x.argmax(axis=1))
    lowered = lower(PROGRAMS["picked_loss"], {"M": 6, "N": 300}, elements_of("picked_loss", Element.F32))
    wanted = np.array([0, 299, 7, 31, 32, 255], np.float32)
    loss = np.log(np.exp(x.astype(float)).sum(1)) - x[np.arange(6), wanted.astype(int)]
    np.testing.assert_allclose(run(lowered, {"x": x, "wanted": wanted})["loss"], loss, rtol=1e-5)


def test_what_a_condition_leaves_out_counts_for_nothing():
    """NaN behind the diagonal reaches no result; a row of which nothing is left is NaN, as a softmax of -inf is."""
    lowered = lower(PROGRAMS["causal_softmax"], {"M": 90, "N": 48}, dict.fromkeys("xy", Element.F32))
    x = np.random.default_rng(2).standard_normal((90, 48)).astype(np.float32)
    x[np.triu_indices(90, 1, 48)] = np.nan
    y = run(lowered, {"x": x})["y"]
    assert np.isfinite(y[:88]).all() and np.isnan(y[88:]).all()
    assert not y[np.triu_indices(88, 1, 48)].any() and not y[60, :20].any()
    np.testing.assert_allclose(y[:88].sum(axis=1), 1, rtol=1e-6)


def test_every_lane_gets_the_same_bits():
    """A sum is the same wherever in its row it is used: all points are scaled by one number."""
    lowered = lower(PROGRAMS["rms_norm"], {"M": 3, "N": 2048}, elements_of("rms_norm", Element.F32))
    ones = {"x": np.ones((3, 2048), np.float32), "weight": np.ones(2048, np.float32)}
    ones["x"][:, ::3] = 1.0 / 3
    y = run(lowered, ones)["y"]
    for row in y:
        assert len(np.unique(row[::3])) == 1 and len(np.unique(np.delete(row, np.s_[::3]))) == 1


def test_vectors_where_arrays_allow():
    for length, strides, run_elements, vectors in (
        (4096, {}, 8, ("x", "y")),
        (4100, {}, 4, ("x", "y")),
        (446, {}, 2, ("x", "y")),
        (447, {}, 2, ("x", "y")),
        (33, {}, 2, ("x", "y")),
        (15, {}, 1, ()),
        (4096, {"x": (4097, 1)}, 8, ("y",)),
        (4096, {"x": (1, 64)}, 8, ("y",)),
    ):
        (row,) = lower(softmax, {"M": 64, "N": length}, strides=strides).decisions.rows
        assert (row.run, row.vectors) == (run_elements, vectors), (length, strides)


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("name", "element"),
    [
        *((name, Element.BF16) for name in ("log_softmax", "layer_norm", "cross_entropy", "first_largest", "extremes")),
        ("log_softmax", Element.F16), ("layer_norm", Element.F32), ("causal_softmax", Element.BF16),
        ("quantize", Element.BF16), ("quantize_int8", Element.BF16), ("argmax", Element.BF16),
    ],
    ids=lambda value: getattr(value, "value", value),
)  # fmt: skip
@pytest.mark.parametrize("by", ["vectors", "words"])
@pytest.mark.parametrize("length", [65, 129, 1023, 2733])
def test_rows_that_begin_anywhere_in_a_vector(name, element, length, by):
    """Eleven rows begin at every place of a vector. In rows that are all the same, the first stands first."""
    kernel = PROGRAMS.get(name) or getattr(row_examples, name)
    elements = {each.name: each.element or element for each in kernel.parameters}
    run = (16 if by == "vectors" else 4) // element.bytes
    lowered = lower(kernel, {"M": 11, "N": length}, elements, wanted=Wanted(row_run=run))
    (row,) = lowered.decisions.rows
    assert (row.run, bool(row.shifted)) == (run, run > 1)
    arrays = random_inputs(lowered, length)
    arrays["x"][4] = -np.inf if name in ("argmax", "first_largest") else 0.5
    assert_near(lowered, arrays)


@pytest.mark.parametrize("run", [2, 8])
def test_rows_that_begin_anywhere_are_walked_by_strips(run):
    for name in ("log_softmax", "layer_norm"):
        wanted = replace(ANEW, row_run=run)
        lowered = lower(PROGRAMS[name], {"M": 2, "N": 73001}, elements_of(name, Element.BF16), wanted=wanted)
        (row,) = lowered.decisions.rows
        assert row.shifted and row.streamed and row.run == run
        assert_near(lowered, random_inputs(lowered))


TOGETHER = {
    "parts of a warp": (64, {"row_threads": 4, "row_together": 2}),
    "parts of a warp with one run each": (128, {"row_threads": 16, "row_together": 4}),
    "warps": (512, {"row_threads": 32, "row_together": 2}),
    "CTAs": (1024, {"row_threads": 128, "row_ctas": 1, "row_together": 4}),
    "a cluster's CTAs": (2048, {"row_threads": 128, "row_ctas": 2, "row_kept": False, "row_together": 2}),
    "CTAs, waiting in shared memory": (2112, {"row_threads": 128, "row_ctas": 1, "row_kept": True, "row_together": 2}),
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("rows", [1, 12, 37], ids=lambda rows: f"{rows} rows")
@pytest.mark.parametrize("name", ["layer_norm", "softmax", "argmax", "quantize"])
@pytest.mark.parametrize("form", TOGETHER)
def test_rows_that_a_unit_takes_at_once(form, name, rows):
    """As many as all units take, and not; one with NaN and an infinite one among them, which spoil no other."""
    length, asked = TOGETHER[form]
    if name == "argmax" and asked.get("row_kept"):
        return  # a row of one walk waits nowhere
    kernel = getattr(row_examples, name)
    elements = {each.name: each.element or Element.BF16 for each in kernel.parameters}
    lowered = lower(kernel, {"M": rows, "N": length}, elements, wanted=Wanted(cut=False, **asked))
    assert lowered.decisions.rows[0].together == asked["row_together"]
    assert_near(lowered, random_inputs(lowered, length))
    if rows > 1 and name in ("layer_norm", "softmax"):
        arrays = random_inputs(lowered, length)
        arrays["x"][0, 5], arrays["x"][rows - 1] = np.nan, -np.inf
        y = run(lowered, arrays)["y"].astype(np.float32)
        assert np.isnan(y[0]).all() and np.isnan(y[rows - 1]).all() and np.isfinite(y[1 : rows - 1]).all()


_TURNED = (256 * 4096, 1, 4096)


@pytest.mark.parametrize(
    ("turned", "alone"), [((), True), (("x", "y"), False), (("y",), False)], ids=["none", "all", "the result"]
)
def test_threads_take_rows_of_their_own_where_those_are_neighbours(turned, alone):
    """`spread` folds along M, and its arrays lie along N unless they are turned."""
    strides = dict.fromkeys(turned, _TURNED)
    (row,) = lower(PROGRAMS["spread"], {"B": 1, "M": 4096, "N": 256}, strides=strides).decisions.rows
    assert (row.threads == 1, row.across) == ((True, "N") if alone else (False, ""))


@pytest.mark.parametrize("name", ["spread", "across_four_axes"])
@pytest.mark.parametrize("length", [7, 16, 33])
def test_values_of_rows_that_threads_take_alone(name, length, monkeypatch):
    """Rows that one strip holds, and longer ones; the last thread's rows are past the end."""
    monkeypatch.setattr(store_rows, "_MANY_ELEMENTS", 0)
    lowered = lower(PROGRAMS[name], dims_of(name, 3, length), elements_of(name, Element.F32))
    assert lowered.decisions.rows[0].threads == 1
    assert_near(lowered, random_inputs(lowered, length))


def test_runs_shorter_than_what_is_loaded_at_once_end_with_their_array():
    """Beside float32, runs of bfloat16 have 8 bytes, and the last ones of a vector end where it does."""
    elements = elements_of("layer_norm", Element.BF16) | {"weight": Element.F32}
    lowered = lower(PROGRAMS["layer_norm"], {"M": 9, "N": 333}, elements)
    assert lowered.decisions.rows[0].run == 4
    assert_near(lowered, random_inputs(lowered))


@pytest.mark.parametrize("rows, length, wanted", [(5, 33, None), (130, 40, None), (3, 1024, None),
                                                  (3, 2048, Wanted(row_ctas=2)), (2, 70000, ANEW)])  # fmt: skip
def test_rows_from_the_last_to_the_first(rows, length, wanted, monkeypatch):
    usual, forwards = store_rows.chosen, lower(softmax, {"M": rows, "N": length}, wanted=wanted)
    monkeypatch.setattr(store_rows, "chosen", lambda *given: replace(usual(*given), backwards=1))
    lowered = lower(softmax, {"M": rows, "N": length}, wanted=wanted)
    (row,), (other,) = lowered.decisions.rows, forwards.decisions.rows
    assert row == replace(other, backwards=1) and lowered.ptx != forwards.ptx
    assert_near(lowered, random_inputs(lowered))


@tw.kernel
def doubled(z: tw.Tensor["M", "N"], x: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    x[i, j] = z[i, j] * 2.0


@pytest.mark.parametrize("rows, name, backwards", [(4096, "x", 1), (2048, "x", 0), (4096, "other", 0)])
def test_the_last_rows_come_first_where_the_cache_does_not_hold_what_the_kernel_before_stored(rows, name, backwards):
    hopper, dims = target("sm_90a"), {"M": rows, "N": 4096}
    before = trace(doubled, dims, dict.fromkeys("zx", Element.F32))
    if name != "x":
        program = the_program(before)
        program.parameters = type(program.parameters)([type(program.parameters.data[0])(each) for each in ("z", name)])
    after = the_program(trace(softmax, dims, dict.fromkeys("xy", Element.F32)))
    decisions = decide(after, hopper, Wanted())
    found = store_rows.last_first(after, decisions, the_program(before), hopper)
    assert isinstance(found, ElementwiseDecisions)
    assert [row.backwards for row in found.rows] == [backwards]


@tw.kernel
def biased_rows(
    x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], bias: tw.Tensor["R"], at: tw.Tensor["N", tw.i32],
    y: tw.Tensor["M", "N"],
):  # fmt: skip
    i, j, k = tw.axes("M N K")
    y[i, j] = tw.softmax(tw.dot(x[i, k], w[j, k], over=k) + bias[at[j]], over=j)


def test_rows_after_another_kernel_read_where_integers_say():
    made = compile_kernel(biased_rows, dims={"M": 33, "N": 300, "K": 64, "R": 9}, rerun=False, assembled=False)
    assert len(made.parts) == 2 and isinstance(made.decisions, ElementwiseDecisions)


def test_a_product_that_only_a_sum_needs_is_rounded_with_it():
    """Squares with what they are added to, in registers, where each thread has 8; the scaled point with its bias."""
    ptx = lower(row_examples.layer_norm, {"M": 2, "N": 256}).ptx
    assert ptx.count("fma.rn.f32") == 6 + 8


def test_a_product_that_is_stored_too_is_rounded_by_itself():
    @tw.kernel
    def both(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"], z: tw.Tensor["M"]) -> None:
        i, j = tw.axes("M N")
        square = x[i, j] * x[i, j]
        y[i, j] = square
        z[i] = tw.sum(square, over=j)

    lowered = lower(both, {"M": 2, "N": 256}, dict.fromkeys("xyz", Element.F32))
    assert "fma.rn.f32" not in lowered.ptx
    assert_near(lowered, random_inputs(lowered))
