"""Bugs that show in some sequences of groups, tiles and slices alone, each with a twin that does not have it.

A proof by stretches speaks of sequences of any length: what one tile leaves to the next, or to one much later, must be
seen all the same. No bug may be proven; a twin may stay unknown, and those that are proven are named.
"""

from __future__ import annotations

import pytest

from tests.coverage_attacks.kernel_parts import is_proven_by_made_kernels
from tests.coverage_attacks.tiles_of_groups import PARTS, kernel
from tilewright.driver.check.check import check_text

_ODD = "xor.b32 %r_c0, %r_c0, 1; "
_OTHER = "setp.ne.u32 %p_w, %r_warp, 0; "
_SECOND = "add.u32 %r_c1, %r_c1, 1; "
_TWO_EMPTY = "setp.ge.u32 %p_two, %r_c1, 2; "
_IN_USE = "st.shared.u32 [%r_their+4096], %r_tid; "
_OWN_COPY = "cp.async.ca.shared.global [%r_own], [%rd_data], 16; cp.async.commit_group; "
_USED = "ld.shared.v4.b32 {%r_v0, %r_v1, %r_v2, %r_v3}, [%r_their]; "
_LATE_COPY = "cp.async.ca.shared.global [%r_own+4096], [%rd_data], 16; cp.async.commit_group; "

PAIRS: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "a tile without slices follows another tile": ({"TILE": ""}, {}),
    "a barrier that only every other tile has": (
        {"TILE": "setp.eq.u32 %p_odd, %r_c0, 1; @%p_odd bra KEEP; bar.sync 0; KEEP: ", "AGAIN": _ODD},
        {"TILE": "setp.eq.u32 %p_odd, %r_c0, 1; @%p_odd bra KEEP; bar.sync 0; bra.uni MET; KEEP: bar.sync 0; MET: ",
         "AGAIN": _ODD},
    ),
    "two groups in a row are empty": (
        {"EMPTY": _SECOND, "TILE": f"{_TWO_EMPTY}@%p_two bra KEEP; bar.sync 0; KEEP: mov.u32 %r_c1, 0; "},
        {"EMPTY": _SECOND, "TILE": f"bar.sync 0; {_TWO_EMPTY}@%p_two bra KEEP; mov.u32 %r_c2, 1; KEEP: "
         "mov.u32 %r_c1, 0; "},
    ),
    "only the fifth tile": (
        {"AGAIN": _SECOND, "TILE": "setp.eq.u32 %p_five, %r_c1, 5; @%p_five bra KEEP; bar.sync 0; KEEP: "},
        {"AGAIN": _SECOND},
    ),
    "a copy that odd tiles do not wait for": (
        {"AGAIN": f"{_LATE_COPY}setp.eq.u32 %p_odd, %r_c0, 1; @%p_odd bra KEEP; cp.async.wait_group 0; KEEP: {_ODD}",
         "STORE": PARTS["STORE"].replace("cp.async.wait_group 0; ", "")},
        {"AGAIN": f"bar.sync 0; {_LATE_COPY}cp.async.wait_group 0; {_ODD}"},
    ),
    "a stage that is not begun anew": (
        {"COPY": "add.u32 %r_at, %r_own, %r_c0; cp.async.ca.shared.global [%r_at], [%rd_data], 16; "
         "cp.async.commit_group; add.u32 %r_c0, %r_c0, 1024; ", "USE": "bar.sync 0; "},
        {"COPY": "add.u32 %r_at, %r_own, %r_c0; cp.async.ca.shared.global [%r_at], [%rd_data], 16; "
         "cp.async.commit_group; add.u32 %r_c0, %r_c0, 1024; and.b32 %r_c0, %r_c0, 1024; ", "USE": "bar.sync 0; ",
         "TILE": "bar.sync 0; mov.u32 %r_c0, 0; "},
    ),
    "warps read their bounds apart, and one is off by one": (
        {"SLICES": f"{_OTHER}mov.u32 %r_b, %r_k; @!%p_w bra SAME; setp.eq.u32 %p_c, %r_c1, 3; @!%p_c bra SAME; "
         "add.u32 %r_b, %r_k, 1; SAME: ", "AGAIN": _SECOND},
        {"SLICES": f"{_OTHER}mov.u32 %r_b, %r_k; @!%p_w bra SAME; mov.u32 %r_b, %r_k; SAME: ", "AGAIN": _SECOND},
    ),
    "warps read different words": (
        {"SLICES": "mul.wide.u32 %rd_w, %r_warp, 4; add.u64 %rd_w, %rd_w, %rd_sizes; ld.global.u32 %r_b, [%rd_w]; "},
        {"SLICES": "ld.global.u32 %r_b, [%rd_more]; "},
    ),
    "a bound is read while another warp writes it": (
        {"OUT": f"{_OTHER}@%p_w st.global.u32 [%rd_at+8], %r_tid; "},
        {"OUT": f"{_OTHER}@%p_w st.global.u32 [%rd_out+8], %r_tid; "},
    ),
    "a bound is written for the group after the next": (
        {"OUT": f"{_OTHER}@%p_w st.global.u32 [%rd_at+16], %r_tid; "},
        {"OUT": f"{_OTHER}@%p_w st.global.u32 [%rd_out+16], %r_tid; "},
    ),
    "a copy is left as a word says so": (
        {"TILE": f"bar.sync 0; {_LATE_COPY}ld.global.u32 %r_c2, [%rd_more]; setp.eq.u32 %p_end, %r_c2, 9; "
         "@%p_end bra END; cp.async.wait_group 0; ", "LAST": "bar.sync 0; st.shared.u32 [%r_own+4096], %r_tid; "},
        {"TILE": f"bar.sync 0; {_LATE_COPY}ld.global.u32 %r_c2, [%rd_more]; cp.async.wait_group 0; "
         "setp.eq.u32 %p_end, %r_c2, 9; @%p_end bra END; ",
         "LAST": "bar.sync 0; st.shared.u32 [%r_own+4096], %r_tid; "},
    ),
    "one warp passes by a barrier after its third tile": (
        {"AGAIN": _SECOND, "TILE": f"{_OTHER}setp.gt.u32 %p_c, %r_c1, 3; and.pred %p_w, %p_w, %p_c; @%p_w bra KEEP; "
         "bar.sync 0; KEEP: "},
        {"AGAIN": _SECOND},
    ),
    "a group stores while the tile before is read": (
        {"GROUP": _IN_USE},
        {"GROUP": f"bar.sync 0; {_IN_USE}bar.sync 0; "},
    ),
    "an empty group stores while the tile before is read": (
        {"EMPTY": _IN_USE},
        {"EMPTY": f"bar.sync 0; {_IN_USE}bar.sync 0; "},
    ),
    "a flag is set anew by each group": (
        {"FIRST": "mov.u32 %r_c0, 1; ", "GROUP": "mov.u32 %r_c0, 1; ", "AGAIN": "mov.u32 %r_c0, 0; ",
         "TILE": "setp.eq.u32 %p_odd, %r_c0, 1; @%p_odd bra KEEP; bar.sync 0; KEEP: "},
        {"FIRST": "mov.u32 %r_c0, 1; ", "AGAIN": "mov.u32 %r_c0, 0; ",
         "TILE": "setp.eq.u32 %p_odd, %r_c0, 1; @%p_odd bra KEEP; bar.sync 0; KEEP: "},
    ),
    "two buffers that tiles without slices do not exchange": (
        {"TILE": "", "STORE": "add.u32 %r_mine, %r_own, %r_c2; st.shared.u32 [%r_mine+4096], %r_tid; bar.sync 0; ",
         "LOAD": "add.u32 %r_mine, %r_their, %r_c2; ld.shared.u32 %r_v0, [%r_mine+4096]; ",
         "AGAIN": "setp.eq.u32 %p_c, %r_k, 0; @%p_c bra KEEP; xor.b32 %r_c2, %r_c2, 1024; KEEP: "},
        {"STORE": "add.u32 %r_mine, %r_own, %r_c2; st.shared.u32 [%r_mine+4096], %r_tid; bar.sync 0; ",
         "LOAD": "add.u32 %r_mine, %r_their, %r_c2; ld.shared.u32 %r_v0, [%r_mine+4096]; ",
         "AGAIN": "bar.sync 0; "},
    ),
    "a bound goes through shared memory": (
        {"AGAIN": "st.shared.u32 [%r_base+4000], %r_tile; ", "SLICES": "ld.shared.u32 %r_b, [%r_base+4000]; "},
        {"AGAIN": "st.shared.u32 [%r_base+4000], %r_tile; "},
    ),
    "a wait leaves the last of several copies under way": (
        {"ARRIVED": "cp.async.wait_group 1; bar.sync 0; ",
         "STORE": PARTS["STORE"].replace("cp.async.wait_group 0; ", "")},
        {"ARRIVED": "cp.async.wait_group 0; bar.sync 0; "},
    ),
    "the number of a lane in the way to a tile": (
        {"AGAIN": "setp.eq.u32 %p_c, %r_c1, 2; selp.u32 %r_c2, %r_warp, 0, %p_c; add.u32 %r_tile, %r_tile, %r_c2; "
         f"{_SECOND}"},
        {"AGAIN": "setp.eq.u32 %p_c, %r_c1, 2; selp.u32 %r_c2, %r_g, 0, %p_c; add.u32 %r_tile, %r_tile, %r_c2; "
         f"{_SECOND}"},
    ),
    "a number is made of one that later tiles change": (
        {"GROUP": "add.u32 %r_x1, %r_k, 1; ", "AGAIN": "mov.u32 %r_k, 0; ",
         "TILE": "add.u32 %r_c2, %r_k, 1; setp.ne.u32 %p_c, %r_x1, %r_c2; @%p_c bra KEEP; bar.sync 0; KEEP: "},
        {"GROUP": "add.u32 %r_x1, %r_k, 1; ",
         "TILE": "add.u32 %r_c2, %r_k, 1; setp.ne.u32 %p_c, %r_x1, %r_c2; @%p_c bra KEEP; bar.sync 0; KEEP: "},
    ),
    "one warp goes on to the next group after its third tile": (
        {"AGAIN": f"{_SECOND}{_OTHER}setp.gt.u32 %p_c, %r_c1, 3; and.pred %p_w, %p_w, %p_c; @%p_w bra DONE; "},
        {"AGAIN": f"{_SECOND}setp.gt.u32 %p_c, %r_c1, 3; @%p_c bra DONE; "},
    ),
    "one warp ends after its third tile": (
        {"AGAIN": f"{_SECOND}{_OTHER}setp.gt.u32 %p_c, %r_c1, 3; and.pred %p_w, %p_w, %p_c; @%p_w bra END; "},
        {"AGAIN": f"{_SECOND}setp.gt.u32 %p_c, %r_c1, 3; @%p_c bra END; "},
    ),
    "the last tile of a group shares its barrier with the next group": (
        {"TILE": "setp.eq.u32 %p_odd, %r_c0, %r_g; @%p_odd bra KEEP; bar.sync 0; KEEP: ", "AGAIN": "add.u32 %r_c0, "
         "%r_g, 1; "},
        {"AGAIN": "add.u32 %r_c0, %r_g, 1; "},
    ),
    "one warp does not wait for its copies": (
        {"ARRIVED": f"{_OTHER}@%p_w cp.async.wait_group 0; bar.sync 0; "},
        {"ARRIVED": "cp.async.wait_group 0; bar.sync 0; "},
    ),
    "odd tiles have no empty group behind a copy": (
        {"COPY": f"{_OWN_COPY}setp.eq.u32 %p_odd, %r_c0, 1; @%p_odd bra KEEP; cp.async.commit_group; KEEP: ",
         "ARRIVED": "cp.async.wait_group 1; bar.sync 0; ", "AGAIN": _ODD},
        {"COPY": f"{_OWN_COPY}cp.async.commit_group; ",
         "ARRIVED": "cp.async.wait_group 1; bar.sync 0; ", "AGAIN": _ODD},
    ),
    "lanes learn of different tiles from each other": (
        {"AGAIN": "shfl.sync.up.b32 %r_x1|%p_c, %r_tile, 1, 0, -1; selp.u32 %r_x2, 1, 2, %p_c; "
         "add.u32 %r_tile, %r_tile, %r_x2; "},
        {"AGAIN": "shfl.sync.idx.b32 %r_x1|%p_c, %r_tile, 0, 31, -1; "},
    ),
    "a late slice has no barrier": (
        {"USE": f"{_USED}setp.eq.u32 %p_c, %r_i, 777; @%p_c bra KEEP; bar.sync 0; KEEP: "},
        {"USE": f"{_USED}setp.eq.u32 %p_c, %r_i, 777; @%p_c bra KEEP; bar.sync 0; bra MET; KEEP: bar.sync 0; MET: "},
    ),
    "one tile stores behind the end of shared memory": (
        {"STORE": "and.b32 %r_x1, %r_tile, 0x7ff; setp.eq.u32 %p_c, %r_x1, 0x7ff; selp.u32 %r_x2, 4096, 0, %p_c; "
         "add.u32 %r_x2, %r_x2, %r_own; st.shared.u32 [%r_x2+4096], %r_tid; bar.sync 0; ", "LOAD": ""},
        {"STORE": "st.shared.u32 [%r_own+4096], %r_tid; bar.sync 0; ", "LOAD": ""},
    ),
}  # fmt: skip


UNKNOWN_TWINS = frozenset({
    "a copy is left as a word says so",
    "an empty group stores while the tile before is read",
    "a flag is set anew by each group",
    "a bound goes through shared memory",
    "a late slice has no barrier",
})  # fmt: skip
"""Twins that are not proven by stretches: steps of the protocol in a group without tiles, a flag that says what the
first tile does, and what is more than the launches that are made cover."""


def by_stretches(parts: dict[str, str]) -> bool:
    """Whether a kernel is proven by its stretches, without a look at the kernel as a whole."""
    return is_proven_by_made_kernels(kernel(**parts))


@pytest.mark.parametrize("name", PAIRS)
def test_a_bug_in_some_sequences_is_never_proven(name: str) -> None:
    assert not by_stretches(PAIRS[name][0])


@pytest.mark.parametrize("name", sorted(PAIRS.keys() - UNKNOWN_TWINS))
def test_its_twin_is_proven(name: str) -> None:
    assert by_stretches(PAIRS[name][1])


def test_a_proof_says_what_it_assumes_and_no_word_that_was_drawn() -> None:
    (report,) = check_text(kernel(), "tiles.ptx").kernels
    assert report.verdict == "proven"
    assert sum(each.endswith(" ends") for each in report.assumptions) == 2
    assert not any("memory that is read" in each or "parameter 5" in each for each in report.assumptions)
    assert any(each.startswith("the 4 pointers lead to distinct buffers") for each in report.assumptions)


@pytest.mark.full
@pytest.mark.parametrize("name", PAIRS)
def test_no_bug_is_proven_by_a_look_at_the_whole_either(name: str) -> None:
    (report,) = check_text(kernel(**PAIRS[name][0]), "attack.ptx").kernels
    assert report.verdict != "proven"
