"""What do an instruction's operands and modifiers mean? Names become register slots, addresses become slot and offset.

Everything the text fixes is decided here, once for a launch: constants and special registers get slots of their own,
filled when a CTA or a warp starts. A modifier that no handler asks for is an error, never ignored. Source: PTX ISA,
Operands; Special Registers; State Spaces. Not handled: textures, surfaces.
Checked by: tests/machine/instruction/test_instructions.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import (
    Address,
    FloatImmediate,
    Immediate,
    Instruction,
    Kernel,
    Negated,
    Operand,
    Register,
    Symbol,
    Vector,
)
from tilewright.machine.core.computed_form import ComputedForms
from tilewright.machine.core.event import Event
from tilewright.machine.core.lanes import SINK_SLOT, WARP_SIZE, zeros_of
from tilewright.machine.core.memory import PARAM_WINDOW, RANK_SHIFT
from tilewright.machine.core.shared_layout import Frame
from tilewright.machine.events_only.dropped_values import DroppedValues, MovedValues
from tilewright.targets import Target

if TYPE_CHECKING:
    from tilewright.machine.core.state import Cta
    from tilewright.machine.core.step import Plain
    from tilewright.machine.protocol.loops.polls import Poll

Observer = Callable[[Event], None]
_Form = TypeVar("_Form")

_BITS: dict[int, np.dtype[Any]] = {
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
    128: np.dtype("V16"),
}
_SIGNED: dict[int, np.dtype[Any]] = {
    8: np.dtype(np.int8),
    16: np.dtype(np.int16),
    32: np.dtype(np.int32),
    64: np.dtype(np.int64),
}
_FLOAT: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
_PACKED = {"f16x2": 32, "bf16x2": 32, "u16x2": 32, "s16x2": 32, "bf16": 16, "tf32": 32, "b128": 128, "f32x2": 64}


@dataclass(frozen=True, slots=True)
class TypeName:
    """A fundamental or packed PTX type: its name without dot, and how many bits one value takes. raw: the dtype of its
    bits."""

    name: str
    width_bits: int
    # Kept, as every instruction's handler asks for them.
    raw: np.dtype[Any] = field(init=False, compare=False, repr=False)
    is_signed: bool = field(init=False, compare=False, repr=False)
    is_float: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "raw", np.dtype(np.bool_) if self.name == "pred" else _BITS[self.width_bits])
        object.__setattr__(self, "is_signed", self.name.startswith("s"))
        object.__setattr__(self, "is_float", self.name.startswith(("f", "bf", "tf")))

    @property
    def bytes(self) -> int:
        return self.width_bits // 8

    @property
    def view(self) -> np.dtype[Any]:
        """The dtype whose arithmetic the type names: signed, unsigned or IEEE float. `bf16` and packed stay raw."""
        if self.is_signed and self.name not in _PACKED:
            return _SIGNED[self.width_bits]
        return _FLOAT.get(self.name, self.raw)


@lru_cache(maxsize=1024)
def type_name(name: str) -> TypeName | None:
    """The type called `name` (without dot), or None."""
    if name == "pred":
        return TypeName(name, 1)
    if name in _PACKED:
        return TypeName(name, _PACKED[name])
    if len(name) > 1 and name[0] in "usbf" and name[1:] in ("8", "16", "32", "64") and name != "f8":
        return TypeName(name, int(name[1:]))
    return None


class Modifiers:
    """The dotted parts of one instruction, taken one by one; `end` refuses what nobody took."""

    __slots__ = ("instruction", "left")

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.left = list(instruction.modifiers)

    def take(self, *choices: str) -> str | None:
        """Remove and return the first remaining modifier that is one of `choices`."""
        for modifier in self.left:
            if modifier in choices:
                self.left.remove(modifier)
                return modifier
        return None

    def flag(self, name: str) -> bool:
        return self.take(name) is not None

    def take_type(self) -> TypeName:
        """Remove and return the first remaining modifier that names a type."""
        for modifier in self.left:
            found = type_name(modifier)
            if found is not None:
                self.left.remove(modifier)
                return found
        raise unsupported(self.instruction, "it names no type that the machine knows")

    def end(self) -> None:
        if self.left:
            raise unsupported(self.instruction, f"modifier .{self.left[0]} is not implemented here")


def unsupported(instruction: Instruction, why: str) -> TilewrightError:
    """The error for an instruction form that the machine does not run."""
    return TilewrightError(
        f"the machine cannot run {instruction.opcode}: {why}",
        span=instruction.span,
        remedy="run this kernel on a GPU, or rewrite the instruction",
    )


# A special register's value for one warp: (CTA, warp index) to 32 lanes.
WarpConstant = Callable[["Cta", int], npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where names stand. fixed: generic addresses of parameters, functions and of variables outside shared and local
    memory; shared: offsets in the CTA's shared memory; local: offsets in a thread's frame; parameters: the bytes of the
    parameter block."""

    fixed: dict[str, int]
    shared: dict[str, int]
    local: Frame
    parameters: npt.NDArray[np.uint8]


class Decoder:
    """Slots and addresses for one kernel of one launch.

    mathematics: False where tensor-core operations only yield their events and move no values.
    """

    def __init__(self, kernel: Kernel, places: Places, target: Target, observe: Observer | None, strict: bool) -> None:
        self.kernel = kernel
        self.places = places
        self.parameters = places.parameters
        self.target = target
        # Waits that do not block, and whether they fail, whatever the barrier: see `machine.protocol.peeked_outcomes`.
        self.peeks: frozenset[Span] = frozenset()
        self.peeks_fail = True
        # Loads that wait for a word of global memory, by place; None: strong loads are loads like any other.
        self.polls: Mapping[Span, Poll] | None = None
        self.observe = observe
        self.strict = strict
        self.mathematics = True
        # What a run that does without values that decide nothing leaves undone; None: the run keeps all values.
        self.dropped: DroppedValues | None = None
        self.moved: MovedValues | None = None
        self.accumulators: set[int] = set()
        self.wgmma_registers: set[int] = set()  # accumulators and fragments of A
        self.names: list[str] = ["", "_"]
        self.types: list[TypeName | None] = [None, None]
        self.slots: dict[str, int] = {"_": SINK_SLOT}
        self.labels: dict[str, int] = {}
        self.static: list[tuple[int, npt.NDArray[Any]]] = []
        self.dynamic: list[tuple[int, WarpConstant]] = []
        self.first_constant = 0
        self._static_values: dict[int, int] = {}
        self._destinations: dict[tuple[int, TypeName], tuple[Operand, tuple[int, ...]]] = {}
        self._forms: dict[tuple[str, tuple[str, ...]], tuple[Any, tuple[str, ...]]] = {}
        self.alike = ComputedForms()
        self._reads: set[int] = set()
        self._writes: set[int] = set()
        for declaration in kernel.registers:
            declared = type_name(declaration.type)
            if declared is None:
                raise TilewrightError(
                    f"the machine has no registers of type .{declaration.type}", span=declaration.span
                )
            self.slots.update(zip(declaration.names, count(len(self.names))))
            self.names += declaration.names
            self.types += [declared] * len(declaration.names)
        self.first_constant = self.alike.first_constant = len(self.names)
        for name, slot in self.slots.items():
            declared = self.types[slot]
            if declared is not None and name != "_":
                self.alike.registers.setdefault(declared.width_bits, {})[name] = slot

    def _new_slot(self, name: str, declared: TypeName) -> int:
        self.names.append(name)
        self.types.append(declared)
        return len(self.names) - 1

    def begin(self) -> None:
        """Forget the registers noted for the previous instruction."""
        self._reads.clear()
        self._writes.clear()
        self.moved = None

    def form(
        self, instruction: Instruction, modifiers: Modifiers, read: Callable[[Instruction, Modifiers], _Form]
    ) -> _Form:
        """What `read` takes from the modifiers of the instruction now being decoded, which is asked once for all of a
        row that have the same. read: the handler's, and no other of that row."""
        key = (instruction.row, instruction.modifiers)
        known = self._forms.get(key)
        if known is None:
            found = read(instruction, modifiers)
            known = self._forms[key] = (found, tuple(modifiers.left))
        modifiers.left = list(known[1])
        return known[0]

    def remember(
        self, instruction: Instruction, types: tuple[TypeName, ...], make: Callable[[int, tuple[int, ...]], Plain]
    ) -> None:
        """Steps of others that differ from the instruction in the registers alone are what `make` says
        (`computed_form`). types: of the result and of the sources, in the order of the operands."""
        self.alike.remember(instruction, tuple([each.width_bits for each in types]), make)

    def move(self, moved: Sequence[int], address: int, *, loads: bool, strong: bool = False) -> MovedValues:
        """Note that the instruction now being decoded moves values between memory and registers."""
        registers = tuple([slot for slot in moved if SINK_SLOT < slot < self.first_constant])
        self.moved = MovedValues(registers, address, loads, strong, self.dropped)
        return self.moved

    def touched(self) -> tuple[frozenset[int], frozenset[int]]:
        """Declared registers that the instruction now being decoded reads and writes."""
        return frozenset(self._reads), frozenset(self._writes)

    def forget(self, slots: tuple[int, ...]) -> None:
        """Do not count these registers as touched by the instruction now being decoded."""
        self._reads.difference_update(slots)
        self._writes.difference_update(slots)

    def zeros(self, slot: int) -> npt.NDArray[Any]:
        """A vector of zeros of a register's type."""
        return zeros_of(self.type_of(slot).raw)

    # Constants

    def constant(self, value: int, declared: TypeName) -> int:
        """A slot that holds `value` (bits, reduced to the type's width) in every lane."""
        integers = self.alike.integers.setdefault(declared.width_bits, {})
        slot = integers.get(value)
        if slot is not None:
            return slot
        bits = int(bool(value)) if declared.name == "pred" else value & ((1 << declared.width_bits) - 1)
        slot = integers.get(bits)
        if slot is None:
            slot = self._new_slot(str(value), declared)
            self._static_values[slot] = bits
            self.static.append((slot, _of_all_lanes(bits, declared)))
        integers[value] = integers[bits] = slot
        return slot

    def static_value(self, slot: int) -> int | None:
        """The value of a constant slot, or None for a register."""
        return self._static_values.get(slot)

    def warp_constant(self, name: str, declared: TypeName, function: WarpConstant) -> int:
        """A slot filled when a warp starts."""
        slot = self.slots.get(name)
        if slot is None:
            slot = self._new_slot(name, declared)
            self.slots[name] = slot
            self.dynamic.append((slot, function))
        return slot

    def shared_constant(self, offset: int, declared: TypeName) -> int:
        """A slot that holds the shared address of `offset` in the executing CTA (rank bits included)."""
        dtype = declared.raw
        return self.warp_constant(
            f"shared+{offset}.{declared.name}",
            declared,
            lambda cta, _warp: np.full(WARP_SIZE, (cta.rank << RANK_SHIFT) + offset, dtype),
        )

    def local_constant(self, offset: int, declared: TypeName) -> int:
        """A slot that holds each lane's address of `offset` in its own frame of local memory (a generic address)."""
        dtype, frame_bytes = declared.raw, self.places.local.size_bytes

        def addresses(cta: Cta, warp: int) -> npt.NDArray[Any]:
            base = cta.local.base if cta.local is not None else 0
            threads = np.arange(WARP_SIZE, dtype=np.uint64) + np.uint64(warp * WARP_SIZE)
            return (threads * np.uint64(frame_bytes) + np.uint64(base + offset)).astype(dtype)

        return self.warp_constant(f"local+{offset}.{declared.name}", declared, addresses)

    # Operands

    def source(self, instruction: Instruction, operand: Operand, wanted: TypeName, *, wider: bool = False) -> int:
        """The slot that a source operand of type `wanted` is read from.

        wider: a register wider than the type is allowed (ld, st, cvt); the handler reduces it.
        """
        if isinstance(operand, Register):  # most are
            slot = self.slots.get(operand.name)
            if slot is None:
                slot = self.register(instruction, operand.name)
            declared = self.types[slot]
            if declared is None or declared.width_bits != wanted.width_bits:
                self._check_width(instruction, slot, wanted, wider)
            if slot < self.first_constant:
                self._reads.add(slot)
            return slot
        match operand:
            case Immediate(value):
                if wanted.is_float:
                    raise unsupported(instruction, f"integer constant {value} where .{wanted.name} is expected")
                return self.constant(value, wanted)
            case FloatImmediate(bits, width):
                return self.constant(self._float_bits(instruction, bits, width, wanted), wanted)
            case Symbol(name) | Address(Symbol(name)) if any(each.name == name for each in self.kernel.parameters):
                # As a value, a parameter's address is one of .param space; cvta.param makes it generic.
                offset = operand.offset if isinstance(operand, Address) else 0
                return self.constant(self.places.fixed[name] - PARAM_WINDOW + offset, wanted)
            case Symbol(name):
                return self.symbol(instruction, name, 0, wanted)
            case Address(Symbol(name), offset):
                return self.symbol(instruction, name, offset, wanted)
            case _:
                raise unsupported(instruction, f"operand {operand} is not a register or a constant")

    def _float_bits(self, instruction: Instruction, bits: int, width: int, wanted: TypeName) -> int:
        if width == wanted.width_bits:
            return bits
        value = np.array([bits], _BITS[width]).view(np.float32 if width == 32 else np.float64)[0]
        if wanted.name == "f32":
            return int(np.array([value], np.float32).view(np.uint32)[0])
        if wanted.name == "f64":
            return int(np.array([value], np.float64).view(np.uint64)[0])
        raise unsupported(instruction, f"a {width}-bit float constant where .{wanted.name} is expected")

    def destination(self, instruction: Instruction, operand: Operand, wanted: TypeName, *, wider: bool = False) -> int:
        """The slot that a result of type `wanted` goes to. `_` is the sink."""
        if not isinstance(operand, Register):
            raise unsupported(instruction, f"operand {operand} is not a destination register")
        if operand.name == "_":
            return SINK_SLOT
        slot = self.slots.get(operand.name, -1)
        if not SINK_SLOT < slot < self.first_constant:
            raise unsupported(instruction, f"{operand.name} is not a register that can be written")
        declared = self.types[slot]
        if declared is None or declared.width_bits != wanted.width_bits:
            self._check_width(instruction, slot, wanted, wider)
        self._writes.add(slot)
        return slot

    def destinations(self, instruction: Instruction, operand: Operand, wanted: TypeName) -> tuple[int, ...]:
        """The slots that the results in `{a, b}` go to, or in the operand alone. The same vector is looked at once:
        tensor cores name theirs of a hundred registers again and again."""
        known = self._destinations.get((id(operand), wanted))
        if known is None:
            slots = tuple([self.destination(instruction, item, wanted) for item in self.vector(operand)])
            # The operand is kept, so that its identity stays its own.
            known = self._destinations[id(operand), wanted] = (operand, slots)
        self._writes.update(known[1])
        self._writes.discard(SINK_SLOT)
        return known[1]

    def predicate(self, instruction: Instruction, operand: Operand) -> tuple[int, bool]:
        """The slot of a source predicate and whether it is negated. Constants 0 and 1 are allowed."""
        if isinstance(operand, Negated):
            return self.source(instruction, operand.operand, PREDICATE), True
        return self.source(instruction, operand, PREDICATE), False

    def vector(self, operand: Operand) -> tuple[Operand, ...]:
        """The items of `{a, b}`, or the operand alone."""
        return operand.items if isinstance(operand, Vector) else (operand,)

    def register(self, instruction: Instruction, name: str) -> int:
        """The slot of a declared or special register."""
        slot = self.slots.get(name)
        if slot is not None:
            return slot
        from tilewright.machine.core.special import special_register

        found = special_register(name)
        if found is None:
            raise unsupported(instruction, f"{name} is neither declared nor a special register that the machine has")
        declared, function = found
        return self.warp_constant(name, declared, function)

    def symbol(self, instruction: Instruction, name: str, offset: int, wanted: TypeName) -> int:
        """The slot that holds a variable's address, plus `offset`."""
        if name == "WARP_SZ":
            return self.constant(WARP_SIZE + offset, wanted)
        places = self.places
        if name in places.shared:
            return self.shared_constant(places.shared[name] + offset, wanted)
        if name in places.local.symbols:
            return self.local_constant(places.local.symbols[name] + offset, wanted)
        if name not in places.fixed:
            raise unsupported(instruction, f"{name} is not a variable")
        return self.constant(places.fixed[name] + offset, wanted)

    def type_of(self, slot: int) -> TypeName:
        declared = self.types[slot]
        assert declared is not None, "slots 0 and 1 have no type"
        return declared

    def address(self, instruction: Instruction, operand: Operand) -> tuple[int, int]:
        """Base slot (32- or 64-bit addresses) and byte offset of `[base + offset]`."""
        if isinstance(operand, Address) and isinstance(operand.base, Register):  # most are
            name = operand.base.name
            slot = self.register(instruction, name)
            if self.type_of(slot).width_bits not in (32, 64):
                raise unsupported(instruction, f"{name} is too narrow for an address")
            if slot < self.first_constant:
                self._reads.add(slot)
            return slot, operand.offset
        match operand:
            case Address(Symbol(name), offset):
                return self.symbol(instruction, name, offset, WORD64), 0
            case Address(None, offset):
                return self.constant(offset, WORD64), 0
            case _:
                raise unsupported(instruction, f"operand {operand} is not an address")

    def label(self, instruction: Instruction, operand: Operand) -> int:
        """The index of the step that a label stands before."""
        if isinstance(operand, Symbol) and operand.name in self.labels:
            return self.labels[operand.name]
        raise unsupported(instruction, f"{operand} is not a label of this kernel")

    def branch_table(self, instruction: Instruction, operand: Operand) -> tuple[int, ...]:
        """The steps that a `.branchtargets` table lists."""
        for table in self.kernel.branch_tables:
            if isinstance(operand, Symbol) and operand.name == table.name:
                return tuple(self.labels[label] for label in table.labels)
        raise unsupported(instruction, f"{operand} is not a table of branch targets")

    def _check_width(self, instruction: Instruction, slot: int, wanted: TypeName, wider: bool) -> None:
        declared = self.type_of(slot)
        same = declared.width_bits == wanted.width_bits
        if same or (wider and declared.width_bits > wanted.width_bits and wanted.name != "pred"):
            return
        raise TilewrightError(
            f"{self.names[slot]} is .{declared.name}, but {instruction.opcode} needs .{wanted.name}",
            span=instruction.span,
            remedy="declare the register with the instruction's width",
        )


def _of_all_lanes(bits: int, declared: TypeName) -> npt.NDArray[Any]:
    if declared.width_bits == 128:
        return np.frombuffer(bits.to_bytes(16, "little") * WARP_SIZE, declared.raw)
    return np.full(WARP_SIZE, bits, declared.raw)


PREDICATE = TypeName("pred", 1)
WORD16 = TypeName("b16", 16)
WORD32 = TypeName("b32", 32)
WORD64 = TypeName("b64", 64)


def expect_operands(instruction: Instruction, *counts: int) -> tuple[Operand, ...]:
    """The operands, if their number is one of `counts`."""
    if len(instruction.operands) not in counts:
        raise unsupported(instruction, f"it has {len(instruction.operands)} operands")
    return instruction.operands
