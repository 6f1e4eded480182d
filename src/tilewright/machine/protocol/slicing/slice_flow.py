"""Which way can control take through a kernel's text? Basic blocks, dominators, postdominators and natural loops.

Positions are indices of instructions in the kernel's body, labels not counted; the end of the body is a position of its
own, where every path that leaves ends. Dominators are found by the iteration of Cooper, Harvey and Kennedy ("A Simple,
Fast Dominance Algorithm"); a loop is the natural loop of its back edges. A cycle that is entered at several places has
no natural loop: its closing edges are `irreducible`.

A `trap` leads nowhere. A block from which no path leads to the end has the end as its postdominator.
Not handled: calls, which are read as instructions that return. Checked by:
tests/machine/protocol/slicing/test_slice_flow.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tilewright.base.error import TilewrightError
from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import BranchTable, Instruction, Kernel, Label, Symbol

_LEADING = frozenset({"bra", "brx.idx", "exit", "ret", "trap"})
MOST_WORK = 1_000_000
"""Bound on the sizes of all loops, summed: what compilers write stays below a hundredth of it."""


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions [begin, end) that run in one piece; blocks that may come next, and before, by number."""

    begin: int
    end: int
    successors: tuple[int, ...]
    predecessors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NaturalLoop:
    """A loop: the position of its first instruction, the branches that close it, and its blocks, by number.

    parent: number of the innermost loop around it, or -1.
    """

    head: int
    back_edges: tuple[int, ...]
    blocks: frozenset[int]
    parent: int


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """A kernel's control flow. block_of: the block of each position; the last block is the (empty) end.

    postdominator: the nearest block that every path from a block to the end goes through, itself aside.
    irreducible: branches that close a cycle without a natural loop.
    """

    instructions: tuple[Instruction, ...]
    blocks: tuple[Block, ...]
    block_of: tuple[int, ...]
    postdominator: tuple[int, ...]
    loops: tuple[NaturalLoop, ...]
    irreducible: tuple[int, ...]

    def region(self, position: int) -> frozenset[int]:
        """Blocks that run or not as the branch at `position` decides: those before its block's postdominator."""
        return frozenset(self._decided(position))

    def decides(self, position: int, blocks: Collection[int]) -> bool:
        """Whether any of `blocks` is in the region of the branch at `position`."""
        return any(block in blocks for block in self._decided(position))

    def _decided(self, position: int) -> Iterator[int]:
        start = self.block_of[position]
        stop = self.postdominator[start]
        found: set[int] = set()
        waiting = [each for each in self.blocks[start].successors if each != stop]
        while waiting:
            block = waiting.pop()
            if block not in found:
                found.add(block)
                yield block
                waiting.extend(each for each in self.blocks[block].successors if each != stop)

    def is_in_a_loop(self, position: int) -> bool:
        return any(self.block_of[position] in loop.blocks for loop in self.loops)

    def passed(self, loop: NaturalLoop, *, last: bool = False) -> list[int]:
        """The blocks that every iteration of a loop goes through, in order. last: the iteration that leaves it, too."""
        head = self.block_of[loop.head]
        ends = {self.block_of[edge] for edge in loop.back_edges}
        if last:
            ends |= {each for each in loop.blocks if not loop.blocks.issuperset(self.blocks[each].successors)}
        before = {block: self._before(loop, head, block) for block in loop.blocks}
        return sorted((each for each in before if not before[each] & ends), key=lambda each: len(before[each]))

    def comes_first(self, loop: NaturalLoop, position: int, other: int) -> bool:
        """Whether each iteration of a loop that comes to `other` has passed `position` before."""
        block, head = self.block_of[position], self.block_of[loop.head]
        if block == self.block_of[other]:
            return position < other
        return self.block_of[other] not in self._before(loop, head, block)

    def _before(self, loop: NaturalLoop, head: int, without: int) -> frozenset[int]:
        """The blocks of a loop that an iteration comes to without going through one of them."""
        found: set[int] = set()
        waiting = [head] if head != without else []
        while waiting:
            block = waiting.pop()
            if block not in found:
                found.add(block)
                waiting += [each for each in self.blocks[block].successors if each in loop.blocks - {without, head}]
        return frozenset(found)

    def unwritten(self, written: Sequence[int], everything: int) -> list[int]:
        """Which bits of `everything` some way has not written where each block begins. written: the bits that each
        block writes."""
        found = [0] * len(self.blocks)
        found[0] = everything
        waiting = [0]
        while waiting:
            block = waiting.pop()
            leaving = found[block] & ~written[block]
            for each in self.blocks[block].successors:
                if leaving & ~found[each]:
                    found[each] |= leaving
                    waiting.append(each)
        return found

    def positions(self, blocks: frozenset[int]) -> list[int]:
        """The positions in some blocks, ascending."""
        return [at for number in sorted(blocks) for at in range(self.blocks[number].begin, self.blocks[number].end)]


def flow_of(kernel: Kernel) -> Flow:
    """The control flow of a kernel. A branch to something that is no label is read as one to the end.

    Raises TilewrightError where loops nest beyond reason."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    for item in kernel.body:
        if isinstance(item, Label):
            labels[item.name] = len(instructions)
        else:
            instructions.append(item)
    tables = {table.name: table for table in kernel.branch_tables}
    size = len(instructions)
    # Of the instructions that may lead elsewhere than to the next one.
    following = {
        at: _following(each, at, labels, tables, size) for at, each in enumerate(instructions) if each.row in _LEADING
    }
    leaders = {0, *labels.values()}
    for at, targets in following.items():
        if targets != (at + 1,):
            leaders.update(targets)
            leaders.add(at + 1)
    begins = sorted(leader for leader in leaders if leader < size)
    ends = [*begins[1:], size][: len(begins)]
    block_of: list[int] = []
    for number, end in enumerate(ends):
        block_of += [number] * (end - len(block_of))
    block_of.append(len(begins))
    successors = [tuple(sorted({block_of[target] for target in following.get(end - 1, (end,))})) for end in ends]
    successors.append(())
    predecessors: list[list[int]] = [[] for _ in successors]
    for index, targets in enumerate(successors):
        for target in targets:
            predecessors[target].append(index)
    blocks = tuple(
        Block(
            begins[index] if index < len(begins) else size,
            begins[index + 1] if index + 1 < len(begins) else size,
            successors[index],
            tuple(predecessors[index]),
        )
        for index in range(len(successors))
    )
    loops, irreducible = _loops(blocks, _dominators(blocks))
    return Flow(tuple(instructions), blocks, tuple(block_of), _postdominators(blocks), loops, irreducible)


def _following(
    instruction: Instruction, at: int, labels: dict[str, int], tables: dict[str, BranchTable], size: int
) -> tuple[int, ...]:
    falls = (at + 1,) if instruction.guard is not None else ()
    match instruction.row, instruction.operands:
        case "bra", (Symbol(name),):
            return tuple(dict.fromkeys((labels.get(name, size), *falls)))
        case "brx.idx", (_, Symbol(name)) if name in tables:
            return tuple(dict.fromkeys((*(labels.get(label, size) for label in tables[name].labels), *falls)))
        case "brx.idx", _:
            return tuple(dict.fromkeys((*labels.values(), size, *falls)))
        case (("exit" | "ret"), _):
            return (size, *falls)
        case "trap", _:
            # No path leads on: whether the others come to the end does not depend on it.
            return falls
        case _:
            return (at + 1,)


def _postorder(successors: Sequence[Sequence[int]], root: int) -> list[int]:
    order: list[int] = []
    seen = {root}
    stack: list[tuple[int, int]] = [(root, 0)]
    while stack:
        node, next_child = stack.pop()
        children = successors[node]
        while next_child < len(children) and children[next_child] in seen:
            next_child += 1
        if next_child < len(children):
            stack.append((node, next_child + 1))
            seen.add(children[next_child])
            stack.append((children[next_child], 0))
        else:
            order.append(node)
    return order


def _immediate(successors: Sequence[Sequence[int]], predecessors: Sequence[Sequence[int]], root: int) -> list[int]:
    """Every node's immediate dominator from `root`; -1 where the root does not lead there."""
    order = _postorder(successors, root)
    rank = {node: index for index, node in enumerate(order)}
    found = [-1] * len(successors)
    found[root] = root
    changed = True
    while changed:
        changed = False
        for node in reversed(order):
            if node == root:
                continue
            best = -1
            for other in predecessors[node]:
                if other not in rank or found[other] < 0:
                    continue
                if best < 0:
                    best = other
                    continue
                one, two = other, best
                while one != two:
                    while rank[one] < rank[two]:
                        one = found[one]
                    while rank[two] < rank[one]:
                        two = found[two]
                best = one
            if found[node] != best:
                found[node] = best
                changed = True
    return found


def _dominators(blocks: tuple[Block, ...]) -> list[int]:
    return _immediate([block.successors for block in blocks], [block.predecessors for block in blocks], 0)


def _postdominators(blocks: tuple[Block, ...]) -> tuple[int, ...]:
    end = len(blocks) - 1
    found = _immediate([block.predecessors for block in blocks], [block.successors for block in blocks], end)
    return tuple(each if each >= 0 else end for each in found)


def _loops(blocks: tuple[Block, ...], dominator: list[int]) -> tuple[tuple[NaturalLoop, ...], tuple[int, ...]]:
    depth = [0] * len(blocks)
    order = {node: index for index, node in enumerate(_postorder([block.successors for block in blocks], 0))}
    for node in sorted(order, key=lambda node: -order[node]):
        depth[node] = depth[dominator[node]] + 1

    def dominates(one: int, other: int) -> bool:
        for _ in range(depth[other] - depth[one]):
            other = dominator[other]
        return other == one

    bodies: dict[int, set[int]] = {}
    edges: dict[int, list[int]] = {}
    irreducible: list[int] = []
    work = 0
    for number, block in enumerate(blocks):
        if number not in order:
            continue
        for target in block.successors:
            if order[target] < order[number]:
                continue
            if not dominates(target, number):
                irreducible.append(block.end - 1)
                continue
            edges.setdefault(target, []).append(block.end - 1)
            body = bodies.setdefault(target, {target})
            waiting = [number]
            while waiting:
                node = waiting.pop()
                if node not in body:
                    body.add(node)
                    work += 1
                    waiting.extend(each for each in blocks[node].predecessors if each in order)
            if work > MOST_WORK:
                raise TilewrightError("the loops of this kernel nest too deeply to be analysed")
    heads = sorted(bodies, key=lambda head: (len(bodies[head]), head))
    loops: list[NaturalLoop] = []
    for index, head in enumerate(heads):
        around = [other for other in range(index + 1, len(heads)) if head in bodies[heads[other]]]
        parent = around[0] if around else -1
        loops.append(NaturalLoop(blocks[head].begin, tuple(edges[head]), frozenset(bodies[head]), parent))
    return tuple(loops), tuple(irreducible)
