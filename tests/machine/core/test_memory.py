"""Loads, stores and atomics: widths, vectors, spaces, alignment, bounds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine.small_kernels import as_bytes, evaluate, launch, module, run_into

from tilewright.base.plan import PointerParam, ScalarParam
from tilewright.machine.core.event import Access, Event
from tilewright.machine.core.fault import MachineFault
from tilewright.machine.core.memory import merge_ranges
from tilewright.machine.core.run import run_launch


@pytest.mark.parametrize(
    ("element", "register", "wide", "dtype"),
    [
        ("u8", "%r1", "u32", np.uint8),
        ("s8", "%r1", "s32", np.int8),
        ("u16", "%r1", "u32", np.uint16),
        ("s16", "%r1", "s32", np.int16),
        ("b32", "%r1", "b32", np.uint32),
        ("s32", "%rd9", "s64", np.int32),
        ("b64", "%rd9", "b64", np.uint64),
    ],
)
@pytest.mark.parametrize("space", ["global", "generic", "shared", "shared generic"])
def test_element_widths_and_extension(element: str, register: str, wide: str, dtype: type, space: str) -> None:
    width = np.dtype(dtype).itemsize
    wide_bytes = int(wide[1:]) // 8
    values = np.random.default_rng(4).integers(0, 256, 32 * width, np.uint8).view(dtype)
    out = np.zeros(64, np.uint64)
    out.view(dtype)[:32] = values
    through = f"ld.{'' if space == 'generic' else 'global.'}{element} {register}, [%rd2];"
    if space.startswith("shared"):
        through = (
            f"{through}\nmov.u32 %r5, cell;\nmad.lo.u32 %r5, %r2, {width}, %r5;\nst.shared.{element} [%r5], {register};"
            f"\n{'mov.u32 %r1, 0;' if register == '%r1' else 'mov.b64 %rd9, 0;'}\n"
        )
        if space == "shared":
            through += f"ld.shared.{element} {register}, [%r5];"
        else:
            through += f"cvt.u64.u32 %rd5, %r5;\ncvta.shared.u64 %rd5, %rd5;\nld.{element} {register}, [%rd5];"
    run_into(
        f"""
        .shared .align 16 .b8 cell[256];
        ld.param.u64 %rd1, [out];
        mov.u32 %r2, %tid.x;
        mad.wide.u32 %rd2, %r2, {width}, %rd1;
        {through}
        bar.sync 0;
        mad.wide.u32 %rd3, %r2, {wide_bytes}, %rd1;
        st.global.b{8 * wide_bytes} [%rd3+256], {register};
        ret;
        """,
        out,
    )
    stored = out[32:].view({"u": "u", "s": "i", "b": "u"}[wide[0]] + str(wide_bytes))[:32]
    assert np.array_equal(stored, values.astype(stored.dtype))


def test_vectors_in_shared_memory_under_a_mask() -> None:
    out = np.zeros((32, 4), np.uint32)
    run_into(
        """
        .shared .align 16 .b8 cell[512];
        ld.param.u64 %rd1, [out];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, cell;
        mad.lo.u32 %r3, %r1, 16, %r2;
        add.u32 %r4, %r1, 1;
        add.u32 %r5, %r1, 2;
        add.u32 %r6, %r1, 3;
        st.shared.v4.u32 [%r3], {%r1, %r4, %r5, %r6};
        setp.lt.u32 %p1, %r1, 20;
        mov.u32 %r9, 0;
        mov.u32 %r10, 0;
        @%p1 ld.shared.v2.u32 {%r9, %r10}, [%r3+8];
        mad.wide.u32 %rd2, %r1, 16, %rd1;
        @%p1 st.global.v2.u32 [%rd2], {%r9, %r10};
        @!%p1 st.global.v4.u32 [%rd2], {%r9, %r10, %r1, %r4};
        ret;
        """,
        out,
    )
    lane = np.arange(32, dtype=np.uint32)
    assert np.array_equal(out[:20, :2], np.stack((lane + 2, lane + 3), 1)[:20])
    assert np.array_equal(out[20:], np.stack((lane * 0, lane * 0, lane, lane + 1), 1)[20:])


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(("offset", "code"), [(2, "MF002"), (4096, "MF001"), (-4, "MF001")])
def test_bad_addresses(space: str, offset: int, code: str) -> None:
    for operation in ("ld.{}.u32 %r3, [{}];", "st.{}.u32 [{}], %r1;"):
        address = f"{'%rd2' if space == 'global' else '%r4'}+{offset}"
        with pytest.raises(MachineFault) as caught:
            run_into(
                f"""
                .shared .align 16 .b8 cell[128];
                ld.param.u64 %rd1, [out];
                mov.u32 %r1, %tid.x;
                mad.wide.u32 %rd2, %r1, 4, %rd1;
                mov.u32 %r2, cell;
                mad.lo.u32 %r4, %r1, 4, %r2;
                {operation.format(space, address)}
                ret;
                """,
                np.zeros(32, np.uint32),
            )
        assert caught.value.code == code
        assert caught.value.span is not None and operation[:2] in caught.value.span.text


def test_one_lane_out_of_bounds_is_enough() -> None:
    with pytest.raises(MachineFault, match="offset 128 of 128"):
        run_into(
            "ld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\nmad.wide.u32 %rd2, %r1, 4, %rd1;\n"
            "st.global.u32 [%rd2+4], %r1;\nret;",
            np.zeros(32, np.uint32),
        )


def test_an_instruction_that_meets_several_buffers() -> None:
    a, b, out = np.full(32, 1, np.uint32), np.full(32, 2, np.uint32), np.zeros(32, np.uint32)
    body = """
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd3, [out];
    mov.u32 %r1, %tid.x;
    and.b32 %r2, %r1, 1;
    setp.eq.u32 %p1, %r2, 0;
    selp.b64 %rd4, %rd1, %rd2, %p1;
    mad.wide.u32 %rd5, %r1, 4, %rd4;
    ld.global.u32 %r3, [%rd5];
    mad.wide.u32 %rd6, %r1, 4, %rd3;
    st.global.u32 [%rd6], %r3;
    ret;
    """
    kernel = module(body, parameters=".param .u64 a, .param .u64 b, .param .u64 out")
    pointers = (PointerParam("a"), PointerParam("b"), PointerParam("out"))
    run_launch(kernel, launch(*pointers), {"a": as_bytes(a), "b": as_bytes(b), "out": as_bytes(out)})
    assert np.array_equal(out, np.tile([1, 2], 16))


def test_scalar_parameters_and_their_addresses() -> None:
    out = np.zeros(4, np.uint32)
    body = """
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [n];
    ld.param.f32 %f1, [x];
    mov.b64 %rd2, n;
    ld.param.u32 %r2, [%rd2];
    mov.b32 %r3, %f1;
    st.global.v4.u32 [%rd1], {%r1, %r2, %r3, 5};
    ret;
    """
    kernel = module(body, parameters=".param .u64 out, .param .u32 n, .param .f32 x")
    scalars = (ScalarParam("i32", -3), ScalarParam("f32", 1.5))
    run_launch(kernel, launch(PointerParam("out"), *scalars, threads=1), {"out": as_bytes(out)})
    assert out.tolist() == [2**32 - 3, 2**32 - 3, 0x3FC0_0000, 5]


def test_module_variables() -> None:
    out = np.zeros(4, np.uint32)
    run_into(
        """
        ld.param.u64 %rd1, [out];
        ld.const.v2.u32 {%r1, %r2}, [table];
        mov.u64 %rd2, counter;
        atom.global.add.u32 %r3, [%rd2], 4;
        ld.global.u32 %r4, [counter];
        st.global.v4.u32 [%rd1], {%r1, %r2, %r3, %r4};
        ret;
        """,
        out,
        threads=1,
        globals_=".const .align 8 .u32 table[2] = {11, 12};\n.global .align 4 .u32 counter;",
    )
    assert out.tolist() == [11, 12, 0, 4]


@pytest.mark.parametrize(
    ("operation", "expected"),
    [("add.u32", 496), ("max.u32", 31), ("or.b32", 31), ("xor.b32", 0), ("inc.u32", 16), ("min.s32", 0)],
)
def test_atomics_of_a_whole_warp(operation: str, expected: int) -> None:
    out = np.zeros(33, np.uint32)
    run_into(
        f"ld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\natom.global.{operation} %r2, [%rd1], %r1;\n"
        "mad.wide.u32 %rd2, %r1, 4, %rd1;\nst.global.u32 [%rd2+4], %r2;\nret;",
        out,
    )
    if operation != "inc.u32":
        assert int(out[0]) == expected
    assert int(out[1]) == 0


def test_float_atomics_and_compare_and_swap() -> None:
    out = np.zeros(2, np.float32)
    run_into("ld.param.u64 %rd1, [out];\nred.global.add.f32 [%rd1], 0f3F000000;\nret;", out, grid=3)
    assert out[0] == 48
    swapped = np.zeros(1, np.uint32)
    run_into(
        "ld.param.u64 %rd1, [out];\nmov.u32 %r1, %tid.x;\nadd.u32 %r1, %r1, 1;\n"
        "atom.global.cas.b32 %r2, [%rd1], 0, %r1;\nret;",
        swapped,
    )
    assert swapped[0] == 1


def test_accesses_are_reported_as_merged_ranges() -> None:
    events: list[Event] = []
    run_into(
        """
        .shared .align 16 .b8 cell[256];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, cell;
        mad.lo.u32 %r3, %r1, 8, %r2;
        st.shared.u32 [%r3], %r1;
        mad.lo.u32 %r3, %r1, 4, %r2;
        setp.lt.u32 %p1, %r1, 4;
        @%p1 ld.volatile.shared.u32 %r4, [%r3];
        ret;
        """,
        np.zeros(1, np.uint32),
        observe=events.append,
    )
    write, read = [event for event in events if isinstance(event, Access)]
    assert write.write and write.ranges == tuple((8 * lane, 8 * lane + 4) for lane in range(32))
    assert not read.write and read.ranges == ((0, 16),) and read.atomic and read.lanes == 0xF


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=20), st.integers(1, 6))
def test_merged_ranges_cover_exactly_the_bytes(starts: list[int], size: int) -> None:
    ranges = merge_ranges(np.array(starts), size)
    covered = [byte for begin, end in ranges for byte in range(begin, end)]
    assert covered == sorted({start + index for start in starts for index in range(size)})
    assert all(left[1] < right[0] for left, right in pairwise(ranges))


def test_generic_address_tests_and_ranks() -> None:
    lanes = np.arange(32, dtype=np.uint64)
    shared = evaluate(
        ".shared .b32 cell;\nmov.u64 %rd1, cell;\ncvta.shared.u64 %rd1, %rd1;\nisspacep.shared %p1, %rd1;",
        {"%rd9": lanes},
        "%p1",
        np.uint32,
    )
    assert (shared == 1).all()
    outside = evaluate("isspacep.shared %p1, %rd9;", {"%rd9": lanes}, "%p1", np.uint32)
    assert (outside == 0).all()
