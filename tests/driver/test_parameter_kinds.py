"""What the parameters of a kernel are, by their uses."""

from __future__ import annotations

from tilewright.driver.parameter_kinds import Member, members
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


def test_a_parameter_that_is_not_used_is_there() -> None:
    assert _members(".param .u32 n, .param .f32 x", "") == (Member(0, 0, 4, "integer"), Member(1, 0, 4, "float"))


def test_shared_addresses_are_not_pointers() -> None:
    found = _members(".param .u64 a", "ld.param.u64 %rd1, [a]; ld.shared.b32 %r1, [%rd1];")
    assert [member.kind for member in found] == ["integer"]
