"""Which rules does the typestate proof enforce, why, and what fixes a violation? One row per code.

A row is data: the proof refers to it by code, `explain` prints it. `source` cites the PTX ISA (section numbers of
version 9.1; they move between releases, so the rule's subject stands beside them) or says that the rule is derived.

Families: MB mbarrier, TX transactions, BG bulk groups, PX proxies, CA copies by threads, WG wgmma, TC tensor memory, NB
named barriers, SR registers and threads, LV liveness, AL shared-memory layout, CL clusters. Checked by:
tests/contract/typestate/test_typestate_mutations.py (each code has a program that breaks it, there or in a test named
there).
"""

from __future__ import annotations

from tilewright.base.value import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """name: kebab-case; summary: one line; rule: what the hardware or the model demands; source: where that is said;
    example: a failing program in words; remedy: the usual fix."""

    code: str
    name: str
    summary: str
    rule: str
    source: str
    example: str
    remedy: str


_MBARRIER = "PTX ISA 9.7.13.15 (mbarrier)"
_PHASES = "PTX ISA 9.7.13.15 (mbarrier: phases, parity waits)"
_TRACKING = "PTX ISA 9.7.13.15 (mbarrier: tracking asynchronous operations)"
_TENSOR_COPY = "PTX ISA 9.7.9.27.1.2 (cp.async.bulk.tensor)"
_BULK_GROUP = "PTX ISA 9.7.9.25.1, 9.7.9.27.2 (bulk async-groups)"
_PROXY = "PTX ISA 9.7.9.25.2, 8.6 (async proxy, fence.proxy.async)"
_ASYNC_COPY = "PTX ISA 9.7.9.25.3 (cp.async), 9.7.13.15.16 (cp.async.mbarrier.arrive)"
_WGMMA = "PTX ISA 9.7.15 (wgmma)"
_WGMMA_DESCRIPTOR = "PTX ISA 9.7.15.5.1.2 (wgmma matrix descriptor)"
_ALLOCATION = "PTX ISA 9.7.16.7 (tcgen05.alloc, dealloc, relinquish_alloc_permit)"
_TENSOR_ORDER = "PTX ISA 9.7.16.6 (tcgen05 memory consistency: tcgen05.fence)"
_NAMED = "PTX ISA 9.7.13.1 (bar, barrier)"
_REGISTERS = "PTX ISA 9.7.19.5 (setmaxnreg)"
_CLUSTER = "PTX ISA 9.7.13.3 (barrier.cluster), 2.2.2 (clusters)"
_SWIZZLE = "PTX ISA 5.5.7 (swizzling modes)"
_MODEL = "derived: a program without branches terminates only if its waits and signals agree"

RULES: dict[str, Rule] = {
    rule.code: rule
    for rule in (
        # ------------------------------------------------------------ mbarrier
        Rule("MB001", "barrier-not-initialised", "a ring's barriers are used but never initialised",
             "Any mbarrier operation except init on an uninitialised object is undefined.", _MBARRIER + ": lifecycle",
             "The kernel declares ring ab and waits on it; no ac.mbarrier.init names it.",
             "Initialise every ring once before the roles begin."),
        Rule("MB002", "barrier-initialised-twice", "a ring's barriers are initialised twice",
             "mbarrier.init on a live object is undefined.", _MBARRIER + ": init",
             "Two ac.mbarrier.init name ring ab.", "Drop one of the two."),
        Rule("MB003", "init-not-fenced", "no fence makes barrier initialisation visible",
             "The initialising thread must fence its inits (fence.mbarrier_init) before other agents may use them.",
             "PTX ISA 9.7.13.4 (fence.mbarrier_init)",
             "ac.mbarrier.init is followed by ac.cta.sync with no ac.fence.mbarrier_init between.",
             "Put ac.fence.mbarrier_init between the last init and the synchronization."),
        Rule("MB004", "init-not-synchronised", "roles may use a barrier before it is initialised",
             "Another thread's first use of a barrier must be ordered after its init, by a CTA or cluster barrier.",
             _MBARRIER + ": init", "The roles follow ac.fence.mbarrier_init with no synchronization of the CTA.",
             "Synchronize the CTA (the cluster, if there is one) after the fence."),
        Rule("MB005", "wait-on-wrong-parity", "a wait names the parity of the wrong phase",
             "A parity names the current or the preceding phase. Right after init, waiting for parity 1 passes and for "
             "parity 0 blocks: a filler's first wait must pass, a reader's must block.", _PHASES,
             "A filler waits on empty barriers without inverting its cursor's parity.",
             "Fillers invert the cursor's parity; readers do not."),
        Rule("MB006", "cursor-out-of-step", "a cursor does not move by one slot for each wait",
             "Each slot use waits once, at consecutive positions; a skipped or repeated slot waits on a phase that "
             "never comes or that has passed.", _PHASES,
             "The cursor is advanced twice in a loop body that waits once.", "Advance exactly once per wait."),
        Rule("MB007", "token-of-another-ring", "a cursor or token of one ring is used on another",
             "A phase belongs to one barrier; its completion says nothing of any other.", _MBARRIER,
             "ac.mbarrier.wait on ring q takes the cursor of ring kv.", "Use the cursor started on that ring."),
        Rule("MB008", "full-arrival-count", "the full barriers count another number of arrivals than they get",
             "A phase completes when exactly the initialised count has arrived: more is undefined, fewer never ends.",
             _MBARRIER + ": arrive", "full_arrivals is 2 and one thread arrives for each fill.",
             "Initialise the full barriers with one arrival per filling thread."),
        Rule("MB009", "empty-arrival-count", "the empty barriers count another number of arrivals than they get",
             "Too small a count frees a slot while a reader still reads; too large a count never frees it.",
             _MBARRIER + ": arrive", "Two warpgroups release each slot and empty_arrivals is 1.",
             "empty_arrivals is readers times the CTAs that each of them releases to."),
        Rule("MB010", "barrier-count-range", "an arrival count is outside what an mbarrier holds",
             "The expected arrival count is 1 to 2^20 - 1.", _MBARRIER + ": contents",
             "A ring has empty_arrivals 0.", "Give each barrier a count in range."),
        Rule("MB011", "released-out-of-order", "a slot's phase is signalled at the wrong position",
             "Arrivals on one slot's barrier count for its current phase, so each unit signals its slots in the order "
             "in which it waited for them.", _PHASES,
             "A reader releases slot 1 of a round before slot 0, in a ring of one stage.",
             "Release slots in the order of the waits."),
        Rule("MB012", "wrong-side", "an operation is applied to a slot on the wrong side of the ring",
             "Only an empty slot may be filled; only a full slot may be read.", "derived: single-writer ring",
             "ac.mbarrier.arrive_expect_tx takes the phase of a full slot.",
             "Wait on the empty side before filling, on the full side before reading."),
        # ------------------------------------------------------------ transactions
        Rule("TX001", "bytes-do-not-add-up", "a slot expects other bytes than its copies bring",
             "A phase completes only when its transaction count returns to zero: every byte expected must be completed "
             "in the same phase, and every byte completed expected.", _TRACKING,
             "The producer announces 32768 bytes and issues copies of 24576.",
             "Announce the sum of the boxes times the CTAs that issue them."),
        Rule("TX002", "box-bytes-mismatch", "a copy's bytes differ from its tensor map's box",
             "A tensor copy completes the bytes of the whole box, out-of-bounds elements included.", _TENSOR_COPY,
             "The map's box is 64 x 128 bf16 elements and the copy claims 8192 bytes.",
             "box_bytes is the product of the box and the element's size."),
        Rule("TX003", "transaction-count-range", "more bytes are expected than a transaction count holds",
             "The transaction count is within -(2^20 - 1) to 2^20 - 1.", _MBARRIER + ": contents",
             "One slot expects 2 MiB.", "Split the slot over several phases."),
        Rule("TX004", "copy-outside-slot", "a copy writes outside its slot",
             "A copy writes its whole box: rows of the box times the swizzle's span, at the offset.", _TENSOR_COPY,
             "A box of 16384 bytes is put at offset 8192 of a slot of 16384 bytes.",
             "Make the slot hold every box, or correct the offset."),
        Rule("TX005", "copies-overlap", "two copies of one fill write the same bytes",
             "Copies in flight are not ordered among themselves.", "PTX ISA 8.9.1.1 (asynchronous operations)",
             "Two multicast boxes of 8192 bytes are 4096 bytes apart.", "Give each box its own bytes of the slot."),
        Rule("TX006", "copy-into-foreign-buffer", "a copy writes a buffer that its ring does not guard",
             "The barrier that a copy completes must be the one whose readers wait for those bytes.", _TRACKING,
             "A copy paid by ring ab goes into the staging buffer.", "Copy into a buffer guarded by the ring."),
        Rule("TX007", "issued-by-many-threads", "a copy is issued by more than one thread",
             "A copy is issued by each executing thread; a warp that runs one issues 32.", _TENSOR_COPY,
             "The producer's unit is warp32.", "Give copies to a role of one elected thread."),
        Rule("TX008", "coordinates-do-not-fit", "a copy's coordinates do not fit its tensor map",
             "A tensor copy takes one coordinate for each dimension of its map; the innermost one, in bytes, must be a "
             "multiple of 16, or the copy raises an illegal instruction.", _TENSOR_COPY + "; the multiple is measured",
             "A map of rank 2 gets three coordinates; a copy of bf16 elements starts at element 4.",
             "Give as many coordinates as the map has dimensions, and start at whole 16-byte chunks."),
        # ------------------------------------------------------------ bulk groups
        Rule("BG001", "staging-rewritten-while-read", "staging bytes are rewritten while a bulk store may read them",
             "The source of a bulk store may be modified only after wait_group (.read suffices) covers its group, and "
             "by other threads only after a barrier that follows the wait.", _BULK_GROUP,
             "Two staging slots, and bulk.wait_group allows two groups pending before the slot is rewritten.",
             "Wait until fewer groups are pending than there are slots, then synchronize the unit, then write."),
        Rule("BG002", "store-not-committed", "a bulk store belongs to no committed group",
             "wait_group waits for committed groups only.", _BULK_GROUP,
             "ac.tma.store with no ac.bulk.commit_group after it.", "Commit a group after the store."),
        Rule("BG003", "exit-with-stores-in-flight", "a CTA may end while a bulk store reads its shared memory",
             "Shared memory is given away when the CTA ends; its source must have been read by then.", _BULK_GROUP,
             "The role ends without ac.bulk.wait_group {pending = 0}.", "Wait for all groups at the role's end."),
        Rule("BG004", "store-differs-from-staging", "a bulk store reads other bytes than were staged",
             "A bulk tensor store reads its whole box from shared memory.", "PTX ISA 9.7.9.27.1.2",
             "64 x 64 elements of bf16 are staged and the box has 64 x 128.",
             "Stage exactly the map's box, in the slot that the store names."),
        # ------------------------------------------------------------ proxies
        Rule("PX001", "staging-not-fenced", "staged bytes are stored without a proxy fence",
             "Generic writes are visible to the async proxy only after each writer's fence.proxy.async, executed "
             "before the synchronization that lets the copy be issued.", _PROXY,
             "ac.stage.write is followed by a barrier and ac.tma.store, with no ac.fence.proxy_async.",
             "Fence between the write and the barrier."),
        Rule("PX002", "slot-not-fenced", "bytes that threads copied into a slot are multiplied without a proxy fence",
             "cp.async writes through the generic proxy and wgmma reads through the async proxy: a fence.proxy.async "
             "must stand between the wait for the copies and the wgmma, in every warp that issues it.", _PROXY,
             "A consumer waits for a slot that cp.async filled and multiplies it at once.",
             "Put ac.async_copy.fence between the wait for the full slot and ac.wgmma.issue."),
        # ------------------------------------------------------------ copies by threads
        Rule("CA001", "piece-size", "threads copy pieces of a size that cp.async does not have",
             "cp.async copies 4, 8 or 16 bytes.", _ASYNC_COPY,
             "piece_bytes is 2, because rows begin at multiples of 2 bytes.",
             "Use 4, 8 or 16; copy the array first where its rows allow none."),
        Rule("CA002", "piece-misaligned", "threads copy pieces that are not contiguous or not aligned",
             "cp.async reads and writes naturally aligned pieces of contiguous bytes.", _ASYNC_COPY,
             "Rows lie 8198 bytes apart and piece_bytes is 4.",
             "Use a piece that every stride and every coordinate's step is a multiple of."),
        Rule("CA003", "copies-without-arrival", "no arrival reports to readers that threads' copies have landed",
             "A cp.async completes at some later time; only a wait of its thread, or an arrival of its thread that was "
             "deferred until then, reports it.", _ASYNC_COPY,
             "A slot filled by ac.async_copy.issue is closed by ac.tx.close.",
             "End the fill with ac.async_copy.arrive."),
        # ------------------------------------------------------------ wgmma
        Rule("WG001", "group-not-committed", "a wgmma is waited for that belongs to no committed group",
             "wgmma.wait_group waits for committed groups only.", "PTX ISA 9.7.15.7.2-3 (wgmma groups)",
             "ac.wgmma.issue with no ac.wgmma.commit before the wait.", "Commit after the issue."),
        Rule("WG002", "released-while-read", "a slot is released while a wgmma may still read it",
             "Shared-memory operands may be overwritten only after wait_group covers the group that reads them.",
             "PTX ISA 9.7.15.7.3 (wgmma.wait_group)",
             "Two groups may be pending after the wait, and the previous slot is released.",
             "Lower `pending` until the group of the released slot is covered."),
        Rule("WG003", "accumulator-touched-in-flight", "an accumulator is touched before its wgmma is done",
             "Accumulator registers may be accessed only after wait_group covers their last wgmma.",
             "PTX ISA 9.7.15.7.3 (wgmma.wait_group)",
             "The epilogue waits with pending = 1 and then reads the accumulator.", "Wait with pending = 0."),
        Rule("WG004", "wgmma-not-fenced", "a wgmma starts without wgmma.fence after its registers were touched",
             "wgmma.fence orders register accesses before wgmma, except between wgmmas of the same shape that share an "
             "accumulator.", "PTX ISA 9.7.15.7.1 (wgmma.fence)",
             "The first wgmma of a tile has no ac.wgmma.fence before it.", "Fence before the first wgmma of a tile."),
        Rule("WG005", "accumulator-not-initialised", "a wgmma accumulates into something that is no accumulator",
             "With scale-d 1 the accumulator's old value is read; it must come from a wgmma of the same shape.", _WGMMA,
             "A loop carries an accumulator that no wgmma wrote.", "Let the first wgmma overwrite (no accumulator)."),
        Rule("WG006", "operand-outside-slot", "a wgmma reads outside its slot",
             "A wgmma reads all rows of its operands as its matrix descriptors place them.", _WGMMA_DESCRIPTOR,
             "The advance per 16-deep step runs past the slot.",
             "Correct the descriptor's strides, or enlarge the slot."),
        Rule("WG007", "operand-not-filled", "a wgmma reads bytes that no copy of the phase brings",
             "A phase's completion publishes only the bytes of its own copies.", _TRACKING,
             "The copies fill the first half of a slot and the wgmma reads all of it.",
             "Copy every byte that is read."),
        Rule("WG008", "descriptor-not-encodable", "a matrix descriptor cannot hold an address or stride",
             "Start, leading and stride offsets are multiples of 16 below 2^18; the matrix's pattern starts on the "
             "swizzle's period, since base_offset is 0.", _WGMMA_DESCRIPTOR,
             "a_stride_bytes is 1000.", "Use aligned strides."),
        Rule("WG009", "not-a-warpgroup", "a wgmma runs in a role that is not of warpgroups",
             "All 128 threads of a warpgroup execute wgmma together.", "PTX ISA 9.7.15.1 (warpgroup)",
             "ac.wgmma.issue in a role of one thread.", "Give wgmma to a role of warpgroup128 units."),
        Rule("WG010", "shape-not-supported", "no wgmma has this shape or element",
             "One wgmma computes 64 rows and 8 to 256 columns in steps of 8.", "PTX ISA 9.7.15.2 (wgmma shapes)",
             "n is 260.", "Choose m a multiple of 64 and n a multiple of 8 up to 256."),
        Rule("WG011", "operand-registers-in-flight", "A's registers are written while a wgmma may still read them",
             "Registers of A may be written only after wait_group covers the last wgmma that reads them.",
             "PTX ISA 9.7.15.7.3 (wgmma.wait_group)",
             "The next slot's A is moved to registers with one group still pending.",
             "Wait with pending = 0 before the registers are written again."),
        # ------------------------------------------------------------ tensor memory
        Rule("TC001", "tensor-memory-set-up", "tensor memory is not allocated before the roles, or not freed behind",
             "One warp allocates before the synchronization that precedes the roles and frees behind the one that "
             "follows them, each once; nothing is allocated after the permit was given up.", _ALLOCATION,
             "ac.tensor.dealloc stands before the ac.cta.sync that follows the roles.",
             "Initialise, allocate, synchronize; run the roles; synchronize, free."),
        Rule("TC002", "tensor-columns", "columns of tensor memory are not the unit's, not free, or not of this shape",
             "Each unit has an equal part of the columns, and what is written there must not touch what is still "
             "needed or what a product in flight reads.", "PTX ISA, Tensor Memory; tcgen05.mma: Matrix shape",
             "Two accumulators of 128 columns in a unit's part of 128.",
             "Allocate more columns, or begin at columns that are free."),
        Rule("TC003", "tensor-unit-not-met", "a product or a commit is issued before the unit's threads have met",
             "One thread issues for four warps: they must have met since they last read or wrote tensor memory, or "
             "waited for a product.", _TENSOR_ORDER,
             "The next product begins while a warp still reads the accumulator.", "Put ac.tensor.fence before it."),
        Rule("TC004", "tensor-product-not-committed", "a product is waited for that no commit covers",
             "A commit covers the products issued before it; its barrier takes one commit for each wait of the unit.",
             "PTX ISA 9.7.16 (tcgen05.commit)", "ac.tensor.wait with no ac.tensor.commit before it.",
             "Commit after the last product, and wait once."),
        Rule("TC005", "slot-of-the-issuer", "threads read a slot for which only the issuing warp has waited",
             "A wait orders what the waiting threads do next, and no others.", _PHASES,
             "ac.fragment.read takes a slot that was waited for with issuer = 1.", "Let all threads of the unit wait."),
        Rule("TC006", "pair-of-ctas", "the two CTAs of a pair do not act as one",
             "One role of the first CTA issues for both; what it waits for is signalled to it by both, what it signals "
             "goes to both; both allocate together, once both run.",
             "PTX ISA, tcgen05: CTA pair; tcgen05.commit, cp.async.bulk.tensor (.cta_group)",
             "A reader of the second CTA releases a slot of sums on its own barrier.",
             "Mark what signals the leading role with leader = 1, and what that role does with pair = 1."),
        # ------------------------------------------------------------ named barriers
        Rule("NB001", "barrier-out-of-range", "a named barrier's number is not free",
             "A CTA has barriers 0 to 15; barrier 0 serves the synchronization of the whole CTA.", _NAMED,
             "Two units use first_barrier 15.", "Choose numbers from 1 to 15."),
        Rule("NB002", "barrier-thread-count", "a named barrier counts other threads than take part",
             "The count must equal the threads that arrive, a multiple of 32.", _NAMED,
             "128 threads sync on a barrier of 256.", "Count the unit's threads."),
        Rule("NB003", "barrier-shared", "two roles, or two units, use the same named barrier",
             "Arrivals of unrelated threads complete each other's barrier.", _NAMED,
             "Roles load and math both use barrier 1.", "Give each role its own numbers."),
        Rule("NB004", "store-not-synchronised", "a bulk store may start before all threads have staged their bytes",
             "The issuing thread must be ordered after every writer's fence, by a barrier of the unit.",
             "PTX ISA 9.7.9.25.2, 9.7.13.1", "ac.tma.store takes fenced bytes that no barrier made ready.",
             "Synchronize the unit between the fence and the store."),
        # ------------------------------------------------------------ registers and threads
        Rule("SR001", "register-count-illegal", "a role's register count is no legal setmaxnreg operand",
             "The count is a multiple of 8 from 24 to 256.", _REGISTERS, "A role asks for 100 registers.",
             "Round to a multiple of 8 within 24 to 256."),
        Rule("SR002", "register-pool-overdrawn", "roles ask for more registers than the CTA has",
             "setmaxnreg.inc blocks until the CTA's pool has the registers: the sum over threads after all changes "
             "must not exceed the registers allocated at launch, at most 65536.", _REGISTERS,
             "Three warpgroups launch with 168 registers; one drops to 40 and two rise to 240.",
             "Lower the sum, or launch with more registers."),
        Rule("SR003", "roles-overlap", "two roles claim the same threads",
             "setmaxnreg and wgmma act on whole warpgroups, so each warpgroup plays one role.", _REGISTERS,
             "The producer and a consumer both begin at thread 0.", "Give each role its own warpgroups."),
        Rule("SR004", "role-not-aligned", "a role does not begin on its unit's boundary or runs past the CTA",
             "A warpgroup is four warps whose first warp's rank is a multiple of 4.", "PTX ISA 9.7.15.1 (warpgroup)",
             "A warpgroup role begins at thread 96.", "Begin roles at multiples of 128 (32 for warps)."),
        # ------------------------------------------------------------ liveness
        Rule("LV001", "token-dropped", "a linear token is never used",
             "A token stands for an obligation: to issue the bytes announced, to wait, to release.", _MODEL,
             "A reading token is neither waited for nor carried on: its slot is never released.",
             "Use the token, or carry it to the next iteration."),
        Rule("LV002", "token-used-twice", "a linear token is used twice",
             "An obligation is met once; twice signals a phase that is not this one's.", _MODEL,
             "The same retired slot is released twice.", "Use the newer token."),
        Rule("LV003", "token-crosses-loop", "a linear token enters a loop without being carried",
             "A loop body runs many times (or never), the token exists once.", _MODEL,
             "A phase obtained before a loop is used in its body.", "Carry the token as a loop value."),
        Rule("LV004", "trip-count-mismatch", "two roles use a ring different numbers of times",
             "Each fill must be read and released once by every reader: else a wait never returns, or a copy outlives "
             "its CTA.", _MODEL, "The producer fills K slots per tile and the consumer reads K - 1.",
             "Give both roles the same loops."),
        Rule("LV005", "deadlock", "every role that could signal is itself waiting",
             "A cycle of waits never resolves.", _MODEL,
             "A consumer holds one slot while waiting for the next, in a ring of one stage.",
             "Add stages, or release earlier."),
        Rule("LV006", "type-disagrees", "a value's type says something else than its history",
             "The type of a token states its ring, side and bytes; emission relies on it.", "derived: the dialect",
             "A result is typed !ac.tx<ab, 0> while 4096 announced bytes are left.", "Correct the type."),
        Rule("LV007", "loop-state-changes", "a loop's body does not restore the state it began with",
             "For all trip counts means: the state at the end of an iteration is the state at its beginning, moved on.",
             _MODEL, "A loop begins with no wgmma uncommitted and ends with one.", "Restore the state in the body."),
        Rule("LV008", "wrong-token", "an operation takes a token of another kind",
             "Each operation consumes the token that proves its precondition.", "derived: the dialect",
             "A bulk store takes bytes that another role staged.", "Use the token of the operation before."),
        Rule("LV009", "symbol-below-minimum", "a trip count is less than the least one declared",
             "The proof covers values from the declared minimum on.", "derived: the dialect",
             "minima says K >= 4 and K is 3.", "Lower the minimum."),
        # ------------------------------------------------------------ shared-memory layout
        Rule("AL001", "barrier-misaligned", "an mbarrier is not aligned to 8 bytes",
             "An mbarrier is a 64-bit object in shared memory, naturally aligned.", _MBARRIER + ": contents",
             "A ring is placed at byte 1028.", "Place rings at multiples of 8."),
        Rule("AL002", "slot-misaligned", "a slot does not begin where its swizzle pattern begins",
             "Tensor copies need 128-byte alignment; the pattern repeats every 1024, 512 or 256 bytes for spans of "
             "128, 64 and 32.", _SWIZZLE, "A 128B-swizzled buffer is placed at byte 512.",
             "Align buffers and slots to the pattern."),
        Rule("AL003", "shared-memory-overlap", "two objects share bytes of shared memory",
             "Two objects that share bytes race, and any non-mbarrier access to an mbarrier is undefined.",
             _MBARRIER + ": init", "The staging buffer begins inside the last slot of a.", "Move one of them."),
        Rule("AL004", "beyond-shared-memory", "an object ends beyond the kernel's dynamic shared memory",
             "Only dynamic_smem_bytes bytes are allocated at launch.", "CUDA C++ Programming Guide, shared memory",
             "Buffers end at 200704 and dynamic_smem_bytes is 196608.", "Raise dynamic_smem_bytes."),
        Rule("AL005", "swizzle-disagrees", "a tensor map and its buffer use different swizzles",
             "The copy places bytes by the map's swizzle, the reader finds them by the buffer's.", _SWIZZLE,
             "The map says 64B and the buffer 128B.", "Use one swizzle for both."),
        # ------------------------------------------------------------ clusters
        Rule("CL001", "cluster-exit-not-synchronised", "a CTA may end while its cluster still reaches into it",
             "A CTA's shared memory must exist until every remote copy and arrival on it is done.", _CLUSTER,
             "Multicast copies, and no ac.cluster.sync after the roles.", "Synchronize the cluster after the roles."),
        Rule("CL002", "multicast-width", "a multicast does not reach the cluster it is said to reach",
             "A multicast copy writes and signals each CTA of its mask; every one must expect it.", _TENSOR_COPY,
             "multicast is 4 in a cluster of 2 CTAs.", "multicast is 1 or the number of CTAs of the cluster."),
        Rule("CL003", "released-to-too-few-peers", "a slot is refilled by a CTA whose peers may still read it",
             "A slot filled by multicast is free only when every CTA of the cluster has released it.",
             "derived: " + _TENSOR_COPY, "Copies are multicast and consumers arrive only on their own barrier.",
             "Arrive on the empty barriers of all CTAs of the cluster, and count those arrivals."),
        Rule("CL004", "init-not-synchronised-in-cluster", "a peer may reach barriers that are not yet initialised",
             "Before touching a peer's shared memory, its start and its inits must be ordered by a cluster barrier.",
             _CLUSTER, "A cluster of 2 synchronizes with ac.cta.sync after the inits.",
             "Use ac.cluster.sync after the inits."),
    )
}  # fmt: skip
"""Every rule by its code."""
