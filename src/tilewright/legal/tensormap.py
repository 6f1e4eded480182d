"""Is this tensor map legal, and which rules does it break?

`violations` are the rules that the driver enforces when the map is encoded: it is empty exactly where
`cuTensorMapEncodeTiled` succeeds. `cautions` are what the driver lets pass and what then fails or surprises on the
device: documented rules it does not enforce, and boxes that shared memory cannot hold.

Theory: `tilewright.legal.raw_tensormap` has the rules. Not handled: start coordinates and shared-memory addresses, that
belong to the copy and not to the map. Checked by tests/legal/test_tensormap.py and, against a driver,
tests/legal/test_tensormap_driver.py.
"""

from __future__ import annotations

from math import prod
from typing import get_args

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import Interleave, L2Promotion, OutOfBounds, Swizzle, TensorMap
from tilewright.legal.raw_tensormap import RawTensorMap, raw_violations
from tilewright.legal.violation import Violation
from tilewright.targets import Target

DATA_TYPE_CODES: dict[Element, int] = {
    Element.U8: 0,
    Element.U16: 1,
    Element.U32: 2,
    Element.S32: 3,
    Element.U64: 4,
    Element.S64: 5,
    Element.F16: 6,
    Element.F32: 7,
    Element.F64: 8,
    Element.BF16: 9,
}
"""`CUtensorMapDataType` of each element."""

# The enumerations of the driver count from 0 in the order in which `base.plan` names their values.
_INTERLEAVES: tuple[str, ...] = get_args(Interleave)
_SWIZZLES: tuple[str, ...] = get_args(Swizzle)
_L2_PROMOTIONS: tuple[str, ...] = get_args(L2Promotion)
_OUT_OF_BOUNDS: tuple[str, ...] = get_args(OutOfBounds)


def violations(map: TensorMap, target: Target, *, global_address: int = 0) -> tuple[Violation, ...]:
    """Every rule of the driver that `map` breaks, for a buffer at `global_address`; empty where it would be encoded.

    `map.offset_bytes` is added to the address. Raises TilewrightError where the fields' lengths contradict each other.
    """
    return raw_violations(raw_tensor_map(map, global_address=global_address), target)


def raw_tensor_map(map: TensorMap, *, global_address: int = 0) -> RawTensorMap:
    """The arguments of `cuTensorMapEncodeTiled` for `map`, whose buffer is at `global_address`.

    Raises TilewrightError where the fields' lengths contradict each other.
    """
    element_strides = map.element_strides or (1,) * map.rank
    for name, entries, needed in (
        ("strides_bytes", map.strides_bytes, max(map.rank - 1, 0)),
        ("box", map.box, map.rank),
        ("element_strides", element_strides, map.rank),
    ):
        if len(entries) != needed:
            raise TilewrightError(f"tensor map: {name} has {len(entries)} entries; rank {map.rank} needs {needed}")
    return RawTensorMap(
        data_type=DATA_TYPE_CODES[map.element],
        rank=map.rank,
        global_address=global_address + map.offset_bytes,
        dims=map.dims,
        strides_bytes=map.strides_bytes,
        box=map.box,
        element_strides=element_strides,
        interleave=_INTERLEAVES.index(map.interleave),
        swizzle=_SWIZZLES.index(map.swizzle),
        l2_promotion=_L2_PROMOTIONS.index(map.l2_promotion),
        out_of_bounds=_OUT_OF_BOUNDS.index(map.out_of_bounds),
    )


def swizzle_span_bytes(map: TensorMap, target: Target) -> int:
    """Bytes of the row that the map's swizzle permutes; 0 without swizzle."""
    return target.limits("tensor_map.swizzle_span_bytes")[_SWIZZLES.index(map.swizzle)]


def shared_footprint_bytes(map: TensorMap, target: Target) -> int:
    """Bytes of shared memory from a box's first to its last, for a legal map without interleave.

    At least the transaction's bytes (`map.box_bytes`). More where the swizzle's span is wider than the inner row: rows
    then stand a whole span apart (measured on an H200, probe `tma_load`). Raises TilewrightError for interleaved maps.
    """
    if map.interleave != "none":
        raise TilewrightError("the shared-memory footprint of interleaved maps is not known here")
    span_bytes = swizzle_span_bytes(map, target)
    inner_bytes = map.box[0] * map.element.bytes
    element_strides = map.element_strides or (1,) * map.rank
    rows = prod(-(-extent // stride) for extent, stride in zip(map.box[1:], element_strides[1:], strict=True))
    return (rows - 1) * max(span_bytes, inner_bytes) + inner_bytes


def cautions(map: TensorMap, target: Target) -> tuple[Violation, ...]:
    """What the driver accepts and the device does not: rules with `enforced` false. Judged for legal maps only.

    Raises TilewrightError where the fields' lengths contradict each other.
    """
    if violations(map, target):
        return ()
    found: list[Violation] = []
    if map.interleave == "32B" and map.swizzle != "32B":
        found.append(
            Violation(
                "TM031",
                "interleave-32B-swizzle",
                "swizzle",
                None,
                _SWIZZLES.index(map.swizzle),
                _SWIZZLES.index("32B"),
                f"interleave 32B is documented for swizzle 32B alone, not {map.swizzle}",
                "CUDA Driver API, cuTensorMapEncodeTiled: swizzle where interleave is 32B; not enforced",
                enforced=False,
            )
        )
    if map.interleave == "none":
        footprint_bytes = shared_footprint_bytes(map, target)
        limit = target.limit("cta.shared_bytes_max")
        if footprint_bytes > limit:
            found.append(
                Violation(
                    "TM032",
                    "shared-footprint",
                    "boxDim",
                    None,
                    footprint_bytes,
                    limit,
                    f"box occupies {footprint_bytes} bytes of shared memory, more than the {limit} a thread block has",
                    target.fact("cta.shared_bytes_max").source,
                    enforced=False,
                )
            )
    return tuple(found)
