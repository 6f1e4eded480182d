"""Does the emitted text do what the proof of its program says? Parsed afresh, run at a small size, judged by its
events.

The seam for foreign PTX: `contract.replay` judges any text; here it is given the claims of the typestate proof
besides. What is run is a small instance of the same decisions, whose text is shown to be the large one but for extents.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.plan import LaunchPlan
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.awaited_words import ALL_RESIDENT, RESIDENT
from tilewright.contract.claims import ProtocolClaims
from tilewright.contract.readings import Readings
from tilewright.contract.replay import replay
from tilewright.contract.typestate import protocol_claims
from tilewright.contract.unwritten import unwritten_buffers
from tilewright.driver.collector import collector_paused
from tilewright.driver.small import immediate_pairs, same_but_for_extents, small_instance
from tilewright.driver.small_groups import at_these_sizes, limits_of
from tilewright.driver.small_text import read_beside
from tilewright.driver.whole_results import results_in_groups, unwritten_results, whole_results
from tilewright.frontends.ptx.ast import Module
from tilewright.frontends.ptx.reader import read
from tilewright.ir.tile_facts import the_program
from tilewright.lower.ac_to_ptx import lower_to_ptx
from tilewright.lower.plan import launch_plan
from tilewright.lower.tile_to_ac import lower_program
from tilewright.machine.dropped_values import DroppedValues, ValueNeeded

_READINGS = Readings(grid_wait=Level.ERROR)
"""Text of this compiler waits for the grids before it touches global memory; nothing is assumed of them."""


def reprove(
    program: ModuleOp, ptx: str, target: str, name: str, seeds: tuple[int, ...] = (0,), *, large: Module | None = None
) -> Verdict:
    """Judge `ptx`, the text of the decided `program`, by running its small instance. large: what `read` made of it, if
    that is known.

    A text that is not the small instance's but for extents is refuted.
    """
    instance = small_instance(program)
    lowered = lower_program(the_program(instance))
    modules = {item.name: item.module for item in lowered.kernels}
    small_text = lower_to_ptx(list(modules.values()), target)
    large = large or read(ptx, f"<{name}.ptx>")
    small = read_beside(large, ptx, small_text, f"<{name}.small.ptx>")
    difference = same_but_for_extents(large, small, immediate_pairs(the_program(program), the_program(instance)))
    if difference:
        finding = Diagnostic(
            "LV090", "text-is-not-the-proven-text", f"the text differs from its small instance: {difference}"
        )
        return Refuted((finding,))
    # The program's own proof has run its roles at boundary counts, and the instance's are the same but for extents.
    claims = {entry: protocol_claims(module, boundaries=False)[0] for entry, module in modules.items()}
    claims = at_these_sizes(instance, claims)
    limits = limits_of(instance)
    whole, kept = whole_results(the_program(instance)), results_in_groups(the_program(instance), limits)
    return replay_plan(small, launch_plan(lowered), claims, seeds, limits, whole, kept)


def replay_plan(
    module: Module,
    plan: LaunchPlan,
    claims: dict[str, ProtocolClaims],
    seeds: tuple[int, ...],
    contents: Mapping[str, NDArray[np.uint8]] | None = None,
    whole: frozenset[str] = frozenset(),
    kept: Mapping[str, NDArray[np.bool_]] | None = None,
) -> Verdict:
    """Judge every launch of a plan in order, on arrays of small random numbers but for those of `contents`. whole:
    results of which every element must be written; kept: those of which some must be, and which.

    At first without values that decide nothing, and so without those numbers: no array is filled whose contents are
    only moved. Where one of them would decide something, all launches are run again with all values.
    """
    given = contents or {}
    made_up = {buffer.name for buffer in plan.buffers if not buffer.zeroed and buffer.name not in given}
    with collector_paused():
        try:
            return _replay_plan(module, plan, claims, seeds, given, DroppedValues(made_up), whole, kept or {})
        except ValueNeeded:
            return _replay_plan(module, plan, claims, seeds, given, None, whole, kept or {})


def _replay_plan(
    module: Module,
    plan: LaunchPlan,
    claims: dict[str, ProtocolClaims],
    seeds: tuple[int, ...],
    contents: Mapping[str, NDArray[np.uint8]],
    dropped: DroppedValues | None,
    whole: frozenset[str],
    kept: Mapping[str, NDArray[np.bool_]],
) -> Verdict:
    random = np.random.default_rng(0)
    buffers: dict[str, np.ndarray] = {}
    for buffer in plan.buffers:
        size = max(1, buffer.span_bytes)
        filled = dropped is None and not buffer.zeroed
        bits = random.integers(0, 64, size=size, dtype=np.uint8) if filled else np.zeros(size, np.uint8)
        buffers[buffer.name] = bits
        if buffer.name in contents:
            bits[: len(contents[buffer.name])] = contents[buffer.name]
    lines: list[str] = []
    assumptions: list[str] = []
    unwritten = unwritten_buffers(plan)
    for launch in plan.launches:
        verdict = replay(
            module, launch, buffers, claims=claims.get(launch.entry), seeds=seeds,
            restored=[buffer.name for buffer in plan.buffers if buffer.zeroed], unwritten=unwritten,
            dropped=dropped, readings=_READINGS,
        )  # fmt: skip
        match verdict:
            case Proven() if {RESIDENT, ALL_RESIDENT} & set(verdict.assumptions):
                return Unknown((f"CTAs of {launch.entry} wait for others, and its launch does not say so",))
            case Proven():
                lines.extend(verdict.claims)
                assumptions.extend(verdict.assumptions)
            case Refuted() | Unknown():
                return verdict
    missing = unwritten_results(plan, unwritten, whole | kept.keys(), kept)
    return Refuted(missing) if missing else Proven("this launch", tuple(assumptions), tuple(lines))
