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
from typing import Any, NamedTuple, TypeVar, cast, dataclass_transform, overload

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


class _Declared(NamedTuple):
    """A field as its class declares it. given: what stands behind the equals sign, a `Field` or MISSING."""

    annotation: Any
    given: Any

    def says(self, argument: str, otherwise: Any = True) -> Any:
        """What the field's `Field` has as this argument, where it has one."""
        has_one = isinstance(self.given, Field)
        return getattr(self.given, argument) if has_one else otherwise

    @property
    def is_hashed(self) -> bool:
        by_itself = self.says("hash")
        return self.says("compare") if by_itself is None else by_itself

    @property
    def default(self) -> Any:
        """The value of the field where none is given, MISSING if there is none."""
        return self.says("default", self.given)

    @property
    def factory(self) -> Any:
        """What makes that value, or MISSING."""
        return self.says("default_factory", MISSING)


def _made(cls: _Class, frozen: bool, slots: bool, eq: bool, unsafe_hash: bool) -> _Class:
    own: Mapping[str, Any] = cls.__dict__
    declared: dict[str, _Declared] = {}
    inherited: set[str] = set()
    for base in cls.__mro__[-2:0:-1]:
        declared.update(base.__dict__.get(_FIELDS, ()))
        inherited.update(base.__dict__.get("__slots__", ()))
    new: dict[str, _Declared] = {}
    for name, annotation in cls.__annotations__.items():
        if not str(annotation).startswith("ClassVar"):
            new[name] = _Declared(annotation, own.get(name, MISSING))
            if type(new[name].default).__hash__ is None:
                raise ValueError(f"a mutable default, {new[name].default!r}: use field(default_factory=...)")
    declared.update(new)
    members = _members(own, declared, frozen, eq, unsafe_hash)

    def __init__(self: Any, *given: Any, **named: Any) -> None:
        written = _written_init(made, declared, frozen, slots)
        made.__init__ = written  # of the class that was decorated, whichever subclass the object is of
        written(self, *given, **named)

    if "__init__" not in own:
        members["__init__"] = __init__
    for name in ("__dataclass_fields__", "__dataclass_params__"):
        members[name] = _Standard(name, declared, frozen=frozen, eq=eq, unsafe_hash=unsafe_hash)
    if slots:
        kept = {name: each for name, each in own.items() if name not in new}
        kept.pop("__dict__", None)
        kept.pop("__weakref__", None)
        kept["__slots__"] = tuple([name for name in declared if name not in inherited])
        kept["__qualname__"] = cls.__qualname__
        metaclass: Any = type(cls)
        made = cast("_Class", metaclass(cls.__name__, cls.__bases__, kept | members))
    else:
        made = cls
        for name, each in new.items():
            if each.default is not MISSING:
                setattr(cls, name, each.default)
            elif name in own:
                delattr(cls, name)
        for name, member in members.items():
            setattr(cls, name, member)
    return made


def _members(
    own: Mapping[str, Any], declared: Mapping[str, _Declared], frozen: bool, eq: bool, unsafe_hash: bool
) -> dict[str, Any]:
    """What the class gets beside `__init__`. own: what it has itself, and keeps."""
    names = arguments = compared = hashed = tuple(declared)
    if any([isinstance(each.given, Field) for each in declared.values()]):
        arguments = tuple([name for name, each in declared.items() if each.says("init")])
        compared = tuple([name for name, each in declared.items() if each.says("compare")])
        hashed = tuple([name for name, each in declared.items() if each.is_hashed])
    members: dict[str, Any] = {"__match_args__": arguments, "__repr__": _repr}
    if eq:
        members["__eq__"] = _equality_of(compared)
    if frozen:
        members |= {"__getstate__": _state_of(names), "__setstate__": _restored_from(names)}
    members = {name: member for name, member in members.items() if name not in own}
    has_hash = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
    if unsafe_hash or (eq and frozen and not has_hash):
        members["__hash__"] = _hash_of(hashed)
    elif eq and not has_hash:
        members["__hash__"] = None
    if frozen:
        members |= {"__setattr__": _refuse_setting, "__delattr__": _refuse_deleting}
    members[_FIELDS] = declared
    return members


@recursive_repr()
def _repr(self: Any) -> str:
    cls = cast("type[Any]", type(self))
    declared: Mapping[str, _Declared] = getattr(cls, _FIELDS)
    shown = [f"{name}={getattr(self, name)!r}" for name, each in declared.items() if each.says("repr")]
    return f"{cls.__qualname__}({', '.join(shown)})"


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
    def __getstate__(self: Any) -> list[Any]:
        return [getattr(self, name) for name in names]

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
            if each.says("init"):
                parameters.append(f"{name}=ABSENT")
                value += f" if {name} is ABSENT else {name}"
        elif each.default is not MISSING:
            names[f"DEFAULT_{name}"] = each.default
            if each.says("init"):
                parameters.append(f"{name}=DEFAULT_{name}")
            elif slots:
                value = f"DEFAULT_{name}"
            else:
                continue  # the class has it
        elif each.says("init"):
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

    def __init__(self, name: str, declared: Mapping[str, _Declared], **options: bool) -> None:
        self.name, self.declared = name, declared
        bare = {"init": False, "repr": False, "eq": False}
        self.options = bare if name == "__dataclass_fields__" else options

    def __get__(self, _instance: object, owner: type[Any]) -> Any:
        fields: list[Any] = [
            (name, each.annotation) if each.given is MISSING else (name, each.annotation, each.given)
            for name, each in self.declared.items()
        ]
        make: Callable[..., Any] = make_dataclass
        found = getattr(make(owner.__name__, fields, namespace={"__doc__": ""}, **self.options), self.name)
        made = next(each for each in owner.__mro__ if each.__dict__.get(self.name) is self)
        setattr(made, self.name, found)
        return found
