"""How is a module spelled? `write` prints PTX text that `reader.read` reads as the same module, spans apart.

Nested scopes are gone: registers and variables stand at the head of each body, under their flat names. Dropped by the
reader, and so not printed: comments, `.pragma`, DWARF sections, the settings of textures. Not printed either: where a
line was inlined, and what a tolerant reader passed over. Source: PTX ISA 9.1, Syntax; Directives. Checked by tests that
read what was printed, and by ptxas.
"""

from __future__ import annotations

import re

from tilewright.frontends.ptx.ast import (
    Address,
    Arguments,
    BranchTable,
    CallPrototype,
    CallTargets,
    FloatImmediate,
    Function,
    Immediate,
    Instruction,
    Kernel,
    Label,
    Location,
    Module,
    Negated,
    Operand,
    PairOfPredicates,
    Parameter,
    Register,
    RegisterDeclaration,
    RegisterPart,
    Relocation,
    ResidentVector,
    Symbol,
    SymbolOffset,
    TensorAddress,
    Variable,
    Vector,
)
from tilewright.frontends.ptx.declaration import type_bytes

_NUMBERED = re.compile(r"(.*?)(0|[1-9][0-9]*)")


def write(module: Module) -> str:
    """The text of a module."""
    lines = [
        f".version {module.version[0]}.{module.version[1]}",
        f".target {', '.join(module.target)}",
        f".address_size {module.address_size}",
        "",
    ]
    lines += [f'.file {number} "{name}"' for number, name in module.files.items()]
    # Before the variables, whose initial values may name them.
    for function in module.functions:
        if function.body is None:
            lines += ["", *_function(function)]
    lines += [_variable(variable) for variable in module.variables]
    for function in module.functions:
        if function.body is not None:
            lines += ["", *_function(function)]
    lines += [f".alias {alias.name}, {alias.aliasee};" for alias in module.aliases]
    for kernel in module.kernels:
        lines += ["", *_kernel(kernel)]
    return "\n".join(lines) + "\n"


def format_operand(operand: Operand) -> str:
    """The text of one operand."""
    match operand:
        case RegisterPart(name, selector, negated):
            return f"{'-' if negated else ''}{name}{'.' if selector else ''}{selector}"
        case Register(name) | Symbol(name):
            return name
        case Immediate(value):
            return str(value)
        case FloatImmediate(bits, width):
            return f"0f{bits:08X}" if width == 32 else f"0d{bits:016X}"
        case SymbolOffset():
            return _sum(operand)
        case Address():
            return f"[{_sum(operand)}]"
        case TensorAddress(base, coordinates, sampler):
            middle = "" if sampler is None else f"{_sum(sampler)}, "
            return f"[{_sum(base)}, {middle}{{{_list(coordinates)}}}]"
        case ResidentVector(items, resident):
            return f"{{{_list(items)}}}|{resident.name}"
        case Vector(items):
            return f"{{{_list(items)}}}"
        case Arguments(items):
            return f"({_list(items)})"
        case Negated(register):
            return f"!{register.name}"
        case PairOfPredicates(first, second):
            return f"{first.name}|{second.name}"


def format_instruction(instruction: Instruction) -> str:
    """The text of one instruction, guard and semicolon included."""
    guard = instruction.guard
    head = "" if guard is None else f"@{'!' if guard.negated else ''}{guard.register.name} "
    tail = f" {_list(instruction.operands)}" if instruction.operands else ""
    return f"{head}{instruction.opcode}{tail};"


def _list(operands: tuple[Operand, ...]) -> str:
    return ", ".join(format_operand(operand) for operand in operands)


def _sum(address: Address) -> str:
    if address.base is None:
        return str(address.offset)
    return f"{address.base.name}+{address.offset}" if address.offset else address.base.name


def _linkage(linkage: str) -> str:
    return f".{linkage} " if linkage else ""


def _kernel(kernel: Kernel) -> list[str]:
    head = f"{_linkage(kernel.linkage)}.entry {kernel.name}{_parameters(kernel.parameters)}"
    return [head, *_directives(kernel.directives), *_body(kernel, kernel.body)]


def _function(function: Function) -> list[str]:
    results = f"{_parameters(function.results)} " if function.results else ""
    head = f"{_linkage(function.linkage)}.func {results}{function.name}{_parameters(function.parameters)}"
    if function.body is None:
        return [head, *_directives(function.directives), ";"]
    return [head, *_directives(function.directives), *_body(function, function.body)]


def _directives(directives: dict[str, tuple[int, ...]]) -> list[str]:
    return [f".{name} {', '.join(str(value) for value in values)}".rstrip() for name, values in directives.items()]


def _parameters(parameters: tuple[Parameter, ...]) -> str:
    if not parameters:
        return "()"
    return "(\n" + ",\n".join(f"\t{_parameter(parameter)}" for parameter in parameters) + "\n)"


def _parameter(parameter: Parameter) -> str:
    pointee = parameter.pointee
    pointer = ""
    if pointee is not None:
        pointer = f" .ptr{'.' if pointee.space else ''}{pointee.space} .align {pointee.align}"
    size_bytes = parameter.size_bytes or None
    return f".{parameter.space} {_typed(parameter.name, parameter.type, parameter.align, size_bytes, pointer)}"


def _variable(variable: Variable) -> str:
    attributes = f".attribute({', '.join(f'.{name}' for name in variable.attributes)}) " if variable.attributes else ""
    head = f"{_linkage(variable.linkage)}.{variable.space} {attributes}"
    text = head + _typed(variable.name, variable.type, variable.align, variable.size_bytes)
    if variable.initial is None:
        return text + ";"
    return f"{text} = {_initial(variable.initial, variable.type, variable.relocations)};"


def _typed(name: str, kind: str, align: int, size_bytes: int | None, pointer: str = "") -> str:
    width = 1 if kind == "pred" else type_bytes(kind)
    alignment = f".align {align} " if align != width else ""
    extent = "" if size_bytes == width else "[]" if size_bytes is None else f"[{size_bytes // width}]"
    return f"{alignment}.{kind}{pointer} {name}{extent}"


def _initial(content: bytes, kind: str, relocations: tuple[Relocation, ...]) -> str:
    width = type_bytes(kind)
    numbers = [int.from_bytes(content[at : at + width], "little") for at in range(0, len(content), width)]
    match kind:
        case "f32":
            elements = [f"0f{number:08X}" for number in numbers]
        case "f64":
            elements = [f"0d{number:016X}" for number in numbers]
        case _:
            elements = [str(number) for number in numbers]
    for relocation in relocations:
        elements[relocation.offset // width] = _relocation(relocation)
    return elements[0] if len(elements) == 1 else f"{{{', '.join(elements)}}}"


def _relocation(relocation: Relocation) -> str:
    name = f"generic({relocation.symbol})" if relocation.generic else relocation.symbol
    address = f"{name}+{relocation.addend}" if relocation.addend else name
    return address if relocation.mask is None else f"{relocation.mask:#x}({address})"


def _registers(declaration: RegisterDeclaration) -> str:
    """`.reg .b32 %r<10>, x;`: names numbered from 0 on are written as a range."""
    words: list[str] = []
    names, at = declaration.names, 0
    while at < len(names):
        match = _NUMBERED.fullmatch(names[at])
        length = 0
        if match is not None and match[2] == "0":
            while at + length < len(names) and names[at + length] == f"{match[1]}{length}":
                length += 1
        if match is not None and length > 1:
            words.append(f"{match[1]}<{length}>")
            at += length
        else:
            words.append(names[at])
            at += 1
    return f".reg .{declaration.type} {', '.join(words)};"


def _body(code: Kernel | Function, items: tuple[Instruction | Label, ...]) -> list[str]:
    lines = ["{", *(f"\t{_registers(declaration)}" for declaration in code.registers)]
    lines += [f"\t{_variable(variable)}" for variable in code.variables]
    lines += [_table(table) for table in code.branch_tables]
    lines += [_prototype(prototype) for prototype in code.prototypes]
    lines += [_targets(targets) for targets in code.call_targets]
    places: dict[int, list[Location]] = {}
    for location in code.locations:
        places.setdefault(location.index, []).append(location)
    for index, item in enumerate(items):
        lines += [_location(location) for location in places.get(index, ())]
        lines.append(f"{item.name}:" if isinstance(item, Label) else f"\t{format_instruction(item)}")
    lines += [_location(location) for location in places.get(len(items), ())]
    return [*lines, "}"]


def _table(table: BranchTable) -> str:
    return f"{table.name}: .branchtargets {', '.join(table.labels)};"


def _prototype(prototype: CallPrototype) -> str:
    results = f"{_parameters(prototype.results)} " if prototype.results else ""
    tail = " ".join(["", *_directives(prototype.directives)])
    return f"{prototype.name}: .callprototype {results}_ {_parameters(prototype.parameters)}{tail};"


def _targets(targets: CallTargets) -> str:
    return f"{targets.name}: .calltargets {', '.join(targets.functions)};"


def _location(location: Location) -> str:
    # `inlined_at` needs the label of a function's name in a debug section, which is gone.
    return f"\t.loc {location.file} {location.line} {location.column}"
