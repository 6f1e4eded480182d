"""In which iterations a launch chooses that an instruction is executed."""

from __future__ import annotations

import pytest
from tests.coverage_attacks.hanging import hanging

from tilewright.frontends.ptx.ast import Immediate
from tilewright.frontends.ptx.reader import read
from tilewright.machine.protocol.slicing.slice import protocol_slice
from tilewright.machine.symbolic.at_choice import at_choice
from tilewright.machine.symbolic.reached import reached_by_inputs

_LOOP = (
    "mov.u32 %r_i, 0; mov.u32 %r_s, 0; mov.u32 %r_v, 1; BEFORE L: setp.ge.u32 %p_e, %r_i, %r_n; @%p_e bra K; "
    "INSIDE setp.eq.u32 %p_t, %r_i, 7; @%p_t mbarrier.arrive.shared::cta.b64 _, [%r_bar+8]; "
    "D: add.u32 %r_i, %r_i, 1; bra L; K: mov.u32 %r_y, 0;"
)


def _is_at_choice(inside: str, before: str = "") -> bool:
    """Whether the comparison with 7 is."""
    text = hanging(_LOOP.replace("INSIDE", inside).replace("BEFORE", before), ("n", "m"))
    sliced = protocol_slice(read(text, "k.ptx").kernels[0])
    flow = sliced.text.flow
    (place,) = (
        at for at, each in enumerate(flow.instructions) if each.row == "setp" and each.operands[-1] == Immediate(7)
    )
    loop = next(each for each in flow.loops if flow.block_of[place] in each.blocks)
    chosen = reached_by_inputs(sliced, True, grid=True, data=True)
    return at_choice(sliced, loop, [place], chosen) == [0]


_CHOSEN = {
    "by a number": ("setp.ne.u32 %p_a, %r_i, %r_m; @%p_a bra D; ", ""),
    "by what such an iteration leaves": (
        "setp.ne.u32 %p_a, %r_i, %r_m; @%p_a bra C; mov.u32 %r_s, 1; C: setp.ne.u32 %p_c, %r_s, 1; @%p_c bra D; ", ""
    ),
    "by what is computed of that": (
        "setp.ne.u32 %p_a, %r_i, %r_m; @%p_a bra C; mov.u32 %r_s, 1; C: add.u32 %r_x, %r_s, 4; "
        "setp.ne.u32 %p_c, %r_x, 5; @%p_c bra D; ",
        "",
    ),
    "by what such an iteration stores": (
        "setp.ne.u32 %p_a, %r_i, %r_m; @%p_a bra C; st.shared.u32 [%r_buf], %r_v; C: ld.shared.u32 %r_x, [%r_buf]; "
        "setp.ne.u32 %p_c, %r_x, 1; @%p_c bra D; ",
        "",
    ),
    "by how often a loop in it iterates": (
        "mov.u32 %r_x, 0; A: setp.ge.u32 %p_a, %r_x, %r_m; @%p_a bra C; add.u32 %r_x, %r_x, 1; bra A; "
        "C: setp.ne.u32 %p_c, %r_x, 3; @%p_c bra D; ",
        "",
    ),
}  # fmt: skip
_NOT_CHOSEN = {
    "in all": ("", ""),
    "by one warp": ("setp.ne.u32 %p_c, %r_tid, 0; @%p_c bra D; ", ""),
    "by what is the same in all": (
        "setp.ne.u32 %p_c, %r_s, 1; @%p_c bra D; ",
        "setp.eq.u32 %p_a, %r_m, 9; @%p_a bra B; mov.u32 %r_s, 1; B: ",
    ),
    "by what one instruction computes": ("add.u32 %r_x, %r_tid, 3; setp.ne.u32 %p_c, %r_x, 5; @%p_c bra D; ", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", _CHOSEN)
def test_iterations_that_a_launch_chooses(name: str) -> None:
    assert _is_at_choice(*_CHOSEN[name])


@pytest.mark.parametrize("name", _NOT_CHOSEN)
def test_how_often_a_loop_iterates_does_not_choose_in_which_iterations(name: str) -> None:
    assert not _is_at_choice(*_NOT_CHOSEN[name])
