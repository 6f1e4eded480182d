"""What does a floating-point instruction of PTX compute, bit for bit?

Theory: PTX ISA 9.7.3 (f32, f64), 9.7.4 (f16, bf16), 9.7.5 (mixed). Each operation yields its exact result rounded to
odd (`rounding`), which is then rounded once in the instruction's mode: fma has a single rounding. Operands and results
are bit images, one dtype a type; a packed register is viewed as twice as many 16-bit images (`a.view(np.uint16)`).

`.ftz` flushes subnormal operands and results (after rounding). `.sat` clamps to [0, 1]. NaN results are canonical.
f64 in another mode than to nearest, and fma.f64, are computed with exact fractions (`double`).

Approximations (`approximate`: ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh; `divide_approximate`) are modelled as the
nearest value of the type. Hardware may differ within the ISA's bounds, for f32: ex2, div 2 ulp; rcp 1 ulp; rsqrt and
lg2 (absolute, near 1) about 2^-22.4; sin and cos 2^-20.5 absolute in [-pi, pi], and far off outside; tanh 2^-11
relative. Over 4,096 operands, an H200 stayed within them. It loses small sines whole: sin.approx(1e-12) is 0.

Not handled: `fma.oob`.
Checked by: `tests/machine/numbers/test_arithmetic.py`, against exact fractions and against results of an H200.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.machine.numbers.rounding import (
    Bits,
    Float64,
    FloatKind,
    NativeKind,
    Rounding,
    canonical,
    flushed,
    from_native,
    narrowed,
    native,
    product_error,
    saturated,
    sum_to_odd,
    to_odd,
    widened,
)

if TYPE_CHECKING:
    from tilewright.machine.numbers import double

Approximation = Literal["ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh"]
Comparison = Literal["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]


def add(
    kind: FloatKind, a: Bits, b: Bits, rounding: Rounding = "rn", *, ftz: bool = False, saturate: bool = False
) -> Bits:
    """`add.{rounding}[.ftz][.sat].{kind}`: a + b."""
    if rounding == "rn" and kind != "bf16":
        return _nearest(np.add, kind, ftz, saturate, a, b)
    if kind == "f64":
        return _double("add", rounding, a, b)
    x, y = _operands(kind, ftz, a, b)
    return _finished(_sum(x, y, rounding), kind, rounding, ftz, saturate)


def subtract(
    kind: FloatKind, a: Bits, b: Bits, rounding: Rounding = "rn", *, ftz: bool = False, saturate: bool = False
) -> Bits:
    """`sub.{rounding}[.ftz][.sat].{kind}`: a - b."""
    if rounding == "rn" and kind != "bf16":
        return _nearest(np.subtract, kind, ftz, saturate, a, b)
    if kind == "f64":
        return _double("add", rounding, a, b ^ np.uint64(1 << 63))
    x, y = _operands(kind, ftz, a, b)
    return _finished(_sum(x, -y, rounding), kind, rounding, ftz, saturate)


def multiply(
    kind: FloatKind, a: Bits, b: Bits, rounding: Rounding = "rn", *, ftz: bool = False, saturate: bool = False
) -> Bits:
    """`mul.{rounding}[.ftz][.sat].{kind}`: a * b."""
    if rounding == "rn" and kind != "bf16":
        return _nearest(np.multiply, kind, ftz, saturate, a, b)
    if kind == "f64":
        return _double("multiply", rounding, a, b)
    x, y = _operands(kind, ftz, a, b)
    with np.errstate(all="ignore"):
        product = x * y  # exact: two significands of at most 24 bits
    return _finished(product, kind, rounding, ftz, saturate)


def fused_multiply_add(
    kind: FloatKind,
    a: Bits,
    b: Bits,
    c: Bits,
    rounding: Rounding = "rn",
    *,
    ftz: bool = False,
    saturate: bool = False,
    relu: bool = False,
) -> Bits:
    """`fma.{rounding}[.ftz][.sat][.relu].{kind}`: a * b + c, rounded once.

    relu: a negative result becomes +0, a NaN stays canonical (f16 and bf16).
    """
    if kind == "f64":
        return _double("fuse", rounding, a, b, c)
    x, y, z = _operands(kind, ftz, a, b, c)
    with np.errstate(all="ignore"):
        if kind == "f32" and rounding == "rn":
            total = x * y + z
            if _may_round_twice(total):
                total = _sum(x * y, z, rounding)
        else:
            total = _sum(x * y, z, rounding)
    result = _finished(total, kind, rounding, ftz, saturate)
    if relu:
        return np.where(total <= 0, result.dtype.type(0), result)
    return result


def divide(kind: FloatKind, a: Bits, b: Bits, rounding: Rounding = "rn", *, ftz: bool = False) -> Bits:
    """`div.{rounding}[.ftz].{kind}` (f32, f64): a / b, correctly rounded."""
    if rounding == "rn" and kind != "bf16":
        return _nearest(np.divide, kind, ftz, False, a, b)
    if kind == "f64":
        return _double("divide", rounding, a, b)
    x, y = _operands(kind, ftz, a, b)
    with np.errstate(all="ignore"):
        quotient = x / y
        # The exact remainder x - quotient * y says on which side of `quotient` the true quotient lies.
        product = quotient * y
        remainder = (x - product) - product_error(quotient, y, product)
        quotient = to_odd(quotient, np.where(np.signbit(y), -remainder, remainder))
    return _finished(quotient, kind, rounding, ftz, False)


def reciprocal(kind: FloatKind, a: Bits, rounding: Rounding = "rn", *, ftz: bool = False) -> Bits:
    """`rcp.{rounding}[.ftz].{kind}`: 1 / a, correctly rounded."""
    return divide(kind, narrowed(np.ones(a.shape), kind), a, rounding, ftz=ftz)


def square_root(kind: FloatKind, a: Bits, rounding: Rounding = "rn", *, ftz: bool = False) -> Bits:
    """`sqrt.{rounding}[.ftz].{kind}`, correctly rounded; NaN of negative operands, -0 of -0."""
    if rounding == "rn" and kind != "bf16":
        return _nearest(np.sqrt, kind, ftz, False, a)
    if kind == "f64":
        return _double("square_root", rounding, a)
    (x,) = _operands(kind, ftz, a)
    with np.errstate(all="ignore"):
        root = np.sqrt(x)
        square = root * root
        root = to_odd(root, (x - square) - product_error(root, root, square))
    return _finished(root, kind, rounding, ftz, False)


def negate(kind: FloatKind, a: Bits, *, ftz: bool = False) -> Bits:
    """`neg[.ftz].{kind}`: the sign flipped; a NaN becomes canonical, as on an H200."""
    return _with_sign(kind, a, ftz, flip=True)


def absolute(kind: FloatKind, a: Bits, *, ftz: bool = False) -> Bits:
    """`abs[.ftz].{kind}`: the sign cleared; a NaN becomes canonical, as on an H200."""
    return _with_sign(kind, a, ftz, flip=False)


def minimum(
    kind: FloatKind, a: Bits, b: Bits, *, ftz: bool = False, nan: bool = False, xorsign_abs: bool = False
) -> Bits:
    """`min[.ftz][.NaN][.xorsign.abs].{kind}`: see `maximum`."""
    return _extremum(kind, a, b, ftz, nan, xorsign_abs, smaller=True)


def maximum(
    kind: FloatKind, a: Bits, b: Bits, *, ftz: bool = False, nan: bool = False, xorsign_abs: bool = False
) -> Bits:
    """`max[.ftz][.NaN][.xorsign.abs].{kind}`.

    One NaN operand: the other one is the result, or with `nan` the canonical NaN. +0 is larger than -0. xorsign_abs:
    magnitudes are compared, and the result's sign is the XOR of the operands' signs.
    """
    return _extremum(kind, a, b, ftz, nan, xorsign_abs, smaller=False)


def compare(kind: FloatKind, comparison: Comparison, a: Bits, b: Bits, *, ftz: bool = False) -> NDArray[np.bool_]:
    """`setp.{comparison}[.ftz].{kind}`. A `u` at the end: true also if an operand is NaN; `num`, `nan` ask for that."""
    if ftz:
        a, b = flushed(a, kind), flushed(b, kind)
    x, y = (widened(a, kind), widened(b, kind)) if kind == "bf16" else (native(a, kind), native(b, kind))
    relation = _RELATIONS.get(comparison[:2])
    if relation is not None and comparison in _FALSE_OF_NAN:
        return relation(x, y)
    unordered = np.isnan(x) | np.isnan(y)
    if relation is None or comparison in ("num", "nan"):
        return unordered if comparison == "nan" else ~unordered
    ordered = relation(x, y) & ~unordered
    return ordered | unordered if comparison.endswith("u") else ordered


def approximate(kind: FloatKind, operation: Approximation, a: Bits, *, ftz: bool = False) -> Bits:
    """`{operation}.approx[.ftz].{kind}`, as the nearest value of the type (see the module's head for the bounds)."""
    (x,) = _operands(kind, ftz, a)
    with np.errstate(all="ignore"):
        return _finished(_APPROXIMATIONS[operation](x), kind, "rn", ftz, False)


def divide_approximate(a: Bits, b: Bits, *, ftz: bool = False, full: bool = False) -> Bits:
    """`div.approx[.ftz].f32`, or with `full` `div.full`: the nearest quotient (the ISA: within 2 ulp).

    div.approx multiplies by a reciprocal: where 2^126 < |b| < 2^128 it yields 0, or NaN if a is infinite.
    """
    result = divide("f32", a, b, ftz=ftz)
    if full:
        return result
    x, y = _operands("f32", ftz, a, b)
    huge = np.isfinite(y) & (np.abs(y) > 2.0**126)
    sign = (a ^ b) & np.uint32(0x8000_0000)
    with np.errstate(invalid="ignore"):
        return canonical(np.where(huge & ~np.isnan(x), sign, result), huge & np.isinf(x), "f32")


def _with_sign(kind: FloatKind, a: Bits, ftz: bool, *, flip: bool) -> Bits:
    bits = flushed(a, kind) if ftz else a
    sign = bits.dtype.type(1 << (bits.dtype.itemsize * 8 - 1))
    return canonical(bits ^ sign if flip else bits & ~sign, np.isnan(widened(bits, kind)), kind)


def _operands(kind: FloatKind, ftz: bool, *images: Bits) -> tuple[Float64, ...]:
    return tuple(widened(flushed(bits, kind) if ftz else bits, kind) for bits in images)


def _finished(value: Float64, kind: FloatKind, rounding: Rounding, ftz: bool, saturate: bool) -> Bits:
    bits = narrowed(value, kind, rounding)
    if ftz:
        bits = flushed(bits, kind)
    return saturated(bits, kind) if saturate else bits


def _nearest(operation: np.ufunc, kind: NativeKind, ftz: bool, saturate: bool, *images: Bits) -> Bits:
    if ftz:
        images = tuple(flushed(bits, kind) for bits in images)
    with np.errstate(all="ignore"):
        bits = from_native(operation(*(native(bits, kind) for bits in images)), kind)
    if ftz:
        bits = flushed(bits, kind)
    return saturated(bits, kind) if saturate else bits


def _may_round_twice(total: Float64) -> bool:
    """Could rounding the float64 `total`, itself rounded, to f32 differ from rounding the exact sum once?

    Only if `total` lies halfway between two floats, or is so small that f32 has fewer than 24 bits there.
    """
    halfway = (total.view(np.uint64) & np.uint64(0x1FFF_FFFF)) == np.uint64(0x1000_0000)
    return bool((halfway | (np.abs(total) < 2.0**-126)).any())


def _sum(x: Float64, y: Float64, rounding: Rounding) -> Float64:
    total = sum_to_odd(x, y)
    if rounding == "rm":
        # Rounding downward, an exact zero sum is -0 unless both terms are +0 (IEEE 754, 6.3).
        return np.where((total == 0) & (np.signbit(x) | np.signbit(y)), -0.0, total)
    return total


def _double(operation: double.Operation, rounding: Rounding, *images: Bits) -> Bits:
    from tilewright.machine.numbers import double  # exact fractions take long to load

    found = double.apply(operation, rounding, *(widened(bits, "f64") for bits in images))
    return canonical(found.view(np.uint64), np.isnan(found), "f64")


def _extremum(kind: FloatKind, a: Bits, b: Bits, ftz: bool, nan: bool, xorsign_abs: bool, *, smaller: bool) -> Bits:
    if ftz:
        a, b = flushed(a, kind), flushed(b, kind)
    one = a.dtype.type
    sign_bit = one(1 << (a.dtype.itemsize * 8 - 1))
    sign = (a ^ b) & sign_bit
    if xorsign_abs:
        a, b = a & ~sign_bit, b & ~sign_bit
    infinity = one(_INFINITY[kind])
    x_nan, y_nan = (a & ~sign_bit) > infinity, (b & ~sign_bit) > infinity
    # Sign-magnitude images, made monotone: so -0 comes before +0.
    a_key, b_key = np.where(a & sign_bit, ~a, a | sign_bit), np.where(b & sign_bit, ~b, b | sign_bit)
    first = a_key <= b_key if smaller else a_key >= b_key
    result = np.where(y_nan | (first & ~x_nan), a, b)
    if xorsign_abs:
        result = result | sign
    return canonical(result, (x_nan | y_nan) if nan else (x_nan & y_nan), kind)


_INFINITY: dict[FloatKind, int] = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F80_0000, "f64": 0x7FF0_0000_0000_0000}
_FALSE_OF_NAN = ("eq", "lt", "le", "gt", "ge")
_RELATIONS: dict[str, Callable[[NDArray[Any], NDArray[Any]], NDArray[np.bool_]]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}

_APPROXIMATIONS: dict[Approximation, Callable[[Float64], Float64]] = {
    "ex2": lambda x: np.exp2(x),
    "lg2": lambda x: np.log2(x),
    "rcp": lambda x: 1.0 / x,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sqrt": lambda x: np.sqrt(x),
    "sin": lambda x: np.sin(x),
    "cos": lambda x: np.cos(x),
    "tanh": lambda x: np.tanh(x),
}
