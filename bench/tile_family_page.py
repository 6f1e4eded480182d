"""The page's table of tiles: what was chosen beside the best of those timed, under load and after rests.

Checked by: tests/benchmarks/test_tile_runs.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.page_sections import provenance, read
from bench.tile_runs import CHOSEN, STATES, tiles_of
from bench.two_clocks import PEER

_FILES = {
    "tile_family": "python -m bench tile-family",
    "tile_family_rows_of_b": "python -m bench tile-family --rows-of-b",
}


def tile_family(results: Path) -> Iterator[str]:
    """Lines of the section."""
    yield "\n### Tiles, under load and after rests\n"
    for name, command in _FILES.items():
        document = read(results / f"{name}.json")
        if document is None or any(state not in row for row in document["rows"] for state in STATES):
            yield f"`{command}`\n"
            continue
        yield provenance(document)
        yield (
            f"B is contiguous along {'N' if document['rows'][0]['rows of b'] else 'K'}. A GPU under load runs at the\n"
            "clock that its power cap allows; after a rest of 22 ms, at its highest. Times of what was chosen then;\n"
            "of the best tile timed over it, and of torch.mm over it. Which tile today's compiler takes of these\n"
            f"says `python -m bench tile-family --from bench/results/{name}.json`.\n"
        )
        heads = ("MHz", "us", "of the best", "torch.mm", "the best")
        yield f"| M, N, K | {' | '.join(heads)} | rested: {' | '.join(heads)} |"
        yield "| --- |" + " --- |" * (len(STATES) * len(heads))
        for row in document["rows"]:
            cells = [cell for state in STATES for cell in _cells(row, state)]
            yield f"| {', '.join(map(str, row['shape']))} | {' | '.join(cells)} |"
        yield ""


def _cells(row: Mapping[str, Any], state: str) -> list[str]:
    """Of one state: the clock, the choice's time, the best one's and torch.mm's over it, and the best tile."""
    times = row[state]
    if CHOSEN not in times:
        return [""] * 5
    tiles, mine = tiles_of(row, state), times[CHOSEN]
    best = min(tiles, key=lambda name: tiles[name])
    clock = f"{row['megahertz'][state][1]:.0f}" if row["megahertz"][state] else ""
    return [clock, f"{mine:.1f}", f"{tiles[best] / mine:.3f}", f"{times[PEER] / mine:.3f}", best]
