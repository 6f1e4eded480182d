"""Sections of docs/benchmarks.md that are not races of a suite: choices measured, compile time, answers.

Each is made of its result file alone, and names that file's command; where there is none, it is the command alone.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.compile_suites import summary
from bench.compile_time import GOAL_SECONDS, STEPS

_CLOSE = 0.01


def read(path: Path) -> dict[str, Any] | None:
    """A result file, or None where there is none."""
    if not path.exists():
        return None
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def provenance(document: Mapping[str, Any]) -> str:
    """The command, the date, and the versions that figures depend on."""
    versions = document["versions"]
    words = ", ".join(f"{name} {versions[name]}" for name in ("torch", "triton", "gpu") if name in versions)
    return f"`{document['command']}`, {document['date']}{': ' if words else ''}{words}.\n"


def choices(results: Path) -> Iterator[str]:
    """What single choices of the compiler cost and bring."""
    yield "\n## Choices, each beside its alternatives\n"
    yield from _unmapped(read(results / "unmapped.json"))
    yield "\n### Leftover tiles\n"
    yield from _leftover(read(results / "stream_k.json"))
    yield "\n### Orders of tiles\n"
    yield from _orders(read(results / "tile_orders.json"))


def _unmapped(document: Mapping[str, Any] | None) -> Iterator[str]:
    yield "### Operands of rows at multiples of 4 or 8 bytes\n"
    if document is None:
        yield "`python -m bench unmapped`\n"
        return
    yield provenance(document)
    rows: list[dict[str, Any]] = document["rows"]
    close = sum(row["microseconds"]["chosen"] <= 1.03 * min(row["microseconds"].values()) for row in rows)
    yield (
        "Microseconds where a launch before copies the operand into rows that a tensor map describes, where threads\n"
        "of the kernel copy it (the fastest number of stages and tile of those tried), and of what is chosen unasked:\n"
        f"the fastest, or within 3 % of it, in {close} of {len(rows)}.\n"
    )
    yield "| case | M, N, K | copied first | by threads | chosen | |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for row in rows:
        times = row["microseconds"]
        threads = min((time for name, time in times.items() if name.startswith("threads")), default=None)
        yield (
            f"| {row['case']} | {', '.join(map(str, row['shape']))} | {times['copied first']:.1f} | "
            f"{'' if threads is None else f'{threads:.1f}'} | {times['chosen']:.1f} | {row['chosen']} |"
        )
    yield ""


def _leftover(document: Mapping[str, Any] | None) -> Iterator[str]:
    if document is None:
        yield "`python -m bench stream-k`\n"
        return
    yield provenance(document)
    yield (
        "torch.mm's time over the kernel's, for tiles taken whole and for the same tiles with the leftover ones\n"
        "streamed, if any are left over, and for what is chosen unasked. Tiles have 128 rows and the columns that\n"
        "heads name; 256 columns are shared by two consumers, the others are ping-pong.\n"
    )
    rows: list[dict[str, Any]] = document["rows"]
    tiles = [name for name in rows[0]["ratios"] if name != "chosen" and not name.endswith("streamed")]
    yield "| M, N, K | " + " | ".join(tile.removeprefix("128x").split()[0] for tile in tiles) + " | chosen | best |"
    yield "| --- |" + " --- |" * (len(tiles) + 2)
    for row in rows:
        ratios: dict[str, float] = row["ratios"]
        cells = [
            " / ".join(f"{ratios[name]:.3f}" for name in (tile, f"{tile}, streamed") if name in ratios)
            for tile in tiles
        ]
        yield (
            f"| {', '.join(map(str, row['shape']))} | {' | '.join(cells)} | {ratios['chosen']:.3f} | "
            f"{max(ratios.values()):.3f} |"
        )
    short = [1 - row["ratios"]["chosen"] / max(row["ratios"].values()) for row in rows]
    yield (
        f"\nWhat is chosen is {statistics.fmean(short):.1%} slower than the fastest of these in the mean, "
        f"{max(short):.1%} at the most.\n"
    )


def _orders(document: Mapping[str, Any] | None) -> Iterator[str]:
    if document is None:
        yield "`python -m bench large-tiles --orders`\n"
        return
    yield provenance(document)
    rows: list[dict[str, Any]] = document["rows"]
    names = [name for name in rows[0]["ratios"] if name not in ("chosen", "chosen again")]
    yield (
        "torch.mm's time over the kernel's for the chosen tiles in other orders: bands of so many rows of tiles, and\n"
        "Hilbert's curve in squares of so many. The choice stands twice, so that noise shows.\n"
    )
    yield "| M, N, K | chosen | again | " + " | ".join(names) + " |"
    yield "| --- |" + " --- |" * (len(names) + 2)
    for row in rows:
        ratios = row["ratios"]
        cells = [f"{ratios[name]:.3f}" if name in ratios else "" for name in ("chosen", "chosen again", *names)]
        yield f"| {', '.join(map(str, row['shape']))} | {' | '.join(cells)} |"
    yield "\n" + _order_summary(rows, names) + "\n"


def _order_summary(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """How far the choice is from the best order."""
    short: list[float] = []
    for row in rows:
        ratios = row["ratios"]
        chosen = max(ratios["chosen"], ratios["chosen again"])
        short.append(max(0.0, 1 - chosen / max(ratios[name] for name in names if name in ratios)))
    return (
        f"The best of all orders beats the choice by more than {_CLOSE:.0%} in "
        f"{sum(each > _CLOSE for each in short)} of {len(rows)}, by {max(short):.1%} at the most."
    )


def compile_time(results: Path) -> Iterator[str]:
    """Ours and others', in seconds, and ours with schedules that a solver finds."""
    yield "\n## Compile time\n"
    yield (
        "Seconds. Ours: from the tile program to PTX that is proved, warm, without ptxas; ptxas alone; and the wall\n"
        "time with ptxas beside the proofs. Others', cold in their caches: Triton's stages to PTX and its first call;\n"
        "the first call of torch.compile's search, which compiles and times many candidates; nvcc on CUTLASS's\n"
        "templates. Ours were compiled one at a time, of the suites four; nothing else ran on the host, a virtual\n"
        "one, whose speed differs from day to day.\n"
    )
    yield from _over_the_goal(read(results / "compile.json"))
    yield from _compile_table(results / "compile.json", "compile")
    yield from _every_product(read(results / "compile_suites.json"))
    yield (
        "\nWith each loop's schedule solved to its optimum, on a busy machine of two cores without a GPU, beside the\n"
        "heuristic there:\n"
    )
    yield from _compile_table(results / "compile_optimum.json", "compile --optimum")


def _over_the_goal(document: Mapping[str, Any] | None) -> Iterator[str]:
    rows = [row for row in document["rows"] if row["who"] == "ours" and "apart" in row] if document is not None else []
    slow = sorted((row for row in rows if row["apart"] > GOAL_SECONDS), key=lambda row: -row["apart"])
    if rows:
        told = "; ".join(f"{row['kernel']} ({row['apart']:.2f})" for row in slow)
        yield (
            f"The goal is {GOAL_SECONDS:.0f} s without ptxas. {len(rows) - len(slow)} of {len(rows)} kinds "
            f"keep it{f', and these do not: {told}' if slow else ''}.\n"
        )


def _every_product(document: Mapping[str, Any] | None) -> Iterator[str]:
    """Compile times of all suites, in a few words."""
    yield "\nEvery product of every suite, without ptxas, the median of warm turns, several products at a time:\n"
    if document is None:
        yield "`python -m bench compile-suites`\n"
        return
    yield provenance(document)
    yield f"{summary(document['rows'])}\n"


def _compile_table(path: Path, command: str) -> Iterator[str]:
    document = read(path)
    rows: list[dict[str, Any]] = document["rows"] if document is not None else []
    if document is None or not any("apart" in row for row in rows):
        yield f"`python -m bench {command}`\n"
        return
    yield provenance(document)
    optimum = any("optimum" in row for row in rows)
    heads = ["who", "kernel", "M, N, K", *STEPS, "all but ptxas", "ptxas", "wall", *(["optimum"] if optimum else [])]
    yield f"| {' | '.join(heads)} |"
    yield "| --- |" + " --- |" * (len(heads) - 1)
    for row in rows:
        steps = row.get("steps", {})
        cells = [row["who"], row["kernel"], ", ".join(map(str, row.get("shape", [])))]
        if "refused" in row:
            yield f"| {' | '.join(cells)} | {row['refused'].splitlines()[0].replace('|', '/')} |"
            continue
        cells += [f"{steps[step]:.3f}" if step in steps else "" for step in STEPS]
        last = ("apart", "ptxas", "wall", *(["optimum"] if optimum else []))
        cells += [f"{row[name]:.3f}" if name in row else "" for name in last]
        yield f"| {' | '.join(cells)} |"


def answers(results: Path) -> Iterator[str]:
    """The soak and the sanitizers."""
    yield "\n## The same right answer every time\n"
    document = read(results / "soak.json")
    if document is None:
        yield "`python -m bench soak`\n"
    else:
        yield provenance(document)
        summary, *rows = document["rows"]
        wrong = [row["case"] for row in rows if not row.get("right", True) or not row.get("identical", True)]
        yield (
            f"{summary['kernels']} kernels against float64 and ten times bit for bit: {len(wrong)} wrong. "
            f"{summary['launches']} launches in random order on {summary['streams']} streams: {summary['differing']} "
            f"differing answers, {summary['hangs']} hangs.\n"
        )
    document = read(results / "sanitized_kinds.json")
    if document is None:
        yield "`python -m bench sanitizers --kinds`\n"
        return
    runs = [row for row in document["rows"] if "tool" in row]
    complaints = [f"{row['case']} under {row['tool']}" for row in runs if row["exit"]]
    tools = ", ".join(dict.fromkeys(row["tool"] for row in runs))
    yield provenance(document)
    yield f"{len(runs)} runs under {tools}; complaints: {', '.join(complaints) or 'none'}.\n"
