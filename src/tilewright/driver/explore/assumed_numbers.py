"""Which values of its numbers may a kernel's launches be assumed not to have?

A launch that is made up has numbers that nobody asked for. Three kinds of failures are those of the numbers:

- an address or a size is no multiple of what a copy or an access takes (AL201 to AL203, MF002), and with numbers
  rounded to multiples of 2, 4, ... 128 it is: "parameter 2 is a multiple of 4" is assumed, as the alignment of pointers
  is;
- a number is negative, and the launch with zero in its place fails at the same place by the same rule, which is
  excluded: "parameter 2 is at least 1" is assumed;
- a tensor map that the kernel makes has an extent beyond what a copy takes, and with smaller numbers it has not:
  "parameter 2 is at most 2^31" is assumed.

What is assumed narrows the values that later launches have (`Exploration.narrow`), so these must cover the kernel. No
hang and no race is excused by a multiple or an extent.
Not handled: sums of numbers of which each alone may be odd. Checked by: tests/driver/explore/test_assumed_numbers.py.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.verdict import Refuted
from tilewright.driver.explore.search.exploration import Exploration, Tried
from tilewright.machine.symbolic.expression import Input

_MULTIPLES = (2, 4, 8, 16, 32, 64, 128)
_ALIGNMENT = frozenset({"AL201", "AL202", "AL203", "MF002"})
_EXTENT = "tensor-extent"
"""Name of the fault of a copy whose tensor map has an extent that no copy takes."""
_BOUND_BITS = (31, 30, 29, 28, 27, 26, 25, 24)
"""Of numbers that make extents, alone or scaled."""


def first_finding(tried: Tried) -> Diagnostic:
    """The finding by which a launch fails."""
    assert isinstance(tried.judged.verdict, Refuted), "asked of launches that fail"
    return tried.judged.verdict.findings[0]


def fails_by_alignment(tried: Tried) -> bool:
    """Whether nothing is wrong with a launch but addresses and sizes that are no multiples, and it has numbers."""
    errors = _errors(tried) if tried.fails else ()
    chosen = any(each.kind == "number" or (each.kind == "offset" and value) for each, value in tried.values.items())
    return bool(errors) and chosen and all(each.code in _ALIGNMENT for each in errors)


def _errors(tried: Tried) -> tuple[Diagnostic, ...]:
    verdict = tried.judged.verdict
    findings = verdict.findings if isinstance(verdict, Refuted) else ()
    return tuple(each for each in findings if each.level is Level.ERROR)


def assume_multiple(exploration: Exploration, tried: Tried, name: Callable[[Input], str]) -> str:
    """Find numbers whose rounding to multiples ends the failure by alignment of a launch, one after the other, and let
    later launches keep to them. Returns the assumption, empty if there is none."""
    finding = first_finding(tried)
    multiples: dict[Input, int] = {}
    while any(each.code in _ALIGNMENT for each in _errors(tried)):
        rounded = _rounded(exploration, tried)
        if rounded is None:
            return ""
        given, multiples[given], tried = rounded
    for given, multiple in multiples.items():
        exploration.narrow(given, multiple=multiple)
    said = " and ".join(f"{name(given)} is a multiple of {multiple}" for given, multiple in multiples.items())
    return f"{said} (at others the kernel fails with {finding.code})"


def _rounded(exploration: Exploration, tried: Tried) -> tuple[Input, int, Tried] | None:
    """The number whose rounding to the smallest multiple ends what fails first, this multiple, and that launch."""
    place = first_finding(tried).primary
    for multiple in _MULTIPLES:
        for given, value in tried.values.items():
            known = exploration.dimensions.get(given)
            if known is None or given.kind not in ("number", "offset") or multiple > known.largest:
                continue
            if not value % multiple or _is_negative(given, value):
                continue
            other = exploration.at({**tried.values, given: _odd_multiple(value, multiple)})
            if not any(each.code in _ALIGNMENT and each.primary == place for each in _errors(other)):
                return given, multiple, other
    return None


def fails_by_extent(tried: Tried) -> bool:
    """Whether nothing is wrong with a launch but that a tensor map has an extent that no copy takes."""
    errors = _errors(tried) if tried.fails else ()
    return bool(errors) and all(each.name == _EXTENT for each in errors)


def assume_smaller(exploration: Exploration, tried: Tried, name: Callable[[Input], str]) -> str:
    """Find the largest power of two up to which numbers make no extent that is too large, of one number or of all that
    are larger, and let later launches keep to it. Returns the assumption, empty if there is none."""
    finding = first_finding(tried)
    numbers = [each for each in tried.values if each.kind == "number" and each in exploration.dimensions]
    for bits in _BOUND_BITS:
        larger = [each for each in numbers if tried.values[each] > 1 << bits]
        for some in (*([each] for each in larger), *([larger] if len(larger) > 1 else [])):
            if any(not exploration.dimensions[each].allows(1 << bits) for each in some):
                continue
            other = exploration.at({**tried.values, **dict.fromkeys(some, 1 << bits)})
            if any(each.name == _EXTENT for each in _errors(other)):
                continue
            for each in some:
                exploration.narrow(each, largest=1 << bits)
            names = " and ".join(map(name, some))
            verb = "are" if len(some) > 1 else "is"
            return f"{names} {verb} at most 2^{bits} (beyond, the kernel fails with {finding.code}: {finding.message})"
    return ""


def _odd_multiple(value: int, multiple: int) -> int:
    """A number near `value` that is a multiple, and of no larger power of two."""
    count = max(1, value // multiple)
    return multiple * (count if count & 1 else count + 1)


def assume_positive(exploration: Exploration, tried: Tried, given: Input, name: Callable[[Input], str]) -> str:
    """Let later launches have a positive number. Returns the assumption."""
    finding = first_finding(tried)
    bits = 8 * given.size_bytes - 1
    exploration.narrow(given, smallest=1, largest=(1 << bits) - 1)
    return f"{name(given)} is at least 1 and below 2^{bits} (at negative numbers the kernel fails with {finding.code})"


def negative_numbers(tried: Tried) -> list[Input]:
    """Numbers of a launch that are negative, if they are signed."""
    return [each for each, value in tried.values.items() if each.kind == "number" and _is_negative(each, value)]


def _is_negative(given: Input, value: int) -> bool:
    return bool(value >> (8 * given.size_bytes - 1))
