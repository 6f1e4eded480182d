"""Tiles that two CTAs sum together through memory: is every slice summed once, every partial sum taken once?

The first `streamed` tiles are cut at one slice, into a head and a tail. By the definition of `ac.stream_part`, the
owner of tile t is CTA helpers + t, which sums its tail, and CTA t mod helpers sums its head and hands the sum over in
slot t. What has to be shown, for any numbers of tiles and CTAs:

- Coverage. The grid has helpers + streamed CTAs, so each streamed tile has one owner and one helper; its slices are as
  many as head and tail have, of which one begins where the other ends, so each is summed once; whole tiles begin at
  number `streamed`. All roles go through the same parts in the same order: heads, tail, whole tiles.
- Slots. A head's body stores its partial sum once, a tail's adds one once, each in the slot of the loop's own tile and
  of the unit. So each slot is written once and read once in a launch, by units of one number; its flag goes from 0 to 1
  by the one and back to 0 by the other, and all flags are 0 at the end if they were at the beginning. Nothing else
  touches either array. What a tail summed is used for nothing but the addition, so each tile is finished by one CTA.
- Circles. A flag is waited for in tails alone, and set in heads, by one role. What it does before and in its heads
  waits for nothing but roles of its own CTA (no clusters), and by `liveness` for nothing that itself does later, in its
  tail. So no flag is waited for before all heads are handed over, in every CTA; an edge by a flag leads from there to
  tails, and all others stay in one CTA. All CTAs of the grid must be able to run at once, which is an assumption here
  and a property of the launch.

Stores of results of a tail and of a whole tile go to tiles of different numbers in one order, so they are told apart as
those of one loop over tiles are. That order of memory holds between the CTAs is shown of the emitted text, by
`awaited_words` and `global_order`.

Not handled: clusters, batches, groups of rows, several roles that sum. All are doubts.
Checked by: tests/contract/typestate/steps/test_stream_steps.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Block, Operation

from tilewright.base.element import Element
from tilewright.contract.typestate.claims import StreamClaim
from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.places.exchange_arrays import check_exchange_array
from tilewright.contract.typestate.program import Kernel, Role
from tilewright.contract.typestate.run_time_sizes import fixed
from tilewright.contract.typestate.steps.unit_barriers import meet_after_stores
from tilewright.contract.typestate.summary import RoleSummary, StorePlace
from tilewright.contract.typestate.token import Settled, describe
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.stream import PartialAddOp, PartialStoreOp, StreamPartOp, TurnStreamPartOp

ASSUMPTION = "all CTAs of a grid that shares tiles among CTAs can run at once, and its flags are zero at launch"
_SLOT = 2
"""Among the region arguments of a loop over parts: the tile's number."""
_HEADS, _TAIL = "head", "tail"
_Part = StreamPartOp | TurnStreamPartOp
_Exchange = PartialStoreOp | PartialAddOp
_Whole = ac.TilesOp | ac.TurnTilesOp
_PARTS = (StreamPartOp, TurnStreamPartOp)
_WHOLE = (ac.TilesOp, ac.TurnTilesOp)


def parts_of(block: Block) -> list[_Part]:
    """The loops over parts of tiles that stand in a block, in order."""
    return [op for op in block.ops if isinstance(op, _Part)]


# ---------------------------------------------------------------- the kernel


def check_streams(kernel: Kernel, findings: Findings) -> None:
    """Doubt what does not deal each slice of each streamed tile out once."""
    parts = kernel.operations.of(*_PARTS)
    exchanges = kernel.operations.of(PartialStoreOp, PartialAddOp)
    whole = kernel.operations.of(*_WHOLE)
    if not parts:
        for op in exchanges:
            findings.doubt("a partial sum outside any part of a tile", op)
        for op in whole:
            if op.first:
                findings.doubt(f"tiles before number {op.first} are nobody's", op)
        return
    findings.assume(ASSUMPTION)
    if kernel.cluster_ctas != 1:
        findings.doubt("tiles cut into parts in a cluster", parts[0])
    for role in kernel.roles:
        _check_role(role, findings)
    _check_numbers(kernel, parts, whole, findings)
    summing = {op.parent_op() for op in exchanges}
    roles = {part.parent_op() for part in summing if part is not None}
    if len(roles) != 1 or len(exchanges) != 2 or {type(op) for op in exchanges} != {PartialStoreOp, PartialAddOp}:
        findings.doubt(
            f"{', '.join(op.name for op in exchanges)}: one role has to store a partial sum and to add one", parts[0]
        )


def _check_role(role: Role, findings: Findings) -> None:
    """A role that goes through tiles goes through heads, the tail and whole tiles, in its own body and this order."""
    loops = role.operations.of(*_PARTS, *_WHOLE, ac.GroupTilesOp, ac.TurnGroupTilesOp)
    kinds = [op.part.data if isinstance(op, _Part) else "whole" for op in loops]
    if not loops:
        return
    if kinds != [_HEADS, _TAIL, "whole"] or any(op.parent_op() is not role.op for op in loops):
        findings.doubt(f"goes through {', '.join(kinds)} of tiles, not heads, the tail and whole tiles", role.op)
    for op in loops:
        if isinstance(op, ac.GroupLoop) or (isinstance(op, _Whole) and op.batch is not None):
            findings.doubt("tiles of groups or of several matrices beside parts of tiles", op)


def _check_numbers(kernel: Kernel, parts: Sequence[_Part], whole: Sequence[_Whole], findings: Findings) -> None:
    """All loops speak of the same tiles, cut at one slice and dealt out to as many CTAs as there are."""
    first = parts[0]
    streamed, helpers = first.streamed.data, first.helpers.data
    ctas = fixed(kernel.op.grid, kernel.op, findings)[0]
    tiles = first.tiles_m.data * first.tiles_n.data
    if helpers < 1 or streamed < 1 or streamed > tiles or helpers + streamed != ctas:
        findings.doubt(f"{streamed} of {tiles} tiles cut, for {helpers} helpers, by {ctas} CTAs", first)
    order = _order(first)
    for op in (*parts, *whole):
        if _order(op) != order:
            findings.doubt("goes through the tiles in another order than another role", op)
    for op in whole:
        if op.first != streamed:
            findings.doubt(f"whole tiles from number {op.first} on, of which {streamed} are cut", op)
    symbols = {(op.part.data, op.symbol.data, op.slices.data, op.first_slice.data) for op in parts}
    named = {part: rest for part, *rest in symbols}
    if len(symbols) != 2 or named.keys() != {_HEADS, _TAIL}:
        findings.doubt("roles differ in what the parts of a tile are", first)
        return
    if any((op.streamed.data, op.helpers.data) != (streamed, helpers) for op in parts):
        findings.doubt("roles differ in which tiles are cut, and for whom", first)
    (_, head, head_begin), (_, tail, tail_begin) = named[_HEADS], named[_TAIL]
    counts = [str(name) for name in (named[_HEADS][0], head, named[_TAIL][0], tail)]
    if len(set(counts)) != len(counts) or any(name not in kernel.symbols for name in counts):
        findings.doubt(f"parts and slices are counted by {', '.join(counts)}, not by four symbols of the kernel", first)
        return
    slices = {kernel.symbols.get(name) for name in _slices_of_whole_tiles(whole)}
    if slices != {kernel.symbols[str(head)] + kernel.symbols[str(tail)]}:
        findings.doubt(f"{head} and {tail} slices do not make up a tile of {slices}", first)
    if (head_begin, tail_begin) not in ((0, kernel.symbols[str(head)]), (kernel.symbols[str(tail)], 0)):
        findings.doubt(f"parts of a tile begin at slices {tail_begin} and {head_begin}", first)
    for op in parts:
        if any(isinstance(each, ac.LoopOp) and each.symbol != op.slices for each in op.body.block.ops):
            findings.doubt(f"loops over other than the {op.slices.data} slices of a part", op)
    claim = stream_claim(kernel)
    if claim is not None and (kernel.symbols[claim.heads], kernel.symbols[claim.tails]) != _most(claim, ctas):
        findings.doubt(f"{claim.heads} and {claim.tails} are not what a CTA has at most", first)


def _most(claim: StreamClaim, ctas: int) -> tuple[int, int]:
    own = [claim.symbols(cta) for cta in range(ctas)]
    return max(each[claim.heads] for each in own), max(each[claim.tails] for each in own)


def _order(op: _Part | _Whole) -> tuple[object, ...]:
    return op.tiles_m, op.tiles_n, op.raster_group.data, op.order


def _slices_of_whole_tiles(whole: Sequence[_Whole]) -> set[str]:
    """Symbols of the loops over slices inside whole tiles."""
    return {inner.symbol.data for op in whole for inner in op.body.block.ops if isinstance(inner, ac.LoopOp)}


def stream_claim(kernel: Kernel) -> StreamClaim | None:
    """What a run of the text must show of each CTA's heads and tails; None where no tile is cut."""
    for op in kernel.operations.of(*_PARTS):
        block = op.parent_block()
        names = {each.part.data: each.symbol.data for each in (parts_of(block) if block is not None else [])}
        if names.keys() == {_HEADS, _TAIL}:
            return StreamClaim(names[_HEADS], names[_TAIL], op.streamed.data, op.helpers.data)
    return None


# ---------------------------------------------------------------- the exchange


def stream_step(walk: RoleWalk, op: Operation) -> bool:
    """Interpret `op` if it exchanges a partial sum."""
    match op:
        case PartialStoreOp():
            _exchange(walk, op, _HEADS)
        case PartialAddOp():
            accumulator = _exchange(walk, op, _TAIL)
            if any(use.operation is not op for use in op.accumulator.uses):
                walk.findings.doubt("what a tail has summed is used besides, without what its helper has", op)
            walk.give(op, op.sum, accumulator)
        case _:
            return False
    return True


def _exchange(walk: RoleWalk, op: _Exchange, part: str) -> Settled | None:
    """Store or add a partial sum; the accumulator."""
    doubt, role = walk.findings.doubt, walk.role
    accumulator = walk.take(op, op.accumulator)
    walk.require_unit(op, op.unit)
    if role.unit != "warpgroup128":
        doubt(f"in a role of {role.unit}", op)
    block = op.parent_block()
    loop = block.parent_op() if block is not None else None
    if not isinstance(loop, _Part) or loop.part.data != part:
        doubt(f"not in the body of a loop over {part}s", op)
    elif op.slot is not loop.body.block.args[_SLOT]:
        doubt("in another slot than that of the loop's tile", op)
    slots = 1 if isinstance(loop, TurnStreamPartOp) else role.count
    meet_after_stores(walk, op, op.first_barrier.data)
    streamed = loop.streamed.data if isinstance(loop, _Part) else 0
    if isinstance(accumulator, Settled):
        values = accumulator.m * accumulator.n
        both = (PartialStoreOp, PartialAddOp)
        check_exchange_array(walk, op, op.partials, Element.F32, (streamed * slots, values), both)
        check_exchange_array(walk, op, op.flags, Element.U32, (streamed * slots,), both)
        return accumulator
    if accumulator is not None:
        walk.report("WG003", op, f"exchanges {describe(accumulator)}")
    return None


# ---------------------------------------------------------------- stores of results


def in_one_order(summary: RoleSummary, findings: Findings) -> list[StorePlace]:
    """Stores of results as if tails and whole tiles were one loop's: they are tiles of different numbers."""
    loops = summary.tile_loops
    parts = {op: atoms for op, atoms in loops.items() if isinstance(op, _Part)}
    whole = [atoms for op, atoms in loops.items() if isinstance(op, _Whole)]
    if not parts or len(whole) != 1:
        return summary.places
    (canonical,) = whole
    renamed = {old: new for atoms in parts.values() for old, new in zip(atoms, canonical, strict=False)}
    dropped = {atom for atoms in parts.values() for atom in atoms[len(canonical) :]}
    found: list[StorePlace] = []
    for place in summary.places:
        part = next((op for op, atoms in parts.items() if atoms[0] in place.loops), None)
        if part is None:
            found.append(place)
            continue
        if part.part.data != _TAIL:
            findings.doubt("stores results of a head, whose tile another CTA finishes", place.op)
        if any(atom in dropped for index in place.origin for atom, _ in index.terms):
            findings.doubt("stores where the tile's number or the part's first slice says", place.op)
        origin = tuple(
            replace(index, terms=tuple(sorted((renamed.get(atom, atom), factor) for atom, factor in index.terms)))
            for index in place.origin
        )
        around = tuple(renamed.get(atom, atom) for atom in place.loops if atom not in dropped)
        found.append(replace(place, origin=origin, loops=around, section=part.part.data))
    return found
