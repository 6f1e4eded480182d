"""How teams of CTAs share the contracted axis of a tile, and add up what each has of it through memory.

Of t teams of s CTAs each, CTA r of team q takes slices q s + r, q s + r + t s, ...; see `ir.ac.team` for who finishes a
tile. A slot of partial sums has four values of every thread of the unit side by side, so that the unit's accesses are
whole lines.

The edges, by the ISA's memory model, from a value written by thread t of one CTA to its reader t' of another:
- t's st.global comes before its bar.sync, which orders it before what the unit's first thread does next: st.release of
  the flag, at the scope of the GPU, which includes both CTAs;
- one thread of the finishing unit reads that 1 by ld.acquire at the same scope, so the two synchronize; its bar.sync
  orders it before the loads of t'. Causality order is transitive, so the store comes before the load.
- The flag is set back by the thread that has read the 1, which alone waits for it; the next 1 comes with the next
  launch, whose accesses all come after the end of this one (a kernel that begins early waits: griddepcontrol.wait).
A slot is written once in a launch, so nothing has to tell its writer that it was read.

Source: PTX ISA, ld.acquire, st.release, memory consistency model (causality order). Checked by:
tests/lower/distribution/test_team_sum.py, and by `contract`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import SSAValue

from tilewright.base.element import Element
from tilewright.base.plan import Buffer
from tilewright.base.size import Size, number_of
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.split import SPARE_ROWS
from tilewright.ir.ac.team import TeamAfterOp, TeamSumOp
from tilewright.ir.split_sum import TeamSum
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import buffers
from tilewright.lower.build import INDEX, Build, affine
from tilewright.lower.distribution.split_product import Share
from tilewright.lower.distribution.stream_product import PartialSums
from tilewright.lower.ptx.copies.global_access import displaced_address
from tilewright.lower.ptx.lowering import Lowering
from tilewright.lower.ptx.places import AccumulatorPlace, GlobalPlace, IndexPlace

_FIRST_BARRIER = 1
"""Named barriers of the consumers' units: the same as their staging uses, at other times."""
_QUAD = 4
"""Values that one access moves: 16 bytes."""
_THREAD_BYTES = 16
_THREADS = 128
_QUAD_BYTES = _THREAD_BYTES * _THREADS
"""Of one quad of every thread of a warpgroup."""
_FLAG_BYTES = 4
_WARP = 32
_WARPS = 4


def team_workspaces(program: tile.ProgramOp, t: TeamSum, counts: Sequence[Size]) -> tuple[Buffer, ...]:
    """The arrays through which teams hand over partial sums. counts: of tiles along rows and columns."""
    taken = {buffer.name for buffer in buffers(program)}
    names = [_free(name, taken) for name in ("team_sums", "team_flags")]
    tiles_m, tiles_n = (number_of(count) for count in counts[:2])
    slots = (t.teams - 1) * tiles_m * tiles_n * t.ctas * t.units
    values = t.rows * t.columns
    return (
        Buffer(names[0], Element.F32, (slots, values), (values, 1), "workspace"),
        Buffer(names[1], Element.U32, (slots,), (1,), "workspace", zeroed=True),
    )


def _free(name: str, taken: set[str]) -> str:
    return name if name not in taken else _free(f"{name}_", taken)


def share_in_tile(build: Build, t: TeamSum, share: SSAValue | None, team: SSAValue | None) -> SSAValue | None:
    """Which of the slices of a tile are this CTA's. share: which CTA of its team it is, None where it is alone; team:
    which one goes through the tile, None where there is one."""
    if team is None:
        return share
    return affine(build, [(team, t.ctas), *([(share, 1)] if share is not None else [])], 0)


def stored_by_last(build: Build, t: TeamSum, stored: Share, team: SSAValue | None) -> Share:
    """What is stored of the tile: by the last team what `stored` says, by others nothing."""
    if team is None:
        return stored
    op = TeamAfterOp.create(operands=[team], properties={"teams": IntAttr(t.teams)}, result_types=[INDEX])
    return Share(stored.columns, [*stored.rows, (build.value(op), SPARE_ROWS)])


def sum_of_teams(
    build: Build,
    t: TeamSum,
    sums: PartialSums,
    counts: Sequence[Size],
    accumulator: SSAValue,
    place: tuple[SSAValue, SSAValue, SSAValue],
    unit: SSAValue,
) -> SSAValue:
    """The tile's sum, in the last team's CTAs. counts: tiles along rows and columns; place: the tile's row and column,
    and the team."""
    row, column, team = place
    op = TeamSumOp.create(
        operands=[accumulator, sums.partials, sums.flags, row, column, team, unit],
        properties={
            "first_barrier": IntAttr(_FIRST_BARRIER),
            "teams": IntAttr(t.teams),
            "tiles_m": IntAttr(number_of(counts[0])),
            "tiles_n": IntAttr(number_of(counts[1])),
        },
        result_types=[accumulator.type],
    )
    return build.value(op)


# ---------------------------------------------------------------- emission


def lower_team_after(lowering: Lowering, op: TeamAfterOp) -> None:
    after = lowering.text.into("b32", "sub.u32", op.teams.data - 1, lowering.index(op.team))
    lowering.places[op.after] = IndexPlace(after)


def lower_team_sum(lowering: Lowering, op: TeamSumOp) -> None:
    """Write the slot, meet, set the flag; or wait for the flags and set them back, meet, load and add."""
    text = lowering.text
    accumulator = lowering.place(op.accumulator)
    assert isinstance(accumulator, AccumulatorPlace)
    quads = _quads(accumulator)
    team, takes, done = lowering.index(op.team), text.label("takes_sums"), text.label("took_sums")
    slots_of_team, own = _slots(lowering, op)
    flags, partials = _array(lowering, op.flags), _array(lowering, op.partials)
    slot_bytes = len(quads) * _QUAD_BYTES
    last = text.into("pred", "setp.eq.u32", team, op.teams.data - 1)
    text.emit("bra", takes, guard=last)

    slot = text.into("b32", "mad.lo.u32", team, slots_of_team, own)
    address = displaced_address(text, partials, slot, slot_bytes)
    address = displaced_address(text, address, lowering.warpgroup_thread, _THREAD_BYTES)
    for number, quad in enumerate(quads):
        text.emit("st.global.v4.f32", f"[{address}+{number * _QUAD_BYTES}]", "{" + ", ".join(quad) + "}")
    _meet(lowering, op)
    flag = displaced_address(text, flags, slot, _FLAG_BYTES)
    text.emit("st.release.gpu.global.u32", f"[{flag}]", text.into("b32", "mov.u32", 1), guard=lowering.is_first_thread)
    text.emit("bra", done)

    text.place(takes)
    _await(lowering, op, flags, slots_of_team, own)
    _meet(lowering, op)
    loaded: list[list[list[str]]] = []
    for other in range(op.teams.data - 1):
        theirs = text.into("b32", "mad.lo.u32", slots_of_team, other, own)
        address = displaced_address(text, partials, theirs, slot_bytes)
        address = displaced_address(text, address, lowering.warpgroup_thread, _THREAD_BYTES)
        loaded.append([_loaded(lowering, address, number) for number in range(len(quads))])
    for terms in loaded:
        for quad, values in zip(quads, terms, strict=True):
            for total, term in zip(quad, values, strict=True):
                text.emit("add.rn.f32", total, total, term)
    text.place(done)
    lowering.places[op.sum] = accumulator


def _await(lowering: Lowering, op: TeamSumOp, flags: str, slots_of_team: str, own: str) -> None:
    """Warp w waits for the flags of teams w, w + 4, ...: one after the other, beside the other warps."""
    text = lowering.text
    lane = text.into("b32", "and.b32", lowering.warpgroup_thread, _WARP - 1)
    warp = text.into("b32", "shr.u32", lowering.warpgroup_thread, _WARP.bit_length() - 1)
    idle = text.into("pred", "setp.ne.u32", lane, 0)
    polled = text.label("polled_all")
    text.emit("bra", polled, guard=idle)
    for first in range(0, op.teams.data - 1, _WARPS):
        other = text.into("b32", "add.u32", warp, first) if first else warp
        text.emit("bra", polled, guard=text.into("pred", "setp.ge.u32", other, op.teams.data - 1))
        slot = text.into("b32", "mad.lo.u32", other, slots_of_team, own)
        flag = displaced_address(text, flags, slot, _FLAG_BYTES)
        poll = text.label("poll")
        text.place(poll)
        value = text.into("b32", "ld.acquire.gpu.global.u32", f"[{flag}]")
        text.emit("bra", poll, guard=text.into("pred", "setp.ne.u32", value, 1))
        text.emit("st.relaxed.gpu.global.u32", f"[{flag}]", text.into("b32", "mov.u32", 0))
    text.place(polled)


def _slots(lowering: Lowering, op: TeamSumOp) -> tuple[str, str]:
    """Registers: how many slots each team has, and which of them is this unit's of this tile."""
    text = lowering.text
    role = op.parent_op()
    while not isinstance(role, ac.RoleOp):
        assert role is not None
        role = role.parent_op()
    units = role.execution.count.data
    tiles_n = text.into("b32", "mov.u32", op.tiles_n.data)
    tiles = text.into("b32", "mul.lo.u32", tiles_n, text.into("b32", "mov.u32", op.tiles_m.data))
    number = text.into("b32", "mad.lo.u32", lowering.index(op.m), tiles_n, lowering.index(op.n))
    if lowering.cluster_size > 1:
        rank = text.into("b32", "mov.u32", "%cluster_ctaid.z")
        number = text.into("b32", "mad.lo.u32", number, lowering.cluster_size, rank)
    number = text.into("b32", "mad.lo.u32", number, units, lowering.index(op.unit))
    return text.into("b32", "mul.lo.u32", tiles, lowering.cluster_size * units), number


def _array(lowering: Lowering, value: SSAValue) -> str:
    place = lowering.place(value)
    assert isinstance(place, GlobalPlace)
    return place.register


def _quads(accumulator: AccumulatorPlace) -> list[tuple[str, ...]]:
    """The thread's values by fours, block after block: columns are multiples of eight, of which it has two."""
    values = [value for block in accumulator.blocks for value in block]
    return [tuple(values[first : first + _QUAD]) for first in range(0, len(values), _QUAD)]


def _loaded(lowering: Lowering, address: str, number: int) -> list[str]:
    loaded = [lowering.text.register("f32") for _ in range(_QUAD)]
    lowering.text.emit("ld.global.v4.f32", "{" + ", ".join(loaded) + "}", f"[{address}+{number * _QUAD_BYTES}]")
    return loaded


def _meet(lowering: Lowering, op: TeamSumOp) -> None:
    """All of the unit's threads have come here."""
    number = lowering.text.into("b32", "add.u32", lowering.index(op.unit), op.first_barrier.data)
    lowering.text.emit("bar.sync", number, _THREADS)
