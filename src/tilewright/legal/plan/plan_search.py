"""Which plans copy the boxes of one reading, by tensor maps and without?

Theory: readings of the tensor as it stands come first, then several maps of it, then the tensor stored with longer
strides or copied to a workspace (`storage`); the box of each is cut under the swizzle asked for and, where that does
not hold it, under others (`box_choice`). Every map is judged by the rules before its plan is yielded. Copies without a
map close the list (`fallbacks`).

The question is put in terms of a reading and of a form: the fields of a map that are no numbers. `repairs` asks it for
a map, `operand_plan` for an operand of a compiler. Not handled: interleaved layouts. Checked by
tests/legal/plan/test_repairs.py and test_operand_plan.py, element by element.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Literal

from tilewright.legal.plan.box_choice import BoxChoice, choices, conflict_ways, pitch_bytes
from tilewright.legal.plan.costs import Cost
from tilewright.legal.plan.engines import ALL_ENGINES, Engines
from tilewright.legal.plan.fallbacks import fallbacks
from tilewright.legal.plan.moves import Fill, Fold, Realign, Select, Shift
from tilewright.legal.plan.reading import Reading
from tilewright.legal.plan.reading_search import Chain, first_fault, search
from tilewright.legal.plan.repair_plan import Change, Kind, Part, Repair
from tilewright.legal.plan.repair_words import box_words, kind_of, move_words, storage_words
from tilewright.legal.plan.storage import overlaps, padded, padding_bytes, workspaces
from tilewright.legal.plan.want import FIELDS, Want
from tilewright.legal.tensor_map.legality import judge
from tilewright.legal.tensor_map.map_limits import MapLimits
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.legal.tensor_map.tiled_rules import tiled_rules
from tilewright.targets import Target

_MAPS_MOST = 16
_OF_EACH_KIND = 2
RANK_SEARCHED = 16
"""Tensors of more dimensions get plans without maps: the search for forms grows with each, and none is known."""
_LINE_BYTES, _CHUNK_BYTES = 128, 16
Storage = Literal["in place", "pad", "copy"]
_WHOLE_BYTES = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}


@dataclass(frozen=True, slots=True)
class Form:
    """What a map is besides its numbers. element_bytes: of `dtype`; fills_nan: elements past the end become NaN, which
    only elements of this type can."""

    dtype: str | int
    element_bytes: int
    swizzle: str
    l2_promotion: str | int
    oob_fill: str | int
    fills_nan: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """reading: the tensor and the box; form: of the map wanted; original: the map to compare with, where there is one;
    words: what was changed already, for the titles; engines: that may be asked;
    rotate: another dimension may lie innermost."""

    reading: Reading
    form: Form
    want: Want
    target: Target
    limits: MapLimits
    original: TensorMap | None = None
    words: tuple[str, ...] = ()
    engines: Engines = ALL_ENGINES
    rotate: bool = True

    @property
    def base(self) -> Cost:
        """What every way to copy this box has in common."""
        reading = self.reading
        boxes = prod(-(-extent // size) for extent, size in zip(reading.dims, reading.box, strict=True))
        box_bytes = reading.box_elements * reading.element_bytes
        return Cost(smem_bytes=box_bytes, boxes=boxes, box_bytes=box_bytes)

    @property
    def for_tensor_core(self) -> bool:
        return self.want.consumer in ("wgmma", "tcgen05")


def in_place(question: Question) -> list[Repair]:
    """Plans by maps of the tensor as it stands: by short chains of moves; where the view is no map's, none of these
    brings a box exactly and at once, and congruences say that a map may, by equality saturation too."""
    reading, engines = question.reading, question.engines
    found: list[Repair] = []
    for chain in _chains(question, reading):
        for choice in _choices(question, chain):
            found += plan_of(question, (choice,), reading, "in place")
    exact = any(plan.cost.extra_copies == plan.cost.overfetched_bytes == 0 for plan in found)
    described = bool(found) and first_fault(reading, question.limits) is None
    if exact or described or not engines.egraph or question.form.fills_nan:
        return found
    from tilewright.legal.plan.form_search import may_have_exact_form, saturated_choices

    if engines.domain and not may_have_exact_form(reading, question.limits):
        return found
    for choice in saturated_choices(reading, question.form.swizzle, question.limits, engines, rotate=question.rotate):
        found += plan_of(question, (choice,), reading, "in place")
    return found


def several_maps(question: Question) -> Iterator[Repair]:
    """Plans by one map for each remainder of an index, where rows of one remainder are aligned alike."""
    reading, limits = question.reading, question.limits
    if question.for_tensor_core:
        return
    for at in range(1, reading.rank):
        extent, stride = reading.dims[at], reading.strides_bytes[at]
        if reading.rank > limits.rank_max or stride >= limits.stride_limit_bytes:
            modulus = extent
        else:
            modulus = limits.stride_multiple_bytes // gcd(stride, limits.stride_multiple_bytes)
        if not 2 <= modulus <= min(extent, _MAPS_MOST):
            continue
        chosen: list[BoxChoice] = []
        for remainder in range(modulus):
            select = Select(at, modulus, remainder)
            selected = select.apply(reading)
            chains = () if selected is None else _chains(question, selected, most=1)
            cut = next((choice for chain in chains for choice in _choices(question, chain)), None)
            if cut is None:
                break
            chosen.append(replace(cut, chain=replace(cut.chain, moves=(select, *cut.chain.moves))))
        if len(chosen) == modulus:
            yield from plan_of(question, tuple(chosen), reading, "in place")


def stored_otherwise(question: Question) -> Iterator[Repair]:
    """Plans by maps of the tensor with longer strides, or of a copy of it."""
    reading, limits = question.reading, question.limits
    longer = padded(reading, limits)
    if longer is not None and longer != reading:
        for chain in _chains(question, longer):
            for choice in _choices(question, chain):
                yield from plan_of(question, (choice,), longer, "pad")
    if question.want.copy_allowed:
        found = 0
        for workspace in workspaces(reading, limits, whole=question.want.consumer is None):
            for chain in _chains(question, workspace):
                for choice in _choices(question, chain):
                    for plan in plan_of(question, (choice,), workspace, "copy"):
                        found += 1
                        yield plan
            if found >= _OF_EACH_KIND:
                return


def without_map(question: Question) -> Iterator[Repair]:
    """Plans without a tensor map; at least one."""
    yield from fallbacks(question.reading, question.base, question.limits, store=question.want.store)


def ranked(found: Iterable[Repair]) -> list[Repair]:
    """The cheapest first, each once, and of each kind a few."""
    counts: dict[str, int] = {}
    seen: set[tuple[str, object]] = set()
    kept: list[Repair] = []
    for each in sorted(found, key=lambda each: each.cost.rank):
        key = (each.kind if not each.maps or each.kind in ("pad", "copy") else "", each.maps)
        if key in seen:
            continue
        seen.add(key)
        counts[each.kind] = counts.get(each.kind, 0) + 1
        if counts[each.kind] <= _OF_EACH_KIND:
            kept.append(each)
    return kept


def map_of(question: Question, choice: BoxChoice) -> TensorMap:
    """The map that a choice stands for."""
    reading, form = choice.chain.reading, question.form
    return TensorMap(
        form.dtype if form.element_bytes == reading.element_bytes else _WHOLE_BYTES[reading.element_bytes],
        reading.dims,
        reading.strides_bytes[1:],
        choice.box,
        reading.element_strides,
        "none",
        choice.swizzle,
        form.l2_promotion,
        form.oob_fill,
        reading.address,
    )


def cost_of(question: Question, chosen: tuple[BoxChoice, ...]) -> Cost:
    """The cost of the copies that one box takes; storage not counted."""
    copies = fetched = smem = 0
    ways, base = 1, question.base
    # Boxes of one index along the selected dimension take one of the maps.
    selects = [move for move in chosen[0].chain.moves if isinstance(move, Select)]
    one_of = any(question.reading.box[select.dimension] == 1 for select in selects)
    for choice in chosen[:1] if one_of else chosen:
        reading = choice.chain.reading
        span = question.limits.span_bytes(choice.swizzle)
        inner_bytes = choice.box[0] * reading.element_bytes
        rows = prod(-(-e // s) for e, s in zip(choice.box[1:], reading.element_strides[1:], strict=True))
        footprint = rows * pitch_bytes(inner_bytes, span)
        copies += choice.copies
        fetched += choice.copies * rows * inner_bytes
        smem += choice.copies * (-(-footprint // _LINE_BYTES) * _LINE_BYTES)
        if not question.for_tensor_core:
            ways = max(ways, conflict_ways(inner_bytes, span))
    return replace(
        base,
        extra_copies=copies - 1,
        bank_conflict_ways=ways,
        smem_bytes=smem,
        overfetched_bytes=max(0, fetched - base.box_bytes),
    )


def is_legal(map: TensorMap, target: Target) -> bool:
    """Whether the rules accept `map`."""
    return not judge(map.fields, tiled_rules, target)


def _chains(question: Question, reading: Reading, most: int = 4) -> Iterator[Chain]:
    want = question.want
    found = search(
        reading,
        question.limits,
        store=want.store,
        most=most,
        retype=not question.form.fills_nan and "dtype" not in want.keep,
        moved="address" not in want.keep and not want.store,
        rotate=question.rotate,
    )
    return (chain for chain in found.chains if _readable(question, chain))


def _readable(question: Question, chain: Chain) -> bool:
    """Whether the consumer finds rows where it looks for them: matrix loads read rows that begin at 16 bytes."""
    if question.want.consumer is None:
        return True
    return not any(
        isinstance(move, Shift | Realign | Fill) or (isinstance(move, Fold) and move.whole) for move in chain.moves
    )


def _choices(question: Question, chain: Chain) -> Iterator[BoxChoice]:
    swizzle, limits = question.form.swizzle, question.limits
    inner_bytes = chain.reading.box[0] * chain.reading.element_bytes
    plain_spans = limits.spans_bytes[:3]
    others: tuple[str, ...] = ()
    span = limits.span_bytes(swizzle)
    if question.for_tensor_core:
        if not row_is_readable(inner_bytes, swizzle, limits):
            others = tuple(name for name, wide in reversed(plain_spans) if inner_bytes % wide == 0)[:1]
    elif span and inner_bytes > span:
        others = (*tuple(name for name, wide in plain_spans if wide >= inner_bytes)[:1], "none")
    elif span and prod(chain.reading.box[1:]) * span > limits.shared_bytes_max:
        others = tuple(name for name, wide in plain_spans if inner_bytes <= wide < span)[:1]
    names = (swizzle, *(name for name in others if name != swizzle))
    for choice in choices(chain, names, limits, store=question.want.store):
        row_bytes = choice.box[0] * choice.chain.reading.element_bytes
        if not question.for_tensor_core or row_is_readable(row_bytes, choice.swizzle, limits):
            yield choice


def ends_at_units(reading: Reading) -> bool:
    """Whether stores end where rows end: the copy engine clips in units of 16 bytes, and writes past other ends."""
    return reading.dims[0] * reading.element_bytes % _CHUNK_BYTES == 0


def _stays_within(choice: BoxChoice) -> bool:
    """Whether the copies of a box are the box, but for what lies past the tensor's end."""
    reading = choice.chain.reading
    entries = zip(reading.box, choice.box, choice.counts, reading.dims, strict=True)
    return all(part * count == whole or whole >= extent for whole, part, count, extent in entries)


def row_is_readable(row_bytes: int, swizzle: str, limits: MapLimits) -> bool:
    """Whether a matrix descriptor may describe rows of a box: chunks of 16 bytes, one above the other, or swizzled rows
    of whole steps along K (PTX ISA, wgmma and tcgen05: Shared Memory Matrix Layout)."""
    if swizzle == "none":
        return row_bytes == limits.inner_multiple_bytes
    return row_bytes % (2 * limits.inner_multiple_bytes) == 0


def plan_of(question: Question, chosen: tuple[BoxChoice, ...], stored: Reading, storage: Storage) -> Iterator[Repair]:
    """The plan that `chosen` make, one choice a map, of the tensor as `stored`; nothing where a rule or the want is
    against it."""
    parts = tuple(Part(map_of(question, choice), choice.chain.moves, choice.box, choice.counts) for choice in chosen)
    maps = tuple(part.map for part in parts)
    changes = () if question.original is None else changes_of(question.original, maps[0])
    if any(change.field in question.want.keep for change in changes):
        return
    if not all(is_legal(map, question.target) for map in maps):
        return
    if question.want.store and not all(_stays_within(choice) for choice in chosen):
        return
    clipped = question.want.store and storage == "in place"
    if clipped and not all(ends_at_units(choice.chain.reading) for choice in chosen):
        return
    first, reading = chosen[0], question.reading
    moves, cost = first.chain.moves, cost_of(question, chosen)
    words = [*question.words]
    if storage == "pad":
        before = 0 if overlaps(reading) else padding_bytes(reading)
        cost = replace(cost, padded_bytes=padding_bytes(stored) - before)
        words += storage_words(reading, stored)
    elif storage == "copy":
        copied = prod(stored.dims) * stored.element_bytes
        transposed = 0 if reading.strides_bytes[0] == reading.element_bytes else copied
        cost = replace(cost, padded_bytes=padding_bytes(stored), copied_bytes=copied, transposed_bytes=transposed)
        rows = f" with rows of {stored.strides_bytes[1]}" if stored.rank > 1 else ""
        words.append(f"copy the tensor into a buffer of {stored.span_bytes} bytes{rows}")
    words += move_words(moves, stored)
    words += box_words(first)
    swizzled = first.swizzle != question.form.swizzle
    if swizzled:
        words.append(f"swizzle {first.swizzle} instead of {question.form.swizzle}")
    kind: Kind
    match storage:
        case "pad":
            kind = "pad"
        case "copy":
            kind = "copy"
        case _:
            kind = kind_of(moves, swizzle=swizzled, box=first.box != reading.box or bool(question.words))
    title = "; ".join(words) or "a tensor map as it is"
    yield Repair(kind, title, maps, cost, changes, stored, parts)


def changes_of(before: TensorMap, after: TensorMap) -> tuple[Change, ...]:
    """The fields in which two maps differ."""
    return tuple(
        Change(name, getattr(before, name), getattr(after, name))
        for name in FIELDS
        if getattr(before, name) != getattr(after, name)
    )
