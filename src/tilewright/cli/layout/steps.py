"""What does each operation of `tilewright layout` make of a layout?

Operations follow each other from left to right, each on what the one before made. One that has no answer ends the
chain: `NotExpressible` is a definite no, `NotDecided` says what would decide it. Checked by:
tests/cli/commands/test_layout_command.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tilewright.base.error import TilewrightError
from tilewright.cli.layout.input import layout_of, swizzle_of, tiler_of
from tilewright.layout import convert, inverses
from tilewright.layout.answer import NotDecided, NotExpressible, Refusal
from tilewright.layout.coalescing import canonical, coalesce, swizzled
from tilewright.layout.composition import Tiler, compose
from tilewright.layout.division import (
    blocked_product,
    flat_divide,
    flat_product,
    logical_divide,
    logical_product,
    raked_product,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)
from tilewright.layout.equality import NO_FACTS, Different, Equal, Facts
from tilewright.layout.layout import Layout, joined, of_flat
from tilewright.layout.layout_text import parse_nested
from tilewright.layout.linear.hierarchy import Hierarchy, hierarchy_of, linear_of
from tilewright.layout.linear.hierarchy_layout import layout_of as layout_of_hierarchy
from tilewright.layout.linear.inverse import invert, left_inverse, right_inverse
from tilewright.layout.linear.maps import LinearLayout
from tilewright.layout.numbers.condition import Condition, holds, names_of
from tilewright.layout.pieces.piecewise import Piecewise
from tilewright.solve.layout_relation import Relation, relation_of
from tilewright.solve.layout_relation import equal as equal_for_all_sizes

Value = Layout | LinearLayout | Hierarchy | Piecewise
Answer = Value | Refusal | Relation | Equal | Different | int | str
"""What an operation gives."""

_EXTENDING: dict[str, Callable[[Layout, Tiler, bool], Layout | Refusal]] = {
    "compose": lambda layout, tiler, extend: compose(layout, tiler, extend=extend),
    "divide": lambda layout, tiler, extend: logical_divide(layout, tiler, extend=extend),
    "zipped-divide": lambda layout, tiler, extend: zipped_divide(layout, tiler, extend=extend),
    "tiled-divide": lambda layout, tiler, extend: tiled_divide(layout, tiler, extend=extend),
    "flat-divide": lambda layout, tiler, extend: flat_divide(layout, tiler, extend=extend),
}
_TILERS: dict[str, Callable[[Layout, Tiler], Layout | Refusal]] = {
    "product": logical_product,
    "zipped-product": zipped_product,
    "tiled-product": tiled_product,
    "flat-product": flat_product,
}
_LAYOUTS: dict[str, Callable[[Layout, Layout], Layout | Refusal]] = {
    "blocked-product": blocked_product,
    "raked-product": raked_product,
}
_INVERSES = {
    "inverse": (inverses.inverse, invert),
    "left-inverse": (inverses.left_inverse, left_inverse),
    "right-inverse": (inverses.right_inverse, right_inverse),
}


@dataclass(frozen=True, slots=True)
class Step:
    """One operation as it was asked for, and its answer."""

    operation: str
    argument: str
    answer: Answer


@dataclass(frozen=True, slots=True)
class Chain:
    """A layout, the steps from it, and the last value that there was."""

    start: Value
    steps: tuple[Step, ...]
    result: Value

    @property
    def exit_code(self) -> int:
        """0 where every step has an answer and nothing differs, 1 for a definite no, 3 for what is undecided."""
        match self.steps[-1].answer if self.steps else None:
            case NotExpressible() | Different():
                return 1
            case NotDecided():
                return 3
            case _:
                return 0


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is said of symbolic sizes: values of some, and conditions on the others with the facts that follow."""

    values: dict[str, int]
    where: Condition = True
    facts: Facts = field(default_factory=lambda: NO_FACTS)


def run_chain(start: Value, operations: Sequence[tuple[str, str]], sizes: Sizes, *, extend: bool = False) -> Chain:
    """Apply operations, each (name, argument), until one has no layout as its answer.

    extend: compose and divide go on past a layout's domain along its last leaf, as CuTe does. Raises TilewrightError.
    """
    value, steps = start, list[Step]()
    for place, (operation, argument) in enumerate(operations):
        answer = apply_operation(value, operation, argument, sizes, extend=extend)
        steps.append(Step(operation, argument, answer))
        if isinstance(answer, NotExpressible | NotDecided):
            break
        if isinstance(answer, Layout | LinearLayout | Hierarchy | Piecewise):
            value = answer
        elif place + 1 < len(operations):
            raise TilewrightError(f"--{operation} gives no layout to go on with", remedy="put it last")
    return Chain(start, tuple(steps), value)


def apply_operation(value: Value, operation: str, argument: str, sizes: Sizes, *, extend: bool = False) -> Answer:
    """What one operation makes of a value. Raises TilewrightError for arguments that are none."""
    if operation == "convert":
        return converted(value, argument)
    if operation == "equal":
        return _compared(value, layout_of(argument, sizes.values), sizes)
    if operation in _INVERSES and isinstance(value, LinearLayout):
        return _INVERSES[operation][1](value)
    if not isinstance(value, Layout):
        raise TilewrightError(
            f"--{operation} takes a layout of shape and strides, and here is {kind_words(value)}",
            remedy="put --convert cute before it",
        )
    if operation in _EXTENDING:
        return _EXTENDING[operation](value, tiler_of(argument, sizes.values), extend)
    if operation in _TILERS:
        return _TILERS[operation](value, tiler_of(argument, sizes.values))
    if operation in _LAYOUTS:
        return _LAYOUTS[operation](value, layout_of(argument, sizes.values))
    match operation:
        case "inverse" | "left-inverse" | "right-inverse":
            return _INVERSES[operation][0](value)
        case "complement":
            return inverses.complement(value, layout_of(argument, sizes.values).size)
        case "coalesce":
            return coalesce(value)
        case "canonical":
            return canonical(value)
        case "swizzle":
            found = swizzled(value, swizzle_of(argument))
            return NotExpressible(f"{value} has another swizzle already") if found is None else found
        case "at":
            place = parse_nested(argument if argument.strip().startswith("(") else f"({argument})", what="coordinate")
            found = value(place)
            return found if isinstance(found, int) else str(found)
        case _:
            raise TilewrightError(f"no operation {operation!r}")


def converted(value: Value, to: str) -> Answer:
    """The value in another family: cute, linear, affine or set. Raises TilewrightError for other names."""
    match to:
        case "cute":
            return _cute(value)
        case "linear":
            return _linear(value)
        case "affine":
            return _affine(value)
        case "set":
            plain = _levels_as_parts(value) if isinstance(value, Hierarchy) else value
            found = relation_of(plain)
            return relation_of(plain, on_digits=True) if isinstance(found, NotExpressible) else found
        case _:
            raise TilewrightError(f"no family {to!r}", remedy="cute, linear, affine or set")


def kind_words(value: Value) -> str:
    """What kind of layout it is."""
    match value:
        case Layout():
            return "a layout of shape and strides"
        case LinearLayout():
            return "a linear layout over F2"
        case Hierarchy():
            return "a hierarchy of levels"
        case Piecewise():
            return "a piecewise affine map"


def _linear(value: Value) -> Answer:
    match value:
        case LinearLayout():
            return value
        case Layout():
            return convert.linear_of_layout(value)
        case Hierarchy():
            return linear_of(value)
        case Piecewise():
            return convert.linear_of_piecewise(value)


def _affine(value: Value) -> Answer:
    match value:
        case Piecewise():
            return value
        case Layout():
            return convert.piecewise_of_layout(value)
        case LinearLayout():
            return convert.piecewise_of_linear(value)
        case Hierarchy():
            return convert.piecewise_of_layout(_levels_as_parts(value))


def _cute(value: Value) -> Answer:
    match value:
        case Layout():
            return value
        case Hierarchy():
            return _levels_as_parts(value)
        case Piecewise():
            return convert.layout_of_piecewise(value)
        case LinearLayout():
            levels = hierarchy_of(value)
            return convert.layout_of_linear(value) if isinstance(levels, NotExpressible) else _levels_as_parts(levels)


def _levels_as_parts(levels: Hierarchy) -> Layout:
    """One part for each level, to the number of the element, the first output fastest. Lanes and what is outside them
    are one part, before the registers, as CuTe's layouts of threads and values have them."""
    strides: dict[str, int] = {}
    step = 1
    for name, size in levels.outputs:
        strides[name] = step
        step *= size
    found = layout_of_hierarchy(levels, strides)
    names = [level.name for level in levels.levels]
    if names[:1] != ["register"] or len(names) == 1:
        return found
    values, *threads = found.modes
    leaves = [leaf for part in threads for leaf in part.flat]
    parts = (of_flat(leaves), values)
    return joined(parts).with_values(found.offset, None)


def _compared(value: Value, other: Layout, sizes: Sizes) -> Answer:
    """A counterexample must satisfy the conditions themselves, of which the facts are a part."""
    plain = _levels_as_parts(value) if isinstance(value, Hierarchy) else value
    found = equal_for_all_sizes(plain, other, sizes.facts)
    if not isinstance(found, Different):
        return found
    known = {**sizes.values, **dict(found.sizes)}
    if not names_of(sizes.where) <= set(known) or not holds(sizes.where, known):
        return NotDecided("the sizes that were found to tell them apart are not those of --where", "other conditions")
    return found
