"""What does each operation of `tilewright layout` make of a layout?

Operations follow each other from left to right, each on what the one before made. One that has no answer ends the
chain: `NotExpressible` is a definite no, `NotDecided` says what would decide it. Checked by:
tests/cli/test_layout_command.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.base.error import TilewrightError
from tilewright.cli.layout_input import layout_of, swizzle_of, tiler_of
from tilewright.layout import convert, inverses
from tilewright.layout.answer import NotDecided, NotExpressible, Refusal
from tilewright.layout.coalescing import Difference, canonical, coalesce, difference, swizzled
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
from tilewright.layout.hierarchy import Hierarchy, Level, hierarchy_of, linear_of
from tilewright.layout.layout import Layout
from tilewright.layout.layout_text import parse_nested
from tilewright.layout.linear import LinearLayout
from tilewright.layout.linear_inverse import invert, left_inverse, right_inverse
from tilewright.layout.piecewise import Piecewise

Value = Layout | LinearLayout | Hierarchy | Piecewise
Answer = Value | Refusal | Difference | int | str | None
"""What an operation gives; None where two layouts are equal."""

_TILERS: dict[str, Callable[[Layout, Tiler], Layout | Refusal]] = {
    "compose": compose,
    "divide": logical_divide,
    "zipped-divide": zipped_divide,
    "tiled-divide": tiled_divide,
    "flat-divide": flat_divide,
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
            case NotExpressible() | Difference():
                return 1
            case NotDecided():
                return 3
            case _:
                return 0


def run_chain(start: Value, operations: Sequence[tuple[str, str]], sizes: dict[str, int]) -> Chain:
    """Apply operations, each (name, argument), until one has no layout as its answer. Raises TilewrightError."""
    value, steps = start, list[Step]()
    for place, (operation, argument) in enumerate(operations):
        answer = apply_operation(value, operation, argument, sizes)
        steps.append(Step(operation, argument, answer))
        if isinstance(answer, NotExpressible | NotDecided | Difference):
            break
        if isinstance(answer, Layout | LinearLayout | Hierarchy | Piecewise):
            value = answer
        elif place + 1 < len(operations) and operation == "equal":
            raise TilewrightError("--equal ends the chain", remedy="put it last")
    return Chain(start, tuple(steps), value)


def apply_operation(value: Value, operation: str, argument: str, sizes: dict[str, int]) -> Answer:
    """What one operation makes of a value. Raises TilewrightError for arguments that are none."""
    if operation == "convert":
        return converted(value, argument)
    if operation in _INVERSES and isinstance(value, LinearLayout):
        return _INVERSES[operation][1](value)
    if not isinstance(value, Layout):
        raise TilewrightError(
            f"--{operation} takes a layout of shape and strides, and here is {kind_words(value)}",
            remedy="put --convert cute before it",
        )
    if operation in _TILERS:
        return _TILERS[operation](value, tiler_of(argument, sizes))
    if operation in _LAYOUTS:
        return _LAYOUTS[operation](value, layout_of(argument, sizes))
    match operation:
        case "inverse" | "left-inverse" | "right-inverse":
            return _INVERSES[operation][0](value)
        case "complement":
            size = layout_of(argument, sizes).size if argument else 1
            return inverses.complement(value, size)
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
        case "equal":
            return difference(value, layout_of(argument, sizes))
        case _:
            raise TilewrightError(f"no operation {operation!r}")


def converted(value: Value, to: str) -> Answer:
    """The value in another family: cute, linear or affine. Raises TilewrightError for other names."""
    match to:
        case "cute":
            return _cute(value)
        case "linear":
            return _linear(value)
        case "affine":
            return _affine(value)
        case _:
            raise TilewrightError(f"no family {to!r}", remedy="cute, linear or affine")


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
    steps: list[int] = []
    offset, step = 0, 1
    for (_, size), start in zip(levels.outputs, levels.offsets, strict=True):
        steps.append(step)
        offset += start * step
        step *= size
    parts = [_level_as_part(level, steps) for level in levels.levels]
    if levels.levels and levels.levels[0].name == "register" and len(parts) > 1:
        values, *threads = parts
        joined = tuple(leaf for part in threads for leaf in part)
        parts = [joined, values]
    shapes = tuple(_only(tuple(extent for extent, _ in part)) for part in parts)
    strides = tuple(_only(tuple(stride for _, stride in part)) for part in parts)
    return Layout(_only(shapes), _only(strides), offset)


def _level_as_part(level: Level, steps: Sequence[int]) -> tuple[tuple[int, int], ...]:
    leaves = [
        (mode.extent, sum(each * step for each, step in zip(mode.steps, steps, strict=True))) for mode in level.modes
    ]
    return tuple(leaves) or ((1, 0),)


def _only(parts: tuple[object, ...]) -> object:
    return parts[0] if len(parts) == 1 else parts
