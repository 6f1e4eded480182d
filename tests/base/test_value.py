"""Dataclasses whose methods are written late, and values that the type checker freezes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Any

import pytest

from tilewright.base.span import Span
from tilewright.base.value import dataclass, value


@value
class _Pair:
    one: int
    two: str = "two"


@value
class _Triple(_Pair):
    three: int = 3


def test_values_are_equal_and_hashed_by_their_fields() -> None:
    assert _Pair(1) == _Pair(1, "two") != _Pair(2)
    assert hash(_Pair(1)) == hash(_Pair(1, "two"))
    assert {Span("file", 1), Span("file", 1), Span("file", 2)} == {Span("file", 2), Span("file", 1)}


def test_a_value_of_another_class_is_not_equal() -> None:
    assert _Pair(1) != _Triple(1)
    assert _Triple(1).two == "two"


def test_values_have_slots_and_can_be_replaced() -> None:
    one = _Pair(1)
    assert replace(one, two="other") == _Pair(1, "other")
    assert one == _Pair(1)
    with pytest.raises(AttributeError):
        object.__setattr__(one, "three", 3)


def _made(decorate: Any) -> type[Any]:
    @decorate(frozen=True, slots=True)
    class Held:
        """A class."""

        first: int
        second: list[int] = field(default_factory=list[int])
        third: str = "three"
        computed: int = field(init=False, compare=False, repr=False)
        kept: int = field(default=7, init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "computed", 2 * self.first)

    return Held


def test_a_dataclass_is_as_the_standard_librarys() -> None:
    ours, theirs = _made(dataclass), _made(dataclasses.dataclass)
    for cls in (ours, theirs):
        assert [each.name for each in fields(cls)] == ["first", "second", "third", "computed", "kept"]
        assert cls.__match_args__ == ("first", "second", "third")
        assert cls.__slots__ == ("first", "second", "third", "computed", "kept")
        one = cls(1, third="x")
        assert (one.first, one.second, one.third, one.computed, one.kept) == (1, [], "x", 2, 7)
        assert cls(1).second is not cls(1).second
        assert cls(1) == cls(1) != cls(2)
        assert cls(1) != (1, [], "three", 7)
        assert replace(one, first=3).computed == 6
        assert copy.deepcopy(one) == one
        with pytest.raises(FrozenInstanceError):
            one.first = 2
        with pytest.raises(FrozenInstanceError):
            del one.first
        wrong: list[tuple[tuple[Any, ...], dict[str, int]]] = [((), {}), ((1, [], "x", 4), {}), ((1,), {"kept": 1})]
        for given, named in wrong:
            with pytest.raises(TypeError):
                cls(*given, **named)
    assert repr(ours(1)) == repr(theirs(1))
    assert hash(ours(1, ())) == hash(theirs(1, ()))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _Kept:
    one: int
    two: tuple[int, ...] = ()


@dataclass(slots=True)
class _Changing:
    one: int

    def __repr__(self) -> str:
        return "mine"


@dataclass(eq=False)
class _Itself:
    one: int


def test_frozen_objects_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(_Kept(1, (2,)))) == _Kept(1, (2,))


def test_what_a_class_defines_itself_stays() -> None:
    assert repr(_Changing(1)) == "mine"


def test_only_what_never_changes_is_hashed() -> None:
    changing = _Changing(1)
    changing.one = 2
    assert changing == _Changing(2)
    assert isinstance(hash(_Kept(1)), int)
    with pytest.raises(TypeError):
        hash(changing)


def test_without_equality_objects_are_themselves() -> None:
    one = _Itself(1)
    assert one != _Itself(1)
    assert len({one, _Itself(1)}) == 2


def test_a_method_is_written_when_it_is_called_first() -> None:
    cls = _made(dataclass)
    before = cls.__init__
    cls(1)
    assert cls.__init__ is not before
    written = cls.__init__
    cls(2)
    assert cls.__init__ is written
