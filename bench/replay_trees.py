"""How are products compiled with the sources of one tree, in processes of their own, and where is another commit's?

Each process is a `bench.replay_worker` of this tree, with the sources asked for first on its path, and takes the next
product when it has answered. Checked by: tests/benchmarks/test_replay.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.replay_products import Asked
from bench.replay_record import ReplayError

ROOT = Path(__file__).resolve().parents[1]
"""Of this tree."""

Answers = dict[str, dict[str, Any]]
"""What a compiler answered (`replay_worker.answer`), by the product's name."""


def compiled(tree: Path, products: Sequence[Asked], jobs: int, heard: Callable[[], None]) -> Answers:
    """Every product by the compiler of `tree`, in `jobs` processes; `heard` is called after each. Raises ReplayError
    where that compiler cannot be asked, or a process ends before its time."""
    waiting, answers = deque(products), Answers()
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for each in [pool.submit(_serve, tree, waiting, answers, heard) for _ in range(min(jobs, len(products)))]:
                each.result()
        finally:
            waiting.clear()
    return answers


def _serve(tree: Path, waiting: deque[Asked], answers: Answers, heard: Callable[[], None]) -> None:
    sources = tree / "src"
    environment = {**os.environ, "PYTHONPATH": str(sources)}
    command = [sys.executable, "-m", "bench.replay_worker"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, encoding="utf-8", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdin is not None and worker.stdout is not None

        def said(what: str) -> dict[str, Any]:
            line = worker.stdout.readline() if worker.stdout is not None else ""
            if not line:
                raise ReplayError(f"the process that compiles ended with {worker.wait()}, {what}")
            return json.loads(line)

        hello = said("before any product")
        if "lacks" in hello:
            raise ReplayError(
                f"the compiler in {sources} cannot be asked: {hello['lacks']}; name the earlier place in "
                "bench/replay_worker.py (EARLIER)"
            )
        if not Path(hello["ready"]).is_relative_to(sources):
            raise ReplayError(f"tilewright is taken from {hello['ready']} and not from {sources}")
        while waiting:
            try:
                product = waiting.popleft()
            except IndexError:  # another process took the last one
                break
            worker.stdin.write(f"{json.dumps(product.as_json())}\n")
            worker.stdin.flush()
            answers[product.name] = said(f"compiling {product.name}")
            heard()


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """The commit's tree in a temporary folder, which is removed afterwards. Raises ReplayError where there is none."""
    named = ("--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    name = _git("rev-parse", *named, fails=f"{commit} names no commit")
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        tree = Path(folder).resolve() / "tree"
        _git("worktree", "add", "--detach", "--quiet", str(tree), name, fails=f"{commit} cannot be checked out")
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree), fails=f"the worktree {tree} cannot be removed")


def _git(*arguments: str, fails: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ReplayError(f"{fails}: git does not run ({error.strerror})") from error
    if done.returncode:
        words = done.stderr.strip().splitlines()
        raise ReplayError(f"{fails}: {words[-1]}" if words else fails)
    return done.stdout.strip()
