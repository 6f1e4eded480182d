"""Small sm_100a kernels that the tests of tensor memory run: modules, launches, and one multiply in a frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.base.plan import Launch, PointerParam
from tilewright.frontends.ptx.ast import Module
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.event import Event
from tilewright.machine.core.run import run_launch

HEADER = ".version 8.8\n.target {target}\n.address_size 64\n"
REGISTERS = ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<320>; .reg .b64 %rd<16>;"


def module(body: str, shared: str = "", target: str = "sm_100a") -> Module:
    """A module of kernel `k` with parameters `from` and `to`; `body` starts on line 8."""
    text = (
        f"{HEADER.format(target=target)}.visible .entry k(.param .u64 from, .param .u64 to)\n{{\n{REGISTERS}\n"
        f"{shared} .shared .align 8 .b64 bar; .shared .align 4 .b32 slot;\n{body}\n}}\n"
    )
    return read(text, "kernel.ptx")


def run(
    body: str,
    source: NDArray[np.generic],
    out: NDArray[np.generic],
    *,
    threads: int = 128,
    grid: int = 1,
    cluster: int = 1,
    shared: str = "",
    target: str = "sm_100a",
    seed: int = 0,
    observe: Callable[[Event], None] | None = None,
) -> None:
    """Run a kernel body; `out` is changed in place."""
    launch = Launch("k", (grid, 1, 1), (threads, 1, 1), (PointerParam("from"), PointerParam("to")), (cluster, 1, 1), 0)
    buffers = {"from": source.reshape(-1).view(np.uint8), "to": out.reshape(-1).view(np.uint8)}
    run_launch(module(body, shared, target), launch, buffers, seed=seed, observe=observe, step_limit=2_000_000)


def registers(first: int, count: int) -> str:
    """`{%r<first>, ...}`."""
    return "{" + ", ".join(f"%r{first + index}" for index in range(count)) + "}"


OPENING = """
mov.u32 %r0, %tid.x;
shr.u32 %r1, %r0, 5;
and.b32 %r2, %r0, 31;
setp.eq.u32 %p0, %r1, 0;
setp.eq.u32 %p1, %r0, 0;
mov.u32 %r3, slot;
mov.u32 %r4, bar;
ld.param.u64 %rd0, [from];
ld.param.u64 %rd1, [to];
"""
"""%p0: warp 0; %p1: thread 0; %r0..%r4: thread, warp, lane, slot, mbarrier; %rd0, %rd1: the buffers."""


def allocate(columns: int = 512, group: int = 1) -> str:
    """Warp 0 allocates; afterwards every thread has the address in %r5, and its own quarter's in %r6."""
    return f"""
@%p0 tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%r3], {columns};
@%p1 mbarrier.init.shared::cta.b64 [%r4], 1;
@%p1 fence.mbarrier_init.release.cluster;
bar.sync 0;
ld.shared.b32 %r5, [%r3];
shl.b32 %r6, %r1, 21;
and.b32 %r6, %r6, 0x600000;
add.u32 %r6, %r6, %r5;
"""


def free(columns: int = 512, group: int = 1) -> str:
    """Everybody is done; warp 0 frees."""
    return f"""
bar.sync 0;
@%p0 tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %r5, {columns};
"""


def wait(parity: int = 0, name: str = "W") -> str:
    """Wait on the mbarrier."""
    return f"""
{name}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], {parity};
@!%p2 bra {name};
tcgen05.fence::after_thread_sync;
"""


@dataclass(frozen=True, slots=True)
class Frame:
    """One multiply. instructions: run by one thread, with D's address in %r5; columns: of D and of the read-back;
    first: column where the read-back starts; cells: initial tensor memory [128, columns to store] from column 0."""

    instructions: str
    shared_bytes: int
    columns: int
    group: int = 1
    cells: int = 0


def multiply(
    frame: Frame, data: NDArray[np.uint8], cells: NDArray[np.uint32] | None = None, seed: int = 0
) -> NDArray[np.uint32]:
    """Run the frame over CTAs' shared bytes `data` [group, shared_bytes]; tensor memory after it [group, 128, columns].

    cells: initial tensor memory [group, 128, frame.cells].
    """
    ctas, size, count = frame.group, frame.shared_bytes, frame.cells
    given = np.zeros((ctas, 128, count), np.uint32) if cells is None else cells
    parts = [part for i in range(ctas) for part in (data[i].reshape(-1), given[i].reshape(-1).view(np.uint8))]
    source = np.concatenate(parts)
    out = np.zeros((ctas, 128, frame.columns), np.uint32)
    stores = "".join(
        f"ld.global.b32 %r20, [%rd4+{4 * at}];\nadd.u32 %r21, %r6, {at};\n"
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r21], {%r20};\n"
        for at in range(count)
    )
    loads = "".join(
        f"add.u32 %r21, %r6, {at};\n"
        f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {registers(30, 8)}, [%r21];\ntcgen05.wait::ld.sync.aligned;\n"
        + "".join(f"st.global.b32 [%rd5+{4 * (at + index)}], %r{30 + index};\n" for index in range(8))
        for at in range(0, frame.columns, 8)
    )
    meet = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n" if ctas == 2 else "bar.sync 0;\n"
    both, mask = (".multicast::cluster", ", %h0") if ctas == 2 else ("", "")
    body = f"""{OPENING}
mov.u32 %r7, %cluster_ctarank;
mad.wide.u32 %rd0, %r7, {size + 512 * count}, %rd0;
mad.wide.u32 %rd1, %r7, {512 * frame.columns}, %rd1;
setp.eq.u32 %p3, %r7, 0;
and.pred %p3, %p3, %p1;
mad.wide.u32 %rd4, %r0, {4 * count}, %rd0;
add.u64 %rd4, %rd4, {size};
mad.wide.u32 %rd5, %r0, {4 * frame.columns}, %rd1;
shl.b32 %r8, %r0, 4;
mov.u32 %r9, data;
add.u32 %r9, %r9, %r8;
cvt.u64.u32 %rd6, %r8;
add.u64 %rd6, %rd6, %rd0;
COPY: setp.ge.u32 %p4, %r8, {size};
@%p4 bra COPIED;
ld.global.v4.b32 {registers(10, 4)}, [%rd6];
st.shared.v4.b32 [%r9], {registers(10, 4)};
add.u32 %r8, %r8, 2048;
add.u32 %r9, %r9, 2048;
add.u64 %rd6, %rd6, 2048;
bra COPY;
COPIED: fence.proxy.async.shared::cta;
{allocate(512, ctas)}
{stores}
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync;
{meet}
tcgen05.fence::after_thread_sync;
@!%p3 bra WAIT;
{frame.instructions}
mov.b16 %h0, 3;
tcgen05.commit.cta_group::{ctas}.mbarrier::arrive::one.shared::cluster{both}.b64 [%r4]{mask};
WAIT: {wait()}
{loads}
{meet}
{free(512, ctas)}
"""
    run(body, source, out, grid=ctas, cluster=ctas, shared=f".shared .align 1024 .b8 data[{size}];", seed=seed)
    return out
