"""A suite's list in several parts, each run on its own (`--part 1/3`), whose result files are joined into one.

    python -m bench gemm --suite tritonbench-llama --part 1/2     # and 2/2, on the same machine or another of its kind
    python -m bench merge tritonbench-llama

A part takes every N-th case, so that parts take about as long as each other; within one, everything runs in one process
in turns, as ever. Parts are joined only if all are there and name the same versions, GPU and options.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from bench.repeated import without_option

Item = TypeVar("Item")


def add_part_argument(parser: argparse.ArgumentParser) -> None:
    """The option of a suite."""
    parser.add_argument("--part", type=part, default=(1, 1), metavar="I/N", help="every N-th case, from the I-th on")


def part(text: str) -> tuple[int, int]:
    """`2/3` as (2, 3). Raises argparse.ArgumentTypeError for anything else."""
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text}: give I/N with I from 1 to N, such as 1/2")
    return int(number), int(count)


def share(items: Sequence[Item], which: tuple[int, int]) -> list[Item]:
    """A part's items."""
    number, count = which
    return list(items[number - 1 :: count])


def part_name(name: str, which: tuple[int, int]) -> str:
    """The name of a part's result file; the whole's is the suite's own."""
    number, count = which
    return name if count == 1 else f"{name}.part{number}of{count}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("suite", help="whose parts are joined")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result files")


def run(arguments: argparse.Namespace) -> int:
    from bench.gemm_suites import TARGETS
    from bench.ratio_plot import write_plot

    try:
        document = joined(arguments.suite, arguments.results)
    except ValueError as error:
        raise SystemExit(str(error)) from error
    path = arguments.results / f"{arguments.suite}.json"
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    plot = write_plot(path.with_suffix(".svg"), arguments.suite, document["rows"][1:], TARGETS.get(arguments.suite))
    print(f"{len(document['rows']) - 1} cases written to {path} and {plot}: {document['rows'][0]}")
    return 0


def joined(suite: str, folder: Path) -> dict[str, Any]:
    """The whole's document, cases in the list's order. Raises ValueError where a part is missing or of another kind."""
    from bench.suite import summary_of

    found = {path.name: path for path in folder.glob(f"{suite}.part*of*.json")}
    count = max((int(name.rpartition("of")[2].removesuffix(".json")) for name in found), default=0)
    names = [f"{part_name(suite, (number, count))}.json" for number in range(1, count + 1)]
    missing = [name for name in names if name not in found]
    if not names or missing:
        raise ValueError(f"missing in {folder}: {', '.join(missing) or f'parts of {suite}'}")
    documents: list[dict[str, Any]] = [json.loads(found[name].read_text(encoding="utf-8")) for name in names]
    commands = {" ".join(without_option(document["command"].split(), "--part")) for document in documents}
    if len(commands) > 1 or any(document["versions"] != documents[0]["versions"] for document in documents):
        raise ValueError(f"the parts of {suite} are of different versions or commands: {sorted(commands)}")
    parts = [document["rows"][1:] for document in documents]
    rows = [row for turn in itertools.zip_longest(*parts) for row in turn if row is not None]
    return {
        "command": f"{commands.pop()} --part 1/{count} (to {count}/{count}, then python -m bench merge {suite})",
        "date": max(document["date"] for document in documents),
        "versions": documents[0]["versions"],
        "rows": [summary_of(rows), *rows],
    }
