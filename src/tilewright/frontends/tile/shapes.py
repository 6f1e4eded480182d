"""Which tensor types a kernel's parameters get from dims, elements and strides, and what is wrong with those given.

Theory: every axis has one extent, shared by all tensors that name it, so shapes follow from names. Whatever is missing,
misspelt or out of range is refused where the kernel is declared, naming the nearest known name.
An extent that only a launch knows is given as what it may be; types then have the largest.
Checked by tests/frontends/test_tile_errors.py and test_tile_trace.py.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from xdsl.utils.exceptions import VerifyException

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.size import Range, Size, product
from tilewright.frontends.tile.kernel import Kernel, Parameter, nearest_name
from tilewright.ir.refinement import DEFAULT_ALIGNMENT_BYTES, Refinement
from tilewright.ir.tile.axes import axis_size, base_axis, derived_extent
from tilewright.ir.tile.types import VALUE_TYPES, RuleViolation, TensorType
from tilewright.layout.numbers.condition import names_of, parts_of
from tilewright.layout.numbers.condition_facts import decide
from tilewright.layout.numbers.condition_parser import parse_where
from tilewright.layout.numbers.integer_fact import IntegerFact, Truth

Dims: TypeAlias = Mapping[str, "int | Range"]
"""The extent of each axis, or what it may be."""


def settled_dims(kernel: Kernel, dims: Dims) -> tuple[dict[str, int], dict[str, Range]]:
    """The extents that choices are made by, of run-time axes the largest; and the ranges of these."""
    ranges = {axis: each for axis, each in dims.items() if isinstance(each, Range)}
    for axis in ranges:
        if axis in kernel.block_axes:
            raise TilewrightError(
                f"axis {axis} of kernel {kernel.name} is one of blocks",
                span=kernel.span,
                remedy=f"give {base_axis(axis)} a range: the number of blocks follows",
            )
    return {axis: each.most if isinstance(each, Range) else _python_number(each) for axis, each in dims.items()}, ranges


def require_promises(kernel: Kernel, dims: Mapping[str, int], ranges: Mapping[str, Range]) -> None:
    """Raises TilewrightError where an extent of a range breaks what the author promises of the kernel's axes."""
    if not ranges:
        return
    facts = {axis: IntegerFact(extent, extent) for axis, extent in dims.items()} | {
        axis: IntegerFact(each.least_launched, each.most, each.multiple_of) for axis, each in ranges.items()
    }
    for parameter in kernel.parameters:
        for part in parts_of(parse_where(parameter.where)) if parameter.where else ():
            if decide(part, facts) is not Truth.YES:
                axis = next(iter(sorted(names_of(part) & ranges.keys())), "")
                raise TilewrightError(
                    f"{axis} from {ranges[axis]} breaks the promise {part}" if axis else f"{part} is broken",
                    span=kernel.span,
                    remedy="give a range that keeps it, or promise less",
                )


def tensor_types(
    kernel: Kernel,
    dims: Mapping[str, int],
    elements: Mapping[str, Element],
    strides: Mapping[str, tuple[int, ...]],
    ranges: Mapping[str, Range] = MappingProxyType({}),
) -> dict[str, TensorType]:
    """The type of every parameter by name; see `trace.trace` for the arguments. ranges: of run-time axes, of which
    strides are sizes that no one gives. Raises TilewrightError."""
    names = [parameter.name for parameter in kernel.parameters]
    _check_names(kernel, "parameter", elements, names, complete=True)
    _check_names(kernel, "parameter", strides, names, complete=False)
    extents = all_extents(kernel, dims)
    return {
        parameter.name: _tensor_type(
            kernel, parameter, extents, elements[parameter.name], strides.get(parameter.name), ranges
        )
        for parameter in kernel.parameters
    }


def all_extents(kernel: Kernel, dims: Mapping[str, int]) -> dict[str, int]:
    """The extent of every axis that a parameter names, those of blocks included, which may be given too.

    Raises TilewrightError for extents that are missing, unknown, below 0, no whole numbers, or not those of blocks.
    """
    known = (*kernel.axes, *kernel.block_axes)
    _check_names(kernel, "axis", dims, kernel.axes, complete=True, more=kernel.block_axes)
    for axis, extent in dims.items():
        if not _is_whole(extent) or extent < 0:
            raise TilewrightError(
                f"axis {axis} of kernel {kernel.name} has extent {extent!r}",
                span=kernel.span,
                remedy="give a whole number of elements, 0 or more",
            )
    extents = {axis: derived_extent(axis, dims) for axis in known}
    for axis, extent in dims.items():
        if extent != extents[axis]:
            raise TilewrightError(
                f"axis {axis} of kernel {kernel.name} has extent {extent}, but {base_axis(axis)} of "
                f"{dims[base_axis(axis)]} elements has {extents[axis]} such blocks",
                span=kernel.span,
                remedy="the last block may be partial: give ceil(extent / size) of them",
            )
    return extents


def _tensor_type(
    kernel: Kernel,
    parameter: Parameter,
    dims: Mapping[str, int],
    element: Element,
    strides: tuple[int, ...] | None,
    ranges: Mapping[str, Range],
) -> TensorType:
    if parameter.element is not None and element is not parameter.element:
        raise TilewrightError(
            f"parameter {parameter.name} is declared {parameter.element.value} and given as {element_name(element)}",
            span=kernel.span,
            remedy=f"give it as {parameter.element.value}, or leave the element out of its annotation",
        )
    if element not in VALUE_TYPES:
        raise TilewrightError(
            f"parameter {parameter.name} has element {element_name(element)}",
            span=kernel.span,
            remedy="use bf16, f16, f32, f8e4m3, f8e5m2, i8 or i32",
        )
    shape = tuple(dims[axis] for axis in parameter.axes)
    apart: tuple[Size, ...]
    if strides is None or (0 in shape and len(strides) == len(shape)):
        # Nothing lies anywhere in an array without elements, whatever strides its library says.
        apart = tuple(_elements(parameter.axes[axis + 1 :], dims, ranges) for axis in range(len(shape)))
    elif all(_is_whole(stride) for stride in strides):
        apart = strides
    else:
        raise TilewrightError(
            f"parameter {parameter.name} has strides {strides!r}", span=kernel.span, remedy="give whole numbers"
        )
    alignment = DEFAULT_ALIGNMENT_BYTES if parameter.alignment_bytes is None else parameter.alignment_bytes
    if alignment < element.bytes:
        raise TilewrightError(
            f"parameter {parameter.name} of {element.value} may begin at multiples of {alignment} bytes",
            span=kernel.span,
            remedy=f"align it to its elements, at least {element.bytes}",
        )
    try:
        refinement = Refinement.of(alignment, parameter.where)
        return TensorType.of(parameter.axes, shape, apart, element, refinement)
    except VerifyException as error:
        remedy = error.remedy if isinstance(error, RuleViolation) else ""
        raise TilewrightError(f"parameter {parameter.name}: {error}", span=kernel.span, remedy=remedy) from error


def _elements(axes: Sequence[str], dims: Mapping[str, int], ranges: Mapping[str, Range]) -> Size:
    """Of a row-major part over these axes."""
    sizes = [axis_size(axis, dims[axis], ranges) for axis in axes]
    known = math.prod(max(size, 1) for size in sizes if isinstance(size, int))
    return product((*(size for size in sizes if not isinstance(size, int)), known))


def _python_number(extent: int | numbers.Integral) -> int:
    """A whole number of another library as Python's; anything else as it is, to be refused."""
    return extent if isinstance(extent, bool) or not isinstance(extent, numbers.Integral) else int(extent)


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def element_name(element: object) -> str:
    return element.value if isinstance(element, Element) else repr(element)


def _check_names(
    kernel: Kernel,
    what: str,
    given: Mapping[str, object],
    known: Sequence[str],
    *,
    complete: bool,
    more: Sequence[str] = (),
) -> None:
    """Every name given is one of `known` or of `more`; if `complete`, every one of `known` is given."""
    for name in given:
        if name not in known and name not in more:
            raise TilewrightError(
                f"kernel {kernel.name} has no {what} {name}",
                span=kernel.span,
                remedy=nearest_name(str(name), (*known, *more)),
            )
    missing = [name for name in known if name not in given]
    if complete and missing:
        wanted = "extent" if what == "axis" else "element"
        raise TilewrightError(
            f"{what} {missing[0]} of kernel {kernel.name} has no {wanted}", span=kernel.span, remedy="give it one"
        )
