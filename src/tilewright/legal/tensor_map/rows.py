"""Which of these million tensor maps would the driver encode?

The rules are those of `tiled_rules`, read over NumPy columns: rows are grouped by rank and data type, which are then
plain integers, so that only the rules that apply are evaluated, on the group's rows at once.

Columns are the driver's arguments by the names `dtype`, `rank`, `addr`, `d0` to `d4` (extents), `s0` to `s3` (strides
in bytes), `b0` to `b4` (box), `e0` to `e4` (element strides), `interleave`, `swizzle`, `l2`, `oob`; enumerations as the
driver's numbers. Entries past a row's rank do not matter. Arithmetic is in 64 bits: a value above 2^63 - 1 is read as
negative, which is out of every range too, and a product that overflows belongs to a row with a factor out of range.

Not handled: which rule a row breaks (`legality.check` says), im2col maps of pixels in one dimension
(im2col-wide). Checked by: tests/legal/tensor_map/test_rows.py, against
`check`; tests/legal/tensor_map/test_tensormap_driver.py, against a driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tilewright.base.error import TilewrightError
from tilewright.legal.argument import integer, shown, target_of
from tilewright.legal.tensor_map.common_rules import driver_version
from tilewright.legal.tensor_map.im2col_rules import im2col_rules
from tilewright.legal.tensor_map.rule import Fields, Rule
from tilewright.legal.tensor_map.tiled_rules import tiled_rules
from tilewright.targets import Target

_LISTS = (("d", 5), ("s", 4), ("b", 5), ("e", 5))
_SCALARS = ("dtype", "rank", "addr", "interleave", "swizzle", "l2", "oob")
COLUMNS = (*_SCALARS, *(f"{letter}{index}" for letter, count in _LISTS for index in range(count)))
"""The columns that `check_rows` reads. Others are ignored."""

_IM2COL_LISTS = (("d", 5), ("s", 4), ("lo", 3), ("up", 3), ("e", 5))
_IM2COL_SCALARS = (*_SCALARS, "channels", "pixels")
IM2COL_COLUMNS = (*_IM2COL_SCALARS, *(f"{name}{index}" for name, count in _IM2COL_LISTS for index in range(count)))
"""The columns that `check_im2col_rows` reads: no box, but corners (signed), `channels` and `pixels`."""

_CHUNK_ROWS = 1 << 18  # a group's columns then stay in the cache
_LARGEST = (1 << 63) - 1

Column = NDArray[np.int64]


def check_rows(columns: Mapping[str, NDArray[Any]], target: str | Target, driver: object = None) -> NDArray[np.bool_]:
    """Of each row, whether `cuTensorMapEncodeTiled` accepts it. [rows]

    columns: one-dimensional integer arrays of one length, by the names in `COLUMNS`; lists and object arrays may hold
    integers of any size. Raises TilewrightError for a missing column, unequal lengths, and values that are no integers.
    """
    facts = target_of(target)
    return _check(columns, COLUMNS, tiled_rules(facts, driver_version(driver)), facts)


def check_im2col_rows(
    columns: Mapping[str, NDArray[Any]], target: str | Target, driver: object = None
) -> NDArray[np.bool_]:
    """Of each row, whether `cuTensorMapEncodeIm2col` accepts it. [rows]

    columns: as for `check_rows`, by the names in `IM2COL_COLUMNS`; corners are signed, as they are or in unsigned words
    of 64 bits. Raises TilewrightError as `check_rows` does.
    """
    facts = target_of(target)
    return _check(columns, IM2COL_COLUMNS, im2col_rules(facts, driver_version(driver)), facts)


def _check(
    columns: Mapping[str, NDArray[Any]], names: tuple[str, ...], rules: tuple[Rule, ...], facts: Target
) -> NDArray[np.bool_]:
    if not isinstance(cast("object", columns), Mapping):
        raise TilewrightError(f"columns are {shown(columns)}", remedy="give a dict of arrays, by the columns' names")
    taken = {name: _column(columns, name, names) for name in names}
    count = taken["rank"].size
    for name, column in taken.items():
        if column.size != count:
            raise TilewrightError(f"column {name!r} has {column.size} rows; 'rank' has {count}")
    legal = np.empty(count, np.bool_)
    with np.errstate(divide="ignore", over="ignore"):
        for start in range(0, count, _CHUNK_ROWS):
            chunk = {name: column[start : start + _CHUNK_ROWS] for name, column in taken.items()}
            legal[start : start + _CHUNK_ROWS] = _check_chunk(chunk, rules, facts)
    return legal


def _column(columns: Mapping[str, NDArray[Any]], name: str, names: tuple[str, ...]) -> Column:
    if name not in columns:
        raise TilewrightError(f"no column {name!r}", remedy=f"the columns are {', '.join(names)}")
    column = _array(name, columns[name])
    if column.ndim != 1:
        raise TilewrightError(f"column {name!r} has {column.ndim} dimensions, not 1")
    match column.dtype.kind:
        case "i":
            return column.astype(np.int64, copy=False)
        case "u":
            return column.astype(np.uint64, copy=False).view(np.int64)
        case "O":
            values = cast("list[object]", column.tolist())
            try:
                numbers = [integer(f"row {row}", value, "column") for row, value in enumerate(values)]
            except TilewrightError as error:
                fault = error.message.removeprefix("column: ")
                raise TilewrightError(f"column {name!r} is not of integers: {fault}") from None
            return np.array([max(-_LARGEST - 1, min(number, _LARGEST)) for number in numbers], np.int64)
        case _:
            pass
    raise TilewrightError(f"column {name!r} is of type {column.dtype}, not of integers")


def _array(name: str, values: object) -> NDArray[Any]:
    """A column as a caller gives it; a list's integers stay what they are, whatever their size."""
    if isinstance(values, np.ndarray):
        return cast("NDArray[Any]", values)
    fault = f"column {name!r} is {shown(values)}, not one list of integers"
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise TilewrightError(fault)
    try:
        return np.asarray(values, dtype=getattr(values, "dtype", object))
    except (TypeError, ValueError):  # lists of unequal lengths, and what only looks like a list
        raise TilewrightError(fault) from None


def _check_chunk(chunk: dict[str, Column], rules: tuple[Rule, ...], facts: Target) -> NDArray[np.bool_]:
    # Beyond the limits all values mean the same: out of range. Clipped, the pairs are few, and sort as bytes.
    ranks = np.clip(chunk["rank"], -1, facts.limit("tensor_map.rank_max") + 1)
    types = np.clip(chunk["dtype"], -1, facts.limit("tensor_map.data_type_max") + 1)
    width = facts.limit("tensor_map.data_type_max") + 3
    keys = ((ranks + 1) * width + (types + 1)).astype(np.uint8)
    order = np.argsort(keys, kind="stable")
    counts = np.bincount(keys, minlength=1)
    legal = np.empty(keys.size, np.bool_)
    begin = 0
    for key in np.flatnonzero(counts).tolist():
        rows = order[begin : begin + counts[key]]
        begin += counts[key]
        legal[rows] = _check_group(chunk, rows, key // width - 1, key % width - 1, rules)
    return legal


def _check_group(
    chunk: dict[str, Column], rows: NDArray[np.intp], rank: int, data_type: int, rules: tuple[Rule, ...]
) -> NDArray[np.bool_] | bool:
    def entries(letter: str, most: int, used: int) -> tuple[Column, ...]:
        names = (f"{letter}{index}" for index in range(min(most, max(used, 0))))
        return tuple(chunk[name][rows] for name in names if name in chunk)

    fields = Fields(
        dtype=data_type,
        rank=rank,
        address=chunk["addr"][rows],
        dims=entries("d", 5, rank),
        strides=entries("s", 4, rank - 1),
        box=entries("b", 5, rank),
        element_strides=entries("e", 5, rank),
        interleave=chunk["interleave"][rows],
        swizzle=chunk["swizzle"][rows],
        l2_promotion=chunk["l2"][rows],
        oob_fill=chunk["oob"][rows],
        lower_corner=entries("lo", 3, rank - 2),
        upper_corner=entries("up", 3, rank - 2),
        channels_per_pixel=chunk["channels"][rows] if "channels" in chunk else 0,
        pixels_per_column=chunk["pixels"][rows] if "pixels" in chunk else 0,
    )
    legal = np.ones(rows.size, np.bool_)
    for rule in rules:
        truth = rule.stated(fields)
        if truth is False:
            return False
        if truth is not True:
            legal &= truth
    return legal
