"""Which rules of tensor memory does a run on the machine enforce? Rows of `rules.MACHINE_RULES`.

Source: PTX ISA, TensorCore 5th Generation Family Instructions. Checked by: tests/machine/core/test_rules.py and
test_tcgen05.py.
"""

from __future__ import annotations

_FAMILY = "PTX ISA, TensorCore 5th Generation Family Instructions"
_ALLOCATION = "PTX ISA, Tensor Memory Allocation and Management Instructions"

TENSOR_RULES: tuple[tuple[str, str, str, str, str, str, str], ...] = (
    (
        "TC201",
        "tensor-memory-columns",
        "tcgen05.alloc or dealloc with an illegal number of columns",
        "The number of columns is a power of two from 32 to 512, the same in all threads of the warp.",
        _ALLOCATION,
        "A tile of 96 columns is allocated with nCols 96.",
        "Round the number of columns up to a power of two of at least 32.",
    ),
    (
        "TC202",
        "allocation-grows",
        "a later tcgen05.alloc asks for more columns than an earlier one",
        "The number of columns must not increase between two allocations of a CTA in execution order.",
        _ALLOCATION,
        "64 columns for the scale factors are allocated before 256 for the accumulator.",
        "Allocate the largest block first, or everything at once.",
    ),
    (
        "TC203",
        "allocate-after-relinquish",
        "tcgen05.alloc after tcgen05.relinquish_alloc_permit",
        "Once a thread of the CTA has given up the permit, no thread of it may allocate.",
        _ALLOCATION,
        "A second tile allocates tensor memory after the permit was relinquished behind the first allocation.",
        "Relinquish the permit after the last allocation.",
    ),
    (
        "TC204",
        "deallocate-unallocated",
        "tcgen05.dealloc of columns that are no live allocation",
        "The address and number of columns must be those of an allocation that was not freed before.",
        _ALLOCATION,
        "The epilogue frees 256 columns of an allocation of 512, or frees the same block twice.",
        "Free exactly what was allocated, once.",
    ),
    (
        "TC205",
        "tensor-memory-leak",
        "a CTA exits while it holds tensor memory",
        "All tensor memory that a kernel allocates must be deallocated before the kernel ends.",
        _ALLOCATION,
        "The early return of CTAs without work skips the deallocation.",
        "Deallocate on every path to the exit.",
    ),
    (
        "TC206",
        "unallocated-tensor-memory",
        "a tcgen05 instruction touches tensor memory that is not allocated",
        "Every lane and column that an instruction touches must belong to a live allocation of its CTA.",
        _ALLOCATION,
        "An accumulator of 256 columns is written into an allocation of 128.",
        "Enlarge the allocation, or correct the address.",
    ),
    (
        "TC207",
        "tensor-memory-lanes",
        "an address in tensor memory names lanes that the instruction cannot reach",
        "Warp w of a CTA loads and stores lanes 32 (w mod 4) to 32 (w mod 4) + 31; operands of tcgen05.mma begin at "
        "lane 0, or at lane 16 where M is 64; tcgen05.shift begins at a multiple of 32.",
        f"{_FAMILY}: Access restrictions; Data path layout organization",
        "Warp 1 loads from an address whose lane is 64, or 8.",
        "Add (w mod 4) << 21 to the address.",
    ),
    (
        "TC208",
        "instruction-descriptor",
        "the instruction descriptor of tcgen05.mma is illegal, or does not fit its operands",
        "Types, shape and transposes must be among those of the kind and of the CTA group; reserved bits are zero.",
        f"{_FAMILY}: Instruction descriptor; Matrix shape",
        "N is stored without its division by 8.",
        "Encode M >> 4, N >> 3 and the types as the kind's table says.",
    ),
    (
        "TC209",
        "shared-memory-descriptor",
        "a shared-memory descriptor is illegal for tcgen05",
        "Bits 48 to 46 are 0b001, bits 63 to 61 one of the five layouts, the other spare bits zero, and the layout "
        "must exist for the operand's type and major dimension.",
        f"{_FAMILY}: Shared memory descriptor",
        "A descriptor built for wgmma is passed on.",
        "Build the descriptor for sm_100: constant 0b001 and the new layout numbers.",
    ),
    (
        "TC210",
        "cta-groups-mixed",
        "tcgen05 instructions of both cta_group::1 and cta_group::2 in one CTA",
        "All tcgen05 instructions of a kernel specify the same .cta_group.",
        f"{_FAMILY}: CTA pair",
        "Memory is allocated with cta_group::1 and multiplied into with cta_group::2.",
        "Use one .cta_group throughout.",
    ),
    (
        "TC211",
        "no-cta-pair",
        "cta_group::2 without a pair of CTAs",
        "Two CTAs of a cluster whose ranks differ in the last bit make a pair; both must be there.",
        f"{_FAMILY}: CTA pair",
        "The kernel is launched with clusters of one CTA.",
        "Launch clusters with an even number of CTAs.",
    ),
    (
        "TC212",
        "pair-disagrees",
        "the two CTAs of a pair allocate different numbers of columns",
        "tcgen05.alloc.cta_group::2 is one operation of both CTAs, with one number of columns.",
        _ALLOCATION,
        "The leader asks for 512 columns, its peer for 256.",
        "Allocate the same number of columns in both CTAs.",
    ),
    (
        "TC213",
        "many-threads",
        "more than one thread of a warp issues one tcgen05.mma, cp, shift or commit",
        "These instructions are issued by a single thread.",
        f"{_FAMILY}: Issue granularity",
        "tcgen05.mma stands outside the branch of the elected thread.",
        "Elect one thread (elect.sync) and guard the instruction with it.",
    ),
)
