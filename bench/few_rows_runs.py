"""What is kept of products of few rows that were timed, what today's compiler chooses, and how near the best that is.

A row of a result file (`python -m bench few-rows`) is one product with the microseconds of its decisions. `judged` asks
the compiler again, without a GPU, and looks its choice up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from bench.decided import decided_product
from bench.tile_names import by_tile_names, tile_names

if TYPE_CHECKING:
    from bench.wished import Shape
    from tilewright.synth.tile.wanted import Wanted


@dataclass(frozen=True, slots=True)
class Parts:
    """How a product is dealt out. rows, columns: of a tile; consumers: warpgroups that share its rows; split, teams:
    CTAs of a cluster, and clusters, that share its contracted axis; cluster_m, cluster_n: CTAs that share loads; depth:
    elements of a slice, 0 for as many as the compiler takes; resident: CTAs of a multiprocessor; turns: whether tiles
    are taken in turn; streamed: whether those of the last wave are cut; step_m, step_n: rows and columns from one tile
    to the next, 0 for those that it has."""

    rows: int
    columns: int
    consumers: int
    swapped: bool
    split: int = 1
    teams: int = 1
    cluster_m: int = 1
    cluster_n: int = 1
    depth: int = 0
    resident: int = 1
    turns: bool = False
    streamed: bool = False
    step_m: int = 0
    step_n: int = 0

    def __str__(self) -> str:
        words = f"{self.rows}x{self.columns}{f'x{self.depth}' if self.depth else ''}{'T' if self.swapped else ''}"
        words += f" by {self.consumers}" if self.consumers != max(1, self.rows // 64) else ""
        words += f" split {self.split}" if self.split > 1 else ""
        words += f" teams {self.teams}" if self.teams > 1 else ""
        words += f" cluster {self.cluster_m}x{self.cluster_n}" if self.paired else ""
        words += " two resident" if self.resident > 1 else ""
        words += f" {self.step_m or self.rows}x{self.step_n or self.columns} apart" if self.overlapping else ""
        return words + (" in turn" if self.turns else "") + (" streamed" if self.streamed else "")

    @staticmethod
    def of(decisions: Mapping[str, object]) -> Parts:
        """Of a bundle's decisions."""
        d = cast("Mapping[str, int]", by_tile_names(decisions))
        registers = d["launch_registers"] * 128 * (1 + d["consumers"])
        resident = 2 if d["smem_bytes"] <= _HALF_OF_SHARED and registers <= _HALF_OF_REGISTERS else 1
        return Parts(
            d["tile_m"], d["tile_n"], d["consumers"], bool(d["swapped"]), d["split"], d.get("teams", 1), d["cluster_m"],
            d["cluster_n"], d["tile_k"], resident, bool(d["turns"]), d.get("streamed", 0) > 0,
            d.get("step_m", 0), d.get("step_n", 0),
        )  # fmt: skip

    def kept(self) -> dict[str, Any]:
        """For a result file."""
        return asdict(self)

    def wanted(self) -> Wanted:
        """What fixes this and leaves the rest to the compiler."""
        from tilewright.synth.tile.wanted import Wanted

        return Wanted(
            tile=(self.rows, self.columns),
            consumers=self.consumers,
            swapped=self.swapped,
            split=self.split,
            teams=self.teams if self.teams > 1 else None,
            cluster=(self.cluster_m, self.cluster_n) if self.paired else None,
            depth=self.depth or None,
            resident=self.resident if self.resident > 1 else None,
            turns=self.turns,
            stream_k=self.streamed,
            steps=(self.step_m, self.step_n),
        )

    def variants(self) -> Iterator[Parts]:
        """The same in slices of the other depth."""
        other = 64 if 2 * 64 * (self.rows + self.columns) < _DEEP_STAGE_BYTES else 128
        if _LEAST_STAGES * 2 * other * (self.rows + self.columns) <= _SHARED:
            yield replace(self, depth=other)

    def fits_twice(self, depth: int) -> bool:
        """Whether two CTAs with slices of this depth, shared by a cluster at most, fit a multiprocessor."""
        meeting = 4 * self.rows * self.columns // self.split * (self.split - 1)
        left = _HALF_OF_SHARED - meeting - 64 * self.rows
        accumulators = self.rows * self.columns // (128 * self.consumers)
        return accumulators <= _MOST_TWICE[self.consumers] and left >= _LEAST_STAGES * 2 * depth * (
            self.rows + self.columns
        )

    @property
    def paired(self) -> bool:
        """Whether CTAs share loads."""
        return self.cluster_m * self.cluster_n > 1

    @property
    def overlapping(self) -> bool:
        """Whether neighbouring tiles overlap in what they load."""
        return self.step_m + self.step_n > 0

    @property
    def side_by_side(self) -> Parts:
        """The same of tiles that do not."""
        return replace(self, step_m=0, step_n=0)


_SHARED = 227 * 1024
_HALF_OF_SHARED = 115712
_HALF_OF_REGISTERS = 32768
_DEEP_STAGE_BYTES = 16384
_LEAST_STAGES = 3
_MOST_TWICE = {1: 96, 2: 48, 3: 32}
"""Registers of accumulators of a thread, by consumers, with which two CTAs fit the register file."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Of one product: today's choice, the best that was timed, its time over the choice's (none where the choice is not
    among them), and torch.mm's over the choice's."""

    shape: Shape
    rows_of_b: bool
    choice: str
    best: str
    share: float | None
    ratio: float | None

    def __str__(self) -> str:
        m, n, k = self.shape
        head = f"{m}, {n}, {k}{' rows of b' if self.rows_of_b else ''}: {self.choice}"
        if self.share is None:
            return f"{head} was not measured; the best {self.best}"
        return f"{head}: {self.share:.3f} of {self.best}; {self.ratio:.3f} of torch.mm"


def judged(rows: Sequence[Mapping[str, Any]]) -> list[Judged]:
    """Today's choices among the decisions of these products."""
    found: list[Judged] = []
    for row in rows:
        m, n, k = row["shape"]
        parts = chosen_parts((m, n, k), rows_of_b=row["rows of b"])
        times = times_of(row)
        best = min(times, key=lambda each: times[each])
        # Tiles that overlap are no slower than others, as which they may have been timed.
        mine, peer = times.get(parts, times.get(parts.side_by_side)), row["steady"]["torch"]
        found.append(
            Judged(
                (m, n, k),
                row["rows of b"],
                str(parts),
                str(best),
                None if mine is None else times[best] / mine,
                None if mine is None else peer / mine,
            )
        )
    return found


def chosen_parts(shape: Shape, *, rows_of_b: bool) -> Parts:
    """How the compiler deals a product out today."""
    return Parts.of(tile_names(decided_product(shape, rows_of_b=rows_of_b)))


def times_of(row: Mapping[str, Any]) -> dict[Parts, float]:
    """Microseconds of a row's decisions with right answers, the best of those that are alike."""
    found: dict[Parts, float] = {}
    for name, kept in row["parts"].items():
        if name in row["steady"] and name not in row["wrong"]:
            parts = Parts(**kept)
            found[parts] = min(found.get(parts, math.inf), row["steady"][name])
    return found


def summary(found: Iterable[Judged]) -> tuple[float, float, int]:
    """(geometric mean of the shares, the least, how many)."""
    shares = [each.share for each in found if each.share is not None]
    if not shares:
        return math.nan, math.nan, 0
    return math.exp(sum(map(math.log, shares)) / len(shares)), min(shares), len(shares)
