"""One meaning in several words, drawn from a seed: another order of axes, a fold in parts, a factor elsewhere."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.end_to_end.drawn_text import Program

_SIZES = (1, 2, 3, 8, 16, 17, 33, 64, 65, 100, 128, 130)
_WIDTHS = (8, 16, 24, 32, 40, 64, 72)


def drawn_same(seed: int) -> Program:
    """A program in drawn words, with `meaning` in plain ones."""
    chance = random.Random(seed)
    return chance.choice((_product, _attention, _attention, _norm, _loss, _chain, _gated))(chance)


def _program(
    chance: random.Random,
    dims: dict[str, int],
    parameters: list[str],
    plain: list[str],
    other: list[str],
    axes: str = "",
) -> Program:
    """Both texts; axes: those of the other, `dims` in any order where none are given."""
    names = list(dims)
    order = axes.split() or chance.sample(names, len(names))
    listed = ", ".join(parameters)

    def text(named: list[str], lines: list[str]) -> str:
        first = [f"{', '.join(named).lower()} = tw.axes({' '.join(named)!r})"] if "tw.grid" not in lines[0] else []
        body = "".join(f"    {line}\n" for line in (*first, *lines))
        return f"import tilewright as tw\n\n\n@tw.kernel\ndef drawn({listed}):\n{body}"

    element = chance.choice(("bf16", "bf16", "f16"))
    return replace(Program(text(order, other), dims, element), meaning=text(names, plain))


def _tensor(name: str, axes: str, element: str = "") -> str:
    listed = ", ".join(repr(axis) for axis in axes)
    return f"{name}: tw.Tensor[{listed}{', tw.' + element if element else ''}]"


def _at(axes: str) -> str:
    return ", ".join(axes.lower())


def _product(chance: random.Random) -> Program:
    dims = {axis: chance.choice(_SIZES) for axis in "MNK"}
    left, right = chance.choice(("MK", "KM")), chance.choice(("NK", "KN"))
    parameters = [_tensor("x", left), _tensor("w", right), _tensor("b", "N"), _tensor("y", "MN", "f32")]
    x, w = f"x[{_at(left)}]", f"w[{_at(right)}]"
    value = "tw.dot({}, {}, over=k)"
    plain = [f"s = {value.format(x, w)}", "y[m, n] = 0.5 * s + b[n]"]
    match chance.choice(("exchanged", "loop", "first", "minus")):
        case "exchanged":
            other = [f"s = {value.format(w, x)}", "y[m, n] = b[n] + s * 0.5"]
        case "loop":
            first = x if left == "MK" else f"{x}.T"
            second = w if right == "KN" else f"{w}.T"
            other = [
                "m, n = tw.grid('M', 'N')", "acc = tw.zeros(m, n)", "for k in tw.loop('K'):",
                f"    acc += tw.dot({first}, {second})", "y[m, n] = (acc + b[n] * 2.0) / 2.0",
            ]  # fmt: skip
        case "first":
            other = [f"s = {value.format(f'({x} * 0.5)', w)}", "y[m, n] = s + b[n]"]
        case _:
            other = [f"s = {value.format(f'-{x}', w)}", "y[m, n] = b[n] - s * 0.5"]
    return _program(chance, dims, parameters, plain, other, chance.choice(("M N K", "K M N", "M K N")))


def _attention(chance: random.Random) -> Program:
    dims = {"H": chance.choice((1, 2, 3)), "Q": chance.choice(_SIZES), "T": chance.choice(_SIZES)}
    dims |= {"E": chance.choice(_WIDTHS), "F": chance.choice(_WIDTHS)}
    axes = chance.choice(("H Q T E F", "T H Q E F", "H E T Q F", "E F H T Q", "H Q F E T"))
    stored = "".join(axis for axis in axes.split() if axis in "HQF")
    keys, values = chance.choice(("HTE", "THE")), chance.choice(("HTF", "THF"))
    parameters = [_tensor("q_", "HQE"), _tensor("k_", keys), _tensor("v_", values), _tensor("y", stored, "f32")]
    dot = f"tw.dot(q_[h, q, e], k_[{_at(keys)}], over=e)"
    v, y = f"v_[{_at(values)}]", f"y[{_at(stored)}]"
    mask = chance.choice(("t <= q + 3", "(t <= q) | (t < 5)", "t > q - 9"))
    plain = [
        f"s = tw.where({mask}, {dot} * 0.25, -1e30)", f"{y} = tw.dot(tw.softmax(s, over=t), {v}, over=t)",
    ]  # fmt: skip
    scaled = chance.choice((
        f"s = tw.where({mask}, {dot} * 0.25, -1e30)", f"s = tw.where({mask}, 0.5 * {dot} / 2.0, -1e30)",
        f"s = tw.where(~({mask}), -1e30, {dot} * 0.25)", f"s = {dot.replace('q_[h, q, e]', '(q_[h, q, e] * 0.25)')}",
    ))  # fmt: skip
    if "where" not in scaled:
        scaled = f"{scaled}\n    s = tw.where({mask}, s, -1e30)"
    other = [scaled]
    match chance.choice(("softmax", "divided behind", "divided before", "logsumexp", "weighted")):
        case "softmax":
            other.append(f"{y} = tw.dot({v}, tw.softmax(s, over=t), over=t)")
        case "divided behind":
            other += ["p = tw.exp(s - tw.max(s, over=t))", f"{y} = tw.dot(p, {v}, over=t) / tw.sum(p, over=t)"]
        case "divided before":
            other += ["p = tw.exp(s - tw.max(s, over=t))", f"{y} = tw.dot(p / tw.sum(p, over=t), {v}, over=t)"]
        case "logsumexp":
            other.append(f"{y} = tw.dot(tw.exp(s - tw.logsumexp(s, over=t)), {v}, over=t)")
        case _:
            other += ["p = tw.softmax(s, over=t)", f"{y} = tw.dot(p * 0.5, {v}, over=t) + 0.5 * tw.dot(p, {v}, over=t)"]
    return _program(chance, dims, parameters, plain, other, axes)


def _norm(chance: random.Random) -> Program:
    dims = {"B": chance.choice((1, 2, 3)), "M": chance.choice(_SIZES), "N": chance.choice(_SIZES)}
    parameters = [_tensor("x", "BMN", "f32"), _tensor("g", "N"), _tensor("y", "BMN", "f32")]
    size = dims["N"]
    plain = [
        "v = x[b, m, n] - tw.mean(x[b, m, n], over=n)",
        "y[b, m, n] = v * tw.rsqrt(tw.mean(v * v, over=n) + 1e-2) * g[n]",
    ]
    other = chance.choice((
        [
            f"v = x[b, m, n] - tw.sum(x[b, m, n], over=n) / {size}.0",
            f"y[b, m, n] = g[n] * v / tw.sqrt(tw.sum(v * v, over=n) / {size}.0 + 1e-2)",
        ],
        [
            f"v = x[b, m, n] - tw.sum(x[b, m, n] * {1 / size!r}, over=n)",
            "y[b, m, n] = v * g[n] * tw.rsqrt(tw.mean(v * v, over=n) + 1e-2)",
        ],
        [
            "e = tw.mean(x[b, m, n], over=n)",
            "s = tw.mean((x[b, m, n] - e) * (x[b, m, n] - e), over=n)",
            "y[b, m, n] = (x[b, m, n] * tw.rsqrt(s + 1e-2) - e * tw.rsqrt(s + 1e-2)) * g[n]",
        ],
        [
            "lower = tw.where(n < 7, x[b, m, n], 0.0)", "upper = tw.where(n < 7, 0.0, x[b, m, n])",
            f"e = (tw.sum(lower, over=n) + tw.sum(upper, over=n)) / {size}.0", "v = x[b, m, n] - e",
            "y[b, m, n] = v * tw.rsqrt(tw.mean(v * v, over=n) + 1e-2) * g[n]",
        ],
    ))  # fmt: skip
    return _program(chance, dims, parameters, plain, other, "B M N")


def _loss(chance: random.Random) -> Program:
    dims = {"M": chance.choice(_SIZES), "N": chance.choice(_SIZES)}
    parameters = [_tensor("x", "MN"), _tensor("c", "M", "i32"), _tensor("y", "M", "f32")]
    at = "tw.sum(tw.where(tw.equal(n, c[m]), {}, 0.0), over=n)"
    plain = [f"y[m] = tw.logsumexp(x[m, n], over=n) - {at.format('x[m, n]')}"]
    other = chance.choice((
        ["p = tw.softmax(x[m, n], over=n)", f"y[m] = -tw.log({at.format('p')})"],
        ["v = x[m, n] - tw.logsumexp(x[m, n], over=n)", f"y[m] = -{at.format('v')}"],
        ["v = x[m, n] - tw.max(x[m, n], over=n)", f"y[m] = tw.log(tw.sum(tw.exp(v), over=n)) - {at.format('v')}"],
        ["y[m] = tw.logsumexp(x[m, n], over=n) - x[m, c[m]]"],
    ))  # fmt: skip
    program = _program(chance, dims, parameters, plain, other, "M N")
    return replace(program, integers={"c": (0, dims["N"] - 1)})


def _chain(chance: random.Random) -> Program:
    dims = {"M": chance.choice(_SIZES), "N": chance.choice(_WIDTHS)} | {axis: chance.choice(_WIDTHS) for axis in "KL"}
    parameters = [_tensor("x", "MK"), _tensor("w", "NK"), _tensor("v", "LN"), _tensor("y", "ML", "f32")]
    first = "tw.dot(x[m, k], w[n, k], over=k)"
    plain = [f"y[m, l] = tw.dot(tw.relu({first}), v[l, n], over=n)"]
    other = chance.choice((
        [f"h = {first}", "y[m, l] = tw.dot(v[l, n], tw.where(h > 0, h, 0.0), over=n)"],
        [f"h = tw.maximum({first} * 0.5, 0.0)", "y[m, l] = tw.dot(h, v[l, n], over=n) * 2.0"],
        [f"h = {first}", "y[m, l] = 0.5 * tw.dot(h + tw.abs(h), v[l, n], over=n)"],
        [f"h = tw.relu({first})", "y[m, l] = tw.dot(h * 0.25, v[l, n], over=n) + 0.75 * tw.dot(h, v[l, n], over=n)"],
    ))  # fmt: skip
    return _program(chance, dims, parameters, plain, other, chance.choice(("M N K L", "M L K N", "K N M L")))


def _gated(chance: random.Random) -> Program:
    dims = {axis: chance.choice(_SIZES) for axis in "MNK"}
    parameters = [_tensor("x", "MK"), _tensor("w", "NK"), _tensor("u", "NK"), _tensor("y", "MN", "f32")]
    gate, linear = "tw.dot(x[m, k], w[n, k], over=k)", "tw.dot(x[m, k], u[n, k], over=k)"
    plain = [f"y[m, n] = tw.silu({gate}) * {linear}"]
    other = chance.choice((
        [f"s = {gate}", f"y[m, n] = {linear} * (s * tw.sigmoid(s))"],
        [f"s = {gate}", f"y[m, n] = s * {linear} / (1.0 + tw.exp(-s))"],
        [
            "m, n = tw.grid('M', 'N')", "s, t = tw.zeros(m, n), tw.zeros(m, n)", "for k in tw.loop('K'):",
            "    s += tw.dot(x[m, k], w[n, k].T)", "    t += tw.dot(x[m, k], u[n, k].T)",
            "y[m, n] = tw.silu(s) * t",
        ],
    ))  # fmt: skip
    return _program(chance, dims, parameters, plain, other, chance.choice(("M N K", "K M N")))
