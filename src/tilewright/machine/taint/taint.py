"""Which registers of a kernel may depend on data that a protocol run cannot know, and what would that change?

Static part: a forward pass over the slice, by name. Sources are loads from memory that others fill, results of atomic
operations and of the tensor core, clocks, and instructions that the machine does not know. What is written where a
tainted branch decides whether it is reached is tainted, too (implicit flow): the branch's region ends at its
postdominator.

`Sources` numbers the places that taint comes from, so that a set of them is small.
Source: D. Denning and P. Denning, "Certification of Programs for Secure Information Flow".
Not handled: two values that are tainted alike and therefore equal. Checked by:
tests/machine/protocol/test_protocol_run.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from re import fullmatch
from typing import Literal

from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import Address, Instruction, Symbol
from tilewright.machine.core.parameters import ParameterPlaces, parameter_places, place_of
from tilewright.machine.protocol.lanes_together import needs_all_threads, varying
from tilewright.machine.protocol.slicing.slice import Slice, reads_call_parameter
from tilewright.machine.protocol.slicing.slice_operands import is_volatile, names_taken_work, symbols_read

Origin = frozenset[int]
"""Numbers of sources. Empty: the value is known."""

KNOWN: Origin = frozenset()

_LEADS_ON = frozenset({"bra", "brx.idx", "ret", "exit", "trap", "brkpt"})
_ELSEWHERE = frozenset({"global", "shared", "shared::cta", "shared::cluster", "local", "const"})
"""Spaces of loads that are none of parameters."""

What = Literal["branch", "guard", "shared address", "global address", "synchronization", "descriptor", "spin"]


@dataclass(frozen=True, slots=True)
class TaintedDecision:
    """A choice of the protocol that depends on data which the run did not know; it went on with one of the outcomes.

    span: the instruction that chooses; sources: the instructions that brought the data in, with what kind of data.
    spin: a loop that polls until others change the data; the run left it as if they had.
    """

    span: Span
    what: What
    sources: tuple[tuple[Span, str], ...]

    def describe(self) -> str:
        """One line without the place: what depends on which data."""
        names = {
            "branch": "whether a branch is taken",
            "guard": "whether the instruction happens",
            "shared address": "an address in shared memory",
            "global address": "which bytes of a buffer that others use, too, are accessed",
            "synchronization": "an operand of a synchronization",
            "descriptor": "an operand of the tensor core",
            "spin": "how long a loop polls",
        }
        origins = "; ".join(f"{kind} at {span}" for span, kind in self.sources)
        return f"{names[self.what]} depends on {origins or 'data that is not known'}"


@dataclass(slots=True, eq=False)
class Sources:
    """Places that unknown data comes from, numbered as they are met."""

    places: list[tuple[Span, str]] = field(default_factory=list[tuple[Span, str]])
    _numbers: dict[tuple[Span, str], int] = field(default_factory=dict[tuple[Span, str], int])

    def origin(self, span: Span, kind: str) -> Origin:
        """The origin that consists of one source."""
        key = (span, kind)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.places)
            self.places.append(key)
        return frozenset((number,))

    def of(self, origin: Origin) -> tuple[tuple[Span, str], ...]:
        return tuple(self.places[number] for number in sorted(origin))


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """What a branch that may be tainted decides. writes: registers written in it.

    effect: it holds something of the protocol, global loads and stores aside, or, where lanes of one warp may go
    different ways, something that they execute together; accesses: it holds such loads or stores.
    skips: the branch jumps over all of it, so that falling through visits it. stores_locally: it holds stores to local
    memory, or of the parameters of calls.
    """

    positions: frozenset[int]
    writes: frozenset[str]
    effect: bool
    accesses: bool
    skips: bool
    stores_locally: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class MayTaint:
    """registers: names that may hold unknown data at some time; regions: by position of each branch that may be
    tainted; controllers: those branches by the positions that they decide about."""

    registers: frozenset[str]
    regions: Mapping[int, Region]
    controllers: Mapping[int, tuple[int, ...]]


def may_taint(
    sliced: Slice, unvalued: Collection[int], unknown_parameters: Mapping[str, tuple[tuple[int, int], ...]],
    *, global_known: bool, undefined: frozenset[str] = frozenset(), open_constants: bool = False,
) -> MayTaint:  # fmt: skip
    """Registers of the slice that may be tainted. unvalued: positions whose results this run does not compute;
    undefined: registers that may be read before they are written.

    unknown_parameters: byte ranges of kernel parameters that nobody gave. global_known: whether every buffer's contents
    are given. open_constants: whether there are constants without a value.
    """
    text = sliced.text
    places = parameter_places(text.kernel, text.flow.instructions) if unknown_parameters else ParameterPlaces({})
    tainted: set[str] = {
        name
        for position in sliced.executed
        for name in _source_writes(sliced, position, unvalued, unknown_parameters, places, global_known, open_constants)
    }
    tainted |= {name for name in sliced.registers if is_volatile(name)} | undefined
    regions: dict[int, Region] = {}
    while True:
        _propagate(sliced, tainted)
        fresh = False
        for position in sorted(sliced.executed):
            guard = text.flow.instructions[position].guard
            if position in regions or text.facts[position].kind != "control":
                continue
            branch_uses = {use.register for use in text.facts[position].uses if use.role == "branch"}
            if branch_uses & tainted:
                regions[position] = _region(sliced, position, guard is not None)
                tainted |= regions[position].writes & sliced.registers
                fresh = True
        if not fresh:
            break
    controllers: dict[int, list[int]] = {}
    for branch, region in regions.items():
        for position in region.positions:
            controllers.setdefault(position, []).append(branch)
    return MayTaint(frozenset(tainted), regions, {at: tuple(found) for at, found in controllers.items()})


def is_by_chance(instruction: Instruction) -> bool:
    """Whether an instruction asks which lanes of its warp run together: lanes that have parted meet again when the
    hardware pleases, and whether they have parted is not seen where a branch was left out or run as guards."""
    return instruction.row == "activemask"


def source_kind(instruction: Instruction, space: str) -> str:
    """In words, what a load or atomic of unknown data brought in."""
    if names_taken_work(instruction):
        return "which cluster's work is taken over"
    if is_by_chance(instruction):
        return "which lanes of a warp run together"
    if instruction.row in ("atom", "red"):
        return "the result of an atomic operation"
    if instruction.row.startswith("tcgen05"):
        return "data of tensor memory"
    return f"data in {space} memory" if space in ("shared", "global", "local") else "data in memory"


def parameter_unknown(
    instruction: Instruction, unknown: Mapping[str, tuple[tuple[int, int], ...]], places: ParameterPlaces
) -> bool:
    """Whether a load of parameters may read bytes that nobody gave. places: of registers that point into them."""
    if not unknown or instruction.row != "ld" or not _ELSEWHERE.isdisjoint(instruction.modifiers):
        return False
    for operand in instruction.operands:
        if not isinstance(operand, Address):
            continue
        name = operand.base.name if isinstance(operand.base, Symbol) else ""
        place = (name, operand.offset) if name else place_of(operand, places.places)
        if place is None:
            return places.elsewhere or "param" in instruction.modifiers
        name, offset = place
        size = _loaded_bytes(instruction)
        return any(offset < end and offset + size > begin for begin, end in unknown.get(name, ()))
    return any(name in unknown for name, _ in symbols_read(instruction))


def _loaded_bytes(instruction: Instruction) -> int:
    """How many bytes a load reads; its type is the last modifier that ends in a number of bits."""
    count = {"v2": 2, "v4": 4, "v8": 8}
    items = max((count.get(each, 1) for each in instruction.modifiers), default=1)
    bits = [int(found[1]) for each in instruction.modifiers if (found := fullmatch(r"[busf](\d+)", each)) is not None]
    return items * (bits[-1] // 8 if bits else 16)


def _source_writes(
    sliced: Slice, position: int, unvalued: Collection[int],
    unknown_parameters: Mapping[str, tuple[tuple[int, int], ...]], places: ParameterPlaces, global_known: bool,
    open_constants: bool,
) -> frozenset[str]:  # fmt: skip
    facts, instruction = sliced.text.facts[position], sliced.text.flow.instructions[position]
    wanted = facts.writes & sliced.registers
    if not wanted:
        return frozenset()
    if position in unvalued or facts.kind in ("unknown", "matrix", "atomic"):
        return wanted
    if names_taken_work(instruction) or is_by_chance(instruction):
        return wanted
    match facts.kind:
        case "load" if facts.space == "param" and not reads_call_parameter(sliced.text, position):
            return wanted if parameter_unknown(instruction, unknown_parameters, places) else frozenset()
        case "load" if facts.space in ("global", "generic"):
            return frozenset() if global_known and facts.space == "global" else wanted
        case "load":
            return frozenset() if facts.space == "const" and not open_constants else wanted
        case _:
            return frozenset()


def _propagate(sliced: Slice, tainted: set[str]) -> None:
    text = sliced.text
    readers: dict[str, list[int]] = {}
    for position in sliced.executed:
        for name in text.facts[position].reads:
            readers.setdefault(name, []).append(position)
    waiting = list(tainted)
    while waiting:
        for position in readers.get(waiting.pop(), ()):
            facts = text.facts[position]
            if facts.kind in ("store", "protocol", "control"):
                continue
            for name in (facts.writes & sliced.registers) - tainted:
                tainted.add(name)
                waiting.append(name)


def _region(sliced: Slice, position: int, guarded: bool) -> Region:
    text, flow = sliced.text, sliced.text.flow
    blocks = flow.region(position)
    positions = frozenset(flow.positions(blocks))
    # What lanes do together matters only where they may take different ways.
    parts = any(use.role == "branch" and use.register in varying(text) for use in text.facts[position].uses)
    effect = accesses = stores_locally = False
    writes: set[str] = set()
    for each in positions & sliced.executed:
        facts = text.facts[each]
        writes |= facts.writes
        stores_locally = stores_locally or (facts.kind == "store" and facts.space in ("local", "param"))
        if not facts.kept:
            effect = effect or (parts and needs_all_threads(text.flow.instructions[each]))
            continue
        if silent_access(sliced, each):
            accesses = True
        elif text.flow.instructions[each].row not in _LEADS_ON:
            effect = effect or facts.kind != "collective" or parts
    block = flow.block_of[position]
    falls = flow.block_of[position + 1] in blocks if position + 1 < len(flow.instructions) else False
    taken = [each for each in flow.blocks[block].successors if each != flow.block_of[position + 1]]
    skips = guarded and falls and not any(each in blocks for each in taken)
    return Region(positions, frozenset(writes), effect, accesses, skips, stores_locally)


def silent_access(sliced: Slice, position: int) -> bool:
    """Whether an instruction is a global access that orders nothing and whose result does not steer the kernel."""
    facts, instruction = sliced.text.facts[position], sliced.text.flow.instructions[position]
    if facts.kind not in ("load", "store", "atomic") or facts.space != "global":
        return False
    strong = {"acquire", "release", "acq_rel", "volatile", "mmio"} & set(instruction.modifiers)
    needed = facts.kind == "atomic" and not sliced.registers.isdisjoint(facts.writes)
    return not strong and not needed
