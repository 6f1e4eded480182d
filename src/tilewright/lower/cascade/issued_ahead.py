"""Products of an iteration that a role of its own issues, of walks that do more than sum.

What both operands of a product are slots for, as queries with keys, no thread has to compute first. So a role of one
thread issues it for the rows of all consumers, into a slot of tensor memory, as soon as its operands are there and a
slot is free: while the consumers compute on what it gave for an iteration, the tensor core multiplies for the next. The
consumers issue the products of what they computed, each from its own part of the columns (`tensor_product`).

A slot has the sums of all such products of an iteration, and is handed over by one commit. Operands that stay for a
tile are released, by the tensor core, behind the last walk that needs them. Which products, synth decides (`issued`).

Not handled: pairs of CTAs, operands in slices, rows in groups. Checked by: tests/end_to_end/test_blackwell_issuer.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.tensor_memory import TensorHandOverOp, TensorReadOp
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import Product
from tilewright.ir.issued_products import issued_columns, issued_products, operands_of
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import loops
from tilewright.lower.build import Build, counted_loop, new_role
from tilewright.lower.cascade.handed import Work
from tilewright.lower.cascade.place import open_tiles
from tilewright.lower.cascade.slot_sums import Issuer, Sums
from tilewright.lower.cascade.slots import Ring, release
from tilewright.lower.cascade.tensor_product import fence, release_read

if TYPE_CHECKING:
    from tilewright.lower.cascade.consumer import Consumer


# ---------------------------------------------------------------- who issues


def add_issuer_ahead(
    build: Build,
    program: tile.ProgramOp,
    d: CascadeDecisions,
    rings: Mapping[tile.LoadOp, Ring],
    sums: Sums,
    first: int,
    work: Work | None,
) -> None:
    """The role that multiplies. first: its first thread; work: answers, where the hardware hands tiles out."""
    role, unit = new_role(build, "issuer", "thread1", 1, first, d.producer_registers)
    taken = {load for each in issued_products(program, d) for load in operands_of(program, each)}
    listed = [load for load in rings if load in taken]
    starts = [*(rings[load].start(role, "full") for load in listed), sums.start(role, "empty")]
    starts += [] if work is None else [work.start(role, "full")]
    inside, _, carried = open_tiles(role, program, d, starts)
    cursors, own = dict(zip(listed, carried, strict=False)), carried[len(listed)]
    staying: dict[tile.LoadOp, SSAValue] = {}
    walks = [loop for loop in loops(program) if issued_products(program, d, loop)]
    for number, loop in enumerate(walks):
        products = issued_products(program, d, loop)
        needed = list(dict.fromkeys(load for each in products for load in operands_of(program, each)))
        columns = {value: (at, d.tile_streamed) for value, at in issued_columns(d, products).items()}
        issuer = Issuer(program, d, rings, sums, products, columns)
        for load in needed:
            if rings[load].decision.resident and load not in staying:
                staying[load] = rings[load].wait(inside, cursors[load], "full")
                cursors[load] = rings[load].advance(inside, cursors[load])
        passing = [load for load in needed if load not in staying]
        kept = [load for load in needed if load in staying]
        # The first iteration by itself: behind it what stays has been read.
        own = _iteration(inside, issuer, cursors, staying, own, kept)
        inner, block, op = counted_loop(
            inside, 1, [*(cursors[load] for load in passing), *(staying[load] for load in kept), own]
        )
        moving: dict[tile.LoadOp, SSAValue] = dict(zip(passing, block.args[1:], strict=False))
        held: dict[tile.LoadOp, SSAValue] = dict(zip(kept, block.args[1 + len(passing) :], strict=False))
        following = _iteration(inner, issuer, moving, held, block.args[-1], kept)
        inner.add(
            ac.YieldOp.create(operands=[*(moving[load] for load in passing), *(held[load] for load in kept), following])
        )
        *left, own = op.outputs
        cursors |= dict(zip(passing, left, strict=False))
        staying |= dict(zip(kept, left[len(passing) :], strict=True))
        later = {load for each in walks[number + 1 :] for load in _operands(program, d, each)}
        for load in [load for load in staying if load not in later]:
            release_read(inside, staying.pop(load))
    left = [] if work is None else [work.take(inside, carried[-1], unit, meets=False)]
    inside.add(ac.YieldOp.create(operands=[*(cursors[load] for load in listed), own, *left]))


def _operands(program: tile.ProgramOp, d: CascadeDecisions, loop: tile.LoopOp) -> set[tile.LoadOp]:
    return {load for each in issued_products(program, d, loop) for load in operands_of(program, each)}


def _iteration(
    build: Build,
    issuer: Issuer,
    cursors: dict[tile.LoadOp, SSAValue],
    staying: dict[tile.LoadOp, SSAValue],
    own: SSAValue,
    kept: list[tile.LoadOp],
) -> SSAValue:
    """One iteration's products into a slot, which is handed over; the cursor behind it. cursors and staying move on."""
    into, own = issuer.sums.take(build, own, "empty")
    held = {load: staying[load] for load in kept}
    filling, moved = issuer.issue(build, cursors, into, 0, held)
    cursors.update(moved)
    staying.update(held)
    build.add(TensorHandOverOp.create(operands=[filling]))
    return own


# ---------------------------------------------------------------- who reads


@dataclass(slots=True)
class Ahead:
    """Where a consumer is among the slots that another role fills. cursor: of the next; phase: of the slot that is
    read, if one is; left: products whose sums are still to be read from it."""

    sums: Sums
    cursor: SSAValue
    phase: SSAValue | None = None
    left: int = 0


def read_issued(consumer: Consumer, product: Product) -> None:
    """The product in registers; its slot is free once the sums of all of the iteration's are."""
    ahead, build, d = consumer.ahead, consumer.build, consumer.d
    loop = product.op.parent_op()
    assert ahead is not None and isinstance(loop, tile.LoopOp)
    together = issued_products(consumer.program, d, loop)
    if ahead.phase is None:
        ahead.phase, ahead.cursor = ahead.sums.take(build, ahead.cursor, "full")
        ahead.left = len(together)
    kind = ac.FragmentType(IntAttr(d.unit_rows), IntAttr(d.tile_streamed), StringAttr("mn"), StringAttr("f32"))
    op = TensorReadOp.create(
        operands=[ahead.sums.memory, ahead.phase, consumer.unit],
        properties={"column": IntAttr(issued_columns(d, together)[product.op.result])},
        result_types=[kind, ahead.phase.type],
    )
    build.add(op)
    consumer.values[product.op.result], ahead.phase = op.results
    ahead.left -= 1
    if not ahead.left:
        fence(build, consumer)
        release(build, ahead.phase)
        ahead.phase = None
