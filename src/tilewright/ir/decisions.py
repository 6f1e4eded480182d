"""What the synthesiser decided about a program, as values and as an IR attribute.

`synth` writes them on the `tile.program` op (attribute `decisions`), `lower` reads them there and applies them; a
person reads them in the report. Every field is an integer, a string, a tuple, or one of these classes, so that the
conversion to attributes and back is one short function. Checked by: tests/synth/test_decide.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, StringAttr
from xdsl.ir import Attribute

from tilewright.ir.cascade import CascadeDecisions, Line, Lookup, SlotDecision, SumPlace, WalkRange
from tilewright.ir.copy_decisions import AsyncPlan, MapDecision, StoreDecision
from tilewright.ir.exchange import ExchangePlan
from tilewright.ir.group_rows import GroupDecision
from tilewright.ir.rows import RowDecision
from tilewright.ir.tile_stream import TileStream
from tilewright.ir.transpose import TRANSPOSE_CLASSES, TransposeDecision

ROWS_BYTES = 8192
"""Shared memory of a warpgroup whose warps store along rows: 16 rows of 128 bytes for each of four warps."""
RUN_BYTES = 16
"""What one thread copies at once into a workspace: a vector access of 128 bits. Rows there are multiples of it."""


@dataclass(frozen=True, slots=True)
class ElementwiseDecisions:
    """A program without dot: `ctas` CTAs of `threads` threads share the points of the grid. transpose: one, if loads
    run along another axis than stores, so that warps turn tiles. rows: one, if points are folded along an axis. order:
    in which the nodes of `ir.expression_nodes` are emitted for a point, empty for all loads first. programmatic: 1 if
    the kernel is launched while the one before it still runs, waits for it, and then lets the next one begin;
    releases_first: 1 if it lets the next one begin before it waits. run:
    neighbouring points that a thread takes together, of rows that are filled to whole runs; kept: 1 if the launch after
    it reads what it stores in runs, and the L2 cache is to keep that. launch_registers: most of a thread, 0 if the
    assembler chooses."""

    ctas: int
    threads: int
    reasons: tuple[str, ...]
    transpose: tuple[TransposeDecision, ...] = ()
    order: tuple[int, ...] = ()
    rows: tuple[RowDecision, ...] = ()
    programmatic: int = 0
    releases_first: int = 0
    run: int = 1
    kept: int = 0
    launch_registers: int = 0


Decisions = ElementwiseDecisions | CascadeDecisions

_CLASSES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        MapDecision,
        StoreDecision,
        AsyncPlan,
        GroupDecision,
        ElementwiseDecisions,
        CascadeDecisions,
        WalkRange,
        SumPlace,
        Line,
        SlotDecision,
        Lookup,
        TileStream,
        RowDecision,
        *TRANSPOSE_CLASSES,
    )
}


def turned_arrays(decisions: Decisions) -> frozenset[str]:
    """The arrays that leave in boxes along the accumulator's rows."""
    stores = () if isinstance(decisions, ElementwiseDecisions) else decisions.stores
    return frozenset(each.parameter for each in stores if each.turned)


def to_attribute(value: Any) -> Attribute:
    """Decisions as an attribute: dictionaries keyed by field, with the class's name under `class`."""
    if isinstance(value, int):
        return IntAttr(value)
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, tuple):
        return ArrayAttr([to_attribute(item) for item in cast("tuple[Any, ...]", value)])
    if is_dataclass(value) and type(value).__name__ in _CLASSES:
        entries: dict[str, Attribute] = {"class": StringAttr(type(value).__name__)}
        for item in fields(value):
            entries[item.name] = to_attribute(getattr(value, item.name))
        return DictionaryAttr(entries)
    raise TypeError(f"a decision cannot hold {value!r}")


# Each box of a tile is staged by one of a few plans.
@lru_cache(maxsize=64)
def exchange_attribute(plan: ExchangePlan) -> Attribute:
    """`to_attribute` of a plan; nothing in an attribute changes, so one does for all operations that follow it."""
    return to_attribute(plan)


def _from_attribute(attribute: Attribute) -> Any:
    match attribute:
        case IntAttr():
            return attribute.data
        case StringAttr():
            return attribute.data
        case ArrayAttr():
            return tuple(_from_attribute(item) for item in attribute)
        case DictionaryAttr():
            entries: Mapping[str, Attribute] = attribute.data
            values = {name: _from_attribute(entry) for name, entry in entries.items()}
            return _CLASSES[values.pop("class")](**values)
        case _:
            raise TypeError(f"{attribute} is no decision")


class _Same:
    """An attribute that is equal to itself alone: nothing in an attribute changes, and to compare all of it takes as
    long as to read it."""

    __slots__ = ("attribute",)

    def __init__(self, attribute: Attribute) -> None:
        self.attribute = attribute

    def __hash__(self) -> int:
        return id(self.attribute)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.attribute is self.attribute


# A compilation asks for the same few plans and decisions again and again.
@lru_cache(maxsize=64)
def _read(same: _Same) -> Any:
    return _from_attribute(same.attribute)


def decisions_of(attribute: Attribute) -> Decisions:
    """The decisions an attribute holds. Raises TypeError or KeyError if it holds none."""
    value = _read(_Same(attribute))
    if not isinstance(value, Decisions):
        raise TypeError(f"{attribute} holds no decisions")
    return value


def exchange_of(attribute: Attribute) -> ExchangePlan:
    """The plan that an attribute holds. Raises TypeError or KeyError if it holds none."""
    value = _read(_Same(attribute))
    if not isinstance(value, ExchangePlan):
        raise TypeError(f"{attribute} holds no plan of an exchange")
    return value


def transpose_of(attribute: Attribute) -> TransposeDecision:
    """The turning of tiles that an attribute holds. Raises TypeError or KeyError if it holds none."""
    value = _from_attribute(attribute)
    if not isinstance(value, TransposeDecision):
        raise TypeError(f"{attribute} holds no turning of tiles")
    return value


def rows_of(attribute: Attribute) -> RowDecision:
    """The sharing of rows that an attribute holds. Raises TypeError or KeyError if it holds none."""
    value = _from_attribute(attribute)
    if not isinstance(value, RowDecision):
        raise TypeError(f"{attribute} holds no sharing of rows")
    return value


def to_json(value: Any) -> Any:
    """Decisions as plain JSON values."""
    if is_dataclass(value):
        return {item.name: to_json(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, tuple):
        return [to_json(item) for item in cast("tuple[Any, ...]", value)]
    return value
