"""Dataclasses that cost little: to define, since Python writes their methods when they are first called, and, as
`value`, to make.

A check of one kernel loads some three hundred dataclasses and makes objects of a third of them, and the methods that
the standard library writes for a class take ten times as long as the class itself. So `dataclass` here, which is the
standard one in all else, leaves each method as a call that writes it and takes its own place.

A frozen dataclass sets its fields one by one around its own guard, and so takes much longer to make than one that is
not. Where a program makes few of them nobody notices; the places in a text, its instructions and the events of a run
are many. So a `value` is not frozen when it is made, and the type checker sees to it that nobody changes it.

Not handled: ordered dataclasses, `InitVar`, fields that are given by name alone, and classes that inherit from one that
is frozen by the standard library.
Checked by: tests/base/test_value.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields
from typing import Any, Never, TypeVar, dataclass_transform

_Class = TypeVar("_Class")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[_Class]) -> type[_Class]:
    """A dataclass with slots whose objects are equal and hashed by their fields, and never changed."""
    return _defined(cls, frozen=False, slots=True, eq=True, unsafe_hash=True)


@dataclass_transform(field_specifiers=(field,))
def dataclass(
    *, frozen: bool = False, slots: bool = False, eq: bool = True, unsafe_hash: bool = False
) -> Callable[[type[_Class]], type[_Class]]:
    """As `dataclasses.dataclass`, of which this has the parameters that are used."""

    def decorate(cls: type[_Class]) -> type[_Class]:
        return _defined(cls, frozen=frozen, slots=slots, eq=eq, unsafe_hash=unsafe_hash)

    return decorate


def _defined(cls: type[Any], *, frozen: bool, slots: bool, eq: bool, unsafe_hash: bool) -> type[Any]:
    own = dict(cls.__dict__)
    if not cls.__doc__:
        cls.__doc__ = cls.__name__  # in place of all fields, which take long to spell
    made = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots)
    wanted = ["__init__", "__repr__"]
    if eq:
        wanted.append("__eq__")
    own_hash = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
    if not own_hash and (unsafe_hash or (eq and frozen)):
        own.pop("__hash__", None)
        wanted.append("__hash__")
    elif not own_hash and eq:
        made.__hash__ = None
    for name in wanted:
        if name not in own:
            setattr(made, name, _written_when_called(made, name, frozen))
    if frozen:
        added: dict[str, Callable[..., Any]] = {"__setattr__": _refuse, "__delattr__": _refuse}
        if slots:
            added |= {"__getstate__": _state, "__setstate__": _restore}
        for name, method in added.items():
            if name not in own:
                setattr(made, name, method)
    return made


def _written_when_called(made: type[Any], name: str, frozen: bool) -> Callable[..., Any]:
    """A method that has itself replaced."""

    def method(self: object, *arguments: Any, **named: Any) -> Any:
        written = _initialiser(made, frozen) if name == "__init__" else _written(made, name)
        setattr(made, name, written)
        return written(self, *arguments, **named)

    method.__name__, method.__qualname__ = name, f"{made.__qualname__}.{name}"
    return method


def _initialiser(made: type[Any], frozen: bool) -> Callable[..., Any]:
    """`__init__`, in a single piece: the standard library's takes three times as long, and most of these are needed."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_absent": dataclasses.MISSING}
    parameters, lines = ["self"], [""]
    for each in fields(made):
        name, given = each.name, each.name
        has_default = each.default is not dataclasses.MISSING
        makes_default = each.default_factory is not dataclasses.MISSING
        if has_default or makes_default:
            known[f"_default_{name}"] = each.default if has_default else each.default_factory
        if each.init:
            default = f"=_default_{name}" if has_default else "=_absent" if makes_default else ""
            parameters.append(name + default)
            if makes_default:
                given = f"_default_{name}() if {name} is _absent else {name}"
        elif has_default or makes_default:
            given = f"_default_{name}" + "()" * makes_default
        else:
            continue
        lines.append(f"_set(self, {name!r}, {given})" if frozen else f"self.{name} = {given}")
    lines.append("self.__post_init__()" if hasattr(made, "__post_init__") else "pass")
    exec(f"def __init__({', '.join(parameters)}):" + "\n ".join(lines), known)
    written = known["__init__"]
    written.__qualname__, written.__module__ = f"{made.__qualname__}.__init__", made.__module__
    written.__annotations__ = {each.name: each.type for each in fields(made) if each.init} | {"return": None}
    return written


def _written(made: type[Any], name: str) -> Callable[..., Any]:
    """Another method as the standard library writes it, for a class that has the same fields and nothing else."""
    body: dict[str, Any] = {
        each.name: field(repr=each.repr, hash=each.hash, compare=each.compare) for each in fields(made)
    }
    body["__annotations__"] = {each.name: each.type for each in fields(made)}
    body["__module__"], body["__qualname__"], body["__doc__"] = made.__module__, made.__qualname__, made.__doc__
    alike = dataclasses.dataclass(
        type(made.__name__, (), body), init=False, repr=name == "__repr__", eq=name == "__eq__",
        unsafe_hash=name == "__hash__",
    )  # fmt: skip
    return alike.__dict__[name]


def _refuse(_self: object, name: str, *_value: object) -> Never:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for each, held in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, held)
