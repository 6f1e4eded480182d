"""The whole path once, on a real input, and two ways to break it: what `tilewright demo` shows.

Each step returns values; who shows them is the caller's business. The broken variants are edits of the proven program
and of its emitted text, judged by the same two proofs that accepted the original.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntAttr, ModuleOp

from tilewright.base.element import Element
from tilewright.base.verdict import Refuted, Verdict
from tilewright.contract.typestate import verify
from tilewright.driver.compile import Compilation, compile_kernel
from tilewright.driver.library import matmul_kernel
from tilewright.driver.reproof import replay_plan
from tilewright.driver.run import CompiledKernel, run_on_machine
from tilewright.driver.small import small_instance
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.trace import trace
from tilewright.ir import ac
from tilewright.ir.tile_facts import the_program
from tilewright.lower.ac_to_ptx import lower_to_ptx
from tilewright.lower.plan import launch_plan
from tilewright.lower.tile_to_ac import lower_program
from tilewright.runtime.arrays import numpy_dtype
from tilewright.runtime.device import probe_libcuda

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run compared with NumPy: relative error in the Frobenius norm against float64, and the largest absolute one."""

    where: str
    extents: tuple[int, int, int]
    seconds: float
    relative_error: float
    largest_error: float


@dataclass(frozen=True, slots=True)
class Broken:
    """A broken variant: what was done to it, and what each proof said."""

    title: str
    program_verdict: Verdict
    text_verdict: Verdict

    @property
    def refuted(self) -> bool:
        return isinstance(self.program_verdict, Refuted) and isinstance(self.text_verdict, Refuted)


@dataclass(frozen=True, slots=True)
class Demo:
    compilation: Compilation
    comparison: Comparison
    broken: tuple[Broken, ...]


def demonstrate(tell: Tell, progress: Callable[[float], None] | None = None) -> Demo:
    """Compile the bf16 matrix product for sm_90a at 4096 cubed, run it (on a GPU at that size, else at 512 cubed on
    the CPU machine), compare with NumPy, and break it twice. `tell` hears what begins."""
    tell("compiling matmul 4096 x 4096 x 4096, bf16, for sm_90a")
    compilation = compile_kernel(
        matmul_kernel, dims={"M": 4096, "N": 4096, "K": 4096}, dtype="bf16", progress=lambda step: tell(f"  {step}")
    )
    comparison = _compare(tell, progress, compilation)
    broken = tuple(_break(tell, title, edit, pattern, mend) for title, edit, pattern, mend in _BREAKS)
    return Demo(compilation, comparison, broken)


def _compare(tell: Tell, progress: Callable[[float], None] | None, compilation: Compilation) -> Comparison:
    random = np.random.default_rng(0)
    kind = numpy_dtype(Element.BF16)
    if probe_libcuda() is None:
        size = 4096
        tell("running it on the GPU")
        bundle = compilation.bundle()
    else:
        size = 512
        tell("no GPU here: compiling 512 x 512 x 512 and running its PTX on the CPU machine")
        bundle = compile_kernel(matmul_kernel, dims=dict.fromkeys("MNK", size), dtype="bf16").bundle()
    a = random.standard_normal((size, size)).astype(kind)
    b = random.standard_normal((size, size)).astype(kind)
    begin = time.perf_counter()
    if probe_libcuda() is None:
        where, c = "GPU", CompiledKernel(bundle)(a, b, on="gpu")
    else:
        where, c = "CPU machine", run_on_machine(bundle, (a, b), progress=progress)
    seconds = time.perf_counter() - begin
    tell("comparing with NumPy in float64")
    reference = a.astype(np.float64) @ b.astype(np.float64)
    difference = c.astype(np.float64) - reference
    relative = float(np.linalg.norm(difference) / np.linalg.norm(reference))
    return Comparison(where, (size, size, size), seconds, relative, float(np.abs(difference).max()))


def _drop_fence(module: ModuleOp) -> None:
    fence = next(op for op in module.walk() if isinstance(op, ac.FenceProxyOp))
    (use,) = fence.result.uses
    # What follows now takes the written bytes as they are.
    use.operation.operands[use.index] = fence.staged
    fence.detach()


def _halve_expect(module: ModuleOp) -> None:
    arrive = next(op for op in module.walk() if isinstance(op, ac.ArriveExpectOp))
    arrive.properties["bytes"] = IntAttr(arrive.bytes.data // 2)


def _halved(match: re.Match[str]) -> str:
    return f"{match.group(1)}{int(match.group(2)) // 2};"


_BREAKS: tuple[tuple[str, Callable[[ModuleOp], None], str, Any], ...] = (
    ("one proxy fence dropped", _drop_fence, r"\tfence\.proxy\.async\.shared::cta;\n", ""),
    ("one expect_tx halved", _halve_expect, r"(\tmbarrier\.arrive\.expect_tx[^;]*, )(\d+);", _halved),
)


def _break(tell: Tell, title: str, edit: Callable[[ModuleOp], None], pattern: str, mend: Any) -> Broken:
    tell(f"breaking it: {title}")
    program = trace(
        matmul_kernel,
        {"M": 256, "N": 512, "K": 512},
        dict.fromkeys("abc", Element.BF16),
    )
    from tilewright.synth.decide import decide
    from tilewright.targets import target

    decide(the_program(program), target("sm_90a"))
    lowered = lower_program(the_program(small_instance(program)))
    (kernel,) = lowered.kernels
    broken = kernel.module.clone()
    edit(broken)
    text = lower_to_ptx([kernel.module], "sm_90a")
    broken_text, count = re.subn(pattern, mend, text, count=1)
    assert count == 1
    text_verdict = replay_plan(read(broken_text, "<broken matmul.ptx>"), launch_plan(lowered), {}, (0,))
    return Broken(title, verify(broken), text_verdict)
