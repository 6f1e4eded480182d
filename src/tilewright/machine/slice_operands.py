"""Which registers does an instruction read and write, and what does it use each one for?

A use is `data` where the value only fills memory, feeds a tensor core or hints at a cache: then a run that wants
nothing but the protocol may have any value there. All other uses decide something: whether the instruction happens,
where, or how it synchronizes. What only computes has uses of role `value`, which matter as far as its result does.

Source: PTX ISA, chapter Instruction Set; what is written follows from the instruction table's operand kinds. An
instruction that the table lacks is `unknown`, unless it can only compute. Checked by: tests/machine/test_slice.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tilewright.frontends.ptx.ast import (
    Address,
    Arguments,
    Instruction,
    Negated,
    Operand,
    PairOfPredicates,
    Register,
    Symbol,
    TensorAddress,
    Vector,
)
from tilewright.machine.instruction.carry import FLAG
from tilewright.targets.ptx import ptx_table

Role = Literal[
    "guard",
    "branch",
    "shared address",
    "global address",
    "generic address",
    "other address",
    "barrier",
    "coordinate",
    "descriptor",
    "sync",
    "data",
    "value",
]
Kind = Literal["compute", "collective", "load", "store", "atomic", "matrix", "protocol", "control", "hint", "unknown"]
Space = Literal["shared", "global", "generic", "local", "param", "const", "none"]

_COLLECTIVE = frozenset({"shfl.sync", "vote.sync", "match.any.sync", "match.all.sync", "redux.sync", "elect.sync"})
_HINTS = frozenset({
    "prefetch", "prefetchu", "prefetch.tensormap", "applypriority", "discard", "createpolicy", "pmevent",
    "cp.async.bulk.prefetch", "cp.async.bulk.prefetch.tensor", "nanosleep",
})  # fmt: skip
_LOADS = frozenset({"ld", "ldu", "ldmatrix", "multimem.ld_reduce"})
_STORES = frozenset({"st", "stmatrix", "multimem.st", "multimem.red", "red"})
_ATOMIC = frozenset({"atom", "red", "multimem.ld_reduce", "multimem.red"})
_CARRY_READ = frozenset({"addc", "subc", "madc"})
_RESULTS = frozenset({"destination", "pair", "loaded", "vector", "sink"})
_VOLATILE = frozenset({
    "%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi", "%smid", "%nsmid",
})  # fmt: skip
# What the leading dots of a mnemonic of the protocol look like: a row like these that no handler or table has yet is
# not taken for arithmetic.
_PROTOCOL_WORDS = (
    "mbarrier", "cp", "fence", "membar", "bar", "barrier", "wgmma", "tcgen05", "st", "red", "griddepcontrol",
    "clusterlaunchcontrol", "tensormap", "setmaxnreg", "multimem", "atom", "ld", "call", "bra", "brx",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Use:
    """A register that an instruction reads, and what for."""

    register: str
    role: Role


@dataclass(frozen=True, slots=True)
class Facts:
    """What one instruction does to registers and memory. space: where a load, store or atomic accesses memory."""

    kind: Kind
    writes: frozenset[str]
    uses: tuple[Use, ...]
    space: Space = "none"

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(use.register for use in self.uses)

    @property
    def kept(self) -> bool:
        """Whether a protocol run executes the instruction whatever becomes of its results."""
        match self.kind:
            case "compute" | "hint":
                return False
            case "load" | "store" | "atomic":
                return self.space not in ("local", "param", "const")
            case "collective" | "matrix" | "protocol" | "control" | "unknown":
                return True


@lru_cache(maxsize=1 << 14)
def _use(register: str, role: Role) -> Use:
    """The same object for the same use: a kernel's instructions name few registers thousands of times."""
    return Use(register, role)


def registers_of(operand: Operand) -> Iterator[str]:
    """The registers that an operand names, `_` left out."""
    if isinstance(operand, Register):  # most are
        if operand.name != "_":
            yield operand.name
        return
    match operand:
        case Negated(Register(name)) | Address(Register(name)):
            yield name
        case PairOfPredicates(first, second):
            yield from registers_of(first)
            yield from registers_of(second)
        case Vector(items) | Arguments(items):
            for item in items:
                yield from registers_of(item)
        case TensorAddress(base, coordinates):
            yield from registers_of(base)
            for item in coordinates:
                yield from registers_of(item)
        case _:
            return


@lru_cache(maxsize=1024)
def _writes_first(row: str) -> bool:
    found = ptx_table().rows.get(row)
    if found is None:
        return True
    return any(form.operands and _RESULTS & set(form.operands[0].kinds) for form in found.forms)


@lru_cache(maxsize=1024)
def _effect(row: str) -> str:
    found = ptx_table().rows.get(row)
    return "" if found is None else found.effect


def facts_of(instruction: Instruction) -> Facts:
    """What an instruction reads, writes and is for. Never fails: what is not understood is of kind `unknown`."""
    kind, space = kind_of(instruction), _space(instruction)
    operands = instruction.operands
    writes: set[str] = set()
    uses: list[Use] = []
    if instruction.guard is not None:
        role: Role = "branch" if instruction.row in ("bra", "brx.idx", "exit", "ret") else "guard"
        uses.append(_use(instruction.guard.register.name, role))
    first = operands[0] if operands else None
    if first is not None and _writes_first(instruction.row) and not isinstance(first, Address | TensorAddress):
        writes.update(registers_of(first))
        if kind in ("matrix", "unknown"):
            uses.extend(_use(name, "data") for name in registers_of(first))
        operands = operands[1:]
    if kind == "unknown":
        # Any operand of an instruction that nobody knows may be a result.
        for operand in operands:
            if isinstance(operand, Register | Vector | PairOfPredicates):
                writes.update(registers_of(operand))
    for index, operand in enumerate(operands):
        uses.extend(_operand_uses(instruction, kind, space, index, operand, operands))
    if "cc" in instruction.modifiers:
        writes.add(FLAG)
    if instruction.row in _CARRY_READ:
        uses.append(_use(FLAG, "value"))
    if instruction.row == "call":
        for item in instruction.operands:
            if isinstance(item, Arguments):
                writes.update(registers_of(item))
    return Facts(kind, frozenset(writes), tuple(uses), space)


def is_volatile(register: str) -> bool:
    """Whether a special register tells what no run knows beforehand: the time, and where the CTA runs."""
    return register in _VOLATILE or register.startswith(("%envreg", "%pm"))


def kind_of(instruction: Instruction) -> Kind:
    """What an instruction is, for whoever asks what it may change beside its results."""
    return _kind_of_row(instruction.row)


@lru_cache(maxsize=1024)
def _kind_of_row(row: str) -> Kind:
    if row in _HINTS:
        return "hint"
    if row in _COLLECTIVE:
        return "collective"
    if row in _STORES:
        return "store"
    if row in _LOADS:
        return "load"
    if row == "atom":
        return "atomic"
    if row.startswith(("wgmma.mma_async", "tcgen05.mma", "tcgen05.ld", "tcgen05.st", "tcgen05.cp", "tcgen05.shift")):
        return "matrix"
    match _effect(row):
        case "plain":
            word = row.split(".")[0]
            if row in ("mbarrier.pending_count", "clusterlaunchcontrol.query_cancel"):
                return "compute"
            return "protocol" if word in _PROTOCOL_WORDS else "compute"
        case "control":
            return "control"
        case "async_start" | "async_wait" | "fence" | "barrier":
            return "protocol"
        case _:
            return "unknown"


def _space(instruction: Instruction) -> Space:
    if instruction.row in ("ldmatrix", "stmatrix"):
        return "shared"
    if instruction.row not in _LOADS | _STORES | {"atom"}:
        return "none"
    if instruction.row.startswith("multimem"):
        return "global"
    for modifier in instruction.modifiers:
        match modifier:
            case "shared" | "shared::cta" | "shared::cluster":
                return "shared"
            case "global":
                return "global"
            case "local":
                return "local"
            case "param" | "param::entry" | "param::func":
                return "param"
            case "const":
                return "const"
            case _:
                continue
    return "generic"


_ADDRESS_ROLE: dict[Space, Role] = {
    "shared": "shared address",
    "global": "global address",
    "generic": "generic address",
    "local": "other address",
    "param": "other address",
    "const": "other address",
    "none": "sync",
}


def _operand_uses(
    instruction: Instruction, kind: Kind, space: Space, index: int, operand: Operand, operands: tuple[Operand, ...]
) -> Iterator[Use]:
    names = tuple(dict.fromkeys(registers_of(operand)))
    role: Role = "sync"
    match kind:
        case "compute" | "hint":
            role = "value"
        case "collective":
            # The last operand is the member mask; what is exchanged matters as far as the result does.
            role = "sync" if index == len(operands) - 1 and instruction.row != "activemask" else "value"
        case "load" | "store" | "atomic":
            role = _ADDRESS_ROLE[space] if isinstance(operand, Address) else "data"
        case "control":
            role = "branch" if instruction.row in ("brx.idx", "call") else "sync"
        case "matrix":
            role = _matrix_role(instruction, index, operand)
        case "protocol":
            yield from _protocol_uses(instruction, index, operand, operands)
            return
        case "unknown":
            role = "sync"
    for name in names:
        yield _use(name, role)


def _matrix_role(instruction: Instruction, index: int, operand: Operand) -> Role:
    if isinstance(operand, Vector):
        return "data"
    if instruction.row == "wgmma.mma_async":
        # After the accumulator: A, B, scale-d.
        return "descriptor" if index < 2 else "sync"
    if isinstance(operand, Address):
        return "descriptor"
    if instruction.row.startswith("tcgen05.st"):
        return "data"
    return "descriptor"


def _protocol_uses(
    instruction: Instruction, index: int, operand: Operand, operands: tuple[Operand, ...]
) -> Iterator[Use]:
    row = instruction.row
    if "L2::cache_hint" in instruction.modifiers and index == len(operands) - 1:
        yield from (_use(name, "data") for name in registers_of(operand))
        return
    if isinstance(operand, TensorAddress):
        yield from (_use(name, "sync") for name in registers_of(operand.base))
        for item in operand.coordinates:
            yield from (_use(name, "coordinate") for name in registers_of(item))
        return
    role: Role = "sync"
    if row.startswith("mbarrier") and isinstance(operand, Address):
        role = "barrier"
    elif row in ("mbarrier.try_wait",) and index == 2:
        role = "data"
    elif row in ("st.async", "red.async"):
        role = "data" if index == 1 else "barrier" if index == 2 else "shared address"
    elif row == "cp.async":
        # The last one, how many bytes are read, or whether any are, says nothing of the bytes written.
        role = ("shared address", "global address", "sync", "coordinate")[min(index, 3)]
    elif row.startswith(("cp.async.bulk", "cp.reduce.async.bulk")) and isinstance(operand, Address):
        role = _bulk_address_role(instruction, index)
    elif row in ("tensormap.replace",):
        role = "generic address" if isinstance(operand, Address) else "sync"
    yield from (_use(name, role) for name in registers_of(operand))


def _bulk_address_role(instruction: Instruction, index: int) -> Role:
    """Addresses of a bulk copy: destination, source, mbarrier, in the order in which its state spaces are named."""
    spaces = [each for each in instruction.modifiers if each in ("global", "shared::cta", "shared::cluster")]
    if index >= 2:
        return "barrier"
    if instruction.row.endswith("tensor"):
        return "shared address"
    return "global address" if index < len(spaces) and spaces[index] == "global" else "shared address"


def symbols_read(instruction: Instruction) -> Iterator[tuple[str, int]]:
    """Variables and parameters that an instruction's operands name, with the byte offset from each."""
    waiting: list[Operand] = list(instruction.operands)
    while waiting:
        match waiting.pop():
            case Symbol(name):
                yield name, 0
            case Address(Symbol(name), offset):
                yield name, offset
            case Vector(items) | Arguments(items):
                waiting.extend(items)
            case TensorAddress(base, coordinates):
                waiting.extend((base, *coordinates))
            case _:
                continue
