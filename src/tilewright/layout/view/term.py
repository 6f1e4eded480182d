"""What does a plan for moving a tile mean, written as a term over layouts, and what does it cost in bytes?

A term starts at a `Buffer` and says what is done to it: stored otherwise (`PadPitch`, `PadExtent`, `Copied`), seen
otherwise (`Sliced`, `Permuted`, `Split`, `Joined`, `Retyped`), cut into tiles (`Tiled`), rewritten and cut into boxes
(`Rewritten`), and swizzled (`Swizzled`). `denote` gives a term its meaning: the view, the tiles once there are any, the
swizzle, and the bytes padded and copied. A term whose parts do not fit together has no meaning: None.

Padding follows the nesting of strides: a longer pitch moves everything outside it on, so that what did not overlap does
not overlap afterwards. Only a buffer is padded, not a view of a part of it. Padded bytes are counted from the first to
the last byte named. A copy lays the elements out densely, dimension 0 innermost, each pitch a multiple of
`multiple_bytes`.

Not handled: padding of views that overlap themselves or have negative strides (None), swizzles that are not an
exclusive or of address bits. Checked by tests/layout/view/test_term.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.layout.view.rewrite import Step, apply
from tilewright.layout.view.strided_view import StridedView
from tilewright.layout.view.tiled_view import TiledView, tiled


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor where it stands."""

    view: StridedView


@dataclass(frozen=True, slots=True)
class PadPitch:
    """Stored with dimension `axis` at least so far apart: its stride is rounded up to `multiple_bytes`."""

    of: Term
    axis: int
    multiple_bytes: int


@dataclass(frozen=True, slots=True)
class PadExtent:
    """Stored with the outermost dimension, `axis`, made longer, to `extent`; what is added holds fill."""

    of: Term
    axis: int
    extent: int


@dataclass(frozen=True, slots=True)
class Copied:
    """Copied first to a workspace, densely but for pitches that are multiples of `multiple_bytes`."""

    of: Term
    multiple_bytes: int
    offset_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Sliced:
    """`size` elements of dimension `axis` from `start` on, every `step`-th."""

    of: Term
    axis: int
    start: int
    size: int
    step: int = 1


@dataclass(frozen=True, slots=True)
class Permuted:
    """Dimension `order[d]` as dimension d."""

    of: Term
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """Dimension `axis` as two, the inner of `factor` elements."""

    of: Term
    axis: int
    factor: int


@dataclass(frozen=True, slots=True)
class Joined:
    """Dimensions `axis` and `axis` + 1 as one."""

    of: Term
    axis: int


@dataclass(frozen=True, slots=True)
class Retyped:
    """The same bytes as elements of `element_bytes`."""

    of: Term
    element_bytes: int


@dataclass(frozen=True, slots=True)
class Tiled:
    """Cut into tiles of `tile` elements, which begin at multiples of `steps` (of the tile if None, at 0 where 0)."""

    of: Term
    tile: tuple[int, ...]
    steps: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A tiled term after a rewrite step, which keeps its tiles (`layout.view.rewrite`); a factor step cuts them in
    boxes."""

    of: Term
    step: Step


@dataclass(frozen=True, slots=True)
class Swizzled:
    """Landed with address bits [shift + low, shift + low + bits) exclusive-ored onto bits [low, low + bits)."""

    of: Term
    bits: int
    low: int
    shift: int


Term = (
    Buffer | PadPitch | PadExtent | Copied | Sliced | Permuted | Split | Joined | Retyped | Tiled | Rewritten | Swizzled
)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a term denotes. view: where the elements are; tiles: None before the term is tiled; padded_bytes: added to
    the storage, of the workspace too; copied_bytes: moved before the first tile can be; swizzle: bits, low, shift.
    """

    view: StridedView
    tiles: TiledView | None = None
    padded_bytes: int = 0
    copied_bytes: int = 0
    swizzle: tuple[int, int, int] | None = None


def denote(term: Term) -> Meaning | None:
    """What `term` means; None where its parts do not fit. Raises TilewrightError for an axis or tile that cannot be."""
    if isinstance(term, Buffer):
        return Meaning(term.view)
    meaning = denote(term.of)
    if meaning is None:
        return None
    if isinstance(term, Swizzled):
        fits = meaning.tiles is not None and meaning.swizzle is None and term.bits > 0
        return replace(meaning, swizzle=(term.bits, term.low, term.shift)) if fits else None
    if isinstance(term, Rewritten):
        after = apply(meaning.tiles, term.step) if meaning.tiles is not None and meaning.swizzle is None else None
        return None if after is None else replace(meaning, tiles=after, view=after.strided)
    if meaning.tiles is not None:
        # A view is settled before it is tiled; afterwards only rewrites know what becomes of the tiles.
        return None
    if isinstance(term, Tiled):
        return replace(meaning, tiles=tiled(meaning.view, term.tile, term.steps))
    if isinstance(term, Copied):
        return _copied(meaning, term.multiple_bytes, term.offset_bytes)
    if isinstance(term, PadPitch | PadExtent) and not isinstance(term.of, Buffer | PadPitch | PadExtent):
        return None
    view = _seen(term, meaning.view)
    if view is None:
        return None
    if isinstance(term, PadPitch | PadExtent):
        added = (view.end_byte - view.first_byte) - (meaning.view.end_byte - meaning.view.first_byte)
        return replace(meaning, view=view, padded_bytes=meaning.padded_bytes + added)
    return replace(meaning, view=view)


def nesting(view: StridedView) -> tuple[int, ...] | None:
    """The dimensions of more than one element by stride, each standing outside all before it; None if any overlap."""
    order = sorted((axis for axis in range(view.rank) if view.extents[axis] > 1), key=lambda a: view.strides_bytes[a])
    reach = view.element_bytes
    for axis in order:
        if view.strides_bytes[axis] < reach:
            return None
        reach += (view.extents[axis] - 1) * view.strides_bytes[axis]
    return tuple(order)


def _seen(
    term: PadPitch | PadExtent | Sliced | Permuted | Split | Joined | Retyped, view: StridedView
) -> StridedView | None:
    match term:
        case PadPitch(_, axis, multiple):
            return _padded_pitch(view, axis, multiple)
        case PadExtent(_, axis, extent):
            order = nesting(view)
            if not order or order[-1] != axis or extent < view.extents[axis]:
                return None
            return replace(view, extents=(*view.extents[:axis], extent, *view.extents[axis + 1 :]))
        case Sliced(_, axis, start, size, step):
            return view.slice(axis, start, size, step)
        case Permuted(_, order):
            return view.permute(order)
        case Split(_, axis, factor):
            return view.split(axis, factor)
        case Joined(_, axis):
            return view.join(axis)
        case Retyped(_, element_bytes):
            return view.retype(element_bytes)


def _padded_pitch(view: StridedView, axis: int, multiple_bytes: int) -> StridedView | None:
    """Strides written as digits of the strides within them, the one of `axis` rounded up, and read again."""
    order = nesting(view)
    if order is None or axis not in order or multiple_bytes < 1:
        return None
    old, new = view.strides_bytes, list(view.strides_bytes)
    for place, outer in enumerate(order):
        scaled, rest = 0, old[outer]
        for inner in reversed(order[:place]):
            whole, rest = divmod(rest, old[inner])
            scaled += whole * new[inner]
        new[outer] = scaled + rest
        if outer == axis:
            new[outer] = -(-new[outer] // multiple_bytes) * multiple_bytes
    return replace(view, strides_bytes=tuple(new))


def _copied(meaning: Meaning, multiple_bytes: int, offset_bytes: int) -> Meaning | None:
    if multiple_bytes < 1:
        return None
    view = meaning.view
    strides: list[int] = []
    pitch = view.element_bytes
    for axis, extent in enumerate(view.extents):
        if axis:
            pitch = -(-pitch // multiple_bytes) * multiple_bytes
        strides.append(pitch)
        pitch *= extent
    dense = StridedView(view.extents, tuple(strides), offset_bytes, view.element_bytes)
    moved = view.elements * view.element_bytes
    return replace(
        meaning,
        view=dense,
        padded_bytes=meaning.padded_bytes + dense.end_byte - dense.first_byte - moved,
        copied_bytes=meaning.copied_bytes + moved,
    )
