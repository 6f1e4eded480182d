"""What is kept of timed configurations, what was decided of them, and how well their times were foretold.

A run is one configuration of one product, as `python -m bench model` timed it. What was decided is decided again from
what the run keeps, which is all that the model looks at; a compiler that has changed since decides the rest.
"""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.decided import decided_product
from bench.tile_names import with_tile_names

if TYPE_CHECKING:
    from tilewright.ir.cascade import CascadeDecisions

Shape = tuple[int, int, int]
RESULT_BYTES = 2
"""Of an element of the products' results, bf16."""


@dataclass(frozen=True, slots=True)
class Run:
    """One timed configuration. kept: what was decided, as far as it tells configurations apart."""

    shape: Shape
    chosen: bool
    kept: dict[str, int]
    predicted_microseconds: float
    microseconds: float


def read_runs(path: Path) -> tuple[dict[str, Any], list[Run]]:
    """(the result file, its runs)."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    runs = [
        Run(tuple(row["shape"]), row["chosen"], row["kept"], row["predicted_microseconds"], row["microseconds"])
        for row in document["rows"]
    ]
    return document, runs


def write_runs(document: Mapping[str, Any], path: Path) -> None:
    """Write a result file, one run a line."""
    head = {name: value for name, value in document.items() if name != "rows"}
    lines = ",\n".join("  " + json.dumps(row) for row in document["rows"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{json.dumps(head, indent=1)[:-2]},\n "rows": [\n{lines}\n ]\n}}\n', encoding="utf-8")


def decisions_of(run: Run) -> CascadeDecisions:
    """What a run was decided to be. Raises TilewrightError where that is no longer decided."""
    from tilewright.synth.tile.wanted import Wanted

    kept = run.kept
    wanted = Wanted(
        tile=(kept["tile_m"], kept["tile_n"]),
        depth=kept["tile_k"],
        consumers=kept["consumers"],
        swapped=bool(kept["swapped"]),
        split=kept["split"],
        turns=bool(kept["turns"]),
        cluster=(kept["cluster_m"], kept["cluster_n"]),
        release_distance=1,
        stream_k=False,
    )
    decided = with_tile_names(decided_product(run.shape, wanted=wanted), kept)
    return replace(decided, stores=(), store_plans=()) if kept.get("direct_stores") else decided


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Rank correlation, equal values sharing their mean rank; NaN where one side is constant."""
    ranks = (_ranks(first), _ranks(second))
    middle = (len(first) + 1) / 2
    a, b = ([rank - middle for rank in each] for each in ranks)
    spread = (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5
    return sum(x * y for x, y in zip(a, b, strict=True)) / spread if spread else float("nan")


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=lambda index: values[index])
    ranks = [0.0] * len(values)
    for _, group in itertools.groupby(enumerate(order, 1), key=lambda item: values[item[1]]):
        places = list(group)
        mean = sum(place for place, _ in places) / len(places)
        for _, index in places:
            ranks[index] = mean
    return ranks


@dataclass(frozen=True, slots=True)
class Score:
    """Of one product. first, chosen: the best time over that of the configuration predicted to be fastest, and over
    that of the compiler's choice."""

    spearman: float
    first: float
    chosen: float


def score(runs: Sequence[Run]) -> Score:
    """Runs of one product."""
    best = min(each.microseconds for each in runs)
    first = min(runs, key=lambda each: each.predicted_microseconds)
    chosen = next(each for each in runs if each.chosen)
    correlation = spearman([each.predicted_microseconds for each in runs], [each.microseconds for each in runs])
    return Score(correlation, best / first.microseconds, best / chosen.microseconds)


def line_of(shape: Shape, runs: Sequence[Run]) -> str:
    """One product in words."""
    found = score(runs)
    best = min(runs, key=lambda each: each.microseconds)
    first = min(runs, key=lambda each: each.predicted_microseconds)
    return (
        f"{shape}: {len(runs)} configurations, rank correlation {found.spearman:.3f}; best {best.microseconds} us "
        f"({_words(best)}); predicted first {first.microseconds} us ({_words(first)}, {found.first:.3f} of the best); "
        f"chosen {found.chosen:.3f}"
    )


def _words(each: Run) -> str:
    kept = each.kept
    marks = [
        f"{kept['tile_m']}x{kept['tile_n']}x{kept['tile_k']}",
        f"{kept['stages']} stages",
        "in turn" if kept["turns"] else "",
        "swapped" if kept["swapped"] else "",
        f"split {kept['split']}" if kept["split"] > 1 else "",
    ]
    return " ".join(mark for mark in marks if mark)


def summary(runs: Sequence[Run]) -> list[str]:
    """The numbers over all products."""
    shapes = list(dict.fromkeys(each.shape for each in runs))
    scores = [score([each for each in runs if each.shape == shape]) for shape in shapes]
    predicted, found = [each.predicted_microseconds for each in runs], [each.microseconds for each in runs]
    errors = [abs(a / b - 1) for a, b in zip(predicted, found, strict=True)]
    return [
        f"rank correlation over {len(runs)} runs {spearman(predicted, found):.3f}; within one product, mean "
        f"{statistics.mean(each.spearman for each in scores):.3f}, least {min(each.spearman for each in scores):.3f}",
        f"predicted over measured: off by {100 * statistics.median(errors):.1f} % in the median",
        f"first choice over the best: least {min(each.first for each in scores):.3f}, mean "
        f"{statistics.mean(each.first for each in scores):.3f}; the compiler's choice: least "
        f"{min(each.chosen for each in scores):.3f}, mean {statistics.mean(each.chosen for each in scores):.3f}",
    ]
