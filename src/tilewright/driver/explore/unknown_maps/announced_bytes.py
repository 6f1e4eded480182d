"""Which numbers of a launch are nothing but the bytes that its copies bring?

Libraries compute on the host how many bytes the copies of one stage transfer, and the kernel announces that number to
an mbarrier (`mbarrier.expect_tx` of a parameter). Where boxes are unknown, the number has to be what the boxes add up
to: any other hangs or races by the launch's own mistake. So it is assumed to be that, with the boxes that fill the
slots that the copies write to (`unknown_boxes.UnknownBoxes.prepare`).

It may be nothing else: where a decision or another operand depends on it as well, that is a reason against a proof.
Not handled: an announcement that is computed from several numbers.
Checked by: tests/driver/explore/unknown_maps/test_announced_bytes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from tilewright.frontends.ptx.ast import Instruction
from tilewright.machine.symbolic.expression import Applied, Input, Leaf, Node, Source, inputs_of
from tilewright.machine.symbolic.tracker import Condition

_FIRST_MARK = 100_003
_BETWEEN_MARKS = 2_002


def announced_numbers(instructions: Sequence[Instruction], conditions: Iterable[Condition]) -> tuple[Input, ...]:
    """The numbers that a run announced as they are, or chose among. instructions: of the kernel, by position."""
    found: dict[Input, None] = {}
    for condition in conditions:
        found |= dict.fromkeys(_parts(instructions[condition.position], condition)[0])
    return tuple(found)


def marked(numbers: Iterable[Input]) -> dict[Input, int]:
    """A value for each number by which a phase shows which of them it expects: no sum of boxes is that."""
    return {given: _FIRST_MARK + _BETWEEN_MARKS * index for index, given in enumerate(numbers)}


def used_elsewhere(
    instructions: Sequence[Instruction],
    numbers: Collection[Input],
    conditions: Iterable[Condition],
    name: Callable[[Input], str],
) -> tuple[str, ...]:
    """Reasons against a proof: numbers that decide more than how many bytes are expected."""
    found: dict[str, None] = {}
    for condition in conditions if numbers else ():
        instruction = instructions[condition.position]
        for given in inputs_of(_parts(instruction, condition)[1]):
            if given in numbers:
                said = f"{name(given)}, which the kernel announces as the bytes of its copies, decides something else"
                found[f"{instruction.span}: {said}: give --launch"] = None
    return tuple(found)


def _parts(instruction: Instruction, condition: Condition) -> tuple[list[Input], list[Node]]:
    """The numbers that a condition says are announced, and the expressions that decide otherwise."""
    if condition.kind != "value" or "expect_tx" not in instruction.opcode:
        return [], [condition.node]
    announced: list[Input] = []
    deciding: list[Node] = []
    waiting: list[Source] = [condition.node]
    while waiting:
        node = waiting.pop()
        match node:
            case Node(operation=Applied(instruction=Instruction(row="mov"))):
                waiting += node.sources
            case Node(operation=Applied(instruction=Instruction(row="selp"))):
                waiting += node.sources[:2]
                deciding += [each for each in node.sources[2:] if isinstance(each, Node)]
            case Node(
                operation=Leaf(input=Input(kind="number", size_bytes=size) as given, offset_bytes=0, dtype=dtype)
            ) if size == dtype.itemsize:
                announced.append(given)
            case Node():
                deciding.append(node)
            case _:
                pass
    return announced, deciding
