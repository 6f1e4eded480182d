"""Which numbers may a size of a kernel be, where some extents are known only at its launch?

A rule that is kept the longer the smaller a size is asks for the largest that it can be, over the whole range of each
run-time axis (`base.size.bounds`); one that needs the number itself is in doubt where there is none. So whatever is
shown is shown for every extent of the ranges, and nothing is substituted.

A size that names an axis without a range, that may be negative or past 32 bits is not understood: then nothing is
proved. Checked by: tests/contract/typestate/test_run_time_sizes.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation

from tilewright.base.error import TilewrightError
from tilewright.base.size import Computed, Range, Size, bounds, divisor
from tilewright.contract.typestate.finding import Findings
from tilewright.ir.ac import operations as ac
from tilewright.ir.sizes import AnySize, RangeAttr, SizeAttr, ranges_of, size_of, sizes_of

_WORD = 1 << 32
"""Sizes are words that the launch passes or counts by,"""
_ENDS = {"strides": 1 << 31, "strides_bytes": 1 << 40}
"""and strides words with a sign, or numbers that it encodes (CUDA driver, cuTensorMapEncodeTiled)."""


def are_understood(module: ModuleOp, findings: Findings) -> bool:
    """Doubt ranges and sizes that are none; False where there are such."""
    before = len(findings.doubts)
    for op in module.walk():
        for name, attribute in op.properties.items():
            for each in _sizes_in(attribute):
                _check_size(op, each, _ENDS.get(name, _WORD), findings)
        if isinstance(op, ac.KernelOp) and op.ranges is not None:
            for axis, each in op.ranges.data.items():
                if not isinstance(each, RangeAttr):
                    findings.doubt(f"the extents of {axis} are {each}", op)
    return len(findings.doubts) == before


def _sizes_in(attribute: Attribute) -> Iterator[SizeAttr]:
    if isinstance(attribute, SizeAttr):
        yield attribute
    elif isinstance(attribute, ArrayAttr):
        for each in cast("ArrayAttr[Attribute]", attribute):
            yield from _sizes_in(each)
    elif isinstance(attribute, DictionaryAttr):
        for each in attribute.data.values():
            yield from _sizes_in(each)


def _check_size(op: Operation, attribute: SizeAttr, end: int, findings: Findings) -> None:
    """end: what it must be less than."""
    try:
        least, most = bounds(attribute.size, ranges_at(op))
    except (KeyError, ZeroDivisionError, ValueError, TilewrightError) as problem:
        findings.doubt(f"the size {attribute.text.data} is not understood: {problem}", op)
        return
    if least < 0 or most >= end:
        findings.doubt(f"the size {attribute.text.data} may be {least} or {most}, past {end.bit_length() - 1} bits", op)


def ranges_at(op: Operation) -> dict[str, Range]:
    """The ranges of the run-time axes of the kernel that an operation belongs to."""
    kernel: Operation | None = op
    while kernel is not None and not isinstance(kernel, ac.KernelOp):
        kernel = kernel.parent_op()
    return {} if kernel is None else ranges_of(kernel.ranges)


def most_of(attribute: AnySize, op: Operation) -> int:
    """The largest number that a size of `op` can be."""
    return bounds(size_of(attribute), ranges_at(op))[1]


def most_each(attribute: ArrayAttr[AnySize], op: Operation) -> tuple[int, ...]:
    """The largest numbers that sizes of `op` can be."""
    ranges = ranges_at(op)
    return tuple(bounds(size, ranges)[1] for size in sizes_of(attribute))


def least_each(attribute: ArrayAttr[AnySize], op: Operation) -> tuple[int, ...]:
    """The smallest numbers that sizes of `op` can be."""
    ranges = ranges_at(op)
    return tuple(bounds(size, ranges)[0] for size in sizes_of(attribute))


def most_places(loop: ac.TilesOp | ac.TurnTilesOp) -> tuple[int, ...]:
    """The most places along each axis of a batch that a loop over tiles goes through."""
    return () if loop.batch is None else most_each(loop.batch, loop)


def reaches_no_further(size: Size, than: Size, op: Operation) -> bool:
    """Whether a size is at most another at every extent, as far as their forms and bounds show."""
    (one, axes), (other, same) = _monomial(size), _monomial(than)
    if size == than or (axes == same and 0 <= one <= other):
        return True
    ranges = ranges_at(op)
    return bounds(size, ranges)[1] <= bounds(than, ranges)[0]


def _monomial(size: Size) -> tuple[int, tuple[str, ...]]:
    """A number times extents of axes, as which a size is written; what is written otherwise is one by itself."""
    match size:
        case int():
            return size, ()
        case Computed("*", left, right):
            (one, axes), (other, further) = _monomial(left), _monomial(right)
            return one * other, tuple(sorted((*axes, *further)))
        case _:
            return 1, (str(size),)


def check_counts(
    kernel: ac.KernelOp, symbols: Mapping[str, int], minima: Mapping[str, int], findings: Findings
) -> None:
    """Doubt counts that only the launch knows of what is no trip count of `ac.loop`, or of which the proof, which is
    for all values from the symbol's minimum on, leaves some out."""
    if kernel.counts is None:
        return
    for symbol, size in kernel.counts.data.items():
        if not isinstance(size, SizeAttr) or symbol not in symbols:
            findings.doubt(f"the count {symbol} is {size}", kernel)
            continue
        least, most = bounds(size.size, ranges_at(kernel))
        if least < minima.get(symbol, 0):
            findings.doubt(f"{symbol} may be {least}, less than its minimum {minima[symbol]}", kernel)
        if not least <= symbols[symbol] <= most:
            findings.doubt(f"{symbol} is {symbols[symbol]}, and from {least} to {most} at a launch", kernel)
    for op in kernel.walk():
        named = {key: each.data for key, each in op.properties.items() if isinstance(each, StringAttr)}
        for key in ("symbol", "skipped", "slices"):
            if named.get(key) in kernel.counts.data and not (key == "symbol" and isinstance(op, ac.LoopOp)):
                findings.doubt(f"needs {named[key]} as a number, which only the launch knows", op)


def fixed(attribute: ArrayAttr[AnySize], op: Operation, findings: Findings) -> tuple[int, ...]:
    """Sizes that a rule must have as numbers; a doubt where the launch alone knows one."""
    sizes = sizes_of(attribute)
    if not all(isinstance(size, int) for size in sizes):
        findings.doubt("has a size that only the launch knows, where it must be a number", op)
    return most_each(attribute, op)


def is_multiple(size: Size, of: int, ranges: Mapping[str, Range]) -> bool:
    """Whether a size is a multiple of a number at every extent, as far as its form shows."""
    return divisor(size, ranges) % of == 0
