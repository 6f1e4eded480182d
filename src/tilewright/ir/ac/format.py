"""How are operations of the asynchronous contract written? All in one form, which follows from their definitions.

    %tx_1 = ac.tma.issue descriptor(%a_map) buffer(%a) tx(%tx) coordinates(%k, %m)
        [offset_bytes = 0, box_bytes = 8192, multicast = 1] -> !ac.tx<ab, bytes = 16384>
    %last = ac.loop over K [begin = 1] (%k) carrying (%position = %cursor) { ... ac.yield %next }

In this order, what an operation has of it: the properties that its class leads with (`LEAD`), as words; its operands,
each with its name unless there is one alone; the other properties, in brackets; the region's arguments, and the carried
ones with the values they begin with; the types of results, after `->`; the region. What values an operand has is known
from where it was defined, so its type is not written. Neither are types of results and arguments that follow from the
rest (`inferred_types`). Where they differ from that they are written, so that what is written always reads again as the
same operation, right or wrong; whoever writes one by hand may add them. A new operation needs no more than its
definition.

Not handled: operations without their regions or leading properties, which no text is parsed to: they are written in
MLIR's generic form, for messages. Checked by: tests/ir/ac/test_format.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar, NoReturn, TypeVar, cast

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    BaseAttr,
    IRDLOperation,
    OpDef,
    OperandDef,
    OptionalDef,
    OptOperandDef,
    OptResultDef,
    ResultDef,
    VariadicDef,
    VerificationContext,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilewright.ir.ac.types import IndexType, ScalarType
from tilewright.ir.plain_attributes import entry_pieces, listed, parse_value, value_text, word_text

_SHORT = 72
"""Brackets that would be longer are written over several lines,"""
_LINE_LENGTH = 96
"""of so many characters each, where they can be cut."""
_CARRIED = "carried"
_CARRIED_IN_LINE = 4
"""Carried values that stand in one line, which is the operation's own where there are fewer."""
_SYMBOL = "sym_name"
_SEGMENTS = (AttrSizedOperandSegments.attribute_name, AttrSizedResultSegments.attribute_name)
_TYPES_ALONE = (IndexType, ScalarType)
"""Types without parameters: a value that must be of one is of it."""

Values = Mapping[str, tuple[SSAValue, ...]]


class AcOperation(IRDLOperation):
    """An operation in the form above.

    LEAD: properties that stand after the operation's name, each perhaps after a word, as in "over symbol"; a symbol's
    name leads by itself. ARGUMENT: type of the region's arguments, but for carried ones; ARGUMENT_NAMES: what they are
    called where nothing names them (`ac.names`), the last for all that follow.
    """

    LEAD: ClassVar[tuple[str, ...]] = ()
    ARGUMENT: ClassVar[Attribute] = IndexType()
    ARGUMENT_NAMES: ClassVar[tuple[str, ...]] = ("i",)

    @classmethod
    def inferred_types(cls, operands: Values, properties: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        """Types of results, by name, that follow from what this class means, an array of those of any number.
        operands, properties: those that are there, which need not be all that must."""
        return {}

    def print(self, printer: Printer) -> None:
        parts = _parts_of(self)
        if parts is None:
            printer.print_op_with_default_format(self)
            return
        operands, results, leading = parts
        carried = operands.get(_CARRIED) if self.regions else None
        for word, value in leading:
            printer.print_string(f"{word} {value}")
        _print_operands(printer, type(self), operands)
        _print_properties(printer, self)
        if self.regions:
            _print_arguments(printer, self, carried)
        _print_results(printer, self, operands, results)
        if self.attributes:
            printer.print_string(" attributes")
            printer.print_op_attributes(self.attributes)
        if self.regions:
            printer.print_string(" ")
            printer.print_region(self.regions[0], print_entry_block_args=False, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> AcOperation:
        definition = cls.get_irdl_definition()
        properties: dict[str, Attribute] = {}
        for word, name in _leads(cls):
            if word:
                parser.parse_keyword(word)
            if name == _SYMBOL:
                properties[name] = parser.parse_symbol_name()
            else:
                properties[name] = StringAttr(parser.parse_identifier_or_str_literal(f" for {name} of {cls.name}"))
        operands = _parse_operands(parser, cls)
        _parse_properties(parser, cls, properties)
        regions: list[Region] = []
        arguments: list[Parser.Argument] = []
        if definition.regions:
            arguments, carried = _parse_arguments(parser, cls)
            if carried is not None:
                operands[_CARRIED] = carried
        kinds = tuple([each.type for each in arguments[len(arguments) - len(operands.get(_CARRIED, ())) :]])
        results = _parse_results(parser, cls, operands, properties, kinds)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        if definition.regions:
            regions.append(parser.parse_region(arguments))
        return cls(
            operands=[operands.get(name, ()) for name, _ in definition.operands],
            result_types=[results.get(name, ()) for name, _ in definition.results],
            properties=properties,
            attributes=attributes.data if attributes is not None else {},
            regions=regions,
        )


# ---------------------------------------------------------------- taking an operation apart


def _leads(kind: type[AcOperation]) -> list[tuple[str, str]]:
    """(word before it or "", property) of what leads."""
    symbol = [("", _SYMBOL)] if _SYMBOL in kind.get_irdl_definition().properties else []
    return [*symbol, *((word, name) for word, _, name in (each.rpartition(" ") for each in kind.LEAD))]


def _parts_of(op: AcOperation) -> tuple[Values, Values, list[tuple[str, str]]] | None:
    """Operands and results by name, and the leading words; None for an operation that lacks what the form needs."""
    definition = op.get_irdl_definition()
    if len(op.regions) != len(definition.regions) or any(len(region.blocks) != 1 for region in op.regions):
        return None
    leading: list[tuple[str, str]] = []
    for word, name in _leads(type(op)):
        value = op.properties.get(name)
        if not isinstance(value, StringAttr):
            return None
        text = f"@{word_text(value.data)}" if name == _SYMBOL else word_text(value.data)
        leading.append((f" {word}" if word else "", text))
    try:
        operands = {name: _several(getattr(op, name)) for name, _ in definition.operands}
        results = {name: _several(getattr(op, name)) for name, _ in definition.results}
    except (VerifyException, ValueError, KeyError, IndexError, AttributeError):
        return None
    if op.regions and len(op.regions[0].block.args) < len(operands.get(_CARRIED, ())):
        return None
    return operands, results, leading


def _several(given: Any) -> tuple[SSAValue, ...]:
    if given is None:
        return ()
    return (cast("SSAValue", given),) if isinstance(given, SSAValue) else tuple(given)


def result_fields(op: AcOperation) -> dict[SSAValue, str]:
    """The field that each result is of; none of an operation that lacks what the form needs."""
    parts = _parts_of(op)
    return {} if parts is None else {value: name for name, values in parts[1].items() for value in values}


def _shown(name: str) -> str:
    """A field's name as it is written: some end in an underscore to differ from what every operation has."""
    return name.rstrip("_")


def _named_operands(definition: OpDef) -> list[tuple[str, OperandDef]]:
    """Operands that are written before the brackets."""
    carried = bool(definition.regions)
    return [(name, each) for name, each in definition.operands if not (carried and name == _CARRIED)]


def _is_alone(definition: OpDef) -> bool:
    """Has it one operand, or one list of operands, which needs no name?"""
    named = _named_operands(definition)
    return len(named) == 1 and not isinstance(named[0][1], OptOperandDef) and not definition.regions


# ---------------------------------------------------------------- writing


def _print_operands(printer: Printer, kind: type[AcOperation], operands: Values) -> None:
    definition = kind.get_irdl_definition()
    for name, _ in _named_operands(definition):
        values = operands[name]
        if not values:
            continue
        if _is_alone(definition):
            printer.print_string(" ")
            printer.print_list(values, printer.print_ssa_value)
            continue
        printer.print_string(f" {_shown(name)}")
        with printer.in_parens():
            printer.print_list(values, printer.print_ssa_value)


def _print_properties(printer: Printer, op: AcOperation) -> None:
    led = {name for _, name in _leads(type(op))}
    order = [*op.get_irdl_definition().properties, *sorted(op.properties)]
    names = [name for name in dict.fromkeys(order) if name in op.properties and name not in (*led, *_SEGMENTS)]
    if not names:
        return
    pieces = list(listed([entry_pieces(name, op.properties[name]) for name in names]))
    pieces[-1] += "]"
    if sum(len(piece) + 1 for piece in pieces) <= _SHORT:
        printer.print_string(f" [{' '.join(pieces)}")
        return
    with printer.indented(2):
        printer.print_string(" [")
        length = _LINE_LENGTH
        for piece in pieces:
            length += len(piece) + 1
            if length > _LINE_LENGTH:
                printer.print_string(f"\n{piece}")
                length = len(piece)
            else:
                printer.print_string(f" {piece}")


def _print_arguments(printer: Printer, op: AcOperation, carried: tuple[SSAValue, ...] | None) -> None:
    arguments = op.regions[0].block.args
    first = len(arguments) - len(carried or ())
    if first:
        printer.print_string(" ")
        with printer.in_parens():
            printer.print_list(
                arguments[:first],
                lambda each: printer.print_block_argument(each, print_type=each.type != op.ARGUMENT),
            )
    if not carried:
        return
    printer.print_string(" carrying ")
    is_long = len(carried) >= _CARRIED_IN_LINE
    with printer.in_parens(), printer.indented(2):
        for number, (argument, initial) in enumerate(zip(arguments[first:], carried, strict=True)):
            if number:
                printer.print_string("," if number % _CARRIED_IN_LINE == 0 else ", ")
            if number % _CARRIED_IN_LINE == 0 and is_long:
                printer.print_string("\n")
            printer.print_block_argument(argument, print_type=argument.type != initial.type)
            printer.print_string(" = ")
            printer.print_ssa_value(initial)


def _print_results(printer: Printer, op: AcOperation, operands: Values, results: Values) -> None:
    types = {name: tuple([each.type for each in values]) for name, values in results.items()}
    if types == _inferred(type(op), operands, op.properties, _carried_types(op, operands)):
        return
    named = _may_be_absent(op.get_irdl_definition()) and len(op.results) != _always_there(op.get_irdl_definition())
    texts = [f"{_shown(name)} {each}" if named else str(each) for name, of_name in types.items() for each in of_name]
    printer.print_string(f" -> {', '.join(texts)}")


def _carried_types(op: AcOperation, operands: Values) -> tuple[Attribute, ...]:
    """Types of the region's arguments that are carried."""
    carried = operands.get(_CARRIED, ()) if op.regions else ()
    arguments = op.regions[0].block.args if carried else ()
    return tuple([each.type for each in arguments[len(arguments) - len(carried) :]])


def _may_be_absent(definition: OpDef) -> bool:
    """Must types of results say whose they are, because some results may be absent? Where all of those are, they need
    not."""
    return len(definition.results) > 1 and any(isinstance(each, VariadicDef) for _, each in definition.results)


def _always_there(definition: OpDef) -> int:
    """How many results can't be absent."""
    return sum(not isinstance(each, VariadicDef) for _, each in definition.results)


def _inferred(
    kind: type[AcOperation], operands: Values, properties: Mapping[str, Attribute], carried: tuple[Attribute, ...]
) -> dict[str, tuple[Attribute, ...] | None]:
    """Types of results by name, None where they don't follow: of what this class means, of a type without parameters,
    of carried arguments, of the only operand of that type. Optional results are absent but where the class means them.
    """
    meant = kind.inferred_types(operands, properties)
    results = kind.get_irdl_definition().results
    return {name: _inferred_type(name, each, operands, meant, carried) for name, each in results}


def _inferred_type(
    name: str,
    definition: ResultDef,
    operands: Values,
    meant: Mapping[str, Attribute],
    carried: tuple[Attribute, ...],
) -> tuple[Attribute, ...] | None:
    if isinstance(definition, OptionalDef | OptResultDef):
        return (meant[name],) if name in meant else ()
    if isinstance(definition, VariadicDef):
        several = meant.get(name)
        return carried or (tuple(cast("ArrayAttr[Attribute]", several)) if isinstance(several, ArrayAttr) else ())
    if name in meant:
        return (meant[name],)
    wanted = _class_of(definition)
    if wanted in _TYPES_ALONE:
        return (wanted(),)
    alike = [value.type for values in operands.values() for value in values if type(value.type) is wanted]
    return (alike[0],) if len(alike) == 1 else None


def _class_of(definition: ResultDef) -> type[Attribute] | None:
    """The class of types that the definition allows, if it is one."""
    constraint: object = definition.constr
    while not isinstance(constraint, BaseAttr) and constraint is not None:
        constraint = getattr(constraint, "constr", None) or getattr(constraint, "constraint", None)
    return cast("BaseAttr[Attribute]", constraint).attr if isinstance(constraint, BaseAttr) else None


# ---------------------------------------------------------------- reading


def _parse_operands(parser: Parser, kind: type[AcOperation]) -> dict[str, tuple[SSAValue, ...]]:
    definition = kind.get_irdl_definition()
    if _is_alone(definition):
        ((name, each),) = _named_operands(definition)
        if isinstance(each, VariadicDef):
            return {name: tuple(_parse_list(parser))}
        return {name: (parse_defined(parser),)}
    known = {_shown(name): (name, each) for name, each in _named_operands(definition)}
    found: dict[str, tuple[SSAValue, ...]] = {}
    while (word := parser.parse_optional_keyword_in(list(known))) is not None:
        name, each = known[word]
        if name in found:
            parser.raise_error(f"{kind.name} has {word} twice")
        with parser.in_parens():
            found[name] = tuple(_parse_list(parser))
        if (not isinstance(each, VariadicDef) and len(found[name]) != 1) or (
            len(found[name]) > 1 and isinstance(each, OptOperandDef)
        ):
            parser.raise_error(f"{word} of {kind.name} is one value, not {len(found[name])}")
    for word, (name, each) in known.items():
        if name not in found and not isinstance(each, VariadicDef):
            parser.raise_error(f"{kind.name} lacks its operand {word}: write {word}(%value)")
    return found


def _parse_list(parser: Parser) -> list[SSAValue]:
    values: list[SSAValue] = []
    first = parser.parse_optional_unresolved_operand()
    if first is None:
        return values
    values.append(_defined(parser, first))
    while parser.parse_optional_punctuation(",") is not None:
        values.append(parse_defined(parser))
    return values


def parse_defined(parser: Parser) -> SSAValue:
    """A value that was defined before."""
    return _defined(parser, parser.parse_unresolved_operand("expected a value, such as %tx"))


def _defined(parser: Parser, operand: UnresolvedOperand) -> SSAValue:
    values = parser.ssa_values.get(operand.operand_name, ())
    if operand.index >= len(values):
        near = get_close_matches(operand.operand_name, parser.ssa_values, n=1)
        meant = f"; did you mean %{near[0]}?" if near else ""
        parser.raise_error(f"%{operand.operand_name} is not defined before this use{meant}", operand.span)
    return values[operand.index]


def _parse_properties(parser: Parser, kind: type[AcOperation], properties: dict[str, Attribute]) -> None:
    definition = kind.get_irdl_definition()
    known = [name for name in definition.properties if name not in (*properties, *_SEGMENTS)]

    def one() -> None:
        begin = parser.pos
        name = parser.parse_identifier_or_str_literal(f" among {', '.join(known)} of {kind.name}")
        if name in properties:
            parser.raise_error(f"{kind.name} has {name} twice", begin, parser.pos)
        if name not in known:
            _raise_unknown(parser, kind, name, known, begin)
        parser.parse_punctuation("=", f" after {name}")
        begin = parser.pos
        value = properties[name] = parse_value(parser)
        try:
            definition.properties[name].constr.verify(value, VerificationContext())
        except VerifyException:
            parser.raise_error(f"{name} of {kind.name} cannot be {value_text(value)}", begin, parser.pos)

    parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, one)
    lacking = [
        name for name in known if name not in properties and not isinstance(definition.properties[name], OptionalDef)
    ]
    if lacking:
        parser.raise_error(f"{kind.name} lacks {', '.join(lacking)}: write [{lacking[0]} = ...]")


def _raise_unknown(parser: Parser, kind: type[AcOperation], name: str, known: Sequence[str], begin: int) -> NoReturn:
    near = get_close_matches(name, known, n=1)
    has = f"did you mean {near[0]}?" if near else f"it has {', '.join(known) or 'none'}"
    parser.raise_error(f"{kind.name} has no attribute {name}; {has}", begin, parser.pos)


def _parse_arguments(
    parser: Parser, kind: type[AcOperation]
) -> tuple[list[Parser.Argument], tuple[SSAValue, ...] | None]:
    """The region's arguments, and the values that carried ones begin with; None where the class carries none."""
    arguments: list[Parser.Argument] = []

    def one(default: Attribute | None) -> None:
        argument = parser.parse_argument(expect_type=False)
        given = parser.parse_type() if parser.parse_optional_punctuation(":") is not None else default
        if default is None:
            parser.parse_punctuation("=", " and the value that the carried one begins with")
            initials.append(parse_defined(parser))
            given = given if given is not None else initials[-1].type
        assert given is not None
        arguments.append(argument.resolve(given))

    initials: list[SSAValue] = []
    parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, lambda: one(kind.ARGUMENT))
    carries = any(name == _CARRIED for name, _ in kind.get_irdl_definition().operands)
    if not carries:
        return arguments, None
    if parser.parse_optional_keyword("carrying") is not None:
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: one(None))
    return arguments, tuple(initials)


def _parse_results(
    parser: Parser,
    kind: type[AcOperation],
    operands: Values,
    properties: Mapping[str, Attribute],
    carried: tuple[Attribute, ...],
) -> dict[str, tuple[Attribute, ...]]:
    definition = kind.get_irdl_definition()
    if parser.parse_optional_punctuation("->") is None:
        inferred = _inferred(kind, operands, properties, carried)
        for name, types in inferred.items():
            if types is None:
                parser.raise_error(f"{kind.name} does not say the type of its {_shown(name)}: write -> !ac...")
        return {name: types for name, types in inferred.items() if types is not None}
    found: dict[str, list[Attribute]] = {name: [] for name, _ in definition.results}
    if not found:
        parser.raise_error(f"{kind.name} has no result")
    shown = {_shown(name): name for name in found}
    first = parser.parse_optional_keyword_in(list(shown)) if _may_be_absent(definition) else None
    if first is not None or (_may_be_absent(definition) and not _always_there(definition)):
        while True:
            wanted = f" and the type of this result of {kind.name}"
            name, first = first or parser.parse_keyword_in(list(shown), wanted), None
            found[shown[name]].append(parser.parse_type())
            if parser.parse_optional_punctuation(",") is None:
                break
    else:
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        names = [name for name, each in definition.results if not isinstance(each, VariadicDef)] or list(found)
        variadic = len(names) == 1 and isinstance(dict(definition.results)[names[0]], VariadicDef)
        if not variadic and len(types) != len(names):
            parser.raise_error(f"{kind.name} has {len(names)} results, not {len(types)}")
        for number, each in enumerate(types):
            found[names[0] if variadic else names[number]].append(each)
    for name, each in definition.results:
        if (len(found[name]) != 1 and not isinstance(each, VariadicDef)) or (
            len(found[name]) > 1 and isinstance(each, OptResultDef)
        ):
            parser.raise_error(f"{kind.name} has one {_shown(name)}, not {len(found[name])}")
    return {name: tuple(types) for name, types in found.items()}


_Type = TypeVar("_Type", bound=Attribute)


def types_of(kind: type[_Type], operands: Values, name: str) -> list[_Type]:
    """Types of the operands of this name, those of this class."""
    return [value.type for value in operands.get(name, ()) if isinstance(value.type, kind)]


def is_set(flag: IntAttr | None) -> bool:
    """Of a property that is left out where it is 0, as `pair` and `leader`."""
    return flag is not None and flag.data != 0
