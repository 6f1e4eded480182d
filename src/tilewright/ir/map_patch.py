"""What does a kernel change in a tensor map before each group's copies? A template, and expressions of its sizes.

In a grouped product every group has an address and extents of its own. One tensor map, encoded by the host, serves as
template; for each group the kernel copies it, replaces the fields that differ, and publishes it.
`synth.operand.map_patch` decides which fields those are and proves the result legal; `lower.ptx.map_patch` writes the
instructions. Here is the value between the two.

A group is a record of 64-bit integers, one for each size, in the order of `sizes`. Fields and units are those of
`tensormap.replace` (PTX ISA 9.7.9.28): extents in elements, strides and addresses in bytes.
Checked by tests/synth/operand/test_map_patch.py and tests/lower/ptx/test_map_patch.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tilewright.base.plan import TensorMap
from tilewright.layout.numbers.condition import Condition
from tilewright.layout.numbers.integer_expression import IntegerExpression
from tilewright.layout.numbers.integer_fact import IntegerFact

WORD_BYTES = 8
"""Of one size in a group's record."""

PatchedField = Literal["global_address", "global_dim", "global_stride"]


@dataclass(frozen=True, slots=True)
class Replacement:
    """One field that differs from group to group. index: which entry; of strides, entry i is that of dimension i + 1;
    0 for the address. value: of the group's sizes."""

    field: PatchedField
    index: int
    value: IntegerExpression


@dataclass(frozen=True, slots=True)
class MapPatch:
    """How one tensor map follows the groups.

    template: a legal map with the fields that all groups share, and harmless values in the others; sizes: the record's
    entries, with what is promised of each; conditions: what the kernel must ask of a group before it uses it (a group
    that breaks one is a trap), empty where the promises suffice; slots: maps that each CTA writes in turn.
    """

    template: TensorMap
    sizes: tuple[tuple[str, IntegerFact], ...]
    replacements: tuple[Replacement, ...]
    conditions: tuple[Condition, ...]
    slots: int

    @property
    def record_bytes(self) -> int:
        """Of one group's sizes."""
        return WORD_BYTES * len(self.sizes)

    def offset_bytes(self, size: str) -> int:
        """Where a size stands in the record. Raises KeyError for a size that is not in it."""
        for index, (name, _) in enumerate(self.sizes):
            if name == size:
                return WORD_BYTES * index
        raise KeyError(size)

    def record(self, values: Mapping[str, int]) -> bytes:
        """One group's sizes as they stand in memory. Raises KeyError for a missing one, OverflowError for 2^63."""
        return b"".join(values[name].to_bytes(WORD_BYTES, "little", signed=True) for name, _ in self.sizes)
