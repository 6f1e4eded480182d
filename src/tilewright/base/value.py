"""Values of which there are tens of thousands: frozen to the type checker alone.

A frozen dataclass sets its fields one by one around its own guard, and so takes much longer to make than one that is
not. Where a program makes few of them nobody notices; the places in a text, its instructions and the events of a run
are many. So these are not frozen when they are made, and the type checker sees to it that nobody changes them.
Checked by: tests/base/test_value.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

_Class = TypeVar("_Class")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[_Class]) -> type[_Class]:
    """A dataclass with slots whose objects are equal and hashed by their fields, and never changed."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
