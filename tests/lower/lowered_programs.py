# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Tile programs for the tests of this folder, lowered from source to text, and run on the CPU machine."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.plan import LaunchPlan
from tilewright.driver.compile.sequence import sequence, uncut
from tilewright.driver.reproof.small import small_instance
from tilewright.frontends.ptx.ast import Instruction, Module
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.reference import DTYPES, evaluate
from tilewright.frontends.tile.shapes import Dims
from tilewright.frontends.tile.trace import trace
from tilewright.ir.decisions import Decisions
from tilewright.ir.tile.facts import the_program
from tilewright.lower.mlir.ac_to_nvgpu import lower_to_nvgpu
from tilewright.lower.plan import launch_plan, sequence_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.machine.core.plan import run_plan
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

TARGET = "sm_90a"


@tw.kernel
def matmul(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc


@tw.kernel
def matmul_bias_relu(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], bias: tw.Tensor["N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = tw.relu(acc * 0.5 + bias[j])


@tw.kernel
def matmul_gelu(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], bias: tw.Tensor["N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = tw.gelu(acc + bias[j])


@tw.kernel
def residual(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], x: tw.Tensor["M", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = x[i + 1, j - 2] + tw.silu(acc)


@tw.kernel
def product_of_sums(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((a[i, k] * 2.0 + 1.0).to(tw.bf16), b[k, j])
    c[i, j] = acc


@tw.kernel
def two_results(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"], d: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc
    d[i, j] = tw.maximum(acc, -acc)


@tw.kernel
def blur(x: tw.Tensor["M", "N"], weight: tw.Tensor["N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = (x[i, j - 1] + x[i, j] + x[i, j + 1]) * weight[j]


@dataclass(frozen=True)
class Lowered:
    """One program from source to text. source: over the plan's arrays; module: the form of it that was lowered, and
    decisions: of that, behind kernels that copy or compute its operands; parts: of several, each by itself."""

    module: ModuleOp
    decisions: Decisions
    kernels: tuple[ModuleOp, ...]
    plan: LaunchPlan
    source: ModuleOp
    parts: tuple["Lowered", ...] = ()
    target: str = TARGET

    @property
    def apart(self) -> tuple["Lowered", ...]:
        """Its programs, each by itself."""
        return self.parts or (self,)

    @cached_property
    def ptx(self) -> str:
        return lower_to_ptx(self.kernels, self.target)

    @cached_property
    def parsed(self) -> Module:
        return read(self.ptx)

    @cached_property
    def nvgpu(self) -> str:
        return lower_to_nvgpu(self.kernels, self.target)


def lower_decided(module: ModuleOp, decisions: Decisions) -> Lowered:
    lowered = lower_program(the_program(module))
    return Lowered(module, decisions, tuple(kernel.module for kernel in lowered.kernels), launch_plan(lowered), module)


def lower(
    kernel: tw.Kernel,
    dims: Dims,
    elements: Mapping[str, Element] | None = None,
    strides: Mapping[str, tuple[int, ...]] | None = None,
    wanted: Wanted | None = None,
    on: str = TARGET,
    *,
    cut: bool = False,
) -> Lowered:
    """elements: as declared or bf16 where unnamed; on: the target; cut: whether it may be cut at values, in parts."""
    kinds = {each.name: each.element or Element.BF16 for each in kernel.parameters} | dict(elements or {})
    source = trace(kernel, dims, kinds, strides)
    parts = (sequence if cut else uncut)(source, target(on), wanted or Wanted())
    lowered = [lower_program(the_program(part.module)) for part in parts]
    modules = tuple(each.module for program in lowered for each in program.kernels)
    plan = sequence_plan(the_program(source), lowered)
    apart = tuple(lower_decided(part.module, part.decisions) for part in parts) if len(parts) > 1 else ()
    return Lowered(parts[-1].module, parts[-1].decisions, modules, plan, source, apart, on)


def gemm(m: int, n: int, k: int, **wanted: Any) -> Lowered:
    return lower(matmul, {"M": m, "N": n, "K": k}, wanted=Wanted(**wanted))


def small(large: Lowered) -> Lowered:
    """The small instance of a lowered program, with the same decisions."""
    return lower_decided(small_instance(large.module), large.decisions)


def instructions(module: Module) -> list[Instruction]:
    return [item for kernel in module.kernels for item in kernel.body if isinstance(item, Instruction)]


def random_inputs(lowered: Lowered, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Dense normal values for every input; of integers, small numbers and one that float32 does not have."""
    generator = np.random.default_rng(seed)
    numbers = [*range(-2, 40), 2**24 + 3]
    return {
        buffer.name: (
            generator.choice(numbers, buffer.shape)
            if buffer.element is Element.S32
            else generator.standard_normal(buffer.shape)
        ).astype(DTYPES[buffer.element])
        for buffer in lowered.plan.buffers
        if buffer.role == "input"
    }


def run(lowered: Lowered, arrays: Mapping[str, NDArray[Any]], text: str | None = None) -> dict[str, NDArray[Any]]:
    """The outputs of a program on the CPU machine. text: other PTX than its own, with the same entries."""
    module = lowered.parsed if text is None else read(text)
    images: dict[str, NDArray[np.uint8]] = {}
    views: dict[str, NDArray[Any]] = {}
    for buffer in lowered.plan.buffers:
        if buffer.role == "workspace":
            continue
        image = np.zeros(buffer.span_bytes, np.uint8)
        # As integers of the width: NumPy makes no strided view of a type that it has no name for.
        bits = np.dtype(f"u{buffer.element.bytes}")
        typed = image.view(bits)
        steps = tuple(stride * buffer.element.bytes for stride in buffer.strides)
        view = np.lib.stride_tricks.as_strided(typed, buffer.shape, steps)
        if buffer.role == "input":
            view[...] = arrays[buffer.name].view(bits)
        images[buffer.name], views[buffer.name] = image, view
    run_plan({kernel.name: module for kernel in module.kernels}, lowered.plan, images)
    outputs = [buffer for buffer in lowered.plan.buffers if buffer.role == "output"]
    return {buffer.name: views[buffer.name].copy().view(DTYPES[buffer.element]) for buffer in outputs}


def reference(lowered: Lowered, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The outputs in float64, before their last rounding."""
    return evaluate(lowered.source, arrays, rounded=False)


def assert_close(lowered: Lowered, arrays: Mapping[str, NDArray[Any]], text: str | None = None) -> None:
    """The machine's outputs agree with NumPy's within one rounding of the output and the sum's own error."""
    expected = reference(lowered, arrays)
    for name, got in run(lowered, arrays, text).items():
        unit = {2: 2.0**-11 if got.dtype == np.float16 else 2.0**-8, 4: 2.0**-20}[got.dtype.itemsize]
        scale = float(np.abs(expected[name]).max()) or 1.0
        wrong = np.abs(got.astype(np.float64) - expected[name])
        assert np.all(wrong <= unit * np.abs(expected[name]) + 1e-5 * scale), (name, wrong.max(), scale)


def filecheck(text: str, checks: str) -> None:
    """Assert that FileCheck accepts `text` against the CHECK lines of `checks`."""
    with tempfile.TemporaryDirectory() as folder:
        script, emitted = Path(folder) / "checks.txt", Path(folder) / "emitted.txt"
        script.write_text(checks)
        emitted.write_text(text)
        options = parse_argv_options(["filecheck", str(script), "--input-file", str(emitted)])
        assert Matcher.from_opts(options).run() == 0
