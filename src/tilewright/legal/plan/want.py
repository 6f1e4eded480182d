"""What must a repaired tensor map still do?

A want narrows the search of `legal.plan.repairs`: which box each copy must deliver, which fields may not change,
whether the tensor may be copied first, whether boxes are stored rather than loaded, and who reads the box from shared
memory. Checked by tests/legal/plan/test_repairs.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from typing import Any, Literal, cast, get_args

from tilewright.base.error import TilewrightError
from tilewright.legal.argument import integers, shown

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

    Raises TilewrightError for a field or a consumer that does not exist, and a box of no elements.
    """

    box: tuple[int, ...] | None = None
    keep: frozenset[str] = frozenset()
    copy_allowed: bool = True
    store: bool = False
    consumer: Consumer | None = None

    def __post_init__(self) -> None:
        keep = cast("object", self.keep)
        if isinstance(keep, str | bytes) or not isinstance(keep, AbstractSet | Sequence):
            raise TilewrightError(f"want: keep is {shown(keep)}, not a set of field names")
        names: list[Any] = list(self.keep)
        if self.box is not None:
            object.__setattr__(self, "box", integers("box", self.box, "want"))
            if min(self.box, default=1) < 1:
                raise TilewrightError(f"want: a box of {shown(self.box)} has nothing to copy")
        for field in ("copy_allowed", "store"):
            if not isinstance(getattr(self, field), bool):
                raise TilewrightError(f"want: {field} is {shown(getattr(self, field))}, not True or False")
        for name in names:
            if isinstance(name, str) and name in FIELDS:
                continue
            raise TilewrightError(
                f"a tensor map has no field {shown(name)} to keep", remedy=f"fields: {', '.join(FIELDS)}"
            )
        consumer = cast("object", self.consumer)
        if consumer is not None and not (isinstance(consumer, str) and consumer in get_args(Consumer)):
            known = ", ".join(get_args(Consumer))
            raise TilewrightError(f"unknown consumer {shown(self.consumer)}", remedy=f"known consumers: {known}")
        object.__setattr__(self, "keep", frozenset(names))


def want_of(want: object) -> Want:
    """What a caller wants: a `Want`, its fields by name, or None, which wants nothing more than the map.

    Raises TilewrightError for a field that does not exist, and as `Want` does.
    """
    match want:
        case None:
            return _ANYTHING
        case Want():
            return want
        case Mapping():
            given = cast("Mapping[str, Any]", want)
            known = tuple(each.name for each in fields(Want))
            for name in given:
                if name not in known:
                    raise TilewrightError(f"a want has no field {shown(name)}", remedy=f"fields: {', '.join(known)}")
            return Want(**given)
        case _:
            raise TilewrightError(f"{shown(want)} is no want", remedy="give a legal.Want, or its fields by name")


_ANYTHING = Want()
