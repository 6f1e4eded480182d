"""The page's table of long sums: for each product of the list the best time unshared, shared by a cluster's CTAs, and
shared by teams of clusters, beside torch.mm's in the same run.

Checked by: tests/benchmarks/test_page.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.page_sections import provenance, read

_FILES = ("long_sums", "further_sums", "one_tile_sums")
_COMMANDS = (
    "python -m bench long-sums",
    "python -m bench long-sums --shape 256,5120,5120",
    "python -m bench long-sums --one-tile",
)
_KINDS: Mapping[str, Callable[[int, int], bool]] = {
    "unshared": lambda split, teams: split * teams == 1,
    "by a cluster": lambda split, teams: split > 1 and teams == 1,
    "by several clusters": lambda split, teams: teams > 1,
}


def long_sums(results: Path) -> Iterator[str]:
    """Lines of the section."""
    yield "\n### Few tiles of large K\n"
    for name, command in zip(_FILES, _COMMANDS, strict=True):
        document = read(results / f"{name}.json")
        if document is None:
            yield f"`{command}`\n"
            continue
        yield provenance(document)
        yield (
            "Microseconds of the fastest tile of those timed, bf16, where each is summed by one CTA, by CTAs of a\n"
            "cluster and by several clusters; and of torch.mm. The fastest is named with its clusters x CTAs of each.\n"
            "Relative errors are of the fastest and of torch.\n"
            f"`python -m bench long-sums --from bench/results/{name}.json` shows what the compiler takes of these.\n"
        )
        yield f"| M, N, K | {' | '.join(_KINDS)} | the fastest | torch.mm | ratio | errors |"
        yield "| --- |" + " --- |" * (len(_KINDS) + 4)
        for row in document["rows"]:
            yield _line(row)
        yield ""


def _line(row: Mapping[str, Any]) -> str:
    runs: list[dict[str, Any]] = row["runs"]
    best = min(runs, key=lambda run: run["microseconds"])
    cells: list[str] = []
    for kind in _KINDS.values():
        own = [run["microseconds"] for run in runs if kind(run["kept"]["split"], run["kept"].get("teams", 1))]
        cells.append(f"{min(own):.1f}" if own else "")
    kept = best["kept"]
    shares = f"{kept.get('teams', 1)} x {kept['split']}"
    shape = f"{row['m']}, {row['n']}, {row['k']}{' (rows of B)' if row['rows_of_b'] else ''}"
    return (
        f"| {shape} | {' | '.join(cells)} | {kept['tile_m']}x{kept['tile_n']} by {shares} | {row['torch']:.1f} | "
        f"{row['torch'] / best['microseconds']:.3f} | {best['error']:.2e}, {row['torch_error']:.2e} |"
    )
