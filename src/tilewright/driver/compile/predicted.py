"""How long will a compiled program take, as its bundle says it?

The time of `synth.cost.time_model`, in microseconds, of a launch that follows another; `tilewright profile` puts the
measured one beside it. Not handled, and not reported: programs without a product, groups of rows, sums in two levels,
operands that a launch before writes anew. Checked by: tests/driver/views/test_profile.py.
"""

from __future__ import annotations

from tilewright.ir.decisions import Decisions
from tilewright.ir.tile.operations import ProgramOp
from tilewright.synth.cost import roofline
from tilewright.targets import Target


def predicted_microseconds(program: ProgramOp, decisions: Decisions, target: Target) -> float | None:
    """Of the whole program, None where the model is not of such programs."""
    found = roofline.predicted_microseconds(program, decisions, target)
    return None if found is None else round(found, 3)
