"""Which registers are live where in a kernel's text, and under which register budget does each instruction run?

Liveness by the usual backward equations over the control flow: a register is live where some path reads it before it is
written. Sets of registers are integers, one bit for each, so that a kernel of thousands of instructions takes a
fraction of a second. A register of 64 bits counts twice, one of 128 bits four times, predicates not at all, which have
a file of their own. Budgets follow `setmaxnreg` along the flow.

Not handled: calls, indirect branches and unknown instructions, for which there is no flow (None); uniform registers.
Sources: PTX ISA, State Spaces, Types, and Variables; setmaxnreg. Checked by:
tests/driver/views/test_register_pressure.py, tests/lower/ptx/test_spill_slots.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tilewright.frontends.ptx.ast import Immediate, Instruction, Kernel, Label, Register, Symbol

_WIDTHS = {"b64": 2, "u64": 2, "s64": 2, "f64": 2, "b128": 4, "pred": 0}
_ENDS = frozenset({"ret", "exit", "trap"})
_FOLDED = frozenset(
    {"createpolicy", "mov", "add", "sub", "mul", "mad", "shl", "shr", "and", "or", "xor", "cvt", "cvta", "selp", "setp"}
)


def register_widths(kernel: Kernel) -> dict[str, int]:
    """32-bit registers that each declared register takes; 0 for predicates."""
    return {name: _WIDTHS.get(declaration.type, 1) for declaration in kernel.registers for name in declaration.names}


def control_flow(kernel: Kernel) -> tuple[list[Instruction], list[tuple[int, ...]] | None]:
    """Instructions, and for each the indices that may follow; None where that is not known."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    for item in kernel.body:
        match item:
            case Label(name):
                labels[name] = len(instructions)
            case Instruction():
                instructions.append(item)
    successors: list[tuple[int, ...]] = []
    last = len(instructions)
    for index, instruction in enumerate(instructions):
        following = [index + 1] if index + 1 < last else []
        if instruction.row in ("call", "brx.idx") or not instruction.row:
            return instructions, None
        if instruction.row == "bra":
            (operand,) = instruction.operands[:1] or (None,)
            if not isinstance(operand, Symbol) or operand.name not in labels:
                return instructions, None
            target = [labels[operand.name]] if labels[operand.name] < last else []
            following = target if instruction.guard is None else following + target
        elif instruction.row in _ENDS and instruction.guard is None:
            following = []
        successors.append(tuple(following))
    return instructions, successors


def register_budgets(
    instructions: Sequence[Instruction], successors: Sequence[tuple[int, ...]]
) -> list[set[int | None]]:
    """The register budgets under which each instruction may run; None before any `setmaxnreg`."""
    found: list[set[int | None]] = [set() for _ in instructions]
    waiting: list[tuple[int, int | None]] = [(0, None)] if instructions else []
    while waiting:
        index, budget = waiting.pop()
        instruction = instructions[index]
        if instruction.row.startswith("setmaxnreg"):
            (operand,) = instruction.operands[:1] or (None,)
            budget = operand.value if isinstance(operand, Immediate) else None
        if budget in found[index]:
            continue
        found[index].add(budget)
        waiting.extend((following, budget) for following in successors[index])
    return found


def basic_blocks(successors: Sequence[tuple[int, ...]]) -> list[tuple[int, int]]:
    """(first, past the last) of every stretch that is entered and left at its ends alone."""
    leaders = {0}
    for index, following in enumerate(successors):
        if following != (index + 1,):
            leaders.update((index + 1, *following))
    starts = sorted(leader for leader in leaders if leader < len(successors))
    return list(zip(starts, [*starts[1:], len(successors)], strict=True))


def as_bits(names: Iterable[str], places: Mapping[str, int]) -> int:
    """A set of registers as an integer. places: the bit of each register."""
    value = 0
    for name in names:
        value |= 1 << places[name]
    return value


def liveness(
    reads: Sequence[set[str]],
    writes: Sequence[set[str]],
    successors: Sequence[tuple[int, ...]],
    places: Mapping[str, int],
) -> tuple[list[int], list[int]]:
    """Registers live before and after each instruction, as bits."""
    read = [as_bits(names, places) for names in reads]
    kept = [~as_bits(names, places) for names in writes]
    before = [0] * len(read)
    after = [0] * len(read)
    changed = True
    while changed:
        changed = False
        for index in range(len(read) - 1, -1, -1):
            live = 0
            for following in successors[index]:
                live |= before[following]
            after[index] = live
            value = read[index] | (live & kept[index])
            if value != before[index]:
                before[index] = value
                changed = True
    return before, after


def width_masks(widths: Mapping[str, int], places: Mapping[str, int]) -> tuple[tuple[int, int], ...]:
    """(width, the registers that have it) for every width but 0."""
    masks: dict[int, int] = {}
    for name, width in widths.items():
        if width:
            masks[width] = masks.get(width, 0) | 1 << places[name]
    return tuple(masks.items())


def registers_in(live: int, masks: Sequence[tuple[int, int]]) -> int:
    """32-bit registers that a set of registers takes."""
    return sum(width * (live & mask).bit_count() for width, mask in masks)


def writers_of(writes: Sequence[set[str]]) -> dict[str, list[int]]:
    """By register, the instructions that write it."""
    found: dict[str, list[int]] = {}
    for index, names in enumerate(writes):
        for name in names:
            found.setdefault(name, []).append(index)
    return found


def written_once(names: Iterable[str], writers: Mapping[str, list[int]]) -> bool:
    """Whether each has a single instruction that writes it."""
    return all(len(writers[name]) == 1 for name in names)


def constant_registers(
    instructions: Sequence[Instruction],
    reads: Sequence[set[str]],
    writes: Sequence[set[str]],
    writers: Mapping[str, list[int]],
) -> set[str]:
    """Registers written once, without a guard, from immediates, symbols and other such registers alone."""
    found: set[str] = set()
    for index, instruction in enumerate(instructions):
        if instruction.guard is not None or instruction.row.split(".")[0] not in _FOLDED:
            continue
        special = any(
            isinstance(operand, Register) and operand.name.startswith("%") and operand.name not in writers
            for operand in instruction.operands[1:]
        )
        if not special and reads[index] <= found and written_once(writes[index], writers):
            found |= writes[index]
    return found


def starts_accumulators(
    instruction: Instruction, instructions: Sequence[Instruction], writers: Mapping[str, list[int]]
) -> bool:
    """Whether a wgmma's scale of the old accumulator is the constant false: `setp.ne x, 0, 0`."""
    if not instruction.row.startswith("wgmma.mma_async"):
        return False
    at = 5 if instruction.row.endswith(".sp") else 3
    for operand in instruction.operands[at : at + 1]:
        if isinstance(operand, Immediate):
            return operand.value == 0
        if isinstance(operand, Register) and len(writers.get(operand.name, ())) == 1:
            comparison = instructions[writers[operand.name][0]]
            values = comparison.operands[1:3]
            if comparison.row.startswith("setp") and "ne" in comparison.modifiers:
                numbers = [value.value for value in values if isinstance(value, Immediate)]
                return len(numbers) == 2 and numbers[0] == numbers[1]
    return False
