"""Selections over a tile, on the CPU machine: the same numbers whether a branch passes over the selection or not."""

from __future__ import annotations

import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from tests.fragment_kernels import RELEASE, WIDTH, Shape, kernel_text, multiply
from tests.fragment_runs import DTYPES, Array, inputs_of, run_text

from tilewright.frontends.ac.reader import read_ac
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx

ROWS = 128
"""Two tiles of 64 rows and 64 columns."""
NO_ROWS = "%r = ac.fragment.full [bits = 1077936128] -> R\n"  # 3.0


def masked(name: str, kind: str, condition: str, place: tuple[int, int], other: float = -1.0, reach: int = 0) -> str:
    """%x times 2 where `condition`, of %i and %j, says so, else another number; place: of the first element; reach:
    rows and columns that there are, 0 where it is not said."""
    within = f"[reach = [{reach}, {reach}]] " if reach else ""
    return f"""
%far_row = ac.affine 1 * %row + {place[0]}
%far_column = ac.affine 1 * %column + {place[1]}
%{name} = ac.fragment.map inputs(%x) places(%far_row, %far_column) {within}
    (%given, %i : !ac.index, %j : !ac.index) -> {kind} {{
  %row_number = ac.index.number %i
  %column_number = ac.index.number %j
  {condition}
  %one = ac.scalar add %given, %given
  %rest = ac.constant [bits = {np.float32(other).view(np.uint32)}]
  %chosen = ac.scalar where %holds, %one, %rest
  ac.yield %chosen
}}
"""


def constant(number: float) -> str:
    return f"%bound = ac.constant [bits = {np.float32(number).view(np.uint32)}]\n"


CAUSAL = "%holds = ac.scalar le %column_number, %row_number"
STRICT = "%holds = ac.scalar lt %column_number, %row_number"
BOUND = constant(1e30) + "%holds = ac.scalar lt %column_number, %bound"
FRACTION = f"""{constant(0.001)}%above = ac.scalar add %row_number, %bound
%holds = ac.scalar lt %column_number, %above"""
WINDOW = f"""{constant(100.5)}%apart = ac.scalar sub %row_number, %column_number
%near = ac.scalar lt %apart, %bound
%before = ac.scalar le %column_number, %row_number
%holds = ac.scalar min %before, %near"""

Place = tuple[int, int]
CASES: dict[str, tuple[str, Place, bool]] = {
    # The second tile is inside.
    "across, then inside": (CAUSAL, (0, 0), True),
    "outside, then across": (CAUSAL, (0, 64), True),
    "outside": (CAUSAL, (0, 1000), True),
    "by its last place inside": (CAUSAL, (100, 37), True),
    "all but one place inside": (CAUSAL, (100, 38), True),
    "before the first row": (CAUSAL, (-64, -300), True),
    "a window with a fraction": (WINDOW, (128, 128), False),
    "a bound past 32 bits": (BOUND, (0, 0), False),
    # Row and column are equal at one place, and float32 has no 0.001 more there.
    "a fraction that float32 loses": (FRACTION, (1 << 15, (1 << 15) - 63), False),
    "rows that float32 does not have": (STRICT, ((1 << 24) + 1, (1 << 24) - 63), True),
}
"""A condition, the place of the first element, and whether a branch asks about tiles."""


def chosen(condition: str, place: Place) -> Array:
    """Where a condition holds, in float32."""
    i = np.arange(ROWS, dtype=np.int64)[:, None] + place[0]
    j = np.arange(WIDTH, dtype=np.int64) + place[1]
    row, column = (each.astype(np.float32) for each in np.broadcast_arrays(i, j))
    answers = {
        CAUSAL: column <= row,
        STRICT: column < row,
        BOUND: column < np.float32(1e30),
        FRACTION: column < row + np.float32(0.001),
        WINDOW: (column <= row) & (row - column < np.float32(100.5)),
    }
    return answers[condition]


def lowered(text: str) -> str:
    return lower_to_ptx([each.module for each in read_ac(text, "k.ac.mlir").kernels], "sm_90a")


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("name", "element"),
    [*((name, "f32") for name in CASES), ("across, then inside", "bf16"), ("outside, then across", "f16")],
)
def test_values_of_a_masked_tile(name: str, element: str, tmp_path: Path) -> None:
    condition, place, is_asked = CASES[name]
    shape = Shape(rows=ROWS, element=element)
    inputs = inputs_of(shape)
    ptx = lowered(kernel_text(shape, RELEASE + masked("y_values", "Y", condition, place) + NO_ROWS))
    assert ("everywhere" in ptx) == is_asked
    found = run_text(ptx, shape, inputs, tmp_path)
    wanted = np.where(chosen(condition, place), 2 * inputs["a"].astype(np.float32), -1).astype(DTYPES[element])
    np.testing.assert_array_equal(found["y"], wanted.astype(np.float64))


def test_the_selection_is_passed_over_where_it_changes_nothing(tmp_path: Path) -> None:
    """With the opposite condition behind the branch, the tile across the diagonal differs, and the one inside does
    not."""
    shape = Shape(rows=ROWS)
    inputs = inputs_of(shape)
    ptx = lowered(kernel_text(shape, RELEASE + masked("y_values", "Y", CAUSAL, (0, 0)) + NO_ROWS))
    assert "setp.le.f32" in ptx.split("bra everywhere")[1]
    found = run_text(ptx.replace("setp.le.f32", "setp.gt.f32"), shape, inputs, tmp_path)
    wanted = np.where(chosen(CAUSAL, (0, 0)), 2 * inputs["a"].astype(np.float32), -1)
    assert not np.array_equal(found["y"][:64], wanted[:64])
    np.testing.assert_array_equal(found["y"][64:], wanted[64:])


def test_the_selection_reads_what_was_chosen_where_it_stands() -> None:
    """Not what it was chosen from, which would take as many registers besides."""
    shape = Shape(rows=ROWS)
    ptx = lowered(kernel_text(shape, RELEASE + masked("y_values", "Y", CAUSAL, (0, 0)) + NO_ROWS))
    before, behind = ptx.split("bra everywhere", 1)
    selected, _ = behind.split("everywhere", 1)
    read = {line.split(", ")[1] for line in selected.splitlines() if "selp.f32" in line and "0f" not in line}
    written = {line.split()[1].rstrip(",") for line in before.splitlines() if "mov.f32" in line}
    assert len(read) == 64 * WIDTH // 128 and read <= written


def test_a_masked_operand_is_multiplied_from_as_registers(tmp_path: Path) -> None:
    shape = Shape(rows=ROWS)
    inputs = inputs_of(shape)
    body = f"""
{masked("weights", "X", CAUSAL, (0, 0))}
{multiply(shape, "%weights")}
%y_values = ac.fragment.map inputs(%product) (%one) -> F {{
  ac.yield %one
}}
{NO_ROWS}"""
    ptx = lowered(kernel_text(shape, body))
    assert "everywhere" in ptx
    found = run_text(ptx, shape, inputs, tmp_path)
    a, b = (inputs[key].astype(np.float64) for key in "ab")
    weights = np.where(chosen(CAUSAL, (0, 0)), 2 * a, -1).astype(ml_dtypes.bfloat16).astype(np.float64)
    np.testing.assert_allclose(found["y"], weights @ b.T, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("element", ["bf16", "f16"])
@pytest.mark.parametrize("name", ["across, then inside", "outside, then across", "outside", "all but one place inside"])
def test_what_is_not_chosen_is_cleared_out_of_packed_numbers(name: str, element: str, tmp_path: Path) -> None:
    condition, place, _ = CASES[name]
    shape = Shape(rows=ROWS, element=element)
    inputs = inputs_of(shape)
    text = masked("y_values", "Y", condition, place, other=0.0, reach=4096)
    ptx = lowered(kernel_text(shape, RELEASE + text + NO_ROWS))
    _, behind = ptx.split("bra everywhere", 1)
    selected, _ = behind.split("everywhere", 1)
    assert "and.b32" in selected and ".f32" not in selected  # nothing is computed once more
    found = run_text(ptx, shape, inputs, tmp_path)
    wanted = np.where(chosen(condition, place), 2 * inputs["a"].astype(np.float32), 0).astype(DTYPES[element])
    np.testing.assert_array_equal(found["y"], wanted.astype(np.float64))


@pytest.mark.parametrize("name", [name for name in CASES if "float32" not in name])
def test_numbers_are_selected_by_bits_where_float32_has_all_places(name: str, tmp_path: Path) -> None:
    condition, place, is_asked = CASES[name]
    shape = Shape(rows=ROWS)
    inputs = inputs_of(shape)
    text = masked("y_values", "Y", condition, place, other=-math.inf, reach=4096)
    ptx = lowered(kernel_text(shape, RELEASE + text + NO_ROWS))
    if is_asked:
        selected = ptx.split("bra everywhere", 1)[1].split("everywhere", 1)[0]
        assert "setp.ne.u32" in selected and "setp.le.f32" not in selected and "cvt.rn.f32" not in selected
    found = run_text(ptx, shape, inputs, tmp_path)
    wanted = np.where(chosen(condition, place), 2 * inputs["a"].astype(np.float32), -math.inf)
    np.testing.assert_array_equal(found["y"], wanted.astype(np.float64))


@pytest.mark.parametrize(("other", "reach"), [(-1.0, 4096), (0.0, 0), (0.0, 1 << 22)])
def test_numbers_are_selected_where_0_is_not_the_other_or_places_are_too_far(other: float, reach: int) -> None:
    shape = Shape(rows=ROWS, element="bf16")
    text = masked("y_values", "Y", CAUSAL, (0, 0), other=other, reach=reach)
    selected = lowered(kernel_text(shape, RELEASE + text + NO_ROWS)).split("bra everywhere", 1)[1]
    assert "setp.le.f32" in selected.split("everywhere", 1)[0]
