"""Inputs drawn for a streamed program."""

import numpy as np

from tilewright.frontends.tile.reference import DTYPES
from tilewright.ir.tile.facts import buffers, the_program


def inputs(module, seed=0):
    generator = np.random.default_rng(seed)
    return {
        each.name: generator.integers(0, 7, each.shape).astype(DTYPES[each.element])
        if each.name in ("label", "lengths", "keep")
        else generator.normal(0, 2, each.shape).astype(DTYPES[each.element])
        for each in buffers(the_program(module))
        if each.role == "input"
    }
