"""How is a tensor map written down: as the Python expression that makes it, and as the command line that names it?

Fields that have their defaults are left out. Both can be pasted: the expression needs `from tilewright.legal import *`.
Checked by: tests/cli/test_tensormap_report.py, which reads both back.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, cast

from tilewright.legal.tensor_map.im2col_map import AnyMap, Im2colMap, Im2colWideMap

if TYPE_CHECKING:
    from tilewright.legal.symbolic.symbolic_map import SymbolicMap

_FLAGS = {"mode": "--wide-mode"}
_DEFAULTS: dict[str, object] = {
    "interleave": "none", "swizzle": "none", "l2_promotion": "none", "oob_fill": "zero", "address": 0,
}  # fmt: skip


def plain(value: object) -> object:
    """A field's value as JSON has it: integers, names, lists of them; an expression as its text."""
    if isinstance(value, tuple):
        return [plain(item) for item in cast("tuple[object, ...]", value)]
    return value if value is None or isinstance(value, int | str) else str(value)


def map_words(map: AnyMap | SymbolicMap) -> str:
    """A map as Python writes it."""
    parts: list[str] = []
    for each in fields(map):
        value: object = getattr(map, each.name)
        if each.name == "sizes" or (each.name == "where" and value is True):
            continue
        if (value == each.default and each.name != "dtype") or _is_plain_steps(each.name, value):
            continue
        parts.append(f"{each.name}={_python(each.name, value)}")
    return f"{type(map).__name__}({', '.join(parts)})"


def command_words(map: AnyMap, target: str = "sm_90a") -> str:
    """The `tilewright tensormap` command line that names this map in numbers."""
    parts = ["tilewright tensormap"]
    for each in fields(map):
        value: object = getattr(map, each.name)
        default = _DEFAULTS.get(each.name, each.default)
        if value == default or _is_plain_steps(each.name, value):
            continue
        if each.name == "strides" and value == ():
            continue
        text = hex(value) if each.name == "address" and isinstance(value, int) else _commas(value)
        flag = _FLAGS.get(each.name, "--" + each.name.replace("_", "-"))
        # An option's value that begins with a minus sign is taken for an option.
        parts.append(f"{flag}={text}" if text.startswith("-") else f"{flag} {text}")
    if isinstance(map, Im2colWideMap) and map.mode == "w":
        parts.append("--wide-mode w")
    if target != "sm_90a":
        parts.append(f"--target {target}")
    return " ".join(parts)


def kind_words(map: AnyMap | SymbolicMap) -> str:
    """What kind of map it is."""
    match map:
        case Im2colMap():
            return "im2col"
        case Im2colWideMap():
            return "im2col-wide"
        case _:
            return "tiled"


def _is_plain_steps(name: str, value: object) -> bool:
    steps = cast("tuple[object, ...] | None", value) if name == "element_strides" else ()
    return name == "element_strides" and (steps is None or set(steps) <= {1})


def _python(name: str, value: object) -> str:
    if isinstance(value, tuple):
        entries = [_python("", item) for item in cast("tuple[object, ...]", value)]
        return f"({', '.join(entries)}{',' if len(entries) == 1 else ''})"
    if name == "address" and isinstance(value, int):
        return hex(value)
    return repr(value) if isinstance(value, int | str) else repr(str(value))


def _commas(value: object) -> str:
    return ",".join(map(str, cast("tuple[object, ...]", value))) if isinstance(value, tuple) else str(value)
