"""The page's tables of few rows: what was chosen beside the best of those timed, and beside torch.mm.

Checked by: tests/benchmarks/test_few_rows_runs.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.few_rows_runs import Parts, times_of
from bench.page_sections import provenance, read
from bench.tile_runs import CHOSEN
from bench.two_clocks import PEER

_FILES = {
    "few_rows_of_b": "python -m bench few-rows --rows-of-b",
    "few_rows": "python -m bench few-rows",
    "few_rows_of_b_by_model": "python -m bench few-rows --rows-of-b --by-model 4",
    "few_rows_by_model": "python -m bench few-rows --by-model 4",
}
_LISTED = "few_rows_of_b"
"""Whose products are listed one by one; of the others, what they come to."""


def few_rows(results: Path) -> Iterator[str]:
    """Lines of the section."""
    yield "\n### Few to middling rows\n"
    yield (
        "Decisions of every kind beside torch.mm. The choices of the first two files are of a tree without the model\n"
        "of small M, which was fitted to their runs and to others'; those of the next two are of one with it,\n"
        "before its last fit. Of the others the products were drawn; the choices of seeds 11 and 12 are of a tree in\n"
        "which no CTAs shared loads, those of the rest of trees on the way to today's.\n"
    )
    drawn = {path.stem: "python -m bench few-rows --drawn" for path in sorted(results.glob("few_rows*_drawn_*.json"))}
    for name, command in (_FILES | drawn).items():
        document = read(results / f"{name}.json")
        if document is None:
            yield f"`{command}`\n"
            continue
        yield provenance(document)
        found = [row for row in document["rows"] if CHOSEN in row["steady"] and CHOSEN in row["parts"]]
        shares, ratios = [_share(row) for row in found], [_ratio(row) for row in found]
        yield (
            f"{len(found)} products, B contiguous along {'N' if found[0]['rows of b'] else 'K'}, bf16. What was chosen "
            f"then took {_mean(shares):.3f} of the best\none's speed in the geometric mean, {min(shares):.3f} at the "
            f"least, and {_mean(ratios):.3f} of torch.mm's. What today's compiler takes of these says\n"
            f"`python -m bench few-rows --from bench/results/{name}.json`.\n"
        )
        if name == _LISTED:
            yield "| M, N, K | chosen | us | of the best | torch.mm | the best |"
            yield "| --- |" + " --- |" * 5
            for row in found:
                yield _line(row)
            yield ""


def _share(row: Mapping[str, Any]) -> float:
    """The best one's time over the choice's."""
    return min(times_of(row).values()) / row["steady"][CHOSEN]


def _ratio(row: Mapping[str, Any]) -> float:
    return row["steady"][PEER] / row["steady"][CHOSEN]


def _mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def _line(row: Mapping[str, Any]) -> str:
    times = times_of(row)
    best = min(times, key=lambda each: times[each])
    cells = (
        ", ".join(map(str, row["shape"])),
        str(Parts(**row["parts"][CHOSEN])),
        f"{row['steady'][CHOSEN]:.1f}",
        f"{_share(row):.3f}",
        f"{_ratio(row):.3f}",
        str(best),
    )
    return f"| {' | '.join(cells)} |"
