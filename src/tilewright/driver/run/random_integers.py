"""Random integers that a compiled program can use: ends of groups, rows of tables, lengths.

Drawn of what `ir.tile.index_inputs` says that each tensor of integers stands for, so that a program that is tried on
random inputs reads what it would read in earnest.
Not handled: tensors of integers that stand for no places. Checked by: tests/driver/run/test_random_integers.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer
from tilewright.ir import context
from tilewright.ir.tile.facts import the_program
from tilewright.ir.tile.index_inputs import Ends, IndexInput, Places, index_inputs
from tilewright.runtime.arrays import numpy_dtype
from tilewright.runtime.bundle import Bundle

Array = np.ndarray[Any, np.dtype[Any]]


def random_integers(bundle: Bundle, buffers: Sequence[Buffer], seed: int = 0) -> dict[str, Array]:
    """Those of these buffers of `bundle` that stand for places, by name. Raises TilewrightError where its tile program
    cannot be read."""
    text = bundle.facts.get("tile")
    if not isinstance(text, str):
        return {}
    try:
        program = the_program(Parser(context(), text).parse_module())
    except (ParseError, VerifyException) as error:
        raise TilewrightError(
            f"the tile program in {bundle.name} cannot be read, so what its integers stand for is unknown",
            remedy=f"it was written by Tilewright {bundle.tilewright_version}: compile the program again",
        ) from error
    random = np.random.default_rng(seed)
    found = index_inputs(program)
    return {each.name: _drawn(random, each, found[each.name]) for each in buffers if each.name in found}


def _drawn(random: np.random.Generator, buffer: Buffer, kind: IndexInput) -> Array:
    dtype = numpy_dtype(buffer.element)
    numbers = random.integers(0, kind.most, buffer.shape, endpoint=True).astype(dtype)
    match kind:
        case Places():
            return numbers
        case Ends():
            ends = np.sort(numbers)
            ends[-1:] = kind.most
            return ends
