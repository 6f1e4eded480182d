"""Small kernels that several tests of the machine run, and a way to run one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tilewright.base.plan import Launch, Param, PointerParam
from tilewright.frontends.ptx.ast import Module
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.event import Event
from tilewright.machine.core.run import RunReport, run_launch

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<16>; .reg .b16 %h<40>; .reg .b32 %r<64>; .reg .b64 %rd<32>; .reg .f32 %f<72>; .reg .f64 %fd<16>;"
)


def module(body: str, *, parameters: str = "", directives: str = "", globals_: str = "", name: str = "k") -> Module:
    """A module of one kernel `name`; `body` starts on line 7 (line 6 declares registers)."""
    opening = f"{globals_}\n.visible .entry {name}({parameters}) {directives} {{\n{REGISTERS}\n"
    return read(f"{HEADER}{opening}{body}\n}}\n", "kernel.ptx")


def launch(
    *params: Param,
    threads: int = 32,
    grid: int = 1,
    cluster: int = 1,
    dynamic: int = 0,
    name: str = "k",
) -> Launch:
    """A one-dimensional launch."""
    return Launch(name, (grid, 1, 1), (threads, 1, 1), params, (cluster, 1, 1), dynamic)


def as_bytes(array: NDArray[np.generic]) -> NDArray[np.uint8]:
    """A contiguous array's bytes, sharing memory."""
    return array.reshape(-1).view(np.uint8)


def run_into(
    body: str,
    out: NDArray[np.generic],
    *,
    threads: int = 32,
    grid: int = 1,
    cluster: int = 1,
    seed: int = 0,
    observe: Callable[[Event], None] | None = None,
    directives: str = "",
    globals_: str = "",
    dynamic: int = 0,
    step_limit: int = 1_000_000,
) -> RunReport:
    """Run a kernel whose one parameter `out` points to the array."""
    return run_launch(
        module(body, parameters=".param .u64 out", directives=directives, globals_=globals_),
        launch(PointerParam("out"), threads=threads, grid=grid, cluster=cluster, dynamic=dynamic),
        {"out": as_bytes(out)},
        seed=seed,
        observe=observe,
        step_limit=step_limit,
    )


def evaluate(
    instruction: str,
    inputs: dict[str, NDArray[np.generic]],
    output: str,
    dtype: type[np.generic],
    *,
    threads: int = 32,
) -> NDArray[np.generic]:
    """The value of register `output` in every lane after `instruction`, with `inputs` loaded into registers first."""
    loads: list[str] = []
    buffers: dict[str, NDArray[np.uint8]] = {}
    parameters = [".param .u64 out"]
    pointers: list[Param] = [PointerParam("out")]
    for index, (register, values) in enumerate(inputs.items()):
        width = values.dtype.itemsize
        parameters.append(f".param .u64 in{index}")
        pointers.append(PointerParam(f"in{index}"))
        buffers[f"in{index}"] = as_bytes(np.ascontiguousarray(values))
        loads.append(
            f"ld.param.u64 %rd30, [in{index}]; mad.wide.u32 %rd30, %r63, {width}, %rd30;"
            f"ld.global.b{8 * width} {register}, [%rd30];"
        )
    width = np.dtype(dtype).itemsize
    result = np.zeros(threads, dtype)
    buffers["out"] = as_bytes(result)
    store = (
        f"ld.param.u64 %rd30, [out]; mad.wide.u32 %rd30, %r63, {width}, %rd30;st.global.b{8 * width} [%rd30], {output};"
    )
    if output.startswith("%p"):
        store = f"selp.u32 %r62, 1, 0, {output}; " + store.replace(output, "%r62")
    body = "\n".join(("mov.u32 %r63, %tid.x;", *loads, instruction, store, "ret;"))
    run_launch(module(body, parameters=", ".join(parameters)), launch(*pointers, threads=threads), buffers)
    return result


COPY_TILE = """
.shared .align 1024 .b8 tile[8192];
.shared .align 8 .b8 bar[8];
mov.b64 %rd1, source;
cvta.param.u64 %rd1, %rd1;
mov.b64 %rd2, target;
cvta.param.u64 %rd2, %rd2;
mov.u32 %r1, %tid.x;
mov.u32 %r2, tile;
mov.u32 %r3, bar;
mov.u32 %r4, %ctaid.x;
shl.b32 %r4, %r4, 6;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY;
mbarrier.init.shared::cta.b64 [%r3], 1;
fence.mbarrier_init.release.cluster;
READY:
bar.sync 0;
@%p1 bra WAIT;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 8192;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd1, {%r4, 0}], [%r3];
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
@!%p2 bra WAIT;
@%p1 bra DONE;
cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd2, {%r4, 0}], [%r2];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
DONE:
ret;
"""
COPY_PARAMETERS = ".param .align 64 .b8 source[128], .param .align 64 .b8 target[128]"
