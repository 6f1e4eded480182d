"""How long do variants of a product take once the GPU's clock is steady under load, and how long after a rest?

A GPU under load comes to its power cap and lowers the clock of its multiprocessors, not that of its caches and memory;
after a rest it runs at its highest clock. Which variant is quickest may depend on that, so each is timed in both
states. Steady: rounds in which all variants are replayed once from CUDA graphs, in an order that rotates, after untimed
ones until their times are steady (`bench.interleaved.warm_up`). Rested: before each timed replay the GPU is left idle
for a while, and then only a short replay of the same variant comes before. Inputs rotate through sets that exceed the
L2 cache together; each answer is compared with torch.mm's.

Not handled: a clock between the two. What the clock was is recorded, as far as NVML tells.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bench.device_state import Sampler
from bench.interleaved import calls_for, captured, replay_milliseconds, sets_for, single_milliseconds, warm_up

if TYPE_CHECKING:
    from bench.wished import Shape
    from tilewright.runtime.bundle import Bundle

_REST_SECONDS = 0.022
_RESTED_MILLISECONDS = 0.25
"""About how long a replay after a rest is: long for the events' resolution, short for the clock."""
_MOST_CALLS = 16
_MOST_DIFFERENCE = 1e-2
PEER = "torch"


def measure(
    torch: Any,
    shape: Shape,
    bundles: Mapping[str, Bundle | str],
    *,
    rounds: int,
    rested_rounds: int,
    rows_of_b: bool,
) -> dict[str, Any]:
    """steady, rested: microseconds of a call, by name, torch.mm's among them; megahertz: lowest, median and highest of
    each state; refused: the compiler's words; wrong: the names of those whose answer is far from torch.mm's.

    rested_rounds: of replays after rests, 0 for none.
    """
    from tilewright.runtime.call import Program

    m, n, k = shape
    options: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    sets = sets_for(2 * (m * k + k * n), warm=False)
    right = (lambda: torch.randn(k, n, **options)) if rows_of_b else (lambda: torch.randn(n, k, **options).t())
    pairs = [(torch.randn(m, k, **options), right()) for _ in range(sets)]
    out, theirs = torch.empty(m, n, **options), torch.empty(m, n, **options)
    torch.mm(*pairs[0], out=theirs)
    expected, wrong = theirs.clone(), list[str]()
    calls: dict[str, Callable[[int], object]] = {PEER: lambda index: torch.mm(*pairs[index % sets], out=theirs)}
    for name, bundle in bundles.items():
        if isinstance(bundle, str):
            continue
        program = Program(bundle)
        out.fill_(float("nan"))
        program(*pairs[0], out=out)
        if not float((out - expected).norm() / expected.norm()) <= _MOST_DIFFERENCE:
            wrong.append(name)
        calls[name] = lambda index, program=program: program(*pairs[index % sets], out=out)
    one = single_milliseconds(torch, calls[PEER], sets)
    sampler = Sampler()
    after_rest = _rested(torch, calls, one, rested_rounds, sampler) if rested_rounds else {}
    idle = sampler.summary() if rested_rounds else {}
    times = _steady(torch, calls, calls_for(one, sets), rounds, sampler)
    busy = sampler.summary()
    return {
        "steady": times,
        "rested": after_rest,
        "megahertz": {"steady": busy.get("sm_megahertz", []), "rested": idle.get("sm_megahertz", [])},
        "refused": {name: words for name, words in bundles.items() if isinstance(words, str)},
        "wrong": wrong,
    }


def _steady(
    torch: Any, calls: Mapping[str, Callable[[int], object]], batch: int, rounds: int, sampler: Sampler
) -> dict[str, float]:
    """Microseconds by name. A time is the median of its part of its round's mean, in the
    median round's units: a clock that drifts from round to round moves all alike."""
    graphs = {name: captured(torch, call, batch) for name, call in calls.items()}
    names = list(graphs)
    warm_up(lambda: sum(replay_milliseconds(torch, graph) for graph in graphs.values()))
    shares: dict[str, list[float]] = {name: [] for name in names}
    means: list[float] = []
    with sampler:
        for number in range(rounds):
            taken = {name: replay_milliseconds(torch, graphs[name]) for name in rotated(names, number)}
            means.append(sum(taken.values()) / len(taken))
            for name, milliseconds in taken.items():
                shares[name].append(milliseconds / means[-1])
    unit = 1000 * statistics.median(means) / batch
    return {name: round(unit * statistics.median(each), 3) for name, each in shares.items()}


def _rested(
    torch: Any, calls: Mapping[str, Callable[[int], object]], one: float, rounds: int, sampler: Sampler
) -> dict[str, float]:
    """Microseconds by name. one: milliseconds of a call, about."""
    batch = max(1, min(_MOST_CALLS, round(_RESTED_MILLISECONDS / one)))
    graphs = {name: captured(torch, call, batch) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    with sampler:
        for number in range(rounds):
            for name in rotated(list(graphs), number):
                torch.cuda.synchronize()
                time.sleep(_REST_SECONDS)
                replay_milliseconds(torch, graphs[name])
                times[name].append(1000 * replay_milliseconds(torch, graphs[name]) / batch)
    return {name: round(statistics.median_low(each), 3) for name, each in times.items()}


def rotated(names: list[str], number: int) -> list[str]:
    """The names in an order that begins elsewhere each round."""
    first = 3 * number % len(names)
    return names[first:] + names[:first]
