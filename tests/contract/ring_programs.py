"""Small programs of roles that wait for, fill and release slots of rings, and what can happen when they run.

A program is a value: `module` makes an `ac` kernel of it, and `violation` runs it at given counts in every
interleaving (in many drawn at random, where there are too many), as mbarriers count, with copies that land at any time.
The run shares no code with what it is compared with: each role is unrolled into a list of actions beforehand.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.contract.gemm_program import INDEX
from xdsl.dialects.builtin import DictionaryAttr, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tilewright.ir.ac import operations as ac
from tilewright.ir.tier import ExecutionAttr, MemoryType, int_array

PART = 1024
"""Bytes of one copy: 8 rows of 64 elements of 16 bits."""


@dataclass(frozen=True)
class Ring:
    """parts: copies that each slot takes, of `PART` bytes."""

    name: str
    stages: int = 2
    full_arrivals: int = 1
    empty_arrivals: int = 1
    parts: int = 1


@dataclass(frozen=True)
class Wait:
    """For the role's next slot on a side of a ring; `tag` names it from here on."""

    ring: str
    side: str
    tag: str


@dataclass(frozen=True)
class Begin:
    """Announce the parts that the role copies."""

    tag: str


@dataclass(frozen=True)
class Copy:
    """Issue the copies announced."""

    tag: str


@dataclass(frozen=True)
class Release:
    tag: str


@dataclass(frozen=True)
class Loop:
    """From `begin` up to the symbol. carried: (tag outside and at the begin of the body, tag at its end)."""

    symbol: str
    body: tuple[Statement, ...]
    begin: int = 0
    carried: tuple[tuple[str, str], ...] = ()


Statement = Wait | Begin | Copy | Release | Loop


@dataclass(frozen=True)
class Role:
    """strides: by ring, (slots from one of its waits to the next, the first slot); parts: by ring, those it copies."""

    name: str
    body: tuple[Statement, ...]
    units: int = 1
    strides: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, "tuple[int, int]"])
    parts: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, "tuple[int, ...]"])

    def stride(self, ring: str) -> tuple[int, int]:
        return self.strides.get(ring, (1, 0))

    def copies(self, ring: str) -> tuple[int, ...]:
        return self.parts.get(ring, (0,))


@dataclass(frozen=True)
class Program:
    """ranged: each iteration of loops over `tiles`, which are then ones over tiles, has its own number K of others;
    apart: a role whose units take these apart, each into as many over `own`, and over `rest`."""

    rings: tuple[Ring, ...]
    roles: tuple[Role, ...]
    minima: Mapping[str, int]
    ranged: bool = False
    apart: str = ""

    def ring(self, name: str) -> Ring:
        return next(ring for ring in self.rings if ring.name == name)


def streams(body: Sequence[Statement]) -> list[tuple[str, str]]:
    """Rings and sides on which statements wait, in order of first use."""
    found: dict[tuple[str, str], None] = {}
    for statement in body:
        if isinstance(statement, Wait):
            found[statement.ring, statement.side] = None
        elif isinstance(statement, Loop):
            found.update(dict.fromkeys(streams(statement.body)))
    return list(found)


# ---------------------------------------------------------------- as a kernel


def _ints(**numbers: int) -> dict[str, Attribute]:
    return {name: IntAttr(number) for name, number in numbers.items()}


def _value(block: Block, op: Operation) -> SSAValue:
    block.add_op(op)
    return op.results[0]


@dataclass
class _Emitter:
    program: Program
    rings: dict[str, SSAValue]
    buffers: dict[str, SSAValue]
    descriptor: SSAValue
    role: Role
    unit: SSAValue
    tags: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    ring_of: dict[str, str] = field(default_factory=dict[str, str])

    def body(
        self, block: Block, statements: Sequence[Statement], cursors: dict[tuple[str, str], SSAValue]
    ) -> dict[tuple[str, str], SSAValue]:
        cursors = dict(cursors)
        for statement in statements:
            match statement:
                case Wait():
                    key = (statement.ring, statement.side)
                    self.ring_of[statement.tag] = statement.ring
                    self.tags[statement.tag] = _value(
                        block,
                        ac.BarrierWaitOp.create(
                            operands=[self.rings[statement.ring], cursors[key]],
                            properties={
                                "side": StringAttr(statement.side),
                                **_ints(invert_parity=int(statement.side == "empty")),
                            },
                            result_types=[ac.PhaseType(StringAttr(statement.ring), StringAttr(statement.side))],
                        ),
                    )
                    cursors[key] = self.advance(block, cursors[key], self.role.stride(statement.ring)[0])
                case Begin():
                    ring = self.ring_of[statement.tag]
                    total = PART * len(self.role.copies(ring))
                    self.tags[statement.tag] = _value(
                        block,
                        ac.ArriveExpectOp.create(
                            operands=[self.tags[statement.tag]],
                            properties=_ints(bytes=total),
                            result_types=[ac.TransactionType(StringAttr(ring), IntAttr(total))],
                        ),
                    )
                case Copy():
                    self.copy(block, statement.tag)
                case Release():
                    block.add_op(ac.ArriveOp.create(operands=[self.tags[statement.tag]], properties=_ints(peers=1)))
                case Loop():
                    cursors = self.loop(block, statement, cursors)
        return cursors

    def advance(self, block: Block, cursor: SSAValue, slots: int) -> SSAValue:
        for _ in range(slots):
            cursor = _value(block, ac.AdvanceOp.create(operands=[cursor], result_types=[cursor.type]))
        return cursor

    def copy(self, block: Block, tag: str) -> None:
        ring, transaction = self.ring_of[tag], self.tags[tag]
        parts = self.role.copies(ring)
        zero = _value(
            block,
            ac.AffineOp.create(properties={"coefficients": int_array([]), **_ints(constant=0)}, result_types=[INDEX]),
        )
        for number, part in enumerate(parts):
            left = PART * (len(parts) - number - 1)
            transaction = _value(
                block,
                ac.CopyIssueOp.create(
                    operands=[self.descriptor, self.buffers[ring], transaction, zero, zero],
                    properties=_ints(offset_bytes=PART * part, rank_offset_bytes=0, box_bytes=PART, multicast=1),
                    result_types=[ac.TransactionType(StringAttr(ring), IntAttr(left))],
                ),
            )
        block.add_op(ac.TransactionCloseOp.create(operands=[transaction]))

    def loop(
        self, block: Block, loop: Loop, cursors: dict[tuple[str, str], SSAValue]
    ) -> dict[tuple[str, str], SSAValue]:
        keys = list(cursors)
        carried = [*(cursors[key] for key in keys), *(self.tags[tag] for tag, _ in loop.carried)]
        types = [value.type for value in carried]
        if self.program.ranged and loop.symbol == "tiles":
            indices = ac.TILE_INDICES
            inner = Block(arg_types=[*([INDEX] * indices), *types])
            op = _tiles(carried, inner)
            row = inner.args[0]
            first = _value(inner, ac.RangeOp.create(operands=[row], properties=dict(RANGE), result_types=[INDEX]))
            if self.program.apart == self.role.name:
                properties = {"symbol": StringAttr("K"), "own": StringAttr("own"), "rest": StringAttr("rest")}
                numbers = _ints(tile_units=self.role.units, units=16 * self.role.units)
                properties |= {"end": int_array([1, 1, 1]), **numbers}
                inner.add_op(ac.UnitRangeOp.create(operands=[row, first, self.unit], properties=properties))
        else:
            indices = 1
            inner = Block(arg_types=[INDEX, *types])
            op = ac.LoopOp.create(
                operands=carried,
                result_types=types,
                properties={"symbol": StringAttr(loop.symbol), **_ints(begin=loop.begin)},
                regions=[Region(inner)],
            )
        block.add_op(op)
        for number, (tag, _) in enumerate(loop.carried):
            self.tags[tag] = inner.args[indices + len(keys) + number]
        after = self.body(inner, loop.body, dict(zip(keys, inner.args[indices:], strict=False)))
        inner.add_op(
            ac.YieldOp.create(operands=[*(after[key] for key in keys), *(self.tags[last] for _, last in loop.carried)])
        )
        for number, (tag, _) in enumerate(loop.carried):
            self.tags[tag] = op.outputs[len(keys) + number]
        return dict(zip(keys, op.outputs, strict=False))


LONGEST = 4
RANGE: dict[str, Attribute] = {
    "symbol": StringAttr("K"),
    "begin": int_array([0, 0, 1]),
    "end": int_array([1, 1, 1]),
    **_ints(most=LONGEST),
}


def _tiles(carried: Sequence[SSAValue], body: Block) -> ac.TilesOp:
    """A loop over tiles, of 16 rows of which the fourth and later ones have the most iterations."""
    return ac.TilesOp.create(
        operands=carried,
        result_types=[value.type for value in carried],
        properties={"symbol": StringAttr("tiles"), **_ints(tiles_m=16, tiles_n=1, raster_group=1)},
        regions=[Region(body)],
    )


def module(program: Program) -> ModuleOp:
    """The program as a kernel: each role of one elected thread, those of several units of as many warpgroups."""
    body = Block()
    rings: dict[str, SSAValue] = {}
    buffers: dict[str, SSAValue] = {}
    address = 0
    for ring in program.rings:
        size = PART * ring.parts
        memory = MemoryType(
            StringAttr("SMEM"), StringAttr("bf16"), IntAttr(ring.stages), IntAttr(size), StringAttr("128B")
        )
        buffers[ring.name] = _value(
            body,
            ac.BufferOp.create(
                properties={
                    "sym_name": StringAttr(f"{ring.name}_data"),
                    "ring": StringAttr(ring.name),
                    **_ints(address=address, instances=1),
                },
                result_types=[memory],
            ),
        )
        address += size * ring.stages
    for ring in program.rings:
        counts = _ints(
            stages=ring.stages, full_arrivals=ring.full_arrivals, empty_arrivals=ring.empty_arrivals, address=address
        )
        rings[ring.name] = _value(
            body,
            ac.RingOp.create(
                properties={"sym_name": StringAttr(ring.name), **counts},
                result_types=[ac.RingType(StringAttr(ring.name), IntAttr(ring.stages))],
            ),
        )
        address += 16 * ring.stages
    descriptor = _value(
        body,
        ac.TensorMapOp.create(
            properties={
                "sym_name": StringAttr("source_map"),
                "buffer": StringAttr("source"),
                "element": StringAttr("bf16"),
                "dims": int_array([64, 64]),
                "strides_bytes": int_array([128]),
                "box": int_array([64, 8]),
                "l2_promotion": StringAttr("none"),
            },
            result_types=[ac.DescriptorType(IntAttr(2), StringAttr("128B"), StringAttr("none"), IntAttr(1024))],
        ),
    )
    body.add_ops([ac.BarrierInitOp.create(operands=[ring]) for ring in rings.values()])
    body.add_ops([ac.FenceBarrierInitOp.create(), ac.CtaSyncOp.create()])
    threads = 0
    for role in program.roles:
        block = Block(arg_types=[INDEX])
        unit = "thread1" if role.units == 1 else "warpgroup128"
        op = ac.RoleOp.create(
            properties={
                "sym_name": StringAttr(role.name),
                "execution": ExecutionAttr(StringAttr(unit), IntAttr(role.units), IntAttr(threads)),
                "registers": IntAttr(0),
            },
            regions=[Region(block)],
        )
        body.add_op(op)
        threads += 128 * role.units
        emitter = _Emitter(program, rings, buffers, descriptor, role, block.args[0])
        cursors: dict[tuple[str, str], SSAValue] = {}
        for ring, side in streams(role.body):
            start = _value(
                block,
                ac.CursorStartOp.create(
                    operands=[rings[ring]],
                    properties={"side": StringAttr(side)},
                    result_types=[ac.CursorType(StringAttr(ring))],
                ),
            )
            cursors[ring, side] = emitter.advance(block, start, role.stride(ring)[1])
        emitter.body(block, role.body, cursors)
    kernel = ac.KernelOp.create(
        properties={
            "sym_name": StringAttr("rings"),
            "symbols": DictionaryAttr({name: IntAttr(max(LONGEST, least)) for name, least in program.minima.items()}),
            "minima": DictionaryAttr({name: IntAttr(least) for name, least in program.minima.items()}),
            "grid": int_array([4, 1, 1]),
            "cluster": int_array([1, 1, 1]),
            "block": int_array([threads, 1, 1]),
            **_ints(dynamic_smem_bytes=address, launch_registers=64),
        },
        regions=[Region(body)],
    )
    return ModuleOp([kernel])


# ---------------------------------------------------------------- as it runs


@dataclass(frozen=True)
class Action:
    """kind: "wait", "announce", "copy" or "release"; position: of the slot, from the ring's first use."""

    kind: str
    ring: str
    side: str
    position: int
    part: int = 0
    bytes: int = 0


Counts = Mapping[str, int | tuple[int, ...]]
"""By symbol; where tiles each have their own, tile by tile, and from the first one on again. rest: how many of a tile's
a unit leaves at the most, the second one those of the next tile."""


def unrolled(role: Role, symbols: Counts, unit: int = 0) -> tuple[Action, ...]:
    """What one unit of a role does, one action after the other."""
    positions = {(ring, side): role.stride(ring)[1] for ring, side in streams(role.body)}
    slots: dict[str, tuple[str, int]] = {}
    return tuple(_unrolled(role, role.body, symbols, positions, slots, unit))


def _trips(symbol: str, symbols: Counts, tile: int, unit: int) -> int:
    """How often a loop runs in a tile."""

    def at(name: str, number: int) -> int:
        found = symbols[name]
        return found if isinstance(found, int) else found[number % len(found)]

    if symbol not in ("own", "rest"):
        return at(symbol, tile)
    rest = min(at("rest", tile + unit), at("K", tile) - 1)
    return rest if symbol == "rest" else at("K", tile) - rest


def _unrolled(
    role: Role,
    body: Sequence[Statement],
    symbols: Counts,
    positions: dict[tuple[str, str], int],
    slots: dict[str, tuple[str, int]],
    unit: int,
    tile: int = 0,
) -> Iterator[Action]:
    for statement in body:
        match statement:
            case Wait(ring, side, tag):
                slots[tag] = ring, positions[ring, side]
                yield Action("wait", ring, side, positions[ring, side])
                positions[ring, side] += role.stride(ring)[0]
            case Begin(tag):
                ring, position = slots[tag]
                yield Action("announce", ring, "full", position, bytes=PART * len(role.copies(ring)))
            case Copy(tag):
                ring, position = slots[tag]
                for part in role.copies(ring):
                    yield Action("copy", ring, "full", position, part=part, bytes=PART)
            case Release(tag):
                ring, position = slots[tag]
                yield Action("release", ring, "empty", position)
            case Loop():
                for number in range(statement.begin, _trips(statement.symbol, symbols, tile, unit)):
                    own = number if statement.symbol == "tiles" else tile
                    yield from _unrolled(role, statement.body, symbols, positions, slots, unit, own)
                    for tag, last in statement.carried:
                        slots[tag] = slots[last]


Barrier = tuple[int, int, int]
"""Phases completed, arrivals pending, bytes outstanding."""


@dataclass(frozen=True)
class State:
    """places: next action by unit; barriers: by (ring, side, stage); content: position of each part of each slot; held:
    slots that a unit may read, as (unit, ring, position); flying: copies issued and not landed."""

    places: tuple[int, ...]
    barriers: tuple[Barrier, ...]
    content: tuple[int, ...]
    held: frozenset[tuple[int, str, int]]
    flying: frozenset[tuple[str, int, int]]


class Broken(Exception):
    """A rule broken in one step."""


@dataclass
class Run:
    """All interleavings of a program at some counts."""

    program: Program
    symbols: Counts
    units: list[tuple[Action, ...]] = field(default_factory=list[tuple[Action, ...]])
    barrier_at: dict[tuple[str, str, int], int] = field(default_factory=dict[tuple[str, str, int], int])
    content_at: dict[tuple[str, int, int], int] = field(default_factory=dict[tuple[str, int, int], int])

    def __post_init__(self) -> None:
        for role in self.program.roles:
            self.units += [unrolled(role, self.symbols, unit) for unit in range(role.units)]
        for ring in self.program.rings:
            for stage in range(ring.stages):
                for side in ("full", "empty"):
                    self.barrier_at[ring.name, side, stage] = len(self.barrier_at)
                for part in range(ring.parts):
                    self.content_at[ring.name, stage, part] = len(self.content_at)

    def begin(self) -> State:
        counts = {
            (ring.name, side): ring.full_arrivals if side == "full" else ring.empty_arrivals
            for ring in self.program.rings
            for side in ("full", "empty")
        }
        barriers = tuple((0, counts[name, side], 0) for name, side, _ in self.barrier_at)
        return State((0,) * len(self.units), barriers, (-1,) * len(self.content_at), frozenset(), frozenset())

    def enabled(self, state: State) -> list[int | tuple[str, int, int]]:
        """Units that can move, and copies that can land."""
        movable: list[int | tuple[str, int, int]] = []
        for unit, place in enumerate(state.places):
            if place < len(self.units[unit]) and self._can_move(state, self.units[unit][place]):
                movable.append(unit)
        return [*movable, *sorted(state.flying)]

    def _can_move(self, state: State, action: Action) -> bool:
        if action.kind != "wait":
            return True
        stages = self.program.ring(action.ring).stages
        done, _, _ = state.barriers[self.barrier_at[action.ring, action.side, action.position % stages]]
        parity = action.position // stages % 2 ^ (action.side == "empty")
        return (done + 1) % 2 == parity

    def step(self, state: State, mover: int | tuple[str, int, int]) -> State:
        """The state after one action. Raises Broken."""
        if not isinstance(mover, int):
            return self._land(state, mover)
        action = self.units[mover][state.places[mover]]
        ring = self.program.ring(action.ring)
        stage = action.position % ring.stages
        places = tuple(place + (unit == mover) for unit, place in enumerate(state.places))
        barriers, held, flying = list(state.barriers), state.held, state.flying
        at = self.barrier_at[action.ring, action.side, stage]
        if action.kind == "wait":
            if barriers[at][0] < action.position // ring.stages + (action.side == "full"):
                raise Broken(f"{action}: an earlier phase of that parity lets it pass")
            if action.side == "full":
                parts = [state.content[self.content_at[action.ring, stage, part]] for part in range(ring.parts)]
                if set(parts) != {action.position}:
                    raise Broken(f"{action}: finds {parts}")
                held = held | {(mover, action.ring, action.position)}
        elif action.kind == "copy":
            self._refuse_overwriting(state, action.ring, action.position, action.part)
            flying = flying | {(action.ring, action.position, action.part)}
        else:
            barriers[at] = self._arrive(barriers[at], ring, action)
            held = held - {(mover, action.ring, action.position)}
        return State(places, tuple(barriers), state.content, held, flying)

    def _arrive(self, barrier: Barrier, ring: Ring, action: Action) -> Barrier:
        done, pending, outstanding = barrier
        if not pending:
            raise Broken(f"{action}: all arrivals of the phase were made")
        return self._settled((done, pending - 1, outstanding + action.bytes), ring, action.side)

    def _settled(self, barrier: Barrier, ring: Ring, side: str) -> Barrier:
        done, pending, outstanding = barrier
        if pending or outstanding:
            return barrier
        return done + 1, ring.full_arrivals if side == "full" else ring.empty_arrivals, 0

    def _refuse_overwriting(self, state: State, name: str, position: int, part: int) -> None:
        stages = self.program.ring(name).stages
        stage = position % stages
        if any(ring == name and at % stages == stage for _, ring, at in state.held):
            raise Broken(f"a copy into slot {stage} of {name}, which is read")
        if any(ring == name and at % stages == stage and to == part for ring, at, to in state.flying):
            raise Broken(f"two copies into part {part} of slot {stage} of {name}")
        if state.content[self.content_at[name, stage, part]] == position:
            raise Broken(f"part {part} of slot {position} of {name} is copied twice")

    def _land(self, state: State, copy: tuple[str, int, int]) -> State:
        name, position, part = copy
        ring = self.program.ring(name)
        stage = position % ring.stages
        content, barriers = list(state.content), list(state.barriers)
        content[self.content_at[name, stage, part]] = position
        at = self.barrier_at[name, "full", stage]
        done, pending, outstanding = barriers[at]
        barriers[at] = self._settled((done, pending, outstanding - PART), ring, "full")
        flying = state.flying - {copy}
        return State(state.places, tuple(barriers), tuple(content), state.held, flying)

    def at_end(self, state: State) -> None:
        """Raises Broken where nothing can move and not all is done."""
        stuck = [unit for unit, place in enumerate(state.places) if place < len(self.units[unit])]
        if stuck:
            raise Broken(f"units {stuck} wait forever: {[self.units[unit][state.places[unit]] for unit in stuck]}")
        for (name, side, stage), at in self.barrier_at.items():
            ring = self.program.ring(name)
            done, pending, outstanding = state.barriers[at]
            if pending != (ring.full_arrivals if side == "full" else ring.empty_arrivals) or outstanding:
                raise Broken(f"{side} barrier {stage} of {name} ends within a phase")
            if side == "full" and done != state.barriers[self.barrier_at[name, "empty", stage]][0]:
                raise Broken(f"slot {stage} of {name} ends filled {done} times, and read another number of times")


def violation(
    program: Program, symbols: Counts, *, most_states: int = 4000, runs: int = 12, seed: int = 0
) -> str | None:
    """What breaks at these counts in some interleaving; None if nothing does. Beyond `most_states` states `runs` more
    interleavings are drawn at random."""
    run = Run(program, symbols)
    seen = {run.begin()}
    pending = [run.begin()]
    try:
        while pending and len(seen) < most_states:
            state = pending.pop()
            movers = run.enabled(state)
            if not movers:
                run.at_end(state)
            for mover in movers:
                following = run.step(state, mover)
                if following not in seen:
                    seen.add(following)
                    pending.append(following)
        if pending:
            draw = random.Random(seed)
            for _ in range(runs):
                state = run.begin()
                while movers := run.enabled(state):
                    state = run.step(state, draw.choice(movers))
                run.at_end(state)
    except Broken as broken:
        return f"with {dict(symbols)}: {broken}"
    return None
