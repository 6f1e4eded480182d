"""What is decided of a single product, which is a walk that only sums, and what its decisions say of it."""

from collections.abc import Mapping
from typing import Any

from tilewright.base.element import Element
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.driver.compile.sequence import Part, uncut
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.cascade import CascadeDecisions, SlotDecision
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import Target, target

HOPPER = target("sm_90a")


def parts_of(
    dims: Mapping[str, Any],
    kernel: Kernel = matmul_kernel,
    *,
    strides: Mapping[str, tuple[int, ...]] | None = None,
    elements: Mapping[str, Element] | None = None,
    target: Target = HOPPER,
    wanted: Wanted | None = None,
) -> tuple[Part, ...]:
    """Of a program that is cut at no value: its product is the last, behind kernels that copy operands. elements: bf16
    where unnamed."""
    kinds = {each.name: Element.BF16 for each in kernel.parameters} | dict(elements or {})
    return uncut(trace(kernel, dims, kinds, strides), target, wanted or Wanted())


def walk_of(parts: tuple[Part, ...]) -> CascadeDecisions:
    """Of the product itself."""
    decisions = parts[-1].decisions
    assert isinstance(decisions, CascadeDecisions)
    return decisions


def decided(dims: Mapping[str, Any], kernel: Kernel = matmul_kernel, **more: Any) -> CascadeDecisions:
    return walk_of(parts_of(dims, kernel, **more))


def decided_product(
    m: int,
    n: int,
    k: int,
    *,
    strides: Mapping[str, tuple[int, ...]] | None = None,
    kind: Element = Element.BF16,
    **wanted: Any,
) -> CascadeDecisions:
    """Of `matmul_kernel`, with B by columns where nothing is said of it."""
    strides = {"b": (1, k)} if strides is None else strides
    elements = dict.fromkeys("abc", kind)
    return decided({"M": m, "N": n, "K": k}, strides=strides, elements=elements, wanted=Wanted(**wanted))


def tile_of(d: CascadeDecisions) -> tuple[int, int]:
    return d.tile_rows, d.tile_columns


def is_swapped(d: CascadeDecisions) -> bool:
    """Whether the rows of tiles run along N."""
    return d.row == "N"


def ring_slots(d: CascadeDecisions) -> int:
    return d.slots[0].slots


def slot_along(d: CascadeDecisions, axis: str) -> SlotDecision:
    """Of the operand that has the axis."""
    (found,) = (slot for slot in d.slots if axis in (slot.inner, slot.outer))
    return found


def major_of(d: CascadeDecisions, axis: str) -> str:
    return "K" if slot_along(d, axis).inner == d.streamed else "MN"


def row_operand(d: CascadeDecisions) -> SlotDecision:
    return slot_along(d, d.row)


def column_operand(d: CascadeDecisions) -> SlotDecision:
    return slot_along(d, d.column)
