"""Which expressions do lanes give one another: by shuffles, votes and reductions of a warp?

A uniform expression stays what it is, and a vote on one is its predicate; anything else is opaque. Checked by:
tests/machine/symbolic/test_tracker.py.
"""

from __future__ import annotations

import numpy as np

from tilewright.frontends.ptx.ast import Immediate, Negated, Register
from tilewright.machine.core.lanes import (
    Registers,
    indices,
)
from tilewright.machine.core.state import Warp
from tilewright.machine.symbolic.expression import Source
from tilewright.machine.symbolic.traced import Traced
from tilewright.machine.symbolic.tracker import Pieces


def exchanged(traced: Traced, warp: Warp, r: Registers, held: dict[int, Pieces], mask: int) -> dict[int, Source]:
    """What lanes give one another: a uniform expression stays what it is."""
    run, row = traced.run_of, traced.instruction.row
    nodes = traced.read(r, held, mask)
    if not nodes:
        return {}
    slots = traced.recording.slots
    value = traced.instruction.operands[1]
    negated = isinstance(value, Negated)
    register = value.operand if isinstance(value, Negated) else value
    slot = slots.get(register.name) if isinstance(register, Register) else None
    node = run.node(held, r, slot, mask) if slot is not None else None
    alone = len(nodes) == 1 and node is not None
    lanes = run.source_of(r, slot, mask) if slot is not None and node is None else None
    if row == "shfl.sync" and lanes is not None and lanes.size == 1:
        return {}
    if row == "shfl.sync" and len(nodes) == 1 and node is not None and "idx" in traced.instruction.modifiers:
        lane, clamp = traced.instruction.operands[2:4]
        if slot is not None and not node.uniform and isinstance(lane, Immediate) and clamp == Immediate(31):
            node = run.node(held, r, slot, 1 << (8 * (lane.value & 31)))
    target = traced.writes[0] if len(traced.writes) == 1 else None
    if alone and node is not None and node.uniform and target is not None:
        if negated:
            node = run.table.negated(node)
        if row == "shfl.sync" or (row == "redux.sync" and not {"add", "xor"} & set(traced.instruction.modifiers)):
            return {target: node}
        if row == "vote.sync" and {"any", "all"} & set(traced.instruction.modifiers):
            return {target: node}
        if row == "vote.sync" and "ballot" in traced.instruction.modifiers:
            bits = sum(1 << int(lane) for lane in indices(mask))
            word = np.array([bits], np.uint32), np.array([0], np.uint32)
            return {target: run.table.chosen(node, *word)}
    return dict.fromkeys(traced.writes, run.table.opaque(f"what {traced.instruction.opcode} gives", nodes))
