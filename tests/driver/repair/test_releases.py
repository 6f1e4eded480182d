"""Arrivals that release a slot before its reads are taken behind the last of them."""

from __future__ import annotations

import pytest
from tests.driver.repair.repaired_kernels import CORRECT, checked, repair_of, work

from tilewright.driver.check.check import check_text
from tilewright.driver.repair.edits import apply_edits

RELEASE = "\tmbarrier.arrive.shared::cta.b64 _, [%r9];\n"
READ = "\tld.shared.b32 %r15, [%r11];\n"
LOOP = """\
	mov.u32 %r16, 0;
$inner:
	add.u32 %r17, %r11, %r16;
	ld.shared.b32 %r15, [%r17];
	add.u32 %r16, %r16, 4;
	setp.lt.u32 %p5, %r16, 64;
	@%p5 bra $inner;
"""
SKIPPED = """\
	setp.lt.u32 %p5, %r0, 40;
	@%p5 bra $skip;
	ld.shared.b32 %r15, [%r11];
	ld.volatile.shared.b32 %r16, [%r11+4];
$skip:
"""
OVERWRITTEN = READ + "\tadd.u32 %r9, %r9, 8;\n"


def with_reads(reads: str) -> str:
    assert READ + RELEASE in CORRECT
    return CORRECT.replace(READ + RELEASE, reads)


@pytest.mark.parametrize("reads", [LOOP, SKIPPED, LOOP + SKIPPED])
def test_a_release_is_taken_behind_loops_and_joins(reads: str) -> None:
    right = with_reads(reads + RELEASE)
    assert [kernel.verdict for kernel in check_text(right, "k.ptx").kernels] == ["proven"]
    early = with_reads(RELEASE + reads)
    report = checked(early)
    repair = repair_of(report.kernels[0])
    assert repair is not None and "behind the last read" in repair.title and repair.remaining == 0
    repaired = apply_edits(early, repair.edits)
    assert repaired == right and work(repaired) == work(early)


def test_what_to_do_is_said_of_reads_as_well() -> None:
    report = check_text(with_reads(RELEASE + READ), "k.ptx")
    (finding,) = report.kernels[0].errors
    assert "reads them" in finding.message and finding.repair is not None
    assert "writer" not in finding.repair.title and "after the last of the earlier accesses" in finding.repair.title


def test_a_release_is_not_taken_to_where_its_address_is_another() -> None:
    report = checked(with_reads(RELEASE + OVERWRITTEN))
    repair = repair_of(report.kernels[0])
    assert repair is None or "behind the last read" not in repair.title
