"""Products tuned as `tune=True` tunes them, with kernels compiled ahead: which candidate is ours?

The candidates are those of `tilewright.tune`, of which each is a product with its tile fixed, compiled and proven into
the folder of kernels as all are; the list of a product lies beside them. On the GPU they are timed in turns on the very
arrays of the race, in CUDA graphs, and `tilewright.tune` says which is taken. So what differs from `tune=True` is the
clock alone. The winner then takes part in a race of its own, whose times are those that count.
Checked by: tests/benchmarks/test_random_gemm.py.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bench import suite
from bench.gemm_suites import Product
from bench.interleaved import Contender, quartiles, race
from bench.peers_gemm import Arrays
from bench.prepared import Refused, bundle_path

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tilewright.synth.tile.wanted import Wanted

_TURNS = 7


def prepared_candidates(products: Sequence[Product], folder: Path, jobs: int) -> list[Product]:
    """The candidates of all products, each product itself first. Lists that are there are read."""
    folder.mkdir(parents=True, exist_ok=True)
    todo = [each for each in products if not _path(each, folder).exists()]
    if todo:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(jobs, len(todo)), mp_context=context) as pool:
            list(pool.map(_keep, todo, itertools.repeat(folder)))
    return [candidate for each in products for candidate in candidates_of(each, folder)]


def candidates_of(product: Product, folder: Path) -> list[Product]:
    """Of a product whose list was kept."""
    listed: list[dict[str, Any]] = json.loads(_path(product, folder).read_text(encoding="utf-8"))
    return [replace(product, wishes=tuple((name, _tuples(value)) for name, value in each.items())) for each in listed]


def _path(product: Product, folder: Path) -> Path:
    return bundle_path(folder, product).with_suffix(".candidates.json")


def _tuples(value: object) -> object:
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value


def _keep(product: Product, folder: Path) -> None:
    _path(product, folder).write_text(json.dumps(_wishes(product)), encoding="utf-8")


def _wishes(product: Product) -> list[dict[str, Any]]:
    """What every candidate fixes; nothing at all, first. That alone of a product that is refused."""
    from bench.our_products import arguments_of
    from tilewright.base.error import TilewrightError
    from tilewright.driver.compile.compile import elements_of
    from tilewright.driver.compile.sequence import uncut
    from tilewright.frontends.tile.trace import trace
    from tilewright.targets import target
    from tilewright.tune.candidates import candidates

    kernel, options = arguments_of(product)
    source = trace(kernel, options["dims"], elements_of(kernel, options["dtype"]), options["strides"])
    given, hopper = options["wanted"], target("sm_90a")

    def form(request: Wanted) -> ModuleOp:
        return uncut(source, hopper, request)[-1].module

    try:
        found = candidates(form(given), hopper, given, form)
    except TilewrightError:
        return [{}]
    before = asdict(given)
    return [{name: value for name, value in asdict(each).items() if value != before[name]} for each in found]


def serve_tuned(connection: Connection, arguments: argparse.Namespace) -> None:
    """`bench.suite.serve`, with the quickest candidate as ours."""
    suite.serve_with(tuned_ours, connection, arguments)


def tuned_ours(torch: Any, product: Product, arrays: Arrays, folder: Path, sets: int) -> Contender | Refused:
    """The candidate to take, by turns of all of them."""
    from tilewright.tune.fastest import winner

    made = [suite.ours_of(torch, each, arrays, folder, sets) for each in candidates_of(product, folder)]
    if isinstance(made[0], Refused):
        return made[0]
    able = [replace(each, name=str(at)) for at, each in enumerate(made) if isinstance(each, Contender)]
    if len(able) == 1:
        return replace(able[0], name="ours")
    races: list[dict[str, float]] = []

    def timed(places: Sequence[int]) -> list[list[float]]:
        times = race(torch, [able[place] for place in places], sets=sets, turns=_TURNS).microseconds
        races.append({name: round(quartiles(each)[1], 3) for name, each in times.items()})
        return [times[able[place].name] for place in places]

    taken = able[winner(len(able), timed)]
    return replace(taken, name="ours", notes={**taken.notes, "tuned": races, "taken": taken.name})
