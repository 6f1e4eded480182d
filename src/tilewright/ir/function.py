"""Which elementwise functions exist: a closed set, shared by the language, the dialects and every lowering.

Theory: all of them take and give float32. A lowering may approximate the transcendental ones to float32 accuracy good
enough for a bfloat16 result; the reference evaluator says what they approximate. Some choices deserve a word:

- `GELU` is the tanh approximation, 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), not the erf form.
- `LT`, `LE` and `EQ` give 1 where they hold and 0 elsewhere, NaN compared with anything included; `WHERE` takes its
  second operand where the first is not 0 and its third elsewhere, whatever the other one is, NaN included.
- `ROUND` is to the nearest whole number, of two the even one.
- `EXP2` (2^x) and `FMA` (x y + z, rounded once) are for kernels alone: the language has no names for them.
- `MAX`, `MIN` and `RELU` are NaN where an operand is, like NumPy's `maximum` and PTX's `max.NaN.f32`: a kernel shows
  that its data went wrong.

Imports no xDSL, so that naming a function costs nothing. Checked by tests/frontends/test_tile_reference.py.
"""

from __future__ import annotations

from enum import StrEnum


class Function(StrEnum):
    """An elementwise function. The value is its name in the dialects."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MAX = "max"
    MIN = "min"
    NEG = "neg"
    ABS = "abs"
    EXP = "exp"
    TANH = "tanh"
    SIGMOID = "sigmoid"
    RELU = "relu"
    GELU = "gelu"
    SILU = "silu"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    LOG = "log"
    ROUND = "round"
    LT = "lt"
    LE = "le"
    EQ = "eq"
    WHERE = "where"
    EXP2 = "exp2"
    FMA = "fma"

    @property
    def arity(self) -> int:
        return 3 if self in _TERNARY else 2 if self in _BINARY else 1


REDUCERS = (Function.ADD, Function.MAX, Function.MIN)
"""The functions that reductions fold with: associative (ADD but for rounding) and commutative."""
ARG_REDUCERS = (Function.MAX, Function.MIN)
"""Those that choose an element, of which a reduction may say where it stands."""
_TERNARY = frozenset({Function.WHERE, Function.FMA})
_BINARY = frozenset(
    {
        Function.ADD, Function.SUB, Function.MUL, Function.DIV, Function.MAX, Function.MIN, Function.LT, Function.LE,
        Function.EQ,
    }
)  # fmt: skip
