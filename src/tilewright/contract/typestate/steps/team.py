"""Tiles that teams of CTAs sum together through memory: is every partial sum handed over once and taken once?

By the definition of `ac.team.sum` (`ir.ac.team`). What has to be shown, for any numbers of tiles and CTAs:

- Slots. The operation stands in the body of the role's one loop over tiles, outside of any other loop, and takes the
  loop's own indices, of as many matrices as there are teams. So each (team, tile, CTA of a cluster, unit) comes to it
  once in a launch, and each slot is written once and read once, by units of one number in CTAs of one rank; its flag
  goes from 0 to 1 by the one and back to 0 by the other, and all flags are 0 at the end if they were at the beginning.
  The arrays have just these slots, and nothing else touches them.
- One finisher. What the accumulator held is used for nothing but the operation; of what it gives, teams before the last
  store nothing: the rows of their stores lie past the array's (`finished_place`).
- Circles. A flag is waited for in shares of the last team alone, and set in those of others. Shares are taken in the
  order of their numbers by every CTA, and those of the last team have the highest. So what the role that sums does
  before its first share of the last team waits for nothing but its own cluster, whose CTAs take the same shares in the
  same order, and by `liveness` for nothing that itself does later; an edge by a flag leads from there to shares of the
  last team, and all other edges stay in one cluster. All CTAs of the grid must be able to run at once, which is an
  assumption here and a property of the launch.

That order of memory holds between the CTAs is shown of the emitted text, by `awaited_words` and `global_order`.
Not handled: tiles taken in turn, tiles cut into parts, groups of rows, several roles that sum. All are doubts.
Checked by: tests/contract/typestate/steps/test_team_steps.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from tilewright.base.element import Element
from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.places.exchange_arrays import check_exchange_array
from tilewright.contract.typestate.program import Kernel, integers
from tilewright.contract.typestate.steps.split import kept_in_array, stored_place
from tilewright.contract.typestate.steps.stream import ASSUMPTION
from tilewright.contract.typestate.steps.unit_barriers import meet_after_stores
from tilewright.contract.typestate.token import Index, Settled, describe
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.stream import StreamPartOp, TurnStreamPartOp
from tilewright.ir.ac.team import TeamAfterOp, TeamSumOp

AFTER = "teams after "
"""What an atom begins with that says how many teams come after the one that the rest of its name names."""


def check_teams(kernel: Kernel, findings: Findings) -> None:
    """Doubt what goes round tiles otherwise than as teams do."""
    sums = kernel.operations.of(TeamSumOp)
    afters = kernel.operations.of(TeamAfterOp)
    if not sums and not afters:
        return
    first = (sums or afters)[0]
    if len(sums) != 1:
        findings.doubt(f"{len(sums)} sums of teams: one role has to take one of each tile", first)
        return
    findings.assume(ASSUMPTION)
    others = (ac.TurnTilesOp, ac.TurnGroupTilesOp, ac.GroupTilesOp, StreamPartOp, TurnStreamPartOp)
    for op in kernel.operations.of(ac.TilesOp, *others):
        if not isinstance(op, ac.TilesOp):
            findings.doubt("shares of teams beside tiles in turn, in groups or in parts", op)
        elif op.matrices != first.teams.data or op.first or op.together is not None:
            findings.doubt(f"goes {op.matrices} times through the tiles of {first.teams.data} teams", op)
    if any(op.teams != first.teams for op in afters):
        findings.doubt("operations differ in how many teams there are", first)


def team_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it concerns teams."""
    match op:
        case TeamAfterOp():
            team = walk.look(op, op.team)
            atom = _own_atom(team)
            if not atom:
                walk.findings.doubt("counts the teams after something that is no loop's index", op)
                walk.give(op, op.after, None)
            else:
                walk.give(op, op.after, Index(((AFTER + atom, 1),)))
        case TeamSumOp():
            _sum(walk, op)
        case _:
            return False
    return True


def _own_atom(token: object) -> str:
    """The atom that an index is; empty where it is more than one or none."""
    if isinstance(token, Index) and len(token.terms) == 1 and token.terms[0][1] == 1 and token.constant == 0:
        return token.terms[0][0]
    return ""


def _sum(walk: RoleWalk, op: TeamSumOp) -> None:
    doubt, role = walk.findings.doubt, walk.role
    accumulator = walk.take(op, op.accumulator)
    walk.require_unit(op, op.unit)
    if role.unit != "warpgroup128":
        doubt(f"in a role of {role.unit}", op)
    block = op.parent_block()
    loop = block.parent_op() if block is not None else None
    teams = op.teams.data
    if not isinstance(loop, ac.TilesOp) or loop.parent_op() is not role.op:
        doubt("not in the body of a role's loop over tiles", op)
    else:
        given = (op.m, op.n, op.team)
        if loop.batch is None or any(a is not b for a, b in zip(given, loop.body.block.args, strict=False)):
            doubt("takes other indices than its loop's", op)
        if (loop.tiles_m, loop.tiles_n, loop.matrices) != (op.tiles_m, op.tiles_n, teams):
            doubt("is of other tiles or teams than its loop", op)
    if teams < 2:
        doubt(f"sums of {teams} teams", op)
    x, y, _ = integers(walk.kernel.op.cluster)
    if x * y != 1:
        doubt("in a cluster whose CTAs take different tiles", op)
    if any(use.operation is not op for use in op.accumulator.uses):
        doubt("what a team has summed is used besides, without what the others have", op)
    meet_after_stores(walk, op, op.first_barrier.data)
    if not isinstance(accumulator, Settled):
        if accumulator is not None:
            walk.report("WG003", op, f"exchanges {describe(accumulator)}")
        walk.give(op, op.sum, None)
        return
    slots = (teams - 1) * op.tiles_m.data * op.tiles_n.data * walk.kernel.cluster_ctas * role.count
    values = accumulator.m * accumulator.n
    check_exchange_array(walk, op, op.partials, Element.F32, (slots, values), (TeamSumOp,))
    check_exchange_array(walk, op, op.flags, Element.U32, (slots,), (TeamSumOp,))
    walk.give(op, op.sum, accumulator)


def finished_place(
    walk: RoleWalk, op: Operation, origin: tuple[Index, ...], shape: Sequence[int]
) -> tuple[tuple[Index, ...], tuple[str, ...]]:
    """The first coordinates of a store, and the loops around it, of CTAs and teams that store inside the array; others'
    stores lie past its end and need not be told apart. shape: of the array, in the order of the coordinates."""
    sums = walk.kernel.operations.of(TeamSumOp)
    if not sums:
        return stored_place(walk, op, origin, shape), walk.around
    atoms = [atom for atom in walk.around if any(AFTER + atom in dict(index.terms) for index in origin)]
    kept = kept_in_array(origin, shape, AFTER + atoms[0], sums[0].teams.data) if len(atoms) == 1 else None
    if kept is None or any(atoms[0] in dict(index.terms) for index in kept):
        walk.findings.doubt("teams before the last may store inside the array", op)
        return origin, walk.around
    return stored_place(walk, op, kept, shape), tuple(each for each in walk.around if each != atoms[0])
