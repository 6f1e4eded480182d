"""Which layout has these values, if any does?

Theory: along one axis a layout's values are evenly spaced in runs; the first run's length is the extent of its first
leaf, since in a coalesced layout the next value breaks the spacing; the heads of the runs are the values of the rest.
So each axis has at most one answer, and the whole is their sum or no layout. Exact, up to 2**16 elements.
Checked by tests/layout/test_composition.py.
"""

from __future__ import annotations

from tilewright.layout import nested
from tilewright.layout.answer import NotDecided, NotExpressible, Refusal
from tilewright.layout.layout import Layout, made
from tilewright.layout.nested import Nested

_MOST_ENUMERATED = 1 << 16


def filled(values: list[Nested], profile: Nested) -> Nested:
    """The values in the place of the profile's leaves."""
    if not isinstance(profile, tuple):
        return values[0]
    if len(values) == len(profile) and not any([isinstance(part, tuple) for part in profile]):
        return tuple(values)
    return nested.unflatten(values, profile)


def by_values(left: Layout, right: Layout, flat: list[tuple[int, int]]) -> Layout | Refusal:
    """`left`, without offset and swizzle, after `right`; `NotDecided` where its values are too many or too large.

    flat: the coalesced leaves of `left`, as far as the values of `right` go, none of which is negative.
    """
    import numpy as np

    size = nested.product(right.shape)
    assert isinstance(size, int)
    shown = f"{left} o {right}"
    reach = sum([(extent - 1) * abs(stride) for extent, stride in flat])
    if size > _MOST_ENUMERATED or max(reach, right.greatest) >= 1 << 62:
        return NotDecided(f"{shown}: {size} elements whose digits overflow", "fewer elements, or a divisible shape")
    places = right.offsets()
    wanted = np.zeros_like(places)
    for extent, stride in flat:
        wanted += places % extent * stride
        places //= extent
    first = int(wanted[0])
    splits: list[Nested] = []
    strides: list[Nested] = []
    place = 1
    for extent, stride in right.constant_flat():
        values: list[int] = (wanted[: place * extent : place] - first).tolist()
        runs = _recognized(values)
        if runs is None:
            return NotExpressible(f"{shown}: along {extent}:{stride} the values {_shown(values)} are no layout")
        splits.append(runs[0][0] if len(runs) == 1 else tuple(n for n, _ in runs))
        strides.append(runs[0][1] if len(runs) == 1 else tuple(d for _, d in runs))
        place *= extent
    result = made(filled(splits, right.shape), filled(strides, right.shape), first)
    given = result.offsets()
    if not np.array_equal(given, wanted):
        index = int(np.argmax(given != wanted))
        return NotExpressible(
            f"{shown}: by its axes the value at {index} would be {int(given[index])}, and it is {int(wanted[index])}"
        )
    return result


def _recognized(values: list[int]) -> list[tuple[int, int]] | None:
    """The leaves whose values these are, from 0; None where there are none."""
    if len(values) == 1:
        return [(1, 0)]
    runs: list[tuple[int, int]] = []
    while len(values) > 1:
        stride = values[1]
        run = next((place for place, value in enumerate(values) if value != place * stride), len(values))
        if len(values) % run:
            return None
        heads = values[::run]
        if any(values[place] != heads[place // run] + place % run * stride for place in range(len(values))):
            return None
        runs.append((run, stride))
        values = heads
    return runs


def _shown(values: list[int]) -> str:
    return ", ".join(map(str, values[:8])) + (", ..." if len(values) > 8 else "")
