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

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.plan import LaunchPlan
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.awaited_words import ALL_RESIDENT, RESIDENT
from tilewright.contract.claims import ProtocolClaims
from tilewright.contract.replay import replay
from tilewright.contract.typestate import protocol_claims
from tilewright.contract.unwritten import unwritten_buffers
from tilewright.driver.small import immediate_pairs, same_but_for_extents, small_instance
from tilewright.driver.small_groups import at_these_sizes, limits_of
from tilewright.frontends.ptx.ast import Module
from tilewright.frontends.ptx.reader import read
from tilewright.ir.tile_facts import the_program
from tilewright.lower.ac_to_ptx import lower_to_ptx
from tilewright.lower.plan import launch_plan
from tilewright.lower.tile_to_ac import lower_program


def reprove(program: ModuleOp, ptx: str | Module, target: str, name: str, seeds: tuple[int, ...] = (0,)) -> Verdict:
    """Judge `ptx`, the text of the decided `program`, perhaps already read, by running its small instance.

    A text that is not the small instance's but for extents is refuted.
    """
    instance = small_instance(program)
    lowered = lower_program(the_program(instance))
    modules = {item.name: item.module for item in lowered.kernels}
    small_text = lower_to_ptx(list(modules.values()), target)
    large = read(ptx, f"<{name}.ptx>") if isinstance(ptx, str) else ptx
    small = read(small_text, f"<{name}.small.ptx>")
    difference = same_but_for_extents(large, small, immediate_pairs(the_program(program), the_program(instance)))
    if difference:
        finding = Diagnostic(
            "LV090", "text-is-not-the-proven-text", f"the text differs from its small instance: {difference}"
        )
        return Refuted((finding,))
    claims = {entry: protocol_claims(module)[0] for entry, module in modules.items()}
    claims = at_these_sizes(instance, claims)
    return replay_plan(small, launch_plan(lowered), claims, seeds, limits_of(instance))


def replay_plan(
    module: Module,
    plan: LaunchPlan,
    claims: dict[str, ProtocolClaims],
    seeds: tuple[int, ...],
    contents: Mapping[str, NDArray[np.uint8]] | None = None,
) -> Verdict:
    """Judge every launch of a plan in order, on arrays of small random numbers but for those of `contents`."""
    random = np.random.default_rng(0)
    buffers: dict[str, np.ndarray] = {}
    for buffer in plan.buffers:
        bits = random.integers(0, 1 if buffer.zeroed else 64, size=max(1, buffer.span_bytes), dtype=np.uint8)
        buffers[buffer.name] = bits
        if contents is not None and buffer.name in contents:
            bits[: len(contents[buffer.name])] = contents[buffer.name]
    lines: list[str] = []
    assumptions: list[str] = []
    unwritten = unwritten_buffers(plan)
    for launch in plan.launches:
        verdict = replay(
            module, launch, buffers, claims=claims.get(launch.entry), seeds=seeds,
            restored=[buffer.name for buffer in plan.buffers if buffer.zeroed], unwritten=unwritten,
        )  # fmt: skip
        match verdict:
            case Proven() if {RESIDENT, ALL_RESIDENT} & set(verdict.assumptions):
                return Unknown((f"CTAs of {launch.entry} wait for others, and its launch does not say so",))
            case Proven():
                lines.extend(verdict.claims)
                assumptions.extend(verdict.assumptions)
            case Refuted() | Unknown():
                return verdict
    return Proven("this launch", tuple(assumptions), tuple(lines))
