"""How a tile program becomes a proven, assembled program: trace, decide, lower, prove, emit, prove again and assemble.

What is decided first is how many kernels it becomes (`driver.compile.sequence`): each is a program of its own from then
on, decided, lowered and proved by itself, and they are emitted as one text and launched by one plan. Each step is a
call of the floor that owns it, timed; the assembler is at work while the text is proved (`driver.compile.assembling`).
A program that either proof refutes, or cannot decide, is not handed out: it would be a fault of this compiler, and the
findings say where. One whose registers spill is decided anew (`driver.compile.spills`).
Checked by: tests/end_to_end/test_gemm.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from xdsl.dialects.builtin import ModuleOp

from tilewright.base.collector import collector_paused
from tilewright.base.element import Element, element_of
from tilewright.base.error import TilewrightError, Undecided
from tilewright.base.plan import LaunchPlan, TensorMapParam
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.typestate.claims import ProtocolClaims
from tilewright.contract.typestate.typestate import judge
from tilewright.driver.compile.assembling import assembling, is_known_to_spill
from tilewright.driver.compile.predicted import predicted_microseconds
from tilewright.driver.compile.sequence import Part, decided, decided_anew, joined, launched, sequence, settled
from tilewright.driver.compile.spills import Spilled, spilled, without_spills
from tilewright.driver.reproof.address_proof import OtherAddress, StagedStore, staged_stores
from tilewright.driver.reproof.reproof import reprove
from tilewright.frontends.ptx.reader import read
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.shapes import Dims
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.cascade_facts import contractions
from tilewright.ir.decisions import (
    Decisions,
    ElementwiseDecisions,
    decisions_of,
    to_json,
    turned_arrays,
)
from tilewright.ir.refinement import DEFAULT_ALIGNMENT_BYTES
from tilewright.ir.tile.axes import base_axis
from tilewright.ir.tile.facts import axes_of, dots, grid_axes, parameter_name, the_program
from tilewright.ir.tile.types import tensor_type
from tilewright.lower.plan import sequence_plan
from tilewright.lower.ptx.ac_to_ptx import lower_to_ptx
from tilewright.lower.tile_to_ac import lower_program
from tilewright.runtime.assemble import Assembly, find_ptxas
from tilewright.runtime.bundle import Bundle, tilewright_version
from tilewright.synth.decide import Wanted
from tilewright.synth.operand.demanded_maps import check_demanded_maps
from tilewright.targets import Target
from tilewright.targets import target as target_named

Progress = Callable[[str], None]


@dataclass(slots=True)
class _Clock:
    """Seconds of each step, and who hears that one begins."""

    progress: Progress | None
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def step(self, name: str) -> _Step:
        if self.progress is not None:
            self.progress(name)
        return _Step(self, name)


@dataclass(slots=True)
class _Step:
    clock: _Clock
    name: str
    begin: float = 0.0

    def __enter__(self) -> None:
        self.begin = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.clock.seconds[self.name] = time.perf_counter() - self.begin


@dataclass(frozen=True, slots=True)
class Compilation:
    """Everything that came of compiling one program.

    source: the program as its author wrote it, over the plan's arrays; parts: the programs that it was given, one for
    each kernel, in launch order; modules: the ac kernels by entry name; proof: of the ac kernels, for all trip counts;
    text_proof: of the PTX as run at a small size; staged: whether what the PTX stages for bulk stores lies where their
    maps expect it, where the text was proved; assembly: None where `assemble` was not wanted; seconds: by step, in
    order, of "assemble" what is still waited for the assembler after the proofs, beside which it runs.
    """

    name: str
    target: str
    source: ModuleOp
    parts: tuple[Part, ...]
    modules: Mapping[str, ModuleOp]
    claims: Mapping[str, ProtocolClaims]
    proof: Proven
    text_proof: Proven | None
    staged: tuple[StagedStore, ...]
    ptx: str
    plan: LaunchPlan
    assembly: Assembly | None
    seconds: Mapping[str, float]

    @property
    def tile(self) -> ModuleOp:
        """The decided programs, in launch order."""
        return joined([part.module for part in self.parts])

    @property
    def decisions(self) -> Decisions:
        """Of the program, or of the last of several. A program that stores nothing has none."""
        return self.parts[-1].decisions

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What both proofs take for granted, each once."""
        text = self.text_proof.assumptions if self.text_proof is not None else ()
        return tuple(dict.fromkeys((*self.proof.assumptions, *text)))

    def bundle(self) -> Bundle:
        """The deployable part."""
        facts: dict[str, object] = {
            "tile": str(self.source),
            "operations": operations_of(self.source),
            "verdict": "proven",
            "scope": self.proof.scope,
            "assumptions": list(self.assumptions),
            "claims": list(self.proof.claims),
            "text": "proven for the small instance" if self.text_proof is not None else "not run",
            "staged": [str(each) for each in self.staged],
            "seconds": dict(self.seconds),
            "alignment_bytes": self._alignments(),
        }
        if not self.parts:
            facts |= {"text": "empty: nothing is launched"}
        if self.assembly is not None:
            facts["assembler"] = self.assembly.version
            facts["registers"] = self.assembly.registers
            facts["spill_bytes"] = self.assembly.spill_bytes
        target = target_named(self.target)
        predicted = [predicted_microseconds(the_program(part.module), part.decisions, target) for part in self.parts]
        known = [time for time in predicted if time is not None]
        if len(known) == len(self.parts):
            facts["predicted_microseconds"] = round(sum(known), 3)
        decisions = [to_json(part.decisions) for part in self.parts]
        return Bundle(
            self.name,
            self.target,
            self.plan,
            self.ptx,
            self.assembly.cubin if self.assembly is not None else None,
            facts,
            decisions[0] if len(decisions) == 1 else {"programs": decisions},
            tilewright_version(),
        )

    def _alignments(self) -> dict[str, int]:
        """Of the caller's arrays."""
        given = {name.data for name in the_program(self.source).parameters}
        found: dict[str, int] = {}
        for part in self.parts:
            for name, alignment in alignments_of(part.module, self.plan).items():
                found |= {name: max(alignment, found.get(name, 0))} if name in given else {}
        return found


@collector_paused()
def compile_kernel(
    kernel: Kernel,
    *,
    target: str = "sm_90a",
    dims: Dims,
    dtype: str | Element | Mapping[str, str | Element] = "bf16",
    strides: Mapping[str, tuple[int, ...]] | None = None,
    wanted: Wanted | None = None,
    rerun: bool = True,
    assembled: bool = True,
    progress: Progress | None = None,
) -> Compilation:
    """Compile `kernel` for fixed extents, elements and strides.

    dims: extent of every axis, or its range where only a launch knows it; dtype: of all parameters, or by parameter
    (bf16 where unnamed); strides: in elements, of parameters that are not row-major. rerun: prove the emitted text
    again by running a small instance. Raises TilewrightError for anything a user can fix, and for a kernel that does
    not prove or whose registers spill.
    """
    wanted = wanted or Wanted()
    if assembled:
        find_ptxas()  # that there is none is better said before the proofs than after
    once = partial(
        _compile_once, kernel, target=target, dims=dims, dtype=dtype, strides=strides, wanted=wanted, rerun=rerun,
        assembled=assembled, progress=progress,
    )  # fmt: skip
    return _kept_in_registers(once, wanted, rerun=rerun)


def _kept_in_registers(once: Callable[..., Compilation], wanted: Wanted, *, rerun: bool) -> Compilation:
    """The first compilation that does not spill. Raises Spilled where there is none."""
    revised: dict[str, Wanted] = {}
    compilation = once(revised=revised)
    while (part := _first_that_spills(compilation)) is not None:
        before = revised.get(part.name, wanted)
        if before.stream_k is None and _streams(part):
            # Loops over parts of tiles take registers that whole tiles leave.
            revised = {**revised, part.name: replace(before, stream_k=False)}
            compilation = once(revised=revised)
            continue
        try:
            compilation, revised = _without_spills(once, compilation, part, revised, before, rerun=rerun)
        except Spilled as refusal:
            if before.cut is not None:
                raise
            # What is too much for one kernel's threads may be handed over.
            revised = {**revised, part.name: replace(wanted, cut=True)}
            try:
                compilation = once(revised=revised)
            except TilewrightError:
                raise refusal from None
    if compilation.assembly is not None and compilation.assembly.spill_bytes:
        # Of what no part names as its kernel: its text was not proved.
        raise spilled(compilation.name, compilation.ptx, compilation.assembly.spill_bytes)
    return compilation


def _without_spills(
    once: Callable[..., Compilation],
    compilation: Compilation,
    part: Part,
    revised: Mapping[str, Wanted],
    wanted: Wanted,
    *,
    rerun: bool,
) -> tuple[Compilation, dict[str, Wanted]]:
    """The compilation with another tile for one of its programs, whose kernels spill, and all overrides that it has.
    Raises Spilled where no tile keeps its registers."""
    spill_bytes = _spilled_bytes(compilation, part)
    target = target_named(compilation.target)
    tried = [part.decisions]
    for wish in without_spills(part.decisions, wanted, spill_bytes, target):
        wishes = {**revised, part.name: wish}
        try:
            found = decided(part.traced, target, wish).decisions
            if found in tried:
                continue  # one that the program leaves no choice of
            tried.append(found)
            # Proved only once it is known not to spill.
            other = once(revised=wishes, rerun=False)
            if rerun and _first_that_spills(other) is None:
                other = once(revised=wishes)
        except Undecided:
            raise
        except TilewrightError as error:
            if error.findings:
                raise
            continue  # a tile that does not suit the program's arrays or memory
        if all(_spilled_bytes(other, each) == 0 for each in other.parts if each.name == part.name):
            return other, wishes
    raise spilled(compilation.name, compilation.ptx, spill_bytes)


def _spilled_bytes(compilation: Compilation, part: Part) -> int:
    """Of a thread's registers, by the kernels of one of the programs."""
    if compilation.assembly is None:
        return 0
    found = [
        each for each in compilation.assembly.functions if each.name in part.entries or len(compilation.parts) == 1
    ]
    return sum(each.spill_store_bytes + each.spill_load_bytes for each in found)


def _first_that_spills(compilation: Compilation) -> Part | None:
    return next((part for part in compilation.parts if _spilled_bytes(compilation, part)), None)


def _streams(part: Part) -> bool:
    decisions = part.decisions
    return isinstance(decisions, CascadeDecisions) and decisions.stream is not None


def _compile_once(
    kernel: Kernel,
    *,
    target: str,
    dims: Dims,
    dtype: str | Element | Mapping[str, str | Element],
    strides: Mapping[str, tuple[int, ...]] | None,
    wanted: Wanted,
    revised: Mapping[str, Wanted],
    rerun: bool,
    assembled: bool,
    progress: Progress | None,
) -> Compilation:
    """`compile_kernel` with one configuration, spilling or not. revised: overrides of single programs, by name."""
    facts = target_named(target)
    clock = _Clock(progress)
    kernel, wanted = aligned(kernel, elements_of(kernel, dtype), wanted)
    with clock.step("trace"):
        source = trace(kernel, dims, elements_of(kernel, dtype), strides)
    demanded = tuple(item.name for item in kernel.parameters if item.by_map)
    with clock.step("decide"):
        wanted = replace(wanted, mapped=demanded)
        parts = sequence(source, facts, wanted)
        if revised:
            wishes = {name: replace(each, mapped=demanded) for name, each in revised.items()}
            parts = launched(decided_anew(parts, facts, wishes), facts, wanted)
        parts = [settled(part, wanted) for part in parts]
        for part in parts:
            program = the_program(part.module)
            own = {name.data for name in program.parameters}
            check_demanded_maps(program, part.decisions, facts, tuple(name for name in demanded if name in own))
    with clock.step("lower"):
        lowered = [lower_program(the_program(part.module)) for part in parts]
        parts = [
            replace(part, entries=tuple(kernel.name for kernel in each.kernels))
            for part, each in zip(parts, lowered, strict=True)
        ]
        modules = {item.name: item.module for each in lowered for item in each.kernels}
    with clock.step("prove"):
        proof, claims = prove_modules(kernel.name, modules, facts)
    with clock.step("emit"):
        ptx = lower_to_ptx(list(modules.values()), target)
        plan = sequence_plan(the_program(source), lowered, [part.launched for part in parts])
    assembly: Assembly | None = None
    text_proof: Proven | None = None
    staged: tuple[StagedStore, ...] = ()
    with assembling(ptx, target, kernel.name, wanted=assembled and bool(parts)) as pending:
        try:
            if rerun and parts:
                with clock.step("prove addresses"):
                    turned = frozenset[str]().union(*(turned_arrays(part.decisions) for part in parts))
                    text = read(ptx, f"<{kernel.name}.ptx>")
                    staged = accept_addresses(staged_stores(text, plan.launches, turned), kernel.name)
                with clock.step("prove text"):
                    for together in dict.fromkeys(part.launched for part in parts):
                        programs = joined([part.module for part in parts if part.launched == together])
                        verdict = reprove(programs, ptx, target, kernel.name, large=text, lowered=ptx)
                        text_proof = accept(verdict, f"the emitted text of {kernel.name}")
        except TilewrightError:
            if not is_known_to_spill(pending):
                raise
        if pending is not None:
            with clock.step("assemble"):
                assembly = pending.result()
    if is_known_to_spill(pending):
        # Not handed out, whatever was proved of it.
        text_proof, staged = None, ()
    return Compilation(
        kernel.name, target, source, tuple(parts), modules, claims, proof, text_proof, staged, ptx, plan, assembly,
        clock.seconds,
    )  # fmt: skip


def aligned(kernel: Kernel, elements: Mapping[str, Element], wanted: Wanted) -> tuple[Kernel, Wanted]:
    """The kernel and the wishes, both with the arrays that begin where no tensor map may: those that the caller found
    so, and those of which the author promises no more."""
    loose = {
        item.name
        for item in kernel.parameters
        if item.alignment_bytes is not None and item.alignment_bytes < DEFAULT_ALIGNMENT_BYTES
    }
    parameters = tuple(
        replace(item, alignment_bytes=dict(wanted.aligned).get(item.name, elements[item.name].bytes))
        if item.name in wanted.misaligned and item.name not in loose
        else item
        for item in kernel.parameters
    )
    names = tuple(item.name for item in parameters if item.name in loose or item.name in wanted.misaligned)
    return replace(kernel, parameters=parameters), replace(wanted, misaligned=names)


def alignments_of(module: ModuleOp, plan: LaunchPlan) -> dict[str, int]:
    """Bytes of which the address of a parameter must be a multiple, where it matters: by promise, for its map, or for
    accesses of several elements."""
    program = the_program(module)
    decisions = decisions_of(program.attributes["decisions"])
    turned = decisions.transpose if isinstance(decisions, ElementwiseDecisions) else ()
    vectors = any(max(each.stored_run, each.loaded_run) > 1 for each in turned)
    vectors |= isinstance(decisions, ElementwiseDecisions) and decisions.run > 1
    in_vectors: set[str] = set()
    if isinstance(decisions, CascadeDecisions):
        in_vectors = {*decisions.in_vectors, *decisions.paired_loads}
        in_vectors |= {*(name for each in decisions.grouping for name in each.vectors)}
        in_vectors |= {slot.buffer for slot in decisions.slots if slot.piece_bytes}
    mapped = {param.buffer for launch in plan.launches for param in launch.params if isinstance(param, TensorMapParam)}
    found: dict[str, int] = {}
    for argument in program.body.block.args:
        name, alignment = parameter_name(program, argument), tensor_type(argument).refinement.alignment_bytes
        if vectors or name in mapped | in_vectors or alignment != DEFAULT_ALIGNMENT_BYTES:
            found[name] = alignment
    return found


def operations_of(module: ModuleOp) -> int:
    """Multiply-adds counted twice, or one per point of the grid for a program without dot."""
    program = the_program(module)
    extents = program.extents
    products = [*dots(program), *contractions(program)]
    if not products:
        return math.prod(extents[axis] for axis in grid_axes(program))
    spans = [{base_axis(axis) for axis in (*axes_of(each.left), *axes_of(each.right))} for each in products]
    return sum(2 * math.prod(extents[axis] for axis in span) for span in spans)


def prove_modules(
    name: str, modules: Mapping[str, ModuleOp], facts: Target
) -> tuple[Proven, dict[str, ProtocolClaims]]:
    """Typestate proof of every kernel of a program for a target with these facts, with the claims of those that have a
    protocol."""
    lines: list[str] = []
    assumptions: dict[str, None] = {}
    claims: dict[str, ProtocolClaims] = {}
    for entry, module in modules.items():
        verdict, promised = judge(module, facts)
        proven = accept(verdict, f"kernel {entry} of {name}")
        lines.extend(proven.claims)
        assumptions.update(dict.fromkeys(proven.assumptions))
        (claims[entry],) = promised
    return Proven("all trip counts", tuple(assumptions), tuple(lines)), claims


def accept(verdict: Verdict, what: str) -> Proven:
    """The proof, or the error that says why there is none."""
    match verdict:
        case Proven():
            return verdict
        case Refuted(findings):
            first = findings[0]
            raise TilewrightError(
                f"{what} is refuted: {first.code} {first.message}",
                span=first.primary,
                remedy="this is a fault of the compiler; please report the program",
                findings=findings,
            )
        case Unknown(reasons):
            raise Undecided(f"{what} is not proved: {'; '.join(reasons)}")


def accept_addresses(staged: tuple[StagedStore, ...], what: str) -> tuple[StagedStore, ...]:
    """The verdicts, of which none is a counterexample: it would be a fault of this compiler. Raises TilewrightError."""
    for each in staged:
        if isinstance(each.verdict, OtherAddress):
            raise TilewrightError(
                f"the text of {what} stages elements where {each.map_name} does not expect them: {each.verdict}",
                span=each.verdict.span,
                remedy="this is a fault of the compiler; please report the program",
            )
    return staged


def elements_of(kernel: Kernel, dtype: str | Element | Mapping[str, str | Element]) -> dict[str, Element]:
    """The element of every parameter. Raises TilewrightError for an unknown dtype or parameter."""
    fixed = {parameter.name: parameter.element for parameter in kernel.parameters}
    names = list(fixed)
    given = dtype if isinstance(dtype, Mapping) else {name: dtype for name in names if fixed[name] is None}
    elements = {name: element or Element.BF16 for name, element in fixed.items()}
    for name, value in given.items():
        if name not in elements:
            raise TilewrightError(f"{kernel.name} has no parameter {name}", remedy=f"it has {', '.join(names)}")
        element = element_of(value)
        if element is None:
            raise TilewrightError(f"unknown dtype {value!r}", remedy="use bf16, f16, f32, f8e4m3, f8e5m2 or i8")
        elements[name] = element
    return elements
