"""Can a warpgroup multiply read this operand from shared memory: do its descriptor's fields hold the layout?

Theory: PTX ISA, wgmma, "Matrix-descriptor format" and "Shared memory matrix layout". A descriptor holds a start address
and two offsets of 14 bits each in units of 16 bytes, a base offset of 3 bits and a swizzle mode. Only 16-bit elements
may lie MN-major (transposed); all others are K-major. The swizzle's pattern is taken from the absolute address, so a
pattern that does not begin on its period needs a base offset that says so.

Leading and stride offsets that make groups overlap are legal to read and are not judged here. Those of tcgen05
(sm_100a) are in `tensor_core_descriptor`. Not handled: sparse operands, 1-bit elements; whether the addresses lie
inside an allocation (`contract`). Checked by tests/legal/descriptor/test_matrix_descriptor.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Swizzle
from tilewright.legal.tensor_map.violation import Violation
from tilewright.targets import Target

Major = Literal["K", "MN"]
"""The dimension that is contiguous in shared memory: K, or M (of A) or N (of B)."""
Role = Literal["A", "B"]

_SWIZZLES: tuple[str, ...] = get_args(Swizzle)
_WGMMA_ELEMENTS = (Element.F16, Element.BF16, Element.F32, Element.F8E4M3, Element.F8E5M2, Element.U8)
"""F32 stands for tf32, which has its width, and U8 for both integers of 8 bits."""
_SHAPE_SOURCE = "PTX ISA, wgmma: Matrix shape"
_MAJOR_SOURCE = "PTX ISA, wgmma: imm-trans-a and imm-trans-b are for .f16 and .bf16 alone"


@dataclass(frozen=True, slots=True)
class MatrixDescriptor:
    """One operand of one wgmma, as its descriptor and instruction describe it. Offsets and addresses are in bytes.

    role: A (64 x K) or B (K x N); rows: elements of M or N; pattern_address: where the swizzle's pattern begins, which
    is the start address unless that was advanced along K inside a swizzled row.
    """

    role: Role
    element: Element
    major: Major
    swizzle: Swizzle
    rows: int
    start_address: int
    leading_offset_bytes: int
    stride_offset_bytes: int
    base_offset: int = 0
    pattern_address: int | None = None


def violations(descriptor: MatrixDescriptor, target: Target) -> tuple[Violation, ...]:
    """Every rule that `descriptor` breaks; empty where a wgmma may use it.

    Raises TilewrightError on a target without wgmma.
    """
    if not target.supports("wgmma"):
        raise TilewrightError(f"{target.name} has no wgmma", remedy="compile for sm_90a")
    return (*_fields(descriptor, target), *_base_offset(descriptor, target), *_shape(descriptor, target))


def _fields(descriptor: MatrixDescriptor, target: Target) -> Iterator[Violation]:
    multiple_key, limit_key = "matrix_descriptor.offset_multiple_bytes", "matrix_descriptor.offset_limit_bytes"
    multiple, limit = target.limit(multiple_key), target.limit(limit_key)
    for field, noun, value in (
        ("matrix-start-address", "start address", descriptor.start_address),
        ("leading-dimension-byte-offset", "leading offset", descriptor.leading_offset_bytes),
        ("stride-dimension-byte-offset", "stride offset", descriptor.stride_offset_bytes),
    ):
        if value % multiple:
            message = f"{noun} {value} bytes is not a multiple of {multiple}"
            source = target.fact(multiple_key).source
            yield Violation("LY001", "descriptor-multiple", field, None, value, multiple, message, source)
        if not 0 <= value < limit:
            message = f"{noun} {value} bytes is not between 0 and {limit - multiple}"
            source = target.fact(limit_key).source
            yield Violation("LY002", "descriptor-range", field, None, value, limit, message, source)


def _base_offset(descriptor: MatrixDescriptor, target: Target) -> Iterator[Violation]:
    key = "matrix_descriptor.base_offset_max"
    value, limit, source = descriptor.base_offset, target.limit(key), target.fact(key).source
    if not 0 <= value <= limit:
        message = f"base offset {value} is not between 0 and {limit}"
        yield Violation("LY003", "base-offset-range", "base-offset", None, value, limit, message, source)
        return
    start = descriptor.start_address if descriptor.pattern_address is None else descriptor.pattern_address
    period_bytes = target.limits("tensor_map.swizzle_period_bytes")[_SWIZZLES.index(descriptor.swizzle)]
    swizzled = descriptor.swizzle != "none"
    wanted = (start >> 7) & limit if swizzled and start % period_bytes else 0
    if swizzled and start % 128:
        message = f"swizzle pattern at {start:#x} does not begin on a line of 128 bytes"
        yield Violation("LY004", "pattern-alignment", "matrix-start-address", None, start, 128, message, source)
    elif value != wanted:
        where = f"{start:#x}, with period {period_bytes}" if swizzled else "no swizzle"
        message = f"base offset {value} should be {wanted}: {where}"
        yield Violation("LY005", "base-offset", "base-offset", None, value, wanted, message, source)


def _shape(descriptor: MatrixDescriptor, target: Target) -> Iterator[Violation]:
    element, rows = descriptor.element, descriptor.rows
    if element not in _WGMMA_ELEMENTS:
        message = f"no wgmma takes elements of type {element.value}, {element.bytes} bytes"
        source = "PTX ISA, wgmma: Data types"
        yield Violation("LY006", "element", "type", None, element.bytes, 0, message, source)
    elif descriptor.major == "MN" and element.bytes != 2:
        message = f"elements of {element.bytes} bytes must be K-major; only 16-bit ones may be MN-major"
        yield Violation("LY007", "major", "imm-trans", None, element.bytes, 2, message, _MAJOR_SOURCE)
    if descriptor.role == "A":
        limit = target.limit("wgmma.m")
        if rows != limit:
            message = f"A has {rows} rows; one wgmma takes {limit}"
            yield Violation("LY008", "shape", "m", None, rows, limit, message, _SHAPE_SOURCE)
    elif rows not in column_counts(element, target):
        low, high = target.limit("wgmma.n_min"), target.limit("wgmma.n_max")
        message = f"B has {rows} columns; one wgmma takes {low} to {high} in steps of {target.limit('wgmma.n_step')}"
        if element is Element.U8:
            fine, coarse = target.limit("wgmma.integer_n_fine_max"), target.limit("wgmma.integer_n_step")
            message += f", above {fine} in steps of {coarse}"
        yield Violation("LY008", "shape", "n", None, rows, high, message, _SHAPE_SOURCE)


def column_counts(element: Element, target: Target) -> tuple[int, ...]:
    """The legal N of one wgmma whose operands have this element."""
    low, high, step = (target.limit(f"wgmma.{name}") for name in ("n_min", "n_max", "n_step"))
    counts = range(low, high + 1, step)
    if element is Element.U8:
        coarse, coarse_step = target.limit("wgmma.integer_n_fine_max"), target.limit("wgmma.integer_n_step")
        return tuple(count for count in counts if count <= coarse or count % coarse_step == 0)
    return tuple(counts)
