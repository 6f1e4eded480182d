"""Which number does the driver give to a data type, a swizzle, an interleave, and what does the number mean?

The enumerations of `cuda.h` (CUtensorMapDataType, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
CUtensorMapFloatOOBfill), by their short names here. All values that any target knows are listed; which of them one
target or driver takes is a rule (`tiled_rules`), not a matter of spelling. The numbers of `tensormap.replace` (PTX ISA
9.7.9.28) differ and are not these.

Checked by tests/legal/tensor_map/test_tensor_map.py.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import get_args

from tilewright.base.error import TilewrightError
from tilewright.base.plan import Interleave, L2Promotion, OutOfBounds, Swizzle
from tilewright.base.value import dataclass
from tilewright.legal.argument import shown


@dataclass(frozen=True, slots=True)
class DataType:
    """One value of `CUtensorMapDataType`.

    name: as written here; driver_name: after `CU_TENSOR_MAP_DATA_TYPE_`; global_bits: of one element in global memory;
    shared_bits: in shared memory, where the types aligned to 16 bytes are padded; is_float: NaN fill has a meaning.
    """

    name: str
    driver_name: str
    global_bits: int
    shared_bits: int
    is_float: bool

    @property
    def is_packed(self) -> bool:
        """Whether elements are 4 or 6 bits wide and move in groups of sixteen."""
        return self.global_bits < 8


DATA_TYPES: tuple[DataType, ...] = (
    DataType("u8", "UINT8", 8, 8, False),
    DataType("u16", "UINT16", 16, 16, False),
    DataType("u32", "UINT32", 32, 32, False),
    DataType("i32", "INT32", 32, 32, False),
    DataType("u64", "UINT64", 64, 64, False),
    DataType("i64", "INT64", 64, 64, False),
    DataType("f16", "FLOAT16", 16, 16, True),
    DataType("f32", "FLOAT32", 32, 32, True),
    DataType("f64", "FLOAT64", 64, 64, True),
    DataType("bf16", "BFLOAT16", 16, 16, True),
    DataType("f32_ftz", "FLOAT32_FTZ", 32, 32, True),
    DataType("tf32", "TFLOAT32", 32, 32, True),
    DataType("tf32_ftz", "TFLOAT32_FTZ", 32, 32, True),
    DataType("u4x16_align8", "16U4_ALIGN8B", 4, 4, False),
    DataType("u4x16_align16", "16U4_ALIGN16B", 4, 8, False),
    DataType("u6x16_align16", "16U6_ALIGN16B", 6, 8, False),
)
"""By enumeration value."""

U4X16_ALIGN8, U4X16_ALIGN16, U6X16_ALIGN16 = 13, 14, 15
PACKED_TYPES = tuple(number for number, each in enumerate(DATA_TYPES) if each.is_packed)
PADDED_TYPES = (U4X16_ALIGN16, U6X16_ALIGN16)
"""Packed types whose groups of sixteen are padded to 16 bytes in shared memory."""

INTERLEAVE_NONE, INTERLEAVE_16B, INTERLEAVE_32B = 0, 1, 2
SWIZZLE_NONE, SWIZZLE_32B, SWIZZLE_64B, SWIZZLE_128B = 0, 1, 2, 3
FILL_ZERO, FILL_NAN = 0, 1

# The driver counts each enumeration from 0, in the order in which `base.plan` names the values.
INTERLEAVES: tuple[Interleave, ...] = get_args(Interleave)
SWIZZLES: tuple[Swizzle, ...] = get_args(Swizzle)
L2_PROMOTIONS: tuple[L2Promotion, ...] = get_args(L2Promotion)
FILLS: tuple[OutOfBounds, ...] = get_args(OutOfBounds)
WIDE_MODES = ("w", "w128")
"""`CUtensorMapIm2ColWideMode`: pixels counted, or always 128 of them."""
WIDE_COUNTED, WIDE_FIXED, WIDE_PIXELS = 0, 1, 128
"""Their numbers, and the pixels that the second moves."""
DATA_TYPE_NAMES: tuple[str, ...] = tuple(each.name for each in DATA_TYPES)

_ALIASES = {
    "bfloat16": "bf16",
    "float16": "f16",
    "half": "f16",
    "float32": "f32",
    "float64": "f64",
    "tfloat32": "tf32",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "int32": "i32",
    "s32": "i32",
    "uint64": "u64",
    "int64": "i64",
    "s64": "i64",
    "f8e4m3": "u8",
    "f8e5m2": "u8",
    "f4e2m1x2": "u8",
    "float8_e4m3fn": "u8",
    "float8_e5m2": "u8",
}


def number_of(name: str, names: tuple[str, ...], field: str) -> int:
    """The number of `name` among `names`. Raises TilewrightError, naming the nearest of them, where there is none."""
    try:
        return names.index(_ALIASES.get(name, name))
    except ValueError:
        near = get_close_matches(name, names, n=1, cutoff=0.5)
        known = ", ".join(names)
        raise TilewrightError(
            f"tensor map: {field} has no value {shown(name)}",
            remedy=f"did you mean {near[0]!r}?" if near else f"the values are {known}",
        ) from None
