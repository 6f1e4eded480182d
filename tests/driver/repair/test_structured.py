"""Structured programs that are refuted are repaired by edits of their lines, checked again like all others."""

from __future__ import annotations

import pytest
from tests.driver.check.structured_text import EXPECT, INIT, LOAD, PARITY, PENDING, RELEASE, WAIT, edited, more, text_of
from tests.driver.check.upstream_kernels import copied, pipelined, specialized
from tests.lower.lowered_programs import gemm

from tilewright.base.diagnostic import Repair
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import REPAIR_STEPS, CheckOptions
from tilewright.driver.repair.edits import apply_edits


def repair_of(text: str, name: str) -> Repair | None:
    report = check_text(text, name, options=CheckOptions(repair_steps=REPAIR_STEPS))
    assert report.kernels[0].verdict == "refuted"
    return next(
        (each.repair for each in report.kernels[0].errors if each.repair is not None and each.repair.rechecked), None
    )


def assert_repaired(text: str, name: str, right: str, *, restored: bool) -> str:
    """The repair's title. restored: the repaired text is the right one again, but for blanks."""
    repair = repair_of(text, name)
    assert repair is not None and not repair.remaining
    repaired = apply_edits(text, repair.edits)
    assert check_text(repaired, name).kernels[0].verdict == "proven"
    assert not restored or repaired.split() == right.split()
    return repair.title


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("kernel", "pattern", "replacement", "occurrence", "title", "restored"),
    [
        ("wgmma_ring", INIT, None, 1, "initialise the barrier", True),
        ("specialized_copy", INIT, "twice", 3, "once instead of twice", True),
        ("specialized_copy", INIT, more, 0, "count 1 instead of 2", True),
        ("specialized_copy", EXPECT, None, 0, "expect 8192 bytes", False),
        ("wgmma_ring", EXPECT, lambda match: f"{match[1]}100", 2, "expect 32768 instead of 100", True),
        ("scale_ring", LOAD, "twice", 1, "once instead of twice", True),
        ("specialized_copy", WAIT, None, 0, "wait for the phase", False),
        ("specialized_copy", PARITY, r"\1, %c0_i32", 0, "wait for parity", True),
        ("specialized_copy", RELEASE, None, 0, "arrive", False),
        ("specialized_copy", RELEASE, "twice", 0, "once instead of twice", True),
        ("wgmma_ring", PENDING, more, 0, "leave 0 groups pending", True),
        ("scale_ring", "async_tma_store_wait", None, 0, "ttng.async_tma_store_wait", False),
    ],
)
def test_ttgir(kernel, pattern, replacement, occurrence, title, restored) -> None:
    right = text_of(kernel)
    text, _ = edited(right, pattern, replacement, occurrence)
    assert title in assert_repaired(text, f"{kernel}.ttgir", right, restored=restored)


def test_an_early_release_of_ttgir_goes_behind_the_load() -> None:
    right = text_of("specialized_copy")
    lines = right.split("\n")
    load = next(index for index, line in enumerate(lines) if "ttg.local_load" in line)
    view = next(index for index in range(load, len(lines)) if "memdesc_index %bar_0" in lines[index])
    assert "arrive_barrier" in lines[view + 1] and "fence" in lines[view - 1]
    early = [*lines[:load], lines[view], lines[view + 1], lines[load], lines[view - 1], *lines[view + 2 :]]
    title = assert_repaired("\n".join(early), "k.ttgir", right, restored=False)
    assert "behind the last read" in title


def test_two_bugs_of_ttgir() -> None:
    right = text_of("wgmma_ring")
    text, _ = edited(right, PENDING, more, 0)
    text, _ = edited(text, r"async_tma_store_wait", None, 0)
    title = assert_repaired(text, "k.ttgir", right, restored=False)
    assert title.count("; ") == 1


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("pattern", "replacement", "occurrence"),
    [
        (r"nvgpu\.mbarrier\.init", "twice", 0),
        (r"nvvm\.wgmma\.fence", None, 0),
        (r"(wait\.group\.sync\.aligned )(\d)", more, 0),
        (r"nvvm\.fence\.proxy", None, 0),
    ],
)
def test_nvgpu(pattern, replacement, occurrence) -> None:
    right = gemm(4096, 2048, 512, turns=False).nvgpu
    text, _ = edited(right, pattern, replacement, occurrence)
    assert_repaired(text, "k.mlir", right, restored=False)


UPSTREAM = [
    (pipelined, "%bytes_of_stage = arith.constant 32768", "%bytes_of_stage = arith.constant 32752", "expect 32768"),
    (pipelined, "%parity = %even", "%parity = %odd", "begin with the other parity"),
    (pipelined, "waitGroup = 0", "waitGroup = 1", "leave 0 groups pending"),
    (pipelined, "%c1, predicate = %first : !barriers", "%c2, predicate = %first : !barriers", "count 1 arrivals"),
    (specialized, "    nvgpu.mbarrier.init %empty[%c1], %c1, predicate = %first : !barriers\n", "",
     "initialise %empty"),
    (copied, "numGroups = 1", "numGroups = 2", "leave 1 groups pending"),
]  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize(("kernel", "old", "new", "title"), UPSTREAM, ids=[row[3] for row in UPSTREAM])
def test_mbarriers_of_nvgpu(kernel, old, new, title) -> None:
    right = kernel()
    text = right.replace(old, new, 1)
    assert text != right
    assert title in assert_repaired(text, "k.mlir", right, restored=False)


def test_a_lost_expectation_of_nvgpu() -> None:
    right = pipelined()
    expect = next(line for line in right.splitlines(keepends=True) if "predicate = %fills" in line)
    assert "expect_tx" in expect
    assert "bytes" in assert_repaired(right.replace(expect, ""), "k.mlir", right, restored=False)


def test_what_no_edit_repairs_is_left() -> None:
    ring = r"arith\.remsi (%\w+), %c2_i32\w*"
    text, _ = edited(text_of("specialized_copy"), ring, r"arith.remsi \1, %c1_i32", 0)
    assert repair_of(text, "k.ttgir") is None
