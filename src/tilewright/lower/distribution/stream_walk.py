"""What a role whose units take parts of streamed tiles and whole tiles in turn keeps in registers.

A value apart, so that `lowering` can name it; `stream_parts` says how it is used.
Checked by: tests/lower/test_stream.py.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TurnItems:
    """Registers. items: parts that the CTA has had; barrier: address of the unit's barrier of turns; parity: that it
    waits for next; unit."""

    items: str
    barrier: str
    parity: str
    unit: str
