"""Float32 functions as PTX: every one from correctly rounded instructions, so any machine computes the same bits.

exp: x = n ln2 + r with |r| <= ln2 / 2 (two-part ln2), a degree-5 polynomial in r, then 2^(n-1) twice. Its relative
error is below 2^-22 where it is at least 2^-125; smaller it may be 0, and it is +infinity from 88.73 on. sigmoid takes
the same polynomial, a bounded exponent and a reciprocal by iteration: a branch
for its special cases would keep the values of a thread from overlapping. tanh, silu and gelu (the tanh form) build on
sigmoid; tanh near 0 is an odd polynomial, since 2 sigmoid(2 x) - 1 would cancel there. Relative errors: tanh below
2^-20 everywhere; sigmoid and silu below 2^-20 for x >= -87, gelu below 2^-15 for x >= -10, and left of that values
below 1e-35 in size may become 0; log: below 2^-21. NaN gives NaN; silu and gelu of minus infinity are minus infinity
times zero, NaN.
`tests/lower/ptx/numbers/test_scalar.py` measures all this. No approximate instruction is used, since their results
differ between machines, and then the CPU machine could not agree with hardware bit for bit. `exp2` alone is one: the
hardware's, within 2^-22 relative (PTX ISA, ex2: 2 ulp), subnormal numbers taken as 0. The language does not use it.
"""

from __future__ import annotations

import math

from tilewright.lower.ptx.emit import Text, float_literal
from tilewright.lower.ptx.numbers import float8, int8, ue8m0

_LOG2E = float_literal(math.log2(math.e))
_MAGIC = float_literal(12582912.0)
_LN2_HIGH = float_literal(-0.693359375)
_LN2_LOW = float_literal(2.12194440e-4)
_ONE = float_literal(1.0)
_ZERO = float_literal(0.0)
_EXP_COEFFICIENTS = tuple(map(float.fromhex, ("0x1.10625p-7", "0x1.572a64p-5", "0x1.5557bp-3", "0x1.fffdfcp-2")))
"""Of powers 5 to 2 of r, for |r| <= ln2 / 2: least largest relative error of exp(r), 2^-23.2 (found by iterated
reweighting)."""
_SUM_IS_ONE = -30.0
"""1 + exp(x) rounds to 1 from here down."""
_SUM_IS_NORMAL = 87.33
"""1 / (1 + exp(x)) is a normal float32 up to here: ln 2^126 = 87.34."""
_SQRT_HALF_BITS = 0x3F3504F3
_LOG_COEFFICIENTS = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
_RECIPROCAL_GUESS = 0x7EF311C3
_TANH_COEFFICIENTS = (62.0 / 2835.0, -17.0 / 315.0, 2.0 / 15.0, -1.0 / 3.0)

_BINARY = {"add": "add.rn.f32", "sub": "sub.rn.f32", "mul": "mul.rn.f32", "div": "div.rn.f32"}
_COMPARISONS = ("lt", "le", "eq")
_EXTREME = {"max": "max.NaN.f32", "min": "min.NaN.f32"}


def emit_scalar(text: Text, function: str, inputs: tuple[str, ...]) -> str:
    """Emit `function` (a name of `tilewright.ir.function`) of float32 registers; returns the result's register.

    Raises KeyError for a function that is not in the closed set.
    """
    if function in _BINARY:
        return text.into("f32", _BINARY[function], *inputs)
    if function in _COMPARISONS:
        holds = text.into("pred", f"setp.{function}.f32", *inputs)
        return text.into("f32", "selp.f32", _ONE, _ZERO, holds)
    if function == "where":
        condition, chosen, other = inputs
        return text.into("f32", "selp.f32", chosen, other, text.into("pred", "setp.neu.f32", condition, _ZERO))
    if function in _EXTREME:
        return text.into("f32", _EXTREME[function], *inputs)
    if function == "fma":
        return text.into("f32", "fma.rn.f32", *inputs)
    return _UNARY[function](text, inputs[0])


def _negate(text: Text, x: str) -> str:
    return text.into("f32", "neg.f32", x)


def _absolute(text: Text, x: str) -> str:
    return text.into("f32", "abs.f32", x)


def _power_of_two(text: Text, x: str) -> str:
    return text.into("f32", "ex2.approx.ftz.f32", x)


def _round(text: Text, x: str) -> str:
    return text.into("f32", "cvt.rni.f32.f32", x)


def _square_root(text: Text, x: str) -> str:
    return text.into("f32", "sqrt.rn.f32", x)


def _reciprocal_root(text: Text, x: str) -> str:
    return text.into("f32", "div.rn.f32", _ONE, _square_root(text, x))


def _log(text: Text, x: str) -> str:
    """x = 2^n m with m from sqrt(1/2) to sqrt(2); log m by a polynomial in m - 1 (Cephes, logf), n ln2 in two parts.
    What is subnormal is scaled first; zero, infinities, NaN and negative numbers are put right at the end."""
    scaled = text.into("f32", "mul.rn.f32", x, float_literal(2.0**23))
    is_small = text.into("pred", "setp.lt.f32", x, float_literal(2.0**-126))
    normal = text.into("f32", "selp.f32", scaled, x, is_small)
    bits = text.into("b32", "sub.s32", text.into("b32", "mov.b32", normal), _SQRT_HALF_BITS)
    number = text.into("b32", "shr.s32", bits, 23)
    rest = text.into("b32", "sub.s32", text.into("b32", "mov.b32", normal), text.into("b32", "shl.b32", number, 23))
    f = text.into("f32", "sub.rn.f32", text.into("f32", "mov.b32", rest), _ONE)
    n = text.into("f32", "cvt.rn.f32.s32", number)
    lowered = text.into("f32", "sub.rn.f32", n, float_literal(23.0))
    n = text.into("f32", "selp.f32", lowered, n, is_small)
    square = text.into("f32", "mul.rn.f32", f, f)
    series = text.into("f32", "mov.f32", float_literal(_LOG_COEFFICIENTS[0]))
    for coefficient in _LOG_COEFFICIENTS[1:]:
        series = text.into("f32", "fma.rn.f32", series, f, float_literal(coefficient))
    tail = text.into("f32", "mul.rn.f32", text.into("f32", "mul.rn.f32", f, square), series)
    tail = text.into("f32", "fma.rn.f32", n, float_literal(-2.12194440e-4), tail)
    tail = text.into("f32", "fma.rn.f32", square, float_literal(-0.5), tail)
    result = text.into("f32", "add.rn.f32", f, tail)
    result = text.into("f32", "fma.rn.f32", n, float_literal(0.693359375), result)
    is_zero = text.into("pred", "setp.eq.f32", x, _ZERO)
    result = text.into("f32", "selp.f32", float_literal(-math.inf), result, is_zero)
    # Of infinity, infinity; of NaN and what is negative, the NaN of the square root.
    is_finite = text.into("pred", "setp.lt.f32", x, float_literal(math.inf))
    result = text.into("f32", "selp.f32", result, x, is_finite)
    is_negative = text.into("pred", "setp.lt.f32", x, _ZERO)
    return text.into("f32", "selp.f32", float_literal(math.nan), result, is_negative)


def _relu(text: Text, x: str) -> str:
    return text.into("f32", "max.NaN.f32", x, _ZERO)


def _exp(text: Text, x: str) -> str:
    low = text.into("f32", "max.NaN.f32", x, float_literal(-87.5))
    bounded = text.into("f32", "min.NaN.f32", low, float_literal(88.8))
    shifted, series = _exponent_and_series(text, bounded)
    # The low bits of `shifted` hold n; all others leave its word to the left. 2^(n-1) has an exponent of its own where
    # n = 128 has none, and is 0 where n = -126.
    exponent = text.into("b32", "shl.b32", text.into("b32", "mov.b32", shifted), 23)
    half = text.into("f32", "mov.b32", text.into("b32", "add.s32", exponent, 0x3F000000))
    result = text.into("f32", "mul.rn.f32", series, half)
    return text.into("f32", "add.rn.f32", result, result)


def _exponent_and_series(text: Text, x: str) -> tuple[str, str]:
    """For a bounded x = n ln2 + r: n in the low bits of a float32, and exp(r)."""
    shifted = text.into("f32", "fma.rn.f32", x, _LOG2E, _MAGIC)
    count = text.into("f32", "sub.rn.f32", shifted, _MAGIC)
    rest = text.into("f32", "fma.rn.f32", count, _LN2_HIGH, x)
    rest = text.into("f32", "fma.rn.f32", count, _LN2_LOW, rest)
    series = text.into("f32", "mov.f32", float_literal(_EXP_COEFFICIENTS[0]))
    for coefficient in (*_EXP_COEFFICIENTS[1:], 1.0, 1.0):
        series = text.into("f32", "fma.rn.f32", series, rest, float_literal(coefficient))
    return shifted, series


def _sigmoid(text: Text, x: str) -> str:
    """1 / (1 + exp(-x)) in one straight line: the exponent is bounded so that the sum is a normal float32 and 2^n has
    an exponent of its own, and the reciprocal is iterated from a linear guess, without the branch of a rounded one."""
    opposite = _negate(text, x)
    bounded = text.into("f32", "max.NaN.f32", opposite, float_literal(_SUM_IS_ONE))
    bounded = text.into("f32", "min.NaN.f32", bounded, float_literal(_SUM_IS_NORMAL))
    shifted, series = _exponent_and_series(text, bounded)
    # The low bits of `shifted` hold n; all others leave its word to the left.
    exponent = text.into("b32", "shl.b32", text.into("b32", "mov.b32", shifted), 23)
    power = text.into("f32", "mov.b32", text.into("b32", "add.s32", exponent, 0x3F800000))
    reciprocal = _reciprocal(text, text.into("f32", "fma.rn.f32", series, power, _ONE))
    vanishes = text.into("pred", "setp.gt.f32", opposite, float_literal(_SUM_IS_NORMAL))
    return text.into("f32", "selp.f32", _ZERO, reciprocal, vanishes)


def _reciprocal(text: Text, x: str) -> str:
    """1 / x for 1 <= x <= 2^126: a guess that mirrors the exponent, within an eighth, then two steps that each raise
    the error to its third power."""
    bits = text.into("b32", "sub.s32", _RECIPROCAL_GUESS, text.into("b32", "mov.b32", x))
    result = text.into("f32", "mov.b32", bits)
    opposite = _negate(text, x)
    for _ in range(2):
        error = text.into("f32", "fma.rn.f32", opposite, result, _ONE)
        error = text.into("f32", "fma.rn.f32", error, error, error)
        result = text.into("f32", "fma.rn.f32", result, error, result)
    return result


def _tanh(text: Text, x: str) -> str:
    twice = text.into("f32", "add.rn.f32", x, x)
    far = text.into("f32", "fma.rn.f32", _sigmoid(text, twice), float_literal(2.0), float_literal(-1.0))
    square = text.into("f32", "mul.rn.f32", x, x)
    series = text.into("f32", "mov.f32", float_literal(_TANH_COEFFICIENTS[0]))
    for coefficient in _TANH_COEFFICIENTS[1:]:
        series = text.into("f32", "fma.rn.f32", series, square, float_literal(coefficient))
    # A product at the end, so that the sign of zero is kept.
    factor = text.into("f32", "fma.rn.f32", series, square, _ONE)
    near = text.into("f32", "mul.rn.f32", factor, x)
    magnitude = text.into("f32", "abs.f32", x)
    is_near = text.into("pred", "setp.lt.f32", magnitude, float_literal(0.25))
    return text.into("f32", "selp.f32", near, far, is_near)


def _silu(text: Text, x: str) -> str:
    return text.into("f32", "mul.rn.f32", x, _sigmoid(text, x))


def _gelu(text: Text, x: str) -> str:
    """x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)), which equals the usual 0.5 x (1 + tanh(...)) form."""
    scale = 2.0 * math.sqrt(2.0 / math.pi)
    square = text.into("f32", "mul.rn.f32", x, x)
    factor = text.into("f32", "fma.rn.f32", square, float_literal(0.044715 * scale), float_literal(scale))
    inner = text.into("f32", "mul.rn.f32", factor, x)
    return text.into("f32", "mul.rn.f32", x, _sigmoid(text, inner))


_UNARY = {
    "neg": _negate,
    "abs": _absolute,
    "sqrt": _square_root,
    "rsqrt": _reciprocal_root,
    "log": _log,
    "round": _round,
    "relu": _relu,
    "exp": _exp,
    "exp2": _power_of_two,
    "sigmoid": _sigmoid,
    "tanh": _tanh,
    "silu": _silu,
    "gelu": _gelu,
}


def emit_round(text: Text, element: str, value: str) -> str:
    """A float32 register rounded to nearest even in `element` and widened again."""
    match element:
        case "f32":
            return value
        case "f16" | "bf16":
            narrow = text.into("b16", f"cvt.rn.{element}.f32", value)
            return widen(text, element, narrow)
        case "f8e4m3" | "f8e5m2":
            return widen(text, element, float8.narrow(text, element, value))
        case "i8":
            return int8.widen(text, int8.narrow(text, value))
        case _:
            raise KeyError(element)


def widen(text: Text, element: str, narrow: str) -> str:
    """A number of 16 bits, or of 8 in the low byte, as float32. bf16 widens by shifting: `cvt.f32.bf16` needs PTX 7.8
    and says the same."""
    if element in float8.PTX_NAMES:
        return float8.widen_pair(text, element, narrow)[0]
    if element == "i8":
        return int8.widen(text, narrow)
    if element == "ue4m3":
        return float8.widen_pair(text, "f8e4m3", text.into("b16", "and.b16", narrow, 0x7F7F))[0]
    if element == "ue8m0":
        return ue8m0.widen(text, narrow)
    if element == "f16":
        return text.into("f32", "cvt.f32.f16", narrow)
    bits = text.into("b32", "cvt.u32.u16", narrow)
    return text.into("f32", "mov.b32", text.into("b32", "shl.b32", bits, 16))


def widened_pair(text: Text, element: str, word: str) -> tuple[str, str]:
    """The two elements of 16 bits in a register as float32."""
    if element == "bf16":
        low = text.into("b32", "shl.b32", word, 16)
        high = text.into("b32", "and.b32", word, -65536)
        return text.into("f32", "mov.b32", low), text.into("f32", "mov.b32", high)
    first, second = text.register("b16"), text.register("b16")
    text.emit("mov.b32", f"{{{first}, {second}}}", word)
    return widen(text, element, first), widen(text, element, second)
