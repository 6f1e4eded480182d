"""How an element-by-element kernel takes runs of consecutive elements: wide loads at any alignment, wide stores.

A thread takes `run` neighbouring points of the last extent, whose elements lie together in the destination and fill
one or more units of 16 bytes there, aligned. In a source they lie together too, where its last axis is dense, but may
begin at any element: rows of an odd pitch begin everywhere (`lower.points.wide_loads`). A source that is not dense
along the last axis is read element by element, one that does not depend on it once.

Two runs are in flight in each thread: all wide loads are issued before anything waits for one.
Where the next launch reads what is stored, and the L2 cache holds that, stores ask the cache to keep it, and wide loads
ask it to give up theirs first: hints, which change no value.
Source: PTX ISA, st: vectors are aligned to their size; createpolicy, a hint alone.
Checked by: tests/lower/points/test_runs.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.decisions import RUN_BYTES
from tilewright.lower.points.elementwise import affine_index, divided
from tilewright.lower.points.wide_loads import WORD_BYTES, WideLoad, arrived, issue_wide, widened
from tilewright.lower.ptx.copies.global_access import ELEMENT_BYTES, displaced_address, indices_of, load_as_float
from tilewright.lower.ptx.emit import Text
from tilewright.lower.ptx.lowering import integers
from tilewright.lower.ptx.numbers import int8
from tilewright.lower.ptx.numbers.float8 import PTX_NAMES, pack_bytes
from tilewright.lower.ptx.numbers.scalar_region import lower_scalar_op, scalar_register
from tilewright.lower.ptx.places import GlobalPlace, IndexPlace, Places, ScalarPlace
from tilewright.lower.ptx.run_time import fixed_sizes

_UNROLL = 2
_WHOLE = "1.0"
"""Of what a policy is asked for: all."""
_PRIORITIES = ("evict_first", "evict_last")
"""Of the L2 cache, for wide loads and for stores."""


@dataclass(frozen=True, slots=True)
class _Policies:
    """Registers of cache policies, for wide loads and for stores; empty where there are none."""

    load: str = ""
    store: str = ""


def lower_runs(text: Text, places: Places, op: ac.ElementwiseOp, run: int, thread: str) -> None:
    """Emit the loops over the op's extents, `run` points of the last one at a time (it is a multiple of `run`)."""
    extents = fixed_sizes(op.extents)
    counts = (*extents[:-1], extents[-1] // run)
    total = math.prod(counts)
    ends = _array_ends(text, places, op)
    policies = _policies(text, op)
    block = text.into("b32", "mov.u32", "%ntid.x")
    first = text.into("b32", "mad.lo.u32", text.into("b32", "mov.u32", "%ctaid.x"), block, thread)
    stride = text.into("b32", "mul.lo.u32", text.into("b32", "mov.u32", "%nctaid.x"), block)
    linear = text.into("b32", "mov.u32", first)
    step = text.into("b32", "mul.lo.u32", stride, _UNROLL)
    for unroll, advance in ((_UNROLL, step), (1, stride)):
        head, end = text.label("runs"), text.label("runs_end")
        text.place(head)
        text.emit("bra", end, guard=text.into("pred", "setp.ge.u32", linear, total))
        numbers = [linear]
        if unroll > 1:
            left = text.into("b32", "sub.u32", total, linear)
            text.emit("bra", end, guard=text.into("pred", "setp.ge.u32", stride, left))
            numbers.append(text.into("b32", "add.u32", linear, stride))
        runs = [_begin(text, places, op, run, _decode(text, number, counts, run), ends, policies) for number in numbers]
        for values, loads in runs:
            _finish(text, values, op, run, loads, policies)
        text.emit("add.u32", linear, linear, advance)
        text.emit("bra", head)
        text.place(end)


def _policies(text: Text, op: ac.ElementwiseOp) -> _Policies:
    if op.kept is None or not op.kept.data:
        return _Policies()
    return _Policies(*(text.into("b64", f"createpolicy.fractional.L2::{which}.b64", _WHOLE) for which in _PRIORITIES))


def _decode(text: Text, linear: str, counts: tuple[int, ...], run: int) -> list[str]:
    """The indices of the run's first point, outermost first."""
    indices = indices_of(text, linear, counts[1:])
    indices[-1] = text.into("b32", "mul.lo.u32", indices[-1], run)
    return indices


def _array_ends(text: Text, places: Places, op: ac.ElementwiseOp) -> dict[SSAValue, str]:
    """A register with the address just behind each array that is read."""
    ends: dict[SSAValue, str] = {}
    for inner in op.body.block.ops:
        if isinstance(inner, ac.ElementLoadOp) and inner.source not in ends:
            source = places[inner.source]
            assert isinstance(source, GlobalPlace)
            shape = tuple(extent for extent in source.shape if isinstance(extent, int))
            assert len(shape) == len(source.shape), "an array of which only the launch knows the end"
            sides = zip(shape, source.strides, strict=True)
            length = text.into("b64", "mov.u64", array_bytes(sides, source.element))
            ends[inner.source] = text.into("b64", "add.s64", source.register, length)
    return ends


def array_bytes(sides: Iterable[tuple[int, int]], element: str) -> int:
    """Bytes from an array's first element to behind its last. sides: extents and strides, in elements."""
    last = sum((extent - 1) * stride for extent, stride in sides)
    return (1 + last) * ELEMENT_BYTES[element]


# ---------------------------------------------------------------- loads


@dataclass(frozen=True, slots=True)
class _Elements:
    """A run as float32 registers, one for each element."""

    registers: list[str]


_Loads = dict[SSAValue, WideLoad | _Elements]


def _begin(
    text: Text,
    places: Places,
    op: ac.ElementwiseOp,
    run: int,
    indices: list[str],
    ends: dict[SSAValue, str],
    policies: _Policies,
) -> tuple[Places, _Loads]:
    """Index arithmetic and the issue of every load of one run."""
    values: Places = dict(places)
    last = op.body.block.args[-1]
    for argument, register in zip(op.body.block.args, indices, strict=True):
        values[argument] = IndexPlace(register)
    steps: dict[SSAValue, int] = {argument: int(argument is last) for argument in op.body.block.args}
    loads: _Loads = {}
    for inner in op.body.block.ops:
        match inner:
            case ac.AffineOp():
                values[inner.result] = IndexPlace(affine_index(text, values, inner))
                coefficients = integers(inner.coefficients)
                steps[inner.result] = sum(
                    factor * steps[operand] for factor, operand in zip(coefficients, inner.operands_, strict=True)
                )
            case ac.IndexDivideOp():
                # A run begins at a multiple of its length, so that it lies in one block where blocks are multiples.
                assert not steps[inner.operand] or (inner.operand is last and inner.size.data % run == 0)
                values[inner.result] = IndexPlace(divided(text, values, inner))
                steps[inner.result] = 0
            case ac.ElementLoadOp():
                loads[inner.result] = _issue(text, values, inner, run, steps, ends[inner.source], policies)
            case _:
                pass
    return values, loads


def _issue(
    text: Text,
    values: Places,
    op: ac.ElementLoadOp,
    run: int,
    steps: dict[SSAValue, int],
    end: str,
    policies: _Policies,
) -> WideLoad | _Elements:
    source = values[op.source]
    assert isinstance(source, GlobalPlace)
    element_bytes = ELEMENT_BYTES[source.element]
    check = bool(op.fill.data)
    address = source.register
    step, inside = 0, ""
    moving: list[tuple[str, int, int | str]] = []
    for index, extent, stride in zip(op.indices, source.shape, source.strides, strict=True):
        place = values[index]
        assert isinstance(place, IndexPlace)
        address = displaced_address(text, address, place.register, stride * element_bytes)
        step += steps[index] * stride
        if steps[index]:
            moving.append((place.register, steps[index], extent))
        elif check:
            # As unsigned, so that a negative index is outside too.
            fits = text.into("pred", "setp.lt.u32", place.register, extent)
            inside = text.into("pred", "and.pred", inside, fits) if inside else fits
    if not moving:
        value = load_as_float(text, source, f"[{address}]", inside)
        return _Elements([value] * run)
    guards = [_guard(text, moving, number, inside) if check else "" for number in range(run)]
    if step != 1:
        return _Elements(
            [
                load_as_float(text, source, f"[{address}+{number * step * element_bytes}]", guard)
                for number, guard in enumerate(guards)
            ]
        )
    return issue_wide(text, source, address, end, guards, run * element_bytes, policies.load)


def _guard(text: Text, moving: list[tuple[str, int, int | str]], number: int, inside: str) -> str:
    """Whether element `number` of the run lies inside the array along every axis."""
    for register, step, extent in moving:
        index = text.into("b32", "add.s32", register, number * step) if number else register
        fits = text.into("pred", "setp.lt.u32", index, extent)
        inside = text.into("pred", "and.pred", inside, fits) if inside else fits
    return inside


# ---------------------------------------------------------------- values and stores


def _finish(text: Text, values: Places, op: ac.ElementwiseOp, run: int, loads: _Loads, policies: _Policies) -> None:
    """What is computed from a run's loads, and its stores."""
    packed = {value: arrived(text, load, run) for value, load in loads.items() if isinstance(load, WideLoad)}
    stores = [inner for inner in op.body.block.ops if isinstance(inner, ac.ElementStoreOp)]
    if all(_is_copy(store, loads, values) for store in stores):
        for store in stores:
            _store_words(text, values, store, packed[store.value], policies.store)
        return
    registers: dict[SSAValue, list[str]] = {}
    for value, load in loads.items():
        match load:
            case _Elements(already):
                registers[value] = already
            case WideLoad():
                registers[value] = widened(text, load.source.element, packed[value])
    results: dict[ac.ElementStoreOp, list[str]] = {store: [] for store in stores}
    for number in range(run):
        lane: Places = dict(values)
        for value, elements in registers.items():
            lane[value] = ScalarPlace(elements[number])
        for inner in op.body.block.ops:
            match inner:
                case ac.AffineOp() | ac.IndexDivideOp() | ac.ElementLoadOp():
                    pass
                case ac.ElementStoreOp():
                    results[inner].append(scalar_register(lane, inner.value))
                case _:
                    if not lower_scalar_op(text, lane, inner):
                        raise AssertionError(f"{inner.name} cannot stand in an element-by-element body")
    for store, elements in results.items():
        destination = values[store.destination]
        assert isinstance(destination, GlobalPlace)
        _store_words(text, values, store, narrowed(text, destination.element, elements), policies.store)


def _is_copy(store: ac.ElementStoreOp, loads: _Loads, values: Places) -> bool:
    """True if the store's value is a wide load's, of the same element: then its words go as they came."""
    load = loads.get(store.value)
    destination = values[store.destination]
    assert isinstance(destination, GlobalPlace)
    return isinstance(load, WideLoad) and load.source.element == destination.element


def narrowed(text: Text, element: str, registers: list[str]) -> list[str]:
    """float32 registers rounded to the element and packed into 32-bit words; registers of integers as they are."""
    if element == "i32":
        return registers
    if element == "f32":
        return [text.into("b32", "mov.b32", register) for register in registers]
    if element == "i8":
        return [int8.pack_bytes(text, registers[at : at + 4]) for at in range(0, len(registers), 4)]
    if element in PTX_NAMES:
        return [pack_bytes(text, element, registers[at : at + 4]) for at in range(0, len(registers), 4)]
    pairs = zip(registers[::2], registers[1::2], strict=True)
    return [text.into("b32", f"cvt.rn.{element}x2.f32", high, low) for low, high in pairs]


def _store_words(text: Text, values: Places, op: ac.ElementStoreOp, words: list[str], policy: str) -> None:
    destination = values[op.destination]
    assert isinstance(destination, GlobalPlace)
    address = destination.register
    for index, stride in zip(op.indices, destination.strides, strict=True):
        place = values[index]
        assert isinstance(place, IndexPlace)
        address = displaced_address(text, address, place.register, stride * ELEMENT_BYTES[destination.element])
    per_unit = RUN_BYTES // WORD_BYTES
    for first in range(0, len(words), per_unit):
        unit = f"{{{', '.join(words[first : first + per_unit])}}}"
        hint, policies = (".L2::cache_hint", [policy]) if policy else ("", [])
        text.emit(f"st.global{hint}.v4.b32", f"[{address}+{first * WORD_BYTES}]", unit, *policies)
