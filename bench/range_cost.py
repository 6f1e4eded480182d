"""What does a kernel for a range of any axis cost, beside one for exactly the extents that it is called with?

Products, attention, softmax and a norm, bf16, with a range of rows, of columns, of what is summed, walked or folded, of
batches, and of several of these (`tw.dynamic`). Both kernels are timed in turns (`bench.interleaved`) on the same
arrays, at the most of the range and below, and their results are compared with each other. The ratio that counts is the
exact kernel's time over the range kernel's, turn by turn: 1 means that the range costs nothing.

    python -m bench range-cost --prepare --kernels out/kernels     # compile ahead; needs no GPU
    python -m bench range-cost --kernels out/kernels

Not handled: the ranges of rows that `tw.matmul` uses (`bench row-ranges`); 8-bit operands; element kernels.
Checked by: tests/benchmarks/test_range_cost.py.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench import case_suite
from bench.device_state import Sampler
from bench.interleaved import Contender, race, sets_for
from bench.prepared import Refused, facts_of, load_prepared
from bench.suite import summarised

GOAL = 0.97
"""Of the exact kernel's speed, in the geometric mean."""


@dataclass(frozen=True, slots=True)
class RangedProgram:
    """A program of `examples/fused.py` or `examples/rows.py`, or `batched`, with these extents. ranges: of some of its
    axes, least, most and multiple of; none for the exact kernel."""

    program: str
    dims: tuple[tuple[str, int], ...]
    ranges: tuple[tuple[str, int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class RangeCase:
    """A program launched at `dims`. ranges: those of the range kernel."""

    program: str
    dims: tuple[tuple[str, int], ...]
    ranges: tuple[tuple[str, int, int, int], ...]

    @property
    def name(self) -> str:
        ranges = ", ".join(f"{axis} of {least} to {most}" for axis, least, most, _ in self.ranges)
        return f"{self.program} {' x '.join(f'{axis}={extent}' for axis, extent in self.dims)}, {ranges}"

    @property
    def exact(self) -> RangedProgram:
        return RangedProgram(self.program, self.dims)

    @property
    def ranged(self) -> RangedProgram:
        """The same of all cases of a range, whatever they are launched at."""
        most = {axis: most for axis, _, most, _ in self.ranges}
        return RangedProgram(self.program, tuple((a, most.get(a, extent)) for a, extent in self.dims), self.ranges)


def _at(program: str, dims: dict[str, int], *ranges: tuple[str, int, int, int], below: int) -> Iterator[RangeCase]:
    """At the most of each range, and at `below` along all of them."""
    most = {axis: most for axis, _, most, _ in ranges}
    for extents in (most, dict.fromkeys(most, below)):
        yield RangeCase(program, tuple((dims | extents).items()), ranges)


def cases() -> list[RangeCase]:
    """Every range, at its most and at an extent that fills no tile."""
    layer, heads = {"M": 4096, "N": 4096, "K": 4096}, {"B": 4, "H": 16, "Q": 2048, "T": 2048, "E": 128, "F": 128}
    rows, long, keys = ("M", 2049, 4096, 1), ("K", 8, 4096, 8), ("T", 1, 4096, 1)
    queries, few = ("Q", 1, 2048, 1), {"B": 16, "H": 32, "Q": 1, "T": 8192, "E": 128, "F": 128}
    found = [*_at("linear_relu", layer, rows, below=3001), *_at("linear_relu", layer, long, below=3000)]
    found += _at("linear_relu", layer, rows, long, below=3000)
    found += _at("batched", {"B": 64, "M": 512, "N": 512, "K": 1024}, ("B", 1, 64, 1), below=37)
    found += _at("attention", heads, keys, below=2049)
    found += _at("attention", heads, queries, below=1025)
    found += _at("attention", heads, queries, keys, below=1025)
    found += _at("attention", heads, ("B", 1, 16, 1), below=5)
    found += _at("causal_attention", heads, queries, ("T", 1, 2048, 1), below=1025)
    found += _at("causal_attention", heads, ("B", 1, 16, 1), below=5)
    found += _at("grouped_heads", few, ("B", 1, 64, 1), below=9)
    found += [*_at("grouped_heads", few, ("B", 1, 64, 1), below=1)][1:]
    found += _at("grouped_heads", few, ("T", 1, 8192, 1), below=4097)
    columns, wide = ("N", 8, 4096, 8), {"M": 8192, "N": 4096}
    found += _at("linear_relu", layer, columns, below=3000)
    found += _at("linear_relu", layer, rows, ("N", 2056, 4096, 8), below=3000)
    for program in ("softmax", "rms_norm"):
        found += _at(program, wide, columns, below=3000)
        found += _at(program, wide, ("N", 64, 4096, 1), below=3001)
    found += _at("softmax", wide, ("M", 1, 8192, 1), columns, below=3000)
    return found


add_arguments = case_suite.add_arguments


def run(arguments: argparse.Namespace) -> int:
    return case_suite.run_cases(
        arguments, "range-cost", cases(), _measured, _line, programs=_programs, summary=_summary
    )


def _programs(case: RangeCase) -> list[RangedProgram]:
    return [case.exact, case.ranged]


def _summary(rows: case_suite.Rows) -> Iterator[str]:
    groups: dict[str, list[float]] = {}
    for row in rows:
        if "ratio" in row:
            axes = " and ".join(row["ranges"])
            for name in (f"{row['program']}, {axes}", "all"):
                groups.setdefault(name, []).append(row["ratio"])
    for name, ratios in groups.items():
        yield f"{name}: exact over range {statistics.geometric_mean(ratios):.3f}, worst {min(ratios):.3f}"


def _measured(torch: Any, case: RangeCase, arguments: argparse.Namespace, sampler: Sampler) -> dict[str, Any]:
    """Both kernels on the same arrays."""
    torch.cuda.empty_cache()
    row: dict[str, Any] = {
        "case": case.name, "program": case.program, "dims": dict(case.dims), "dtype": "bf16",
        "ranges": {axis: list(numbers) for axis, *numbers in case.ranges},
    }  # fmt: skip
    programs: dict[str, Any] = {}
    for name, each in (("ours", case.ranged), ("exact", case.exact)):
        program = load_prepared(each, arguments.kernels)
        if isinstance(program, Refused):
            return row | {"refused": f"{name}: {program.message}"}
        programs[name] = program
    buffers = programs["exact"].bundle.plan.buffers
    inputs, outputs = ([each for each in buffers if each.role == role] for role in ("input", "output"))
    generator = torch.Generator(device="cuda").manual_seed(0)
    size = sum(2 * torch.Size(each.shape).numel() for each in inputs)
    sets = sets_for(size, warm=arguments.warm)
    arrays = [
        [torch.randn(each.shape, device="cuda", generator=generator).bfloat16() for each in inputs] for _ in range(sets)
    ]
    contenders: list[Contender] = []
    results: list[Any] = []
    for name, program in programs.items():
        out = [torch.empty(each.shape, device="cuda", dtype=torch.bfloat16) for each in outputs]

        def call(index: int, program: Any = program, out: list[Any] = out) -> None:
            program(*arrays[index % sets], out=tuple(out) if len(out) > 1 else out[0])

        contenders.append(Contender(name, call, out[0], facts_of(program)))
        results.append(out[0])
    operations = float(str(programs["exact"].bundle.facts["operations"]))
    result = race(torch, contenders, sets=sets, turns=arguments.turns, sampler=sampler)
    row |= summarised(result, contenders, [], {}, operations)
    for each in contenders:
        each.call(0)
    torch.cuda.synchronize()
    ranged, exact = (each.double() for each in results)
    row["apart"] = ((ranged - exact).norm() / exact.norm()).item()
    return row


def _line(row: dict[str, Any]) -> str:
    if "refused" in row:
        return f"{row['case']}: refused: {row['refused']}"
    times = ", ".join(f"{name} {each['microseconds']:.1f}" for name, each in row["contenders"].items())
    return f"{row['case']}: {times} us; exact over range {row['ratio']:.3f}; results {row['apart']:.1e} apart"
