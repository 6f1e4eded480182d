"""How an epilogue reads a matrix two neighbouring columns at a time, at the accumulator's places.

A thread holds pairs of neighbouring columns of each of its rows (PTX ISA, wgmma register fragments), so one access
brings two numbers. The address of a row is found once; columns are constant distances from it. Whether pairs are
aligned and lie inside the array or outside as a whole was decided before, and `contract` sees to it.
Checked by: tests/lower/fragment/test_paired_loads.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.lower.ptx.copies.global_access import (
    ELEMENT_BYTES,
    constant_address,
    displaced_address,
    element_address,
)
from tilewright.lower.ptx.emit import Text, float_literal
from tilewright.lower.ptx.numbers.scalar import widen
from tilewright.lower.ptx.places import LoadedFragmentPlace


@dataclass(slots=True)
class PairedRows:
    """What was found of rows: address of this thread's first column and whether the row lies inside, by fragment and
    row; whether a column does, by fragment and column."""

    rows: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict[tuple[int, int], "tuple[str, str]"])


def load_pair(
    text: Text,
    found: PairedRows,
    fragment: LoadedFragmentPlace,
    number: int,
    origin: dict[str, str],
    place: tuple[int, int],
) -> tuple[str, str]:
    """float32 registers of the numbers at a row and an even column and the next; 0 outside.

    number: of the fragment; origin: registers of this thread's first row and column, by axis; place: distances from
    there.
    """
    source, (row, column) = fragment.source, place
    size = ELEMENT_BYTES[source.element]
    if (number, row) not in found.rows:
        index = text.into("b32", "add.s32", origin["m"], row)
        # As unsigned, so that a negative index is outside too.
        inside = text.into("pred", "setp.lt.u32", index, source.shape[0])
        first = element_address(text, source.register, index, source.steps[0], size)
        found.rows[number, row] = (displaced_address(text, first, origin["n"], size), inside)
    first, inside = found.rows[number, row]
    index = text.into("b32", "add.s32", origin["n"], column)
    fits = text.into("pred", "setp.lt.u32", index, source.shape[1])
    guard = text.into("pred", "and.pred", inside, fits)
    address = constant_address(text, first, column * size)
    if source.element == "f32":
        low, high = (text.into("f32", "mov.f32", float_literal(0.0)) for _ in range(2))
        text.emit(f"{source.load}.v2.f32", f"{{{low}, {high}}}", address, guard=guard)
        return low, high
    word = text.into("b32", "mov.b32", 0)
    text.emit(f"{source.load}.b32", word, address, guard=guard)
    if source.element == "bf16":
        low = text.into("f32", "mov.b32", text.into("b32", "shl.b32", word, 16))
        return low, text.into("f32", "mov.b32", text.into("b32", "and.b32", word, 0xFFFF0000))
    halves = text.register("b16"), text.register("b16")
    text.emit("mov.b32", f"{{{halves[0]}, {halves[1]}}}", word)
    return widen(text, source.element, halves[0]), widen(text, source.element, halves[1])
