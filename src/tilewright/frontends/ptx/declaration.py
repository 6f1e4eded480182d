"""What does a declaration declare? Registers, variables, parameters.

A vector register stands for its elements, which are declared one by one. Source: PTX ISA 9.1, State Spaces, Types, and
Variables; Variable and Function Attribute Directive. `initializer` reads what follows `=`.
Checked by: tests/frontends/test_ptx_grammar.py, test_ptx_reader.py and test_ptx_fuzz.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Parameter, Pointee, RegisterDeclaration, Relocation, Variable
from tilewright.frontends.ptx.constant import literal_value, read_integer
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
# Handles: what they hold is the driver's.
_OPAQUE = ("texref", "samplerref", "surfref")
_SPACES = ("const", "global", "local", "shared", "shared::cta", "param", "tex")
_POINTEE_SPACES = ("global", "shared", "shared::cta", "shared::cluster", "const", "local", "param")
_VECTOR = {"v2": 2, "v4": 4, "v8": 8}
_ELEMENTS = "xyzwabcd"
_MOST_REGISTERS = 1 << 20
_MOST_BYTES = 1 << 40
_MOST_VARIABLES = 1 << 12
_MOST_DIMENSIONS = 16

Declare = Callable[[str, Span], str]
DeclareAll = Callable[[Sequence[str], Span], Sequence[str]]
DeclareVector = Callable[[str, tuple[str, ...], Span], tuple[str, ...]]


def type_bytes(kind: str) -> int:
    """Bytes of a value of a type; of a handle for the opaque types."""
    return 8 if kind in _OPAQUE else TYPE_BYTES[kind]


def read_registers(cursor: Cursor, declare: DeclareAll, declare_vector: DeclareVector) -> RegisterDeclaration:
    """`.reg .b32 %r<10>, x;`, the cursor after `.reg`. `declare` gives names their flat names.

    `declare_vector` takes the name of a `.v2` or `.v4` register and its elements' letters, and gives their flat names.
    """
    span = cursor.span(cursor.index - 1)
    lanes = _VECTOR[cursor.take()[1:]] if cursor.kind == "directive" and cursor.text[1:] in _VECTOR else 1
    kind = _type(cursor, predicate=True)

    def take(stems: list[str], place: Span) -> Sequence[str]:
        if lanes == 1:
            return declare(stems, place)
        return [flat for stem in stems for flat in declare_vector(stem, tuple(_ELEMENTS[:lanes]), place)]

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
            cursor.spend(names=count * lanes)
            names += take([f"{name}{number}" for number in range(count)], place)
        else:
            names += take([name], place)
        if not cursor.accept(","):
            break
    cursor.expect(";", "`,` or `;` after a register")
    return RegisterDeclaration(kind, tuple(names), span)


def _count(cursor: Cursor) -> str:
    """The number in `name<4>`, the cursor after `<`. Without operators: it would otherwise be a comparison."""
    text = cursor.expect("integer", "a number of variables")
    if not 0 < literal_value(text) <= _MOST_VARIABLES:
        cursor.fail(f"{text} variables in one range", f"declare 1 to {_MOST_VARIABLES}", cursor.index - 1)
    cursor.expect(">")
    return text


def read_attributes(cursor: Cursor) -> tuple[str, ...]:
    """`(.managed, .unified(1, 2))`, the cursor after `.attribute`: `managed`, `unified(1, 2)`."""
    cursor.expect("(")
    attributes: list[str] = []
    while True:
        attribute = cursor.expect("directive", "an attribute such as .managed")[1:]
        if cursor.accept("("):
            values = [read_integer(cursor)]
            while cursor.accept(","):
                values.append(read_integer(cursor))
            cursor.expect(")")
            attribute += f"({', '.join(str(value) for value in values)})"
        attributes.append(attribute)
        if not cursor.accept(","):
            break
    cursor.expect(")", "`,` or `)` after an attribute")
    return tuple(attributes)


def _type(cursor: Cursor, *, predicate: bool = False, opaque: bool = False) -> str:
    index = cursor.index
    kind = cursor.expect("directive", "a type such as .b32")[1:]
    if kind in TYPE_BYTES or (predicate and kind == "pred") or (opaque and kind in _OPAQUE):
        return kind
    cursor.fail(f".{kind} is not a type that can be declared", "see PTX ISA, Fundamental Types", index)


def space_of(directive: str) -> str | None:
    """The state space that a directive such as `.shared` names, or None."""
    return directive[1:] if directive[1:] in _SPACES else None


def read_variables(cursor: Cursor, space: str, linkage: str, declare: Declare) -> list[Variable]:
    """`.shared .align 8 .b64 a, b[4];`, the cursor after the space. Sizes in bytes."""
    span = cursor.span(cursor.index - 1)
    align, lanes = 0, 1
    attributes: tuple[str, ...] = ()
    if space == "const" and cursor.accept("["):
        # A constant bank: deprecated, and one address space all the same.
        read_integer(cursor)
        cursor.expect("]")
    while cursor.kind == "directive" and cursor.text[1:] not in TYPE_BYTES and cursor.text[1:] not in _OPAQUE:
        if cursor.text == ".align":
            align = _align(cursor)
        elif cursor.text == ".attribute":
            cursor.take()
            attributes += read_attributes(cursor)
        elif cursor.text[1:] in _VECTOR:
            lanes = _VECTOR[cursor.take()[1:]]
        else:
            cursor.fail(f"{cursor.text} is not known in a declaration", "see PTX ISA, Variables")
    kind = _type(cursor, opaque=True)
    element_bytes = type_bytes(kind) * lanes
    variables: list[Variable] = []
    while True:
        index = cursor.index
        name = cursor.expect("word", "a variable name")
        place = cursor.span(index)
        if "." in name:
            cursor.fail(f"{name} cannot be a variable's name", "a name has no dots", index)
        # `name<4>` declares name0 to name3.
        count = literal_value(_count(cursor)) if cursor.accept("<") else None
        extents = _dimensions(cursor, element_bytes)
        size_bytes = _size_bytes(extents, element_bytes)
        initial: bytes | None = None
        relocations: tuple[Relocation, ...] = ()
        if cursor.accept("="):
            from tilewright.frontends.ptx.initializer import pass_over_settings, read_initializer

            if space not in ("global", "const"):
                cursor.fail(f"{name} in .{space} cannot have an initial value", "store it in the kernel", index)
            if kind in _OPAQUE:
                pass_over_settings(cursor)
            else:
                shape = extents if lanes == 1 else (*extents, lanes)
                initial, relocations = read_initializer(cursor, kind, TYPE_BYTES[kind], shape)
        if initial is not None:
            if size_bytes is None:
                size_bytes = -(-len(initial) // element_bytes) * element_bytes
            if len(initial) > size_bytes:
                cursor.fail(
                    f"{name} has {size_bytes} bytes and an initial value of {len(initial)}", "make it larger", index
                )
            cursor.spend(initial_bytes=size_bytes)
            initial = initial.ljust(size_bytes, b"\0")
        if size_bytes is None and linkage != "extern":
            cursor.fail(f"array {name} has no size", "give it one, or declare it .extern", index)
        cursor.spend(names=count or 1)
        for each in [name] if count is None else [f"{name}{number}" for number in range(count)]:
            variables.append(
                Variable(
                    space,
                    declare(each, place),
                    kind,
                    align or element_bytes,
                    size_bytes,
                    initial,
                    span,
                    linkage,
                    relocations,
                    attributes,
                )
            )
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


def _dimensions(cursor: Cursor, element_bytes: int) -> tuple[int | None, ...]:
    """The extents after a variable's name, the first None if it is left open; empty for a scalar."""
    extents: list[int | None] = []
    while cursor.accept("["):
        if len(extents) == _MOST_DIMENSIONS:
            cursor.fail("an array of too many dimensions", f"use {_MOST_DIMENSIONS} at most")
        if cursor.accept("]"):
            if extents:
                cursor.fail("only the first dimension may be left open", "give the dimension", cursor.index - 1)
            extents.append(None)
            continue
        index = cursor.index
        extent = read_integer(cursor)
        if extent < 0 or extent * element_bytes > _MOST_BYTES:
            cursor.fail(f"{extent} is not an array's size", "give a size in elements", index)
        cursor.expect("]")
        extents.append(extent)
        if prod(extent for extent in extents if extent is not None) * element_bytes > _MOST_BYTES:
            cursor.fail("an array larger than any memory", "give a smaller size", index)
    return tuple(extents)


def _size_bytes(extents: tuple[int | None, ...], element_bytes: int) -> int | None:
    """Bytes of a variable; None if its first dimension is left open."""
    sizes = [extent for extent in extents if extent is not None]
    return prod(sizes) * element_bytes if len(sizes) == len(extents) else None


def read_parameters(cursor: Cursor, *, registers: bool = True) -> tuple[Parameter, ...]:
    """`(.param .u64 a, .param .align 64 .b8 map[128])`, the cursor at `(`. Sizes in bytes.

    A device function's may be `.reg .u32 a`, and may end with an open array; a kernel's, with registers False, not.
    """
    cursor.expect("(")
    parameters: list[Parameter] = []
    while parameters or not cursor.at(")"):
        span = cursor.span()
        if not cursor.at(".param", ".reg" if registers else ".param"):
            cursor.refuse("`.param`")
        parameters.append(_parameter(cursor, cursor.take()[1:], span))
        if not registers and not parameters[-1].size_bytes:
            cursor.fail(f"parameter {parameters[-1].name} has no size", "give its size in elements")
        if not cursor.accept(","):
            break
    cursor.expect(")", "`,` or `)` in a parameter list")
    return tuple(parameters)


def _parameter(cursor: Cursor, space: str, span: Span) -> Parameter:
    align, kind = 0, ""
    pointee: Pointee | None = None
    while cursor.kind == "directive":
        word = cursor.text
        if word == ".align":
            align = _align(cursor)
        elif word == ".ptr":
            cursor.take()
            pointee = _pointee(cursor)
        elif kind:
            cursor.fail(f"{word} is not known in a parameter", "see PTX ISA, Kernel Function Parameters")
        else:
            kind = _type(cursor, predicate=space == "reg", opaque=True)
    if not kind:
        cursor.refuse("a type such as .u64")
    index = cursor.index
    name = cursor.expect("word", "a parameter name")
    if "." in name:
        cursor.fail(f"{name} cannot be a parameter's name", "a name has no dots", index)
    width = 1 if kind == "pred" else type_bytes(kind)
    size_bytes = _size_bytes(_dimensions(cursor, width), width)
    if size_bytes is None and not cursor.at(")"):
        cursor.fail(f"parameter {name} has no size", "give its size in elements, or let it be the last", index)
    return Parameter(name, kind, align or width, size_bytes or 0, span, space, pointee)


def _pointee(cursor: Cursor) -> Pointee:
    """`.ptr .global .align 16`, the cursor after `.ptr`: the ISA's default alignment is four bytes."""
    space, align = "", 4
    while cursor.kind == "directive":
        if cursor.text[1:] in _POINTEE_SPACES:
            space = cursor.take()[1:]
        elif cursor.text == ".align":
            align = _align(cursor)
        else:
            break
    return Pointee(space, align)
