"""Does a kernel use tensor memory that nothing in its text allocates?

Where an allocation is missing, the address of the tensor memory is whatever lies in shared memory: a run knows it no
more than anything else of uninitialised memory, and can't say which columns are touched. That they belong to no
allocation can be said from the text. A text that calls what it does not hold is left alone. An allocation that is
there, but comes too late, ends too early or is too small, is found by runs. Source: PTX ISA, tcgen05.alloc.
Checked by: tests/driver/explore/control_flow/test_unallocated.py.
"""

from __future__ import annotations

from tilewright.base.diagnostic import Diagnostic
from tilewright.frontends.ptx.ast import Instruction, Kernel, Module
from tilewright.machine.core.rules import MACHINE_RULES

_CODE = "TC206"
_TOUCHES = ("tcgen05.ld", "tcgen05.st", "tcgen05.mma", "tcgen05.cp", "tcgen05.shift", "tcgen05.dealloc")


def unallocated(module: Module, kernel: Kernel) -> tuple[Diagnostic, ...]:
    """The kernel's first use of tensor memory, if its text has no `tcgen05.alloc`; else nothing."""
    bodies = (kernel.body, *(function.body or () for function in module.functions))
    items = [item for body in bodies for item in body if isinstance(item, Instruction)]
    # An unread instruction may be an allocation; a function that is only declared may hold one.
    if any(not item.row or item.opcode.startswith("tcgen05.alloc") for item in items):
        return ()
    if any(function.body is None for function in module.functions):
        return ()
    first = next((item for item in items if item.opcode.startswith(_TOUCHES)), None)
    if first is None:
        return ()
    rule = MACHINE_RULES[_CODE]
    message = f"{first.row} touches tensor memory, and nothing in the text allocates any"
    return (Diagnostic(_CODE, rule.name, message, first.span, source=rule.source),)
