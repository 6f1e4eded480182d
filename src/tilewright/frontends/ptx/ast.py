"""What a PTX module is, as values: directives, declarations, instructions with their places.

Only syntax: names are not resolved beyond what the text says, and nothing is executed. Source: PTX ISA, chapters 4
(syntax), 5 (state spaces), 10 and 11 (special registers, directives). `reader` makes these values. A reader that is
tolerant marks what it could not read: an `Instruction` with an empty `row`, and `Module.unread`.
Checked by: tests/frontends/test_ptx_reader.py and test_ptx_fuzz.py.
"""

from __future__ import annotations

from dataclasses import field

from tilewright.base.span import Span
from tilewright.base.value import dataclass, value


@value
class Register:
    """A named register (`%r1`, `%p0`, `acc3`), or a special register (`%tid.x`, `%cluster_ctaid.x`)."""

    name: str


@value
class RegisterPart(Register):
    """`%r1.b0`, `%r1.h1`, `-%r1.b3`: bytes of the register `name`, as the video instructions take them.

    selector: digits and letters after the dot, empty for the whole register.
    """

    selector: str = ""
    negated: bool = False


@value
class Immediate:
    """An integer constant as written (sign included), not yet reduced to a width."""

    value: int


@value
class FloatImmediate:
    """A float constant. `bits` holds the exact image for `0f........` (32 bits) and `0d........` (64 bits)."""

    bits: int
    width: int


@value
class Symbol:
    """A label, a variable or a function used as an operand."""

    name: str


@value
class Address:
    """`[base + offset]`; base is a register, a symbol, or None for an absolute address."""

    base: Register | Symbol | None
    offset: int = 0


@value
class SymbolOffset(Address):
    """`name+4` without brackets: an address used as a value (`mov.u32 %r1, smem+16`). Its base is a Symbol."""


@value
class TensorAddress:
    """`[tensorMap, {c0, c1, ...}]`, a bulk tensor copy's tensor operand; `[texture, sampler, {x, y}]`, a fetch's."""

    base: Address
    coordinates: tuple[Operand, ...]
    sampler: Address | None = None


@value
class Vector:
    """`{a, b, c}`."""

    items: tuple[Operand, ...]


@value
class ResidentVector(Vector):
    """`{a, b, c, d}|p`: texels, and whether they are resident."""

    resident: Register


@value
class Negated:
    """`!p` as an operand."""

    operand: Register


@value
class PairOfPredicates:
    """`p|q`: two predicate destinations (setp), or `d|p` (shfl.sync, elect.sync)."""

    first: Register
    second: Register


@value
class Arguments:
    """`(a, b)`: the results or the arguments of a call."""

    items: tuple[Operand, ...]


Operand = (
    Register
    | Immediate
    | FloatImmediate
    | Symbol
    | Address
    | TensorAddress
    | Vector
    | Negated
    | PairOfPredicates
    | Arguments
)


@value
class Guard:
    """`@p` or `@!p`."""

    register: Register
    negated: bool


@value
class Instruction:
    """One instruction.

    opcode: the whole dotted text (`ld.shared.v4.b32`); row: the key of its row in the instruction table (`ld`,
    `cp.async.bulk.tensor`, `wgmma.mma_async`); modifiers: the dotted parts after the row's key, without dots and in the
    ISA's order, whatever order the text has (`("shared", "v4", "b32")`; a part such as `shared::cta` stays one string).

    An empty `row` marks an instruction that the table lacks, or whose modifiers or operands no form of its row takes
    (only a tolerant reader makes it): it may do anything. Its modifiers are the dotted parts after the first, as
    written; its operands are there as far as they could be read.
    """

    opcode: str
    row: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None
    span: Span


@value
class Label:
    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class RegisterDeclaration:
    """`.reg .b32 %r<10>;`: type without its dot, and the names declared (expanded)."""

    type: str
    names: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Relocation:
    """An address in an initial value: `symbol + addend` at byte `offset`; as a generic address under `generic(symbol)`.

    mask: of `0xFF(symbol)`, the byte of the address that is meant, None for all of it.
    """

    offset: int
    symbol: str
    addend: int = 0
    generic: bool = False
    mask: int | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    """A `.shared`, `.global`, `.const` or `.local` variable, or a call's `.param` variable.

    size_bytes is None for an `extern` array of unknown size (`.extern .shared .align 1024 .b8 smem[];`). linkage:
    `visible`, `extern`, `weak`, `common`, or empty. initial holds zeros where `relocations` put addresses. attributes:
    `managed`, `unified(1, 2)`. The types `texref`, `samplerref` and `surfref` are opaque handles of 8 bytes.
    """

    space: str
    name: str
    type: str
    align: int
    size_bytes: int | None
    initial: bytes | None
    span: Span
    linkage: str = ""
    relocations: tuple[Relocation, ...] = ()
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pointee:
    """What `.ptr .global .align 16` says of a pointer parameter. space: empty for generic; align: in bytes."""

    space: str
    align: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: type (`u64`, `b8`, ...), array size in bytes (equal to the width for a scalar), alignment.

    size_bytes is 0 for the open array that ends a variadic function's list. space: `reg` for a device function's
    parameter in a register, else `param`. pointee: None unless the text says `.ptr`.
    """

    name: str
    type: str
    align: int
    size_bytes: int
    span: Span
    space: str = "param"
    pointee: Pointee | None = None


@dataclass(frozen=True, slots=True)
class Location:
    """A `.loc file line column` in force from an instruction index on: PTX to source correspondence.

    inlined_at: file, line and column of the call that was expanded here, None for code that was not inlined; function:
    where the debug data have the inlined function's name, as in `$L__info_string0` (see `Module.inlined_names`).
    """

    index: int
    file: int
    line: int
    column: int
    inlined_at: tuple[int, int, int] | None = None
    function: str = ""


@dataclass(frozen=True, slots=True)
class BranchTable:
    """`name: .branchtargets L0, L1;`: where `brx.idx` may go."""

    name: str
    labels: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class CallPrototype:
    """`name: .callprototype (results) _ (parameters);`: what an indirect call's function takes and returns."""

    name: str
    results: tuple[Parameter, ...]
    parameters: tuple[Parameter, ...]
    directives: dict[str, tuple[int, ...]]
    span: Span


@dataclass(frozen=True, slots=True)
class CallTargets:
    """`name: .calltargets f, g;`: the functions that an indirect call may reach."""

    name: str
    functions: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Alias:
    """`.alias name, aliasee;`: another name of a function."""

    name: str
    aliasee: str
    span: Span


@dataclass(frozen=True, slots=True)
class Unread:
    """A directive that a tolerant reader passed over. text: its words with single spaces between them."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Kernel:
    """An `.entry`. body: instructions and labels in order. directives: performance directives by name without dot
    (`reqntid`, `maxntid`, `minnctapersm`, `maxnreg`, `reqnctapercluster`, `explicitcluster`, ...), values as written.

    Registers, variables and labels of nested `{ }` scopes are renamed apart, so that the kernel has one flat namespace.
    """

    name: str
    parameters: tuple[Parameter, ...]
    directives: dict[str, tuple[int, ...]]
    registers: tuple[RegisterDeclaration, ...]
    variables: tuple[Variable, ...]
    body: tuple[Instruction | Label, ...]
    span: Span
    locations: tuple[Location, ...] = ()
    branch_tables: tuple[BranchTable, ...] = ()
    linkage: str = ""
    prototypes: tuple[CallPrototype, ...] = ()
    call_targets: tuple[CallTargets, ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """A `.func`: a device function, or the declaration of one (body None). Fields as in `Kernel`."""

    name: str
    results: tuple[Parameter, ...]
    parameters: tuple[Parameter, ...]
    directives: dict[str, tuple[int, ...]]
    registers: tuple[RegisterDeclaration, ...]
    variables: tuple[Variable, ...]
    body: tuple[Instruction | Label, ...] | None
    span: Span
    locations: tuple[Location, ...] = ()
    branch_tables: tuple[BranchTable, ...] = ()
    linkage: str = ""
    prototypes: tuple[CallPrototype, ...] = ()
    call_targets: tuple[CallTargets, ...] = ()


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX translation unit. version (8, 0); target: names after `.target` (`("sm_90a",)`); files: `.file` table.

    unread: directives that a tolerant reader passed over, in the order of the text; empty from a strict one;
    inlined_names: of inlined functions, as the compiler calls them, by `Location.function`.
    """

    version: tuple[int, int]
    target: tuple[str, ...]
    address_size: int
    variables: tuple[Variable, ...]
    kernels: tuple[Kernel, ...]
    files: dict[int, str] = field(default_factory=dict[int, str])
    functions: tuple[Function, ...] = ()
    aliases: tuple[Alias, ...] = ()
    unread: tuple[Unread, ...] = ()
    inlined_names: dict[str, str] = field(default_factory=dict[str, str])
