"""What is each kernel parameter, where nobody says: a pointer, a tensor map, a number, or a structure of such?

Read off the text, name by name and without regard to order: a register that is used as an address of global or generic
memory is an address; so is what it is moved, converted or added up from, but not the factor of a product. A 64-bit
parameter that reaches an address in this way is a pointer, a place whose address itself reaches the tensor-map operand
of a copy is a tensor map, and everything else is a number. A 64-bit parameter whose value reaches that operand is a
pointer: tensor maps stand in the buffer that it leads to. A structure is cut into the members that the text loads.

Two 64-bit parameters that are added up to one address both count as pointers, unless one of them is converted by
`cvta`, which is what compilers do to pointers and not to offsets. Inline assembly takes pointers unconverted, so an
address without any converted summand is one of its own.
Not handled: parameters that are only passed on to functions; pointers read out of memory.
Checked by: tests/driver/launch/test_parameter_kinds.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    Parameter,
    Register,
    Symbol,
    TensorAddress,
    Vector,
)

MemberKind = Literal["pointer", "tensor map", "integer", "float"]

TENSOR_MAP_BYTES = 128
_ADDED = {"add": (1, 2), "sub": (1,), "mov": (1,), "cvta": (1,), "selp": (1, 2), "mad": (3,), "cvt": (1,), "or": (1, 2)}
_GLOBAL_SPACES = frozenset({"global", "shared", "local", "const", "param"})
_WIDTHS = {
    **dict.fromkeys(("b8", "u8", "s8"), 1),
    **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16"), 2),
    **dict.fromkeys(("b32", "u32", "s32", "f32"), 4),
    **dict.fromkeys(("b64", "u64", "s64", "f64"), 8),
    "b128": 16,
}


@dataclass(frozen=True, slots=True)
class Member:
    """A parameter, or a member of a structure that is one: its offset in the parameter and its size, in bytes."""

    parameter: int
    offset_bytes: int
    size_bytes: int
    kind: MemberKind


@dataclass(frozen=True, slots=True)
class _Place:
    parameter: int
    offset_bytes: int


def members(kernel: Kernel) -> tuple[Member, ...]:
    """Every parameter of a kernel, or the members of it that the text uses, in order. A tensor map is one member; what
    is loaded at two widths is one member of the greater."""
    numbers = {parameter.name: number for number, parameter in enumerate(kernel.parameters)}
    instructions = [item for item in kernel.body if isinstance(item, Instruction)]
    pointers = _converted(instructions) | _own_addresses(instructions) | _to_tensor_maps(instructions)
    places = _places(instructions, numbers)
    found: dict[tuple[int, int], Member] = {}
    for place in _tensor_maps(instructions, places, numbers):
        found[place.parameter, place.offset_bytes] = Member(
            place.parameter, place.offset_bytes, TENSOR_MAP_BYTES, "tensor map"
        )
    maps = list(found.values())
    for place, size, type_name, register in _loads(instructions, places, numbers):
        before = found.get((place.parameter, place.offset_bytes))
        if any(_inside(place, each) for each in maps) or (before is not None and before.size_bytes >= size):
            continue
        kind: MemberKind = "float" if type_name in ("f32", "f64", "f16", "bf16") else "integer"
        if size == 8 and register in pointers:
            kind = "pointer"
        found[place.parameter, place.offset_bytes] = Member(place.parameter, place.offset_bytes, size, kind)
    used = {parameter for parameter, _ in found}
    for number, parameter in enumerate(kernel.parameters):
        if number not in used:
            found[number, 0] = Member(number, 0, parameter.size_bytes, _unused_kind(parameter))
    return tuple(found[key] for key in sorted(found))


def _unused_kind(parameter: Parameter) -> MemberKind:
    return "float" if parameter.type in ("f32", "f64") else "integer"


def _inside(place: _Place, member: Member) -> bool:
    begin = member.offset_bytes
    return place.parameter == member.parameter and begin <= place.offset_bytes < begin + member.size_bytes


def _converted(instructions: list[Instruction]) -> set[str]:
    """Registers that `cvta` converts from global memory, and what they are added up from."""
    found: set[str] = set()
    for item in instructions:
        if item.row == "cvta" and "global" in item.modifiers and isinstance(item.operands[1], Register):
            found.add(item.operands[1].name)
        if item.row == "tensormap.replace" and "global_address" in item.modifiers:
            found.update(_names(item.operands[-1]))
    _close(instructions, found)
    return found


def _own_addresses(instructions: list[Instruction]) -> set[str]:
    """Summands of global or generic addresses which have no summand that `cvta` converts: inline assembly takes
    pointers as they are. Beside a pointer that is converted, what is not is an offset."""
    from_converted = {
        name
        for item in instructions
        if item.row == "cvta" and "global" in item.modifiers
        for name in _names(item.operands[0])
    }
    grown = True
    while grown:
        before = len(from_converted)
        for item in instructions:
            positions = _ADDED.get(item.row, ())
            sums = (name for at in positions if at < len(item.operands) for name in _names(item.operands[at]))
            if any(name in from_converted for name in sums):
                from_converted.update(_names(item.operands[0]))
        grown = len(from_converted) > before
    found = {name for item in instructions for name in _bases(item) if name not in from_converted}
    _close(instructions, found)
    return found


def _bases(item: Instruction) -> Iterator[str]:
    """Registers that an instruction takes as global or generic addresses."""
    spaces = {modifier.split("::")[0] for modifier in item.modifiers} & _GLOBAL_SPACES
    if spaces and "global" not in spaces:
        return
    for operand in item.operands:
        if isinstance(operand, Address) and isinstance(operand.base, Register):
            yield operand.base.name


def _to_tensor_maps(instructions: list[Instruction]) -> set[str]:
    """Registers that lead to the tensor map of an instruction: its operand, and what that is made of."""
    found: set[str] = set()
    for item in instructions:
        for index, operand in enumerate(item.operands):
            match operand:
                case TensorAddress(base=Address(base=Register(name))) if not item.row.startswith("tex"):
                    found.add(name)
                case Address(base=Register(name)) if _of_tensor_maps(item) or (
                    item.row == "tensormap.cp_fenceproxy" and index == 0
                ):
                    found.add(name)
                case _:
                    pass
    _close(instructions, found)
    return found


def _of_tensor_maps(item: Instruction) -> bool:
    """Is the address of the instruction that of a tensor map?"""
    return "tensormap" in item.modifiers or item.row in ("prefetch.tensormap", "fence.proxy.tensormap::generic")


def _close(instructions: list[Instruction], chosen: set[str]) -> None:
    """Add what the chosen registers are moved, converted or added up from."""
    grown = True
    while grown:
        grown = False
        for item in reversed(instructions):  # what is used stands behind what it is made of
            positions = _ADDED.get(item.row)
            if positions is None or not _writes_one_of(item, chosen):
                continue
            for position in positions:
                for name in _names(item.operands[position]) if position < len(item.operands) else ():
                    if name not in chosen:
                        chosen.add(name)
                        grown = True


def _writes_one_of(item: Instruction, chosen: set[str]) -> bool:
    return bool(item.operands) and any(name in chosen for name in _names(item.operands[0]))


def _names(operand: Operand) -> tuple[str, ...]:
    match operand:
        case Register(name):
            return (name,)
        case Vector(items):
            return tuple(name for each in items for name in _names(each))
        case _:
            return ()


def _places(instructions: list[Instruction], numbers: dict[str, int]) -> dict[str, _Place]:
    """Registers that hold the address of a place in the parameters."""
    places: dict[str, _Place] = {}
    for _ in range(4):  # addresses of parameters are formed in a few steps, mostly in order
        before = len(places)
        for item in instructions:
            if item.row not in ("mov", "cvta", "cvt", "add") or not isinstance(item.operands[0], Register):
                continue
            place = _place_of(item.operands[1], places, numbers)
            if place is None:
                continue
            if item.row == "add":
                if not isinstance(item.operands[2], Immediate):
                    continue
                place = _Place(place.parameter, place.offset_bytes + item.operands[2].value)
            places[item.operands[0].name] = place
        if len(places) == before:
            break
    return places


def _place_of(operand: Operand, places: dict[str, _Place], numbers: dict[str, int]) -> _Place | None:
    match operand:
        case Register(name):
            return places.get(name)
        case Symbol(name) if name in numbers:
            return _Place(numbers[name], 0)
        case Address(Symbol(name), offset) if name in numbers:
            return _Place(numbers[name], offset)
        case Address(Register(name), offset) if name in places:
            return _Place(places[name].parameter, places[name].offset_bytes + offset)
        case _:
            return None


def _tensor_maps(
    instructions: list[Instruction], places: dict[str, _Place], numbers: dict[str, int]
) -> Iterator[_Place]:
    for item in instructions:
        for operand in item.operands:
            if isinstance(operand, TensorAddress):
                place = _place_of(operand.base, places, numbers)
            elif _of_tensor_maps(item) and isinstance(operand, Address):
                place = _place_of(operand, places, numbers)
            else:
                continue
            if place is not None:
                yield place


def _loads(
    instructions: list[Instruction], places: dict[str, _Place], numbers: dict[str, int]
) -> Iterator[tuple[_Place, int, str, str]]:
    """What is loaded from parameters: place, bytes, type and the register."""
    for item in instructions:
        if item.row != "ld" or len(item.operands) < 2:
            continue
        place = _place_of(item.operands[1], places, numbers)
        type_name = next((modifier for modifier in reversed(item.modifiers) if modifier in _WIDTHS), None)
        if place is None or type_name is None:
            continue
        size = _WIDTHS[type_name]
        for index, name in enumerate(_names(item.operands[0])):
            yield _Place(place.parameter, place.offset_bytes + index * size), size, type_name, name
