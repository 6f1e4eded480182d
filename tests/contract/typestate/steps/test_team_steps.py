"""Teams that add up through memory: proven as they are lowered; with what that rests on taken away, not."""

import pytest
from tests.lower.lowered_programs import gemm
from xdsl.dialects.builtin import IntAttr, ModuleOp

from tilewright.base.verdict import Proven, Unknown
from tilewright.contract.typestate.typestate import verify
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.team import TeamAfterOp, TeamSumOp
from tilewright.ir.tier import int_array
from tilewright.targets import target

HOPPER = target("sm_90a")


@pytest.fixture(scope="module")
def product() -> ModuleOp:
    lowered = gemm(128, 32, 1024, tile=(64, 16), split=2, teams=3, depth=64, swapped=False, stages=3)
    return lowered.kernels[0]


def the(module: ModuleOp, kind: type):
    return next(op for op in module.walk() if isinstance(op, kind))


def teams_of(kind: type, teams: int):
    def edit(module: ModuleOp) -> None:
        the(module, kind).properties["teams"] = IntAttr(teams)

    return edit


def all_rounds(count: int):
    """Of both roles' loops."""

    def edit(module: ModuleOp) -> None:
        for op in module.walk():
            if isinstance(op, ac.TilesOp):
                op.properties["batch"] = int_array([count])

    return edit


def moved_rows(rows: int):
    def edit(module: ModuleOp) -> None:
        after = the(module, TeamAfterOp).after
        for op in [use.operation for use in after.uses]:
            op.properties["coefficients"] = int_array(
                [
                    rows if value is after else item.data
                    for value, item in zip(op.operands_, op.coefficients, strict=True)
                ]
            )

    return edit


def shorter(name: str):
    def edit(module: ModuleOp) -> None:
        array = next(op for op in module.walk() if isinstance(op, ac.GlobalOp) and op.buffer.data == name)
        first, *rest = (item.data for item in array.shape)
        array.properties["shape"] = int_array([first - 1, *rest])

    return edit


def indices_exchanged(module: ModuleOp) -> None:
    op = the(module, TeamSumOp)
    op.operands[3], op.operands[4] = op.operands[4], op.operands[3]


def outside_the_loop_of_all_slices(module: ModuleOp) -> None:
    """The partial sum is handed over, and what was summed before is stored."""
    op = the(module, TeamSumOp)
    op.sum.replace_all_uses_with(op.accumulator)


def summed_twice(module: ModuleOp) -> None:
    op = the(module, TeamSumOp)
    again = op.clone({op.accumulator: op.sum})
    op.parent_block().insert_op_after(again, op)
    for use in list(op.sum.uses):
        if use.operation is not again:
            use.operation.operands[use.index] = again.sum


def test_as_lowered_it_is_proven(product):
    verdict = verify(product, HOPPER)
    assert isinstance(verdict, Proven), verdict
    assert any("run at once" in each for each in verdict.assumptions)


@pytest.mark.parametrize(
    ("edit", "word"),
    [
        (teams_of(TeamSumOp, 4), "of other tiles or teams"),
        (teams_of(TeamAfterOp, 4), "differ in how many teams"),
        (all_rounds(2), "2 times through the tiles of 3 teams"),
        (moved_rows(0), "teams before the last may store"),
        (moved_rows(127), "teams before the last may store"),
        (moved_rows(1 << 30), "teams before the last may store"),
        (shorter("team_sums"), "is no array of f32"),
        (shorter("team_flags"), "is no array of u32"),
        (indices_exchanged, "other indices than its loop's"),
        (outside_the_loop_of_all_slices, "is used besides"),
        (summed_twice, "2 sums of teams"),
    ],
)
def test_without_what_it_rests_on_it_is_not(product, edit, word):
    module = product.clone()
    edit(module)
    verdict = verify(module, HOPPER)
    assert not isinstance(verdict, Proven)
    assert isinstance(verdict, Unknown) and word in " ".join(verdict.reasons), verdict
