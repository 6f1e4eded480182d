"""The judge's rules of tcgen05 and tensor memory, with their remedies.

Codes from TC101; the machine has TC201 and up. Checked by: tests/contract/judge/test_tensor_memory.py.
"""

from __future__ import annotations

from tilewright.contract.rules.typestate_codes import Rule

_ALLOCATION = "PTX ISA 9.7.16.7 (tcgen05.alloc, dealloc, relinquish_alloc_permit)"
_ORDER = "PTX ISA 9.7.16.6 (tcgen05: memory consistency model)"
_COMMIT = "PTX ISA 9.7.16.12 (tcgen05.commit)"
_WAIT = "PTX ISA 9.7.16.8 (tcgen05.ld, st, wait)"

TENSOR_RULES: tuple[Rule, ...] = (
    Rule("TC103", "deallocated-in-use", "columns are deallocated while an operation may still use them",
         "Every access to the columns, in both CTAs of a pair, must be complete before they are deallocated.",
         _ALLOCATION, "The epilogue's tcgen05.ld is not waited for when another warp deallocates.",
         "Wait for the operations, synchronize their threads with the deallocating warp, then deallocate."),
    Rule("TC104", "allocation-not-ordered", "tensor memory is used by who may not have its address yet",
         "tcgen05.alloc writes the address by an ordinary store: readers must be ordered after it.", _ALLOCATION,
         "A warp reads the address from shared memory with no bar.sync after the tcgen05.alloc.",
         "Put bar.sync between tcgen05.alloc and the reads of the address."),
    Rule("TC106", "cta-groups-differ", "tcgen05 instructions of a kernel name different cta_group",
         "All tcgen05 instructions of a kernel use one value of .cta_group.", _ALLOCATION,
         "tcgen05.alloc.cta_group::1 and tcgen05.mma.cta_group::2 in one kernel.", "Use one cta_group."),
    Rule("TC107", "tensor-operation-not-awaited", "the result of an mma, cp or shift is touched before it is complete",
         "They are complete for who waits on an mbarrier that a later tcgen05.commit of their thread signals.", _COMMIT,
         "The epilogue loads the accumulator without waiting on the barrier of the commit.",
         "Wait for the commit's barrier, then tcgen05.fence::after_thread_sync."),
    Rule("TC108", "tensor-store-not-awaited", "tensor memory is used before a tcgen05.st to it is waited for",
         "A tcgen05.st is complete once its warp has executed tcgen05.wait::st.", _WAIT,
         "Softmax stores P and signals the mma warp without tcgen05.wait::st.",
         "Put tcgen05.wait::st before the arrival."),
    Rule("TC109", "tensor-load-not-awaited", "tensor memory is overwritten before a tcgen05.ld of it is waited for",
         "A tcgen05.ld is complete once its warp has executed tcgen05.wait::ld.", _WAIT,
         "The epilogue releases the accumulator before tcgen05.wait::ld.",
         "Put tcgen05.wait::ld before the arrival that releases the columns."),
    Rule("TC110", "operand-overwritten", "shared memory is overwritten while a tcgen05 operation may still read it",
         "Operands in shared memory may be overwritten once a commit that covers the operation has been observed.",
         _COMMIT, "A slot is refilled without waiting for the commit of the mma that reads it.",
         "Let tcgen05.commit signal the slot's empty barrier, and wait on it before the refill."),
    Rule("TC111", "thread-sync-fence-missing", "a tcgen05.fence lacks around a synchronization of two threads",
         "tcgen05 operations of different threads are ordered by fence::before_thread_sync, a synchronization, and "
         "fence::after_thread_sync; a commit implies the first.", _ORDER,
         "tcgen05.wait::st, bar.sync, tcgen05.mma, with no tcgen05.fence.",
         "Put tcgen05.fence::before_thread_sync before, ::after_thread_sync after the synchronization."),
    Rule("TC112", "tensor-register-before-wait", "a register of a tcgen05.ld or st in flight is touched",
         "Registers of a tcgen05.ld hold its result after tcgen05.wait::ld; those of a tcgen05.st are free after "
         "tcgen05.wait::st.", _WAIT, "A register is added to right after the tcgen05.ld that fills it.",
         "Put tcgen05.wait between the two."),
    Rule("TC113", "tensor-operations-unordered", "one thread's tcgen05 operations touch the same cells out of order",
         "Of one thread's operations, only mma after mma of the same accumulator and shape, mma after cp or shift, cp "
         "after shift and shift after mma run in order.", _ORDER,
         "tcgen05.cp overwrites scale factors that the mma before it may still read.",
         "Commit, wait for the barrier, then issue the second; or use other columns."),
    Rule("TC114", "tensor-operation-not-committed", "no tcgen05.commit follows an operation",
         "Only a commit reports the completion of mma, cp and shift.", _COMMIT,
         "The last mma of a kernel is not committed.", "Execute tcgen05.commit after it, and wait for its barrier."),
    Rule("TC115", "tensor-access-never-awaited", "no tcgen05.wait follows a tcgen05.ld or st",
         "A load's registers, and a store's cells, are undefined until tcgen05.wait.", _WAIT,
         "A tcgen05.ld whose tcgen05.wait::ld was removed.", "Put tcgen05.wait::ld (wait::st) after it."),
    Rule("TC116", "commit-of-nothing", "a tcgen05.commit for a pair of CTAs has nothing to commit",
         "The ISA does not say which CTAs' barriers a commit without pending operations reaches.", _COMMIT,
         "A loop of zero trips is followed by tcgen05.commit.cta_group::2.", "Skip the commit, or arrive by mbarrier."),
    Rule("TC117", "pair-may-not-run", "a pair's tensor memory is allocated before the peer is known to run",
         "Who issues tcgen05.alloc.cta_group::2 ensures that the peer is launched and takes part.", _ALLOCATION,
         "tcgen05.alloc.cta_group::2 is the first instruction of a kernel.",
         "Put barrier.cluster.arrive and wait before the allocation."),
    Rule("TC118", "tensor-memory-race", "two threads touch the same cells of tensor memory and nothing orders them",
         "Conflicting tcgen05 operations of different threads must be ordered by a synchronization.", _ORDER,
         "A warp loads columns while another stores to them.", "Synchronize the two between the operations."),
    Rule("TC121", "columns-never-free", "tcgen05.alloc waits for columns that nobody deallocates",
         "tcgen05.alloc waits until enough columns are free, and for the peer with .cta_group::2.", _ALLOCATION,
         "Two allocations of 512 columns in one CTA.", "Deallocate before the allocation, or allocate fewer columns."),
    Rule("TC119", "tensor-operation-at-exit", "a CTA ends while a committed operation may be in flight",
         "Somebody must have observed the commit, or a later one of its thread, before the CTA ends.", _COMMIT,
         "The last commit's barrier is never waited on.", "Wait for the commit's barrier before the end."),
    Rule("TC120", "lanes-of-another-warp", "a warp's tcgen05.ld or st names lanes of the first quarter",
         "Warp w of a CTA reaches lanes 32 (w mod 4) to 32 (w mod 4) + 31, and its address names them.", _WAIT,
         "All warps of the epilogue load from the accumulator's address.", "Add (w mod 4) << 21 to the address."),
    Rule("TC122", "tensor-memory-unwritten", "tensor memory is read that nobody has written",
         "Columns hold nothing when they are allocated: what is read there before it is written is whatever was left. "
         "An mma that accumulates reads D, one with scale factors or A in tensor memory reads these.",
         "PTX ISA 9.7.16.1 (tensor memory), 9.7.16.7",
         "The first mma of a tile accumulates (enable-input-d is true) and nobody has stored zeros.",
         "Let the first mma of each tile overwrite D, and write every operand before it is read."),
)  # fmt: skip
"""Rules of the TC family."""
