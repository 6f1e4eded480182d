"""What does the compiler make of every product of every suite, and how does that differ from what it made before?

    python -m bench replay                    # compile, and compare with what is recorded: exit code 1 if it differs
    python -m bench replay --against COMMIT   # compile with that commit's sources too, and show how the texts differ
    python -m bench replay --record           # keep what is compiled now, beside the code

Of each product (`replay_products`) the decisions, the `ac` kernels, the PTX and the launch plan are compared. Nothing
is assembled or run, and nothing is proved of the PTX: it takes a minute on one core, and no GPU. The record is
bench/results/replay.json (`replay_record`); who changes a text on purpose records it in the same commit.

Paths of files stand in none of these texts, so that trees in different folders compile to the same. The products are
always this tree's; a compiler of another commit is asked for them by `replay_worker`. Exit codes: 0 where all is equal,
1 where something differs, 2 where nothing could be compared.

Checked by: tests/benchmarks/test_replay.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.replay_diff import diffs, shown
from bench.replay_products import Asked, asked, matches, matching
from bench.replay_record import (
    RECORD,
    ReplayError,
    compare,
    read_record,
    report,
    row_of,
    texts_of,
    write_record,
)
from bench.replay_trees import ROOT, Answers, checked_out, compiled

_SILENT_SECONDS = 2.0
_SECONDS_BETWEEN_LINES = 10.0
EQUAL, DIFFERENT, FAILED = 0, 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--record", action="store_true", help="keep what is compiled now (with --only: of those)")
    what.add_argument("--against", metavar="COMMIT", help="compare with this commit's compiler, and show the texts")
    parser.add_argument("--all", action="store_true", help="with --against: show every diff in full")
    parser.add_argument(
        "--only", action="append", metavar="PATTERN", help="products in whose name this occurs (* and ? are wild)"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many processes (default 1)")
    parser.add_argument("--file", type=Path, default=ROOT / RECORD, help=f"the record (default {RECORD})")


def run(arguments: argparse.Namespace) -> int:
    try:
        return _run(arguments)
    except ReplayError as error:
        print(f"replay: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("replay: interrupted", file=sys.stderr)
        return FAILED


def _run(arguments: argparse.Namespace) -> int:
    if arguments.jobs < 1:
        raise ReplayError(f"--jobs {arguments.jobs}: at least one process compiles")
    if arguments.all and arguments.against is None:
        raise ReplayError("--all shows diffs: give --against COMMIT too")
    _require_own_sources()
    products = matching(asked(), arguments.only)
    if not products:
        raise ReplayError(f"no product has {' or '.join(arguments.only)} in its name")
    if arguments.against is not None:
        return _against(arguments.against, products, arguments.jobs, everything=arguments.all)
    if arguments.record:
        return _record(products, arguments.jobs, arguments.file, partly=bool(arguments.only))
    recorded = read_record(arguments.file)
    if arguments.only:
        recorded = {name: row for name, row in recorded.items() if any(matches(name, each) for each in arguments.only)}
    answers = _compiled(ROOT, products, arguments.jobs, "compiled")
    found = compare(recorded, {name: row_of(answer) for name, answer in answers.items()})
    print(report(found))
    if found.equal:
        return EQUAL
    print(f"\n{ADVICE}")
    return DIFFERENT


ADVICE = (
    "python -m bench replay --against HEAD shows the texts' diffs; python -m bench replay --record keeps what is new"
)


def _record(products: Sequence[Asked], jobs: int, file: Path, *, partly: bool) -> int:
    before = read_record(file) if file.exists() else {}
    answers = _compiled(ROOT, products, jobs, "compiled")
    rows = {name: row_of(answer) for name, answer in answers.items()}
    faults = [(name, answer["fault"]) for name, answer in answers.items() if "fault" in answer]
    if faults:
        raise ReplayError(f"nothing is recorded: {len(faults)} faults, the first of {': '.join(faults[0])}")
    kept = {**before, **rows} if partly else rows
    found = compare(before, kept)
    write_record(kept, file)
    if before and not found.equal:
        print(report(found, beside="as they were"))
    print(f"{len(kept)} products in {file}")
    return EQUAL


def _against(commit: str, products: Sequence[Asked], jobs: int, *, everything: bool) -> int:
    with checked_out(commit) as tree:
        before = _compiled(tree, products, jobs, f"compiled by {commit}")
    after = _compiled(ROOT, products, jobs, "compiled by this tree")
    found = compare(*({name: row_of(answer) for name, answer in side.items()} for side in (before, after)))
    print(report(found, beside=f"as by {commit}"))
    if found.equal:
        return EQUAL
    changed = {each.name for each in found.changes}
    progress = _Progress(len(changed), "compared")
    both = [{name: texts_of(side[name]) for name in changed} for side in (before, after)]
    texts = shown(diffs(both[0], both[1], progress.step), everything=everything)
    progress.end()
    print(f"\n{texts}")
    return DIFFERENT


def _compiled(tree: Path, products: Sequence[Asked], jobs: int, words: str) -> Answers:
    progress = _Progress(len(products), words)
    try:
        return compiled(tree, products, jobs, progress.step)
    finally:
        progress.end()


def _require_own_sources() -> None:
    """Raises ReplayError where the compiler that is imported here is not the one beside this file: products would be
    another tree's."""
    import tilewright

    found = Path(tilewright.__file__).resolve()
    if not found.is_relative_to(ROOT / "src"):
        raise ReplayError(f"tilewright is imported from {found.parent}; set PYTHONPATH to {ROOT / 'src'}")


@dataclass(slots=True)
class _Progress:
    """How many of `count` are done: on a terminal one line that is written over, elsewhere one now and then; nothing
    of what takes no time."""

    count: int
    words: str
    done: int = 0
    begin: float = field(default_factory=time.monotonic)
    told: float = 0.0

    def step(self) -> None:
        self.done += 1
        now, terminal = time.monotonic(), sys.stderr.isatty()
        pause = 0.2 if terminal else _SECONDS_BETWEEN_LINES if self.told else _SILENT_SECONDS
        if now - self.begin >= _SILENT_SECONDS and now - (self.told or self.begin) >= pause:
            self.told = now
            line = f"{self.done} of {self.count} {self.words}"
            print(f"\r{line}" if terminal else line, end="" if terminal else "\n", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.told and sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
