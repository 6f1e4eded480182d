"""What does one `wgmma.mma_async` read and compute: which bytes of shared memory are A and B, and what becomes of D?

Theory: PTX ISA 9.7.15.5 "Asynchronous wgmma", matrix descriptors 9.7.15.5.1.2.2, canonical layouts 9.7.15.5.1.2.1. An
operand tile is made of core matrices of 8 rows of 16 bytes. With a swizzle of W bytes, eight rows of W bytes form an
atom; the XOR acts on the absolute shared address, as for the copy engine (`swizzle`). Byte distances of element
(row i, depth k), before the XOR, with e bytes an element, T = 16 / e and S = W / e:

| major | swizzle | distance |
| k     | none    | (i % 8) * 16 + (i / 8) * stride + (k / T) * leading + (k % T) * e |
| k     | W       | (i % 8) * W + (i / 8) * stride + k * e |
| mn    | none    | (i % T) * e + (i / T) * stride + (k % 8) * 16 + (k / 8) * leading |
| mn    | W       | (i % S) * e + (i / S) * leading + (k % 8) * W + (k / 8) * stride |

Numbers: operands are converted to float32 exactly (tf32 drops the low 13 bits), and a product of two, of at most 22
bits, is exact in float32 unless it underflows or overflows. Sums are float32, in NumPy's order; the hardware's order
and rounding of a sum are not stated by the ISA (and fp8 is known to keep fewer bits), so results agree up to rounding,
and exactly where every partial sum is exact. 8-bit integer products are summed exactly.

Single bits are read a byte at a time: a byte is eight elements of 0 or 1, lowest first.

Not handled: what sparse products compute.
Checked by: `tests/machine/tensor_core/test_tensor_core.py`, against products that an H200 made of random descriptors of
all kinds, and against tiles that the copy engine's model wrote.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.base.plan import Swizzle
from tilewright.base.value import dataclass
from tilewright.machine.copy.box import merged
from tilewright.machine.copy.swizzle import SPAN_BYTES, swizzled
from tilewright.machine.core.distinct import distinct
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.core.event import Ranges
from tilewright.targets.operand_bits import WGMMA_RESERVED, base_offset_of, offsets_of

Major = Literal["k", "mn"]
OperandType = Literal["f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8", "b1"]

ELEMENT_BYTES: dict[OperandType, int] = {
    "f16": 2,
    "bf16": 2,
    "tf32": 4,
    "e4m3": 1,
    "e5m2": 1,
    "s8": 1,
    "u8": 1,
    "b1": 1,
}

_SWIZZLES: tuple[Swizzle, ...] = ("none", "128B", "64B", "32B")


@dataclass(frozen=True, slots=True)
class MatrixDescriptor:
    """A decoded 64-bit wgmma matrix descriptor; addresses and distances in bytes.

    base_offset: index, modulo 8, of the 128-byte line at which the swizzle pattern starts; 0 for aligned patterns.
    """

    start_address: int
    leading_bytes: int
    stride_bytes: int
    base_offset: int
    swizzle: Swizzle


def decode_descriptor(descriptor: int) -> MatrixDescriptor:
    """The fields of a descriptor. Raises EngineFault `matrix-descriptor` on reserved bits that are set."""
    if descriptor & WGMMA_RESERVED or not 0 <= descriptor < 1 << 64:
        raise EngineFault("MF007", "matrix-descriptor", f"matrix descriptor {descriptor:#018x} has reserved bits set")
    return MatrixDescriptor(*offsets_of(descriptor), base_offset_of(descriptor), _SWIZZLES[descriptor >> 62 & 3])


def operand_addresses(descriptor: int, rows: int, depth: int, element_bytes: int, major: Major) -> NDArray[np.int64]:
    """Absolute shared byte address of each element of an operand tile. [rows, depth]

    rows: M or N; depth: K, in elements. A is rows x depth; B is given transposed, N x K.
    """
    fields = decode_descriptor(descriptor)
    if major == "mn" and element_bytes != 2:
        raise EngineFault("MF007", "wgmma-shape", "only operands of 16-bit elements may be MN-major in shared memory")
    distances = _distances(rows, depth, element_bytes, major, fields.leading_bytes, fields.stride_bytes, fields.swizzle)
    addresses = distances + fields.start_address
    if fields.swizzle == "none" or fields.base_offset == 0:
        return swizzled(addresses, fields.swizzle)
    shift = fields.base_offset << 7
    return swizzled(addresses - shift, fields.swizzle) + shift


@lru_cache(maxsize=1024)
def operand_ranges(descriptor: int, rows: int, depth: int, element_bytes: int, major: Major) -> Ranges:
    """The shared bytes that an operand tile covers, merged."""
    addresses = operand_addresses(descriptor, rows, depth, element_bytes, major)
    # All 16 bytes of a chunk are read, so chunks are told apart instead of bytes.
    chunks = merged(distinct(addresses >> 4))
    return tuple((start << 4, end << 4) for start, end in chunks)


@lru_cache(maxsize=1024)
def row_ranges(
    descriptor: int, rows: int, depth: int, element_bytes: int, major: Major, begin: int, end: int
) -> Ranges:
    """The shared bytes of rows [begin, end) of an operand tile, merged."""
    addresses = operand_addresses(descriptor, rows, depth, element_bytes, major)[begin:end]
    chunks = merged(distinct(addresses >> 4))
    return tuple((first << 4, last << 4) for first, last in chunks)


def operand(
    shared: NDArray[np.uint8], descriptor: int, rows: int, depth: int, element: OperandType, major: Major
) -> NDArray[np.float32]:
    """An operand tile out of a CTA's shared memory (1-D bytes from offset 0), as exact float32. [rows, depth]

    Raises EngineFault `shared-range` where the tile leaves shared memory.
    """
    width = ELEMENT_BYTES[element]
    addresses = operand_addresses(descriptor, rows, depth, width, major)
    low, high = int(addresses.min()), int(addresses.max()) + width
    if low < 0 or high > shared.size:
        raise out_of_shared(low, high, shared.size)
    usable = shared[: shared.size // width * width]
    match width:
        case 1:
            return exact(usable[addresses], element)
        case 2:
            return exact(usable.view(np.uint16)[addresses >> 1], element)
        case _:
            return exact(usable.view(np.uint32)[addresses >> 2], element)


def out_of_shared(low: int, high: int, size_bytes: int) -> EngineFault:
    """The fault of an operand that covers bytes [low, high) of `size_bytes`."""
    return EngineFault(
        "MF001",
        "shared-range",
        f"a wgmma operand covers bytes {low}..{high} of {size_bytes} bytes of shared memory",
    )


def exact(bits: NDArray[np.unsignedinteger], element: OperandType) -> NDArray[np.float32]:
    """Bit images of operand elements as float32. tf32 loses its low 13 bits, every other type nothing.

    b1: of each byte eight elements, so that the last axis is eight times as long.
    """
    match element:
        case "f16":
            return bits.astype(np.uint16, copy=False).view(np.float16).astype(np.float32)
        case "bf16":
            return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
        case "tf32":
            return (bits.astype(np.uint32, copy=False) & np.uint32(0xFFFF_E000)).view(np.float32)
        case "e4m3" | "e5m2" | "s8" | "u8":
            return _byte_values(element)[bits]
        case "b1":
            return np.unpackbits(np.ascontiguousarray(bits, np.uint8), axis=-1, bitorder="little").astype(np.float32)


def multiply_accumulate(
    a: NDArray[np.float32],
    b: NDArray[np.float32],
    accumulator: NDArray[np.float32],
    scale_d: bool = True,
    negate_a: bool = False,
    negate_b: bool = False,
) -> NDArray[np.float32]:
    """D = (+-A)(+-B) [+ D]: a [64, K], b [N, K] (as `operand` yields it), accumulator [64, N], all float32.

    scale_d: False ignores the accumulator; negate_a, negate_b: imm-scale-a, imm-scale-b of -1. Returns a new array.
    """
    if a.shape[0] != 64 or b.shape[1] != a.shape[1] or accumulator.shape != (64, b.shape[0]):
        raise EngineFault("MF007", "wgmma-shape", f"A {a.shape} and B {b.shape} do not make D {accumulator.shape}")
    with np.errstate(invalid="ignore", over="ignore"):
        product = a @ b.T
        if negate_a != negate_b:
            product = -product
        return product + accumulator if scale_d else product


def multiply_accumulate_half(
    a: NDArray[np.float32],
    b: NDArray[np.float32],
    accumulator: NDArray[np.float16],
    scale_d: bool = True,
    negate_a: bool = False,
    negate_b: bool = False,
) -> NDArray[np.float16]:
    """As `multiply_accumulate` with D in f16: the sum is float32 and rounded to f16 once."""
    total = multiply_accumulate(a, b, accumulator.astype(np.float32), scale_d, negate_a, negate_b)
    with np.errstate(over="ignore"):
        return total.astype(np.float16)


def multiply_accumulate_integer(
    a: NDArray[np.float32],
    b: NDArray[np.float32],
    accumulator: NDArray[np.int32],
    scale_d: bool = True,
    saturate: bool = False,
) -> NDArray[np.int32]:
    """D = AB [+ D] of s8, u8 and b1 operands, exact; D wraps at 32 bits, or is clamped with `.satfinite`."""
    if a.shape[0] != 64 or b.shape[1] != a.shape[1] or accumulator.shape != (64, b.shape[0]):
        raise EngineFault("MF007", "wgmma-shape", f"A {a.shape} and B {b.shape} do not make D {accumulator.shape}")
    total = (a @ b.T).astype(np.int64)  # K <= 32 products of at most 16 bits: every sum is below 2^24, so exact
    if scale_d:
        total = total + accumulator
    if saturate:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return total.astype(np.int32)


@lru_cache(maxsize=256)
def _distances(
    rows: int, depth: int, element_bytes: int, major: Major, leading: int, stride: int, swizzle: Swizzle
) -> NDArray[np.int64]:
    row = np.arange(rows, dtype=np.int64)[:, None]
    k = np.arange(depth, dtype=np.int64)[None, :]
    chunk = 16 // element_bytes
    width = SPAN_BYTES[swizzle]
    if major == "k" and swizzle == "none":
        distances = row % 8 * 16 + row // 8 * stride + k // chunk * leading + k % chunk * element_bytes
    elif major == "k":
        distances = row % 8 * width + row // 8 * stride + k * element_bytes
    elif swizzle == "none":
        distances = row % chunk * element_bytes + row // chunk * stride + k % 8 * 16 + k // 8 * leading
    else:
        group = width // element_bytes
        distances = row % group * element_bytes + row // group * leading + k % 8 * width + k // 8 * stride
    distances.setflags(write=False)
    return distances


@cache
def _byte_values(element: str) -> NDArray[np.float32]:
    """What each of the 256 codes of an element stands for. Raises KeyError for one that takes no byte."""
    import ml_dtypes  # a run that moves no values needs none

    codes = np.arange(256, dtype=np.uint8)
    dtype = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8}[element]
    return codes.view(dtype).astype(np.float32)
