# Axis names in annotations are data, not types: checkers of types take them for undefined names.
# ruff: noqa: F821, UP037
# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
"""Registers that ptxas takes by the order it is given, and spills by the slots there are in shared memory.

Orders: programs without dot, of many operands, emitted with all loads first, in the heuristic's order and in the one
with the fewest live values, with what is proved of it. Of each: values of a point that live at once; registers a thread
that ptxas takes where nothing limits it; bytes it spills at 32 registers, with which all threads of a multiprocessor
have room. Slots: products whose epilogue leaves few registers, with more and more slots: bytes that ptxas spills.

With `--speeds`, on a GPU: such programs with all loads first and in order, and products with slots beside the same
tiles' next narrower ones that need none, in turn, on random data; results of the first are compared bit by bit, those
of products with PyTorch's in float32.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import tilewright.synth.decide as decide_module
from bench.interleaved import calls_for, captured, quartiles, replay_milliseconds, sets_for, single_milliseconds
from bench.record import write
from bench.tile_names import by_tile_names
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.driver.views.register_pressure import register_pressure
from tilewright.frontends.ptx.ast import Kernel
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile import language as tw
from tilewright.frontends.tile.trace import trace
from tilewright.ir.decisions import ElementwiseDecisions, to_attribute
from tilewright.ir.expression_nodes import expression_nodes
from tilewright.ir.tile.facts import the_program
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.runtime.assemble import assemble
from tilewright.runtime.bundle import Bundle
from tilewright.solve.scheduling.register_block import bound, fast_order, pressure
from tilewright.synth.cost.product_kernel import is_summed
from tilewright.synth.decide import decide
from tilewright.synth.schedule.expression_order import block_of, loads_first
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

_TARGET = "sm_90a"
_LIMIT = 32
_SQUARE = {"M": 2048, "N": 2048, "K": 2048}
_SLOTS = (0, 2, 4, 8, 12)
_COLUMNS = {
    "residual, 128x200 in turn": (200, 192, 184),
    "gated with residual, 128x96 in turn": (96, 88, 80),
}
"""Of the tiles that are timed: the widest leave 32 and 40 registers beside accumulators."""
_SHAPES = ((8192, 8192, 8192), (4096, 14336, 4096))


def chain(count: int) -> tw.Kernel:
    """x0 + x1 * (x2 + x3 * (...)), of exponentials of as many neighbours: the last is wanted first."""

    @tw.kernel
    def kernel(x: tw.Tensor["N"], y: tw.Tensor["N"]) -> None:
        i = tw.grid("N")
        terms = [tw.exp(x[i + number]) for number in range(count)]
        total = terms[-1]
        for number in range(count - 2, -1, -1):
            total = terms[number] * total if number % 2 else terms[number] + total
        y[i] = total

    return kernel


def butterflies(count: int) -> tw.Kernel:
    """A Walsh-Hadamard transform of as many neighbours, of which the largest number is stored."""

    @tw.kernel
    def kernel(x: tw.Tensor["N"], y: tw.Tensor["N"]) -> None:
        i = tw.grid("N")
        values = [x[i + number] for number in range(count)]
        apart = 1
        while apart < count:
            low = [number for number in range(count) if not number & apart]
            for first in low:
                one, other = values[first], values[first + apart]
                values[first], values[first + apart] = one + other, one - other
            apart *= 2
        most = values[0]
        for value in values[1:]:
            most = tw.maximum(most, tw.abs(value))
        y[i] = most

    return kernel


def differences(count: int) -> tw.Kernel:
    """The largest of all differences of as many neighbours: each is read by all others."""

    @tw.kernel
    def kernel(x: tw.Tensor["N"], y: tw.Tensor["N"]) -> None:
        i = tw.grid("N")
        values = [x[i + number] for number in range(count)]
        pairs = [(one, other) for number, one in enumerate(values) for other in values[number + 1 :]]
        found = [tw.abs(one - other) for one, other in pairs]
        most = found[0]
        for value in found[1:]:
            most = tw.maximum(most, value)
        y[i] = most

    return kernel


def folded(count: int) -> tw.Kernel:
    """Two sums of products of neighbours, one of them backwards: no order suits both."""

    @tw.kernel
    def kernel(x: tw.Tensor["N"], y: tw.Tensor["N"]) -> None:
        i = tw.grid("N")
        values = [x[i + number] for number in range(count)]
        forth, back = values[0], values[-1]
        for number in range(1, count):
            forth = forth * values[number] + values[(5 * number) % count]
            back = back * values[count - 1 - number] + values[(3 * number) % count]
        y[i] = forth - back

    return kernel


_PROGRAMS: dict[str, Callable[[], tw.Kernel]] = {
    "chain of 16": lambda: chain(16),
    "chain of 24": lambda: chain(24),
    "chain of 32": lambda: chain(32),
    "butterflies of 8": lambda: butterflies(8),
    "butterflies of 16": lambda: butterflies(16),
    "differences of 8": lambda: differences(8),
    "folded 12": lambda: folded(12),
    "folded 24": lambda: folded(24),
}


@tw.kernel
def residual(x: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], r: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]) -> None:
    i, j = tw.grid("M", "N")
    total = tw.zeros(i, j)
    for k in tw.loop("K"):
        total += tw.dot(x[i, k], w[j, k].T)
    y[i, j] = total + r[i, j]


@tw.kernel
def gated(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["N", "K"],
    v: tw.Tensor["N", "K"],
    r: tw.Tensor["M", "N"],
    y: tw.Tensor["M", "N"],
) -> None:
    i, j = tw.grid("M", "N")
    gate, linear = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        gate += tw.dot(x[i, k], w[j, k].T)
        linear += tw.dot(x[i, k], v[j, k].T)
    y[i, j] = tw.silu(gate) * linear + r[i, j]


_PRODUCTS: dict[str, tuple[tw.Kernel, dict[str, Any]]] = {
    "residual, 128x200 in turn": (residual, {"tile": (128, 200), "turns": True, "stream_k": False}),
    "gated with residual, 128x96 in turn": (gated, {"tile": (128, 96), "turns": True, "stream_k": False}),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=2.0, help="deterministic seconds of a search (default 2)")
    parser.add_argument("--speeds", action="store_true", help="times on this machine's GPU instead")
    parser.add_argument("--rounds", type=int, default=9, help="timed rounds over all variants (default 9)")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


def run(arguments: argparse.Namespace) -> int:
    rows = _speeds(arguments.rounds) if arguments.speeds else [*_orders(arguments.seconds), *_slots()]
    path = write("register_speeds" if arguments.speeds else "registers", rows, arguments.results)
    print(f"written to {path}")
    return 0


def _orders(seconds: float) -> list[dict[str, object]]:
    from tilewright.solve.scheduling.register_order import least_pressure

    print(
        f"{'program':20s} {'order':12s} {'live':>4s} {'bound':>5s} {'ptxas':>5s} {'model':>5s} {'spilled at 32':>13s}"
    )
    rows: list[dict[str, object]] = []
    for name, make in _PROGRAMS.items():
        module = trace(make(), {"N": 1 << 24}, {"x": Element.F32, "y": Element.F32})
        program = the_program(module)
        decisions = decide(program, target(_TARGET), Wanted())
        assert isinstance(decisions, ElementwiseDecisions)
        expressions = expression_nodes(program)
        block = block_of(expressions)
        begin = time.perf_counter()
        best = least_pressure(block, seconds=seconds)
        searched = time.perf_counter() - begin
        orders = {"loads first": loads_first(expressions), "heuristic": fast_order(block), "optimum": best.order}
        for kind, order in orders.items():
            program.attributes["decisions"] = to_attribute(replace(decisions, order=order))
            text = lower_to_ptx([kernel.module for kernel in lower_program(program).kernels], _TARGET)
            free, limited = _assembled(text, None), _assembled(text, _LIMIT)
            lower = best.lower if kind == "optimum" else bound(block)
            rows.append({
                "program": name, "operations": len(block.operations), "order": kind,
                "live_values": pressure(block, order), "bound": lower, "registers": free[0],
                "registers_by_the_model": predicted_registers(read(text).kernels[0]),
                f"spill_bytes_at_{_LIMIT}": limited[1],
                "chosen": bool(decisions.order) and kind == "heuristic",
                **({"search_seconds": round(searched, 3), "proved": best.proved} if kind == "optimum" else {}),
            })  # fmt: skip
            model = rows[-1]["registers_by_the_model"]
            proof = f"  {'proved' if best.proved else 'open'}, {searched:.2f} s" if kind == "optimum" else ""
            live = pressure(block, order)
            print(f"{name:20s} {kind:12s} {live:4} {lower:5} {free[0]:5} {model:5} {limited[1]:13}{proof}")
    return rows


def _slots() -> list[dict[str, object]]:
    print(f"\n{'product':38s} {'slots':>5s} {'stages':>6s} {'shared bytes':>12s} {'spilled bytes':>13s}")
    rows: list[dict[str, object]] = []
    for name, (kernel, wanted) in _PRODUCTS.items():
        for slots in _SLOTS:
            wish = Wanted(**wanted, spill_slots=slots)
            made = compile_kernel(kernel, dims=_SQUARE, wanted=wish, rerun=False, assembled=False)
            decisions = made.decisions
            assert is_summed(decisions)
            stages, spill_bytes = by_tile_names(made.bundle().decisions)["stages"], decisions.spill_bytes
            spilled = assemble(made.ptx, _TARGET).spill_bytes
            print(f"{name:38s} {slots:5} {stages:6} {spill_bytes:12} {spilled:13}")
            rows.append({
                "product": name, "slots": slots, "stages": stages, "shared_bytes": spill_bytes,
                "spill_bytes": spilled,
            })  # fmt: skip
    return rows


def _speeds(rounds: int) -> list[dict[str, object]]:
    import torch

    torch.manual_seed(0)
    return [*_order_speeds(torch, rounds), *_slot_speeds(torch, rounds)]


def _timed(torch: Any, calls: dict[str, Callable[[int], object]], sets: int, rounds: int) -> dict[str, float]:
    """Medians in microseconds, of replays in turn."""
    batch = calls_for(min(single_milliseconds(torch, call, sets) for call in calls.values()), sets)
    graphs = {name: captured(torch, call, batch) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(rounds):
        for name, graph in graphs.items():
            times[name].append(replay_milliseconds(torch, graph) / batch * 1e3)
    return {name: quartiles(found)[1] for name, found in times.items()}


def _order_speeds(torch: Any, rounds: int) -> list[dict[str, object]]:
    from tilewright.runtime.call import Program

    points = 1 << 25
    arrays = [torch.randn(points, device="cuda") for _ in range(3)]
    rows: list[dict[str, object]] = []
    for name in ("chain of 16", "chain of 24", "chain of 32", "butterflies of 16"):
        calls: dict[str, Callable[[int], object]] = {}
        results: dict[str, Any] = {}
        facts: dict[str, tuple[int, int]] = {}
        for kind in ("loads first", "heuristic"):
            made = _in_order(_PROGRAMS[name](), points, fast=kind == "heuristic")
            assert made.assembly is not None
            program, result = Program(made.bundle()), torch.empty(points, device="cuda")
            program(arrays[0], out=result)
            facts[kind] = made.assembly.registers, made.assembly.spill_bytes
            results[kind] = result.clone()

            def call(index: int, program: Any = program, result: Any = result) -> object:
                return program(arrays[index % len(arrays)], out=result)

            calls[kind] = call
        torch.cuda.synchronize()
        same = torch.equal(*results.values())
        for kind, time_us in _timed(torch, calls, len(arrays), rounds).items():
            rows.append({
                "program": name, "points": points, "order": kind, "us": time_us, "registers": facts[kind][0],
                "spill_bytes": facts[kind][1], "equal": same,
            })  # fmt: skip
            print(rows[-1], flush=True)
    return rows


def _in_order(kernel: tw.Kernel, points: int, *, fast: bool) -> Compilation:
    """The kernel with all loads first, or in the heuristic's order, whatever would be decided."""
    chosen = decide_module.choose_order

    def order(program: Any, *_: Any) -> tuple[int, ...]:
        return fast_order(block_of(expression_nodes(program))) if fast else ()

    try:
        decide_module.choose_order = order
        return compile_kernel(kernel, dims={"N": points}, dtype="f32", rerun=False)
    finally:
        decide_module.choose_order = chosen


def _product(job: tuple[str, tuple[int, int, int], int]) -> tuple[Bundle, int, int] | str:
    """(bundle, slots, stages) of a product of so many columns, or why it is refused."""
    name, (m, n, k), columns = job
    kernel, wish = _PRODUCTS[name][0], Wanted(tile=(128, columns), turns=True)
    try:
        made = compile_kernel(kernel, dims={"M": m, "N": n, "K": k}, wanted=wish, rerun=False)
    except TilewrightError as error:
        return error.message
    assert is_summed(made.decisions)
    bundle = made.bundle()
    return bundle, made.decisions.spill_slots, by_tile_names(bundle.decisions)["stages"]


def _slot_speeds(torch: Any, rounds: int) -> list[dict[str, object]]:
    jobs = [(name, shape, columns) for shape in _SHAPES for name in _PRODUCTS for columns in _COLUMNS[name]]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        made = dict(zip(jobs, pool.map(_product, jobs), strict=True))
    rows: list[dict[str, object]] = []
    for shape, name in product(_SHAPES, _PRODUCTS):
        mine = {columns: made[name, shape, columns] for columns in _COLUMNS[name]}
        rows += _raced(torch, name, shape, mine, rounds)
    return rows


def _raced(
    torch: Any,
    name: str,
    shape: tuple[int, int, int],
    made: dict[int, tuple[Bundle, int, int] | str],
    rounds: int,
) -> list[dict[str, object]]:
    """One product with tiles of several widths."""
    from tilewright.runtime.call import Program

    m, n, k = shape
    options = {"device": "cuda", "dtype": torch.bfloat16}
    weights = len(_PRODUCTS[name][0].parameters) - 3
    sets = sets_for(2 * (m * k + weights * n * k + m * n), warm=False)
    inputs: list[tuple[Any, ...]] = []
    for _ in range(sets):
        right = (torch.randn(n, k, **options) / k**0.5 for _ in range(weights))
        inputs.append((torch.randn(m, k, **options), *right, torch.randn(m, n, **options)))
    x, *w, r = (array.float() for array in inputs[0])
    expected = x @ w[0].T
    expected = (torch.nn.functional.silu(expected) * (x @ w[1].T) if weights > 1 else expected) + r
    result = torch.empty(m, n, **options)
    calls: dict[str, Callable[[int], object]] = {}
    rows: dict[str, dict[str, object]] = {}
    for columns, found in made.items():
        row: dict[str, object] = {"product": name, "shape": list(shape), "columns": columns}
        if isinstance(found, str):
            rows[str(columns)] = {**row, "refused": found}
            continue
        bundle, slots, stages = found
        program = Program(bundle)
        program(*inputs[0], out=result)
        wrong = ((result.float() - expected).norm() / expected.norm()).item()
        rows[str(columns)] = {**row, "slots": slots, "stages": stages, "error": wrong}

        def call(index: int, program: Any = program) -> object:
            return program(*inputs[index % len(inputs)], out=result)

        calls[str(columns)] = call
    for columns, time_us in _timed(torch, calls, sets, rounds).items():
        rows[columns]["us"] = time_us
    for row in rows.values():
        print(row, flush=True)
    return list(rows.values())


def predicted_registers(kernel: Kernel) -> int | None:
    """Registers a thread that an assembler would take where nothing limits it, of the hungriest role."""
    roles = register_pressure(kernel)
    return None if roles is None else max((role.registers for role in roles), default=0)


def without_limits(text: str) -> str:
    """PTX without directives and instructions that limit registers, so that an assembler says what it would like."""
    return re.sub(r"(?m)^\s*(\.(maxnreg|reqntid|maxntid|minnctapersm)\b|setmaxnreg\.)[^\n]*\n", "\n", text)


def _assembled(text: str, limit: int | None) -> tuple[int, int]:
    """(registers, bytes spilled) of a kernel under a limit of registers a thread, or none."""
    free = without_limits(text)
    if limit is not None:
        free = re.sub(r"(\.visible \.entry [^{]*?\))\s*\{", rf"\1\n.maxnreg {limit}\n{{", free, count=1)
    made = assemble(free, _TARGET)
    return made.registers, made.spill_bytes
