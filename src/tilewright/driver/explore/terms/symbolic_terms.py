"""What does a solver read for an expression of a run? Terms of fixed width, instruction by instruction.

The meaning of each instruction is stated a second time here, for whole numbers alone; tests compare it with the
machine's steps on random operands. An instruction that is not listed, or that differs by lane, has no term: a variable
stands for its result, one for all instructions that do the same to equal terms.
Source: PTX ISA, Integer Arithmetic, Comparison and Selection, Logic and Shift, Data Movement (cvt, mov).
Checked by: tests/driver/explore/terms/test_symbolic_terms.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from tilewright.driver.explore.search.exact_ranges import SUMS
from tilewright.driver.explore.search.path_search import Dimension
from tilewright.driver.explore.terms import bit_terms
from tilewright.driver.explore.terms.divisions import Division, division_of, sign_of
from tilewright.driver.explore.terms.equalities import NONE, Equalities
from tilewright.driver.explore.terms.ordered_terms import Ordered
from tilewright.frontends.ptx.ast import Immediate, Negated, Operand, PairOfPredicates, Register, Vector
from tilewright.machine.core.decoder import TypeName, type_name
from tilewright.machine.core.lanes import WARP_SIZE, indices
from tilewright.machine.symbolic.expression import (
    Applied,
    Array,
    Chosen,
    Input,
    Leaf,
    Merged,
    Node,
    Not,
    Opaque,
    Pointer,
    Source,
    needed,
)
from tilewright.solve import bit_vectors as bits
from tilewright.solve.bit_vectors import Number, Term, Variable


class NoTerm(Exception):
    """An expression that is not said in terms."""


class Terms:
    """Terms of expressions over shared variables. inputs: of the first variables, by index; the others stand for
    expressions that have no term and may be anything. loose: words of memory at places that depend on inputs may be
    others than those that the run read; moving: there is such a word. lanes: terms are those of one lane, which may be
    any of a set; else expressions that differ by lane have none. equal: what expressions are equal to, in whatever is
    computed from them."""

    def __init__(
        self, dimensions: Mapping[Input, Dimension], *, loose: bool = False, lanes: int | None = None,
        equal: Equalities = NONE,
    ) -> None:  # fmt: skip
        self._equal = equal
        self._compared = False
        self.loose = loose
        self.moving = False
        self._words: dict[int, Variable] = {}
        self.inputs = tuple(dimensions)
        self.variables = [
            Variable(index, 8 * each.input.size_bytes, each.largest, each.smallest, each.multiple)
            for index, each in enumerate(dimensions.values())
        ]
        self._variable = dict(zip(self.inputs, self.variables, strict=True))
        self._known: dict[int, Term | None] = {}
        # Of divisions by constants: what holds of quotients and remainders, and the quotients.
        self.sides: list[Term] = []
        # That divisions by terms are none of those that may be anything.
        self.exact: list[Term] = []
        self._quotients: dict[tuple[int, int, bool], Term] = {}
        self._multiples: dict[tuple[int, int, bool], tuple[Term, Term]] = {}
        self._ordered = Ordered()
        # What stands for an expression without a term: one for those that apply the same to equal terms.
        self._stands: dict[tuple[object, ...], Variable] = {}
        self._lane: Variable | None = None
        if lanes is not None:
            self._lane = self._fresh(32)
            self.sides.append(self._among(_places(lanes)))

    def equals(self, node: Node, outcome: bytes) -> Term:
        """That a node has a value. Raises NoTerm."""
        term = self.of(node)
        return _compare("eq", term, Number(int.from_bytes(outcome, "little"), term.width))

    def differs(self, node: Node, outcome: bytes) -> Term:
        term = self.of(node)
        return _compare("ne", term, Number(int.from_bytes(outcome, "little"), term.width))

    def apart(self, parts: Sequence[tuple[int, Sequence[Node]]], usual: int) -> Term:
        """That a sum of products of nodes of one width, each times a number, is something else than `usual`, modulo
        their width. Raises NoTerm."""
        terms = [(factor, [self.of(node) for node in nodes]) for factor, nodes in parts]
        width = terms[0][1][0].width
        if any(term.width != width for _, some in terms for term in some):
            raise NoTerm
        total: Term = Number(0, width)
        for factor, some in terms:
            times = some if abs(factor) == 1 else [*some, Number(abs(factor), width)]
            of_all = reduce(lambda one, other: bits.Applied("mul", (one, other), width), times)
            total = bits.Applied("add" if factor > 0 else "sub", (total, of_all), width)
        return _compare("ne", total, Number(usual & ((1 << width) - 1), width))

    def fitting(self, nodes: Sequence[Node]) -> list[Term]:
        """That no sum, difference or left shift which expressions are made of, and which is the same in all lanes, is
        too large for its register."""
        found: list[Term] = []
        for node in needed(nodes, {}):
            applied = node.operation
            if not isinstance(applied, Applied) or applied.instruction.row not in SUMS or not node.uniform:
                continue
            types = [type_name(each) for each in applied.instruction.modifiers]
            if len(types) != 1 or types[0] is None:
                continue
            try:
                result = self.of(node)
                given = dict(zip(applied.names, map(self._source, node.sources), strict=True))
                reading = _Reading(applied, given, [types[0]], set())
                found.append(self._ordered.of(_fits(reading, result)))
            except NoTerm:
                continue
        return found

    def within_the_grid(self) -> list[Term]:
        """That a cluster's index is smaller than the number of clusters."""
        extents = {each.place: variable for each, variable in self._variable.items() if each.kind == "grid"}
        return [
            _compare("ult", variable, extents[each.place])
            for each, variable in self._variable.items()
            if each.kind == "cluster" and each.place in extents
        ]

    def of(self, node: Node) -> Term:
        """The term of a node, which is uniform unless terms are those of a lane. Raises NoTerm."""
        fresh = needed((node,), self._known)
        divisions = {each.number: found for each in fresh if (found := division_of(each)) is not None}
        divided = {found.dividend.number: found for found in divisions.values()}
        for each in fresh:
            self._compared = each.number in self._equal.comparisons
            try:
                found = divisions.get(each.number)
                quotient = None if found is None else self._quotients.get(found.key)
                term = self._ordered.of(self._term(each)) if quotient is None else quotient
            except NoTerm:
                term = self._anything(each)
            if each.number in divided and term is not None and term.width == 32:
                term = self._as_multiple(term, divided[each.number])
            self._known[each.number] = term
        found = self._known[node.number]
        if found is None:
            raise NoTerm
        return found

    def _as_multiple(self, term: Term, division: Division) -> Term:
        """A dividend as `divisor * quotient + remainder`, which a solver follows more easily than the division."""
        divisor, signed = division.divisor, division.signed
        alike = self._ordered.number(term), divisor, signed
        if alike in self._multiples:
            self._quotients[division.key], multiple = self._multiples[alike]
            return multiple
        whole, zero = Number(divisor, 32), Number(0, 32)
        quotient, remainder = self._fresh(32), self._fresh(32)
        self._quotients[division.key] = quotient
        multiple = bits.Applied("add", (bits.Applied("mul", (quotient, whole), 32), remainder), 32)
        self._multiples[alike] = quotient, multiple
        self.sides.append(_compare("eq", term, multiple))
        if signed:
            least, most = -(1 << 31) // divisor - 1, (1 << 31) // divisor
            self.sides.append(_compare("sle", Number(least & 0xFFFF_FFFF, 32), quotient))
            self.sides.append(_compare("sle", quotient, Number(most, 32)))
            # A negative multiple of the divisor comes out one less, with the divisor as remainder.
            less = bits.Applied("sub", (remainder, Number(1, 32)), 32)
            left = bits.Applied("if", (_compare("slt", term, zero), less, remainder), 32)
            self.sides.append(_compare("ult", left, whole))
        else:
            self.sides.append(_compare("ule", quotient, Number(0xFFFF_FFFF // divisor, 32)))
            self.sides.append(_compare("ult", remainder, whole))
        return multiple

    def _fresh(self, width: int) -> Variable:
        self.variables.append(Variable(len(self.variables), width, (1 << width) - 1))
        return self.variables[-1]

    def _anything(self, node: Node) -> Term | None:
        """A variable in place of an expression that has no term, if its width is known."""
        applied = node.operation
        if not isinstance(applied, Applied) or not (node.uniform or self._lane is not None):
            return None
        try:
            given = dict(zip(applied.names, map(self._source, node.sources), strict=True))
        except NoTerm:
            return self._fresh(applied.width_bits)
        operands = applied.instruction.operands
        plain = {each.name for each in operands[1:] if type(each) is Register}
        # A result that the instruction does not give alone keeps its name, as does what is read in other forms.
        key = (
            applied.instruction.opcode,
            "" if type(operands[0]) is Register else applied.target_name,
            tuple(
                self._ordered.number(given[each.name]) if type(each) is Register and each.name in given else each
                for each in operands[1:]
            ),
            tuple((name, self._ordered.number(term)) for name, term in given.items() if name not in plain),
        )
        if key not in self._stands:
            self._stands[key] = self._fresh(applied.width_bits)
        return self._stands[key]

    def _source(self, source: Source) -> Term:
        if isinstance(source, Node):
            found = self._known[source.number]
            number = None if self._compared else self._equal.numbers.get(source.number)
            if number is not None and (found is None or found.width == number.width):
                return number
            if found is None:
                raise NoTerm
            return found
        if source.dtype.kind not in "ub":
            raise NoTerm
        if source.size != 1:
            return self._of_lane(source)
        return Number(int(source[0]), 1 if source.dtype.kind == "b" else 8 * source.dtype.itemsize)

    def _among(self, lanes: int) -> Term:
        """That the lane is one of a set, with a bit for each."""
        if self._lane is None:
            raise NoTerm
        shifted = bits.Applied("lshr", (Number(lanes, 32), self._lane), 32)
        within = _compare("ule", self._lane, Number(WARP_SIZE - 1, 32))
        return bits.Applied("and", (within, bits.Applied("extract", (shifted,), 1, (0, 0))), 1)

    def _of_lane(self, values: Array) -> Term:
        """What the lane has of values that differ by lane."""
        if self._lane is None:
            raise NoTerm
        if values.dtype.kind == "b":
            return self._among(sum(1 << lane for lane, value in enumerate(values.tolist()) if value))
        width = 8 * values.dtype.itemsize
        first, step = int(values[0]), int(values[1]) - int(values[0])
        if all((first + lane * step - int(value)) % (1 << width) == 0 for lane, value in enumerate(values)):
            lane = _resized(self._lane, width, signed=False)
            moved = bits.Applied("mul", (lane, Number(step % (1 << width), width)), width)
            return bits.Applied("add", (moved, Number(first, width)), width)
        found: Term = Number(int(values[-1]), width)
        for value in sorted({int(each) for each in values} - {int(values[-1])}):
            lanes = sum(1 << lane for lane, each in enumerate(values) if int(each) == value)
            found = bits.Applied("if", (self._among(lanes), Number(value, width), found), width)
        return found

    def _term(self, node: Node) -> Term:
        match node.operation:
            case Leaf(given, offset, dtype, scale, addend, loaded, signed, origin):
                width = 1 if dtype.kind == "b" else 8 * dtype.itemsize
                self.moving = self.moving or bool(origin)
                variable = self._variable.get(given)
                if origin and self.loose:
                    if origin not in self._words:
                        self._words[origin] = self._fresh(8 * given.size_bytes)
                    variable = self._words[origin]
                narrow = self._leaf(variable, offset, 8 * loaded or width, scale, addend)
                return _resized(narrow, width, signed=signed) if loaded else narrow
            case Pointer(given, base):
                variable = self._variable[given]
                chosen = _compare("ne", variable, Number(0, variable.width))
                return bits.Applied("if", (chosen, Number(base, 64), Number(0, 64)), 64)
            case Not():
                return bits.Applied("not", (self._source(node.sources[0]),), 1)
            case Chosen():
                predicate, holds, otherwise = map(self._source, node.sources)
                if holds.width != otherwise.width:
                    raise NoTerm
                return bits.Applied("if", (predicate, holds, otherwise), holds.width)
            case Applied() as applied:
                dividend = sign_of(node)
                if dividend is not None:
                    return bits.Applied("lshr", (self._source(dividend), Number(31, 32)), 32)
                given = dict(zip(applied.names, map(self._source, node.sources), strict=True))
                return self._division_by_a_term(applied, given) or _instruction(applied, given)
            case Merged(mask):
                inside, outside = map(self._source, node.sources)
                if inside.width != outside.width:
                    raise NoTerm
                return bits.Applied("if", (self._among(_places(mask)), inside, outside), inside.width)
            case Opaque():
                raise NoTerm

    def _division_by_a_term(self, applied: Applied, given: Mapping[str, Term]) -> Term | None:
        """A quotient or remainder by a number that is no constant: less than the divisor is left of the dividend. By 0,
        and of or by a negative number, it may be anything."""
        instruction = applied.instruction
        types = [type_name(each) for each in instruction.modifiers]
        if instruction.row not in ("div", "rem") or len(types) != 1 or types[0] is None or types[0].name[0] not in "us":
            return None
        reading = _Reading(applied, given, [types[0]], set())
        dividend, divisor = reading.term(1), reading.term(2)
        if isinstance(divisor, Number):
            return None
        width, signed = reading.width, reading.signed
        key = (self._ordered.number(dividend), self._ordered.number(divisor), signed)
        zero = Number(0, width)
        anything = _compare("eq", divisor, zero)
        for side in (dividend, divisor) if signed else ():
            anything = bits.Applied("or", (anything, _compare("slt", side, zero)), 1)
        fresh = ("div", *key) not in self._stands
        if fresh:
            self._stands["div", *key] = self._fresh(width)
        quotient = self._stands["div", *key]
        left = bits.Applied("sub", (dividend, bits.Applied("mul", (quotient, divisor), width)), width)
        if fresh:
            whole = bits.Applied("and", (_compare("ult", left, divisor), _compare("ule", quotient, dividend)), 1)
            self.sides.append(self._ordered.of(bits.Applied("or", (anything, whole), 1)))
            self.exact.append(self._ordered.of(bits.Applied("not", (anything,), 1)))
        if instruction.row == "div":
            return quotient
        if ("rem", *key) not in self._stands:
            self._stands["rem", *key] = self._fresh(width)
        return bits.Applied("if", (anything, self._stands["rem", *key], left), width)

    def _leaf(self, variable: Variable | None, offset_bytes: int, width: int, scale: int, addend: int) -> Term:
        if variable is None:
            raise NoTerm
        begin = 8 * offset_bytes
        if begin >= variable.width:
            raise NoTerm
        top = min(begin + max(width, 8), variable.width) - 1
        term: Term = bits.Applied("extract", (variable,), top - begin + 1, (top, begin))
        if width == 1:
            return _compare("ne", term, Number(0, term.width))
        term = _resized(term, width, signed=False)
        if scale != 1:
            term = bits.Applied("mul", (term, Number(scale, width)), width)
        return bits.Applied("add", (term, Number(addend, width)), width) if addend else term


def _places(mask: int) -> int:
    """The lanes of a mask of the machine, which has a byte for each, with a bit for each."""
    return sum(1 << lane for lane in indices(mask).tolist())


def _compare(operation: str, one: Term, other: Term) -> Term:
    return bits.Applied(operation, (one, other), 1)


def _resized(term: Term, width: int, *, signed: bool) -> Term:
    if term.width == width:
        return term
    if term.width > width:
        return bits.Applied("extract", (term,), width, (width - 1, 0))
    return bits.Applied("sign_extend" if signed else "zero_extend", (term,), width, (width - term.width,))


_LOGIC = frozenset({"and", "or", "xor"})
_COMPARED = {
    "eq": ("eq", False), "ne": ("ne", False), "lt": ("lt", False), "le": ("le", False), "gt": ("lt", True),
    "ge": ("le", True), "lo": ("ult", False), "ls": ("ule", False), "hi": ("ult", True), "hs": ("ule", True),
}  # fmt: skip
"""Comparisons: the operation, and whether its sides change places."""
_FUNNELS = frozenset({"l", "r", "wrap", "clamp"})
_PLAIN_MODIFIERS = frozenset({"lo", "hi", "wide", "pred", *_LOGIC, *_COMPARED, *_FUNNELS})
_WHOLE = frozenset({"pred", *(f"{kind}{width}" for kind in "usb" for width in (8, 16, 32, 64))})
"""Types of one whole number; packed ones and floating ones have no terms."""


def _instruction(applied: Applied, given: Mapping[str, Term]) -> Term:
    """The term of an instruction's result. given: of the registers that it reads."""
    instruction = applied.instruction
    types = [found for each in instruction.modifiers if (found := type_name(each)) is not None]
    words = {each for each in instruction.modifiers if type_name(each) is None}
    if not types or words - _PLAIN_MODIFIERS or not all(each.name in _WHOLE for each in types):
        raise NoTerm
    operation = _ROWS.get(instruction.row)
    if operation is None:
        raise NoTerm
    term = operation(_Reading(applied, given, types, words))
    if term.width == applied.width_bits:
        return term
    if instruction.row != "cvt":
        raise NoTerm
    # A register wider than the type is filled by the sign or by zeros.
    return _resized(term, applied.width_bits, signed=types[0].is_signed)


class _Reading:
    """An instruction whose term is being made."""

    def __init__(self, applied: Applied, given: Mapping[str, Term], types: list[TypeName], words: set[str]) -> None:
        self.applied = applied
        self.given = given
        self.type = types[0]
        self.types = types
        self.words = words
        self.width = types[0].width_bits
        self.signed = types[0].is_signed

    @property
    def operands(self) -> tuple[Operand, ...]:
        return self.applied.instruction.operands

    def term(self, place: int, width: int | None = None) -> Term:
        """A source operand."""
        return self.operand(self.operands[place], self.width if width is None else width)

    def operand(self, operand: Operand, width: int) -> Term:
        match operand:
            case Immediate(value):
                return Number(value & ((1 << width) - 1), width)
            case Register(name) if name in self.given:
                found = self.given[name]
                if found.width != width:
                    raise NoTerm
                return found
            case Negated(register):
                return bits.Applied("not", (self.operand(register, width),), width)
            case _:
                raise NoTerm

    def two(self, operation: str) -> Term:
        return bits.Applied(operation, (self.term(1), self.term(2)), self.width)


def _fits(reading: _Reading, result: Term) -> Term:
    """That a sum, a difference or a left shift is the exact one, its operands taken as signed numbers, or as unsigned
    ones where the type is not signed."""
    width, row = reading.width, reading.applied.instruction.row
    exact: list[Term] = []
    for signed in (True,) if reading.signed else (True, False):
        if row == "shl":
            back = bits.Applied("ashr" if signed else "lshr", (result, _number_of(reading, 2)), width)
            exact.append(_compare("eq", back, reading.term(1)))
        else:
            sides = tuple(_resized(reading.term(place), width + 1, signed=signed) for place in (1, 2))
            wide = bits.Applied(row, sides, width + 1)
            exact.append(_compare("eq", wide, _resized(result, width + 1, signed=signed)))
    return exact[0] if len(exact) == 1 else bits.Applied("or", (exact[0], exact[1]), 1)


def _binary(name: str) -> Callable[[_Reading], Term]:
    return lambda reading: reading.two(name)


def _product(reading: _Reading, *, added: bool = False) -> Term:
    width, signed = reading.width, reading.signed
    one, other = reading.term(1), reading.term(2)
    if "wide" in reading.words or "hi" in reading.words:
        wide = 2 * width
        both = bits.Applied("mul", (_resized(one, wide, signed=signed), _resized(other, wide, signed=signed)), wide)
        term: Term = both if "wide" in reading.words else bits.Applied("extract", (both,), width, (wide - 1, width))
    elif "lo" in reading.words:
        term = bits.Applied("mul", (one, other), width)
    else:
        raise NoTerm
    return bits.Applied("add", (term, reading.term(3, term.width)), term.width) if added else term


def _shift(reading: _Reading) -> Term:
    amount = reading.term(2, 32)
    width = reading.width
    value = reading.term(1)
    right = "ashr" if reading.signed else "lshr"
    operation = "shl" if reading.applied.instruction.row == "shl" else right
    # PTX clamps what is shifted by: a wider amount gives what the solver's shift by the whole width gives.
    wide = max(width, 32)
    extended = _resized(value, wide, signed=operation == "ashr")
    shifted = bits.Applied(operation, (extended, _resized(amount, wide, signed=False)), wide)
    if operation == "shl" or width == wide:
        return _resized(shifted, width, signed=False)
    return _resized(shifted, width, signed=False)


def _least(smaller: bool) -> Callable[[_Reading], Term]:
    def term(reading: _Reading) -> Term:
        one, other = reading.term(1), reading.term(2)
        less = _compare("slt" if reading.signed else "ult", one, other)
        return bits.Applied("if", (less, one, other) if smaller else (less, other, one), reading.width)

    return term


def _quotient(name: str) -> Callable[[_Reading], Term]:
    def term(reading: _Reading) -> Term:
        divisor = reading.term(2)
        if not isinstance(divisor, Number) or not divisor.value:
            raise NoTerm
        return bits.Applied(("s" if reading.signed else "u") + name, (reading.term(1), divisor), reading.width)

    return term


def _comparison(reading: _Reading) -> Term:
    sign = next((each for each in reading.applied.instruction.modifiers if each in _COMPARED), None)
    if sign is None:
        raise NoTerm
    operation, swapped = _COMPARED[sign]
    if operation in ("lt", "le"):
        operation = ("s" if reading.signed else "u") + operation
    one, other = reading.term(1), reading.term(2)
    holds = _compare(operation, *((other, one) if swapped else (one, other)))
    target = reading.operands[0]
    if isinstance(target, PairOfPredicates) and target.second.name == reading.applied.target_name:
        holds = bits.Applied("not", (holds,), 1)
    joined = next(iter(reading.words & _LOGIC), None)
    if joined is None:
        return holds
    return bits.Applied(joined, (holds, reading.term(3, 1)), 1)


def _selected(reading: _Reading) -> Term:
    return bits.Applied("if", (reading.term(3, 1), reading.term(1), reading.term(2)), reading.width)


def _moved(reading: _Reading) -> Term:
    target, source = reading.operands[0], reading.operands[1]
    if isinstance(source, Vector):
        part = reading.width // len(source.items)
        parts = tuple(reading.operand(item, part) for item in reversed(source.items))
        return bits.Applied("concat", parts, reading.width)
    whole = reading.term(1)
    if not isinstance(target, Vector):
        return whole
    part = reading.width // len(target.items)
    for place, item in enumerate(target.items):
        if isinstance(item, Register) and item.name == reading.applied.target_name:
            return bits.Applied("extract", (whole,), part, ((place + 1) * part - 1, place * part))
    raise NoTerm


def _converted(reading: _Reading) -> Term:
    if len(reading.types) != 2:
        raise NoTerm
    to, given = reading.types
    source = reading.operands[1]
    if not isinstance(source, Register) or source.name not in reading.given:
        raise NoTerm
    term = reading.given[source.name]
    if term.width < given.width_bits:
        raise NoTerm
    term = _resized(term, given.width_bits, signed=False)
    return _resized(term, to.width_bits, signed=given.is_signed)


def _negative(reading: _Reading) -> Term:
    return bits.Applied("sub", (Number(0, reading.width), reading.term(1)), reading.width)


def _magnitude(reading: _Reading) -> Term:
    value = reading.term(1)
    below = _compare("slt", value, Number(0, reading.width))
    return bits.Applied("if", (below, bits.Applied("sub", (Number(0, reading.width), value), reading.width), value),
                        reading.width)  # fmt: skip


def _number_of(reading: _Reading, place: int) -> Term:
    """An operand of 32 bits that says a place or a length, as wide as what it is about."""
    return _resized(reading.term(place, 32), reading.width, signed=False)


def _field(reading: _Reading) -> Term:
    begin, count = _number_of(reading, 2), _number_of(reading, 3)
    return bit_terms.field(reading.term(1), begin, count, signed=reading.signed)


def _inserted(reading: _Reading) -> Term:
    return bit_terms.inserted(reading.term(1), reading.term(2), _number_of(reading, 3), _number_of(reading, 4))


def _counted(count: Callable[[Term], Term]) -> Callable[[_Reading], Term]:
    """A number of bits, which has 32 bits itself."""
    return lambda reading: _resized(count(reading.term(1)), 32, signed=False)


def _highest_bit(reading: _Reading) -> Term:
    return _resized(bit_terms.highest_bit(reading.term(1), signed=reading.signed), 32, signed=False)


def _logic_of_three(reading: _Reading) -> Term:
    table = reading.operands[4]
    if not isinstance(table, Immediate):
        raise NoTerm
    return bit_terms.logic_of_three(reading.term(1), reading.term(2), reading.term(3), table.value)


def _picked_bytes(reading: _Reading) -> Term:
    selector = reading.term(3)
    if not isinstance(selector, Number):
        raise NoTerm
    return bit_terms.picked_bytes(reading.term(1), reading.term(2), selector.value)


def _funnel(reading: _Reading) -> Term:
    left, wraps = "l" in reading.words, "wrap" in reading.words
    return bit_terms.funnel(reading.term(1), reading.term(2), reading.term(3), left=left, wraps=wraps)


def _selected_by_sign(reading: _Reading) -> Term:
    decides = reading.term(3, reading.types[-1].width_bits)
    if len(reading.types) != 2 or not reading.types[-1].is_signed:
        raise NoTerm
    below = _compare("slt", decides, Number(0, decides.width))
    return bits.Applied("if", (below, reading.term(2), reading.term(1)), reading.width)


def _mask_of_comparison(reading: _Reading) -> Term:
    if len(reading.types) != 2:
        raise NoTerm
    of = _Reading(reading.applied, reading.given, reading.types[1:], reading.words)
    return _resized(_comparison(of), reading.width, signed=True)


def _distance(reading: _Reading) -> Term:
    apart = bit_terms.distance(reading.term(1), reading.term(2), signed=reading.signed)
    return bits.Applied("add", (apart, reading.term(3)), reading.width)


def _is_zero(reading: _Reading) -> Term:
    return _resized(_compare("eq", reading.term(1), Number(0, reading.width)), reading.width, signed=False)


_ROWS: dict[str, Callable[[_Reading], Term]] = {
    **{row: _binary(row) for row in ("add", "sub", "and", "or", "xor")},
    "mul": _product,
    "mad": lambda reading: _product(reading, added=True),
    "shl": _shift,
    "shr": _shift,
    "not": lambda reading: bits.Applied("not", (reading.term(1),), reading.width),
    "neg": _negative,
    "abs": _magnitude,
    "min": _least(True),
    "max": _least(False),
    "div": _quotient("div"),
    "rem": _quotient("rem"),
    "setp": _comparison,
    "selp": _selected,
    "mov": _moved,
    "cvt": _converted,
    "bfe": _field,
    "bfi": _inserted,
    "bfind": _highest_bit,
    "brev": lambda reading: bit_terms.reversed_bits(reading.term(1)),
    "clz": _counted(bit_terms.leading_zeros),
    "cnot": _is_zero,
    "lop3": _logic_of_three,
    "popc": _counted(bit_terms.count_of_ones),
    "prmt": _picked_bytes,
    "sad": _distance,
    "set": _mask_of_comparison,
    "shf": _funnel,
    "slct": _selected_by_sign,
}
