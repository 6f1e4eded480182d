# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Several products of one operand, by the general generator: one instruction for all, numbers, proofs, mutants."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.ac_samples import modules_of
from xdsl.dialects.builtin import IntAttr, ModuleOp

import tilewright as tw
from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven, Refuted, Unknown
from tilewright.cli.arrays import random_inputs
from tilewright.cli.commands.run_command import ERROR_LIMITS, relative_errors
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.compile.compile import Compilation, compile_kernel, elements_of
from tilewright.driver.compile.kernels import gated_kernel
from tilewright.driver.compile.walked import walked
from tilewright.driver.reproof.address_proof import SameAddresses, staged_stores
from tilewright.driver.run.run import run_on_machine
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import AccumulatorPartsOp, FragmentMapOp
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target
from tilewright.tune.candidates import candidates

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
    made = compile_kernel(kernel, dims=dims, wanted=Wanted(**wishes), **options)
    assert isinstance(made.decisions, CascadeDecisions) and made.text_proof is not None
    return made, made.decisions


@tw.kernel
def neighbours(x: tw.Tensor["M", "K"], w: tw.Tensor["K", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    one, two = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        one += tw.dot(x[i, k], w[k, j])
        two += tw.dot(x[i, k], (w[k, j + 1] * 2).to(tw.bf16))
    y[i, j] = one - two


@tw.kernel
def gated_with_bias(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["N", "K"],
    v: tw.Tensor["N", "K"],
    b: tw.Tensor["N"],
    c: tw.Tensor["M"],
    r: tw.Tensor["M", "N"],
    y: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    gate, linear = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        gate += tw.dot(x[i, k], w[j, k].T)
        linear += tw.dot(x[i, k], v[j, k].T)
    shifted = gate + b[j]
    y[i, j] = shifted * tw.sigmoid(shifted) * (linear + c[i]) + r[i, j]


@pytest.mark.sample(2)
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
    is_right(kernel, made)


def is_right(kernel: Kernel, made: Compilation) -> None:
    bundle = made.bundle()
    named = {each.name for each in kernel.parameters}
    inputs = random_inputs([each for each in bundle.plan.buffers if each.role == "input"], 0)
    stored = [each for each in bundle.plan.buffers if each.role == "output" and each.name in named]
    results = run_on_machine(bundle, tuple(inputs.values()))
    results = results if isinstance(results, tuple) else (results,)
    found = dict(zip([each.name for each in stored], results, strict=True))
    errors = relative_errors(bundle, inputs, found)
    assert errors is not None
    assert all(errors[each.name] <= ERROR_LIMITS[each.element] for each in stored)
    assert all(np.isfinite(each.astype(np.float64)).all() for each in results)


EXTENT = st.one_of(st.integers(1, 150), st.integers(1, 20).map(lambda n: 8 * n), st.sampled_from([64, 128, 192]))


@pytest.mark.full
@settings(max_examples=15, deadline=None)
@example(three, 64, 1, 64, (64, 8), None)
@example(neighbours, 3, 1, 1, None, None)
@given(
    st.sampled_from([gated, three, shared_right, neighbours, gated_with_bias]),
    EXTENT,
    EXTENT,
    EXTENT,
    st.sampled_from([None, (64, 64), (128, 64), (128, 40), (64, 8)]),
    st.sampled_from([None, 2]),
)
def test_any_extents_are_proved_and_right(
    kernel: Kernel, m: int, n: int, k: int, tile: tuple[int, int] | None, stages: int | None
) -> None:
    """Where a tile's columns are none that the operands can stand side by side in, the words say so."""
    # A computed operand is computed before, by a kernel of its own, where nothing is asked of the tile.
    tile, stages = (None, None) if kernel is neighbours else (tile, stages)
    dims, wanted = {"M": m, "N": n, "K": k}, Wanted(tile=tile, stages=stages)
    try:
        made = compile_kernel(kernel, dims=dims, wanted=wanted)
    except TilewrightError as refusal:
        narrow = kernel in (gated, three) and tile is not None and tile[1] % 64
        assert narrow and "no tile of these columns holds" in refusal.message
        return
    assert made.text_proof is not None
    is_right(kernel, made)


def test_a_lone_computed_operand_is_computed_before_where_no_map_brings_the_others() -> None:
    made = compile_kernel(neighbours, dims={"M": 30, "N": 20, "K": 10})
    assert len(made.parts) > 1 and made.text_proof is not None
    is_right(neighbours, made)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("kernel", "dims", "tile"),
    [
        (gated, (1, 2, 1), None),
        (shared_right, (2, 1, 1), None),
        (gated_with_bias, (64, 40, 1), None),
        (gated_with_bias, (129, 66, 1), (128, 64)),
        (shared_right, (66, 40, 1), (64, 64)),
        (gated_with_bias, (129, 66, 1), (128, 40)),
        (shared_right, (66, 40, 1), (64, 8)),
    ],
)
def test_operands_of_one_column_may_have_either_axis_contiguous(
    kernel: Kernel, dims: tuple[int, int, int], tile: tuple[int, int] | None
) -> None:
    # Where both are, the boxes along the columns' axis are wider than such tiles, and others could not stand behind:
    # then a kernel before copies them along the other axis.
    made = compile_kernel(kernel, dims=dict(zip("MNK", dims, strict=True)), wanted=Wanted(tile=tile))
    assert made.text_proof is not None
    is_right(kernel, made)


def test_results_are_computed_where_they_leave_and_what_they_need_is_loaded_before() -> None:
    """Vectors beside the first products, matrices two columns at a time; none of a tile's results waits in a register
    for the others."""
    dims = {"M": 300, "N": 256, "K": 256}
    made, decisions = compiled(gated_with_bias, dims, tile=(128, 64), assembled=False)
    assert (set(decisions.loads_ahead), decisions.paired_loads) == ({"b", "c"}, ("r",))
    module = decided_module(gated_with_bias, dims, Wanted(tile=(128, 64)))
    (kernel,) = lower_program(the_program(module)).kernels
    (result,) = [op for op in kernel.module.walk() if isinstance(op, FragmentMapOp)]
    assert result.is_deferred
    assert all(isinstance(use.operation, ac.StageWriteOp) for use in result.outputs[0].uses)
    text = made.ptx
    assert text.index("stmatrix") < text.rindex("div.full.f32" if "div.full.f32" in text else "fma.rn.f32")


def test_registers_may_wait_in_shared_memory() -> None:
    wanted = Wanted(tile=(128, 64), spill_slots=4)
    made = compile_kernel(gated, dims={"M": 512, "N": 512, "K": 200}, wanted=wanted, assembled=False)
    assert made.text_proof is not None and isinstance(made.decisions, CascadeDecisions)
    without = compile_kernel(
        gated, dims={"M": 512, "N": 512, "K": 200}, wanted=replace(wanted, spill_slots=0), assembled=False
    )
    assert isinstance(without.decisions, CascadeDecisions)
    slots = 4 * 128 * made.decisions.consumers * 4
    assert made.decisions.smem_bytes == without.decisions.smem_bytes + slots
    is_right(gated, made)


def test_tuning_has_other_tiles_to_time() -> None:
    module = decided_module(gated, {"M": 1024, "N": 1536, "K": 1024}, None)
    found = candidates(module, HOPPER, Wanted())
    assert len(found) > 3 and len({(each.tile, each.turns, each.consumers) for each in found}) == len(found)


def test_a_tile_whose_accumulators_do_not_fit_is_refused() -> None:
    with pytest.raises(TilewrightError, match=r"no tile shape \(128, 256\)"):
        compiled(gated, {"M": 128, "N": 256, "K": 128}, tile=(128, 256))


def test_the_operand_that_products_share_has_the_rows() -> None:
    with pytest.raises(TilewrightError, match="in common has the rows"):
        compile_kernel(gated, dims={"M": 200, "N": 136, "K": 200}, wanted=Wanted(swapped=True))


def test_their_tiles_are_not_cut() -> None:
    with pytest.raises(TilewrightError, match="no tiles are streamed: products share an operand") as caught:
        compile_kernel(gated, dims={"M": 2048, "N": 1024, "K": 512}, wanted=Wanted(stream_k=True))
    assert "stream_k" in (caught.value.remedy or "")


def test_ping_pong_needs_tiles_that_fit() -> None:
    with pytest.raises(TilewrightError, match="cannot take tiles of 128x128 in ping-pong"):
        compiled(gated, {"M": 300, "N": 200, "K": 200}, tile=(128, 128), turns=True)


def test_what_is_staged_lies_where_the_maps_expect_it() -> None:
    made, _ = compiled(three, {"M": 256, "N": 256, "K": 256}, assembled=False)
    staged = staged_stores(read(made.ptx, "<three>"), made.plan.launches)
    assert len({store.map_name for store in staged}) == 2
    assert all(isinstance(store.verdict, SameAddresses) for store in staged)


def decided_module(kernel: Kernel, dims: dict[str, int], wanted: Wanted | None) -> ModuleOp:
    """The program as a walk, decided where that is wanted."""
    module = walked(trace(kernel, dims, elements_of(kernel, "bf16")), HOPPER, wanted or Wanted())
    if wanted is not None:
        decide(the_program(module), HOPPER, wanted)
    return module


def test_one_instruction_multiplies_all_of_them() -> None:
    made, _ = compiled(gated, {"M": 128, "N": 128, "K": 200}, tile=(128, 128), strides=ROWS, assembled=False)
    assert "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16" in made.ptx


def test_weights_that_lie_differently_have_kernels_of_their_own() -> None:
    dims, strides = {"M": 128, "N": 128, "K": 200}, {"w_up": (1, 200)}
    made = compile_kernel(gated, dims=dims, strides=strides)
    assert len(made.parts) == 2 and made.text_proof is not None
    is_right(gated, made)
    with pytest.raises(TilewrightError, match="lie in memory in different ways") as caught:
        compile_kernel(gated, dims=dims, strides=strides, wanted=Wanted(cut=False))
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
