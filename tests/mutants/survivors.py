"""Mutants that are not refuted, because they are not broken: what each removed is not needed, read in the text.

By kernel (below `tests/data/ptx/corpus`), mutation and line.
"""

from __future__ import annotations

_SECOND_OF_ALLOCATION = (
    "the barrier before already shows the address to everyone; this one keeps the word from being overwritten, "
    "and whatever writes there comes after another barrier"
)
_INIT_OF_ONE_WARP = (
    "the initialising lane and the arriving lane are of one warp, which is ordered by itself; "
    "the other warps pass the next barrier before they wait"
)
_WGMMA_IS_COLLECTIVE = (
    "a wgmma is one operation of four warps: that it is done, as the issuing warp knows from wgmma.wait_group, "
    "means that all four have passed the wait before it and read nothing more"
)
_NOTHING_IN_THE_GROUP = "the thread has started no bulk copy: the group is empty"
_NO_SUCH_WARP = "only warps whose guard is false come here: another place frees the allocation"
_NOTHING_REMOTE = "no CTA of the cluster touches another's memory: the last cluster barrier orders nothing"
_NEXT_BARRIER = "another barrier stands between the same accesses"
_OTHER_OBJECT = (
    "the wait is for the tensor core to release a buffer, the expectation belongs to another mbarrier, "
    "whose phase before was waited for already; the copies still come after the wait"
)
_JOINS_THE_NEXT_GROUP = "its copies join the next group, which is waited for with it"
_OTHER_STAGE = (
    "the last of this launch's five steps leaves empty copies into the second stage, which the epilogue does not use"
)
_LAST_TILE = "after the last tile nobody waits for this mbarrier again"
_OWN_BYTES = "each thread overwrites only what it has read itself"
_FIRST_PHASE = "the mbarrier is in its first phase: a wait for the phase before passes at once"
_SAME_THREADS = "no other threads use the barrier of either number meanwhile"
_NEXT_FENCE = "the same threads pass another such fence before they meet anybody"
_NO_COPY = "threads of this CTA and tcgen05.commit signal what was initialised behind the fence before, and no copy"

SURVIVORS: dict[tuple[str, str, int], str] = {
    ("triton/sm_100a/matmul_mxfp4", "wait behind the next expectation", 458): _OTHER_OBJECT,
    ("triton/sm_100a/matmul_mxfp4", "barrier dropped", 88): _SECOND_OF_ALLOCATION,
    ("triton/sm_100a/matmul_mxfp4", "barrier dropped", 166): _INIT_OF_ONE_WARP,
    ("triton/sm_100a/matmul_mxfp4", "barriers of a block dropped", 166): _INIT_OF_ONE_WARP,
    ("triton/sm_100a/matmul_mxfp8_mxfp4", "wait behind the next expectation", 443): _OTHER_OBJECT,
    ("triton/sm_100a/matmul_mxfp8_mxfp4", "barrier dropped", 88): _SECOND_OF_ALLOCATION,
    ("triton/sm_100a/matmul_mxfp8_mxfp4", "barrier dropped", 166): _INIT_OF_ONE_WARP,
    ("triton/sm_100a/matmul_mxfp8_mxfp4", "barriers of a block dropped", 166): _INIT_OF_ONE_WARP,
    ("triton/sm_100a/matmul_nvfp4", "wait behind the next expectation", 485): _OTHER_OBJECT,
    ("triton/sm_100a/matmul_nvfp4", "barrier dropped", 88): _SECOND_OF_ALLOCATION,
    ("triton/sm_100a/matmul_nvfp4", "barrier dropped", 166): _INIT_OF_ONE_WARP,
    ("triton/sm_100a/matmul_nvfp4", "barriers of a block dropped", 166): _INIT_OF_ONE_WARP,
    ("gluon/sm_100a/tcgen05_plain_m64", "barrier dropped", 57): _SECOND_OF_ALLOCATION,
    ("gluon/sm_100a/tma_gather_scatter", "barrier dropped", 133): _INIT_OF_ONE_WARP,
    ("gluon/sm_100a/clc_scale", "barrier dropped", 157): _OWN_BYTES,
    ("cute/sm_100a/product_s3", "init fence dropped", 75): _NEXT_FENCE,
    ("cute/sm_100a/product_s3", "init fence dropped", 97): _NO_COPY,
    ("cute/sm_100a/product_s3", "arrival dropped", 725): _LAST_TILE,
    ("cute/sm_100a/product_s3", "wait dropped", 117): _FIRST_PHASE,
    ("cute/sm_100a/product_s3", "barrier of another number", 110): _SAME_THREADS,
    ("cute/sm_100a/product_s3", "commit dropped", 610): _LAST_TILE,
    ("gluon/sm_100a/tcgen05_two_products", "barrier dropped", 67): _SECOND_OF_ALLOCATION,
    ("gluon/sm_100a/tcgen05_ws_acc2_s3", "barrier dropped", 64): _SECOND_OF_ALLOCATION,
    ("triton/sm_100a/matmul_persistent_ws_s2", "barrier dropped", 64): _SECOND_OF_ALLOCATION,
    ("triton/sm_100a/matmul_tma_2cta_s2", "barrier dropped", 62): _SECOND_OF_ALLOCATION,
    ("triton/sm_100a/matmul_tma_s3", "barrier dropped", 60): _SECOND_OF_ALLOCATION,
    ("gluon/sm_100a/tcgen05_two_products", "barrier dropped", 190): _NEXT_BARRIER,
    ("gluon/sm_100a/tcgen05_two_products", "barriers of a block dropped", 190): _NEXT_BARRIER,
    ("triton/sm_100a/matmul_tma_s3", "barrier dropped", 129): _NEXT_BARRIER,
    ("triton/sm_90a/matmul_devdesc_s2", "barrier dropped", 142): (
        "what follows writes the shared copy of the map, which cp_fenceproxy of the same warp has read before"
    ),
    ("triton/sm_90a/attn_tma_full_s2", "barrier dropped", 83): _INIT_OF_ONE_WARP,
    ("triton/sm_90a/matmul_devdesc_s2", "barrier dropped", 341): _INIT_OF_ONE_WARP,
    ("triton/sm_90a/matmul_tma_2cta_s2", "barrier dropped", 88): _INIT_OF_ONE_WARP,
    ("triton/sm_90a/matmul_tma_s2", "barrier dropped", 85): _INIT_OF_ONE_WARP,
    ("triton/sm_90a/matmul_tma_s4", "barrier dropped", 99): _INIT_OF_ONE_WARP,
    ("triton/sm_90a/reduce_tma", "barrier dropped", 75): _INIT_OF_ONE_WARP,
    ("gluon/sm_90a/wgmma_ring_s3", "barrier dropped", 466): _WGMMA_IS_COLLECTIVE,
    ("gluon/sm_90a/wgmma_ring_s3", "barriers of a block dropped", 466): _WGMMA_IS_COLLECTIVE,
    ("gluon/sm_90a/wgmma_ws_s3", "barrier dropped", 207): _WGMMA_IS_COLLECTIVE,
    ("gluon/sm_90a/wgmma_ws_s3", "release moved up", 207): _WGMMA_IS_COLLECTIVE,
    ("triton/sm_90a/matmul_devdesc_s2", "barriers of a block dropped", 761): _WGMMA_IS_COLLECTIVE,
    ("triton/sm_90a/matmul_persistent_s3", "barrier dropped", 138): _WGMMA_IS_COLLECTIVE,
    ("triton/sm_90a/matmul_tma_2cta_s2", "barrier dropped", 568): _WGMMA_IS_COLLECTIVE,
    ("triton/sm_90a/matmul_tma_2cta_s2", "barriers of a block dropped", 529): _WGMMA_IS_COLLECTIVE,
    ("triton/sm_90a/matmul_tma_s2", "barrier dropped", 561): _WGMMA_IS_COLLECTIVE,
    ("triton/sm_90a/matmul_tma_s4", "barrier dropped", 593): _WGMMA_IS_COLLECTIVE,
    ("triton/sm_90a/matmul_tma_s4", "barriers of a block dropped", 593): _WGMMA_IS_COLLECTIVE,
    ("gluon/sm_100a/tcgen05_ws_acc2_s3", "tensor memory not freed", 1021): _NO_SUCH_WARP,
    ("gluon/sm_100a/tcgen05_ws_acc2_s3", "too few columns freed", 1021): _NO_SUCH_WARP,
    ("triton/sm_100a/matmul_persistent_ws_s2", "tensor memory not freed", 1189): _NO_SUCH_WARP,
    ("triton/sm_100a/matmul_persistent_ws_s2", "too few columns freed", 1189): _NO_SUCH_WARP,
    ("tilewright/sm_90a/matmul_cluster_2x1", "wgmma fence dropped", 212): (
        "the accumulators are those of the wgmma before, of the same shape, and nothing touched them since"
    ),
    ("tilewright/sm_90a/matmul_cluster_2x1", "cluster arrival relaxed", 49): (
        "fence.mbarrier_init stands before it, which is there for relaxed arrivals"
    ),
    ("triton/sm_100a/matmul_persistent_ws_s2", "arrival dropped", 670): _LAST_TILE,
    ("triton/sm_100a/matmul_persistent_ws_s2", "arrival repeated", 670): _LAST_TILE,
    ("triton/sm_100a/matmul_persistent_ws_s2", "release moved up", 668): _LAST_TILE,
    ("gluon/sm_90a/multicast_copy", "init fence dropped", 128): (
        "it stands behind the cluster's barrier, where it publishes nothing to the peer; the barrier itself does, "
        "or, read strictly, nothing does and the kernel is refuted with the fence as well"
    ),
    (
        "gluon/sm_90a/multicast_copy",
        "all lanes are elected",
        125,
    ): "what the elected lane executes is a fence, and no more",
    ("triton/sm_100a/matmul_persistent_ws_s2", "wait dropped", 133): (
        "a wait for the phase before the first of a fresh mbarrier passes at once"
    ),
    ("triton/sm_100a/matmul_tma_2cta_s2", "wait behind the next expectation", 315): _OTHER_OBJECT,
    ("triton/sm_100a/matmul_tma_s3", "wait behind the next expectation", 346): _OTHER_OBJECT,
    ("triton/sm_100a/matmul_tma_2cta_s2", "cluster wait dropped", 857): _NOTHING_REMOTE,
    ("triton/sm_100a/matmul_tma_2cta_s2", "cluster arrival relaxed", 856): _NOTHING_REMOTE,
    ("triton/sm_90a/matmul_tma_2cta_s2", "cluster wait dropped", 697): _NOTHING_REMOTE,
    ("triton/sm_90a/matmul_tma_2cta_s2", "cluster arrival relaxed", 696): _NOTHING_REMOTE,
    ("triton/sm_90a/matmul_devdesc_s2", "bulk commit dropped", 138): _NOTHING_IN_THE_GROUP,
    ("triton/sm_90a/matmul_devdesc_s2", "bulk commit dropped", 313): _NOTHING_IN_THE_GROUP,
    ("triton/sm_90a/matmul_devdesc_s2", "last bulk wait dropped", 139): _NOTHING_IN_THE_GROUP,
    ("triton/sm_90a/matmul_devdesc_s2", "last bulk wait dropped", 314): _NOTHING_IN_THE_GROUP,
    ("triton/sm_90a/matmul_devdesc_s2", "last bulk wait too weak", 139): _NOTHING_IN_THE_GROUP,
    ("triton/sm_90a/matmul_devdesc_s2", "last bulk wait too weak", 314): _NOTHING_IN_THE_GROUP,
    (
        "triton/sm_90a/matmul_ptr_s2",
        "cp.async commit dropped",
        220,
    ): _JOINS_THE_NEXT_GROUP,
    (
        "triton/sm_90a/matmul_ptr_s2",
        "cp.async commit dropped",
        806,
    ): _JOINS_THE_NEXT_GROUP,
    ("triton/sm_90a/matmul_ptr_s2", "cp.async wait dropped", 909): _OTHER_STAGE,
    ("triton/sm_90a/matmul_ptr_s2", "cp.async wait too weak", 909): _OTHER_STAGE,
}
