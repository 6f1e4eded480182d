"""Which values does an array hold? NumPy's `unique` answers that, and loads its masked arrays for it first.

Checked by: tests/machine/core/test_distinct.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def distinct(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values, each once, ascending."""
    ordered = np.sort(values, axis=None)
    return ordered[_firsts(ordered)]


def counted(values: npt.NDArray[Any]) -> list[tuple[Any, int]]:
    """The values, each once, ascending, with how often each is there."""
    raw = values.tobytes()
    if raw and raw == raw[: values.itemsize] * values.size:  # which is asked sooner than NumPy sorts a few numbers
        return [(values.item(0), values.size)]
    ordered = np.sort(values, axis=None)
    firsts = _firsts(ordered).nonzero()[0]
    found = firsts.tolist()
    return [
        (value, end - begin)
        for value, begin, end in zip(ordered[firsts].tolist(), found, [*found, ordered.size][1:], strict=True)
    ]


def _firsts(ordered: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where a value stands that does not stand before."""
    firsts = np.ones(ordered.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=firsts[1:])
    return firsts
