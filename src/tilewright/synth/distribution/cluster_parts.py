"""Can the CTAs of a cluster each load an equal part of an operand's slot?

A slot's rows lie 128 bytes apart and its swizzle repeats every eight of them; a copy's destination must begin where the
swizzle does. So a part of a K-major slot is a whole number of eight rows. An MN-major slot is made of boxes one swizzle
span wide, of which a part holds whole ones. Source: PTX ISA, cp.async.bulk.tensor, swizzling modes.
Checked by: tests/synth/distribution/test_cluster_parts.py, and by `contract`, which adds up where every copy's bytes
go.
"""

from __future__ import annotations

from tilewright.base.error import TilewrightError
from tilewright.ir.decisions import OperandDecision

ATOM_ROWS = 8
"""Rows of 128 bytes after which the swizzle begins anew."""


def require_equal_parts(operand: OperandDecision, extent: int, issuers: int) -> None:
    """Raises TilewrightError where `issuers` CTAs cannot each load an equal part of an operand's slot.

    extent: elements of the slot along the operand's outer axis.
    """
    multiple = ATOM_ROWS if operand.major == "K" else operand.map.box[0]
    if extent % (issuers * multiple):
        raise TilewrightError(
            f"a cluster of {issuers} CTAs cannot share {extent} elements of {operand.buffer}, {operand.major}-major",
            remedy=f"each CTA loads a part of the shared operand, which must be a multiple of {multiple}",
        )
