"""What steers a kernel's protocol, apart from what only says which global bytes it moves?

The slice holds all that a protocol run executes, addresses of global memory and coordinates among them. Fewer values
decide which steps are taken, which shared memory they touch and how they synchronize: those that reach a branch, a
shared address, an operand of a barrier, of the tensor core or of another synchronization, or the guard of anything but
an access to global memory. They are what a repetition of loops is about (`induction`), and the parameters among them
are the ones worth exploring. How requests for other clusters' work are answered is an input, as words of memory are.
Checked by: tests/driver/explore/test_judge_unlaunched.py.
"""

from __future__ import annotations

from tilewright.base.value import dataclass
from tilewright.machine.protocol.slicing.slice import Sink, Slice, closure, parameters_read
from tilewright.machine.protocol.slicing.slice_operands import reads_answer

_ALWAYS = frozenset({"branch", "shared address", "generic address", "barrier", "descriptor", "sync"})
_MOVES = frozenset({"load", "store", "atomic"})


@dataclass(frozen=True, slots=True)
class Steering:
    """registers: names whose values steer; parameters: places in them, by name and byte offset; specials: special
    registers; memory: what is loaded from shared memory steers, too."""

    registers: frozenset[str]
    parameters: frozenset[tuple[str, int]]
    specials: frozenset[str]
    memory: bool


def steering(sliced: Slice) -> Steering:
    """What steers the kernel that `sliced` is a slice of."""
    text = sliced.text
    seeds = {sink.register for sink in sliced.sinks if _steers(sliced, sink)}
    registers, positions, loads = closure(text, seeds, sliced.stores, reads_answer)
    places = {place for position in positions for place in parameters_read(text, position)}
    return Steering(registers, frozenset(places), registers - text.declared, bool(loads))


def _steers(sliced: Slice, sink: Sink) -> bool:
    facts = sliced.text.facts[sink.position]
    instruction = sliced.text.flow.instructions[sink.position]
    if sink.role == "guard":
        return facts.kind not in _MOVES or facts.space not in ("global", "generic")
    if facts.kind in _MOVES and facts.space == "global":
        return False
    if sink.role == "sync" and "tensor" in instruction.row:
        return False  # the address of a tensor map: which one it is shows in the bytes
    return sink.role in _ALWAYS
