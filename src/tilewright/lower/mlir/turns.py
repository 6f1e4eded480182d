"""How tiles taken in turn are written in the upstream dialects: cursors over another's slots, barriers of turns.

The same protocol as `lower.distribution.turns`, which see; what a unit waits for, the parity of its own tiles so far,
is found in the loop's index. Checked by: tests/lower/test_nvgpu.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.lower.distribution.turns import skip_quantities
from tilewright.lower.mlir.text import HeldCursor, HeldRing, Nvgpu
from tilewright.lower.ptx.copies.rings import ring_stages

_WAIT_HINT_NANOSECONDS = 10_000_000


@dataclass(frozen=True, slots=True)
class TurnBounds:
    """Values: the unit's number; its first tile's number, and how far its tiles are apart."""

    unit: str
    first: str
    step: str


def turn_bounds(state: Nvgpu, op: ac.TurnTilesOp) -> TurnBounds:
    """Before the loop; the carried cursors are moved to the unit's first slots."""
    text = state.text
    role = op.parent_op()
    assert isinstance(role, ac.RoleOp)
    unit = state.index(role.body.block.args[0])
    clusters = state.grid[0] * state.grid[1] * state.grid[2] // state.cluster_size
    number = text.into("cluster", "gpu.cluster_id x") if state.cluster_size > 1 else text.into("cta", "gpu.block_id x")
    first = text.add(text.multiply(unit, clusters), number, "first")
    skip_cursors(state, op, op.carried, unit)
    return TurnBounds(unit, first, text.constant(2 * clusters))


def skip_cursors(state: Nvgpu, op: ac.TurnTilesOp, values: Sequence[SSAValue], unit: str = "") -> None:
    """Move the cursors that `values` hold over the slots of another's tile. unit: 0 or 1, by which to multiply; or
    once."""
    text, slots = state.text, state.symbols[op.skipped.data]
    for value, cursor in zip(values, op.carried, strict=True):
        held, stages = state.held[value], ring_stages(cursor)
        assert isinstance(held, HeldCursor)
        further, rounds = skip_quantities(slots, stages)
        moved = text.add(held.stage, text.multiply(unit, further) if unit else further, "further")
        wraps = text.into("wraps", f"arith.cmpi uge, {moved}, {text.constant(stages)} : index")
        begin = text.binary("begin", "subi", moved, text.constant(stages))
        stage = text.into("stage", f"arith.select {wraps}, {begin}, {moved} : index")
        parity = text.binary("parity", "xori", held.parity, wraps, "i1")
        if rounds:
            turned = text.constant("true", "i1")
            if unit:
                turned = text.into("second", f"arith.cmpi ne, {unit}, {text.constant(0)} : index")
            parity = text.binary("parity", "xori", parity, turned, "i1")
        state.held[value] = HeldCursor(stage, parity)


def write_turn_wait(state: Nvgpu, op: ac.TurnTilesOp, bounds: TurnBounds, tile: str) -> None:
    """At the head of a tile: the phase before the first has passed for unit 0, the first must end for unit 1."""
    text, ring = state.text, state.held[op.turns]
    assert isinstance(ring, HeldRing)
    number = text.binary("taken", "divui", text.binary("gone", "subi", tile, bounds.first), bounds.step)
    odd = text.binary("odd", "remui", text.add(number, bounds.unit), text.constant(2))
    parity = text.into("turn", f"arith.cmpi eq, {odd}, {text.constant(0)} : index")
    _on_own(
        state,
        bounds.unit,
        *(
            f"nvgpu.mbarrier.try_wait.parity {group}[{text.constant(0)}], {parity}, "
            f"{text.constant(_WAIT_HINT_NANOSECONDS)} : {ring.kind}"
            for group in (ring.full, ring.empty)
        ),
    )


def write_turn_pass(state: Nvgpu, op: ac.TurnPassOp) -> None:
    """One thread arrives on the other unit's barrier of turns."""
    text, ring = state.text, state.held[op.turns]
    assert isinstance(ring, HeldRing)
    with text.block(f"scf.if {state.is_first_thread} {{"):
        arrivals = [
            f"{text.name('token')} = nvgpu.mbarrier.arrive {group}[{text.constant(0)}] : {ring.kind} -> "
            "!nvgpu.mbarrier.token"
            for group in (ring.empty, ring.full)
        ]
        _on_own(state, state.index(op.unit), *arrivals)


def _on_own(state: Nvgpu, unit: str, first: str, second: str) -> None:
    """`first` by unit 0, `second` by unit 1."""
    text = state.text
    for predicate, line in (("eq", first), ("ne", second)):
        mine = text.into("own", f"arith.cmpi {predicate}, {unit}, {text.constant(0)} : index")
        with text.block(f"scf.if {mine} {{"):
            text.line(line)
