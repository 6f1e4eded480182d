"""Tile programs drawn from a seed: what stands where, not what it is called, is left to chance.

A program has axes of odd and even extents, and is one of rows (elementwise operations and folds), of a product with
what follows it, of two products with a function or a softmax between them. Operands may be computed, displaced, turned
or of 8-bit integers; masks compare indices, numbers and integers. The text is Python, as an author would write it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

_EXTENTS = (1, 2, 3, 5, 8, 16, 17, 31, 32, 33, 63, 64, 65, 70, 96, 127, 128, 129, 130)
_SUMMED = (1, 2, 7, 8, 16, 24, 31, 32, 40, 64, 65, 100, 128, 136)
_INDICES = {"B": "b", "M": "i", "N": "j", "K": "k", "L": "l"}
_UNARY = (
    "tw.relu({})", "tw.sigmoid({})", "tw.tanh({})", "tw.exp(-tw.abs({}))", "tw.silu({})", "{} * 0.5", "{} + 1.0",
    "tw.clamp({}, -1.0, 1.0)", "tw.sqrt(tw.abs({}) + 0.5)", "tw.rsqrt(tw.abs({}) + 1.0)", "tw.log(tw.abs({}) + 1.5)",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Drawn:
    """text: of a module with the kernel `drawn`; dims: extents by axis; element: of tensors that say none."""

    text: str
    dims: dict[str, int]
    element: str


def drawn_program(seed: int) -> Drawn:
    """The program of a seed."""
    return _Draw(random.Random(seed)).program()


@dataclass(slots=True)
class _Draw:
    random: random.Random
    extents: dict[str, int] = field(default_factory=dict[str, int])
    parameters: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])
    element: str = "bf16"

    def program(self) -> Drawn:
        chance, self.element = self.random, self.random.choice(("bf16", "bf16", "f16"))
        kind = chance.choice(("rows", "rows", "product", "product", "product", "chain", "chain", "attention"))
        self.extents = {"B": chance.choice((1, 2, 3))} if chance.random() < 0.35 else {}
        self.extents |= {axis: chance.choice(_EXTENTS) for axis in "MN"}
        if kind != "rows":
            self.extents["K"] = chance.choice(_SUMMED)
        if kind in ("chain", "attention"):
            self.extents["L"] = chance.choice((8, 16, 24, 32, 33, 64, 72, 128))
        batch = [axis for axis in self.extents if axis == "B"]
        if kind == "rows":
            self._rows([*batch, "M", "N"])
        else:
            self._products(kind, batch)
        axes = list(self.extents)
        names = ", ".join(_INDICES[axis] for axis in axes)
        body = "".join(f"    {line}\n" for line in (f"{names} = tw.axes({', '.join(map(repr, axes))})", *self.lines))
        head = f"import tilewright as tw\n\n\n@tw.kernel\ndef drawn({', '.join(self.parameters)}):\n"
        return Drawn(head + body, self.extents, self.element)

    def _rows(self, full: Sequence[str]) -> None:
        value = self._let(self._expression(full, self._load(full, self.random.choice(("", "f32"))), 2))
        for _ in range(self.random.choice((0, 1, 1, 2))):
            folded = self._fold(value, self.random.choice("NNNM"))
            value = self._let(f"{value} {self.random.choice('-*+')} {folded}")
        self._store(full, value)

    def _products(self, kind: str, batch: Sequence[str]) -> None:
        full = [*batch, "M", "N"]
        own = [*batch, "M", "K"]
        other = [*(batch if self.random.random() < 0.7 else ()), "N", "K"]
        product = self._let(self._product(own, other))
        if self.random.random() < 0.2:
            product = self._let(f"{product} {self.random.choice('+*')} {self._product(own, other)}")
        value = self._let(self._expression(full, product, self.random.choice((0, 1, 1, 2))))
        if kind == "product":
            folded = self.random.random() < 0.35
            self._store(
                full, self._let(f"{value} * {self._fold(value, self.random.choice('NNM'))}") if folded else value
            )
            return
        value = self._let(f"tw.softmax({value}, over=j)" if kind == "attention" else self._expression(full, value, 1))
        brought = self._load([*batch, "N", "L"])
        result = [*batch, "M", "L"]
        self._store(result, self._let(self._expression(result, f"tw.dot({value}, {brought}, over=j)", 1)))

    def _product(self, own: Sequence[str], other: Sequence[str]) -> str:
        return f"tw.dot({self._operand(own)}, {self._operand(other)}, over=k)"

    def _operand(self, axes: Sequence[str]) -> str:
        loaded = self._load(axes, displaced=self.random.random() < 0.3)
        if self.random.random() < 0.2:
            return f"({self._expression(axes, loaded, 1)}).to(tw.{self.element})"
        return loaded

    def _load(self, axes: Sequence[str], element: str = "", *, displaced: bool = True) -> str:
        named = list(axes)
        turned = len(named) > 1 and self.random.random() < 0.15
        if turned:
            named[-2:] = reversed(named[-2:])
        indices = [_INDICES[axis] for axis in named]
        for at, axis in enumerate(named):
            if displaced and self.extents[axis] > 1 and self.random.random() < 0.07:
                indices[at] += f" {self.random.choice('+-')} {self.random.choice((1, 2, 3))}"
        name = self._parameter("x", named, element)
        return f"{name}[{', '.join(indices)}]" + (".T" if turned else "")

    def _parameter(self, letter: str, axes: Sequence[str], element: str) -> str:
        name = f"{letter}{len(self.parameters)}"
        kind = f", tw.{element}" if element else ""
        self.parameters.append(f"{name}: tw.Tensor[{', '.join(map(repr, axes))}{kind}]")
        return name

    def _some(self, axes: Sequence[str]) -> list[str]:
        return [axis for axis in axes if self.random.random() < 0.6] or [self.random.choice(axes)]

    def _condition(self, axes: Sequence[str]) -> str:
        index = _INDICES[self.random.choice(axes)]
        match self.random.choice(("indices", "integers", "number")):
            case "indices":
                return f"({index} {self.random.choice(('<=', '>'))} {_INDICES[self.random.choice(axes)]} + 3)"
            case "integers":
                return f"({index} < {self._load(self._some(axes), 'i32', displaced=False)})"
            case _:
                return f"({index} >= {self.random.choice((1, 5, 20))})"

    def _expression(self, axes: Sequence[str], value: str, depth: int) -> str:
        for _ in range(depth):
            chance = self.random.random()
            if chance < 0.3:
                value = self.random.choice(_UNARY).format(f"({value})")
            elif chance < 0.65:
                other = self._load(self._some(axes), self.random.choice(("", "", "f32", "i8")))
                value = f"({value}) {self.random.choice('+-*')} {other}"
            elif chance < 0.85:
                value = f"tw.where({self._condition(axes)}, {value}, {self.random.choice(('0.0', '-1.5'))})"
            else:
                value = f"({value}) + 0.01 * {_INDICES[self.random.choice(axes)]}"
        return value

    def _let(self, expression: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        return name

    def _fold(self, value: str, axis: str) -> str:
        fold = self.random.choice(("sum", "max", "min", "mean", "logsumexp", "softmax"))
        return self._let(f"tw.{fold}({value}, over={_INDICES[axis]})")

    def _store(self, axes: Sequence[str], value: str) -> None:
        name = self._parameter("y", axes, self.random.choice(("", "", "f32")))
        self.lines.append(f"{name}[{', '.join(_INDICES[axis] for axis in axes)}] = {value}")
