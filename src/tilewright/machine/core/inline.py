"""What does a kernel look like once the functions that it calls stand in it? One flat body without calls.

Every call site gets its own copy of the callee, its registers, local variables and labels renamed apart; static
variables of a function (`.shared`, `.global`) stay one. A parameter in parameter space becomes another name for the
variable that the caller passes, one in a register is moved; `ret` becomes a branch behind the copy. A call through a
register compares the address with those of all functions whose address the module takes.

What follows works on any reader's kernel and needs no call stack: lanes of a warp may be in different calls. Source:
PTX ISA 7.1 (function declarations), 9.7.12.5 (call), 9.7.12.6 (ret).

Not handled: recursion, which is refused; functions without a body, whose call stays in the text and fails where it is
executed, apart from `vprintf`, which prints nothing and returns 0. Checked by: tests/machine/core/test_calls.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.base.error import TilewrightError
from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import (
    Address,
    Arguments,
    BranchTable,
    Function,
    Guard,
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
    Symbol,
    TensorAddress,
    Variable,
    Vector,
)

MOST_ITEMS = 400_000
"""Instructions and labels of an expanded kernel; a chain of functions that call one another twice grows as 2^n."""
_DEEPEST = 64
_SILENT = frozenset({"vprintf"})
_PRIVATE_SPACES = ("local", "param")
_RESULT_BYTES = 4


def inlined(module: Module, kernel: Kernel) -> Kernel:
    """The kernel with every call expanded; the kernel itself if it calls nothing.

    Raises TilewrightError for recursion, for arguments that do not fit and for an expansion beyond `MOST_ITEMS`.
    """
    if not any(isinstance(item, Instruction) and item.row == "call" for item in kernel.body):
        return kernel
    expansion = _Expansion(module, kernel)
    expansion.copy(kernel.body, kernel.locations, {}, None, ())
    return replace(
        kernel,
        registers=(*kernel.registers, *expansion.registers),
        variables=(*kernel.variables, *expansion.variables),
        body=tuple(expansion.items),
        locations=tuple(expansion.locations),
        branch_tables=(*kernel.branch_tables, *expansion.tables),
    )


@dataclass(frozen=True, slots=True)
class _Call:
    """A call instruction's parts."""

    target: Operand
    results: tuple[Operand, ...]
    arguments: tuple[Operand, ...]


class _Expansion:
    """The growing body, and what it declares besides the kernel."""

    def __init__(self, module: Module, kernel: Kernel) -> None:
        self.module = module
        self.functions = {function.name: function for function in module.functions}
        # A declaration may stand beside the definition.
        self.functions |= {function.name: function for function in module.functions if function.body is not None}
        for alias in module.aliases:
            if alias.aliasee in self.functions:
                self.functions[alias.name] = self.functions[alias.aliasee]
        self.items: list[Instruction | Label] = []
        self.locations: list[Location] = []
        self.registers: list[RegisterDeclaration] = []
        self.variables: list[Variable] = []
        self.tables: list[BranchTable] = []
        self.static: set[str] = set()
        self.copies = 0
        self.addressable = tuple(_addressable(module, kernel, self.functions))

    def copy(
        self, body: tuple[Instruction | Label, ...], locations: tuple[Location, ...], names: dict[str, str],
        leave: str | None, stack: tuple[str, ...],
    ) -> None:  # fmt: skip
        """Append `body` with `names` replaced. leave: the label that a `ret` branches to (None: it stays)."""
        places = {location.index: location for location in locations}
        current: Location | None = None
        for index, item in enumerate(body):
            if len(self.items) > MOST_ITEMS:
                raise TilewrightError(
                    f"the functions that the kernel calls expand to more than {MOST_ITEMS} instructions",
                    remedy="let the compiler decide what to inline, or check a smaller kernel",
                )
            if index in places:
                current = places[index]
                self.locations.append(replace(current, index=len(self.items)))
            match item:
                case Label(name, span):
                    self.items.append(Label(names.get(name, name), span))
                case Instruction(row="call"):
                    self._call(renamed_instruction(item, names), stack)
                    if current is not None:
                        self.locations.append(replace(current, index=len(self.items)))
                case Instruction(row="ret") if leave is not None:
                    guard = _renamed_guard(item.guard, names)
                    self.items.append(_branch(leave, guard, item))
                case _:
                    self.items.append(renamed_instruction(item, names))

    def _call(self, call: Instruction, stack: tuple[str, ...]) -> None:
        parts = _parts(call)
        direct = isinstance(parts.target, Symbol) and parts.target.name in self.functions
        if direct and self.functions[_name(parts.target)].body is None and _name(parts.target) not in _SILENT:
            self.items.append(call)
            return
        after = self._label_name("after_call")
        if call.guard is not None:
            skip = Guard(call.guard.register, not call.guard.negated)
            self.items.append(_branch(after, skip, call))
        if direct:
            self._expand(self.functions[_name(parts.target)], parts, call, stack)
        else:
            self._dispatch(parts, call, after, stack)
        self.items.append(Label(after, call.span))

    def _dispatch(self, parts: _Call, call: Instruction, after: str, stack: tuple[str, ...]) -> None:
        """A call through a register: compare with every function that it may be."""
        shape = len(parts.results), len(parts.arguments)
        for function in self.addressable:
            if function.body is None or (len(function.results), len(function.parameters)) != shape:
                continue
            self.copies += 1
            differs, other = f"%is_other${self.copies}", self._label_name("other_function")
            self.registers.append(RegisterDeclaration("pred", (differs,), call.span))
            compared = (Register(differs), parts.target, Symbol(function.name))
            self.items.append(Instruction("setp.ne.u64", "setp", ("ne", "u64"), compared, None, call.span))
            guard = Guard(Register(differs), False)
            self.items.append(Instruction("bra", "bra", (), (Symbol(other),), guard, call.span))
            self._expand(function, parts, call, stack)
            self.items.append(Instruction("bra", "bra", (), (Symbol(after),), None, call.span))
            self.items.append(Label(other, call.span))
        self.items.append(replace(call, guard=None))

    def _expand(self, function: Function, parts: _Call, call: Instruction, stack: tuple[str, ...]) -> None:
        if function.body is None:
            self._silent(parts, call)
            return
        if function.name in stack or len(stack) >= _DEEPEST:
            raise TilewrightError(
                f"{function.name} is called recursively, or {_DEEPEST} calls deep",
                span=call.span,
                remedy="the machine expands calls: unroll the recursion",
            )
        if (len(parts.results), len(parts.arguments)) != (len(function.results), len(function.parameters)):
            raise TilewrightError(f"the call does not fit the parameters of {function.name}", span=call.span)
        self.copies += 1
        suffix = f"${function.name}${self.copies}"
        names = {name: name + suffix for declaration in function.registers for name in declaration.names}
        self.registers += [
            replace(declaration, names=tuple(name + suffix for name in declaration.names))
            for declaration in function.registers
        ]
        names |= {item.name: item.name + suffix for item in function.body if isinstance(item, Label)}
        names |= {table.name: table.name + suffix for table in function.branch_tables}
        for variable in function.variables:
            self._variable(function, variable, suffix, names)
        self.tables += [
            BranchTable(names[table.name], tuple(names[label] for label in table.labels), table.span)
            for table in function.branch_tables
        ]
        for formal, actual in zip(function.parameters, parts.arguments, strict=True):
            self._pass(formal, actual, suffix, names, call)
        returned: list[tuple[Parameter, Operand]] = []
        for formal, actual in zip(function.results, parts.results, strict=True):
            if formal.space == "param" and isinstance(actual, Symbol):
                names[formal.name] = actual.name
            else:
                self._declare(formal, suffix, names, call)
                returned.append((formal, actual))
        leave = self._label_name(f"return{suffix}")
        self.copy(function.body, function.locations, names, leave, (*stack, function.name))
        self.items.append(Label(leave, call.span))
        for formal, actual in returned:
            self._take(formal, actual, names, call)

    def _variable(self, function: Function, variable: Variable, suffix: str, names: dict[str, str]) -> None:
        if variable.space in _PRIVATE_SPACES:
            names[variable.name] = variable.name + suffix
            self.variables.append(replace(variable, name=variable.name + suffix))
            return
        name = f"{variable.name}${function.name}"
        names[variable.name] = name
        if name not in self.static:
            self.static.add(name)
            self.variables.append(replace(variable, name=name))

    def _declare(self, formal: Parameter, suffix: str, names: dict[str, str], call: Instruction) -> None:
        """Give a parameter that stands for no variable of the caller a register or variable of its own."""
        name = names[formal.name] = formal.name + suffix
        if formal.space == "reg":
            self.registers.append(RegisterDeclaration(formal.type, (name,), call.span))
        else:
            self.variables.append(
                Variable("param", name, formal.type, formal.align, formal.size_bytes, None, call.span)
            )

    def _pass(self, formal: Parameter, actual: Operand, suffix: str, names: dict[str, str], call: Instruction) -> None:
        if formal.space == "param" and isinstance(actual, Symbol):
            names[formal.name] = actual.name
            return
        self._declare(formal, suffix, names, call)
        own = names[formal.name]
        if formal.space == "param":
            self._emit("st", ("param", formal.type), (Address(Symbol(own)), actual), call)
        elif isinstance(actual, Symbol):
            self._emit("ld", ("param", formal.type), (Register(own), Address(actual)), call)
        else:
            self._emit("mov", (formal.type,), (Register(own), actual), call)

    def _take(self, formal: Parameter, actual: Operand, names: dict[str, str], call: Instruction) -> None:
        own = names[formal.name]
        if formal.space == "param":
            self._emit("ld", ("param", formal.type), (actual, Address(Symbol(own))), call)
        elif isinstance(actual, Symbol):
            self._emit("st", ("param", formal.type), (Address(actual), Register(own)), call)
        else:
            self._emit("mov", (formal.type,), (actual, Register(own)), call)

    def _silent(self, parts: _Call, call: Instruction) -> None:
        """A function that only prints: its result, if it has one, is 0."""
        for result in parts.results:
            if isinstance(result, Symbol):
                self._emit("st", ("param", f"b{8 * _RESULT_BYTES}"), (Address(result), Immediate(0)), call)
            else:
                self._emit("mov", (f"b{8 * _RESULT_BYTES}",), (result, Immediate(0)), call)

    def _emit(self, row: str, modifiers: tuple[str, ...], operands: tuple[Operand, ...], call: Instruction) -> None:
        self.items.append(Instruction(".".join((row, *modifiers)), row, modifiers, operands, None, call.span))

    def _label_name(self, stem: str) -> str:
        self.copies += 1
        return f"{stem}${self.copies}"


def _addressable(module: Module, kernel: Kernel, functions: dict[str, Function]) -> Iterator[Function]:
    """Functions whose address the module takes, in the order of their definitions."""
    taken: set[str] = {link.symbol for variable in module.variables for link in variable.relocations}
    bodies = [kernel.body, *(function.body for function in module.functions if function.body is not None)]
    for body in bodies:
        for item in body:
            if isinstance(item, Instruction) and item.row != "call":
                taken.update(operand.name for operand in item.operands if isinstance(operand, Symbol))
    for name, function in functions.items():
        if name in taken:
            yield function


def _name(operand: Operand) -> str:
    return operand.name if isinstance(operand, Symbol) else ""


def _parts(call: Instruction) -> _Call:
    """`call (r), f, (a), prototype`: what may be missing is told by the kinds of the operands."""
    operands = list(call.operands)
    results: tuple[Operand, ...] = ()
    arguments: tuple[Operand, ...] = ()
    if operands and isinstance(operands[0], Arguments):
        results = operands[0].items
        operands = operands[1:]
    if len(operands) > 1 and isinstance(operands[1], Arguments):
        arguments = operands[1].items
    return _Call(operands[0], results, arguments)


def _branch(label: str, guard: Guard | None, call: Instruction) -> Instruction:
    """A branch in the place of a call or a return: `.uni` if that is."""
    uniform = ("uni",) if "uni" in call.modifiers else ()
    return Instruction(".".join(("bra", *uniform)), "bra", uniform, (Symbol(label),), guard, call.span)


def _renamed_guard(guard: Guard | None, names: dict[str, str]) -> Guard | None:
    if guard is None or guard.register.name not in names:
        return guard
    return Guard(Register(names[guard.register.name]), guard.negated)


def renamed_instruction(item: Instruction, names: dict[str, str]) -> Instruction:
    """An instruction with registers, variables and labels called by other names."""
    if not names:
        return item
    operands = tuple(_renamed(operand, names) for operand in item.operands)
    return replace(item, operands=operands, guard=_renamed_guard(item.guard, names))


def _renamed(operand: Operand, names: dict[str, str]) -> Operand:
    """The operand with every register, variable and label called by its new name."""
    match operand:
        case Register(name):
            return replace(operand, name=names[name]) if name in names else operand
        case Symbol(name):
            return Symbol(names[name]) if name in names else operand
        case Address(base):
            return operand if base is None or base.name not in names else _with_base(operand, names)
        case TensorAddress(base, coordinates):
            moved = _with_base(base, names) if base.base is not None else base
            return replace(operand, base=moved, coordinates=tuple(_renamed(each, names) for each in coordinates))
        case Vector(items):
            return replace(operand, items=tuple(_renamed(item, names) for item in items))
        case Arguments(items):
            return Arguments(tuple(_renamed(item, names) for item in items))
        case Negated(register):
            return Negated(_register(register, names))
        case PairOfPredicates(first, second):
            return PairOfPredicates(_register(first, names), _register(second, names))
        case _:
            return operand


def _with_base(address: Address, names: dict[str, str]) -> Address:
    base = address.base
    if base is None:
        return address
    return replace(address, base=replace(base, name=names.get(base.name, base.name)))


def _register(register: Register, names: dict[str, str]) -> Register:
    return replace(register, name=names.get(register.name, register.name))
