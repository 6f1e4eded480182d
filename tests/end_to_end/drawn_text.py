"""What writes a drawn program: axes, parameters and lines, as an author of the language would put them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from tests.end_to_end.bounded_numbers import Array, drawn_numbers

from tilewright.base.element import Element

UNARY = (
    "tw.relu({})", "tw.sigmoid({})", "tw.tanh({})", "tw.exp(-tw.abs({}))", "tw.silu({})", "tw.gelu({})", "{} * 0.5",
    "{} + 1.0", "tw.clamp({}, -1.0, 1.0)", "tw.sqrt(tw.abs({}) + 0.5)", "tw.rsqrt(tw.abs({}) + 1.0)", "-({})",
    "tw.log(tw.abs({}) + 1.5)", "tw.maximum({}, 0.1)", "1.0 / (tw.abs({}) + 1.0)", "tw.where({0} < 0, 0.01 * {0}, {0})",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Program:
    """text: of a module with the kernel `drawn`; dims: extents by axis; element: of tensors that say none; integers:
    the least and largest of integer arrays by parameter, `ends` of them in order; strides: in elements, of arrays that
    are not row-major; ranges: least and largest extent of axes that only a launch knows; odd: inputs have NaN; meaning:
    of a module that says the same in plain words, "" where the text does."""

    text: str
    dims: dict[str, int]
    element: str
    integers: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    ends: tuple[str, ...] = ()
    strides: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    odd: bool = False
    meaning: str = ""


@dataclass(slots=True)
class Author:
    """Names are drawn as lines are: `x3` is the fourth parameter, `v2` the third line's value."""

    chance: random.Random
    extents: dict[str, int] = field(default_factory=dict[str, int])
    parameters: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])
    element: str = "bf16"
    integers: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    ends: list[str] = field(default_factory=list[str])
    strides: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    hidden: dict[str, int] = field(default_factory=dict[str, int])
    """Axes of tables alone, which no index is along."""

    def index(self, axis: str) -> str:
        return axis.lower()

    def likely(self, share: float) -> bool:
        return self.chance.random() < share

    def some(self, axes: Iterable[str], share: float = 0.6) -> list[str]:
        listed = list(axes)
        return [axis for axis in listed if self.likely(share)] or [self.chance.choice(listed)]

    def tensor(self, axes: Sequence[str], element: str = "", letter: str = "x") -> str:
        """A new parameter's name."""
        name = f"{letter}{len(self.parameters)}"
        kind = f", tw.{element}" if element else ""
        self.parameters.append(f"{name}: tw.Tensor[{', '.join(map(repr, axes))}{kind}]")
        return name

    def load(self, axes: Sequence[str], element: str = "", *, indices: Mapping[str, str] | None = None) -> str:
        """A tensor's elements; an axis such as `H/4` is read at `h // 4`."""
        name = self.tensor(axes, element)
        listed = [(indices or {}).get(axis, self.place(axis)) for axis in axes]
        order = [list(self.extents).index(axis.split("/")[0]) for axis in axes]
        turned = len(order) == 2 and order[0] > order[1]
        return f"{name}[{', '.join(listed)}]" + (".T" if turned else "")

    def place(self, axis: str) -> str:
        if "/" in axis:
            base, size = axis.split("/")
            return f"{self.index(base)} // {size}"
        return self.index(axis)

    def integer(self, axes: Sequence[str], least: int, most: int) -> str:
        name = self.tensor(axes, "i32", "n")
        self.integers[name] = (least, most)
        return f"{name}[{', '.join(map(self.place, axes))}]"

    def let(self, expression: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        return name

    def unary(self, value: str) -> str:
        return self.chance.choice(UNARY).format(value)

    def store(self, axes: Sequence[str], value: str, element: str | None = None) -> None:
        """A result lies as the program names its axes."""
        axes = [axis for axis in self.extents if axis in axes]
        kind = self.chance.choice(("", "", "f32")) if element is None else element
        name = self.tensor(axes, kind, "y")
        self.lines.append(f"{name}[{', '.join(self.index(axis) for axis in axes)}] = {value}")

    def shuffled(self, axes: Sequence[str], share: float = 0.4, *, last: bool = True) -> list[str]:
        """The axes in another order now and then; last: the last one stays."""
        listed = list(axes)
        if self.likely(share):
            moved = listed[:-1] if last else listed
            self.chance.shuffle(moved)
            listed = [*moved, *listed[len(moved) :]]
        return listed

    def program(
        self, *, odd: bool = False, head: bool = True, ranges: Mapping[str, tuple[int, int]] | None = None
    ) -> Program:
        """The program; head: it begins with `tw.axes`; ranges: as `Program` has them."""
        axes = list(self.extents)
        names = ", ".join(self.index(axis) for axis in axes)
        first = [f"{names} = tw.axes({', '.join(map(repr, axes))})"] if head else []
        body = "".join(f"    {line}\n" for line in (*first, *self.lines))
        text = f"import tilewright as tw\n\n\n@tw.kernel\ndef drawn({', '.join(self.parameters)}):\n{body}"
        dims = self.extents | self.hidden
        return Program(text, dims, self.element, self.integers, tuple(self.ends), self.strides, dict(ranges or {}), odd)


def drawn_arrays(program: Program, shapes: Mapping[str, tuple[Sequence[int], Element]], seed: int) -> dict[str, Array]:
    """Inputs of a program by name, of these shapes and elements."""
    random_ = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for name, (shape, element) in shapes.items():
        if name in program.integers:
            least, most = program.integers[name]
            array = random_.integers(least, most + 1, shape).astype(np.int32)
            arrays[name] = np.sort(array) if name in program.ends else array
        else:
            arrays[name] = drawn_numbers(random_, shape, element, odd=program.odd)
    return arrays
