"""Which slices of streamed tiles are this CTA's? The share of granules, cut into its head and its tail, in registers.

The definition is `ir.ac_stream`'s. A share is found from the CTA's number by one division, whose divisor is known when
the text is written (`lower.raster`); nothing is read from memory. Extents appear as immediates of `mov` alone.
Where a role's two units take work in turn, the loops count what the CTA has had before, so that a unit knows which
items are its own, and cursors pass over the slots of the others, however many those are.

Checked by: tests/lower/test_stream.py, against the definition; `contract` runs the text at small extents.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tilewright.ir.ac_stream import StreamPart, StreamPartOp
from tilewright.lower.emit import Text
from tilewright.lower.lowering import Lowering
from tilewright.lower.places import CursorPlace
from tilewright.lower.raster import divided_by, reciprocal
from tilewright.lower.rings import ring_stages
from tilewright.lower.stream_walk import Share
from tilewright.lower.turns import turn_items, wait_for_turn


def share_quantities(streamed: int, slices: int, granule: int, ctas: int) -> tuple[int, ...]:
    """Immediates that depend on extents: granules of a tile and its reciprocal, of every share, CTAs with one more.

    slices: of a tile.
    """
    tile = slices // granule
    base, larger = divmod(streamed * tile, ctas)
    return tile, tile - 1, reciprocal(tile), base, larger


def open_share(lowering: Lowering, op: StreamPart, ctas: int) -> Share:
    """Work out this CTA's part."""
    text = lowering.text
    slices = lowering.symbols[op.tile_slices.data]
    granule = op.granule.data
    whole, last, _, share, more = share_quantities(op.streamed.data, slices, granule, ctas)
    cta = text.into("b32", "mov.u32", "%ctaid.x")
    base, larger = text.into("b32", "mov.u32", share), text.into("b32", "mov.u32", more)
    low = text.into("b32", "mad.lo.u32", cta, base, text.into("b32", "min.u32", cta, larger))
    high = text.into("b32", "add.u32", low, granules_of(text, cta, base, larger))
    top = text.into("b32", "sub.u32", high, 1)
    top_tile, within = divided_by(text, top, whole)
    start = text.into("b32", "sub.u32", top, within)
    # A share that ends where a tile does has no head.
    has_head = text.into("pred", "setp.ne.u32", within, last)
    head_low = text.into("b32", "max.u32", low, start)
    if op.part.data == "head":
        first, end, tile, exists = head_low, high, top_tile, has_head
    else:
        first, end = low, text.into("b32", "selp.b32", head_low, high, has_head)
        exists = text.into("pred", "setp.lt.u32", low, end)
        below = text.into("b32", "selp.b32", 1, 0, has_head)
        tile = text.into("b32", "sub.u32", top_tile, below)
        granules = text.into("b32", "mov.u32", whole)
        start = text.into("b32", "sub.u32", start, text.into("b32", "mul.lo.u32", below, granules))
    count = text.into("b32", "mul.lo.u32", text.into("b32", "sub.u32", end, first), granule)
    first_slice = text.into("b32", "mul.lo.u32", text.into("b32", "sub.u32", first, start), granule)
    return Share(cta, low, base, larger, exists, tile, start, count, first_slice)


def granules_of(text: Text, cta: str, base: str, larger: str) -> str:
    """The granules of a CTA's share."""
    more = text.into("pred", "setp.lt.u32", cta, larger)
    return text.into("b32", "add.u32", base, text.into("b32", "selp.b32", 1, 0, more))


# ---------------------------------------------------------------- whose a part is


def enter_part(lowering: Lowering, op: StreamPart, share: Share, carried: Sequence[SSAValue], end: str) -> None:
    """Go to `end` where the CTA has no such part. Where units take work in turn, the one whose part it is waits for its
    turn, the other passes over its slots and goes to `end`. carried: the loop's arguments, cursors."""
    text = lowering.text
    # Set up before the branch: a role's later loops go on with it.
    walk = None if isinstance(op, StreamPartOp) else turn_items(lowering, op)
    text.emit("bra", end, guard=f"!{share.exists}")
    if walk is None:
        return
    own = text.into("pred", "setp.eq.u32", text.into("b32", "and.b32", walk.items, 1), walk.unit)
    text.emit("add.u32", walk.items, walk.items, 1)
    mine = text.label("own_part")
    text.emit("bra", mine, guard=own)
    for value in carried:
        _skip(lowering, value, share.count)
    text.emit("bra", end)
    text.place(mine)
    wait_for_turn(lowering, walk)


def _skip(lowering: Lowering, value: SSAValue, slots: str) -> None:
    """Move a cursor in place over as many slots as a register says."""
    text, cursor = lowering.text, lowering.place(value)
    assert isinstance(cursor, CursorPlace)
    rounds, stage = divided_by(text, text.into("b32", "add.u32", cursor.stage, slots), ring_stages(value))
    text.emit("mov.u32", cursor.stage, stage)
    text.emit("xor.b32", cursor.parity, cursor.parity, text.into("b32", "and.b32", rounds, 1))
