"""What do the 64 bits that name a matrix instruction's operand in shared memory say, and which bytes do they mean?

wgmma (sm_90a) and tcgen05 (sm_100a) share the idea: a start address, two byte distances and a swizzle; whether K or
M / N is contiguous stands in the instruction. An operand of one instruction is `rows` (M or N) by `depth` (K)
elements of e bytes. Address of element (i, k), before the swizzle's XOR on the absolute address, with T = 16 / e
elements in a chunk and W the swizzle's row in bytes:

| major | swizzle       | distance from the start address                                            |
| K     | none          | (i % 8) * 16 + (i / 8) * stride + (k / T) * leading + (k % T) * e           |
| K     | W             | (i % 8) * W + (i / 8) * stride + k * e                                      |
| MN    | none          | (i % T) * e + (i / T) * stride + (k % 8) * 16 + (k / 8) * leading           |
| MN    | W             | (i * e) % W + (i * e / W) * leading + (k % 8) * W + (k / 8) * stride        |
| MN    | 128B_atom_32B | (i * e) % 128 + (i * e / 128) * leading + (k % 4) * 128 + (k / 4) * stride  |

Source: PTX ISA, wgmma and tcgen05: Matrix-descriptor format, Canonical layouts. Which elements may lie how: wgmma takes
MN-major operands of 16 bits alone; tcgen05 of 8 and 16 bits in every layout but 128B_atom_32B, of 32 bits in that one
alone, which in turn is for nothing else.

Not handled: elements of 4 and 6 bits, absolute leading offsets (sm_103a), sparse operands.
Checked by tests/legal/descriptor/test_shared_operand.py against what the machine reads, which an H200 confirmed for
wgmma.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.base.error import TilewrightError
from tilewright.base.plan import Swizzle
from tilewright.legal.argument import integer, shown, target_of
from tilewright.legal.descriptor.matrix_descriptor import Major
from tilewright.legal.descriptor.tensor_core_descriptor import (
    SharedDescriptor,
    decode_shared,
    encode_shared,
    shared_problems,
)
from tilewright.legal.tensor_map.swizzle_code import code_of, operand_swizzles, row_bytes, swizzle_of, swizzled
from tilewright.targets import TARGET_NAMES, Target
from tilewright.targets.operand_bits import WGMMA_RESERVED, base_offset_of, bits_of, offsets_of

Instruction = Literal["wgmma", "tcgen05"]

CHUNK_BYTES = 16
CORE_ROWS = 8
_ATOM_32B: Swizzle = "128B_atom_32B"


@dataclass(frozen=True, slots=True)
class OperandDescriptor:
    """An operand in shared memory, as one descriptor names it. Addresses and distances in bytes.

    leading_bytes, stride_bytes: the two distances of the canonical layouts; base_offset: number of the 128-byte line,
    modulo 8, at which the swizzle's pattern begins, 0 where it begins on its period.
    """

    start_address: int
    leading_bytes: int
    stride_bytes: int
    swizzle: Swizzle
    base_offset: int = 0


def encode_wgmma(descriptor: OperandDescriptor, target: str | Target) -> int:
    """The 64 bits that wgmma takes. Raises TilewrightError where a field does not hold its value."""
    target = target_of(target)
    code = code_of(descriptor.swizzle, "wgmma", target)
    return _encoded(descriptor, "wgmma", target) | code << 62


def encode_tcgen05(descriptor: OperandDescriptor, target: str | Target) -> int:
    """The 64 bits that tcgen05 takes. Raises TilewrightError where a field does not hold its value."""
    target = target_of(target)
    code = code_of(descriptor.swizzle, "tcgen05", target)
    return _encoded(descriptor, "tcgen05", target) | 1 << 46 | code << 61


def encode(descriptor: OperandDescriptor, target: Target) -> int:
    """The 64 bits that the target's matrix instruction takes. Raises TilewrightError as `encode_wgmma` does."""
    if instruction_of(target) == "wgmma":
        return encode_wgmma(descriptor, target)
    return encode_tcgen05(descriptor, target)


def decode_wgmma(bits: int, target: str | Target) -> OperandDescriptor:
    """What a wgmma descriptor says. Raises TilewrightError, naming them, for bits that no such descriptor has."""
    bits, target = _word(bits), target_of(target)
    if bits & WGMMA_RESERVED:
        hint = "a descriptor of tcgen05 has bit 46 set" if bits >> 46 & 7 == 1 else ""
        raise TilewrightError(
            f"wgmma descriptor {bits:#018x}: reserved bits are set: {bits & WGMMA_RESERVED:#x}", remedy=hint
        )
    swizzle = swizzle_of(bits >> 62, "wgmma", target)
    assert swizzle is not None, "every number of two bits is a swizzle"
    return OperandDescriptor(*offsets_of(bits), swizzle, base_offset_of(bits))


def decode_tcgen05(bits: int, target: str | Target) -> OperandDescriptor:
    """What a tcgen05 descriptor says. Raises TilewrightError, naming them, for bits that no such descriptor has."""
    bits, target = _word(bits), target_of(target)
    fields = decode_shared(bits)
    problems = (*shared_problems(fields), *(("bit 52, an absolute leading offset, is of sm_103a",) * _absolute(fields)))
    if problems:
        raise TilewrightError(f"tcgen05 shared-memory descriptor {bits:#018x}: {'; '.join(problems)}")
    assert fields.layout is not None and encode_shared(fields) == bits, "the fields are all of the descriptor"
    swizzle = swizzle_of(bits >> 61, "tcgen05", target)
    assert swizzle == fields.layout, "one numbering"
    return OperandDescriptor(*offsets_of(bits), fields.layout, fields.base_offset)


def _absolute(fields: SharedDescriptor) -> int:
    return int(fields.absolute_leading)


def decode(bits: int, target: Target) -> OperandDescriptor:
    """What a descriptor of the target's matrix instruction says. Raises TilewrightError as `decode_wgmma` does."""
    return decode_wgmma(bits, target) if instruction_of(target) == "wgmma" else decode_tcgen05(bits, target)


def instruction_of(target: Target) -> Instruction:
    """The target's matrix instruction. Raises TilewrightError where it has none."""
    if target.supports("wgmma"):
        return "wgmma"
    if target.supports("tcgen05"):
        return "tcgen05"
    raise TilewrightError(f"{target.name} has neither wgmma nor tcgen05", remedy=f"choose {' or '.join(TARGET_NAMES)}")


def depth_step(element_bytes: int, target: Target) -> int:
    """K of one dense instruction, in elements: 32 bytes of every row."""
    key = "wgmma.k_bytes" if instruction_of(target) == "wgmma" else "tcgen05.operand_row_bytes"
    return target.limit(key) // element_bytes


def field_problems(descriptor: OperandDescriptor, target: Target) -> tuple[str, ...]:
    """Why the fields do not hold these numbers; empty if they do."""
    group = _group(target)
    multiple, limit = target.limit(f"{group}.offset_multiple_bytes"), target.limit(f"{group}.offset_limit_bytes")
    most = target.limit(f"{group}.base_offset_max")
    found: list[str] = []
    for name, value in (
        ("start address", descriptor.start_address),
        ("leading offset", descriptor.leading_bytes),
        ("stride offset", descriptor.stride_bytes),
    ):
        if value % multiple or not 0 <= value < limit:
            found.append(f"{name} {value} is not a multiple of {multiple} from 0 to {limit - multiple}")
    if not 0 <= descriptor.base_offset <= most:
        found.append(f"base offset {descriptor.base_offset} is not between 0 and {most}")
    if descriptor.swizzle == "none" and descriptor.base_offset:
        found.append(f"base offset {descriptor.base_offset} without a swizzle")
    return tuple(found)


def major_problem(swizzle: Swizzle, major: Major, element_bytes: int, target: Target) -> str | None:
    """Why the target's matrix instruction reads no operand so; None if it does."""
    instruction = instruction_of(target)
    known = operand_swizzles(instruction, target)
    if element_bytes not in (1, 2, 4):
        return f"elements of {element_bytes} bytes: {instruction} takes 1, 2 or 4"
    if swizzle not in known:
        return f"{instruction} knows no swizzle {swizzle}, only {', '.join(known)}"
    if instruction == "wgmma":
        if major == "MN" and element_bytes != 2:
            return f"wgmma takes MN-major operands of 16 bits alone, not of {8 * element_bytes}"
        return None
    if (swizzle == _ATOM_32B) != (major == "MN" and element_bytes == 4):
        if swizzle == _ATOM_32B:
            return f"swizzle {_ATOM_32B} is for MN-major operands of 32 bits"
        return f"MN-major operands of 32 bits take swizzle {_ATOM_32B}, not {swizzle}"
    return None


def layout_of(
    descriptor: OperandDescriptor, major: Major, rows: int, depth: int, element_bytes: int, target: Target
) -> NDArray[np.int64]:
    """Absolute shared byte address of every element of the operand. [rows, depth]

    rows: of M or N, also more than one instruction takes; depth: of K, of one instruction or of several whose
    descriptors differ in their start alone, as far as a row goes where K-major rows are swizzled.
    Raises TilewrightError where the target reads no operand so.
    """
    problem = major_problem(descriptor.swizzle, major, element_bytes, target)
    if problem is None and major == "K" and descriptor.swizzle != "none":
        width = row_bytes(descriptor.swizzle, target)
        if depth * element_bytes > width:
            problem = f"K of {depth} elements is longer than a row of {width} bytes"
    if problem is not None:
        raise TilewrightError(f"no such operand: {problem}")
    distances = canonical_distances(
        descriptor.swizzle, major, rows, depth, element_bytes, descriptor.leading_bytes, descriptor.stride_bytes, target
    )
    return swizzled(distances + descriptor.start_address, descriptor.swizzle, target, descriptor.base_offset)


def canonical_distances(
    swizzle: Swizzle, major: Major, rows: int, depth: int, element_bytes: int, leading_bytes: int, stride_bytes: int,
    target: Target,
) -> NDArray[np.int64]:  # fmt: skip
    """Distances from the start address, before the swizzle, of a canonical layout. [rows, depth]"""
    row = np.arange(rows, dtype=np.int64)[:, None]
    k = np.arange(depth, dtype=np.int64)[None, :]
    return distances_at(swizzle, major, row, k, element_bytes, leading_bytes, stride_bytes, target)


def distances_at(
    swizzle: Swizzle, major: Major, row: NDArray[np.int64], k: NDArray[np.int64], element_bytes: int,
    leading_bytes: int, stride_bytes: int, target: Target,
) -> NDArray[np.int64]:  # fmt: skip
    """Distances of elements (row, k) from the start address, before the swizzle, of a canonical layout. [broadcast]"""
    width = row_bytes(swizzle, target)
    if major == "K":
        at = k * element_bytes
        if swizzle == "none":
            at = at // CHUNK_BYTES * leading_bytes + at % CHUNK_BYTES
        return row % CORE_ROWS * width + row // CORE_ROWS * stride_bytes + at
    at = row * element_bytes
    lines = lines_together(swizzle)
    across, along = (leading_bytes, stride_bytes) if swizzle != "none" else (stride_bytes, leading_bytes)
    return at % width + at // width * across + k % lines * width + k // lines * along


def lines_together(swizzle: Swizzle) -> int:
    """How many consecutive K of an MN-major operand follow each other at the width of a row."""
    return 4 if swizzle == _ATOM_32B else CORE_ROWS


def _group(target: Target) -> str:
    return "matrix_descriptor" if instruction_of(target) == "wgmma" else "shared_descriptor"


def _encoded(descriptor: OperandDescriptor, instruction: Instruction, target: Target) -> int:
    problems = field_problems(descriptor, target)
    if problems:
        raise TilewrightError(f"no {instruction} descriptor: {'; '.join(problems)}")
    return bits_of(descriptor.start_address, descriptor.leading_bytes, descriptor.stride_bytes, descriptor.base_offset)


def _word(bits: object) -> int:
    """`bits` as 64 of them. Raises TilewrightError where it is no number, or none of that width."""
    number = integer("bits", bits, "matrix descriptor")
    if not 0 <= number < 1 << 64:
        raise TilewrightError(f"a matrix descriptor has 64 bits; {shown(number)} does not fit")
    return number
