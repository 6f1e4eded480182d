"""Does a program in TTGIR or nvgpu MLIR keep the asynchronous protocol? Proven, refuted or unknown, for every function.

Structured programs are judged on their structure, for all trip counts (`contract.words.proof`); nothing is
launched. What later passes insert is trusted and said: between TTGIR and PTX, barriers around shared memory that
threads use, and proxy fences. Findings have the lines of the text, and the rules of the judge of PTX runs.
Checked by: tests/driver/check/mlir/test_check_mlir.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from tilewright.base.diagnostic import Diagnostic, Level, Repair
from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.contract.words.grid_order import grid_order_doubt
from tilewright.contract.words.nvgpu import NVGPU
from tilewright.contract.words.proof import StructuredVerdict, prove
from tilewright.contract.words.state import Trouble
from tilewright.contract.words.ttgir import TTGIR
from tilewright.contract.words.values import OPAQUE, Environment
from tilewright.contract.words.walk import Program, Walk
from tilewright.contract.words.word import Word
from tilewright.driver.check.judge_kernel import Judgement
from tilewright.driver.check.limits.work import add_steps
from tilewright.driver.check.mlir.mlir_launches import Launched, launched_kernels
from tilewright.driver.rules.catalog import explain
from tilewright.frontends.mlir.ast import Argument, Document, Operation, walk
from tilewright.frontends.mlir.reader import arguments_of, read_mlir

_TARGET = re.compile(r"cuda:(\d+)")

TTGIR_ASSUMPTIONS = (
    "lowering inserts barriers around shared memory that threads use, and proxy fences",
    "lowering implements each operation as its dialect defines it",
    "loop counters and bounds are not negative and do not overflow",
    "the memory behind each descriptor and pointer is apart from all other",
)
"""What a proof of TTGIR takes for granted."""


NVGPU_ASSUMPTIONS = (
    "dynamic shared memory, and each allocation in shared memory, begins at a multiple of 1024 bytes",
    "lowering implements each operation as its dialect defines it",
    "each thread's scattered stores go to places of its own, within the memory that they name",
    "a host's work before a launch is done when the kernel begins",
    "register budgets are as the kernel needs them",
    "loop counters and bounds are not negative and do not overflow",
    "the memory behind each tensor map and pointer is apart from all other",
)
"""What a proof of thread-level MLIR takes for granted."""


@dataclass(frozen=True, slots=True)
class MlirKernel:
    """A kernel of a module: its name, the target that the module names, and what `judge` finds."""

    name: str
    target: str
    judge: Callable[[], Judgement]


def mlir_kernels(text: str, file: str, *, entry: str | None = None) -> tuple[MlirKernel, ...]:
    """Every kernel of `text`, or `entry` alone, ready to be judged.

    Raises TilewrightError where the text is no MLIR, or has no kernel (of that name).
    """
    document = read_mlir(text, file)
    source = (file, text.splitlines())
    found = [*_triton_kernels(document, source), *_thread_kernels(document, source)]
    kernels = tuple(each for _, each in sorted(found, key=lambda each: each[0]))
    wanted = tuple(each for each in kernels if entry is None or each.name == entry)
    if not wanted:
        known = f"it has {', '.join(each.name for each in kernels)}" if kernels else (
            "give a module of TTGIR, or of MLIR with a gpu.func or a gpu.launch"
        )  # fmt: skip
        which = f"no kernel {entry}" if entry is not None else "no tt.func, gpu.func or gpu.launch"
        raise TilewrightError(f"{file} has {which}", remedy=known)
    return wanted


Numbered = tuple[int, MlirKernel]
"""A kernel and its line."""


def _triton_kernels(document: Document, source: tuple[str, list[str]]) -> Iterator[Numbered]:
    """TTGIR's functions with bodies, with the target that their module names, and the CTAs of a cluster."""
    for top in document.operations:
        triton = _TARGET.search(top.attributes.get("ttg.target", ""))
        target = f"sm_{triton[1]}a" if triton else ""
        ctas = int(top.attributes.get("ttg.num-ctas", "1").split(":")[0])
        for operation in walk(top):
            words = {token.text for token in operation.tokens if token.kind == "word"}
            if operation.name == "tt.func" and "private" not in words and operation.regions:
                judge = partial(_judge, operation, ctas, source)
                yield operation.line, MlirKernel(_name(operation), target, judge)


def _thread_kernels(document: Document, source: tuple[str, list[str]]) -> Iterator[Numbered]:
    for each in launched_kernels(document):
        yield each.operation.line, MlirKernel(each.name, each.target, partial(_judge_threads, each, source))


def _name(operation: Operation) -> str:
    return next((token.text for token in operation.tokens if token.kind == "symbol"), "")


def _judge(operation: Operation, ctas: int, source: tuple[str, list[str]]) -> Judgement:
    if ctas > 1:
        reason = f"{source[0]}:{operation.line}: signals between the {ctas} CTAs of a cluster are not followed in MLIR"
        return Judgement(doubts=(reason,), complete=False)
    arguments = arguments_of(operation.tokens)
    body = operation.regions[0]

    def begin(program: Program) -> None:
        word = program.words["default"] = Word("default", [], [])
        walk = Walk(program, word)
        walk.body(body, _arguments(program, arguments), {})

    verdict = prove(body, begin, TTGIR, spend=add_steps)
    return judgement_of(verdict, TTGIR_ASSUMPTIONS, source)


def _judge_threads(kernel: Launched, source: tuple[str, list[str]]) -> Judgement:
    """A function that each thread of a block runs."""
    if kernel.lacks:
        return Judgement(doubts=(f"{source[0]}:{kernel.operation.line}: {kernel.lacks}",), complete=False)
    doubt = grid_order_doubt(kernel.body)
    if doubt is not None:
        return Judgement(doubts=(f"{source[0]}:{doubt[0]}: {doubt[1]}",), complete=False)
    verdict = prove(kernel.body, kernel.begin, NVGPU, by_threads=True, spend=add_steps)
    return judgement_of(verdict, NVGPU_ASSUMPTIONS, source)


def _arguments(program: Program, arguments: tuple[Argument, ...]) -> Environment:
    """Integers are unknown, the same for all agents; pointers and descriptors are nothing that steps depend on."""
    integers = ("i1", "i8", "i16", "i32", "i64", "index")
    return {
        argument.name: program.atoms.of("argument", argument.name)
        if argument.type.partition("{")[0] in integers
        else OPAQUE
        for argument in arguments
    }


def judgement_of(verdict: StructuredVerdict, assumptions: tuple[str, ...], source: tuple[str, list[str]]) -> Judgement:
    """A verdict on a structured program as `check` takes it; source: the file and its lines."""
    file = source[0]
    reviews = tuple(
        _diagnostic(trouble, source, f"where the loop makes no trip: {trouble.message}", Level.REVIEW)
        for trouble in verdict.reviews
    )
    reviews += tuple(_diagnostic(trouble, source, trouble.message, Level.REVIEW) for trouble in verdict.contested)
    errors = tuple(_diagnostic(trouble, source, trouble.message, Level.ERROR) for trouble in verdict.troubles)
    doubts = tuple(f"{file}:{line}: {reason}" if line else reason for line, reason in verdict.doubts)
    floors = tuple(f"the loop at {file}:{line} makes at least one trip" for line in verdict.floors)
    return Judgement(
        (*errors, *reviews), doubts, not errors, "all trip counts", (*assumptions, *floors), verdict.claims
    )


def _diagnostic(trouble: Trouble, source: tuple[str, list[str]], message: str, level: Level) -> Diagnostic:
    rules = explain(trouble.code)
    return Diagnostic(
        trouble.code,
        rules[0].name,
        message,
        _span(source, trouble.line),
        _span(source, trouble.other) if trouble.other else None,
        trouble.steps,
        rules[0].source,
        Repair(rules[0].remedy),
        level,
    )


def _span(source: tuple[str, list[str]], line: int) -> Span:
    file, lines = source
    return Span(file, line, 1, lines[line - 1].strip() if 0 < line <= len(lines) else "")
