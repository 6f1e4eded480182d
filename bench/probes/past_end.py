"""How many cycles does a box of a tensor copy take, by how much of it lies past the end of its array?

    python -m bench.probes.past_end [-o past_end.json]

One thread of each CTA fills a ring of slots, each by one box of 64 elements of two bytes and some rows, and a thread of
another warp gives each slot back as soon as it is full: the copies are all there is. The array ends inside the box, so
that some of its rows, the first or the last, or a part of all rows lies outside, and comes as zeros or NaN. Boxes go
along the rows as a product's do; their bytes are the CTA's own or everybody's, and lie in the L2 cache. Of one CTA
alone all boxes take the same time, which is the ring's.

On an H200 rows past the end cost a CTA nothing by itself. But the L2 cache is asked for each, and does not serve those
of several CTAs together, as it does with rows that several ask for at about the same time: of 112 rows that all
multiprocessors read 30 outside take 492 cycles a box instead of at most 169, of rows of their own 437 instead of 399.
Neither the swizzle nor what is filled in changes that.

Source of the instructions: PTX ISA, cp.async.bulk.tensor, mbarrier.
Checked by: tests/benchmarks/test_past_end_probe.py.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from bench.probes.command import run_probe
from bench.probes.timed_kernels import TimedKernel, counted
from tilewright.base.element import Element
from tilewright.base.plan import OutOfBounds, Swizzle, TensorMap
from tilewright.runtime import device as gpu
from tilewright.runtime.tensormap import encode

LAPS = 1024
CTAS = 132
SLOTS = 8
SPAN = 64
"""Elements of a box's row: of two bytes, the span of the widest swizzle."""
_BOXES_ALONG = 16
_MOST_ROWS = 128
_SLOT_BYTES = 2 * SPAN * _MOST_ROWS
_ROW_BYTES = 2 * SPAN * _BOXES_ALONG
_WINDOW_BYTES = _MOST_ROWS * _ROW_BYTES
_DATA, _EMPTY = 1024, 8 * SLOTS
_THREADS = 64

_KERNEL = """\
.version 8.3
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 window[];
.visible .entry {name}(.param .u64 map, .param .u64 counts, .param .u32 laps)
.reqntid {threads}
{{
    .reg .pred %p<8>;
    .reg .b32 %r<24>;
    .reg .b64 %rd<8>;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r3, window;
    ld.param.u64 %rd0, [map];
    ld.param.u64 %rd3, [counts];
    mul.wide.u32 %rd4, %r1, 4;
    add.s64 %rd3, %rd3, %rd4;
    ld.param.u32 %r6, [laps];
    setp.ne.u32 %p0, %r0, 0;
    and.b32 %r4, %r0, 31;
    setp.ne.u32 %p6, %r4, 0;
    @%p0 bra initialised;
{inits}
    fence.mbarrier_init.release.cluster;
initialised:
    bar.sync 0;
    @%p6 bra done;
    mov.u32 %r9, 0;
    mov.u64 %rd1, %clock64;
    @%p0 bra give_back;
    mov.u32 %r16, {whose};
fill:
    and.b32 %r11, %r9, {last_slot};
    shr.u32 %r12, %r9, {slot_bits};
    and.b32 %r12, %r12, 1;
    xor.b32 %r12, %r12, 1;
    mad.lo.u32 %r13, %r11, 8, %r3;
wait_empty:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r13+{empty}], %r12;
    @!%p2 bra wait_empty;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r13], {box_bytes};
    mad.lo.u32 %r14, %r11, {slot_bytes}, %r3;
    add.u32 %r14, %r14, {data};
    and.b32 %r15, %r9, {last_box};
    mad.lo.u32 %r15, %r15, {span}, {along};
    cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [%r14], [%rd0, {{%r15, {first_row}, %r16}}], [%r13];
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
    add.u32 %r9, %r9, 1;
    setp.lt.u32 %p5, %r9, %r6;
    @%p5 bra give_back;
    mov.u64 %rd2, %clock64;
    sub.s64 %rd2, %rd2, %rd1;
    cvt.u32.u64 %r20, %rd2;
    st.global.u32 [%rd3], %r20;
done:
    bar.sync 0;
    ret;
}}
"""


@dataclass(frozen=True, slots=True)
class Box:
    """rows: of the box; outside: of them, past the end; before: these lie before the first row instead; across:
    elements of each row past the end; own: each CTA has bytes of its own; ctas: how many run."""

    rows: int
    outside: int = 0
    before: bool = False
    across: int = 0
    swizzle: Swizzle = "128B"
    fill: OutOfBounds = "zero"
    own: bool = False
    ctas: int = CTAS

    @property
    def name(self) -> str:
        words = [f"rows_{self.rows}", f"outside_{self.outside}"]
        words += ["before"] * self.before + [f"across_{self.across}"] * bool(self.across)
        words += [f"swizzle_{self.swizzle}"] * (self.swizzle != "128B") + [self.fill] * (self.fill != "zero")
        return "_".join([*words, "own" if self.own else "everybodys", f"ctas_{self.ctas}"])

    @property
    def map(self) -> TensorMap:
        """Of the windows of all CTAs, each of which ends where the box does not."""
        dims = (SPAN * _BOXES_ALONG, max(1, self.rows - self.outside), CTAS)
        return TensorMap(
            Element.BF16, dims, (_ROW_BYTES, _WINDOW_BYTES), (SPAN, self.rows, 1), swizzle=self.swizzle,
            l2_promotion="128B", out_of_bounds=self.fill,
        )  # fmt: skip


def cases() -> list[Box]:
    """All of them."""
    found = [Box(112, outside) for outside in (0, 1, 2, 4, 8, 16, 30, 56, 96, 112)]
    found += [Box(56), Box(112, 30, before=True), Box(112, across=32)]
    for outside in (0, 30, 56):
        found += [Box(112, outside, fill="nan"), Box(112, outside, swizzle="none"), Box(112, outside, ctas=1)]
        found += [Box(112, outside, own=True), Box(112, outside, own=True, ctas=1)]
    return found


def kernel_of(box: Box) -> TimedKernel:
    """The kernel of one case."""
    inits = [
        f"    mbarrier.init.shared::cta.b64 [%r3+{8 * slot + offset}], 1;"
        for slot in range(SLOTS)
        for offset in (0, _EMPTY)
    ]
    ends = SPAN * _BOXES_ALONG
    first = -box.outside if box.before else (0 if box.outside < box.rows else 1)
    text = _KERNEL.format(
        name=box.name, threads=_THREADS, inits="\n".join(inits), whose="%ctaid.x" if box.own else "0",
        last_slot=SLOTS - 1, slot_bits=SLOTS.bit_length() - 1, empty=_EMPTY, box_bytes=2 * SPAN * box.rows,
        slot_bytes=_SLOT_BYTES, data=_DATA, last_box=0 if box.across else _BOXES_ALONG - 1, span=SPAN,
        along=ends - SPAN + box.across if box.across else 0, first_row=first,
    )  # fmt: skip
    return TimedKernel(box.name, text, _THREADS, box.ctas, _DATA + SLOTS * _SLOT_BYTES)


def measure() -> dict[str, dict[str, float]]:
    """Cycles of a box, by case."""
    found: dict[str, dict[str, float]] = {}
    with gpu.current(gpu.open_device()):
        source = gpu.allocate_zeroed(CTAS * _WINDOW_BYTES, "windows")
        place = gpu.allocate(128, "the map")
        for box in cases():
            encoded = np.frombuffer(encode(box.map, source, box.name), np.uint8)
            gpu.copy_to_device(place, encoded.ctypes.data, encoded.nbytes)
            (cycles,) = counted(kernel_of(box), (place,), LAPS)
            found[box.name] = {"cycles": round(cycles / LAPS, 1)}
            print(f"{box.name:60} {found[box.name]['cycles']:8.1f}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(run_probe("past_end", "Cycles of boxes that pass the end of their array.", measure))
