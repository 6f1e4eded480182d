"""Which plans near an illegal tensor map copy the same boxes, and what does each cost?

    illegal = legal.TensorMap("bf16", (100, 4096), (200,), (64, 128), swizzle="128B")
    for repair in legal.repair(illegal, target="sm_90a"):
        print(repair.title, "-", repair.cost.line)

Theory: a tensor and a box have many readings (`reading`). The search looks for readings of the tensor as it stands that
a map can describe, then for ones of the tensor stored with longer strides or copied to a workspace (`storage`); of each
it cuts the box under the map's swizzle and others (`box_choice`). Every map that comes out is judged again by the rules
before it is returned; what copies without a map is always among the answers (`fallbacks`). The cheapest comes first
(`costs`).

An empty list means that there is nothing to copy or nothing to copy from: extents, box or element strides below 1,
negative strides or address. Not handled: cheaper plans for interleaved maps than to fix their fields. Checked by
tests/legal/plan/test_repairs.py, element by element, and tests/legal/plan/test_repair_exhaustive.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from math import prod

from tilewright.base import plan
from tilewright.base.error import TilewrightError
from tilewright.base.extra import MissingExtra
from tilewright.legal.argument import target_of
from tilewright.legal.plan.box_choice import BoxChoice
from tilewright.legal.plan.engines import ALL_ENGINES, Engines
from tilewright.legal.plan.plan_search import (
    RANK_SEARCHED,
    Form,
    Question,
    cost_of,
    ends_at_units,
    in_place,
    is_legal,
    ranked,
    row_is_readable,
    several_maps,
    stored_otherwise,
    without_map,
)
from tilewright.legal.plan.reading import Reading
from tilewright.legal.plan.reading_search import Chain, first_fault
from tilewright.legal.plan.repair_plan import Part, Repair
from tilewright.legal.plan.want import Want, want_of
from tilewright.legal.tensor_map.im2col_map import AnyMap, map_of
from tilewright.legal.tensor_map.map_limits import MapLimits, map_limits
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.targets import Target


def repair(
    map: AnyMap | plan.TensorMap,
    want: Want | Mapping[str, object] | None = None,
    *,
    target: str | Target,
    engines: Engines = ALL_ENGINES,
) -> list[Repair]:
    """Plans that copy the boxes of `map` legally, the cheapest first; `map` itself where it is legal.

    map: tiled, im2col, or a launch plan's; want: what must stay and what is needed (`Want`, or its fields by
    name). Empty only where there is nothing to copy (see above).
    Raises TilewrightError for an unknown target and for a wanted box of another rank, MissingExtra where the e-graph is
    to be asked and not installed.
    """
    hardware = target_of(target)
    map = map_of(map)
    answer = _repairs if engines.memo else _repairs.__wrapped__
    return list(answer(map, want_of(want), hardware, engines))


def repair_as_installed(
    map: AnyMap | plan.TensorMap, want: Want | Mapping[str, object] | None = None, *, target: str | Target
) -> tuple[list[Repair], MissingExtra | None]:
    """`repair`; where it would ask the e-graph and that is not installed, its other plans, and what is missing."""
    try:
        return repair(map, want, target=target), None
    except MissingExtra as missing:
        return repair(map, want, target=target, engines=replace(ALL_ENGINES, egraph=False)), missing


@lru_cache(maxsize=4096)
def _repairs(map: AnyMap, want: Want, hardware: Target, engines: Engines) -> tuple[Repair, ...]:
    if not isinstance(map, TensorMap):
        from tilewright.legal.plan.im2col_repairs import im2col_repairs

        return tuple(im2col_repairs(map, want, hardware))
    if want.box is not None and len(want.box) != map.rank:
        raise TilewrightError(f"the wanted box has {len(want.box)} entries; rank {map.rank} needs {map.rank}")
    question = _question(map, want, hardware, engines)
    if question is None:
        return ()
    data_type = map.data_type
    plain = data_type is not None and data_type.global_bits == data_type.shared_bits
    others = list(without_map(question))
    found: list[Repair] = []
    if _does_it(map, question) and is_legal(map, hardware):
        found.append(_as_it_is(question, map))
    elif map.rank > RANK_SEARCHED:
        pass
    elif plain and (map.interleave == "none" or isinstance(map.interleave, int)):
        found = [*in_place(question), *several_maps(question), *stored_otherwise(question), *_by_im2col(question)]
    elif engines.solver:
        from tilewright.legal.plan.field_repairs import field_repairs

        found = [*field_repairs(question, map)]
    padded = data_type is not None and data_type.is_packed and not plain
    if map.interleave != "none" or padded:
        # Where elements stand in slices or padded groups, a tensor copy knows; threads reckon it, one at a time.
        others = [each for each in others if each.kind == "loads"]
    return tuple(ranked([*found, *others]))


def _by_im2col(question: Question) -> Iterator[Repair]:
    """The plan by an im2col map, where the tensor is a view of images and a want does not hold on to its fields."""
    if question.want.keep or question.want.store or question.form.fills_nan:
        return
    from tilewright.legal.plan.im2col_repairs import as_im2col

    map = as_im2col(question.reading, question.form.dtype, question.form.swizzle, question.target)
    if map is None:
        return
    copies = -(-question.reading.box[0] // map.channels_per_pixel)
    taps = "s, r" if map.rank == 4 else "s"
    title = (
        f"use im2col: images of {' x '.join(str(extent) for extent in map.dims[:-1])}, columns of "
        f"{map.pixels_per_column} pixels, the taps as offsets ({taps})"
    )
    cost = replace(question.base, extra_copies=copies - 1)
    yield Repair("im2col", title, (), cost, (), question.reading, im2col=map)


def forget() -> None:
    """Forget every answer of this process; those on disk stay."""
    _repairs.cache_clear()


def _does_it(map: TensorMap, question: Question) -> bool:
    """Whether the map's own box is the one that is wanted, may begin where boxes begin, and is read as it lies."""
    row_bytes = question.reading.box[0] * question.reading.element_bytes
    if question.for_tensor_core and not row_is_readable(row_bytes, str(map.swizzle), question.limits):
        return False
    if question.want.store and not ends_at_units(question.reading):
        return False
    box = question.want.box
    return box is None or (box == map.box and first_fault(question.reading, question.limits) is None)


def _as_it_is(question: Question, map: TensorMap) -> Repair:
    part = Part(map, (), map.box, (1,) * map.rank)
    choice = BoxChoice(Chain((), question.reading), map.box, part.counts, str(map.swizzle))
    return Repair("legal", "legal as it is", (map,), cost_of(question, (choice,)), (), question.reading, (part,))


def _question(map: TensorMap, want: Want, target: Target, engines: Engines) -> Question | None:
    limits = map_limits(target)
    reading = reading_of(map, want, limits)
    if reading is None:
        return None
    plain, words = _plain_fields(map, target)
    packed = map.data_type is not None and map.data_type.is_packed
    asked = want.box or map.box
    if reading.box != asked and not packed:
        words += _tile_words(asked, reading.box)
    fills_nan = plain.oob_fill == "nan"
    form = Form(
        map.dtype, 0 if packed else reading.element_bytes, str(plain.swizzle), plain.l2_promotion, plain.oob_fill,
        fills_nan,
    )  # fmt: skip
    return Question(reading, form, want, target, limits, map, tuple(words), engines)


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


def _tile_words(before: tuple[int, ...], after: tuple[int, ...]) -> list[str]:
    return [
        f"{'widen' if new > old else 'shrink'} the box in dimension {at} from {old} to {new} elements"
        for at, (old, new) in enumerate(zip(before, after, strict=True))
        if new != old
    ]
