"""Do the kernels give the same right answer every time? Ten runs bit for bit, then thousands of launches in any order.

Every kind of kernel and lists of random shapes (`bench.kernel_kinds` of products, `bench.fold_kinds` of attention and
rows), each with several input sets: the first answer is compared with float64; ten more must equal it in every bit;
then launches of random cases and sets go to three streams, every bit of each output set before and compared with the
first answer after. Differences are counted on the GPU; a batch of launches that is not done in time counts as a hang,
is named, and ends the run.
Exit code 1 where anything differed or hung.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import suite
from bench.cliffs import Case, matrix
from bench.fold_kinds import FOLD_KINDS, FoldKind, random_folds
from bench.gemm_suites import Product
from bench.kernel_kinds import KINDS, Computed, Kind, random_products
from bench.moe_shapes import Grouped, counts
from bench.peers_gemm import Arrays, element, empty_result
from bench.prepared import Refused, load_prepared, prepare
from bench.record import write
from tilewright.base.element import Element
from tilewright.cli.arrays import random_inputs
from tilewright.cli.commands.run_command import ERROR_LIMITS, relative_errors
from tilewright.driver.run.random_integers import random_integers
from tilewright.runtime.arrays import numpy_dtype
from tilewright.runtime.call import Program

_SETS = 3
_STREAMS = 3
_BATCH = 250
_HANG_SECONDS = 20.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--launches", type=int, default=10_000, help="launches in random order (default 10000)")
    parser.add_argument(
        "--random", type=int, default=36, help="random products beside the kinds, and as many of others (default 36)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the shapes and of the order")
    parser.add_argument("--kernels", type=Path, default=Path("out/kernels"), help="folder of compiled kernels")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compiling processes")
    parser.add_argument("--prepare", action="store_true", help="compile what runs later, and stop; needs no GPU")
    parser.add_argument("--results", type=Path, default=Path("bench/results"), help="folder of the result file")


@dataclass(frozen=True, slots=True)
class Subject:
    """A case ready to run: inputs of each set, a maker of outputs, and of a set's outputs the largest error against
    float64, in units of what is allowed."""

    name: str
    program: Program
    inputs: Sequence[tuple[Any, ...]]
    make_outputs: Callable[[], tuple[Any, ...]]
    error: Callable[[int, tuple[Any, ...]], float]

    def launch(self, place: int, outputs: tuple[Any, ...]) -> None:
        """With the inputs of a set."""
        self.program(*self.inputs[place], out=outputs[0] if len(outputs) == 1 else outputs)


def run(arguments: argparse.Namespace) -> int:
    kinds: list[Kind | FoldKind] = [*KINDS, *random_products(arguments.random, arguments.seed)]
    kinds += [*FOLD_KINDS, *random_folds(arguments.random, arguments.seed)]
    count, seconds = prepare(kinds, arguments.kernels, arguments.jobs)
    print(f"{count} kernels compiled and proved in {seconds:.0f} s", flush=True)
    if arguments.prepare:
        return suite.said_refusals(kinds, arguments.kernels)
    import torch

    torch.manual_seed(arguments.seed)
    rows: list[dict[str, object]] = []
    subjects: list[Subject] = []
    wrong = 0
    answers: list[list[tuple[Any, ...]]] = []
    for kind in kinds:
        program = load_prepared(kind, arguments.kernels)
        if isinstance(program, Refused):
            print(f"{kind.name}: refused: {program.message}")
            rows.append({"case": repr(kind), "refused": program.message})
            continue
        subject = subject_of(torch, kind, program)
        found, row = first_answers(torch, subject)
        rows.append({"case": repr(kind), **row})
        wrong += not row["right"] or not row["identical"]
        if not row["right"] or not row["identical"]:
            print(f"WRONG: {kind}: {row}", flush=True)
        subjects.append(subject)
        answers.append(found)
    print(f"{len(subjects)} kernels: {_SETS} input sets each against float64, ten runs each: {wrong} wrong", flush=True)
    summary = soak(torch, subjects, answers, arguments.launches, arguments.seed)
    print(", ".join(f"{name} {value}" for name, value in summary.items()))
    print(f"written to {write('soak', [summary, *rows], arguments.results)}")
    return 1 if wrong or summary["differing"] else 0


def subject_of(torch: Any, kind: Kind | FoldKind, program: Program) -> Subject:
    """Inputs for every set, and how to know the answer."""

    def product(
        dtype: str, inputs: Sequence[tuple[Any, ...]], make: Callable[[], Any], exact: Callable[[int], Any]
    ) -> Subject:
        def error(place: int, outputs: tuple[Any, ...]) -> float:
            (found,), wanted = outputs, exact(place)
            scale = wanted.norm().item() or 1.0
            return (found.double() - wanted).norm().item() / scale / ERROR_LIMITS[Element(dtype)]

        return Subject(kind.name, program, inputs, lambda: (make(),), error)

    match kind:
        case Product():
            sets = [suite.arrays_of(torch, kind, 1, seed=place) for place in range(_SETS)]
            inputs = [suite.our_inputs(kind, arrays, 0) for arrays in sets]

            def exact(place: int, sets: list[Arrays] = sets, kind: Product = kind) -> Any:
                return suite.exact_product(torch, kind, sets[place])

            dtype = kind.dtype if kind.scaling == "none" else "bf16"
            return product(dtype, inputs, lambda: empty_result(torch, kind), exact)
        case Case():
            dtype = element(torch, kind.dtype)
            pairs = [
                (matrix(torch, kind.m, kind.k, kind.a, dtype), matrix(torch, kind.k, kind.n, kind.b, dtype))
                for _ in range(_SETS)
            ]
            return product(
                kind.dtype, pairs, lambda: matrix(torch, kind.m, kind.n, kind.c, dtype),
                lambda place: pairs[place][0].double() @ pairs[place][1].double(),
            )  # fmt: skip
        case Grouped():
            return product("bf16", *_grouped(torch, kind))
        case Computed():
            return product("bf16", *_computed(torch, kind))
        case _:
            return _folded(torch, kind.name, program)


def _folded(torch: Any, name: str, program: Program) -> Subject:
    """Inputs that the program can use, and the yardstick's answer (`frontends.tile.reference`)."""
    bundle = program.bundle
    buffers = {role: [each for each in bundle.plan.buffers if each.role == role] for role in ("input", "output")}
    drawn = [
        random_inputs(buffers["input"], place) | random_integers(bundle, buffers["input"], place)
        for place in range(_SETS)
    ]

    def on_gpu(array: Any) -> Any:
        return torch.from_numpy(array.view(f"i{array.itemsize}")).cuda().view(getattr(torch, array.dtype.name))

    def outputs() -> tuple[Any, ...]:
        kinds = [(each.shape, getattr(torch, numpy_dtype(each.element).name)) for each in buffers["output"]]
        return tuple(torch.empty(shape, dtype=dtype, device="cuda") for shape, dtype in kinds)

    def error(place: int, found: tuple[Any, ...]) -> float:
        results = {
            each.name: _bits(torch, output).cpu().numpy().view(numpy_dtype(each.element))
            for each, output in zip(buffers["output"], found, strict=True)
        }
        errors = relative_errors(bundle, drawn[place], results)
        if errors is None:
            raise ValueError(f"{name} is too large to be compared")
        shares = [errors[each.name] / ERROR_LIMITS.get(each.element, 1e-9) for each in buffers["output"]]
        return math.nan if any(math.isnan(each) for each in shares) else max(shares)

    inputs = [tuple(on_gpu(each[buffer.name]) for buffer in buffers["input"]) for each in drawn]
    return Subject(name, program, inputs, outputs, error)


Parts = tuple[Sequence[tuple[Any, ...]], Callable[[], Any], Callable[[int], Any]]
"""Of a subject: the inputs of each set, a maker of its output, the exact answer of a set."""


def _computed(torch: Any, kind: Computed) -> Parts:
    options: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    inputs = [
        (torch.randn(kind.m, kind.k, **options), torch.randn(kind.m, **options), torch.randn(kind.n, kind.k, **options))
        for _ in range(_SETS)
    ]

    def exact(place: int) -> Any:
        a, of_a, b = inputs[place]
        return (a * of_a[:, None]).double() @ b.double().t()

    return inputs, lambda: torch.empty(kind.m, kind.n, **options), exact


def _grouped(torch: Any, kind: Grouped) -> Parts:
    options: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    routings = [counts(kind, seed) for seed in range(_SETS)]
    inputs = [
        (
            torch.randn(kind.rows, kind.k, **options),
            torch.randn(kind.experts, kind.n, kind.k, **options),
            torch.tensor(routing, device="cuda").cumsum(0).to(torch.int32),
        )
        for routing in routings
    ]

    def exact(place: int) -> Any:
        x, w, _ = inputs[place]
        parts = x.double().split(list(routings[place]))
        return torch.cat([part @ weights.double().t() for part, weights in zip(parts, w, strict=True)])

    return inputs, lambda: torch.empty(kind.rows, kind.n, **options), exact


def _bits(torch: Any, array: Any) -> Any:
    """The array's bits as integers, so that NaNs compare too."""
    return array.view({1: torch.int8, 2: torch.int16, 4: torch.int32}[array.element_size()])


def _spoil(torch: Any, outputs: tuple[Any, ...]) -> None:
    """Every bit set: of floats, NaN."""
    for each in outputs:
        _bits(torch, each).fill_(-1)


def _differ(torch: Any, outputs: tuple[Any, ...], answers: tuple[Any, ...]) -> Any:
    """Whether a bit differs, on the GPU."""
    pairs = zip(outputs, answers, strict=True)
    return torch.stack([(_bits(torch, one) != _bits(torch, other)).any() for one, other in pairs]).any()


def first_answers(torch: Any, subject: Subject) -> tuple[list[tuple[Any, ...]], dict[str, object]]:
    """The first answer of every set, its error, and whether ten more are the same in every bit."""
    found: list[tuple[Any, ...]] = []
    errors: list[float] = []
    identical = True
    outputs = subject.make_outputs()
    for place in range(len(subject.inputs)):
        _spoil(torch, outputs)
        subject.launch(place, outputs)
        answer = tuple(each.clone() for each in outputs)
        errors.append(subject.error(place, answer))
        for _ in range(10):
            _spoil(torch, outputs)
            subject.launch(place, outputs)
            identical = identical and not bool(_differ(torch, outputs, answer))
        found.append(answer)
    right = all(error <= 1.0 for error in errors)
    return found, {"error_of_limit": max(errors), "right": right, "identical": identical}


def soak(
    torch: Any, subjects: Sequence[Subject], answers: Sequence[Sequence[tuple[Any, ...]]], launches: int, seed: int
) -> dict[str, object]:
    """Launch at random on several streams, count answers that differ, and stop at a hang."""
    source = random.Random(seed)
    streams = [torch.cuda.Stream() for _ in range(_STREAMS)]
    outputs = [[subject.make_outputs() for subject in subjects] for _ in streams]
    differing = torch.zeros(len(subjects), device="cuda", dtype=torch.int64)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    done = 0
    while done < launches:
        batch = min(_BATCH, launches - done)
        recent: list[str] = []
        for _ in range(batch):
            which, place, at = source.randrange(len(subjects)), source.randrange(_SETS), source.randrange(_STREAMS)
            recent.append(subjects[which].name)
            with torch.cuda.stream(streams[at]):
                _spoil(torch, outputs[at][which])
                subjects[which].launch(place, outputs[at][which])
                differing[which].add_(_differ(torch, outputs[at][which], answers[which][place]))
        _wait(torch, streams, recent)
        done += batch
    counted = differing.tolist()
    return {
        "launches": launches,
        "kernels": len(subjects),
        "streams": _STREAMS,
        "seconds": time.perf_counter() - begin,
        "differing": sum(counted),
        "of": [subject.name for subject, number in zip(subjects, counted, strict=True) if number],
        "hangs": 0,
    }


def _wait(torch: Any, streams: Sequence[Any], recent: Sequence[str]) -> None:
    """Until every stream is done; a hang ends the process, since a stream cannot be cancelled."""
    events = [torch.cuda.Event() for _ in streams]
    for event, stream in zip(events, streams, strict=True):
        event.record(stream)
    deadline = time.perf_counter() + _HANG_SECONDS
    while not all(event.query() for event in events):
        if time.perf_counter() > deadline:
            print(f"HANG: not done after {_HANG_SECONDS:.0f} s; launched last: {sorted(set(recent))}", flush=True)
            os._exit(1)
        time.sleep(0.001)
