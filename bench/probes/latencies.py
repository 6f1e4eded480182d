"""What do the waits between roles cost on a GPU? Signals, copies, products, handing values over; for the task graphs.

    python -m bench.probes.latencies [-o latencies.json]

One CTA, or one a multiprocessor, repeats one exchange and counts its cycles; the least of several launches is told.

- `signal_...`: two warps answer each other over two mbarriers, by one lane each or by all, suspended or polling; half a
  round is from an arrival to the waiter's next instruction. `named`: the same over two named barriers.
- `copy_<bytes>_<CTAs>`: one thread announces, issues one bulk copy of bytes that lie in the L2 cache, and waits.
- `product_<n>_<k steps>`: one warpgroup commits a group of wgmma m64nNk16 and waits; `products_...`: it waits for
  the group before, so that the tensor cores never idle.
- `special`: warp instructions a cycle of ex2.approx over sixteen warps; `..._chain`: cycles of an ex2.approx or fma
  that waits for the one before.
- `handoff_<words>`: each thread of a warpgroup stores that many words, arrives; the other warpgroup waits, loads them,
  arrives back over another barrier. The signals are in it twice.

Source of the instructions: PTX ISA, mbarrier, bar, cp.async.bulk, wgmma. The rows of `[latency.*]` come from here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from bench.probes.command import run_probe
from bench.probes.timed_kernels import TimedKernel, counted
from tilewright.runtime import device as gpu

LAPS = 256
_SHARED_BYTES = 192 * 1024
_BUFFER_BYTES = 64 << 20

_HEADER = """\
.version 8.3
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 window[];
"""

_KERNEL = """\
.visible .entry {name}(.param .u64 source, .param .u64 cycles, .param .u32 laps)
.reqntid {threads}
{{
    .reg .pred %p<8>;
    .reg .b32 %r<32>;
    .reg .b32 %v<128>;
    .reg .f32 %f<160>;
    .reg .b64 %rd<16>;
    mov.u32 %r0, %tid.x;
    shr.u32 %r1, %r0, 5;
    shr.u32 %r2, %r0, 7;
    mov.u32 %r3, window;
    add.u32 %r4, %r3, 131072;
    add.u32 %r5, %r4, 8;
    ld.param.u64 %rd0, [source];
    ld.param.u32 %r6, [laps];
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra ready;
    mbarrier.init.shared::cta.b64 [%r4], {arrivals};
    mbarrier.init.shared::cta.b64 [%r5], {arrivals};
    fence.mbarrier_init.release.cluster;
ready:
    bar.sync 0;
    mov.u32 %r7, 0;
    mov.u32 %r9, 0;
{before}
    mov.u64 %rd1, %clock64;
    mov.u32 %r8, %r6;
{body}
    bar.sync 0;
    mov.u64 %rd2, %clock64;
{after}
    @%p0 ret;
    sub.s64 %rd2, %rd2, %rd1;
    cvt.u32.u64 %r8, %rd2;
    mov.u32 %r10, %ctaid.x;
    ld.param.u64 %rd3, [cycles];
    mul.wide.u32 %rd4, %r10, 4;
    add.s64 %rd3, %rd3, %rd4;
    st.global.u32 [%rd3], %r8;
    ret;
}}
"""


@dataclass(frozen=True, slots=True)
class Probe:
    """text: of its kernel. told: what to make of the cycles of one lap."""

    name: str
    threads: int
    ctas: int
    text: str
    told: Callable[[float], float]


def _same(cycles: float) -> float:
    return cycles


def _loop(lines: str, label: str) -> str:
    turn = "    xor.b32 %r7, %r7, 1;\n    sub.u32 %r8, %r8, 1;\n    setp.ne.u32 %p1, %r8, 0;"
    return f"{label}:\n{lines}\n{turn}\n    @%p1 bra {label};"


def _wait(barrier: str, label: str, by: str = "try_wait") -> str:
    return f"{label}:\n    mbarrier.{by}.parity.shared::cta.b64 %p2, [{barrier}], %r7;\n    @!%p2 bra {label};"


def _arrive(barrier: str) -> str:
    return f"    mbarrier.arrive.shared::cta.b64 _, [{barrier}];"


def _probe(
    name: str, threads: int, body: str, *, arrivals: int = 1, ctas: int = 1, before: str = "", after: str = "",
    told: Callable[[float], float] = _same,
) -> Probe:  # fmt: skip
    text = _KERNEL.format(name=name, threads=threads, arrivals=arrivals, before=before, body=body, after=after)
    return Probe(name, threads, ctas, text, told)


def _two_sides(first: str, second: str, by: str) -> str:
    """Two sides, told apart by register `by`; within a side all threads take part."""
    return (
        f"    setp.ne.u32 %p3, {by}, 0;\n    @%p3 bra other;\n{_loop(first, 'one')}\n    bra done;\nother:\n"
        f"{_loop(second, 'two')}\ndone:"
    )


def _half(cycles: float) -> float:
    return cycles / 2


def _signals() -> list[Probe]:
    """Two warps, by one lane each or by all, that suspend or poll; and over named barriers."""
    found: list[Probe] = []
    lane = "    and.b32 %r11, %r0, 31;\n    setp.ne.u32 %p4, %r11, 0;\n    @%p4 bra done;\n"
    for by in ("try_wait", "test_wait"):
        sides = _two_sides(
            f"{_arrive('%r4')}\n{_wait('%r5', 'w1', by)}", f"{_wait('%r4', 'w2', by)}\n{_arrive('%r5')}", "%r1"
        )
        found.append(_probe(f"signal_lane_{by}", 64, lane + sides, told=_half))
        found.append(_probe(f"signal_warp_{by}", 64, sides, arrivals=32, told=_half))
    sides = _two_sides(
        "    bar.arrive 1, 64;\n    bar.sync 2, 64;", "    bar.sync 1, 64;\n    bar.arrive 2, 64;", "%r1"
    )
    return [*found, _probe("named", 64, sides, told=_half)]


def probes() -> list[Probe]:
    """All probes."""
    found = _signals()
    for size in (1024, 8192, 16384, 32768, 49152, 98304):
        for ctas in (1, 132):
            body = (
                f"    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], {size};\n"
                "    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                f"[%r3], [%rd5], {size}, [%r4];\n{_wait('%r4', 'w1')}"
            )
            place = f"    mov.u32 %r12, %ctaid.x;\n    mul.wide.u32 %rd5, %r12, {size};\n    add.s64 %rd5, %rd5, %rd0;"
            found.append(
                _probe(
                    f"copy_{size}_{ctas}", 32, f"    @%p0 bra done;\n{_loop(body, 'one')}\ndone:", ctas=ctas,
                    before=place,
                )
            )  # fmt: skip
    for columns in (64, 128, 256):
        for steps in (1, 4):
            found += [_products(columns, steps, waits) for waits in (0, 1)]
    for name, line in (
        ("special", "ex2.approx.ftz.f32 %f{0}, %f{0};"),
        ("fused", "fma.rn.f32 %f{0}, %f{0}, %f{0}, %f{0};"),
    ):
        found.append(_arithmetic(name, line, 1, 1))
    found.append(_arithmetic("special", "ex2.approx.ftz.f32 %f{0}, %f{0};", 16, 8))
    for words in (0, 4, 16, 32, 64):
        found.append(_handoff(words))
    return found


def _arithmetic(name: str, line: str, warps: int, apart: int) -> Probe:
    """32 instructions of each warp: `apart` chains of dependent ones."""
    body = "\n".join("    " + line.format(number) for _ in range(32 // apart) for number in range(apart))
    before = "\n".join(f"    cvt.rn.f32.u32 %f{number}, %r0;" for number in range(apart))
    after = "\n".join(
        f"    setp.eq.f32 %p5, %f{number}, 0f4F812345;\n    @%p5 st.global.f32 [%rd0], %f{number};"
        for number in range(apart)
    )
    if apart == 1:
        return _probe(f"{name}_chain", 32 * warps, _loop(body, "one"), before=before, after=after, told=_of_a_chain)
    return _probe(name, 32 * warps, _loop(body, "one"), before=before, after=after, told=_of_sixteen_warps)


def _of_a_chain(cycles: float) -> float:
    return cycles / 32


def _of_sixteen_warps(cycles: float) -> float:
    return 16 * 32 / cycles


def _products(columns: int, steps: int, waits: int) -> Probe:
    registers = ", ".join(f"%f{number}" for number in range(columns // 2))
    product = (
        f"    wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.bf16.bf16 {{{registers}}}, %rd6, %rd7, p, 1, 1, 0, 0;"
    ).replace(" p,", " %p6,")
    body = (
        "    wgmma.fence.sync.aligned;\n"
        + "\n".join([product] * steps)
        + f"\n    wgmma.commit_group.sync.aligned;\n    wgmma.wait_group.sync.aligned {waits};"
    )
    # K-major operands under the swizzle of 128 bytes: stride 1024 bytes, leading unused; contents do not matter.
    descriptor = (1 << 62) | (64 << 32) | (1 << 16)
    before = "\n".join(f"    mov.f32 %f{number}, 0f00000000;" for number in range(columns // 2))
    before += (
        "\n    setp.eq.u32 %p6, %r3, %r3;\n    shr.u32 %r13, %r3, 4;\n    cvt.u64.u32 %rd8, %r13;\n"
        f"    mov.u64 %rd9, {descriptor};\n    or.b64 %rd6, %rd9, %rd8;\n    add.s64 %rd7, %rd6, 1024;"
    )
    after = "    wgmma.wait_group.sync.aligned 0;\n" + "\n".join(
        f"    setp.eq.f32 %p5, %f{number}, 0f4F812345;\n    @%p5 st.global.f32 [%rd0], %f{number};"
        for number in range(columns // 2)
    )
    return _probe(
        f"{'products' if waits else 'product'}_{columns}_{steps}", 128, _loop(body, "one"), before=before, after=after
    )


def _handoff(words: int) -> Probe:
    """Vectors of four words, thread beside thread, so that no banks conflict."""
    vectors = [
        (2048 * part, "{" + ", ".join(f"%v{4 * part + word}" for word in range(4)) + "}") for part in range(words // 4)
    ]
    stores = [f"    st.shared.v4.b32 [%r14+{offset}], {vector};" for offset, vector in vectors]
    loads = [f"    ld.shared.v4.b32 {vector}, [%r14+{offset}];" for offset, vector in vectors]
    # The sum stands for a use of every word.
    uses = [f"    xor.b32 %r9, %r9, %v{number};" for number in range(words)]
    first = "\n".join([*stores, _arrive("%r4"), _wait("%r5", "w1"), "    add.u32 %v0, %v0, 1;"])
    second = "\n".join([_wait("%r4", "w2"), *loads, *uses, _arrive("%r5")])
    before = "    and.b32 %r15, %r0, 127;\n    shl.b32 %r15, %r15, 4;\n    add.u32 %r14, %r3, %r15;\n" + "\n".join(
        f"    mov.u32 %v{number}, %r0;" for number in range(words)
    )
    after = "    setp.eq.u32 %p5, %r9, 0x5A5A1234;\n    @%p5 st.global.u32 [%rd0], %r9;"
    return _probe(f"handoff_{words}", 256, _two_sides(first, second, "%r2"), arrivals=128, before=before, after=after)


def measure() -> dict[str, float]:
    """Cycles (or warp instructions a cycle) by probe."""
    found: dict[str, float] = {}
    with gpu.current(gpu.open_device()):
        source = gpu.allocate_zeroed(_BUFFER_BYTES, "source")
        for probe in probes():
            kernel = TimedKernel(probe.name, _HEADER + probe.text, probe.threads, probe.ctas, _SHARED_BYTES)
            (cycles,) = counted(kernel, (source,), LAPS)
            found[probe.name] = round(probe.told(cycles / LAPS), 2)
            print(f"{probe.name:24} {found[probe.name]:10.2f}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(run_probe("latencies", "Cycles of waits.", measure))
