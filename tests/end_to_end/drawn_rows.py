"""Programs of rows as libraries have them: norms, losses, places of extremes, quantized rows, drawn from a seed."""

from __future__ import annotations

import random

from tests.end_to_end.drawn_text import Author, Program

_MANY = (1, 2, 3, 5, 8, 17, 32, 65)
_LENGTHS = (1, 2, 3, 4, 7, 8, 16, 31, 33, 64, 100, 128, 130, 255, 257, 512, 1000)
_LONG = (4096, 5000, 16384, 20001, 40000)


def drawn_rows(seed: int) -> Program:
    return _Draw(random.Random(seed)).program()


class _Draw:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.author = Author(chance, element=chance.choice(("bf16", "f16", "f32")))

    def program(self) -> Program:
        author, chance = self.author, self.chance
        extents = {axis: chance.choice((1, 2, 3, 4)) for axis in "BC" if chance.random() < 0.3}
        extents["M"], extents["N"] = chance.choice(_MANY), chance.choice(_LENGTHS)
        if chance.random() < 0.12:
            extents |= {axis: chance.choice((1, 2)) for axis in extents} | {"N": chance.choice(_LONG)}
        if chance.random() < 0.01:
            extents[chance.choice(list(extents))] = 0
        order = list(extents)
        if chance.random() < 0.2:
            chance.shuffle(order)
        author.extents = {axis: extents[axis] for axis in order}
        kinds = ("norm", "norm", "norm", "loss", "place", "place", "quantized", "quantized", "rotary", "gated")
        kinds += ("several", "several", "softmax", "softmax", "distance", "gathered", "blocks", "neighbours", "clipped")
        getattr(self, f"_{chance.choice(kinds)}")()
        return author.program(odd=chance.random() < 0.3)

    @property
    def full(self) -> list[str]:
        return list(self.author.extents)

    def _input(self) -> str:
        """A tile over all axes: an array, or what is made of some."""
        author = self.author
        axes = author.shuffled(self.full, 0.2, last=False)
        value = author.let(author.load(axes, self.chance.choice(("", "", "f32", "i8"))))
        for _ in range(self.chance.choice((0, 0, 1, 1, 2))):
            value = author.let(self._further(value))
        return value

    def _further(self, value: str) -> str:
        author, full = self.author, self.full
        match self.chance.choice(("unary", "residual", "scale", "where", "row")):
            case "unary":
                return author.unary(value)
            case "residual":
                return f"{value} + {author.load(author.shuffled(full, 0.1))}"
            case "scale":
                return f"{value} * {author.load(author.some(full), self.chance.choice(('', 'f32')))}"
            case "row":
                return f"{value} - {author.load(author.some(full, 0.4), 'f32')}"
            case _:
                other = self.chance.choice(("0.0", "-1.0", f"{value} * 0.5"))
                return f"tw.where({self._condition()}, {value}, {other})"

    def _condition(self) -> str:
        author = self.author
        first, second = (self.chance.choice(self.full) for _ in range(2))
        match self.chance.choice(("indices", "number", "integer", "array")):
            case "indices":
                return f"{author.index(first)} <= {author.index(second)} + 2"
            case "number":
                return f"{author.index(first)} >= {self.chance.choice((1, 3, 20))}"
            case "integer":
                number = author.integer(author.some(self.full, 0.4), 0, author.extents[first])
                return f"{author.index(first)} < {number}"
            case _:
                return f"{author.load(author.some(self.full), 'i8')} > {self.chance.choice((-50, 0, 50))}"

    def _folded(self) -> list[str]:
        """The axes that a norm takes together."""
        several = self.author.likely(0.3)
        return self.author.some(self.full, 0.25) if several else [self.chance.choice("NNNM")]

    def _fold(self, fold: str, value: str, axes: list[str]) -> str:
        for axis in axes:
            value = f"tw.{fold}({value}, over={self.author.index(axis)})"
        return self.author.let(value)

    def _left(self, axes: list[str]) -> list[str]:
        return [axis for axis in self.full if axis not in axes]

    def _statistic(self, axes: list[str], value: str, share: float = 0.4) -> None:
        if self._left(axes) and self.author.likely(share):
            self.author.store(self._left(axes), value, "f32")

    def _norm(self) -> None:
        author = self.author
        value, axes = self._input(), self._folded()
        kind = self.chance.choice(("rms", "layer", "layer", "unit", "spread"))
        if kind in ("layer", "spread"):
            mean = self._fold("mean", value, axes)
            self._statistic(axes, mean)
            value = author.let(f"{value} - {mean}")
        squares = self._fold("sum" if kind == "unit" else "mean", f"({value} * {value})", axes)
        scale = author.let(f"tw.rsqrt({squares} + 1e-5)")
        self._statistic(axes, scale)
        if kind == "spread":
            self._statistic(axes, f"tw.sqrt({squares})", 1.0)
        value = author.let(f"{value} * {scale}")
        if author.likely(0.6):
            value = author.let(f"{value} * {author.load(author.some(axes, 0.9), self.chance.choice(('', 'f32')))}")
        if author.likely(0.4):
            value = author.let(f"{value} + {author.load(author.some(axes, 0.9))}")
        if author.likely(0.2):
            value = author.let(author.unary(value))
        author.store(self.full, value)

    def _softmax(self) -> None:
        author = self.author
        value, axis = self._input(), self.chance.choice(("n", "n", "n", "m"))
        match self.chance.choice(("softmax", "log", "masked", "twice", "temperature")):
            case "softmax":
                result = f"tw.softmax({value}, over={axis})"
            case "log":
                result = f"{value} - tw.logsumexp({value}, over={axis})"
            case "masked":
                result = f"tw.softmax(tw.where({self._condition()}, {value}, -float('inf')), over={axis})"
            case "twice":
                result = f"tw.softmax(tw.softmax({value}, over={axis}) * 2.0, over={self.chance.choice('nm')})"
            case _:
                axes = author.some([each for each in self.full if author.index(each) != axis])
                result = f"tw.softmax({value} * {author.load(axes, 'f32')}, over={axis})"
        result = author.let(result)
        if author.likely(0.3):
            result = author.let(self._further(result))
        author.store(self.full, result)
        if author.likely(0.3):
            author.store(self._left([axis.upper()]), f"tw.max({value}, over={axis})")

    def _loss(self) -> None:
        author = self.author
        rows = self._left(["N"])
        value, size = self._input(), author.extents["N"]
        total = author.let(f"tw.logsumexp({value}, over=n)")
        target = author.integer(rows, -1, max(size - 1, 0))
        match self.chance.choice(("equal", "smooth", "gathered", "squared")):
            case "equal":
                at = author.let(f"tw.sum(tw.where(tw.equal(n, {target}), {value}, 0.0), over=n)")
            case "smooth":
                at = author.let(f"tw.sum({value} * (0.9 * tw.equal(n, {target}) + 0.1 / {max(size, 1)}.0), over=n)")
            case "gathered":
                table = author.tensor([*rows, "N"])
                places = ", ".join(author.index(axis) for axis in rows)
                at = author.let(f"{table}[{places}, {target}]")
            case _:
                away = author.let(f"{value} - tw.equal(n, {target})")
                at = author.let(f"tw.mean({away} * {away}, over=n)")
        loss = author.let(f"tw.where({target} >= 0, {total} - {at}, 0.0)")
        if author.likely(0.6) or len(rows) < 2:
            author.store(rows, loss, "f32")
        else:
            author.store(rows[1:], f"tw.mean({loss}, over={author.index(rows[0])})", "f32")
        if author.likely(0.3):
            author.store(self.full, f"tw.exp({value} - {total}) - tw.equal(n, {target})")

    def _place(self) -> None:
        author = self.author
        value, axis = self._input(), self.chance.choice("NNNM")
        if author.likely(0.6):
            value = author.let(f"tw.round({value} * {self.chance.choice(('1.0', '3.0'))})")
        index, left = author.index(axis), self._left([axis])
        extreme = self.chance.choice(("max", "min"))
        at = author.let(f"tw.arg{extreme}({value}, over={index})")
        author.store(left, at, "i32")
        match self.chance.choice(("alone", "value", "second", "before", "both", "used")):
            case "value":
                author.store(left, f"tw.{extreme}({value}, over={index})")
            case "second":
                none = f"{'-' if extreme == 'max' else ''}float('inf')"
                rest = author.let(f"tw.where(tw.equal({index}, {at}), {none}, {value})")
                author.store(left, f"tw.arg{extreme}({rest}, over={index})", "i32")
                author.store(left, f"tw.{extreme}({rest}, over={index})", "f32")
            case "before":
                author.store(self.full, f"tw.where({index} < {at}, {value}, 0.0)")
            case "both":
                author.store(left, f"tw.argmin({value} * 0.5, over={index})", "i32")
            case "used":
                author.store(left, f"tw.sum(tw.where({index} <= {at}, 1.0, 0.0), over={index})", "f32")
            case _:
                pass

    def _quantized(self) -> None:
        author = self.author
        element, most = self.chance.choice((("i8", "127.0"), ("f8e4m3", "448.0"), ("f8e5m2", "57344.0")))
        value, axis = self._input(), self.chance.choice("NNNM")
        index, left = author.index(axis), self._left([axis])
        if author.likely(0.3):
            value = author.let(f"{value} * tw.rsqrt(tw.mean({value} * {value}, over={index}) + 1e-6)")
        match self.chance.choice(("absmax", "absmax", "given", "zero")):
            case "absmax":
                scale = author.let(f"tw.maximum(tw.max(tw.abs({value}), over={index}) / {most}, 1e-12)")
                author.store(left, scale, "f32")
                result = author.let(f"{value} / {scale}")
            case "given":
                result = author.let(f"{value} * {author.load(author.some(self.full), 'f32')}")
            case _:
                least = author.let(f"tw.min({value}, over={index})")
                scale = author.let(f"(tw.max({value}, over={index}) - {least}) / 255.0 + 1e-9")
                result = author.let(f"({value} - {least}) / {scale} - 128.0")
                author.store(left, scale, "f32")
                author.store(left, least, "f32")
        author.store(self.full, result, element)
        if author.likely(0.3):
            author.store(self.full, f"{result}.to(tw.{element}) - {result}", "f32")

    def _rotary(self) -> None:
        author, full = self.author, self.full
        half = max(author.extents["N"] // 2, 1)
        name = author.tensor(full, self.chance.choice(("", "f32")))
        at = ", ".join(author.index(axis) for axis in full)
        places = [at.replace("n", f"n {sign} {half}") for sign in "+-"]
        axes = author.some(self._left(["N"]), 0.5)
        sine, cosine = (author.load([*axes, "N"], "f32") for _ in range(2))
        turned = author.let(f"tw.where(n < {half}, -{name}[{places[0]}], {name}[{places[1]}])")
        author.store(full, f"{name}[{at}] * {cosine} + {turned} * {sine}")
        if author.likely(0.3):
            author.store(self._left(["N"]), f"tw.sum({turned} * {turned}, over=n)", "f32")

    def _gated(self) -> None:
        author = self.author
        value, gate = self._input(), self._input()
        result = author.let(f"{value} * {author.unary(gate)}")
        if author.likely(0.3):
            author.store(self.full, gate)
        author.store(self.full, self._further(result))

    def _several(self) -> None:
        author = self.author
        value = self._input()
        for _ in range(self.chance.choice((2, 2, 3, 4))):
            if author.likely(0.35):
                kind = self.chance.choice(("", "f32", "i8", "f8e4m3", "bf16", "f16"))
                author.store(self.full, author.unary(value), kind)
                continue
            axes = self._folded()
            if not self._left(axes):
                axes = axes[1:]
            folded = self._fold(self.chance.choice(("sum", "max", "min", "mean", "logsumexp")), value, axes)
            if axes:
                author.store(self._left(axes), folded, self.chance.choice(("", "f32", "f8e5m2", "bf16")))
            if author.likely(0.3):
                value = author.let(f"{value} - {folded}")
        author.store(self.full, value)

    def _distance(self) -> None:
        author = self.author
        first, second = self._input(), self._input()
        rows = self._left(["N"])
        match self.chance.choice(("cosine", "squared", "divergence")):
            case "cosine":
                norms = [f"tw.sum({each} * {each}, over=n)" for each in (first, second)]
                author.store(rows, f"tw.sum({first} * {second}, over=n) * tw.rsqrt({norms[0]} * {norms[1]} + 1e-6)")
            case "squared":
                author.store(rows, f"tw.sqrt(tw.sum(({first} - {second}) * ({first} - {second}), over=n) + 1e-6)")
            case _:
                left, right = (author.let(f"{each} - tw.logsumexp({each}, over=n)") for each in (first, second))
                author.store(rows, f"tw.sum(tw.exp({left}) * ({left} - {right}), over=n)")

    def _gathered(self) -> None:
        author = self.author
        author.hidden["R"] = size = self.chance.choice((1, 3, 16, 40))
        rows = [axis for axis in self.full if axis != "N"]
        places = author.integer(author.some(rows), -2, size + 1)
        table = author.let(f"{author.tensor(['R', 'N'])}[{places}, n]")
        if not set(rows) <= set(places):
            table = author.let(f"{table} + {author.load([*rows, 'N'])}")
        if author.likely(0.5):
            table = author.let(f"{table} * tw.rsqrt(tw.mean({table} * {table}, over=n) + 1e-6)")
        author.store(self.full, table)

    def _blocks(self) -> None:
        author = self.author
        size = self.chance.choice((2, 4, 32, 64, 128))
        axes = [axis if axis != "N" else f"N/{size}" for axis in self.full]
        value = author.let(f"{self._input()} * {author.load(axes, 'f32')}")
        if author.likely(0.5):
            fold = self.chance.choice(("max", "mean"))
            value = author.let(f"{value} - tw.{fold}({value}, over={self.chance.choice('nm')})")
        author.store(self.full, value, self.chance.choice(("", "f32", "f8e4m3", "i8")))

    def _neighbours(self) -> None:
        author, full = self.author, self.full
        name = author.tensor(full, self.chance.choice(("", "f32", "i8")))
        terms: list[str] = []
        for _ in range(self.chance.choice((2, 3, 4))):
            axis = self.chance.choice("NNM")
            offset = self.chance.choice((-2, -1, 0, 1, 3, 17))
            places = [author.index(each) + (f" + {offset}" if each == axis and offset else "") for each in full]
            weights = f" * {author.load(author.some(full, 0.3), 'f32')}" if author.likely(0.5) else ""
            terms.append(f"{name}[{', '.join(places)}]".replace("+ -", "- ") + weights)
        value = author.let(" + ".join(terms))
        if author.likely(0.4):
            value = author.let(f"{value} * tw.rsqrt(tw.mean({value} * {value}, over=n) + 1e-5)")
        author.store(full, value)

    def _clipped(self) -> None:
        """Values that leave their range by a norm of all of them."""
        author, full = self.author, self.full
        value = self._input()
        axes = author.shuffled(full, 0.3, last=False)
        total = self._fold("sum", f"({value} * {value})", axes[: self.chance.choice((1, 2, len(axes)))])
        author.store(full, f"{value} * tw.minimum(1.0 / (tw.sqrt({total}) + 1e-6), 1.0)")
