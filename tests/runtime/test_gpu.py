"""On a real GPU of compute capability 9.0: launches, tensor maps as the copy engine reads them, timing, faults."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Buffer, Launch, LaunchPlan, PointerParam, ScalarParam, TensorMap, TensorMapParam
from tilewright.runtime import device as gpu
from tilewright.runtime.assemble import assemble
from tilewright.runtime.bundle import Bundle
from tilewright.runtime.call import Program
from tilewright.runtime.launch import LoadedPlan
from tilewright.runtime.tensormap import encode


def _why_not() -> str:
    try:
        device = gpu.open_device()
    except TilewrightError as error:
        return error.message
    return "" if device.compute_capability == (9, 0) else f"{device.name} is not of compute capability 9.0"


_REASON = _why_not()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(_REASON), reason=_REASON)]

COUNT = 1000
VADD = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry vadd(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %d<8>; .reg .f32 %f<4>;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    ld.param.u32 %r5, [n]; setp.ge.u32 %p, %r4, %r5; @%p bra DONE;
    ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [c];
    mul.wide.u32 %d4, %r4, 4; add.s64 %d5, %d1, %d4; add.s64 %d6, %d2, %d4; add.s64 %d7, %d3, %d4;
    ld.global.f32 %f1, [%d5]; ld.global.f32 %f2, [%d6]; add.f32 %f3, %f1, %f2; st.global.f32 [%d7], %f3;
DONE:
    ret;
}
"""


def _vector(name: str, role: Any) -> Buffer:
    return Buffer(name, Element.F32, (COUNT,), (1,), role)


def vadd_bundle(*, cubin: bool = True) -> Bundle:
    """c = a + b, then d = c + b with c in a workspace: two launches."""

    def launch(*names: str) -> Launch:
        return Launch(
            "vadd", (4, 1, 1), (256, 1, 1), (*(PointerParam(name) for name in names), ScalarParam("i32", COUNT))
        )

    plan = LaunchPlan(
        (_vector("a", "input"), _vector("b", "input"), _vector("c", "workspace"), _vector("d", "output")),
        (launch("a", "b", "c"), launch("c", "b", "d")),
    )
    machine_code = assemble(VADD, "sm_90a", name="vadd").cubin if cubin else None
    return Bundle("vadd", "sm_90a", plan, VADD, machine_code)


def test_the_device_is_described() -> None:
    device = gpu.open_device()
    assert device.name.startswith("NVIDIA")
    assert device.sm_count > 100
    assert device.shared_bytes_per_block == 227 * 1024
    with pytest.raises(TilewrightError, match="there is no GPU 99"):
        gpu.open_device(99)


@pytest.mark.parametrize("cubin", [True, False])
def test_vectors_add_from_machine_code_and_from_ptx(cubin: bool) -> None:
    a, b = np.random.default_rng(0).random((2, COUNT), np.float32)
    d = Program(vadd_bundle(cubin=cubin))(a, b)
    assert np.array_equal(d, (a + b) + b)


def test_pytorch_tensors_stay_on_the_gpu() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    import torch

    a, b = torch.rand(2, COUNT, device="cuda")
    program = Program(vadd_bundle())
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        d = program(a, b)
        again = program(a, b, out=torch.empty_like(a))
    side.synchronize()
    assert d.device == a.device
    assert torch.equal(d, a + b + b) and torch.equal(again, d)
    from tilewright.runtime.arrays import view_array, view_capsule

    for tensor in (a, torch.zeros(4, 6, device="cuda", dtype=torch.bfloat16).t()[1:], torch.zeros(3)):
        assert view_array(tensor) == view_capsule(tensor.__dlpack__(), library="torch")
    with pytest.raises(TilewrightError, match="gradient"):
        program(a.requires_grad_(), b)
    with pytest.raises(TilewrightError, match="a is on cuda:0 and b on the CPU"):
        program(a.detach(), b.cpu())


def test_a_cuda_graph_replays_a_program() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    import torch

    a, b = torch.rand(2, COUNT, device="cuda")
    d = torch.empty_like(a)
    program = Program(vadd_bundle())
    program.loaded()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        program(a, b, out=d)
    a.fill_(5)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(d, a + b + b)


def test_cupy_arrays_stay_on_the_gpu() -> None:
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("CuPy is not installed")
    import cupy

    a = cupy.arange(COUNT, dtype=cupy.float32)
    d = Program(vadd_bundle())(a, a)
    assert isinstance(d, cupy.ndarray)
    assert bool((d == 3 * a).all())


ROWS, COLUMNS = 8, 64
TMA = f""".version 8.0
.target sm_90a
.address_size 64
.visible .entry tma(.param .align 64 .b8 map[128], .param .u64 out)
{{
    .reg .pred %p, %q; .reg .b32 %r<12>; .reg .b64 %d<6>;
    .shared .align 1024 .b8 tile[{ROWS * COLUMNS * 2}];
    .shared .align 8 .b8 barrier[8];
    mov.u32 %r1, tile; mov.u32 %r2, barrier; mov.u32 %r3, %tid.x;
    setp.ne.u32 %p, %r3, 0;
    @%p bra READY;
    mbarrier.init.shared.b64 [%r2], 1;
    fence.mbarrier_init.release.cluster;
    fence.proxy.async;
    mbarrier.arrive.expect_tx.shared.b64 %d1, [%r2], {ROWS * COLUMNS * 2};
    mov.u32 %r4, 0; mov.u32 %r5, 2;
    mov.b64 %d2, map;
    cvta.param.u64 %d2, %d2;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%d2, {{%r4, %r5}}], [%r2];
READY:
    bar.sync 0;
WAIT:
    mbarrier.try_wait.parity.shared.b64 %q, [%r2], 0;
    @!%q bra WAIT;
    ld.param.u64 %d3, [out];
    mov.u32 %r6, %ctaid.x; mul.lo.u32 %r6, %r6, {ROWS * COLUMNS * 2};
    shl.b32 %r7, %r3, 4; add.u32 %r8, %r1, %r7; add.u32 %r6, %r6, %r7;
    cvt.u64.u32 %d4, %r6; add.s64 %d5, %d3, %d4;
    ld.shared.v4.u32 {{%r4, %r5, %r9, %r10}}, [%r8];
    st.global.v4.u32 [%d5], {{%r4, %r5, %r9, %r10}};
    ret;
}}
"""


def test_the_copy_engine_reads_the_encoded_map() -> None:
    blocks = 4
    tensor_map = TensorMap(Element.U16, (COLUMNS, 16), (2 * COLUMNS,), (COLUMNS, ROWS), swizzle="128B")
    plan = LaunchPlan(
        (
            Buffer("x", Element.U16, (16, COLUMNS), (COLUMNS, 1), "input"),
            Buffer("y", Element.U16, (blocks, ROWS, COLUMNS), (ROWS * COLUMNS, COLUMNS, 1), "output"),
        ),
        (
            Launch(
                "tma",
                (blocks, 1, 1),
                (ROWS * COLUMNS * 2 // 16, 1, 1),
                (TensorMapParam("x", tensor_map), PointerParam("y")),
                cluster=(2, 1, 1),
            ),
        ),
    )
    x = np.arange(16 * COLUMNS, dtype=np.uint16).reshape(16, COLUMNS)
    y = Program(Bundle("tma", "sm_90a", plan, TMA, assemble(TMA, "sm_90a", name="tma").cubin))(x)
    chunks = x[2 : 2 + ROWS].reshape(ROWS, 8, 8)
    swizzled = np.stack([chunks[row][np.arange(8) ^ row % 8] for row in range(ROWS)]).reshape(ROWS, COLUMNS)
    for block in range(blocks):
        assert np.array_equal(y[block], swizzled)


def test_a_refused_map_shows_its_fields() -> None:
    for tensor_map, address in (
        (TensorMap(Element.BF16, (64, 8), (130,), (64, 8)), 0x10000),
        (TensorMap(Element.BF16, (64, 8), (128,), (64, 8)), 0x10008),
        (TensorMap(Element.BF16, (64, 8), (128,), (512, 8)), 0x10000),
    ):
        with pytest.raises(TilewrightError, match=r"CUDA_ERROR_INVALID_VALUE") as caught:
            encode(tensor_map, address, "x")
        assert "strides_bytes" in caught.value.message and f"{address:#x}" in caught.value.message
    assert len(encode(TensorMap(Element.F32, (64,), (), (64,)), 0x10000, "x")) == 128


def test_what_the_driver_knows_of_parameters_is_compared() -> None:
    bundle = vadd_bundle()
    assert bundle.cubin is not None
    launch = Launch("vadd", (1, 1, 1), (32, 1, 1), (PointerParam("a"), PointerParam("b")))
    with pytest.raises(
        TilewrightError, match=r"passes parameters of \[8, 8\] bytes, and the function takes \[8, 8, 8\]"
    ):
        LoadedPlan(LaunchPlan(bundle.plan.buffers, (launch,)), bundle.cubin, target="sm_90a")
    with pytest.raises(TilewrightError, match="looking up absent"):
        LoadedPlan(LaunchPlan((), (Launch("absent", (1, 1, 1), (32, 1, 1), ()),)), bundle.cubin, target="sm_90a")
    with pytest.raises(TilewrightError, match="machine code of kernel is damaged"):
        LoadedPlan(bundle.plan, bundle.cubin[:200], target="sm_90a")


def test_times_are_plausible_and_a_cached_run_is_cheap() -> None:
    loaded = Program(vadd_bundle()).loaded()
    with gpu.current(loaded.device):
        pointers = {name: gpu.allocate(4 * COUNT, name) for name in "abd"}
        try:
            times = loaded.time(pointers, 10, flush_l2=True)
            assert len(times) == 10 and all(0.001 < each < 5 for each in times)
            loaded.synchronize()
            started = time.perf_counter()
            for _ in range(200):
                loaded.run(pointers)
            microseconds = (time.perf_counter() - started) / 200 * 1e6
            loaded.synchronize()
        finally:
            for pointer in pointers.values():
                gpu.free(pointer)
    print(f"host time of a cached run of two launches: {microseconds:.1f} us")
    assert microseconds < 100


def test_a_fault_is_reported_with_its_program() -> None:
    # In a process of its own, since the fault ends the context.
    program = f"""
import runpy
from tilewright.base.error import TilewrightError
bundle = runpy.run_path({str(Path(__file__))!r})["vadd_bundle"]()
from tilewright.runtime.launch import load_bundle
loaded = load_bundle(bundle)
loaded.run({{"a": 256, "b": 512, "d": 1024}})
try:
    loaded.synchronize()
except TilewrightError as error:
    print(error.message, "|", error.remedy)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert "running vadd: CUDA_ERROR_ILLEGAL_ADDRESS |" in done.stdout, done.stdout + done.stderr
