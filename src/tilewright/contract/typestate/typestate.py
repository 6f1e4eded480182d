"""Is the asynchronous protocol of an `ac` program free of hangs and races, for every trip count?

The proof has five parts, each of which can only add findings or doubts; no finding and no doubt is `Proven`.
1. `program` and `resources`: declarations, set-up order, shared memory, threads, registers. Arithmetic.
2. `walk` with its steps: abstract interpretation of each role at a general iteration of its loops, an induction over
trip counts. Linear tokens, bytes, parities in order, groups retired, staging reused in time.
3. `rings`, `patterns`: projected on each ring, the roles' events must be equal as polynomials in the symbols, so for
   all values; `tile_ranges` says why also where each tile has its own.
4. `liveness`: no circle of waits, since every cycle of the event graph holds a token.
5. `token_machine`: the same roles run with real counters, parities and bytes at boundary counts (minimum, 1, S - 1, S,
   S + 1, 2 S + 1 and tiles 0 to 3). It must agree: it refutes what 1 to 4 could not decide, gives short runs, and
   catches the checker itself contradicting its own argument.
Interleavings: roles meet only at monotone counters (a phase, once complete, stays complete), each wait's outcome
depends on nothing else, so all interleavings reach the same states and one run at each count stands for all of them.

Types and operation names are not trusted: everything is derived again from operations and their properties. Anything
not understood is a doubt, and a doubt is `Unknown`.

Not handled: conditionals, generic reads of ring slots but for operands (`steps.register_operand`, `steps.remade`),
roles that fill by plain stores (copies by threads, `steps.async_copy`, are).
Checked by: tests/contract/typestate/test_typestate*.py (correct kernels proven, each mutant refuted by its code), and
by the second proof of the emitted text, which shares none of this code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from xdsl.dialects.builtin import ModuleOp

from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.typestate.claims import ProtocolClaims, RingClaim, RoleClaim, StoreClaim
from tilewright.contract.typestate.cycles.patterns import Patterns, shared_sides
from tilewright.contract.typestate.cycles.rings import CIRCLE, check_roles, fill_sites, filling_of
from tilewright.contract.typestate.finding import Findings, Places, ordinal_places
from tilewright.contract.typestate.launch_order import check_launch_order, launch_order_step
from tilewright.contract.typestate.pairs import check_pairs, led_side
from tilewright.contract.typestate.places.array_parts import array_step
from tilewright.contract.typestate.program import Kernel, Ring
from tilewright.contract.typestate.read_program import read_kernel
from tilewright.contract.typestate.resources import check_resources
from tilewright.contract.typestate.run_time_sizes import are_understood
from tilewright.contract.typestate.runs.boundary_counts import run_boundary_counts
from tilewright.contract.typestate.steps.async_copy import async_copy_step
from tilewright.contract.typestate.steps.box_prefetch import box_prefetch_step
from tilewright.contract.typestate.steps.epilogue import epilogue_step
from tilewright.contract.typestate.steps.fragment import fragment_step
from tilewright.contract.typestate.steps.group import check_group_orders, enter_group_loop, group_step
from tilewright.contract.typestate.steps.handed import check_handed, handed_step, tiles_handed, work_ring
from tilewright.contract.typestate.steps.index_load import index_load_step
from tilewright.contract.typestate.steps.issue_order import issue_order_step, wait_with_the_turn
from tilewright.contract.typestate.steps.promotion import promotion_step
from tilewright.contract.typestate.steps.register_operand import register_operand_step
from tilewright.contract.typestate.steps.remade import remade_step
from tilewright.contract.typestate.steps.ring import ring_step
from tilewright.contract.typestate.steps.rows import fold_claims
from tilewright.contract.typestate.steps.split import meeting_claims, split_step
from tilewright.contract.typestate.steps.staging import finish_role
from tilewright.contract.typestate.steps.stream import check_streams, stream_claim, stream_step
from tilewright.contract.typestate.steps.team import check_teams, team_step
from tilewright.contract.typestate.steps.tensor_core import tensor_core_step
from tilewright.contract.typestate.steps.tensor_memory import finish_tensor_memory, tensor_memory_step
from tilewright.contract.typestate.steps.tensor_slots import check_warp_rows, tensor_slot_step
from tilewright.contract.typestate.steps.turn import take_turns, turn_claims, turn_step
from tilewright.contract.typestate.summary import RoleSummary
from tilewright.contract.typestate.tensor_setup import check_tensor_memory, has_instructions, product_claim
from tilewright.contract.typestate.tile_ranges import check_ranges, of_tiles, range_claim, range_step
from tilewright.contract.typestate.walk import RoleWalk
from tilewright.contract.typestate.well_formed import is_well_formed
from tilewright.ir.ac import operations as ac
from tilewright.targets import Target

SCOPE = "all trip counts"
ASSUMPTIONS = (
    "dynamic shared memory begins at a multiple of 1024 bytes",
    "emission implements each operation as the dialect defines it",
    "every tensor map and global array lies within the memory that the launch gives it, apart from all others",
)
"""What the proof takes for granted; the second proof, of the emitted text, does not."""


_LARGEST: Mapping[str, int] = MappingProxyType({})
"""Extents of no run-time axis: each has its largest."""


def verify(module: ModuleOp, facts: Target, source: Places | None = None) -> Verdict:
    """The verdict on every kernel of `module`, for a target with these facts.

    source: where an operation stands, for findings; without it a place is an ordinal in the module.
    """
    return judge(module, facts, source)[0]


def protocol_claims(
    module: ModuleOp, facts: Target, *, boundaries: bool = True, extents: Mapping[str, int] = _LARGEST
) -> tuple[ProtocolClaims, ...]:
    """What each kernel of a proven module promises. boundaries: run its roles at boundary counts as well, which need
    not be done again for a module that differs in extents alone from one that was proved; extents: of run-time axes, at
    which it is said how long tiles are that differ, the largest of those not given.

    Raises TilewrightError, with the findings, if the module is not proven.
    """
    verdict, claims = judge(module, facts, boundaries=boundaries, extents=extents)
    match verdict:
        case Proven():
            return claims
        case Refuted(findings):
            first = findings[0]
            raise TilewrightError(
                f"{first.code} {first.message}", span=first.primary, remedy="fix the program", findings=findings
            )
        case Unknown(reasons):
            raise TilewrightError(f"not proven: {reasons[0]}", remedy="restructure what is not understood")


def judge(
    module: ModuleOp,
    facts: Target,
    source: Places | None = None,
    *,
    boundaries: bool = True,
    extents: Mapping[str, int] = _LARGEST,
) -> tuple[Verdict, tuple[ProtocolClaims, ...]]:
    """Both of the above: the verdict, and what each kernel promises, where it is proven."""
    findings = Findings(source or ordinal_places(module))
    claims: list[ProtocolClaims] = []
    if not is_well_formed(module, findings) or not are_understood(module, findings):
        return Unknown(tuple(findings.doubts)), ()
    for op in module.body.block.ops:
        if isinstance(op, ac.KernelOp):
            found = _judge_kernel(op, facts, findings, extents, boundaries=boundaries)
            claims += [] if found is None else [found]
        else:
            findings.doubt("is not understood in a module", op)
    if not claims and not findings.found:
        findings.doubt("the module has no ac.kernel")
    if findings.found:
        return Refuted(tuple(findings.found)), ()
    if findings.doubts:
        return Unknown(tuple(findings.doubts)), ()
    lines = tuple(line for claim in claims for line in claim.lines())
    return Proven(SCOPE, (*ASSUMPTIONS, *findings.assumptions), lines), tuple(claims)


_STEPS = (
    ring_step,
    async_copy_step,
    tensor_core_step,
    split_step,
    promotion_step,
    issue_order_step,
    register_operand_step,
    fragment_step,
    remade_step,
    array_step,
    index_load_step,
    box_prefetch_step,
    epilogue_step,
    group_step,
    turn_step,
    stream_step,
    team_step,
    launch_order_step,
    range_step,
    handed_step,
    tensor_memory_step,
    tensor_slot_step,
)


def _judge_kernel(
    op: ac.KernelOp, facts: Target, findings: Findings, extents: Mapping[str, int], *, boundaries: bool
) -> ProtocolClaims | None:
    """What a kernel promises; None, with a finding, of one that is refuted."""
    kernel = read_kernel(op, facts, findings)
    check_resources(kernel, findings)
    check_tensor_memory(kernel, findings)
    check_pairs(kernel, findings)
    if not has_instructions(kernel, findings):
        return None
    check_group_orders(kernel, findings)
    check_streams(kernel, findings)
    check_teams(kernel, findings)
    check_launch_order(kernel, findings)
    shared = shared_sides(kernel)
    check_handed(kernel, findings)
    # Of answers every role takes each.
    check_ranges(kernel, shared - {(work_ring(kernel), "full")}, findings)
    summaries: list[RoleSummary] = []
    for role in kernel.roles:
        walk = RoleWalk(kernel, role, findings, _STEPS, enter_group_loop, take_turns, shared, RoleSummary(role))
        summaries.append(walk.run_role())
        wait_with_the_turn(walk)
        finish_role(walk)
        finish_tensor_memory(walk)
        check_warp_rows(walk)
    patterns = check_roles(kernel, summaries, shared, findings)
    if boundaries:
        run_boundary_counts(kernel, findings, large=any(CIRCLE in doubt for doubt in findings.doubts))
    return None if findings.found else _claims(kernel, summaries, patterns, findings, extents)


def _claims(
    kernel: Kernel, summaries: list[RoleSummary], patterns: Patterns, findings: Findings, extents: Mapping[str, int]
) -> ProtocolClaims:
    claims = _in_tiles(kernel, _claims_of_equal_tiles(kernel, summaries, patterns))
    ranged = None if findings.found or findings.doubts else range_claim(kernel, extents)
    if ranged is None:
        return claims
    counts = [*(ring.fills for ring in claims.rings), *(store.stores for store in claims.stores)]
    counts += [] if claims.products is None else [claims.products.waits]
    apart = {op.own.data for op in kernel.operations.of(ac.UnitRangeOp)}
    if not all(ranged.is_summed(count) and not count.variables & apart for count in counts):
        findings.doubt("what tiles of different lengths do is no sum over them", kernel.op)
        return claims
    return replace(
        claims,
        products=None
        if claims.products is None
        else replace(claims.products, waits=ranged.over_tiles(claims.products.waits)),
        rings=tuple(replace(ring, fills=ranged.over_tiles(ring.fills)) for ring in claims.rings),
        stores=tuple(replace(store, stores=ranged.over_tiles(store.stores)) for store in claims.stores),
        range=ranged,
    )


def _in_tiles(kernel: Kernel, claims: ProtocolClaims) -> ProtocolClaims:
    """Counts in the iterations of tiles, where units have some of their own."""
    return replace(
        claims,
        rings=tuple(replace(ring, fills=of_tiles(kernel, ring.fills)) for ring in claims.rings),
        stores=tuple(replace(store, stores=of_tiles(kernel, store.stores)) for store in claims.stores),
    )


def _claims_of_equal_tiles(kernel: Kernel, summaries: list[RoleSummary], patterns: Patterns) -> ProtocolClaims:
    return ProtocolClaims(
        kernel=kernel.name,
        symbols=tuple(kernel.symbols.items()),
        minima=tuple(kernel.minima.items()),
        cluster_ctas=kernel.cluster_ctas,
        block_threads=kernel.block_threads,
        dynamic_smem_bytes=kernel.dynamic_smem_bytes,
        rings=(
            *(
                _ring_claim(kernel, ring, summaries, patterns)
                for ring in kernel.rings.values()
                if fill_sites(ring, summaries)
            ),
            *meeting_claims(kernel, summaries),
        ),
        stores=tuple(
            StoreClaim(
                summary.role.name,
                buffer,
                tuple(size for name, size in summary.stores if name == buffer),
                summary.total(f"store:{buffer}"),
            )
            for summary in summaries
            for buffer in summary.staging
        ),
        roles=tuple(
            RoleClaim(role.name, role.unit, role.first_thread, role.threads, role.registers, summary.takes_turns)
            for role, summary in zip(kernel.roles, summaries, strict=True)
        ),
        turns=turn_claims(kernel, summaries),
        stream=stream_claim(kernel),
        products=product_claim(kernel, summaries),
        handed=tiles_handed(kernel),
        folds=fold_claims(kernel),
    )


def _ring_claim(kernel: Kernel, ring: Ring, summaries: list[RoleSummary], patterns: Patterns) -> RingClaim:
    filling = filling_of(ring, summaries, patterns)
    fills = [summary.total(f"fill:{ring.name}") for summary in summaries if fill_sites(ring, [summary])]
    first = tuple(sites[0] for sites in filling.sites)
    sites = first if filling.together else first[:1]
    slot_ranges: list[tuple[tuple[int, int], ...]] = []
    for stage in range(ring.stages):
        ranges: list[tuple[int, int]] = []
        for site in sites:
            for name, filled in site.ranges.items():
                buffer = kernel.buffers.get(name)
                if buffer is None:
                    continue  # tensor memory
                begin = buffer.address + stage * buffer.slot_bytes
                ranges.extend((begin + first, begin + last) for first, last in filled)
        slot_ranges.append(tuple(sorted(ranges)))
    return RingClaim(
        name=ring.name,
        stages=ring.stages,
        full_addresses=tuple(ring.address + 8 * stage for stage in range(ring.stages)),
        empty_addresses=tuple(ring.address + 8 * (ring.stages + stage) for stage in range(ring.stages)),
        full_arrivals=ring.full_arrivals,
        empty_arrivals=ring.empty_arrivals,
        transaction_bytes=sum(site.bytes * site.ctas for site in sites),
        fills=fills[0] if filling.together else sum(fills[1:], fills[0]),
        slot_ranges=tuple(slot_ranges),
        led=led_side(kernel, ring),
    )
