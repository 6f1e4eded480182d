"""Which instructions for clusters run in a launch that has none? And which lane does `elect.sync` elect?

    python -m bench.probes.cluster_forms [-o cluster_forms.json]

A CTA of a launch without clusters is a cluster of its own (PTX ISA 2.2.2), and `shared::cluster` holds its memory. One
thread of one CTA uses an instruction on that: launched with no cluster at all, with a cluster of one CTA, and as the
first of a cluster of two. `ran` is whether the instruction did what it is to do. A case that raises an error kills its
context, so each runs in a process of its own. The leaders are those that `elect.sync` names for masks of lanes that
come to it together.

Not handled: `sm_100a`, lanes that come to `elect.sync` one after the other. `feature.shared_engine_without_cluster`
comes from here. Checked by: tests/benchmarks/test_cluster_forms.py.
"""

from __future__ import annotations

import ctypes
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product

import numpy as np

from bench.probes.command import run_probe
from bench.probes.lost_contexts import AT_A_TIME, answered, apart
from tilewright.runtime import device as gpu

ENTRY = "form"
BYTES = 16
LAUNCHES = {"no_cluster": 0, "cluster_of_1": 1, "cluster_of_2": 2}
"""CTAs of the launch's cluster; 0: the launch names none."""
MASKS = (0xFFFF_FFFF, 0xFFFF_FFFE, 0xFFFF_0000, 0x8000_0000, 0x0000_A0A0, 0x7FFF_FFF8, 0xC000_0001)
_THREADS = 32

_KERNEL = """\
.version 8.3
.target sm_90a
.address_size 64
.visible .entry form(.param .u64 source, .param .u64 results)
.reqntid 32
{{
    .reg .pred %p<4>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    .shared .align 128 .b8 window[128];
    .shared .align 8 .b64 barrier;
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [source];
    ld.param.u64 %rd2, [results];
    mov.u32 %r2, window;
    mov.u32 %r3, barrier;
    setp.ne.u32 %p0, %r0, 0;
    // The window holds 1 in each word of its first half, and 0 behind that.
    shl.b32 %r4, %r0, 2;
    add.u32 %r4, %r2, %r4;
    setp.lt.u32 %p1, %r0, 16;
    selp.u32 %r5, 1, 0, %p1;
    st.shared.u32 [%r4], %r5;
    mov.u32 %r15, %cluster_ctarank;
    @!%p0 mbarrier.init.shared::cta.b64 [%r3], 1;
    @!%p0 fence.mbarrier_init.release.cluster;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    mov.u32 %r6, 0;
    mov.u32 %r1, 1;
    mapa.shared::cluster.u32 %r10, %r2, %r15;
    mapa.shared::cluster.u32 %r11, %r3, %r15;
    @%p0 bra done;
{body}
    setp.ne.u32 %p1, %r15, 0;
    @!%p1 st.global.u32 [%rd2], %r6;
done:
    bar.sync 0;
    ret;
}}
"""
_ARRIVE = "    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {bytes};\n"
_ENDED = """\
    mov.u32 %r8, 0;
again:
    mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r3], 0;
    @%p2 bra over;
    nanosleep.u32 1000;
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p3, %r8, 1000;
    @%p3 bra again;
over:
    selp.u32 %r9, 1, 0, %p2;
"""
_FOUND = """\
    ld.shared.u32 %r7, [%r2+64];
    setp.eq.u32 %p1, %r7, 1;
    selp.u32 %r6, %r9, 0, %p1;
"""
_BULK = "    {0}.shared::cluster.shared::cta.mbarrier::complete_tx::bytes{1} [{2}+64], [%r2], 16, [{3}];\n"
_ELECTED = """\
    mov.u32 %r7, {mask};
    shr.b32 %r8, %r7, %r0;
    and.b32 %r8, %r8, 1;
    setp.eq.u32 %p1, %r8, 1;
    @%p1 elect.sync %r9|%p2, {mask};
    setp.eq.and.u32 %p2, %r8, 1, %p2;
    @%p2 st.global.u32 [%rd2+{at}], %r0;
"""


@dataclass(frozen=True, slots=True)
class Case:
    """act: the instruction; bytes: what the phase expects besides an arrival."""

    name: str
    act: str
    bytes: int = BYTES


def cases() -> list[Case]:
    """All of them: each makes the first word behind the window's first half 1, and ends the phase."""
    send = "mbarrier::complete_tx::bytes"
    return [
        Case("bulk_copy", _BULK.format("cp.async.bulk", "", "%r10", "%r11")),
        Case("bulk_copy_by_own_addresses", _BULK.format("cp.async.bulk", "", "%r2", "%r3")),
        Case("bulk_reduction", _BULK.format("cp.reduce.async.bulk", ".add.u32", "%r10", "%r11")),
        Case("st.async", f"    st.async.weak.shared::cluster.{send}.u32 [%r10+64], %r1, [%r11];\n", 4),
        Case("red.async", f"    red.async.relaxed.cluster.shared::cluster.{send}.add.u32 [%r10+64], %r1, [%r11];\n", 4),
        Case(
            "multicast",
            "    mov.u32 %r12, 1;\n    shl.b32 %r12, %r12, %r15;\n    { .reg .b16 %h; cvt.u16.u32 %h, %r12;\n"
            f"    cp.async.bulk.shared::cluster.global.{send}.multicast::cluster [%r2+64], [%rd0], 16, [%r3], %h; }}\n",
        ),
        Case("load", f"    cp.async.bulk.shared::cluster.global.{send} [%r2+64], [%rd0], 16, [%r3];\n"),
        Case("store", "    st.shared::cluster.u32 [%r10+64], %r1;\n", 0),
        Case("atomic", "    atom.shared::cluster.add.u32 %r12, [%r10+64], %r1;\n", 0),
        Case(
            "arrival",
            "    st.shared.u32 [%r2+64], %r1;\n"
            "    mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r11], 0;\n",
            -1,
        ),
    ]  # fmt: skip


def text_of(case: Case) -> str:
    """The kernel of one case. It writes whether the instruction did its work."""
    arrives = _ARRIVE.format(bytes=case.bytes) if case.bytes >= 0 else ""
    return _KERNEL.format(body=arrives + case.act + _ENDED + _FOUND)


def election_text() -> str:
    """A kernel that writes the leader of each mask."""
    body = "".join(_ELECTED.format(mask=f"{mask:#x}", at=4 * index) for index, mask in enumerate(MASKS))
    head, _ = _KERNEL.format(body="").split("    @%p0 bra done;")
    return f"{head}{body}    ret;\n}}\n"


def measure() -> dict[str, object]:
    """What each case did in each launch, and the leaders by mask."""
    gpu.open_device()
    asked = list(product([case.name for case in cases()], LAUNCHES))
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        did = list(pool.map(_apart, *zip(*asked, strict=True)))
    found: dict[str, object] = {}
    for case in cases():
        found[case.name] = {launch: ran for (name, launch), ran in zip(asked, did, strict=True) if name == case.name}
        print(f"{case.name:28} {found[case.name]}", flush=True)
    found["leaders"] = _apart("leaders", "no_cluster")
    print(f"{'leaders':28} {found['leaders']}", flush=True)
    return found


def _apart(name: str, launch: str) -> object:
    said = apart("cluster_forms", name, launch)
    return said.get("found", said.get("fault"))


def _run(text: str, ctas: int, words: int) -> list[int]:
    """The first words of the results, which begin as 99."""
    cuda = gpu.driver()
    with gpu.current(gpu.open_device()):
        module = gpu.check(cuda.cuModuleLoadData(text.encode() + b"\0"), ENTRY)
        function = gpu.check(cuda.cuModuleGetFunction(module, ENTRY.encode()), ENTRY)
        source, results = np.ones(BYTES // 4, np.uint32), np.full(words, 99, np.uint32)
        pointers = [gpu.allocate(array.nbytes, ENTRY) for array in (source, results)]
        for pointer, array in zip(pointers, (source, results), strict=True):
            gpu.copy_to_device(pointer, array.ctypes.data, array.nbytes)
        values = [ctypes.c_uint64(pointer) for pointer in pointers]
        places = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        config = cuda.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = max(ctas, 1), 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = _THREADS, 1, 1
        if ctas:
            attribute = cuda.CUlaunchAttribute()
            attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            value = attribute.value
            value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = ctas, 1, 1
            attribute.value = value
            config.attrs, config.numAttrs = [attribute], 1
        gpu.check(cuda.cuLaunchKernelEx(config, function, ctypes.addressof(places), 0), "launching")
        gpu.check(cuda.cuCtxSynchronize(), "running")
        gpu.copy_from_device(results.ctypes.data, pointers[1], results.nbytes)
    return [int(word) for word in results]


def _found(name: str, launch: str) -> object:
    if name == "leaders":
        leaders = _run(election_text(), 0, len(MASKS))
        return {f"{mask:#010x}": leader for mask, leader in zip(MASKS, leaders, strict=True)}
    (case,) = (case for case in cases() if case.name == name)
    return {1: "runs", 0: "does nothing"}.get(_run(text_of(case), LAUNCHES[launch], 1)[0], "writes nothing")


if __name__ == "__main__":
    if len(sys.argv) == 3 and not sys.argv[1].startswith("-"):
        sys.exit(answered(lambda: _found(sys.argv[1], sys.argv[2])))
    sys.exit(run_probe("cluster_forms", "Instructions for clusters without one; leaders of elect.sync.", measure))
