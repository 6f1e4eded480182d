# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Whoever asks what is decided of a program sees the product behind the kernel that computes an operand of it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

import tilewright.frontends.tile.language as tw
from tilewright.driver.compile import tuned
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.schedule_loop import decided_schedule
from tilewright.driver.compile.upstream import writable
from tilewright.driver.views.roofline import kernel_roofline
from tilewright.lower.mlir.ac_to_nvgpu import lower_to_nvgpu
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")
FEW = {"M": 64, "N": 256, "K": 256}
"""Of which a kernel before computes the operand, since rows are few."""
IN_REGISTERS = {"M": 4096, "N": 512, "K": 4096}


@tw.kernel
def scaled(a: tw.Tensor["M", "K"], s: tw.Tensor["M"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((a[i, k] * s[i]).to(tw.bf16), b[k, j])
    c[i, j] = acc


def test_the_schedule_is_of_the_loop_over_products() -> None:
    graph, schedule = decided_schedule(scaled, HOPPER, FEW, "bf16", Wanted())
    assert graph.trips > 1 and schedule.interval_cycles > 0


def test_the_roofline_names_the_kernels_before() -> None:
    behind, alone = (kernel_roofline(scaled, HOPPER, dims, "bf16", Wanted()) for dims in (FEW, IN_REGISTERS))
    assert any("behind 1 kernel that" in note for note in behind.notes)
    assert not any("behind" in note for note in alone.notes) and alone.operations == 2 * 4096 * 512 * 4096


def test_upstream_both_kernels_are_written_and_nothing_is_computed_in_registers() -> None:
    wanted, left_out = writable(scaled, Wanted(), target="sm_90a", dims=IN_REGISTERS)
    assert any("computed in registers" in each for each in left_out)
    compiled = compile_kernel(scaled, dims=IN_REGISTERS, wanted=wanted, assembled=False, rerun=False)
    text = lower_to_nvgpu(list(compiled.modules.values()))
    assert len(compiled.parts) == 2 and all(f"gpu.func @{entry}(" in text for entry in compiled.modules)


def test_tiles_of_the_product_are_tuned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr("tilewright.tune.candidates.MOST", 2)
    program, compiled = tuned.Program(scaled, FEW, "sm_90a", "bf16", None), []

    def timer(bundles: Sequence[object]) -> list[list[float]]:
        return [[2.0, 2.0], *[[1.0, 1.0] for _ in bundles[1:]]]

    def compile_one(wanted: Wanted) -> object:
        made = compile_kernel(scaled, dims=FEW, wanted=wanted, assembled=False, rerun=False)
        compiled.append(wanted)
        return made.bundle()

    monkeypatch.setattr(tuned, "gpu_timer", lambda program: timer)
    winner = tuned.tuned(program, Wanted(), compile_one, cached=False)
    assert len(compiled) > 1 and winner == compiled[1] != Wanted()
