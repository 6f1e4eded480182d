"""The consumers of a kernel that walks an axis by tiles: values of the program as fragments in registers.

What a product, a fold, a loop or a store needs is computed where it is first needed, and kept where it is used more
than once; everything else is computed inside the region of what uses it. A product waits for the slots of its arrays,
and is waited for where its result is first needed; one whose sum is only carried on is issued by the next iteration:
right behind that iteration's first product, or at once where it is the first itself. So the tensor core works on it
while the threads compute, until its sum or its operand's registers are needed. Products whose operands are computed of
the same values, as two gradients are, are issued together once all operands are there, each from a bank of A's
registers of its own. While one consumer computes, the tensor core multiplies for the other; where they issue in order
and leave no product to the next iteration, those of values run when an iteration ends, and the next one waits for them.
A slot is released after the last product that reads it; those that stay for the whole tile, after the last walk.

Checked by: tests/lower/cascade.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tilewright.base.element import Element
from tilewright.ir.ac import operations as ac
from tilewright.ir.ac.fragment import AccumulatorStartOp, FragmentFullOp, FragmentReadOp
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import (
    CascadeAxes,
    Product,
    first_alike,
    is_of_slots,
    products_of,
    shared_sums,
    slot_sums,
    sum_of,
)
from tilewright.ir.issued_products import consumers_uses
from tilewright.ir.tier import int_array
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.contract import ContractOp
from tilewright.ir.tile.facts import loads, loops
from tilewright.ir.tile.reduce import ReduceOp
from tilewright.ir.tile.repeats import bare
from tilewright.ir.tile.walked_block import WalkedBlockOp
from tilewright.lower.build import Build, affine, counted_loop
from tilewright.lower.cascade import point_maps, slot_product, tensor_product
from tilewright.lower.cascade.carried import Carried
from tilewright.lower.cascade.issued_ahead import Ahead, read_issued
from tilewright.lower.cascade.own_walk import pass_rest, walked_symbol
from tilewright.lower.cascade.place import Place, slot_elements, tile_counts
from tilewright.lower.cascade.plain_load import plain_load
from tilewright.lower.cascade.point_values import numbers_of_rows
from tilewright.lower.cascade.remade import end_rooms, start_rooms
from tilewright.lower.cascade.results import store_result
from tilewright.lower.cascade.running import Postponed, Room, Running, State, Staying, Unsettled
from tilewright.lower.cascade.shared import Shared
from tilewright.lower.cascade.slot_sums import Sums, columns_of_sums, read_sums
from tilewright.lower.cascade.slots import Ring, leaders, matrix_layout, release, step_elements, wgmma_wait
from tilewright.lower.cascade.value_product import issue_held, products_of_values
from tilewright.lower.cascade.walked_store import boxed_stores
from tilewright.lower.cascade.walked_sums import sums_of_walk
from tilewright.lower.distribution.issue_order import IssueOrder, pass_issue, take_issue
from tilewright.lower.distribution.split_product import WHOLE_TILE, Share, meet
from tilewright.lower.distribution.stream_product import add_partial, store_partial
from tilewright.lower.distribution.team_sum import sum_of_teams
from tilewright.lower.staged_store import SlotCounter

_NARROW_OPERAND = "mk"
"""The axes of a fragment of 8-bit elements that a product takes for A."""
_LEAST_COLUMNS = 8
"""Of a fragment's type, where it has a number for each row alone."""
_FIRST_BARRIER = 1


@dataclass(slots=True)
class Consumer:
    """One tile of one unit, as ops are added. values: fragments, and settled accumulators, of values of the
    program; cursors, held: of each ring, and its slot where this unit has it; left: products and reads of a load
    that are still to come, in this tile of the streamed axis; postponed, running: by what the program calls their sums;
    late: the sum that is only carried on."""

    build: Build
    program: tile.ProgramOp
    d: CascadeDecisions
    axes: CascadeAxes
    rings: dict[tile.LoadOp, Ring]
    arrays: dict[str, SSAValue]
    shared: Shared
    unit: SSAValue
    place: Place
    cursors: dict[tile.LoadOp, SSAValue]
    sums: tuple[Sums, SSAValue] | None = None
    """Where another role issues: the ring of its sums, and the cursor of the next."""
    stored: Share = WHOLE_TILE
    """What this CTA stores of a tile that several share."""
    meetings: list[SSAValue] = field(default_factory=list[SSAValue])
    """The cursor of the next sum of CTAs that share a tile, where they do."""
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    held: dict[tile.LoadOp, SSAValue] = field(default_factory=dict[tile.LoadOp, SSAValue])
    left: dict[tile.LoadOp, int] = field(default_factory=dict[tile.LoadOp, int])
    postponed: dict[SSAValue, Postponed] = field(default_factory=dict[SSAValue, Postponed])
    running: dict[SSAValue, Running] = field(default_factory=dict[SSAValue, Running])
    staying: dict[SSAValue, Staying] = field(default_factory=dict[SSAValue, Staying])
    unsettled: dict[SSAValue, Unsettled] = field(default_factory=dict[SSAValue, Unsettled])
    """Sums that the iteration before left running, by what this one calls them."""
    late: SSAValue | None = None
    products: dict[Operation, Product] = field(default_factory=dict[Operation, Product])
    rooms: dict[tile.LoadOp, SSAValue] = field(default_factory=dict[tile.LoadOp, SSAValue])
    """This unit's room of each load of which it makes an operand."""
    made: set[tile.LoadOp] = field(default_factory=set[tile.LoadOp])
    """Loads of which it has made this tile's."""
    issue_order: IssueOrder | None = None
    """In which consumers issue their products."""
    boxes: SlotCounter = field(default_factory=SlotCounter)
    """In which results of the tile have left."""
    ahead: Ahead | None = None
    """Where another role issues some of an iteration's products."""
    summed: Sequence[Product] = ()
    """What the program's only walk sums, into accumulators in registers; nothing where it does more."""

    @property
    def memory(self) -> SSAValue | None:
        """Tensor memory, where accumulators stand there."""
        return self.shared.memory

    # ------------------------------------------------------------ the tile

    def run(self) -> None:
        """The whole program, for one tile of rows. Slots that stay are released after the last walk that needs them."""
        self.products = {each.op: each for each in products_of(self.program)}
        summed = shared_sums(self.program) if self.memory is None and self.sums is None else ()
        brought = {load for each in summed for load in slot_product.multiplied(self, each)}
        computed = tuple(self.products.values()) if self.d.computed else ()
        self.summed = computed or (summed if self.rings.keys() >= brought else ())
        start_rooms(self)
        walks = [self.needed_slots(loop) for loop in loops(self.program)]
        passed: list[tile.LoadOp] = []
        for op in self.program.body.block.ops:
            if isinstance(op, tile.LoopOp):
                pass_rest(self, passed)
                passed = walks.pop(0)
                later = {load for walk in walks for load in walk}
                self.loop(op, later)
                self.give_back(later)
            elif isinstance(op, tile.StoreOp) and self.place.section.part != "head":
                store_result(self, op)
        end_rooms(self)
        pass_rest(self, passed)

    def give_back(self, later: Collection[tile.LoadOp]) -> None:
        """Release the slots that stayed for a walk, but for those that later walks need."""
        for load in [load for load in self.held if load not in later]:
            self.release(self.held.pop(load))

    def loop(self, op: tile.LoopOp, later: Collection[tile.LoadOp]) -> None:
        """Walk the streamed axis. Carried: the cursors of what is brought on the way, slots that stay, the state.
        later: loads that later walks need."""
        if self.sums is not None:
            sums, cursor = self.sums
            columns = columns_of_sums(self.d, self.axes, slot_sums(self.program, op))
            found, cursor = read_sums(self.build, sums, self.unit, cursor, columns, self.d)
            self.values |= dict(zip(op.outputs, found, strict=True))
            self.sums = sums, cursor
            return
        if self.summed:
            self.values |= sums_of_walk(self, op, self.summed)
            return
        self.keep_outer(op)
        needed = self.needed_slots(op)
        for load in needed:
            if self.rings[load].decision.resident:
                self.wait(load)
        staying = [load for load in needed if load in self.held]
        passing = [load for load in needed if load not in self.held]
        roomed = [load for load in needed if load in self.rooms]
        late = self.late_sum(op)
        sums = tensor_product.staying_sums(self, op) if self.memory is not None else {}
        state: list[State] = [sums.get(at) or self.kept(value) for at, value in enumerate(op.carried)]
        if late is None:
            take_issue(self.build, self.issue_order)
        alone = late is not None or bool(sums) or self.issue_order is not None
        if alone:
            # The first iteration by itself: no product is left to it or still runs, no sum stands in tensor memory.
            state = self.iterate(op, state, late, self.build, affine(self.build, [], 0), self)
        carried = Carried(passing, staying, roomed, state)
        values = carried.values(self, state)
        types, symbol = carried.types(self, values), walked_symbol(self.d)
        inner, block, loop = counted_loop(self.build, int(alone), values, symbol=symbol, types=types)
        body, entering = carried.taken(self, block.args[1:])
        yielded = self.iterate(op, entering, late, inner, block.args[0], body)
        inner.add(ac.YieldOp.create(operands=carried.values(body, yielded)))
        if late is None:
            pass_issue(self.build, self.issue_order)
        after, left = carried.taken(self, list(loop.outputs))
        self.cursors, self.held, self.rooms, self.ahead = after.cursors, after.held, after.rooms, after.ahead
        self.take_state(op.outputs, left)
        if self.postponed:
            # It reads none of them: the next tile's may come meanwhile.
            self.give_back(later)
        self.issue_postponed()
        if self.running and self.memory is None:
            for value in numbers_of_rows(self.program, op, self.axes, self.values):
                self.kept(value)
        self.settle()

    def keep_outer(self, loop: tile.LoopOp) -> None:
        """Have what a walk reads of outside it before it."""
        inside = list(loop.body.block.ops)
        outer = {value for each in inside for value in each.operands if value.owner not in inside}
        for value in sorted(outer, key=self.order):
            if value not in loop.body.block.args:
                self.keep(bare(value))

    def take_state(self, outputs: Sequence[SSAValue], state: Sequence[State]) -> None:
        """What a walk leaves behind."""
        for output, item in zip(outputs, state, strict=True):
            if isinstance(item, Postponed):
                self.postponed[output] = item
            elif isinstance(item, Staying):
                self.values[output] = tensor_product.sum_behind(self, item)
            elif isinstance(item, Unsettled):
                readings = tuple((None, reading) for reading in item.readings)
                self.running[output] = Running(item.inflight, readings, computed=True)
            else:
                self.values[output] = item

    def of_all_parts(self, output: SSAValue, total: SSAValue) -> SSAValue:
        """A walk's sum, of which this is a part where several CTAs walk it: those of a cluster add up, and each goes on
        with some of the columns; clusters do so through memory. A head's is handed over, nothing is made of it here."""
        part, number, partials = self.place.section.part, self.place.number, self.shared.partials
        for each in self.shared.exchanges.get(output, ()):
            match each.space:
                case "shared::cluster" if self.shared.meeting is not None:
                    how, meeting = self.d.split_sum, self.shared.meeting
                    self.meetings, total = meet(self.build, how, meeting, self.meetings, total, self.unit)
                case "global" if self.place.team is not None and partials is not None:
                    place = (self.place.indices[self.axes.row], self.place.indices[self.axes.column], self.place.team)
                    counts = tile_counts(self.program, self.d)
                    total = sum_of_teams(self.build, self.d.team_sum, partials, counts, total, place, self.unit)
                case _:
                    raise AssertionError(f"no exchange through {each.space} is emitted")
        if not part or number is None or partials is None:
            return total
        if part == "head":
            store_partial(self.build, partials, total, number, self.unit)
            return total
        return add_partial(self.build, partials, total, number, self.unit)

    def iterate(
        self,
        loop: tile.LoopOp,
        state: Sequence[State],
        late: SSAValue | None,
        build: Build,
        walked: SSAValue,
        slots: Consumer,
    ) -> list[State]:
        """One tile of the streamed axis; the state after it. walked: which of the walk; slots: whose cursors and slots
        it takes, and moves on."""
        body = replace(
            self, build=build, place=self.place.walking(build, self.d, walked), values=dict(self.values),
            cursors=slots.cursors, held=slots.held, rooms=slots.rooms, ahead=slots.ahead, made=set(),
            left=self.uses(loop), postponed={}, running={}, staying={}, unsettled={}, late=late,
        )  # fmt: skip
        for argument, item in zip(loop.body.block.args[1:], state, strict=True):
            if isinstance(item, Postponed):
                body.postponed[argument] = item
            elif isinstance(item, Staying):
                body.staying[argument] = item
            elif isinstance(item, Unsettled):
                body.unsettled[argument] = item
            else:
                body.values[argument] = item
        return body.body(list(loop.body.block.ops))

    def late_sum(self, loop: tile.LoopOp) -> SSAValue | None:
        """The sum of products that a walk's next iteration issues."""
        late = (each for number, each in enumerate(self.products.values()) if number in self.d.late)
        return next((self.start_of(each.op)[1] for each in late if each.op.parent_op() is loop), None)

    def body(self, ops: Sequence[Operation]) -> list[State]:
        """One tile of the streamed axis; what it yields."""
        first = next((op for op in ops if isinstance(op, ContractOp)), None)
        if self.late is not None:
            take_issue(self.build, self.issue_order)
        if first is not None and self.start_of(first)[1] is self.late:
            self.issue_postponed()
        for op in ops:
            if isinstance(op, ContractOp) and op.axis.data != self.axes.streamed:
                self.product(op)
        pass_issue(self.build, self.issue_order)
        boxed = boxed_stores(self, ops)
        for op in ops:
            match op:
                case ContractOp():
                    self.product(op)
                case ReduceOp():
                    self.fragment(op.result)
                case tile.StoreOp() if op not in boxed:
                    store_result(self, op)
                case tile.YieldOp():
                    apart = [
                        self.staying.get(value) or self.postponed.get(value) or self.left_running(bare(value))
                        for value in op.values
                    ]
                    found = [item or self.kept(value) for item, value in zip(apart, op.values, strict=True)]
                    if self.running:
                        self.wait_until(None)
                    return found
                case _:
                    pass
        return []

    def left_running(self, value: SSAValue) -> Unsettled | None:
        """A sum that runs at an iteration's end, where consumers issue in order: the next iteration waits for it,
        behind its own first product. What the product reads, nothing else does then."""
        if self.issue_order is None or value not in self.running:
            return None
        item = self.running.pop(value)
        for load, _ in item.readings:
            assert isinstance(load, tile.LoadOp) and self.left[load] == 1, "the slot's last reader"
            del self.held[load]
        return Unsettled(item.inflight, tuple(reading for _, reading in item.readings))

    def begun(self, value: SSAValue) -> SSAValue:
        """What a product is added to: a sum in flight, or a fragment that an accumulator begins as."""
        item = self.unsettled.get(bare(value))
        return self.kept(value) if item is None else item.inflight

    def issue_postponed(self) -> None:
        """Issue the product that the iteration before left to this one."""
        for value, item in list(self.postponed.items()):
            del self.postponed[value]
            self.running[value] = issue_held(self, item.op, item.held, item.phase, item.start, None, 0)

    def settle(self) -> None:
        """Wait for all products that run, what the iteration before left to this one among them."""
        self.issue_postponed()
        self.wait_until(None)

    def settle_computed(self) -> None:
        """Wait for the products that take an operand from registers: these are written while none is running."""
        self.issue_postponed()
        last = [value for value, item in self.running.items() if item.computed][-1:]
        if last:
            self.wait_until(last[0])

    def wait_until(self, last: SSAValue | None) -> None:
        """Wait for the products that were issued up to that of a sum; for all of them where none is given."""
        listed = list(self.running)
        count = len(listed) if last is None else 1 + listed.index(last)
        waited: list[tuple[SSAValue, Running, list[SSAValue]]] = []
        for value in listed[:count]:
            item = self.running.pop(value)
            (_, first), *others = item.readings
            retired, self.values[value] = wgmma_wait(self.build, first, item.inflight, len(listed) - count)
            rest = [wgmma_wait(self.build, reading, None, len(listed) - count)[0] for _, reading in others]
            waited.append((value, item, [retired, *rest]))
        for _, item, phases in waited:
            for (load, _), phase in zip(item.readings, phases, strict=True):
                if load is None:
                    self.release(phase)
                elif isinstance(load, Room):
                    self.rooms[load.load] = phase
                else:
                    self.done(load, phase)

    def needed_slots(self, loop: tile.LoopOp) -> list[tile.LoadOp]:
        """The loads that go through shared memory and that a walk reads, in the order of the rings."""
        used = self.uses(loop)
        return [load for load in leaders(self.rings) if load in used]

    def uses(self, loop: tile.LoopOp) -> dict[tile.LoadOp, int]:
        """How often a tile of a walk reads each load that goes through shared memory."""
        found = consumers_uses(self.program, self.d, loop, list(self.rings))
        return found if self.memory is None else found | tensor_product.reads_of_held(self, loop)

    def is_read(self, load: tile.LoadOp) -> bool:
        """Whether a load is brought into shared memory to be read into registers."""
        of_rows = set(self.axes.kept(load.result)) == {self.axes.row, self.axes.streamed}
        first = first_alike(self.program, load)
        return of_rows and first in self.rings and not self.is_multiplied_only(first)

    def is_multiplied_only(self, load: tile.LoadOp) -> bool:
        """Whether products into tensor memory take a load of rows along the streamed axis out of its slot."""
        taken = (each.held.owner for each in self.products.values() if is_of_slots(self.program, each))
        held = [each for each in taken if isinstance(each, tile.LoadOp)]
        return self.memory is not None and any(first_alike(self.program, each) is load for each in held)

    def order(self, value: SSAValue) -> tuple[int, int]:
        """Of values outside a loop, which comes first."""
        owner = value.owner
        block = self.program.body.block
        if isinstance(owner, Operation):
            number = next(at for at, each in enumerate(owner.results) if each is value)
            return (1 + block.get_operation_index(owner), number) if owner.parent is block else (0, 0)
        return 0, next(at for at, each in enumerate(owner.args) if each is value)

    # ------------------------------------------------------------ slots

    def wait(self, load: tile.LoadOp) -> SSAValue:
        """The load's next slot, full; one that a product reads, when that is done."""
        reads = (value for value, item in self.running.items() if any(load is each for each, _ in item.readings))
        if (reader := next(reads, None)) is not None:
            self.wait_until(reader)
        if load not in self.held:
            ring, cursor = self.rings[load], self.cursors[load]
            alone = self.memory is not None and not self.is_read(load) and load not in self.rooms
            self.held[load] = ring.wait(self.build, cursor, "full", issuer=alone)
            self.cursors[load] = ring.advance(self.build, cursor)
        return self.held[load]

    def done(self, load: tile.LoadOp, phase: SSAValue) -> None:
        """A product or a read of the slot is done: the slot is released if it is the last."""
        self.left[load] -= 1
        if self.left[load] == 0 and not self.rings[load].decision.resident:
            self.release(phase)
            del self.held[load]
        else:
            self.held[load] = phase

    # ------------------------------------------------------------ values

    def shape(self, kept: frozenset[str]) -> tuple[int, str]:
        """Columns and axes of a fragment over these axes of a tile."""
        if self.axes.streamed in kept:
            return self.d.tile_streamed, "mn"
        column = self.axes.column_of(kept)
        return (self.d.stored_along(column), "mn") if column else (_LEAST_COLUMNS, "m")

    def kind(self, kept: frozenset[str], element: Element = Element.F32, *, operand: bool = False) -> ac.FragmentType:
        columns, axes = self.shape(kept)
        axes = _NARROW_OPERAND if operand and element.bytes == 1 else axes
        return ac.FragmentType(IntAttr(self.d.unit_rows), IntAttr(columns), StringAttr(axes), StringAttr(element.value))

    def keep(self, value: SSAValue) -> None:
        """Have a value of outside a loop before it, where it takes computing or loading."""
        owner = value.owner
        if isinstance(owner, Block | tile.ConstantOp | tile.FullOp | tile.PositionOp | tile.GridOp):
            return
        if isinstance(owner, tile.LoadOp):
            if first_alike(self.program, owner) not in self.rings:
                self.fragment(value)
        elif isinstance(value.type, tile.ValueType) and self.axes.row in self.axes.kept(value):
            self.fragment(value)

    def kept(self, value: SSAValue) -> SSAValue:
        """A value as a float32 fragment over its axes, which a loop may carry."""
        found, over = self.fragment(value), self.axes.kept(value)
        # What is loaded where it is used is in no registers yet, whatever its element.
        if found.type != self.kind(over) or (isinstance(found.owner, ac.FragmentLoadOp) and len(over) > 1):
            (found,) = point_maps.mapped(self, [(bare(value), Element.F32, None)], over)
            if over == self.axes.kept(bare(value)):
                self.values[bare(value)] = found
        return found

    def fragment(self, value: SSAValue) -> SSAValue:
        """A value in registers: a fragment, or the settled accumulator that it is."""
        value = bare(value)
        if value in self.postponed:
            self.settle()
        elif value in self.running:
            self.wait_until(value)
        known = self.values.get(value)
        if known is not None:
            return known
        owner = value.owner
        match owner:
            case tile.FullOp():
                (bits,) = struct.unpack("<I", struct.pack("<f", owner.value.value.data))
                op = FragmentFullOp.create(
                    properties={"bits": IntAttr(bits)}, result_types=[self.kind(self.axes.kept(value))]
                )
                found = self.build.value(op)
            case tile.LoadOp():
                found = self.read(first_alike(self.program, owner)) if self.is_read(owner) else plain_load(self, owner)
            case WalkedBlockOp():
                assert isinstance(owner.operand.owner, tile.LoadOp), "what is loaded has a number for each block"
                found = plain_load(self, owner.operand.owner, walked=owner.axis.data)
            case ReduceOp():
                found = point_maps.folded(self, owner)
            case ContractOp():
                self.product(owner)
                return self.fragment(value)
            case _:
                (found,) = point_maps.mapped(self, [(value, Element.F32, None)])
        self.values[value] = found
        return found

    def release(self, phase: SSAValue, *, first: bool = False) -> None:
        """Give a slot back to all who fill it."""
        kind = phase.type
        assert isinstance(kind, ac.PhaseType)
        peers = next(ring.peers for ring in self.rings.values() if ring.name == kind.ring)
        release(self.build, phase, first=first, peers=peers)

    def zero(self) -> SSAValue:
        return affine(self.build, [], 0)

    def first_row(self) -> SSAValue:
        tile_row = self.place.indices[self.axes.row]
        terms = [(tile_row, self.place.step(self.axes.row, self.d)), *self.of_unit(), *self.stored.rows]
        return affine(self.build, terms, -self.d.rows_before)

    def of_unit(self) -> list[tuple[SSAValue, int]]:
        """What the unit's number adds to the tile's first row."""
        return [(self.unit, self.d.unit_step)] if self.d.unit_step else []

    def first(self, axis: str) -> SSAValue:
        """The first element of the tile along an axis of columns, of those that this CTA stores."""
        found = self.place.first(self.build, axis, self.d) or self.zero()
        if axis == self.axes.streamed or not self.stored.columns:
            return found
        return affine(self.build, [(found, 1), *self.stored.columns], 0)

    # ------------------------------------------------------------ products

    def product(self, op: ContractOp) -> None:
        """The product, added to what the program adds it to; left to the next iteration where its sum is the one that
        is only carried on."""
        product = self.products[op]
        if self.memory is not None:
            if op.result in self.values or self.start_of(op)[1] in self.staying:
                return
            if list(self.products).index(op) in self.d.issued:
                read_issued(self, product)
            else:
                tensor_product.product_in_tensor_memory(self, product)
            return
        other, result = self.start_of(op)
        if result in self.values or result in self.postponed or result in self.running:
            return
        if op.axis.data != self.axes.streamed:
            slot_product.product_of_slots(self, product, None if other is None else self.kept(other), result)
            return
        products_of_values(self, op)

    def columns_of(self, ring: Ring, over: str) -> int:
        """Of a product with a ring's slot."""
        slot = ring.decision
        outer = slot.outer if slot.inner == over else slot.inner
        return self.d.tile_streamed if outer == self.axes.streamed else self.d.columns_along(outer)

    def depth_of(self, over: str, ring: Ring) -> int:
        """Elements of the contracted axis in a slot."""
        if over == self.axes.streamed:
            return self.d.tile_streamed
        step = step_elements(ring.decision)
        whole = -(-self.program.extents[over] // step) * step
        return self.d.slice_depth if ring.decision.sliced else whole

    def issue_types(self, ring: Ring, over: str) -> tuple[dict[str, Attribute], list[Attribute]]:
        """Of a product with a ring's slot: its shape, and what it gives."""
        rows, slot = IntAttr(self.d.unit_rows), ring.decision
        columns = IntAttr(slot.among * self.columns_of(ring, over))
        properties: dict[str, Attribute] = {"m": rows, "n": columns, "element": StringAttr(slot.element)}
        return properties, [ac.InflightType(rows, columns), ac.ReadingType(ring.name)]

    def load_along(self, op: ContractOp) -> None:
        """Load numbers of this tile's streamed columns while products run."""
        block = op.parent
        assert block is not None
        listed = loads(self.program)
        for number in self.d.loaded_along:
            load = listed[number]
            if load.parent is block and load.result not in self.values:
                self.values[load.result] = plain_load(self, load, ahead=True)

    def start_of(self, op: ContractOp) -> tuple[SSAValue | None, SSAValue]:
        """What the product is added to by the tensor core, and what the sum is."""
        return (None, op.result) if self.is_added(op) else sum_of(op, self.axes)

    def is_added(self, op: ContractOp) -> bool:
        """Whether threads add what the tensor core sums of a product."""
        return list(self.products).index(op) in self.d.added

    def start(self, held: SSAValue) -> SSAValue:
        """An accumulator that begins as a fragment."""
        kind = held.type
        assert isinstance(kind, ac.FragmentType)
        start = AccumulatorStartOp.create(operands=[held], result_types=[ac.InflightType(kind.m, kind.n)])
        return self.build.value(start)

    def read(self, load: tile.LoadOp) -> SSAValue:
        """A tile of an array, out of its slot."""
        ring = self.rings[load]
        depth = self.d.tile_streamed
        major, _, _, steps = matrix_layout(ring.decision, self.axes.streamed, depth)
        assert major == "K" and slot_elements(ring.decision, self.axes.streamed) == depth
        phase = self.wait(load)
        op = FragmentReadOp.create(
            operands=[phase, ring.buffer, self.unit],
            properties={
                "step_bytes": int_array(steps),
                "block_bytes": IntAttr(64 * 128),
                "instance_bytes": IntAttr(64 * 128),
                "first_barrier": IntAttr(_FIRST_BARRIER),
            },
            result_types=[self.kind(self.axes.kept(load.result), Element(ring.decision.element)), phase.type],
        )
        self.build.add(op)
        self.done(load, op.results[1])
        return op.results[0]
