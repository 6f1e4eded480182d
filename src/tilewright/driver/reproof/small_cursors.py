"""What do a CTA's cursors of a ring do while it takes one tile, or part of one, after the other?

What a part hands on to the next shows only where it matters to that one: a phase that is the same again may as well be
forgotten, and a step past the ring's end that none makes may be wrong. So a small instance stands for a program only if
its cursors do what the program's do: parts pass the ring's end with their first slice, which stands apart in the text,
or with a later one; they begin at another slot and in another phase than the one before; where consumers take parts in
turn, each steps over the other's past the ring's end or not, by an odd number of rounds or not.

Not handled: rings of which several parts' slices stand for one (`shares` are counted as one slice), releases that lag.
Checked by: tests/driver/reproof/test_small_streams.py, test_small_turns.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from tilewright.lower.distribution.turns import skip_quantities

ODD_ROUNDS = "an odd number of rounds"

Kind = Literal["head", "tail", "whole"]
Happening = tuple[str, ...]


def of_cta(parts: Sequence[tuple[Kind, int]], stages: int, units: int) -> Iterator[Happening]:
    """What the cursors of a CTA do that takes `parts`, each of so many slices, in order.

    units: consumers, which take every second part where there are two, and step over the other's.
    """
    begin = 0
    for number, (kind, slices) in enumerate(parts):
        slot, end = begin % stages, begin + slices
        last = stages - 1 - slot
        if last == 0:
            yield kind, "passes the ring's end with its first slice"
        if slices > (last or stages):
            yield kind, "passes the ring's end with a later slice"
        # The producer goes on to the next part, the consumer to its own next one.
        for ahead, who in ((1, "producer"), (units, "consumer")):
            if number + ahead < len(parts):
                if end % stages != slot:
                    yield kind, who, "hands on another slot"
                if (end // stages - begin // stages) % 2:
                    yield kind, who, "hands on another phase"
        if units > 1 and number + 1 < len(parts):
            first = kind == "whole" and (number == 0 or parts[number - 1][0] != "whole")
            place = "before whole tiles" if first else kind
            over, rounds = skip_quantities(slices, stages)
            if slot + over >= stages:
                yield place, "is stepped over past the ring's end"
            if rounds:
                yield place, "is stepped over", ODD_ROUNDS
        begin = end


def tiles_that_show(slices: int, stages: int, units: int, *, least: int, most: int) -> int:
    """How many whole tiles of so many slices one CTA must take, `least` at the least, to do all that it does with
    `most`."""

    def shown(count: int) -> set[Happening]:
        parts: list[tuple[Kind, int]] = [("whole", slices) for _ in range(count)]
        return set(of_cta(parts, stages, units))

    wanted = shown(most)
    return next((count for count in range(least, most) if wanted <= shown(count)), max(least, most))
