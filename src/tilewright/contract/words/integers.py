"""What do the integer ops of MLIR's `arith` and `scf` compute? Handlers for `words.walk`.

i1 values are 0 and 1. Widths are not tracked: sums and products are taken not to overflow, which a program's loop
counters and indices do not. What is not listed yields an unknown. Checked by:
tests/driver/check/mlir/test_check_mlir.py.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.contract.words.operations import is_integer
from tilewright.contract.words.scalar import (
    Number,
    Scalar,
    add,
    bitwise,
    divide,
    is_equal,
    is_less,
    multiply,
    remainder,
    scalar,
)
from tilewright.contract.words.values import OPAQUE, Environment, Value, bind, lookup
from tilewright.contract.words.walk import Handler, Walk
from tilewright.frontends.mlir.ast import Operation

_LINEAR = frozenset({"arith.addi", "arith.subi", "arith.muli"})
_Binary = Callable[[Walk, Number, Number], Number]


def constant(walk: Walk, operation: Operation, environment: Environment) -> None:
    """arith.constant: integers and truth values; anything else is opaque."""
    tokens = operation.tokens
    text = "".join(token.text for token in tokens)
    value: Value = OPAQUE
    if text in ("true", "false"):
        value = int(text == "true")
    elif is_integer(operation.types) and text.removeprefix("-").isdigit():
        value = int(text)
    bind(environment, operation.results[0], value)


def _binary(compute: _Binary) -> Handler:
    def handle(walk: Walk, operation: Operation, environment: Environment) -> None:
        result = operation.results[0]
        if not is_integer(operation.types):
            walk.other(operation, environment)
            return
        left, right = (walk.number(environment, name, operation.line) for name in operation.uses[:2])
        if operation.name not in _LINEAR:
            left, right = walk.resolved(left), walk.resolved(right)
        bind(environment, result, compute(walk, left, right))

    return handle


def _shift_left(walk: Walk, left: Number, right: Number) -> Number:
    if isinstance(right, int) and 0 <= right < 64:
        return multiply(left, 1 << right, walk.program.atoms)
    return walk.program.atoms.of("shift_left", left, right)


def _shift_right(walk: Walk, left: Number, right: Number) -> Number:
    whole = scalar(left)
    if isinstance(right, int) and 0 <= right < 64 and whole.is_known and whole.value >= 0:
        return divide(left, 1 << right, walk.program.atoms)
    return walk.program.atoms.of("shift_right", left, right)


def _extreme(least: bool) -> _Binary:
    def compute(walk: Walk, left: Number, right: Number) -> Number:
        below = is_less(left, right, walk.program.choice.trips)
        if below is None:
            return walk.program.atoms.of("min" if least else "max", *sorted((left, right), key=repr))
        return left if below == least else right

    return compute


def compare(walk: Walk, operation: Operation, environment: Environment) -> None:
    """arith.cmpi."""
    if not is_integer(operation.types):
        walk.other(operation, environment)
        return
    predicate = operation.tokens[0].text
    left, right = (walk.number(environment, name, operation.line) for name in operation.uses[:2])
    bind(environment, operation.results[0], _compared(walk, predicate, left, right))


def _compared(walk: Walk, predicate: str, left: Number, right: Number) -> Number:
    trips = walk.program.choice.trips
    if predicate[0] == "u":
        if isinstance(left, int) and isinstance(right, int):
            # A negative number is a large one without its sign.
            left, right = (number if number >= 0 else number + (1 << 64) for number in (left, right))
        for number in (left, right):
            whole = scalar(number)
            if not (whole.is_known and whole.value >= 0 and whole.slope >= 0):
                return walk.program.atoms.of(predicate, left, right)
        predicate = "s" + predicate[1:]
    if predicate in ("sgt", "sle"):
        left, right = right, left
    below = is_equal(left, right, trips) if predicate in ("eq", "ne") else is_less(left, right, trips)
    if below is None:
        name = "equal" if predicate in ("eq", "ne") else "less"
        found: Number = walk.program.atoms.of(name, left, right)
    else:
        found = int(below)
    return negated(found) if predicate in ("ne", "sge", "sle") else found


def negated(condition: Number) -> Number:
    """Not: 1 - condition."""
    return add(1, condition, -1)


def _exclusive_or(walk: Walk, left: Number, right: Number) -> Number:
    return bitwise("xor", left, right, walk.program.atoms)


def _exclusive_or_handler(walk: Walk, operation: Operation, environment: Environment) -> None:
    """arith.xori: of truth values, with 1, the negation."""
    if operation.types == "i1":
        left, right = (walk.number(environment, name, operation.line) for name in operation.uses[:2])
        for one, other in ((left, right), (right, left)):
            if other == 1 and isinstance(one, Scalar):
                bind(environment, operation.results[0], negated(one))
                return
    _binary(_exclusive_or)(walk, operation, environment)


def select(walk: Walk, operation: Operation, environment: Environment) -> None:
    """arith.select on a scalar condition."""
    line = operation.line
    condition = lookup(environment, operation.uses[0], line)
    yes, no = (lookup(environment, name, line) for name in operation.uses[1:3])
    result: Value
    if isinstance(condition, int):
        result = yes if condition else no
    elif yes == no:
        result = yes
    elif isinstance(yes, int | Scalar) and isinstance(no, int | Scalar) and isinstance(condition, Scalar):
        decided = walk.program.choice.decisions.get(condition)
        if decided is not None:
            result = yes if decided else no
        else:
            result = walk.program.atoms.of("select", condition, yes, no)
    else:
        walk.other(operation, environment)
        return
    bind(environment, operation.results[0], result)


def converted(walk: Walk, operation: Operation, environment: Environment) -> None:
    """Widenings and index casts keep the value; an i1 widened with its sign becomes 0 or -1."""
    if not is_integer(operation.types):
        walk.other(operation, environment)
        return
    number = walk.number(environment, operation.uses[0], operation.line)
    source = operation.types.split("to ")[0].strip()
    if operation.name == "arith.extsi" and source == "i1":
        number = add(0, number, -1)
    if operation.name == "arith.trunci" and operation.types.endswith("i1"):
        number = bitwise("and", number, 1, walk.program.atoms)
    bind(environment, operation.results[0], number)


INTEGER_HANDLERS: dict[str, Handler] = {
    "arith.constant": constant,
    "arith.addi": _binary(lambda walk, left, right: add(left, right)),
    "arith.subi": _binary(lambda walk, left, right: add(left, right, -1)),
    "arith.muli": _binary(lambda walk, left, right: multiply(left, right, walk.program.atoms)),
    "arith.divsi": _binary(lambda walk, left, right: divide(left, right, walk.program.atoms)),
    "arith.divui": _binary(lambda walk, left, right: divide(left, right, walk.program.atoms)),
    "arith.floordivsi": _binary(lambda walk, left, right: _floor(walk, left, right)),
    "arith.ceildivsi": _binary(lambda walk, left, right: divide(left, right, walk.program.atoms, up=True)),
    "arith.ceildivui": _binary(lambda walk, left, right: divide(left, right, walk.program.atoms, up=True)),
    "arith.remsi": _binary(lambda walk, left, right: remainder(left, right, walk.program.atoms)),
    "arith.remui": _binary(lambda walk, left, right: remainder(left, right, walk.program.atoms)),
    "arith.andi": _binary(lambda walk, left, right: bitwise("and", left, right, walk.program.atoms)),
    "arith.ori": _binary(lambda walk, left, right: bitwise("or", left, right, walk.program.atoms)),
    "arith.xori": _exclusive_or_handler,
    "arith.shli": _binary(_shift_left),
    "arith.shrsi": _binary(_shift_right),
    "arith.shrui": _binary(_shift_right),
    "arith.minsi": _binary(_extreme(True)),
    "arith.minui": _binary(_extreme(True)),
    "arith.maxsi": _binary(_extreme(False)),
    "arith.maxui": _binary(_extreme(False)),
    "arith.cmpi": compare,
    "arith.select": select,
    "arith.extsi": converted,
    "arith.extui": converted,
    "arith.trunci": converted,
    "arith.index_cast": converted,
    "arith.index_castui": converted,
    "scf.for": lambda walk, operation, environment: walk.loop(operation, environment),
    "scf.if": lambda walk, operation, environment: walk.condition(operation, environment),
    "scf.while": lambda walk, operation, environment: walk.repeat(operation, environment),
}
"""What `arith` and `scf` ops do."""


def _floor(walk: Walk, left: Number, right: Number) -> Number:
    whole = scalar(left)
    if whole.is_known and whole.value < 0:
        if isinstance(left, int) and isinstance(right, int) and right > 0:
            return left // right
        return walk.program.atoms.of("floor", left, right)
    return divide(left, right, walk.program.atoms)
