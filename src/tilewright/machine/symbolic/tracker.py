"""Which expressions do the registers of a running protocol run hold, and what has the run decided by them?

Beside each register of a warp that depends on inputs stand its expressions, by lanes (`expression`). Shared and local
memory keep the expression of what was stored where it is loaded back whole. Whenever the run decides something by such
a register, a `Condition` says by which, and how it came out: which way a branch went, whether a guarded instruction of
the protocol happened, which value an operand of the protocol had. Any launch for which all conditions come out the same
takes the same steps: so a run says something of every launch that satisfies them.

`covered` are the instructions of the protocol that some lane has executed, `constant_ways` the ways that warps went at
branches outside of loops' ends without an expression, though others may decide there by one.
Not handled: memory that is read in other pieces than it was written in (opaque).
Checked by: tests/machine/symbolic/test_tracker.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tilewright.base.value import value
from tilewright.machine.core.event import Access, CopyActor, WarpActor
from tilewright.machine.core.lanes import SINK_SLOT, UNINITIALISED, Lanes, Registers, indices
from tilewright.machine.core.state import Warp
from tilewright.machine.symbolic.addresses import ALIGNMENT_BYTES
from tilewright.machine.symbolic.expression import Input, Leaf, Node, Pointer, Source, Table, constant
from tilewright.machine.taint.local import LocalAccess

_SOMEWHERE = 1 << 40
_UNWRITTEN = np.zeros(1, np.uint32)
"""Stands for a register that nobody has written, which nothing that is executed reads."""

Kind = Literal["branch", "guard", "value"]


Words = Sequence[Node | None]
"""The expressions of words that are stored side by side, None of those that depend on no input."""


@value
class Condition:
    """One decision of a warp. position: of the instruction; cta: its rank; mask: the lanes that decided; node: the
    predicate of a branch or guard, with whether it is negated, or the operand; outcome: what it came to, one element
    where the lanes agree. loop: the loop that one way of a branch leaves, or -1; stays: whether the condition keeps the
    warp in it; visit, iteration: how often the warp had come to it before, and begun it anew since. slot: the
    register of an operand."""

    kind: Kind
    position: int
    cta: int
    warp: int
    mask: int
    node: Node
    negated: bool
    outcome: npt.NDArray[Any]
    loop: int = -1
    stays: bool = False
    iteration: int = 0
    slot: int = -1
    visit: int = 0


ConstantWay = tuple[int, int, int, bool | None]
"""A branch that depended on no input: its position, the CTA's rank, the warp, whether its predicate held, None where
lanes differed."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the launch chooses of one run. block: the inputs of the parameter block, by first and last byte; grid:
    whether the place in the grid is chosen, and the grid's extents unless they are given; memory: the words of global
    memory whose values are given; data: whether loads of global memory are inputs at all."""

    block: tuple[tuple[int, int, Input], ...] = ()
    grid: bool = False
    memory: Mapping[Input, int] = field(default_factory=dict[Input, int])
    data: bool = False
    grid_given: bool = False


Pieces = tuple[tuple[int, Node], ...]
"""The expressions of a register: lanes (disjoint sets) and what they hold."""


class SymbolicRun:
    """The expressions of one run."""

    def __init__(self, table: Table, inputs: Inputs) -> None:
        self.table = table
        self.inputs = inputs
        self.restart()

    def anew(self) -> SymbolicRun:
        """For another run of the same launch."""
        return SymbolicRun(self.table, self.inputs)

    def restart(self) -> None:
        """Forget a run that is made anew."""
        self.conditions: list[Condition] = []
        self.loops: set[int] = set()
        self.covered: set[int] = set()
        self.constant_ways: set[ConstantWay] = set()
        # With the buffer that holds each word and its offset there, None for what is no word of a buffer.
        self.words_read: dict[Input, tuple[str, int] | None] = {}
        self.words_written: dict[Input, None] = {}
        # How often anybody has written to each buffer.
        self.writes: Counter[str] = Counter()
        self._words_of: dict[str, list[Input]] = {}
        self.tickets = 0
        # Which atomic operation (by position) gave a ticket, and whether its word only grows by it.
        self.issued: dict[Input, tuple[int, bool]] = {}
        self.seen: list[Access] | None = None
        self.local_seen: list[LocalAccess] | None = None
        # Copies that the step now running issues.
        self.copies: list[CopyActor] | None = None
        self._carried: dict[CopyActor, tuple[Words, int]] = {}
        self._registers: dict[WarpActor, dict[int, Pieces]] = {}
        self._shared: dict[int, dict[tuple[int, int], Node | None]] = {}
        self._written: dict[int, set[int]] = {}
        self._local: dict[int, dict[int, tuple[Node, int, int, int]]] = {}

    # Registers

    def of(self, warp: Warp) -> dict[int, Pieces]:
        found = self._registers.get(warp.actor)
        if found is None:
            found = self._registers[warp.actor] = {}
        return found

    def node(self, held: Mapping[int, Pieces], r: Registers, slot: int, mask: int) -> Node | None:
        """What a register's lanes of `mask` hold as an expression; None where they depend on no input."""
        pieces = held.get(slot)
        if pieces is None:
            return None
        found: Node | None = None
        for lanes, node in pieces:
            if not lanes & mask:
                continue
            if not mask & ~lanes:
                return node
            outside: Source = self.source_of(r, slot, mask) if found is None else found
            found = self.table.merged(lanes, node, outside)
        return found

    def source_of(self, r: Registers, slot: int, mask: int) -> Lanes:
        """What a register holds, as a constant."""
        values = r[slot]
        return _UNWRITTEN if values is UNINITIALISED else constant(values, mask)

    def source(self, held: Mapping[int, Pieces], r: Registers, slot: int, mask: int) -> Source:
        return self.node(held, r, slot, mask) or self.source_of(r, slot, mask)

    def give(self, held: dict[int, Pieces], slot: int, mask: int, node: Source | None) -> None:
        """Lanes of a register now hold an expression, or depend on no input."""
        if slot == SINK_SLOT:
            return
        left = tuple((lanes & ~mask, each) for lanes, each in held.get(slot, ()) if lanes & ~mask)
        if isinstance(node, Node):
            left = (*left, (mask, node))
        if left:
            held[slot] = left
        else:
            held.pop(slot, None)

    # Leaves

    def of_parameters(
        self, begin: int, dtype: np.dtype[Any], value: int, loaded_bytes: int, *, signed: bool
    ) -> Node | None:
        """What a load of `loaded_bytes` of the parameter block at byte `begin` gives. value: in this run, where all
        lanes agree; signed: a wider register is filled by the sign."""
        end = begin + loaded_bytes
        for first, last, given in self.inputs.block:
            if begin >= last or end <= first:
                continue
            if given.kind == "pointer":
                whole = begin == first and end == last
                if not whole:
                    return self.table.opaque("part of a pointer", (self.table.leaf(Leaf(given, 0, dtype)),))
                # Of a null pointer nobody knows where it would lead: where it led last, so that expressions stay alike.
                base = self.table.bases[given] = value & -ALIGNMENT_BYTES or self.table.bases.get(given, _SOMEWHERE)
                return self.table.leaf(Pointer(given, base))
            if first <= begin and end <= last:
                return self.table.leaf(leaf_of(given, begin - first, dtype, loaded_bytes, signed=signed))
            return self.table.opaque("several numbers at once", (self.table.leaf(Leaf(given, 0, dtype)),))
        return None

    def of_special(self, warp: Warp, name: str) -> Node | None:
        """What a special register gives, if the grid decides about it."""
        if not self.inputs.grid:
            return None
        base, _, component = name.partition(".")
        if component not in ("x", "y", "z") or (self.inputs.grid_given and base in ("%nctaid", "%nclusterid")):
            return None
        axis = "xyz".index(component)
        step = warp.cta.cluster.launch.cluster[axis]
        number = np.dtype(np.uint32)
        match base:
            case "%nctaid":
                leaf = Leaf(Input("grid", axis, 4), 0, number, step)
            case "%nclusterid":
                leaf = Leaf(Input("grid", axis, 4), 0, number)
            case "%ctaid":
                leaf = Leaf(Input("cluster", axis, 4), 0, number, step, warp.cta.index[axis] % step)
            case "%clusterid":
                leaf = Leaf(Input("cluster", axis, 4), 0, number)
            case _:
                return None
        return self.table.leaf(leaf)

    # Shared memory

    def stored(self, accesses: list[Access], words: Words, word_bytes: int) -> None:
        """Bytes of shared memory now hold these words, side by side, where all lanes stored in one place; else what
        may be any of them."""
        for access in accesses:
            if not access.write or access.space != "shared":
                continue
            memory = self._shared.setdefault(access.cta, {})
            written = self._written.setdefault(access.cta, set())
            for begin, end in access.ranges:
                if written and not written.isdisjoint(range(begin, end)):
                    for place in [each for each in memory if each[0] < end and begin < each[1]]:
                        former = memory.pop(place)
                        if not (begin <= place[0] and place[1] <= end):
                            sources = () if former is None else (former,)
                            memory[place] = self.table.opaque("a word that is overwritten in part", sources)
                    written.difference_update(range(begin, end))
                if end - begin == word_bytes * len(words):
                    parts = [(begin + index * word_bytes, word, word_bytes) for index, word in enumerate(words)]
                else:
                    parts = [(begin, next(filter(None, words), None), end - begin)]
                for at, word, size in parts:
                    if word is not None:
                        memory[at, at + size] = word if word.uniform and size == word_bytes else None
                        written.update(range(at, at + size))

    def loaded(self, accesses: list[Access], element_bytes: int, index: int, count: int, *, fills: bool) -> Node | None:
        """What element `index` of `count` of a load gives: an expression where all lanes load one word as it was
        stored, an opaque one where any byte depends on inputs otherwise. fills: whether the element is as wide as its
        register."""
        touched: list[Node] = []
        unknown = False
        for access in accesses:
            if access.write or access.space != "shared":
                continue
            written = self._written.get(access.cta)
            if not written:
                continue
            memory = self._shared[access.cta]
            for begin, end in access.ranges:
                if written.isdisjoint(range(begin, end)):
                    continue
                if len(accesses) == len(access.ranges) == 1 and end - begin == count * element_bytes:
                    begin, end = begin + index * element_bytes, begin + (index + 1) * element_bytes
                    exact = memory.get((begin, end))
                    if fills and exact is not None:
                        return exact
                for (low, high), node in memory.items():
                    if low < end and begin < high:
                        unknown = True
                        if node is not None:
                            touched.append(node)
        if not unknown:
            return None
        return self.table.opaque("shared memory read in other pieces than written", tuple(dict.fromkeys(touched)))

    def carry(self, copies: list[CopyActor], words: Words, word_bytes: int) -> None:
        """These copies will write words of the register that was stored."""
        self._carried.update(dict.fromkeys(copies, (words, word_bytes)))

    def copied(self, access: Access) -> None:
        """An engine has overwritten shared memory."""
        words, word_bytes = ((), 0)
        if isinstance(access.actor, CopyActor):
            words, word_bytes = self._carried.pop(access.actor, ((), 0))
        if words or self._written.get(access.cta):
            self.stored([access], words, word_bytes)

    # Local memory

    def stored_locally(self, accesses: list[LocalAccess], mask: int, node: Node | None) -> None:
        """Bytes of local memory of the lanes of `mask` now hold what one register held."""
        for access in accesses:
            memory = self._local.setdefault(access.cta, {})
            lanes = indices(mask).tolist()
            each = len(access.offsets) // len(lanes)
            for place, offset in enumerate(access.offsets.tolist()):
                if node is None:
                    memory.pop(offset, None)
                else:
                    memory[offset] = node, lanes[place // each], place % each, each

    def loaded_locally(
        self, accesses: list[LocalAccess], mask: int, values: Lanes, dtype: np.dtype[Any]
    ) -> Source | None:
        """What a load of local memory gives: what each lane stored there whole, else an opaque expression. values:
        in this run; None if no byte depends on inputs."""
        pieces: dict[Node, int] = {}
        touched: dict[Node, None] = {}
        broken = len(accesses) != 1
        for access in accesses:
            memory = self._local.get(access.cta, {})
            lanes = indices(mask).tolist()
            each = len(access.offsets) // len(lanes)
            for index, lane in enumerate(lanes):
                held = [memory.get(int(offset)) for offset in access.offsets[each * index : each * (index + 1)]]
                found = [item for item in held if item is not None]
                if not found:
                    continue
                node = found[0][0]
                touched.update((item[0], None) for item in found)
                whole = [(node, lane, place, each) for place in range(each)]
                broken = broken or each != dtype.itemsize or held != whole
                pieces[node] = pieces.get(node, 0) | 1 << (8 * lane)
        if not touched:
            return None
        if broken:
            return self.table.opaque("local memory read in other pieces than written", tuple(touched))
        result: Source = constant(values, mask)
        for node, within in pieces.items():
            result = node if within == mask else self.table.merged(within, node, result)
        return result

    # Global memory

    def read(self, word: Input, held: tuple[str, int] | None) -> int:
        """Note that a word was read, and say how often its buffer had been written to. held: the buffer, and where."""
        if word not in self.words_read:
            self.words_read[word] = held
            if held is not None:
                self._words_of.setdefault(held[0], []).append(word)
        return 0 if held is None else self.writes[held[0]]

    def wrote(self, access: Access, buffer: str) -> None:
        """Somebody has written to a buffer."""
        self.writes[buffer] += 1
        for word in self._words_of.get(buffer, ()):
            if any(begin < word.place + word.size_bytes and word.place < end for begin, end in access.ranges):
                self.words_written[word] = None

    # Decisions

    def decide(self, condition: Condition) -> None:
        self.conditions.append(condition)
        if condition.loop >= 0:
            self.loops.add(condition.loop)


def leaf_of(
    given: Input, offset_bytes: int, dtype: np.dtype[Any], loaded_bytes: int, *, signed: bool, origin: int = 0
) -> Leaf:
    """The leaf of a load of so many bytes of an input into a register that may be wider."""
    narrow = loaded_bytes if loaded_bytes < dtype.itemsize else 0
    return Leaf(given, offset_bytes, dtype, loaded_bytes=narrow, signed=bool(narrow) and signed, origin=origin)
