"""wgmma: numbers against NumPy, operands in registers, and the registers that an operation in flight owns."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16
from numpy.typing import NDArray
from tests.machine.small_kernels import as_bytes, launch, module

from tilewright.base.plan import PointerParam
from tilewright.machine.core.event import Access, Event, RegisterHazard, TensorCoreActor, WgmmaIssue, WgmmaWait
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.run import run_launch
from tilewright.machine.tensor_core.fragment import accumulator_coordinates, operand_coordinates

ACCUMULATOR = "{" + ", ".join(f"%f{index}" for index in range(32)) + "}"
WAIT = "wgmma.wait_group.sync.aligned 0;"
FENCE = "wgmma.fence.sync.aligned;"


def product(first: str, second: str) -> str:
    return f"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {ACCUMULATOR}, {first}, %rd7, {second}, 1, 1"


STORE = "\n".join(
    f"st.global.v4.f32 [%rd9+{4 * index}], {{%f{index}, %f{index + 1}, %f{index + 2}, %f{index + 3}}};"
    for index in range(0, 32, 4)
)
KERNEL = f"""
.shared .align 1024 .b8 sa[2048];
.shared .align 1024 .b8 sb[2048];
ld.param.u64 %rd1, [a];
ld.param.u64 %rd2, [b];
ld.param.u64 %rd3, [c];
mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, 4;
cvt.u64.u32 %rd4, %r2;
add.s64 %rd5, %rd1, %rd4;
ld.global.v4.b32 {{%r3, %r4, %r5, %r6}}, [%rd5];
mov.u32 %r7, sa;
add.u32 %r8, %r7, %r2;
st.shared.v4.b32 [%r8], {{%r3, %r4, %r5, %r6}};
add.s64 %rd5, %rd2, %rd4;
ld.global.v4.b32 {{%r3, %r4, %r5, %r6}}, [%rd5];
mov.u32 %r9, sb;
add.u32 %r8, %r9, %r2;
st.shared.v4.b32 [%r8], {{%r3, %r4, %r5, %r6}};
fence.proxy.async.shared::cta;
bar.sync 0;
shr.u32 %r10, %r7, 4;
and.b32 %r10, %r10, 16383;
cvt.u64.u32 %rd6, %r10;
or.b64 %rd6, %rd6, 0x0000001000080000;
shr.u32 %r10, %r9, 4;
and.b32 %r10, %r10, 16383;
cvt.u64.u32 %rd7, %r10;
or.b64 %rd7, %rd7, 0x0000001000080000;
{FENCE}
{product("%rd6", "0")}, 0, 0;
{product("%rd6", "1")}, 0, 0;
wgmma.commit_group.sync.aligned;
{WAIT}
shl.b32 %r11, %r1, 7;
cvt.u64.u32 %rd8, %r11;
add.s64 %rd9, %rd3, %rd8;
{STORE}
ret;
"""
PARAMETERS = ".param .u64 a, .param .u64 b, .param .u64 c"


def cores(matrix: NDArray[np.generic]) -> NDArray[np.uint8]:
    """A 64 x 16 operand as 8 x 8 cores: K-major, no swizzle, 128 bytes along K and 256 bytes along rows apart."""
    return as_bytes(np.ascontiguousarray(matrix.reshape(8, 8, 2, 8).transpose(0, 2, 1, 3)))


def run(text: str, a: NDArray[np.generic], b: NDArray[np.generic], **options: object) -> NDArray[np.float32]:
    out = np.zeros((128, 32), np.float32)
    pointers = (PointerParam("a"), PointerParam("b"), PointerParam("c"))
    buffers = {"a": cores(a), "b": cores(b), "c": as_bytes(out)}
    run_launch(module(text, parameters=PARAMETERS), launch(*pointers, threads=128), buffers, **options)  # type: ignore[arg-type]
    rows, columns = accumulator_coordinates(64)
    result = np.zeros((64, 64), np.float32)
    result[rows, columns] = out
    return result


@pytest.fixture(scope="module")
def operands() -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    rng = np.random.default_rng(3)
    return rng.standard_normal((64, 16)).astype(bfloat16), rng.standard_normal((64, 16)).astype(bfloat16)


Operands = tuple[NDArray[np.generic], NDArray[np.generic]]


def test_chained_products_for_ten_seeds(operands: Operands) -> None:
    a, b = operands
    exact = 2 * (a.astype(np.float64) @ b.astype(np.float64).T)
    first = run(KERNEL, a, b, seed=0)
    assert np.abs(first - exact).max() < 1e-5
    for seed in range(1, 10):
        assert np.array_equal(first, run(KERNEL, a, b, seed=seed))


def test_reading_an_accumulator_in_flight(operands: Operands) -> None:
    text = KERNEL.replace(WAIT, "")
    with pytest.raises(MachineFault) as caught:
        run(text, *operands)
    assert caught.value.code == "MF004"
    assert "%f0 belongs to wgmma 1" in caught.value.message and "read" in caught.value.message
    events: list[Event] = []
    run(text, *operands, observe=events.append)
    hazards = [event for event in events if isinstance(event, RegisterHazard)]
    assert {event.register for event in hazards} == {f"%f{index}" for index in range(32)}
    assert not any(event.write for event in hazards)


def test_waiting_for_too_few_groups(operands: Operands) -> None:
    with pytest.raises(MachineFault, match="MF004"):
        run(KERNEL.replace(WAIT, "wgmma.wait_group.sync.aligned 1;"), *operands)


def test_writing_an_accumulator_without_a_fence(operands: Operands) -> None:
    with pytest.raises(MachineFault) as caught:
        run(KERNEL.replace(FENCE, ""), *operands)
    assert caught.value.code == "MF004" and "written" in caught.value.message


def test_an_accumulator_written_between_fence_and_product_is_told_apart(operands: Operands) -> None:
    text = KERNEL.replace(FENCE, FENCE + "\nmov.f32 %f3, 0f00000000;")
    run(text, *operands)
    events: list[Event] = []
    run(text, *operands, observe=events.append)
    hazards = [event for event in events if isinstance(event, RegisterHazard)]
    assert hazards and all(event.register == "%f3" and event.write and event.after_fence for event in hazards)


def test_a_second_fence_is_not_needed_after_a_wait(operands: Operands) -> None:
    again = f"{WAIT}\n{product('%rd6', '1')}, 0, 0;\nwgmma.commit_group.sync.aligned;\n{WAIT}"
    a, b = operands
    exact = 3 * (a.astype(np.float64) @ b.astype(np.float64).T)
    assert np.abs(run(KERNEL.replace(WAIT, again), a, b) - exact).max() < 1e-5


def test_negated_and_discarded_accumulators(operands: Operands) -> None:
    a, b = operands
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    negated = KERNEL.replace(
        f"{product('%rd6', '1')}, 0, 0", f"{product('%rd6', '0')}, 0, 0".replace("0, 1, 1", "0, -1, 1")
    )
    assert np.abs(run(negated, a, b) + exact).max() < 1e-5


def test_a_in_registers(operands: Operands) -> None:
    a, b = operands
    rows, depths = operand_coordinates(2)
    fragments = np.ascontiguousarray(a[rows, depths])
    text = KERNEL.replace(
        FENCE,
        "ld.param.u64 %rd10, [a];\nshl.b32 %r20, %r1, 4;\ncvt.u64.u32 %rd11, %r20;\nadd.s64 %rd10, %rd10, %rd11;\n"
        "ld.global.v4.b32 {%r21, %r22, %r23, %r24}, [%rd10+2048];\n" + FENCE,
    )
    for scale in "01":
        text = text.replace(f"{product('%rd6', scale)}, 0, 0", f"{product('{%r21, %r22, %r23, %r24}', scale)}, 0")
    out = np.zeros((128, 32), np.float32)
    buffers = {"a": np.concatenate((cores(a), as_bytes(fragments))), "b": cores(b), "c": as_bytes(out)}
    pointers = (PointerParam("a"), PointerParam("b"), PointerParam("c"))
    kernel = module(text, parameters=PARAMETERS)
    run_launch(kernel, launch(*pointers, threads=128), buffers)
    result = np.zeros((64, 64), np.float32)
    accumulator = accumulator_coordinates(64)
    result[accumulator] = out
    assert np.abs(result - 2 * (a.astype(np.float64) @ b.astype(np.float64).T)).max() < 1e-5
    with pytest.raises(MachineFault, match=r"%r21 belongs to wgmma"):
        run_launch(
            module(text.replace("wgmma.commit", "mov.u32 %r21, 0;\nwgmma.commit"), parameters=PARAMETERS),
            launch(*pointers, threads=128),
            buffers,
        )


def test_events(operands: Operands) -> None:
    events: list[Event] = []
    run(KERNEL, *operands, observe=events.append)
    issues = [event for event in events if isinstance(event, WgmmaIssue)]
    assert len(issues) == 8 and {event.actor.warp for event in issues} == {0, 1, 2, 3}
    assert all(event.shared == ((0, 4096),) and len(event.accumulator) == 32 for event in issues)
    reads = [event for event in events if isinstance(event, Access) and isinstance(event.actor, TensorCoreActor)]
    assert sorted({event.ranges for event in reads}) == [((0, 2048),), ((2048, 4096),)]
    assert sum(isinstance(event, WgmmaWait) for event in events) == 4


def test_half_accumulator(operands: Operands) -> None:
    a, b = (each.astype(np.float16) for each in operands)
    packed = "{" + ", ".join(f"%r{index}" for index in range(30, 46)) + "}"
    text = KERNEL
    for scale in "01":
        text = text.replace(
            f"{product('%rd6', scale)}, 0, 0",
            f"wgmma.mma_async.sync.aligned.m64n64k16.f16.f16.f16 {packed}, %rd6, %rd7, {scale}, 1, 1, 0, 0",
        )
    stores = "\n".join(f"st.global.b32 [%rd9+{4 * index}], %r{30 + index};" for index in range(16))
    text = text.replace(STORE, stores)
    out = np.zeros((128, 32), np.uint32)
    pointers = (PointerParam("a"), PointerParam("b"), PointerParam("c"))
    buffers = {"a": cores(a), "b": cores(b), "c": as_bytes(out)}
    run_launch(module(text, parameters=PARAMETERS), launch(*pointers, threads=128), buffers)
    rows, columns = accumulator_coordinates(64)
    result = np.zeros((64, 64), np.float64)
    result[rows, columns] = np.ascontiguousarray(out[:, :16]).view(np.float16)
    assert np.abs(result - 2 * (a.astype(np.float64) @ b.astype(np.float64).T)).max() < 0.02


def test_warps_of_a_group_must_issue_the_same(operands: Operands) -> None:
    text = KERNEL.replace(
        FENCE, FENCE + "\nmov.u32 %r30, %warpid;\nsetp.ne.u32 %p5, %r30, 2;\n@%p5 add.s64 %rd7, %rd7, 8;"
    )
    with pytest.raises(MachineFault, match="different wgmmas"):
        run(text, *operands)


def test_a_warp_alone_has_no_warpgroup() -> None:
    with pytest.raises(MachineFault, match="not part of four"):
        run_launch(module(FENCE + "\nret;"), launch(threads=64), {})


def test_bits_that_agree_are_counted() -> None:
    rng = np.random.default_rng(9)
    a, b = (rng.integers(0, 1 << 16, (64, 16), np.uint16) for _ in range(2))
    text = KERNEL
    for scale in ("0", "1"):
        text = text.replace(
            product("%rd6", scale) + ", 0, 0;",
            f"wgmma.mma_async.sync.aligned.m64n64k256.s32.b1.b1.and.popc {ACCUMULATOR}, %rd6, %rd7, {scale};",
        )
    bits_a, bits_b = (np.unpackbits(each.view(np.uint8), axis=1).astype(np.int64) for each in (a, b))
    assert np.array_equal(run(text, a, b).view(np.int32), 2 * (bits_a @ bits_b.T))


@pytest.mark.parametrize("fenced", [False, True])
@pytest.mark.parametrize("guard", ["", "@%p1 ", "@!%p1 "])
def test_reading_an_accumulator_before_the_next_product_without_a_fence(
    operands: Operands, fenced: bool, guard: str
) -> None:
    """After the wait the registers are the thread's, and its reads count until a fence; where the guard fails, none."""
    read = f"setp.eq.u32 %p1, 0, 0;\n{guard}add.f32 %f40, %f3, %f3;\n" + (FENCE if fenced else "")
    again = f"{WAIT}\n{read}\n{product('%rd6', '1')}, 0, 0;\nwgmma.commit_group.sync.aligned;\n{WAIT}"
    text = KERNEL.replace(WAIT, again)
    events: list[Event] = []
    run(text, *operands, observe=events.append)
    found = {event.register for event in events if isinstance(event, RegisterHazard)}
    assert all(event.after_fence and not event.write for event in events if isinstance(event, RegisterHazard))
    assert found == (set[str]() if fenced or "!" in guard else {"%f3"})
