"""Which slices of a compiled program's arrays and sums lie where in a cluster, in words, and what do tiers gain?

Of kernels whose clusters have several CTAs, or whose clusters share a sum: each array that comes to shared memory, each
value whose contributions meet, and each result, by the levels at which places differ (`ir.placement`). Nothing of other
kernels, whose CTAs each have a tile of their own. Besides: what is predicted to be gained by sums that stay in tensor
memory, over the obvious placement, which reads and adds each product as it is done, as where accumulators are
registers. Checked by: tests/driver/views/test_placement.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.ir.cascade import CascadeDecisions, SlotDecision
from tilewright.ir.decisions import Decisions, ElementwiseDecisions
from tilewright.ir.placed_program import PlacedProgram, placements
from tilewright.ir.placement import Placement, contributors, parted, sharing
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import loads, parameter_name, stores
from tilewright.ir.tile.gather import read_tensor
from tilewright.synth.cut.time import microseconds
from tilewright.targets import Target

_LEVELS = ("cta", "cluster")


def placement_rows(program: tile.ProgramOp, decisions: Decisions) -> list[tuple[str, str]]:
    """(what, where its slices lie), of a decided program."""
    match decisions:
        case CascadeDecisions() if decisions.cluster_ctas * decisions.teams > 1:
            listed = loads(program)
            brought = [listed[each.load] for each in decisions.slots]
            found = placements(program, decisions.deal, brought, decisions.behind_sums)
            rows = [
                (slot.buffer, _brought(slot, found.of[load.result], decisions))
                for slot, load in zip(decisions.slots, brought, strict=True)
            ]
        case ElementwiseDecisions() if any(row.ctas > 1 for row in decisions.rows):
            (row,) = decisions.rows
            found = placements(program, row.deal, (), {})
            rows = [
                (parameter_name(program, read_tensor(load.tensor)), _of_clusters(found.of[load.result]))
                for load in loads(program)
            ]
        case _:
            return []
    rows += _exchanges(found)
    rows += [(parameter_name(program, each.tensor), _of_clusters(found.of[each.value])) for each in stores(program)]
    return list(dict.fromkeys(rows))


def gain_words(program: tile.ProgramOp, d: Decisions, target: Target) -> str:
    """Times with sums that stay in tensor memory, and without; "" where none stays."""
    if not isinstance(d, CascadeDecisions) or not any(each.stays for each in d.places):
        return ""
    read = replace(d, places=tuple(replace(each, stays=0, waits=1) for each in d.places))
    chosen, obvious = (microseconds(program, each, target) for each in (d, read))
    return f"sums stay in tensor memory: about {chosen:.1f} us, of {obvious:.1f} us where threads read every product"


def _of_clusters(placement: Placement) -> str:
    """At the levels of CTAs and clusters."""
    return str(replace(placement, digits=tuple(each for each in placement.digits if each.level in _LEVELS)))


def _brought(slot: SlotDecision, placement: Placement, d: CascadeDecisions) -> str:
    words, groups = _of_clusters(placement), sharing(placement, "cta")
    alike = len(groups[0])
    if slot.halved:
        axis = next(axis for axis in (slot.inner, slot.outer) if axis in (d.column, *d.further))
        own = parted(replace(placement, space="shared::cluster"), "cta", axis, alike * slot.halved)
        return f"{_of_clusters(own)}, which the tensor cores of all read"
    if slot.peers > 1:
        masks = ", ".join(f"{sum(1 << cta for cta in group):#b}" for group in groups)
        part = slot.rows // slot.peers
        return f"{words}; each CTA brings {part} of {slot.rows} rows along {slot.outer} to all, multicast mask {masks}"
    return words


def _exchanges(found: PlacedProgram) -> Iterator[tuple[str, str]]:
    for listed in found.exchanges.values():
        for each in listed:
            if each.level in _LEVELS:
                count = contributors(each.before, each.level)
                unit = "CTAs" if each.level == "cta" else "clusters"
                yield f"contributions of {count} {unit}", f"met through {each.space}, then {_of_clusters(each.after)}"
