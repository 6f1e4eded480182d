"""What does it mean that a descriptor is illegal? One value per rule broken."""

from __future__ import annotations

from tilewright.base.value import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule broken by one field.

    code and name: the rule, such as `TM012` `stride-multiple`; field: the argument in the hardware's or the driver's
    own words; index: which entry of it, or None where the field is no list; value: what stands there; limit: what the
    rule compares with; message: one line with both; source: document and section, or what was measured;
    enforced: whether the encoder refuses it. Where it does not, the copy or the allocation fails later.
    """

    code: str
    name: str
    field: str
    index: int | None
    value: int
    limit: int
    message: str
    source: str
    enforced: bool = True
