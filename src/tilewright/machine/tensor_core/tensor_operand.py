"""Which numbers does a tcgen05.mma multiply? Operand tiles from shared and from tensor memory, and scale factors.

Shared memory. A row of a K-major tile is 32 bytes, two chunks of 16; a column of an MN-major tile is in chunks of 16
bytes along M or N. Distance of a chunk, before the swizzle's XOR on the absolute address (W: swizzle width in bytes):

| major | layout        | distance of chunk j of row i, or of chunk q (along M or N) at depth k      |
| k     | none          | (i % 8) * 16 + (i / 8) * stride + j * leading                               |
| k     | W             | (i % 8) * W + (i / 8) * stride + j * 16                                     |
| mn    | none          | q * stride + (k % 8) * 16 + (k / 8) * leading                               |
| mn    | W             | (q % (W/16)) * 16 + (q / (W/16)) * leading + (k % 8) * W + (k / 8) * stride |
| mn    | 128B_atom_32B | (q % 8) * 16 + (q / 8) * leading + (k % 4) * 128 + (k / 4) * stride         |

Elements of 4 or 6 bits stand 16 to a chunk and leave its end unused in kinds f8f6f4 and mxf8f6f4; kinds mxf4 and
mxf4nvf4 pack two to a byte. In tensor memory a row of A is one lane, 8 columns, packed alike without gaps for elements
of 8 bits and more. Source: PTX ISA, tcgen05: Canonical layouts, Packing formats of elements, Scale factor layouts;
CUTLASS, mma_sm100_desc.hpp and mma_traits_sm100_frag.hpp.

Not handled: A of 4 or 6 bits in tensor memory for kinds f8f6f4 and mxf8f6f4; sparse operands.
Checked by: tests/machine/tensor_core/test_tensor_operand.py.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.base.error import TilewrightError
from tilewright.legal.descriptor.tensor_core_descriptor import (
    OperandElement,
    ScaleElement,
    SharedDescriptor,
    decode_shared,
    shared_problems,
)
from tilewright.machine.copy.box import merged
from tilewright.machine.copy.swizzle import SPAN_BYTES, swizzled
from tilewright.machine.core.distinct import distinct
from tilewright.machine.core.engine_fault import EngineFault
from tilewright.machine.core.event import Ranges
from tilewright.machine.tensor_core import wgmma as tensor_core

Major = Literal["k", "mn"]

CHUNK_BYTES = 16
ROW_BYTES = 32
_BITS: dict[OperandElement, int] = {
    "f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4, "s8": 8, "u8": 8,
}  # fmt: skip


def element_bits(element: OperandElement) -> int:
    """Bits of one operand element (tf32 counts 32)."""
    return _BITS[element]


def read_descriptor(descriptor: int) -> SharedDescriptor:
    """A descriptor's fields. Raises EngineFault TC209 where it is none, TilewrightError where the machine lacks it."""
    fields = decode_shared(descriptor)
    problems = shared_problems(fields)
    if problems:
        raise EngineFault(
            "TC209", "shared-memory-descriptor", f"shared-memory descriptor {descriptor:#018x}: {'; '.join(problems)}"
        )
    if fields.absolute_leading:
        raise TilewrightError(
            f"the machine cannot read shared-memory descriptor {descriptor:#018x}: an absolute leading offset",
            remedy="only sm_103a has one; run this kernel on its GPU",
        )
    return fields


def _swizzled(addresses: NDArray[np.int64], fields: SharedDescriptor) -> NDArray[np.int64]:
    if fields.layout in (None, "none"):
        return addresses
    shift = fields.base_offset << 7
    return swizzled(addresses - shift, fields.layout) + shift


def row_chunks(fields: SharedDescriptor, rows: int, chunks: int) -> NDArray[np.int64]:
    """Absolute shared addresses of the 16-byte chunks of a K-major tile. [rows, chunks]"""
    row = np.arange(rows, dtype=np.int64)[:, None]
    chunk = np.arange(chunks, dtype=np.int64)[None, :]
    if fields.layout == "none":
        distances = row % 8 * 16 + row // 8 * fields.stride_offset_bytes + chunk * fields.leading_offset_bytes
    elif fields.layout is not None and fields.layout != "128B_atom_32B":
        distances = row % 8 * SPAN_BYTES[fields.layout] + row // 8 * fields.stride_offset_bytes + chunk * CHUNK_BYTES
    else:
        raise EngineFault(
            "TC209", "shared-memory-descriptor", "the layout 128B with 32B atoms is for MN-major operands of 32 bits"
        )
    return _swizzled(distances + fields.start_address, fields)


def column_chunks(fields: SharedDescriptor, rows: int, depth: int, element: OperandElement) -> NDArray[np.int64]:
    """Absolute shared addresses of the 16-byte chunks of an MN-major tile. [rows x element bytes / 16, depth]"""
    bits = _BITS[element]
    if bits < 8:
        raise EngineFault("TC208", "instruction-descriptor", f"operands of {element} cannot be MN-major")
    if (fields.layout == "128B_atom_32B") != (bits == 32):
        raise EngineFault(
            "TC209", "shared-memory-descriptor",
            "an MN-major operand of 32-bit elements, and no other, has the layout 128B with 32B atoms; this one of "
            f"{element} has layout {fields.layout}",
        )  # fmt: skip
    per_chunk = CHUNK_BYTES * 8 // bits
    if rows % per_chunk:
        raise EngineFault(
            "TC208", "instruction-descriptor",
            f"{rows} rows of {element}, MN-major, are not a multiple of the {per_chunk} in 16 bytes",
        )  # fmt: skip
    chunk = np.arange(rows // per_chunk, dtype=np.int64)[:, None]
    k = np.arange(depth, dtype=np.int64)[None, :]
    leading, stride = fields.leading_offset_bytes, fields.stride_offset_bytes
    if fields.layout == "none" or fields.layout is None:
        distances = chunk * stride + k % 8 * 16 + k // 8 * leading
    elif fields.layout == "128B_atom_32B":
        distances = chunk % 8 * 16 + chunk // 8 * leading + k % 4 * 128 + k // 4 * stride
    else:
        width = SPAN_BYTES[fields.layout]
        group = width // CHUNK_BYTES
        distances = chunk % group * 16 + chunk // group * leading + k % 8 * width + k // 8 * stride
    return _swizzled(distances + fields.start_address, fields)


@lru_cache(maxsize=2048)
def tile_chunks(descriptor: int, rows: int, depth: int, element: OperandElement, major: Major) -> NDArray[np.int64]:
    """Absolute shared addresses of the chunks of an operand: K-major [rows, 2], MN-major [chunks, depth].

    Raises EngineFault TC208 or TC209 where descriptor and operand do not go together.
    """
    fields = read_descriptor(descriptor)
    if major == "k":
        chunks = row_chunks(fields, rows, ROW_BYTES // CHUNK_BYTES)
    else:
        chunks = column_chunks(fields, rows, depth, element)
    chunks.setflags(write=False)
    return chunks


@lru_cache(maxsize=2048)
def tile_ranges(descriptor: int, rows: int, depth: int, element: OperandElement, major: Major) -> Ranges:
    """The shared bytes that an operand covers, merged."""
    return chunk_ranges(tile_chunks(descriptor, rows, depth, element, major))


def chunk_ranges(chunks: NDArray[np.int64]) -> Ranges:
    """The bytes of some chunks, merged."""
    return tuple((begin << 4, end << 4) for begin, end in merged(distinct(chunks >> 4)))


def load_chunks(shared: NDArray[np.uint8], chunks: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The chunks' bytes. [*chunks.shape, 16]. Raises EngineFault where one leaves shared memory."""
    low, high = int(chunks.min()), int(chunks.max()) + CHUNK_BYTES
    whole = shared.size // CHUNK_BYTES * CHUNK_BYTES
    if low < 0 or high > whole:
        raise EngineFault(
            "MF001", "shared-range", f"a tcgen05 operand covers bytes {low}..{high} of {shared.size} of shared memory"
        )
    return shared[:whole].reshape(-1, CHUNK_BYTES)[chunks >> 4]


def load_tile(
    shared: NDArray[np.uint8], descriptor: int, rows: int, depth: int, element: OperandElement, major: Major,
    packed: bool,
) -> NDArray[np.float32]:  # fmt: skip
    """An operand tile out of a CTA's shared memory, exact. [rows, depth]

    packed: two 4-bit elements a byte (kinds mxf4 and mxf4nvf4), instead of 16 a chunk.
    """
    found = load_chunks(shared, tile_chunks(descriptor, rows, depth, element, major))
    if major == "k":
        return elements_of_rows(found.reshape(rows, ROW_BYTES), element, packed)
    dtype = {8: np.uint8, 16: np.uint16, 32: np.uint32}[_BITS[element]]
    bits = np.ascontiguousarray(found).view(dtype).transpose(0, 2, 1).reshape(rows, depth)
    return values(bits, element)


def elements_of_rows(rows: NDArray[np.uint8], element: OperandElement, packed: bool) -> NDArray[np.float32]:
    """The elements in rows of 32 bytes. [rows, elements]"""
    count = rows.shape[0]
    match _BITS[element]:
        case 8:
            return values(rows, element)
        case 16:
            return values(np.ascontiguousarray(rows).view(np.uint16), element)
        case 32:
            return values(np.ascontiguousarray(rows).view(np.uint32), element)
        case 4 if packed:
            return values(np.stack((rows & np.uint8(15), rows >> np.uint8(4)), axis=-1).reshape(count, 64), element)
        case 4:
            used = rows.reshape(count, 2, 16)[:, :, :8]
            return values(np.stack((used & np.uint8(15), used >> np.uint8(4)), axis=-1).reshape(count, 32), element)
        case _:
            used = rows.reshape(count, 2, 16)[:, :, :12].reshape(count, 8, 3).astype(np.uint32)
            word = used[:, :, 0] | used[:, :, 1] << 8 | used[:, :, 2] << 16
            six = np.stack([word >> shift & 63 for shift in (0, 6, 12, 18)], axis=-1)
            return values(six.astype(np.uint8).reshape(count, 32), element)


def values(bits: NDArray[np.unsignedinteger], element: OperandElement) -> NDArray[np.float32]:
    """Bit images of operand elements (low bits) as float32; tf32 loses its low 13 bits, every other type nothing."""
    match element:
        case "e2m3" | "e3m2" | "e2m1":
            return _narrow_values(element)[bits]
        case _:
            return tensor_core.exact(bits, element)


def scale_values(codes: NDArray[np.uint8], scale: ScaleElement) -> NDArray[np.float64]:
    """Scale factors: UE8M0 is 2 to the power (code - 127), 255 is NaN; UE4M3 is E4M3 without its sign bit."""
    if scale == "ue4m3":
        import ml_dtypes

        return (codes & 0x7F).view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    return np.where(codes == 255, np.nan, np.ldexp(1.0, codes.astype(np.int32) - 127))


@cache
def _narrow_values(element: Literal["e2m3", "e3m2", "e2m1"]) -> NDArray[np.float32]:
    """Of each bit image."""
    import ml_dtypes  # a run that moves no values needs none

    kinds = {"e2m3": ml_dtypes.float6_e2m3fn, "e3m2": ml_dtypes.float6_e3m2fn, "e2m1": ml_dtypes.float4_e2m1fn}
    count = 16 if element == "e2m1" else 64
    return np.arange(count, dtype=np.uint8).view(kinds[element]).astype(np.float32)
