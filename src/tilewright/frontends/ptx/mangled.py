"""What is a function called in its C++ source? `ns::Pipe::wait` of `_ZN2ns4PipeILi3EE4waitEPmi`.

Only the name: template arguments and parameters are left out, because a reader looks for a function, not an overload.
Source: Itanium C++ ABI, 5.1 Mangling. Not handled: names of local functions, of conversions, of substituted classes
(`St` apart); such a name is given as it is. Checked by: tests/frontends/test_ptx_source.py.
"""

from __future__ import annotations

import re

_OPERATORS = {
    "cl": "operator()", "ix": "operator[]", "aS": "operator=", "pl": "operator+", "mi": "operator-", "ml": "operator*",
    "dv": "operator/", "eq": "operator==", "ne": "operator!=", "lt": "operator<", "gt": "operator>", "pt": "operator->",
    "pL": "operator+=", "pp": "operator++", "mm": "operator--", "cv": "",
}  # fmt: skip
_NUMBER = re.compile(r"\d+")
_ANONYMOUS = "_GLOBAL__N_"
_INTERNAL = "_INTERNAL_"
"""What nvcc puts around functions that are static: a scope with the file's name and a hash."""
_SUBSTITUTION = re.compile(r"S(?:[0-9A-Z]*_|[tabsiod])")
_PARAMETER = re.compile(r"T\d*_")
_OPENING = frozenset("INXJF")


def function_name(mangled: str) -> str:
    """The function's name with its scopes; a name that is not mangled, or not understood, as it is."""
    if not mangled.startswith("_Z"):
        return mangled
    try:
        words = _name(mangled)
    except (IndexError, ValueError):
        return mangled
    return words or mangled


def _name(mangled: str) -> str:
    at = 2
    if mangled[at] == "L":
        at += 1
    if mangled[at].isdigit():
        return _identifier(mangled, at)[0]
    if mangled[at] != "N":
        return ""
    at += 1
    while mangled[at] in "rVKRO":
        at += 1
    words: list[str] = []
    while mangled[at] != "E":
        here = mangled[at]
        if here.isdigit():
            word, at = _identifier(mangled, at)
            if not word.startswith(_INTERNAL):
                words.append(word)
        elif here == "I":
            at = _behind(mangled, at)
        elif mangled.startswith("St", at):
            words.append("std")
            at += 2
        elif here in "CD" and mangled[at + 1].isdigit():
            words.append(f"{'~' if here == 'D' else ''}{words[-1]}")
            at += 2
        elif here == "L":
            at += 1
        elif operator := _OPERATORS.get(mangled[at : at + 2]):
            words.append(operator)
            at += 2
        else:
            return ""
    return "::".join(words)


def _identifier(mangled: str, at: int) -> tuple[str, int]:
    found = _NUMBER.match(mangled, at)
    if found is None:
        raise ValueError(mangled)
    begin, end = found.end(), found.end() + int(found[0])
    word = mangled[begin:end]
    if len(word) != end - begin or not word:
        raise ValueError(mangled)
    return ("(anonymous namespace)" if word.startswith(_ANONYMOUS) else word), end


def _behind(mangled: str, at: int) -> int:
    """Behind the bracketed part that opens here. Identifiers are passed over whole: they may hold any letter."""
    depth = 0
    while True:
        here = mangled[at]
        if here.isdigit():
            at = _identifier(mangled, at)[1]
            continue
        if here == "L":
            at = _behind_literal(mangled, at)
            continue
        passed = _SUBSTITUTION.match(mangled, at) or _PARAMETER.match(mangled, at)
        if passed is not None:
            at = passed.end()
            continue
        at += 1
        if here in _OPENING:
            depth += 1
        elif here == "E":
            depth -= 1
            if depth == 0:
                return at
        elif here == "D":
            at += 1


def _behind_literal(mangled: str, at: int) -> int:
    """Behind `L type value E`, as in `Li3E`."""
    at += 1
    if mangled[at] == "_":
        raise ValueError(mangled)
    if mangled[at] == "N":
        at = _behind(mangled, at)
    elif mangled[at].isdigit():
        at = _identifier(mangled, at)[1]
    else:
        found = _SUBSTITUTION.match(mangled, at)
        at = found.end() if found is not None else at + 1
    return mangled.index("E", at) + 1
