"""Which cp.asyncs of a text follow one another with nothing but arithmetic between them?

What runs at one of them runs at the next, with the same lanes, whoever came there: between the two no step may jump,
wait, or do anything that another thread could see. Checked by: tests/machine/events_only/test_joined_copies.py.
"""

from __future__ import annotations

from tilewright.frontends.ptx.ast import Instruction, Kernel
from tilewright.machine.protocol.slice_operands import kind_of


def followed_copies(kernel: Kernel) -> frozenset[int]:
    """Identities of the cp.asyncs of a kernel that another one follows so, both without a guard."""
    found: set[int] = set()
    latest: Instruction | None = None
    for item in kernel.body:
        if not isinstance(item, Instruction):
            continue  # whoever jumps to a place between two of them has begun no row
        if item.row == "cp.async":
            if item.guard is None and latest is not None:
                found.add(id(latest))
            latest = item if item.guard is None else None
        elif kind_of(item) != "compute":
            latest = None
    return frozenset(found)
