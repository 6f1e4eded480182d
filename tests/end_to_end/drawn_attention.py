"""Programs like attention: products with masks, biases and a softmax between them, drawn from a seed."""

from __future__ import annotations

import random

from tests.end_to_end.drawn_text import Author, Program

_ROWS = (1, 2, 3, 16, 17, 33, 64, 65, 100, 128, 130)
_KEYS = (1, 3, 8, 16, 31, 48, 64, 65, 96, 128, 130, 200)
_WIDTHS = (8, 16, 16, 24, 32, 32, 40, 64, 64, 72, 80, 96)


def drawn_attention(seed: int) -> Program:
    return _Draw(random.Random(seed)).program()


class _Draw:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.author = Author(chance, element=chance.choice(("bf16", "bf16", "f16")))
        self.outer = [axis for axis in "BH" if chance.random() < 0.55]
        extents = {axis: chance.choice((1, 2, 2, 3, 4)) for axis in self.outer}
        self.group = 0
        if "H" in extents and chance.random() < 0.4:
            self.group = chance.choice((2, 4))
            extents["H"] = self.group * chance.choice((1, 2))
        extents |= {"Q": chance.choice(_ROWS), "T": chance.choice(_KEYS), "E": chance.choice(_WIDTHS)}
        extents["F"] = chance.choice((extents["E"], chance.choice(_WIDTHS)))
        order = list(extents)
        if chance.random() < 0.4:
            chance.shuffle(order)
        self.author.extents = {axis: extents[axis] for axis in order}

    def program(self) -> Program:
        author, chance = self.author, self.chance
        scores = self._scores()
        kind = chance.choice(("softmax",) * 6 + ("manual", "sink", "twice", "sigmoid", "plain", "shared"))
        value = self._values(["T", "F"])
        rows = [*self.outer, "Q"]
        stored = [*self.outer, "Q", "F"]
        match kind:
            case "softmax" | "shared":
                weights = author.let(f"tw.softmax({scores}, over=t)")
                result = author.let(f"tw.dot({weights}, {value}, over=t)")
            case "manual":
                most = author.let(f"tw.max({scores}, over=t)")
                weights = author.let(f"tw.exp({scores} - {most})")
                result = author.let(f"tw.dot({weights}, {value}, over=t) / tw.sum({weights}, over=t)")
            case "sink":
                sink = author.load(author.some(self.outer or ["Q"]), "f32")
                most = author.let(f"tw.maximum(tw.max({scores}, over=t), {sink})")
                weights = author.let(f"tw.exp({scores} - {most})")
                total = author.let(f"tw.sum({weights}, over=t) + tw.exp({sink} - {most})")
                result = author.let(f"tw.dot({weights}, {value}, over=t) / {total}")
            case "twice":
                other = self._scores()
                share = chance.choice(("0.5", author.load(author.some([*self.outer, "Q"]), "f32")))
                weights = author.let(f"tw.softmax({scores}, over=t) - {share} * tw.softmax({other}, over=t)")
                result = author.let(f"tw.dot({weights}, {value}, over=t)")
            case "sigmoid":
                weights = author.let(author.unary(scores).replace("tw.log(", "tw.sqrt("))
                result = author.let(f"tw.dot({weights}, {value}, over=t)")
            case _:
                weights = scores
                result = author.let(f"tw.dot({weights}, {value}, over=t)")
        if author.likely(0.12):
            result = author.let(f"{result} + tw.dot({weights}, {self._values(['T', 'F'])}, over=t)")
        self._statistics(kind, scores, rows)
        if author.likely(0.1):
            author.store(stored, author.let(f"tw.dot({weights}, {self._values(['T', 'F'])}, over=t)"))
        result = self._epilogue(result, stored)
        if author.likely(0.1) and len(author.extents) < 7:
            author.extents["D"] = chance.choice(_WIDTHS)
            axes = ["D", "F"] if author.likely(0.5) else [*self.outer, "F", "D"]
            result = author.let(f"tw.dot({result}, {author.load(axes)}, over=f)")
            stored = [*self.outer, "Q", "D"]
        author.store(stored, result)
        return author.program()

    def _values(self, axes: list[str]) -> str:
        author = self.author
        head = [f"H/{self.group}"] if self.group else ["H"]
        outer = [*(["B"] if "B" in self.outer else []), *(head if "H" in self.outer else [])]
        if author.likely(0.08):
            outer = outer[1:]
        return author.load(author.shuffled([*outer, *axes]))

    def _scores(self) -> str:
        author, chance = self.author, self.chance
        queries = author.load(author.shuffled([*self.outer, "Q", "E"]))
        if author.likely(0.07):
            queries = f"({author.unary(queries)}).to(tw.{author.element})"
        product = f"tw.dot({queries}, {self._values(['T', 'E'])}, over=e)"
        value = author.let(f"{product} * {chance.choice(('0.125', '0.25', '0.0883', '1.0'))}")
        for _ in range(chance.choice((0, 0, 1, 1, 2))):
            value = author.let(self._modified(value))
        for _ in range(chance.choice((0, 1, 1, 1, 2))):
            value = author.let(f"tw.where({self._mask()}, {value}, {self._masked()})")
        return value

    def _masked(self) -> str:
        return self.chance.choice(("-float('inf')",) * 3 + ("-1e9", "0.0"))

    def _modified(self, value: str) -> str:
        author = self.author
        full = [*self.outer, "Q", "T"]
        match self.chance.choice(("cap", "alibi", "slope", "bias", "bias", "bias", "scale", "unary")):
            case "cap":
                return f"20.0 * tw.tanh({value} * 0.05)"
            case "alibi":
                return f"{value} + 0.0625 * (t - q)"
            case "slope":
                return f"{value} - {author.load(author.some([*self.outer, 'Q']), 'f32')} * tw.abs(q - t) * 0.05"
            case "bias":
                axes = author.shuffled(author.some(full), 0.2, last=False)
                return f"{value} + {author.load(axes, self.chance.choice(('', 'f32')))}"
            case "scale":
                return f"{value} * {author.load(author.some([*self.outer, 'Q']), 'f32')}"
            case _:
                return self.chance.choice(("tw.relu({})", "tw.clamp({}, -1.0, 1.0)", "{} * 0.5")).format(value)

    def _mask(self) -> str:
        author, extents = self.author, self.author.extents
        size = extents["T"]
        far = self.chance.choice((1, 3, 16, 40, 64, 65))
        match self.chance.choice(("causal", "late", "window", "prefix", "length", "length", "same", "given", "given")):
            case "causal":
                return "t <= q"
            case "late":
                return f"t <= q + {far}"
            case "window":
                return f"(t <= q) & (t > q - {far})" if author.likely(0.6) else f"(t < q + {far}) & (q < t + {far})"
            case "prefix":
                return f"(t <= q) | (t < {far})"
            case "length":
                axes = author.some(self.outer) if self.outer else ["Q"]
                return f"t < {author.integer(axes, 1 if author.likely(0.7) else 0, size)}"
            case "same":
                batch = ["B"] if "B" in self.outer else []
                return f"tw.equal({author.integer([*batch, 'Q'], 0, 2)}, {author.integer([*batch, 'T'], 0, 2)})"
            case _:
                axes = [*author.some([*self.outer, "Q"]), "T"]
                return f"{author.load(axes, 'i8')} > -90"

    def _statistics(self, kind: str, scores: str, rows: list[str]) -> None:
        author = self.author
        if author.likely(0.3):
            fold = self.chance.choice(("logsumexp", "logsumexp", "max", "sum", "mean", "min"))
            author.store(rows, f"tw.{fold}({scores}, over=t)", "f32")
        if author.likely(0.06):
            author.store(rows, f"tw.argmax({scores}, over=t)", "i32")
        if author.likely(0.06):
            author.store([*rows, "T"], scores)

    def _epilogue(self, result: str, axes: list[str]) -> str:
        author = self.author
        match self.chance.choice(("none",) * 6 + ("gate", "residual", "norm", "unary", "scale")):
            case "gate":
                return author.let(f"{result} * tw.sigmoid({author.load(author.shuffled(axes))})")
            case "residual":
                return author.let(f"{result} + {author.load(author.some(axes), self.chance.choice(('', 'f32')))}")
            case "norm":
                return author.let(f"{result} * tw.rsqrt(tw.mean({result} * {result}, over=f) + 1e-5)")
            case "unary":
                return author.let(author.unary(result))
            case "scale":
                return author.let(f"{result} * {author.load(author.some(axes), 'f32')}")
            case _:
                return result
