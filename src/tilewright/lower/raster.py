"""Where in the result does tile number t lie, and what does finding that out cost?

Tiles are numbered in bands of `group` tiles along m; within a band m runs fastest, so that tiles which run at the same
time lie near each other and share what they load. Both divisors are known when the text is written, but for the height
of the last band, which is one of two numbers. The assembler divides by an immediate as by any register, some forty
dependent instructions at the start of every tile in every role; here a quotient is a high product with the divisor's
reciprocal, at most one too small, and one correction.

Arithmetic: with r = floor(2^32 / d) (2^32 - 1 for d = 1) and n < 2^32, n r / 2^32 > n / d - 1, so floor(n r / 2^32) is
the quotient or one less. Checked by: tests/lower/test_raster.py, and `contract` runs the text at small extents.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.lower.emit import Text

_WORD = 1 << 32


def reciprocal(divisor: int) -> int:
    """floor(2^32 / divisor), as far as 32 bits hold it. divisor: positive."""
    return min(_WORD // divisor, _WORD - 1)


def last_height(tiles_m: int, group: int) -> int:
    """Tiles along m in the last band, which may be shorter than the others."""
    return tiles_m % group or min(group, tiles_m)


def raster_quantities(tiles_m: int, tiles_n: int, group: int) -> tuple[int, ...]:
    """Immediates that `raster` writes and that depend on extents."""
    band = group * tiles_n
    last = last_height(tiles_m, group)
    return tiles_m, band, reciprocal(band), reciprocal(last)


def raster(text: Text, tile: str, tiles_m: int, tiles_n: int, group: int) -> tuple[str, str]:
    """Registers (m, n) of the tile whose number is in register `tile`."""
    band = _divide(text, tile, _divisor(text, group * tiles_n))
    first = text.into("b32", "mul.lo.u32", band.quotient, group)
    left = text.into("b32", "sub.u32", tiles_m, first)
    height = text.into("b32", "min.u32", left, group)
    whole = text.into("pred", "setp.ge.u32", left, group)
    last = text.into("b32", "mov.u32", reciprocal(last_height(tiles_m, group)))
    factor = text.into("b32", "selp.b32", reciprocal(group), last, whole)
    within = _divide(text, band.remainder, _Divisor(height, factor))
    return text.into("b32", "add.u32", first, within.remainder), within.quotient


@dataclass(frozen=True, slots=True)
class _Divisor:
    """Registers with a divisor and its reciprocal."""

    value: str
    reciprocal: str


@dataclass(frozen=True, slots=True)
class _Division:
    quotient: str
    remainder: str


def _divisor(text: Text, value: int) -> _Divisor:
    return _Divisor(text.into("b32", "mov.u32", value), text.into("b32", "mov.u32", reciprocal(value)))


def _divide(text: Text, number: str, by: _Divisor) -> _Division:
    """Quotient and remainder of an unsigned register."""
    quotient = text.into("b32", "mul.hi.u32", number, by.reciprocal)
    remainder = text.into("b32", "sub.u32", number, text.into("b32", "mul.lo.u32", quotient, by.value))
    short = text.into("pred", "setp.ge.u32", remainder, by.value)
    one_more = text.into("b32", "add.u32", quotient, 1)
    less = text.into("b32", "sub.u32", remainder, by.value)
    return _Division(
        text.into("b32", "selp.b32", one_more, quotient, short), text.into("b32", "selp.b32", less, remainder, short)
    )
