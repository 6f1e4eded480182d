"""How are hundreds of dataclasses made in little time, of which one command uses some dozens?

The standard module writes and compiles the text of five methods for every class while its module is loaded: half a
millisecond a class, which was a quarter of what a check of one kernel took. Here the methods that compare, hash, show
and refuse are closures over the fields' names, and `__init__` is written and compiled when the first object is made.
What objects do is what the standard module's do. `fields`, `replace`, `asdict` and `is_dataclass` take these classes:
what such functions look at, the standard module itself is asked for, the first time somebody looks.

Not handled: `InitVar`, `kw_only`, `order` and `init=False` of a class; those are the standard module's.
Checked by: tests/base/test_dataclass.py, method by method against the standard module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, field, make_dataclass
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import Any, TypeVar, cast, dataclass_transform, overload

_Class = TypeVar("_Class", bound=type[Any])
_FIELDS = "__tilewright_fields__"
_ABSENT = object()
"""The default of a parameter whose field has a factory."""


@overload
def dataclass(cls: _Class, /) -> _Class: ...
@overload
def dataclass(
    *, frozen: bool = False, slots: bool = False, eq: bool = True, unsafe_hash: bool = False
) -> Callable[[_Class], _Class]: ...
@dataclass_transform(field_specifiers=(field,))
def dataclass(
    cls: _Class | None = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True,
    unsafe_hash: bool = False,
) -> _Class | Callable[[_Class], _Class]:  # fmt: skip
    """As `dataclasses.dataclass`, with the same meaning of every argument."""

    def make(cls: _Class) -> _Class:
        return _made(cls, frozen, slots, eq, unsafe_hash)

    return make if cls is None else make(cls)


class _Declared:
    """A field as its class declares it. given: what stands behind the equals sign, a `Field` or MISSING."""

    __slots__ = ("annotation", "default", "factory", "given", "in_comparison", "in_hash", "in_init", "in_repr")

    def __init__(self, annotation: Any, given: Any) -> None:
        self.annotation, self.given = annotation, given
        self.default, self.factory = given, MISSING
        self.in_init = self.in_repr = self.in_comparison = self.in_hash = True
        if isinstance(given, Field):
            of_field = cast("Field[Any]", given)
            self.default, self.factory = of_field.default, of_field.default_factory
            self.in_init, self.in_repr, self.in_comparison = of_field.init, of_field.repr, of_field.compare
            self.in_hash = of_field.compare if of_field.hash is None else of_field.hash
        if self.default is not MISSING and type(self.default).__hash__ is None:
            raise ValueError(f"a mutable default, {self.default!r}: use field(default_factory=...)")


def _made(cls: _Class, frozen: bool, slots: bool, eq: bool, unsafe_hash: bool) -> _Class:
    own: Mapping[str, Any] = cls.__dict__
    declared: dict[str, _Declared] = {}
    for base in reversed(cls.__mro__[1:]):
        declared.update(base.__dict__.get(_FIELDS, ()))
    new = {
        name: _Declared(annotation, own.get(name, MISSING))
        for name, annotation in cls.__annotations__.items()
        if not str(annotation).startswith("ClassVar")
    }
    declared.update(new)
    members = _members(cls, declared, frozen, eq, unsafe_hash)
    if slots:
        inherited = {slot for base in cls.__mro__[1:] for slot in base.__dict__.get("__slots__", ())}
        kept = {name: each for name, each in own.items() if name not in new and name not in ("__dict__", "__weakref__")}
        kept["__slots__"] = tuple(name for name in declared if name not in inherited)
        metaclass: Any = type(cls)
        made = cast("_Class", metaclass(cls.__name__, cls.__bases__, kept | members))
        made.__qualname__ = cls.__qualname__
    else:
        made = cls
        for name, each in new.items():
            if each.default is not MISSING:
                setattr(cls, name, each.default)
            elif name in own:
                delattr(cls, name)
        for name, member in members.items():
            setattr(cls, name, member)
    if "__init__" not in own:
        made.__init__ = _unwritten_init(made, declared, frozen, slots)
    for name in ("__dataclass_fields__", "__dataclass_params__"):
        setattr(made, name, _Standard(name, made, declared, frozen=frozen, eq=eq, unsafe_hash=unsafe_hash))
    return made


def _members(
    cls: type[Any], declared: Mapping[str, _Declared], frozen: bool, eq: bool, unsafe_hash: bool
) -> dict[str, Any]:
    """What the class gets beside `__init__`; what it defines itself it keeps."""
    own: Mapping[str, Any] = cls.__dict__
    has_hash = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
    members: dict[str, Any] = {
        "__match_args__": tuple(name for name, each in declared.items() if each.in_init),
        "__repr__": _repr_of(tuple(name for name, each in declared.items() if each.in_repr)),
    }
    if eq:
        members["__eq__"] = _equality_of(tuple(name for name, each in declared.items() if each.in_comparison))
    members = {name: member for name, member in members.items() if name not in own}
    if unsafe_hash or (eq and frozen and not has_hash):
        members["__hash__"] = _hash_of(tuple(name for name, each in declared.items() if each.in_hash))
    elif eq and not has_hash:
        members["__hash__"] = None
    if frozen:
        members |= {"__setattr__": _refuse_setting, "__delattr__": _refuse_deleting}
        names = tuple(declared)
        members |= {
            name: made
            for name, made in (("__getstate__", _state_of(names)), ("__setstate__", _restored_from(names)))
            if name not in own
        }
    return members | {_FIELDS: declared}


def _values_of(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """The values of an object's fields, as a tuple."""
    match names:
        case ():
            return lambda _: ()
        case (name,):
            one = attrgetter(name)
            return lambda each: (one(each),)
        case _:
            return attrgetter(*names)


def _repr_of(names: tuple[str, ...]) -> Callable[[Any], str]:
    @recursive_repr()
    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _equality_of(names: tuple[str, ...]) -> Callable[[Any, Any], bool]:
    values = _values_of(names)

    def __eq__(self: Any, other: Any) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash_of(names: tuple[str, ...]) -> Callable[[Any], int]:
    values = _values_of(names)

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _state_of(names: tuple[str, ...]) -> Callable[[Any], list[Any]]:
    values = _values_of(names)

    def __getstate__(self: Any) -> list[Any]:
        return list(values(self))

    return __getstate__


def _restored_from(names: tuple[str, ...]) -> Callable[[Any, list[Any]], None]:
    def __setstate__(self: Any, state: list[Any]) -> None:
        for name, each in zip(names, state, strict=True):
            object.__setattr__(self, name, each)

    return __setstate__


def _refuse_setting(self: Any, name: str, _value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deleting(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


# ---------------------------------------------------------------- __init__


def _unwritten_init(
    made: type[Any], declared: Mapping[str, _Declared], frozen: bool, slots: bool
) -> Callable[..., None]:
    def __init__(self: Any, *given: Any, **named: Any) -> None:
        written = _written_init(made, declared, frozen, slots)
        made.__init__ = written  # of the class that was decorated, whichever subclass the object is of
        written(self, *given, **named)

    return __init__


def _written_init(made: type[Any], declared: Mapping[str, _Declared], frozen: bool, slots: bool) -> Callable[..., None]:
    """An `__init__` that sets the fields one after another. A frozen object's are set through their slots, which is
    quicker than around its guard."""
    names: dict[str, Any] = {"ABSENT": _ABSENT}
    parameters: list[str] = []
    lines: list[str] = []
    for name, each in declared.items():
        value = name
        if each.factory is not MISSING:
            names[f"FACTORY_{name}"] = each.factory
            value = f"FACTORY_{name}()"
            if each.in_init:
                parameters.append(f"{name}=ABSENT")
                value += f" if {name} is ABSENT else {name}"
        elif each.default is not MISSING:
            names[f"DEFAULT_{name}"] = each.default
            if each.in_init:
                parameters.append(f"{name}=DEFAULT_{name}")
            elif slots:
                value = f"DEFAULT_{name}"
            else:
                continue  # the class has it
        elif each.in_init:
            parameters.append(name)
        else:
            continue
        if frozen:
            place = getattr(made, name, None)
            if isinstance(place, MemberDescriptorType):
                names[f"SET_{name}"] = place.__set__
                lines.append(f"SET_{name}(SELF, {value})")
            else:
                lines.append(f"OBJECT_SET(SELF, {name!r}, {value})")
        else:
            lines.append(f"SELF.{name} = {value}")
    if hasattr(made, "__post_init__"):
        lines.append("SELF.__post_init__()")
    names["OBJECT_SET"] = object.__setattr__
    text = f"def __init__({', '.join(['SELF', *parameters])}):\n " + "\n ".join(lines or ["pass"])
    exec(text, names)  # what the standard module does, with the same text
    written = names["__init__"]
    written.__qualname__ = f"{made.__qualname__}.__init__"
    written.__module__ = made.__module__
    return written


# ---------------------------------------------------------------- for the functions of the standard module


class _Standard:
    """`__dataclass_fields__` and `__dataclass_params__` of a class: those of a standard dataclass with the same fields,
    which is made the first time that somebody looks at one. Only the second of them asks for methods, which take
    long to make."""

    def __init__(self, name: str, made: type[Any], declared: Mapping[str, _Declared], **options: bool) -> None:
        self.name, self.made, self.declared = name, made, declared
        bare = {"init": False, "repr": False, "eq": False}
        self.options = bare if name == "__dataclass_fields__" else options

    def __get__(self, _instance: object, _owner: object) -> Any:
        fields: list[Any] = [
            (name, each.annotation) if each.given is MISSING else (name, each.annotation, each.given)
            for name, each in self.declared.items()
        ]
        make: Callable[..., Any] = make_dataclass
        found = getattr(make(self.made.__name__, fields, namespace={"__doc__": ""}, **self.options), self.name)
        setattr(self.made, self.name, found)
        return found
