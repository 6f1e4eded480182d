"""How a loop over a CTA's parts of streamed tiles becomes text: which tiles they are of, and whose turn it is.

The definition is `ir.ac.stream`'s: the CTA's number alone says which parts it has. Where a role's two units take work
in turn, both go through all parts, counting them; for one that is the other's, a unit passes over its slots.
Extents appear as immediates of `mov` and of comparisons alone.

Checked by: tests/lower/test_stream.py; `contract` runs the text at small extents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilewright.base.size import number_of
from tilewright.ir.ac.stream import StreamPart, TurnStreamPartOp
from tilewright.lower.distribution.turns import skip_slots, turn_items, wait_for_turn
from tilewright.lower.ptx.lowering import Lowering


@dataclass(frozen=True, slots=True)
class PartWalk:
    """Registers with the number of the part's tile and its first slice; labels of the loop's head, of where it goes on,
    and of its end."""

    tile: str
    first_slice: str
    head: str
    following: str
    end: str


def open_parts(lowering: Lowering, op: StreamPart, carried: Sequence[SSAValue]) -> PartWalk:
    """The loop's head, up to where the body of a part begins that is this unit's. carried: the loop's arguments,
    cursors."""
    text = lowering.text
    walk = PartWalk(
        text.into("b32", "mov.u32", "%ctaid.x"),
        text.into("b32", "mov.u32", op.first_slice.data),
        *(text.label(f"{op.part.data}_{name}") for name in ("part", "next", "end")),
    )
    # Set up before any branch: later loops of the role go on with it.
    turns = turn_items(lowering, op) if isinstance(op, TurnStreamPartOp) else None
    helpers = text.into("b32", "mov.u32", op.helpers.data)
    if op.part.data == "head":
        text.emit("bra", walk.end, guard=text.into("pred", "setp.ge.u32", walk.tile, helpers))
        text.place(walk.head)
        text.emit("bra", walk.end, guard=text.into("pred", "setp.ge.u32", walk.tile, op.streamed.data))
    else:
        text.emit("bra", walk.end, guard=text.into("pred", "setp.lt.u32", walk.tile, helpers))
        text.emit("sub.u32", walk.tile, walk.tile, helpers)
    if turns is None:
        return walk
    own = text.into("pred", "setp.eq.u32", text.into("b32", "and.b32", turns.items, 1), turns.unit)
    text.emit("add.u32", turns.items, turns.items, 1)
    mine = text.label("own_part")
    text.emit("bra", mine, guard=own)
    for value in carried:
        skip_slots(lowering, value, number_of(lowering.symbols[op.slices.data]))
    text.emit("bra", walk.following)
    text.place(mine)
    wait_for_turn(lowering, turns)
    return walk


def close_parts(lowering: Lowering, op: StreamPart, walk: PartWalk) -> None:
    """On to the helper's next tile; an owner has one."""
    text = lowering.text
    text.place(walk.following)
    if op.part.data == "head":
        text.emit("add.u32", walk.tile, walk.tile, text.into("b32", "mov.u32", op.helpers.data))
        text.emit("bra", walk.head)
    text.place(walk.end)
