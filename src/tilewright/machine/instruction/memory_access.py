"""Loads and stores, through the generic proxy.

Unobserved accesses of a whole warp take a short way: the instruction remembers the buffer that it met last, the byte
offset is rotated right by the alignment's bits, so that a misaligned address becomes a huge index, and NumPy's bounds
check finds both kinds of error; anything unusual goes the careful way, which names the fault.

Lanes that store to the same bytes in one instruction: the highest lane wins (the ISA leaves it open). Memory order
modifiers (`.relaxed`, `.acquire`, `.release`, `.volatile`) change no value here, since warps interleave at
instructions; the event tells them. Cache hints and policies change nothing. Local and parameter memory yields no
events: no other thread sees it. Accesses of local memory go to `Cluster.observe_local` instead. Source: PTX ISA, `ld`,
`ldu`, `st`. Checked by: tests/machine/core/test_memory.py, test_memory_access.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.core.decoder import Decoder, Modifiers, TypeName, expect_operands, unsupported
from tilewright.machine.core.event import Access, LaneRows, Places
from tilewright.machine.core.lanes import (
    FULL,
    UNINITIALISED,
    WARP_SIZE,
    Lanes,
    Registers,
    indices,
    merge,
    of_lanes,
    poison,
    to_bits,
    zeros_of,
)
from tilewright.machine.core.memory import PARAM_WINDOW, Region, clear, locate, merge_ranges
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Plain
from tilewright.machine.events_only.access_shapes import AccessShapes
from tilewright.machine.events_only.dropped_values import MovedValues, hull_of
from tilewright.machine.events_only.joined_accesses import JOINABLE_SPACES, WaitingAccess
from tilewright.machine.instruction.access_form import AccessForm, Space, Strength, load_form, store_form

Words = Sequence[tuple[int, int, int]]
"""Offset, contents before and after, of words that a strong access touched."""


def _wide_addresses(base: Any, offset: int, mask: int) -> Lanes:
    """64-bit addresses of the lanes in `mask`. base: what the register holds."""
    if base is UNINITIALISED:
        raise TypeError("uninitialised register")
    return base[indices(mask)].astype(np.uint64) + np.uint64(offset & 0xFFFF_FFFF_FFFF_FFFF)


def report_access(
    warp: Warp, found: Region, offsets: Lanes, size: int, write: bool, span: Span, strength: Strength, mask: int,
    *, modifies: bool = False, constant: tuple[int, ...] = (), words: Words = (),
) -> None:  # fmt: skip
    """Yield the event of one access: `offsets` in region `found`, by the lanes in `mask`. modifies: an atomic
    operation; constant: what every lane stores, if the text says so; words: what the words held before and after, by
    offset in the region."""
    cluster = warp.cta.cluster
    observe = cluster.observe
    if found.space == "local" and cluster.observe_local is not None:
        cluster.observe_local(warp.cta, offsets, size, write)
    if observe is None or found.space in ("local", "param", "const"):
        return
    space, base = ("shared", 0) if found.cta >= 0 else ("global", found.base)
    order, scope, lanes = strength.order, strength.scope, to_bits(mask)
    if offsets.size == 1:
        begin = offsets.item() + base
        ranges = ((begin, begin + size),)
    else:
        ranges = merge_ranges(offsets + base, size)
    observe(
        Access(
            warp.actor, space, found.cta, ranges, write, "generic", span,
            order != "weak", lanes, order, scope, modifies=modifies, constant=constant,
            words=tuple((address + base, before, after) for address, before, after in words) if base else (),
            read_only=strength.read_only,
            places=None if offsets.size == 1 else Places((LaneRows(lanes, offsets, size),), base),
        )
    )  # fmt: skip


class Place:
    """Where one load or store instruction points, and the buffer that it met last. tells_words: the event says what the
    words held."""

    def __init__(
        self, decoder: Decoder, instruction: Instruction, space: Space, slot: int, offset: int, element: TypeName,
        count: int, strength: Strength,
    ) -> None:  # fmt: skip
        self.space: Space = space
        self.slot = slot
        self.offset = offset
        self.count = count
        self.element_bytes = element.bytes
        self.size_bytes = element.bytes * count
        self.dtype = element.raw
        self.span = instruction.span
        self.strength = strength
        self.address_dtype = decoder.type_of(slot).raw
        self.observed = decoder.observe is not None
        self.tells_words = self.observed and strength.order != "weak" and self.size_bytes == 4 and count == 1
        self.region: Region | None = None
        self.delta: Any = None
        self.view: Any = None
        shift = self.size_bytes.bit_length() - 1
        self.regular = not self.observed and self.size_bytes == 1 << shift and shift > 0
        width = self.address_dtype.itemsize * 8
        self.shift = self.address_dtype.type(shift)
        self.unshift = self.address_dtype.type(width - shift if shift else 0)

    def rows(self, r: Registers) -> Lanes | None:
        """Row numbers, in the remembered buffer, of a whole warp's accesses; garbage rows if any lane is off."""
        warp = r[0]
        if self.space == "shared::cta":
            if self.region is not warp.cta.shared:
                self._remember(warp.cta.shared, (self.offset - warp.rank_base))
        elif self.region is None:
            return None
        offsets = r[self.slot] + self.delta
        return (offsets >> self.shift) | (offsets << self.unshift)

    def _remember(self, region: Region, delta: int) -> None:
        self.region = region
        self.delta = np.array([delta & ((1 << (self.address_dtype.itemsize * 8)) - 1)], self.address_dtype)[0]
        words = region.words[self.element_bytes]
        whole = words.size // self.count * self.count
        self.view = words[:whole].reshape(-1, self.count) if self.count > 1 else words

    def careful(self, r: Registers, mask: int) -> list[tuple[Region, Lanes, Lanes]]:
        """Region, byte offsets and lanes of every access in `mask`. Raises MachineFault."""
        return self.located(r[0], r[self.slot], mask)

    def located(self, warp: Warp, base: Any, mask: int) -> list[tuple[Region, Lanes, Lanes]]:
        """The same, of accesses by a register that holds `base`."""
        addresses = _wide_addresses(base, self.offset, mask)
        lanes = indices(mask)
        found = locate(warp.cta, self.space, addresses, self.size_bytes, self.span)
        if self.regular and len(found) == 1 and found[0].region.cta < 0:
            self._remember(found[0].region, self.offset - found[0].region.base)
        return [(part.region, part.offsets, lanes[part.chosen]) for part in found]


def _event_alone(
    decoder: Decoder, place: Place, moved: MovedValues, constant: tuple[int, ...] = ()
) -> Callable[[Registers, int], None]:
    """What an access does that moves no values: it yields its event, now or with those of its stretch. constant: what
    it stores, if the text says so."""
    write, dropped = not moved.loads, decoder.dropped
    polls = decoder.polls or {}
    shapes: dict[int, AccessShapes] = {}

    by_shape = (
        (dropped is None or dropped.joins)
        and place.space in JOINABLE_SPACES
        and place.strength.order == "weak"
        and not (polls and place.span in polls)
    )

    def tell_by_shape(warp: Warp, addresses: Lanes, mask: int) -> bool:
        cluster = warp.cta.cluster
        if cluster.observe is None or cluster.memory.forgiving:
            return False
        if mask not in shapes:
            shapes[mask] = AccessShapes((place,), (mask,), place.space, {}, apart=False)
        found = shapes[mask].find(warp.cta, (addresses,))
        if found is None:
            return False
        region, ranges, places = found
        if write and dropped is None:
            (row,) = places.rows
            clear(region, row.begins + (places.at - (0 if region.cta >= 0 else region.base)), place.size_bytes)
        elif write and dropped is not None:
            dropped.drop(region, *hull_of(region, ranges))
        lanes = to_bits(mask)
        cluster.observe(
            Access(
                warp.actor, "shared" if region.cta >= 0 else "global", region.cta, ranges, write, "generic", place.span,
                lanes=lanes, constant=constant, read_only=read_only, places=places if lanes & (lanes - 1) else None,
            )
        )  # fmt: skip
        return True

    def tell(warp: Warp, addresses: Lanes, mask: int) -> None:
        if by_shape and tell_by_shape(warp, addresses, mask):
            return
        for region, offsets, lanes in place.located(warp, addresses, mask):
            if write and dropped is None:
                clear(region, offsets, place.size_bytes)
            elif write and dropped is not None:
                dropped.drop(region, int(offsets.min()), int(offsets.max()) + place.size_bytes)
            chosen = of_lanes(lanes, mask)
            report_access(
                warp, region, offsets, place.size_bytes, write, place.span, place.strength, chosen, constant=constant
            )

    read_only = place.strength.read_only
    slot = place.slot
    if by_shape and dropped is not None:
        moved.access = WaitingAccess(
            place.span, place.space, write, place.size_bytes, read_only, constant, slot, place.offset, tell
        )

    def event_alone(r: Registers, mask: int) -> None:
        if moved.waits and moved.access is not None:
            moved.access.wait(r, mask)
            return
        addresses = r[slot]
        if addresses is UNINITIALISED:
            raise TypeError("uninitialised register")
        tell(r[0], addresses, mask)

    return event_alone


def _extended(value: Lanes, element: TypeName, target: TypeName) -> Lanes:
    """A loaded element in a register that may be wider: sign-extended for signed types, else zero-extended."""
    if target.width_bits == element.width_bits:
        return value
    if element.is_signed:
        return (
            value.view(element.view).astype(TypeName(f"s{target.width_bits}", target.width_bits).view).view(target.raw)
        )
    return value.astype(target.raw)


def _targets(
    decoder: Decoder, instruction: Instruction, form: AccessForm
) -> tuple[tuple[int, ...], tuple[TypeName, ...]]:
    """The slots that a load writes, and their types."""
    element = form.element
    targets = decoder.vector(instruction.operands[0])
    if len(targets) != form.count:
        raise unsupported(instruction, f"{len(targets)} registers for {form.count} elements")
    slots = tuple([decoder.destination(instruction, target, element, wider=True) for target in targets])
    return slots, tuple([decoder.type_of(slot) if slot > 1 else element for slot in slots])


def _ld(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    form = decoder.form(instruction, modifiers, load_form)
    operands = expect_operands(instruction, form.operands)
    element, strength, space = form.element, form.strength, form.space
    slots, types = _targets(decoder, instruction, form)
    slot, offset = decoder.address(instruction, operands[1])
    if space == "param":
        folded = _parameter(decoder, instruction, slot, offset, element, slots, types)
        if folded is not None:
            return folded
    place = Place(decoder, instruction, space, slot, offset, element, len(slots), strength)
    moved = decoder.move(slots, slot, loads=True, strong=strength.order != "weak")
    event_alone = _event_alone(decoder, place, moved)
    nothing = tuple([(target, zeros_of(declared.raw)) for target, declared in zip(slots, types, strict=True)])
    single = slots[0] if len(slots) == 1 and types[0].width_bits == element.width_bits else -1
    pairs = tuple(zip(slots, types, strict=True))

    def full(r: Registers) -> None:
        rows = place.rows(r) if place.regular else None
        if rows is None:
            masked(r, FULL)
            return
        try:
            values = place.view[rows]
        except IndexError:
            masked(r, FULL)
            return
        if single >= 0:
            r[single] = values
        elif len(pairs) == 1:
            r[slots[0]] = _extended(values, element, types[0])
        else:
            columns = np.ascontiguousarray(values.T)
            for (target, declared), column in zip(pairs, columns, strict=True):
                r[target] = _extended(column, element, declared)

    def masked(r: Registers, mask: int) -> None:
        warp: Warp = r[0]
        if not moved.keeps:
            event_alone(r, mask)
            for target, zeros in nothing:
                r[target] = zeros
            return
        loaded = [np.array(_old(r[target], declared)) for target, declared in pairs]
        steps = place.element_bytes
        for region, offsets, lanes in place.careful(r, mask):
            if moved.dropped is not None:
                moved.load(region, int(offsets.min()), int(offsets.max()) + place.size_bytes)
            words = region.words[steps]
            first = offsets // steps
            for index, (_, declared) in enumerate(pairs):
                loaded[index][lanes] = _extended(words[first + index], element, declared)
            chosen = of_lanes(lanes, mask)
            seen = words[first].tolist() if place.tells_words else ()
            report_access(
                warp, region, offsets, place.size_bytes, False, place.span, place.strength, chosen,
                words=tuple(zip(offsets.tolist(), seen, seen, strict=True)) if seen else (),
            )  # fmt: skip
        for (target, _), value in zip(pairs, loaded, strict=True):
            r[target] = value

    def _old(value: Any, declared: TypeName) -> Lanes:
        return poison(declared.raw) if value is UNINITIALISED or value.dtype != declared.raw else value

    return Plain(full, masked)


def _parameter(
    decoder: Decoder, instruction: Instruction, slot: int, offset: int, element: TypeName,
    targets: tuple[int, ...], types: tuple[TypeName, ...],
) -> Plain | None:  # fmt: skip
    """A load of a parameter at an address that the text fixes: constants. None if the address is computed."""
    address = decoder.static_value(slot)
    if address is None:
        return None
    at = address + offset - PARAM_WINDOW
    size = element.bytes * len(targets)
    if at < 0 or at + size > decoder.parameters.size:
        raise unsupported(instruction, "it reads past the parameters")
    elements = decoder.parameters[at : at + size].view(element.raw)
    values = [_extended(np.full(WARP_SIZE, item), element, kind) for item, kind in zip(elements, types, strict=True)]

    def full(r: Registers) -> None:
        for target, value in zip(targets, values, strict=True):
            r[target] = value

    def masked(r: Registers, mask: int) -> None:
        for target, value in zip(targets, values, strict=True):
            r[target] = merge(r[target], value, mask)

    return Plain(full, masked)


def _constant_bytes(values: Sequence[int], element_bytes: int) -> tuple[int, ...]:
    """The bytes of such elements, once where they repeat. Since a store stands at a multiple of its size, stores with
    the same constant, whatever their sizes, store the same wherever they meet."""
    stored = b"".join([(value & (1 << 8 * element_bytes) - 1).to_bytes(element_bytes, "little") for value in values])
    size = len(stored)
    while size % 2 == 0 and stored[: size // 2] == stored[size // 2 : size]:
        size //= 2
    return tuple(stored[:size])


def _st(decoder: Decoder, instruction: Instruction, modifiers: Modifiers) -> Plain:
    form = decoder.form(instruction, modifiers, store_form)
    operands = expect_operands(instruction, form.operands)
    element, strength, space, count = form.element, form.strength, form.space, form.count
    sources = tuple([decoder.source(instruction, item, element, wider=True) for item in decoder.vector(operands[1])])
    if len(sources) != count:
        raise unsupported(instruction, f"{len(sources)} registers for {count} elements")
    slot, offset = decoder.address(instruction, operands[0])
    place = Place(decoder, instruction, space, slot, offset, element, count, strength)
    moved = decoder.move(sources, slot, loads=False, strong=strength.order != "weak")
    dtype = element.raw
    narrow = tuple([decoder.type_of(source).width_bits > element.width_bits for source in sources])
    pairs = tuple(zip(sources, narrow, strict=True))
    values = [decoder.static_value(source) for source in sources]
    known = [value for value in values if value is not None]
    constant = _constant_bytes(known, element.bytes) if len(known) == len(sources) else ()
    event_alone = _event_alone(decoder, place, moved, constant)
    only = sources[0] if count == 1 and not narrow[0] else -1

    def full(r: Registers) -> None:
        rows = place.rows(r) if place.regular else None
        if rows is None:
            masked(r, FULL)
            return
        if only >= 0:
            values = r[only]
        elif count == 1:
            values = r[sources[0]].astype(dtype)
        else:
            values = np.empty((WARP_SIZE, count), dtype)
            for index, (source, too_wide) in enumerate(pairs):
                values[:, index] = r[source].astype(dtype) if too_wide else r[source]
        try:
            place.view[rows] = values
        except IndexError:
            masked(r, FULL)

    def masked(r: Registers, mask: int) -> None:
        warp: Warp = r[0]
        if not moved.keeps:
            moved.require_written(r)
            event_alone(r, mask)
            return
        values = [r[source].astype(dtype) for source, _ in pairs]
        steps = place.element_bytes
        for region, offsets, lanes in place.careful(r, mask):
            if place.tells_words:
                moved.load(region)
            words = region.words[steps]
            first = offsets // steps
            before = words[first].tolist() if place.tells_words else ()
            for index, value in enumerate(values):
                words[first + index] = value[lanes]
            chosen = of_lanes(lanes, mask)
            told = zip(offsets.tolist(), before, values[0][lanes].tolist(), strict=True) if before else ()
            report_access(
                warp, region, offsets, place.size_bytes, True, place.span, place.strength, chosen, constant=constant,
                words=tuple(told),
            )  # fmt: skip

    return Plain(full, masked)


HANDLERS = {"ld": _ld, "ldu": _ld, "st": _st}
