"""Fresh accesses for the probe of banks: random, strided, swizzled, linear, in tiles, shared by lanes, in pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.probes.bank_kernels import ADDRESS_LIMIT

Integers = NDArray[np.int64]
FAMILIES = ("random", "permuted", "strided", "swizzled", "linear", "tile", "shared", "paired", "nearly paired")


def rows(unit: int, count: int, generator: np.random.Generator) -> tuple[Integers, list[str]]:
    """So many accesses whose lanes move `unit` bytes: addresses of shape (count, 32), and the family of each."""
    names = [FAMILIES[int(each)] for each in generator.integers(0, len(FAMILIES), count)]
    found = np.stack([_row(name, generator) for name in names]) * unit
    return found % (ADDRESS_LIMIT // unit * unit), names


def _row(family: str, generator: np.random.Generator) -> Integers:
    """Units of the 32 lanes."""
    lane = np.arange(32)
    base = int(generator.integers(0, 64))
    match family:
        case "random":
            return generator.integers(0, int(generator.choice([16, 32, 64, 256, 2048])), 32)
        case "permuted":
            return generator.permutation(32) * int(generator.choice([1, 2, 4])) + base
        case "strided":
            return lane * int(generator.integers(0, 130)) + base
        case "swizzled":
            units = lane * int(generator.choice([1, 2, 4, 8, 16, 32])) + base
            bits, low, shift = (
                int(generator.integers(1, 6)),
                int(generator.integers(0, 3)),
                int(generator.integers(1, 6)),
            )
            return units ^ (units >> (low + shift) & (1 << bits) - 1) << low
        case "linear":
            return _linear(generator, 5) ^ base
        case "tile":
            tall = int(generator.choice([2, 4, 8, 16]))
            return lane % tall * int(generator.integers(1, 70)) + lane // tall * int(generator.integers(0, 40)) + base
        case "shared":
            return generator.integers(0, 128, 32)[lane // int(generator.choice([1, 2, 4, 8]))]
        case _:
            apart = int(generator.choice([0, 1, 2]))
            units = _linear(generator, 5)
            if generator.random() < 0.5:
                units = generator.integers(0, 256, 32)
            units = units[lane & ~(1 << apart)]
            if family == "nearly paired":
                units[generator.integers(0, 32)] += int(generator.integers(1, 40))
            return units


def _linear(generator: np.random.Generator, bits: int) -> Integers:
    found = np.zeros(1, np.int64)
    for _ in range(bits):
        image = int(generator.choice([0, 1, 2, 4, 8, 16, 32, 64, int(generator.integers(0, 256))]))
        found = np.concatenate([found, found ^ image])
    return found
