"""May a copy engine of a kernel that begins early be told to load before its thread has waited for the grids before?

A run shows which loads came before griddepcontrol.wait (`grid_dependency`) in the turns that it takes. A thread that
waits in several places, one for each kind of part of its work, may have come by another in that run, where at another
size it has no such part. So no way through the text may lead from its beginning to a load without a wait.

Not handled: other accesses, whose threads may know of another's wait, as a run shows; functions that are called.
Source: PTX ISA 9.7.13.13 (griddepcontrol). Checked by: tests/contract/judge/waits/test_unwaited_loads.py.
"""

from __future__ import annotations

from tilewright.base.span import Span
from tilewright.frontends.ptx.ast import Instruction, Kernel
from tilewright.machine.protocol.slicing.slice_flow import flow_of


def unwaited_loads(kernel: Kernel) -> tuple[Span, ...]:
    """The loads of tensors (cp.async.bulk.tensor from global to shared memory) to which a way without an unguarded
    griddepcontrol.wait leads, in the order of the text; a way is one of its control flow, whatever its branches test.

    Raises TilewrightError where loops nest beyond reason."""
    flow = flow_of(kernel)
    met: set[int] = set()
    found: list[Span] = []
    waiting = [0]
    while waiting:
        number = waiting.pop()
        if number in met:
            continue
        met.add(number)
        block = flow.blocks[number]
        for instruction in flow.instructions[block.begin : block.end]:
            if _waits(instruction):
                break
            if _loads(instruction):
                found.append(instruction.span)
        else:
            waiting.extend(block.successors)
    return tuple(sorted(found, key=lambda span: (span.line, span.column)))


def _waits(instruction: Instruction) -> bool:
    return instruction.guard is None and instruction.row == "griddepcontrol.wait"


def _loads(instruction: Instruction) -> bool:
    return instruction.row == "cp.async.bulk.tensor" and not {"bulk_group", "prefetch"} & set(instruction.modifiers)
