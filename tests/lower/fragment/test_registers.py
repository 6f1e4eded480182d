"""Fragments in registers on the CPU machine: values against NumPy, the proof, and what is computed once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.fragment_kernels import RELEASE, WIDTH, Shape, kernel_text, multiply
from tests.fragment_runs import DTYPES, Array, inputs_of, run_text

from tilewright.driver.compile.lower_text import lower_text
from tilewright.frontends.ac.reader import read_ac
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx

NO_ROWS = "%r = ac.fragment.full [bits = 1077936128] -> R\n"  # 3.0

WIDE = f"""
{RELEASE}
%y_values = ac.fragment.map inputs(%x) (%one) -> F {{
  ac.yield %one
}}
{NO_ROWS}"""

ROUNDED = f"""
{RELEASE}
%y_values = ac.fragment.map inputs(%x) (%one) -> Y {{
  %third = ac.constant [bits = 1051372203]
  %less = ac.scalar mul %one, %third
  ac.yield %less
}}
{NO_ROWS}"""

PLACES = f"""
{RELEASE}
%y_values, %r = ac.fragment.map inputs(%x) places(%row, %column) (%one, %i : !ac.index, %j : !ac.index) -> F, R {{
  %row_number = ac.index.number %i
  %column_number = ac.index.number %j
  %group = ac.index.divide %i [size = 5]
  %sum = ac.affine 3 * %group + -2 * %j + 7
  %number = ac.index.number %sum
  %below = ac.scalar le %column_number, %row_number
  %chosen = ac.scalar where %below, %one, %number
  %quarter = ac.index.divide %i [size = 4]
  %of_row = ac.index.number %quarter
  ac.yield %chosen, %of_row
}}"""

FOLDS = (
    """
%z = ac.fragment.map inputs(%x) (%one) -> F {
  ac.yield %one
}
%most = ac.fragment.fold max %z
%least = ac.fragment.fold min %z
%y_values = ac.fragment.map inputs(%z, %most, %least) (%one, %above, %below) -> F {
  %from_most = ac.scalar sub %above, %one
  %apart = ac.scalar sub %above, %below
  %part = ac.scalar div %from_most, %apart
  ac.yield %part
}
%r = ac.fragment.fold add %y_values
"""
    + RELEASE
)

LOADED = f"""
{RELEASE}
%c_values = ac.fragment.load source(%c) row(%row) column(%column) -> F
%d_values = ac.fragment.load source(%d) row(%row) column(%column) [ahead = 1] -> R
%e_values = ac.fragment.load source(%e) row(%row) column(%column)
    -> !ac.fragment<m = MM, n = 64, n, f32>
%y_values, %r = ac.fragment.map inputs(%x, %c_values, %d_values, %e_values) (%one, %of_c, %of_d, %of_e) -> F, R {{
  %scaled = ac.scalar fma %one, %of_d, %of_c
  %shifted = ac.scalar add %scaled, %of_e
  %twice = ac.scalar add %of_d, %of_d
  ac.yield %shifted, %twice
}}"""


def product_of(shape: Shape) -> str:
    """b times what is computed of a, onto c; then the sum of each row, of the accumulator's own numbers."""
    return f"""
%c_values = ac.fragment.load source(%c) row(%row) column(%column) -> F
%begin = ac.fragment.map inputs(%c_values) (%one) -> F {{
  ac.yield %one
}}
%relu = ac.fragment.map inputs(%x) (%one) -> X {{
  %positive = ac.scalar relu %one
  ac.yield %positive
}}
%begun = ac.accumulator.start %begin
{multiply(shape, "%relu", "%begun")}
%y_values = ac.fragment.map inputs(%product) (%one) -> F {{
  ac.yield %one
}}
%r = ac.fragment.fold add %y_values
"""


def chained(shape: Shape) -> str:
    """A product's result, rounded, is A of the next."""
    second = multiply(shape, "%z").replace("%sums", "%more").replace("%product", "%result").replace("%reading", "%now")
    first = multiply(shape, "%x").replace("%done", "%kept").replace("ac.mbarrier.arrive %kept [peers = 1]\n", "")
    return f"""
{first}
%z = ac.fragment.map inputs(%product) (%one) -> X {{
  ac.yield %one
}}
{second.replace("phase(%held)", "phase(%kept)")}
%y_values = ac.fragment.map inputs(%result) (%one) -> F {{
  ac.yield %one
}}
{NO_ROWS}"""


def rounded(array: Array, element: str) -> Array:
    return array.astype(DTYPES[element]).astype(np.float64)


def expected(name: str, inputs: dict[str, Array], element: str) -> tuple[Array, Array]:
    a, b, c, d, e = (inputs[key].astype(np.float64) for key in "abcde")
    rows, columns = np.arange(len(a))[:, None], np.arange(WIDTH)
    three = np.full(len(a), 3.0)
    match name:
        case "wide":
            return a, three
        case "rounded":
            return rounded((a.astype(np.float32) * np.float32(1 / 3)), element), three
        case "places":
            return np.where(columns <= rows, a, 3 * (rows // 5) - 2 * columns + 7), (rows // 4)[:, 0]
        case "folds":
            y = (a.max(1, keepdims=True) - a) / (a.max(1, keepdims=True) - a.min(1, keepdims=True))
            return y, y.sum(1)
        case "loaded":
            return a * d[:, None] + c + e, 2 * d
        case "product":
            y = c + np.maximum(a, 0) @ b.T
            return y, y.sum(1)
        case _:
            return rounded(a @ b.T, "bf16") @ b.T, three


BODIES: dict[str, Callable[[Shape], str]] = {
    "wide": lambda shape: WIDE,
    "rounded": lambda shape: ROUNDED,
    "places": lambda shape: PLACES,
    "folds": lambda shape: FOLDS,
    "loaded": lambda shape: LOADED.replace("MM", str(shape.m)),
    "product": product_of,
    "chained": chained,
}
CASES = {
    "wide": Shape(),
    "wide, cut columns": Shape(columns=57),
    "wide through": Shape(store="through", columns=57),
    "wide rows": Shape(store="rows", blocks=2),
    "rounded": Shape(element="bf16"),
    "rounded, two blocks": Shape(element="f16", blocks=2, rows=250),
    "rounded through": Shape(element="f16", store="through", columns=57),
    "rounded staged": Shape(element="bf16", store="staged", units=2, rows=200),
    "rounded staged, two blocks": Shape(element="bf16", store="staged", blocks=2, rows=200),
    "rounded rows": Shape(element="bf16", store="rows", units=2, rows=130),
    "rounded bytes": Shape(element="f8e4m3"),
    "rounded bytes staged": Shape(element="f8e4m3", store="staged"),
    "places": Shape(units=2, rows=140),
    "places, two blocks": Shape(blocks=2, rows=140),
    "folds": Shape(blocks=2, rows=140),
    "loaded": Shape(units=2, rows=129),
    "product": Shape(),
    "product, two units of two blocks": Shape(units=2, blocks=2, rows=260),
    "chained": Shape(units=2),
}


def kind_of(name: str) -> str:
    """The first word of a case's name."""
    return name.replace(",", "").split(" ")[0]


def text_of(name: str) -> str:
    return kernel_text(CASES[name], BODIES[kind_of(name)](CASES[name]))


def proven(text: str, shape: Shape) -> str:
    """The PTX of a text that is proven. Stores along rows are understood in loops over groups alone."""
    lowered = lower_text(text, "k.ac.mlir")
    if shape.store == "rows":
        (reason,) = lowered.report.kernels[0].reasons
        assert "outside any loop over groups" in reason
        return lower_to_ptx([each.module for each in read_ac(text, "k.ac.mlir").kernels], "sm_90a")
    assert lowered.ptx is not None, lowered.report.error or lowered.report.kernels[0]
    return lowered.ptx


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", CASES)
def test_values_and_proofs(name: str, tmp_path: Path) -> None:
    shape, kind = CASES[name], kind_of(name)
    inputs = inputs_of(shape)
    found = run_text(proven(text_of(name), shape), shape, inputs, tmp_path, is_checked=True)
    y_wanted, r_wanted = expected(kind, inputs, shape.element)
    exact = kind in ("wide", "rounded", "places")
    # Of values that are rounded on the way, a few fall to the other side.
    relative, absolute = (0.0, 0.0) if exact else (1e-5, 0.05 if kind == "chained" else 1e-4)
    np.testing.assert_allclose(found["y"], y_wanted[:, : shape.columns], rtol=relative, atol=absolute)
    np.testing.assert_allclose(found["r"], r_wanted, rtol=relative, atol=10 * absolute)


def counted(name: str, opcode: str) -> int:
    return proven(text_of(name), CASES[name]).count(f"\t{opcode} ")


def test_what_is_the_same_along_a_row_or_column_is_computed_once() -> None:
    """Of 64 x 64 elements a thread has 2 rows and 16 columns."""
    assert counted("places", "div.u32") == 2 * 2
    # The row, the column, their combination, and the row's quotient.
    assert counted("places", "cvt.rn.f32.s32") == 2 + 16 + 2 * 16 + 2


def test_lanes_that_share_a_row_exchange_once_for_each_distance() -> None:
    assert counted("folds", "shfl.sync.bfly.b32") == 3 * 2 * 2 * 2


def test_numbers_of_an_accumulator_are_copied() -> None:
    """The next product writes the accumulator's registers: no sum is stored from there."""
    lines = proven(text_of("product"), CASES["product"]).splitlines()
    (issue, *_) = [line for line in lines if "wgmma.mma_async" in line]
    sums = set(issue.split("{")[1].split("}")[0].split(", "))
    assert len(sums) == 32
    stored = {line.rstrip(";").split(", ")[-1] for line in lines if "st.global.f32" in line}
    assert len(stored) >= 32 and not stored & sums
