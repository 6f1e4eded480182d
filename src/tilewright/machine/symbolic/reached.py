"""Which registers may depend on what a launch chooses?

A closure over register names: what is loaded of the parameter block, of constants or of global memory, what the grid
decides, what atomic operations give, how requests for other clusters' work are answered, and what is computed of these.
What is stored elsewhere than to global memory may be loaded again by anybody. Checked by:
tests/machine/symbolic/test_tracker.py.
"""

from __future__ import annotations

from tilewright.machine.protocol.slicing.slice import Slice
from tilewright.machine.protocol.slicing.slice_operands import reads_answer

SHAPES = ("%nctaid", "%ctaid", "%nclusterid", "%clusterid")
"""What the special registers that the grid decides about begin with."""


def reached_by_inputs(sliced: Slice, block: bool, *, grid: bool, data: bool) -> frozenset[str]:
    """Registers of the slice that may depend on what a launch chooses. block, grid, data: whether there are inputs in
    the parameter block, the grid, global memory."""
    text = sliced.text
    found: set[str] = set()
    if grid:
        found |= {name for name in sliced.registers if name.startswith(SHAPES)}
    for position in sliced.executed:
        facts = text.facts[position]
        if facts.kind == "load" and (
            (facts.space == "param" and block)
            or (facts.space == "const" and data)
            or (facts.space in ("global", "generic") and (data or block))
        ):
            found |= facts.writes & sliced.registers
        instruction = text.flow.instructions[position]
        if (facts.kind == "atomic" or reads_answer(instruction)) and data:
            found |= facts.writes & sliced.registers
    return closed(sliced, frozenset(found))


def closed(sliced: Slice, chosen: frozenset[str]) -> frozenset[str]:
    """Some registers of the slice, and those that are computed of them, through memory as well."""
    text = sliced.text
    found = set(chosen)
    while True:
        before = len(found)
        through_memory = any(
            facts.kind in ("store", "atomic") and facts.space != "global" and not found.isdisjoint(facts.reads)
            for facts in (text.facts[position] for position in sliced.stores)
        )
        for position in sliced.executed:
            facts = text.facts[position]
            if facts.kind in ("store", "protocol", "control"):
                continue
            reads = facts.kind in ("load", "atomic") and facts.space in ("shared", "generic", "local", "param")
            stored = through_memory and reads
            if stored or not found.isdisjoint(facts.reads):
                found |= facts.writes & sliced.registers
        if len(found) == before:
            return frozenset(found)
