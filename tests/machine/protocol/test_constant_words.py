"""Which words of constant memory are open, and which constants with a value steer."""

from __future__ import annotations

import numpy as np

from tilewright.frontends.ptx.ast import Instruction, Module
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.memory import GlobalMemory
from tilewright.machine.protocol.constant_words import LoadAddress, constants_kept, load_address, reads_open_constants
from tilewright.machine.protocol.slicing.slice import protocol_slice

_TEXT = """.version 8.6
.target sm_90a
.address_size 64
.const .align 4 .u32 steers = 3;
.const .align 4 .u32 stored = 4;
.const .align 4 .b8 open[4];
.visible .entry k(.param .u64 out) .reqntid 32
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<3>;
    ld.const.u32 %r1, [steers];
    ld.const.u32 %r2, [stored];
    ld.const.u32 %r3, [%rd1+8];
    ld.param.u64 %rd2, [out];
    st.global.u32 [%rd2], %r2;
    setp.eq.u32 %p1, %r1, 3;
    @%p1 bar.sync 0;
    ret;
}
"""


def _module() -> Module:
    return read(_TEXT, "k.ptx")


def test_a_constant_that_decides_nothing_of_the_protocol_is_not_named() -> None:
    module = _module()
    assert constants_kept(module, protocol_slice(module.kernels[0])) == ("steers",)


def test_a_load_leads_to_a_variable_or_to_where_a_register_says() -> None:
    first, _, third, *_ = (item for item in _module().kernels[0].body if isinstance(item, Instruction))
    assert load_address(first, {}, {"steers": 640}) == LoadAddress(-1, 640)
    assert load_address(third, {"%rd1": 9}, {}) == LoadAddress(9, 8)
    assert load_address(third, {}, {}) is None


def test_a_word_that_overlaps_an_open_variable_is_open() -> None:
    memory = GlobalMemory()
    memory.open_constants.append((100, 104))
    for place, size, is_open in ((96, 4, False), (96, 8, True), (103, 1, True), (104, 4, False)):
        assert reads_open_constants(memory, np.array([place]), size) is is_open
