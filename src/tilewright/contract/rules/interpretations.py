"""Which side is taken where shipped compilers rely on what hardware does and the PTX ISA does not promise?

Each contested point is a named switch: `Level.ERROR` refutes, `Level.REVIEW` reports and lets the proof stand with the
point among its assumptions, None says nothing. `strict` takes the ISA's words; `tolerant` lets pass what widely used
compilers emit. `POINTS` holds, for each switch, what its page says. The evidence is public issues and the ISA itself.
Checked by: tests/contract/rules/test_interpretations.py.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Literal

from tilewright.base.diagnostic import Level
from tilewright.base.value import dataclass

Interpretation = Level | None


@dataclass(frozen=True, slots=True)
class Interpretations:
    """The side taken at each contested point (`POINTS`). The defaults are those under which the compiler of this
    package proves its own output: strict where that output has nothing to lose.

    proxy_fence: "writer": the fence must be executed by the threads that made the accesses; "path": by any thread
    between them and the issuer, which is then reported at level `fence_on_path`. fence_before_refill: an ordinary
    read, then an asynchronous write of the same bytes, with no proxy fence between. fenced_init: "always": an mbarrier
    needs a fence after init (fence.mbarrier_init, or a proxy or cluster-wide fence) for its own CTA's copies as well;
    "peers": for peers only, and its lack is for review.
    """

    proxy_fence: Literal["writer", "path"] = "writer"
    fence_before_refill: Interpretation = Level.ERROR
    fenced_init: Literal["always", "peers"] = "peers"
    fence_on_path: Interpretation = Level.REVIEW
    reuse_after_engine: Interpretation = None
    load_wait_before_release: Interpretation = Level.ERROR
    load_wait_before_use: Interpretation = Level.ERROR
    thread_sync_fence: Interpretation = Level.ERROR
    tensor_pipeline: Interpretation = Level.ERROR
    commit_nothing: Interpretation = Level.REVIEW
    pair_started: Interpretation = Level.ERROR
    elected_arrive: Interpretation = Level.REVIEW
    grid_wait: Interpretation = Level.REVIEW
    same_value: Interpretation = Level.ERROR
    warp_lanes: Interpretation = Level.ERROR
    tensor_map_acquire: Interpretation = Level.ERROR
    wgmma_fence_last: Interpretation = Level.ERROR
    arrive_twice: Interpretation = Level.ERROR
    wgmma_own_rows: Interpretation = Level.ERROR
    stores_at_exit: Interpretation = Level.ERROR
    released_init: Interpretation = Level.ERROR
    idle_followers: Interpretation = Level.ERROR
    narrow_release: Interpretation = Level.ERROR
    narrow_wait: Interpretation = Level.ERROR
    unwritten_shared: Interpretation = Level.ERROR
    unwritten_tensor_memory: Interpretation = Level.ERROR
    lanes_in_step: Interpretation = Level.ERROR
    repeated_init: Interpretation = Level.ERROR
    unused_barrier: Interpretation = Level.ERROR
    parity_sign: Interpretation = Level.ERROR
    left_at_exit: Interpretation = Level.ERROR

    def level_of(self, name: str) -> Interpretation:
        """The level at which the point `name` of `POINTS` is reported. Raises AttributeError for no such point."""
        match name:
            case "proxy_fence":
                return Level.ERROR if self.proxy_fence == "writer" else self.fence_on_path
            case "fenced_init":
                return Level.ERROR if self.fenced_init == "always" else Level.REVIEW
            case _:
                level: Interpretation = getattr(self, name)
                return level


@dataclass(frozen=True, slots=True)
class ContestedPoint:
    """A switch of `Interpretations`: the codes that it governs, where each side stands, and what the two sides are."""

    name: str
    codes: tuple[str, ...]
    question: str
    strict: str
    tolerant: str
    sources: tuple[str, ...]


POINTS: tuple[ContestedPoint, ...] = (
    ContestedPoint(
        "proxy_fence", ("PX101", "PX102"),
        "Who must execute fence.proxy.async between ordinary accesses and an engine's?",
        "The threads that made the accesses, before they synchronize with the issuer.",
        "Any thread on the path of synchronization, the issuer included, even in another CTA.",
        ("PTX ISA 8.6, 9.7.13.4", "ISCA 2022, mixed-proxy extensions, 5.4", "NVIDIA forum 358263"),
    ),
    ContestedPoint(
        "fence_before_refill", ("PX102",),
        "Does an ordinary read need a proxy fence before a bulk copy overwrites the same bytes?",
        "Yes: nothing orders a read of the generic proxy before a write of the async proxy but a proxy fence.",
        "The barrier suffices: a load has its value before its thread arrives.",
        ("PTX ISA 8.9.5", "triton-lang/triton#7262", "NVIDIA/TransformerEngine#2695", "deepseek-ai/DeepEP#642"),
    ),
    ContestedPoint(
        "fenced_init", ("MB105",),
        "Does an mbarrier need a fence after init for copies of its own CTA?",
        "Yes, as NVIDIA's examples do.",
        "No: engines signal mbarriers through the generic proxy; only peers of a cluster need the fence.",
        ("PTX ISA 9.7.13.4", "facebookexperimental/triton#1553", "MoonshotAI/FlashKDA#25"),
    ),
    ContestedPoint(
        "reuse_after_engine", ("PX105",),
        "Do ordinary writes need a proxy fence after an engine's completed access to the same bytes?",
        "A completion is followed by an implicit fence, so not by the ISA; some checkers ask for one: for review.",
        "No.",
        ("PTX ISA 9.7.9.25.2", "mlc-ai/TIRx-kernels#151"),
    ),
    ContestedPoint(
        "load_wait_before_release", ("TC103", "TC109", "TC115"),
        "Is tcgen05.wait::ld needed before others overwrite what was loaded, if every register was consumed?",
        "Yes: register dependence orders the consuming instruction, not memory.",
        "A load whose registers were all consumed has been performed.",
        ("PTX ISA 9.7.16.6.4", "NVIDIA/cutlass#3652", "NVIDIA/cutlass#2525", "vllm-project/flash-attention#182"),
    ),
    ContestedPoint(
        "load_wait_before_use", ("TC112",),
        "May a register of tcgen05.ld be read before tcgen05.wait::ld?",
        "No.",
        "The assembler makes the reader wait; compilers move such reads before the wait.",
        ("PTX ISA 9.7.16.8", "NVIDIA/cutlass#2525"),
    ),
    ContestedPoint(
        "thread_sync_fence", ("TC111",),
        "Are tcgen05.fence::before_thread_sync and ::after_thread_sync needed around acquiring synchronization?",
        "Yes: tcgen05 operations are ordered across threads by these fences only.",
        "A releasing and acquiring synchronization orders them as well.",
        ("PTX ISA 9.7.16.6.3", "NVIDIA/cutlass#2974", "deepseek-ai/DeepGEMM#285"),
    ),
    ContestedPoint(
        "tensor_pipeline", ("TC113", "MB103"),
        "May one thread rely on the order of its tcgen05 operations beyond the pairs that the ISA names?",
        "No: only mma to mma of one accumulator and shape, cp or shift to mma, shift to cp, mma to shift.",
        "One thread's mma, cp and shift run in order, and its commits signal in order.",
        ("PTX ISA 9.7.16.6.2",),
    ),
    ContestedPoint(
        "commit_nothing", ("TC116",),
        "Where does a tcgen05.commit of cta_group::2 arrive if nothing is pending?",
        "The ISA is silent: for review.",
        "As otherwise: for review.",
        (
            "flash-attention, AI/DEBUG_2CTA.md",
            "CUTLASS commits operands' release and then sums, with no product between: the second commit has the same "
            "products pending",
        ),
    ),
    ContestedPoint(
        "pair_started", ("TC117",),
        "Must a CTA know that its peer runs before tcgen05.alloc.cta_group::2?",
        "Yes: the issuer ensures that the peer is launched and takes part.",
        "The allocation itself waits for the peer: for review.",
        ("PTX ISA 9.7.16.7", "NVIDIA/cutlass#3316"),
    ),
    ContestedPoint(
        "elected_arrive", ("MB112",),
        "Does one lane's arrival publish what the other lanes of its warp did?",
        "Only after bar.warp.sync or another barrier of those lanes.",
        "Lanes of a converged warp are performed in order: for review.",
        ("PTX ISA 8.9", "NVIDIA/cudnn-frontend#426", "mlc-ai/TIRx-kernels#202"),
    ),
    ContestedPoint(
        "grid_wait", ("GD101", "GD102"),
        "May a kernel of a programmatic dependent launch touch global memory before griddepcontrol.wait?",
        "Only what no earlier grid writes; that can't be seen in one kernel, so it is refuted.",
        "It is assumed that those bytes do not come from the grid before.",
        ("PTX ISA 9.7.13.13", "NVIDIA/cutlass#2760"),
    ),
    ContestedPoint(
        "tensor_map_acquire", ("TM104",),
        "Who must execute fence.proxy.tensormap::generic.acquire before a copy uses a changed tensor map?",
        "The thread that issues the copy.",
        "A thread of its CTA that the issuer synchronizes with: for review.",
        ("PTX ISA 9.7.13.4", "triton-lang/triton, device-side descriptors: the acquire is one warp's"),
    ),
    ContestedPoint(
        "warp_lanes", ("TC120",),
        "May a warp load or store tensor memory by the address of the first quarter of lanes?",
        "No: the address names lanes of the warp's own quarter, 32 (w mod 4) and up.",
        "Hardware takes the warp's own quarter whatever the address says: for review.",
        ("PTX ISA 9.7.16.8.1", "deepseek-ai/DeepGEMM, sm100_store_cd.cuh"),
    ),
    ContestedPoint(
        "wgmma_fence_last", ("WG106",),
        "May accumulators be written, or read, between wgmma.fence and the wgmma?",
        "No: wgmma.fence comes after every ordinary access of the registers.",
        "The assembler orders register moves before the wgmma; compilers let them sink below the fence.",
        ("PTX ISA 9.7.15.7.1", "CuTe DSL, persistent GEMM: accumulators are zeroed below the fence",
         "CuTe DSL, fp8 GEMM with two accumulators: one fence before a loop that promotes them"),
    ),
    ContestedPoint(
        "arrive_twice", ("NB105",),
        "May a warp take part twice in one use of a named barrier, by bar.arrive and then bar.sync?",
        "No: after bar.arrive a warp uses the barrier again only once it has completed.",
        "Each arrival counts, and if every use completes before the next begins, in the same use in every order.",
        ("PTX ISA 9.7.13.1", "flash-attention, hopper: mma_init primes a barrier by its own bar.arrive"),
    ),
    ContestedPoint(
        "wgmma_own_rows", ("TM101", "MB111", "BG105"),
        "May a warp write its 16 rows of A in shared memory and issue the wgmma without the other three knowing?",
        "No: a wgmma of a warpgroup reads its operands for all four warps.",
        "Each warp's tensor core reads the rows of its own part of the accumulator.",
        ("PTX ISA 9.7.15.4", "flash-attention, hopper: P is staged with __syncwarp alone"),
    ),
    ContestedPoint(
        "stores_at_exit", ("BG102",),
        "May a thread that waits for its bulk stores as it goes exit while the last ones still read shared memory?",
        "No: shared memory is the CTA's until it ends, and wait_group.read reports when a source has been read.",
        "The last groups are left to the hardware, which was never seen to give the memory away early.",
        ("PTX ISA 9.7.9.27.2", "NVIDIA/cutlass, sm100 epilogue without source",
         "deepseek-ai/DeepGEMM, TMA store epilogue", "measured: python -m bench hardware, mutation bulk wait dropped"),
    ),
    ContestedPoint(
        "released_init", ("MB105",),
        "Does a barrier.cluster with release and acquire publish mbarrier.init to peers, without fence.mbarrier_init?",
        "No: the ISA has a fence for it, which its examples use.",
        "Yes: init is a write, which a release at cluster scope publishes; the fence is for relaxed arrivals.",
        ("PTX ISA 9.7.13.3, 9.7.13.4, 8.9", "NVIDIA/cutlass, examples/cute/tutorial/blackwell 03 to 05"),
    ),
    ContestedPoint(
        "idle_followers", ("MB108",),
        "May a warp that only waits, while one thread does the work of its role, be overtaken by two phases?",
        "No: delayed for so long it would wait for a phase that is over, and may never go on.",
        "It has nothing to do between its waits, but for reading constant data, so it keeps up; warps of a CTA are not "
        "held back for whole phases.",
        ("PTX ISA 9.7.13.15 (phases)", "tile-ai/tilelang: producer warps that issue nothing",
         "NVIDIA/cutlass, examples/cute/tutorial/blackwell 02 to 05: the loop's waits by all threads"),
    ),
    ContestedPoint(
        "narrow_release", ("CL104", "CL103", "MB104", "MB107"),
        "Does an arrival of CTA scope (the default) at a peer's mbarrier order earlier reads, arrivals and inits?",
        "No: a release orders memory only for threads that its scope includes, and so does an acquire.",
        "A load has its value, what was waited for in tensor memory is done, an arrival counts and a fenced init is "
        "there when the thread arrives; other writes are refuted all the same.",
        ("PTX ISA 8.7, 8.9, 9.7.13.15", "NVIDIA/cutlass, ClusterBarrier::arrive(cta_id) names no scope",
         "NVIDIA/cutlass, CuTe DSL: producer_tail waits for the last stage alone",
         "deepseek-ai/DeepGEMM, sm90 with multicast: slots of both CTAs are released by one instruction"),
    ),
    ContestedPoint(
        "narrow_wait", ("CL104",),
        "Does a wait of CTA scope (the default) see what threads of a peer have stored by st.async or red.async?",
        "No: their complete_tx releases at the cluster's scope, and an acquire of CTA scope does not reach them.",
        "The bytes are there when they are counted, so whoever waits for the phase sees them.",
        ("PTX ISA 8.7, 8.9.1.1, 9.7.9.13 (st.async)",
         "NVIDIA/cutlass, ClusterBarrier::wait names no scope"),
    ),
    ContestedPoint(
        "same_value", ("NB104",),
        "May threads store the same value to the same bytes without order?",
        "No: conflicting weak stores race, whatever they store.",
        "The bytes hold the value whichever store comes last; compilers let all threads of a warpgroup store.",
        ("PTX ISA 8.9 (data races)", "triton-lang/triton, warp specialization: partition states and captured scalars",
         "triton-lang/triton, Gluon: layouts that give several warps the same elements"),
    ),
    ContestedPoint(
        "unwritten_shared", ("UM101",),
        "May a kernel read shared memory that nobody has written since its CTA began?",
        "No: the values are whatever was left there, so the kernel is not one function of its inputs.",
        "It may, if it then throws away what it read; that can't be seen in the order of accesses: for review.",
        ("PTX ISA 5.1.6", "derived: a proof of order says nothing of such values"),
    ),
    ContestedPoint(
        "unwritten_tensor_memory", ("TC122",),
        "May a tcgen05 operation read a block of tensor memory that was written in part alone?",
        "No: the other cells hold whatever was left there, so the kernel is not one function of its inputs.",
        "It may, if what it reads there is thrown away, as where a load takes 32 lanes and an mma of 64 rows has "
        "written 16 of them. A block of which no cell was written is refuted, but where nothing uses what is loaded; "
        "where a select may take something else instead, the kernel is unknown.",
        ("PTX ISA 9.7.16.1, 9.7.16.10.5 (data paths)", "derived: a proof of order says nothing of such values"),
    ),
    ContestedPoint(
        "lanes_in_step", ("NB106",),
        "May a lane use memory that another lane of its warp has written, with no bar.warp.sync between?",
        "No: lanes are threads, and neither program order nor shfl.sync or elect.sync orders memory between them.",
        "Lanes of a converged warp are performed in order: for review.",
        ("PTX ISA 9.7.13.2 (bar.warp.sync), 8.9", "CUDA C++ Programming Guide, independent thread scheduling"),
    ),
    ContestedPoint(
        "repeated_init", ("MB115",),
        "May an mbarrier be initialised several times, with equal counts, before anybody uses the object?",
        "No: init of memory that holds a valid object is undefined, and stores that nothing orders race.",
        "Each init leaves the same 8 bytes; a use must still be ordered after all of them.",
        ("PTX ISA 9.7.13.15 (mbarrier.init)", "HazyResearch/ThunderKittens: init_semaphore by all lanes of a warp",
         "Triton 3.6: barriers of a warp-specialized loop that nobody waits for"),
    ),
    ContestedPoint(
        "unused_barrier", ("MB116",),
        "May data overwrite an mbarrier that was initialised and never used, with no mbarrier.inval between?",
        "No: only mbarrier operations may touch a valid object; inval ends it.",
        "Nobody looks at the object, so its bytes are free once its init is ordered before the write. Any use of it, "
        "before or after, is an error.",
        ("PTX ISA 9.7.13.15 (mbarrier.inval)", "Triton 3.6: bytes of a barrier that nobody waits for are reused"),
    ),
    ContestedPoint(
        "parity_sign", ("MB117",),
        "May a wait name an odd phase by parity -1, a truth value extended by its sign?",
        "No: valid values of the operand are 0 and 1.",
        "-1 counts as 1: ptxas shifts the operand left by 31 bits, so that its lowest bit alone decides.",
        ("PTX ISA 9.7.13.15 (mbarrier.test_wait)", "Triton 3.6: shr.s64 by 63 makes a parity of warp-specialized loops",
         "nvdisasm of ptxas 13.0 for sm_90a and sm_100a: SHF.L.U32 R0, R0, 0x1f, RZ before SYNCS.PHASECHK"),
    ),
    ContestedPoint(
        "left_at_exit", ("TC119", "BG104"),
        "May a CTA end before a cp.async has written, or a tcgen05.commit has arrived, if nobody needs either?",
        "No: both come at any later time, and write shared memory that is another CTA's by then.",
        "The hardware may keep a CTA's memory until both have come; the ISA is silent: for review.",
        ("PTX ISA 9.7.9.25, 9.7.16.12", "NVIDIA/cutlass: producer_tail waits for every stage, also of commits",
         "derived: no kernel of Triton, Gluon or CuTe DSL in this project's corpus leaves one"),
    ),
)  # fmt: skip
"""Every contested point, in the order of the switches."""


def strict() -> Interpretations:
    """The ISA's words (`--isa strict`)."""
    errors = {
        field.name: Level.ERROR
        for field in fields(Interpretations)
        if field.name not in ("proxy_fence", "fenced_init", "reuse_after_engine", "commit_nothing")
    }
    return Interpretations(
        proxy_fence="writer", fenced_init="always", reuse_after_engine=Level.REVIEW, commit_nothing=Level.REVIEW,
        **errors,
    )  # fmt: skip


def tolerant() -> Interpretations:
    """What widely used compilers rely on is reported for review (`--isa tolerant`, the default)."""
    reviews = {
        field.name: Level.REVIEW
        for field in fields(Interpretations)
        if field.name not in ("proxy_fence", "fenced_init", "reuse_after_engine", "fence_on_path")
    }
    return Interpretations(
        proxy_fence="path", fenced_init="peers", reuse_after_engine=None, fence_on_path=None, **reviews
    )
