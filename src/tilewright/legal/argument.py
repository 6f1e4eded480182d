"""Is what a caller gave an integer, a list of integers, a target?

The public functions of `legal` take NumPy's integers, arrays and lists alike, and answer everything else with one
message that shows it shortened. A value may be out of every range, which the rules say; but a number beyond
`NUMBER_BITS_MAX` bits or a list beyond `ENTRIES_MAX` entries is a mistake of another kind, and is refused before it
costs time. Checked by: tests/legal/test_hostile_arguments.py.
"""

from __future__ import annotations

from itertools import islice
from operator import index
from reprlib import Repr
from typing import TYPE_CHECKING, cast

from tilewright.base.error import TilewrightError
from tilewright.targets import BANK_TARGET_NAMES, Target
from tilewright.targets import target as target_named

if TYPE_CHECKING:
    from collections.abc import Iterable

NUMBER_BITS_MAX = 4096
"""Far above every word that a tensor map has, and far below what Python prints at once."""
ENTRIES_MAX = 1 << 16

_GIVE_INTEGERS = "give whole numbers"
_GIVE_LIST = "give one integer for each entry, in a list or a tuple"
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 60


def shown(value: object) -> str:
    """`value` for a message, shortened."""
    if isinstance(value, int) and value.bit_length() > NUMBER_BITS_MAX:
        return f"an integer of {value.bit_length()} bits"
    try:
        return " ".join(_SHORT.repr(value).split())  # an array prints several lines
    except ValueError:  # an integer somewhere inside, too long to print
        return f"a {type(value).__name__}"


def integer(field: str, value: object, noun: str = "tensor map") -> int:
    """`value` as an integer. Raises TilewrightError where it is none (a bool, a float such as NaN, a text, nothing) and
    where it has more than `NUMBER_BITS_MAX` bits."""
    if type(value) is int:
        number = value
    elif isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TilewrightError(f"{noun}: {field} is {shown(value)}, not an integer", remedy=_GIVE_INTEGERS)
    else:
        try:
            number = index(cast("int", value))
        except TypeError:  # a NumPy bool, or an array of several entries: both have the method
            raise TilewrightError(f"{noun}: {field} is {shown(value)}, not an integer", remedy=_GIVE_INTEGERS) from None
    if number.bit_length() > NUMBER_BITS_MAX:
        raise TilewrightError(f"{noun}: {field} is {shown(number)}, more than any address or extent has")
    return number


def integers(field: str, values: object, noun: str = "tensor map") -> tuple[int, ...]:
    """`values` as a tuple of integers. Raises TilewrightError, naming the entry, where it is no list of them."""
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise TilewrightError(f"{noun}: {field} is {shown(values)}, not a list of integers", remedy=_GIVE_LIST)
    try:
        entries = tuple(islice(cast("Iterable[object]", values), ENTRIES_MAX + 1))
    except TypeError:  # an array of no dimensions, a class: both only look like lists
        raise TilewrightError(
            f"{noun}: {field} is {shown(values)}, not a list of integers", remedy=_GIVE_LIST
        ) from None
    if len(entries) > ENTRIES_MAX:
        raise TilewrightError(f"{noun}: {field} has more than {ENTRIES_MAX} entries")
    return tuple([integer(f"{field}[{at}]", value, noun) for at, value in enumerate(entries)])


def target_of(target: object) -> Target:
    """The target that a caller names or gives. Raises TilewrightError for anything else."""
    if isinstance(target, Target):
        return target
    if not isinstance(target, str):
        known = ", ".join(BANK_TARGET_NAMES)
        raise TilewrightError(f"{shown(target)} is no target", remedy=f"known targets: {known}")
    return target_named(target)
