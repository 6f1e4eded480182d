# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Several products of one operand, by the general generator: one instruction for all, numbers, proofs, mutants."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.ac_samples import modules_of
from xdsl.dialects.builtin import IntAttr, ModuleOp

import tilewright as tw
from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.cli.arrays import random_inputs
from tilewright.cli.run_command import ERROR_LIMITS, relative_errors
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.kernels import gated_kernel
from tilewright.driver.run.run import run_on_machine
from tilewright.frontends.tile.kernel import Kernel
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import AccumulatorPartsOp
from tilewright.ir.cascade import CascadeDecisions
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

HOPPER = target("sm_90a")


@tw.kernel
def three(
    x: tw.Tensor["M", "K"],
    u: tw.Tensor["K", "N"],
    v: tw.Tensor["K", "N"],
    w: tw.Tensor["K", "N"],
    bias: tw.Tensor["N"],
    y: tw.Tensor["M", "N"],
    z: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    one, two, last = tw.zeros(i, j), tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        last += tw.dot(x[i, k], w[k, j])
        one += tw.dot(x[i, k], u[k, j])
        two += tw.dot(x[i, k], v[k, j])
    y[i, j] = one - two * 2 + last * 4 + bias[j]
    z[i, j] = two


@tw.kernel
def shared_right(x: tw.Tensor["M", "K"], p: tw.Tensor["M", "K"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    one, two = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        one += tw.dot(x[i, k], w[j, k].T)
        two += tw.dot(p[i, k], w[j, k].T)
    y[i, j] = one + two * 3


@tw.kernel
def gated_batch(
    x: tw.Tensor["B", "M", "K"], w: tw.Tensor["B", "N", "K"], v: tw.Tensor["B", "N", "K"], y: tw.Tensor["B", "M", "N"]
):
    b, i, j = tw.grid("B", "M", "N")
    gate, linear = tw.zeros(b, i, j), tw.zeros(b, i, j)
    for k in tw.loop("K"):
        gate += tw.dot(x[b, i, k], w[b, j, k].T)
        linear += tw.dot(x[b, i, k], v[b, j, k].T)
    y[b, i, j] = tw.silu(gate) * linear


gated = gated_kernel("silu")
ROWS = {"w_gate": (1, 200), "w_up": (1, 200)}
"""Weights that are contiguous along K."""


def compiled(kernel: Kernel, dims: dict[str, int], **options: Any) -> tuple[Any, CascadeDecisions]:
    names = ("tile", "turns", "stages", "cluster", "release_distance", "depth", "accumulation")
    wishes = {name: options.pop(name) for name in names if name in options}
    made = compile_kernel(kernel, dims=dims, wanted=Wanted(walked=True, **wishes), **options)
    assert isinstance(made.decisions, CascadeDecisions) and made.text_proof is not None
    return made, made.decisions


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("kernel", "dims", "options"),
    [
        # Slots of either order of the weights, several spans of each; ping-pong; every release distance.
        (gated, {"M": 200, "N": 136, "K": 200}, {"tile": (64, 128)}),
        (gated, {"M": 200, "N": 136, "K": 200}, {"tile": (128, 40), "strides": ROWS}),
        (gated, {"M": 300, "N": 200, "K": 200}, {"tile": (128, 64), "turns": True, "stages": 3}),
        (gated, {"M": 70, "N": 72, "K": 200}, {"tile": (64, 64), "depth": 128, "strides": ROWS}),
        (gated, {"M": 70, "N": 72, "K": 328}, {"tile": (64, 64), "release_distance": 0, "stages": 2}),
        (gated, {"M": 70, "N": 72, "K": 328}, {"tile": (64, 64), "release_distance": 2}),
        (gated, {"M": 200, "N": 160, "K": 136}, {"tile": (128, 128), "cluster": (2, 1)}),
        (gated, {"M": 200, "N": 160, "K": 136}, {"tile": (128, 128), "cluster": (1, 2)}),
        (gated, {"M": 16, "N": 256, "K": 256}, {}),
        (gated, {"M": 1, "N": 8, "K": 8}, {}),
        (gated, {"M": 129, "N": 66, "K": 8}, {}),
        (gated, {"M": 130, "N": 72, "K": 200}, {"strides": {"y": (1, 130)}, "tile": (64, 64)}),
        (
            gated,
            {"M": 130, "N": 72, "K": 400},
            {
                "dtype": {"x": "f8e4m3", "w_gate": "f8e4m3", "w_up": "f8e4m3", "y": "bf16"},
                "strides": {"w_gate": (1, 400), "w_up": (1, 400)},
                "tile": (64, 64),
            },
        ),
        (three, {"M": 100, "N": 72, "K": 136}, {"tile": (64, 64)}),
        (shared_right, {"M": 72, "N": 130, "K": 136}, {"tile": (64, 64)}),
        (gated_batch, {"B": 3, "M": 70, "N": 72, "K": 64}, {"tile": (64, 64)}),
    ],
)
def test_they_are_proved_and_right(kernel: Kernel, dims: dict[str, int], options: dict[str, Any]) -> None:
    made, decisions = compiled(kernel, dims, **dict(options))
    several = 3 if kernel is three else 2
    assert [slot.among for slot in decisions.slots] == [1, *[several] * several]
    bundle = made.bundle()
    given = {each.name for each in kernel.parameters}
    inputs = random_inputs([each for each in bundle.plan.buffers if each.role == "input"], 0)
    stored = [each for each in bundle.plan.buffers if each.role == "output" and each.name in given]
    results = run_on_machine(bundle, tuple(inputs.values()))
    results = results if isinstance(results, tuple) else (results,)
    found = dict(zip([each.name for each in stored], results, strict=True))
    errors = relative_errors(bundle, inputs, found)
    assert errors is not None
    assert all(errors[each.name] <= ERROR_LIMITS[each.element] for each in stored)
    assert all(np.isfinite(each.astype(np.float64)).all() for each in results)


def test_one_instruction_multiplies_all_of_them() -> None:
    made, _ = compiled(gated, {"M": 128, "N": 128, "K": 200}, tile=(128, 128), strides=ROWS, assembled=False)
    assert "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16" in made.ptx


def test_weights_that_lie_differently_are_refused() -> None:
    with pytest.raises(TilewrightError, match="lie in memory in different ways") as caught:
        compiled(gated, {"M": 128, "N": 128, "K": 200}, strides={"w_up": (1, 200)})
    assert caught.value.remedy


# ---------------------------------------------------------------- programs broken in one place


def sums(module: ModuleOp) -> AccumulatorPartsOp:
    return next(op for op in module.walk() if isinstance(op, AccumulatorPartsOp))


def waits_for_all_but_one(module: ModuleOp) -> None:
    """The products before the parts are taken."""
    wait = sums(module).accumulator.owner
    assert isinstance(wait, ac.WgmmaWaitOp)
    wait.properties["pending"] = IntAttr(1)


def copies_over_the_first(module: ModuleOp) -> None:
    """What the second product takes, where what the first one takes belongs."""
    first, second = [op for op in module.walk() if isinstance(op, ac.CopyIssueOp)][1:]
    second.properties["offset_bytes"] = first.offset_bytes


def another_shape(columns: int) -> Callable[[ModuleOp], None]:
    def edit(module: ModuleOp) -> None:
        op = sums(module)
        kind = op.parts[0].type
        assert isinstance(kind, ac.AccumulatorType)
        types = [ac.AccumulatorType(kind.m, IntAttr(columns)) for _ in op.parts]
        other = AccumulatorPartsOp.create(operands=[op.accumulator], result_types=types)
        block = op.parent_block()
        assert block is not None
        block.insert_op_before(other, op)
        for old, new in zip(op.parts, other.parts, strict=True):
            old.replace_all_uses_with(new)
        op.detach()

    return edit


def test_the_sample_is_proven() -> None:
    (module,) = modules_of("walks that sum two products")
    assert isinstance(verify(module, HOPPER), Proven)


@pytest.mark.parametrize(
    ("edit", "kind"),
    [
        (waits_for_all_but_one, Refuted),
        (copies_over_the_first, Refuted),
        (another_shape(32), Unknown),
        (another_shape(60), Unknown),
    ],
)
def test_a_broken_one_is_not_proven(edit: Callable[[ModuleOp], None], kind: type) -> None:
    module = modules_of("walks that sum two products")[0].clone()
    edit(module)
    verdict = verify(module, HOPPER)
    assert isinstance(verdict, kind), verdict
    if isinstance(verdict, Refuted):
        assert {finding.code for finding in verdict.findings} & {"WG002", "WG003", "TX005"}
