"""Which numbers does a kernel's text take as parameters, because a launch alone knows them?

Where a size is a number it stands in the text; where it depends on a run-time extent (`base.size`) the launch computes
it and passes it, a 32-bit word behind the kernel's other parameters. Reciprocals of counts are among them: they are
divided for once, on the host. A kernel without run-time extents has none of these parameters.

Where a size is needed its parameter is read there: a kernel's parameters are constants to the hardware, so that no
register holds one for longer than its use. Checked by: tests/lower/ptx/test_run_time.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tilewright.base.error import TilewrightError
from tilewright.base.size import Expression, Size, ceil_div, computed, number_of, product
from tilewright.ir.ac import operations as ac
from tilewright.ir.sizes import AnySize, SizeAttr, size_of, sizes_of
from tilewright.ir.tile.order import TileOrder
from tilewright.lower.ptx.emit import Text

_WORD = 1 << 32
TILES, CLUSTERS, TWICE_CLUSTERS, TILES_M, POINTS = "tiles", "clusters", "clusters_twice", "tiles_m", "points"
UNITS = "units"
"""Those of a role that have rows, of all tiles."""
OF_MATRIX = "tiles_of_matrix", "matrix_reciprocal"
"""What the tiles of a matrix, and their reciprocal, are called;"""
OF_GROUP = "tiles_of_group", "group_reciprocal"
"""and those of matrices whose tiles are taken together;"""
WHOLE_GROUPS, TOGETHER, LAST_TOGETHER = "whole_groups", "together", "last_together"
"""how many whole groups of such matrices there are; matrices of one, and of a last one of fewer."""
WALKED = "K"
"""The symbol that counts the iterations of a walk of all tiles."""
BAND, BAND_RECIPROCAL, LAST_RECIPROCAL, SQUARED = "band", "band_reciprocal", "last_reciprocal", "squared"
"""What sizes are called that loops over tiles, and over points, take."""


def reciprocal(divisor: Size) -> Size:
    """floor(2^32 / divisor), as far as 32 bits hold it. divisor: positive."""
    return computed("min", computed("//", _WORD, divisor), _WORD - 1)


def fixed_sizes(attributes: Iterable[AnySize]) -> tuple[int, ...]:
    """Sizes that no run-time extent has a part in, as numbers."""
    return tuple(number_of(size_of(each)) for each in attributes)


def last_height(tiles_m: Size, group: int) -> Size:
    """Tiles along m in the last band, which may be lower than the others: from 1 to `group`."""
    return computed("+", computed("%", computed("-", tiles_m, 1), group), 1)


@dataclass(frozen=True, slots=True)
class RasterSizes:
    """What turns a tile's number into its place: tiles along m; numbers of a whole band, and their reciprocal; the
    reciprocals of a whole band's height and of the last one's, which may be lower; tiles along n of a whole band that
    lie in squares."""

    tiles_m: Size
    band: Size
    band_reciprocal: Size
    height_reciprocal: Size
    last_reciprocal: Size
    squared: Size

    @classmethod
    def of(cls, tiles_m: Size, tiles_n: Size, group: int) -> RasterSizes:
        """Of tiles_m x tiles_n tiles in bands of `group` along m."""
        band = computed("*", group, tiles_n)
        last = last_height(tiles_m, group)
        squared = computed("*", computed("//", tiles_n, group), group)
        return cls(tiles_m, band, reciprocal(band), reciprocal(group), reciprocal(last), squared)

    def named(self, order: TileOrder) -> dict[str, Size]:
        """Those that the text of this order has."""
        found = {
            TILES_M: self.tiles_m,
            BAND: self.band,
            BAND_RECIPROCAL: self.band_reciprocal,
            LAST_RECIPROCAL: self.last_reciprocal,
        }
        return {**found, SQUARED: self.squared} if order == "hilbert" else found


def together_sizes(tiles: Size, together: Size, matrices: Size) -> dict[str, Size]:
    """Of matrices whose tiles, so many of each, are taken together: tiles of a group of them, and their reciprocal; how
    many whole groups there are; matrices of a group, and of the rest behind these (1 for none), each with its
    reciprocal."""
    of_group, last = computed("*", tiles, together), computed("max", computed("%", matrices, together), 1)
    return {
        **dict(zip(OF_GROUP, (of_group, reciprocal(of_group)), strict=True)),
        WHOLE_GROUPS: computed("//", matrices, together),
        TOGETHER: together,
        f"{TOGETHER}_reciprocal": reciprocal(together),
        LAST_TOGETHER: last,
        f"{LAST_TOGETHER}_reciprocal": reciprocal(last),
    }


def tiles_of_clusters(op: ac.TilesOp | ac.TurnTilesOp | ac.PrefetchOp, kernel: ac.KernelOp) -> tuple[Size, Size]:
    """How many clusters' tiles lie side by side along rows and columns."""
    cluster = [each.data for each in kernel.cluster]
    return ceil_div(size_of(op.tiles_m), cluster[0]), ceil_div(size_of(op.tiles_n), cluster[1])


def tiles_in_all(op: ac.TilesOp | ac.TurnTilesOp, kernel: ac.KernelOp) -> Size:
    """How many clusters' tiles there are, of all matrices."""
    return product((*tiles_of_clusters(op, kernel), *op.batches))


def clusters_launched(kernel: ac.KernelOp) -> Size:
    """How many clusters the grid has."""
    cluster = product(each.data for each in kernel.cluster)
    return computed("//", product(sizes_of(kernel.grid)), cluster)


def passed_sizes(kernel: ac.KernelOp) -> dict[str, Expression]:
    """The sizes that a kernel's launch passes, by what they are, in the order of its parameters. Two are one only if
    they mean the same: that their values agree may be so at some extents of the other axes alone.

    Raises TilewrightError for a kernel of which two loops differ in such a size."""
    found: dict[str, Expression] = {}
    for what, size in _sizes(kernel):
        if not isinstance(size, int) and found.setdefault(what, size) != size:
            raise TilewrightError(
                f"{what} of kernel {kernel.sym_name.data} is {found[what]} and {size}",
                remedy="give loops of one kernel the same sizes that only a launch knows",
            )
    return found


def _sizes(kernel: ac.KernelOp) -> Iterator[tuple[str, Size]]:
    yield from ((count_name(symbol), size) for symbol, size in counts_of(kernel).items())
    for op in kernel.walk():
        match op:
            case ac.ExtentOp():
                yield extent_name(op.size.size), op.size.size
            case ac.GlobalOp():
                yield from ((extent_name(size), size) for size in sizes_of(op.shape))
                yield from ((stride_name(size), size) for size in sizes_of(op.strides))
            case ac.TilesOp() | ac.TurnTilesOp():
                yield TILES, tiles_in_all(op, kernel)
                yield CLUSTERS, clusters_launched(kernel)
                together = op.matrices_together if isinstance(op, ac.TilesOp) else None
                of_matrix = product(tiles_of_clusters(op, kernel))
                if together is not None:
                    yield TWICE_CLUSTERS, computed("*", clusters_launched(kernel), 2)
                    # Of a number of matrices all groups are whole.
                    sizes = together_sizes(of_matrix, together, op.matrices)
                    yield from (each for each in sizes.items() if each[0] in OF_GROUP or not isinstance(together, int))
                if op.batch is not None or together is not None:
                    yield from zip(OF_MATRIX, (of_matrix, reciprocal(of_matrix)), strict=True)
                    yield from ((extent_name(extent), extent) for extent in op.batches[1:])
                yield from _of_raster(op, kernel)
            case ac.GroupTilesOp() | ac.TurnGroupTilesOp():
                yield extent_name(size_of(op.rows)), size_of(op.rows)
            case ac.PrefetchOp():
                yield from _of_raster(op, kernel)
            case ac.RangeOp():
                yield count_name(op.symbol.data), size_of(op.most)
            case ac.UnitRangeOp():
                yield UNITS, size_of(op.units)
            case ac.ElementwiseOp():
                # Of rows that units of threads share, the rows.
                sizes = sizes_of(op.extents)
                yield POINTS, product(sizes if op.rows is None else sizes[:-1])
                yield from ((extent_name(size), size) for size in sizes[1:])
            case _:
                pass


def counts_of(kernel: ac.KernelOp) -> dict[str, Size]:
    """The sizes of symbols whose values only a launch knows."""
    if kernel.counts is None:
        return {}
    return {symbol: each.size for symbol, each in kernel.counts.data.items() if isinstance(each, SizeAttr)}


def count_name(symbol: str) -> str:
    """What the number of a loop's iterations is called."""
    return f"count_{symbol}"


def extent_name(size: Size) -> str:
    """What an array's extent is called: by the axis that it is of, and blocks of how many."""
    return "extent_" + re.sub(r"\W+", "_", str(size)).strip("_")


def stride_name(size: Size) -> str:
    """What a distance of an array's parts, in elements, is called: by how it follows from extents."""
    return "stride_" + re.sub(r"\W+", "_", str(size)).strip("_")


def _of_raster(op: ac.TilesOp | ac.TurnTilesOp | ac.PrefetchOp, kernel: ac.KernelOp) -> Iterator[tuple[str, Size]]:
    order: TileOrder = "hilbert" if op.order is not None and op.order.data == "hilbert" else "grouped"
    yield from RasterSizes.of(*tiles_of_clusters(op, kernel), op.raster_group.data).named(order).items()


@dataclass(frozen=True, slots=True)
class PassedSizes:
    """The sizes that the launch of a kernel passes to its text, by what they are."""

    sizes: Mapping[str, Expression]

    @classmethod
    def of(cls, kernel: ac.KernelOp) -> PassedSizes:
        return cls(passed_sizes(kernel))

    def declarations(self) -> list[str]:
        """Of the parameters, as the text has them."""
        return [f"\t.param .u32 size_{what}" for what in self.sizes]

    def operand(self, text: Text, what: str, size: Size) -> str | int:
        """A size as an instruction takes it: the number, or a register that its parameter is read into here."""
        return size if isinstance(size, int) else self._read(text, what, size)

    def register(self, text: Text, what: str, size: Size) -> str:
        """A register that holds a size."""
        return text.into("b32", "mov.u32", size) if isinstance(size, int) else self._read(text, what, size)

    def extents(self, text: Text, sizes: Iterable[Size]) -> list[str | int]:
        """Extents as instructions take them."""
        return [self.operand(text, extent_name(size), size) for size in sizes]

    def strides(self, text: Text, sizes: Iterable[Size | str]) -> list[str | int]:
        """The same of distances of an array's parts, in elements; registers as they are."""
        return [each if isinstance(each, str) else self.operand(text, stride_name(each), each) for each in sizes]

    def _read(self, text: Text, what: str, size: Expression) -> str:
        assert self.sizes[what] == size, f"{what} is passed as {self.sizes[what]}, not {size}"
        return text.into("b32", "ld.param.u32", f"[size_{what}]")


NONE_PASSED = PassedSizes({})
"""Of a kernel whose extents are all known."""
