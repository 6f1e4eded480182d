"""Slots of a ring in tensor memory: what the generator lowers is proven, each edit is refuted by its rule, at its line.

The program is a product of 128 rows a tile: one thread issues, two units of 64 rows read. Every edit has the program
as it was for its mended twin.
"""

from functools import cache

import pytest
from tests.contract.typestate.steps.tensor_memory_programs import BLACKWELL, verdict
from tests.contract.typestate.steps.tensor_slot_programs import gated, product

from tilewright.base.error import TilewrightError
from tilewright.base.verdict import Proven, Refuted, Unknown
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
def lowered(kernel: Kernel, rows: int = 128) -> str:
    wanted = Wanted(tile=(rows, 48))
    dims = {"M": 400, "N": 90, "K": 200}
    module = walked(trace(kernel, dims, elements_of(kernel, "bf16"), None), BLACKWELL, wanted)
    decide(the_program(module), BLACKWELL, wanted)
    (only,) = lower_program(the_program(module)).kernels
    name_values(only.module)
    return "\n".join(line.strip() for line in str(only.module).splitlines()) + "\n"


@pytest.mark.parametrize(("kernel", "rows"), [(product, 128), (product, 64), (gated, 128)])
def test_what_is_lowered_is_proven_as_it_reads_again(kernel: Kernel, rows: int) -> None:
    found = verdict(lowered(kernel, rows))
    assert isinstance(found, Proven), found
    assert any("ring sums_ring: 2 stages" in claim for claim in found.claims)


ALLOC, RELINQUISH = "ac.tensor.alloc %tensor_memory\n", "ac.tensor.relinquish %tensor_memory\n"
FREE, SYNC = "ac.tensor.dealloc %tensor_memory\n", "ac.cta.sync\n"
INIT, FENCE_INIT = "ac.mbarrier.init %sums_ring\n", "ac.fence.mbarrier_init\n"
MEMORY = "ring = sums_ring] -> !ac.tensor_memory<columns = 128, units = 2>"
RING = "@sums_ring [stages = 2, full_arrivals = 1, empty_arrivals = 2"
SUMS = "@sums_ring"
W_RING = "@w_ring [stages = 4, full_arrivals = 1, empty_arrivals = 1"
WAIT_FREE = "%phase_2 = ac.mbarrier.wait empty ring(%sums_ring) cursor(%cursor_20) [invert_parity = 1]"
WAIT_X = "%phase_3 = ac.mbarrier.wait full ring(%x_ring) cursor(%cursor_19) [invert_parity = 0]"
WAIT_FULL = "%phase_7 = ac.mbarrier.wait full ring(%sums_ring) cursor(%cursor_32) [invert_parity = 0]"
FIRST, NEXT = "column = 0, accumulate = 0", "column = 0, accumulate = 1"
SHAPE = "m = 128, n = 48, column = 0, accumulate = 0"
FILL, FILLED = "into(%phase_2)", "%filling, %a_reading, %reading = ac.tensor.fill"
AGAIN = "%filling_3, %a_reading_1, %reading_1 = ac.tensor.fill"
STEPS = "a_leading_bytes = 16, a_stride_bytes = 1024, a_step_bytes = [0, 32, 64, 96], b_major = K"
RELEASE_X, RELEASE_W = "ac.tensor.release %a_reading\n", "ac.tensor.release %reading\n"
HAND_OVER = "ac.tensor.hand_over %filling_1\n"
READ = "%values, %held = ac.tensor.read memory(%tensor_memory) phase(%phase_7) unit(%unit_2) [column = 0]"
MEET, RELEASE = "ac.tensor.fence %unit_2 [first_barrier = 1]\n", "ac.mbarrier.arrive %held [peers = 1]\n"
ISSUER = "execution = #tier.exec<thread1, count = 1, first_thread = 128>"
ROWS = "warp_rows = 32"
DRAIN = "ac.mbarrier.drain ring(%w_ring) cursor(%cursor_2)\n"
START = "%cursor = ac.cursor.start empty %w_ring\n"
ISSUE = "%cursor_12 = ac.cursor.start full %w_ring\n"
READER_DRAINS = "%other = ac.cursor.start full %w_ring\nac.mbarrier.drain ring(%w_ring) cursor(%other)\n"

Case = tuple[tuple[tuple[str, str], ...], str, str]
"""Edits; the code; what stands in the line to which the finding leads."""


def edit(old: str, new: str) -> tuple[tuple[str, str], ...]:
    return ((old, new),)


REFUTED: dict[str, Case] = {
    # the block of columns
    "never allocated": (((ALLOC, ""), (RELINQUISH, "")), "TC001", "ac.tensor.memory"),
    "allocated twice": (edit(ALLOC, ALLOC + ALLOC), "TC001", "ac.tensor.alloc"),
    "allocated after the permit was given up": (
        edit(ALLOC + RELINQUISH, RELINQUISH + ALLOC), "TC001", "ac.tensor.alloc"
    ),
    "allocated behind the synchronization": (((ALLOC, ""), (SYNC, SYNC + ALLOC)), "TC001", "ac.tensor.alloc"),
    "never freed": (edit(FREE, ""), "TC001", "ac.tensor.memory"),
    "freed twice": (edit(FREE, FREE + FREE), "TC001", "ac.tensor.dealloc"),
    "freed before the roles have ended": (edit(SYNC + FREE, FREE + SYNC), "TC001", "ac.tensor.dealloc"),
    "freed before the roles begin": (((FREE, ""), (SYNC, SYNC + FREE)), "TC001", "ac.tensor.dealloc"),
    # the ring of sums
    "barriers never initialised": (edit(INIT, ""), "MB001", "@sums_ring"),
    "barriers initialised twice": (edit(INIT, INIT + INIT), "MB002", "ac.mbarrier.init %sums_ring"),
    "barriers initialised behind the fence": (
        ((INIT, ""), (FENCE_INIT, FENCE_INIT + INIT)), "MB003", "ac.mbarrier.init %sums_ring"
    ),
    "one unit less is counted": (edit(RING, RING.replace("empty_arrivals = 2", "empty_arrivals = 1")), "MB009", SUMS),
    "one unit more is counted": (edit(RING, RING.replace("empty_arrivals = 2", "empty_arrivals = 3")), "MB009", SUMS),
    "two commits are counted": (edit(RING, RING.replace("full_arrivals = 1", "full_arrivals = 2")), "MB008", SUMS),
    "slots that are too small": (edit(RING, RING.replace("stages = 2", "stages = 3")), "TC002", "ac.tensor.fill"),
    "operands are released by two": (
        edit(W_RING, W_RING.replace("empty_arrivals = 1", "empty_arrivals = 2")), "MB009", "@w_ring"
    ),
    "slots of another ring": (edit("ring = sums_ring] ->", "ring = x_ring] ->"), "MB007", "ac.tensor.fill"),
    # the end of the role that fills
    "a ring is drained with the cursor of another": (
        edit(DRAIN, DRAIN.replace("cursor_2", "cursor_3")), "MB007", "ac.mbarrier.drain"
    ),
    "a ring is drained as if nothing had been filled": (
        ((DRAIN, DRAIN.replace("cursor_2", "before")), (START, START.replace("%cursor", "%before") + START)),
        "MB006",
        "ac.mbarrier.drain",
    ),
    "a role that reads drains": (edit(ISSUE, ISSUE + READER_DRAINS), "MB005", "ac.mbarrier.drain"),
    # who issues
    "products wait for nobody's phase": (
        edit(WAIT_FREE, WAIT_FREE.replace("invert_parity = 1", "invert_parity = 0")), "MB005", "%phase_2 ="
    ),
    "products wait for a slot of another ring": (
        edit(WAIT_FREE, WAIT_FREE.replace("ring(%sums_ring)", "ring(%x_ring)")), "MB007", "%phase_2 ="
    ),
    "products wait for the sums that they make": (
        edit("%cursor_14 = ac.cursor.start empty", "%cursor_14 = ac.cursor.start full"), "MB005", "%phase_2 ="
    ),
    "operands are not waited for": (
        edit(WAIT_X, WAIT_X.replace("invert_parity = 0", "invert_parity = 1")), "MB005", "%phase_3 ="
    ),
    "a unit of 128 threads issues": (
        edit(ISSUER, ISSUER.replace("thread1", "warpgroup128")), "TC002", "ac.tensor.fill"
    ),
    "no product begins the sums": (edit(FIRST, NEXT), "TC002", "ac.tensor.fill"),
    "each product begins anew": (edit(NEXT, FIRST), "TC002", AGAIN),
    "further products go beside the first": (
        edit(NEXT, NEXT.replace("column = 0", "column = 8")), "TC002", AGAIN
    ),
    "columns beyond the slot": (edit(SHAPE, SHAPE.replace("column = 0", "column = 24")), "TC002", FILLED),
    "64 rows for two units": (edit(SHAPE, SHAPE.replace("m = 128", "m = 64")), "TC002", FILLED),
    "256 rows": (edit(SHAPE, SHAPE.replace("m = 128", "m = 256")), "TC002", FILLED),
    "columns that 128 rows do not take": (edit(SHAPE, SHAPE.replace("n = 48", "n = 40")), "TC002", FILLED),
    "an element that is not multiplied": (
        edit("steps = 4, element = bf16", "steps = 4, element = f32"), "TC002", FILLED
    ),
    "rows of A beyond its slot": (edit(STEPS, STEPS.replace("96]", "16384]")), "WG006", FILLED),
    "a step off its row": (edit(STEPS, STEPS.replace("96]", "112]")), "WG008", FILLED),
    "rows of A off their pattern": (edit(STEPS, STEPS.replace("bytes = 1024", "bytes = 1040")), "WG008", FILLED),
    "A of the slot of B": (edit("a_phase(%phase_3) a(%x_slots)", "a_phase(%phase_3) a(%w_slots)"), "MB007", FILLED),
    "a slot of A is never released": (edit(RELEASE_X, ""), "LV001", FILLED),
    "a slot of B is never released": (edit(RELEASE_W, ""), "LV001", FILLED),
    "a slot is released twice": (edit(RELEASE_X, RELEASE_X + RELEASE_X), "LV002", "ac.tensor.release %a_reading"),
    "sums are never handed over": (edit(HAND_OVER, ""), "LV001", "ac.loop over K"),
    "sums are handed over twice": (edit(HAND_OVER, HAND_OVER + HAND_OVER), "LV002", "ac.tensor.hand_over"),
    "sums are handed over after the first products": (
        ((RELEASE_X, RELEASE_X + "ac.tensor.hand_over %filling\n"), (HAND_OVER, "")), "LV002", "ac.loop over K"
    ),
    # who reads
    "sums are not waited for": (
        edit(WAIT_FULL, WAIT_FULL.replace("invert_parity = 0", "invert_parity = 1")), "MB005", "%phase_7 ="
    ),
    "only the first warp waits for the sums": (
        edit(WAIT_FULL, WAIT_FULL.replace("invert_parity = 0", "invert_parity = 0, issuer = 1")), "TC005", READ
    ),
    "an empty slot is read": (
        ((WAIT_FULL, WAIT_FULL.replace("wait full", "wait empty").replace("parity = 0", "parity = 1")),
         ("-> !ac.fragment<m = 64, n = 48, mn, f32>, !ac.phase<sums_ring, full>",
          "-> !ac.fragment<m = 64, n = 48, mn, f32>, !ac.phase<sums_ring, empty>")),
        "MB012",
        READ,
    ),
    "columns that no product fills": (edit(READ, READ.replace("column = 0", "column = 8")), "TC002", "ac.tensor.read"),
    "a slot is released before all have read it": (edit(MEET, ""), "TC003", RELEASE),
    "the unit meets before it reads": (((MEET, ""), (READ, MEET + READ)), "TC003", RELEASE),
    "a slot of sums is never released": (edit(RELEASE, ""), "LV001", READ),
    "a slot of sums is released twice": (edit(RELEASE, RELEASE + RELEASE), "LV002", RELEASE),
    "two units meet on one barrier beside the CTA's": (
        edit(MEET, MEET.replace("first_barrier = 1", "first_barrier = 0")), "NB001", "ac.tensor.fence"
    ),
    "barriers past the last": (
        edit(MEET, MEET.replace("first_barrier = 1", "first_barrier = 15")), "NB001", "ac.tensor.fence"
    ),
    "one unit reads for two": (
        edit("#tier.exec<warpgroup128, count = 2", "#tier.exec<warpgroup128, count = 1"), "TC002", "ac.tensor.read"
    ),
    "rows of a warp are taken to follow one another": (edit(",\n" + ROWS, ""), "TC002", "ac.tensor.read"),
    "rows of a warp are taken to lie further apart": (edit(ROWS, "warp_rows = 64"), "TC002", "ac.tensor.read"),
}  # fmt: skip


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", REFUTED)
def test_each_edit_is_refuted_by_its_rule_at_its_line(name: str) -> None:
    edits, code, where = REFUTED[name]
    text = lowered(product)
    for old, new in edits:
        text = text.replace(old, new, 1)
    found = verdict(lowered(product), edits)
    assert isinstance(found, Refuted), found
    lines = text.splitlines()
    places = [
        (finding.code, lines[finding.primary.line - 1]) for finding in found.findings if finding.primary is not None
    ]
    assert any(code == each and where.strip() in line for each, line in places), places


@pytest.mark.parametrize(
    ("old", "new"),
    [(HAND_OVER, "ac.tensor.hand_over %cursor_24\n"), (RELEASE, "ac.tensor.release %held\n")],
    ids=["operands are handed over for sums", "the tensor core releases what threads read"],
)
def test_what_is_of_another_kind_is_refused_as_it_is_read(old: str, new: str) -> None:
    with pytest.raises(TilewrightError, match=r"edited.ac.mlir:\d+: .* should be of base attribute"):
        verdict(lowered(product), edit(old, new))


def test_there_are_sixty_programs_that_are_refuted() -> None:
    """With those of units that issue by themselves (`test_tensor_memory`)."""
    from tests.contract.typestate.steps import test_tensor_memory

    assert len(REFUTED) + len(test_tensor_memory.REFUTED) >= 80


def test_rows_of_one_unit_follow_one_another() -> None:
    edits = edit("registers = 240]", "registers = 240, warp_rows = 32]")
    found = verdict(lowered(product, 64), edits)
    assert isinstance(found, Refuted) and "TC002" in {each.code for each in found.findings}, found


def test_a_ring_is_drained_at_a_roles_end_alone() -> None:
    found = verdict(
        lowered(product), ((DRAIN, ""), ("%phase_1 = ac.m", DRAIN.replace("_2", "_10") + "%phase_1 = ac.m"))
    )
    assert not isinstance(found, Proven)


def test_columns_off_the_steps_of_a_product_are_not_understood() -> None:
    moved = edit(SHAPE, SHAPE.replace("column = 0", "column = 4"))
    found = verdict(lowered(product), (*moved, *edit(NEXT, NEXT.replace("column = 0", "column = 4"))))
    assert not isinstance(found, Proven)


def test_units_stores_of_which_rows_meet_are_not_proven() -> None:
    """Rows of two units that are taken to lie 8 apart."""
    found = verdict(lowered(product), edit("128 * %m_2 + 16 * %unit_2", "128 * %m_2 + 8 * %unit_2"))
    assert isinstance(found, Unknown) and any("16 wide" in reason for reason in map(str, found.reasons)), found


def test_sums_of_two_products_stand_beside_one_another() -> None:
    text = lowered(gated)
    assert "column = 48, accumulate = 1" in text
    over = verdict(text, edit("column = 48, accumulate = 0", "column = 40, accumulate = 0"))
    assert isinstance(over, Refuted) and "TC002" in {each.code for each in over.findings}
