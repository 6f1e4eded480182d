"""The values of an array, as NumPy's `unique` finds them."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.machine.core.distinct import counted, distinct


@pytest.mark.parametrize("size", [0, 1, 2, 7, 500])
@pytest.mark.parametrize("most", [1, 3, 1000])
@pytest.mark.parametrize("dtype", [np.int32, np.uint64])
def test_they_are_those_that_numpy_finds(size: int, most: int, dtype: type[np.generic]) -> None:
    values = np.random.default_rng(size + most).integers(0, most, size).astype(dtype)
    kept = values.copy()
    expected, counts = np.unique(values, return_counts=True)
    assert np.array_equal(distinct(values), expected)
    assert distinct(values).dtype == dtype
    assert counted(values) == list(zip(expected.tolist(), counts.tolist(), strict=True))
    assert np.array_equal(values, kept)


def test_rows_are_taken_together() -> None:
    assert distinct(np.array([[3, 1], [1, 2]])).tolist() == [1, 2, 3]
