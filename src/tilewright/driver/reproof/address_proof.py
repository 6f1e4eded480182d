"""Do the shared-memory addresses of emitted text equal the layout they came from, in every thread and every iteration?

What is proved, for each bulk tensor store of a kernel: what threads staged before it lies where the tensor map's box
expects it. Element (row, column) of the accumulator's fragment stands at `swizzle(row * pitch + column * bytes)` from
the store's own address: the box's layout as the map has it, a `Layout`. The text is followed back from each store to
shared memory: its address as a form of thread and symbols (`driver.reproof.thread_form`), its data to the accumulator
registers of wgmma, so that value, lane and address are tied together by the ISA's fragments
(`machine.tensor_core.fragment`). Both are exact for every thread, for all symbols and all iterations; a difference is a
counterexample of thread, value, row and column. That every byte of the box is written once is checked too. Through maps
that the decisions call turned, memory runs along the accumulator's rows: a box is of one block's 64 rows, and its lines
are the accumulator's columns.

Where an element comes from several values of one block of an accumulator (products side by side), all elements of the
store must, from values as far apart; the element's place is that of the first.

Anything else ends as `NotDecided`: data that comes from no accumulator value, addresses that depend on a loop's
counter, boxes that are no matrix. Not proved here: coordinates in the array, which descriptor gave a block of rows,
order and visibility (the contract's matter).
Source: PTX ISA, wgmma register fragments, stmatrix, tensor swizzling modes.
Checked by: tests/driver/reproof/test_address_proof.py, with mutated texts that must be refuted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.base.plan import Launch, TensorMap, TensorMapParam
from tilewright.base.span import Span
from tilewright.driver.reproof.thread_form import NoForm, ThreadForm, ThreadForms, Truths, active_threads
from tilewright.frontends.ptx.ast import Address, Instruction, Kernel, Module, Register, Symbol, TensorAddress, Vector
from tilewright.layout.answer import NotDecided
from tilewright.layout.layout import Layout
from tilewright.layout.swizzle import Swizzle
from tilewright.machine.copy.swizzle import SPAN_BYTES
from tilewright.machine.protocol.slicing.slice import Text
from tilewright.machine.protocol.slicing.slice_operands import kind_of
from tilewright.machine.tensor_core.fragment import accumulator_coordinates, matrix_fragment

_WARPGROUP = 128
_BLOCK_VALUES = 128
_BLOCK_ROWS = 64
_HALF_PAIRS = frozenset({"bf16x2", "f16x2"})
_BYTE_PAIRS = frozenset({"e4m3x2", "e5m2x2"})
_MASK = (1 << 32) - 1
_SWIZZLES = {"none": None, "32B": Swizzle(1, 4, 3), "64B": Swizzle(2, 4, 3), "128B": Swizzle(3, 4, 3)}


@dataclass(frozen=True, slots=True)
class SameAddresses:
    """Every staged element of a bulk store stands where the layout says. elements: how many, of all threads."""

    layout: Layout
    elements: int

    def __str__(self) -> str:
        return f"{self.elements} elements stand where {self.layout} says, in every thread and iteration"


@dataclass(frozen=True, slots=True)
class OtherAddress:
    """A counterexample. thread: of the block; value: of the accumulator that it stores, 128 for each block of 64 rows;
    row, column: of that element in the box; wanted, found: bytes from the box's begin, found modulo 2**32. span: of the
    store to shared memory."""

    layout: Layout
    thread: int
    value: int
    row: int
    column: int
    wanted: int
    found: int
    span: Span

    def __str__(self) -> str:
        return (
            f"thread {self.thread} stores value {self.value}, row {self.row}, column {self.column} of the box, at byte "
            f"{self.found}; {self.layout} says {self.wanted}"
        )


AddressVerdict: TypeAlias = SameAddresses | OtherAddress | NotDecided


@dataclass(frozen=True, slots=True)
class StagedStore:
    """One bulk tensor store. entry: of the kernel; map_name: its parameter; span: of the store."""

    entry: str
    map_name: str
    span: Span
    verdict: AddressVerdict

    def __str__(self) -> str:
        return f"{self.entry}, store through {self.map_name or 'a map'}: {self.verdict}"


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """A kernel as it is read. active: by block, the threads that may run it; accumulators: the registers of wgmma's D,
    numbered 128 times their block of 64 rows plus their place."""

    forms: ThreadForms
    active: list[NDArray[np.bool_]]
    accumulators: Mapping[str, int]

    @property
    def text(self) -> Text:
        return self.forms.text

    @property
    def items(self) -> tuple[Instruction, ...]:
        return self.forms.text.flow.instructions


@dataclass(frozen=True, slots=True, eq=False)
class _Staged:
    """Elements that one instruction stores. address: bytes, by thread and element; values: of the accumulator, by
    element, the storing thread's own, the first where there are several; apart: how far the others are from the first,
    each way that occurs; form: of the address operand."""

    address: NDArray[np.int64]
    values: tuple[int, ...]
    apart: frozenset[tuple[int, ...]]
    form: ThreadForm
    item: Instruction


class _Undecided(Exception):
    pass


def staged_stores(
    module: Module, launches: tuple[Launch, ...], turned: frozenset[str] = frozenset()
) -> tuple[StagedStore, ...]:
    """A verdict for each bulk tensor store of the launched kernels, in the text's order. turned: maps, by their arrays'
    names, whose boxes' lines are the accumulator's columns."""
    found: list[StagedStore] = []
    seen: set[str] = set()
    for launch in launches:
        kernel = next((each for each in module.kernels if each.name == launch.entry), None)
        if kernel is None or launch.entry in seen:
            continue
        seen.add(launch.entry)
        found += _of_kernel(module, kernel, launch, turned)
    return tuple(found)


def _of_kernel(module: Module, kernel: Kernel, launch: Launch, turned: frozenset[str]) -> list[StagedStore]:
    if not any(isinstance(item, Instruction) and _is_bulk_store(item) for item in kernel.body):
        return []
    shared = {each.name: each.align for each in (*module.variables, *kernel.variables) if each.space == "shared"}
    forms = ThreadForms(kernel, launch.block[0], shared)
    items = forms.text.flow.instructions
    stores = [at for at, item in enumerate(items) if _is_bulk_store(item)]
    found: list[StagedStore] = []
    reading = _reading(forms)
    begin = 0
    for at in stores:
        name = ""
        verdict: AddressVerdict
        try:
            if isinstance(reading, str):
                raise _Undecided(reading)
            name, described = _map_of(kernel, launch, forms.text, items[at])
            verdict = _judge(reading, launch, described.map, begin, at, turned=described.buffer in turned)
        except _Undecided as error:
            verdict = NotDecided(str(error), "a form of the text that this analysis follows")
        found.append(StagedStore(launch.entry, name, items[at].span, verdict))
        begin = at + 1
    return found


def _reading(forms: ThreadForms) -> _Reading | str:
    """The kernel, or why it can't be read."""
    try:
        return _Reading(forms, active_threads(forms), _accumulators(forms.text))
    except _Undecided as error:
        return str(error)


def _is_bulk_store(item: Instruction) -> bool:
    return item.row == "cp.async.bulk.tensor" and item.modifiers[1:3] == ("global", "shared::cta")


def _map_of(kernel: Kernel, launch: Launch, text: Text, item: Instruction) -> tuple[str, TensorMapParam]:
    """The tensor map that a bulk store goes through."""
    target = item.operands[0]
    if not isinstance(target, TensorAddress) or target.base.offset:
        raise _Undecided("a bulk store with an address that is no map's")
    base = target.base.base
    while isinstance(base, Register):
        places = text.definitions.get(base.name, ())
        if len(places) != 1:
            raise _Undecided(f"the map's address {base.name} is written at {len(places)} places")
        source = text.flow.instructions[places[0]]
        if source.row not in ("cvta", "mov") or source.guard is not None:
            raise _Undecided(f"the map's address comes from {source.opcode}")
        read = source.operands[1]
        if not isinstance(read, Register | Symbol):
            raise _Undecided(f"the map's address comes from {source.opcode}")
        base = read
    names = [each.name for each in kernel.parameters]
    if base is None or base.name not in names:
        raise _Undecided("the map is no parameter")
    parameter = launch.params[names.index(base.name)]
    if not isinstance(parameter, TensorMapParam):
        raise _Undecided("the map's box is not known")
    return base.name, parameter


def _judge(
    reading: _Reading, launch: Launch, described: TensorMap, begin: int, at: int, *, turned: bool
) -> AddressVerdict:
    layout = _box_layout(described)
    if launch.block[1:] != (1, 1) or launch.block[0] % _WARPGROUP:
        raise _Undecided("blocks that are no row of whole warpgroups")
    forms, text, items = reading.forms, reading.text, reading.items
    block_of = text.flow.block_of
    base = _address_form(forms, items[at].operands[1], at)
    threads = reading.active[block_of[at]]
    storing = threads.copy()
    guard = items[at].guard
    if guard is not None:
        chosen = forms.of_register(guard.register.name, at)
        if not isinstance(chosen, Truths):
            raise _Undecided("which thread issues the bulk store is not known")
        storing &= chosen.numbers ^ guard.negated
    writes = [each for each in range(begin, at) if _writes_shared(text, each)]
    if not writes:
        raise _Undecided("no stores to shared memory come before it in the text")
    for each in writes:
        if not forms.dominates(each, at) or (reading.active[block_of[each]] != threads).any():
            raise _Undecided("a store to shared memory that does not always come before")
    elements = [_staged(reading, each) for each in writes]
    groups = [number for number in range(forms.threads // _WARPGROUP) if threads[number * _WARPGROUP]]
    counted = 0
    for group in groups:
        inside = slice(group * _WARPGROUP, (group + 1) * _WARPGROUP)
        if not threads[inside].all() or storing[inside].sum() != 1:
            raise _Undecided("the bulk store is not one thread's of each warpgroup")
        issuer = group * _WARPGROUP + int(np.argmax(storing[inside]))
        answer = _compare(elements, layout, described, base, issuer, inside, turned=turned)
        if not isinstance(answer, int):
            return answer
        counted += answer
    if not groups:
        raise _Undecided("no thread is known to reach the bulk store")
    return SameAddresses(layout, counted)


def _box_layout(described: TensorMap) -> Layout:
    """Row and column of the box to bytes from its begin."""
    if len(described.box) < 2 or not set(described.box[2:]) <= {1}:
        raise _Undecided("a box that is no plain matrix")
    if described.interleave != "none" or described.im2col is not None:
        raise _Undecided("an interleaved or gathered box")
    if described.swizzle not in _SWIZZLES:
        raise _Undecided(f"the swizzle {described.swizzle}")
    columns, rows = described.box[:2]
    size = described.element.bytes
    pitch = max(columns * size, SPAN_BYTES[described.swizzle])
    return Layout((rows, columns), (pitch, size), 0, _SWIZZLES[described.swizzle])


def _compare(
    elements: list[_Staged],
    layout: Layout,
    described: TensorMap,
    base: ThreadForm,
    issuer: int,
    inside: slice,
    *,
    turned: bool,
) -> int | OtherAddress:
    """How many elements the warpgroup's threads put in their places; the first that does not stand in its own."""
    swizzle = layout.swizzle
    period = 1 if swizzle is None else 1 << swizzle.top
    start = int(base.numbers[issuer])
    if start % period or base.multiple % period:
        raise _Undecided(f"the box does not begin at a multiple of {period} bytes for sure")
    if len({way for each in elements for way in each.apart}) > 1:
        raise _Undecided("elements that come from different numbers of accumulator values, or from others apart")
    columns, rows = described.box[:2]
    coordinates = [_coordinates(each) for each in elements]
    first = min(int(column.min()) for _, column in coordinates)
    places_in_box = [(row, column - first) for row, column in coordinates]
    if turned:
        # One block of rows is stored, whichever it is: where it goes is the coordinates' matter.
        if len({value // _BLOCK_VALUES for each in elements for value in each.values}) > 1:
            raise _Undecided("a turned box of several blocks of rows")
        places_in_box = [(column, row % _BLOCK_ROWS) for row, column in places_in_box]
    # Lines behind the box's, which are not stored, lie as if they were its own.
    lines = max(rows, *(int(row.max()) + 1 for row, _ in places_in_box))
    places = replace(layout, shape=(lines, columns)).offsets().reshape(columns, lines).T
    written: list[NDArray[np.int64]] = []
    for each, (row, column) in zip(elements, places_in_box, strict=True):
        if each.form.symbols != base.symbols:
            raise _Undecided("the bulk store and what was staged count from different symbols")
        if int(column.max()) >= columns:
            raise _Undecided("what is staged is larger than the box")
        wanted = places[row, column]
        found = (each.address[inside] - start) & _MASK
        wrong = np.argwhere(wanted != found)
        if wrong.size:
            lane, number = (int(index) for index in wrong[0])
            return OtherAddress(
                layout,
                inside.start + lane,
                each.values[number],
                int(row[lane, number]),
                int(column[lane, number]),
                int(wanted[lane, number]),
                int(found[lane, number]),
                each.item.span,
            )
        written.append(found[row < rows])
    every = np.unique(np.concatenate(written))
    count = sum(len(each) for each in written)
    if len(every) != rows * columns or count != len(every):
        raise _Undecided(f"{count} elements are staged at {len(every)} places of a box of {rows * columns}")
    return count


def _coordinates(element: _Staged) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column in the unit's tile of what each thread of a warpgroup stores."""
    rows, columns = accumulator_coordinates(256)
    values = np.array(element.values, np.int64)
    block, within = np.divmod(values, _BLOCK_VALUES)
    return 64 * block[None, :] + rows[:, within], columns[:, within]


def _writes_shared(text: Text, at: int) -> bool:
    return kind_of(text.flow.instructions[at]) in ("store", "atomic") and text.facts[at].space in ("shared", "generic")


def _staged(reading: _Reading, at: int) -> _Staged:
    """What one store to shared memory moves, element by element."""
    item = reading.items[at]
    if item.guard is not None or item.row not in ("st", "stmatrix"):
        raise _Undecided(f"{item.opcode}, perhaps guarded, is not followed")
    form = _address_form(reading.forms, item.operands[0], at)
    data = item.operands[1]
    registers = data.items if isinstance(data, Vector) else (data,)
    if item.row == "st":
        # A 16-bit register holds a pair of 8-bit elements: no other is staged by plain stores.
        if item.modifiers[-1] not in ("f32", "b32", "u32", "b16"):
            raise _Undecided(f"{item.opcode} is not followed")
        packed, size = (_BYTE_PAIRS, 1) if item.modifiers[-1] == "b16" else (frozenset[str](), 4)
        values = tuple(value for register in registers for value in _sources(reading, register, at, packed))
        steps = size * np.arange(len(values), dtype=np.int64)
        return _staged_values((form.numbers[:, None] + steps[None, :]) & _MASK, values, form, item)
    if "m8n8" not in item.modifiers or item.modifiers[-1] != "b16":
        raise _Undecided(f"{item.opcode} is not followed")
    values = tuple(value for register in registers for value in _sources(reading, register, at, _HALF_PAIRS))
    # Line i goes to the address that lane i gives; which lane holds its bytes is the ISA's table.
    places = matrix_fragment("m8n8", len(registers), "trans" in item.modifiers).places
    threads = np.arange(reading.forms.threads, dtype=np.int64)
    place = np.stack([places[register, :, byte][threads % 32] for register in range(len(registers)) for byte in (0, 2)])
    address = form.numbers[threads // 32 * 32 + place // 16] + place % 16 & _MASK
    return _staged_values(address.T, values, form, item)


def _staged_values(
    address: NDArray[np.int64], values: tuple[tuple[int, ...], ...], form: ThreadForm, item: Instruction
) -> _Staged:
    apart = frozenset(tuple(value - found[0] for value in found) for found in values)
    return _Staged(address, tuple(found[0] for found in values), apart, form, item)


def _address_form(forms: ThreadForms, operand: object, at: int) -> ThreadForm:
    if not isinstance(operand, Address) or operand.base is None:
        raise _Undecided("an absolute address")
    found = forms.of_operand(operand.base, at)
    match found:
        case ThreadForm(numbers, symbols, multiple):
            return ThreadForm((numbers + operand.offset) & _MASK, symbols, multiple)
        case NoForm(reason):
            raise _Undecided(f"the address of {forms.text.flow.instructions[at].opcode}: {reason}")
        case Truths():
            raise _Undecided("an address that is a predicate")


def _sources(reading: _Reading, operand: object, at: int, packed: frozenset[str]) -> tuple[tuple[int, ...], ...]:
    """The accumulator values that a register holds, the low half's first. packed: types of which it holds a pair, as
    the conversion that makes it says; empty for a register of one value."""
    if not packed or not isinstance(operand, Register):
        return (_one_source(reading, operand),)
    places = reading.text.definitions.get(operand.name, ())
    item = reading.items[places[0]] if len(places) == 1 and reading.forms.dominates(places[0], at) else None
    packs = item is not None and not packed.isdisjoint(item.modifiers)
    if item is None or not packs or item.row != "cvt" or len(item.operands) != 3 or item.guard is not None:
        raise _Undecided("elements that no conversion packs in pairs")
    return (_one_source(reading, item.operands[2]), _one_source(reading, item.operands[1]))


def _one_source(reading: _Reading, operand: object) -> tuple[int, ...]:
    """The accumulator values that an element is computed from, all of one block, the first of the block first."""
    known, text = reading.accumulators, reading.text
    found: set[int] = set()
    waiting = [operand.name] if isinstance(operand, Register) else []
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in known:
            found.add(known[name])
        if name in seen or name in known:
            continue
        seen.add(name)
        for place in text.definitions.get(name, ()):
            facts = text.facts[place]
            if facts.kind == "compute":
                waiting += facts.reads
            elif facts.kind != "load" or facts.space not in ("global", "param", "const"):
                raise _Undecided(f"data that comes through {text.flow.instructions[place].opcode}")
    if len({value // _BLOCK_VALUES for value in found}) != 1:
        raise _Undecided(f"an element that comes from {len(found)} accumulator values")
    return tuple(sorted(found))


def _accumulators(text: Text) -> dict[str, int]:
    """The registers of wgmma's D by name: blocks in the order in which the text first names them."""
    found: dict[str, int] = {}
    blocks = 0
    for item in text.flow.instructions:
        if item.row != "wgmma.mma_async":
            continue
        data = item.operands[0]
        if not isinstance(data, Vector) or "f32" not in item.modifiers:
            raise _Undecided("an accumulator that is not of float32 registers")
        names = [each.name for each in data.items if isinstance(each, Register)]
        if names[0] in found:
            if [found.get(name) for name in names] != list(range(found[names[0]], found[names[0]] + len(names))):
                raise _Undecided("accumulators that share registers")
            continue
        if any(name in found for name in names) or len(names) > _BLOCK_VALUES:
            raise _Undecided("accumulators that share registers")
        found.update({name: _BLOCK_VALUES * blocks + at for at, name in enumerate(names)})
        blocks += 1
    own = {at for at, item in enumerate(text.flow.instructions) if item.row == "wgmma.mma_async"}
    for name in found:
        for place in text.definitions.get(name, ()):
            if place not in own and (text.facts[place].kind != "compute" or set(text.facts[place].reads) - {name}):
                raise _Undecided(f"the accumulator {name} is written by {text.flow.instructions[place].opcode}")
    return found
