"""What a run of a kernel did that matters to its asynchronous protocol: the event stream.

The machine yields these values in the order it performed them; `contract` judges the partial order that they imply,
not this one order. Values are plain: nothing here knows a rule.

Actors: a warp (the unit that runs instructions), a copy (one bulk copy in flight), a tensor-core operation (one wgmma
in flight) and a tensor-memory operation (one tcgen05 instruction in flight). Addresses in shared memory are
CTA-relative byte offsets from 0; in global memory they are machine addresses. Ranges are half-open byte intervals,
sorted, merged and disjoint. Spans point into the PTX text.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.base.plan import TensorMap
from tilewright.base.span import Span
from tilewright.base.value import dataclass, value

if TYPE_CHECKING:
    from tilewright.legal.descriptor.tensor_core_descriptor import OperandElement

Range = tuple[int, int]
Ranges = tuple[Range, ...]


@dataclass(slots=True, eq=False)
class LaneRows:
    """Accesses by the same lanes (bit i = lane i), of one size. begins: where each one's bytes begin, by access and
    lane, in the order of the lanes."""

    lanes: int
    begins: NDArray[np.int64]
    size_bytes: int


@dataclass(slots=True, eq=False)
class Places:
    """Which bytes are which lane's: those of `rows`, moved by `at`. Never changed."""

    rows: tuple[LaneRows, ...]
    at: int = 0
    _begins: bytes | None = field(default=None, init=False)

    @property
    def begins(self) -> bytes:
        """Where the bytes begin, in order: the same for the same places."""
        if self._begins is None:
            self._begins = b"".join([(each.begins + self.at).tobytes() for each in self.rows])
        return self._begins


TOGETHER = Places(())
"""The lanes have all bytes together (ldmatrix, stmatrix)."""


class WarpActor(NamedTuple):
    """Warp `warp` (index in its CTA) of CTA `cta` (linear index in the grid).

    A tuple, since warps are looked up by their actor for each event of a run.
    """

    cta: int
    warp: int


@value
class CopyActor:
    """Bulk copy number `copy` (counted over the launch)."""

    copy: int


@value
class TensorCoreActor:
    """wgmma operation number `operation` (counted over the launch)."""

    operation: int


@value
class TensorMemoryActor:
    """tcgen05 operation number `operation` (mma, cp, shift, ld or st; counted over the launch)."""

    operation: int


Actor = WarpActor | CopyActor | TensorCoreActor | TensorMemoryActor

MemoryOrder = Literal["weak", "relaxed", "acquire", "release", "acq_rel", "volatile"]
FenceOrder = Literal["sc", "acq_rel", "acquire", "release"]


@value
class Access:
    """Bytes read or written. proxy: "generic" for ld/st, "async" for bulk copies and wgmma operands.

    space "shared": `cta` owns the bytes. space "global": `cta` is -1. atomic: part of an atomic operation, or a strong
    (`.relaxed`, `.acquire`, `.release`, `.volatile`) load or store. lanes: bit i = lane i of the warp took part.
    order, scope: of a strong access (scope empty for a weak one). uncertain: whether it happens, or where, depends on
    data that the run could not know. modifies: an atomic operation (atom, red), whose write follows upon its read.
    constant: the bytes that every lane stores, where the text gives them as constants, once where they repeat. words:
    of a strong access to single words of 32 bits of global memory, each word's address, what it held before and what it
    held afterwards, in the order in which lanes took effect. read_only: a load that takes the bytes for constant
    (`.nc`, `ldu`). places:
    which bytes are which lane's, with a row for each of several accesses that are told as one (`joined_accesses`), of
    which stores may be by different lanes, `lanes` being those of any; None where one lane has them all, or that is not
    told. identity: of a store, which another store of the same value to the same bytes has as well (`value_identity`);
    0 where that was not asked.
    """

    actor: Actor
    space: Literal["shared", "global"]
    cta: int
    ranges: Ranges
    write: bool
    proxy: Literal["generic", "async"]
    span: Span
    atomic: bool = False
    lanes: int = 0xFFFF_FFFF
    order: MemoryOrder = "weak"
    scope: str = ""
    uncertain: bool = False
    modifies: bool = False
    constant: tuple[int, ...] = ()
    words: tuple[tuple[int, int, int], ...] = ()
    read_only: bool = False
    places: Places | None = field(default=None, compare=False)
    identity: int = 0


@value
class BarrierInit:
    """mbarrier.init by one lane of a warp."""

    actor: WarpActor
    cta: int
    address: int
    count: int
    span: Span
    lane: int = 0


@value
class BarrierInvalidate:
    """mbarrier.inval by one lane of a warp."""

    actor: WarpActor
    cta: int
    address: int
    span: Span
    lane: int = 0


@value
class BarrierArrive:
    """An arrive-on (`count` arrivals from one warp instruction, all lanes summed). `phase` is the absolute phase index,
    from 0, that it counted in; `expect_bytes` is what it added to the transaction count first (0 for a plain arrive).
    `cta` is the owner of the barrier, which may be another CTA of the cluster. drop: an arrive_drop, after which phases
    expect `count` arrivals fewer; relaxed: it publishes nothing; lanes: bit i = lane i of the warp arrived; scope: of
    its release, "cta" or "cluster"; elsewhere: arrivals of the same instruction that counted in other phases."""

    actor: WarpActor
    cta: int
    address: int
    phase: int
    count: int
    expect_bytes: int
    span: Span
    drop: bool = False
    relaxed: bool = False
    lanes: int = 0xFFFF_FFFF
    scope: str = "cluster"
    elsewhere: int = 0


@value
class BarrierExpect:
    """A bare `mbarrier.expect_tx`: no arrival."""

    actor: WarpActor
    cta: int
    address: int
    phase: int
    expect_bytes: int
    span: Span


@value
class BarrierComplete:
    """A copy's `complete_tx` of `bytes` on a barrier; `span` is the copy instruction's."""

    actor: CopyActor
    cta: int
    address: int
    phase: int
    bytes: int
    span: Span


@value
class PhaseEnd:
    """Phase `phase` of a barrier completed (pending count and transaction count both reached zero)."""

    cta: int
    address: int
    phase: int


@value
class BarrierWait:
    """A successful test_wait/try_wait: phase `phase` (absolute) was complete. Failed tries yield nothing. relaxed: it
    acquires nothing; scope: of its acquire, "cta" or "cluster"; lanes: bit i = lane i of the warp waited."""

    actor: WarpActor
    cta: int
    address: int
    parity: int
    phase: int
    span: Span
    relaxed: bool = False
    scope: str = "cluster"
    lanes: int = 0xFFFF_FFFF


@value
class BarrierPeek:
    """A try that a protocol run lets fail, whatever the barrier's state: it asks whether `phase` (absolute) is
    complete. The other fields are those of a wait that succeeds."""

    actor: WarpActor
    cta: int
    address: int
    parity: int
    phase: int
    span: Span
    relaxed: bool
    scope: str
    lanes: int


@value
class BoxPlace:
    """The box that a tensor copy moves: its map, the buffer (`base.plan`), coordinates of its first element (innermost
    first, signed), and the shared byte offset where it begins."""

    tensor_map: TensorMap
    buffer: str
    coordinates: tuple[int, ...]
    address: int


@value
class CopyIssue:
    """A bulk copy issued by one thread.

    direction "load": global to shared, completing on barrier (`barrier_cta`, `barrier_address`);
    (st.async, red.async and clusterlaunchcontrol.try_cancel are loads here, too: they write shared memory and complete
    transactions);
    direction "store": shared to global, completing through the issuing thread's bulk groups (barrier fields None).
    destinations: the CTAs whose shared memory it writes (multicast) or, for a store, the one it reads.
    bytes: what one destination's barrier will be told. barrier_ctas: the CTAs of the barriers that are told, one for
    each destination; empty where each is the destination's own. tensor_map: machine address of a tensor map that lies
    in global memory, which the copy reads through the tensormap proxy (None for one among the parameters). box: of a
    tensor copy of tile mode, which moves values as they are; None for any other. stored: threads store it (st.async,
    red.async). reduces: into shared memory, by atomic operations.
    """

    actor: WarpActor
    lane: int
    copy: CopyActor
    direction: Literal["load", "store"]
    destinations: tuple[int, ...]
    shared: Ranges
    bytes: int
    barrier_address: int | None
    span: Span
    tensor_map: int | None = None
    barrier_ctas: tuple[int, ...] = ()
    box: BoxPlace | None = None
    stored: bool = False
    reduces: bool = False


@value
class BulkCommit:
    """cp.async.bulk.commit_group by one thread: its uncommitted copies become group `group` (counted per thread)."""

    actor: WarpActor
    lane: int
    group: int
    copies: tuple[CopyActor, ...]
    span: Span


@value
class BulkWait:
    """cp.async.bulk.wait_group[.read] passed: at most `pending` most recent groups of this thread remain."""

    actor: WarpActor
    lane: int
    pending: int
    read: bool
    span: Span


@value
class WgmmaFence:
    actor: WarpActor
    span: Span


@value
class SharedMatrix:
    """An operand of the tensor core in shared memory, by its descriptor: of a wgmma (`machine.tensor_core.wgmma`), or,
    where its element is named, of a tcgen05.mma (`tensor_operand`). rows: along M or N; depth: along K, in elements;
    major: "k" or "mn"."""

    descriptor: int
    rows: int
    depth: int
    element_bytes: int
    major: Literal["k", "mn"]
    element: OperandElement | None = None


@value
class WgmmaIssue:
    """One wgmma.mma_async, issued by one of its four warps: there are four events for each operation. accumulator: the
    register names written; shared: bytes of the A (if in shared memory) and B operands; a_registers: A operand
    registers, if any; own_rows: those bytes of A, if in shared memory, whose rows are this warp's 16 of the 64.
    matrices: A, None where it is in registers, and B; accumulates: it adds to what the accumulator holds; taken: the
    warp has read a register of that since the last wgmma on it (false where a run does without what reads it)."""

    actor: WarpActor
    operation: TensorCoreActor
    accumulator: tuple[str, ...]
    a_registers: tuple[str, ...]
    shared: Ranges
    span: Span
    own_rows: Ranges = ()
    matrices: tuple[SharedMatrix | None, SharedMatrix] | None = None
    accumulates: bool = True
    taken: bool = False


@value
class WgmmaCommit:
    actor: WarpActor
    group: int
    operations: tuple[TensorCoreActor, ...]
    span: Span


@value
class WgmmaWait:
    actor: WarpActor
    pending: int
    span: Span


@value
class RegisterHazard:
    """An accumulator (or A) register of a wgmma still in flight was read or written by another instruction.

    after_fence: a register was read between the last wgmma.fence and the wgmma, or an accumulator was written there and
    the fence follows the last wait: compilers put copies there that the assembler folds away, though the ISA wants the
    fence after every access.
    """

    actor: WarpActor
    operation: TensorCoreActor
    register: str
    write: bool
    span: Span
    after_fence: bool = False


@value
class ProxyFence:
    """fence.proxy.async[.space] by the lanes `lanes` (bit i = lane i) of a warp. space: "all", "shared" (of the
    cluster), "own" (shared memory of the warp's CTA alone) or "global".

    order: "both" for the plain fence; the one-way fence.proxy.async::generic is half of a pair, a release by who used
    the generic proxy and an acquire by who will use the async proxy, with a synchronization between.
    """

    actor: WarpActor
    space: Literal["all", "shared", "own", "global"]
    span: Span
    lanes: int = 0xFFFF_FFFF
    order: Literal["both", "acquire", "release"] = "both"


@value
class MemoryFence:
    """fence / membar, and fence.mbarrier_init (kind "mbarrier_init"). restricted_to: the state space of the objects
    that a `.sync_restrict` fence orders, else empty. lanes: bit i = lane i executed it; of a bar.warp.sync (scope
    "warp"), those that it synchronizes, and those that have exited."""

    actor: WarpActor
    kind: Literal["fence", "mbarrier_init"]
    scope: str
    span: Span
    order: FenceOrder = "acq_rel"
    restricted_to: str = ""
    lanes: int = 0xFFFF_FFFF


@value
class NamedBarrierArrive:
    """A warp reached bar.sync / bar.arrive on named barrier `barrier`; its earlier work is what the barrier
    publishes."""

    actor: WarpActor
    cta: int
    barrier: int
    waits: bool
    span: Span


@value
class NamedBarrier:
    """Named barrier `barrier` of a CTA completed: who synchronized (waited) and who only arrived."""

    cta: int
    barrier: int
    synchronized: tuple[WarpActor, ...]
    arrived: tuple[WarpActor, ...]
    span: Span


@value
class ClusterArrive:
    """A warp reached barrier.cluster.arrive; relaxed arrivals publish nothing."""

    actor: WarpActor
    cluster: int
    relaxed: bool
    span: Span


@value
class ClusterBarrier:
    """barrier.cluster completed a phase for all warps of the cluster (arrive .release, wait .acquire unless
    relaxed)."""

    cluster: int
    warps: tuple[WarpActor, ...]
    relaxed: bool
    span: Span


@value
class ClusterWait:
    """A warp passed barrier.cluster.wait: only now does it acquire what the phase published."""

    actor: WarpActor
    cluster: int
    span: Span


@value
class RegisterBudget:
    """setmaxnreg took effect for a warp. before: the registers of each of its threads until then."""

    actor: WarpActor
    registers: int
    increase: bool
    span: Span
    before: int = 0


@value
class TensorBlock:
    """A rectangle of one CTA's tensor memory: lanes [lane_begin, lane_end), columns [column_begin, column_end) of 32
    bits."""

    cta: int
    lane_begin: int
    lane_end: int
    column_begin: int
    column_end: int


@value
class TensorMemoryAllocate:
    """tcgen05.alloc gave columns [column, column + columns) of `cta` to its kernel (one event for each CTA of the
    group). The address was written to shared memory, which an `Access` tells."""

    actor: WarpActor
    cta: int
    column: int
    columns: int
    cta_group: int
    span: Span


@value
class TensorMemoryDeallocate:
    """tcgen05.dealloc took columns [column, column + columns) of `cta` back."""

    actor: WarpActor
    cta: int
    column: int
    columns: int
    cta_group: int
    span: Span


@value
class TensorMemoryRelinquish:
    """tcgen05.relinquish_alloc_permit."""

    actor: WarpActor
    cta_group: int
    span: Span


@value
class TensorMemoryIssue:
    """A tcgen05 operation begins. kind "ld" and "st" belong to the issuing warp, the others to thread `lane` of it.

    reads, writes: blocks of tensor memory; shared: (CTA, bytes) of shared-memory operands, read through the async
    proxy; registers: names that an ld writes or an st reads. other_quarter: the address
    of an ld or st named lanes of the first quarter, which is not its warp's own; the blocks are of its own.
    matrices: of an mma of dense operands of whole bytes, A and B in each CTA of the group, None for A in tensor memory;
    accumulates: whether it adds to what D holds.
    """

    actor: WarpActor
    lane: int
    operation: TensorMemoryActor
    kind: Literal["mma", "cp", "shift", "ld", "st"]
    reads: tuple[TensorBlock, ...]
    writes: tuple[TensorBlock, ...]
    shared: tuple[tuple[int, Ranges], ...]
    cta_group: int
    registers: tuple[str, ...]
    span: Span
    other_quarter: bool = False
    matrices: tuple[tuple[int, SharedMatrix | None, SharedMatrix], ...] = ()
    accumulates: bool = True


@value
class TensorMemoryWait:
    """tcgen05.wait::ld or wait::st: all earlier operations of that kind by this warp are complete."""

    actor: WarpActor
    kind: Literal["ld", "st"]
    span: Span


@value
class TensorMemoryRegisterUse:
    """A register of a tcgen05.ld or st that no wait covers yet was read or written by another instruction."""

    actor: WarpActor
    operation: TensorMemoryActor
    register: str
    write: bool
    span: Span


@value
class TensorMemoryFence:
    """tcgen05.fence::before_thread_sync or ::after_thread_sync."""

    actor: WarpActor
    side: Literal["before", "after"]
    span: Span


@value
class TensorMemoryCommit:
    """tcgen05.commit by thread `lane`: once `operations` (its mma, cp and shift of this cta_group since the start) are
    complete, every barrier of `barriers` (CTA, address) gets one arrival, a `CommitArrive`."""

    actor: WarpActor
    lane: int
    commit: int
    operations: tuple[TensorMemoryActor, ...]
    barriers: tuple[tuple[int, int], ...]
    cta_group: int
    span: Span


@value
class CommitArrive:
    """The arrival of commit number `commit` on a barrier; `span` is the tcgen05.commit's."""

    commit: int
    cta: int
    address: int
    phase: int
    span: Span


@value
class AsyncCopyIssue:
    """cp.async (not bulk) by lanes of a warp: it writes `shared` of its own CTA at any time until it is waited for."""

    actor: WarpActor
    lanes: int
    copy: CopyActor
    shared: Ranges
    span: Span
    places: Places | None = field(default=None, compare=False)


@value
class AsyncCopyCommit:
    """cp.async.commit_group by lanes of a warp: their uncommitted cp.asyncs become their next group."""

    actor: WarpActor
    lanes: int
    span: Span


@value
class AsyncCopyWait:
    """cp.async.wait_group (at most `pending` most recent groups remain) or wait_all (pending 0, everything)."""

    actor: WarpActor
    lanes: int
    pending: int
    everything: bool
    span: Span


@value
class AsyncCopyArriveIssue:
    """cp.async.mbarrier.arrive is executed: its deferred arrivals (number `arrival` of the warp) will count once the
    cp.asyncs that the lanes have issued until now are done. adds_to: without .noinc, the CTA and address of the
    mbarrier whose current phase now waits for as many arrivals more."""

    actor: WarpActor
    lanes: int
    arrival: int
    span: Span
    adds_to: tuple[int, int] | None = None


@value
class AsyncCopyArrive:
    """The deferred arrivals number `arrival` of a warp counted, or some of them."""

    actor: WarpActor
    lanes: int
    cta: int
    address: int
    phase: int
    count: int
    no_increment: bool
    span: Span
    arrival: int = -1


@value
class TensorMapFence:
    """fence.proxy.tensormap::generic: a release, or an acquire of the 128 bytes at `address`; also the fence within
    tensormap.cp_fenceproxy (kind "release")."""

    actor: WarpActor
    kind: Literal["release", "acquire"]
    address: int | None
    scope: str
    span: Span
    lanes: int = 0xFFFF_FFFF


@value
class GridDependency:
    """griddepcontrol: "launch_dependents" lets the next grid begin, "wait" waits for the grids before this one. lanes:
    bit i = lane i of the warp executed it."""

    actor: WarpActor
    kind: Literal["launch_dependents", "wait"]
    span: Span
    lanes: int = 0xFFFF_FFFF


@value
class Exit:
    """The last active lanes of a warp exited."""

    actor: WarpActor
    span: Span


Event = (
    Access
    | BarrierInit
    | BarrierInvalidate
    | BarrierArrive
    | BarrierExpect
    | BarrierComplete
    | PhaseEnd
    | BarrierWait
    | BarrierPeek
    | CopyIssue
    | BulkCommit
    | BulkWait
    | WgmmaFence
    | WgmmaIssue
    | WgmmaCommit
    | WgmmaWait
    | RegisterHazard
    | ProxyFence
    | MemoryFence
    | NamedBarrierArrive
    | NamedBarrier
    | ClusterArrive
    | ClusterBarrier
    | ClusterWait
    | RegisterBudget
    | TensorMemoryAllocate
    | TensorMemoryDeallocate
    | TensorMemoryRelinquish
    | TensorMemoryIssue
    | TensorMemoryWait
    | TensorMemoryRegisterUse
    | TensorMemoryFence
    | TensorMemoryCommit
    | CommitArrive
    | AsyncCopyIssue
    | AsyncCopyCommit
    | AsyncCopyWait
    | AsyncCopyArriveIssue
    | AsyncCopyArrive
    | TensorMapFence
    | GridDependency
    | Exit
)
