"""What do memory and windows of the tensor-copy probe hold before a copy? The same bytes wherever they are made."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.probes.tma_cases import ARENA_BYTES, Case
from bench.probes.tma_kernels import POISON

Bytes = NDArray[np.uint8]
BUFFER_BYTES = 1 << 26


def hashed(count: int, begin: int = 0) -> Bytes:
    """Byte i is the top 8 bits of the low 32 bits of (begin + i) * 2654435761."""
    found = np.empty(count, np.uint8)
    chunk = 1 << 20
    first = np.arange(chunk, dtype=np.uint32) * np.uint32(2654435761)
    for start in range(0, count, chunk):
        shift = np.uint32((begin + start) * 2654435761 & 0xFFFFFFFF)
        piece = (first + shift) >> np.uint32(24)
        found[start : start + chunk] = piece[: min(chunk, count - start)]
    return found


def special_words() -> Bytes:
    """64 KiB of f32 words: zeros, subnormal numbers, infinities, NaNs, numbers at every rounding boundary of tf32."""
    random = np.random.default_rng(20)
    count = 1 << 14
    exponents = random.choice(np.array([0, 0, 0, 1, 2, 100, 127, 128, 253, 254, 255, 255]), count).astype(np.uint32)
    fractions = random.integers(0, 1 << 23, count, dtype=np.uint32)
    tails = random.choice(np.array([0, 1, 0x0FFF, 0x1000, 0x1001, 0x1FFF, 0x2000, 0x3000]), count).astype(np.uint32)
    fractions = np.where(random.random(count) < 0.5, fractions & 0x7F_C000 | tails, fractions)
    fractions = np.where(random.random(count) < 0.1, random.choice(np.array([0, 1, 0x40_0000, 0x7F_FFFF]), count),
                         fractions)  # fmt: skip
    signs = random.integers(0, 2, count, dtype=np.uint32) << np.uint32(31)
    return (signs | exponents << np.uint32(23) | fractions.astype(np.uint32)).astype(np.uint32).view(np.uint8)


def content(case: Case, count: int, salt: int, special: Bytes) -> Bytes:
    """Bytes of a case's source, or of what lies in global memory before a reduction. `salt` tells the two apart."""
    if case.source == "special":
        return np.roll(np.resize(special, count), salt * 4096)
    if case.source == "hash":
        return hashed(count, salt * 77777)
    random = np.random.default_rng(salt)
    element = case.map.element.value
    if not case.map.element.is_float:
        return random.integers(0, 256, count, dtype=np.uint8)
    if element == "f16":
        return (random.standard_normal(count // 2) * 8).astype(np.float16).view(np.uint8)
    singles = (random.standard_normal(count) * 8).astype(np.float32)
    if element == "bf16":
        return (singles[: count // 2].view(np.uint32) >> np.uint32(16)).astype(np.uint16).view(np.uint8)
    return singles[: count // 4].view(np.uint8)


def arena_before(case: Case, special: Bytes) -> Bytes:
    """What the arena holds before a store or reduction."""
    if case.kernel.startswith("reduce"):
        return content(case, ARENA_BYTES, 2, special)
    return np.full(ARENA_BYTES, POISON, np.uint8)
