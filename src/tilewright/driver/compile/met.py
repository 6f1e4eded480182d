"""Which programs does a search for cuts meet again, and how long do they take at least?

Two cuts that do not hang on each other give the same programs in either order, but for the names of workspaces. So what
a search has found out about a program counts for every program of the same form: its values as a graph, with the arrays
that the search itself made as those of their type. Only a bound is kept. What is taken for its time is decided anew
under its own names.

Not handled: what is found under one limit and is not the best under a wider one, since a search weighs parts of an axis
and values by different margins; it is then passed over. Checked by: tests/driver/compile/test_met.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from tilewright.ir.tile.facts import loops, the_grid, the_program
from tilewright.synth.streaming.graph import Node, below, read

Form = tuple[object, ...]

_SAME = 1 + 1e-9
"""Of a time, what the same time is at most, whatever the order in which it was added up: no gain."""


@dataclass(frozen=True, slots=True)
class Met:
    """given: arrays that keep their names, about which overrides speak; least: microseconds, by form and by how a
    program may be cut."""

    given: frozenset[str]
    least: dict[tuple[Form, str], float] = field(default_factory=dict[tuple[Form, str], float])

    def least_microseconds(self, form: Form, cuttable: str) -> float:
        """What no sequence of such a program undercuts, as far as searches have shown."""
        return self.least.get((form, cuttable), 0.0)

    def note(self, form: Form, cuttable: str, limit: float, microseconds: float = math.inf) -> None:
        """A search for what takes less than `limit` has found so many microseconds, or nothing."""
        known = self.least_microseconds(form, cuttable)
        self.least[form, cuttable] = max(known, _SAME * min(limit, microseconds))

    def form(self, module: ModuleOp) -> Form:
        """Equal for two programs that differ in the names of their workspaces alone; of one with a loop, its text."""
        program = the_program(module)
        if loops(program):
            return (str(module),)
        _, stored = read(program)
        names = [each.data for each in program.parameters]
        numbers: dict[Node, int] = {}
        listed: list[object] = []
        for node in below([node for each in stored for node in (each.value, each.tensor, *each.indices)]):
            what: object = node.what
            if isinstance(what, tuple):
                kind, which = what
                name = names[which] if kind == "tensor" else ""
                what = (kind, name if name in self.given else "")
            numbers[node] = len(numbers)
            listed.append((what, node.properties, tuple(numbers[each] for each in node.operands), node.type))
        roots = tuple((numbers[each.value], numbers[each.tensor], *map(numbers.get, each.indices)) for each in stored)
        sizes = tuple(program.extents.items()), tuple(program.run_time)
        return (tuple(listed), roots, the_grid(program).axis_names, sizes)
