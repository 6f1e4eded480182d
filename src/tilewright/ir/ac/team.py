"""Tiles whose contracted axis is shared by several clusters, in the asynchronous contract: teams, which add up through
memory.

A loop over tiles (`ac.tiles`) of a kernel with t teams goes through all tiles t times, as through the tiles of a batch
of t matrices: what a cluster computes of a tile in round q is team q's share of its slices. The last team's share is
that of the CTAs that finish the tile; the others hand them what they have. Rounds follow one another in every CTA's
order, and CTAs of low numbers come first in each. So who waits is waited for by nobody: a share that is handed over
depends on nothing but its own cluster, and every CTA has handed over all of its shares before it finishes a tile.

The last team's sum is taken in the order of the teams: its own, then that of team 0, 1, ...: the same in every run.
Checked by: tests/lower/distribution/test_team_sum.py, and by `contract.typestate.steps.team` on every kernel.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def

from tilewright.ir.ac.format import AcOperation
from tilewright.ir.ac.types import AccumulatorType, GlobalType, IndexType


@irdl_op_definition
class TeamAfterOp(AcOperation):
    """How many teams come after this one: teams - 1 - team. Stores of a tile are moved by so many times
    `ac_split.SPARE_ROWS` rows, so that those of all teams but the last fall outside the array."""

    name = "ac.team.after"
    teams = prop_def(IntAttr)
    team = operand_def(IndexType)
    after = result_def(IndexType)


@irdl_op_definition
class TeamSumOp(AcOperation):
    """In the body of a loop over tiles: the accumulator of the last team plus what the others have of the tile.

    partials: float32, a slot for each team but the last, tile, CTA of a cluster and unit, in this order; flags: a
    32-bit word for each slot, 0 when the grid begins and when it has ended. m, n, team: the loop's indices; tiles_m,
    tiles_n: its tiles. Units of a team before the last write their values, four at a time and neighbouring threads side
    by side, into their slot, meet on named barrier `first_barrier` + unit, and the first thread sets the slot's flag to
    1: a release at the scope of the GPU; what they have as their sum may not be used. Of the last team's units, one
    thread of each warp waits until every fourth of the flags of its CTA's and unit's slots is 1 (an acquire at the
    scope of the GPU) and sets it to 0; the unit's threads meet on the same barrier; each reads the values of its own
    places and adds them, slot after slot, each sum rounded once.
    """

    name = "ac.team.sum"
    first_barrier = prop_def(IntAttr)
    teams = prop_def(IntAttr)
    tiles_m = prop_def(IntAttr)
    tiles_n = prop_def(IntAttr)
    accumulator = operand_def(AccumulatorType)
    partials = operand_def(GlobalType)
    flags = operand_def(GlobalType)
    m = operand_def(IndexType)
    n = operand_def(IndexType)
    team = operand_def(IndexType)
    unit = operand_def(IndexType)
    sum = result_def(AccumulatorType)
