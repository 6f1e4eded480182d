"""Which plans near an illegal tensor map copy the same boxes, and what does each cost?

    for repair in legal.repair(legal.TensorMap("bf16", (100, 4096), (200,), (64, 128), swizzle="128B")):
        print(repair.title, "-", repair.cost.line)

Theory: a tensor and a box have many readings (`reading`). The search looks for readings of the tensor as it stands that
a map can describe, then for ones of the tensor stored with longer strides or copied to a workspace (`storage`); of each
it cuts the box under the map's swizzle and others (`box_choice`). Every map that comes out is judged again by the rules
before it is returned; what copies without a map is always among the answers (`fallbacks`). The cheapest comes first
(`costs`).

An empty list means that there is nothing to copy or nothing to copy from: extents, box or element strides below 1,
negative strides or address. Not handled: cheaper plans for interleaved maps than to mend their fields. Checked by
tests/legal/test_repairs.py, element by element, and tests/legal/test_repair_exhaustive.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import gcd, prod

from tilewright.base.error import TilewrightError
from tilewright.legal.box_choice import BoxChoice, choices, conflict_ways, pitch_bytes
from tilewright.legal.costs import Cost
from tilewright.legal.engines import ALL_ENGINES, Engines
from tilewright.legal.enumerations import DataType
from tilewright.legal.fallbacks import fallbacks
from tilewright.legal.map_limits import MapLimits, map_limits
from tilewright.legal.reading import Fill, Fold, Reading, Realign, Select, Shift
from tilewright.legal.reading_search import Chain, first_fault, search
from tilewright.legal.repair_plan import Change, Kind, Part, Repair
from tilewright.legal.repair_words import box_words, kind_of, move_words, storage_words
from tilewright.legal.storage import overlaps, padded, padding_bytes, workspaces
from tilewright.legal.tensor_map import TensorMap
from tilewright.legal.tiled_rules import tiled_rules
from tilewright.legal.want import FIELDS, Want
from tilewright.targets import Target
from tilewright.targets import target as target_named

_MAPS_MOST = 16
_OF_EACH_KIND = 2
_LINE_BYTES = 128
_WHOLE_BYTES = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}


def repair(
    map: TensorMap, want: Want | None = None, target: str | Target = "sm_90a", *, engines: Engines = ALL_ENGINES
) -> list[Repair]:
    """Plans that copy the boxes of `map` legally, the cheapest first; `map` itself where it is legal.

    want: what must stay and what is needed (`Want`). Empty only where there is nothing to copy (see above). Raises
    TilewrightError for an unknown target and for a wanted box of another rank.
    """
    want = want or Want()
    hardware = target_named(target) if isinstance(target, str) else target
    if want.box is not None and len(want.box) != map.rank:
        raise TilewrightError(f"the wanted box has {len(want.box)} entries; rank {map.rank} needs {map.rank}")
    reading = reading_of(map, want, map_limits(hardware))
    if reading is None:
        return []
    found = sorted(_Search(map, want, hardware, reading, engines).repairs(), key=lambda each: each.cost.rank)
    return list(_few_of_each(_distinct(found)))


def reading_of(map: TensorMap, want: Want, limits: MapLimits) -> Reading | None:
    """The tensor and the box that `map` is for, boxes beginning at multiples of their extents.

    The box is `want.box`; else the map's own, its inner row rounded up to 16 bytes and its outer extents cut to what
    shared memory holds, where boxes follow one another. Elements of 4 bits count in pairs, as bytes. None for what has
    no elements, no address, or no known width.
    """
    data_type, box = map.data_type, want.box or map.box
    numbers = (*map.dims, *box, *map.steps)
    if data_type is None or not numbers or min(numbers) < 1 or min(map.strides, default=0) < 0 or map.address < 0:
        return None
    dims = map.dims
    steps = (1, *map.steps[1:])  # that of dimension 0 is ignored
    element_bytes = max(1, data_type.global_bits // 8)
    if data_type.is_packed:
        if dims[0] * data_type.global_bits % 8 or box[0] * data_type.global_bits % 8:
            return None
        dims = (dims[0] * data_type.global_bits // 8, *dims[1:])
        box = (box[0] * data_type.global_bits // 8, *box[1:])
    if want.box is None:
        box = _rounded(box, dims, steps, element_bytes, limits)
    starts = tuple(
        0 if extent >= whole else -(-extent // step) * step
        for extent, whole, step in zip(box, dims, steps, strict=True)
    )
    return Reading(element_bytes, dims, (element_bytes, *map.strides), box, steps, starts, map.address)


def _rounded(
    box: tuple[int, ...], dims: tuple[int, ...], steps: tuple[int, ...], element_bytes: int, limits: MapLimits
) -> tuple[int, ...]:
    new = list(box)
    if box[0] < dims[0]:
        unit = max(1, limits.inner_multiple_bytes // element_bytes)
        new[0] = -(-box[0] // unit) * unit
    for at in range(len(new) - 1, -1, -1):
        rest = prod(-(-new[other] // steps[other]) for other in range(len(new)) if other != at) * element_bytes
        fits = max(1, limits.shared_bytes_max // rest)
        if -(-new[at] // steps[at]) > fits:
            new[at] = fits * steps[at]
    return tuple(new)


class _Search:
    """One question: the map, what is wanted, and the repairs found for it."""

    def __init__(self, map: TensorMap, want: Want, target: Target, reading: Reading, engines: Engines) -> None:
        self.map, self.want, self.target, self.reading, self.engines = map, want, target, reading, engines
        self.limits = map_limits(target)
        self.plain, self.field_words = _plain_fields(map, target)
        boxes = prod(-(-extent // size) for extent, size in zip(reading.dims, reading.box, strict=True))
        self.box_bytes = reading.box_elements * reading.element_bytes
        self.base = Cost(smem_bytes=self.box_bytes, boxes=boxes, box_bytes=self.box_bytes)

    def repairs(self) -> Iterator[Repair]:
        unchanged = self.reading.box == self.map.box and first_fault(self.reading, self.limits) is None
        if unchanged and self._legal(self.map):
            yield from self._as_it_is()
        elif self.map.interleave == "none" and not _is_padded(self.map.data_type):
            yield from self._in_place()
            yield from self._several_maps()
            yield from self._stored_otherwise()
        yield from fallbacks(self.reading, self.base, self.limits, store=self.want.store)

    def _as_it_is(self) -> Iterator[Repair]:
        chain = Chain((), self.reading)
        part = Part(self.map, (), self.map.box, (1,) * self.map.rank)
        choice = BoxChoice(chain, self.map.box, part.counts, str(self.map.swizzle))
        yield Repair("legal", "legal as it is", (self.map,), self._cost((choice,)), (), self.reading, (part,))

    def _in_place(self) -> Iterator[Repair]:
        for chain in self._chains(self.reading):
            for choice in self._choices(chain):
                yield from self._repair((choice,), self.reading, "in place")

    def _stored_otherwise(self) -> Iterator[Repair]:
        longer = padded(self.reading, self.limits)
        if longer is not None and longer != self.reading:
            for chain in self._chains(longer):
                for choice in self._choices(chain):
                    yield from self._repair((choice,), longer, "pad")
        if self.want.copy_allowed:
            for workspace in workspaces(self.reading, self.limits):
                for chain in self._chains(workspace):
                    for choice in self._choices(chain):
                        yield from self._repair((choice,), workspace, "copy")

    def _several_maps(self) -> Iterator[Repair]:
        """One map for each remainder of an index, where rows of one remainder are aligned alike."""
        reading, multiple = self.reading, self.limits.stride_multiple_bytes
        if self.want.consumer in ("wgmma", "tcgen05"):
            return
        for at in range(1, reading.rank):
            extent, stride = reading.dims[at], reading.strides_bytes[at]
            if reading.rank > self.limits.rank_max or stride >= self.limits.stride_limit_bytes:
                modulus = extent
            else:
                modulus = multiple // gcd(stride, multiple)
            if not 2 <= modulus <= min(extent, _MAPS_MOST):
                continue
            choices_of: list[BoxChoice] = []
            for remainder in range(modulus):
                select = Select(at, modulus, remainder)
                selected = select.apply(reading)
                chains = () if selected is None else self._chains(selected)
                cut = next((choice for chain in chains for choice in self._choices(chain)), None)
                if cut is None:
                    break
                moves = (select, *cut.chain.moves)
                choices_of.append(replace(cut, chain=replace(cut.chain, moves=moves)))
            if len(choices_of) == modulus:
                yield from self._repair(tuple(choices_of), reading, "in place")

    def _chains(self, reading: Reading) -> Iterator[Chain]:
        retype = self.map.oob_fill == "zero" or not _fills_nan(self.map)
        kept = self.want.keep
        found = search(
            reading,
            self.limits,
            store=self.want.store,
            retype=retype and "dtype" not in kept,
            moved="address" not in kept and not self.want.store,
        )
        return (chain for chain in found.chains if self._readable(chain))

    def _readable(self, chain: Chain) -> bool:
        """Whether the consumer finds rows where it looks for them: tensor cores read rows that begin at 16 bytes."""
        if self.want.consumer is None:
            return True
        return not any(
            isinstance(move, Shift | Realign | Fill) or (isinstance(move, Fold) and move.whole) for move in chain.moves
        )

    def _choices(self, chain: Chain) -> Iterator[BoxChoice]:
        swizzle = str(self.plain.swizzle)
        inner_bytes = chain.reading.box[0] * chain.reading.element_bytes
        others: tuple[str, ...] = ()
        span = self.limits.span_bytes(swizzle)
        if span and inner_bytes > span and self.want.consumer not in ("wgmma", "tcgen05"):
            others = (*tuple(name for name, wide in self.limits.spans_bytes[:3] if wide >= inner_bytes)[:1], "none")
        elif span and prod(chain.reading.box[1:]) * span > self.limits.shared_bytes_max:
            others = tuple(name for name, wide in self.limits.spans_bytes[:3] if inner_bytes <= wide < span)[:1]
        names = (swizzle, *(name for name in others if name != swizzle))
        yield from choices(chain, names, self.limits, store=self.want.store)

    def _repair(self, chosen: tuple[BoxChoice, ...], stored: Reading, storage: str) -> Iterator[Repair]:
        parts = tuple(self._part(choice) for choice in chosen)
        maps = tuple(part.map for part in parts)
        changes = _changes(self.map, maps[0])
        if any(change.field in self.want.keep for change in changes) or not all(self._legal(map) for map in maps):
            return
        first = chosen[0]
        moves = first.chain.moves
        words = [*self.field_words]
        if storage == "pad":
            words += storage_words(self.reading, stored)
        elif storage == "copy":
            words.append(f"copy the tensor into a buffer of {stored.span_bytes} bytes")
            if stored.rank > 1:
                words[-1] += f" with rows of {stored.strides_bytes[1]}"
        if self.reading.box != (self.want.box or self.map.box) and not _is_packed(self.map.data_type):
            words += _tile_words(self.want.box or self.map.box, self.reading.box)
        words += move_words(moves, stored)
        words += box_words(stored, first)
        changed_swizzle = first.swizzle != self.plain.swizzle
        if changed_swizzle:
            words.append(f"swizzle {first.swizzle} instead of {self.plain.swizzle}")
        kind: Kind = "pad" if storage == "pad" else "copy" if storage == "copy" else kind_of(
            moves, swizzle=changed_swizzle, box=any(change.field == "box" for change in changes)
        )  # fmt: skip
        cost = self._cost(chosen)
        if storage == "pad":
            before = 0 if overlaps(self.reading) else padding_bytes(self.reading)
            cost = replace(cost, padded_bytes=padding_bytes(stored) - before)
        elif storage == "copy":
            copied = prod(stored.dims) * stored.element_bytes
            cost = replace(cost, padded_bytes=padding_bytes(stored), copied_bytes=copied)
        title = "; ".join(words) or "state the map's fields otherwise"
        yield Repair(kind, title, maps, cost, changes, stored, parts)

    def _part(self, choice: BoxChoice) -> Part:
        reading = choice.chain.reading
        unchanged = self.plain.data_type is not None and self.plain.data_type.global_bits == 8 * reading.element_bytes
        map = TensorMap(
            self.plain.dtype if unchanged else _WHOLE_BYTES[reading.element_bytes],
            reading.dims,
            reading.strides_bytes[1:],
            choice.box,
            reading.element_strides,
            "none",
            choice.swizzle,
            self.plain.l2_promotion,
            self.plain.oob_fill,
            reading.address,
        )
        return Part(map, choice.chain.moves, choice.box, choice.counts)

    def _cost(self, chosen: tuple[BoxChoice, ...]) -> Cost:
        copies = fetched = smem = 0
        ways = 1
        # Boxes of one index along the selected dimension take one of the maps.
        selects = [move for move in chosen[0].chain.moves if isinstance(move, Select)]
        one_of = any(self.reading.box[select.dimension] == 1 for select in selects)
        for choice in chosen[:1] if one_of else chosen:
            reading = choice.chain.reading
            span = self.limits.span_bytes(choice.swizzle)
            inner_bytes = choice.box[0] * reading.element_bytes
            rows = prod(-(-e // s) for e, s in zip(choice.box[1:], reading.element_strides[1:], strict=True))
            footprint = (rows - 1) * pitch_bytes(inner_bytes, span) + inner_bytes
            copies += choice.copies
            fetched += choice.copies * rows * inner_bytes
            smem += choice.copies * (-(-footprint // _LINE_BYTES) * _LINE_BYTES)
            if self.want.consumer not in ("wgmma", "tcgen05"):
                ways = max(ways, conflict_ways(inner_bytes, span))
        return replace(
            self.base,
            extra_copies=copies - 1,
            bank_conflict_ways=ways,
            smem_bytes=smem,
            overfetched_bytes=max(0, fetched - self.box_bytes),
        )

    def _legal(self, map: TensorMap) -> bool:
        return all(rule.stated(map.fields) for rule in tiled_rules(self.target))


def _plain_fields(map: TensorMap, target: Target) -> tuple[TensorMap, list[str]]:
    """The map with enumerations that the target has, and what had to change for that."""
    changed: dict[str, str] = {}
    words: list[str] = []
    is_float = map.data_type is not None and map.data_type.is_float
    if map.oob_fill != "zero" and not (map.oob_fill == "nan" and is_float):
        changed["oob_fill"] = "zero"
        words.append("fill with zeros, since integers have no NaN")
    limits = map_limits(target)
    if map.swizzle != "none" and not limits.span_bytes(map.swizzle):
        changed["swizzle"] = "128B" if isinstance(map.swizzle, str) else "none"
        words.append(f"swizzle {changed['swizzle']}, since {target.name} has no swizzle {map.swizzle}")
    if isinstance(map.l2_promotion, int):
        changed["l2_promotion"] = "none"
        words.append(f"no L2 promotion, since there is none of number {map.l2_promotion}")
    if isinstance(map.interleave, int):
        changed["interleave"] = "none"
        words.append(f"no interleave, since there is none of number {map.interleave}")
    if map.data_type is not None and map.data_type.name == "u4x16_align8":
        words.append("read pairs of 4-bit elements as bytes")
    if map.steps and map.steps[0] != 1 and not 1 <= map.steps[0] <= limits.element_stride_max:
        words.append("element stride 1 in dimension 0, where it is ignored")
    return replace(map, **changed), words


def _fills_nan(map: TensorMap) -> bool:
    return map.oob_fill == "nan" and map.data_type is not None and map.data_type.is_float


def _is_packed(data_type: DataType | None) -> bool:
    return data_type is not None and data_type.is_packed


def _is_padded(data_type: DataType | None) -> bool:
    """Whether shared memory holds an element in more bits than global memory: no other type copies it so."""
    return data_type is not None and data_type.global_bits != data_type.shared_bits


def _tile_words(before: tuple[int, ...], after: tuple[int, ...]) -> list[str]:
    return [
        f"{'widen' if new > old else 'shrink'} the box in dimension {at} from {old} to {new} elements"
        for at, (old, new) in enumerate(zip(before, after, strict=True))
        if new != old
    ]


def _changes(before: TensorMap, after: TensorMap) -> tuple[Change, ...]:
    return tuple(
        Change(name, getattr(before, name), getattr(after, name))
        for name in FIELDS
        if getattr(before, name) != getattr(after, name)
    )


def _distinct(found: Iterable[Repair]) -> Iterator[Repair]:
    seen: set[tuple[str, object]] = set()
    for each in found:
        key = (each.kind if not each.maps or each.kind in ("pad", "copy") else "", each.maps)
        if key not in seen:
            seen.add(key)
            yield each


def _few_of_each(found: Iterable[Repair]) -> Iterator[Repair]:
    counts: dict[str, int] = {}
    for each in found:
        counts[each.kind] = counts.get(each.kind, 0) + 1
        if counts[each.kind] <= _OF_EACH_KIND:
            yield each
