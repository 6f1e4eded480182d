"""How fast is each of several implementations, in one process, taking turns, on data that a sceptic accepts?

Each implementation is captured in a CUDA graph of several calls, so that no launch is timed, and the graphs are
replayed in turns whose order rotates, timed with CUDA events. Cold: calls rotate through input sets that together
exceed the L2 cache twice over, so each call finds its inputs in device memory; warm: one set. A ratio is taken turn by
turn, of neighbours in time, and its median and quartiles are reported; so a clock that drifts moves both sides.
The GPU's clock, power and temperature are sampled meanwhile. A graph's kernels are read from the graph itself.

Not handled: implementations that need the host between their kernels (they cannot be captured).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.device_state import Sampler

COLD_BYTES = 160 << 20
"""What the input sets of a cold run exceed together: more than twice the 60 MB of an H200's L2 cache."""
MOST_SETS = 64
REPLAY_MILLISECONDS = 0.6
"""A replay is made of as many calls as take about this long, so that the events' resolution does not show."""
MOST_CALLS = 256
WARM_MILLISECONDS = 60.0
MOST_WARM_MILLISECONDS = 480.0
STEADY = 0.01
"""Contenders run untimed for so long at the least, and on until a round's mean time changes by less than this part from
one such stretch to the next, or for as long at the most: a GPU that was idle comes to its power cap only after a while,
and who is fastest may depend on the clock."""
SLOW = 6.0
"""A candidate of a peer's tuning whose first call takes so many times the best, and a load, is not called again."""
NEAR = 1.5
NEAR_MILLISECONDS = 0.2
"""Of a peer's tuning are timed those whose single call takes at most so many times the best's and, for launching, so
much longer."""
LONG_MILLISECONDS = 4.0
"""In a peer's tuning, calls that take so long are compared by single ones, launched by the host."""
LOADING_MILLISECONDS = 50.0
"""What a first call may take beside its kernel: loading it."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One implementation. call: runs it on the input set of that index; output: what it writes; notes: what a reader
    should know of it (a configuration, an algorithm); fetch: gets the result where each call makes a new array."""

    name: str
    call: Callable[[int], object]
    output: Any
    notes: Mapping[str, object] = field(default_factory=dict[str, object])
    fetch: Callable[[], Any] | None = None

    def result(self) -> Any:
        """What the last call wrote."""
        return self.fetch() if self.fetch is not None else self.output


@dataclass(frozen=True, slots=True)
class Race:
    """What came of one interleaved run. microseconds: of one call, by contender, one number a turn, in order of turns;
    kernels: names in the graph of one call, as far as the driver tells them."""

    microseconds: Mapping[str, list[float]]
    kernels: Mapping[str, list[str]]
    calls: int
    sets: int
    device: Mapping[str, object]

    def median(self, name: str) -> float:
        return statistics.median(self.microseconds[name])

    def best_of(self, names: Sequence[str]) -> str:
        """The contender of `names` with the smallest median."""
        return min(names, key=self.median)

    def ratio(self, ours: str, theirs: str) -> tuple[float, float, float]:
        """(lower quartile, median, upper quartile) of their time over ours, turn by turn: above 1, ours is faster."""
        ratios = [b / a for a, b in zip(self.microseconds[ours], self.microseconds[theirs], strict=True)]
        return quartiles(ratios)

    def row(self, name: str, operations: float = 0.0) -> dict[str, object]:
        """One contender's numbers for a result file."""
        low, middle, high = quartiles(self.microseconds[name])
        row: dict[str, object] = {"microseconds": middle, "quartiles": [low, high], "kernels": self.kernels[name]}
        if operations:
            row["tflops"] = operations / middle / 1e6
        return row


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """(lower quartile, median, upper quartile); of a single value that value three times."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def sets_for(input_bytes: int, *, warm: bool) -> int:
    """How many input sets a run rotates through, for inputs of `input_bytes` each."""
    return 1 if warm else max(2, min(MOST_SETS, -(-COLD_BYTES // input_bytes)))


def captured(torch: Any, call: Callable[[int], object], batch: int, *, keep: bool = False) -> Any:
    """A CUDA graph of `batch` calls with the indices 0, 1, ..., warmed up on the stream that it is captured from.

    keep: leave the graph readable (`raw_cuda_graph`).
    """
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for index in range(min(2 * batch, batch + 2)):
            call(index)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph(keep_graph=True) if keep else torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for index in range(batch):
            call(index)
    if keep:
        graph.instantiate()
    graph.replay()
    return graph


def replay_milliseconds(torch: Any, graph: Any) -> float:
    """One replay, by events."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


def event_milliseconds(torch: Any, call: Callable[[int], object], hopeless: float = math.inf) -> float:
    """The shorter of two calls, by events, the host's launching included: enough to tell what is not worth timing.
    The first loads its kernel, too; where it takes longer than `hopeless`, there is no second."""
    found = math.inf
    for _ in range(2):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call(0)
        end.record()
        end.synchronize()
        found = min(found, float(begin.elapsed_time(end)))
        if found > hopeless:
            break
    return found


def single_milliseconds(torch: Any, call: Callable[[int], object], sets: int) -> float:
    """About how long one call takes: the shorter of two replays of a small graph."""
    batch = max(2, min(sets, 8))
    graph = captured(torch, call, batch)
    return min(replay_milliseconds(torch, graph) for _ in range(2)) / batch


def calls_for(milliseconds: float, sets: int) -> int:
    """Calls in a graph, for calls of that length: a multiple of the sets where they are few, never past MOST_CALLS."""
    wanted = max(1, math.ceil(REPLAY_MILLISECONDS / max(milliseconds, 1e-4)))
    return min(MOST_CALLS, max(sets, -(-wanted // sets) * sets))


def race(
    torch: Any,
    contenders: Sequence[Contender],
    *,
    sets: int,
    turns: int,
    sampler: Sampler | None = None,
    calling: Callable[[Contender], object] = lambda contender: None,
) -> Race:
    """Time all contenders in turns. Every graph has the same number of calls over the same input sets. calling: told of
    each contender before its first calls, and before a graph of it runs first."""
    singles: list[float] = []
    for each in contenders:
        calling(each)
        singles.append(single_milliseconds(torch, each.call, sets))
    batch = calls_for(min(singles), sets)
    graphs: dict[str, Any] = {}
    for each in contenders:
        calling(each)
        graphs[each.name] = captured(torch, each.call, batch, keep=True)
        torch.cuda.synchronize()
    kernels = {name: list(dict.fromkeys(kernel_names(graph))) for name, graph in graphs.items()}
    names = list(graphs)
    times: dict[str, list[float]] = {name: [] for name in names}
    sampler = sampler or Sampler()
    warmed = warm_up(lambda: sum(replay_milliseconds(torch, graphs[name]) for name in names))
    with sampler:
        for turn in range(turns):
            for place in range(len(names)):
                name = names[(turn + place) % len(names)]
                times[name].append(1000 * replay_milliseconds(torch, graphs[name]) / batch)
    return Race(times, kernels, batch, sets, {**sampler.summary(), "warm_milliseconds": round(warmed)})


def warm_up(round_milliseconds: Callable[[], float]) -> float:
    """Run rounds until their times are steady; the milliseconds that took. round_milliseconds: runs all contenders
    once and says how long that was."""
    before, spent = math.inf, 0.0
    while spent < MOST_WARM_MILLISECONDS:
        stretch, rounds = 0.0, 0
        while stretch < WARM_MILLISECONDS:
            stretch += round_milliseconds()
            rounds += 1
        spent += stretch
        mean = stretch / rounds
        if abs(mean / before - 1) < STEADY:
            break
        before = mean
    return spent


def kernel_names(graph: Any) -> list[str]:
    """Names of the kernels in a captured graph that was kept, in the driver's order; memory nodes by their kind."""
    from cuda.bindings import driver

    raw = driver.CUgraph(graph.raw_cuda_graph())
    status, _, count = driver.cuGraphGetNodes(raw)
    if status != driver.CUresult.CUDA_SUCCESS or not count:
        return []
    status, nodes, count = driver.cuGraphGetNodes(raw, count)
    found: list[str] = []
    for node in nodes[:count]:
        _, kind = driver.cuGraphNodeGetType(node)
        if kind != driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL:
            found.append(str(kind).rpartition("TYPE_")[2].lower())
            continue
        status, parameters = driver.cuGraphKernelNodeGetParams(node)
        if status != driver.CUresult.CUDA_SUCCESS:
            found.append("unknown")
            continue
        status, name = driver.cuKernelGetName(parameters.kern) if int(parameters.kern) else (None, None)
        if name is None:
            status, name = driver.cuFuncGetName(parameters.func)
        found.append(name.decode() if isinstance(name, bytes) else "unknown")
    return found
