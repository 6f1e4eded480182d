"""The process that Nsight Compute watches: every contender of some cases runs as it does in a race, and is told apart.

    ncu --profile-from-start off ... python -m bench.profiles_process REQUEST.json ORDER.json

Contenders are built and tuned with the profiler off. Then each runs with it on, behind a kernel that marks where its
own kernels begin (`torch.cuda._sleep`). ORDER.json says in which order they ran. A peer that launches more than
`MOST_KERNELS` for one call is left out: each kernel is run once for every pass of the profiler.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bench.gemm_suites import SUITES, Product
from bench.interleaved import Contender
from bench.moe_shapes import CASES, Grouped, counts
from bench.prepared import Refused, load_prepared

MARK = "spin_kernel"
"""What the marker's name contains."""
MOST_KERNELS = 64
LISTS = (*SUITES, "grouped")


@dataclass(frozen=True, slots=True)
class Request:
    """suite: one of `LISTS`; only: words of cases, all where there are none; peers: names; kernels: the folder of
    compiled ones; launches: of each contender."""

    suite: str
    only: tuple[str, ...]
    peers: tuple[str, ...]
    kernels: str
    launches: int


@dataclass(frozen=True, slots=True)
class Profiled:
    """A contender that ran. notes: what its peer says of its configuration."""

    case: str
    who: str
    notes: str


def cases_of(request: Request) -> list[Product | Grouped]:
    """The cases asked for: those whose name, with the shape behind it, contains one of the words."""
    listed: Sequence[Product | Grouped] = CASES if request.suite == "grouped" else SUITES[request.suite]()
    return [case for case in listed if not request.only or any(words in told(case) for words in request.only)]


def told(case: Product | Grouped) -> str:
    """A case's name and shape."""
    rows = case.rows if isinstance(case, Grouped) else case.m
    return f"{case.name}: {rows}, {case.n}, {case.k}"


def contenders_of(torch: Any, case: Product | Grouped, request: Request) -> list[Contender]:
    """Ours, if the compiler takes the case, and the peers that can run it, on one set of inputs."""
    from bench import peers_gemm, peers_grouped, suite

    if isinstance(case, Product):
        arrays = suite.arrays_of(torch, case, 1)
        ours = suite.ours_of(torch, case, arrays, Path(request.kernels), 1)
        wanted = [name for name in request.peers if name in peers_gemm.NAMES]
        peers, _ = peers_gemm.peers_of(torch, case, arrays, sets=1, wanted=wanted)
        return peers if isinstance(ours, Refused) else [ours, *peers]
    options: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    x, w = torch.randn(case.rows, case.k, **options), torch.randn(case.experts, case.n, case.k, **options)
    rows_of = counts(case)
    ends = torch.tensor(rows_of, device="cuda", dtype=torch.int32).cumsum(0, dtype=torch.int32)
    wanted = [name for name in request.peers if name in peers_grouped.NAMES]
    grouped = peers_grouped.GroupedArrays([(x, w)], ends, rows_of)
    peers, _ = peers_grouped.peers_of(torch, grouped, sets=1, wanted=wanted)
    program = load_prepared(case, Path(request.kernels))
    if isinstance(program, Refused):
        return peers
    output = torch.empty(case.rows, case.n, **options)
    return [Contender("ours", lambda _: program(x, w, ends, out=output), output), *peers]


def profiled(torch: Any, request: Request) -> list[Profiled]:
    """Every contender of every case, run under the profiler."""
    torch.manual_seed(0)
    order: list[Profiled] = []
    for case in cases_of(request):
        for contender in contenders_of(torch, case, request):
            launches = contender.notes.get("launches")
            if isinstance(launches, int) and launches > MOST_KERNELS:
                continue
            contender.call(0)
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
            torch.cuda._sleep(1)
            for _ in range(request.launches):
                contender.call(0)
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()
            order.append(Profiled(told(case), contender.name, str(contender.notes.get("configuration", ""))))
        torch.cuda.empty_cache()
    return order


def main(arguments: Sequence[str]) -> int:
    import torch

    given, into = map(Path, arguments)
    request = Request(**json.loads(given.read_text(encoding="utf-8")))
    request = replace(request, only=tuple(request.only), peers=tuple(request.peers))
    order = profiled(torch, request)
    into.write_text(json.dumps([asdict(each) for each in order]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
