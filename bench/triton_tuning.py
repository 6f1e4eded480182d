"""Triton's products tuned for a shape: every configuration of a list is compiled, run and timed; the fastest is taken.

The tuning is by CUDA graphs, as everything here is timed, and not by `triton.autotune`, whose clock holds the launch
too. Configurations that do not compile (shared memory) are dropped and counted. `precompile` fills Triton's cache on
disk in parallel processes first, for the lists of a whole suite; the time that it takes is Triton's compile time.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from bench.interleaved import (
    LONG_MILLISECONDS,
    NEAR,
    NEAR_MILLISECONDS,
    Contender,
    calls_for,
    captured,
    event_milliseconds,
    replay_milliseconds,
)

_SCALINGS = {"none": 0, "tensor": 1, "row": 2, "block": 3}


@dataclass(frozen=True, slots=True)
class Configuration:
    """kind: "pointers" or "descriptors"; tile of m, n, k (k for 16-bit operands; fp8 takes twice that); the rest as
    Triton names it. halves: store in two halves; specialized: warp specialisation asked for."""

    kind: str
    m: int
    n: int
    k: int
    stages: int
    warps: int
    group: int = 8
    halves: bool = False
    specialized: bool = False

    def __str__(self) -> str:
        words = f"{self.kind} {self.m}x{self.n}x{self.k} stages {self.stages} warps {self.warps} group {self.group}"
        return words + (" halves" if self.halves else "") + (" specialized" if self.specialized else "")


LARGE = (
    Configuration("descriptors", 128, 256, 64, 3, 8, halves=True),
    Configuration("descriptors", 128, 256, 64, 4, 8, halves=True),
    Configuration("descriptors", 128, 256, 64, 3, 8, 16, halves=True),
    Configuration("descriptors", 256, 128, 64, 3, 8, halves=True),
    Configuration("descriptors", 128, 128, 64, 4, 8),
    Configuration("descriptors", 128, 128, 64, 4, 4),
    Configuration("descriptors", 128, 256, 64, 3, 8, halves=True, specialized=True),
    Configuration("pointers", 128, 256, 64, 3, 8),
    Configuration("pointers", 128, 128, 64, 4, 4),
)
MIDDLE = (
    Configuration("descriptors", 128, 64, 64, 5, 4),
    Configuration("descriptors", 64, 128, 64, 5, 4),
    Configuration("descriptors", 64, 256, 64, 4, 4),
    Configuration("pointers", 128, 64, 64, 4, 4),
    Configuration("pointers", 64, 128, 64, 4, 4),
    Configuration("pointers", 64, 64, 64, 5, 4),
)
SMALL = (
    Configuration("descriptors", 64, 64, 128, 4, 4),
    Configuration("descriptors", 64, 32, 128, 5, 4),
    Configuration("pointers", 16, 64, 128, 5, 4),
    Configuration("pointers", 16, 32, 256, 4, 4),
    Configuration("pointers", 16, 128, 128, 4, 4),
    Configuration("pointers", 32, 64, 128, 5, 4),
    Configuration("pointers", 32, 32, 256, 4, 4),
    Configuration("pointers", 64, 32, 128, 5, 4),
)


def configurations(m: int, n: int, k: int) -> list[Configuration]:
    """What is tried for a shape: large tiles where they fill the GPU, small ones where rows are few."""
    if m <= 16:
        return [each for each in SMALL if each.m == 16 or each.kind == "descriptors"]
    if m <= 128:
        return [*SMALL, *MIDDLE, *(each for each in LARGE if each.m == 128 and each.n == 128)]
    if 2.0 * m * n * k > 2.5e12:
        return [each for each in LARGE if each.m * each.n >= 1 << 15]
    if 2.0 * m * n * k > 6e10:
        return list(LARGE)
    return [*LARGE, *MIDDLE]


def launcher(
    torch: Any,
    configuration: Configuration,
    pairs: Sequence[tuple[Any, Any]],
    output: Any,
    scales: tuple[Any, Any] | None = None,
    scaling: str = "none",
    precise: bool = False,
) -> Callable[[int], object]:
    """A call of the kernel on an input set. precise: sums of 8-bit operands stay in float32. Raises ValueError where
    the operands have no descriptors."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    from bench import triton_products

    a, b = pairs[0]
    (m, k), n = a.shape, b.shape[1]
    tile_k = configuration.k * (2 if a.element_size() == 1 else 1)
    if scaling == "block":
        tile_k = 128
    a_scale, b_scale = scales if scales is not None else (None, None)
    count = torch.cuda.get_device_properties(0).multi_processor_count
    common: dict[str, Any] = {
        "BM": configuration.m, "BN": configuration.n, "BK": tile_k, "GROUP": configuration.group,
        "num_stages": configuration.stages, "num_warps": configuration.warps, "SCALING": _SCALINGS[scaling],
        "PRECISE": precise,
    }  # fmt: skip
    tiles = -(-m // configuration.m) * -(-n // configuration.n)
    if configuration.kind == "pointers":

        def by_pointers(index: int) -> object:
            x, y = pairs[index % len(pairs)]
            return triton_products.by_pointers[(tiles,)](
                x, y, output, a_scale, b_scale, m, n, k, *x.stride(), *y.stride(), *output.stride(),
                EVEN_K=k % tile_k == 0, **common,
            )  # fmt: skip

        return by_pointers
    transposed = b.stride(0) == 1 and b.stride(1) != 1
    for matrix in (a, output, b.t() if transposed else b):
        if matrix.stride(1) != 1 or matrix.stride(0) * matrix.element_size() % 16 or matrix.data_ptr() % 16:
            raise ValueError("no tensor map describes an operand")
    described = [
        (
            TensorDescriptor.from_tensor(x, [configuration.m, tile_k]),
            TensorDescriptor.from_tensor(y.t(), [configuration.n, tile_k])
            if transposed
            else TensorDescriptor.from_tensor(y, [tile_k, configuration.n]),
        )
        for x, y in pairs
    ]
    width = configuration.n // 2 if configuration.halves else configuration.n
    result = TensorDescriptor.from_tensor(output, [configuration.m, width])

    def by_descriptors(index: int) -> object:
        x, y = described[index % len(described)]
        return triton_products.by_descriptors[(min(tiles, count),)](
            x, y, result, a_scale, b_scale, m, n, k, count, TRANSPOSED=transposed,
            SPECIALIZED=configuration.specialized, HALVES=configuration.halves, **common,
        )  # fmt: skip

    return by_descriptors


def fastest(
    torch: Any, candidates: Sequence[tuple[str, Callable[[], Callable[[int], object]]]], output: Any, *, sets: int
) -> Contender:
    """The fastest of Triton's candidates as the contender "triton". Those that do not compile or launch are counted;
    the three fastest are timed again in turns. Raises ValueError where none runs."""
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import OutOfResources, PTXASError

    # What a configuration too large, or one that a pass of Triton's cannot take, ends in.
    refusals = (CompilationError, OutOfResources, PTXASError, RuntimeError, ValueError, NotImplementedError)
    dropped: list[str] = []
    single: list[tuple[float, str, Callable[[int], object]]] = []
    for words, make in candidates:
        try:
            call = make()
            call(0)
            single.append((event_milliseconds(torch, call), words, call))
        except refusals as error:
            dropped.append(f"{words}: {type(error).__name__}: {str(error).splitlines()[0][:80] if str(error) else ''}")
    batch = max(2, min(sets, 8))
    timed: list[tuple[float, str, Callable[[int], object]]] = []
    for once, words, call in single:
        if once >= LONG_MILLISECONDS:
            timed.append((once, words, call))
        elif once <= NEAR * min(entry[0] for entry in single) + NEAR_MILLISECONDS:
            graph = captured(torch, call, batch)
            timed.append((min(replay_milliseconds(torch, graph) for _ in range(3)) / batch, words, call))
    if not timed:
        raise ValueError(f"no configuration of Triton's runs: {dropped}")
    timed.sort(key=lambda entry: entry[0])
    finalists = timed[:3]
    calls = calls_for(finalists[0][0], sets)
    graphs = [captured(torch, call, calls) for _, _, call in finalists]
    seen: list[list[float]] = [[] for _ in finalists]
    for _ in range(5):
        for times, graph in zip(seen, graphs, strict=True):
            times.append(replay_milliseconds(torch, graph))
    place = min(range(len(finalists)), key=lambda at: sorted(seen[at])[2])
    _, words, call = finalists[place]
    return Contender("triton", call, output, {"configuration": words, "tried": len(candidates), "dropped": dropped})


def tuned(
    torch: Any,
    pairs: Sequence[tuple[Any, Any]],
    output: Any,
    *,
    sets: int,
    scales: tuple[Any, Any] | None = None,
    scaling: str = "none",
    precise: bool = False,
) -> Contender:
    """The fastest of Triton's configurations for these operands. Raises ValueError where none runs."""
    (m, k), n = pairs[0][0].shape, pairs[0][1].shape[1]
    candidates = [
        (str(each), functools.partial(launcher, torch, each, pairs, output, scales, scaling, precise))
        for each in configurations(m, n, k)
    ]
    return fastest(torch, candidates, output, sets=sets)


def warm(torch: Any, pairs: Sequence[tuple[Any, Any]], output: Any) -> None:
    """Compile into Triton's cache on disk whatever `tuned` would try for these operands."""
    (m, k), n = pairs[0][0].shape, pairs[0][1].shape[1]
    for each in configurations(m, n, k):
        with contextlib.suppress(ValueError):
            fastest(torch, [(str(each), functools.partial(launcher, torch, each, pairs, output))], output, sets=2)


def precompile(
    jobs: int,
    dtypes: Sequence[str],
    transposed: Sequence[bool],
    scaling: str = "none",
    precise: Sequence[bool] = (False,),
) -> float:
    """Compile every configuration into Triton's cache on disk, in processes; returns the seconds that it took."""
    work = [
        (configuration, dtype, each, scaling, kept)
        for configuration in (*LARGE, *MIDDLE, *SMALL)
        for dtype in dtypes
        for each in transposed
        for kept in precise
    ]
    begin = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(work)), mp_context=context) as pool:
        list(pool.map(_compile, work, chunksize=-(-len(work) // (2 * jobs))))
    return time.perf_counter() - begin


def _compile(work: tuple[Configuration, str, bool, str, bool]) -> None:
    import torch

    configuration, dtype, transposed, scaling, precise = work
    element = {"bf16": torch.bfloat16, "f16": torch.float16, "e4m3": torch.float8_e4m3fn}[dtype]
    a = torch.zeros(512, 512, device="cuda").to(element)
    b = torch.zeros(512, 512, device="cuda").to(element)
    output = torch.empty(512, 512, device="cuda", dtype=torch.bfloat16 if dtype == "e4m3" else element)
    scales = (torch.ones(512 * 4, device="cuda"), torch.ones(512 * 4, device="cuda"))
    make = functools.partial(
        launcher, torch, configuration, [(a, b.t() if transposed else b)], output,
        None if scaling == "none" else scales, scaling, precise,
    )  # fmt: skip
    try:
        fastest(torch, [(str(configuration), make)], output, sets=2)
    except ValueError:
        return
