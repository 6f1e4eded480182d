"""What every op's lowering shares: the text, where values are kept, the kernel's fixed registers."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Block, SSAValue

from tilewright.lower.emit import Text
from tilewright.lower.group_walk import GroupWalk
from tilewright.lower.places import IndexPlace, Place, Places, SlotPlace


@dataclass(slots=True)
class Lowering:
    """What every op's lowering shares: the text, where values are, and the kernel's fixed registers."""

    text: Text
    places: Places
    symbols: dict[str, int]
    cluster_size: int
    launch_registers: int
    shared_base: str = ""
    thread: str = ""
    warpgroup_thread: str = ""
    warpgroup: str = ""
    is_first_thread: str = ""
    walks: dict[Block, GroupWalk] = field(default_factory=dict[Block, GroupWalk])

    def place(self, value: SSAValue) -> Place:
        return self.places[value]

    def index(self, value: SSAValue) -> str:
        place = self.places[value]
        assert isinstance(place, IndexPlace)
        return place.register


def integers(attribute: ArrayAttr[IntAttr]) -> tuple[int, ...]:
    """The numbers of an array attribute."""
    return tuple(item.data for item in attribute)


def slot_of(lowering: Lowering, value: SSAValue) -> SlotPlace:
    """The slot that a phase, transaction or reading token stands for."""
    place = lowering.place(value)
    assert isinstance(place, SlotPlace)
    return place
