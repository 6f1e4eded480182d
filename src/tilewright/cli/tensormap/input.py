"""Which tensor maps does a command line name: by options, as JSON, or as the bytes that a driver made?

Lists are written with commas, innermost dimension first; numbers in decimal or, after 0x, in hexadecimal. Where an
option names sizes (`--dims K,M`), the map is symbolic and `--where` says what holds of them. JSON is one object or a
list of them, with the names of `legal.TensorMap`; an object with corners is an im2col map. Bytes are 128 for each map.
Checked by: tests/cli/test_tensormap.py.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from tilewright.base.error import TilewrightError
from tilewright.layout.numbers.condition import names_of
from tilewright.layout.numbers.condition_parser import parse_expression, parse_where
from tilewright.legal.symbolic.symbolic_map import Dim, SymbolicMap
from tilewright.legal.tensor_map.im2col_map import AnyMap, Im2colMap, Im2colWideMap
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.legal.tensor_map.tensor_map_format import SIZE_BYTES, DecodedMap, read_map

_MOST_BYTES = 1 << 20
"""Of an input file: 8,192 encoded maps."""
_NUMBER = re.compile(r"[+-]?(0[xX][0-9a-fA-F]+|[0-9]+)")
_MOST_DIGITS = 100
_LONGEST_NAME = 60
_LONGEST_MESSAGE = 300
_MOST_FIELDS = 100
"""Of an object in which a field that stands twice is looked for; more than any map has."""
_CONVOLUTION = ("lower_corner", "upper_corner", "channels_per_pixel", "pixels_per_column")


def maps_of_json(path: str) -> list[AnyMap]:
    """The maps in a JSON file, or on standard input for `-`. Raises TilewrightError naming the map and the field."""
    text = _content(path, "JSON").decode("utf-8", "surrogateescape")
    try:
        # NaN and Infinity become floats, so that the message about them names the field.
        document: Any = json.loads(text, parse_int=_json_integer, object_pairs_hook=_json_object)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise TilewrightError(f"{_shown(path)} is no JSON: {reason}", remedy='write {"dtype": "bf16", ...}') from None
    entries = cast("list[Any]", document) if isinstance(document, list) else [document]
    if not entries:
        raise TilewrightError(f"{_shown(path)} holds no tensor map", remedy="write an object, or a list of them")
    return [_map_of_entry(entry, f"{_shown(path)}: map {index}") for index, entry in enumerate(entries)]


def maps_of_bytes(path: str) -> list[DecodedMap]:
    """The maps in a file of 128 bytes for each, or on standard input for `-`. Raises TilewrightError for others."""
    content = _content(path, "bytes")
    if not content or len(content) % SIZE_BYTES:
        what = "is empty" if not content else f"has {len(content)} bytes"
        raise TilewrightError(f"{_shown(path)} {what}; a tensor map has {SIZE_BYTES}", remedy="dump the CUtensorMap")
    found: list[DecodedMap] = []
    for start in range(0, len(content), SIZE_BYTES):
        try:
            found.append(read_map(content[start : start + SIZE_BYTES]))
        except TilewrightError as error:
            place = _shown(path) if len(content) == SIZE_BYTES else f"{_shown(path)}: byte {start}"
            raise TilewrightError(f"{place}: {error.message}", remedy=error.remedy) from None
    return found


def map_of_options(arguments: argparse.Namespace) -> AnyMap | SymbolicMap:
    """The map that the options spell. Raises TilewrightError for what is missing or no list of numbers."""
    values: dict[str, Any] = {
        "dtype": _enumerated(arguments.dtype),
        "interleave": _enumerated(arguments.interleave),
        "swizzle": _enumerated(arguments.swizzle),
        "l2_promotion": _enumerated(arguments.l2_promotion),
        "oob_fill": _enumerated(arguments.oob_fill),
    }
    im2col = [name for name in _CONVOLUTION if getattr(arguments, name) is not None]
    missing = [name for name in ("dtype", "dims") if getattr(arguments, name) is None]
    if not im2col and arguments.box is None:
        missing.append("box")
    if missing:
        names = " and ".join(f"--{name}" for name in missing)
        raise TilewrightError(
            f"{names} missing", remedy="tilewright tensormap --dtype bf16 --dims 4096,128 --strides 8192 --box 64,64"
        )
    symbolic = arguments.where is not None
    for name in ("dims", "strides", "box", "element_strides"):
        text = getattr(arguments, name)
        values[name] = None if text is None else [_entry(name, part) for part in _parts(name, text)]
        symbolic = symbolic or any(isinstance(entry, str) for entry in values[name] or ())
    values["address"] = 0 if arguments.address is None else _entry("address", arguments.address)
    symbolic = symbolic or isinstance(values["address"], str)
    if values["strides"] is None:
        if len(values["dims"]) > 1:
            raise TilewrightError("--strides missing", remedy="give the bytes from one row to the next, and so on")
        values["strides"] = []
    if im2col:
        return _im2col_of_options(arguments, values, symbolic)
    if not symbolic:
        return TensorMap(**values)
    where = parse_where(arguments.where) if arguments.where else True
    named = set(names_of(where))
    for name in ("dims", "strides", "box", "element_strides", "address"):
        entries: object = values[name]
        for entry in cast("list[object]", entries) if isinstance(entries, list) else [entries]:
            if isinstance(entry, str):
                named |= parse_expression(entry).names
    return SymbolicMap(**values, where=where, sizes=tuple(Dim(name, low=None) for name in sorted(named)))


def numbers(option: str, text: str) -> tuple[int, ...]:
    """A list of integers as an option has it. Raises TilewrightError naming the option and the entry."""
    found: list[int] = []
    for part in _parts(option, text):
        entry = _entry(option, part)
        if isinstance(entry, str):
            raise TilewrightError(f"{_flag(option)}: {entry!r} is no number", remedy="write numbers, with commas")
        found.append(entry)
    return tuple(found)


def number(option: str, text: str) -> int:
    """One integer as an option has it. Raises TilewrightError naming the option."""
    found = numbers(option, text)
    if len(found) != 1:
        raise TilewrightError(f"{_flag(option)} {text!r} is not one number", remedy="give one number")
    return found[0]


def _im2col_of_options(arguments: argparse.Namespace, values: dict[str, Any], symbolic: bool) -> AnyMap:
    if symbolic:
        raise TilewrightError("an im2col map takes numbers only", remedy="leave --where out and give numbers")
    if arguments.box is not None:
        raise TilewrightError("an im2col map has no box", remedy="drop --box, or the corners, channels and pixels")
    absent = [name for name in _CONVOLUTION if getattr(arguments, name) is None]
    if absent:
        raise TilewrightError(f"{' and '.join(map(_flag, absent))} missing", remedy="an im2col map needs all four")
    del values["box"]
    lower, upper = (numbers(name, getattr(arguments, name)) for name in _CONVOLUTION[:2])
    counts: dict[str, Any] = {name: number(name, getattr(arguments, name)) for name in _CONVOLUTION[2:]}
    if arguments.wide_mode is None:
        return Im2colMap(**values, lower_corner=lower, upper_corner=upper, **counts)
    if len(lower) != 1 or len(upper) != 1:
        raise TilewrightError("an im2col-wide map has one lower and one upper corner", remedy="give one number each")
    return Im2colWideMap(**values, lower_corner=lower[0], upper_corner=upper[0], mode=arguments.wide_mode, **counts)


def _parts(option: str, text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if "" in parts:
        raise TilewrightError(f"{_flag(option)} {text!r} has an empty entry", remedy="write numbers, with commas")
    return parts


def _entry(option: str, text: str) -> int | str:
    """A number, or an expression over sizes as its text."""
    if _NUMBER.fullmatch(text):
        if len(text) > _MOST_DIGITS:
            raise TilewrightError(f"{_flag(option)}: a number of {len(text)} digits", remedy="64 bits are 20 digits")
        return int(text, 0) if "x" in text.lower() else int(text)
    if text.lower() in ("nan", "inf", "infinity"):
        raise TilewrightError(f"{_flag(option)}: {text} is no integer", remedy="write numbers, with commas")
    parse_expression(text, what=_flag(option))
    return text


def _enumerated(text: str | None) -> str | int | None:
    """A name, or the driver's number of one."""
    return int(text, 0) if text is not None and re.fullmatch(r"[+-]?(0[xX][0-9a-fA-F]{1,16}|\d{1,20})", text) else text


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")


def _json_integer(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None) if len(names) <= _MOST_FIELDS else None
    if twice is not None:
        raise ValueError(f"field {twice!r} stands twice")
    return dict(pairs)


def _map_of_entry(entry: object, place: str) -> AnyMap:
    if not isinstance(entry, dict):
        raise TilewrightError(f"{place} is {_kind(entry)}, not an object", remedy='write {"dtype": "bf16", ...}')
    values = cast("dict[str, Any]", entry)
    form: Callable[..., AnyMap] = TensorMap
    if any(name in values for name in _CONVOLUTION):
        form = Im2colWideMap if "mode" in values else Im2colMap
    known = [each.name for each in fields(cast("Any", form))]
    required = [name for name in known if name in ("dtype", "dims", "strides", "box", *_CONVOLUTION)]
    for name in values:
        if name not in known:
            near = get_close_matches(name, known, n=1) if len(name) <= _LONGEST_NAME else []
            raise TilewrightError(
                f"{place} has no field {_short(name)}",
                remedy=f"did you mean {near[0]!r}?" if near else ", ".join(known),
            )
    for name in required:
        if name not in values:
            raise TilewrightError(f"{place} lacks {name!r}", remedy=f"fields: {', '.join(known)}")
    for name, value in values.items():
        if isinstance(value, str) and len(value) > _LONGEST_NAME:
            raise TilewrightError(f"{place}: {name} has no value {_short(value)}", remedy="give one of its names")
    try:
        return form(**values)
    except TilewrightError as error:
        message = error.message.removeprefix("tensor map: ")
        if len(message) > _LONGEST_MESSAGE:
            message = f"{message[:_LONGEST_MESSAGE]} ..."
        raise TilewrightError(f"{place}: {message}", remedy=error.remedy) from None


def _short(text: str) -> str:
    """A text of the input, quoted; its beginning where it is long."""
    return repr(text) if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]!r} ... ({len(text)} characters)"


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "a number"


def _content(path: str, what: str) -> bytes:
    if path == "-":
        content = sys.stdin.buffer.read(_MOST_BYTES + 1)
    else:
        try:
            with Path(path).open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise TilewrightError(f"cannot read {path}: {reason}", remedy=f"name a file of {what}") from None
    if len(content) > _MOST_BYTES:
        raise TilewrightError(f"{_shown(path)} has more than {_MOST_BYTES} bytes", remedy=f"name a file of {what}")
    return content


def _shown(path: str) -> str:
    return "standard input" if path == "-" else path
