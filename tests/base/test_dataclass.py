"""The package's dataclasses against the standard module's, method by method."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

from tilewright.base.dataclass import dataclass
from tilewright.base.span import Span

_OPTIONS = [
    {"frozen": frozen, "slots": slots, "eq": eq, "unsafe_hash": unsafe_hash}
    for frozen in (False, True)
    for slots in (False, True)
    for eq in (False, True)
    for unsafe_hash in (False, True)
]


def _pair(make: Callable[..., Any], options: dict[str, bool]) -> tuple[type[Any], type[Any]]:
    """A class with every kind of field, and one that inherits from it."""

    class Record:
        shared: ClassVar[int] = 7
        first: int
        second: str = "two"
        third: list[int] = field(default_factory=list)
        hidden: int = field(default=4, repr=False)
        aside: int = field(default=5, compare=False)
        unhashed: int = field(default=6, hash=False)
        derived: int = field(init=False)
        fixed: int = field(init=False, default=8)

        def __post_init__(self) -> None:
            object.__setattr__(self, "derived", self.first + 1)

    record = make(**options)(Record)

    class Longer(record):
        second: str = "another"
        last: tuple[int, ...] = ()

    return record, make(**options)(Longer)


@pytest.mark.parametrize("options", _OPTIONS, ids=str)
def test_objects_behave_as_those_of_the_standard_module(options: dict[str, bool]) -> None:
    for ours, standard in zip(_pair(dataclass, options), _pair(dataclasses.dataclass, options), strict=True):
        for arguments in ({"first": 1}, {"first": 1, "second": "b", "third": [3], "aside": 9, "hidden": 1}):
            a, b = ours(**arguments), standard(**arguments)
            assert repr(a) == repr(b)
            assert (a == ours(**arguments)) == (b == standard(**arguments))
            assert (a == ours(**arguments | {"aside": 0})) == (b == standard(**arguments | {"aside": 0}))
            assert (a == ours(**arguments | {"hidden": 0})) == (b == standard(**arguments | {"hidden": 0}))
            assert a != object() and a != b
            assert dataclasses.asdict(a) == dataclasses.asdict(b)
            assert repr(dataclasses.replace(a, first=5)) == repr(dataclasses.replace(b, first=5))
            assert repr(copy.copy(a)) == repr(copy.copy(b))
            assert ours.__match_args__ == standard.__match_args__
            assert (ours.__hash__ is None) == (standard.__hash__ is None)
            assert hasattr(a, "__dict__") == hasattr(b, "__dict__")
            assert [each.name for each in dataclasses.fields(ours)] == [e.name for e in dataclasses.fields(standard)]
            assert dataclasses.is_dataclass(ours) and ours.shared == 7
        assert ours(1).third is not ours(1).third
        for wrong in ({}, {"first": 1, "fourth": 2}, {"first": 1, "derived": 2}):
            for cls in (ours, standard):
                with pytest.raises(TypeError):
                    cls(**wrong)


@dataclass(frozen=True, slots=True)
class _Point:
    x: int
    y: int = 0


@dataclass(frozen=True, slots=True)
class _One:
    values: object


def test_equal_objects_have_equal_hashes_and_those_of_the_standard_module() -> None:
    standard = dataclasses.make_dataclass("Point", [("x", int), ("y", int)], frozen=True)
    assert hash(_Point(1)) == hash(_Point(1, 0)) == hash(standard(1, 0))
    assert hash(_One("a")) == hash(("a",))


def test_a_field_is_compared_as_an_item_of_a_tuple() -> None:
    """So what is the same object is equal, whatever it says of itself."""
    nan = float("nan")
    assert _One(nan) == _One(nan) != _One(float("nan"))


def test_frozen_objects_refuse_and_say_which_field() -> None:
    point = _Point(1)
    with pytest.raises(FrozenInstanceError, match="'x'"):
        point.x = 2  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(FrozenInstanceError, match="'x'"):
        del point.x
    with pytest.raises(FrozenInstanceError):
        vars(type(point))["__setattr__"](point, "z", 3)


def test_objects_go_to_other_processes_and_come_back() -> None:
    assert pickle.loads(pickle.dumps(_Point(1, 2))) == _Point(1, 2)
    assert pickle.loads(pickle.dumps(Span("file", 3))) == Span("file", 3)
    assert copy.deepcopy(_One([1])) == _One([1])


def test_what_a_class_defines_itself_stays() -> None:
    @dataclass(frozen=True)
    class Own:
        x: int

        def __init__(self) -> None:
            object.__setattr__(self, "x", 3)

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 11

        def __repr__(self) -> str:
            return "own"

    assert (Own().x, hash(Own()), repr(Own())) == (3, 11, "own")
    assert Own() == 3


def test_a_subclass_that_is_none_may_come_first() -> None:
    """The `__init__` that is written when an object is first made belongs to the class that declares the fields."""

    @dataclass(slots=True)
    class Base:
        x: int

    class Derived(Base):
        __slots__ = ()

        def __init__(self) -> None:
            super().__init__(1)

    assert (Derived().x, Base(2).x, Derived().x) == (1, 2, 1)


def test_a_standard_dataclass_may_inherit() -> None:
    @dataclasses.dataclass(frozen=True)
    class Longer(_Point):
        z: int = 3

    assert repr(Longer(1)).endswith("Longer(x=1, y=0, z=3)")


def test_patterns_match_by_position() -> None:
    match _Point(1, 2):
        case _Point(x, y):
            assert (x, y) == (1, 2)


def test_a_mutable_default_is_refused() -> None:
    wrong = type("Wrong", (), {"__annotations__": {"x": "list[int]"}, "x": []})
    with pytest.raises(ValueError, match="mutable default"):
        dataclass(wrong)


def test_no_text_is_compiled_before_an_object_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    real = exec
    monkeypatch.setattr("builtins.exec", lambda text, *names: (compiled.append(text), real(text, *names))[1])

    @dataclass(frozen=True, slots=True)
    class Lazy:
        x: int

    assert not compiled
    assert Lazy(1) == Lazy(1) and repr(Lazy(1)).endswith("(x=1)")
    assert len(compiled) == 1
