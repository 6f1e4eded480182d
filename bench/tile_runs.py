"""What is kept of timed tiles, what today's compiler chooses among them, and how near the best that is.

A row of a result file (`python -m bench tile-family`) is one product with the microseconds of its tiles in two states
of the GPU (`bench.two_clocks`). `judged` asks the compiler again, without a GPU, and looks its choice up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.decided import decided_product
from bench.tile_names import tile_names

if TYPE_CHECKING:
    from bench.wished import Shape
    from tilewright.ir.cascade import CascadeDecisions
    from tilewright.synth.distribution.turns import LargeTile
    from tilewright.synth.tile.shape import TileQuestion
    from tilewright.synth.tile.wanted import Wanted

STATES = ("steady", "rested")
CHOSEN = "chosen"
"""The run of the compiler's own choice, when a file was measured."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tile, how it is taken, and who shares its contracted axis."""

    rows: int
    columns: int
    consumers: int
    transposed: bool
    turns: bool
    streamed: bool = False

    def __str__(self) -> str:
        how = "in turn" if self.turns else f"shared by {self.consumers}"
        words = f"{self.rows}x{self.columns} {how}"
        return words + (", transposed" if self.transposed else "") + (", streamed" if self.streamed else "")

    def wanted(self) -> Wanted:
        """What fixes this and leaves the rest to the compiler."""
        from tilewright.synth.tile.wanted import Wanted

        return Wanted(
            tile=(self.rows, self.columns),
            consumers=self.consumers,
            turns=self.turns,
            swapped=self.transposed,
            stream_k=self.streamed,
        )

    def large(self) -> LargeTile:
        from tilewright.synth.distribution.turns import LargeTile
        from tilewright.synth.tile.shape import TileShape

        return LargeTile(TileShape(self.rows, self.columns, 64, self.consumers, self.transposed), self.turns)


def candidate_of(tile: LargeTile, *, streamed: bool) -> Candidate:
    """A tile that the compiler compares, as a candidate."""
    shape = tile.shape
    return Candidate(shape.rows, shape.columns, shape.consumers, shape.swapped, tile.turns, streamed)


def question_of(shape: Shape, *, rows_of_b: bool) -> TileQuestion:
    """What `synth.decide` asks of bf16 operands and results."""
    from tilewright.synth.tile.shape import TileQuestion

    return TileQuestion(shape, 2, 2, (False,), (8, 64 if rows_of_b else 8), turnable=True)


def decided_candidate(decided: CascadeDecisions) -> Candidate | None:
    """The candidate that was decided; None where several CTAs share a tile or what it loads."""
    if decided.split > 1 or decided.teams > 1 or decided.cluster_ctas > 1:
        return None
    names = tile_names(decided)
    return Candidate(
        names["tile_m"],
        names["tile_n"],
        decided.consumers,
        transposed=bool(names["swapped"]),
        turns=bool(decided.turns),
        streamed=names["streamed"] > 0,
    )


@dataclass(frozen=True, slots=True)
class Judged:
    """Of one product: today's choice, and, by state, the best tile and its time over the choice's; none where the
    choice is not among what was measured."""

    shape: Shape
    rows_of_b: bool
    choice: str
    best: Mapping[str, str]
    shares: Mapping[str, float]

    def __str__(self) -> str:
        m, n, k = self.shape
        head = f"{m}, {n}, {k}{' rows of b' if self.rows_of_b else ''}: {self.choice}"
        if not self.shares:
            return f"{head} was not measured"
        return head + "".join(f"; {state} {share:.3f} of {self.best[state]}" for state, share in self.shares.items())


def judged(rows: Sequence[Mapping[str, Any]]) -> list[Judged]:
    """Today's choices among the tiles of these products."""
    found: list[Judged] = []
    for row in rows:
        m, n, k = row["shape"]
        decided = decided_candidate(decided_product((m, n, k), rows_of_b=row["rows of b"]))
        name, best, shares = str(decided), dict[str, str](), dict[str, float]()
        for state in STATES:
            times = tiles_of(row, state)
            if name in times:
                best[state] = min(times, key=lambda each: times[each])
                shares[state] = times[best[state]] / times[name]
        found.append(Judged((m, n, k), row["rows of b"], name, best, shares))
    return found


def tiles_of(row: Mapping[str, Any], state: str) -> dict[str, float]:
    """Microseconds of a row's tiles with right answers, by name; none where they were not timed in that state."""
    return {name: time for name, time in row[state].items() if name in row["tiles"] and name not in row["wrong"]}


def summary(found: Iterable[Judged], state: str) -> tuple[float, float, int]:
    """(geometric mean of the shares, the least, how many) in one state."""
    shares = [each.shares[state] for each in found if state in each.shares]
    if not shares:
        return math.nan, math.nan, 0
    return math.exp(sum(map(math.log, shares)) / len(shares)), min(shares), len(shares)
