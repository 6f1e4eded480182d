"""What a kernel's protocol depends on."""

from __future__ import annotations

import pytest
from tests.machine.gemm_text import gemm_text
from tests.machine.small_kernels import module

from tilewright.frontends.ptx.reader import read
from tilewright.machine.protocol.slicing.slice import (
    Slice,
    cheap_stores,
    passes_over_arithmetic,
    protocol_slice,
    text_of,
)


def sliced(body: str, *, parameters: str = "", globals_: str = "") -> Slice:
    return protocol_slice(module(body, parameters=parameters, globals_=globals_).kernels[0])


def executed_lines(found: Slice) -> list[int]:
    return sorted(found.text.flow.instructions[at].span.line for at in found.executed)


def test_arithmetic_that_only_fills_memory_is_left_out() -> None:
    found = sliced(
        """ld.param.u64 %rd0, [out];
mov.u32 %r0, %tid.x;
mul.wide.u32 %rd1, %r0, 4;
add.s64 %rd0, %rd0, %rd1;
cvt.rn.f32.u32 %f0, %r0;
mul.f32 %f1, %f0, %f0;
st.global.f32 [%rd0], %f1;
ret;""",
        parameters=".param .u64 out",
    )
    assert executed_lines(found) == [7, 8, 9, 10, 13, 14]


def test_parameters_and_special_registers_know_what_they_are_for() -> None:
    found = sliced(
        """ld.param.u64 %rd0, [out];
ld.param.u32 %r1, [count];
ld.param.f32 %f0, [scale];
mov.u32 %r0, %tid.x;
mov.u32 %r2, %ctaid.x;
mul.wide.u32 %rd1, %r2, 4;
add.s64 %rd0, %rd0, %rd1;
setp.ge.u32 %p0, %r0, %r1;
@%p0 bra END;
st.global.f32 [%rd0], %f0;
END:
ret;""",
        parameters=".param .u64 out, .param .u32 count, .param .f32 scale",
    )
    assert found.parameters[("out", 0)] == {"global address"}
    assert found.parameters[("count", 0)] == {"branch"}
    assert ("scale", 0) not in found.parameters
    assert found.specials == {"%tid.x": {"branch"}, "%ctaid.x": {"global address"}}


def test_what_is_stored_to_shared_memory_matters_if_a_branch_loads_it() -> None:
    body = """mov.u32 %r0, 7;
mov.u32 %r1, 9;
st.shared.u32 [cell], %r0;
st.shared.u32 [cell+4], %r1;
ld.shared.u32 %r2, [cell];
setp.eq.u32 %p0, %r2, 7;
@%p0 bra END;
bar.sync 0;
END:
ret;"""
    found = sliced(body, globals_=".shared .align 8 .b8 cell[8];")
    assert executed_lines(found) == [*range(7, 15), 16]
    assert len(found.stores) == 2 and len(found.loads) == 1
    without = protocol_slice(found.text.kernel, text=found.text, stores=())
    assert {7, 8}.isdisjoint(executed_lines(without)) and without.stores == frozenset()


def test_the_kernels_own_state_is_cheap_and_results_are_not() -> None:
    text = text_of(
        module(
            """mov.u32 %r0, 7;
st.shared.u32 [cell], %r0;
ld.param.f32 %f0, [scale];
mul.f32 %f1, %f0, %f0;
st.shared.f32 [cell+4], %f1;
ret;""",
            parameters=".param .f32 scale",
            globals_=".shared .align 8 .b8 cell[8];",
        ).kernels[0]
    )
    assert [text.flow.instructions[at].span.line for at in sorted(cheap_stores(text))] == [8]


def test_accumulators_of_a_product_are_touched_and_not_computed() -> None:
    found = protocol_slice(read(gemm_text(64, 3), "gemm.ptx").kernels[0])
    rows = {found.text.flow.instructions[at].row for at in found.touched}
    assert rows == {"cvt"} and len(found.touched) == 64 // 8 * 2
    executed = {found.text.flow.instructions[at].row for at in found.executed}
    assert {"wgmma.mma_async", "cp.async.bulk.tensor", "mbarrier.try_wait", "st"} <= executed
    assert "cvt" not in {found.text.flow.instructions[at].row for at in found.executed & found.touched}


def test_a_branch_around_arithmetic_is_skipped_and_one_around_the_protocol_is_not() -> None:
    body = """ld.param.f32 %f0, [scale];
setp.lt.f32 %p0, %f0, 0f00000000;
@%p0 bra JOIN;
mul.f32 %f0, %f0, %f0;
{work}
JOIN:
bar.sync 0;
ret;"""
    found = sliced(body.format(work="add.f32 %f0, %f0, %f0;"), parameters=".param .f32 scale")
    assert executed_lines(found) == [13, 14] and found.parameters == {}
    assert [(found.text.flow.instructions[at].span.line, to) for at, to in found.skipped.items()] == [(9, 5)]
    found = sliced(body.format(work="bar.sync 1;"), parameters=".param .f32 scale")
    assert executed_lines(found) == [7, 8, 9, 10, 11, 13, 14] and not found.skipped


@pytest.mark.parametrize(
    ("work", "arithmetic"),
    [
        ("add.f32 %f0, %f0, %f0;", True),
        ("ld.global.f32 %f0, [%rd0];", False),
        ("st.global.f32 [%rd0], %f0;", False),
        ("shfl.sync.idx.b32 %f0, %f0, 0, 31, -1;", False),
        ("@%p0 bra JOIN;", False),
        ("LOOP:\nadd.f32 %f0, %f0, %f0;\n@%p0 bra LOOP;", False),
    ],
)
def test_what_a_branch_that_is_skipped_passes_over(work: str, arithmetic: bool) -> None:
    body = f"""ld.param.u64 %rd0, [at];
ld.global.f32 %f0, [%rd0];
setp.lt.f32 %p0, %f0, 0f00000000;
@%p0 bra JOIN;
mul.f32 %f0, %f0, %f0;
{work}
JOIN:
bar.sync 0;
ret;"""
    text = text_of(module(body, parameters=".param .u64 at").kernels[0])
    (branch, *_) = [at for at, item in enumerate(text.flow.instructions) if item.row == "bra"]
    assert passes_over_arithmetic(text, branch) == arithmetic


def test_a_branch_that_chooses_a_value_of_the_slice_is_kept() -> None:
    found = sliced(
        """ld.param.u32 %r0, [count];
mov.u32 %r1, 1;
setp.lt.u32 %p0, %r0, 9;
@%p0 bra JOIN;
mov.u32 %r1, 2;
JOIN:
bar.sync %r1, 32;
ret;""",
        parameters=".param .u32 count",
    )
    assert executed_lines(found) == [7, 8, 9, 10, 11, 13, 14]


def test_an_endless_loop_is_not_skipped() -> None:
    found = sliced("setp.eq.u32 %p0, 0, 0;\nLOOP:\n@%p0 bra LOOP;\nbra LOOP;")
    assert executed_lines(found) == [7, 9, 10] and not found.skipped


def test_carries_are_followed() -> None:
    found = sliced(
        """ld.param.u32 %r0, [low];
add.cc.u32 %r1, %r0, %r0;
addc.u32 %r2, 0, 0;
setp.eq.u32 %p0, %r2, 0;
@%p0 bra END;
bar.sync 0;
END:
ret;""",
        parameters=".param .u32 low",
    )
    assert executed_lines(found) == [7, 8, 9, 10, 11, 12, 14]


def test_the_accumulators_scale_and_the_hint_of_a_cache_do_not_decide() -> None:
    found = sliced(
        """ld.param.u64 %rd0, [policy];
ld.param.u64 %rd1, [out];
ld.param.u32 %r0, [value];
st.global.L2::cache_hint.u32 [%rd1], %r0, %rd0;
ret;""",
        parameters=".param .u64 policy, .param .u64 out, .param .u32 value",
    )
    assert executed_lines(found) == [8, 10, 11]
