"""The whole path once, on a real input, and three ways to break it: what `tilewright demo` shows.

Each step returns values; who shows them is the caller's business. The broken variants are edits of the proven program
and of its emitted text, judged by the same two proofs that accept the original; that they do accept it is judged again
beside them, so that a refutation says something of the edit. Checked by: tests/driver/views/test_demo.py.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from tilewright.base.element import Element
from tilewright.base.plan import LaunchPlan
from tilewright.base.verdict import Proven, Refuted, Verdict
from tilewright.contract.typestate.typestate import protocol_claims, verify
from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.listing import listing
from tilewright.driver.compile.place import gpu_runs
from tilewright.driver.reproof.reproof import replay_plan
from tilewright.driver.reproof.small import small_instance
from tilewright.driver.run.run import CompiledKernel, run_on_machine
from tilewright.driver.views.history import History, ring_history
from tilewright.frontends.ptx.reader import read
from tilewright.ir.ac import operations as ac
from tilewright.ir.tile.facts import the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.runtime.arrays import numpy_dtype
from tilewright.targets import Target
from tilewright.targets import target as target_named

TARGET = "sm_90a"
COMPILED_EXTENT = 4096
CPU_EXTENT = 512

RELATIVE_ERROR_LIMIT = 4e-3
"""In the Frobenius norm. A result rounded to bfloat16 is off by at most 2^-9 of its value (0.002), and in the mean
by less; float32 accumulation adds far less than that."""

Tell = Callable[[str], None]
Progress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run compared with NumPy in float64.

    extents: (M, N, K); seconds: of the run, from arrays to result; relative_error: ||c - reference|| / ||reference||;
    largest_error: of one element, absolute; rounded_share: of elements equal to the reference rounded to bfloat16.
    """

    where: str
    extents: tuple[int, int, int]
    seconds: float
    relative_error: float
    largest_error: float
    rounded_share: float

    @property
    def close(self) -> bool:
        """False also where the error is not a number."""
        return self.relative_error <= RELATIVE_ERROR_LIMIT


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one line: its number in the text after the change, what stood there, and what stands there now (""
    where the line was dropped; `line` is then the one that follows)."""

    line: int
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Judged:
    """A text, how it differs from the proven one, and what its proof says of it."""

    text: str
    edits: tuple[Edit, ...]
    verdict: Verdict
    seconds: float


@dataclass(frozen=True, slots=True)
class Broken:
    """A broken variant: what was done to it, what that would cost on a GPU, and what each proof said."""

    title: str
    consequence: str
    program: Judged
    ptx: Judged

    @property
    def refuted(self) -> bool:
        return isinstance(self.program.verdict, Refuted) and isinstance(self.ptx.verdict, Refuted)


@dataclass(frozen=True, slots=True)
class Demo:
    """original: verdicts on the program and the text that the variants are edits of."""

    compilation: Compilation
    comparison: Comparison
    history: History | None
    original: tuple[Verdict, Verdict]
    broken: tuple[Broken, ...]

    @property
    def as_it_should_be(self) -> bool:
        return (
            self.comparison.close
            and all(isinstance(verdict, Proven) for verdict in self.original)
            and all(variant.refuted for variant in self.broken)
        )


def demonstrate(tell: Tell, progress: Progress | None = None) -> Demo:
    """Compile the bf16 matrix product for sm_90a at 4096 cubed, run it (on a GPU at that size, else at 512 cubed on
    the CPU machine), compare with NumPy, and break it.

    tell: hears what begins; progress: the share of a run on the CPU machine that is done. Raises TilewrightError where
    a piece of the environment is missing.
    """
    extent = COMPILED_EXTENT
    tell(f"compiling matmul {extent} x {extent} x {extent}, bf16, for {TARGET}")
    compilation = compile_kernel(
        matmul_kernel,
        target=TARGET,
        dims=dict.fromkeys("MNK", extent),
        dtype="bf16",
        progress=lambda step: tell(f"  {step}"),
    )
    comparison = compare(compilation, tell, progress)
    specimen = Specimen.of(compilation)
    tell("judging a small instance of it, as it is and broken")
    original = (verify(specimen.module, specimen.facts), specimen.judge(specimen.ptx))
    broken = tuple(break_it(specimen, variant, tell) for variant in VARIANTS)
    return Demo(compilation, comparison, specimen.history(), original, broken)


def compare(compilation: Compilation, tell: Tell, progress: Progress | None = None) -> Comparison:
    """Run the compiled product on random numbers (a smaller one where there is no GPU) and compare it with NumPy."""
    random = np.random.default_rng(0)
    kind = numpy_dtype(Element.BF16)
    on_gpu = gpu_runs(compilation.target)
    if on_gpu:
        extent = COMPILED_EXTENT
        tell("running it on the GPU")
        bundle = compilation.bundle()
    else:
        extent = CPU_EXTENT
        tell(f"no GPU here: compiling {extent} x {extent} x {extent} and running its PTX on the CPU machine")
        dims = dict.fromkeys("MNK", extent)
        bundle = compile_kernel(matmul_kernel, target=TARGET, dims=dims, dtype="bf16", assembled=False).bundle()
    a = random.standard_normal((extent, extent)).astype(kind)
    b = random.standard_normal((extent, extent)).astype(kind)
    begin = time.perf_counter()
    c = CompiledKernel(bundle)(a, b, on="gpu") if on_gpu else run_on_machine(bundle, (a, b), progress=progress)
    seconds = time.perf_counter() - begin
    tell("comparing with NumPy in float64")
    reference = a.astype(np.float64) @ b.astype(np.float64)
    difference = c.astype(np.float64) - reference
    return Comparison(
        "GPU" if on_gpu else "CPU machine",
        (extent, extent, extent),
        seconds,
        float(np.linalg.norm(difference) / np.linalg.norm(reference)),
        float(np.abs(difference).max()),
        float(np.count_nonzero(c == reference.astype(kind)) / c.size),
    )


# ---------------------------------------------------------------- what is broken


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to break a kernel: an edit of its program in place, and the same edit of its text as a regular
    expression, of which the first match is replaced."""

    title: str
    consequence: str
    edit: Callable[[ModuleOp], None]
    pattern: str
    replacement: Callable[[re.Match[str]], str]


def _drop_fence(module: ModuleOp) -> None:
    fence = next(op for op in module.walk() if isinstance(op, ac.FenceProxyOp))
    (use,) = fence.result.uses
    # What follows now takes the written bytes as they are.
    use.operation.operands[use.index] = fence.staged
    fence.detach()


def _halve_expect(module: ModuleOp) -> None:
    """Announce half the bytes, with types that agree: only the count is wrong then."""
    arrive = next(op for op in module.walk() if isinstance(op, ac.ArriveExpectOp))
    left = arrive.bytes.data // 2
    arrive.properties["bytes"] = IntAttr(left)
    _retype(arrive.result, left)


def _retype(token: SSAValue, left: int) -> None:
    """Say that `left` bytes are still to be issued, here and after each copy that follows."""
    assert isinstance(token.type, ac.TransactionType)
    (use,) = Rewriter.replace_value_with_new_type(token, ac.TransactionType(token.type.ring, IntAttr(left))).uses
    if isinstance(use.operation, ac.CopyIssueOp):
        _retype(use.operation.result, left - use.operation.box_bytes.data)


def _release_early(module: ModuleOp) -> None:
    wait = next(op for op in module.walk() if isinstance(op, ac.WgmmaWaitOp) and op.pending.data)
    wait.properties["pending"] = IntAttr(wait.pending.data + 1)


def _raised(match: re.Match[str]) -> str:
    return f"{match.group(1)}{int(match.group(2)) + 1};"


def _halved(match: re.Match[str]) -> str:
    return f"{match.group(1)}{int(match.group(2)) // 2};"


VARIANTS = (
    Variant(
        "one proxy fence dropped",
        "on a GPU the bulk store may read what was in shared memory before: wrong numbers, now and then",
        _drop_fence,
        r"\t(@%\w+ )?fence\.proxy\.async\.shared::cta;\n",
        lambda _: "",
    ),
    Variant(
        "one expect_tx halved",
        "on a GPU a phase ends when half of its bytes are there: wrong numbers, then a hang",
        _halve_expect,
        r"(\tmbarrier\.arrive\.expect_tx[^;]*, )(\d+);",
        _halved,
    ),
    Variant(
        "slots released one wgmma too early",
        "on a GPU the copy engine may overwrite operands that the tensor core still reads",
        _release_early,
        r"(\twgmma\.wait_group\.sync\.aligned )([1-9]\d*);",
        _raised,
    ),
)
"""The ways in which the demo breaks its kernel."""


@dataclass(frozen=True, slots=True)
class Specimen:
    """A small instance of a compiled program: its main kernel, its text, and how it is launched."""

    module: ModuleOp
    ptx: str
    plan: LaunchPlan
    facts: Target
    """Of the architecture that it is compiled for."""

    @staticmethod
    def of(compilation: Compilation) -> Specimen:
        lowered = lower_program(the_program(small_instance(compilation.tile)))
        facts = target_named(compilation.target)
        (kernel,) = lowered.kernels
        return Specimen(kernel.module, lower_to_ptx([kernel.module], compilation.target), launch_plan(lowered), facts)

    def judge(self, ptx: str, name: str = "matmul.ptx") -> Verdict:
        """What the proof of texts says of `ptx`, launched as this specimen is. It is told nothing of the program."""
        return replay_plan(read(ptx, name), self.plan, {}, (0,))

    def history(self) -> History | None:
        """What slots and roles do in a run."""
        (launch,) = self.plan.launches
        (claims,) = protocol_claims(self.module, self.facts)
        buffers = {buffer.name: np.zeros(buffer.span_bytes, np.uint8) for buffer in self.plan.buffers}
        return ring_history(read(self.ptx, "matmul.ptx"), launch, buffers, claims)


def break_it(specimen: Specimen, variant: Variant, tell: Tell) -> Broken:
    """Break the specimen's program and its text alike, and judge each."""
    tell(f"  broken: {variant.title}")
    broken = specimen.module.clone()
    variant.edit(broken)
    before, _ = listing(specimen.module, "matmul.ac.mlir")
    text, places = listing(broken, "matmul.ac.mlir")
    begin = time.perf_counter()
    verdict = verify(broken, specimen.facts, places)
    program = Judged(text, changes(before, text), verdict, time.perf_counter() - begin)
    broken_ptx, count = re.subn(variant.pattern, variant.replacement, specimen.ptx, count=1)
    if count != 1:
        raise AssertionError(f"nothing in the text to break: {variant.title}")
    begin = time.perf_counter()
    verdict = specimen.judge(broken_ptx)
    ptx = Judged(broken_ptx, changes(specimen.ptx, broken_ptx), verdict, time.perf_counter() - begin)
    return Broken(variant.title, variant.consequence, program, ptx)


_NAMES_AND_TYPES = re.compile(r"(?<=%)[\w.]+(, %[\w.]+)*| -> !.*?(?=$| \{$)")


def changes(before: str, after: str) -> tuple[Edit, ...]:
    """Lines that differ, but for the names of values and the types that follow from them."""
    old, new = before.splitlines(), after.splitlines()
    bare_old, bare_new = ([_NAMES_AND_TYPES.sub("", line) for line in lines] for lines in (old, new))
    edits: list[Edit] = []
    for tag, a, b, c, d in SequenceMatcher(None, bare_old, bare_new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for index in range(max(b - a, d - c)):
            was = old[a + index] if a + index < b else ""
            now = new[c + index] if c + index < d else ""
            edits.append(Edit(min(c + index, d) + 1, was, now))
    return tuple(edits)
