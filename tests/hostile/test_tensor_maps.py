"""Tensor maps in global memory that the kernel writes: in pieces, by every kind of write, and for threads elsewhere."""

from __future__ import annotations

import pytest

from tests.hostile.kernel import CLUSTER_MEET, MEET, Pair, wait

_INIT = "@%p_t0 mbarrier.init.shared::cta.b64 [bars], 1;\n" + MEET
_WIDE = "mul.wide.u32 %rd_at, %r_lane, {0};\nadd.u64 %rd_at, %rd_at, %rd_MAP;\nsetp.lt.u32 %p_few, %r_tid, {1};\n"
_BULK = "@%p_t0 cp.async.bulk.{} [%rd_MAP], [slots], 128;\n@%p_t0 cp.async.bulk.commit_group;\n"
WRITES = {
    "8 bytes by one thread": "@%p_t0 st.global.b64 [%rd_MAP], %rd_SOURCE;\n",
    "two pieces by one thread": (
        "@%p_t0 st.global.v4.b32 [%rd_MAP], {%r_tid, %r_tid, %r_tid, %r_tid};\n"
        "@%p_t0 st.global.v4.b32 [%rd_MAP+16], {%r_tid, %r_tid, %r_tid, %r_tid};\n"
    ),
    "the second half": "@%p_t0 st.global.b64 [%rd_MAP+96], %rd_SOURCE;\n",
    "a generic store": "@%p_t0 st.b64 [%rd_MAP+8], %rd_SOURCE;\n",
    "words of a warp": _WIDE.format(4, 32) + "@%p_few st.global.b32 [%rd_at], %r_lane;\n",
    "vectors of eight lanes": _WIDE.format(16, 8) + "@%p_few st.global.v2.b64 [%rd_at], {%rd_SOURCE, %rd_SOURCE};\n",
    "an exchange": "@%p_t0 atom.global.exch.b64 %rd_old, [%rd_MAP], %rd_SOURCE;\n",
    "a reduction": "@%p_t0 red.global.add.u64 [%rd_MAP], 128;\n",
    "a bulk store": _BULK.format("global.shared::cta.bulk_group") + "@%p_t0 cp.async.bulk.wait_group 0;\n",
}
_FILLED = """
shl.b32 %r_word, %r_lane, 2;
mov.u32 %r_map, slots;
add.u32 %r_word, %r_word, %r_map;
@%p_w0 st.shared.b32 [%r_word], 0;
bar.warp.sync -1;
@!%p_t0 bra FILLED;
tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r_map], %rd_SOURCE;
tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r_map], 1;
tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r_map], 0, 32;
tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r_map], 1, 8;
tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r_map], 0, 64;
tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r_map], 1, 64;
tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r_map], 0, 256;
tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r_map], 0, 1;
tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r_map], 1, 1;
tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r_map], 7;
FILLED:
bar.warp.sync -1;
"""
_MET = "bar.warp.sync -1;\n"


def _release(scope: str, who: str) -> str:
    form = f"global.shared::cta.tensormap::generic.release.{scope}.sync.aligned"
    return f"@{who} tensormap.cp_fenceproxy.{form} [%rd_MAP], [%r_map], 128;\n"


def _acquire(scope: str, who: str) -> str:
    return f"@{who} fence.proxy.tensormap::generic.acquire.{scope} [%rd_MAP], 128;\n"


def _load(who: str) -> str:
    return (
        f"@{who} mbarrier.arrive.expect_tx.shared::cta.b64 _, [bars], 1024;\n"
        f"@{who} cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[slots+1024], [%rd_MAP, {0, 0}], [bars];\n"
    )


_NAMES = ("SOURCE", "RESULT", "MAP")
_NEAR = _INIT + _FILLED + "@@" + wait()
_OTHER, _NEXT_LANE = "%p_t32", "setp.eq.u32 %p_t33, %r_tid, 33;\n"
_FAR_BEGIN = _INIT + _FILLED
_FAR_END = _load("%p_c1t0") + "@!%p_c1 bra OUT;\n" + wait() + "OUT:\n" + CLUSTER_MEET


def _far(release: str, acquire: str) -> str:
    return _release(release, "%p_c0w0") + CLUSTER_MEET + _acquire(acquire, "%p_c1t0")


def _near(*parts: str) -> str:
    return "".join(parts)


_PUBLISHED = _near(_release("cta", "%p_w0"), MEET, _acquire("cta", _OTHER), _load(_OTHER))
PAIRS = (
    Pair("not acquired", _NEAR, _near(_release("gpu", "%p_w0"), MEET, _load(_OTHER)), _PUBLISHED, parameters=_NAMES),
    Pair("acquired too early", _NEAR,
         _near(_release("gpu", "%p_w0"), _acquire("gpu", _OTHER), MEET, _load(_OTHER)), _PUBLISHED, parameters=_NAMES),
    Pair("acquired by another lane", _NEAR,
         _near(_release("gpu", "%p_w0"), MEET, _NEXT_LANE, _acquire("gpu", "%p_t33"), _load(_OTHER)),
         _near(_release("gpu", "%p_w0"), MEET, _NEXT_LANE, _acquire("gpu", "%p_t33"), "bar.warp.sync -1;\n",
               _load(_OTHER)), parameters=_NAMES),
    Pair("acquired by another lane, and a warp's synchronization before", _NEAR,
         _near(_release("gpu", "%p_w0"), MEET, _NEXT_LANE, "bar.warp.sync -1;\n", _acquire("gpu", "%p_t33"),
               _load(_OTHER)), _PUBLISHED, parameters=_NAMES),
    Pair("used before it is written", _NEAR,
         _near(_acquire("gpu", _OTHER), _load(_OTHER), _release("gpu", "%p_w0")), _PUBLISHED, parameters=_NAMES),
    *(Pair(f"released for {one}, acquired for {other}, by another CTA", _FAR_BEGIN + "@@" + _FAR_END, _far(one, other),
           _far("cluster", "gpu"), cluster=2, parameters=_NAMES)
      for one, other in (("cta", "gpu"), ("gpu", "cta"), ("cta", "cta"))),
)  # fmt: skip
_BUFFERS = [{"kind": "ptr", "bytes": 65536, "buffer": name} for name in ("a", "b")]
_LAUNCH = {"grid": [2], "block": [64], "cluster": [2], "params": [*_BUFFERS, {"kind": "ptr", "bytes": 128}]}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_map_that_is_written_and_not_published_is_not_proven(write: str) -> None:
    pair = Pair("written", _INIT + "@@" + MEET + _load("%p_t0") + wait(), write, "", parameters=_NAMES)
    assert pair.verdicts() == ("unknown", "proven")


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_what_publishes_a_map_is_in_order_and_reaches_who_uses_it(pair: Pair) -> None:
    assert pair.verdicts() == ("unknown", "proven")


def test_a_warp_that_copies_a_map_has_met_the_lane_that_changed_it() -> None:
    body = _INIT + _FILLED[: -len(_MET)] + "@@" + _PUBLISHED + wait()
    pair = Pair("changed by a lane and copied by the warp", body, "", _MET, parameters=_NAMES)
    found = [{each.code for each in pair.report(fix).findings} for fix in (pair.buggy, pair.fixed)]
    assert found[0] - found[1] == {"NB106"}


@pytest.mark.parametrize("pair", [each for each in PAIRS if "by another CTA" in each.name], ids=lambda pair: pair.name)
def test_with_a_launch_a_scope_that_is_too_narrow_is_refuted(pair: Pair) -> None:
    given = Pair(pair.name, pair.body, pair.buggy, pair.fixed, 64, 2, parameters=_NAMES, launch=_LAUNCH)
    assert [error.code for error in given.report(given.buggy).errors] == ["TM104"]
    assert given.report(given.fixed).verdict == "proven"
