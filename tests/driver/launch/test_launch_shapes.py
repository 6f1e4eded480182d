"""Blocks and clusters that a text suggests."""

from __future__ import annotations

import pytest

from tilewright.driver.launch.launch_shapes import GivenShape, LaunchShapes, launch_shapes
from tilewright.frontends.ptx.reader import read

_TEXT = """.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out){directives}
{{
    .reg .pred %p<9>;
    .reg .b16 %h<9>;
    .reg .b32 %r<20>;
    .reg .b64 %rd<9>;
    .shared .align 128 .b8 tile[1024];
    .shared .align 8 .b8 bars[32];
{code}
    ret;
}}
"""
_PEERS = (
    "mov.u32 %r5, %cluster_ctarank;\nadd.u32 %r6, %r5, 1;\nsetp.{compared};\nmapa.shared::cluster.u32 %r1, %r2, %r3;"
)
_MULTICAST = (
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
    " [%r1], [%rd1], 1024, [%r2], {mask};"
)


def shapes(code: str = "", directives: str = "", given: GivenShape | None = None) -> LaunchShapes:
    module = read(_TEXT.format(code=code, directives=directives), "k.ptx")
    return launch_shapes(module, module.kernels[0], given)


def clusters(code: str, directives: str = " .reqntid 32", given: GivenShape | None = None) -> list[tuple[int, ...]]:
    return [extents for extents in shapes(code, directives, given).clusters.likely]


def threads(code: str) -> list[int]:
    return [x for x, _, _ in shapes(code).blocks.likely]


def test_directives_fix_the_shape() -> None:
    found = shapes("mov.u32 %r1, %cluster_ctarank;\nadd.u32 %r2, %r1, 1;", " .reqntid 64, 2 .reqnctapercluster 2")
    assert found.fixed and not found.assumptions
    ((block, cluster),) = [(shape.block, shape.cluster) for shape in found.likely]
    assert (block, cluster) == ((64, 2, 1), (2, 1, 1))


def test_the_most_threads_are_taken_and_said() -> None:
    found = shapes("", " .maxntid 384")
    assert found.fixed and found.likely[0].block == (384, 1, 1)
    assert found.assumptions == ("a block of 384 threads, the most that .maxntid allows",)


def test_what_is_given_counts() -> None:
    given = GivenShape((96, 1, 1), (4, 1, 1), (8, 2, 1))
    found = shapes("mov.u32 %r1, %cluster_ctarank;\nadd.u32 %r2, %r1, 1;", " .maxntid 384", given)
    assert found.fixed and not found.assumptions
    assert [(each.block, each.cluster, each.grid) for each in found.likely] == [((96, 1, 1), (4, 1, 1), (8, 2, 1))]


_CLAIM = (
    "mov.u32 %r1, %cluster_ctaid.x;\nadd.u32 %r2, %r1, 1;\nclusterlaunchcontrol.try_cancel.async.shared::cta"
    ".mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [tile], [bars];\n"
)


@pytest.mark.parametrize(
    ("code", "apart"),
    [
        (_CLAIM, True),
        (_CLAIM + "barrier.cluster.arrive.aligned;", False),
        (_CLAIM + "mapa.shared::cluster.u32 %r1, %r2, 1;", False),
        (_CLAIM + _MULTICAST.format(mask="%h1"), False),
        ("mov.u32 %r1, %cluster_ctarank;\nadd.u32 %r2, %r1, 1;", False),
    ],
)
def test_what_asks_for_work_alone_stands_apart(code: str, apart: bool) -> None:
    found = shapes(code, " .reqntid 32")
    assert found.apart is apart and (2, 1, 1) in (each.cluster for each in (*found.likely, *found.others))
    assert not shapes(code, " .reqntid 32 .reqnctapercluster 2").apart


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("", [(1, 1, 1)]),
        ("mov.u32 %r1, %cluster_ctarank;", [(1, 1, 1)]),  # nobody uses it
        ("mov.u32 %r1, %cluster_ctarank;\nadd.u32 %r2, %r1, 1;", [(1, 1, 1), (2, 1, 1), (4, 1, 1)]),
        ("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [bars], 32;", [(2, 1, 1)]),
        ("mapa.shared::cluster.u32 %r1, %r2, 0;\nmov.u32 %r3, %cluster_ctarank;", [(1, 1, 1)]),
        ("mapa.shared::cluster.u32 %r1, %r2, 2;", [(4, 1, 1)]),
        # A lane for each CTA; a comparison with more than a cluster has, or of something else, says nothing.
        (_PEERS.format(compared="gt.u32 %p1, %r3, 1"), [(2, 1, 1)]),
        (_PEERS.format(compared="lt.s32 %p1, %r3, 3"), [(4, 1, 1)]),
        (_PEERS.format(compared="lt.s32 %p1, %r3, 32"), [(1, 1, 1), (2, 1, 1), (4, 1, 1)]),
        (_PEERS.format(compared="gt.u32 %p1, %r5, 1"), [(1, 1, 1), (2, 1, 1), (4, 1, 1)]),
        (_MULTICAST.format(mask="3"), [(2, 1, 1)]),
        ("mov.b16 %h1, 15;\n" + _MULTICAST.format(mask="%h1"), [(4, 1, 1)]),
        ("mov.u16 %h1, 1;\nshl.b16 %h2, %h1, 1;\n" + _MULTICAST.format(mask="%h2"), [(2, 1, 1)]),
        (_MULTICAST.format(mask="%h1"), [(1, 1, 1), (2, 1, 1), (4, 1, 1)]),
    ],
)
def test_clusters_come_from_the_text(code: str, expected: list[tuple[int, ...]]) -> None:
    assert clusters(code) == expected


def test_a_cluster_divides_the_grid_and_keeps_the_rank_allowed() -> None:
    code = "mov.u32 %r1, %cluster_ctarank;\nadd.u32 %r2, %r1, 1;"
    assert clusters(code, given=GivenShape(grid=(6, 1, 1))) == [(1, 1, 1), (2, 1, 1)]
    assert clusters(code, " .reqntid 32 .maxclusterrank 2") == [(1, 1, 1), (2, 1, 1)]


def test_a_text_that_asks_how_large_the_cluster_is_works_with_any() -> None:
    code = "mov.u32 %r1, %cluster_nctarank;\nadd.u32 %r2, %r1, 1;"
    assert shapes(code, " .reqntid 32").generic
    assert not shapes(code.replace("nctarank", "ctarank"), " .reqntid 32").generic


def test_a_block_that_the_text_does_not_settle_is_proven_for_all_that_are_likely() -> None:
    assert shapes(_THREAD + "setp.lt.u32 %p1, %r1, 128;").blocks.generic
    assert not shapes("bar.sync 1, 192;").blocks.generic


_THREAD = "mov.u32 %r1, %tid.x;\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("", [32, 128, 256]),
        (_THREAD + "setp.eq.u32 %p1, %r1, 0;", [32, 128, 256]),
        ("bar.sync 1, 192;", [192]),
        ("setmaxnreg.dec.sync.aligned.u32 40;", [128]),
        (_THREAD + "shr.u32 %r2, %r1, 5;\nsetp.ne.s32 %p1, %r2, 5;", [192]),
        (_THREAD + "shr.u32 %r2, %r1, 7;\nsetmaxnreg.dec.sync.aligned.u32 40;\nsetp.eq.s32 %p1, %r2, 2;", [384]),
        (_THREAD + "setp.lt.u32 %p1, %r1, 128;", [128, 160]),
        (_THREAD + "setmaxnreg.dec.sync.aligned.u32 40;\nsetp.gt.u32 %p1, %r1, 127;", [128, 256]),
        (_THREAD + "setmaxnreg.dec.sync.aligned.u32 40;\nmbarrier.init.shared::cta.b64 [bars], 256;", [128, 256, 384]),
        (
            _THREAD + "shr.u32 %r2, %r1, 5;\nshfl.sync.idx.b32 %r3|%p2, %r2, 0, 31, -1;\nsetp.eq.s32 %p1, %r3, 3;",
            [128],
        ),
        (_THREAD + "add.s32 %r2, %r1, -128;\nsetp.eq.s32 %p1, %r2, 31;", [160]),
    ],
)
def test_blocks_come_from_the_text(code: str, expected: list[int]) -> None:
    assert threads(code) == expected


def test_blocks_that_meet_all_counts_are_proposed() -> None:
    inits = "".join(f"mbarrier.init.shared::cta.b64 [bars+{8 * place}], 128;\n" for place in range(4))
    assert [shape.block[0] for shape in shapes(inits).proposed] == [384, 512]
    assert [shape.block[0] for shape in shapes(_THREAD + "bar.sync 1, 192;").proposed] == []
    assert [shape.block[0] for shape in shapes("mbarrier.init.shared::cta.b64 [bars], 3;").proposed] == [384, 96]


def test_a_text_that_asks_for_rows_of_threads_is_tried_with_such() -> None:
    found = shapes("mov.u32 %r1, %tid.y;\nadd.u32 %r2, %r1, 1;")
    assert [shape.block for shape in found.likely] == [(16, 16, 1), (32, 8, 1), (32, 32, 1)]


_ROWS = "mov.u32 %r1, %tid.y;\nadd.u32 %r2, %r1, 1;\n"


def test_rows_of_threads_are_whole_warps_where_warps_do_something_together() -> None:
    found = shapes(_ROWS + "bar.warp.sync -1;")
    assert [shape.block for shape in found.likely] == [(32, 8, 1), (32, 32, 1)]


def test_rows_of_threads_that_meet_all_counts_are_proposed() -> None:
    found = shapes(_ROWS + "mbarrier.init.shared::cta.b64 [bars], 128;")
    assert [shape.block for shape in found.proposed] == [(32, 4, 1), (128, 1, 1)]
