"""Where do a kernel's shared and local variables stand?

Shared: the static variables that the kernel mentions, in the order of their declarations, each aligned; then the
dynamic array (an `extern` array of no size), which the launch's dynamic bytes extend. They begin at 0, or, for runs
that are to prove something, as high as matrix descriptors let them: hardware keeps the bytes from 0 on to itself, and a
text that computes an address without the variable's own is then wrong. Local: every thread has a frame
that holds the kernel's `.local` variables and the `.param` variables of its calls; both live as long as the thread.
Source: PTX ISA 5.1 (state spaces), 7.1 (function declarations). Checked by: tests/machine/core/test_run.py,
test_calls.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.base.error import TilewrightError
from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import (
    Address,
    Arguments,
    Immediate,
    Instruction,
    Kernel,
    Module,
    Operand,
    Register,
    Symbol,
    TensorAddress,
    Variable,
    Vector,
)
from tilewright.targets import Target

_FRAME_ALIGN_BYTES = 16
_DESCRIBED_BYTES = 1 << 18
"""Addresses that matrix descriptors can name, in 14 bits without the lowest four (PTX ISA 9.7.15.5.1.2.2)."""
_HIGH_ALIGN_BYTES = 1024
"""Of where variables begin that stand high: no repeat of a swizzle is longer (PTX ISA 5.5.7, swizzling modes)."""
_WITHOUT_SYMBOLS = frozenset({Register, Immediate})
LOCAL_BYTES_MOST = 512 * 1024
"""Local memory of one thread (CUDA C++ Programming Guide, table of technical specifications)."""


@dataclass(frozen=True, slots=True)
class Frame:
    """symbols: each variable's offset; size_bytes: of the whole, what is reserved included; reserved_bytes: from 0 to
    where the first variable may stand, which nobody may touch."""

    symbols: dict[str, int]
    size_bytes: int
    reserved_bytes: int = 0


def shared_layout(module: Module, kernel: Kernel, dynamic_bytes: int, target: Target, *, high: bool = False) -> Frame:
    """Offsets of the shared variables that the kernel mentions, and bytes in all with the launch's dynamic ones. high:
    they begin at the last odd multiple of 1024 bytes from which the addresses of all fit matrix descriptors, not at 0;
    an odd one, since hardware keeps 1024 bytes: who clears that bit of an address is wrong there, too.

    Raises TilewrightError where they take more than a CTA may have.
    """
    used = {variable.name for variable in kernel.variables} | symbols_of(kernel)
    variables = [
        each for each in (*module.variables, *kernel.variables) if each.space == "shared" and each.name in used
    ]
    static = _stacked(each for each in variables if each.size_bytes is not None)
    dynamic = [each for each in variables if each.size_bytes is None]
    end = static.size_bytes
    if dynamic:
        end += -end % max(each.align for each in dynamic)
    symbols = static.symbols | {each.name: end for each in dynamic}
    end += dynamic_bytes
    most = target.limit("cta.shared_bytes_max")
    if end > most:
        raise TilewrightError(
            f"kernel {kernel.name} takes {end} bytes of shared memory, more than {most}", span=kernel.span
        )
    if not high:
        return Frame(symbols, end)
    reserved = ((_DESCRIBED_BYTES - end) // _HIGH_ALIGN_BYTES - 1 | 1) * _HIGH_ALIGN_BYTES
    return Frame({name: reserved + offset for name, offset in symbols.items()}, reserved + end, reserved)


def local_frame(kernel: Kernel) -> Frame:
    """Offsets of the variables of one thread, and the size of its frame (a multiple of 16 bytes).

    Raises TilewrightError where they take more than a thread may have.
    """
    variables = [each for each in kernel.variables if each.space in ("local", "param")]
    stacked = _stacked(variables)
    if stacked.size_bytes > LOCAL_BYTES_MOST:
        raise TilewrightError(
            f"a thread of {kernel.name} takes {stacked.size_bytes} bytes of local memory, more than {LOCAL_BYTES_MOST}",
            span=kernel.span,
        )
    align = max([_FRAME_ALIGN_BYTES, *(each.align for each in variables)])
    return Frame(stacked.symbols, stacked.size_bytes + -stacked.size_bytes % align)


def _stacked(variables: Iterable[Variable]) -> Frame:
    symbols: dict[str, int] = {}
    end = 0
    for variable in variables:
        end += -end % max(variable.align, 1)
        symbols[variable.name] = end
        end += variable.size_bytes or 0
    return Frame(symbols, end)


def symbols_of(kernel: Kernel) -> set[str]:
    """The names of variables, labels and parameters that a kernel's instructions mention."""
    found: set[str] = set()
    waiting: list[Operand] = [
        operand
        for item in kernel.body
        if isinstance(item, Instruction)
        for operand in item.operands
        if type(operand) not in _WITHOUT_SYMBOLS
    ]
    while waiting:
        operand = waiting.pop()
        if isinstance(operand, Address):
            operand = operand.base
        if isinstance(operand, Symbol):
            found.add(operand.name)
        elif isinstance(operand, TensorAddress):
            waiting += (operand.base, *operand.coordinates)
        elif isinstance(operand, Vector | Arguments):
            waiting += [item for item in operand.items if type(item) not in _WITHOUT_SYMBOLS]
    return found
