"""How a loop that carries values becomes PTX: registers moved at the back edge, and copies of its body in a row.

Checked by: tests/lower/ptx.
"""

from __future__ import annotations

from xdsl.ir import Block

from tilewright.base.size import number_of
from tilewright.ir.ac import operations as ac
from tilewright.lower.fragment.registers import add_parts
from tilewright.lower.ptx.carried import carry_in, move, yielded_places
from tilewright.lower.ptx.indices import first_ahead, next_ahead
from tilewright.lower.ptx.lowering import Emitters, Lowering
from tilewright.lower.ptx.places import IndexPlace, Place
from tilewright.lower.ptx.run_time import count_name


def _lower_loop(lowering: Lowering, op: ac.LoopOp) -> None:
    text, block = lowering.text, op.body.block
    trips, own = lowering.symbols[op.symbol.data], lowering.trips.get(op.symbol.data)
    copies = op.copies.data if op.copies is not None else 1
    left = (number_of(trips) - op.begin.data) % copies if copies > 1 else 0
    assert own is None or copies == 1, "copies of the body of a loop whose trips a register holds"
    index = text.into("b32", "mov.u32", op.begin.data)
    carry_in(lowering, block, 1, tuple(op.carried))
    heads = [lowering.place(argument) for argument in block.args[1:]]
    head, end = text.label("loop"), text.label("loop_end")
    ahead = first_ahead(lowering, block, index) if copies == 1 else {}
    text.place(head)
    last = own or lowering.passed.operand(
        text, count_name(op.symbol.data), trips if copies == 1 else number_of(trips) - left
    )
    text.emit("bra", end, guard=text.into("pred", "setp.ge.u32", index, last))
    following = next_ahead(lowering, block, index, ahead)
    yielded = _lower_copies(lowering, block, index, heads, copies)
    move(text, heads, yielded)
    for load, register in ahead.items():
        text.emit("mov.b32", register, following[load])
    text.emit("add.u32", index, index, copies)
    text.emit("bra", head)
    text.place(end)
    for result, place in zip(op.outputs, _lower_copies(lowering, block, index, heads, left), strict=True):
        lowering.places[result] = place
    add_parts(lowering, op)


def _lower_copies(lowering: Lowering, block: Block, index: str, heads: list[Place], copies: int) -> list[Place]:
    """Copies of a loop's body in a row, from `index` on; where its carried values are then. What one copy yields is the
    next one's, without a move."""
    current = heads
    for copy in range(copies):
        number = lowering.text.into("b32", "add.u32", index, copy) if copy else index
        lowering.places[block.args[0]] = IndexPlace(number)
        lowering.places.update(zip(block.args[1:], current, strict=True))
        lowering.emit_block(block)
        current = yielded_places(lowering, block)
    return current


EMITTERS: Emitters = {ac.LoopOp: _lower_loop}
