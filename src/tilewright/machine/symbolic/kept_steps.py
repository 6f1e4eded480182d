"""Which instructions of a slice count in a proof, and which leave a trace that no event tells of?

Not handled: what a run makes of them (`symbolic.steps`). Checked by: tests/machine/symbolic/test_tracker.py, and by the
coverage that rests on it, tests/driver/explore/gaps/test_coverage.py.
"""

from __future__ import annotations

from tilewright.machine.protocol.slicing.slice import Slice


def is_protocol(sliced: Slice, position: int) -> bool:
    """Whether an instruction is one of those that a proof must have seen executed."""
    facts = sliced.text.facts[position]
    if not facts.kept or facts.kind in ("control", "collective"):
        return False
    if facts.kind in ("load", "store", "atomic"):
        return facts.space != "global"
    return True


def changes_private_memory(sliced: Slice, position: int) -> bool:
    """Whether an instruction reads or writes local memory, of which no event says so."""
    facts = sliced.text.facts[position]
    return facts.kind in ("load", "store", "atomic") and facts.space == "local"
