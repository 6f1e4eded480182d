"""Products by pairs of CTAs on sm_100a, end to end: proved twice, assembled, run by the machine with NumPy's numbers.

No GPU of that architecture was at hand. Edits of the text must be refuted by the second proof's machine and judge.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest
from tests.end_to_end.blackwell_programs import (
    ANY,
    COMMIT,
    FREE,
    GO_ON,
    MEET,
    READ,
    RELEASE,
    TARGET,
    WAIT,
    below_the_diagonal,
    both_ways,
    check_edit,
    check_numbers,
    gated,
    line,
    of_byte_columns,
    of_bytes,
    of_columns,
    of_matrices,
    of_neighbours,
    rejudged,
    replaced,
    with_epilogue,
)

from tilewright.base.check_report import all_findings
from tilewright.base.verdict import Proven
from tilewright.cli.arrays import random_inputs
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.compile.compile import Compilation, compile_kernel
from tilewright.driver.run.run import run_on_machine
from tilewright.driver.views.portability import portability
from tilewright.frontends.tile.kernel import Kernel
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target, target
from tilewright.targets.schema import Fact, Facts

PAIR = (2, 1)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("kernel", "dims", "tile"),
    [
        (gated, {"M": 136, "N": 72, "K": 136}, (128, 96)),
        (with_epilogue, {"M": 300, "N": 136, "K": 136}, (128, 128)),
        (of_bytes, {"M": 140, "N": 200, "K": 272}, (128, 224)),
        (of_byte_columns, {"M": 160, "N": 272, "K": 200}, (128, 96)),
        (gated, {"M": 300, "N": 152, "K": 72}, None),
        (of_columns, {"M": 264, "N": 72, "K": 130}, (128, 32)),
        (of_matrices, {"B": 3, "M": 130, "N": 41, "K": 264}, None),
        (of_matrices, {"B": 2, "M": 257, "N": 1, "K": 8}, None),
        (both_ways, {"M": 392, "N": 104, "K": 72}, (128, 64)),
        (of_neighbours, {"M": 150, "N": 72, "K": 72}, (128, 96)),
        (below_the_diagonal, {"M": 150, "N": 140, "K": 72}, (128, 160)),
    ],
    ids=lambda value: value.name if isinstance(value, Kernel) else "x".join(map(str, value or ())),
)
def test_products_by_pairs(kernel: Kernel, dims: Mapping[str, int], tile: tuple[int, int] | None) -> None:
    made = compile_kernel(kernel, target=TARGET, dims=dims, wanted=Wanted(tile=tile, cluster=PAIR))
    assert made.text_proof is not None and made.assembly is not None and made.assembly.spill_bytes == 0
    assert "tcgen05.mma.cta_group::2" in made.ptx and "cta_group::1" not in made.ptx
    check_numbers(made)


def test_pairs_are_chosen_where_they_are_predicted_to_take_less() -> None:
    """Tiles of many rows fetch less so; where there are few, smaller ones for more CTAs take less."""
    words: dict[tuple[int, int, int], str] = {}
    for rows, columns, depth in ((4096, 4096, 4096), (2048, 1024, 8192), (300, 136, 136), (128, 4096, 4096)):
        dims = {"M": rows, "N": columns, "K": depth}
        report = portability(with_epilogue, [target("sm_90a"), target(TARGET)], dims, "bf16")
        older, newer = report.rows
        assert not any("pair" in line for each in older.decisions for line in each)
        words[rows, columns, depth] = " ".join(line for each in newer.decisions for line in each)
    pairs = {shape: "the first CTA of a pair issues products of 256 rows" in line for shape, line in words.items()}
    assert pairs == {
        (4096, 4096, 4096): True, (2048, 1024, 8192): True, (300, 136, 136): False, (128, 4096, 4096): False
    }  # fmt: skip


class OfTwoMultiprocessors(Facts):
    """Of a device whose one pair takes all tiles."""

    def __getitem__(self, key: str) -> Fact:
        found = super().__getitem__(key)
        return replace(found, value=2) if key == "device.multiprocessors" else found


@cache
def small_product() -> Compilation:
    """Of which a pair has more tiles than slots for sums."""
    facts = target(TARGET)
    two = Target(facts.name, facts.title, OfTwoMultiprocessors(facts.facts.rows, facts.facts.estimates))
    dims = {"B": 4, "M": 130, "N": 24, "K": 72}
    with patch("tilewright.driver.compile.compile.target_named", return_value=two):
        return compile_kernel(of_matrices, target=TARGET, dims=dims, wanted=Wanted(tile=(128, 32), cluster=PAIR))


def of_group(instruction: str, group: int) -> tuple[str, str, int]:
    return rf"({instruction}\.cta_group)::2", rf"\g<1>::{group}", 0


FIRST_CTA = r"(mapa\.shared::cluster\.u32 %r\d+, %r\d+), 0;"
END = line("barrier.cluster.arrive.release") + line("barrier.cluster.wait")
MUTANTS: dict[str, tuple[str, str, int]] = {
    # what goes to the first CTA
    "bytes announced in the second CTA": (FIRST_CTA, r"\1, 1;", 0),
    "bytes that count in the second CTA": (FIRST_CTA, r"\1, 1;", 1),
    "sums released in the second CTA": (FIRST_CTA, r"\1, 1;", -1),
    "bytes that only the own CTA's barrier takes": (r"(complete_tx::bytes)\.cta_group::2", r"\1", 0),
    "a slot of sums is never released": (RELEASE, "", -1),
    "a slot of sums is released before all have read it": (MEET, "", 0),
    "a slot of sums is released before it is read": (rf"({READ})((?:{ANY}){{1,9}}?{RELEASE})", r"\2\1", 0),
    "sums released at the scope of the CTA": (r"arrive\.release\.cluster", "arrive.release.cta", 0),
    "sums released at no scope": (r"arrive\.release\.cluster", "arrive", 0),
    "free sums awaited at the scope of the CTA": (r"\.acquire\.cluster\.", ".acquire.cta.", 0),
    "free sums awaited at no scope": (r"(try_wait\.parity)\.acquire\.cluster", r"\1", 0),
    # what goes to both
    "operands released in the first CTA alone": (r"(mov\.u16 %h\d+), 3;", r"\1, 1;", 0),
    "operands released in the second CTA alone": (r"(mov\.u16 %h\d+), 3;", r"\1, 2;", 0),
    "sums handed over to the first CTA alone": (r"(mov\.u16 %h\d+), 3;", r"\1, 1;", -1),
    "sums handed over to the second CTA alone": (r"(mov\.u16 %h\d+), 3;", r"\1, 2;", -1),
    "sums are never handed over": (COMMIT, "", -1),
    "sums are handed over twice": (rf"({COMMIT})", r"\1\1", -1),
    "a slot is not released": (COMMIT, "", 0),
    # who issues
    "both CTAs issue for both": (line(r"bra role_end_\d+;", True), "", 5),
    "the second CTA issues": (r"(setp\.ne\.u32 %p\d+, %r\d+), 0(;\n[^\n]*bra role_end)", r"\1, 1\2", 0),
    "products of the first CTA alone": of_group(r"tcgen05\.mma", 1),
    "a commit of one CTA": of_group(r"tcgen05\.commit", 1),
    "columns of one CTA": of_group(r"tcgen05\.alloc", 1),
    "columns of one CTA are freed": of_group(r"tcgen05\.dealloc", 1),
    "products do not wait for a free slot of sums": (WAIT, GO_ON, -6),
    "products do not wait for their operands": (WAIT, GO_ON, -5),
    "no wait for the sums": (WAIT, GO_ON, -1),
    # setting up and taking down
    "nobody knows that the peer runs": (line("barrier.cluster.arrive.relaxed") + line("barrier.cluster.wait"), "", 0),
    "the cluster does not meet at the end": (END, "", 0),
    "only the CTA meets at the end": (END, "\tbar.sync 0;\n", 0),
    "never freed": (FREE, "", 0),
    "fewer columns are freed": (r"(tcgen05\.dealloc[^\n]*, )\d+;", r"\g<1>32;", 0),
}  # fmt: skip


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", MUTANTS)
def test_each_edit_of_the_text_is_refuted(name: str) -> None:
    check_edit(small_product(), MUTANTS[name])


def test_the_text_itself_is_proven() -> None:
    compilation = small_product()
    found = rejudged(compilation, compilation.ptx)
    assert isinstance(found, Proven), found


def test_a_reader_of_the_text_alone_finds_nothing_not_even_for_review() -> None:
    """The commit that hands sums over has the products pending that the commit before it released operands of."""
    report = check_text(small_product().ptx, "pair.ptx", options=CheckOptions("strict"))
    assert report.kernels[0].verdict == "proven" and not all_findings((report,)), report


def test_each_half_of_the_columns_is_brought_by_its_own_cta() -> None:
    """No rule of the protocol knows which columns a CTA brings: the numbers do."""
    made = small_product()
    check_numbers(made)
    other = replaced(made.ptx, r"(mad\.lo\.s32 %r\d+, %r\d+), 16,", r"\1, 8,")
    bundle = made.bundle()
    inputs = random_inputs([each for each in bundle.plan.buffers if each.role == "input"], 0)
    right, wrong = (run_on_machine(each, tuple(inputs.values())) for each in (bundle, replace(bundle, ptx=other)))
    assert not np.array_equal(np.asarray(right, np.float32), np.asarray(wrong, np.float32))
