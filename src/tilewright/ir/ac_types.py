"""Types of the asynchronous contract: what values of the dialect stand for is said in `ac`, which has its operations.

Checked by: tests/ir/test_ac_text.py.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException


@irdl_attr_definition
class RingType(ParametrizedAttribute, TypeAttribute):
    name = "ac.ring_type"
    ring: StringAttr
    stages: IntAttr


@irdl_attr_definition
class CursorType(ParametrizedAttribute, TypeAttribute):
    name = "ac.cursor"
    ring: StringAttr


@irdl_attr_definition
class PhaseType(ParametrizedAttribute, TypeAttribute):
    name = "ac.phase"
    ring: StringAttr
    side: StringAttr

    def verify(self) -> None:
        if self.side.data not in ("empty", "full", "retired"):
            raise VerifyException(f"a phase is empty, full or retired, not {self.side.data!r}")


@irdl_attr_definition
class TransactionType(ParametrizedAttribute, TypeAttribute):
    """bytes: announced for the slot and not yet issued."""

    name = "ac.tx"
    ring: StringAttr
    bytes: IntAttr


@irdl_attr_definition
class ReadingType(ParametrizedAttribute, TypeAttribute):
    name = "ac.reading"
    ring: StringAttr


@irdl_attr_definition
class InflightType(ParametrizedAttribute, TypeAttribute):
    name = "ac.inflight"
    m: IntAttr
    n: IntAttr


@irdl_attr_definition
class AccumulatorType(ParametrizedAttribute, TypeAttribute):
    name = "ac.acc"
    m: IntAttr
    n: IntAttr


@irdl_attr_definition
class FragmentType(ParametrizedAttribute, TypeAttribute):
    """axes: "mn" or "nm" (the array's own order) for a full fragment, "m" or "n" for a vector broadcast along the
    other."""

    name = "ac.fragment"
    m: IntAttr
    n: IntAttr
    axes: StringAttr
    element: StringAttr


@irdl_attr_definition
class StagedType(ParametrizedAttribute, TypeAttribute):
    name = "ac.staged"
    buffer: StringAttr
    state: StringAttr

    def verify(self) -> None:
        if self.state.data not in ("written", "fenced", "ready"):
            raise VerifyException(f"staged bytes are written, fenced or ready, not {self.state.data!r}")


@irdl_attr_definition
class DescriptorType(ParametrizedAttribute, TypeAttribute):
    """A tensor map: rank, swizzle, interleave and the alignment in bytes its shared-memory box needs."""

    name = "ac.tma_desc"
    rank: IntAttr
    swizzle: StringAttr
    interleave: StringAttr
    align: IntAttr


@irdl_attr_definition
class GlobalType(ParametrizedAttribute, TypeAttribute):
    """A global array reached by plain loads and stores."""

    name = "ac.global_type"
    element: StringAttr
    rank: IntAttr


@irdl_attr_definition
class IndexType(ParametrizedAttribute, TypeAttribute):
    """A 32-bit index: a tile coordinate, a loop index, a warpgroup's number or an affine function of them."""

    name = "ac.index"


@irdl_attr_definition
class ScalarType(ParametrizedAttribute, TypeAttribute):
    """One float32 value inside an elementwise region."""

    name = "ac.scalar_type"
