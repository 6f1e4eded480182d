"""Pairs of CTAs: what the generator lowers is proven, each edit is refuted by its rule, at its line.

The program is a product of 256 rows a tile: a role of the first CTA issues for both. Every edit has the program as it
was for its fixed twin.
"""

from functools import cache

import pytest
from tests.contract.typestate.steps.tensor_memory_programs import BLACKWELL, verdict
from tests.contract.typestate.steps.tensor_slot_programs import gated, product

from tilewright.base.verdict import Proven, Refuted
from tilewright.driver.compile.compile import elements_of
from tilewright.driver.compile.walked import walked
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac.names import name_values
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.decide import decide
from tilewright.synth.tile.wanted import Wanted


@cache
def lowered(kernel: Kernel, columns: int = 64) -> str:
    wanted = Wanted(tile=(128, columns), cluster=(2, 1))
    dims = {"M": 700, "N": 90, "K": 200}
    module = walked(trace(kernel, dims, elements_of(kernel, "bf16"), None), BLACKWELL, wanted)
    decide(the_program(module), BLACKWELL, wanted)
    (only,) = lower_program(the_program(module)).kernels
    name_values(only.module)
    return "\n".join(line.strip() for line in str(only.module).splitlines()) + "\n"


@pytest.mark.parametrize(("kernel", "columns"), [(product, 64), (product, 256), (gated, 96)])
def test_what_is_lowered_is_proven_as_it_reads_again(kernel: Kernel, columns: int) -> None:
    found = verdict(lowered(kernel, columns))
    assert isinstance(found, Proven), found
    assert any("ring sums_ring" in claim and "4 arrivals per empty phase" in claim for claim in found.claims)
    assert any("ring x_ring" in claim and "2 arrivals per full phase" in claim for claim in found.claims)


def edit(old: str, new: str) -> tuple[tuple[str, str], ...]:
    return ((old, new),)


MEET, SYNC = "ac.cluster.sync\n", "ac.cta.sync\n"
ALLOC, FREE = "ac.tensor.alloc %tensor_memory\n", "ac.tensor.dealloc %tensor_memory\n"
MEMORY = "ring = sums_ring, pair = 1]"
CLUSTER = "cluster = [2, 1, 1]"
ISSUER, CONSUMER = "registers = 40, leader = 1] (%unit_1)", "registers = 216,\n"
X_RING = "@x_ring [stages = 4, full_arrivals = 2, empty_arrivals = 1"
SUMS = "@sums_ring [stages = 2, full_arrivals = 1, empty_arrivals = 4"
ANNOUNCE = "ac.mbarrier.arrive_expect_tx %phase_1 [bytes = 16384, leader = 1]"
COPY = "box_bytes = 16384, multicast = 1, leader = 1]"
SHAPE = "m = 256, n = 64, column = 0, accumulate = 0, pair = 1"
FILLED = "%filling, %a_reading, %reading = ac.tensor.fill"
STEPS = "a_step_bytes = [0, 32, 64, 96], b_major = K"
RELEASE_A, HAND_OVER = "ac.tensor.release %a_reading [pair = 1]\n", "ac.tensor.hand_over %filling_1 [pair = 1]\n"
RELEASE = "ac.mbarrier.arrive %held [peers = 1, leader = 1]\n"
UNITS = "fence %unit_2 [first_barrier = 1]\n"

Case = tuple[tuple[tuple[str, str], ...], str, str]
"""Edits; the code; what stands in the line to which the finding leads."""

REFUTED: dict[str, Case] = {
    # that there is a pair
    "in no cluster": (edit(CLUSTER, "cluster = [1, 1, 1]"), "TC006", "ac.tensor.memory"),
    "in a cluster of four": (edit(CLUSTER, "cluster = [4, 1, 1]"), "TC006", "ac.tensor.memory"),
    "beside one another along columns": (edit(CLUSTER, "cluster = [1, 2, 1]"), "TC006", "ac.tensor.memory"),
    "memory of one CTA": (edit(MEMORY, "ring = sums_ring]"), "TC006", "ac.tensor.fill"),
    # setting up and taking down
    "allocated before the peer runs": (((ALLOC, ""), (MEET, ALLOC + MEET)), "TC006", "ac.tensor.alloc"),
    "allocated where only the CTA has met": (edit(MEET, SYNC), "TC006", "ac.tensor.alloc"),
    "barriers that the peer reaches too soon": (edit(MEET, SYNC), "CL004", "ac.mbarrier.init %w_ring"),
    "roles before the address is known": (edit(SYNC, ""), "TC001", "ac.tensor.alloc"),
    "freed where only the CTA has met": (edit(MEET + FREE, SYNC + FREE), "TC001", "ac.tensor.dealloc"),
    "ended where the peer may still arrive": (edit(MEET + FREE, SYNC + FREE), "CL001", "ac.kernel"),
    "freed before the cluster meets": (edit(MEET + FREE, FREE + MEET), "TC001", "ac.tensor.dealloc"),
    # who issues
    "both CTAs issue for both": (edit(ISSUER, ISSUER.replace(", leader = 1", "")), "TC006", "ac.tensor.fill"),
    "products of one CTA": (edit(SHAPE, SHAPE.replace(", pair = 1", "")), "TC006", FILLED),
    "rows of one CTA": (edit(SHAPE, SHAPE.replace("m = 256", "m = 128")), "TC002", FILLED),
    "rows of four CTAs": (edit(SHAPE, SHAPE.replace("m = 256", "m = 512")), "TC002", FILLED),
    "columns that no pair takes": (edit(SHAPE, SHAPE.replace("n = 64", "n = 48")), "TC002", FILLED),
    "more columns than a slot has": (edit(SHAPE, SHAPE.replace("n = 64", "n = 96")), "TC002", FILLED),
    "more columns than both bring": (edit(SHAPE, SHAPE.replace("n = 64", "n = 128")), "WG006", FILLED),
    "rows of A beyond its slot": (edit(STEPS, STEPS.replace("96]", "16384]")), "WG006", FILLED),
    "a role of the first CTA that reads": (
        edit(CONSUMER, CONSUMER.replace("216,", "216, leader = 1,")), "TC006", "ac.role @consumer"
    ),
    # operands
    "bytes announced in the own CTA": (edit(ANNOUNCE, ANNOUNCE.replace(", leader = 1", "")), "TC006", ANNOUNCE[:40]),
    "bytes that count in the own CTA": (edit(COPY, COPY.replace(", leader = 1", "")), "TC006", "%tx_3 ="),
    "arrivals of one CTA are counted": (
        edit(X_RING, X_RING.replace("full_arrivals = 2", "full_arrivals = 1")), "MB008", "@x_ring"
    ),
    "arrivals of three are counted": (
        edit(X_RING, X_RING.replace("full_arrivals = 2", "full_arrivals = 3")), "MB008", "@x_ring"
    ),
    "releases of both CTAs are counted": (
        edit(X_RING, X_RING.replace("empty_arrivals = 1", "empty_arrivals = 2")), "MB009", "@x_ring"
    ),
    "bytes of both CTAs are announced by each": (
        ((ANNOUNCE, ANNOUNCE.replace("16384", "32768")),
         ("!ac.tx<x_ring, bytes = 16384>", "!ac.tx<x_ring, bytes = 32768>"),
         ("-> !ac.tx<x_ring, bytes = 0>", "-> !ac.tx<x_ring, bytes = 16384>")), "TX001", "ac.tx.close %tx_3"
    ),
    "released in the first CTA alone": (edit(RELEASE_A, RELEASE_A.replace(" [pair = 1]", "")), "TC006", "%a_reading"),
    "never released": (edit(RELEASE_A, ""), "LV001", FILLED),
    # sums
    "handed over to the first CTA alone": (
        edit(HAND_OVER, HAND_OVER.replace(" [pair = 1]", "")), "TC006", "ac.tensor.hand_over"
    ),
    "released in the own CTA": (edit(RELEASE, RELEASE.replace(", leader = 1", "")), "TC006", "ac.mbarrier.arrive"),
    "released by the units of one CTA": (
        edit(SUMS, SUMS.replace("empty_arrivals = 4", "empty_arrivals = 2")), "MB009", "@sums_ring"
    ),
    "handed over twice, as it counts": (
        edit(SUMS, SUMS.replace("full_arrivals = 1", "full_arrivals = 2")), "MB008", "@sums_ring"
    ),
    "released before all have read": (edit("ac.tensor." + UNITS, ""), "TC003", "ac.mbarrier.arrive"),
    "released to peers besides": (edit(RELEASE, RELEASE.replace("peers = 1", "peers = 2")), "", ""),
}  # fmt: skip


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", REFUTED)
def test_each_edit_is_refuted_by_its_rule_at_its_line(name: str) -> None:
    edits, code, where = REFUTED[name]
    text = lowered(product)
    for old, new in edits:
        text = text.replace(old, new, 1)
    found = verdict(lowered(product), edits)
    assert not isinstance(found, Proven)
    if not code:  # not understood
        return
    assert isinstance(found, Refuted), found
    lines = text.splitlines()
    places = [(each.code, lines[each.primary.line - 1]) for each in found.findings if each.primary is not None]
    assert any(code == each and where.strip() in line for each, line in places), places
