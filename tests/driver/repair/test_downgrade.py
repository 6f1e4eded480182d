"""Copies in a form that is legal for their size and address, and completions of the kind that is waited for."""

from __future__ import annotations

import pytest
from tests.driver.repair.repaired_kernels import HEAD, repair_of

from tilewright.base.check_report import FileReport
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import REPAIR_STEPS, CheckOptions
from tilewright.driver.repair.candidates import candidates
from tilewright.driver.repair.edits import apply_edits
from tilewright.driver.repair.text import applied
from tilewright.frontends.ptx.reader import read

LOAD = """\
.visible .entry load(.param .u64 .ptr .global .align 128 source)
.reqntid 64
{
	.reg .pred %p<4>;
	.reg .b32 %r<8>;
	.reg .b64 %rd<4>;
	.shared .align 128 .b8 tile[2048];
	.shared .align 8 .b8 bar[8];

	ld.param.u64 %rd1, [source];
	add.u64 %rd2, %rd1, SOURCE;
	mov.u32 %r0, %tid.x;
	setp.eq.u32 %p0, %r0, 0;
	@%p0 mbarrier.init.shared::cta.b64 [bar], 1;
	@%p0 fence.mbarrier_init.release.cluster;
	bar.sync 0;
	@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], EXPECTED;
	@%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd2], SIZE, [bar];
	MORE
wait:
	mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
	@!%p1 bra wait;
	shl.b32 %r1, %r0, 2;
	mov.u32 %r3, tile;
	add.u32 %r1, %r1, %r3;
	USE
	ret;
}
"""
STORE = """\
.visible .entry store(.param .u64 .ptr .global .align 128 target)
.reqntid 64
{
	.reg .pred %p<4>;
	.reg .b32 %r<8>;
	.reg .b64 %rd<4>;
	.shared .align 128 .b8 tile[2048];
	.shared .align 8 .b8 bar[8];

	ld.param.u64 %rd1, [target];
	mov.u32 %r0, %tid.x;
	setp.eq.u32 %p0, %r0, 0;
	@%p0 mbarrier.init.shared::cta.b64 [bar], 1;
	shl.b32 %r1, %r0, 2;
	mov.u32 %r3, tile;
	add.u32 %r1, %r1, %r3;
	st.shared.b32 [%r1], %r0;
	fence.proxy.async.shared::cta;
	bar.sync 0;
	@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], SIZE;
	WAIT
	ret;
}
"""
READ = "ld.shared.b32 %r2, [%r1];"
STORED_AGAIN = """@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd1+4096], [tile], 512;
	@%p0 cp.async.bulk.commit_group;
	@%p0 cp.async.bulk.wait_group 0;"""
GROUPS = "@%p0 cp.async.bulk.commit_group;\n\t@%p0 cp.async.bulk.wait_group 0;"
OTHER_GROUPS = "@%p0 cp.async.commit_group;\n\t@%p0 cp.async.wait_group 0;"
PHASE = "wait:\n\t@%p0 mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;\n\t@!%p1 bra wait;"


def load(size: int, *, source: int = 0, expected: int = 0, more: str = "", use: str = READ) -> str:
    text = LOAD.replace("EXPECTED", str(expected or size)).replace("SIZE", str(size)).replace("SOURCE", str(source))
    return HEAD + text.replace("MORE", more).replace("USE", use)


def store(size: int, wait: str = GROUPS) -> str:
    return HEAD + STORE.replace("SIZE", str(size)).replace("WAIT", wait)


def checked(text: str) -> FileReport:
    return check_text(text, "k.ptx", options=CheckOptions(repair_steps=REPAIR_STEPS))


def repaired(text: str) -> tuple[str, str]:
    """The repair's title, and the text with it, which is proven."""
    repair = repair_of(checked(text).kernels[0])
    assert repair is not None and not repair.remaining
    changed = apply_edits(text, repair.edits)
    assert [kernel.verdict for kernel in check_text(changed, "k.ptx").kernels] == ["proven"]
    return repair.title, changed


@pytest.mark.parametrize("text", [load(1024), load(512, use=STORED_AGAIN), store(512)])
def test_what_is_legal_is_proven(text: str) -> None:
    assert [kernel.verdict for kernel in check_text(text, "k.ptx").kernels] == ["proven"]


@pytest.mark.sample(2)
@pytest.mark.parametrize(("size", "source", "width"), [(1000, 0, 8), (1004, 0, 4), (1024, 8, 8), (1024, 4, 4)])
def test_a_load_that_is_no_bulk_copy_is_made_by_smaller_ones(size: int, source: int, width: int) -> None:
    title, changed = repaired(load(size, source=source))
    assert f"cp.async of {width} bytes" in title
    assert "cp.async.bulk" not in changed and "expect_tx" not in changed
    assert f"[copy_from], {width};" in changed and "cp.async.mbarrier.arrive.noinc" in changed


def test_a_number_among_the_parameters_is_no_aligned_offset() -> None:
    """An address that a 32-bit parameter moves may be any: no copy is wider than a byte."""
    text = load(1000).replace("align 128 source)", "align 128 source, .param .u32 n)", 1)
    offset = "ld.param.u32 %r7, [n];\n\tcvt.u64.u32 %rd3, %r7;\n\tadd.u64 %rd2, %rd1, %rd3;"
    text = text.replace("add.u64 %rd2, %rd1, 0;", offset)
    assert "%rd3;" in text
    report = check_text(text, "k.ptx")
    module = read(text, "k.ptx", tolerant=True)
    titles = [
        each.title for finding in report.kernels[0].errors for each in candidates(text, module, finding)
        if each.title.startswith("copy by")
    ]  # fmt: skip
    assert titles and not any("cp.async" in title or " 8 bytes" in title for title in titles)


def test_bytes_that_no_cp_async_takes_are_loaded_and_stored() -> None:
    title, changed = repaired(load(1002))
    assert "loads and stores of 2 bytes" in title and "ld.global.b16" in changed and "st.shared.b16" in changed


def test_where_an_engine_reads_the_copies_are_waited_for_and_fenced() -> None:
    text = load(1000, use=STORED_AGAIN)
    _, changed = repaired(text)
    assert changed.index("cp.async.ca") < changed.index("fence.proxy.async") < changed.index("cp.async.bulk.global")
    (finding,) = check_text(text, "k.ptx").kernels[0].errors
    proposed = {each.title: each for each in candidates(text, read(text, "k.ptx"), finding)}
    changed = applied(text, proposed["copy by cp.async of 8 bytes, waited for and fenced (line 21)"])
    assert changed is not None
    assert [kernel.verdict for kernel in check_text(changed, "k.ptx").kernels] == ["proven"]
    assert changed.index("cp.async.wait_all") < changed.index("fence.proxy.async") < changed.index("b64 _, [bar]")


def test_other_copies_of_the_phase_are_expected_still() -> None:
    more = "@%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile+1024], [%rd1], 512, [bar];"
    _, changed = repaired(load(1000, expected=1512, more=more))
    assert "expect_tx.shared::cta.b64 _, [bar], 512;" in changed
    assert "cp.async.mbarrier.arrive.shared::cta.b64 [bar];" in changed and "noinc" not in changed


def test_a_store_that_is_no_bulk_copy_is_made_by_stores() -> None:
    title, changed = repaired(store(1000))
    assert "loads and stores of 8 bytes" in title and "cp.async.bulk.global" not in changed


def test_groups_of_the_other_kind_are_replaced() -> None:
    title, changed = repaired(store(512, OTHER_GROUPS))
    assert "bulk groups" in title and changed == store(512)


def test_a_store_is_waited_for_by_its_group_and_not_by_an_mbarrier() -> None:
    title, changed = repaired(store(512, PHASE))
    assert "instead of the mbarrier" in title
    assert "try_wait" not in changed and "cp.async.bulk.wait_group" in changed


def test_a_load_is_waited_for_by_its_mbarrier_and_not_by_a_group() -> None:
    text = load(512)
    wait = text[text.index("wait:\n") : text.index("\tshl.b32 %r1")]
    title, changed = repaired(text.replace(wait, f"\t{GROUPS}\n\tbar.sync 0;\n"))
    assert "instead of a bulk group" in title
    assert "try_wait" in changed and "wait_group" not in changed and "commit_group" not in changed
