"""What must be executed of a kernel to know its protocol: control flow, addresses and synchronization?

A backward slice over registers, by name and without regard to order. It begins at the sinks: guards, branches,
addresses, barrier operands, coordinates, descriptors of whatever the protocol sees. An instruction that writes a
register in the slice brings the registers that it reads into it. Values pass through memory, too: if the slice loads
from shared or local memory, what is stored there matters. The slice takes in the data of all stores to that space; a
run that can tell at run time which stores are read back (`protocol_run`) names them and gets a smaller slice.

A branch is in the slice if the way that it goes decides about something in it; else all its ways meet again with
nothing done (control dependence, by postdominators). What all threads of a warp must execute is in it where the text
leaves open that they do (`lanes_together`).

Global memory is not followed: what the slice loads from it counts as unknown data.
Source: M. Weiser, "Program Slicing". Not handled: functions that are called; inline them first.
Checked by: tests/machine/protocol/slicing/test_slice.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field

from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import Instruction, Kernel, Vector
from tilewright.machine.instruction.arithmetic.carry import FLAG
from tilewright.machine.protocol.lanes_together import apart, needs_all_threads
from tilewright.machine.protocol.loops.ending_loops import Ending, ending_of, exits_of
from tilewright.machine.protocol.slicing.facts_as_needed import FactsAsNeeded
from tilewright.machine.protocol.slicing.slice_flow import Flow, flow_of
from tilewright.machine.protocol.slicing.slice_operands import Facts, Role, registers_of, symbols_read, writes_of

SINK_ROLES: tuple[Role, ...] = (
    "branch",
    "guard",
    "shared address",
    "global address",
    "generic address",
    "barrier",
    "coordinate",
    "descriptor",
    "sync",
)
CONTROL_ROLES: frozenset[Role] = frozenset({
    "branch", "guard", "shared address", "generic address", "barrier", "descriptor", "sync",
})  # fmt: skip
"""Roles in which a value changes what the protocol does, not only which global bytes it moves."""

_MOVES = frozenset({"bra", "brx.idx", "ret", "exit"})
_READ_BACK = ("shared", "local", "generic")


@dataclass(frozen=True, slots=True)
class Sink:
    """A register that an instruction (by position) of the protocol depends on, and in which role."""

    position: int
    register: str
    role: Role


@dataclass(frozen=True, slots=True)
class Text:
    """What a kernel's text says, before any slice is chosen. definitions: positions that write each register;
    passes_parameters: it has variables in parameter space, as calls that were put in place leave them; varying,
    made_of: what `lanes_together` and, by position of a store, `protocol.made_of` have found of it, once asked."""

    kernel: Kernel
    flow: Flow
    facts: Sequence[Facts]
    definitions: Mapping[str, Sequence[int]]
    declared: frozenset[str]
    passes_parameters: bool = False
    varying: list[frozenset[str]] = field(default_factory=list[frozenset[str]], compare=False, repr=False)
    made_of: dict[int, tuple[frozenset[int], frozenset[str]]] = field(
        default_factory=dict[int, tuple[frozenset[int], frozenset[str]]], compare=False, repr=False
    )


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """The part of a kernel that its protocol depends on. Positions are indices of instructions in the body.

    executed: positions to run; touched: positions dropped that name a register of an asynchronous tensor operation;
    skipped: branches that decide about nothing in the slice, with the position where their ways meet again;
    registers: names whose values matter. parameters: in which roles each kernel parameter is needed, by name and byte
    offset of the load (or of its address, where the text takes that); specials: the same for special registers.
    loads: executed loads from shared or generic memory whose result decides something; stores: those whose data
    matters. data: stores whose data is computed for what it is made of (`value_identity`), though it decides nothing.
    open_loops: where loops begin that are left out, and
    of which the text does not show that they end.
    """

    text: Text
    executed: frozenset[int]
    touched: frozenset[int]
    skipped: Mapping[int, int]
    registers: frozenset[str]
    sinks: tuple[Sink, ...]
    parameters: Mapping[tuple[str, int], frozenset[Role]]
    specials: Mapping[str, frozenset[Role]]
    loads: frozenset[int]
    stores: frozenset[int]
    data: frozenset[int] = frozenset()
    open_loops: tuple[int, ...] = ()


def text_of(kernel: Kernel, *, facts_as_needed: bool = False) -> Text:
    """Flow, facts and definitions of a kernel. facts_as_needed: whoever asks looks at the facts of few instructions."""
    flow = flow_of(kernel)
    facts: Sequence[Facts] = FactsAsNeeded(flow.instructions)
    facts = facts if facts_as_needed else tuple(facts)
    written = map(writes_of, flow.instructions) if facts_as_needed else (each.writes for each in facts)
    definitions: dict[str, list[int]] = {}
    for position, names in enumerate(written):
        for name in names:
            found = definitions.get(name)
            if found is None:
                definitions[name] = [position]  # most are written once
            elif found[-1] != position:
                found.append(position)
    declared = frozenset[str]().union(*(declaration.names for declaration in kernel.registers))
    passes_parameters = any(variable.space == "param" for variable in kernel.variables)
    return Text(kernel, flow, facts, definitions, declared, passes_parameters)


def protocol_slice(
    kernel: Kernel,
    *,
    text: Text | None = None,
    stores: Collection[int] | None = None,
    data: Collection[int] = (),
    kept: Collection[int] | None = None,
) -> Slice:
    """The slice of `kernel`, whose calls must be inlined. stores: positions of stores to shared or generic memory whose
    data matters; None takes all, if the slice loads from there. text: of the kernel, if the caller has it. data: stores
    whose data is to be computed as if it decided something. kept: what is executed whatever becomes of its results,
    None for all that the protocol sees."""
    text = text_of(kernel) if text is None else text
    kept = frozenset(at for at, facts in enumerate(text.facts) if facts.kept) if kept is None else kept
    looked_at = apart(text)
    sinks = tuple(
        Sink(position, use.register, use.role)
        for position, facts in enumerate(text.facts)
        if position in kept or position in looked_at
        for use in facts.uses
        if use.role in SINK_ROLES or (use.role == "data" and position in data)
    )
    endings: list[Ending] = [ending_of(text.flow, text.facts, text.definitions, loop) for loop in text.flow.loops]
    stuck = _of_stuck_loops(text, endings)
    choices = _choices(text) - stuck
    deciding = set(choices & looked_at)
    while True:
        chosen = tuple(sink for sink in sinks if sink.position not in choices or sink.position in deciding)
        registers, _, loads, joined = _closure(text, (sink.register for sink in chosen), stores)
        if data:
            _, _, loads, _ = _closure(text, (sink.register for sink in chosen if sink.role != "data"), stores)
        executed = {
            position
            for position, facts in enumerate(text.facts)
            if position in kept
            or (facts.kind != "hint" and not registers.isdisjoint(facts.writes))
            or position in joined
            or position in looked_at
        }
        blocks = {
            text.flow.block_of[at] for at in executed if at in stuck or text.flow.instructions[at].row not in _MOVES
        }
        fresh = {at for at in choices if at not in deciding and text.flow.decides(at, blocks)}
        if not fresh:
            break
        deciding |= fresh
    skipped = {at: _meeting(text, at) for at in sorted(choices - deciding)}
    executed -= skipped.keys()
    parameters, specials = _purposes(text, chosen, executed, stores)
    return Slice(
        text, frozenset(executed), _touched(text, executed), skipped, registers, chosen, parameters, specials, loads,
        joined, frozenset(data), _open_loops(text, endings, skipped),
    )  # fmt: skip


def passes_over_arithmetic(text: Text, branch: int) -> bool:
    """Whether what a branch decides about are registers alone, by instructions that stand once behind another."""
    flow = text.flow
    passed = flow.positions(flow.region(branch))
    return all(text.facts[at].kind == "compute" and not needs_all_threads(flow.instructions[at]) for at in passed)


def _of_stuck_loops(text: Text, endings: Sequence[Ending]) -> frozenset[int]:
    """The branches that close loops which nothing in them ends, or lead out: a run shows whether they are left. A loop
    without a way out is one."""
    flow = text.flow
    stuck = [loop for loop, ending in zip(flow.loops, endings, strict=True) if ending == "stuck"]
    return frozenset(at for loop in stuck for at in (*loop.back_edges, *exits_of(flow, loop)))


def _open_loops(text: Text, endings: Sequence[Ending], skipped: Collection[int]) -> tuple[int, ...]:
    """Where loops begin that are left out and may have no end. A cycle that is entered at several places is one."""
    flow = text.flow
    found = [
        loop.head
        for loop, ending in zip(flow.loops, endings, strict=True)
        if ending == "open" and not all(at not in skipped for at in exits_of(flow, loop))
    ]
    found += [at for at in flow.irreducible if at in skipped]
    return tuple(sorted(found))


def _choices(text: Text) -> frozenset[int]:
    """Branches, exits and returns that do not always go the same way.

    Those from which no way leads to the end are not among them: an endless loop shall not be skipped.
    """
    flow = text.flow
    ending: set[int] = set()
    waiting = [len(flow.blocks) - 1]
    while waiting:
        block = waiting.pop()
        if block not in ending:
            ending.add(block)
            waiting.extend(flow.blocks[block].predecessors)
    return frozenset(
        position
        for position, instruction in enumerate(flow.instructions)
        if instruction.row in _MOVES
        and (instruction.guard is not None or instruction.row == "brx.idx")
        and flow.block_of[position] in ending
    )


def _meeting(text: Text, position: int) -> int:
    """Where all ways that a branch may take meet again."""
    flow = text.flow
    return flow.blocks[flow.postdominator[flow.block_of[position]]].begin


def _purposes(
    text: Text, sinks: tuple[Sink, ...], executed: Collection[int], stores: Collection[int] | None
) -> tuple[dict[tuple[str, int], frozenset[Role]], dict[str, frozenset[Role]]]:
    """In which roles parameters and special registers are needed."""
    parameters: dict[tuple[str, int], set[Role]] = {}
    specials: dict[str, set[Role]] = {}
    for role in SINK_ROLES:
        seeds = [sink.register for sink in sinks if sink.role == role]
        reached, positions, _, _ = _closure(text, seeds, stores)
        for name in reached - text.declared - {FLAG}:
            specials.setdefault(name, set()).add(role)
        for position in positions:
            for place in parameters_read(text, position):
                parameters.setdefault(place, set()).add(role)
    for position in executed:
        if text.facts[position].kept:
            # A parameter that stands in an operand itself (`[map, {x, y}]`).
            for place in parameters_read(text, position):
                parameters.setdefault(place, set()).add("sync")
    return (
        {place: frozenset(roles) for place, roles in parameters.items()},
        {name: frozenset(roles) for name, roles in specials.items()},
    )


def cheap_stores(text: Text) -> frozenset[int]:
    """Stores to shared or generic memory whose data comes from constants, parameters and special registers alone, by
    integer arithmetic: what a kernel keeps of its own state."""
    found: set[int] = set()
    for position, facts in enumerate(text.facts):
        if facts.kind not in ("store", "atomic") or facts.space not in ("shared", "generic"):
            continue
        seeds = [use.register for use in facts.uses if use.role == "data"]
        _, positions, _, _ = _closure(text, seeds, (), until=lambda each: not _computes_state(text, each))
        if all(_computes_state(text, each) for each in positions):
            found.add(position)
    return frozenset(found)


def _computes_state(text: Text, position: int) -> bool:
    facts, instruction = text.facts[position], text.flow.instructions[position]
    if facts.kind in ("load", "store", "atomic"):
        return facts.space in ("param", "const")
    if facts.kind not in ("compute", "collective"):
        return False
    return not any(each.startswith(("f", "bf", "e4", "e5", "tf")) and len(each) > 2 for each in instruction.modifiers)


def _closure(
    text: Text, seeds: Iterable[str], stores: Collection[int] | None, until: Callable[[int], bool] = lambda _: False,
    given: Callable[[Instruction], bool] = lambda _: False,
) -> tuple[frozenset[str], frozenset[int], frozenset[int], frozenset[int]]:  # fmt: skip
    """Registers reached backwards from `seeds`, positions that write them, loads among these that read memory which
    the kernel itself may have written, and stores whose data was taken in. until: the search ends at a position for
    which this holds, and is then incomplete; given: as for `closure`."""
    reached: set[str] = set()
    positions: set[int] = set()
    loads: set[int] = set()
    joined: set[int] = set()
    spaces: set[str] = set()
    waiting = list(seeds)
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        for position in text.definitions.get(name, ()):
            if position in positions:
                continue
            positions.add(position)
            if until(position):
                waiting.clear()
                break
            facts = text.facts[position]
            if given(text.flow.instructions[position]):
                waiting.extend(use.register for use in facts.uses if use.role == "guard")
                continue
            waiting.extend(use.register for use in facts.uses if use.role != "data" or facts.kind == "matrix")
            space = "local" if reads_call_parameter(text, position) else facts.space
            if facts.kind in ("load", "atomic") and space in _READ_BACK:
                if facts.kind == "atomic":
                    waiting.extend(facts.reads)
                loads.add(position)
                fresh = {"shared", "generic"} if space == "shared" else {"local", "param", "generic"}
                fresh |= {"shared"} if space == "generic" else set()
                if not fresh <= spaces:
                    spaces |= fresh
                    for other, each in enumerate(text.facts):
                        if each.kind not in ("store", "atomic") or each.space not in spaces or other in joined:
                            continue
                        if stores is None or other in stores or each.space in ("local", "param"):
                            joined.add(other)
                            waiting.extend(each.reads)
    return frozenset(reached), frozenset(positions), frozenset(loads), frozenset(joined)


def closure(
    text: Text, seeds: Iterable[str], stores: Collection[int] | None,
    given: Callable[[Instruction], bool] = lambda _: False,
) -> tuple[frozenset[str], frozenset[int], frozenset[int]]:  # fmt: skip
    """Registers that `seeds` depend on, positions that write them, and loads of shared memory among these. given: of
    which instructions the results do not count as made of what they read."""
    registers, positions, loads, _ = _closure(text, seeds, stores, given=given)
    return registers, positions, loads


def reads_call_parameter(text: Text, position: int) -> bool:
    """Whether an instruction loads from parameter space what the kernel itself may have stored there for a call."""
    facts = text.facts[position]
    if facts.kind != "load" or facts.space != "param" or not text.passes_parameters:
        return False
    names = {parameter.name for parameter in text.kernel.parameters}
    return not any(name in names for name, _ in symbols_read(text.flow.instructions[position]))


def parameters_read(text: Text, position: int) -> list[tuple[str, int]]:
    """Kernel parameters that an instruction reads, by name and offset."""
    names = {parameter.name for parameter in text.kernel.parameters}
    return [place for place in symbols_read(text.flow.instructions[position]) if place[0] in names]


def tensor_registers(text: Text) -> frozenset[str]:
    """The registers that an asynchronous tensor operation names."""
    held: set[str] = set()
    for facts, instruction in zip(text.facts, text.flow.instructions, strict=True):
        if facts.kind == "matrix":
            for operand in instruction.operands:
                if isinstance(operand, Vector):
                    held.update(registers_of(operand))
            if instruction.row.startswith("tcgen05.ld"):
                held.update(facts.writes)
    return frozenset(held)


def _touched(text: Text, executed: Collection[int]) -> frozenset[int]:
    """Dropped positions that read or write a register which an asynchronous tensor operation names."""
    held = tensor_registers(text)
    return frozenset(
        position
        for position, facts in enumerate(text.facts)
        if position not in executed and facts.kind != "hint" and not held.isdisjoint(facts.reads | facts.writes)
    )
