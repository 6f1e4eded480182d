"""The page's table of pairs of CTAs that share what they load, beside single CTAs.

Checked by: tests/benchmarks/test_clusters.py, tests/benchmarks/test_page.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.clusters import CHOSEN
from bench.page_sections import provenance, read

_COMMAND = "python -m bench clusters --alone"


def pairs(results: Path) -> Iterator[str]:
    """Lines of the section."""
    yield "\n### Pairs of CTAs that share loads\n"
    document = read(results / "clusters.json")
    if document is None:
        yield f"`{_COMMAND}`\n"
        return
    yield provenance(document)
    yield (
        "Of each product the fastest kernel of single CTAs and the fastest of pairs that load operands for each other\n"
        "by multicast (2x1: along M, 1x2: along N), of those tried, in microseconds; the pairs' speed over the singles',\n"
        "turn by turn; and the least and the most that pairs bring to one and the same tile. What is chosen unasked is\n"
        "in bold. Energy: of the two, each alone for 400 ms, which tells differences of 2 % and more.\n"
    )
    yield "| case | M, N, K | single CTAs | pairs | speed | of one tile | best of cublasLt | mJ alone |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for row in document["rows"]:
        if row["best_over"]:
            yield _line(row)
    yield ""


def _line(row: Mapping[str, Any]) -> str:
    times, best = row["microseconds"], row["best_over"]
    single, pair = best["single"], best["pair"]
    ratios = [middle for _, middle, _ in row["pairs"].values()]
    theirs = [value for name, value in times.items() if name.startswith("cublasLt")]
    alone = row.get("alone", {})
    energy = f"{alone[single]['millijoules']:.0f}, {alone[pair]['millijoules']:.0f}" if alone else ""
    return (
        f"| {row['case']} | {', '.join(map(str, row['shape']))} | {_told(row, single)} | {_told(row, pair)} | "
        f"{best['ratio'][1]:.3f} | {min(ratios):.3f} to {max(ratios):.3f} | "
        f"{f'{min(theirs):.1f}' if theirs else ''} | {energy} |"
    )


def _told(row: Mapping[str, Any], name: str) -> str:
    """A contender with its time."""
    words = f"{row['microseconds'][name]:.1f}, {name.rpartition(', 1x1')[0] or name}"
    return f"**{words}**" if name == CHOSEN else words
