"""How is one swizzle called by the driver, by wgmma, by tcgen05 and by `tensormap.replace`, and what does it do?

Four numberings of the same patterns: CUtensorMapSwizzle 0 to 6; a wgmma descriptor's two bits, which count backwards; a
tcgen05 descriptor's three bits, numbered anew; and `tensormap.replace`, which splits mode from atomicity. The table is
a target's facts (group `swizzle`), entries by the driver's number.

The pattern: `xor_bits` bits of the absolute shared-memory address, from bit 7 on, are XORed onto as many bits from
`xor_onto_bit` on; one mode also XORs bit 7 onto bit `flip_bit` (PTX ISA 5.5.7). Each is an involution and linear over
GF(2): the pattern of a XOR is the XOR of patterns.

Not handled: the 96B mode of sm_103a, which only `tensormap.replace` can name. Checked by
tests/legal/tensor_map/test_swizzle_code.py, against the copy engine's model and the machine's format of tensor maps.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.base.error import TilewrightError
from tilewright.base.plan import Swizzle
from tilewright.legal.tensor_map.enumerations import SWIZZLES
from tilewright.targets import Target

Numbering = Literal["driver", "wgmma", "tcgen05"]
Addresses = TypeVar("Addresses", int, NDArray[np.int64])

LINE_BYTES = 128
"""Patterns depend on the number of the 128-byte line."""

_KEYS: dict[Numbering, str] = {"wgmma": "matrix_descriptor.swizzle_codes", "tcgen05": "shared_descriptor.swizzle_codes"}


def swizzles(target: Target) -> tuple[Swizzle, ...]:
    """The patterns that the target's copy engine has, in the driver's order."""
    return SWIZZLES[: len(target.limits("swizzle.xor_bits"))]


def code_of(swizzle: Swizzle, numbering: Numbering, target: Target) -> int:
    """The number of `swizzle`. Raises TilewrightError where that numbering has none, or the target lacks it."""
    codes = _codes(numbering, target)
    index = SWIZZLES.index(swizzle)
    if index >= len(codes) or codes[index] < 0:
        known = ", ".join(name for name, code in zip(SWIZZLES, codes, strict=False) if code >= 0)
        raise TilewrightError(
            f"{target.name}: {numbering} has no number for swizzle {swizzle}", remedy=f"it has {known}"
        )
    return codes[index]


def swizzle_of(code: int, numbering: Numbering, target: Target) -> Swizzle | None:
    """The swizzle with that number; None where there is none. Raises TilewrightError where the target lacks it."""
    codes = _codes(numbering, target)
    return SWIZZLES[codes.index(code)] if code >= 0 and code in codes else None


def operand_swizzles(numbering: Literal["wgmma", "tcgen05"], target: Target) -> tuple[Swizzle, ...]:
    """The patterns that a descriptor of that instruction can name, in the driver's order."""
    return tuple(name for name, code in zip(SWIZZLES, _codes(numbering, target), strict=False) if code >= 0)


def _codes(numbering: Numbering, target: Target) -> tuple[int, ...]:
    if numbering == "driver":
        return tuple(range(len(target.limits("swizzle.xor_bits"))))
    if not target.supports(numbering):
        raise TilewrightError(f"{target.name} has no {numbering}")
    return target.limits(_KEYS[numbering])


def row_bytes(swizzle: Swizzle, target: Target) -> int:
    """Width of the rows that the pattern permutes: the operand's row in a canonical layout.

    Raises TilewrightError where the target lacks the pattern; so do `period_bytes` and `swizzled`.
    """
    return _entry("swizzle.row_bytes", swizzle, target)


def period_bytes(swizzle: Swizzle, target: Target) -> int:
    """Bytes after which the pattern repeats: the alignment at which it begins with its first line."""
    return _entry("tensor_map.swizzle_period_bytes", swizzle, target)


def swizzled(addresses: Addresses, swizzle: Swizzle, target: Target, base_offset: int = 0) -> Addresses:
    """Where the bytes meant for absolute shared addresses `addresses` stand; its own inverse.

    base_offset: number of the 128-byte line, modulo the period, at which the pattern begins.
    """
    shift = base_offset * LINE_BYTES
    moved = addresses - shift
    found = moved
    for bits, onto in _moves(swizzle, target):
        found = found ^ (((moved >> 7) & ((1 << bits) - 1)) << onto)
    return found + shift


@lru_cache(maxsize=64)
def _moves(swizzle: Swizzle, target: Target) -> tuple[tuple[int, int], ...]:
    bits, onto = _entry("swizzle.xor_bits", swizzle, target), _entry("swizzle.xor_onto_bit", swizzle, target)
    flip = _entry("swizzle.flip_bit", swizzle, target)
    return (((bits, onto),) if bits else ()) + (((1, flip),) if flip >= 0 else ())


def _entry(key: str, swizzle: Swizzle, target: Target) -> int:
    entries, index = target.limits(key), SWIZZLES.index(swizzle)
    if index >= len(entries):
        raise TilewrightError(f"{target.name} has no swizzle {swizzle}")
    return entries[index]
