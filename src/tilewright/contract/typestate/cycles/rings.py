"""Do all roles together agree on every ring, and can they ever wait for one another in a circle?

Agreement. By `steps.ring` and `patterns`, each unit waits, fills and releases at positions in order. Hence a ring is
used correctly for all trip counts if

- fills, reads and releases are as many, as polynomials;
- each full phase gets the arrivals that it counts, and each empty phase one arrival from every reading unit of every
  CTA that its fillers write to;
- every byte that is read is brought by each use of the slot. Roles that fill a slot together bring it together, each to
  places of its own; of roles that fill slots alternately each brings all of it.

Several roles that fill together wait for every slot each, and a phase takes the arrivals of them all: none of it
completes before the last has announced its bytes. So no parity is that of another phase: the next use of a slot waits
for readers, which wait for all fillers.

Deadlock. `liveness` has the argument, over all rings and roles at once.

Not handled: roles that share a ring's slots in other ways; they are doubts.
Checked by: tests/contract/typestate/test_typestate*.py, test_several_rings.py, test_several_producers.py and
test_ring_programs.py; `token_machine` runs the same roles at boundary counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from xdsl.ir import Operation

from tilewright.base.plural import counted
from tilewright.contract.typestate.cycles.liveness import circle_of_waits
from tilewright.contract.typestate.cycles.patterns import ALL, Pattern, Patterns, check_together, find_patterns
from tilewright.contract.typestate.finding import Findings
from tilewright.contract.typestate.places.footprint import Ranges, merged, overlap, size
from tilewright.contract.typestate.places.store_places import check_places
from tilewright.contract.typestate.polynomial import Polynomial
from tilewright.contract.typestate.program import Kernel, Ring
from tilewright.contract.typestate.steps.split import split_atoms
from tilewright.contract.typestate.summary import FillSite, RoleSummary
from tilewright.contract.typestate.tile_ranges import check_passing, tiles_alone
from tilewright.ir.ac.format import is_set
from tilewright.ir.ac.tensor_memory import TensorMemoryOp

CIRCLE = "waits may go round in a circle"
"""What the doubt begins with that no cycle was shown to hold a slot to spare."""


def check_roles(
    kernel: Kernel, roles: Sequence[RoleSummary], shared: frozenset[tuple[str, str]], findings: Findings
) -> Patterns:
    """Report where roles disagree; doubt what can't be shown for all trip counts. Which slots each role takes. shared:
    rings and sides on which several roles wait."""
    patterns = find_patterns(roles, shared, findings)
    for ring in kernel.rings.values():
        if any(_fills(role, ring) or _reads(role, ring) for role in roles):
            _check_ring(kernel, ring, roles, patterns, findings)
    alone = tiles_alone(kernel, roles, findings)
    check_passing(kernel, alone, findings)
    circle = circle_of_waits(kernel, alone, patterns)
    if circle:
        # Whether the counts ever get so far is for concrete runs to show.
        findings.doubt(f"{CIRCLE}: {'; '.join(circle)}")
    _check_sharing(roles, findings)
    check_places(roles, findings, split_atoms(kernel))
    _check_cluster(kernel, roles, findings)
    return patterns


def _fills(role: RoleSummary, ring: Ring) -> bool:
    return (ring.name, "empty") in role.waits or any(site.ring == ring.name for site in role.fills.values())


def _reads(role: RoleSummary, ring: Ring) -> bool:
    return (ring.name, "full") in role.waits or ring.name in role.releases


def fill_sites(ring: Ring, roles: Sequence[RoleSummary]) -> list[FillSite]:
    return [site for role in roles for site in role.fills.values() if site.ring == ring.name]


@dataclass(frozen=True, slots=True)
class Filling:
    """How a ring's slots are filled. together: by roles that each take part in every slot. sites: by role."""

    together: bool
    sites: tuple[tuple[FillSite, ...], ...]

    def choices(self) -> Iterable[tuple[FillSite, ...]]:
        """Sites that may have filled one slot."""
        if self.together:
            return product(*self.sites)
        return ((site,) for sites in self.sites for site in sites)


def filling_of(ring: Ring, roles: Sequence[RoleSummary], patterns: Patterns) -> Filling:
    """How the roles fill a ring, on which they agree."""
    fillers = [(number, role) for number, role in enumerate(roles) if fill_sites(ring, [role])]
    together = len(fillers) > 1 and all(patterns.get((number, ring.name, "empty"), ALL) == ALL for number, _ in fillers)
    return Filling(together, tuple(tuple(fill_sites(ring, [role])) for _, role in fillers))


def _check_ring(
    kernel: Kernel, ring: Ring, roles: Sequence[RoleSummary], patterns: Patterns, findings: Findings
) -> None:
    fillers = [(number, role) for number, role in enumerate(roles) if _fills(role, ring)]
    readers = [(number, role) for number, role in enumerate(roles) if _reads(role, ring)]
    if any(role.role.count != 1 for _, role in fillers):
        findings.doubt(f"ring {ring.name} is filled by several units of a role")
        return
    if not fillers or not readers:
        _, present = (fillers or readers)[0]
        missing = "fills" if not fillers else "reads"
        findings.report(
            "LV004",
            present.role.op,
            f"{present.role.name} uses ring {ring.name}, which no role {missing}",
            against=ring.op,
        )
        return
    filling = [patterns.get((number, ring.name, "empty"), ALL) for number, _ in fillers]
    reading = [patterns.get((number, ring.name, "full"), ALL) for number, _ in readers]
    # Ping-pong units release slots of different tiles in any order.
    in_order = set(reading) == {ALL} and not any(reader.takes_turns for _, reader in readers)
    agreed = check_together(ring, "empty", filling, in_order=in_order, findings=findings)
    agreed = check_together(ring, "full", reading, in_order=False, findings=findings) and agreed
    if not agreed:
        return
    together = set(filling) == {ALL}
    _check_totals(
        kernel,
        ring,
        [(role, pattern) for (_, role), pattern in zip(fillers, filling, strict=True)],
        [(role, pattern) for (_, role), pattern in zip(readers, reading, strict=True)],
        findings,
    )
    _check_arrivals(kernel, ring, [role for _, role in fillers], together=together, findings=findings)
    _check_releases(ring, [role for _, role in readers], together=set(reading) == {ALL}, findings=findings)
    memory = kernel.tensor_memory
    columns = memory.name if memory is not None and memory.ring == ring.name else ""
    if columns:
        _check_columns(ring, columns, roles, findings)
    _check_contents(ring, filling_of(ring, roles, patterns), columns, roles, findings)


def _check_arrivals(
    kernel: Kernel, ring: Ring, fillers: Sequence[RoleSummary], *, together: bool, findings: Findings
) -> None:
    """full_arrivals must be what one phase gets, and the bytes announced to it a number that it counts."""
    by_role = [fill_sites(ring, [filler]) for filler in fillers]
    if not all(by_role):
        return  # its waits and fills differ in number
    made = [{site.arrivals * site.ctas for site in sites} for sites in by_role]
    totals = {sum(choice) for choice in product(*made)} if together else {each for one in made for each in one}
    if totals != {ring.full_arrivals}:
        most = max(totals)
        names = " and ".join(filler.role.name for filler in fillers)
        arrive = "arrives" if len(fillers) == 1 else "arrive"
        findings.report(
            "MB008",
            ring.op,
            f"full barriers of ring {ring.name} count {counted(ring.full_arrivals, 'arrival')}; each fill makes "
            f"{' or '.join(map(str, sorted(totals)))}",
            against=by_role[0][0].op,
            steps=(
                f"{names} {arrive} {'once' if most == 1 else f'{most} times'} on full[0] and "
                f"{'its' if len(fillers) == 1 else 'their'} copies complete",
                f"the barrier waits for {ring.full_arrivals - most} more arrivals: its readers hang"
                if most < ring.full_arrivals
                else "the phase completes before the last arrivals, which count in the next one",
            ),
        )
    sizes = [{site.bytes * site.ctas for site in sites} for sites in by_role]
    if any(len(each) > 1 for each in sizes) or (not together and len({max(each) for each in sizes}) > 1):
        findings.doubt(f"ring {ring.name} is filled with different numbers of bytes", ring.op)
    most_bytes = kernel.facts.limit("mbarrier.transaction_bytes_max")
    announced = sum(max(each) for each in sizes)
    shared = together or any(site.ctas > 1 for sites in by_role for site in sites)
    if shared and announced > most_bytes:
        findings.report(
            "TX003", by_role[0][0].op, f"{announced} bytes are announced for one phase, which counts 0 to {most_bytes}"
        )


def _check_totals(
    kernel: Kernel,
    ring: Ring,
    fillers: Sequence[tuple[RoleSummary, Pattern]],
    readers: Sequence[tuple[RoleSummary, Pattern]],
    findings: Findings,
) -> None:
    first, pattern = fillers[0]
    slots = first.total(f"fill:{ring.name}") * pattern.apart
    for filler, pattern in fillers:
        waits, fills = filler.total(f"wait:{ring.name}:empty"), filler.total(f"fill:{ring.name}")
        op = filler.waits.get((ring.name, "empty"), filler.role.op)
        if waits != fills:
            findings.report(
                "LV004", op, f"{filler.role.name} waits for {waits} empty slots of {ring.name} and fills {fills}"
            )
        elif fills * pattern.apart != slots:
            findings.report(
                "LV004",
                op,
                f"{first.role.name} fills {first.total(f'fill:{ring.name}')} slots of ring {ring.name} and "
                f"{filler.role.name} {fills}",
                against=first.waits.get((ring.name, "empty")),
                steps=_counts_that_differ(kernel, ring, first, filler, slots, fills * pattern.apart),
            )
    for reader, pattern in readers:
        reads = reader.total(f"wait:{ring.name}:full") * pattern.apart
        releases = reader.total(f"release:{ring.name}") * pattern.apart
        op = reader.waits.get((ring.name, "full"), reader.role.op)
        if reads != slots:
            findings.report(
                "LV004",
                op,
                f"{first.role.name} fills {slots} slots of ring {ring.name} and {reader.role.name} reads {reads}",
                against=first.waits.get((ring.name, "empty")),
                steps=_counts_that_differ(kernel, ring, first, reader, slots, reads),
            )
        elif releases != slots:
            findings.report(
                "LV004",
                op,
                f"{reader.role.name} reads {reads} slots of ring {ring.name} and releases {releases}",
                against=first.waits.get((ring.name, "empty")),
                steps=_counts_that_differ(kernel, ring, first, reader, slots, releases),
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


def _check_releases(ring: Ring, readers: Sequence[RoleSummary], *, together: bool, findings: Findings) -> None:
    """empty_arrivals must be what one phase gets: every unit that reads the slot, of every CTA that releases to this
    one. together: whether every role reads every slot."""
    by_role: list[int] = []
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
        by_role.append(units * next(iter(widths), 0))
    wrong = [arrivals for arrivals in ([sum(by_role)] if together else by_role) if arrivals != ring.empty_arrivals]
    if not wrong or not any(by_role):
        return
    arrivals = wrong[0]
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


def _check_contents(
    ring: Ring, filling: Filling, columns: str, roles: Sequence[RoleSummary], findings: Findings
) -> None:
    """Every byte that is read must be brought by every choice of places that fill a slot, and by one of them. columns:
    the name of tensor memory, of which `_check_columns` asks."""
    if filling.together:
        for one, other in combinations(filling.sites, 2):
            for first, second in product(one, other):
                for buffer in first.ranges.keys() & second.ranges.keys():
                    both = overlap(first.ranges[buffer], second.ranges[buffer])
                    if both:
                        findings.report(
                            "TX005",
                            second.op,
                            f"two roles fill {size(both)} bytes of one slot of buffer {buffer}",
                            against=first.op,
                        )
    for role in roles:
        for read in role.reads:
            if read.ring != ring.name or read.buffer == columns:
                continue
            for sites in filling.choices():
                filled = _together(sites, read.buffer)
                if overlap(read.ranges, filled) != read.ranges:
                    findings.report(
                        "WG007",
                        read.op,
                        f"{role.role.name} reads {size(read.ranges)} bytes of a slot of {read.buffer}, of which "
                        f"{size(overlap(read.ranges, filled))} are copied",
                        against=sites[0].op,
                    )
                for site in sites:
                    if read.unfenced and overlap(read.ranges, site.by_threads.get(read.buffer, ())):
                        findings.report(
                            "PX002",
                            read.op,
                            f"{role.role.name} multiplies bytes of a slot of {read.buffer} that threads copied, with "
                            "no proxy fence after the wait for it",
                            against=site.op,
                            steps=(
                                "threads copy into the slot through the generic proxy; the phase completes",
                                "the tensor core reads the slot through the async proxy; nothing made them visible to "
                                "it",
                            ),
                        )


def _check_columns(ring: Ring, columns: str, roles: Sequence[RoleSummary], findings: Findings) -> None:
    """What is read of a slot of tensor memory must be columns that every fill has written. columns: its name."""
    sites = fill_sites(ring, roles)
    for role in roles:
        for read in role.reads:
            for site in sites if (read.ring, read.buffer) == (ring.name, columns) else ():
                filled = site.ranges.get(read.buffer, ())
                if overlap(read.ranges, filled) != read.ranges:
                    (begin, end), *_ = read.ranges
                    findings.report(
                        "TC002",
                        read.op,
                        f"{role.role.name} reads columns {begin} to {end - 1} of a slot, of which "
                        f"{size(overlap(read.ranges, filled))} of {end - begin} are filled",
                        against=site.op,
                    )


def _together(sites: Sequence[FillSite], buffer: str) -> Ranges:
    """What all of these places write of a buffer's slot."""
    return merged(piece for site in sites for piece in site.ranges.get(buffer, ()))


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
    remote += [op for op in kernel.operations.of(TensorMemoryOp) if is_set(op.pair)]
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
