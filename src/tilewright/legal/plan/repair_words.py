"""In which words is a repair told? One line for each thing it changes, with the numbers before and after.

Checked by tests/legal/plan/test_repairs.py, through the repairs' titles.
"""

from __future__ import annotations

from tilewright.legal.plan.box_choice import BoxChoice
from tilewright.legal.plan.moves import (
    Absorb,
    DropUnit,
    Expose,
    Fill,
    Fold,
    InsertUnit,
    Move,
    Narrow,
    Permute,
    Realign,
    Restride,
    Select,
    Shift,
    Split,
    Subsample,
    Unroll,
    Widen,
)
from tilewright.legal.plan.reading import Reading
from tilewright.legal.plan.repair_plan import Kind

_KINDS: tuple[tuple[type[Move], Kind], ...] = (
    (Select, "several-maps"),
    (Fill, "take-in"),
    (Shift, "shift"),
    (Realign, "shift"),
    (Permute, "rotate"),
    (Fold, "merge"),
    (DropUnit, "merge"),
    (Split, "split"),
    (Widen, "reinterpret"),
    (Narrow, "reinterpret"),
    (Absorb, "reinterpret"),
    (Expose, "reinterpret"),
    (InsertUnit, "fields"),
    (Subsample, "element-stride"),
    (Unroll, "box"),
    (Restride, "fields"),
)


def kind_of(moves: tuple[Move, ...], *, swizzle: bool, box: bool) -> Kind:
    """What a repair mainly does: its weightiest move, else a changed swizzle or box, else single fields."""
    split = any(isinstance(move, Split) for move in moves)
    for cls, kind in _KINDS:
        # A dimension that was split off and moved behind the others is no rotation.
        if any(isinstance(move, cls) for move in moves) and not (cls is Permute and split):
            return kind
    return "swizzle" if swizzle else "box" if box else "fields"


def move_words(moves: tuple[Move, ...], reading: Reading) -> list[str]:
    """One phrase a move; `reading` is the one that they begin at."""
    words: list[str] = []
    for move in moves:
        words.extend(_words(move, reading))
        after = move.apply(reading)
        if after is not None:
            reading = after
    return words


def _words(move: Move, reading: Reading) -> list[str]:
    match move:
        case DropUnit(dimension):
            return [f"drop dimension {dimension}, of one element"]
        case Fold(inner, outer, _, whole):
            between = " with what lies between" if whole and _has_gap(move, reading) else ""
            return [f"merge dimension {outer} into dimension {inner}{between}"]
        case Split(dimension, size):
            return [f"split dimension {dimension} of {reading.dims[dimension]} into {size} x "
                    f"{reading.dims[dimension] // size}"]  # fmt: skip
        case Permute(order):
            if order[0]:
                return [f"rotate dimension {order[0]} to the front"]
            return []
        case Widen(factor):
            return [f"read {factor} elements of {reading.element_bytes} bytes as one of "
                    f"{factor * reading.element_bytes}"]  # fmt: skip
        case Narrow(factor) | Expose(factor):
            return [f"read each element as {factor} of {reading.element_bytes // factor} bytes"]
        case Shift(elements):
            count = elements * reading.element_bytes
            return [f"begin {count} bytes earlier, at an aligned address: rows begin {count} bytes later in their box"]
        case Realign(elements):
            return [f"begin boxes at multiples of {elements} elements, at or before where they are wanted"]
        case Absorb():
            wide = reading.dims[0] * reading.element_bytes
            return [f"read {reading.dims[0]} elements of {reading.element_bytes} bytes as one of {wide}"]
        case InsertUnit(dimension):
            return [f"add a dimension of one element at {dimension}"]
        case Fill(dimension, factor):
            return [f"take in what lies between the elements of dimension {dimension}, {factor - 1} of every {factor}"]
        case Subsample(dimension, step):
            return [f"count every {step}th element of dimension {dimension}: stride "
                    f"{step * reading.strides_bytes[dimension]} bytes"]  # fmt: skip
        case Restride(dimension, stride_bytes):
            return [f"give dimension {dimension}, of one element, the stride {stride_bytes}"]
        case Unroll(dimension, count):
            return [f"copy the {count} indices of dimension {dimension} one by one"]
        case Select(dimension, modulus, remainder):
            if remainder:
                return []
            return [f"{modulus} maps, one for each remainder of dimension {dimension} modulo {modulus}"]


def _has_gap(move: Fold, reading: Reading) -> bool:
    return move.factor != reading.box[move.inner]


def box_words(choice: BoxChoice) -> list[str]:
    """What the map's box is where it isn't the reading's: cut into copies, or rounded up."""
    words: list[str] = []
    reading = choice.chain.reading
    for at, (extent, part, count) in enumerate(zip(reading.box, choice.box, choice.counts, strict=True)):
        if count > 1:
            words.append(f"cut the box's {extent} elements of dimension {at} into {count} copies of {part}")
        elif part != extent:
            words.append(f"widen the box in dimension {at} from {extent} to {part} elements")
    return words


def storage_words(before: Reading, after: Reading) -> list[str]:
    """Which strides are longer where a tensor is padded, and where it begins."""
    words: list[str] = []
    for at, (old, new) in enumerate(zip(before.strides_bytes, after.strides_bytes, strict=True)):
        if old != new:
            name = "row stride" if at == 1 else f"stride of dimension {at}"
            words.append(f"pad the {name} from {old} to {new} bytes")
            break
    if before.address != after.address:
        words.append(f"begin the tensor at a multiple of 16 bytes, {after.address - before.address} bytes later")
    return words
