"""Types of the asynchronous contract: what values of the dialect stand for is said in `ac`, which has its operations.

Checked by: tests/ir/ac/test_text.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import Attribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from tilewright.ir.plain_attributes import PlainParameters

PHASE_SIDES = ("empty", "full", "retired")
"""Of a slot: may be filled, may be read, was read."""


@irdl_attr_definition
class RingType(PlainParameters, TypeAttribute):
    name = "ac.ring_type"
    ring: StringAttr
    stages: IntAttr


@irdl_attr_definition
class CursorType(PlainParameters, TypeAttribute):
    name = "ac.cursor"
    ring: StringAttr


@irdl_attr_definition
class PhaseType(PlainParameters, TypeAttribute):
    name = "ac.phase"
    ring: StringAttr
    side: StringAttr

    def verify(self) -> None:
        if self.side.data not in PHASE_SIDES:
            raise VerifyException(f"a phase is empty, full or retired, not {self.side.data!r}")


@irdl_attr_definition
class TransactionType(PlainParameters, TypeAttribute):
    """bytes: announced for the slot and not yet issued."""

    name = "ac.tx"
    ring: StringAttr
    bytes: IntAttr


@irdl_attr_definition
class ReadingType(PlainParameters, TypeAttribute):
    name = "ac.reading"
    ring: StringAttr


@irdl_attr_definition
class InflightType(PlainParameters, TypeAttribute):
    name = "ac.inflight"
    m: IntAttr
    n: IntAttr


@irdl_attr_definition
class AccumulatorType(PlainParameters, TypeAttribute):
    name = "ac.acc"
    m: IntAttr
    n: IntAttr


@irdl_attr_definition
class FragmentType(PlainParameters, TypeAttribute):
    """axes: "mn" or "nm" (the array's own order) for a full fragment, "m" or "n" for a vector broadcast along the
    other."""

    name = "ac.fragment"
    m: IntAttr
    n: IntAttr
    axes: StringAttr
    element: StringAttr


@irdl_attr_definition
class StagedType(PlainParameters, TypeAttribute):
    name = "ac.staged"
    buffer: StringAttr
    state: StringAttr

    def verify(self) -> None:
        if self.state.data not in ("written", "fenced", "ready"):
            raise VerifyException(f"staged bytes are written, fenced or ready, not {self.state.data!r}")


@irdl_attr_definition
class DescriptorType(PlainParameters, TypeAttribute):
    """A tensor map: rank, swizzle, interleave and the alignment in bytes its shared-memory box needs."""

    name = "ac.tma_desc"
    rank: IntAttr
    swizzle: StringAttr
    interleave: StringAttr
    align: IntAttr


@irdl_attr_definition
class GlobalType(PlainParameters, TypeAttribute):
    """A global array reached by plain loads and stores."""

    name = "ac.global_type"
    element: StringAttr
    rank: IntAttr


@irdl_attr_definition
class IndexType(PlainParameters, TypeAttribute):
    """A 32-bit index: a tile coordinate, a loop index, a warpgroup's number or an affine function of them."""

    name = "ac.index"


@irdl_attr_definition
class ScalarType(PlainParameters, TypeAttribute):
    """One float32 value inside an elementwise region."""

    name = "ac.scalar_type"


def issued_types(properties: Mapping[str, Attribute], rings: Sequence[StringAttr]) -> Mapping[str, Attribute]:
    """What a wgmma of `m` by `n` on a slot of the one ring gives."""
    m, n = properties.get("m"), properties.get("n")
    if not isinstance(m, IntAttr) or not isinstance(n, IntAttr) or not rings:
        return {}
    inflight = InflightType(cast("IntAttr", m), cast("IntAttr", n))
    return {"inflight": inflight, "reading": ReadingType(rings[0])}
