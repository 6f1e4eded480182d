"""How fast does a multiprocessor take `cp.async`, beside tensor-core products, by the size of the pieces?

    python -m bench.probes.cp_async [-o cp_async.json]

On every multiprocessor four warps copy rows of 128 bytes out of the L2 cache, as a product copies an operand whose
contracted axis is contiguous: 64 rows, the next 128 bytes of each with every lap, four laps on their way. Rows lie 4224
bytes apart (every piece's row in one cache line), or 4224 and one piece, so that 128 bytes lie in two lines, all but
one row of 32. In half of the runs two warpgroups multiply meanwhile (m64n256k16), which keeps the tensor cores busy and
reads shared memory. `rows` are rows of 128 bytes in a thousand cycles; with pieces of 4 bytes a row is
one instruction of a warp. `busy` is the share of the tensor cores' rate that was kept.

Source of the instructions: PTX ISA, cp.async, wgmma. `device.cp_async_warp_instructions_per_kilocycle` comes from here.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from bench.probes.command import run_probe
from bench.probes.timed_kernels import TimedKernel, counted
from tilewright.runtime import device as gpu

LAPS = 512
CTAS = 132
_ROWS, _ROW_BYTES, _LAPS_ALONG = 64, 128, 31
_PITCH = 33 * _ROW_BYTES
_SLOTS = 4
_WARPS = 4
_WINDOW_BYTES = _ROWS * (_PITCH + 16)
_PRODUCT_CYCLES = 2 * 4 * 128
"""Of a lap of both warpgroups' groups of four."""
_SHARED_BYTES = 192 * 1024

_KERNEL = """\
.version 8.3
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 window[];
.visible .entry {name}(.param .u64 source, .param .u64 counts, .param .u32 laps)
.reqntid {threads}
{{
    .reg .pred %p<8>;
    .reg .b32 %r<32>;
    .reg .f32 %f<128>;
    .reg .b64 %rd<16>;
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r3, window;
    ld.param.u64 %rd0, [source];
    ld.param.u64 %rd3, [counts];
    mul.wide.u32 %rd4, %r1, 4;
    add.s64 %rd3, %rd3, %rd4;
    ld.param.u32 %r6, [laps];
    setp.ne.u32 %p0, %r0, 0;
    @!%p0 st.volatile.shared.u32 [%r3+131072], 0;
    bar.sync 0;
    setp.ge.u32 %p1, %r0, 128;
    @%p1 bra multiply;
    // This thread's piece of its first row: {beside} threads to a row, {at_once} rows at once.
    and.b32 %r4, %r0, {last_beside};
    shl.b32 %r4, %r4, {piece_bits};
    shr.u32 %r5, %r0, {beside_bits};
    mad.lo.u32 %r7, %r5, {row_bytes}, %r4;
    add.u32 %r7, %r7, %r3;
    mad.lo.u32 %r8, %r1, {window_bytes}, %r4;
    mad.lo.u32 %r8, %r5, {pitch}, %r8;
    cvt.u64.u32 %rd5, %r8;
    add.s64 %rd5, %rd5, %rd0;
    mov.u32 %r9, 0;
    mov.u32 %r10, 0;
    mov.u64 %rd1, %clock64;
copy:
    mul.wide.u32 %rd6, %r10, {row_bytes};
    add.s64 %rd6, %rd6, %rd5;
    and.b32 %r11, %r9, {last_slot};
    mad.lo.u32 %r11, %r11, {slot_bytes}, %r7;
{copies}
    cp.async.commit_group;
    cp.async.wait_group {waiting};
    add.u32 %r9, %r9, 1;
    add.u32 %r10, %r10, 1;
    setp.eq.u32 %p2, %r10, {laps_along};
    selp.b32 %r10, 0, %r10, %p2;
    setp.lt.u32 %p3, %r9, %r6;
    @%p3 bra copy;
    cp.async.wait_all;
    mov.u64 %rd2, %clock64;
    @%p0 ret;
    st.volatile.shared.u32 [%r3+131072], 1;
    sub.s64 %rd2, %rd2, %rd1;
    cvt.u32.u64 %r8, %rd2;
    st.global.u32 [%rd3], %r8;
    ret;
multiply:
    mov.u32 %r9, 0;
    shr.u32 %r14, %r0, 7;
    setp.eq.u32 %p6, %r3, %r3;
    shr.u32 %r13, %r3, 4;
    add.u32 %r13, %r13, 4096;
    cvt.u64.u32 %rd8, %r13;
    mov.u64 %rd9, {descriptor};
    or.b64 %rd6, %rd9, %rd8;
    add.s64 %rd7, %rd6, 1024;
{zeros}
again:
    wgmma.fence.sync.aligned;
{products}
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 1;
    add.u32 %r9, %r9, 1;
    // The warps of a warpgroup leave together: what one has seen all have.
    ld.volatile.shared.u32 %r10, [%r3+131072];
    setp.ne.u32 %p7, %r10, 0;
    bar.red.or.pred %p4, %r14, 128, %p7;
    @!%p4 bra again;
    wgmma.wait_group.sync.aligned 0;
    setp.ne.u32 %p5, %r0, 128;
    @!%p5 st.global.u32 [%rd3+{next_plane}], %r9;
{used}
    ret;
}}
"""


@dataclass(frozen=True, slots=True)
class Copying:
    """Of pieces of so many bytes; crossing: whether a row's 128 bytes lie in two lines; multiplies: beside products."""

    piece_bytes: int
    crossing: bool
    multiplies: bool

    @property
    def name(self) -> str:
        return (
            f"copy_{self.piece_bytes}_{'crossing' if self.crossing else 'within'}_"
            f"{'beside_products' if self.multiplies else 'alone'}"
        )


def cases() -> list[Copying]:
    """All of them."""
    return [
        Copying(piece, crossing, multiplies)
        for multiplies in (False, True)
        for crossing in (False, True)
        for piece in (4, 8, 16)
    ]


def kernel_of(case: Copying) -> TimedKernel:
    """The kernel of one case. Its counts: cycles of the copying warps, laps of the multiplying ones."""
    piece = case.piece_bytes
    beside = _ROW_BYTES // piece
    at_once = 32 * _WARPS // beside
    pitch = _PITCH + (piece if case.crossing else 0)
    opcode = f"cp.async.{'cg' if piece == 16 else 'ca'}.shared.global.L2::128B"
    copies = [
        f"    {opcode} [%r11+{row * _ROW_BYTES}], [%rd6+{row * pitch}], {piece};" for row in range(0, _ROWS, at_once)
    ]
    sums = ", ".join(f"%f{number}" for number in range(128))
    product = (
        f"    wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {{{sums}}}, %rd6, %rd7, %p6, 1, 1, 0, 0;"
    )  # fmt: skip
    text = _KERNEL.format(
        name=case.name, threads=384 if case.multiplies else 128, beside=beside, last_beside=beside - 1,
        piece_bits=piece.bit_length() - 1, beside_bits=beside.bit_length() - 1, at_once=at_once, row_bytes=_ROW_BYTES,
        window_bytes=_WINDOW_BYTES, pitch=pitch, last_slot=_SLOTS - 1, slot_bytes=_ROWS * _ROW_BYTES,
        copies="\n".join(copies), waiting=_SLOTS - 1, laps_along=_LAPS_ALONG,
        # K-major operands under the swizzle of 128 bytes: stride 1024 bytes, leading unused; contents do not matter.
        descriptor=(1 << 62) | (64 << 32) | (1 << 16),
        zeros="\n".join(f"    mov.f32 %f{number}, 0f00000000;" for number in range(128)),
        products="\n".join([product] * 4), next_plane=4 * CTAS,
        used="\n".join(
            f"    setp.eq.f32 %p5, %f{number}, 0f4F812345;\n    @%p5 st.global.f32 [%rd0], %f{number};"
            for number in range(128)
        ),
    )  # fmt: skip
    return TimedKernel(case.name, text, 384 if case.multiplies else 128, CTAS, _SHARED_BYTES, counts=2)


def measure() -> dict[str, dict[str, float]]:
    """Rows of 128 bytes in a thousand cycles, and how busy the tensor cores were, by case."""
    found: dict[str, dict[str, float]] = {}
    with gpu.current(gpu.open_device()):
        source = gpu.allocate_zeroed(CTAS * _WINDOW_BYTES, "rows")
        for case in cases():
            cycles, groups = counted(kernel_of(case), (source,), LAPS)
            found[case.name] = {
                "rows": round(1000 * LAPS * _ROWS / cycles, 1),
                "busy": round(groups * _PRODUCT_CYCLES / cycles, 3) if case.multiplies else 0.0,
            }
            print(f"{case.name:40} {found[case.name]['rows']:8.1f} {found[case.name]['busy']:6.3f}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(run_probe("cp_async", "Rates of cp.async.", measure))
