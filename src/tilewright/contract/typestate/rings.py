"""Do all roles together agree on every ring, and can they ever wait for one another in a circle?

Agreement. By `steps.ring`, each unit waits, fills and releases at positions 0, 1, 2, ... Hence a ring is used correctly
for all trip counts if the totals of fills, reads and releases are the same polynomial, each full phase gets the
arrivals that it counts, and each empty phase gets one arrival from every reader of every CTA that its fillers write to.

Deadlock. With those, waits and signals form an event graph: fill p after the releases of p - S, read p after fill p.
Give fill p and read p the time p. Along an edge from a release to the fill that it admits, time grows by S - h, where
the reader has waited for h slots beyond the one that it releases; a filler that waits for g slots ahead of the one that
it fills takes off g. If h + g < S for every pair, time never decreases along an edge and strictly grows around every
circle through an empty barrier; every other edge goes from filler to reader or along a role's program. So no circle
exists, for any trip count, and any interleaving ends in the same state: signals only ever enable waits.

Not handled: several rings (a circle may pass through two of them), rings filled by several units; both are doubts.

Checked by: tests/contract/typestate/test_typestate*.py; `token_machine` runs the same roles at boundary counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from xdsl.ir import Operation

from tilewright.base.plural import counted
from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.footprint import overlap, size
from tilewright.contract.typestate.polynomial import Polynomial
from tilewright.contract.typestate.program import Kernel, Ring
from tilewright.contract.typestate.steps.split import split_atoms
from tilewright.contract.typestate.store_places import check_places
from tilewright.contract.typestate.summary import FillSite, RoleSummary


def check_roles(kernel: Kernel, roles: Sequence[RoleSummary], findings: Findings) -> None:
    """Report where roles disagree; doubt what can't be shown for all trip counts."""
    used = [ring for ring in kernel.rings.values() if _users(ring, roles)]
    for ring in used:
        _check_ring(kernel, ring, roles, findings)
    if len(used) > 1:
        findings.doubt(f"{len(used)} rings: circles of waits through several rings are not decided")
    _check_sharing(roles, findings)
    check_places(roles, findings, split_atoms(kernel))
    _check_cluster(kernel, roles, findings)


def _users(ring: Ring, roles: Sequence[RoleSummary]) -> list[RoleSummary]:
    return [role for role in roles if _fills(role, ring) or _reads(role, ring)]


def _fills(role: RoleSummary, ring: Ring) -> bool:
    return (ring.name, "empty") in role.waits or any(site.ring == ring.name for site in role.fills.values())


def _reads(role: RoleSummary, ring: Ring) -> bool:
    return (ring.name, "full") in role.waits or ring.name in role.releases


def fill_sites(ring: Ring, roles: Sequence[RoleSummary]) -> list[FillSite]:
    return [site for role in roles for site in role.fills.values() if site.ring == ring.name]


def _check_ring(kernel: Kernel, ring: Ring, roles: Sequence[RoleSummary], findings: Findings) -> None:
    fillers = [role for role in roles if _fills(role, ring)]
    readers = [role for role in roles if _reads(role, ring)]
    if any(role in readers for role in fillers):
        findings.doubt(f"a role both fills and reads ring {ring.name}")
        return
    if len(fillers) > 1 or any(role.role.count != 1 for role in fillers):
        findings.doubt(f"ring {ring.name} is filled by more than one unit")
        return
    if not fillers or not readers:
        present = (fillers or readers)[0]
        missing = "fills" if not fillers else "reads"
        findings.report(
            "LV004",
            present.role.op,
            f"{present.role.name} uses ring {ring.name}, which no role {missing}",
            against=ring.op,
        )
        return
    filler = fillers[0]
    sites = fill_sites(ring, [filler])
    fills = filler.total(f"fill:{ring.name}")
    _check_totals(kernel, ring, filler, readers, fills, findings)
    made = {site.arrivals for site in sites} or {1}
    if made != {ring.full_arrivals}:
        most = max(made)
        findings.report(
            "MB008",
            ring.op,
            f"full barriers of ring {ring.name} count {counted(ring.full_arrivals, 'arrival')}; each fill makes "
            f"{' or '.join(map(str, sorted(made)))}",
            against=sites[0].op if sites else None,
            steps=(
                f"{filler.role.name} arrives {'once' if most == 1 else f'{most} times'} on full[0] and its copies "
                "complete",
                f"the barrier waits for {ring.full_arrivals - most} more arrivals: its readers hang"
                if most < ring.full_arrivals
                else "the phase completes before the last arrivals, which count in the next one",
            ),
        )
    if len({site.bytes for site in sites}) > 1:
        findings.doubt(f"ring {ring.name} is filled with different numbers of bytes", ring.op)
    _check_releases(ring, readers, findings)
    _check_contents(ring, roles, findings)
    _check_distance(ring, filler, readers, findings)


def _check_totals(
    kernel: Kernel,
    ring: Ring,
    filler: RoleSummary,
    readers: Sequence[RoleSummary],
    fills: Polynomial,
    findings: Findings,
) -> None:
    waits = filler.total(f"wait:{ring.name}:empty")
    if waits != fills:
        op = filler.waits.get((ring.name, "empty"), filler.role.op)
        findings.report(
            "LV004", op, f"{filler.role.name} waits for {waits} empty slots of {ring.name} and fills {fills}"
        )
    for reader in readers:
        reads, releases = reader.total(f"wait:{ring.name}:full"), reader.total(f"release:{ring.name}")
        op = reader.waits.get((ring.name, "full"), reader.role.op)
        if reads != fills:
            findings.report(
                "LV004",
                op,
                f"{filler.role.name} fills {fills} slots of ring {ring.name} and {reader.role.name} reads {reads}",
                against=filler.waits.get((ring.name, "empty")),
                steps=_counts_that_differ(kernel, ring, filler, reader, fills, reads),
            )
        elif releases != fills:
            findings.report(
                "LV004",
                op,
                f"{reader.role.name} reads {reads} slots of ring {ring.name} and releases {releases}",
                against=filler.waits.get((ring.name, "empty")),
                steps=_counts_that_differ(kernel, ring, filler, reader, fills, releases),
            )


def _counts_that_differ(
    kernel: Kernel, ring: Ring, filler: RoleSummary, reader: RoleSummary, fills: Polynomial, other: Polynomial
) -> tuple[str, ...]:
    """The least symbol values at which the two counts differ, and what then happens."""
    names = sorted(fills.variables | other.variables)
    options = [range(kernel.minima.get(name, 0), kernel.minima.get(name, 0) + 4) for name in names]
    for values in product(*options):
        symbols = dict(zip(names, values, strict=True))
        first, second = fills.at(symbols), other.at(symbols)
        if first == second:
            continue
        where = ", ".join(f"{name} = {value}" for name, value in symbols.items())
        end = (
            f"{first - second} filled slots are never read: a copy may outlive its CTA, or {filler.role.name} hangs"
            if first > second
            else f"{reader.role.name} waits for slot number {first} of ring {ring.name}, which nothing fills: hang"
        )
        return (f"take {where or 'any counts'}: {first} against {second}", end)
    return ()


def _check_releases(ring: Ring, readers: Sequence[RoleSummary], findings: Findings) -> None:
    """empty_arrivals must be what one phase gets: every reading unit of every CTA that releases to this one."""
    arrivals = 0
    for reader in readers:
        sites = reader.releases.get(ring.name, {})
        widths = set(sites.values())
        if len(widths) > 1:
            op = next(iter(sites))
            findings.report(
                "CL003", op, f"{reader.role.name} releases ring {ring.name} to {sorted(widths)} CTAs by turns"
            )
            return
        # By symmetry a CTA gets from its cluster as many arrivals as it gives to it.
        # Of units that take tiles in turn, one uses each slot.
        units = 1 if reader.takes_turns else reader.role.count
        arrivals += units * next(iter(widths), 0)
    if not arrivals or arrivals == ring.empty_arrivals:
        return
    against = next(iter(readers[0].releases.get(ring.name, {})), None)
    if arrivals > ring.empty_arrivals:
        steps = (
            f"{ring.empty_arrivals} of {arrivals} readers release slot 0: empty[0] completes its phase",
            "the filler refills slot 0",
            "another reader still reads it",
        )
    else:
        steps = (
            f"all {arrivals} readers release slot 0",
            f"empty[0] waits for {ring.empty_arrivals - arrivals} more: the filler hangs",
        )
    findings.report(
        "MB009",
        ring.op,
        f"empty barriers of ring {ring.name} count {counted(ring.empty_arrivals, 'arrival')}; "
        f"each slot's use makes {arrivals}",
        against=against,
        steps=steps,
    )


def _check_contents(ring: Ring, roles: Sequence[RoleSummary], findings: Findings) -> None:
    """Every byte that is read must be brought by every place that fills."""
    sites = fill_sites(ring, roles)
    for role in roles:
        for read in role.reads:
            if read.ring != ring.name:
                continue
            for site in sites:
                filled = site.ranges.get(read.buffer, ())
                if overlap(read.ranges, filled) != read.ranges:
                    findings.report(
                        "WG007",
                        read.op,
                        f"{role.role.name} reads {size(read.ranges)} bytes of a slot of {read.buffer}, of which "
                        f"{size(overlap(read.ranges, filled))} are copied",
                        against=site.op,
                    )
                if read.unfenced and overlap(read.ranges, site.by_threads.get(read.buffer, ())):
                    findings.report(
                        "PX002",
                        read.op,
                        f"{role.role.name} multiplies bytes of a slot of {read.buffer} that threads copied, with no "
                        "proxy fence after the wait for it",
                        against=site.op,
                        steps=(
                            "threads copy into the slot through the generic proxy; the phase completes",
                            "the tensor core reads the slot through the async proxy; nothing made them visible to it",
                        ),
                    )


def _check_distance(ring: Ring, filler: RoleSummary, readers: Sequence[RoleSummary], findings: Findings) -> None:
    ahead = filler.holds.get((ring.name, "empty"), 0)
    for reader in readers:
        held = reader.holds.get((ring.name, "full"), 0)
        if ahead is None or held is None:
            continue  # a doubt stands already
        if ahead + held >= ring.stages:
            slots = f"{reader.role.name} waits for {held} slots beyond the one that it releases"
            if ahead:
                slots += f", {filler.role.name} for {ahead} beyond the one that it fills"
            # Whether the counts ever get so far is for concrete runs to show.
            findings.doubt(f"ring {ring.name} has {ring.stages} stages, and {slots}")


def _check_sharing(roles: Sequence[RoleSummary], findings: Findings) -> None:
    """Named barriers and staging buffers belong to one role."""
    barriers: dict[int, tuple[RoleSummary, Operation]] = {}
    staging: dict[str, RoleSummary] = {}
    written: dict[str, tuple[RoleSummary, Operation]] = {}
    for role in roles:
        for number, units in role.named_barriers.items():
            first, op = next(iter(units)), next(iter(units.values()))
            if len(units) > 1:
                second = next(unit for unit in units if unit != first)
                findings.report(
                    "NB003",
                    units[second],
                    f"units {first} and {second} of {role.role.name} both use barrier {number}",
                    against=op,
                )
            if number in barriers:
                other, other_op = barriers[number]
                findings.report(
                    "NB003", op, f"{other.role.name} and {role.role.name} both use barrier {number}", against=other_op
                )
            barriers[number] = (role, op)
        for name, op in (*role.staging.items(), *role.rows.items()):
            if name in staging:
                findings.report("AL003", op, f"{staging[name].role.name} and {role.role.name} both stage in {name}")
            staging[name] = role
        for name, op in role.writes_global.items():
            if name in written:
                findings.doubt(f"{name} is stored by two roles", op)
            written[name] = (role, op)
    for role in roles:
        for name, op in role.reads_global.items():
            if name in written:
                findings.doubt(f"{name} is read and stored by one kernel; other CTAs are not ordered", op)


def _check_cluster(kernel: Kernel, roles: Sequence[RoleSummary], findings: Findings) -> None:
    if kernel.cluster_ctas == 1:
        return
    multicasts = [(op, ring) for role in roles for op, ring in role.multicasts]
    releases = [
        (role, ring, op, width) for role in roles for ring, ops in role.releases.items() for op, width in ops.items()
    ]
    shared = {ring for _, ring in multicasts}
    for role, ring, op, width in releases:
        if ring in shared and width == 1:
            findings.report(
                "CL003",
                op,
                f"{role.role.name} releases a slot of ring {ring}, which peers fill, to its own CTA only",
                against=multicasts[0][0],
                steps=(
                    f"CTA 0's readers release slot 0 of ring {ring}; CTA 1's still read theirs",
                    "CTA 0's filler multicasts the next contents of slot 0 to both",
                    "CTA 1's readers read bytes being overwritten",
                ),
            )
    remote = [op for op, _ in multicasts] or [op for _, _, op, width in releases if width > 1]
    remote += [op for role in roles for op in role.reductions.values()]
    if remote and kernel.exit_sync is None:
        findings.report(
            "CL001",
            kernel.op,
            "the cluster is not synchronized after the roles",
            against=remote[0],
            steps=(
                "CTA 1 runs ahead and ends; its shared memory is given away",
                "CTA 0 multicasts into it, or arrives on a barrier that was there",
            ),
        )
