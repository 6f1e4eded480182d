"""How many registers does a thread of each role need at once, and where in the text?

Liveness over the control flow of one kernel's PTX (`machine.protocol.live_ranges`). What an assembler makes nothing of
is left out first: results that nobody reads; constants, and what is computed from constants alone; sums with a constant
that only serve as addresses, whose base is what lives; copies, whose original is what lives. A product whose scale of
the old accumulator is the constant zero starts its accumulators. Regions between `setmaxnreg` instructions are told
apart: they are the roles, each with its own budget, and each gets the largest number of registers live anywhere in it.

Computations whose operands live on anyway are moved down to where their results are first read, as an assembler does.
What it keeps besides, for latency's sake and because hardware wants vectors in neighbouring registers, are parameters
of this model. Of 42 kernels, 25 of them with epilogues, scales, groups or from other compilers, 39 are predicted within
8 registers of what ptxas takes where nothing limits it, the others within 10; with a limit it makes do with fewer.

A text with calls, indirect branches or unknown instructions has no answer (None). Sources: PTX ISA, Directives .maxnreg
and .reqntid, and setmaxnreg. Not handled: uniform registers; what is computed anew rather than kept.
Checked by: tests/driver/views/test_register_pressure.py, against `ptxas -v`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Address, Instruction, Kernel, Register, TensorAddress
from tilewright.machine.protocol.live_ranges import (
    as_bits,
    basic_blocks,
    constant_registers,
    control_flow,
    liveness,
    register_budgets,
    register_widths,
    registers_in,
    starts_accumulators,
    width_masks,
    writers_of,
    written_once,
)
from tilewright.machine.protocol.slicing.slice_operands import facts_of, registers_of

_ASSEMBLER_REGISTERS = 8
"""What ptxas 12.9 and 13.0 took besides what lives at once, for 25 products of all kinds of tiles."""
_OVERLAP_REGISTERS = 12
_LONG_CHAIN = 4
_MANY_SLOW = 8
"""In blocks with so many loads from global memory, or so many chains of dependent arithmetic as long, it starts some
ahead: about so many registers more, less one for each that the text has in flight itself. Fitted to 15 epilogues
likewise."""
_SINKING_ROUNDS = 4
_COPIES = frozenset({"mov", "cvta"})
_CHAINED = frozenset({"fma", "mul", "add", "sub", "ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh", "div"})


@dataclass(frozen=True, slots=True)
class RolePressure:
    """One region of a kernel. budget: registers a thread by its `setmaxnreg`, None before any; live: at once, at most;
    registers: predicted of the assembler; span: of the instruction where most live."""

    budget: int | None
    live: int
    registers: int
    span: Span

    @property
    def fits(self) -> bool:
        """Whether the prediction stays within the budget."""
        return self.budget is None or self.registers <= self.budget


def register_pressure(kernel: Kernel) -> tuple[RolePressure, ...] | None:
    """The regions in the order of the text, each budget once; None for a kernel whose flow or effects are not known."""
    instructions, successors = control_flow(kernel)
    if successors is None:
        return None
    facts = [facts_of(instruction) for instruction in instructions]
    if any(fact.kind == "unknown" for fact in facts):
        return None
    widths = register_widths(kernel)
    reads = [set(fact.reads) & widths.keys() for fact in facts]
    writes = [set(fact.writes) & widths.keys() for fact in facts]
    writers = writers_of(writes)
    constants = constant_registers(instructions, reads, writes, writers)
    for index, instruction in enumerate(instructions):
        if starts_accumulators(instruction, instructions, writers):
            reads[index] -= writes[index]
        if instruction.guard is not None:
            # What a guarded instruction may leave as it was lives on through it.
            reads[index] |= writes[index] if not written_once(writes[index], writers) else set()
    origins = _origins(instructions, writers, reads, constants)
    for index, names in enumerate(reads):
        reads[index] = {origins.get(name, name) for name in names} - constants
    for index, names in enumerate(writes):
        writes[index] = names - constants - origins.keys()
    kept = [fact.kind not in ("compute", "load") for fact in facts]
    _without_unread(kept, reads, writes)
    places = {name: bit for bit, name in enumerate(widths)}
    pure = [fact.kind == "compute" and item.guard is None for fact, item in zip(facts, instructions, strict=True)]
    order = _sunk(pure, reads, writes, successors, widths, places)
    instructions = [instructions[index] for index in order]
    reads, writes = [reads[index] for index in order], [writes[index] for index in order]
    live_in, live_out = liveness(reads, writes, successors, places)
    budgets = register_budgets(instructions, successors)
    masks = width_masks(widths, places)
    overlapped = _overlapped(instructions, reads, writes, successors)
    # Of each load one register: a load of a vector is one load on its way.
    loads = (sorted(names)[:1] for item, names in zip(instructions, writes, strict=True) if _is_load(item))
    loaded = as_bits(set[str]().union(*loads), places)
    found: dict[int | None, RolePressure] = {}
    for index, instruction in enumerate(instructions):
        written = as_bits(writes[index], places)
        live = max(registers_in(live_in[index], masks), registers_in(live_out[index] | written, masks))
        ahead = max(0, _OVERLAP_REGISTERS - (live_in[index] & loaded).bit_count()) if index in overlapped else 0
        registers = live + _ASSEMBLER_REGISTERS + ahead
        for budget in budgets[index]:
            known = found.get(budget)
            if known is None or registers > known.registers:
                most = max(live, known.live) if known is not None else live
                found[budget] = RolePressure(budget, most, registers, instruction.span)
            elif live > known.live:
                found[budget] = replace(known, live=live)
    return tuple(found.values())


# ---------------------------------------------------------------- what an assembler makes nothing of


def _origins(
    instructions: Sequence[Instruction],
    writers: Mapping[str, list[int]],
    reads: Sequence[set[str]],
    constants: set[str],
) -> dict[str, str]:
    """For a register that another stands for, that other: of a copy, or of a sum with a constant that is only used in
    addresses. Both must be written once, so that they mean the same wherever the copy is read."""
    only_addresses = _only_in_addresses(instructions)
    found: dict[str, str] = {}
    for index, instruction in enumerate(instructions):
        word = instruction.row.split(".")[0]
        operands = instruction.operands
        if instruction.guard is not None or not operands or not isinstance(operands[0], Register):
            continue
        name = operands[0].name
        sources = reads[index] - constants
        if len(sources) != 1 or len(writers.get(name, ())) != 1:
            continue
        (source,) = sources
        if len(writers.get(source, ())) != 1:
            continue
        copied = word in _COPIES and len(operands) == 2
        folded = word in ("add", "sub") and name in only_addresses
        if copied or folded:
            found[name] = found.get(source, source)
    return found


def _only_in_addresses(instructions: Sequence[Instruction]) -> set[str]:
    """Registers that are the base of addresses wherever they are read."""
    addresses: set[str] = set()
    others: set[str] = set()
    for instruction in instructions:
        first = True
        for operand in instruction.operands:
            match operand:
                case Address(Register(name)):
                    addresses.add(name)
                case TensorAddress(base, coordinates):
                    addresses.update(registers_of(base))
                    for item in coordinates:
                        others.update(registers_of(item))
                case Register() if first:
                    pass
                case _:
                    others.update(registers_of(operand))
            first = False
        if instruction.guard is not None:
            others.add(instruction.guard.register.name)
    return addresses - others


def _without_unread(kept: Sequence[bool], reads: list[set[str]], writes: list[set[str]]) -> None:
    """Computations and loads none of whose results are read lose their reads, until nothing changes."""
    counts: dict[str, int] = {}
    for names in reads:
        for name in names:
            counts[name] = counts.get(name, 0) + 1
    waiting = [index for index, stays in enumerate(kept) if not stays and writes[index]]
    before = len(waiting) + 1
    while len(waiting) < before:
        before = len(waiting)
        left: list[int] = []
        for index in waiting:
            if any(counts.get(name, 0) > (name in reads[index]) for name in writes[index]):
                left.append(index)
                continue
            for name in reads[index]:
                counts[name] -= 1
            reads[index], writes[index] = set(), set()
        waiting = left


# ---------------------------------------------------------------- order


def _sunk(
    pure: Sequence[bool],
    reads: Sequence[set[str]],
    writes: Sequence[set[str]],
    successors: Sequence[tuple[int, ...]],
    widths: Mapping[str, int],
    places: Mapping[str, int],
) -> list[int]:
    """The instructions' indices in an order that keeps fewer registers: in a block, a computation whose operands are
    read later anyway stands right before the first that reads its result. An assembler does so, too."""
    order = list(range(len(pure)))
    for _ in range(_SINKING_ROUNDS):
        now_reads, now_writes = [reads[index] for index in order], [writes[index] for index in order]
        _, live_out = liveness(now_reads, now_writes, successors, places)
        moved = False
        for begin, end in basic_blocks(successors):
            block = order[begin:end]
            after = live_out[end - 1]
            live_behind = {name for name in places if after >> places[name] & 1}
            changed = _sunk_block(block, pure, reads, writes, live_behind, widths)
            if changed != block:
                order[begin:end] = changed
                moved = True
        if not moved:
            break
    return order


def _sunk_block(
    block: list[int],
    pure: Sequence[bool],
    reads: Sequence[set[str]],
    writes: Sequence[set[str]],
    live_behind: set[str],
    widths: Mapping[str, int],
) -> list[int]:
    """One block, from its end. live_behind: the registers that are live behind it."""
    result: list[int] = []  # in reverse
    read_later = set(live_behind)
    for index in reversed(block):
        names = writes[index]
        place = len(result)
        if pure[index] and names:
            freed = sum(widths[name] for name in reads[index] if name not in read_later)
            kept = sum(widths[name] for name in names)
            if freed <= kept:
                place = _place(result, index, reads, writes)
        result.insert(place, index)
        read_later |= reads[index]
    return result[::-1]


def _place(result: Sequence[int], index: int, reads: Sequence[set[str]], writes: Sequence[set[str]]) -> int:
    """Where in the reversed block an instruction may stand: before whatever reads or writes its result or writes what
    it reads, and before the block's last, which may be its branch."""
    blocking = reads[index] | writes[index]
    for place in range(len(result) - 1, 0, -1):
        other = result[place]
        if writes[other] & blocking or reads[other] & writes[index]:
            return place + 1
    return min(1, len(result))


def _overlapped(
    instructions: Sequence[Instruction],
    reads: Sequence[set[str]],
    writes: Sequence[set[str]],
    successors: Sequence[tuple[int, ...]],
) -> set[int]:
    """Places in blocks with many loads from global memory, or with many long chains of arithmetic: an assembler starts
    the next ones before the last are done."""
    slow: dict[tuple[int, int], int] = {}
    together: dict[object, int] = {}
    for begin, end in basic_blocks(successors):
        depths: dict[str, int] = {}
        many = 0
        for index in range(begin, end):
            depth = 1 + max((depths.get(name, 0) for name in reads[index]), default=0)
            depths.update(dict.fromkeys(writes[index], depth if instructions[index].row in _CHAINED else 0))
            many += _is_load(instructions[index]) or depth == _LONG_CHAIN
        slow[begin, end] = many
        guard = _skipped_by(instructions, begin)
        together[guard] = together.get(guard, 0) + many
    found: set[int] = set()
    for (begin, end), many in slow.items():
        guard = _skipped_by(instructions, begin)
        if max(many, together[guard] if guard is not None and many else 0) >= _MANY_SLOW:
            found.update(range(begin, end))
    return found


def _skipped_by(instructions: Sequence[Instruction], begin: int) -> object:
    """The guard of the branch that a block is entered by not taking, or None. Blocks under one guard run together: an
    assembler makes one of them."""
    before = instructions[begin - 1] if begin else None
    return before.guard if before is not None and before.row == "bra" else None


def _is_load(instruction: Instruction) -> bool:
    return instruction.row == "ld" and "global" in instruction.modifiers
