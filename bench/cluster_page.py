"""The page's table of pairs of CTAs that share what they load, beside single CTAs.

Checked by: tests/benchmarks/test_clusters.py, tests/benchmarks/test_page.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.clusters import CHOSEN, best_of
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
        "Microseconds of what is chosen unasked, of the fastest tile by single CTAs and of the fastest by pairs that\n"
        "load operands for each other by multicast (2x1: along M, 1x2: along N), of the tiles tried; the pairs' speed\n"
        "over the singles'; and the least and the most that pairs bring to one and the same tile, turn by turn. The\n"
        "energy of a product is of the fastest of both kinds, each alone for 400 ms, and differs by 2 % from run to\n"
        "run. Of 6144, 5120, 5120 the choice was a pair then, and is none since.\n"
    )
    yield "| case | M, N, K | chosen | single CTAs | pairs | speed | of one tile | cublasLt | mJ: single, pairs |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for row in document["rows"]:
        best = best_of(row["microseconds"])
        if best is not None:
            yield _line(row, *best)
    yield ""


def _line(row: Mapping[str, Any], single: str, pair: str) -> str:
    times: Mapping[str, float] = row["microseconds"]
    ratios = [middle for _, middle, _ in row["pairs"].values()]
    theirs = [value for name, value in times.items() if name.startswith("cublasLt")]
    alone = row.get("alone", {})
    energy = f"{alone[single]['millijoules']:.0f}, {alone[pair]['millijoules']:.0f}" if alone else ""
    return (
        f"| {row['case']} | {', '.join(map(str, row['shape']))} | {times[CHOSEN]:.1f} | "
        f"{times[single]:.1f}, {single.removesuffix(', 1x1')} | {times[pair]:.1f}, {pair} | "
        f"{times[single] / times[pair]:.3f} | {min(ratios):.3f} to {max(ratios):.3f} | "
        f"{f'{min(theirs):.1f}' if theirs else ''} | {energy} |"
    )
