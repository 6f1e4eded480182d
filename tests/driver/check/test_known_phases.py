"""Phases that end by arrivals which everybody knows, and by those of the tensor core, which come later."""

from pathlib import Path

from tilewright.base.check_report import KernelReport
from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.launch.launch_file import LaunchFile, launch_from_json

PRODUCT = (Path(__file__).parents[3] / "docs/rules/examples/TC208/fixed.ptx").read_text("utf-8")

# Both slots of a ring are declared free by an arrival before it begins; the first fill does not wait for that.
RING = """\
.version 8.6
.target sm_90a
.address_size 64
.visible .entry ring(.param .u64 source, .param .u32 turns) .reqntid 64
{
    .reg .pred %p<8>;
    .reg .b32 %r<16>;
    .reg .b64 %d<8>;
    .shared .align 128 .b8 slots[2048];
    .shared .align 8 .b8 full[16];
    .shared .align 8 .b8 free[16];
    mov.u32 %r0, %tid.x;
    ld.param.u64 %d0, [source];
    ld.param.u32 %r1, [turns];
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra READY;
    mbarrier.init.shared::cta.b64 [full], 1;
    mbarrier.init.shared::cta.b64 [full+8], 1;
    mbarrier.init.shared::cta.b64 [free], 1;
    mbarrier.init.shared::cta.b64 [free+8], 1;
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    @%p0 bra ARMED;
    mbarrier.arrive.shared::cta.b64 _, [free];
    mbarrier.arrive.shared::cta.b64 _, [free+8];
ARMED:
    bar.sync 0; // told
    mov.u32 %r2, 0;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra DONE;
    setp.ge.u32 %p2, %r0, 32;
    @%p2 bra READ;
    @%p0 bra DONE;
FILL:
    and.b32 %r3, %r2, 1;
    shr.u32 %r4, %r2, 1;
    and.b32 %r4, %r4, 1;
    shl.b32 %r5, %r3, 3;
    mov.u32 %r6, free;
    add.u32 %r6, %r6, %r5;
    mov.u32 %r7, full;
    add.u32 %r7, %r7, %r5;
    shl.b32 %r5, %r3, 10;
    mov.u32 %r8, slots;
    add.u32 %r8, %r8, %r5;
    setp.eq.u32 %p6, %r2, 0;
    @%p6 bra FREE;
A:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r6], %r4;
    @!%p3 bra A;
FREE:
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], 1024;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%d0], 1024, [%r7];
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p4, %r2, %r1;
    @%p4 bra FILL;
    bra DONE;
READ:
    and.b32 %r3, %r2, 1;
    shr.u32 %r4, %r2, 1;
    and.b32 %r4, %r4, 1;
    shl.b32 %r5, %r3, 3;
    mov.u32 %r7, full;
    add.u32 %r7, %r7, %r5;
    shl.b32 %r9, %r3, 10;
    mov.u32 %r8, slots;
    add.u32 %r8, %r8, %r9;
B:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r7], %r4;
    @!%p3 bra B;
    ld.shared.b32 %r10, [%r8];
    bar.warp.sync -1;
    setp.ne.u32 %p5, %r0, 32;
    mov.u32 %r6, free;
    add.u32 %r6, %r6, %r5;
    @!%p5 mbarrier.arrive.shared::cta.b64 _, [%r6];
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p4, %r2, %r1;
    @%p4 bra READ;
DONE:
    ret;
}
"""


FIVE_TURNS = launch_from_json(
    {"params": [{"kind": "ptr", "bytes": 1024}, {"kind": "i32", "value": 5}]}, "launch.json"
)  # fmt: skip


def checked(text: str, launch: LaunchFile | None = None) -> KernelReport:
    (report,) = check_text(text, "k.ptx", launch=launch, options=CheckOptions()).kernels
    return report


def test_slots_that_are_declared_free_before_a_barrier() -> None:
    report = checked(RING, FIVE_TURNS)
    assert report.verdict == "proven", (report.findings, report.reasons)


def test_slots_that_another_warp_declares_free_and_nothing_tells() -> None:
    text = RING.replace("    @%p0 bra ARMED;", "    setp.ne.u32 %p7, %r0, 32;\n    @%p7 bra ARMED;")
    assert checked(text, FIVE_TURNS).verdict == "proven"
    alone = text.replace("    bar.sync 0; // told\n", "")
    assert checked(alone, FIVE_TURNS).verdict == "proven", "the second slot's arrival tells of the first"
    first, second = (f"    mbarrier.arrive.shared::cta.b64 _, [{slot}];\n" for slot in ("free", "free+8"))
    report = checked(alone.replace(first + second, second + first), FIVE_TURNS)
    assert report.verdict == "refuted" and report.errors[0].code == "MB108"


def test_a_lane_declares_slots_free_and_another_one_fills() -> None:
    text = RING.replace("    bar.sync 0; // told\n", "").replace(
        "@%p0 bra DONE;", "setp.ne.u32 %p7, %r0, 1; @%p7 bra DONE;"
    )
    assert text.count("%p7") == 2 and checked(text, FIVE_TURNS).verdict == "refuted"


def test_an_arrival_behind_a_commit_that_nobody_has_waited_for() -> None:
    text = PRODUCT.replace("[bar], 1;", "[bar], 2;")
    other = "setp.eq.u32 %p7, %r0, 32;\n\t@%p7 mbarrier.arrive.shared::cta.b64 _, [bar];\n\tbar.sync 0;\n"
    text = text.replace("\tagain:\n", f"\t{other}\t@%p0 mbarrier.arrive.shared::cta.b64 _, [bar]; // early\n\tagain:\n")
    end = "bar.sync 0;\n\ttcgen05.fence::after_thread_sync;\n\t@%p2 bra done;"
    text = text.replace(
        end, "bar.sync 0;\n\t@%p7 mbarrier.arrive.shared::cta.b64 _, [bar];" + end[len("bar.sync 0;") :]
    )
    report = checked(text)
    assert report.verdict == "refuted" and report.errors[0].code == "MB107"
    late = text.replace("\t@%p0 mbarrier.arrive.shared::cta.b64 _, [bar]; // early\n", "").replace(
        "\ttcgen05.ld", "\t@%p0 mbarrier.arrive.shared::cta.b64 _, [bar];\n\ttcgen05.ld"
    )
    assert checked(late).verdict == "proven"
