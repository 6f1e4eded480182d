"""What does an asynchronous reduction make of old and new bytes?

Element by element: `cp.reduce.async.bulk[.tensor]` and `red.async` (PTX ISA 9.7.9.25.5.1, 9.7.13.14). Integer sums
wrap; `inc` and `dec` wrap at the operand; f16 and bf16 sums round once (`.noftz` is what they do here, too). Through a
tensor map of type f32 with flush to zero, subnormal operands and sums count as zeros of their sign, as an H200 does it;
through other maps and with every other type, subnormal numbers are kept.
Checked by: tests/machine/copy/test_bulk_forms.py, test_copy_hardware.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tilewright.machine.numbers import arithmetic

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]
OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")

_FLOATS: dict[str, Literal["f16", "bf16", "f32", "f64"]] = {"f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64"}
_WIDTHS = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}
_UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SIGNED: dict[int, Any] = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}

_FLOAT: dict[str, Callable[..., Any]] = {
    "add": arithmetic.add,
    "min": arithmetic.minimum,
    "max": arithmetic.maximum,
}


def _increment(old: Words, new: Words) -> Words:
    return np.where(old >= new, np.uint32(0), old + np.uint32(1))


def _decrement(old: Words, new: Words) -> Words:
    return np.where((old == 0) | (old > new), new, old - np.uint32(1))


_INTEGER: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda old, new: old + new,
    "min": np.minimum,
    "max": np.maximum,
    "and": lambda old, new: old & new,
    "or": lambda old, new: old | new,
    "xor": lambda old, new: old ^ new,
    "inc": _increment,
    "dec": _decrement,
}


def reduction(operation: str, element: str, *, flush: bool = False) -> Callable[[Bytes, Bytes], Bytes] | None:
    """The function of old and new bytes for an element type (`f16`, `u32`, `i32`, ...); None where there is none.

    flush: of f32, whether subnormal numbers count as zeros.
    """
    if element in _FLOATS:
        function = _FLOAT.get(operation)
        if function is None:
            return None
        kind, dtype = _FLOATS[element], np.dtype(_UNSIGNED[_WIDTHS[element]])
        if flush and kind == "f32":
            return _elementwise(lambda old, new: _flushed(function(kind, _flushed(old), _flushed(new))), dtype)
        return _elementwise(lambda old, new: function(kind, old, new), dtype)
    width, combine = int(element[1:]) // 8, _INTEGER.get(operation)
    if combine is None:
        return None
    dtype = np.dtype((_SIGNED if element[0] in "si" else _UNSIGNED)[width])
    return _elementwise(combine, dtype)


def _flushed(words: Words) -> Words:
    return np.where(words & np.uint32(0x7F80_0000), words, words & np.uint32(0x8000_0000))


def _elementwise(function: Callable[[Any, Any], Any], dtype: np.dtype[Any]) -> Callable[[Bytes, Bytes], Bytes]:
    def combine(old: Bytes, new: Bytes) -> Bytes:
        values = function(np.ascontiguousarray(old).view(dtype), np.ascontiguousarray(new).view(dtype))
        return np.ascontiguousarray(values).view(np.uint8)

    return combine
