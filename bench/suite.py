"""Products measured against every peer: `python -m bench gemm`, `skinny`, `fp8` and TritonBench's lists.

One process, which is ended and begun again where an algorithm of cublasLt's does not return (`bench.endable`); for each
product every implementation is built and tuned on the very arrays, timed in turns with the others
(`bench.interleaved`), and compared with float64 on random, large and NaN-carrying inputs (`bench.accuracy`).
A row says: times, ratios to each peer with quartiles, the best peer, errors, the kernels in each graph by name, clock,
power and temperature. Nothing is dropped: a product that the compiler refuses is a row with its words.

    python -m bench gemm --prepare --kernels out/kernels     # compile ahead, in parallel; needs no GPU
    python -m bench gemm --kernels out/kernels
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol, cast

from bench.accuracy import KINDS, errors_of, fill
from bench.cublaslt import FIRST_SECONDS, RACE_SECONDS, Calling, Watch
from bench.device_state import Sampler
from bench.endable import Endable, Serve, answer
from bench.gemm_suites import SUITES, TARGETS, Dtype, Product
from bench.interleaved import Contender, Race, race, sets_for
from bench.parts import add_part_argument, part_name, share
from bench.peers_gemm import NAMES, Absent, Arrays, element, empty_result, has_precise_sums, peers_of
from bench.prepared import Refused, facts_of, load_prepared, prepare
from bench.ratio_plot import write_plot
from bench.record import write
from bench.worst_cases import decisions_of, share_at_least, worst

NEARLY = 0.95
"""A ratio that most cases of a suite should reach."""


def add_arguments(parser: argparse.ArgumentParser, suites: Sequence[str]) -> None:
    parser.add_argument("--suite", choices=suites, default=suites[0], help="which list (default: %(default)s)")
    parser.add_argument("--shape", action="append", metavar="M,N,K", help="this shape instead of the list")
    parser.add_argument("--only", action="append", metavar="WORDS", help="products whose name contains these words")
    parser.add_argument("--dtype", choices=("bf16", "f16"), help="another type of 16 bits than the list's")
    parser.add_argument("--peer", action="append", choices=NAMES, help="only these peers (default: all)")
    add_part_argument(parser)
    add_run_arguments(parser)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """What every suite of ratios understands."""
    parser.add_argument("--warm", action="store_true", help="one input set, found in the L2 cache where it fits there")
    parser.add_argument("--turns", type=int, default=20, help="timed turns of each implementation (default 20)")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="the whole in N fresh processes, merged")
    parser.add_argument("--kernels", type=Path, default=Path("out/kernels"), help="folder of compiled kernels")
    parser.add_argument("--prepare", action="store_true", help="compile what runs later, and stop; needs no GPU")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compiling processes")
    parser.add_argument("--no-accuracy", action="store_true", help="leave the comparison with float64 out")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of result file and plot")


def products_of(arguments: argparse.Namespace) -> list[Product]:
    """The list that the command line asks for."""
    products = SUITES[arguments.suite]()
    if arguments.shape:
        like = products[0]
        shapes = [_parsed_shape(text) for text in arguments.shape]
        products = [replace(like, name="given", m=m, n=n, k=k) for m, n, k in shapes]
    if arguments.only:
        products = [each for each in products if any(words in each.name for words in arguments.only)]
    if arguments.dtype and not arguments.suite.startswith("fp8"):
        products = [replace(each, dtype=cast("Dtype", arguments.dtype)) for each in products]
    return share(products, arguments.part)


def _parsed_shape(text: str) -> tuple[int, int, int]:
    parts = text.split(",")
    if len(parts) != 3 or not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise SystemExit(f"--shape {text}: give three positive numbers, M,N,K")
    return int(parts[0]), int(parts[1]), int(parts[2])


MakeOurs = Callable[[Any, Product, Arrays, Path, int], Contender | Refused]
"""Of PyTorch, a product, its arrays, the folder of kernels and the number of input sets: our contender."""


def serve(connection: Connection, arguments: argparse.Namespace) -> None:
    """Measure what the connection asks for, as `bench.endable` says. The places are those of cublasLt's list."""
    serve_with(ours_of, connection, arguments)


def serve_with(make: MakeOurs, connection: Connection, arguments: argparse.Namespace) -> None:
    """As `serve`, with our contender made otherwise."""
    torch, sampler = made_ready(), Sampler()

    def measured(product: Product, stopped: frozenset[int], calling: Calling) -> dict[str, object]:
        wanted = tuple(arguments.peer or NAMES)
        return measure(torch, product, arguments, wanted, sampler, Watch(stopped, calling), make)

    answer(connection, measured)


def run(arguments: argparse.Namespace) -> int:
    return run_products(arguments.suite, products_of(arguments), arguments)


def run_products(
    suite: str,
    products: Sequence[Product],
    arguments: argparse.Namespace,
    *,
    kernels: Sequence[Product] | None = None,
    serve: Serve = serve,
) -> int:
    """Measure these products, as a suite of that name; or compile them, if that is all that is asked for. kernels: what
    is compiled, where that is more than one a product; serve: measures."""
    if not products:
        raise SystemExit("no product has such a name")
    count, seconds = prepare(kernels or products, arguments.kernels, arguments.jobs)
    print(f"{count} kernels compiled and proved in {seconds:.0f} s", flush=True)
    if arguments.prepare:
        return said_refusals(products, arguments.kernels)
    name = part_name(suite + ("-warm" if arguments.warm else ""), arguments.part)
    if arguments.processes > 1:
        return repeat(name, suite, arguments)
    if "triton" in (arguments.peer or NAMES):
        _precompile_triton(arguments, products)
    begin = time.perf_counter()
    rows = rows_of(products, serve, arguments)
    return finish(name, suite, rows, arguments.results, time.perf_counter() - begin)


class Shaped(Protocol):
    """A case: a product of two matrices, with a name."""

    @property
    def name(self) -> str: ...
    @property
    def m(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def k(self) -> int: ...


def rows_of(cases: Sequence[Shaped], serve: Serve, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """A row of each case, printed as they come, from a process that measures. Where the process ends, the row says so,
    and the next case has another one. Raises RuntimeError where it ends at the first case."""
    rows: list[dict[str, Any]] = []
    print(heading(), flush=True)
    process = Endable(serve, arguments)
    try:
        for case in cases:
            try:
                rows.append(process.measured(case))
            except RuntimeError as error:
                if not rows:
                    raise
                rows.append({"case": case.name, "shape": [case.m, case.n, case.k], "failed": str(error)})
            print(line_of(rows[-1]), flush=True)
    finally:
        process.close()
    return rows


def made_ready() -> Any:
    """PyTorch, loaded, with its library of products."""
    torch: Any = importlib.import_module("torch")
    torch.manual_seed(0)
    warm = torch.ones(256, 256, device="cuda", dtype=torch.bfloat16)
    torch.mm(warm, warm)
    torch.cuda.synchronize()
    return torch


def _precompile_triton(arguments: argparse.Namespace, products: Sequence[Product]) -> None:
    try:
        from bench.triton_tuning import precompile
    except ImportError:
        return
    for scaling in sorted({product.scaling for product in products}):
        chosen = [product for product in products if product.scaling == scaling]
        dtypes = sorted({product.dtype for product in chosen})
        precise = sorted({has_precise_sums(product) for product in chosen})
        seconds = precompile(
            arguments.jobs, dtypes, sorted({product.transposed for product in chosen}), scaling, precise
        )
        print(f"Triton's configurations ({scaling} scaling) compiled in {seconds:.0f} s", flush=True)


def said_refusals(products: Sequence[object], folder: Path) -> int:
    """Print what the compiler refused, with its words. Returns 0."""
    for product in products:
        found = load_prepared(product, folder)
        if isinstance(found, Refused):
            print(f"{product}: {found.message}")
    return 0


def arrays_of(torch: Any, product: Product, sets: int, seed: int = 0) -> Arrays:
    """Random normal input sets; factors of fp8 near one."""
    m, n, k = product.m, product.n, product.k
    kind = element(torch, product.dtype)
    pairs: list[tuple[Any, Any]] = []
    for place in range(sets):
        a = torch.empty(m, k, device="cuda", dtype=kind)
        b = torch.empty(n, k, device="cuda", dtype=kind).t() if product.transposed else torch.empty(
            k, n, device="cuda", dtype=kind)  # fmt: skip
        fill(torch, (a, b), "random", seed=1000 * seed + place)
        pairs.append((a, b))
    counts = {"tensor": ((1,), (1,)), "row": ((m,), (n,)), "block": ((m, -(-k // 128)), (-(-n // 128), -(-k // 128)))}
    if product.scaling == "none":
        return Arrays(pairs)
    of_a, of_b = counts[product.scaling]
    scale = lambda shape: 0.5 + torch.rand(shape, device="cuda", dtype=torch.float32)  # noqa: E731
    return Arrays(pairs, scale(of_a), scale(of_b))


def exact_product(torch: Any, product: Product, arrays: Arrays) -> Any:
    """Input set 0 multiplied in float64."""
    a, b = arrays.pairs[0]
    a, b = a.double(), b.double()
    if product.scaling == "tensor":
        return (a @ b) * (arrays.a_scale.double() * arrays.b_scale.double())
    if product.scaling == "row":
        return (a @ b) * arrays.a_scale.double()[:, None] * arrays.b_scale.double()[None, :]
    if product.scaling == "block":
        of_a = arrays.a_scale.double().repeat_interleave(128, 1)[:, : product.k]
        of_b = arrays.b_scale.double().repeat_interleave(128, 0).repeat_interleave(128, 1)[: product.n, : product.k]
        return (a * of_a) @ (b * of_b.t())
    return a @ b


def ours_of(torch: Any, product: Product, arrays: Arrays, folder: Path, sets: int) -> Contender | Refused:
    """Our kernel as a contender."""
    program = load_prepared(product, folder)
    if isinstance(program, Refused):
        return program
    output = empty_result(torch, product)
    inputs = [our_inputs(product, arrays, place) for place in range(sets)]

    def call(index: int) -> None:
        program(*inputs[index % sets], out=output)

    return Contender("ours", call, output, facts_of(program))


def our_inputs(product: Product, arrays: Arrays, place: int) -> tuple[Any, ...]:
    """What our kernel takes: a and b, and factors. The kernel with blocks takes b as it lies, (n, k)."""
    a, b = arrays.pairs[place]
    match product.scaling:
        case "none":
            return a, b
        case "tensor" | "row":
            return a, b, arrays.a_scale, arrays.b_scale
        case "block":
            return a, b.t(), arrays.a_scale, arrays.b_scale


def measure(
    torch: Any,
    product: Product,
    arguments: argparse.Namespace,
    wanted: Sequence[str],
    sampler: Sampler,
    watch: Watch | None = None,
    make: MakeOurs | None = None,
) -> dict[str, object]:
    """One product's row. watch: told of cublasLt's calls; make: our contender, otherwise than `ours_of` does."""
    torch.cuda.empty_cache()
    size = 2 if product.scaling == "none" else 1
    sets = sets_for(size * (product.m * product.k + product.k * product.n), warm=arguments.warm)
    arrays = arrays_of(torch, product, sets)
    row: dict[str, object] = {
        "case": product.name,
        "shape": [product.m, product.n, product.k],
        "dtype": product.dtype,
        "scaling": product.scaling,
        "accumulation": product.accumulation,
        "b": "(N, K) row-major" if product.transposed else "(K, N) row-major",
    }
    ours = (make or ours_of)(torch, product, arrays, arguments.kernels, sets)
    contenders, absent = peers_of(torch, product, arrays, sets=sets, wanted=wanted, watch=watch)
    exact: Callable[[], Any] = lambda: exact_product(torch, product, arrays)  # noqa: E731
    matrices = arrays.pairs[0]
    if isinstance(ours, Refused):
        row["refused"] = ours.message
    else:
        contenders = [ours, *contenders]
    return row | raced(torch, contenders, absent, matrices, exact, product.operations, sets, arguments, sampler, watch)


def raced(
    torch: Any,
    contenders: Sequence[Contender],
    absent: Sequence[Absent],
    matrices: Sequence[Any],
    exact: Callable[[], Any],
    operations: float,
    sets: int,
    arguments: argparse.Namespace,
    sampler: Sampler,
    watch: Watch | None = None,
) -> dict[str, object]:
    """Times, ratios and errors of contenders, ours first (if it is there), as a part of a row. watch: told of
    cublasLt's calls."""
    if not contenders:
        return {"absent": {each.name: each.why for each in absent}}

    def calling(contender: Contender) -> None:
        if watch is not None:
            place = cast("int", contender.notes["chosen"]) if contender.name.startswith("cublasLt") else None
            watch.calling(place, FIRST_SECONDS)

    result = race(torch, contenders, sets=sets, turns=arguments.turns, sampler=sampler, calling=calling)
    if watch is not None:
        watch.calling(None, RACE_SECONDS)
    errors = {} if arguments.no_accuracy else errors_of(torch, contenders, matrices, exact, KINDS)
    return summarised(result, contenders, absent, errors, operations)


def summarised(
    result: Race,
    contenders: Sequence[Contender],
    absent: Sequence[Absent],
    errors: dict[str, dict[str, dict[str, object]]],
    operations: float,
) -> dict[str, object]:
    """A race as JSON; ours is the first contender."""
    names = [each.name for each in contenders if each.name != "ours"] if contenders[0].name == "ours" else []
    ratios = {name: result.ratio("ours", name) for name in names}
    best = result.best_of(names) if names else None
    row: dict[str, object] = {
        "calls": result.calls,
        "sets": result.sets,
        "cache": "warm" if result.sets == 1 else "cold",
        "device": dict(result.device),
        "contenders": {
            each.name: {**result.row(each.name, operations), "notes": dict(each.notes), "errors": errors.get(each.name)}
            for each in contenders
        },
        "ratios": {name: {"median": middle, "quartiles": [low, high]} for name, (low, middle, high) in ratios.items()},
        "absent": {each.name: each.why for each in absent},
    }
    if best is not None:
        low, middle, high = ratios[best]
        row |= {"best_peer": best, "ratio": middle, "quartiles": [low, high]}
        row["error_no_worse"] = _no_worse(errors, best) if errors else None
    return row


def _no_worse(errors: dict[str, dict[str, dict[str, object]]], best: str) -> bool:
    """Whether our error is at most a hundredth above the best peer's for every kind of input, and specials stand where
    float64 has them, or the peer's do not either."""
    for kind, ours in errors["ours"].items():
        theirs = errors[best][kind]
        mine, other = float(str(ours["relative_error"])), float(str(theirs["relative_error"]))
        if not mine <= 1.01 * other + 1e-9 and not math.isnan(other):
            return False
        if theirs["specials_agree"] and not ours["specials_agree"]:
            return False
    return True


def heading() -> str:
    return (
        f"{'case':>34}  {'M, N, K':>20}  {'us':>9}  {'TFLOP/s':>7}  {'ratio':>6}  {'quartiles':>13}  "
        f"{'best peer':>12}  each peer's us; MHz, W; error, of best peer"
    )


def line_of(row: dict[str, Any]) -> str:
    """A row in one line."""
    start = f"{row['case'][:34]:>34}  {', '.join(map(str, row['shape'])):>20}"
    if "refused" in row:
        times = " ".join(f"{name} {each['microseconds']:.1f}" for name, each in row.get("contenders", {}).items())
        return f"{start}  refused: {row['refused'][:150]} {times}"
    if "failed" in row:
        return f"{start}  failed: {row['failed']}"
    ours = row["contenders"]["ours"]
    others = " ".join(
        f"{name} {each['microseconds']:.1f}" for name, each in row["contenders"].items() if name != "ours"
    )
    device = row["device"]
    state = f"{device['sm_megahertz'][1]:.0f} MHz {device['watts'][1]:.0f} W" if device["samples"] else device["why"]
    if "ratio" not in row:
        return f"{start}  {ours['microseconds']:9.2f}  no peer took part {row['absent']}"
    errors = ""
    if ours["errors"]:
        best = row["contenders"][row["best_peer"]]["errors"]
        errors = "; " + " ".join(
            f"{kind} {ours['errors'][kind]['relative_error']:.1e}/{best[kind]['relative_error']:.1e}"
            + ("" if ours["errors"][kind]["specials_agree"] else " SPECIALS DIFFER")
            for kind in ours["errors"]
        )
    absent = (
        f"; absent: {', '.join(f'{name} ({why[:40]})' for name, why in row['absent'].items())}" if row["absent"] else ""
    )
    low, high = row["quartiles"]
    return (
        f"{start}  {ours['microseconds']:9.2f}  {ours.get('tflops', 0):7.0f}  {row['ratio']:6.3f}  "
        f"{low:6.3f}-{high:6.3f}  {row['best_peer'][:12]:>12}  {others}; {state}{errors}{absent}"
    )


def repeat(name: str, suite: str, arguments: argparse.Namespace) -> int:
    """The suite in several fresh processes, merged into one result file."""
    from bench.repeated import run_in_processes

    begin = time.perf_counter()
    rows = run_in_processes(arguments.processes, name)
    print(f"of {arguments.processes} processes, the one with the median ratio of each case:\n{heading()}")
    for row in rows:
        spread = [f"{ratio:.3f}" for ratio in row.get("ratio_by_process", [])]
        print(f"{line_of(row)}; by process {' '.join(spread)}")
    return finish(name, suite, rows, arguments.results, time.perf_counter() - begin)


def summary_of(rows: Sequence[dict[str, Any]]) -> dict[str, object]:
    """How many cases there are, and how many are refused; the geometric mean and the least of their ratios, and the
    share of all cases that reaches NEARLY."""
    ratios = [float(row["ratio"]) for row in rows if "ratio" in row]
    summary: dict[str, object] = {"cases": len(rows), "refused": sum("refused" in row for row in rows)}
    if ratios:
        summary |= {"geometric_mean": statistics.geometric_mean(ratios), "worst": min(ratios)}
        summary[f"share_at_least_{NEARLY}"] = share_at_least(rows, NEARLY)
    return summary


def finish(name: str, suite: str, rows: list[dict[str, Any]], folder: Path, seconds: float) -> int:
    """Print the summary, write the result file and the plot. Returns 0, or 1 where a case could not be measured."""
    summary = summary_of(rows)
    if "worst" in summary:
        goal = TARGETS.get(suite)
        words = f" (targets {goal[0]}, {goal[1]})" if goal else ""
        print(
            f"{len(rows)} cases, {summary['refused']} refused: geometric mean {summary['geometric_mean']:.3f}, "
            f"worst {summary['worst']:.3f}{words}; {share_at_least(rows, NEARLY):.1%} at {NEARLY} or better"
        )
        print("the cases that win least:")
        for row in worst(rows):
            shape = ", ".join(map(str, row["shape"]))
            print(f"  {row['ratio']:.3f} of {row['best_peer']}: {row['case']}; {shape}: {decisions_of(row)}")
    worse = [row["case"] for row in rows if row.get("error_no_worse") is False]
    print(f"error no worse than the best peer's in all but: {worse or 'none'}")
    path = write(name, [summary, *json.loads(json.dumps(rows, default=str), parse_constant=str)], folder)
    plot = write_plot(folder / f"{name}.svg", name, rows, TARGETS.get(suite))
    print(f"written to {path} and {plot} after {seconds:.0f} s", flush=True)
    return 1 if any("failed" in row for row in rows) else 0
