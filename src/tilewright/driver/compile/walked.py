"""A program of products as values, with the loops by which they are computed.

A program that needs several walks along an axis needs one where a tile holds the axis. Whether one does is for the
decisions to say, so they are asked.

Checked by: tests/synth/streaming and tests/lower/cascade.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from tilewright.base.error import TilewrightError
from tilewright.ir import tile
from tilewright.ir.cascade_facts import contractions
from tilewright.ir.tile_facts import the_program
from tilewright.synth.cascade.decide import decide_cascade
from tilewright.synth.streaming import streamed
from tilewright.synth.streaming.whole import in_one_tile
from tilewright.synth.wanted import Wanted
from tilewright.targets import Target


def walked(module: ModuleOp, target: Target, wanted: Wanted | None = None) -> ModuleOp:
    """The streamed form of a program that has products as values; any other program as it is.

    Raises TilewrightError, at the author's line, for what has no such form yet."""
    program = the_program(module)
    found = streamed(program) if contractions(program) else None
    if found is None:
        return module
    if found.walks > 1:
        whole = in_one_tile(program, found.axis)
        if _fits(the_program(whole), target, wanted or Wanted()):
            return whole
    return found.module


def _fits(program: tile.ProgramOp, target: Target, wanted: Wanted) -> bool:
    try:
        decide_cascade(program, target, wanted)
    except TilewrightError:
        return False
    return True
