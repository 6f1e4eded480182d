"""What the parameters of a kernel are, by their uses."""

from __future__ import annotations

import pytest

from tilewright.driver.launch.parameter_kinds import Member, members
from tilewright.frontends.ptx.reader import read


def _members(parameters: str, body: str) -> tuple[Member, ...]:
    text = f""".version 8.6
.target sm_90a
.address_size 64
.visible .entry k(
{parameters}
)
{{
    .reg .b64 %rd<20>;
    .reg .b32 %r<20>;
    .reg .f32 %f<4>;
    .reg .pred %p<4>;
{body}
    ret;
}}
"""
    (kernel,) = read(text, "k.ptx").kernels
    return members(kernel)


def test_a_converted_parameter_is_a_pointer_and_what_is_added_to_it_is_not() -> None:
    found = _members(
        ".param .u64 a, .param .u64 b",
        """ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; cvta.to.global.u64 %rd3, %rd1;
        add.s64 %rd4, %rd3, %rd2; ld.global.b32 %r1, [%rd4];""",
    )
    assert [member.kind for member in found] == ["pointer", "integer"]


def test_what_inline_assembly_takes_unconverted_is_a_pointer_beside_one_that_is_converted() -> None:
    found = _members(
        ".param .u64 a, .param .u64 b, .param .u64 c",
        """ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd6, [c]; cvta.to.global.u64 %rd3, %rd1;
        add.s64 %rd4, %rd2, 64; add.s64 %rd3, %rd3, %rd6; st.global.b32 [%rd3], %r1;
        cp.async.cg.shared.global [%r1], [%rd4], 16;""",
    )
    assert [member.kind for member in found] == ["pointer", "pointer", "integer"]


def test_without_conversion_the_base_of_an_address_is_a_pointer_and_a_factor_is_not() -> None:
    found = _members(
        ".param .u64 a, .param .u64 b",
        """ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mul.lo.s64 %rd3, %rd2, 4;
        add.s64 %rd4, %rd1, %rd3; ld.global.b32 %r1, [%rd4+16];""",
    )
    assert [member.kind for member in found] == ["pointer", "integer"]


def test_a_parameter_whose_address_a_copy_takes_is_a_tensor_map() -> None:
    found = _members(
        ".param .align 64 .b8 m[128], .param .f32 f",
        """mov.b64 %rd1, m; cvta.param.u64 %rd2, %rd1; ld.param.f32 %f1, [f];
        cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd2, {%r2}], [%r3];""",
    )
    assert found == (Member(0, 0, 128, "tensor map"), Member(1, 0, 4, "float"))


def test_a_structure_is_cut_into_the_members_that_are_loaded() -> None:
    found = _members(
        ".param .align 64 .b8 s[256]",
        """mov.b64 %rd1, s; add.s64 %rd2, %rd1, 64; cvta.param.u64 %rd3, %rd2;
        ld.param.v2.u32 {%r1, %r2}, [s+8]; ld.param.u64 %rd5, [s+16]; cvta.to.global.u64 %rd6, %rd5;
        st.global.b32 [%rd6], %r1;
        cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd3, {%r2}], [%r3];""",
    )
    assert found == (
        Member(0, 8, 4, "integer"),
        Member(0, 12, 4, "integer"),
        Member(0, 16, 8, "pointer"),
        Member(0, 64, 128, "tensor map"),
    )


@pytest.mark.parametrize("narrow_first", [True, False])
def test_a_member_that_is_loaded_at_two_widths_has_the_greater(narrow_first: bool) -> None:
    loads = ["ld.param.u32 %r1, [%rd1+8];", "ld.param.u64 %rd2, [%rd1+8];"]
    found = _members(".param .align 8 .b8 s[32]", "mov.b64 %rd1, s;" + "".join(loads if narrow_first else loads[::-1]))
    assert found == (Member(0, 8, 8, "integer"),)


def test_a_parameter_that_is_not_used_is_there() -> None:
    assert _members(".param .u32 n, .param .f32 x", "") == (Member(0, 0, 4, "integer"), Member(1, 0, 4, "float"))


def test_shared_addresses_are_not_pointers() -> None:
    found = _members(".param .u64 a", "ld.param.u64 %rd1, [a]; ld.shared.b32 %r1, [%rd1];")
    assert [member.kind for member in found] == ["integer"]


_COPY = "cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [{at}, {{%r2}}], [%r3];"


def test_a_pointer_to_a_tensor_map_is_a_pointer() -> None:
    found = _members(".param .u64 m, .param .u32 n", "ld.param.u64 %rd1, [m];" + _COPY.format(at="%rd1"))
    assert [member.kind for member in found] == ["pointer", "integer"]


def test_an_array_of_tensor_maps_is_reached_by_its_pointer_beside_pointers_that_are_converted() -> None:
    found = _members(
        ".param .u64 out, .param .u64 m, .param .u64 skip, .param .u32 n",
        """ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd2, %rd1; st.global.b32 [%rd2], %r1;
        ld.param.u64 %rd3, [m]; ld.param.u32 %r4, [n]; mul.wide.u32 %rd4, %r4, 128; add.s64 %rd5, %rd3, %rd4;
        mov.b64 %rd6, %rd5; ld.param.u64 %rd9, [skip]; setp.eq.u64 %p1, %rd9, 0;"""
        + _COPY.format(at="%rd6+128"),
    )
    assert [member.kind for member in found] == ["pointer", "pointer", "integer", "integer"]


@pytest.mark.parametrize(
    "use",
    [
        "prefetch.tensormap [%rd2];",
        "fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;",
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd2], [%r1], 128;",
    ],
)
def test_what_only_prefetches_or_fences_a_tensor_map_shows_its_pointer_too(use: str) -> None:
    found = _members(
        ".param .u64 out, .param .u64 m",
        "ld.param.u64 %rd7, [out]; cvta.to.global.u64 %rd8, %rd7; st.global.b32 [%rd8], %r1;"
        "ld.param.u64 %rd1, [m]; add.s64 %rd2, %rd1, 64;" + use,
    )
    assert [member.kind for member in found] == ["pointer", "pointer"]


def test_a_pointer_to_tensor_maps_in_a_structure_is_a_member() -> None:
    found = _members(".param .align 8 .b8 s[24]", "ld.param.v2.u64 {%rd1, %rd2}, [s+8];" + _COPY.format(at="%rd2"))
    assert found == (Member(0, 8, 8, "integer"), Member(0, 16, 8, "pointer"))
