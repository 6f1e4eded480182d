"""Products with what stands before and behind them, drawn from a seed."""

from __future__ import annotations

import random

from tests.end_to_end.drawn_text import Author, Program

_ROWS = (1, 2, 3, 5, 8, 16, 17, 31, 64, 65, 100, 127, 128, 130, 200)
_SUMMED = (1, 2, 3, 7, 8, 16, 24, 32, 40, 64, 65, 72, 100, 128, 136, 200, 256)


def drawn_products(seed: int) -> Program:
    return _Draw(random.Random(seed)).program()


class _Draw:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.author = Author(chance, element=chance.choice(("bf16", "bf16", "f16")))
        self.bytes = chance.random() < 0.12
        if self.bytes:
            self.author.element = chance.choice(("f8e4m3", "f8e5m2"))
        self.ranges: dict[str, tuple[int, int]] = {}

    def program(self) -> Program:
        author, chance = self.author, self.chance
        extents = {"B": chance.choice((1, 2, 3, 4))} if chance.random() < 0.3 else {}
        extents |= {"M": chance.choice(_ROWS), "N": chance.choice(_ROWS), "K": chance.choice(_SUMMED)}
        if chance.random() < 0.01:
            extents[chance.choice(list(extents))] = 0
        author.extents = extents
        kinds = ("loop", "loop", "groups", "within", "scaled", "chain", "chain", "folded")
        kind = chance.choice(("value",) * 5 + kinds)
        loops = kind in ("loop", "groups", "within", "scaled")
        getattr(self, f"_{kind}")()
        if chance.random() < 0.15 and not loops and "B" not in extents:
            self._run_time()
        self._strided()
        # An infinite scale times a sum is no sum of its products with terms, of which some are zero.
        odd = chance.random() < 0.1 and kind != "scaled"
        return author.program(odd=odd, head=not loops, ranges=self.ranges)

    @property
    def full(self) -> list[str]:
        return [axis for axis in self.author.extents if axis in "BMN"]

    def _run_time(self) -> None:
        least = self.chance.choice((0, 1, 16))
        self.ranges["M"] = (least, self.author.extents["M"] + least + self.chance.choice((0, 7, 64)))

    def _strided(self) -> None:
        """Rows of one array lie further apart, now and then."""
        author = self.author
        if not author.likely(0.15) or self.ranges:
            return
        text = self.chance.choice([each for each in author.parameters if "/" not in each and "i32" not in each])
        name, _, kind = text.partition(": tw.Tensor[")
        axes = [each.strip(" ]'") for each in kind.split(",") if "tw." not in each]
        if len(axes) < 2:
            return
        strides, size = [1], 1
        for axis in reversed(axes[1:]):
            size = size * max((author.extents | author.hidden)[axis], 1) + self.chance.choice((0, 1, 8, 16))
            strides.insert(0, size)
        author.strides[name] = tuple(strides)

    def _operand(self, own: str, batched: bool) -> str:
        """An operand over an own axis and K."""
        author, chance = self.author, self.chance
        axes = [*(["B"] if batched else []), own, "K"]
        styles = ("turned", "turned", "bytes", "gathered", "moved", "computed", "computed")
        style = chance.choice(("plain",) * 7 + styles)
        if self.bytes:
            style = chance.choice(("plain", "plain", "plain", "turned", "computed"))
        match style:
            case "turned":
                if batched:
                    axes = author.shuffled(axes, 1.0, last=False)
                    return author.load(axes)
                return author.load(axes[::-1])
            case "bytes":
                element = chance.choice(("i8", "f8e4m3"))
                loaded = author.load(axes, element)
                if author.likely(0.5):
                    return f"({loaded} * {author.load([own], 'f32')}).to(tw.{author.element})"
                return f"{loaded}.to(tw.{author.element})"
            case "gathered":
                author.hidden[f"R{own}"] = size = chance.choice((1, 3, 40))
                name = author.tensor([*axes[:-2], f"R{own}", "K"])
                row = author.integer([own], -1, size)
                places = ", ".join([*map(author.index, axes[:-2]), row, "k"])
                return f"{name}[{places}]"
            case "moved":
                at = chance.choice(axes)
                offset = f"{chance.choice('+-')} {chance.choice((1, 2, 8))}"
                return author.load(axes, indices={at: f"{author.index(at)} {offset}"})
            case "computed":
                return f"({self._computed(author.load(axes), axes)}).to(tw.{author.element})"
            case _:
                return author.load(axes)

    def _computed(self, value: str, axes: list[str]) -> str:
        author = self.author
        match self.chance.choice(("unary", "unary", "scale", "row", "where", "sum")):
            case "unary":
                return author.unary(value)
            case "scale":
                return f"{value} * {author.load(['K'], self.chance.choice(('', 'f32')))}"
            case "row":
                return f"{value} * {author.load(author.some(axes[:-1]), 'f32')}"
            case "where":
                return f"tw.where({self._condition(axes)}, {value}, 0.0)"
            case _:
                return f"{value} + {author.load(author.some(axes))}"

    def _condition(self, axes: list[str]) -> str:
        author = self.author
        first, second = self.chance.choice(axes), self.chance.choice(axes)
        match self.chance.choice(("indices", "number", "integer", "array")):
            case "indices":
                return f"{author.index(first)} <= {author.index(second)} + 2"
            case "number":
                return f"{author.index(first)} >= {self.chance.choice((1, 5, 20))}"
            case "integer":
                return f"{author.index(first)} < {author.integer(author.some(axes, 0.4), 0, author.extents[first])}"
            case _:
                return f"{author.load(author.some(axes), 'i8')} > {self.chance.choice((-50, 0, 50))}"

    def _product(self) -> str:
        author = self.author
        batch = "B" in author.extents
        first = self._operand("M", batch)
        second = self._operand("N", batch and author.likely(0.6))
        over = ", over=k"
        if author.likely(0.3):
            first, second = second, first
        return f"tw.dot({first}, {second}{over})"

    def _epilogue(self, value: str, axes: list[str], depth: int) -> str:
        author = self.author
        for _ in range(depth):
            kinds = ("unary", "unary", "bias", "bias", "scale", "residual", "where", "index", "bytes")
            match self.chance.choice(kinds):
                case "unary":
                    value = author.unary(value)
                case "bias":
                    value = f"{value} + {author.load(author.some(axes, 0.4), self.chance.choice(('', 'f32')))}"
                case "scale":
                    value = f"{value} * {author.load(author.some(axes, 0.4), 'f32')}"
                case "residual":
                    order = author.shuffled(axes, 0.2, last=False)
                    value = f"{value} + {author.load(order, self.chance.choice(('', 'f32')))}"
                case "where":
                    value = f"tw.where({self._condition(axes)}, {value}, {self.chance.choice(('0.0', '-1.0'))})"
                case "index":
                    value = f"{value} + 0.01 * {author.index(self.chance.choice(axes))}"
                case _:
                    value = f"{value} * {author.load(axes, 'i8')} * 0.01"
            value = author.let(value)
        return value

    def _stored(self, value: str, axes: list[str]) -> None:
        author = self.author
        kind = self.chance.choice(("", "", "", "f32", "f32", "f8e4m3", "i8"))
        author.store(axes, value, kind)

    def _value(self) -> None:
        author, chance = self.author, self.chance
        value = author.let(self._product())
        for _ in range(chance.choice((0, 0, 0, 0, 1, 1, 2))):
            other = author.let(self._product())
            both = chance.choice(("{} + {}", "{} * {}", "tw.silu({}) * {}", "{} - {}"))
            value = author.let(both.format(value, other))
            if author.likely(0.2):
                self._stored(other, self.full)
        if author.likely(0.1):
            self._stored(value, self.full)
        self._stored(self._epilogue(value, self.full, chance.choice((0, 1, 1, 2, 3))), self.full)

    def _folded(self) -> None:
        author, chance = self.author, self.chance
        value = self._epilogue(author.let(self._product()), self.full, chance.choice((0, 1, 2)))
        axis = chance.choice("NNM")
        left = [each for each in self.full if each != axis]
        index = author.index(axis)
        match chance.choice(("softmax", "norm", "quantized", "alone", "place", "loss")):
            case "softmax":
                self._stored(f"tw.softmax({value}, over={index})", self.full)
            case "norm":
                result = f"{value} * tw.rsqrt(tw.mean({value} * {value}, over={index}) + 1e-5)"
                self._stored(self._epilogue(author.let(result), self.full, chance.choice((0, 1))), self.full)
            case "quantized":
                scale = author.let(f"tw.maximum(tw.max(tw.abs({value}), over={index}) / 448.0, 1e-12)")
                author.store(self.full, f"{value} / {scale}", "f8e4m3")
                author.store(left, scale, "f32")
            case "alone":
                author.store(left, f"tw.{chance.choice(('sum', 'max', 'min', 'mean'))}({value}, over={index})", "f32")
                if author.likely(0.4):
                    self._stored(value, self.full)
            case "place":
                author.store(left, f"tw.argmax({value}, over={index})", "i32")
            case _:
                target = author.integer(left, 0, max(author.extents[axis] - 1, 0))
                at = f"tw.sum(tw.where(tw.equal({index}, {target}), {value}, 0.0), over={index})"
                author.store(left, f"tw.logsumexp({value}, over={index}) - {at}", "f32")

    def _chain(self) -> None:
        author, chance = self.author, self.chance
        value = self._epilogue(author.let(self._product()), self.full, chance.choice((0, 1, 2)))
        if author.likely(0.25):
            value = author.let(f"{value} * {self._product()}")
        last, axes = "N", self.full
        for axis in "PR"[: chance.choice((1, 1, 1, 2))]:
            author.extents[axis] = chance.choice((8, 16, 24, 32, 33, 64, 72, 128))
            batch = ["B"] if "B" in axes and author.likely(0.4) else []
            brought = author.load(author.shuffled([*batch, last, axis], 0.3, last=False))
            axes = [*(each for each in axes if each != last), axis]
            value = author.let(f"tw.dot({value}, {brought}, over={author.index(last)})")
            value = self._epilogue(value, axes, chance.choice((0, 0, 1)))
            last = axis
        self._stored(value, axes)

    def _loop(self) -> None:
        author, chance = self.author, self.chance
        batch = "B" in author.extents
        grid = self.full
        first = [*(["B"] if batch else []), "M", "K"]
        second = [*(["B"] if batch and author.likely(0.5) else []), *chance.choice((["N", "K"], ["K", "N"]))]
        heads = [f"{', '.join(map(author.index, grid))} = tw.grid({', '.join(map(repr, grid))})"]
        number = chance.choice((1, 1, 2))
        sums = [f"acc{at}" for at in range(number)]
        heads += [f"{each} = tw.zeros({', '.join(map(author.index, grid))})" for each in sums]
        heads.append("for k in tw.loop('K'):")
        left = author.load(first).removesuffix(".T")
        if author.likely(0.2):
            left = f"({author.unary(left)}).to(tw.{author.element})"
        for each in sums:
            right = author.load(second).removesuffix(".T")
            heads.append(f"    {each} += tw.dot({left}, {right}{'.T' if second[-1] == 'K' else ''})")
        author.lines[:0] = heads
        value = sums[0] if number == 1 else author.let(f"tw.silu({sums[0]}) * {sums[1]}")
        self._stored(self._epilogue(value, grid, chance.choice((0, 1, 2))), grid)

    def _scaled(self) -> None:
        """Of one matrix or of a batch's, one product or two of one operand, by blocks of one size or of two."""
        author, chance = self.author, self.chance
        if author.likely(0.6):
            author.extents.pop("B", None)
        batch = ["B"] if "B" in author.extents else []
        author.element = chance.choice(("f8e4m3", "bf16"))
        author.extents["K"] = chance.choice((64, 128, 136, 256, 300))
        grid = [*batch, "M", "N"]
        names = ", ".join(map(author.index, grid))
        least = chance.choice((32, 64, 128, 128, 128))
        first = author.load([*batch, "M", "K"]).removesuffix(".T")
        sums = [f"acc{at}" for at in range(chance.choice((1, 1, 2)))]
        author.lines += [f"{names} = tw.grid({', '.join(map(repr, grid))})"]
        author.lines += [f"{each} = tw.zeros({names})" for each in sums] + ["for k in tw.loop('K'):"]
        for each in sums:
            second = author.load([*chance.choice((batch, [])), "N", "K"]).removesuffix(".T")
            scales = [
                author.load([*chance.choice((batch, [])), chance.choice(("M", "M", "M/128")), f"K/{least}"], "f32")
            ]
            if author.likely(0.7):
                size = chance.choice((least, 2 * least))
                scales.append(author.load([*batch, chance.choice(("N/128", "N")), f"K/{size}"], "f32"))
            author.lines.append(f"    {each} += tw.dot({first}, {second}.T) * {' * '.join(scales)}")
        value = sums[0] if len(sums) == 1 else author.let(f"{sums[0]} - {sums[1]}")
        author.store(grid, self._epilogue(value, grid, chance.choice((0, 1))), chance.choice(("bf16", "f32")))

    def _groups(self) -> None:
        author, chance = self.author, self.chance
        author.extents.pop("B", None)
        groups = chance.choice((1, 2, 3, 5))
        author.extents = {"G": groups} | author.extents
        ends = author.tensor(["G"], "i32", "n")
        author.integers[ends] = (0, author.extents["M"])
        author.ends.append(ends)
        left = author.load(["M", "K"])
        turned = author.likely(0.5)
        right = author.load(["G", *(("N", "K") if turned else ("K", "N"))]) + (".T" if turned else "")
        author.lines += [
            f"g, m, n = tw.grid(tw.group('G', 'M', {ends}), 'N')", "acc = tw.zeros(m, n)", "for k in tw.loop('K'):",
            f"    acc += tw.dot({left}, {right})",
        ]  # fmt: skip
        value = "acc"
        for _ in range(chance.choice((0, 1, 2))):
            axes = chance.choice((["G", "N"], ["M"], ["N"], ["M", "N"], ["G"]))
            match chance.choice(("bias", "scale", "unary")):
                case "bias":
                    value = author.let(f"{value} + {author.load(axes)}")
                case "scale":
                    value = author.let(f"{value} * {author.load(axes, 'f32')}")
                case _:
                    value = author.let(author.unary(value))
        author.store(["M", "N"], value)

    def _within(self) -> None:
        author, chance = self.author, self.chance
        author.extents.pop("B", None)
        author.extents = {"G": chance.choice((1, 2, 4))} | author.extents
        counts = author.tensor(["G"], "i32", "n")
        author.integers[counts] = (0, author.extents["M"])
        left, turned = author.load(["G", "M", "K"]), author.likely(0.5)
        own = ["G"] if author.likely(0.7) else []
        right = author.load([*own, *(("N", "K") if turned else ("K", "N"))]).removesuffix(".T")
        right += ".T" if turned else ""
        author.lines += [
            f"g, m, n = tw.grid('G', tw.within('M', {counts}), 'N')", "acc = tw.zeros(g, m, n)",
            "for k in tw.loop('K'):", f"    acc += tw.dot({left}, {right})",
        ]  # fmt: skip
        value = self._epilogue("acc", ["G", "M", "N"], chance.choice((0, 1, 2)))
        author.store(["G", "M", "N"], value)
