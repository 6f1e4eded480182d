"""Kernels compiled ahead, in parallel processes, into bundles of a folder, from which a run loads them.

A bundle's name is a digest of what was asked for and of the compiler's own sources, so a changed compiler never serves
a stale kernel. Where the compiler refuses, its words are kept beside, and a run reports them: nothing is left out
silently.
"""

from __future__ import annotations

import hashlib
import itertools
import multiprocessing
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bench.gemm_suites import Product
from bench.tile_names import by_tile_names

if TYPE_CHECKING:
    from tilewright.runtime.call import Program


@dataclass(frozen=True, slots=True)
class Refused:
    """The compiler's message."""

    message: str


@cache
def sources_digest() -> str:
    """Of the contents of the package's sources, the same on every machine that has them."""
    import tilewright

    root = Path(tilewright.__file__).resolve().parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".toml"):
            digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()


def bundle_path(folder: Path, product: object) -> Path:
    """Where a case's bundle is kept."""
    digest = hashlib.sha256(f"{product!r} {sources_digest()}".encode()).hexdigest()[:20]
    return folder / f"{digest}.twb"


def prepare(products: Sequence[object], folder: Path, jobs: int) -> tuple[int, float]:
    """Compile what is not there yet; returns (how many were compiled, seconds)."""
    folder.mkdir(parents=True, exist_ok=True)
    todo = [each for each in products if not any(path.exists() for path in _paths(folder, each))]
    begin = time.perf_counter()
    if todo:
        # Spawned, since CUDA may not be used on both sides of a fork.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(jobs, len(todo)), mp_context=context) as pool:
            list(pool.map(_compile_into, todo, itertools.repeat(folder)))
    return len(todo), time.perf_counter() - begin


def load_prepared(product: object, folder: Path) -> Program | Refused:
    """The program, or why there is none. Compiles where that was not done yet."""
    from tilewright.runtime.bundle import load
    from tilewright.runtime.call import Program

    bundle, refusal = _paths(folder, product)
    if not bundle.exists() and not refusal.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _compile_into(product, folder)
    return Program(load(bundle)) if bundle.exists() else Refused(refusal.read_text())


def _paths(folder: Path, product: object) -> tuple[Path, Path]:
    bundle = bundle_path(folder, product)
    return bundle, bundle.with_suffix(".refused")


def _compile_into(product: object, folder: Path) -> None:
    from bench.our_products import compile_case
    from tilewright.base.error import TilewrightError
    from tilewright.runtime.bundle import save

    bundle, refusal = _paths(folder, product)
    try:
        save(compile_case(product), bundle)
    except TilewrightError as error:
        refusal.write_text(str(error))


def facts_of(program: Program) -> Mapping[str, object]:
    """What a reader should know of a compiled program: decisions, reasons, registers, seconds."""
    facts = program.bundle.facts
    decisions = by_tile_names(program.bundle.decisions)
    named = (
        "tile_m", "tile_n", "tile_k", "stages", "consumers", "cluster_m", "cluster_n", "ctas", "swapped", "turns",
        "split", "teams", "streamed", "kind",
    )  # fmt: skip
    return {
        "decisions": {name: decisions[name] for name in named if name in decisions},
        "reasons": decisions.get("reasons", []),
        "launches": [launch.entry for launch in program.bundle.plan.launches],
        "registers": facts.get("registers"),
        "seconds": facts.get("seconds"),
        "assembler": facts.get("assembler"),
    }


__all__ = ["Product", "Refused", "bundle_path", "facts_of", "load_prepared", "prepare"]
