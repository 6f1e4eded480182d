"""A result of a walk that leaves in boxes: its values, its proofs, and edits of it that are refuted."""

from __future__ import annotations

import numpy as np
import pytest
from tests.lower.cascade_programs import weights_stored
from tests.lower.lowered_programs import Lowered, lower, random_inputs, run

from tilewright.base.element import Element
from tilewright.base.verdict import Proven, Refuted
from tilewright.contract.typestate.typestate import verify
from tilewright.driver.reproof.reproof import reprove
from tilewright.frontends.tile.reference import evaluate
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import FragmentIssueOp
from tilewright.synth.decide import Wanted
from tilewright.targets import target

ELEMENTS = {each.name: each.element or Element.BF16 for each in weights_stored.parameters}


def made(rows: int, streamed: int, depth: int = 64) -> tuple[Lowered, dict[str, int]]:
    dims = {"M": rows, "T": streamed, "E": 64, "F": 40}
    return lower(weights_stored, dims, ELEMENTS, wanted=Wanted(consumers=2, depth=depth)), dims


@pytest.mark.parametrize(("rows", "streamed", "depth"), [(7, 8, 64), (100, 200, 64), (129, 264, 128), (64, 96, 96)])
def test_values_and_proof(rows: int, streamed: int, depth: int) -> None:
    lowered, dims = made(rows, streamed, depth)
    assert [each.parameter for each in lowered.decisions.stores] == ["w"]
    (kernel,) = lowered.kernels
    assert isinstance(verify(kernel, target("sm_90a")), Proven)
    arrays = random_inputs(lowered, rows)
    expected, got = evaluate(trace(weights_stored, dims, ELEMENTS), arrays, rounded=False), run(lowered, arrays)
    for name, values in got.items():
        allowed = 2.0**-6 * np.abs(expected[name]).max()
        np.testing.assert_allclose(values.astype(np.float64), expected[name], rtol=0, atol=allowed, err_msg=name)


def test_the_result_is_staged_out_of_the_operand_before_its_product_is_issued() -> None:
    (kernel,) = made(100, 200)[0].kernels
    (issue,) = (op for op in kernel.walk() if isinstance(op, FragmentIssueOp))
    (write,) = (op for op in kernel.walk() if isinstance(op, ac.StageWriteOp))
    (store,) = (op for op in kernel.walk() if isinstance(op, ac.CopyStoreOp))
    assert write.fragment is issue.a
    assert write.is_before_in_block(issue) and issue.is_before_in_block(store)


@pytest.mark.parametrize(("kind", "code"), [("free", "BG001"), ("ready", "NB004"), ("fence", "PX001")])
def test_each_step_is_needed(kind: str, code: str) -> None:
    (kernel,) = made(100, 200)[0].kernels
    (write,) = (op for op in kernel.walk() if isinstance(op, ac.StageWriteOp))
    (fence,) = (op for op in kernel.walk() if isinstance(op, ac.FenceProxyOp))
    (store,) = (op for op in kernel.walk() if isinstance(op, ac.CopyStoreOp))
    match kind:
        case "free":
            wait = next(op for op in write.parent_block().ops if isinstance(op, ac.BulkWaitOp))
            wait.detach()
        case "ready":
            ready = store.staged.owner
            store.operands[store.operands.index(store.staged)] = fence.result
            ready.detach()
        case _:
            fence.result.replace_all_uses_with(write.result)
            fence.detach()
    found = verify(kernel, target("sm_90a"))
    assert isinstance(found, Refuted) and code in {each.code for each in found.findings}


def test_the_text_is_proven_and_one_without_its_wait_is_not() -> None:
    lowered, _ = made(100, 200)
    assert isinstance(reprove(lowered.module, lowered.ptx, "sm_90a", "weights_stored"), Proven)
    wait = "cp.async.bulk.wait_group.read 0;"
    assert lowered.ptx.count(wait) == 2  # in the walk, and at the end
    first = lowered.ptx.index(wait)
    text = lowered.ptx[:first] + "cp.async.bulk.wait_group.read 1;" + lowered.ptx[first + len(wait) :]
    assert not isinstance(reprove(lowered.module, text, "sm_90a", "weights_stored"), Proven)
