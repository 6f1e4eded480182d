"""Is every wait on an mbarrier tried again where it fails, so that failing changes nothing?

A try_wait may fail or succeed as the schedule has it, so a run shows one of the two. The judge of runs takes it that a
failing wait leads back to itself and leaves no trace; then how often it failed does not matter. Here that is read off
the text: from each wait, with its predicate known to be false, control is followed through what the predicate decides.
The path must come back to the wait by branches, `nanosleep`s and plain arithmetic whose results are the same each time.

Waits that take several ways back, count their failures or read a clock are for `backing_off_waits`. A wait whose
failure goes elsewhere (a peek, a bounded number of tries) is reported, not judged: both of its outcomes would have to
be run. Calls are not followed; what is not followed counts as not retried.
Source: PTX ISA 9.7.13.15 (mbarrier.test_wait, try_wait: potentially blocking).
Checked by: tests/contract/judge/waits/test_retried_waits.py.
"""

from __future__ import annotations

from tilewright.base.span import Span
from tilewright.contract.judge.waits.backing_off_waits import comes_back
from tilewright.contract.judge.waits.known_outcome import evaluate
from tilewright.frontends.ptx.ast import (
    Address,
    Arguments,
    Instruction,
    Label,
    Module,
    Negated,
    Operand,
    PairOfPredicates,
    Register,
    Symbol,
    TensorAddress,
    Vector,
)

_WAITS = frozenset({"mbarrier.test_wait", "mbarrier.try_wait"})
_ARITHMETIC = frozenset(
    {"add", "and", "cvt", "cvta", "mad", "mapa", "mov", "mul", "not", "or", "selp", "setp", "shl", "shr", "sub", "xor"}
)
_CLOCKS = ("%clock", "%globaltimer", "%pm")
_STEPS = 200

Body = tuple[Instruction | Label, ...]


def waits_not_retried(module: Module, entry: str) -> tuple[Span, ...]:
    """Places of the waits of a kernel, and of the functions of its module, whose failure may be noticed."""
    bodies = [kernel.body for kernel in module.kernels if kernel.name == entry]
    bodies += [function.body for function in module.functions if function.body is not None]
    found: list[Span] = []
    for body in bodies:
        labels = {item.name: index for index, item in enumerate(body) if isinstance(item, Label)}
        for index, item in enumerate(body):
            if isinstance(item, Instruction) and item.row in _WAITS and not is_retried(body, labels, index):
                found.append(item.span)
    return tuple(found)


def is_retried(body: Body, labels: dict[str, int], at: int) -> bool:
    """Does control come back to the wait at index `at` of a body when it fails, with nothing changed that matters?
    labels: the index of each."""
    return _comes_straight_back(body, labels, at) or comes_back(body, labels, at)


def _comes_straight_back(body: Body, labels: dict[str, int], at: int) -> bool:
    """The same by the one way that most waits take, with nothing changed at all."""
    wait = body[at]
    assert isinstance(wait, Instruction)
    predicate = wait.operands[0]
    if not isinstance(predicate, Register):
        return False
    known: dict[str, int] = {predicate.name: 0}
    again: list[Instruction] = [wait]
    index, decided = at + 1, False
    for _ in range(_STEPS):
        if index == at:
            return _same_each_time(again)
        if index >= len(body):
            return False
        item = body[index]
        index += 1
        if isinstance(item, Label):
            continue
        if item.guard is not None:
            value = known.get(item.guard.register.name)
            if value is None:
                return False
            if bool(value) == item.guard.negated:
                decided = True
                continue
            decided = decided or item.row != "bra"
        if item.row == "bra":
            target = item.operands[-1]
            if not isinstance(target, Symbol) or target.name not in labels:
                return False
            decided = True
            index = labels[target.name]
            if index < at:
                before = body[index:at]
                lead = [each for each in before if isinstance(each, Instruction)]
                plain = all(_is_plain(each) for each in lead) and isinstance(before[0], Label)
                inner = sum(isinstance(each, Label) for each in before) > 1
                return plain and not (inner and lead) and _same_each_time([*lead, *again])
        elif item.row == "nanosleep":
            continue
        elif decided or not _is_plain(item):
            return False
        else:
            evaluate(item, known)
            again.append(item)
    return False


def _is_plain(item: Instruction) -> bool:
    """Arithmetic without a guard, of values that do not change by themselves."""
    names = [name for operand in item.operands for name in _registers(operand)]
    return item.row in _ARITHMETIC and item.guard is None and not any(name.startswith(_CLOCKS) for name in names)


def _same_each_time(items: list[Instruction]) -> bool:
    """No instruction reads what this one pass writes only later: doing all of them again gives the same values."""
    written = {name for item in items for name in _registers(item.operands[0])}
    done: set[str] = set()
    for item in items:
        read = {name for operand in item.operands[1:] for name in _registers(operand)}
        if (read & written) - done:
            return False
        done.update(_registers(item.operands[0]))
    return True


def _registers(operand: Operand) -> tuple[str, ...]:
    match operand:
        case Register(name):
            return (name,)
        case Address(base):
            return (base.name,) if isinstance(base, Register) else ()
        case Negated(register):
            return (register.name,)
        case PairOfPredicates(first, second):
            return (first.name, second.name)
        case Vector(items) | Arguments(items):
            return tuple(name for item in items for name in _registers(item))
        case TensorAddress(base, coordinates):
            return (*_registers(base), *(name for item in coordinates for name in _registers(item)))
        case _:
            return ()
