"""A program of products as values, with the loops by which they are computed.

Checked by: tests/synth/streaming and tests/lower/cascade.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from tilewright.ir.cascade_facts import contractions
from tilewright.ir.tile_facts import the_program
from tilewright.synth.streaming import streamed


def walked(module: ModuleOp) -> ModuleOp:
    """The streamed form of a program that has products as values; any other program as it is.

    Raises TilewrightError, at the author's line, for what has no such form yet."""
    program = the_program(module)
    found = streamed(program) if contractions(program) else None
    return module if found is None else found.module
