# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Sums that stay in tensor memory while an axis is walked, and values that share its columns: proved twice, exact.

No GPU of that architecture was at hand: the assembler, the exact machine and both proofs stand in for one.
"""

from collections.abc import Mapping
from functools import cache

import pytest
from tests.end_to_end.blackwell_programs import check_numbers
from tests.synth.cascade.tensor_column_programs import converted, gradient, two_layers
from xdsl.dialects.builtin import IntAttr

import tilewright.frontends.tile.language as tw
from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import judge
from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.ir.ac.tensor_memory import TensorIssueStoredOp, TensorStoreOp, TensorWaitOp
from tilewright.ir.cascade import CascadeDecisions
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target


@tw.kernel
def attended(q: tw.Tensor["Q", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["Q", "F"]):
    i, t, e, f = tw.axes("Q T E F")
    o[i, f] = tw.dot(tw.softmax(tw.dot(q[i, e], k[t, e], over=e), over=t), v[t, f], over=t)


@tw.kernel
def masked_sum(q: tw.Tensor["Q", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["Q", "F"]):
    i, t, e, f = tw.axes("Q T E F")
    o[i, f] = tw.dot(tw.where(t <= i, tw.dot(q[i, e], k[t, e], over=e), 0.0), v[t, f], over=t)


@tw.kernel
def keys_are_values(q: tw.Tensor["Q", "E"], k: tw.Tensor["T", "E"], o: tw.Tensor["Q", "E"]):
    """One slot serves both products, so that the second is waited for."""
    i, t, e = tw.axes("Q T E")
    o[i, e] = tw.dot(tw.relu(tw.dot(q[i, e], k[t, e], over=e)), k[t, e], over=t)


@tw.kernel
def beside_a_scaled_one(
    x: tw.Tensor["M", "K"],
    w: tw.Tensor["N", "K"],
    v: tw.Tensor["N", "K"],
    s: tw.Tensor["M", "K/64", tw.f32],
    y: tw.Tensor["M", "N"],
):
    i, j = tw.grid("M", "N")
    scaled, plain = tw.zeros(i, j), tw.zeros(i, j)
    for k in tw.loop("K"):
        plain += tw.dot(x[i, k], v[j, k].T)
        scaled += tw.dot(x[i, k], w[j, k].T) * s[i, k // 64]
    y[i, j] = scaled - plain


ONE_KERNEL = Wanted(cut=False)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("kernel", "dims", "wanted", "stays"),
    [
        (two_layers, {"M": 130, "N": 72, "K": 64, "L": 200}, ONE_KERNEL, 1),
        (two_layers, {"M": 64, "N": 64, "K": 64, "L": 64}, ONE_KERNEL, 1),
        (two_layers, {"M": 70, "N": 256, "K": 64, "L": 200}, ONE_KERNEL, 1),
        (gradient, {"Q": 100, "T": 150, "E": 64, "F": 64}, ONE_KERNEL, 1),
        (converted, {"M": 100, "N": 256, "K": 200}, ONE_KERNEL, 1),
        (converted, {"M": 65, "N": 40, "K": 16}, ONE_KERNEL, 1),
        (masked_sum, {"Q": 200, "T": 300, "E": 64, "F": 64}, ONE_KERNEL, 1),
        (keys_are_values, {"Q": 100, "T": 200, "E": 64}, ONE_KERNEL, 1),
        (beside_a_scaled_one, {"M": 130, "N": 72, "K": 256}, ONE_KERNEL, 1),
        (attended, {"Q": 200, "T": 200, "E": 64, "F": 64}, Wanted(cut=False, consumers=3), 0),
    ],
    ids=lambda value: value.name if isinstance(value, Kernel) else None,
)
def test_numbers(kernel: Kernel, dims: Mapping[str, int], wanted: Wanted, stays: int) -> None:
    made = compile_kernel(kernel, target="sm_100a", dims=dims, wanted=wanted)
    assert made.text_proof is not None and made.assembly is not None and made.assembly.spill_bytes == 0
    (part,) = made.parts
    assert isinstance(part.decisions, CascadeDecisions)
    assert sum(each.stays for each in part.decisions.places) == stays
    assert wanted.consumers in (None, part.decisions.consumers)
    check_numbers(made)


# ---------------------------------------------------------------- programs broken in one place


@cache
def layers() -> Compilation:
    return compile_kernel(
        two_layers, target="sm_100a", dims={"M": 256, "N": 128, "K": 64, "L": 512}, wanted=ONE_KERNEL, rerun=False,
        assembled=False,
    )  # fmt: skip


def test_an_operand_in_the_columns_of_a_sum_is_refuted() -> None:
    (module,) = (each.clone() for each in layers().modules.values())
    assert isinstance(judge(module, target("sm_100a"))[0], Proven)
    stores = [op for op in module.walk() if isinstance(op, TensorStoreOp)]
    sums = next(op for op in module.walk() if isinstance(op, TensorIssueStoredOp)).column.data
    for op in stores:
        op.properties["column"] = IntAttr(sums)
    found = judge(module, target("sm_100a"))[0]
    assert isinstance(found, Refuted) and any(each.code == "TC002" for each in found.findings), found


def test_a_sum_begun_anew_in_every_iteration_is_refuted() -> None:
    """What an iteration leaves is then lost, and its columns written while they are still needed."""
    (module,) = (each.clone() for each in layers().modules.values())
    issued = [op for op in module.walk() if isinstance(op, TensorIssueStoredOp) and op.accumulator is not None]
    assert issued and not any(isinstance(op, TensorWaitOp) and op.inflight in issued[0].results for op in module.walk())
    (op,) = issued
    again = TensorIssueStoredOp.build(
        operands=[op.memory, op.a, op.phase, op.b, op.unit, None],
        properties={name: each for name, each in op.properties.items() if name != "operandSegmentSizes"},
        result_types=[each.type for each in op.results],
    )
    block = op.parent_block()
    assert block is not None
    block.insert_op_before(again, op)
    for old, new in zip(op.results, again.results, strict=True):
        old.replace_all_uses_with(new)
    op.detach()
    op.erase()
    assert isinstance(judge(module, target("sm_100a"))[0], Refuted)
