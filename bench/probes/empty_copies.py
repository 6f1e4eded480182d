"""What does the hardware do with a bulk copy of 0 bytes? Completes, faults or hangs, case by case.

    python -m bench.probes.empty_copies [-o empty_copies.json]

The PTX ISA asks that the size of `cp.async.bulk` be a multiple of 16 and says nothing of 0. One thread of one CTA
issues one such copy between global and shared memory, mostly of a size that the assembler cannot see: in each
direction, with null, misaligned and foreign addresses, and before its phase's other arrival. A real copy of 64 bytes
follows. `completes` is whether the phase (or the group) of the empty copy ended where it should and not before,
`unchanged` whether no byte changed, `sound` whether the real copy after it completed and brought its bytes; `real` is
whether the same copy completes with 64 bytes, so that a fault is known to be of the size. A case that raises an error
kills its context, so each runs in a process of its own; one that does not end in time is said to hang.

Not handled: copies to shared memory of other CTAs, `.multicast::cluster`, `.cp_mask`, `.ignore_oob`, `sm_100a`. Source
of the instructions: PTX ISA, cp.async.bulk, cp.reduce.async.bulk, mbarrier. `feature.empty_bulk_copy` comes from here.
Checked by: tests/benchmarks/test_empty_copies.py.
"""

from __future__ import annotations

import ctypes
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.probes.command import run_probe
from bench.probes.lost_contexts import AT_A_TIME, answered, apart
from tilewright.runtime import device as gpu

ENTRY = "empty_copy"
BUFFER_BYTES = 256
COPIED_BYTES = 64
_THREADS = 32

_KERNEL = """\
.version 8.3
.target sm_90a
.address_size 64
.visible .entry empty_copy(.param .u64 source, .param .u64 out, .param .u64 results, .param .u32 bytes)
.reqntid 32
{{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    .shared .align 128 .b8 window[256];
    .shared .align 8 .b64 barrier;
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [source];
    ld.param.u64 %rd1, [out];
    ld.param.u64 %rd2, [results];
    ld.param.u32 %r1, [bytes];
    mov.u32 %r2, window;
    mov.u32 %r3, barrier;
    setp.ne.u32 %p0, %r0, 0;
    // Every lane fills eight bytes with 0xCC.
    shl.b32 %r4, %r0, 3;
    add.u32 %r4, %r2, %r4;
    st.shared.u64 [%r4], 0xCCCCCCCCCCCCCCCC;
    @!%p0 mbarrier.init.shared::cta.b64 [%r3], 1;
    @!%p0 fence.mbarrier_init.release.cluster;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    @%p0 bra done;
    mov.u32 %r6, 1;
    mov.u32 %r7, 0;
{body}
    st.global.u32 [%rd2], %r6;
    st.global.u32 [%rd2+4], %r7;
done:
    bar.sync 0;
    // The window goes out behind the results.
    ld.shared.u64 %rd3, [%r4];
    cvt.u64.u32 %rd4, %r0;
    shl.b64 %rd4, %rd4, 3;
    add.u64 %rd4, %rd2, %rd4;
    st.global.u64 [%rd4+8], %rd3;
    ret;
}}
"""

_LANDED = """\
    mov.u32 %r8, 0;
{name}_land:
    nanosleep.u32 1000;
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p3, %r8, {tries};
    @%p3 bra {name}_land;
"""
_ENDED = """\
    mov.u32 %r8, 0;
{name}_again:
    mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r3], {parity};
    @%p1 bra {name}_over;
    nanosleep.u32 1000;
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p3, %r8, 1000;
    @%p3 bra {name}_again;
{name}_over:
    selp.u32 %r9, 1, 0, %p1;
"""
_LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
_STORE = "cp.async.bulk.global.shared::cta.bulk_group"
_STORE_ADD = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"
_EXPECT = "    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {bytes};\n"
_GROUP = "    cp.async.bulk.commit_group;\n    cp.async.bulk.wait_group 0;\n"
_NOWHERE = "mov.u64 %rd5, 4096;"
"""An address in global memory that is aligned and in no buffer."""
_OUTSIDE = "mov.u32 %r5, 0x3FFF0;"
"""One beyond the CTA's shared memory."""


@dataclass(frozen=True, slots=True)
class Case:
    """before: what sets %rd5 or %r5; copy: the instruction without its semicolon; loads: it completes on the mbarrier;
    late: its phase's only arrival comes after the copy; real: the same copy of 64 bytes is sound."""

    name: str
    copy: str
    before: str = ""
    loads: bool = True
    late: bool = False
    real: bool = False


def cases() -> list[Case]:
    """All of them."""
    return [
        Case("load", f"{_LOAD} [%r2], [%rd0], %r1, [%r3]", real=True),
        Case("load_of_a_constant_size", f"{_LOAD} [%r2], [%rd0], 0, [%r3]"),
        Case("load_before_its_arrival", f"{_LOAD} [%r2], [%rd0], %r1, [%r3]", late=True, real=True),
        Case("load_from_null", f"{_LOAD} [%r2], [%rd5], %r1, [%r3]", "mov.u64 %rd5, 0;"),
        Case("load_from_nowhere", f"{_LOAD} [%r2], [%rd5], %r1, [%r3]", _NOWHERE),
        Case("load_from_misaligned", f"{_LOAD} [%r2], [%rd5], %r1, [%r3]", "add.u64 %rd5, %rd0, 4;"),
        Case("load_to_misaligned", f"{_LOAD} [%r5], [%rd0], %r1, [%r3]", "add.u32 %r5, %r2, 4;"),
        Case("load_to_outside", f"{_LOAD} [%r5], [%rd0], %r1, [%r3]", _OUTSIDE),
        Case("store", f"{_STORE} [%rd1], [%r2], %r1", loads=False, real=True),
        Case("store_of_a_constant_size", f"{_STORE} [%rd1], [%r2], 0", loads=False),
        Case("store_to_null", f"{_STORE} [%rd5], [%r2], %r1", "mov.u64 %rd5, 0;", loads=False),
        Case("store_to_nowhere", f"{_STORE} [%rd5], [%r2], %r1", _NOWHERE, loads=False),
        Case("store_to_misaligned", f"{_STORE} [%rd5], [%r2], %r1", "add.u64 %rd5, %rd1, 4;", loads=False),
        Case("store_from_misaligned", f"{_STORE} [%rd1], [%r5], %r1", "add.u32 %r5, %r2, 4;", loads=False),
        Case("store_from_outside", f"{_STORE} [%rd1], [%r5], %r1", _OUTSIDE, loads=False),
        Case("add_to_memory", f"{_STORE_ADD} [%rd1], [%r2], %r1", loads=False, real=True),
    ]


def text_of(case: Case) -> str:
    """The kernel of one case. Its results: whether the empty copy completes, and the real one; then the window."""
    return _KERNEL.format(body=_load(case) if case.loads else _store(case))


def _load(case: Case) -> str:
    copy = f"    {case.before}\n    {case.copy};\n"
    ended = _ENDED.format(name="empty", parity=0) + "    and.b32 %r6, %r6, %r9;\n"
    if case.late:
        early = (
            "    mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r3], 0;\n"
            "    selp.u32 %r9, 0, 1, %p2;\n    and.b32 %r6, %r6, %r9;\n"
        )
        first = copy + _LANDED.format(name="early", tries=100) + early + _EXPECT.format(bytes="%r1") + ended
    else:
        first = _EXPECT.format(bytes="%r1") + copy + ended
    real = f"    {_LOAD} [%r2+128], [%rd0], {COPIED_BYTES}, [%r3];\n"
    return (
        first
        + _EXPECT.format(bytes=COPIED_BYTES)
        + real
        + _ENDED.format(name="real", parity=1)
        + "    mov.u32 %r7, %r9;"
    )


def _store(case: Case) -> str:
    real = f"    {_STORE} [%rd1+128], [%r2], {COPIED_BYTES};\n"
    return f"    {case.before}\n    {case.copy};\n" + _GROUP + real + _GROUP + "    mov.u32 %r7, 1;"


def measure() -> dict[str, dict[str, object]]:
    """What each case did."""
    gpu.open_device()
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        found = dict(zip((case.name for case in cases()), pool.map(_both, cases()), strict=True))
    for name, did in found.items():
        print(f"{name:26} {did}", flush=True)
    return found


def _both(case: Case) -> dict[str, object]:
    """With 0 bytes, and where its addresses are sound with 64."""
    found = _of(apart("empty_copies", case.name, "0"))
    if case.real:
        real = _of(apart("empty_copies", case.name, str(COPIED_BYTES)))
        found["real"] = real.get("fault", real.get("completes"))
    return found


def _of(said: dict[str, Any]) -> dict[str, object]:
    return said.get("found", said)


def _run(case: Case, size: int) -> dict[str, object]:
    """On the GPU, in this process, which is lost for it where the copy faults."""
    cuda = gpu.driver()
    with gpu.current(gpu.open_device()):
        module = gpu.check(cuda.cuModuleLoadData(text_of(case).encode() + b"\0"), case.name)
        function = gpu.check(cuda.cuModuleGetFunction(module, ENTRY.encode()), case.name)
        source = np.arange(BUFFER_BYTES, dtype=np.uint8)
        out = np.full(BUFFER_BYTES, 0xEE, np.uint8)
        results = np.zeros(8 + BUFFER_BYTES, np.uint8)
        pointers = [gpu.allocate(array.nbytes, case.name) for array in (source, out, results)]
        for pointer, array in zip(pointers, (source, out, results), strict=True):
            gpu.copy_to_device(pointer, array.ctypes.data, array.nbytes)
        values = [*(ctypes.c_uint64(pointer) for pointer in pointers), ctypes.c_uint32(size)]
        array = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        gpu.check(cuda.cuLaunchKernel(function, 1, 1, 1, _THREADS, 1, 1, 0, 0, ctypes.addressof(array), 0), "launching")
        gpu.check(cuda.cuCtxSynchronize(), "running")
        for pointer, array in zip(pointers[1:], (out, results), strict=True):
            gpu.copy_from_device(array.ctypes.data, pointer, array.nbytes)
    return judged(case, source, out, results)


def judged(case: Case, source: np.ndarray, out: np.ndarray, results: np.ndarray) -> dict[str, object]:
    """What the copy did, by what it left."""
    completes, again = results[:8].view(np.uint32).tolist()
    window, before = results[8:], np.full(BUFFER_BYTES, 0xCC, np.uint8)
    if case.loads:
        before[128 : 128 + COPIED_BYTES] = source[:COPIED_BYTES]
    after = np.full(BUFFER_BYTES, 0xEE, np.uint8)
    if not case.loads:
        after[128 : 128 + COPIED_BYTES] = 0xCC
    real = slice(128, 128 + COPIED_BYTES)
    brought = np.array_equal((window if case.loads else out)[real], (before if case.loads else after)[real])
    apart = np.ones(BUFFER_BYTES, bool)
    apart[real] = False
    unchanged = np.array_equal(window[apart], before[apart]) and np.array_equal(out[apart], after[apart])
    return {"completes": bool(completes), "unchanged": bool(unchanged), "sound": bool(again) and bool(brought)}


def _main(words: list[str]) -> int:
    (case,) = (case for case in cases() if case.name == words[0])
    return answered(lambda: _run(case, int(words[1])))


if __name__ == "__main__":
    if len(sys.argv) == 3 and not sys.argv[1].startswith("-"):
        sys.exit(_main(sys.argv[1:]))
    sys.exit(run_probe("empty_copies", "Bulk copies of 0 bytes.", measure))
