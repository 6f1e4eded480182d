"""What do the descriptors of a tcgen05 instruction say: the 64-bit ones of shared memory and the 32-bit one of the
operation?

Theory: PTX ISA, tcgen05, "Shared memory descriptor", "Instruction descriptor" and the tables of shapes and of layouts.
A shared-memory descriptor of sm_100 has Hopper's start address, leading and stride offsets and base offset, but a
constant 0b001 in bits 48 to 46 and its layout in three bits, 63 to 61, numbered anew. An instruction descriptor has two
forms, one for the block-scaled kinds.

`encode_*` and `decode_*` are inverse to one another; the `*_problems` functions say in words what an instruction could
not do with a descriptor, and nothing where it is legal. Absolute leading offsets and K of 96, which sm_103a has and
sm_100a has not, count as legal: whoever asks must know the architecture. Not handled: sm_107's wider fields.
Checked by tests/legal/descriptor/test_tensor_core_descriptor.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tilewright.targets import Target
from tilewright.targets.operand_bits import base_offset_of, bits_of, offsets_of

Kind = Literal["f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"]
OperandElement = Literal["f16", "bf16", "tf32", "e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "s8", "u8"]
AccumulatorElement = Literal["f16", "f32", "s32"]
ScaleElement = Literal["ue8m0", "ue4m3"]
Layout = Literal["none", "32B", "64B", "128B", "128B_atom_32B"]

KINDS: tuple[Kind, ...] = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")

_LAYOUTS: dict[Layout, int] = {"none": 0, "128B_atom_32B": 1, "128B": 2, "64B": 4, "32B": 6}
_LAYOUT_OF: dict[int, Layout] = {code: layout for layout, code in _LAYOUTS.items()}
_CONSTANT = 0b001
_NARROW: dict[int, OperandElement] = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
_ELEMENTS: dict[Kind, dict[int, OperandElement]] = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": _NARROW,
    "i8": {0: "u8", 1: "s8"},
    "mxf8f6f4": _NARROW,
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
_ACCUMULATORS: dict[Kind, dict[int, AccumulatorElement]] = {
    "f16": {0: "f16", 1: "f32"},
    "tf32": {1: "f32"},
    "f8f6f4": {0: "f16", 1: "f32"},
    "i8": {2: "s32"},
}
_DEPTHS: dict[Kind, int] = {
    "f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SharedDescriptor:
    """A tile of shared memory as tcgen05 reads it. Addresses and offsets in bytes.

    base_offset: line of 128 bytes, modulo 8, at which the swizzle's pattern begins; constant: bits 48 to 46;
    absolute_leading: bit 52; reserved: those reserved bits that are set, in place.
    """

    start_address: int
    leading_offset_bytes: int
    stride_offset_bytes: int
    base_offset: int = 0
    layout: Layout | None = "none"
    constant: int = _CONSTANT
    absolute_leading: bool = False
    reserved: int = 0


_RESERVED = (3 << 14) | (3 << 30) | (0xFF << 53)


def decode_shared(descriptor: int) -> SharedDescriptor:
    """The fields of a 64-bit shared-memory descriptor of sm_100; `layout` is None where its number names none."""
    return SharedDescriptor(
        *offsets_of(descriptor),
        base_offset=base_offset_of(descriptor),
        layout=_LAYOUT_OF.get(descriptor >> 61 & 7),
        constant=descriptor >> 46 & 7,
        absolute_leading=bool(descriptor >> 52 & 1),
        reserved=descriptor & _RESERVED,
    )


def encode_shared(fields: SharedDescriptor) -> int:
    """The 64 bits of a shared-memory descriptor. Offsets lose what their 14-bit fields of 16 bytes cannot hold."""
    layout = 7 if fields.layout is None else _LAYOUTS[fields.layout]
    return (
        bits_of(fields.start_address, fields.leading_offset_bytes, fields.stride_offset_bytes, fields.base_offset)
        | fields.constant << 46
        | fields.absolute_leading << 52
        | layout << 61
        | fields.reserved
    )


def shared_problems(fields: SharedDescriptor) -> tuple[str, ...]:
    """Why no tcgen05 instruction may take this descriptor; empty if one may (of sm_103a alone: `absolute_leading`)."""
    found: list[str] = []
    if fields.constant != _CONSTANT:
        hint = "; a descriptor made for wgmma has 0 there" if fields.constant == 0 else ""
        found.append(f"bits 48 to 46 are {fields.constant:#05b}, not 0b001{hint}")
    if fields.layout is None:
        found.append("bits 63 to 61 name no layout (0 none, 1 128B with 32B atoms, 2 128B, 4 64B, 6 32B)")
    if fields.reserved:
        found.append(f"reserved bits are set: {fields.reserved:#x}")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class InstructionDescriptor:
    """The operation of one tcgen05.mma: D [m, n] = A [m, k] B [k, n] + D, with `n` and `k` in elements.

    Elements are None where the descriptor's number names none for the kind. scale_a_id, scale_b_id: which byte of a
    32-bit cell holds the first scale factor (block-scaled kinds only, as `scale`). m over both CTAs of a pair.
    """

    kind: Kind
    m: int
    n: int
    k: int
    accumulator: AccumulatorElement | None
    a: OperandElement | None
    b: OperandElement | None
    negate_a: bool = False
    negate_b: bool = False
    a_major: Literal["k", "mn"] = "k"
    b_major: Literal["k", "mn"] = "k"
    saturate: bool = False
    sparse: bool = False
    sparsity_selector: int = 0
    scale: ScaleElement | None = None
    scale_a_id: int = 0
    scale_b_id: int = 0
    maximum_shift: int = 0
    reserved: int = 0

    @property
    def scaled(self) -> bool:
        return self.kind.startswith("mx")


NEGATION_BITS = 1 << 13 | 1 << 14
"""Of an instruction descriptor: whether the elements of A and of B are negated, the same bits under every kind."""
_PLAIN_RESERVED = 1 << 6 | 1 << 23 | 1 << 29
_SCALED_RESERVED = 3 | 1 << 3 | 1 << 6 | 7 << 24


def _reserved_bits(kind: Kind) -> int:
    if not kind.startswith("mx"):
        return _PLAIN_RESERVED
    return _SCALED_RESERVED | (1 << 31 if kind == "mxf8f6f4" else 1 << 12)


def decode_instruction(descriptor: int, kind: Kind) -> InstructionDescriptor:
    """The fields of a 32-bit instruction descriptor under `.kind::`. Raises nothing: see `instruction_problems`."""
    scaled = kind.startswith("mx")
    sparse = bool(descriptor >> 2 & 1)
    four_bit = kind in ("mxf4", "mxf4nvf4")
    depth = 96 if four_bit and descriptor >> 31 & 1 else _DEPTHS[kind]
    scale: ScaleElement | None = None
    if scaled:
        scale = "ue8m0" if descriptor >> 23 & 1 else "ue4m3"
    return InstructionDescriptor(
        kind=kind,
        m=(descriptor >> 24 & 31) << 4,
        n=(descriptor >> 17 & 63) << 3,
        k=depth * (2 if sparse else 1),
        accumulator="f32" if scaled else _ACCUMULATORS[kind].get(descriptor >> 4 & 3),
        a=_ELEMENTS[kind].get(descriptor >> 7 & 7),
        b=_ELEMENTS[kind].get(descriptor >> 10 & (3 if four_bit else 7)),
        negate_a=bool(descriptor >> 13 & 1),
        negate_b=bool(descriptor >> 14 & 1),
        a_major="mn" if descriptor >> 15 & 1 else "k",
        b_major="mn" if descriptor >> 16 & 1 else "k",
        saturate=not scaled and bool(descriptor >> 3 & 1),
        sparse=sparse,
        sparsity_selector=0 if scaled else descriptor & 3,
        scale=scale,
        scale_a_id=descriptor >> 29 & 3 if scaled else 0,
        scale_b_id=descriptor >> 4 & 3 if scaled else 0,
        maximum_shift=0 if scaled else (0, 8, 16, 32)[descriptor >> 30],
        reserved=descriptor & _reserved_bits(kind),
    )


def encode_instruction(fields: InstructionDescriptor) -> int:
    """The 32 bits of an instruction descriptor. Raises KeyError for an element that its kind cannot name."""
    kind = fields.kind
    elements = {element: code for code, element in _ELEMENTS[kind].items()}
    bits = (
        fields.sparsity_selector
        | fields.sparse << 2
        | elements[fields.a] << 7  # pyright: ignore[reportArgumentType]
        | elements[fields.b] << 10  # pyright: ignore[reportArgumentType]
        | fields.negate_a << 13
        | fields.negate_b << 14
        | (fields.a_major == "mn") << 15
        | (fields.b_major == "mn") << 16
        | fields.n >> 3 << 17
        | fields.m >> 4 << 24
        | fields.reserved
    )
    if fields.scaled:
        k96 = fields.k in (96, 192)
        return bits | fields.scale_b_id << 4 | (fields.scale == "ue8m0") << 23 | fields.scale_a_id << 29 | k96 << 31
    accumulators = {element: code for code, element in _ACCUMULATORS[kind].items()}
    code = accumulators[fields.accumulator]  # pyright: ignore[reportArgumentType]
    return bits | fields.saturate << 3 | code << 4 | (0, 8, 16, 32).index(fields.maximum_shift) << 30


def instruction_problems(
    fields: InstructionDescriptor, target: Target, *, cta_group: int, weight_stationary: bool
) -> tuple[str, ...]:
    """Why `tcgen05.mma[.ws].cta_group::<cta_group>` may not take this descriptor; empty if it may."""
    return (
        *_element_problems(fields),
        *_shape_problems(fields, target, cta_group, weight_stationary),
    )


def _element_problems(fields: InstructionDescriptor) -> Iterator[str]:
    kind = fields.kind
    if fields.reserved:
        yield f"reserved bits are set: {fields.reserved:#x}"
    for name, element in (("A", fields.a), ("B", fields.b), ("D", fields.accumulator)):
        if element is None:
            yield f"its number for the type of {name} names none of .kind::{kind}"
    if fields.saturate and kind != "i8":
        yield f"saturation is for .kind::i8, not .kind::{kind}"
    if kind == "i8" and (fields.negate_a or fields.negate_b):
        yield ".kind::i8 negates nothing"
    if kind in ("mxf8f6f4", "mxf4") and fields.scale != "ue8m0":
        yield f".kind::{kind} scales by UE8M0"
    if kind == "f16" and fields.accumulator == "f16" and "bf16" in (fields.a, fields.b):
        yield "products of BF16 accumulate in F32, not in F16"
    if kind in ("mxf4", "mxf4nvf4") and not {fields.scale_a_id, fields.scale_b_id} <= {0, 2}:
        yield f"scale factor ids of .kind::{kind} are 0 or 2"
    for name, element, major in (("A", fields.a, fields.a_major), ("B", fields.b, fields.b_major)):
        if major == "mn" and element in ("e2m3", "e3m2", "e2m1"):
            yield f"{name} of {element} cannot be transposed"


def _shape_problems(
    fields: InstructionDescriptor, target: Target, cta_group: int, weight_stationary: bool
) -> Iterator[str]:
    m, n, kind = fields.m, fields.n, fields.kind
    if fields.k == 96 and fields.m != 256:
        yield f"K of 96 goes with M of 256, not {m}"
    if fields.k == 192:
        yield "K of 96 is for dense operands"
    if weight_stationary:
        rows, columns = target.limits("tcgen05.m_weight_stationary"), target.limits("tcgen05.n_weight_stationary")
        if cta_group != 1 or fields.scaled:
            yield "tcgen05.mma.ws is for cta_group::1 and kinds without block scales"
        if fields.sparse:
            columns = tuple(each for each in columns if each <= target.limit("tcgen05.n_weight_stationary_sparse_max"))
        if m not in rows or n not in columns:
            yield f"M {m}, N {n}: tcgen05.mma.ws takes M {_any(rows)} and N {_any(columns)}"
        return
    if fields.maximum_shift:
        yield "a maximum shift is for tcgen05.mma.ws"
    rows = target.limits("tcgen05.m_two_ctas" if cta_group == 2 else "tcgen05.m_one_cta")
    if fields.scaled:
        rows = tuple(each for each in rows if each >= (256 if fields.sparse and cta_group == 2 else 128))
    if m not in rows:
        yield f"M {m}: .kind::{kind} with cta_group::{cta_group} takes {_any(rows)}"
    if n not in column_counts(kind, cta_group, target):
        yield f"N {n} is not one that .kind::{kind} with cta_group::{cta_group} takes"
    step = target.limit("tcgen05.n_step_transposed_bytes") * cta_group
    if fields.b_major == "mn" and fields.b in ("e4m3", "e5m2", "s8", "u8") and n % step:
        yield f"N {n} of a transposed B of 8 bits is not a multiple of {step}"


def column_counts(kind: Kind, cta_group: int, target: Target) -> tuple[int, ...]:
    """The legal N of a dense tcgen05.mma (not .ws) of this kind."""
    most = target.limit("tcgen05.n_max")
    if kind == "i8":
        if cta_group == 2:
            return tuple(range(32, most + 1, 32))
        return (8, 16, 24, 32, *range(48, most + 1, 16))
    step = 8 * cta_group
    return tuple(range(step, most + 1, step))


def _any(values: tuple[int, ...]) -> str:
    return " or ".join(str(value) for value in values)
