"""What must a repaired tensor map still do?

A want narrows the search of `legal.repairs`: which box each copy must deliver, which fields may not change, whether the
tensor may be copied first, whether boxes are stored rather than loaded, and who reads the box from shared memory.
Checked by tests/legal/test_repairs.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tilewright.base.error import TilewrightError

Consumer = Literal["wgmma", "tcgen05", "ldmatrix"]

FIELDS = (
    "dtype",
    "dims",
    "strides",
    "box",
    "element_strides",
    "interleave",
    "swizzle",
    "l2_promotion",
    "oob_fill",
    "address",
)
"""The fields of `legal.TensorMap`, which `Want.keep` names."""


@dataclass(frozen=True, slots=True)
class Want:
    """box: elements that one step of the kernel needs, innermost first; by default the map's own box, which may then
    be rounded up. A box that is wanted is delivered as it is, by several copies where it takes several.
    keep: fields that must not change. copy_allowed: whether the tensor may be copied into a workspace first.
    store: boxes are stored to the tensor: nothing outside a box may be written. consumer: who reads the box.

    Raises TilewrightError for a field or a consumer that does not exist.
    """

    box: tuple[int, ...] | None = None
    keep: frozenset[str] = frozenset()
    copy_allowed: bool = True
    store: bool = False
    consumer: Consumer | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "keep", frozenset(self.keep))
        if self.box is not None:
            object.__setattr__(self, "box", tuple(self.box))
        for name in sorted(self.keep - set(FIELDS)):
            raise TilewrightError(f"a tensor map has no field {name!r} to keep", remedy=f"fields: {', '.join(FIELDS)}")
        if self.consumer is not None and self.consumer not in get_args(Consumer):
            known = ", ".join(get_args(Consumer))
            raise TilewrightError(f"unknown consumer {self.consumer!r}", remedy=f"known consumers: {known}")
