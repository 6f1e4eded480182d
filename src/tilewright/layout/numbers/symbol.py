"""How does one statement of an integer rule become text for another engine?

A rule of `layout.view.rewrite` is a plain function over integers. Called with symbols in place of integers, the same
function builds prefix-notation terms: `n // f` becomes `(/ n f)`, `n % f == 0` becomes `(= (% n f) 0)`. So the rule
that Python applies and the rule that an e-graph applies cannot drift apart.

Not handled: `and`, `or`, `not`, `if` (no symbol has a truth value: it raises TypeError). Division is written for
non-negative operands. Checked by tests/layout/test_rewrites.py and, through the e-graph,
tests/solve/egraph/test_saturate.py.
"""

from __future__ import annotations


class Symbol:
    """An integer or a condition on integers, as prefix text."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __add__(self, other: Symbol | int) -> Symbol:
        return _operation("+", self, other)

    def __sub__(self, other: Symbol | int) -> Symbol:
        return _operation("-", self, other)

    def __mul__(self, other: Symbol | int) -> Symbol:
        return _operation("*", self, other)

    def __floordiv__(self, other: Symbol | int) -> Symbol:
        return _operation("/", self, other)

    def __mod__(self, other: Symbol | int) -> Symbol:
        return _operation("%", self, other)

    def __eq__(self, other: object) -> Symbol:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _operation("=", self, other)

    def __lt__(self, other: Symbol | int) -> Symbol:
        return _operation("<", self, other)

    def __le__(self, other: Symbol | int) -> Symbol:
        return _operation("<=", self, other)

    def __gt__(self, other: Symbol | int) -> Symbol:
        return _operation(">", self, other)

    def __ge__(self, other: Symbol | int) -> Symbol:
        return _operation(">=", self, other)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __bool__(self) -> bool:
        raise TypeError(f"a symbol has no truth value: {self.text}")


def text_of(value: object) -> str:
    """`value`, a Symbol or an int, as prefix text."""
    return value.text if isinstance(value, Symbol) else str(value)


def _operation(operator: str, left: object, right: object) -> Symbol:
    return Symbol(f"({operator} {text_of(left)} {text_of(right)})")
