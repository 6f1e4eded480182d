"""Control flow, divergence, faults and hangs of plain kernels."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machine.small_kernels import as_bytes, launch, module, run_into

from tilewright.base.error import TilewrightError
from tilewright.base.plan import Launch, PointerParam, ScalarParam
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.event import Event, RegisterBudget
from tilewright.machine.core.fault import MachineFault, MachineHang
from tilewright.machine.core.model import model_of
from tilewright.machine.core.run import cluster_origins, run_launch

ADD = """
ld.param.u64 %rd1, [a];
ld.param.u64 %rd2, [b];
ld.param.u64 %rd3, [c];
ld.param.u32 %r1, [n];
mov.u32 %r2, %ctaid.x;
mov.u32 %r3, %ntid.x;
mov.u32 %r4, %tid.x;
mad.lo.s32 %r5, %r2, %r3, %r4;
setp.ge.s32 %p1, %r5, %r1;
@%p1 bra DONE;
cvta.to.global.u64 %rd1, %rd1;
mul.wide.s32 %rd4, %r5, 4;
add.s64 %rd5, %rd1, %rd4;
add.s64 %rd6, %rd2, %rd4;
add.s64 %rd7, %rd3, %rd4;
ld.global.f32 %f1, [%rd5];
ld.global.f32 %f2, [%rd6];
and.b32 %r6, %r5, 1;
setp.eq.s32 %p2, %r6, 0;
@%p2 bra EVEN;
sub.f32 %f3, %f1, %f2;
bra JOIN;
EVEN:
add.f32 %f3, %f1, %f2;
JOIN:
st.global.f32 [%rd7], %f3;
DONE:
ret;
"""
ADD_PARAMETERS = ".param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n"


def add_launch(count: int) -> object:
    pointers = (PointerParam("a"), PointerParam("b"), PointerParam("c"))
    return launch(*pointers, ScalarParam("i32", count), threads=96, grid=11)


def test_divergent_vector_add() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 1000)).astype(np.float32)
    c = np.zeros(1000, np.float32)
    buffers = {"a": as_bytes(a), "b": as_bytes(b), "c": as_bytes(c)}
    report = run_launch(module(ADD, parameters=ADD_PARAMETERS), add_launch(1000), buffers)  # type: ignore[arg-type]
    assert np.array_equal(c, np.where(np.arange(1000) % 2 == 0, a + b, a - b))
    assert report.instructions > 33 * 24


def test_out_of_bounds_names_line_and_buffer() -> None:
    data = np.zeros(1000, np.float32)
    buffers = {name: as_bytes(data) for name in "abc"}
    with pytest.raises(MachineFault) as caught:
        run_launch(module(ADD, parameters=ADD_PARAMETERS), add_launch(1001), buffers)  # type: ignore[arg-type]
    assert caught.value.code == "MF001"
    assert caught.value.span is not None
    assert caught.value.span.text.strip() == "ld.global.f32 %f1, [%rd5];"
    assert "outside a: offset 4000 of 4000" in caught.value.message


def test_loop_with_divergent_trip_counts() -> None:
    out = np.zeros(64, np.uint32)
    run_into(
        """
        ld.param.u64 %rd1, [out];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, 0;
        mov.u32 %r3, 0;
        LOOP:
        add.u32 %r3, %r3, %r2;
        add.u32 %r2, %r2, 1;
        setp.le.u32 %p1, %r2, %r1;
        @%p1 bra LOOP;
        mad.wide.u32 %rd2, %r1, 4, %rd1;
        st.global.u32 [%rd2], %r3;
        ret;
        """,
        out,
        threads=64,
    )
    assert out.tolist() == [lane * (lane + 1) // 2 for lane in range(64)]


def test_partial_last_warp_and_early_exit() -> None:
    out = np.zeros(48, np.uint32)
    run_into(
        """
        ld.param.u64 %rd1, [out];
        mov.u32 %r1, %tid.x;
        setp.eq.u32 %p1, %r1, 3;
        @%p1 exit;
        bar.sync 0;
        mad.wide.u32 %rd2, %r1, 4, %rd1;
        st.global.u32 [%rd2], 7;
        ret;
        """,
        out,
        threads=48,
    )
    assert out[3] == 0 and out.sum() == 7 * 47


def test_guarded_instruction_keeps_other_lanes() -> None:
    out = np.zeros(32, np.uint32)
    run_into(
        """
        ld.param.u64 %rd1, [out];
        mov.u32 %r1, %laneid;
        mov.u32 %r2, 5;
        setp.lt.u32 %p1, %r1, 10;
        @%p1 mov.u32 %r2, 6;
        @!%p1 add.u32 %r2, %r2, %r1;
        mad.wide.u32 %rd2, %r1, 4, %rd1;
        st.global.u32 [%rd2], %r2;
        ret;
        """,
        out,
    )
    assert out.tolist() == [6 if lane < 10 else 5 + lane for lane in range(32)]


def test_uninitialised_register_is_a_fault() -> None:
    with pytest.raises(MachineFault) as caught:
        run_into("add.u32 %r1, %r2, 1;\nret;", np.zeros(1, np.uint32))
    assert caught.value.code == "MF003"
    assert "%r2" in caught.value.message
    assert caught.value.span is not None and caught.value.span.line == 7


@pytest.mark.parametrize(
    "use",
    [
        "setp.eq.u32 %p1, %r1, %r2;",
        "@%p2 mov.u32 %r1, 1;",
        "selp.b32 %r3, %r1, %r2, %p3;",
        "st.global.u32 [%rd1], %r2;",
        "ld.global.u32 %r3, [%rd2];",
        "shfl.sync.idx.b32 %r3, %r2, 0, 31, -1;",
        "cvt.rn.bf16x2.f32 %r3, %f1, %f2;",
        "@%p2 bra END;",
        "mov.b64 %rd3, {%r1, %r2};",
    ],
)
def test_every_kind_of_use_notices_uninitialised_registers(use: str) -> None:
    with pytest.raises(MachineFault) as caught:
        run_into(
            f"ld.param.u64 %rd1, [out];\nmov.u32 %r1, 1;\nsetp.eq.u32 %p3, %r1, 1;\n{use}\nEND:\nret;",
            np.zeros(1, np.uint32),
        )
    assert caught.value.code == "MF003"


def test_a_barrier_in_divergent_code_is_a_fault() -> None:
    with pytest.raises(MachineFault) as caught:
        run_into(
            """
            mov.u32 %r1, %tid.x;
            setp.lt.u32 %p1, %r1, 16;
            @%p1 bra LOW;
            bar.sync 0;
            bra END;
            LOW:
            bar.sync 1;
            END:
            ret;
            """,
            np.zeros(1, np.uint32),
        )
    assert caught.value.code == "MF005"


def test_lanes_that_wait_for_lanes_of_the_same_warp_make_progress() -> None:
    out = np.zeros(32, np.uint32)
    for seed in range(4):
        out[:] = 0
        run_into(
            """
            .shared .align 8 .b64 bar;
            ld.param.u64 %rd1, [out];
            mov.u32 %r1, %tid.x;
            setp.ne.u32 %p1, %r1, 0;
            @%p1 bra INITIALISED;
            mbarrier.init.shared.b64 [bar], 31;
            INITIALISED:
            bar.warp.sync -1;
            @%p1 bra ARRIVE;
            WAIT:
            mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;
            @!%p2 bra WAIT;
            bra STORE;
            ARRIVE:
            mbarrier.arrive.shared.b64 _, [bar];
            STORE:
            mad.wide.u32 %rd2, %r1, 4, %rd1;
            st.global.u32 [%rd2], 1;
            ret;
            """,
            out,
            seed=seed,
        )
        assert out.sum() == 32


def test_step_limit_is_reported_as_such() -> None:
    with pytest.raises(MachineHang) as caught:
        run_into("LOOP:\nbra LOOP;\nret;", np.zeros(1, np.uint32), step_limit=10_000)
    assert caught.value.code == "LV202"


def test_cluster_order_and_special_registers() -> None:
    out = np.zeros((6, 64, 4), np.uint32)
    run_into(
        """
        ld.param.u64 %rd1, [out];
        mov.u32 %r1, %ctaid.x;
        mov.u32 %r2, %tid.x;
        mad.lo.u32 %r3, %r1, 64, %r2;
        mad.wide.u32 %rd1, %r3, 16, %rd1;
        mov.u32 %r4, %cluster_ctarank;
        mov.u32 %r5, %nctaid.x;
        mov.u32 %r6, %clusterid.x;
        mov.u32 %r7, %laneid;
        st.global.v4.u32 [%rd1], {%r4, %r5, %r6, %r7};
        ret;
        """,
        out,
        threads=64,
        grid=6,
        cluster=2,
    )
    assert np.array_equal(out[:, 0, 0], [0, 1, 0, 1, 0, 1])
    assert (out[:, :, 1] == 6).all()
    assert np.array_equal(out[:, 5, 2], [0, 0, 1, 1, 2, 2])
    assert np.array_equal(out[2, :, 3], np.tile(np.arange(32), 2))


def test_launch_that_does_not_fit_the_kernel() -> None:
    kernel = module("ret;", parameters=".param .u64 out", directives=".reqntid 64, 1, 1")
    with pytest.raises(TilewrightError, match="reqntid"):
        run_launch(kernel, launch(PointerParam("out")), {"out": np.zeros(8, np.uint8)})
    with pytest.raises(TilewrightError, match="parameters"):
        run_launch(kernel, launch(threads=64), {})
    with pytest.raises(TilewrightError, match="no kernel other"):
        run_launch(kernel, launch(threads=64, name="other"), {})
    with pytest.raises(TilewrightError, match="names buffer"):
        run_launch(kernel, launch(PointerParam("out"), threads=64), {})
    with pytest.raises(TilewrightError, match="has 8 bytes, the launch gives 4"):
        run_launch(kernel, launch(ScalarParam("i32", 1), threads=64), {})


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [
        ((1, 65536, 1), (1, 1, 1), "65536 CTAs along y, more than 65535"),
        ((1, 1, 65536), (1, 1, 1), "65536 CTAs along z, more than 65535"),
        ((1, 1, 1), (1, 1, 65), "65 threads a CTA along z, more than 64"),
    ],
)
def test_a_launch_beyond_the_limits_of_an_axis_is_refused(
    grid: tuple[int, int, int], block: tuple[int, int, int], message: str
) -> None:
    with pytest.raises(TilewrightError, match=message):
        run_launch(module("ret;"), Launch("k", grid, block, ()), {})
    y, z = (min(extent, 3) for extent in grid[1:])
    run_launch(module("ret;"), Launch("k", (4, y, z), (1, 1, min(block[2], 64)), ()), {})


def test_an_instruction_form_that_is_not_implemented_is_refused_with_its_place() -> None:
    with pytest.raises(TilewrightError) as caught:
        run_into("ret;\nsuq.width.b32 %r1, [%rd1];", np.zeros(1, np.uint32))
    assert "suq" in caught.value.message
    assert caught.value.span is not None and caught.value.span.line == 8


def test_where_the_clusters_of_a_grid_stand() -> None:
    origins = cluster_origins(Launch("k", (4, 6, 2), (1, 1, 1), (), (2, 3, 1)))
    expected = [(2 * i, 3 * j, k) for k in range(2) for j in range(2) for i in range(2)]
    assert list(origins) == expected and origins[-1] == expected[-1] and origins[2:5] == expected[2:5]
    huge = cluster_origins(Launch("k", (2**31 - 1, 65535, 65535), (1, 1, 1), ()))
    assert huge[len(huge) - 1] == (2**31 - 2, 65534, 65534)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (".local .b8 frame[600000];", "600000 bytes of local memory"),
        (".shared .b8 tile[600000];", "600000 bytes of shared memory"),
        (".global .b8 data[0x1000000000];", "the machine holds"),
    ],
)
def test_more_memory_than_there_is(declared: str, message: str) -> None:
    with pytest.raises(TilewrightError, match=message):
        run_into(f"{declared}\nret;", np.zeros(1, np.uint32))


def test_a_grid_beyond_the_machine() -> None:
    given = Launch("k", (1 << 30, 1, 1), (32, 1, 1), ())
    with pytest.raises(TilewrightError, match="1073741824 clusters"):
        run_launch(module("ret;"), given, {})


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("sm_80", "sm_90a"),
        ("sm_90", "sm_90a"),
        ("sm_100f", "sm_100a"),
        ("sm_103a", "sm_103a"),
        ("sm_110a", "sm_100a"),
        ("sm_121f", "sm_120a"),
        ("sm_130a", None),
    ],
)
def test_a_text_is_read_with_the_nearest_limits(name: str, limits: str | None) -> None:
    text = read(f".version 9.0\n.target {name}\n.address_size 64\n.visible .entry k() {{ ret; }}", "kernel.ptx")
    if limits is None:
        with pytest.raises(TilewrightError, match="no limits for target sm_130a"):
            model_of(text)
    else:
        assert model_of(text).name == limits


def test_registers_at_launch_are_no_more_than_the_kernel_asks_for() -> None:
    events: list[Event] = []
    body = "setmaxnreg.dec.sync.aligned.u32 40;\nsetmaxnreg.inc.sync.aligned.u32 232;\nret;"
    run_into(body, np.zeros(1, np.uint32), directives=".maxntid 128, 1, 1", threads=128, observe=events.append)
    budgets = [event.before for event in events if isinstance(event, RegisterBudget)]
    assert set(budgets) == {232, 40}
