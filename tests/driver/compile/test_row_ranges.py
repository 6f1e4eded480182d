"""Products whose rows vary: which kernel serves a number of rows, how many are compiled, and what they compute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.base.size import Range
from tilewright.driver.compile import specialised
from tilewright.driver.compile.row_ranges import ENDS, EXACT_FIRST, Kind, range_of

BF16 = ml_dtypes.bfloat16


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path_factory.getbasetemp() / "programs"))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The rows that programs were asked for, in order; no call of this test knows of those before."""
    asked: list[Any] = []
    compile_for = specialised.compile_for

    def noted(kernel: Any, dims: Any, **rest: Any) -> Any:
        asked.append(dims.get("M"))
        return compile_for(kernel, dims, **rest)

    monkeypatch.setattr(specialised, "compile_for", noted)
    monkeypatch.setattr(specialised, "_compiled", {})
    monkeypatch.setattr(specialised, "_kinds", {})
    monkeypatch.setattr(specialised, "_repeated", {})
    yield asked


def product(m: int, columns: int = 40, **options: Any) -> None:
    """One product, held against float64."""
    random = np.random.default_rng(m)
    a = random.standard_normal((m, 72)).astype(BF16)
    b = random.standard_normal((72, columns)).astype(BF16)
    result = tw.matmul(a, b, **options)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert result.shape == (m, columns)
    assert np.linalg.norm(result.astype(np.float64) - exact) <= 4e-3 * np.linalg.norm(exact)


def test_ranges_follow_one_another() -> None:
    assert [range_of(rows, 1 << 30) for rows in (1, 16, 17, 2049)] == [
        Range(1, 16), Range(1, 16), Range(17, 32), Range(2049, 2560)
    ]  # fmt: skip
    assert range_of(ENDS[-1], 1 << 30) is not None and range_of(ENDS[-1] + 1, 1 << 30) is None
    assert range_of(40, 45) == Range(33, 45) and range_of(46, 45) is None


def test_wishes_go_before_what_was_seen() -> None:
    kind = Kind()
    assert not kind.wants_range(7, None) and kind.wants_range(7, "range")
    kind.exact |= set(range(1, EXACT_FIRST + 1))
    assert kind.wants_range(7, None) and not kind.wants_range(7, "exact") and not kind.wants_range(1, None)


def test_rows_that_vary_are_served_by_their_range(compiled: list[Any]) -> None:
    """The first numbers of rows have kernels of their own; then one kernel serves each range."""
    for rows in (*range(1, EXACT_FIRST + 1), 9, 5, 16, 1, 20):
        product(rows)
    first = list(range(1, EXACT_FIRST + 1))
    assert compiled == [*first, Range(1, 16), Range(17, 32)]


def test_kinds_are_counted_apart(compiled: list[Any]) -> None:
    for rows in range(1, EXACT_FIRST + 2):
        product(rows)
    product(3, columns=48)
    assert compiled[-2:] == [Range(1, 16), 3]


def test_a_range_at_once_and_an_exact_one_when_asked(compiled: list[Any]) -> None:
    product(6, rows="range")
    product(11, rows="range")
    product(6, rows="exact")
    product(6)
    assert compiled == [Range(1, 16), 6]
    with pytest.raises(tw.TilewrightError, match="rows is 'some'"):
        product(6, rows="some")


def test_rows_that_are_copied_before_have_a_range(compiled: list[Any]) -> None:
    """Rows of 65 elements begin where no tensor map may."""
    for rows in (5, 6, 16):
        a, b = np.ones((rows, 65), BF16), np.ones((65, 40), BF16)
        assert (tw.matmul(a, b, rows="range") == 65).all()
    assert compiled == [Range(1, 16)]


def test_where_there_is_no_range_kernel_there_are_exact_ones(
    compiled: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = specialised.compile_for

    def refused(kernel: Any, dims: Any, **rest: Any) -> Any:
        found = noted(kernel, dims, **rest)
        if isinstance(dims.get("M"), Range):
            raise tw.TilewrightError("this range is not compiled")
        return found

    monkeypatch.setattr(specialised, "compile_for", refused)
    for rows in (5, 6):
        product(rows, rows="range")
    assert compiled == [Range(1, 16), 5, 6]


def test_gated_products_and_leading_axes(compiled: list[Any]) -> None:
    x, w = np.ones((2, 5, 64), BF16), np.ones((64, 32), BF16)
    assert tw.gated_matmul(x, w, w, None, rows="range").shape == (2, 5, 32)
    assert tw.gated_matmul(x[:1], w, w, None, rows="range").shape == (1, 5, 32)
    assert compiled == [Range(1, 16)]
    assert tw.matmul(x[:, :0], w, rows="range").shape == (2, 0, 32)
