"""Which tiles multiply, and which numbers may scale their product inside a loop.

Theory: a product contracts the last axis of its left tile with the last but one of its right tile, as matrices do; an
axis before these two is a batch axis, within which it contracts. The sum over an axis does not depend on how it is cut
into tiles, nor does it where every term is scaled by a number of its own element's block: the number goes with the
element, not with the tile. A scale that is the same along the whole contracted axis is refused: it belongs after the
loop, where it costs one multiplication.
Checked by tests/ir/tile/test_product.py.
"""

from __future__ import annotations

from tilewright.base.element import Element
from tilewright.ir.tile.axes import base_axis, blocks_of
from tilewright.ir.tile.types import RuleViolation, ValueType, axes_text

DOT_ELEMENTS = (Element.BF16, Element.F16, Element.F8E4M3, Element.F8E5M2, Element.F4E2M1X2)
"""What tensor cores multiply exactly. float32 operands would be rounded to TF32 unasked, so they are refused."""


def product_type(left: ValueType, right: ValueType) -> ValueType:
    """The type of left (B, P, Q) times right (B, Q, R), over (B, P, R) in float32; B may be missing in one or both.

    Raises RuleViolation if they do not multiply.
    """
    axes = f"{axes_text(left.axis_names)} and {axes_text(right.axis_names)}"
    if len(left.axis_names) < 2 or len(right.axis_names) < 2:
        raise RuleViolation(f"dot of tiles over {axes}", "give two tiles of two axes each, or three with a batch axis")
    outer, inner = left.axis_names[-2:]
    inner_right, outer_right = right.axis_names[-2:]
    if inner != inner_right or outer == outer_right:
        raise RuleViolation(f"dot of tiles over {axes}", _transpose_remedy(left.axis_names[-2:], right.axis_names[-2:]))
    batches = tuple(dict.fromkeys((*left.axis_names[:-2], *right.axis_names[:-2])))
    if len(batches) > 1 or set(batches) & {outer, inner, outer_right}:
        raise RuleViolation(
            f"dot of tiles over {axes}, whose first axes are different ones",
            "put the batch axis first in both tensors, or leave it out of one",
        )
    if left.element != right.element:
        raise RuleViolation(f"dot of {left.element} with {right.element}", "cast one of them with .to(...)")
    if left.element_kind not in DOT_ELEMENTS:
        raise RuleViolation(
            f"dot of {left.element} tiles, which no tensor core multiplies exactly", "cast both with .to(tw.bf16)"
        )
    return ValueType.of((*batches, outer, outer_right), Element.F32)


def _transpose_remedy(left: tuple[str, ...], right: tuple[str, ...]) -> str:
    (p, q), (r, s) = left, right
    if {p, q} == {r, s}:
        return "both operands share both axes; name one of the outer axes differently"
    if q == s:
        return "transpose the right tile with .T"
    if p == r:
        return "transpose the left tile with .T"
    if p == s:
        return "transpose both tiles with .T"
    return "give tiles over (P, Q) and (Q, R)"


def check_contraction(left: ValueType, loop_axis: str) -> None:
    """A product must contract the axis of its loop: otherwise it would count once per tile of that axis."""
    inner = left.axis_names[-1]
    if inner != loop_axis:
        raise RuleViolation(
            f"dot contracts {inner} inside a loop over {loop_axis}", f"loop over {inner}, or contract {loop_axis}"
        )


def check_scale(left: ValueType, right: ValueType, scale: ValueType) -> None:
    """Raise RuleViolation unless a float32 tile may scale the terms of left times right inside their loop."""
    product, inner = product_type(left, right).axis_names, left.axis_names[-1]
    shown = f"a product over {axes_text(product)} is scaled by a tile over {axes_text(scale.axis_names)}"
    if scale.element_kind is not Element.F32:
        raise RuleViolation(f"{shown} of {scale.element}", "cast it to f32")
    bases = [base_axis(axis) for axis in scale.axis_names]
    if len(set(bases)) != len(bases) or not set(bases) <= {*product, inner}:
        raise RuleViolation(shown, f"scale it by a tile over {axes_text(product)} and blocks of {inner}")
    if inner in scale.axis_names:
        raise RuleViolation(
            f"{shown}: one number for each {inner}", "scale an operand of the product instead, or by blocks of it"
        )
    if not any(blocks_of(axis) is not None and base_axis(axis) == inner for axis in scale.axis_names):
        raise RuleViolation(
            f"{shown}, which is the same for every {inner}", "multiply the accumulator by it after the loop"
        )
