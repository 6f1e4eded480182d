"""Which steps does a protocol run execute? Those of the slice, decoded by the machine's own handlers, and little else.

Steps outside the slice are left out; labels move to the next step that is there. Registers outside the slice hold zeros
from the start, so that an instruction kept for its event alone (a store, a wgmma) finds something to move. A step that
was left out but names a register of an asynchronous tensor operation becomes a `touch`: it only marks the register, so
that hazards are found where they are.

An instruction that the machine cannot run yields unknown data if its row is known to have no effect beside its result;
otherwise reaching it is an `UnknownReason`. Steps that may meet unknown data are wrapped by `taint.steps`.
Checked by: tests/machine/protocol/test_protocol_run.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import Instruction, Label, Register, Vector
from tilewright.machine.core.decoder import Decoder
from tilewright.machine.core.lanes import SINK_SLOT, Registers, zeros_of
from tilewright.machine.core.parameters import ParameterPlaces, parameter_places
from tilewright.machine.core.program import Program, assemble, decode_one, end_of
from tilewright.machine.core.state import Warp
from tilewright.machine.core.step import Control, Plain, Signal, Step
from tilewright.machine.protocol.constant_words import load_address, may_read_constants
from tilewright.machine.protocol.peeked_outcomes import PeekedOutcomes
from tilewright.machine.protocol.several_devices import SUMS, as_own_access
from tilewright.machine.protocol.slicing.slice import Slice, tensor_registers
from tilewright.machine.protocol.slicing.steering import steering
from tilewright.machine.protocol.undefined_registers import UndefinedRegisters, may_be_unwritten
from tilewright.machine.taint.lane_order import same_in_any_order
from tilewright.machine.taint.steps import StepFacts, tainted_step
from tilewright.machine.taint.taint import MayTaint, may_taint, parameter_unknown
from tilewright.machine.taint.tracker import Tracker
from tilewright.machine.tensor_core.fenced_accesses import with_accesses_seen

if TYPE_CHECKING:
    from tilewright.machine.protocol.same_loads import SameLoads
    from tilewright.machine.protocol.value_identity import ValueIdentities
    from tilewright.machine.symbolic.idle_loops import Idle
    from tilewright.machine.symbolic.steps import Iterations, Recording
    from tilewright.machine.symbolic.tracker import SymbolicRun

OnBackEdge = Callable[[Warp, int], bool]
"""Called with a warp and a branch's position when the warp takes a back edge of a loop: whether it is to
leave it."""


@dataclass(frozen=True, slots=True)
class UnknownReason:
    """An instruction that was reached and not understood: nothing can be proven past it."""

    span: Span
    message: str


@dataclass(slots=True, eq=False)
class Assembly:
    """A program for protocol runs. doubts: filled while running.

    astray: whether addresses of global memory may be unknown; undefined: what is done with registers that nobody wrote.
    """

    program: Program
    astray: bool
    doubts: dict[Span, UnknownReason]
    undefined: UndefinedRegisters


def assemble_slice(
    decoder: Decoder,
    sliced: Slice,
    tracker: Tracker,
    on_back_edge: OnBackEdge,
    unknown_parameters: Mapping[str, tuple[tuple[int, int], ...]],
    *,
    global_known: bool,
    contested: frozenset[int] = frozenset(),
    symbolic: SymbolicRun | None = None,
    iterations: Iterations = lambda _warp, _loop: (0, 0),
    open_constants: bool = False,
    launch_given: bool = False,
    idle: Idle | None = None,
) -> Assembly:
    """Decode the slice. contested: stores (positions) of which the values need an identity; symbolic: follows what
    depends on inputs; iterations: how often a warp came to a loop before, and has begun it anew since; open_constants:
    there are constants without a value; launch_given: numbers are those of a launch, not made up; idle: what decides
    about global memory alone: such a loop is left where `on_back_edge` says so. Raises TilewrightError for text that
    contradicts itself (two labels of one name)."""
    instructions = sliced.text.flow.instructions
    kept = sorted(sliced.executed | sliced.touched)
    latches = _latches(sliced)
    detours = {at: _touched_on_the_way(sliced, at) for at in sliced.skipped}
    starts = _place_labels(decoder, sliced, kept, latches, detours)
    doubts: dict[Span, UnknownReason] = {}
    decoded, failures = _decoded(decoder, sliced, kept)
    # Tensor cores move no values in this run, and nobody knows those of several devices.
    unvalued = {position for position in kept if instructions[position].row.startswith(("mma.", "wmma.", SUMS))}
    unvalued |= failures.keys()
    undefined = may_be_unwritten(sliced)
    places = parameter_places(sliced.text.kernel, instructions) if unknown_parameters else ParameterPlaces({})
    taint = may_taint(
        sliced, unvalued, unknown_parameters, global_known=global_known, undefined=undefined,
        open_constants=open_constants,
    )  # fmt: skip
    in_any_order = same_in_any_order(instructions, sliced.text.facts)
    slots = {name: slot for slot, name in enumerate(decoder.names) if name}
    edges = {branch for loop in sliced.text.flow.loops for branch in loop.back_edges} - latches
    left_early = () if idle is None else tuple(idle.loops)
    identities = _identities(sliced, contested, slots, taint.registers if launch_given else None, left_early)
    tracker.identities = identities

    def doubt(span: Span, message: str) -> None:
        doubts.setdefault(span, UnknownReason(span, message))

    outcomes = PeekedOutcomes(sliced, decoder.peeks, slots, doubt) if decoder.peeks and decoder.peeks_fail else None
    tracker.outcomes = outcomes
    steps: list[Step] = []
    position_of: list[int] = []
    astray = False
    recording = _recording(decoder, sliced, tracker, slots, symbolic, iterations, idle)
    left_for = _left_for(sliced, idle, starts)
    for position in sorted({*kept, *latches, *detours}):
        if position in detours:
            for touched in detours[position]:
                steps.append(_touch(decoder, sliced, touched, slots, certain=False))
                position_of.append(touched)
            steps.append(_jump(instructions[position], starts[sliced.skipped[position]]))
            position_of.append(position)
        if position in sliced.executed or position in sliced.touched:
            if position in failures:
                step = _unreadable(decoder, sliced, position, slots, failures[position], doubts)
            elif position in sliced.executed:
                step = decoded[position]
            else:
                step = _touch(decoder, sliced, position, slots)
            if position in sliced.executed and _may_meet_taint(sliced, taint, tracker, position):
                facts = StepFacts(
                    sliced, taint, position, slots, shadowed=tracker.shadowed,
                    unknown_parameter=parameter_unknown(instructions[position], unknown_parameters, places),
                    unvalued=position in unvalued, in_any_order=in_any_order,
                    constant=load_address(instructions[position], slots, decoder.places.fixed)
                    if open_constants and may_read_constants(sliced, position)
                    else None,
                )  # fmt: skip
                astray = astray or bool(facts.elsewhere or facts.generic)
                if facts.concerned:
                    step = tainted_step(decoder, facts, step, tracker)
            if recording is not None and position in decoded and recording.concerns(position):
                step = recording.following(position, decoded[position], step)
            if identities is not None:
                step = identities.wrapped(position, step)
            if outcomes is not None:
                step = outcomes.wrapped(position, step)
            steps.append(_closing(step, position, on_back_edge, left_for) if position in edges else step)
            position_of.append(position)
        if position in latches:
            steps.append(_latch(instructions[position], position, on_back_edge))
            position_of.append(position)
    steps.append(end_of(decoder.kernel))
    program = assemble(decoder, with_accesses_seen(decoder, steps, (*position_of, len(instructions))))
    _fill_registers(decoder, sliced, slots)
    places = (*position_of, len(instructions))
    fills = UndefinedRegisters(sliced, undefined, places, tracker, tracker.sources, lambda slot: _zeros(decoder, slot))
    return Assembly(program, astray, doubts, fills)


def _decoded(
    decoder: Decoder, sliced: Slice, kept: Sequence[int]
) -> tuple[dict[int, Step], dict[int, TilewrightError]]:
    """By position what is executed, and why some of it is not understood."""
    instructions = sliced.text.flow.instructions
    decoded: dict[int, Step] = {}
    failures: dict[int, TilewrightError] = {}
    # The copy engine reads tensor maps that threads put together.
    puts_maps_together = any(_PUT_TOGETHER in each.opcode and each.row != _ASKED_FOR for each in instructions)
    for position in kept:
        if position not in sliced.executed:
            continue
        try:
            decoded[position] = decode_one(decoder, as_own_access(instructions[position]))
            moved = decoder.moved
            if moved and not (moved.strong or puts_maps_together) and _is_for_its_event(sliced, position):
                moved.keeps = False
        except TilewrightError as error:
            failures[position] = error
    return decoded, failures


def _recording(
    decoder: Decoder, sliced: Slice, tracker: Tracker, slots: Mapping[str, int], symbolic: SymbolicRun | None,
    iterations: Iterations, idle: Idle | None,
) -> Recording | None:  # fmt: skip
    """What follows the expressions of a run, if anything does."""
    if symbolic is None:
        return None
    from tilewright.machine.symbolic.reached import reached_by_inputs
    from tilewright.machine.symbolic.steps import Recording

    inputs = symbolic.inputs
    closure = reached_by_inputs(sliced, bool(inputs.block), grid=inputs.grid, data=inputs.data)
    closure &= steering(sliced).registers
    undecided = frozenset[int]() if idle is None else idle.choices
    return Recording(symbolic, decoder, sliced, closure, slots, tracker.forget, iterations, undecided)


def _left_for(sliced: Slice, idle: Idle | None, starts: Sequence[int]) -> dict[int, int]:
    """The step to which a run goes from the branch that closes an idle loop, as it leaves the loop."""
    loops: Mapping[int, int] = {} if idle is None else idle.loops
    return {edge: starts[at] for number, at in loops.items() for edge in sliced.text.flow.loops[number].back_edges}


def _identities(
    sliced: Slice, contested: frozenset[int], slots: dict[str, int], unknown: frozenset[str] | None,
    left_early: tuple[int, ...],
) -> ValueIdentities | SameLoads | None:  # fmt: skip
    """What gives the values of contested stores an identity, if there are any."""
    if not contested:
        return None
    if not contested <= sliced.data:
        from tilewright.machine.protocol.same_loads import SameLoads

        return SameLoads(sliced, contested)
    from tilewright.machine.protocol.value_identity import ValueIdentities

    return ValueIdentities(sliced, contested, slots, unknown, left_early)


def _may_meet_taint(sliced: Slice, taint: MayTaint, tracker: Tracker, position: int) -> bool:
    facts = sliced.text.facts[position]
    if position in taint.controllers or (tracker.shadowed and facts.kind in ("store", "atomic")):
        return True
    return not (taint.registers.isdisjoint(facts.writes) and taint.registers.isdisjoint(facts.reads))


_LOADS, _STORES = ("ld", "ldu", "ldmatrix"), ("st", "stmatrix")
_PUT_TOGETHER, _ASKED_FOR = "tensormap", "prefetch.tensormap"
"""In opcodes of kernels whose tensor maps threads write, and one of others."""


def _is_for_its_event(sliced: Slice, position: int) -> bool:
    """Whether an access is in the slice for its event alone, so that it need move nothing: all that it moves between
    memory and registers are zeros that stand for what the slice leaves out."""
    facts, instruction = sliced.text.facts[position], sliced.text.flow.instructions[position]
    if instruction.row in _LOADS:
        return position not in sliced.loads and sliced.registers.isdisjoint(facts.writes)
    if instruction.row not in _STORES or position in sliced.stores or position in sliced.data:
        return False
    stored = instruction.operands[1]
    items = stored.items if isinstance(stored, Vector) else (stored,)
    return all(isinstance(item, Register) and item.name not in sliced.registers for item in items)


def _latches(sliced: Slice) -> frozenset[int]:
    """Positions after which a loop begins anew because control falls through to its head."""
    return frozenset(edge for loop in sliced.text.flow.loops for edge in loop.back_edges if edge + 1 == loop.head)


def _latch(instruction: Instruction, position: int, on_back_edge: OnBackEdge) -> Step:
    def act(warp: Warp, _mask: int) -> None:
        on_back_edge(warp, position)

    return Step(Control(act), instruction.span, "", -1, False)


def _touched_on_the_way(sliced: Slice, position: int) -> list[int]:
    """Steps that a skipped branch may lead through and that name registers of tensor operations."""
    flow = sliced.text.flow
    return [at for at in flow.positions(flow.region(position)) if at in sliced.touched]


def _jump(instruction: Instruction, target: int) -> Step:
    return Step(Control(lambda _warp, _mask: target), instruction.span, instruction.opcode, -1, False)


def _place_labels(
    decoder: Decoder, sliced: Slice, kept: list[int], latches: frozenset[int], detours: Mapping[int, list[int]]
) -> list[int]:
    """Give labels the index of the next step that is there; a latch comes before the labels of its loop's head.

    Returns the index of the first step at or after each position.
    """
    step = position = 0
    starts: list[int] = []
    present = set(kept)
    for item in sliced.text.kernel.body:
        match item:
            case Label(name, span):
                if name in decoder.labels:
                    raise TilewrightError(f"label {name} appears twice", span=span)
                decoder.labels[name] = step
            case Instruction():
                starts.append(step)
                step += (position in present) + (position in latches)
                if position in detours:
                    step += len(detours[position]) + 1
                position += 1
    return [*starts, step]


def _touch(decoder: Decoder, sliced: Slice, position: int, slots: Mapping[str, int], *, certain: bool = True) -> Step:
    """A dropped instruction that names registers of tensor operations. Under a guard outside the slice, and behind a
    skipped branch (not `certain`), it counts as executed by all lanes."""
    facts, instruction = sliced.text.facts[position], sliced.text.flow.instructions[position]
    reads = frozenset(slots[name] for name in facts.reads if SINK_SLOT < slots.get(name, 0) < decoder.first_constant)
    writes = frozenset(slots[name] for name in facts.writes if SINK_SLOT < slots.get(name, 0) < decoder.first_constant)
    fresh = tuple((slot, _zeros(decoder, slot)) for slot in sorted(writes))

    def full(r: Registers) -> None:
        for slot, zeros in fresh:
            r[slot] = zeros

    guard = instruction.guard
    known = certain and guard is not None and guard.register.name in sliced.registers
    slot = slots[guard.register.name] if guard is not None and known else -1
    negated = guard is not None and known and guard.negated
    return Step(
        Plain(full, lambda r, _mask: full(r)), instruction.span, instruction.opcode, slot, negated, reads, writes
    )


def _zeros(decoder: Decoder, slot: int) -> Any:
    return zeros_of(decoder.type_of(slot).raw)


def _unreadable(
    decoder: Decoder,
    sliced: Slice,
    position: int,
    slots: Mapping[str, int],
    error: TilewrightError,
    doubts: dict[Span, UnknownReason],
) -> Step:
    """A step for an instruction that the machine cannot run: zeros as results, and a doubt if it may do more."""
    facts, instruction = sliced.text.facts[position], sliced.text.flow.instructions[position]
    targets = [slots[name] for name in facts.writes if SINK_SLOT < slots.get(name, 0) < decoder.first_constant]
    fresh = tuple((slot, _zeros(decoder, slot)) for slot in targets)
    harmless = facts.kind in ("compute", "collective")

    def act(warp: Warp, _mask: int) -> Signal | None:
        for slot, zeros in fresh:
            warp.r[slot] = zeros
        if not harmless:
            message = f"instruction {instruction.opcode} is not understood: {error.message}"
            doubts.setdefault(instruction.span, UnknownReason(instruction.span, message))
        return None

    return Step(Control(act), instruction.span, instruction.opcode, -1, False, frozenset(), frozenset(targets))


def _closing(step: Step, position: int, on_back_edge: OnBackEdge, left_for: Mapping[int, int]) -> Step:
    """A branch that closes a loop: notes whenever a warp takes it, and leaves an idle loop after enough iterations."""
    if not isinstance(step.body, Control):
        return step
    act = step.body.act
    converged = step.body.converged

    def observed(warp: Warp, mask: int) -> int | Signal | None:
        result = act(warp, mask)
        if isinstance(result, int) and on_back_edge(warp, position):
            return left_for[position]
        return result

    return step.doing(Control(observed, converged))


def _fill_registers(decoder: Decoder, sliced: Slice, slots: Mapping[str, int]) -> None:
    """Registers outside the slice begin as zeros, those of asynchronous tensor operations aside: their first write is
    among the steps."""
    text = sliced.text
    written = frozenset[str]().union(*(text.facts[position].writes for position in sliced.touched))
    for name in text.declared - sliced.registers - (tensor_registers(text) & written):
        slot = slots.get(name)
        if slot is not None:
            decoder.static.append((slot, _zeros(decoder, slot)))
