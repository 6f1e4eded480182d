"""Is there an assignment of numbers of fixed width under which some conditions hold? z3's bit vectors, bounded.

Terms are plain trees: arithmetic wraps, shifts beyond the width give 0 (arithmetic ones the sign), comparisons and
Boolean terms have a width of 1 and stand for true and false. Work is bounded by z3's own resource limit, never by time:
a question that meets it has no answer. Products of two unknown terms are what takes a solver long: they are first taken
for any numbers, equal ones for one term, and what contradicts itself then does so whatever the products are. Division
is by constants other than 0 alone, since its value by 0 is nobody's promise.
Source: PTX ISA, Integer Arithmetic, Logic and Shift Instructions; SMT-LIB, theory of fixed-size bit vectors; Clarke et
al., "Counterexample-Guided Abstraction Refinement", CAV 2000, of which this is the first step.
Checked by: tests/solve/test_bit_vectors.py, against evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tilewright.base.extra import MissingExtra
from tilewright.solve.bounded import DEFAULT_EFFORT
from tilewright.solve.installed import solver


@dataclass(frozen=True, slots=True)
class Variable:
    """A number to be found: its place among the question's variables, its width, the largest and smallest it may be,
    and of which power of two it is a multiple."""

    index: int
    width: int
    largest: int
    smallest: int = 0
    multiple: int = 1


@dataclass(frozen=True, slots=True)
class Number:
    value: int
    width: int


@dataclass(frozen=True, slots=True, eq=False)
class Applied:
    """An operation on terms. numbers: what it takes besides (the bits of an extraction, the bits to extend by)."""

    operation: str
    terms: tuple[Term, ...]
    width: int
    numbers: tuple[int, ...] = ()


Term = Variable | Number | Applied


@dataclass(frozen=True, slots=True)
class Question:
    """variables: whose values are asked for; conditions: terms of width 1 that all hold."""

    variables: tuple[Variable, ...]
    conditions: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Witness:
    """values: by a variable's index."""

    values: dict[int, int]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """No assignment satisfies the conditions."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The solver does not say. missing: the package, where it is not installed."""

    missing: MissingExtra | None = None


def ask(question: Question, resources: int = DEFAULT_EFFORT.z3_resources) -> Witness | Contradiction | Unanswered:
    """Decide a question; Unanswered where the resources run out, or z3 is not installed."""
    simpler = _with_any_products(question)
    if simpler is not None and isinstance(_ask(simpler, resources), Contradiction):
        return Contradiction()
    return _ask(question, resources)


def variables_of(terms: Iterable[Term]) -> frozenset[int]:
    """The variables that terms are made of, by index."""
    found: set[int] = set()
    seen: set[int] = set()  # by identity: `terms` keeps its parts alive
    waiting = list(terms)
    while waiting:
        match waiting.pop():
            case Variable(index):
                found.add(index)
            case Applied() as applied if id(applied) not in seen:
                seen.add(id(applied))
                waiting += applied.terms
            case _:
                pass
    return frozenset(found)


def _with_any_products(question: Question) -> Question | None:
    """A question that any assignment for this one answers, too: products of unknown terms are variables. None if there
    are no such products."""
    variables = list(question.variables)
    # By identity: all terms of the question are alive.
    known: dict[int, Term] = {}
    waiting: list[Term] = list(question.conditions)
    while waiting:
        each = waiting[-1]
        if id(each) not in known:
            if not isinstance(each, Applied):
                known[id(each)] = each
            elif each.operation == "mul" and not any(isinstance(factor, Number) for factor in each.terms):
                anything = known[id(each)] = Variable(len(variables), each.width, (1 << each.width) - 1)
                variables.append(anything)
            elif left := [part for part in each.terms if id(part) not in known]:
                waiting += left
                continue
            else:
                parts = tuple(known[id(part)] for part in each.terms)
                known[id(each)] = Applied(each.operation, parts, each.width, each.numbers)
        waiting.pop()
    if len(variables) == len(question.variables):
        return None
    return Question(tuple(variables), tuple(known[id(each)] for each in question.conditions))


def _ask(question: Question, resources: int) -> Witness | Contradiction | Unanswered:
    """Decide a question by one call of the solver."""
    try:
        library = solver("z3")
    except MissingExtra as missing:
        return Unanswered(missing)
    context = library.Context()
    asked = library.SolverFor("QF_BV", ctx=context)
    asked.set("rlimit", resources)
    variables = [library.BitVec(f"input_{each.index}", each.width, context) for each in question.variables]
    for variable, given in zip(variables, question.variables, strict=True):
        if given.largest < (1 << given.width) - 1:
            asked.add(library.ULE(variable, library.BitVecVal(given.largest, given.width, context)))
        if given.smallest > 0:
            asked.add(library.UGE(variable, library.BitVecVal(given.smallest, given.width, context)))
        if given.multiple > 1:
            low_bits = library.BitVecVal(given.multiple - 1, given.width, context)
            asked.add(variable & low_bits == library.BitVecVal(0, given.width, context))
    formulas: dict[int, Any] = {}
    for condition in question.conditions:
        formula = _formula(library, context, variables, condition, formulas)
        asked.add(formula == library.BitVecVal(1, 1, context))
    answer = str(asked.check())
    if answer == "unsat":
        return Contradiction()
    if answer != "sat":
        return Unanswered()
    model = asked.model()
    return Witness(
        {
            given.index: int(model.eval(variable, model_completion=True).as_long())
            for variable, given in zip(variables, question.variables, strict=True)
        }
    )


def _formula(library: Any, context: Any, variables: list[Any], term: Term, known: dict[int, Any]) -> Any:
    """z3's formula of a term. known: by the identity of the terms of this question, which are all alive."""
    waiting: list[Term] = [term]
    while waiting:
        each = waiting[-1]
        if id(each) in known:
            waiting.pop()
            continue
        match each:
            case Variable(index):
                known[id(each)] = variables[index]
            case Number(value, width):
                known[id(each)] = library.BitVecVal(value, width, context)
            case Applied(operation, terms, _, numbers):
                left = [part for part in terms if id(part) not in known]
                if left:
                    waiting += left
                    continue
                known[id(each)] = _applied(library, context, operation, [known[id(part)] for part in terms], numbers)
        waiting.pop()
    return known[id(term)]


def _bit(library: Any, context: Any, truth: Any) -> Any:
    return library.If(truth, library.BitVecVal(1, 1, context), library.BitVecVal(0, 1, context))


_ARITHMETIC: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda _z3, a, b: a + b,
    "sub": lambda _z3, a, b: a - b,
    "mul": lambda _z3, a, b: a * b,
    "and": lambda _z3, a, b: a & b,
    "or": lambda _z3, a, b: a | b,
    "xor": lambda _z3, a, b: a ^ b,
    "shl": lambda _z3, a, b: a << b,
    "lshr": lambda z3, a, b: z3.LShR(a, b),
    "ashr": lambda _z3, a, b: a >> b,
    "udiv": lambda z3, a, b: z3.UDiv(a, b),
    "urem": lambda z3, a, b: z3.URem(a, b),
    "sdiv": lambda _z3, a, b: a / b,
    "srem": lambda z3, a, b: z3.SRem(a, b),
}
_COMPARISONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "eq": lambda _z3, a, b: a == b,
    "ne": lambda _z3, a, b: a != b,
    "ult": lambda z3, a, b: z3.ULT(a, b),
    "ule": lambda z3, a, b: z3.ULE(a, b),
    "slt": lambda _z3, a, b: a < b,
    "sle": lambda _z3, a, b: a <= b,
}
OPERATIONS = frozenset({*_ARITHMETIC, *_COMPARISONS, "not", "if", "extract", "zero_extend", "sign_extend", "concat"})


def _applied(library: Any, context: Any, operation: str, parts: list[Any], numbers: tuple[int, ...]) -> Any:
    if operation in _ARITHMETIC:
        return _ARITHMETIC[operation](library, *parts)
    if operation in _COMPARISONS:
        return _bit(library, context, _COMPARISONS[operation](library, *parts))
    match operation:
        case "not":
            return ~parts[0]
        case "if":
            return library.If(parts[0] == library.BitVecVal(1, 1, context), parts[1], parts[2])
        case "extract":
            return library.Extract(numbers[0], numbers[1], parts[0])
        case "zero_extend":
            return library.ZeroExt(numbers[0], parts[0])
        case "sign_extend":
            return library.SignExt(numbers[0], parts[0])
        case "concat":
            return library.Concat(*parts)
        case _:
            raise AssertionError(f"no operation {operation}")
