"""Of which rows can the CTAs of a cluster each load an equal part of an operand's slot?

A slot's rows lie 128 bytes apart and its swizzle repeats every eight of them; a copy's destination must begin where the
swizzle does. So a part is a whole number of eight rows. Source: PTX ISA, cp.async.bulk.tensor, swizzling modes.
Checked by: `contract`, which adds up where every copy's bytes go.
"""

from __future__ import annotations

ATOM_ROWS = 8
"""Rows of 128 bytes after which the swizzle begins anew."""
