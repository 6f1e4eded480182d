"""How does a frozen dataclass become JSON and the same value again? By its fields' types, and nothing else is loaded.

Reading builds only the classes that the type names: a file that somebody else wrote can be wrong, but runs nothing.
Understood: dataclasses, tuples, enums, literals, mappings and values of JSON, text, numbers and None, and unions of
them with at most one dataclass. Checked by: tests/base/test_record_json.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

Record = TypeVar("Record")


def to_json(value: object) -> Any:
    """The value as JSON. Fields that have their default are left out."""
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: to_json(held)
            for field in dataclasses.fields(value)
            if (held := getattr(value, field.name)) != field.default
        }
    if isinstance(value, (tuple, list)):
        return [to_json(each) for each in cast("tuple[object, ...]", value)]
    if isinstance(value, Mapping):
        return {str(name): to_json(each) for name, each in cast("Mapping[object, object]", value).items()}
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def from_json(kind: type[Record], value: object) -> Record:
    """The value of type `kind` that `to_json` wrote. Raises ValueError for JSON that is none."""
    return cast("Record", _read(kind, value))


def _read(kind: Any, value: Any) -> Any:
    if kind is Any or kind is object:
        return value
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _one_of(arguments, value)
    if origin is Literal:
        return value if value in arguments else _refuse(kind, value)
    if origin is tuple and isinstance(value, list):
        held = cast("list[Any]", value)
        each = (arguments[0],) * len(held) if len(arguments) == 2 and arguments[1] is Ellipsis else arguments
        return tuple(map(_read, each, held)) if len(each) == len(held) else _refuse(kind, held)
    if origin is not None and issubclass(origin, Mapping) and isinstance(value, dict):
        return {name: _read(arguments[1], held) for name, held in cast("dict[str, Any]", value).items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if not isinstance(kind, type):
        return _refuse(kind, value)
    plain = cast("type[Any]", kind)
    if dataclasses.is_dataclass(plain) and isinstance(value, dict):
        return _record(plain, cast("dict[str, Any]", value))
    if plain is float and type(value) is int:
        return float(value)
    return value if type(value) is plain else _refuse(plain, value)


def _record(kind: type[Any], value: dict[str, Any]) -> Any:
    hints = _hints(kind)
    if not value.keys() <= hints.keys():
        _refuse(kind, value)
    try:
        return kind(**{name: _read(hints[name], held) for name, held in value.items()})
    except TypeError as error:
        raise ValueError(str(error)) from error


def _one_of(kinds: tuple[Any, ...], value: Any) -> Any:
    if value is None and NoneType in kinds:
        return None
    for kind in kinds:
        if kind is not NoneType:
            try:
                return _read(kind, value)
            except ValueError:
                continue
    return _refuse(kinds, value)


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)


def _refuse(kind: object, value: object) -> Any:
    raise ValueError(f"{str(value)[:60]} is no {kind}")
