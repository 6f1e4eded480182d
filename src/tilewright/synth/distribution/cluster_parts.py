"""Can each of a cluster's CTAs load an equal part of an operand's slot?

A slot's rows lie 128 bytes apart, and a copy may begin at any of them, since its swizzle is one of absolute addresses.
So where rows run along the contracted axis a part is any number of them, but no less than a core matrix has: smaller
copies were not timed. Boxes that run across it are loaded whole. Sources: PTX ISA 5.5.7, swizzling modes;
`tensor_map.shared_alignment_bytes`.
Checked by: tests/synth/distribution/test_cluster_parts.py; where every copy's bytes go `contract` adds up.
"""

from __future__ import annotations

CORE_ROWS = 8
"""Of a core matrix: by so many more or less is loaded of an operand whose rows run along the contracted axis."""


def in_equal_parts(extent: int, ctas: int, step: int) -> bool:
    """extent: of a tile, along the operand's outer axis; step: by how much more or less of that is loaded."""
    unit = 1 if step == CORE_ROWS else step
    return extent % (ctas * unit) == 0 and extent >= ctas * step
