# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Programs for sm_100a, end to end: proved twice, assembled, and run by the CPU machine with NumPy's numbers.

No GPU of that architecture was at hand: the assembler, the exact machine and both proofs stand in for one.
"""

from collections.abc import Mapping

import pytest
from tests.lower import cascade_programs, row_programs

import tilewright.frontends.tile.language as tw
from tilewright.cli.arrays import random_inputs
from tilewright.cli.run_command import ERROR_LIMITS, relative_errors
from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.driver.run.run import run_on_machine
from tilewright.frontends.tile.kernel import Kernel
from tilewright.runtime.device import runs_on

TARGET = "sm_100a"


@tw.kernel
def scaled(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N", tw.f32], z: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    z[i, j] = tw.gelu(x[i, j] * y[i, j] + 0.5)


@tw.kernel
def transposed(x: tw.Tensor["M", "N"], z: tw.Tensor["N", "M"]):
    i, j = tw.grid("M", "N")
    z[j, i] = x[i, j].T


@tw.kernel
def narrowed(x: tw.Tensor["M", "N", tw.f32], z: tw.Tensor["M", "N", tw.f8e4m3]):
    i, j = tw.grid("M", "N")
    z[i, j] = x[i, j]


def compiled(kernel: Kernel, dims: Mapping[str, int]) -> Compilation:
    return compile_kernel(kernel, target=TARGET, dims=dims)


def check_numbers(compilation: Compilation, seed: int = 0) -> None:
    """The machine's results against NumPy's."""
    bundle = compilation.bundle()
    inputs = random_inputs([each for each in bundle.plan.buffers if each.role == "input"], seed)
    outputs = run_on_machine(bundle, tuple(inputs.values()))
    stored = [each for each in bundle.plan.buffers if each.role == "output"]
    results = dict(zip((each.name for each in stored), outputs if len(stored) > 1 else (outputs,), strict=True))
    errors = relative_errors(bundle, inputs, results)
    assert errors is not None
    for each in stored:
        assert errors[each.name] <= ERROR_LIMITS[each.element], (each.name, errors)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("kernel", "dims"),
    [
        (scaled, {"M": 33, "N": 70}),
        (transposed, {"M": 40, "N": 136}),
        (narrowed, {"M": 17, "N": 64}),
        (row_programs.softmax, {"M": 5, "N": 100}),
        (row_programs.rms_norm, {"M": 9, "N": 131}),
        (row_programs.quantize, {"M": 6, "N": 256}),
        (row_programs.of_four_axes, {"A": 2, "B": 3, "M": 2, "N": 40}),
    ],
    ids=lambda value: value.name if isinstance(value, Kernel) else "x".join(map(str, value.values())),
)
def test_elements_and_rows(kernel: Kernel, dims: Mapping[str, int]) -> None:
    compilation = compiled(kernel, dims)
    assert compilation.text_proof is not None and compilation.assembly is not None
    assert compilation.ptx.startswith(".version 8.6\n.target sm_100a\n")
    check_numbers(compilation)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("kernel", "dims"),
    [
        (cascade_programs.matmul_softmax, {"M": 100, "K": 72, "N": 40}),
        (cascade_programs.attention, {"B": 1, "H": 2, "Q": 70, "T": 136, "E": 64, "F": 64}),
        (cascade_programs.causal, {"B": 1, "Q": 100, "T": 150, "E": 64, "F": 72}),
        (cascade_programs.grouped_heads, {"H": 4, "Q": 40, "T": 70, "E": 64, "F": 64}),
        (cascade_programs.window, {"Q": 130, "T": 130, "E": 64, "F": 64}),
        (cascade_programs.rms_norm_matmul, {"M": 70, "K": 192, "N": 104}),
        (cascade_programs.attention, {"B": 1, "H": 1, "Q": 200, "T": 100, "E": 128, "F": 128}),
    ],
    ids=lambda value: value.name if isinstance(value, Kernel) else "x".join(map(str, value.values())),
)
def test_products_with_folds(kernel: Kernel, dims: Mapping[str, int]) -> None:
    """Accumulators in tensor memory, operands that threads compute among them."""
    compilation = compiled(kernel, dims)
    assert compilation.text_proof is not None and compilation.assembly is not None
    assert "tcgen05.mma" in compilation.ptx and "wgmma" not in compilation.ptx
    assert compilation.assembly.spill_bytes == 0
    check_numbers(compilation)


def test_a_bundle_is_for_its_own_architecture() -> None:
    assert runs_on(TARGET, (10, 0)) and not runs_on(TARGET, (9, 0)) and not runs_on("sm_90a", (10, 0))
