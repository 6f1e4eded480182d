"""A correct kernel to be spoiled, and what its repair is."""

from __future__ import annotations

import re
from collections import Counter

from tilewright.base.check_report import FileReport, KernelReport
from tilewright.base.diagnostic import Repair
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import REPAIR_STEPS, CheckOptions
from tilewright.frontends.ptx.ast import Instruction
from tilewright.frontends.ptx.reader import read

_WORK = re.compile(
    r"^(cp\.async\.bulk(?!\.(commit|wait))|cp\.async$|ld|st|stmatrix|ldmatrix|wgmma\.mma|tcgen05\.(mma|ld|st|cp)|"
    r"mbarrier\.(try|test)_wait|red|atom)"
)


HEAD = """\
.version 8.6
.target sm_90a
.address_size 64
"""


RING = """\
.visible .entry ring(.param .u64 source)
.reqntid 64
{
	.reg .pred %p<16>;
	.reg .b32 %r<32>;
	.reg .b64 %rd<8>;
	.shared .align 128 .b8 slots[4096];
	.shared .align 8 .b8 full[16];
	.shared .align 8 .b8 empty[16];

	ld.param.u64 %rd1, [source];
	mov.u32 %r0, %tid.x;
	setp.eq.u32 %p0, %r0, 0;
	setp.ge.u32 %p1, %r0, 32;
	@%p0 mbarrier.init.shared::cta.b64 [full], 1;
	@%p0 mbarrier.init.shared::cta.b64 [full+8], 1;
	@%p0 mbarrier.init.shared::cta.b64 [empty], 32;
	@%p0 mbarrier.init.shared::cta.b64 [empty+8], 32;
	@%p0 fence.mbarrier_init.release.cluster;
	bar.sync 0;
	mov.u32 %r1, 0;
	mov.u32 %r2, 0;
	mov.u32 %r3, 0;
	mov.u32 %r4, slots;
	mov.u32 %r5, full;
	mov.u32 %r6, empty;
	@%p1 bra $consume;
$produce:
	shl.b32 %r7, %r2, 3;
	add.u32 %r8, %r5, %r7;
	add.u32 %r9, %r6, %r7;
	shl.b32 %r10, %r2, 11;
	add.u32 %r11, %r4, %r10;
	xor.b32 %r12, %r3, 1;
$free:
	mbarrier.try_wait.parity.shared::cta.b64 %p9, [%r9], %r12;
	@!%p9 bra $free;
	@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 2048;
	@%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r11], [%rd1], 2048, [%r8];
	add.u32 %r13, %r2, 1;
	setp.eq.u32 %p2, %r13, 2;
	selp.b32 %r2, 0, %r13, %p2;
	selp.b32 %r14, 1, 0, %p2;
	xor.b32 %r3, %r3, %r14;
	add.u32 %r1, %r1, 1;
	setp.lt.u32 %p3, %r1, 6;
	@%p3 bra $produce;
	ret;
$consume:
	shl.b32 %r7, %r2, 3;
	add.u32 %r8, %r5, %r7;
	add.u32 %r9, %r6, %r7;
	shl.b32 %r10, %r2, 11;
	add.u32 %r11, %r4, %r10;
$filled:
	mbarrier.try_wait.parity.shared::cta.b64 %p9, [%r8], %r3;
	@!%p9 bra $filled;
	ld.shared.b32 %r15, [%r11];
	mbarrier.arrive.shared::cta.b64 _, [%r9];
	add.u32 %r13, %r2, 1;
	setp.eq.u32 %p2, %r13, 2;
	selp.b32 %r2, 0, %r13, %p2;
	selp.b32 %r14, 1, 0, %p2;
	xor.b32 %r3, %r3, %r14;
	add.u32 %r1, %r1, 1;
	setp.lt.u32 %p3, %r1, 6;
	@%p3 bra $consume;
	ret;
}
"""


CORRECT = HEAD + RING


def checked(text: str, steps: int = REPAIR_STEPS) -> FileReport:
    return check_text(text, "k.ptx", options=CheckOptions(repair_steps=steps))


def repair_of(kernel: KernelReport) -> Repair | None:
    return (
        kernel.errors[0].repair
        if kernel.errors and kernel.errors[0].repair and kernel.errors[0].repair.rechecked
        else None
    )


def work(text: str) -> Counter[str]:
    """How often each opcode that moves, computes or waits stands in a text, as written."""
    module = read(text, "k.ptx", tolerant=True)
    rows = [item.row for kernel in module.kernels for item in kernel.body if isinstance(item, Instruction)]
    return Counter(row for row in rows if _WORK.match(row))
