"""What a consumer does beside the last product of its walk, which the loop has left to what follows."""

from __future__ import annotations

from tests.lower.cascade_programs import attention, causal
from tests.lower.lowered_programs import lower
from xdsl.ir import Operation

from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import FragmentIssueOp, FragmentMapOp
from tilewright.synth.decide import Wanted

DIMS = {"Q": 300, "T": 300, "E": 64, "F": 64}


def behind_the_walk(causally: bool) -> list[Operation]:
    """Of a tile of consumers."""
    kernel, dims = (causal, {"B": 2}) if causally else (attention, {"B": 2, "H": 2})
    lowered = lower(kernel, dims | DIMS, wanted=Wanted(consumers=2)).kernels[0]
    (loop,) = (
        op
        for op in lowered.walk()
        if isinstance(op, ac.LoopOp) and any(isinstance(each, FragmentIssueOp) for each in op.body.block.ops)
    )
    assert loop.parent is not None
    ops = list(loop.parent.ops)
    return ops[ops.index(loop) + 1 :]


def places_of(ops: list[Operation], kind: type[Operation]) -> list[int]:
    return [at for at, op in enumerate(ops) if isinstance(op, kind)]


def test_what_stayed_for_the_tile_is_released_before() -> None:
    for causally in (True, False):
        ops = behind_the_walk(causally)
        (issued,), releases = places_of(ops, FragmentIssueOp), places_of(ops, ac.ArriveOp)
        staying, passing = releases
        assert staying < issued < passing
        phases = [op.phase.type for op in ops if isinstance(op, ac.ArriveOp)]
        assert [kind.ring.data for kind in phases if isinstance(kind, ac.PhaseType)] == ["q_ring", "v_ring"]


def test_numbers_of_rows_that_results_take_are_computed_meanwhile() -> None:
    for causally in (True, False):
        ops = behind_the_walk(causally)
        (issued,), (waited,) = places_of(ops, FragmentIssueOp), places_of(ops, ac.WgmmaWaitOp)
        of_rows = [
            at
            for at in places_of(ops, FragmentMapOp)
            if all(isinstance(kind, ac.FragmentType) and kind.axes.data == "m" for kind in ops[at].result_types)
        ]
        assert of_rows and all(issued < at < waited for at in of_rows)
        # What scales the sum is one number then.
        (result,) = (op for op in ops[waited:] if isinstance(op, FragmentMapOp))
        assert not any(
            isinstance(op, ac.ScalarOp) and op.function.data in ("div", "exp2", "log") for op in result.body.block.ops
        )
