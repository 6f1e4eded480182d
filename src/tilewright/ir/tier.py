"""Where values live and who may touch them: the `tier` types.

`!tier.mem` names a memory tier with the layout of one slot; `#tier.exec` names the unit that runs a role. The same
program lowers to register accumulators or to tensor memory by changing tiers. Structure only: whether a layout is legal
is for `legal`, whether an access is ordered is for `contract`. Checked by: tests/ir/ac/test_text.py.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Dialect, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from tilewright.ir.plain_attributes import PlainParameters

TIERS = ("Reg", "SMEM", "TMEM", "GMEM")
UNITS = {"thread1": 1, "warp32": 32, "warpgroup128": 128}


@irdl_attr_definition
class MemoryType(PlainParameters, TypeAttribute):
    """`slots` slots of `slot_bytes` bytes in a tier, under a swizzle (a bulk copy's; rows are as its box has them)."""

    name = "tier.mem"

    tier: StringAttr
    element: StringAttr
    slots: IntAttr
    slot_bytes: IntAttr
    swizzle: StringAttr

    def verify(self) -> None:
        if self.tier.data not in TIERS:
            raise VerifyException(f"unknown memory tier {self.tier.data!r}: one of {', '.join(TIERS)}")
        if self.slots.data < 1 or self.slot_bytes.data < 1:
            raise VerifyException("a memory needs at least one slot of at least one byte")


@irdl_attr_definition
class ExecutionAttr(PlainParameters):
    """`count` units of kind `unit`, the first at thread `first_thread` of the CTA."""

    name = "tier.exec"

    unit: StringAttr
    count: IntAttr
    first_thread: IntAttr

    def verify(self) -> None:
        if self.unit.data not in UNITS:
            raise VerifyException(f"unknown execution unit {self.unit.data!r}: one of {', '.join(UNITS)}")

    @property
    def threads(self) -> int:
        return UNITS[self.unit.data] * self.count.data


def int_array(values: tuple[int, ...] | list[int]) -> ArrayAttr[IntAttr]:
    """An array attribute of plain integers."""
    return ArrayAttr([IntAttr(value) for value in values])


Tier = Dialect("tier", [], [MemoryType, ExecutionAttr])
