"""Which tiles multiply, and which may scale a product."""

import pytest

from tilewright.base.element import Element
from tilewright.ir.tile.product import check_scale, product_type
from tilewright.ir.tile.types import RuleViolation, ValueType


def narrow(*axes):
    return ValueType.of(axes, Element.BF16)


def wide(*axes):
    return ValueType.of(axes, Element.F32)


@pytest.mark.parametrize(
    ("left", "right", "product"),
    [
        (("M", "K"), ("K", "N"), ("M", "N")),
        (("B", "M", "K"), ("B", "K", "N"), ("B", "M", "N")),
        (("B", "M", "K"), ("K", "N"), ("B", "M", "N")),
        (("M", "K"), ("B", "K", "N"), ("B", "M", "N")),
    ],
)
def test_products(left, right, product):
    assert product_type(narrow(*left), narrow(*right)) == wide(*product)


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        (("B", "M", "K"), ("C", "K", "N"), "whose first axes are different ones"),
        (("M", "B", "K"), ("B", "K", "N"), "whose first axes are different ones"),
        (("B", "M", "K"), ("K", "B"), "whose first axes are different ones"),
        (("N", "M", "K"), ("K", "N"), "whose first axes are different ones"),
        (("B", "M", "K"), ("B", "N", "K"), "dot of tiles over"),
        (("K",), ("K", "N"), "dot of tiles over"),
        ((), ("K", "N"), "dot of tiles over"),
    ],
)
def test_no_products(left, right, message):
    with pytest.raises(RuleViolation, match=message) as caught:
        product_type(narrow(*left), narrow(*right))
    assert caught.value.remedy


@pytest.mark.parametrize("scale", [("M", "K/128"), ("K/128",), ("N/64", "K/32"), ("M/2", "N/64", "K/32"), ("B", "K/2")])
def test_scales(scale):
    check_scale(narrow("B", "M", "K"), narrow("K", "N"), wide(*scale))


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (wide("M"), "which is the same for every K"),
        (wide(), "which is the same for every K"),
        (wide("M", "K"), "one number for each K"),
        (wide("K/2", "K/4"), "is scaled by a tile over"),
        (wide("L", "K/4"), "is scaled by a tile over"),
        (narrow("K/4"), "of bf16"),
    ],
)
def test_no_scales(scale, message):
    with pytest.raises(RuleViolation, match=message) as caught:
        check_scale(narrow("M", "K"), narrow("K", "N"), scale)
    assert caught.value.remedy
