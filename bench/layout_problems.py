"""Forty tiles in shared memory that published kernels have, each with everyone who accesses it.

What is taken from a publication is the tile and its accesses, never its answer: the placement is for
`legal.bank.swizzle_choice` to find. Accesses cover the whole tile once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.legal.bank.access_kind import access_kind
from tilewright.legal.bank.placement import Buffer, BufferAccess, Digit, Engine

_FIRST_LANES = (Digit(8, 1), Digit(2, 8), Digit(2, 0, 16))
_CUTLASS = "NVIDIA/cutlass, "
_FLASH = "Dao-AILab/flash-attention, csrc/flash_attn/src/kernel_traits.h"
_LINEAR = "Linear Layouts, arXiv 2505.23819, layout conversions"
_KITTENS = "ROCm blog, Avoiding LDS Bank Conflicts on AMD GPUs Using CK-Tile Framework"


@dataclass(frozen=True)
class Problem:
    """One tile. group: what kind of problem; source: where it was published."""

    name: str
    group: str
    target: str
    buffer: Buffer
    source: str


def matrices(rows: int, row_bytes: int, kind: str = "ldmatrix.x4") -> BufferAccess:
    """`ldmatrix` or `stmatrix` of the whole tile, 16 rows of 32 bytes at a time; transposing changes no address."""
    return BufferAccess(kind, _FIRST_LANES, (Digit(rows // 16, 16), Digit(row_bytes // 32, 0, 32)))


def along_rows(kind: str, rows: int, row_bytes: int, lanes: int = 32) -> BufferAccess:
    """Consecutive lanes take consecutive vectors of a row, then the next row."""
    width = access_kind(kind).lane_bytes
    vectors = row_bytes // width
    across = min(lanes, vectors & -vectors)
    down = lanes // across
    loops = (Digit(vectors // across, 0, across * width), Digit(rows // down, down))
    return BufferAccess(kind, (Digit(across, 0, width), Digit(down, 1)), loops)


def along_columns(kind: str, rows: int, row_bytes: int, lanes: int = 32) -> BufferAccess:
    """Consecutive lanes take the same vector of consecutive rows, then the next vector."""
    width = access_kind(kind).lane_bytes
    down = min(lanes, rows)
    across = lanes // down
    loops = (Digit(rows // down, down), Digit(row_bytes // (width * across), 0, width * across))
    return BufferAccess(kind, (Digit(down, 1), Digit(across, 0, width)), loops)


def accumulators(kind: str, rows: int, row_bytes: int) -> BufferAccess:
    """The accumulators of mma and wgmma: four lanes to a row, eight rows; each lane two neighbours."""
    width = access_kind(kind).lane_bytes
    loops = (Digit(rows // 8, 8), Digit(row_bytes // (4 * width), 0, 4 * width))
    return BufferAccess(kind, (Digit(4, 0, width), Digit(8, 1)), loops)


def matrix_cores(kind: str, rows: int, row_bytes: int, side: int = 16) -> BufferAccess:
    """An operand of MFMA: 16 or 32 rows, and the other lanes further right."""
    width = access_kind(kind).lane_bytes
    across = 64 // side
    loops = (Digit(rows // side, side), Digit(row_bytes // (across * width), 0, across * width))
    return BufferAccess(kind, (Digit(side, 1), Digit(across, 0, width)), loops)


def strided(
    kind: str, bits: list[int], extra: tuple[tuple[int, int], ...], row_bytes: int, lanes: int = 5
) -> BufferAccess:
    """A flat array in rows of `row_bytes`: for each bit of the thread number its stride in bytes, and further loops."""

    def digit(count: int, stride: int) -> list[Digit]:
        found: list[Digit] = []
        for bit in range(count.bit_length() - 1):
            step = stride << bit
            found.append(Digit(2, step // row_bytes, step % row_bytes))
        return found

    every = [digit(2, stride)[0] for stride in bits]
    loops = [each for count, stride in extra for each in digit(count, stride)]
    return BufferAccess(kind, tuple(every[:lanes]), (*every[lanes:], *loops))


def fourier(points: int, radix: int) -> Buffer:
    """All stages of Stockham's transform of complex numbers in place of one another: N / radix threads."""
    element, row_bytes = 8, 128
    threads = points // radix
    accesses: list[BufferAccess] = []
    stride = 1
    while stride < points:
        bits = [
            element << bit if 1 << bit < stride else (element * radix) << bit for bit in range(threads.bit_length() - 1)
        ]
        accesses.append(strided("st.shared.b64", bits, ((radix, element * stride),), row_bytes))
        stride *= radix
    reads = [element << bit for bit in range(threads.bit_length() - 1)]
    accesses.append(strided("ld.shared.b64", reads, ((radix, element * threads),), row_bytes))
    return Buffer(points * element // row_bytes, row_bytes, tuple(accesses))


def reduction(words: int) -> Buffer:
    """Every level of a tree over words, as long as it fills a warp: level n reads at strides of 2^n."""
    levels = [
        strided("ld.shared.b32", [4 << level << bit for bit in range((words >> level).bit_length() - 1)], (), 128)
        for level in range(1, words.bit_length() - 5)
    ]
    return Buffer(words * 4 // 128, 128, tuple(levels))


def _tile(rows: int, row_bytes: int, *accesses: BufferAccess, engines: tuple[Engine, ...] = ()) -> Buffer:
    return Buffer(rows, row_bytes, accesses, engines)


def _copied(rows: int, row_bytes: int, *reads: BufferAccess) -> Buffer:
    """Written by rows in 16 bytes a lane, as cp.async and plain copies do."""
    return Buffer(rows, row_bytes, (along_rows("st.shared.b128", rows, row_bytes), *reads))


def problems() -> tuple[Problem, ...]:
    """The forty, by group."""
    found = (*_operands(), *_attention(), *_transposes(), *_epilogues(), *_strides())
    assert len(found) == len({each.name for each in found}) == 40
    return found


def _operands() -> Iterator[Problem]:
    gmma = _CUTLASS + "include/cute/atom/mma_traits_sm90_gmma.hpp"
    for name, rows, row_bytes in (
        ("bf16 128x64, K contiguous", 128, 128),
        ("fp8 128x128, K contiguous", 128, 128),
        ("bf16 64x128, N contiguous", 64, 256),
        ("tf32 128x16, K contiguous", 128, 64),
        ("bf16 128x16, K contiguous", 128, 32),
    ):
        yield Problem(f"TMA to wgmma: {name}", "GEMM operand", "sm_90a",
                      _tile(rows, row_bytes, engines=("tma", "wgmma")), gmma)  # fmt: skip
    yield Problem("TMA to tcgen05: bf16 128x64, K contiguous", "GEMM operand", "sm_100a",
                  _tile(128, 128, engines=("tma", "tcgen05")),
                  _CUTLASS + "include/cute/atom/mma_traits_sm100.hpp")  # fmt: skip
    yield Problem("TMA to ldmatrix: bf16 128x64", "GEMM operand", "sm_90a",
                  _tile(128, 128, matrices(128, 128), engines=("tma",)),
                  _CUTLASS + "include/cutlass/gemm/collective/sm90_mma_tma_gmma_rs_warpspecialized.hpp")  # fmt: skip
    ampere = _CUTLASS + "examples/cute/tutorial/sgemm_sm80.cu"
    yield Problem("cp.async to ldmatrix: f16 128x64", "GEMM operand", "sm_90a",
                  _copied(128, 128, matrices(128, 128)), ampere)  # fmt: skip
    yield Problem("cp.async to ldmatrix: f16 128x32", "GEMM operand", "sm_90a",
                  _copied(128, 64, matrices(128, 64)), ampere)  # fmt: skip
    yield Problem("cp.async to ldmatrix: int8 128x64", "GEMM operand", "sm_90a", _copied(128, 64, matrices(128, 64)),
                  _CUTLASS + "include/cutlass/gemm/threadblock/default_mma_core_sm80.h")  # fmt: skip
    yield Problem("transposed while stored: f32 8x128", "GEMM operand", "sm_90a",
                  _tile(8, 512, BufferAccess("st.shared.b32", (Digit(2, 4), Digit(16, 0, 4)),
                                             (Digit(4, 1), Digit(8, 0, 64))),
                        along_rows("ld.shared.b128", 8, 512)),
                  "S. Boehm, How to Optimize a CUDA Matmul Kernel, kernels 6 to 8")  # fmt: skip
    yield Problem("Marlin: f16 activations 64x64", "GEMM operand", "sm_90a", _copied(64, 128, matrices(64, 128)),
                  "Marlin, arXiv 2408.11743, shared memory layout of activations")  # fmt: skip
    for name, rows, row_bytes, side in (("bf16 128x64, 16x16", 128, 128, 16), ("bf16 128x32, 32x32", 128, 64, 32)):
        yield Problem(f"MFMA: {name}", "GEMM operand", "gfx942",
                      _tile(rows, row_bytes, along_rows("ds_write_b128", rows, row_bytes, 64),
                            matrix_cores("ds_read_b128", rows, row_bytes, side)), _KITTENS)  # fmt: skip
    yield Problem("MFMA: bf16 128x64, 16x16, reads alone", "GEMM operand", "gfx950",
                  _tile(128, 128, matrix_cores("ds_read_b128", 128, 128)),
                  "triton-lang/triton, pull request 11365")  # fmt: skip


def _attention() -> Iterator[Problem]:
    for name, rows, row_bytes in (
        ("Q and K, head 64", 128, 128),
        ("K, head 128", 64, 256),
        ("K, head 96", 64, 192),
        ("K, head 256", 64, 512),
    ):
        yield Problem(f"attention: {name}", "attention", "sm_90a",
                      _copied(rows, row_bytes, matrices(rows, row_bytes)), _FLASH)  # fmt: skip
    yield Problem("attention: V transposed by ldmatrix, head 128", "attention", "sm_90a",
                  _copied(64, 256, matrices(64, 256, "ldmatrix.x4.trans")), _FLASH)  # fmt: skip
    yield Problem("attention: P through shared memory, 128x64", "attention", "sm_90a",
                  _tile(128, 128, accumulators("st.shared.b32", 128, 128), matrices(128, 128)),
                  "FlashAttention, arXiv 2205.14135, its fused kernels")  # fmt: skip
    yield Problem("attention: O through shared memory, head 128", "attention", "sm_90a",
                  _tile(64, 256, accumulators("st.shared.b32", 64, 256), along_rows("ld.shared.b128", 64, 256)),
                  _FLASH)  # fmt: skip
    yield Problem("attention: fp8 V transposed in the kernel", "attention", "sm_90a",
                  _tile(128, 128, matrices(128, 128, "ldmatrix.x4.trans"), matrices(128, 128, "stmatrix.x4"),
                        engines=("tma", "wgmma")),
                  "FlashAttention-3, arXiv 2407.08608, section 3.3")  # fmt: skip
    yield Problem("attention: K, head 256, reads alone", "attention", "gfx950",
                  _tile(64, 512, matrix_cores("ds_read_b128", 64, 512)),
                  "ROCm/rocm-libraries, pull request 9260")  # fmt: skip


def _transposes() -> Iterator[Problem]:
    harris = "M. Harris, An Efficient Matrix Transpose in CUDA C/C++"
    for name, rows, row_bytes, store, load, source in (
        ("f32 32x32", 32, 128, "st.shared.b32", "ld.shared.b32", harris),
        ("complex64 32x32", 32, 256, "st.shared.b64", "ld.shared.b64", harris),
        ("f32 64x64, rows of 16 bytes a lane", 64, 256, "st.shared.b128", "ld.shared.b32", _LINEAR),
        ("f16 64x64, rows of 4 bytes a lane", 64, 128, "st.shared.b32", "ld.shared.b16", _LINEAR),
        ("int8 64x64, rows of 4 bytes a lane", 64, 64, "st.shared.b32", "ld.shared.b8", _LINEAR),
        ("int8 128x128, rows of 16 bytes a lane", 128, 128, "st.shared.b128", "ld.shared.b8", _LINEAR),
    ):
        yield Problem(f"transpose: {name}", "transpose", "sm_90a",
                      _tile(rows, row_bytes, along_rows(store, rows, row_bytes), along_columns(load, rows, row_bytes)),
                      source)  # fmt: skip
    yield Problem("transpose: f16 64x64 by stmatrix", "transpose", "sm_90a",
                  _tile(64, 128, matrices(64, 128, "stmatrix.x4.trans"), along_rows("ld.shared.b128", 64, 128)),
                  _LINEAR)  # fmt: skip
    yield Problem("transpose: f16 64x64, rows of 16 bytes a lane", "transpose", "gfx942",
                  _tile(64, 128, along_rows("ds_write_b128", 64, 128, 64), along_columns("ds_read_u16", 64, 128, 64)),
                  "ROCm/composable_kernel, LDS Bank Conflicts on CDNA")  # fmt: skip


def _epilogues() -> Iterator[Problem]:
    hopper = _CUTLASS + "include/cutlass/epilogue/collective/builders/sm90_builder.inl"
    yield Problem("epilogue: bf16 64x64, stmatrix to TMA", "epilogue", "sm_90a",
                  _tile(64, 128, matrices(64, 128, "stmatrix.x4"), engines=("tma",)), hopper)  # fmt: skip
    yield Problem("epilogue: f32 64x32, accumulators to TMA", "epilogue", "sm_90a",
                  _tile(64, 128, accumulators("st.shared.b64", 64, 128), engines=("tma",)), hopper)  # fmt: skip
    yield Problem("epilogue: f32 128x128, accumulators to rows", "epilogue", "sm_90a",
                  _tile(128, 512, accumulators("st.shared.b64", 128, 512), along_rows("ld.shared.b128", 128, 512)),
                  _CUTLASS + "include/cutlass/epilogue/threadblock/default_epilogue_tensor_op.h")  # fmt: skip
    yield Problem("epilogue: bf16 128x128, accumulators to rows", "epilogue", "sm_90a",
                  _tile(128, 256, accumulators("st.shared.b32", 128, 256), along_rows("ld.shared.b128", 128, 256)),
                  _CUTLASS + "include/cutlass/epilogue/threadblock/default_epilogue_tensor_op.h")  # fmt: skip
    yield Problem("epilogue: f32 32x32, a row of tensor memory a lane, to TMA", "epilogue", "sm_100a",
                  _tile(32, 128, along_columns("st.shared.b128", 32, 128), engines=("tma",)),
                  _CUTLASS + "include/cutlass/epilogue/collective/builders/sm100_builder.inl")  # fmt: skip


def _strides() -> Iterator[Problem]:
    volkov = "V. Volkov and B. Kazian, Fitting FFT onto the G80 Architecture, 2008"
    govindaraju = "N. Govindaraju and others, High Performance Discrete Fourier Transforms on Graphics Processors, 2008"
    yield Problem("FFT: 4096 complex numbers, radix 4", "strides", "sm_90a", fourier(4096, 4), govindaraju)
    yield Problem("FFT: 4096 complex numbers, radix 16", "strides", "sm_90a", fourier(4096, 16), volkov)
    yield Problem("tree reduction: 1024 words", "strides", "sm_90a", reduction(1024),
                  "M. Harris, Optimizing Parallel Reduction in CUDA, interleaved addressing")  # fmt: skip
