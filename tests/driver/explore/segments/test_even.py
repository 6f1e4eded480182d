"""What all threads of a CTA hold alike."""

from __future__ import annotations

import pytest
from tests.coverage_attacks.tiles_of_groups import kernel

from tilewright.driver.explore.segments.even import roots_written, uneven
from tilewright.frontends.ptx.reader import read
from tilewright.machine.protocol.slicing.slice import Text, text_of


def _text(**parts: str) -> Text:
    return text_of(read(kernel(**parts)).kernels[0])


def test_what_is_read_at_one_address_and_counted_is_the_same() -> None:
    assert uneven(_text()).isdisjoint({"%r_k", "%r_m", "%r_tile", "%r_end", "%r_begin", "%r_g", "%r_i", "%r_base"})


@pytest.mark.parametrize(
    "made",
    [
        "mov.u32 %r_c0, %tid.x; ",
        "mov.u32 %r_c0, %laneid; ",
        "and.b32 %r_c1, %r_tid, 1; add.u32 %r_c0, %r_c1, %r_c2; ",
        "ld.shared.u32 %r_c0, [%r_base]; ",
        "ld.global.u32 %r_c0, [%rd_out]; ",
        "ld.volatile.global.u32 %r_c0, [%rd_more]; ",
        "activemask.b32 %r_c0; ",
        "setp.eq.u32 %p_c, %r_tid, 0; @%p_c mov.u32 %r_c0, 1; ",
        "setp.eq.u32 %p_c, %r_tid, 0; @%p_c bra KEEP; mov.u32 %r_c0, 1; KEEP: mov.u32 %r_c1, 0; ",
        "ld.global.u32 %r_c1, [%rd_out]; selp.u32 %r_c0, 1, 2, %p_past; add.u32 %r_c0, %r_c0, %r_c1; ",
    ],
)
def test_what_threads_may_hold_otherwise_is_uneven(made: str) -> None:
    assert "%r_c0" in uneven(_text(TILE=f"bar.sync 0; {made}"))


def test_where_the_kernel_writes() -> None:
    assert roots_written(_text()) == {"out+0"}
