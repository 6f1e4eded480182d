"""When two units of a role take tiles in turn, why does the proof of one unit hold for both together?

Tile i is unit i mod 2's. The role is walked as one unit that takes every tile, which is what both do together on the
ring: the walk's wait number p is made by the unit whose tile takes slot p, and so on for releases. Three things are
owed for that:

- Order. The walk's unit has made wait p - 1 when it makes wait p. Here wait p of a tile's first slot is made when the
  other unit has passed its turn on, which it does when it has made all waits of the tile before (checked: nothing after
  `ac.turn.pass` in a tile waits on a ring). By induction over tiles all earlier waits have been made, and a parity
  names no phase but the one meant.
- Barriers of turns. Each counts one arrival a phase. The unit waits there once for each of its tiles and the other
  arrives once for each of its own, in alternation from unit 0 on (unit 0's first wait is for the phase before the
  first, which is over). A parity names one phase only as long as no later one ends before every warp of the unit has
  waited: the next ends after this unit has passed this turn on, which one of its threads does. By then that thread has
  waited for a wgmma of this tile (checked at the pass, for every trip count, from the groups that the walk knows to be
  committed in the tile and to be in flight), and a wgmma runs only once all four warps have come to it, past their
  waits. A unit without a tile neither waits nor passes: with one tile unit 1 does nothing and unit 0's arrival at its
  barrier is left over; with none nothing happens at all. The last arrival of the two is always left over, on memory
  that nobody uses again.
- Parts of tiles (`steps.stream`). Where a role goes through several such loops, heads, the tail and whole tiles, the
  count goes on from one to the next, so "tile i" is item i of all of them; each kind takes its own number of slots, at
  least two.
- Circles. A turn passed on in tile i is waited for in tile i + 1. In the program that is walked, of one unit that takes
  every tile, the pass stands before the wait: the edge goes where those along a role's program go, and so does that
  from a unit's tile i to its tile i + 2. What `liveness` shows of that program holds of both units.

In a cluster every CTA's role is walked so, each with barriers of turns of its own, on which only its own threads arrive
and wait (checked: nothing else uses them). The CTAs take the same tiles of the cluster one after the other, as many
each, and what they owe one another is said of waits, fills and releases of a ring by number, as of roles of one unit.
A circle that passes through another CTA's turns is one of roles as well, since all CTAs run the same ones.

What belongs to one unit (bulk groups, wgmma groups, staging, its named barrier) sees the body run some number of times
in a row, which is what the walk proves for any number. Each slot is released by one unit. Since nothing that a unit
stores may depend on its own number, different tiles are told apart by their tile numbers alone.

Not handled: more or fewer units than two, other work on rings in such a role.
Checked by: tests/contract/typestate/steps/test_turn_steps.py; `token_machine` runs both units at boundary counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.ir import Operation

from tilewright.contract.typestate.claims import TurnClaim
from tilewright.contract.typestate.polynomial import Polynomial, variable
from tilewright.contract.typestate.program import Kernel
from tilewright.contract.typestate.summary import RoleSummary
from tilewright.contract.typestate.token import UNIT, Cursor, Token
from tilewright.contract.typestate.walk import RoleWalk, Turns
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.stream import TurnStreamPartOp

UNITS = 2
LEAST_SLOTS = 2
"""A tile of one has no wgmma that was waited for when its last slot has been, so its turn cannot be passed on."""
_TURNS = (ac.TurnTilesOp, ac.TurnGroupTilesOp, TurnStreamPartOp)
_ON_RINGS = (
    ac.BarrierWaitOp,
    ac.ArriveOp,
    ac.ArriveExpectOp,
    ac.CopyIssueOp,
    ac.WgmmaIssueOp,
    ac.ClusterReduceOp,
    ac.TilesOp,
    ac.GroupTilesOp,
)


def turn_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it passes a turn on."""
    if not isinstance(op, ac.TurnPassOp):
        return False
    walk.require_unit(op, op.unit)
    block = op.parent_block()
    loop = block.parent_op() if block is not None else None
    if not isinstance(loop, Turns) or loop.turns is not op.turns:
        walk.findings.doubt("passes on a turn that is none of the loop it stands in", op)
        return True
    _all_warps_have_come(walk, op, loop)
    return True


def _all_warps_have_come(walk: RoleWalk, op: ac.TurnPassOp, loop: Turns) -> None:
    """Has the thread that passes the turn on waited for a wgmma of this tile, so that every warp has taken the turn?"""
    state, head = walk.state, walk.heads[loop]
    begun = state.count("groups") - head.count("groups")
    # Groups committed in the tile, less those that may be in flight and the one that must be done.
    if state.groups_in_flight is None or not (begun - state.groups_in_flight - 1).is_never_negative(walk.kernel.minima):
        walk.findings.doubt(
            "passes a turn on before a wgmma of its tile is waited for: a warp may not have taken the turn yet, and "
            "finds the parity of a later one",
            op,
        )


def take_turns(walk: RoleWalk, op: Turns, loop: Callable[[], None]) -> None:
    """Walk the loop by `loop`, and check what the argument above rests on before and after."""
    entry = [walk.look(op, value) for value in op.carried]
    _enter(walk, op)
    loop()
    _leave(walk, op, entry)


def _slots(op: Turns) -> str:
    """The symbol that is the number of slots of what is taken in turn."""
    return op.slices.data if isinstance(op, TurnStreamPartOp) else op.skipped.data


def _enter(walk: RoleWalk, op: Turns) -> None:
    doubt = walk.findings.doubt
    operations = walk.role.operations
    loops = operations.of(*_TURNS)
    parts = operations.of(TurnStreamPartOp)
    if walk.role.unit != "warpgroup128" or walk.role.count != UNITS:
        doubt(f"tiles are taken in turn by {walk.role.count} units of {walk.role.unit}, not two warpgroups", op)
    if walk.around or op.parent_op() is not walk.role.op:
        doubt("a loop over tiles in turn inside another loop", op)
    _check_barriers(walk, op)
    for other in operations.of(*_TURNS, *_ON_RINGS, ac.SplitIndexOp):
        if isinstance(other, Turns):
            if other is not op and (not parts or other.turns is not op.turns):
                doubt("a second loop over tiles in turn in one role", other)
            continue
        inside = _is_inside(other, loops)
        if isinstance(other, _ON_RINGS) and not inside:
            doubt("works on a ring outside the loop in which units take turns", other)
        if isinstance(other, ac.TilesOp | ac.GroupTilesOp | ac.ClusterReduceOp | ac.SplitIndexOp) and inside:
            doubt("inside a loop in which units take turns", other)
    if walk.kernel.minima.get(_slots(op), 0) < LEAST_SLOTS:
        doubt(f"tiles of fewer than {LEAST_SLOTS} slots: a turn may come again before every warp has taken it", op)
    if _slots(op) not in walk.kernel.symbols:
        doubt(f"{_slots(op)!r} is no symbol of the kernel", op)
    passes = [other for other in operations.of(ac.TurnPassOp) if _is_inside(other, (op,))]
    if len(passes) != 1 or passes[0].parent_block() is not op.body.block:
        doubt("a tile whose turn is not passed on exactly once, in the loop's own body", op)
        return
    waiting = {at for wait in operations.of(ac.BarrierWaitOp) for at in (wait, *_around(wait))}
    later = passes[0].next_op
    while later is not None:
        if later in waiting:
            doubt("waits for a slot after the turn was passed on", later)
        later = later.next_op


def _around(op: Operation) -> Iterator[Operation]:
    """The operations that an operation stands in."""
    around = op.parent_op()
    while around is not None:
        yield around
        around = around.parent_op()


def _is_inside(op: Operation, loops: Sequence[Operation]) -> bool:
    return any(around is loop for around in _around(op) for loop in loops)


def _check_barriers(walk: RoleWalk, op: Turns) -> None:
    """The barriers of turns: one of each side, one arrival a phase, used by nothing else."""
    ring = walk.ring_of(op, op.turns)
    if ring is None:
        return
    before = Polynomial() if walk.summary.turns is None else walk.summary.turns[1]
    walk.summary.turns = ring, before + variable(op.symbol.data)
    if (ring.stages, ring.full_arrivals, ring.empty_arrivals) != (1, 1, 1):
        walk.findings.doubt(f"barriers of turns of {ring.stages} stages that count other arrivals than one", op)
    for use in op.turns.uses:
        user = use.operation
        loop = user if isinstance(user, Turns) else user.parent_op()
        if isinstance(user, ac.BarrierInitOp) or (isinstance(loop, Turns) and loop.parent_op() is walk.role.op):
            continue
        walk.findings.doubt("uses the barriers of turns of a loop over tiles", user)
    if any(buffer.ring == ring.name for buffer in walk.kernel.buffers.values()):
        walk.findings.doubt(f"a buffer under {ring.name}, which are barriers of turns", op)


def _leave(walk: RoleWalk, op: Turns, entry: Sequence[Token | None]) -> None:
    """How far has each tile moved what is carried? entry: tokens before the loop."""
    taken = Polynomial()
    for earlier in walk.role.op.body.block.ops:
        if earlier is op:
            break
        if isinstance(earlier, Turns):
            taken = taken + variable(earlier.symbol.data) * variable(_slots(earlier))
    moved = variable(op.symbol.data) * variable(_slots(op))
    for before, result in zip(entry, op.outputs, strict=False):
        after = walk.env.get(result)
        if not isinstance(before, Cursor) or not isinstance(after, Cursor) or before.side != "full":
            walk.findings.doubt("a loop in which units take turns carries something that is no reader's cursor", op)
        elif before.position != taken or after.position != taken + moved:
            walk.findings.doubt(
                f"a cursor moves by {after.position - before.position} from {before.position}; tiles take "
                f"{_slots(op)} slots each, from number {taken} on",
                op,
            )
    for place in walk.summary.places:
        if any(atom == UNIT for index in place.origin for atom, _ in index.terms):
            walk.findings.doubt("what is stored depends on which unit's turn it is", place.op)


def turn_claims(kernel: Kernel, summaries: Sequence[RoleSummary]) -> tuple[TurnClaim, ...]:
    """What a run of the text must show of barriers of turns."""
    return tuple(
        TurnClaim((ring.address, ring.address + kernel.facts.limit("mbarrier.bytes")), tiles)
        for ring, tiles in (summary.turns for summary in summaries if summary.turns is not None)
    )
