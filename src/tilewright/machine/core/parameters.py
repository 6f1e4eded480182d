"""What stands in a kernel's parameter block? The launch's values as bytes, in the order of the declarations.

A tensor map is 128 bytes of the machine's own encoding (`tensor_map_bytes`), wherever it stands: as a parameter, at
some offset of a structure, or in a buffer that a pointer leads to. A structure's pointers are written over its bytes.
What nobody gives of a structure is zero here; whoever must not rely on that asks for `OpaqueParam.unknown_bytes`.
Source: PTX ISA 5.1.6 (parameter state space), 7.1; CUDA driver, cuTensorMapEncodeTiled (alignment).

`parameter_places` says which registers of a text hold the address of a place in the parameters.

Not handled: parameters that lie in a buffer of the caller's choice. Checked by: tests/machine/core/test_parameters.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tilewright.base.error import TilewrightError
from tilewright.base.plan import (
    Launch,
    NullPointerParam,
    OpaqueParam,
    Param,
    PointerParam,
    ScalarParam,
    TensorMapParam,
    UnknownTensorMapParam,
)
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
    SymbolOffset,
)
from tilewright.machine.copy.tensor_map_bytes import alignment_bytes, encode, encode_unknown
from tilewright.machine.core.memory import PARAM_WINDOW, GlobalMemory
from tilewright.targets import Target


@dataclass(frozen=True, slots=True, eq=False)
class ParameterBlock:
    """data: the block's bytes; symbols: each parameter's generic address."""

    data: npt.NDArray[np.uint8]
    symbols: dict[str, int]


def parameter_block(kernel: Kernel, launch: Launch, memory: GlobalMemory, facts: Target) -> ParameterBlock:
    """Lay out the launch's values. Raises TilewrightError where they do not fit the kernel's declarations."""
    if len(kernel.parameters) != len(launch.params):
        raise TilewrightError(
            f"kernel {kernel.name} takes {len(kernel.parameters)} parameters, the launch gives {len(launch.params)}",
            span=kernel.span,
        )
    symbols: dict[str, int] = {}
    block = bytearray()
    for parameter, given in zip(kernel.parameters, launch.params, strict=True):
        block.extend(bytes(-len(block) % parameter.align))
        address = PARAM_WINDOW + len(block)
        symbols[parameter.name] = address
        value = _value(parameter, given, memory, address, facts)
        if len(value) != parameter.size_bytes:
            raise TilewrightError(
                f"parameter {parameter.name} has {parameter.size_bytes} bytes, the launch gives {len(value)}",
                span=parameter.span,
            )
        block.extend(value)
    return ParameterBlock(np.frombuffer(bytes(block), np.uint8), symbols)


def _value(parameter: Parameter, given: Param, memory: GlobalMemory, address: int, facts: Target) -> bytes:
    alignment = alignment_bytes(facts)
    match given:
        case PointerParam() | NullPointerParam() | TensorMapParam() | UnknownTensorMapParam():
            if isinstance(given, (TensorMapParam, UnknownTensorMapParam)) and parameter.align % alignment:
                raise TilewrightError(
                    f"parameter {parameter.name} holds a tensor map and is aligned to {parameter.align} bytes",
                    span=parameter.span,
                    remedy=f"declare it .align {alignment}",
                )
            return _member(parameter, given, memory, address, facts)
        case ScalarParam("f32", value):
            return np.array([value], np.float32).tobytes()
        case ScalarParam("i32", value):
            # A narrower parameter (.u8, .u16, .pred stored as .b8) is given as i32, too.
            width = min(parameter.size_bytes, 4)
            return (int(value) & ((1 << (8 * width)) - 1)).to_bytes(width, "little")
        case ScalarParam(_, value):
            return (int(value) & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little")
        case OpaqueParam(size_bytes, data, fields):
            content = bytearray(data.ljust(size_bytes, b"\0"))
            for offset, member in fields:
                placed = _member(parameter, member, memory, address + offset, facts)
                if offset < 0 or offset + len(placed) > size_bytes:
                    raise TilewrightError(
                        f"parameter {parameter.name} has {size_bytes} bytes, a member stands at {offset}",
                        span=parameter.span,
                    )
                content[offset : offset + len(placed)] = placed
            return bytes(content)


def _member(
    parameter: Parameter,
    given: PointerParam | NullPointerParam | TensorMapParam | UnknownTensorMapParam,
    memory: GlobalMemory,
    address: int,
    facts: Target,
) -> bytes:
    match given:
        case NullPointerParam():
            return bytes(8)
        case PointerParam(buffer, offset, maps, pointers):
            begin = _buffer(memory, buffer, parameter)
            for at, each in pointers:
                memory.put_bytes(begin + at, _member(parameter, each, memory, begin + at, facts))
            for at, held in maps:
                memory.put_map(begin + at, _member(parameter, held, memory, begin + at, facts))
            return (begin + offset).to_bytes(8, "little")
        case TensorMapParam(buffer, tensor_map):
            return encode(tensor_map, _buffer(memory, buffer, parameter), facts)
        case UnknownTensorMapParam(box_bytes):
            return encode_unknown(box_bytes, address, facts)


def _buffer(memory: GlobalMemory, name: str, parameter: Parameter) -> int:
    found = memory.by_name.get(name)
    if found is None:
        raise TilewrightError(f"parameter {parameter.name} names buffer {name}, which was not given")
    return found.base


Place = tuple[str, int]
"""A parameter's name and an offset in it, in bytes."""


@dataclass(frozen=True, slots=True)
class ParameterPlaces:
    """Where a text's registers point into the parameters. places: of those that point to one place whenever they hold
    anything; elsewhere: others may point into the parameters, too."""

    places: Mapping[str, Place]
    elsewhere: bool = False


def parameter_places(kernel: Kernel, instructions: Sequence[Instruction]) -> ParameterPlaces:
    """Where the registers of a kernel's text point into its parameters."""
    written: dict[str, list[Instruction]] = {}
    for item in instructions:
        if item.operands and isinstance(item.operands[0], Register):
            written.setdefault(item.operands[0].name, []).append(item)
    names = {parameter.name for parameter in kernel.parameters}
    places: dict[str, Place] = {}
    grown = True
    while grown:
        grown = False
        for name, items in written.items():
            if name not in places and len(items) == 1 and (place := _place_made(items[0], places, names)) is not None:
                places[name] = place
                grown = True
    return ParameterPlaces(places, any(_leads_elsewhere(item, places, names) for item in instructions))


def _leads_elsewhere(item: Instruction, places: Mapping[str, Place], names: Collection[str]) -> bool:
    """Does the instruction take the address of a parameter to where `places` does not follow it?"""
    target = item.operands[0] if item.operands else None
    if isinstance(target, Register) and target.name in places:
        return False
    sources = item.operands if target is None or not isinstance(target, Register) else item.operands[1:]
    return any(
        place_of(each, places, names) is not None
        for each in sources
        if not isinstance(each, Address) or isinstance(each, SymbolOffset)
    )


def place_of(operand: Operand, places: Mapping[str, Place], names: Collection[str] = ()) -> Place | None:
    """The place in the parameters that an operand names, as one of `names`, or points to, as one of `places`."""
    match operand:
        case Symbol(name) if name in names:
            return name, 0
        case Register(name) if name in places:
            return places[name]
        case Address(Symbol(name), offset) if name in names:
            return name, offset
        case Address(Register(name), offset) if name in places:
            parameter, begin = places[name]
            return parameter, begin + offset
        case _:
            return None


def _place_made(item: Instruction, places: Mapping[str, Place], names: Collection[str]) -> Place | None:
    match item.row, item.operands:
        case "mov" | "cvta" | "cvt", (_, source):
            return place_of(source, places, names)
        case "add", (_, source, Immediate(more)) if (place := place_of(source, places, names)) is not None:
            return place[0], place[1] + more
        case _:
            return None
