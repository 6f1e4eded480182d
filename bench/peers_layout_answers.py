"""Tilewright's answers to a peer's questions about layouts: by the peer's names, or a reason for none."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tilewright.layout import (
    NotDecided,
    NotExpressible,
    coalesce,
    complement,
    compose,
    left_inverse,
    logical_divide,
    logical_product,
    nested,
    right_inverse,
)
from tilewright.layout.layout import Layout

PEER_ERRORS = (AssertionError, ValueError, TypeError, IndexError, ZeroDivisionError, OverflowError, RecursionError)
"""What a peer raises where it has no answer."""


class Refused(AssertionError):
    """Our algebra gave no layout."""


def layout_of(layout: Any) -> Layout:
    """Of a peer's layout, which has a shape and a stride."""
    return Layout(layout.shape, layout.stride)


def answer(found: Layout | NotExpressible | NotDecided) -> Layout:
    if isinstance(found, Layout):
        return found
    raise Refused(str(found))


def composed(left: Layout, right: Layout) -> tuple[Layout, bool]:
    """The composition, and whether it needed the first layout to go on beyond its domain."""
    found = compose(left, right)
    if isinstance(found, NotExpressible) and "outside the" in found.reason:
        return answer(compose(left, right, extend=True)), True
    return answer(found), False


OPERATIONS: dict[str, Callable[..., Layout]] = {
    "coalesce": lambda layout: coalesce(layout),
    "complement": lambda layout, size=1: answer(complement(layout, size, partial=True)),
    "composition": lambda left, right: composed(left, right)[0],
    "left_inverse": lambda layout: answer(left_inverse(layout)),
    "right_inverse": lambda layout: answer(right_inverse(layout)),
    "logical_divide": lambda layout, tile: answer(logical_divide(layout, tile, extend=True)),
    "logical_product": lambda layout, tile: answer(logical_product(layout, tile)),
}
NUMBERS: dict[str, Callable[..., object]] = {
    "product": lambda value: nested.product(value),
    "prefix_product": lambda value: nested.compact_strides(value),
}


@contextmanager
def first_on_path(*folders: Path) -> Iterator[None]:
    kept = list(sys.path)
    sys.path[:0] = [str(folder) for folder in folders]
    try:
        yield
    finally:
        sys.path[:] = kept


def loaded(file: Path) -> types.ModuleType:
    specification = importlib.util.spec_from_file_location(f"peer_{file.stem}", file)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[module.__name__] = module
    specification.loader.exec_module(module)
    return module


def kind_of(reason: str) -> str:
    """What kind of refusal it is, without the numbers."""
    for words, kind in (
        ("gives a value twice", "a value is given twice, so nothing undoes it"),
        ("lies below", "strides overlap"),
        ("outside the", "values outside the first layout"),
        ("are no layout", "the values along an axis are no layout"),
        ("by its axes", "carries: the sum of the axes is not the whole"),
        ("undecided", "undecided"),
    ):
        if words in reason:
            return kind
    return reason
