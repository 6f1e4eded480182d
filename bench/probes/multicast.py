"""How many bytes a cycle come to a multiprocessor out of the L2 cache, by who else reads them and by multicast or not?

    python -m bench.probes.multicast [-o multicast.json]

One thread of each of 132 CTAs, a multiprocessor each, in clusters of two, fills a ring of eight slots of 16 KiB by bulk
copies, and a thread of another warp gives each slot back as soon as it is full: the copies are all there is. (A single
thread would fill a slot only after it has waited for one, so that with multicast each slot would wait for an arrival to
come from the other CTA.) The slots' bytes are those of a window of 16 slots that is the CTA's own, its pair's, or
everybody's. By itself a CTA copies whole slots; with multicast each of a pair copies half of each slot for both, and
both must have given a slot back before either fills it. In some runs a quarter of each slot is multicast and the rest
the CTA's own, as where few rows are shared.
`bytes` are what comes to one multiprocessor in a cycle; multicast or not, all bytes of all slots come to it.

Source of the instructions: PTX ISA, cp.async.bulk, mbarrier, barrier.cluster.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

from bench.probes.command import run_probe
from bench.probes.timed_kernels import TimedKernel, counted
from tilewright.runtime import device as gpu

LAPS = 2048
CTAS = 132
SLOTS = 8
SLOT_BYTES = 16384
_WINDOW_SLOTS = 16
_WINDOW_BYTES = _WINDOW_SLOTS * SLOT_BYTES
_DATA = 1024
_EMPTY = 8 * SLOTS
_SHARED_BYTES = _DATA + SLOTS * SLOT_BYTES
_THREADS = 64

_KERNEL = """\
.version 8.3
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 window[];
.visible .entry {name}(.param .u64 source, .param .u64 counts, .param .u32 laps)
.reqntid {threads}
.explicitcluster
.reqnctapercluster 2, 1, 1
{{
    .reg .pred %p<8>;
    .reg .b16 %h<2>;
    .reg .b32 %r<40>;
    .reg .b64 %rd<16>;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %cluster_ctarank;
    mov.u32 %r3, window;
    ld.param.u64 %rd0, [source];
    ld.param.u64 %rd3, [counts];
    mul.wide.u32 %rd4, %r1, 4;
    add.s64 %rd3, %rd3, %rd4;
    ld.param.u32 %r6, [laps];
    setp.ne.u32 %p0, %r0, 0;
    and.b32 %r25, %r0, 31;
    setp.ne.u32 %p6, %r25, 0;
    @%p0 bra initialised;
{inits}
initialised:
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.relaxed;
    barrier.cluster.wait.acquire;
    @%p6 bra done;
    // The barriers of the pair's other CTA.
    xor.b32 %r5, %r2, 1;
    mapa.shared::cluster.u32 %r7, %r3, %r5;
    mov.u32 %r9, 0;
    mov.u64 %rd1, %clock64;
    @%p0 bra give_back;
    // Where the slots' bytes come from: the reader's window, and this CTA's own.
    mov.u32 %r4, {reader};
    mul.wide.u32 %rd4, %r4, {window_bytes};
    add.s64 %rd5, %rd0, %rd4;
    mul.wide.u32 %rd4, %r1, {window_bytes};
    add.s64 %rd6, %rd0, %rd4;
    mul.lo.u32 %r8, %r2, {part_bytes};
    mov.u16 %h0, 3;
fill:
    and.b32 %r11, %r9, {last_slot};
    shr.u32 %r12, %r9, {slot_bits};
    and.b32 %r12, %r12, 1;
    xor.b32 %r12, %r12, 1;
    mad.lo.u32 %r13, %r11, 8, %r3;
wait_empty:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r13+{empty}], %r12;
    @!%p2 bra wait_empty;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r13], {slot_bytes};
    mad.lo.u32 %r14, %r11, {slot_bytes}, %r3;
    add.u32 %r14, %r14, {data};
    and.b32 %r15, %r9, {last_window_slot};
    mul.wide.u32 %rd4, %r15, {slot_bytes};
{copies}
    add.u32 %r9, %r9, 1;
    setp.lt.u32 %p1, %r9, %r6;
    @%p1 bra fill;
    bra done;
give_back:
    and.b32 %r17, %r9, {last_slot};
    shr.u32 %r18, %r9, {slot_bits};
    and.b32 %r18, %r18, 1;
    mad.lo.u32 %r19, %r17, 8, %r3;
wait_full:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r19], %r18;
    @!%p4 bra wait_full;
    mbarrier.arrive.shared::cta.b64 _, [%r19+{empty}];
{release}
    add.u32 %r9, %r9, 1;
    setp.lt.u32 %p5, %r9, %r6;
    @%p5 bra give_back;
    mov.u64 %rd2, %clock64;
    sub.s64 %rd2, %rd2, %rd1;
    cvt.u32.u64 %r20, %rd2;
    st.global.u32 [%rd3], %r20;
done:
    barrier.cluster.arrive.release;
    barrier.cluster.wait.acquire;
    ret;
}}
"""

Readers = Literal["its own", "its pair's", "everybody's"]
_READERS: dict[Readers, str] = {"its own": "%ctaid.x", "its pair's": "%clusterid.x", "everybody's": "0"}


@dataclass(frozen=True, slots=True)
class Reading:
    """readers: whose window it is; shared_bytes: of a slot that are multicast, 0 for none."""

    readers: Readers
    shared_bytes: int

    @property
    def name(self) -> str:
        whose = self.readers.replace(" ", "_").replace("'", "")
        return f"{whose}_{f'multicast_{self.shared_bytes}' if self.shared_bytes else 'alone'}"


def cases() -> list[Reading]:
    """All of them: no window of its own is multicast."""
    alone = [Reading(readers, 0) for readers in _READERS]
    return alone + [
        Reading(each, size) for size in (SLOT_BYTES, SLOT_BYTES // 4) for each in _READERS if "own" not in each
    ]


def kernel_of(case: Reading) -> TimedKernel:
    """The kernel of one case."""
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    part = case.shared_bytes // 2
    copies = ["    add.s64 %rd7, %rd5, %rd4;"]
    if case.shared_bytes:
        # This CTA's half of what is shared, then what is its own.
        copies += [
            "    cvt.u64.u32 %rd8, %r8;",
            "    add.s64 %rd7, %rd7, %rd8;",
            "    add.u32 %r21, %r14, %r8;",
            f"    {copy}.multicast::cluster [%r21], [%rd7], {part}, [%r13], %h0;",
        ]
    else:
        copies.append(f"    {copy} [%r14], [%rd7], {SLOT_BYTES}, [%r13];")
    if 0 < case.shared_bytes < SLOT_BYTES:
        copies += [
            "    add.s64 %rd9, %rd6, %rd4;",
            f"    {copy} [%r14+{case.shared_bytes}], [%rd9+{case.shared_bytes}], "
            f"{SLOT_BYTES - case.shared_bytes}, [%r13];",
        ]
    release = [
        f"    add.u32 %r22, %r7, {_EMPTY};",
        "    mad.lo.u32 %r22, %r17, 8, %r22;",
        "    mbarrier.arrive.shared::cluster.b64 _, [%r22];",
    ]
    inits = [
        f"    mbarrier.init.shared::cta.b64 [%r3+{8 * slot + offset}], {count};"
        for slot in range(SLOTS)
        for offset, count in ((0, 1), (_EMPTY, 2 if case.shared_bytes else 1))
    ]
    text = _KERNEL.format(
        name=case.name, threads=_THREADS, inits="\n".join(inits), reader=_READERS[case.readers],
        window_bytes=_WINDOW_BYTES, part_bytes=part, last_slot=SLOTS - 1,
        slot_bits=SLOTS.bit_length() - 1, empty=_EMPTY, slot_bytes=SLOT_BYTES, data=_DATA,
        last_window_slot=_WINDOW_SLOTS - 1, copies="\n".join(copies),
        release="\n".join(release) if case.shared_bytes else "",
    )  # fmt: skip
    return TimedKernel(case.name, text, _THREADS, CTAS, _SHARED_BYTES)


def measure() -> dict[str, dict[str, float]]:
    """Bytes that come to a multiprocessor in a cycle, by case."""
    found: dict[str, dict[str, float]] = {}
    with gpu.current(gpu.open_device()):
        source = gpu.allocate_zeroed(CTAS * _WINDOW_BYTES, "windows")
        for case in cases():
            (cycles,) = counted(kernel_of(case), (source,), LAPS)
            found[case.name] = {"bytes": round(LAPS * SLOT_BYTES / cycles, 1)}
            print(f"{case.name:32} {found[case.name]['bytes']:8.1f}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(run_probe("multicast", "Bytes from the L2 cache to a multiprocessor, multicast or not.", measure))
