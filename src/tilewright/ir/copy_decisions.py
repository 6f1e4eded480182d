"""How copies go through tensor maps: a map itself, how a stored tensor leaves, how the copies complete.

Parts of what is decided about a walk (`ir.cascade`). Checked by:
tests/synth/test_decide.py, tests/synth/operand/test_async_plan.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.base.element import Element
from tilewright.base.plan import L2Promotion, Swizzle, TensorMap
from tilewright.ir.exchange import ExchangePlan


@dataclass(frozen=True, slots=True)
class MapDecision:
    """A tensor map, index 0 innermost; see `base.plan.TensorMap`."""

    element: str
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: Swizzle
    l2_promotion: L2Promotion

    def tensor_map(self) -> TensorMap:
        """The same map as launch plans and `legal` have it."""
        return TensorMap(
            Element(self.element),
            self.dims,
            self.strides_bytes,
            self.box,
            swizzle=self.swizzle,
            l2_promotion=self.l2_promotion,
        )


BLOCK_ROWS = 64
"""Of an accumulator, which one wgmma writes (PTX ISA, wgmma: Matrix shape)."""


@dataclass(frozen=True, slots=True)
class StoreDecision:
    """How one stored tensor leaves in boxes, through staging. chunk_columns: columns of one staged box. staging: the
    exchange that brings the accumulator to a staged box, if one was planned, and to one of the tail. tail: another map,
    if the last `tails` boxes of a tile are narrower, of as many columns as its boxes. turned: 1 if memory runs along
    the accumulator's rows; then boxes are of one block of 64 rows each. staged_lines: lines of a box that are staged,
    if the last of them are the next tile's, so that boxes have fewer; else 0. cut: where lines are columns, the map of
    a tile's last box, which alone has fewer than are staged."""

    parameter: str
    chunk_columns: int
    map: MapDecision
    staging: tuple[ExchangePlan, ...] = ()
    tail: tuple[MapDecision, ...] = ()
    tails: int = 0
    turned: int = 0
    cut: tuple[MapDecision, ...] = ()
    staged_lines: int = 0

    @property
    def staged_bytes(self) -> int:
        """Of a box as it is staged, whatever of it is stored."""
        box_bytes, lines = self.map.tensor_map().box_bytes, self.map.box[1]
        return box_bytes // lines * (self.staged_lines or lines)

    def chunks(self, columns: int) -> tuple[int, ...]:
        """Columns of each box of a tile of so many."""
        narrow = self.tail[0].box[self.turned] if self.tail else 0
        whole = (columns - self.tails * narrow) // self.chunk_columns
        return (self.chunk_columns,) * whole + (narrow,) * self.tails

    def boxes(self, rows: int, columns: int) -> tuple[tuple[int, int, int], ...]:
        """(block of 64 rows, first column, columns) of each box in which a unit's part of a tile leaves, of so many
        rows and columns. A box that is not turned is of all its rows, and its block is 0."""
        widths = self.chunks(columns)
        begins = tuple(sum(widths[:number]) for number in range(len(widths)))
        blocks = range(rows // BLOCK_ROWS if self.turned else 1)
        return tuple((block, begin, width) for block in blocks for begin, width in zip(begins, widths, strict=True))


@dataclass(frozen=True, slots=True)
class AsyncPlan:
    """How the stores through one tensor map complete: each box as a bulk group of its own.

    buffer: what is stored to. box_bytes: of each of the `stages` slots. pending: groups that may still be reading their
    slots when the next one is filled.
    """

    buffer: str
    box_bytes: int
    stages: int
    pending: int


def spill_bytes(consumers: int, slots: int) -> int:
    """Shared memory of so many slots: a word for each thread of so many consumers."""
    return 4 * 128 * consumers * slots
