"""How is a layout cut into tiles, and how is a tile repeated?

Theory: to divide is to compose with (tile, complement of the tile): the first part of the result walks one tile, the
second the tiles. To multiply is the converse: the first part is the layout, the second walks copies of it, laid out by
the other factor in the places that the layout leaves free. The names are CuTe's: `logical_` keeps each part with its
rest, `zipped_` gathers tiles and rests, `tiled_` opens the rests, `flat_` opens both; `blocked_` and `raked_product`
pair part with part, the tile inside or outside.

A tile that does not divide the layout is NotExpressible (`layout.pieces.piecewise` has ragged tails); `extend=True`
rounds the number of tiles up as CuTe does, so that the result goes on beyond the layout. Checked by
tests/layout/test_division.py.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.base.error import TilewrightError
from tilewright.layout import nested
from tilewright.layout.answer import NotDecided, NotExpressible, Refusal
from tilewright.layout.coalescing import coalesce
from tilewright.layout.composition import Tiler, behind, compose
from tilewright.layout.inverses import complement
from tilewright.layout.layout import Layout, joined, made

_Splitter = Callable[[Layout, Layout], Layout | Refusal]


def logical_divide(layout: Layout, tiler: Tiler, *, extend: bool = False) -> Layout | Refusal:
    """((tile), (rest)), or with a tuple of tilers ((tile, rest), ...) for each part, None leaving a part as it is.

    extend: tiles that stick out are walked to their end, and gaps that a tile cannot fill evenly are left.
    """
    if isinstance(tiler, tuple):
        return _by_part(layout, tiler, lambda part, tile: logical_divide(part, tile, extend=extend))
    if tiler is None:
        return layout
    tile = tiler if isinstance(tiler, Layout) else Layout(tiler)
    rest = complement(tile, layout.size, partial=extend)
    if not isinstance(rest, Layout):
        return rest
    if tile.swizzle is not None or tile.offset != 0:
        return NotExpressible(f"the tile {tile} has an offset or a swizzle")
    return compose(layout, joined([tile, rest]), extend=extend)


def zipped_divide(layout: Layout, tiler: Tiler, *, extend: bool = False) -> Layout | Refusal:
    """((tiles), (rests)): one part that walks a tile, one that walks the tiles."""
    return _unzipped(layout, tiler, lambda part, tile: logical_divide(part, tile, extend=extend))


def tiled_divide(layout: Layout, tiler: Tiler, *, extend: bool = False) -> Layout | Refusal:
    """((tiles), rest, rest, ...)."""
    return _opened(zipped_divide(layout, tiler, extend=extend), first=False)


def flat_divide(layout: Layout, tiler: Tiler, *, extend: bool = False) -> Layout | Refusal:
    """(tile, tile, ..., rest, rest, ...)."""
    return _opened(zipped_divide(layout, tiler, extend=extend), first=True)


def logical_product(layout: Layout, tiler: Tiler) -> Layout | Refusal:
    """(layout, copies): the copies are laid out by `tiler` over the places that the layout leaves free."""
    if isinstance(tiler, tuple):
        return _by_part(layout, tiler, logical_product)
    if tiler is None:
        return layout
    tile = tiler if isinstance(tiler, Layout) else Layout(tiler)
    if layout.swizzle is not None or tile.swizzle is not None:
        return NotDecided(f"whether copies of {layout} as {tile} orders them are strided", "a linear layout over F2")
    if layout.is_symbolic or tile.is_symbolic:
        free = _free_symbolic(layout, tile)
    else:
        free = complement(layout, nested.times(layout.size, tile.cosize))
    if not isinstance(free, Layout):
        return free
    copies = compose(free, tile)
    if not isinstance(copies, Layout):
        return copies
    return joined([layout, copies])


def zipped_product(layout: Layout, tiler: Tiler) -> Layout | Refusal:
    """((parts), (copies))."""
    return _unzipped(layout, tiler, logical_product)


def tiled_product(layout: Layout, tiler: Tiler) -> Layout | Refusal:
    """((parts), copies, copies, ...)."""
    return _opened(zipped_product(layout, tiler), first=False)


def flat_product(layout: Layout, tiler: Tiler) -> Layout | Refusal:
    """(part, part, ..., copies, copies, ...)."""
    return _opened(zipped_product(layout, tiler), first=True)


def blocked_product(block: Layout, tiler: Layout) -> Layout | Refusal:
    """((block part, tiler part), ...): whole blocks side by side, as `tiler` arranges them."""
    return _paired(block, tiler, block_first=True)


def raked_product(block: Layout, tiler: Layout) -> Layout | Refusal:
    """((tiler part, block part), ...): the blocks' elements interleaved, as `tiler` arranges them."""
    return _paired(block, tiler, block_first=False)


def _free_symbolic(layout: Layout, tile: Layout) -> Layout | Refusal:
    """The complement that holds what a compact tiler asks for."""
    found = complement(layout)
    if not isinstance(found, Layout):
        return found
    dense = coalesce(tile)
    if dense.depth or dense.stride not in (0, 1):
        return NotDecided(f"how many copies {tile} asks for depends on the sizes", "the sizes")
    last = nested.times(layout.size, found.size)
    return coalesce(joined([found, made(tile.size, last)]))


def _paired(block: Layout, tiler: Layout, *, block_first: bool) -> Layout | Refusal:
    parts = max(block.rank, tiler.rank)
    product = logical_product(_padded(block, parts), _padded(tiler, parts))
    if not isinstance(product, Layout):
        return product
    whole, copies = product.modes
    pairs = [
        joined([one, other] if block_first else [other, one])
        for one, other in zip(whole.modes, copies.modes, strict=True)
    ]
    return coalesce(joined(pairs), (1,) * parts).with_values(product.offset, product.swizzle)


def _padded(layout: Layout, parts: int) -> Layout:
    modes = list(layout.modes)
    return joined([*modes, *[made(1, 0)] * (parts - len(modes))]).with_values(layout.offset, layout.swizzle)


def _by_part(
    layout: Layout, tiler: tuple[Tiler, ...], operation: Callable[[Layout, Tiler], Layout | Refusal]
) -> Layout | Refusal:
    modes = layout.modes
    if len(tiler) > len(modes):
        raise TilewrightError(f"{len(tiler)} tilers for the {len(modes)} parts of {layout}")
    done: list[Layout] = []
    for mode, part in zip(modes, tiler, strict=False):
        answer = operation(mode, part)
        if not isinstance(answer, Layout):
            return answer
        done.append(answer)
    return behind(layout, joined([*done, *modes[len(done) :]]))


def _unzipped(layout: Layout, tiler: Tiler, operation: _Splitter) -> Layout | Refusal:
    """(what `operation` puts first, what it puts second), gathered over a hierarchy of tilers."""
    found = _halves(layout.plain, tiler, operation)
    if isinstance(found, Refusal):
        return found
    return behind(layout, joined(found))


def _halves(layout: Layout, tiler: Tiler, operation: _Splitter) -> list[Layout] | Refusal:
    if tiler is None:
        return [made(1, 0), layout]
    if not isinstance(tiler, tuple):
        result = operation(layout, tiler if isinstance(tiler, Layout) else Layout(tiler))
        if not isinstance(result, Layout):
            return result
        first, second = result.modes
        return [first.with_values(result.offset, None), second]
    modes = layout.modes
    if len(tiler) > len(modes):
        raise TilewrightError(f"{len(tiler)} tilers for the {len(modes)} parts of {layout}")
    tiles: list[Layout] = []
    rests: list[Layout] = []
    for mode, part in zip(modes, tiler, strict=False):
        found = _halves(mode, part, operation)
        if isinstance(found, Refusal):
            return found
        tiles.append(found[0])
        rests.append(found[1])
    return [joined(tiles), joined([*rests, *modes[len(tiler) :]])]


def _opened(answer: Layout | Refusal, *, first: bool) -> Layout | Refusal:
    if not isinstance(answer, Layout):
        return answer
    tile, rest = answer.modes
    return behind(answer, joined([*(tile.modes if first else (tile,)), *rest.modes]))
