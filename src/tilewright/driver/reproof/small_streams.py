"""What does the small instance of a program look like whose first tiles are streamed over CTAs?

The instance has three streamed tiles for two helpers, one of which takes two heads, and whole tiles for both and for
one of the owners: a step from head to head, or to whole tiles, that is right for one helper alone would show. Where
CTAs take several whole tiles, each CTA has one and the first another, so that the step between them shows as well;
where consumers take these in turn, one more each, so that a consumer has its second one.
Where a program has less, it is taken as it is.

Parts are long enough for the instance's cursors to do what the program's do (`driver.reproof.small_cursors`). Heads and
tails have as many slices as no other quantity of the instance, where that costs little: where two are the same number,
one of them in place of the other would not show.

Not handled: happenings of the program for which no lengths are found; there are then fewer in the instance.
Checked by: tests/driver/reproof/test_small_streams.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from tilewright.driver.reproof.small_cursors import ODD_ROUNDS, Happening, Kind, of_cta
from tilewright.lower.distribution.turns import skip_quantities

_HELPERS, _STREAMED, _WHOLE = 2, 3, 3
_CONFUSED = 3
"""Slices by which parts may be longer so as to be as many as nothing else, or to move a cursor by an odd number of
rounds."""


class Streaming(Protocol):
    """What is asked of decisions that stream: CTAs, streamed tiles, slices of each that a helper takes, slots of the
    ring, and whether consumers take tiles alternately."""

    @property
    def ctas(self) -> int: ...
    @property
    def streamed(self) -> int: ...
    @property
    def head_slices(self) -> int: ...
    @property
    def stages(self) -> int: ...
    @property
    def turns(self) -> int: ...


@dataclass(frozen=True, slots=True)
class SmallStream:
    """ctas; streamed: tiles; tiles: no fewer than these in all; slices: of a tile; head_slices: of them a helper's."""

    ctas: int
    streamed: int
    tiles: int
    slices: int
    head_slices: int


def small_stream(d: Streaming, tiles: int, slices: int) -> SmallStream:
    """The instance of decisions that stream. tiles, slices: of the program, in all and of each tile."""
    large = SmallStream(d.ctas, d.streamed, tiles, slices, d.head_slices)
    return _instance_of(large, d.stages, _units(d))


@lru_cache(maxsize=16)  # extents and decisions of each instance of a program are made of the same one
def _instance_of(large: SmallStream, stages: int, units: int) -> SmallStream:
    streamed = min(_STREAMED, large.streamed)
    helpers = min(_HELPERS, large.ctas - large.streamed)
    ctas, whole = streamed + helpers, large.tiles - large.streamed
    rounds = min(units, (whole - 1) // large.ctas)
    taken = streamed + min(rounds * ctas + 1 if rounds > 0 else _WHOLE, whole)
    wanted = happenings(large, stages, units)
    others = {streamed, helpers, ctas, taken}

    def price(stream: SmallStream) -> tuple[int, int, int]:
        head, tail = stream.head_slices, stream.slices - stream.head_slices
        hidden = wanted - happenings(stream, stages, units)
        less = sum(1 for each in hidden if each[-1] == ODD_ROUNDS)
        confused = head == tail or bool({head, tail} & others)
        return len(hidden) - less, stream.slices + _CONFUSED * (less + confused), head

    # A head has a loop, where it has one in the program; a tail goes past the ring's end, and a CTA's parts and its
    # whole tile together fill a ring's slots twice.
    most = large.slices - large.head_slices
    heads = range(min(large.head_slices, 2), min(large.head_slices, 2 * stages) + 1)
    tails = range(min(most, stages + 1), min(most, 3 * stages) + 1)
    found = [SmallStream(ctas, streamed, taken, head + tail, head) for head in heads for tail in tails]
    found.sort(key=lambda stream: (stream.slices, stream.head_slices))
    best, least = found[0], price(found[0])
    for stream in found[1:]:
        if least[0] == 0 and stream.slices > least[1]:
            break  # so long a tile costs no less, whatever shows in it
        if (cost := price(stream)) < least:
            best, least = stream, cost
    return best


def _parts_of_ctas(stream: SmallStream) -> Iterator[list[tuple[Kind, int]]]:
    """What CTAs take, in order, with how many slices; of CTAs that take the same, one."""
    head, helpers = stream.head_slices, stream.ctas - stream.streamed
    counts: set[tuple[int, int, int]] = set()
    for cta in range(stream.ctas):
        heads = len(range(cta, stream.streamed, helpers)) if cta < helpers else 0
        whole = len(range(stream.streamed + cta, stream.tiles, stream.ctas))
        counts.add((heads, int(cta >= helpers), whole))
    for heads, tails, whole in counts:
        parts: list[tuple[Kind, int]] = [("head", head) for _ in range(heads)]
        parts.extend(("tail", stream.slices - head) for _ in range(tails))
        parts.extend(("whole", stream.slices) for _ in range(whole))
        yield parts


def happenings(stream: SmallStream, stages: int, units: int) -> set[Happening]:
    """What the cursors of a stream's CTAs do that a text must have right."""
    found: set[Happening] = set()
    for parts in _parts_of_ctas(stream):
        found.update(of_cta(parts, stages, units))
    return found


def _units(d: Streaming) -> int:
    """Consumers that take whole tiles in turn, each with a cursor of its own."""
    return 2 if d.turns else 1


def stream_quantities(d: Streaming, slices: int) -> list[int]:
    """Immediates of the text that depend on extents. slices: of a tile."""
    if not d.streamed:
        return []
    parts = (d.head_slices, slices - d.head_slices)
    return [
        d.streamed,
        d.ctas - d.streamed,
        *parts,
        *(number for part in parts for number in skip_quantities(part, d.stages)),
    ]
