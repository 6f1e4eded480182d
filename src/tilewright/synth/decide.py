"""What kernel a tile program becomes: every choice, with its reason, written on the program as its `decisions`.

A program that walks an axis by tiles is `synth.cascade.decide`'s, plain products of matrices among them
(`synth.streaming` gives them their walks). Any other one has no product: its rows are folded by `synth.store.rows`, or
its points are shared by threads, transposed on the way, in runs, or one by one.

What the language has beyond is refused at the author's line (`synth.supported`). Checked by `legal` before anything is
written, and by `contract` on the lowered kernel; tests/synth/test_decide.py.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tilewright.ir.decisions import (
    Decisions,
    ElementwiseDecisions,
    to_attribute,
)
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import grid_axes, reductions
from tilewright.synth.cascade.decide import decide_cascade, is_cascade
from tilewright.synth.run_time_extents import refuse_run_time_detours, refuse_run_time_strides
from tilewright.synth.schedule.expression_order import choose_order
from tilewright.synth.store.register_budget import registers_of_resident
from tilewright.synth.store.rows import decide_rows
from tilewright.synth.store.runs import decide_runs
from tilewright.synth.store.spill_slots import refuse_spill_slots
from tilewright.synth.store.transpose import decide_turned
from tilewright.synth.supported import refuse_loops, refuse_unsupported
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target

_THREADS, _POINTS_OF_THREAD = 256, 4
"""Of a CTA that takes points one by one, as many CTAs as there are points for;"""
_CTAS_TOGETHER = 8
"""of a multiprocessor, at most."""


def decide(program: tile.ProgramOp, target: Target, wanted: Wanted | None = None) -> Decisions:
    """Choose, write the `decisions` attribute on `program`, and return what was chosen.

    Raises TilewrightError at the author's line for a program outside the supported shapes.
    """
    wanted = wanted or Wanted()
    if is_cascade(program):
        cascade = decide_cascade(program, target, wanted)
        refuse_run_time_strides(program, cascade)
        program.attributes["decisions"] = to_attribute(cascade)
        return cascade
    refuse_unsupported(program, target)
    refuse_loops(program)
    refuse_spill_slots(wanted, "a program without a product")
    decisions = _decide_elementwise(program, target, wanted)
    if wanted.resident is not None:
        most = registers_of_resident(decisions.threads, wanted.resident, target)
        words = f"at most {most} registers of a thread: {wanted.resident} CTAs of a multiprocessor"
        decisions = replace(decisions, launch_registers=most, reasons=(*decisions.reasons, words))
    refuse_run_time_detours(program, decisions)
    program.attributes["decisions"] = to_attribute(decisions)
    return decisions


def _decide_elementwise(program: tile.ProgramOp, target: Target, wanted: Wanted) -> ElementwiseDecisions:
    if reductions(program):
        return decide_rows(program, target, wanted)
    turned = decide_turned(program, target, wanted)
    if turned is not None:
        return turned
    runs = decide_runs(program, target, wanted)
    if runs is not None:
        return runs
    points, threads = math.prod(program.extents[axis] for axis in grid_axes(program)), _THREADS
    most = _CTAS_TOGETHER * target.limit("device.multiprocessors")
    ctas = max(1, min(math.ceil(points / (_POINTS_OF_THREAD * threads)), most))
    reasons = [f"no dot: {points} points on {ctas} CTAs of {threads} threads, plain loads and stores"]
    order = choose_order(program, (ctas, threads), target, wanted, reasons)
    return ElementwiseDecisions(ctas, threads, tuple(reasons), order=order)
