"""Who else multiplies groups? torch._grouped_mm, a loop of torch.mm, and Triton tuned for the shape.

The loop knows on the host how many rows each group has, which the others find in memory; in a captured graph its
launches cost nothing. It is shown all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.interleaved import Contender
from bench.peers_gemm import Absent
from bench.triton_tuning import fastest

NAMES = ("torch", "torch loop", "triton")


@dataclass(frozen=True, slots=True)
class GroupedArrays:
    """Input sets (x (rows, k), w (groups, n, k)), where groups end (int32 on the GPU), and their counts."""

    pairs: Sequence[tuple[Any, Any]]
    ends: Any
    counts: tuple[int, ...]


def peers_of(
    torch: Any, arrays: GroupedArrays, *, sets: int, wanted: Sequence[str] = NAMES
) -> tuple[list[Contender], list[Absent]]:
    """The peers that can run it."""
    makers: dict[str, Callable[[], Contender]] = {
        "torch": lambda: _grouped_mm(torch, arrays, sets),
        "torch loop": lambda: _loop(torch, arrays, sets),
        "triton": lambda: _triton(torch, arrays, sets),
    }
    found: list[Contender] = []
    absent: list[Absent] = []
    for name in wanted:
        try:
            found.append(makers[name]())
        except (ValueError, RuntimeError, NotImplementedError, ImportError, AttributeError) as error:
            absent.append(Absent(name, str(error).splitlines()[0] if str(error) else type(error).__name__))
    return found, absent


def _result(torch: Any, arrays: GroupedArrays) -> Any:
    x, w = arrays.pairs[0]
    return torch.empty(x.shape[0], w.shape[1], device="cuda", dtype=x.dtype)


def _grouped_mm(torch: Any, arrays: GroupedArrays, sets: int) -> Contender:
    held: list[Any] = [_result(torch, arrays)]

    def call(index: int) -> None:
        x, w = arrays.pairs[index % sets]
        held[0] = torch._grouped_mm(x, w.transpose(-2, -1), offs=arrays.ends)

    call(0)
    torch.cuda.synchronize()
    # It takes no output to write to, so its result is fetched after the call.
    return Contender("torch", call, held[0], fetch=lambda: held[0])


def _loop(torch: Any, arrays: GroupedArrays, sets: int) -> Contender:
    output = _result(torch, arrays)
    ranges: list[tuple[int, int, int]] = []
    begin = 0
    for group, count in enumerate(arrays.counts):
        if count:
            ranges.append((group, begin, begin + count))
        begin += count

    def call(index: int) -> None:
        x, w = arrays.pairs[index % sets]
        for group, first, last in ranges:
            torch.mm(x[first:last], w[group].t(), out=output[first:last])

    return Contender("torch loop", call, output, {"launches": len(ranges), "knows": "counts on the host"})


def _triton(torch: Any, arrays: GroupedArrays, sets: int) -> Contender:
    from triton.tools.tensor_descriptor import TensorDescriptor

    from bench import triton_products

    output = _result(torch, arrays)
    x, w = arrays.pairs[0]
    groups, n, k = w.shape
    rows = x.shape[0]
    count = torch.cuda.get_device_properties(0).multi_processor_count

    def maker(m_tile: int, n_tile: int, stages: int, warps: int, group: int, waves: int) -> Callable[[int], object]:
        described = [
            (
                TensorDescriptor.from_tensor(each, [m_tile, 64]),
                TensorDescriptor.from_tensor(weights.reshape(groups * n, k), [n_tile, 64]),
            )
            for each, weights in arrays.pairs
        ]

        def call(index: int) -> object:
            a, b = described[index % sets]
            return triton_products.grouped_by_descriptors[(waves * count,)](
                a, b, output, arrays.ends, groups, n, k, output.stride(0), waves * count,
                BM=m_tile, BN=n_tile, BK=64, GROUP=group, num_stages=stages, num_warps=warps,
            )  # fmt: skip

        return call

    per_group = rows / groups
    tiles = [(128, 256, 3, 8, 1), (128, 256, 4, 8, 1), (128, 128, 4, 4, 1), (128, 128, 4, 8, 1), (128, 128, 3, 4, 2)]
    if per_group < 256:
        tiles += [(64, 256, 4, 4, 1), (64, 128, 4, 4, 2), (64, 64, 5, 4, 3)]
    if per_group < 32:
        tiles += [(16, 128, 5, 4, 2), (16, 256, 4, 4, 1), (32, 128, 5, 4, 2)]
    # A grid walked down all rows of tiles first reads each weight once; bands of 8 keep x in the cache.
    candidates = [
        (f"{m}x{n_}x64 stages {stages} warps {warps} programs {waves} a multiprocessor, bands of {group}",
         lambda a=(m, n_, stages, warps, group, waves): maker(*a))
        for m, n_, stages, warps, waves in tiles
        for group in (8, 64)
    ]  # fmt: skip
    return fastest(torch, candidates, output, sets=sets)
