"""May a launch be assumed not to ask that the first product adds to tensor memory?

Libraries pass whether a product of tcgen05 accumulates as one field of a description of the product (CuTe DSL's
`tiled_mma`, by value), which the kernel sets for all products but the first. The host leaves it 0. A launch in which it
is not 0 makes the first product add to columns that nobody has written (TC122). It is excluded, as a zero is that
leaves nothing to do, where no launch of the kernel could mean it:

- nothing else is wrong with the launch, and all that is wrong is wrong because of this number;
- with 0 in its place the launch is clean, and with any other number that is tried it is not, for the same reason: the
  number is a flag, and no ordinary number of a size is left out with it;
- nothing in the text but products writes tensor memory (`tcgen05.st`, `tcgen05.cp` or a shift would), and what is in
  it when it is allocated is not defined, so that in no launch there is something to add to;
- the number decides nothing but whether products add: `decides_more` gives reasons against a proof otherwise.

The assumption names the number, its value and the product. Where the text has other writers, the number may say
whether they have run: then such a launch is left open.
Checked by: tests/hostile/test_accumulate_flags.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tilewright.base.diagnostic import Diagnostic, Level
from tilewright.base.verdict import Refuted
from tilewright.driver.explore.exploration import Exploration, Tried
from tilewright.machine.symbolic.expression import Input, inputs_of
from tilewright.machine.symbolic.tracker import Condition

_UNWRITTEN = "TC122"
_PRODUCT = "tcgen05.mma"
_FLAGS = (1, 37)
"""Numbers that a flag is set by, whether all of it or its lowest bit counts."""
_NO_WRITERS = ("tcgen05.mma", "tcgen05.ld", "tcgen05.alloc", "tcgen05.dealloc", "tcgen05.relinquish_alloc_permit",
               "tcgen05.commit", "tcgen05.wait", "tcgen05.fence")  # fmt: skip


def adds_to_leftovers(exploration: Exploration, tried: Tried) -> bool:
    """Whether all that fails is that products add to tensor memory which nobody has written, because an input says so:
    at a launch nothing is there to be added to, and the flag of a product is passed with others of its kind."""
    found, flow = _errors(tried), exploration.ways.flow
    steered = {flow.instructions[each.position].span for each in tried.judged.conditions if inputs_of([each.node])}
    return bool(found) and all(each.code == _UNWRITTEN and each.primary in steered for each in found)


def assume_nothing_is_added_to(exploration: Exploration, tried: Tried, name: Callable[[Input], str]) -> str:
    """Find the number that makes products of a launch add to leftovers, and let later launches have 0 in its place.
    Returns the assumption, empty if there is none."""
    if not adds_to_leftovers(exploration, tried) or _others_write(exploration):
        return ""
    found = {each.primary for each in _errors(tried)}
    flags = {
        given: None
        for each in tried.judged.conditions
        if exploration.ways.flow.instructions[each.position].span in found and _is_flag(exploration, each)
        for given in inputs_of([each.node])
        if given.kind == "number"
    }
    for given in flags:
        if not tried.values.get(given) or given not in exploration.dimensions:
            continue
        if exploration.dimensions[given].smallest or not exploration.at({**tried.values, given: 0}).clean:
            continue
        if not all(_adds_at(exploration, tried, given, other) for other in _FLAGS):
            continue
        exploration.narrow(given, largest=0)
        exploration.flags[given] = None
        place = next(str(each.primary) for each in _errors(tried))
        return (
            f"{name(given)} is 0 (at {tried.values[given]} the product at {place} adds to tensor memory, which nothing "
            f"but products writes: {_UNWRITTEN})"
        )
    return ""


def _adds_at(exploration: Exploration, tried: Tried, given: Input, number: int) -> bool:
    """Whether a launch adds to leftovers, and nothing else is wrong with it, at another number as well."""
    other = exploration.at({**tried.values, given: exploration.dimensions[given].nearest(number)})
    return other.fails and adds_to_leftovers(exploration, other)


def decides_more(exploration: Exploration, conditions: Iterable[Condition], name: Callable[[Input], str]) -> list[str]:
    """Reasons against a proof: numbers that are assumed to be 0 and decide more than whether products add."""
    found: dict[str, None] = {}
    for condition in conditions if exploration.flags else ():
        for given in inputs_of([condition.node]):
            if given in exploration.flags and not _is_flag(exploration, condition):
                span = exploration.ways.flow.instructions[condition.position].span
                said = f"{name(given)}, by which products add to what nobody has written, decides something else"
                found[f"{span}: {said}: give --launch"] = None
    return list(found)


def _is_flag(exploration: Exploration, condition: Condition) -> bool:
    """Whether a condition is that a product adds."""
    instruction = exploration.ways.flow.instructions[condition.position]
    return condition.kind == "value" and instruction.opcode.startswith(_PRODUCT) and condition.outcome.dtype == bool


def _others_write(exploration: Exploration) -> bool:
    """Whether anything but products may write tensor memory."""
    opcodes = {each.opcode for each in exploration.ways.flow.instructions if each.opcode.startswith("tcgen05")}
    return not all(each.startswith(_NO_WRITERS) for each in opcodes)


def _errors(tried: Tried) -> tuple[Diagnostic, ...]:
    verdict = tried.judged.verdict
    findings = verdict.findings if isinstance(verdict, Refuted) else ()
    return tuple(each for each in findings if each.level is Level.ERROR)
