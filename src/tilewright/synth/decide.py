"""What kernel a tile program becomes: every choice, with its reason, written on the program as its `decisions`.

Order of choice: tile shape with its orientation (the output's contiguous axis runs along the accumulator's columns
unless rows are few or tiles come out better), by a closed form for the kind of product; whether consumers take whole
tiles in turn; the cluster; operand paths (a legal tensor map, else copies by threads or a workspace with padded rows);
stages, staging and registers by what the target's shared memory and register file hold; the schedule of the loop, with
how late slots are released; last, which tiles idle CTAs help with. Each step is one function of plain values in a
module of its own, and may be replaced alone.

Handled: dots of 8-bit or 16-bit operands that share a loop and an operand, batches of them, programs without a dot.
What the language has beyond is refused at the author's line (`synth.supported`). Checked by `legal` before anything is
written, and by `contract` on the lowered kernel.
"""

from __future__ import annotations

import math

from tilewright.ir.cascade_facts import refuse_at
from tilewright.ir.decisions import (
    Decisions,
    ElementwiseDecisions,
    to_attribute,
)
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import grid_axes, grouping, reductions
from tilewright.synth.cascade.decide import decide_cascade, is_cascade
from tilewright.synth.run_time_extents import refuse_run_time_detours
from tilewright.synth.schedule.expression_order import choose_order
from tilewright.synth.store.rows import decide_rows
from tilewright.synth.store.runs import decide_runs
from tilewright.synth.store.spill_slots import refuse_spill_slots
from tilewright.synth.store.transpose import decide_turned
from tilewright.synth.supported import refuse_unsupported
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target


def decide(program: tile.ProgramOp, target: Target, wanted: Wanted | None = None) -> Decisions:
    """Choose, write the `decisions` attribute on `program`, and return what was chosen.

    Raises TilewrightError at the author's line for a program outside the supported shapes.
    """
    wanted = wanted or Wanted()
    if is_cascade(program):
        cascade = decide_cascade(program, target, wanted)
        program.attributes["decisions"] = to_attribute(cascade)
        return cascade
    refuse_unsupported(program, target)
    groups = grouping(program)
    if groups is not None:
        refuse_at(
            program,
            f"groups of {groups.ragged} in a loop that does more than sum products of these rows",
            "give one product or several of the same rows in one loop, with an epilogue",
        )
    refuse_spill_slots(wanted, "a program without a product")
    decisions = _decide_elementwise(program, target, wanted)
    refuse_run_time_detours(program, decisions)
    program.attributes["decisions"] = to_attribute(decisions)
    return decisions


def _fill_shape(points: int, target: Target, points_per_thread: int = 4, together: int = 8) -> tuple[int, int]:
    """(CTAs, threads) of an element-by-element kernel: at most `together` CTAs a multiprocessor."""
    threads = 256
    most = together * target.limit("device.multiprocessors")
    return max(1, min(math.ceil(points / (points_per_thread * threads)), most)), threads


def _decide_elementwise(program: tile.ProgramOp, target: Target, wanted: Wanted) -> ElementwiseDecisions:
    if reductions(program):
        return decide_rows(program, target, wanted)
    turned = decide_turned(program, target, wanted)
    if turned is not None:
        return turned
    runs = decide_runs(program, target, wanted)
    if runs is not None:
        return runs
    points = math.prod(program.extents[axis] for axis in grid_axes(program))
    ctas, threads = _fill_shape(points, target)
    reasons = [f"no dot: {points} points on {ctas} CTAs of {threads} threads, plain loads and stores"]
    order = choose_order(program, (ctas, threads), target, wanted, reasons)
    return ElementwiseDecisions(ctas, threads, tuple(reasons), order=order)
