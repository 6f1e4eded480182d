"""What else holds a loop's bound behind the loop? Its counter, where the loop ends as the counter equals the bound.

A kernel that goes on counting from loop to loop adds up how often each of them iterated: `c = c + k`. Where the loop
ends as `k == n`, a compiler writes `c = c + n` instead. A run then holds an expression of inputs, which says nothing of
how often the loop iterated, and each further loop makes it another one. Written with the counter again, the run holds
a number that follows from the loops that were gone through, as in a kernel that counts in the loop itself.

So sums are rewritten that loops outside come to again, and that add to what those loops write. Another sum with a bound
is better left as an expression of inputs, for which launches can be solved.

That is exact. A lane takes the edge out of the loop only where its comparison came out equal, and neither register is
written between the comparison and the sum. So only a sum is rewritten that stands in the block behind that edge, and
that block has no other edge into it.

Source: the inverse of what LLVM does in IndVarSimplify (`rewriteLoopExitValues`).
Not handled: loops that end as the counter is no longer less; sums further behind; other instructions, which often
compare the bound, and are better left as expressions of inputs.
Checked by: tests/machine/protocol/loops/test_counted_ends.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.frontends.ptx.ast import Instruction, Kernel, Label, Register, Symbol
from tilewright.machine.protocol.slicing.slice_flow import Block, Flow, NaturalLoop
from tilewright.machine.protocol.slicing.slice_operands import facts_of


def with_counted_ends(kernel: Kernel, flow: Flow) -> Kernel:
    """The kernel with counters in the place of bounds in sums behind loops; the kernel itself if it has none. flow: its
    control flow."""
    changed: dict[int, Instruction] = {}
    for loop in flow.loops:
        for test, behind in _ends_as_equal(flow, loop):
            around = [each.blocks for each in flow.loops if each is not loop and behind in each.blocks]
            counted = {name for blocks in around for name in _written(flow, blocks)}
            changed.update(_rewritten(flow, loop, test, flow.blocks[behind], counted))
    if not changed:
        return kernel
    body: list[Instruction | Label] = []
    position = 0
    for item in kernel.body:
        if isinstance(item, Label):
            body.append(item)
        else:
            body.append(changed.get(position, item))
            position += 1
    return replace(kernel, body=tuple(body))


def _ends_as_equal(flow: Flow, loop: NaturalLoop) -> Iterator[tuple[Instruction, int]]:
    """The comparisons after which a loop is left where they come out equal, each with the number of the block that is
    come to then, and in no other way."""
    for number in loop.blocks:
        block = flow.blocks[number]
        leaving = [each for each in block.successors if each not in loop.blocks]
        last = flow.instructions[block.end - 1]
        if len(block.successors) != 2 or len(leaving) != 1 or last.row != "bra" or last.guard is None:
            continue
        behind = flow.blocks[leaving[0]]
        test = _test(flow, block, last.guard.register.name)
        if behind.predecessors != (number,) or test is None or not isinstance(last.operands[-1], Symbol):
            continue
        falls_out = flow.block_of[block.end] == leaving[0]
        leaves_where_it_holds = falls_out == last.guard.negated
        if test.modifiers[0] == ("eq" if leaves_where_it_holds else "ne"):
            yield test, leaving[0]


def _test(flow: Flow, block: Block, predicate: str) -> Instruction | None:
    """The comparison of two whole numbers that gives a predicate at a block's end, if all of these still hold what they
    held then."""
    written: set[str] = set()
    for at in range(block.end - 1, block.begin - 1, -1):
        item = flow.instructions[at]
        writes = facts_of(item).writes
        if predicate in writes:
            sides = [each.name for each in item.operands[1:] if isinstance(each, Register)]
            plain = item.row == "setp" and item.guard is None and len(item.operands) == 3 and len(item.modifiers) == 2
            return item if plain and len(sides) == 2 and written.isdisjoint(sides) and _bits(item) else None
        written |= writes
    return None


def _written(flow: Flow, blocks: frozenset[int]) -> set[str]:
    return {name for at in flow.positions(blocks) for name in facts_of(flow.instructions[at]).writes}


def _rewritten(
    flow: Flow, loop: NaturalLoop, test: Instruction, behind: Block, counted: set[str]
) -> dict[int, Instruction]:
    """The sums in a block of a bound and one of the registers `counted`, by position, with the counter in its place."""
    one, other = (each.name for each in test.operands[1:] if isinstance(each, Register))
    inside = _written(flow, loop.blocks)
    if (one in inside) == (other in inside):
        return {}
    counter, bound = (one, other) if one in inside else (other, one)
    found: dict[int, Instruction] = {}
    for at in range(behind.begin, behind.end):
        item = flow.instructions[at]
        is_sum = item.row == "add" and len(item.modifiers) == 1 and len(item.operands) == 3
        if is_sum and _bits(item) == _bits(test) and _is_counted(item, bound, counted):
            sides = (Register(counter) if each == Register(bound) else each for each in item.operands[1:])
            found[at] = replace(item, operands=(item.operands[0], *sides))
        if not {counter, bound}.isdisjoint(facts_of(item).writes):
            break
    return found


def _is_counted(item: Instruction, bound: str, counted: set[str]) -> bool:
    names = [each.name for each in item.operands[1:] if isinstance(each, Register)]
    return bound in names and any(name in counted for name in names if name != bound)


def _bits(item: Instruction) -> int:
    """How many bits of a whole number an instruction is about; 0 of what is none."""
    kind = item.modifiers[-1]
    return int(kind[1:]) if kind[:1] in "sub" and kind[1:].isdigit() else 0
