"""What does a declaration declare? Registers, variables with their initial bytes, parameters.

Source: PTX ISA 8.8, State Spaces, Types, and Variables. Not handled, and refused: vector registers, initial values that
are addresses, `.attribute`, textures and surfaces. Checked by: tests/frontends/test_ptx_reader.py and test_ptx_fuzz.py.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import FloatImmediate, Immediate, Parameter, RegisterDeclaration, Variable
from tilewright.frontends.ptx.constant import literal_value, read_constant, read_integer
from tilewright.frontends.ptx.lexer import Cursor

TYPE_BYTES = {
    "b8": 1,
    "b16": 2,
    "b32": 4,
    "b64": 8,
    "b128": 16,
    "u8": 1,
    "u16": 2,
    "u32": 4,
    "u64": 8,
    "s8": 1,
    "s16": 2,
    "s32": 4,
    "s64": 8,
    "f16": 2,
    "f16x2": 4,
    "f32": 4,
    "f64": 8,
}
_SPACES = ("const", "global", "local", "shared", "shared::cta", "param")
_VECTOR = {"v2": 2, "v4": 4}
_MOST_REGISTERS = 1 << 20
_MOST_BYTES = 1 << 40
_DEEPEST_INITIALIZER = 16

Declare = Callable[[str, Span], str]


def read_registers(cursor: Cursor, declare: Declare) -> RegisterDeclaration:
    """`.reg .b32 %r<10>, x;`, the cursor after `.reg`. `declare` gives each name its flat name."""
    span = cursor.span(cursor.index - 1)
    kind = _type(cursor, predicate=True)
    names: list[str] = []
    while True:
        index = cursor.index
        name = cursor.expect("word", "a register name")
        if "." in name:
            cursor.fail(f"{name} cannot be a register's name", "a name has no dots", index)
        place = cursor.span(index)
        if cursor.accept("<"):
            count_index = cursor.index
            # Without operators: `%r<10>` would otherwise be a comparison.
            count = literal_value(cursor.expect("integer", "a number of registers"))
            if not 0 < count <= _MOST_REGISTERS:
                cursor.fail(f"{count} registers in one range", f"declare 1 to {_MOST_REGISTERS}", count_index)
            cursor.expect(">")
            names += [declare(f"{name}{number}", place) for number in range(count)]
        else:
            names.append(declare(name, place))
        if not cursor.accept(","):
            break
    cursor.expect(";", "`,` or `;` after a register")
    return RegisterDeclaration(kind, tuple(names), span)


def _type(cursor: Cursor, *, predicate: bool = False) -> str:
    index = cursor.index
    kind = cursor.expect("directive", "a type such as .b32")[1:]
    if kind in TYPE_BYTES or (predicate and kind == "pred"):
        return kind
    cursor.fail(f".{kind} is not a type that can be declared", "see PTX ISA, Fundamental Types", index)


def space_of(directive: str) -> str | None:
    """The state space that a directive such as `.shared` names, or None."""
    return directive[1:] if directive[1:] in _SPACES else None


def read_variables(cursor: Cursor, space: str, linkage: str, declare: Declare) -> list[Variable]:
    """`.shared .align 8 .b64 a, b[4];`, the cursor after the space. Sizes in bytes."""
    span = cursor.span(cursor.index - 1)
    align, lanes = 0, 1
    while cursor.kind == "directive" and cursor.text[1:] not in TYPE_BYTES:
        if cursor.text == ".align":
            align = _align(cursor)
        elif cursor.text[1:] in _VECTOR:
            lanes = _VECTOR[cursor.take()[1:]]
        else:
            cursor.fail(f"{cursor.text} is not known in a declaration", "see PTX ISA, Variables")
    kind = _type(cursor)
    element_bytes = TYPE_BYTES[kind] * lanes
    variables: list[Variable] = []
    while True:
        index = cursor.index
        name = cursor.expect("word", "a variable name")
        place = cursor.span(index)
        if "." in name:
            cursor.fail(f"{name} cannot be a variable's name", "a name has no dots", index)
        size_bytes = _dimensions(cursor, element_bytes)
        initial = _initializer(cursor, kind) if cursor.accept("=") else None
        if initial is not None:
            if size_bytes is None:
                size_bytes = len(initial)
            if len(initial) > size_bytes:
                cursor.fail(
                    f"{name} has {size_bytes} bytes and an initial value of {len(initial)}", "make it larger", index
                )
            if space not in ("global", "const"):
                cursor.fail(f"{name} in .{space} cannot have an initial value", "store it in the kernel", index)
            initial = initial.ljust(size_bytes, b"\0")
        if size_bytes is None and linkage != "extern":
            cursor.fail(f"array {name} has no size", "give it one, or declare it .extern", index)
        unique = declare(name, place)
        variables.append(Variable(space, unique, kind, align or element_bytes, size_bytes, initial, span, linkage))
        if not cursor.accept(","):
            break
    cursor.expect(";", "`,` or `;` after a variable")
    return variables


def _align(cursor: Cursor) -> int:
    """`.align 16`, the cursor at the directive."""
    index = cursor.index
    cursor.take()
    align = read_integer(cursor)
    if align < 1 or align & (align - 1):
        cursor.fail(f".align {align} is not a power of two", "use 1, 2, 4, ... bytes", index)
    return align


def _dimensions(cursor: Cursor, element_bytes: int) -> int | None:
    """Bytes of a variable whose name has just been read; None if its first dimension is left open."""
    size: int | None = element_bytes
    first = True
    while cursor.accept("["):
        if cursor.accept("]"):
            if not first:
                cursor.fail("only the first dimension may be left open", "give the dimension", cursor.index - 1)
            size = None
        else:
            index = cursor.index
            extent = read_integer(cursor)
            if extent < 0 or extent * element_bytes > _MOST_BYTES:
                cursor.fail(f"{extent} is not an array's size", "give a size in elements", index)
            cursor.expect("]")
            if size is not None:
                size *= extent
                if size > _MOST_BYTES:
                    cursor.fail("an array larger than any memory", "give a smaller size", index)
        first = False
    return size


def _initializer(cursor: Cursor, kind: str) -> bytes:
    """Little-endian bytes of `= 1` or `= {1, {2, 3}}`, elements of type `kind`."""
    content = bytearray()
    if cursor.kind != "{":
        return _element(cursor, kind)
    depth = 0
    while True:
        if cursor.accept("{"):
            depth += 1
            if depth > _DEEPEST_INITIALIZER:
                cursor.fail("the initial value is nested too deeply", "write it as one list")
            if not cursor.at("}"):
                continue
        else:
            content += _element(cursor, kind)
        while cursor.accept("}"):
            depth -= 1
            if depth == 0:
                return bytes(content)
        cursor.expect(",", "`,` or `}` in an initial value")


def _element(cursor: Cursor, kind: str) -> bytes:
    index, width = cursor.index, TYPE_BYTES[kind]
    if cursor.kind == "word":
        cursor.fail(
            f"initial value {cursor.text} is an address", "Tilewright reads constants only: store it at run time"
        )
    value = read_constant(cursor)
    is_float = kind in ("f32", "f64")
    match value:
        case Immediate(number) if not is_float:
            if not -(1 << (8 * width - 1)) <= number < 1 << (8 * width):
                cursor.fail(f"{number} does not fit .{kind}", "use a wider type", index)
            return (number % (1 << (8 * width))).to_bytes(width, "little")
        case FloatImmediate(bits, size) if is_float and size == 8 * width:
            return bits.to_bytes(width, "little")
        case FloatImmediate(bits, 64) if kind == "f32":
            number = struct.unpack("<d", struct.pack("<Q", bits))[0]
            try:
                return struct.pack("<f", number)
            except OverflowError:
                cursor.fail(f"{number} does not fit .f32", "use .f64", index)
        case _:
            cursor.fail(f"this constant is not of type .{kind}", "write floats with a point, integers without", index)


def read_parameters(cursor: Cursor) -> tuple[Parameter, ...]:
    """`(.param .u64 a, .param .align 64 .b8 map[128])`, the cursor at `(`. Sizes in bytes."""
    cursor.expect("(")
    parameters: list[Parameter] = []
    while parameters or not cursor.at(")"):
        span = cursor.span()
        if cursor.take() != ".param":
            cursor.index -= 1
            cursor.refuse(
                "`.param`" if cursor.text != ".reg" else "`.param` (a function's .reg parameters are not handled)"
            )
        parameters.append(_parameter(cursor, span))
        if not cursor.accept(","):
            break
    cursor.expect(")", "`,` or `)` in a parameter list")
    return tuple(parameters)


def _parameter(cursor: Cursor, span: Span) -> Parameter:
    align, kind = 0, ""
    while cursor.kind == "directive":
        word = cursor.text
        if word == ".align":
            align = _align(cursor)
        elif word == ".ptr":
            # What the pointer points to: the assembler may use it, the meaning of the kernel does not change.
            cursor.take()
            if cursor.text in (".global", ".shared", ".const", ".local"):
                cursor.take()
            if cursor.text == ".align":
                _align(cursor)
        elif kind:
            cursor.fail(f"{word} is not known in a parameter", "see PTX ISA, Kernel Function Parameters")
        else:
            kind = _type(cursor)
    if not kind:
        cursor.refuse("a type such as .u64")
    index = cursor.index
    name = cursor.expect("word", "a parameter name")
    if "." in name:
        cursor.fail(f"{name} cannot be a parameter's name", "a name has no dots", index)
    size_bytes = _dimensions(cursor, TYPE_BYTES[kind])
    if size_bytes is None:
        cursor.fail(f"parameter {name} has no size", "give its size in elements", index)
    return Parameter(name, kind, align or TYPE_BYTES[kind], size_bytes, span)
