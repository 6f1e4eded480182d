"""Fragments in registers, and operands that stay in their slot: what is right is proven, each edit of it is refuted by
its rule or left undecided."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fragment_kernels import RELEASE, Shape, kernel_text, multiply

from tilewright.base.verdict import Proven, Refuted, Unknown, Verdict
from tilewright.contract.typestate.typestate import verify
from tilewright.frontends.ac.reader import read_ac
from tilewright.targets import target

HOPPER = target("sm_90a")
ATTENTION = (Path(__file__).parents[4] / "examples" / "attention.ac.mlir").read_text("utf-8")

K_WAIT = "%k_done, %scores = ac.wgmma.wait reading(%k_reading) accumulator(%products) [pending = 0]"
V_WAIT = "%v_done, %settled = ac.wgmma.wait reading(%v_reading) accumulator(%sums) [pending = 0]"
Q_WAIT = "%still_held = ac.wgmma.wait reading(%q_reading) [pending = 0] -> retired !ac.phase<q_ring, retired>"
K_RELEASE, Q_RELEASE = "ac.mbarrier.arrive %k_done [peers = 1]", "ac.mbarrier.arrive %read [peers = 1]"
FENCE, START = "ac.wgmma.fence\n", "%begun = ac.accumulator.start %corrected\n"
MOST = "%most_now, %correction = ac.fragment.map inputs(%most_before, %row_most) (%before, %row)"

RESCALE = "%y = ac.scalar mul %before, %factor"

Edit = tuple[str, str]
REFUTED: dict[str, tuple[tuple[Edit, ...], str]] = {
    "no fence before the scores": (((FENCE, ""),), "WG004"),
    "no fence after an accumulator was begun": (
        ((START, ""), (FENCE, f"{FENCE}{START.replace('corrected', 'total_before')}")),
        "WG004",
    ),
    "scores read while they are computed": (((K_WAIT, K_WAIT.replace("= 0]", "= 1]")),), "WG003"),
    "weights' product not waited for": (((V_WAIT, V_WAIT.replace("= 0]", "= 1]")),), "WG003"),
    "a slot of k released too early": (
        ((K_WAIT, f"ac.mbarrier.arrive %keys [peers = 1]\n{K_WAIT}"), (K_RELEASE, "")),
        "LV002",
    ),
    "q released in every iteration": (((Q_WAIT, f"{Q_WAIT}\nac.mbarrier.arrive %still_held [peers = 1]"),), "LV002"),
    "q never released": (((Q_RELEASE, ""),), "LV001"),
    "q released twice": (((Q_RELEASE, f"{Q_RELEASE}\n{Q_RELEASE}"),), "LV002"),
    "q not waited for": (((Q_WAIT, ""), ("ac.yield %still_held", "ac.yield %q_reading")), "LV008"),
    "q's product not done": (((Q_WAIT, ""), (K_WAIT, f"{Q_WAIT.replace('= 0]', '= 1]')}\n{K_WAIT}")), "WG002"),
    "q's slot carried as full": ((("%held : !ac.phase<q_ring, retired> =", "%held ="),), "LV006"),
    "q of k's slot": ((("phase(%keys) a(%q) b(%k)", "phase(%keys) a(%k) b(%k)"),), "MB007"),
    "q in k's ring": (
        (
            (" a_phase(%held)", ""),
            ("%products, %k_reading, %q_reading =", "%products, %k_reading ="),
            (Q_WAIT, ""),
            ("ac.yield %still_held", "ac.yield %held"),
        ),
        "MB007",
    ),
    "rows of q beyond its slot": ((("a_instance_bytes = 8192", "a_instance_bytes = 16384"),), "WG006"),
    "rows of v beyond its slot": ((("12288, 14336]", "12288, 16384]"),), "WG006"),
    "rows of v off its pattern": ((("12288, 14336]", "12288, 14344]"),), "WG008"),
    "one release of q for two readers": (
        (
            (
                "@q_ring [stages = 1, full_arrivals = 1, empty_arrivals = 2",
                "@q_ring [stages = 1, full_arrivals = 1, empty_arrivals = 1",
            ),
        ),
        "MB009",
    ),
    "an accumulator begun and left": (((START, f"{START}%other = ac.accumulator.start %corrected\n"),), "LV001"),
    "multiplied by no columns": ((("m = 64, n = 64, steps = 8", "m = 64, n = 0, steps = 8"),), "WG010"),
    "carried sums of a product": (
        (("%v_next, %most_now, %sum_now, %total_now", "%v_next, %most_now, %sum_now, %settled"),),
        "LV008",
    ),
    "maps by the producer": (
        (("%k_free =", "%none = ac.fragment.full [bits = 0] -> !ac.fragment<m = 64, n = 64, m, f32>\n%k_free ="),),
        "WG009",
    ),
}
UNKNOWN: dict[str, tuple[tuple[Edit, ...], str]] = {
    "numbers that were not rounded multiplied": (
        (("issue_fragment a(%rounded)", "issue_fragment a(%weights)"),),
        "mult",
    ),
    "fewer steps than columns": (
        (("steps = 8", "steps = 7"), ("10240, 12288, 14336]", "10240, 12288]")),
        "multiplies 64 x 112",
    ),
    "steps without advances": ((("10240, 12288, 14336]", "10240, 12288]"),), "8 steps with 7"),
    "folded by a product": ((("fold max", "fold mul"),), "folds by 'mul'"),
    "rows folded again": ((("fold add %weights", "fold add %row_most"),), "folds rows"),
    "an accumulator of rounded numbers": (
        ((f"mn, f32> {{\n            {RESCALE}", f"mn, bf16> {{\n            {RESCALE}"),),
        "begins with a fragment of bf16",
    ),
    "shapes that differ": (
        (("inputs(%total_before, %correction)", "inputs(%scaled, %correction)"),),
        "different shapes",
    ),
    "rows of what changes along them": (((MOST, MOST.replace("%row_most", "%scaled")),), "changes along it"),
    "an argument less": (
        (
            (MOST, MOST.replace("(%before, %row)", "(%before)")),
            ("max %before, %row", "max %before, %before"),
        ),
        "1 arguments for 2 inputs",
    ),
    "a result less": ((("ac.yield %larger, %factor", "ac.yield %larger"),), "does not end its region"),
    "an unknown function": ((("ac.scalar fma", "ac.scalar fna"),), "unknown function"),
    "two operands of three": ((("fma %before, %factor, %row", "fma %before, %factor"),), "fma of 2"),
    "rows stored as a matrix": (
        (("fragment(%logarithm) destination(%l)", "fragment(%logarithm) destination(%o)"),),
        "no vec",
    ),
    "a matrix stored as rows": (
        (("fragment(%result) destination(%o)", "fragment(%result) destination(%l)"),),
        "no matrix",
    ),
    "another element stored": (
        (
            (
                "(%x, %whole) -> !ac.fragment<m = 64, n = 64, mn, bf16>",
                "(%x, %whole) -> !ac.fragment<m = 64, n = 64, mn, f16>",
            ),
        ),
        "stores f16",
    ),
    "no shape of fragments": (
        (
            (
                "(%x, %whole) -> !ac.fragment<m = 64, n = 64, mn, bf16>",
                "(%x, %whole) -> !ac.fragment<m = 65, n = 64, mn, bf16>",
            ),
        ),
        "a fragment of 65 x 64",
    ),
    "no float": (
        (
            (
                "(%x, %whole) -> !ac.fragment<m = 64, n = 64, mn, bf16>",
                "(%x, %whole) -> !ac.fragment<m = 64, n = 64, mn, i32>",
            ),
        ),
        "a fragment of i32",
    ),
    "rows that come round after 2^32": (
        (("%row = ac.affine 128 * %m + 64", "%row = ac.affine 4294967296 * %m + 64"),),
        "an index past 32 bits",
    ),
    "rows that come round at the second tile after": (
        (("%row = ac.affine 128 * %m + 64", "%row = ac.affine 2147483648 * %m + 64"),),
        "an index past 32 bits",
    ),
    "no image of 32 bits": ((("bits = 4286578688", "bits = 4294967296"),), "fills a fragment"),
}


def verdict(text: str) -> Verdict:
    (kernel,) = read_ac(text, "k.ac.mlir").kernels
    return verify(kernel.module, HOPPER)


def edited(text: str, edits: tuple[Edit, ...]) -> str:
    for old, new in edits:
        assert text.count(old) == 1, (old, text.count(old))
        text = text.replace(old, new)
    return text


def require_refuted(text: str, code: str) -> None:
    found = verdict(text)
    assert isinstance(found, Refuted), found
    assert code in {finding.code for finding in found.findings}, found.findings


def require_unknown(text: str, words: str) -> None:
    found = verdict(text)
    assert isinstance(found, Unknown), found
    assert any(words in reason for reason in found.reasons), found.reasons


def test_attention_is_proven() -> None:
    assert isinstance(verdict(ATTENTION), Proven)


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", REFUTED)
def test_edits_of_attention_are_refuted(name: str) -> None:
    require_refuted(edited(ATTENTION, REFUTED[name][0]), REFUTED[name][1])


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", UNKNOWN)
def test_edits_of_attention_are_not_proven(name: str) -> None:
    require_unknown(edited(ATTENTION, UNKNOWN[name][0]), UNKNOWN[name][1])


def test_tiles_that_are_more_than_32_bits_count_are_not_proven() -> None:
    require_unknown(ATTENTION.replace("tiles_m = 4,", "tiles_m = 4294967296,"), "more than are counted in 32 bits")


def test_a_full_slot_may_be_released_as_it_is() -> None:
    """Products are no reason to hold it: what was never read may be released too."""
    text = edited(ATTENTION, ((Q_RELEASE, "ac.mbarrier.arrive %queries [peers = 1]"),))
    require_refuted(text, "LV002")


# ---------------------------------------------------------------- sums that go on, products that overlap

SHAPE = Shape()
SUMS = (
    """
%zero = ac.fragment.full [bits = 0] -> F
%begun = ac.accumulator.start %zero
%first, %now = ac.wgmma.issue_fragment a(%x) phase(%held) b(%b) accumulator(%begun) [
    m = 64, n = 64, steps = 4, element = bf16, b_major = K, b_leading_bytes = 16, b_stride_bytes = 1024,
    b_step_bytes = [0, 32, 64, 96]]
ac.wgmma.commit
{between}
%done, %product = ac.wgmma.wait reading(%now) accumulator(%first) [pending = 0]
    -> retired !ac.phase<ab, retired>, settled !ac.acc<m = 64, n = 64>
ac.mbarrier.arrive %done [peers = 1]
%y_values = ac.fragment.map inputs(%product) (%one) -> F {{
  ac.yield %one
}}
%r = ac.fragment.fold add %y_values
"""
)  # fmt: skip
ROUNDS = "%z = ac.fragment.map inputs(%x) (%one) -> {kind} {{\n  ac.yield %one\n}}\n"


def test_what_is_no_operand_may_be_computed_beside_a_product() -> None:
    assert isinstance(verdict(kernel_text(SHAPE, SUMS.format(between=ROUNDS.format(kind="F")))), Proven)


def test_an_operand_may_not_be_made_beside_a_product() -> None:
    require_refuted(kernel_text(SHAPE, SUMS.format(between=ROUNDS.format(kind="X"))), "WG011")


def test_an_operand_may_not_be_moved_beside_a_product() -> None:
    more = """
    %more, %then = ac.wgmma.issue_fragment a(%x) phase(%full_again) b(%b) accumulator(%first) [
        m = 64, n = 64, steps = 4, element = bf16, b_major = K, b_leading_bytes = 16, b_stride_bytes = 1024,
        b_step_bytes = [0, 32, 64, 96]]
    ac.wgmma.commit"""
    text = SUMS.format(between=more.replace("%full_again", "%again"))
    text = text.replace("reading(%now) accumulator(%first)", "reading(%then) accumulator(%more)")
    text = text.replace("phase(%held)", "phase(%held)").replace(
        "ac.wgmma.commit\n\n", "ac.wgmma.commit\n%again = ac.wgmma.wait reading(%now) [pending = 1]"
        " -> retired !ac.phase<ab, retired>\n",
    )  # fmt: skip
    require_refuted(kernel_text(SHAPE, text), "WG011")


LOOPED = """
%zero = ac.fragment.full [bits = 0] -> F
%begun = ac.accumulator.start %zero
ac.wgmma.fence
%kept, %sums = ac.loop over more [begin = 0] (%t)
    carrying (%held_yet : !ac.phase<ab, retired> = %held, %before = %begun) {
  %after, %now = ac.wgmma.issue_fragment a(%x) phase(%held_yet) b(%b) accumulator(%before) [
      m = 64, n = 64, steps = 4, element = bf16, b_major = K, b_leading_bytes = 16, b_stride_bytes = 1024,
      b_step_bytes = [0, 32, 64, 96]]
  ac.wgmma.commit
  %again = ac.wgmma.wait reading(%now) [pending = 0] -> retired !ac.phase<ab, retired>
  ac.yield %again, %after
}
ac.mbarrier.arrive %kept [peers = 1]
%product = ac.wgmma.wait accumulator(%sums) [pending = 0] -> settled !ac.acc<m = 64, n = 64>
%y_values = ac.fragment.map inputs(%product) (%one) -> F {
  ac.yield %one
}
%r = ac.fragment.fold add %y_values
"""


def looped(body: str) -> str:
    text = kernel_text(SHAPE, body)
    return text.replace(
        "symbols = {tiles = 2}, minima = {tiles = 0}", "symbols = {more = 3, tiles = 2}, minima = {more = 0, tiles = 0}"
    )


def test_sums_that_begin_as_a_fragment_go_on_through_a_loop() -> None:
    """Whatever the number of iterations, none included: the slot is read in each, and released once."""
    assert isinstance(verdict(looped(LOOPED)), Proven)


@pytest.mark.parametrize(
    ("edits", "code"),
    [
        ((("[pending = 0] -> retired", "[pending = 1] -> retired"),), "WG002"),
        ((("ac.mbarrier.arrive %kept [peers = 1]", ""),), "LV001"),
        ((("  ac.wgmma.commit\n", ""),), "WG001"),
        ((("ac.yield %again, %after", "ac.mbarrier.arrive %again [peers = 1]\nac.yield %again, %after"),), "LV002"),
    ],
)
def test_edits_of_the_loop_are_refuted(edits: tuple[Edit, ...], code: str) -> None:
    require_refuted(looped(edited(LOOPED, edits)), code)


@pytest.mark.parametrize(
    "edits",
    [
        (("ac.yield %again, %after", "%other = ac.accumulator.start %zero\nac.wgmma.fence\nac.yield %again, %other"),),
        ((" accumulator(%before) [", " ["), ("%before = %begun", "%before = %begun")),
    ],
)
def test_an_accumulator_that_takes_another_s_place_is_not_proven(edits: tuple[Edit, ...]) -> None:
    """The lowering leaves accumulators where they are, since a product may be writing them."""
    found = verdict(looped(edited(LOOPED, edits)))
    assert not isinstance(found, Proven)


TAKEN_OVER = """
%zero = ac.fragment.full [bits = 0] -> F
%begun = ac.accumulator.start %zero
%kept, %sums = ac.loop over more [begin = 0] (%t)
    carrying (%held_yet : !ac.phase<ab, retired> = %held, %before = %begun) {
  %so_far = ac.wgmma.wait accumulator(%before) [pending = 0] -> settled !ac.acc<m = 64, n = 64>
  EARLY
  %moved = ac.fragment.map inputs(%so_far) (%one) -> F {
    ac.yield %one
  }
  %begun_again = ac.accumulator.start %moved
  %after, %now = ac.wgmma.issue_fragment a(%x) phase(%held_yet) b(%b) accumulator(%begun_again) [
      m = 64, n = 64, steps = 4, element = bf16, b_major = K, b_leading_bytes = 16, b_stride_bytes = 1024,
      b_step_bytes = [0, 32, 64, 96]]
  ac.wgmma.commit
  LATE
  %again = ac.wgmma.wait reading(%now) [pending = 0] -> retired !ac.phase<ab, retired>
  ac.yield %again, %after
}
ac.mbarrier.arrive %kept [peers = 1]
%product = ac.wgmma.wait accumulator(%sums) [pending = 0] -> settled !ac.acc<m = 64, n = 64>
%y_values = ac.fragment.map inputs(%product) (%one) -> F {
  ac.yield %one
}
%r = ac.fragment.fold add %y_values
"""
PUT_OFF = """%put_off = ac.fragment.map inputs(%so_far) [deferred = 1] (%one) -> !ac.fragment<m = 64, n = 64, mn, f32> {
    ac.yield %one
  }"""
READ_LATE = "%late = ac.fragment.map inputs(%put_off) (%one) -> F {\n    ac.yield %one\n  }"


def test_an_accumulator_may_take_over_the_registers_of_the_one_carried() -> None:
    assert isinstance(verdict(looped(TAKEN_OVER.replace("EARLY", "").replace("LATE", ""))), Proven)


def test_registers_that_are_read_later_are_not_taken_over() -> None:
    """A map that is put off to its user would read them while the next product writes them."""
    text = looped(TAKEN_OVER.replace("EARLY", PUT_OFF).replace("LATE", READ_LATE))
    require_unknown(text, "in other registers")


# ---------------------------------------------------------------- slots that threads read

READ = f"""{RELEASE}
%y_values = ac.fragment.map inputs(%x) (%one) -> F {{
  ac.yield %one
}}
%r = ac.fragment.fold add %y_values
"""


@pytest.mark.parametrize(
    ("edits", "code"),
    [
        (((RELEASE, ""),), "LV001"),
        (((RELEASE, f"{RELEASE}{RELEASE}"),), "LV002"),
        (((RELEASE, "ac.mbarrier.arrive %full [peers = 1]\n"),), "LV002"),
        ((("block_bytes = 8192", "block_bytes = 65536"),), "WG006"),
        ((("first_barrier = 1]", "first_barrier = 16]"),), "NB001"),
        ((("phase(%full) a(%a)", "phase(%full) a(%y_place)"),), "MB007"),
    ],
)
def test_edits_of_a_read_are_refuted(edits: tuple[Edit, ...], code: str) -> None:
    shape = Shape(blocks=2)
    text = kernel_text(shape, READ).replace("    ac.mbarrier.init %ab\n", OTHER + "    ac.mbarrier.init %ab\n")
    assert isinstance(verdict(text), Proven)
    require_refuted(edited(text, edits), code)


OTHER = """    %y_place = ac.buffer @y_place [address = 40960, instances = 1]
        -> !tier.mem<SMEM, bf16, slots = 1, slot_bytes = 1024, "128B">
"""


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ((("step_bytes = [0, 32, 64, 96], block", "step_bytes = [0, 32, 64], block"),), "in 3 steps"),
        ((("step_bytes = [0, 32, 64, 96], block", "step_bytes = [0, 32, 64, 104], block"),), "off the period"),
        ((("mn, bf16>, !ac.phase", "mn, f16>, !ac.phase"),), "reads bf16 as f16"),
        ((("mn, bf16>, !ac.phase", "m, bf16>, !ac.phase"),), "reads a fragment"),
        ((("unit(%unit) [\n            step", "unit(%n) [\n            step"),), "unit"),
    ],
)
def test_edits_of_a_read_are_not_proven(edits: tuple[Edit, ...], words: str) -> None:
    require_unknown(edited(kernel_text(SHAPE, READ), edits), words)


PLACES = f"""{RELEASE}
%y_values, %r = ac.fragment.map inputs(%x) places(%row, %column) (%one, %i : !ac.index, %j : !ac.index) -> F, R {{
  %group = ac.index.divide %i [size = 5]
  %place = ac.affine 3 * %group + 2 * %j + 7
  %half = ac.index.divide %place [size = 2]
  %number = ac.index.number %half
  %of_row = ac.index.number %group
  ac.yield %number, %of_row
}}"""


def test_indices_of_places_are_understood() -> None:
    assert isinstance(verdict(kernel_text(SHAPE, PLACES)), Proven)


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ((("places(%row, %column)", "places(%row)"),), "3 arguments"),
        ((("[size = 5]", "[size = 0]"),), "divides"),
        ((("2 * %j + 7", "-2 * %j + 7"),), "divides"),
        ((("2 * %j + 7", "2 * %j + -1"),), "divides"),
        ((("ac.yield %number, %of_row", "ac.yield %number, %number"),), "changes along it"),
        ((("%j : !ac.index", "%j"), ("+ 2 * %j + 7", "+ 7")), "3 arguments"),
    ],
)
def test_edits_of_places_are_not_proven(edits: tuple[Edit, ...], words: str) -> None:
    require_unknown(kernel_text(SHAPE, edited(PLACES, edits)), words)


FURTHER: tuple[Edit, ...] = (
    ("places(%row, %column)", "places(%row, %column, %row)"),
    ("%j : !ac.index)", "%j : !ac.index, %k : !ac.index)"),
)


def test_a_further_index_is_the_same_at_all_places() -> None:
    along = (("%half = ac.index.divide %place", "%half = ac.index.divide %k"), ("%number, %of_row", "%of_row, %number"))
    assert isinstance(verdict(kernel_text(SHAPE, edited(PLACES, FURTHER))), Proven)
    assert isinstance(verdict(kernel_text(SHAPE, edited(PLACES, (*FURTHER, *along)))), Proven)


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ((("places(%row, %column)", "places(%row, %column, %row)"),), "3 arguments"),
        ((*FURTHER, ("2 * %j + 7", "-2 * %k + 7")), "divides"),
        (
            (*FURTHER, ("2 * %j + 7", "2 * %k + 7"), ("%group = ac.index.divide %i", "%group = ac.index.divide %j")),
            "changes along it",
        ),
    ],
)
def test_edits_of_further_indices_are_not_proven(edits: tuple[Edit, ...], words: str) -> None:
    require_unknown(kernel_text(SHAPE, edited(PLACES, edits)), words)


def test_a_product_of_two_blocks_by_two_units_is_proven() -> None:
    shape = Shape(units=2, blocks=2)
    body = multiply(shape, "%x") + READ.replace(RELEASE, "").replace("inputs(%x)", "inputs(%product)")
    assert isinstance(verdict(kernel_text(shape, body)), Proven)
