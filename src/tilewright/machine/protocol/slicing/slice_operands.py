"""Which registers does an instruction read and write, and what does it use each one for?

A use is `data` where the value only fills memory, feeds a tensor core or hints at a cache: then a run that wants
nothing but the protocol may have any value there. All other uses decide something: whether the instruction happens,
where, or how it synchronizes. What only computes has uses of role `value`, which matter as far as its result does.

Source: PTX ISA, chapter Instruction Set; what is written follows from the instruction table's operand kinds. An
instruction that the table lacks is `unknown`, unless it can only compute. Checked by:
tests/machine/protocol/slicing/test_slice.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal

from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import (
    Address,
    Arguments,
    FloatImmediate,
    Immediate,
    Instruction,
    Negated,
    Operand,
    PairOfPredicates,
    Register,
    Symbol,
    TensorAddress,
    Vector,
)
from tilewright.machine.instruction.arithmetic.carry import FLAG
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
_STORES = frozenset({"st", "st.async", "stmatrix", "multimem.st", "multimem.red", "red"})
_CARRY_READ = frozenset({"addc", "subc", "madc"})
_RESULTS = frozenset({"destination", "pair", "loaded", "vector", "sink"})
_VOLATILE = frozenset({
    "%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi", "%smid", "%nsmid",
    "%gridid", "%current_graph_exec", "%warpid", "%nwarpid", "%is_explicit_cluster", "%reserved_smem_offset_begin",
    "%reserved_smem_offset_end", "%reserved_smem_offset_cap", "%reserved_smem_offset_0", "%reserved_smem_offset_1",
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


def registers_of(operand: Operand) -> tuple[str, ...]:
    """The registers that an operand names, `_` left out."""
    if isinstance(operand, Register):  # most are
        return () if operand.name == "_" else (operand.name,)
    if isinstance(operand, Address):
        return (operand.base.name,) if isinstance(operand.base, Register) else ()
    match operand:
        case Negated(Register(name)):
            return (name,)
        case PairOfPredicates(first, second):
            return (*registers_of(first), *registers_of(second))
        case Vector(items) | Arguments(items):
            return _registers_of_all(items)
        case TensorAddress(base, coordinates):
            return (*registers_of(base), *_registers_of_all(coordinates))
        case _:
            return ()


def _registers_of_all(items: Sequence[Operand]) -> tuple[str, ...]:
    plain = [item.name for item in items if type(item) is Register and item.name != "_"]
    if len(plain) == len(items):
        return tuple(plain)
    return tuple([name for item in items for name in registers_of(item)])


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


@dataclass(frozen=True, slots=True)
class _Form:
    """What an instruction is by its row, its modifiers and the kinds of its operands, whichever registers they name.
    written: operands, by index, whose registers are results; read: with the role of each one's registers, and of a
    tensor's coordinates; once: whether a register that one operand names twice is one use; carries: writes, reads the
    carry flag."""

    kind: Kind
    space: Space
    written: tuple[int, ...]
    read: tuple[tuple[int, Role, Role], ...]
    once: bool
    carries: tuple[bool, bool]


_NAMES_NONE = (Immediate, FloatImmediate, Symbol)


@lru_cache(maxsize=1 << 12)
def _form(row: str, modifiers: tuple[str, ...], operands: tuple[type[Operand], ...]) -> _Form:
    kind, space = _kind_of_row(row), _space(row, modifiers)
    written: list[int] = []
    read: list[tuple[int, Role, Role]] = []
    begin = 0
    if operands and _writes_first(row) and not issubclass(operands[0], (Address, TensorAddress)):
        begin = 1
        written.append(0)
        if kind in ("matrix", "unknown"):
            read.append((0, "data", "data"))
    rest = operands[begin:]
    for index, each in enumerate(rest):
        if not issubclass(each, _NAMES_NONE):
            read.append((begin + index, *_roles(row, modifiers, kind, space, index, each, len(rest))))
    if kind == "unknown":
        # Any operand of an instruction that nobody knows may be a result.
        results = (Register, Vector, PairOfPredicates)
        written += [begin + index for index, each in enumerate(rest) if issubclass(each, results)]
    if row == "call":
        written += [index for index, each in enumerate(operands) if issubclass(each, Arguments)]
    carries = ("cc" in modifiers, row in _CARRY_READ)
    return _Form(kind, space, tuple(written), tuple(read), kind != "protocol", carries)


def facts_of(instruction: Instruction) -> Facts:
    """What an instruction reads, writes and is for. Never fails: what is not understood is of kind `unknown`."""
    operands = instruction.operands
    form = _form(instruction.row, instruction.modifiers, tuple(map(type, operands)))
    writes: list[str] = []
    uses: list[Use] = []
    if instruction.guard is not None:
        role: Role = "branch" if instruction.row in ("bra", "brx.idx", "exit", "ret") else "guard"
        uses.append(_use(instruction.guard.register.name, role))
    for index, role, coordinates in form.read:
        operand = operands[index]
        if isinstance(operand, Register):  # most are
            if operand.name != "_":
                uses.append(_use(operand.name, role))
        elif role != coordinates and isinstance(operand, TensorAddress):
            uses += [_use(name, role) for name in registers_of(operand.base)]
            uses += [_use(name, coordinates) for name in _registers_of_all(operand.coordinates)]
        else:
            names = registers_of(operand)
            uses += [_use(name, role) for name in (dict.fromkeys(names) if form.once and index else names)]
    for index in form.written:
        writes += registers_of(operands[index])
    if form.carries[0]:
        writes.append(FLAG)
    if form.carries[1]:
        uses.append(_use(FLAG, "value"))
    return Facts(form.kind, frozenset(writes), tuple(uses), form.space)


@lru_cache(maxsize=1024)
def _writes_one(row: str) -> bool | None:
    """Whether an instruction of a row whose first operand is a register writes that one, and no other, or none; None
    where that depends on its other operands."""
    return None if row == "call" or _kind_of_row(row) == "unknown" else _writes_first(row)


def writes_of(instruction: Instruction) -> tuple[str, ...]:
    """What `facts_of` says that an instruction writes, perhaps with repetitions."""
    operands = instruction.operands
    if operands and type(operands[0]) is Register and "cc" not in instruction.modifiers:  # most
        first = _writes_one(instruction.row)
        if first is not None:
            return (operands[0].name,) if first and operands[0].name != "_" else ()
    form = _form(instruction.row, instruction.modifiers, tuple(map(type, operands)))
    flag = (FLAG,) if form.carries[0] else ()
    if form.written == (0,) and not flag:  # most
        return registers_of(operands[0])
    return (*(name for index in form.written for name in registers_of(operands[index])), *flag)


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


def reads_answer(instruction: Instruction) -> bool:
    """Whether an instruction reads the answer to a request for another cluster's work."""
    return instruction.row == "clusterlaunchcontrol.query_cancel"


def names_taken_work(instruction: Instruction) -> bool:
    """Whether an instruction asks which cluster's work was taken over: any, or undefined where none was."""
    return reads_answer(instruction) and "is_canceled" not in instruction.modifiers


def _space(row: str, modifiers: tuple[str, ...]) -> Space:
    if row in ("ldmatrix", "stmatrix"):
        return "shared"
    if row not in _LOADS | _STORES | {"atom"}:
        return "none"
    if row.startswith("multimem"):
        return "global"
    for modifier in modifiers:
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


def _roles(
    row: str, modifiers: tuple[str, ...], kind: Kind, space: Space, index: int, operand: type[Operand], count: int
) -> tuple[Role, Role]:
    """What the registers of an operand are for, and those of a tensor's coordinates. index, count: among the operands
    behind the one that is written, if one is."""
    role: Role = "sync"
    match kind:
        case "compute" | "hint":
            role = "value"
        case "collective":
            # The last operand is the member mask; what is exchanged matters as far as the result does.
            role = "sync" if index == count - 1 and row != "activemask" else "value"
        case "load" | "store" | "atomic":
            role = _ADDRESS_ROLE[space] if issubclass(operand, Address) else "data"
            if row == "st.async" and index == 2:
                role = "barrier"
        case "control":
            role = "branch" if row in ("brx.idx", "call") else "sync"
        case "matrix":
            role = _matrix_role(row, index, operand)
        case "protocol":
            if "L2::cache_hint" in modifiers and index == count - 1:
                role = "data"
            elif issubclass(operand, TensorAddress):
                return "sync", "coordinate"
            else:
                role = _protocol_role(row, modifiers, index, operand)
        case "unknown":
            role = "sync"
    return role, role


def _matrix_role(row: str, index: int, operand: type[Operand]) -> Role:
    if issubclass(operand, Vector):
        return "data"
    if row == "wgmma.mma_async":
        # After the accumulator: A, B, scale-d.
        return "descriptor" if index < 2 else "sync"
    if row == "wgmma.mma_async.sp":
        # Between them and scale-d: which elements of A are stored.
        return "descriptor" if index < 2 else "data" if index == 2 else "sync"
    if issubclass(operand, Address):
        return "descriptor"
    if row.startswith("tcgen05.st"):
        return "data"
    return "descriptor"


def _protocol_role(row: str, modifiers: tuple[str, ...], index: int, operand: type[Operand]) -> Role:
    role: Role = "sync"
    address = issubclass(operand, Address)
    if row.startswith("mbarrier") and address:
        role = "barrier"
    elif row in ("mbarrier.try_wait",) and index == 2:
        role = "data"
    elif row == "red.async":
        role = "data" if index == 1 else "barrier" if index == 2 else "shared address"
    elif row == "cp.async":
        # The last one, how many bytes are read, or whether any are, says nothing of the bytes written.
        role = ("shared address", "global address", "sync", "coordinate")[min(index, 3)]
    elif row.startswith(("cp.async.bulk", "cp.reduce.async.bulk")) and address:
        role = _bulk_address_role(row, modifiers, index)
    elif row in ("tensormap.replace",):
        role = "generic address" if address else "sync"
    return role


def _bulk_address_role(row: str, modifiers: tuple[str, ...], index: int) -> Role:
    """Addresses of a bulk copy: destination, source, mbarrier, in the order in which its state spaces are named."""
    spaces = [each for each in modifiers if each in ("global", "shared::cta", "shared::cluster")]
    if index >= 2:
        return "barrier"
    if row.endswith("tensor"):
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
