"""What do the accesses of a tile cost in the layout that is given, and where should the tile stand instead?

An access is written `KIND[:ORDER[:WEIGHT]]`. The order says how consecutive lanes walk over the tile's vectors:
`layout` in the layout's own order, `rows` along the leaf of stride 1 first, `columns` along it last; `lanes` says that
the layout is no tile, but takes the number of a lane, over all accesses in turn, to its element. Checked by:
tests/cli/commands/test_banks_command.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, cast, get_args

from tilewright.base.error import TilewrightError
from tilewright.layout.answer import NotExpressible
from tilewright.layout.layout import Layout
from tilewright.legal.bank.access_kind import access_kind
from tilewright.legal.bank.bank_linear import lane_count, layout_wavefronts
from tilewright.legal.bank.banks import ideal_wavefronts
from tilewright.legal.bank.placement import Buffer, Engine
from tilewright.legal.bank.swizzle_choice import Judged, SwizzleChoice, choose_placement
from tilewright.legal.bank.tile_access import AccessOrder, TileAccess, access_layout, placement_layout, tile_buffer
from tilewright.targets import Target

LANES = "lanes"
Found = TypeVar("Found")
_MOST_ELEMENTS = 1 << 48
_ORDERS = (*get_args(AccessOrder), LANES)


@dataclass(frozen=True, slots=True)
class Asked:
    """One access as it was asked for. order: an `AccessOrder`, or `lanes`."""

    kind: str
    order: str
    weight: int

    @property
    def of_tile(self) -> TileAccess:
        """As `legal.bank.tile_access` takes it. Raises TilewrightError where the layout is one of lanes."""
        if self.order == LANES:
            raise TilewrightError(
                f"{self.kind}:lanes says where lanes are, and not what the tile is",
                remedy="to place the tile anew give its own layout, with the order layout, rows or columns",
            )
        return TileAccess(self.kind, cast("AccessOrder", self.order), self.weight)


@dataclass(frozen=True, slots=True)
class AccessCost:
    """One access over the whole layout. accesses: how many; wavefronts: of all; ideal: if no bank were asked twice;
    first: the addresses of the first access's lanes, in bytes."""

    asked: Asked
    accesses: int
    wavefronts: int
    ideal: int
    first: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TileJudged:
    """A layout with what its accesses cost, and the placement that costs least where that was asked for."""

    layout: Layout
    element_bytes: int
    target: Target
    costs: tuple[AccessCost, ...]
    choice: SwizzleChoice | None = None
    buffer: Buffer | None = None

    @property
    def conflict_free(self) -> bool:
        """Whether no access, in the layout as it is given, takes more than it would alone."""
        return all(cost.wavefronts <= cost.ideal for cost in self.costs)

    @property
    def exit_code(self) -> int:
        """0 without conflicts, or where a placement was asked for; 1 otherwise."""
        return 0 if self.choice is not None or self.conflict_free else 1

    def layout_of(self, judged: Judged) -> Layout | NotExpressible:
        """A placement of the tile as a layout of (row, column). Raises TilewrightError where none was asked for."""
        if self.buffer is None:
            raise TilewrightError("no placement was asked for")
        return placement_layout(judged.placement, self.buffer, self.element_bytes)


def asked_of(text: str) -> Asked:
    """`ldmatrix.x4`, `st.shared.b128:rows`, `ld.shared.b32:columns:4`. Raises TilewrightError."""
    # A state space is part of a name: ld.shared::cta.b32.
    kind, *rest = text.replace("::", "\0").split(":")
    kind, order = kind.replace("\0", "::"), rest[0] if rest else "layout"
    weight = rest[1] if len(rest) > 1 else "1"
    if order not in _ORDERS or len(rest) > 2:
        raise TilewrightError(
            f"--access {text[:80]!r}: no order of lanes", remedy=f"write KIND:ORDER, one of {', '.join(_ORDERS)}"
        )
    if not (weight.isascii() and weight.isdigit() and len(weight) < 10 and int(weight)):
        raise TilewrightError(
            f"--access {text[:80]!r}: the weight is no positive number",
            remedy="write KIND:ORDER:WEIGHT, as in ld:rows:2",
        )
    access_kind(kind)
    return Asked(kind, order, int(weight))


def judge_tile(
    layout: Layout,
    accesses: Sequence[Asked],
    element_bytes: int,
    target: Target,
    *,
    engines: tuple[Engine, ...] = (),
    synthesize: bool = False,
) -> TileJudged:
    """Count wavefronts of every access, and choose a placement for all of them together.

    Raises TilewrightError for layouts that have no such accesses, and whatever `legal` raises it for.
    """
    if not layout.is_symbolic and max(abs(layout.least), layout.greatest) >= _MOST_ELEMENTS:
        raise TilewrightError(f"{layout} reaches beyond 2**48 elements", remedy="give a tile of shared memory")
    costs = tuple(_cost(layout, each, element_bytes, target) for each in accesses)
    if not synthesize:
        return TileJudged(layout, element_bytes, target, costs)
    buffer = _found(
        tile_buffer(layout, [each.of_tile for each in accesses], element_bytes, target, engines),
        "give another order of the lanes, or extents that are multiples of them; without --synthesize it is counted",
    )
    return TileJudged(layout, element_bytes, target, costs, choose_placement(buffer, target), buffer)


def _found(answer: Found | NotExpressible, remedy: str) -> Found:
    if isinstance(answer, NotExpressible):
        raise TilewrightError(answer.reason, remedy=remedy)
    return answer


def _cost(layout: Layout, asked: Asked, element_bytes: int, target: Target) -> AccessCost:
    walked = layout
    if asked.order != LANES:
        walked = _found(
            access_layout(layout, asked.of_tile, element_bytes), f"say where the lanes are: {asked.kind}:{LANES}"
        )
    lanes = lane_count(asked.kind, target)
    found = layout_wavefronts(asked.kind, walked, target, element_bytes)
    size = walked.size
    assert isinstance(size, int)
    accesses = -(-size // lanes)
    first = tuple(walked.at(lane) * element_bytes if lane < size else -1 for lane in range(lanes))
    return AccessCost(asked, accesses, found, accesses * ideal_wavefronts(asked.kind, target), first)
