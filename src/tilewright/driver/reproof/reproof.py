"""Does the emitted text do what the proof of its program says? Parsed afresh, run at a small size, judged by its
events.

The seam for foreign PTX: `contract.replay.replay` judges any text; here it is given the claims of the typestate proof
besides. What is run is a small instance of the same decisions, whose text is shown to be the large one but for extents.
Each of several programs that one was cut into is run so. Of what one hands over every element must be written, and
what lies between the rows of that array must not be read by the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from tilewright.base.collector import collector_paused
from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.plan import Buffer, Launch, LaunchPlan
from tilewright.base.run_time import plan_at
from tilewright.base.span import Span
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.judge.order.awaited_words import ALL_RESIDENT, RESIDENT
from tilewright.contract.judge.waits.unwaited_loads import unwaited_loads
from tilewright.contract.replay.named_at_exit import LeftArrivals
from tilewright.contract.replay.replay import replay
from tilewright.contract.replay.staged_bytes import StagedBytes
from tilewright.contract.replay.unwritten import unwritten_buffers
from tilewright.contract.rules.interpretations import Interpretations
from tilewright.contract.rules.text_codes import OTHER_TEXT
from tilewright.contract.sums.product_trace import ProductTrace
from tilewright.contract.typestate.claims import ProtocolClaims
from tilewright.contract.typestate.typestate import protocol_claims
from tilewright.driver.reproof.drawn_numbers import misnumbered_results
from tilewright.driver.reproof.judge_sums import judge_sums
from tilewright.driver.reproof.program_sums import ArrayAxes, ProgramSums, placed_arrays, program_sums
from tilewright.driver.reproof.result_values import misvalued_results
from tilewright.driver.reproof.small import (
    immediate_pairs,
    same_but_for_extents,
    small_extents,
    small_instance,
)
from tilewright.driver.reproof.small_groups import at_these_sizes, limits_of
from tilewright.driver.reproof.small_run_time import run_time_instances
from tilewright.driver.reproof.small_tables import only_places, table_contents
from tilewright.driver.reproof.small_text import read_beside
from tilewright.driver.reproof.step_bound import steps_most
from tilewright.driver.reproof.tile_places import miscounted_points, misplaced_at_run_time, misplaced_tiles
from tilewright.driver.reproof.whole_results import (
    outside_elements,
    results_in_groups,
    unwritten_results,
    whole_results,
)
from tilewright.frontends.ptx.ast import Module
from tilewright.frontends.ptx.reader import read
from tilewright.ir.decisions import ElementwiseDecisions, decisions_of
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import buffers, the_program
from tilewright.lower.plan import launch_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.machine.core.event import Access, Event
from tilewright.machine.core.model import model_of
from tilewright.machine.events_only.dropped_values import DroppedValues, ValueNeeded
from tilewright.machine.protocol.protocol_run import run_protocol
from tilewright.targets import target as facts_of

_INTERPRETATIONS = Interpretations(grid_wait=Level.ERROR)
"""Text of this compiler waits for the grids before it touches global memory; nothing is assumed of them."""


def reprove(
    program: ModuleOp, ptx: str, target: str, name: str, seeds: tuple[int, ...] = (0,), *, large: Module | None = None,
    lowered: str | None = None, slow: bool = False,
) -> Verdict:  # fmt: skip
    """Judge `ptx`, the text of the decided `program`, by running its small instance. large: what `read` made of it, if
    that is known; lowered: what `program` is lowered to, if the caller has just done so; slow: see `replay_plan`.

    A text that is not the small instance's but for extents is refuted, and so is one that is not, letter by letter,
    what the program is lowered to: the small text does not tell which of several extents belongs at a place where its
    own are equal. program: a module with one program, or with those that a program was cut into, in launch order.
    """
    large = large or read(ptx, f"<{name}.ptx>")
    programs = [ModuleOp([op.clone()]) for op in program.ops if isinstance(op, tile.ProgramOp)]
    handed = _handed_over(programs)
    if isinstance(handed, str):
        return Unknown((handed,))
    parts: list[Proven] = []
    for each in programs:
        verdict = _judge_instances(each, ptx, target, name, seeds, large, slow, handed)
        if not isinstance(verdict, Proven):
            return verdict
        parts.append(verdict)
    if lowered is None:
        kernels = [kernel for each in programs for kernel in lower_program(the_program(each)).kernels]
        lowered = lower_to_ptx([kernel.module for kernel in kernels], target)
    return _edited(ptx, lowered) or _all_of(parts)


def _handed_over(programs: Sequence[ModuleOp]) -> frozenset[str] | str:
    """The arrays that one program stores and later ones load; or, in words, why programs in this order do not hand
    over what they have in common."""
    known: dict[str, Buffer] = {}
    found: set[str] = set()
    for module in programs:
        for buffer in buffers(the_program(module)):
            before = known.setdefault(buffer.name, buffer)
            if before is not buffer and buffer.role == "output":
                return f"{buffer.name} is stored by a program after another has stored or loaded it"
            if (before.role, buffer.role) == ("output", "input"):
                if before.elements != buffer.elements:
                    return f"{buffer.name} is one array to a program that stores it and another to one that loads it"
                found.add(buffer.name)
    return frozenset(found)


def _all_of(parts: Sequence[Proven]) -> Proven:
    assumptions = tuple(dict.fromkeys(line for each in parts for line in each.assumptions))
    claims = tuple(dict.fromkeys(line for each in parts for line in each.claims))
    return Proven(parts[-1].scope, assumptions, claims)


def _edited(ptx: str, text: str) -> Refuted | None:
    """Where the text is not the program's. What is wrong in the lowering itself is not seen here."""
    if text == ptx:
        return None
    pairs = zip_longest(ptx.split("\n"), text.split("\n"), fillvalue="nothing")
    number, (given, own) = next((at, pair) for at, pair in enumerate(pairs, start=1) if pair[0] != pair[1])
    message = f"line {number} of the text is not what the program is lowered to: {given.strip()} against {own.strip()}"
    return Refuted((Diagnostic(OTHER_TEXT.code, OTHER_TEXT.name, message),))


def _judge_instances(
    program: ModuleOp, ptx: str, target: str, name: str, seeds: tuple[int, ...], large: Module, slow: bool,
    handed: frozenset[str],
) -> Verdict:  # fmt: skip
    """Of one program. large: the text, of other programs too; handed: arrays that programs hand over."""
    parts: list[Proven] = []
    run_time = bool(the_program(program).run_time)
    found = run_time_instances(the_program(program)) if run_time else (small_extents(the_program(program)),)
    for number, extents in enumerate(found):
        instance = small_instance(program, extents)
        verdict = _judge_instance(program, instance, large, ptx, target, name, seeds, slow, handed, places=not number)
        if not isinstance(verdict, Proven):
            return verdict
        parts.append(verdict)
    return _all_of(parts)


def _judge_instance(
    program: ModuleOp, instance: ModuleOp, large: Module, ptx: str, target: str, name: str, seeds: tuple[int, ...],
    slow: bool, handed: frozenset[str], *, places: bool,
) -> Verdict:  # fmt: skip
    """Of the product, or of the only kernel; what copies its operands first, if something does, has done so. A run-time
    axis has the instance's extent. places: work out those of all tiles too."""
    lowered = lower_program(the_program(instance))
    modules = {item.name: item.module for item in lowered.kernels}
    small_text = lower_to_ptx(list(modules.values()), target)
    large = replace(large, kernels=tuple(kernel for kernel in large.kernels if kernel.name in modules))
    small = read_beside(large, ptx, small_text, f"<{name}.small.ptx>")
    at = {axis: the_program(instance).extents[axis] for axis in the_program(instance).run_time}
    misvalued = misvalued_results(the_program(instance), modules.values())
    if misvalued:
        return Refuted(misvalued)
    # What a launch passes stands in neither text: of run-time axes no numbers may differ.
    likened = small_instance(program, {**the_program(instance).extents, **_largest(program)}) if at else instance
    difference = same_but_for_extents(large, small, immediate_pairs(the_program(program), the_program(likened)))
    if difference:
        return _another_text(difference)
    plan = plan_at(launch_plan(lowered), at)
    # The program's own proof has run its roles at boundary counts, and the instance's are the same but for extents.
    facts = facts_of(target)
    claims = {
        entry: protocol_claims(module, facts, boundaries=False, extents=at)[0] for entry, module in modules.items()
    }
    claims = at_these_sizes(instance, claims)
    limits = limits_of(instance)
    whole, kept = whole_results(the_program(instance)), results_in_groups(the_program(instance), limits)
    sums = program_sums(the_program(instance), limits)
    lost = {buffer.name for buffer in plan.buffers if buffer.role == "output"} & handed - whole
    if lost:
        return Unknown((f"whether every element of {min(lost)} is written, which is handed over, is not known",))
    held = handed & {buffer.name for buffer in plan.buffers if buffer.role == "input"}
    arrays = placed_arrays(the_program(instance), sums)
    misplaced = _misplaced(large, program, plan.launches[-1], arrays) if places else ()
    if isinstance(misplaced, str):
        return Unknown((misplaced,))
    if misplaced:
        return Refuted(misplaced)
    tables = table_contents(the_program(instance))
    verdict = replay_plan(
        small, plan, claims, seeds, {**limits, **tables}, whole, kept, held, sums, frozenset(tables), slow=slow
    )
    misnumbered = ()
    if isinstance(verdict, Proven):
        misnumbered = misnumbered_results(instance, small, plan, {**limits, **tables})
    return Refuted(misnumbered) if misnumbered else verdict


def _largest(program: ModuleOp) -> dict[str, int]:
    """The extents of run-time axes that a program's own numbers are of."""
    return {axis: values.most for axis, values in the_program(program).run_time.items()}


def _misplaced(
    large: Module, program: ModuleOp, launch: Launch, arrays: Mapping[str, ArrayAxes]
) -> tuple[Diagnostic, ...] | str:
    """arrays: of the small instance's."""
    if not the_program(program).run_time:
        return misplaced_tiles(large, the_program(program), launch, arrays)
    plan = launch_plan(lower_program(the_program(program)))
    if isinstance(decisions_of(the_program(program).attributes["decisions"]), ElementwiseDecisions):
        return miscounted_points(large, the_program(program), plan)
    return misplaced_at_run_time(large, the_program(program), plan, launch, arrays)


def _another_text(difference: str) -> Refuted:
    message = f"the text differs from its small instance: {difference}"
    return Refuted((Diagnostic(OTHER_TEXT.code, OTHER_TEXT.name, message),))


def replay_plan(
    module: Module,
    plan: LaunchPlan,
    claims: dict[str, ProtocolClaims],
    seeds: tuple[int, ...],
    contents: Mapping[str, NDArray[np.uint8]] | None = None,
    whole: frozenset[str] = frozenset(),
    kept: Mapping[str, NDArray[np.bool_]] | None = None,
    held: frozenset[str] = frozenset(),
    sums: ProgramSums | None = None,
    tables: frozenset[str] = frozenset(),
    *,
    slow: bool = False,
) -> Verdict:
    """Judge every launch of a plan in order, on arrays of small random numbers but for those of `contents`. whole:
    results of which every element must be written; kept: those of which some must be, and which; held: workspaces of
    which every element has been written when the first launch begins; sums: what the program multiplies; tables:
    arrays of `contents` that say where others are read, and must decide nothing else (`small_tables`).

    Without values that decide nothing, and so without those numbers: no array is filled whose contents are only moved.
    Where one of them would decide something, all launches are run again with all values, for what is wrong with these;
    if nothing is, that is unknown of others, unless what decides comes from registers alone, by way of memory, so that
    no array has a part in it (`machine.protocol.protocol_run`). The loads and stores of a stretch are reported as one
    (`machine.events_only.joined_accesses`), unless something is wrong. slow: nothing is left out and each access is
    reported by itself; the verdict must be the same (`bench.both_ways` asks for every product).

    A text that is still running after more steps than its program has work for (`step_bound`) is unknown, and so is one
    with a way around its waits for the grids before (`unwaited_loads`).
    """
    given = contents or {}
    made_up = {buffer.name for buffer in plan.buffers if not buffer.zeroed and buffer.name not in given}
    decides = ""

    def run(dropped: DroppedValues | None) -> Verdict:
        return _replay_plan(module, plan, claims, seeds, given, dropped, whole, kept or {}, held, sums)

    with collector_paused():
        try:
            dropped = None if slow else DroppedValues(set(made_up), joins=True)
            verdict = run(dropped)
            if dropped is not None and dropped.joined and not isinstance(verdict, Proven):
                # Whatever is wrong is reported of a run in which each access stands for itself.
                dropped = DroppedValues(made_up)
                verdict = run(dropped)
            if dropped is not None and dropped.kept:
                decides = "some number of an array"
        except ValueNeeded as needed:
            verdict = run(None)
            decides = f"what {needed} holds" if _arrays_decide(module, plan, given) else ""
    if decides and isinstance(verdict, Proven):
        return Unknown((f"{decides} may decide what the text does, and a run shows one case of that",))
    if isinstance(verdict, Proven) and tables and not only_places(module, plan, given, tables):
        return Unknown((f"what {', '.join(sorted(tables))} holds may decide more than where others are read",))
    if isinstance(verdict, Proven) and (early := _unwaited(module, plan)):
        return Unknown(tuple(f"{span}: a way leads here without griddepcontrol.wait" for span in early))
    return verdict


def _unwaited(module: Module, plan: LaunchPlan) -> list[Span]:
    """Loads that launches which begin early may issue before they have waited for those before, at whatever size."""
    early = {launch.entry for launch in plan.launches if launch.programmatic}
    return [span for kernel in module.kernels if kernel.name in early for span in unwaited_loads(kernel)]


def _arrays_decide(module: Module, plan: LaunchPlan, contents: Mapping[str, NDArray[np.uint8]]) -> bool:
    """Whether what some launch does may depend on what an array holds that is not of `contents`. Arrays of zeros are
    not known, since a launch may write there what others hold. What a protocol run lets off counts: whether and where
    global memory is loaded and stored decides what a result holds, and a branch may make a loop without an end."""
    buffers = {buffer.name: np.zeros(max(1, buffer.span_bytes), np.uint8) for buffer in plan.buffers}
    for name, data in contents.items():
        buffers[name][: len(data)] = data
    known, uncertain = frozenset(contents), list[Access]()

    def note(event: Event) -> None:
        if isinstance(event, Access) and event.uncertain:
            uncertain.append(event)

    reports = [run_protocol(module, launch, buffers, observe=note, known_buffers=known) for launch in plan.launches]
    certain = all(report.certain and not report.branches and report.fault is None for report in reports)
    return not certain or bool(uncertain)


def _replay_plan(
    module: Module,
    plan: LaunchPlan,
    claims: dict[str, ProtocolClaims],
    seeds: tuple[int, ...],
    contents: Mapping[str, NDArray[np.uint8]],
    dropped: DroppedValues | None,
    whole: frozenset[str],
    kept: Mapping[str, NDArray[np.bool_]],
    held: frozenset[str],
    sums: ProgramSums | None,
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
    unwritten.ranges |= {buffer.name: outside_elements(buffer) for buffer in plan.buffers if buffer.name in held}
    products, arrivals, staged = ProductTrace(model_of(module)), LeftArrivals(), StagedBytes()
    watchers = (products, arrivals, staged) if sums is not None else (arrivals, staged)
    for launch in plan.launches:
        verdict = replay(
            module, launch, buffers, claims=claims.get(launch.entry), seeds=seeds,
            restored=[buffer.name for buffer in plan.buffers if buffer.zeroed], unwritten=unwritten,
            dropped=dropped, interpretations=_INTERPRETATIONS, watchers=watchers, shared_high=True,
            step_limit=steps_most(module, launch, plan, claims.get(launch.entry)),
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
    missing += arrivals.findings() + staged.findings()
    if sums is not None:
        missing += judge_sums(products, sums, {name: data.size for name, data in buffers.items()})
    return Refuted(missing) if missing else Proven("this launch", tuple(assumptions), tuple(lines))
