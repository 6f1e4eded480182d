"""May the CTAs of a cluster add up their accumulators here: does everyone take part, in order, with nothing held?

`ac.cluster.reduce` is a rendezvous of one role's units in all CTAs of a cluster. What has to be shown of it:
- It has a ring and a buffer of its own, of one slot, and room for what all bring. The empty side counts an arrival from
  each unit of each CTA, the full side one from each unit of its own CTA, which announces what comes for it. Then the
  protocol that the operation stands for is closed: a unit writes a part when all units of the cluster have released the
  slot, and reads when all that was announced has come; each unit's n-th use is at position n.
- Every CTA of the cluster makes it equally often: all loops around it are those of tiles, which a cluster's CTAs take
  together, or of symbols.
- A CTA that gets no part of the sum, where there are fewer parts than CTAs, stores nothing: the rows of its stores lie
  past the array's (`stored_place`).
- No circle of waits passes through it. Where it stands, the role has released every slot of other rings that it has
  waited for, so what each CTA must do before its n-th rendezvous asks nothing of what comes after it; and no CTA waits
  for another in any other way (no multicast, no release to peers). By induction on n all units arrive.

Not handled: several rendezvous by different roles, clusters that also share loads, groups of rows. All are doubts.
Source: PTX ISA, mbarrier, memory consistency model. Checked by: tests/lower/test_split_steps.py, and by
`token_machine`, which runs it with counters and phases.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from tilewright.contract.typestate.claims import RingClaim
from tilewright.contract.typestate.polynomial import Polynomial
from tilewright.contract.typestate.program import Buffer, Kernel, Ring, integers, type_of
from tilewright.contract.typestate.summary import RoleSummary
from tilewright.contract.typestate.token import Cursor, Index, Settled, describe
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.split import SplitPartOp, contributions

SPLIT = "split"
"""The atom that is a CTA's place along z in its cluster."""
PART = "part of the sum"
SPARE = "CTAs past the parts"
"""The atoms that are it modulo the number of parts of a sum, and divided by it."""
_BYTES = 4
"""Of one float32."""
_FURTHEST = 1 << 29
"""Rows by which a store may be moved past an array's end, by each of two causes: coordinates are compared as 32-bit
integers with a sign."""
_QUAD_COLUMNS = 8
"""Columns of the fragment whose values of one row lie in one thread's four registers."""


def split_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it concerns CTAs that share a tile."""
    match op:
        case ac.SplitIndexOp():
            walk.give(op, op.result, Index(((SPLIT, 1),)))
        case SplitPartOp():
            walk.give(op, op.part, Index(((PART, 1),)))
            walk.give(op, op.spare, Index(((SPARE, 1),)))
        case ac.ClusterReduceOp():
            _reduce(walk, op)
        case _:
            return False
    return True


def _reduce(walk: RoleWalk, op: ac.ClusterReduceOp) -> None:
    cursor, accumulator = walk.take(op, op.cursor), walk.take(op, op.accumulator)
    kind = type_of(op.sum)
    columns = kind.n.data if isinstance(kind, ac.AccumulatorType) else 0
    ring = walk.ring_of(op, op.ring)
    _check_participants(walk, op, ring)
    _check_room(walk, op, ring, accumulator, columns)
    _check_nothing_held(walk, op)
    if ring is None or not isinstance(cursor, Cursor):
        walk.wrong(op, cursor)
        walk.give(op, op.following, None)
    else:
        event = f"reduce:{ring.name}"
        done = walk.state.count(event)
        if cursor.ring != ring.name:
            walk.report("MB007", op, f"waits on ring {ring.name} with {describe(cursor)}")
        elif cursor.position != done:
            walk.report("MB006", op, f"use number {done} of ring {ring.name} is made at position {cursor.position}")
        walk.state.step(event)
        if walk.recording:
            walk.summary.reductions.setdefault(ring.name, op)
        walk.give(op, op.following, Cursor(cursor.ring, cursor.side, done + 1))
    walk.state.fenced = False
    if isinstance(accumulator, Settled):
        walk.give(op, op.sum, Settled(accumulator.m, columns))
        return
    if accumulator is not None:
        walk.report("WG003", op, f"sums {describe(accumulator)}")
    walk.give(op, op.sum, None)


def _check_participants(walk: RoleWalk, op: ac.ClusterReduceOp, ring: Ring | None) -> None:
    kernel, units = walk.kernel, walk.role.count
    walk.require_unit(op, op.unit)
    if walk.role.unit != "warpgroup128":
        walk.findings.doubt(f"in a role of {walk.role.unit}", op)
    x, y, z = integers(kernel.op.cluster)
    if z < 2 or x * y != 1:
        # Others would share tiles in ways that this step knows nothing of.
        walk.findings.doubt(f"a cluster of {x} x {y} x {z} CTAs, which do not all share one tile", op)
    first = op.first_barrier.data
    if first < 1 or first + units > walk.kernel.facts.limit("cta.named_barriers"):
        walk.report("NB001", op, f"barriers {first} to {first + units - 1} for {units} units")
    if walk.recording:
        for unit in range(units):
            walk.summary.named_barriers.setdefault(first + unit, {}).setdefault(unit, op)
    # A barrier of the unit: what its first thread knows of bulk stores, all threads know after it.
    walk.state.bulk_unit = walk.state.bulk_issuer
    if ring is None:
        return
    for side, count, wanted in (
        ("full", ring.full_arrivals, units),
        ("empty", ring.empty_arrivals, units * kernel.cluster_ctas),
    ):
        if count != wanted:
            walk.report(
                "MB008" if side == "full" else "MB009",
                op,
                f"{side} barriers of ring {ring.name} count {count} arrivals; {wanted} units arrive",
                against=ring.op,
            )
    if ring.stages != 1:
        walk.findings.doubt(f"ring {ring.name} of {ring.stages} stages for a rendezvous", op)


def _check_room(walk: RoleWalk, op: ac.ClusterReduceOp, ring: Ring | None, accumulator: object, columns: int) -> None:
    """columns: of a part."""
    buffer = walk.buffer_of(op, op.buffer)
    if buffer is None or ring is None:
        return
    name = ring.name
    if buffer.ring != name:
        walk.report("MB007", op, f"writes buffer {buffer.name} of {buffer.ring or 'no ring'} under ring {name}")
    if any(use.operation is not op for use in op.buffer.uses) or any(
        not isinstance(use.operation, ac.ClusterReduceOp | ac.BarrierInitOp | ac.CursorStartOp) for use in op.ring.uses
    ):
        walk.findings.doubt(f"ring {name} or buffer {buffer.name} is used for something else besides", op)
    if buffer.swizzle != "none" or buffer.instances != 1 or buffer.slots != 1:
        walk.findings.doubt(f"partial sums in {buffer.instances} x {buffer.slots} slots, swizzle {buffer.swizzle}", op)
    if not isinstance(accumulator, Settled):
        return
    ctas, parts = walk.kernel.cluster_ctas, _parts(walk.kernel)
    if columns < 1 or columns % _QUAD_COLUMNS or accumulator.n != parts * columns or not parts:
        walk.findings.doubt(f"{accumulator.n} columns for {ctas} CTAs in {parts} parts of {columns}", op)
    needed = walk.role.count * accumulator.m * columns * _BYTES * contributions(ctas, parts)
    # The emitter divides the slot among units by its size, so that more room is as wrong as less.
    if buffer.slot_bytes != needed:
        walk.report(
            "AL004", op, f"partial sums take {needed} bytes; a slot of buffer {buffer.name} has {buffer.slot_bytes}"
        )


def _check_nothing_held(walk: RoleWalk, op: ac.ClusterReduceOp) -> None:
    if any(isinstance(around, ac.GroupTilesOp) for around in _around(op)):
        walk.findings.doubt("a rendezvous of a cluster whose CTAs may take different numbers of tiles", op)
    for other in walk.kernel.rings:
        waited = walk.state.count(f"wait:{other}:full")
        if waited != walk.state.count(f"release:{other}"):
            walk.findings.doubt(f"a rendezvous while slots of ring {other} are held", op)
        if walk.state.count(f"wait:{other}:empty") != Polynomial():
            walk.findings.doubt(f"a rendezvous by a role that fills ring {other}", op)
    operations = walk.kernel.operations
    if any(inner.multicast.data > 1 for inner in operations.of(ac.CopyIssueOp)) or any(
        inner.peers.data > 1 for inner in operations.of(ac.ArriveOp)
    ):
        walk.findings.doubt("a rendezvous beside loads or releases that CTAs share", op)


def _around(op: Operation) -> list[Operation]:
    found: list[Operation] = []
    parent = op.parent_op()
    while parent is not None:
        found.append(parent)
        parent = parent.parent_op()
    return found


def split_atoms(kernel: Kernel) -> dict[str, int]:
    """How many values the atoms take that tell stores of CTAs along z apart. The spare atom is none of them: see
    `stored_place`."""
    extents = integers(kernel.op.cluster)
    if len(extents) != 3:
        return {}
    parts = _parts(kernel)
    return {SPLIT: extents[2]} if parts == kernel.cluster_ctas else {PART: parts}


def _parts(kernel: Kernel) -> int:
    """Of every tile's sum: as many as CTAs of the cluster, unless an operation says that there are fewer; 0, which fits
    no sum, where operations disagree or say that there are more."""
    ctas = kernel.cluster_ctas
    stated = {op.parts.data for op in kernel.operations.of(SplitPartOp)}
    if not stated:
        return ctas
    return next(iter(stated)) if len(stated) == 1 and all(0 < each <= ctas for each in stated) else 0


def stored_place(walk: RoleWalk, op: Operation, origin: tuple[Index, ...], shape: Sequence[int]) -> tuple[Index, ...]:
    """The first coordinates of what a CTA stores into an array, where its sums have a part for it; CTAs that get none
    must store past the array's end, so that stores that are no stores need not be told apart.

    shape: of the array, in the order of the coordinates; what lies past it is not stored.
    """
    extents = integers(walk.kernel.op.cluster)
    if len(extents) != 3 or _parts(walk.kernel) == walk.kernel.cluster_ctas:
        return origin
    kept = kept_in_array(origin, shape, SPARE, -(-extents[2] // max(1, _parts(walk.kernel))))
    if kept is None:
        walk.findings.doubt("CTAs that get no part of a sum may store inside the array", op)
        return origin
    return kept


def kept_in_array(origin: tuple[Index, ...], shape: Sequence[int], atom: str, values: int) -> tuple[Index, ...] | None:
    """The first coordinates of a store without an atom that moves it past the array's end whenever it is not 0; None
    where it may not do so. shape: of the array; values: how many the atom takes."""
    kept: list[Index] = []
    moved = 0
    for index, extent in zip(origin, shape, strict=True):
        apart = dict(index.terms).get(atom, 0)
        # Everything else only moves it further.
        forward = index.constant >= 0 and all(factor >= 0 for _, factor in index.terms)
        moved += apart >= extent and forward and apart * (values - 1) <= _FURTHEST
        kept.append(Index(tuple(term for term in index.terms if term[0] != atom), index.constant))
    return tuple(kept) if moved == 1 else None


def meeting_claims(kernel: Kernel, summaries: Sequence[RoleSummary]) -> tuple[RingClaim, ...]:
    """What a run of the text must show of each ring of a rendezvous: in every phase the slot's bytes, and nothing where
    there is no part for a CTA."""
    claims: list[RingClaim] = []
    parts = _parts(kernel)
    for summary in summaries:
        for name, op in summary.reductions.items():
            ring, buffer = kernel.rings[name], kernel.declared.get(op.buffer)
            if isinstance(buffer, Buffer):
                slot = (buffer.address, buffer.address + buffer.slot_bytes)
                claims.append(
                    RingClaim(
                        name=name,
                        stages=1,
                        full_addresses=(ring.address,),
                        empty_addresses=(ring.address + kernel.facts.limit("mbarrier.bytes"),),
                        full_arrivals=ring.full_arrivals,
                        empty_arrivals=ring.empty_arrivals,
                        transaction_bytes=buffer.slot_bytes,
                        fills=summary.total(f"reduce:{name}"),
                        slot_ranges=((slot,),),
                        receivers=parts if parts < kernel.cluster_ctas else None,
                    )
                )
    return tuple(claims)
