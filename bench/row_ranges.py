"""What does a kernel for a range of rows cost, beside one for exactly the rows that it is called with?

Layers of public models (`bench.model_layers`), bf16; for each range that `tw.matmul` serves by one kernel
(`driver.compile.row_ranges`), some numbers of rows in it. Both kernels and PyTorch's product are timed in turns
(`bench.interleaved`) on the same arrays, and both results are compared with float64, and with each other: where tiles
are the same, so are the sums. The ratio that counts is the exact kernel's time over the range kernel's, turn by turn: 1
means that the range costs nothing.

    python -m bench row-ranges --prepare --kernels out/kernels     # compile ahead; needs no GPU
    python -m bench row-ranges --kernels out/kernels

Not handled: 8-bit operands, row and element kernels. Checked by: tests/benchmarks/test_row_ranges.py.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass
from typing import Any

from bench.device_state import Sampler
from bench.interleaved import Contender, race, sets_for
from bench.model_layers import LAYERS
from bench.prepared import Refused, facts_of, load_prepared, prepare
from bench.record import write
from bench.suite import add_run_arguments, summarised

RANGES = ((1, 16), (65, 80), (97, 112), (257, 320), (449, 512), (1025, 1280), (2049, 2560), (7169, 8192))
"""Of those that `tw.matmul` uses."""
_LAYERS = (("Llama 3 8B", "QKV"), ("Llama 3 8B", "down"), ("Qwen 2.5 7B", "gate and up"))


@dataclass(frozen=True, slots=True)
class RowsCase:
    """rows by a weight of n columns, contiguous along k. least, most: the range that a kernel serves; equal for the
    kernel of exactly these rows."""

    name: str
    least: int
    most: int
    n: int
    k: int


def kernels_of(rows: int, ends: tuple[int, int], name: str, n: int, k: int) -> tuple[RowsCase, RowsCase]:
    """The exact kernel and that of the range."""
    return RowsCase(name, rows, rows, n, k), RowsCase(name, *ends, n, k)


def cases() -> list[tuple[int, RowsCase, RowsCase]]:
    """Numbers of rows, each with both kernels: the range's ends, and one that fills no tile."""
    layers = [each for each in LAYERS if (each.model, each.name) in _LAYERS]
    return [
        (rows, *kernels_of(rows, (low, high), f"{layer.model}, {layer.name}", layer.n, layer.k))
        for layer in layers
        for low, high in RANGES
        for rows in (low, (low + high) // 2 + 3, high)
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", action="append", metavar="WORDS", help="cases whose name contains these words")
    add_run_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    wanted = [each for each in cases() if not arguments.only or any(words in _name(*each) for words in arguments.only)]
    if not wanted:
        print("no case has a name with these words; see bench/row_ranges.py", file=sys.stderr)
        return 2
    if arguments.prepare:
        kernels = list(dict.fromkeys(kernel for _, *both in wanted for kernel in both))
        count, seconds = prepare(kernels, arguments.kernels, arguments.jobs)
        print(f"{count} compiled in {seconds:.0f} s")
        return 0
    import torch

    found: list[dict[str, Any]] = []
    with Sampler() as sampler:
        for rows, exact, ranged in wanted:
            row = _measured(torch, rows, exact, ranged, arguments, sampler)
            found.append(row)
            print(_line(row), flush=True)
    for peer in ("exact", "torch"):
        ratios = [row["ratios"][peer]["median"] for row in found if "ratios" in row]
        if ratios:
            print(f"{peer} over range: geometric mean {statistics.geometric_mean(ratios):.3f}, worst {min(ratios):.3f}")
    print(f"written to {write('row-ranges', found, arguments.results)}")
    return 0


def _name(rows: int, exact: RowsCase, ranged: RowsCase) -> str:
    return f"{exact.name}, {rows} of {ranged.least} to {ranged.most}"


def _measured(
    torch: Any, rows: int, exact: RowsCase, ranged: RowsCase, arguments: argparse.Namespace, sampler: Sampler
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "case": _name(rows, exact, ranged), "shape": [rows, exact.n, exact.k], "range": [ranged.least, ranged.most],
    }  # fmt: skip
    programs: dict[str, Any] = {}
    for name, case in (("ours", ranged), ("exact", exact)):
        program = load_prepared(case, arguments.kernels)
        if isinstance(program, Refused):
            return row | {"refused": f"{name}: {program.message}"}
        programs[name] = program
    generator = torch.Generator(device="cuda").manual_seed(0)

    def random(*shape: int) -> Any:
        return torch.randn(shape, device="cuda", generator=generator).bfloat16()

    sets = sets_for(2 * (rows * exact.k + exact.n * exact.k), warm=arguments.warm)
    arrays = [(random(rows, exact.k), random(exact.n, exact.k).T) for _ in range(sets)]
    results = {name: torch.empty((rows, exact.n), device="cuda", dtype=torch.bfloat16) for name in programs}
    contenders: list[Contender] = []
    for name, program in programs.items():

        def ours(index: int, program: Any = program, out: Any = results[name]) -> None:
            program(*arrays[index % sets], out=out)

        contenders.append(Contender(name, ours, results[name], facts_of(program)))
    product = torch.empty((rows, exact.n), device="cuda", dtype=torch.bfloat16)

    def peer(index: int) -> None:
        torch.mm(*arrays[index % sets], out=product)

    contenders.append(Contender("torch", peer, product))
    result = race(torch, contenders, sets=sets, turns=arguments.turns, sampler=sampler)
    row |= summarised(result, contenders, [], {}, 2.0 * rows * exact.n * exact.k)
    for each in contenders[:2]:
        each.call(0)
    torch.cuda.synchronize()
    wanted = arrays[0][0].double() @ arrays[0][1].double()
    errors = [((out.double() - wanted).norm() / wanted.norm()).item() for out in results.values()]
    row["equal"], row["errors"] = bool(torch.equal(*results.values())), dict(zip(results, errors, strict=True))
    return row


def _line(row: dict[str, Any]) -> str:
    if "refused" in row:
        return f"{row['case']}: refused: {row['refused']}"
    times = {name: each["microseconds"] for name, each in row["contenders"].items()}
    said = ", ".join(f"{name} {time:.1f}" for name, time in times.items())
    equal = "equal" if row["equal"] else "errors " + ", ".join(f"{error:.1e}" for error in row["errors"].values())
    return f"{row['case']}: {said} us; exact over range {row['ratios']['exact']['median']:.3f}; {equal}"
