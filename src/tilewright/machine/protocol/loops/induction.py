"""Does a loop repeat itself, so that what was seen for some trip counts holds for all?

A warp's steps depend on its registers alone (waits only delay it, and what it loads is either known or tainted). So, if
the registers that steer it, address shared memory and feed synchronization come back to earlier values after a period
of some iterations, its next iterations repeat the earlier ones. Counters don't come back: they gain a fixed amount a
period, and must be shown to leave no other trace.

`repetition` looks at the registers at the end of each iteration for the shortest period over which every register gains
a fixed amount (0 where it comes back); of rings with different numbers of stages, for the least common multiple of
their periods. That is an observation; `objections` makes it an induction. It assumes these
gains before an iteration, follows them through the loop's instructions by exact rules of integer arithmetic, and
compares them with the assumption after it:

- sums and differences gain the sum and difference; products with what the loop does not write, and left shifts, too;
- a sum, a product or a left shift that gains a multiple of 2 to the power of its width gains nothing;
- a product with a reciprocal, as compilers divide by constants, gains what the quotient gains;
- `x & (2^k - 1)` and `x % m` gain nothing if x gains a multiple of 2^k, of m; `x >> k`, `x / m` then gain a quotient;
- a counter's quotient by a bound that it is less than in every iteration is 0 (`machine.protocol.loops.latches`), and
  gains nothing, if the counter is not negative and grows;
- `x | b` and `x ^ b` gain what x gains if that is a multiple of more than b, which moves no bit of b;
- of what loses something (a saturated sum, halves, a carry flag) nothing is known once it is of a counter;
- bits of x (bfe) gain nothing if x gains a multiple of what the bit above them counts;
- what is computed from registers that gain nothing gains nothing, and so does what is loaded from where they say;
- the sign of a counter (a shift by all bits but one) gains nothing if the counter moves away from zero;
- what addresses shared memory, or synchronizes, must gain nothing;
- the state that an mbarrier.arrive returns gains what it gained in the run, if that is a whole number of phases: the
  phases that a barrier passes in a period are those of the run, or a wait for a state fails (MB219); a wait gains
  nothing by a state;
- a comparison whose sides drift apart keeps its outcome; if they approach, there is a trip count at which it changes.
  So in each lane and each iteration of the last period the sides must have met and be apart for good (it is how
  pipelines stop to fetch), and it must be made in iterations that no launch chooses. Of several ways out of a loop,
  those that a launch decides are covered by launches; a counter that comes to a constant must have done so;
- what blocks leave in a register gains the same in all of them, since the order of the text is not that of control.

Sums, products and left shifts are exact modulo their width. What reads a counter otherwise (a comparison, a right
shift, a quotient, a wider conversion) is an objection where the counter overflows within 2^20 periods, as one does that
begins near the end of its range; and where a right shift takes what a left one has moved, of which no snapshot says how
large it is. A narrower conversion is a mask.

Anything else that reads a counter is an objection, and the run proves nothing beyond itself. Counters that gain less
are taken not to overflow. What is loaded from global memory at a counter's place is an input of each iteration's own.
Source: induction variables, as in any compiler text.
Checked by: tests/machine/protocol/loops/test_induction.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import cast

import numpy as np
import numpy.typing as npt

from tilewright.frontends.ptx.ast import (
    Address,
    Immediate,
    Instruction,
    Negated,
    Operand,
    PairOfPredicates,
    Register,
    Vector,
)
from tilewright.machine.barrier.mbarrier import TOKEN_PHASE
from tilewright.machine.core.lanes import WARP_SIZE
from tilewright.machine.core.memory import FIRST_WINDOW, SHARED_WINDOW
from tilewright.machine.instruction.arithmetic.carry import FLAG
from tilewright.machine.protocol.loops.counter_values import (
    Gain,
    Inexact,
    Snapshot,
    check_apart,
    check_met,
    check_range,
    held,
    value_of,
)
from tilewright.machine.protocol.loops.few_states import result_of, signed
from tilewright.machine.protocol.loops.gain_arithmetic import (
    field_gain,
    fixed,
    gain_above,
    masked_gain,
    nearly_whole,
    product_gain,
    quotient_gain,
)
from tilewright.machine.protocol.loops.steady_registers import steady_registers
from tilewright.machine.protocol.slicing.slice_operands import Role, facts_of

MOST_PERIOD = 64
_OPEN = Fraction(1, 3**40)
"""What is small against any number, and no multiple of a power of two."""
_AT_LEAST = 2
"""Iterations in which all registers together repeat after a period that each of them shows in part."""
_WAITS = ("mbarrier.try_wait", "mbarrier.test_wait")
_FIXED: frozenset[Role] = frozenset({"shared address", "generic address", "barrier", "descriptor", "sync"})
"""Roles in which a counter leaves another trace in each period."""
_ARRIVALS = ("mbarrier.arrive", "mbarrier.arrive_drop")


@dataclass(frozen=True, slots=True)
class Repetition:
    """A stretch of iterations that repeat. first, last: indices of snapshots; steps: what each moving register gains a
    period (registers that return are not listed)."""

    period: int
    first: int
    last: int
    steps: dict[str, int]


def repetition(snapshots: Sequence[Snapshot], registers: Sequence[str]) -> Repetition | None:
    """The shortest period that holds for at least three periods and half of the run, or None where nothing repeats.

    Where registers come back after different numbers of iterations (stages of two rings), each must be seen so by
    itself, and all of them after the least common multiple at least twice. A moving register must move by the same
    amount in all lanes.
    """
    columns = {name: values for name in registers if (values := _column(snapshots, name)) is not None}
    return _together(columns, len(snapshots)) or _apart(columns, len(snapshots))


def _together(columns: Mapping[str, npt.NDArray[np.int64]], count: int) -> Repetition | None:
    """The shortest period after which all registers repeat for three periods and half of the run."""
    for period in range(1, min(MOST_PERIOD, (count - 1) // 3) + 1):
        found = _stretch(columns.values(), count, period)
        # Half the run, lest a stretch of equal steps within one period be taken for a shorter period.
        if found is not None and found[1] - found[0] + 1 >= max(2 * period, count // 2):
            return _repetition(columns, period, found)
    return None


def _apart(columns: Mapping[str, npt.NDArray[np.int64]], count: int) -> Repetition | None:
    """The least common multiple of the periods after which each register repeats for three periods and half of the
    run, if all repeat after so many iterations, to the end of the run."""
    period = 1
    for name, values in columns.items():
        one = _together({name: values}, count)
        period = lcm(period, one.period if one is not None else count)
        if period > min(MOST_PERIOD, count - _AT_LEAST - 1):
            return None
    found = _stretch(columns.values(), count, period)
    if found is None or found[1] - found[0] + 1 < _AT_LEAST or found[1] != count - period - 2:
        return None
    return _repetition(columns, period, found)


def _stretch(columns: Iterable[npt.NDArray[np.int64]], count: int, period: int) -> tuple[int, int] | None:
    """The first and the last index of the longest stretch in which every register gains the same after a period as in
    the iteration after it."""
    good = np.ones(count - period - 1, bool)
    for values in columns:
        differences = values[period:] - values[:-period]
        good &= (differences[1:] == differences[:-1]).all(axis=1) & (differences[1:] == differences[1:, :1]).all(axis=1)
        if not good.any():
            return None
    return _longest(good)


def _repetition(columns: Mapping[str, npt.NDArray[np.int64]], period: int, found: tuple[int, int]) -> Repetition:
    """What a stretch of iterations with this period shows."""
    first, last = found
    gained = {name: int(values[last + period + 1, 0] - values[last + 1, 0]) for name, values in columns.items()}
    return Repetition(period, first, last + period + 1, {name: step for name, step in gained.items() if step})


def _column(snapshots: Sequence[Snapshot], name: str) -> npt.NDArray[np.int64] | None:
    """A register's values over the iterations, sign-extended, or None if it never had one. One of 128 bits has two
    values for each lane: where it moves, lanes do not gain the same."""
    if any(name not in snapshot for snapshot in snapshots):
        return None
    rows = [np.asarray(snapshot[name]) for snapshot in snapshots]
    if rows[0].dtype == np.bool_:
        return np.stack(rows).astype(np.int64)
    if rows[0].dtype.itemsize > np.dtype(np.int64).itemsize:
        return np.stack([np.ascontiguousarray(row).view(np.int64) for row in rows])
    return np.stack([row.view(f"i{row.dtype.itemsize}").astype(np.int64) for row in rows])


def _longest(good: npt.NDArray[np.bool_]) -> tuple[int, int] | None:
    """First and last index of the longest stretch of True."""
    best: tuple[int, int] | None = None
    start: int | None = None
    for index, value in enumerate([*good.tolist(), False]):
        if value and start is None:
            start = index
        elif not value and start is not None:
            if best is None or index - 1 - start > best[1] - best[0]:
                best = (start, index - 1)
            start = None
    return best


def open_gain(number: int) -> Fraction:
    """Stands for what a counter gains that a launch chooses, one of several: no rule takes it for a number."""
    return _OPEN / (2 * number + 1)


def _is_open(gain: Gain) -> bool:
    return isinstance(gain, Fraction) and 0 < abs(gain) < Fraction(1, 1 << 40)


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a repetition says nothing of other trip counts: the instruction and what is wrong with it."""

    instruction: Instruction
    reason: str


_BITS = re.compile(r"[busf]f?(\d+)(?:x\d)?")
_FLOATING = re.compile(r"(?:f|bf|tf)\d+(?:x\d)?")
_LOSES = re.compile(r"sat|cc|[busf]+\d+x\d")
"""What keeps a sum within bounds, leaves a carry in a flag, or drops it between the halves of a register."""
_MODULI = (60, 48, 64, 56, 36, 40, 42, 44, 50, 52, 54, 58, 62, 34, 38, 46)
"""Each number up to 32, and twice it, divides one of these: of rings, the number of stages, and with their phases."""
_ROUNDS = 6
"""In which what registers gain by the rules comes to rest, where it does."""
_SHORT = 32
"""Integers of fewer bits hold only a part of a counter."""


def objections(
    body: Sequence[Instruction], found: Repetition, snapshots: Sequence[Snapshot], exits: frozenset[str],
    direct: frozenset[str] = frozenset(), open_registers: frozenset[str] | None = None,
    *, ended: bool = True, blocks: Sequence[int] = (), whole: Collection[int] = (),
    below: frozenset[int] = frozenset(), passed: Sequence[int] = (), chosen: Collection[int] = (),
) -> tuple[Objection, ...]:  # fmt: skip
    """What in a loop keeps `found` from holding for every trip count.

    body: the loop's instructions that steer, address shared memory or synchronize, in text order, those without a
    result included; exits: predicates that decide whether the loop goes on; direct: those of which one outcome ends it;
    open_registers: those that may depend on what a launch chooses, None for all; ended: what no launch chooses ended
    the loop in this run; blocks: the basic block of each instruction of the body, one for all if there are none;
    whole: the places in the body of what is executed in the last iteration, too, before any way out; below: divisions
    whose dividend is less than their divisor, by index in `body`; passed: the blocks that every iteration goes
    through that comes to its end, in order; chosen: the places in the body of what a launch decides about in which
    iterations it is executed.
    """
    return _followed(
        body, found, snapshots, exits, direct, open_registers, ended=ended, blocks=blocks, whole=whole, below=below,
        passed=passed, chosen=chosen,
    )[0]  # fmt: skip


def is_read_modulo(
    name: str, body: Sequence[Instruction], found: Repetition, snapshots: Sequence[Snapshot], exits: frozenset[str],
    direct: frozenset[str], open_registers: frozenset[str], carried: Collection[str], *, ended: bool,
    blocks: Sequence[int], whole: Collection[int], below: frozenset[int], passed: Sequence[int],
    chosen: Collection[int],
) -> bool:  # fmt: skip
    """Whether an iteration does the same, and leaves the same in what it carries to the next one, where a register is
    more by some small number: then it is read modulo that number alone. carried: what the loop's next iteration, or
    what comes after it, reads; the others as of `objections`."""
    seen = [_completed(each, body) for each in snapshots[-2:]]

    def is_modulo(modulus: int) -> bool:
        alone = replace(found, steps={name: modulus})
        for _ in range(_ROUNDS):
            against, gains = _followed(
                body, alone, seen, exits, direct, open_registers, ended=ended, blocks=blocks, whole=whole,
                below=below, passed=passed, chosen=chosen,
            )  # fmt: skip
            # What an iteration forgets gains by the rules, and nothing is known of it before.
            forgotten = {each: gain for each, gain in gains.items() if gain and each not in carried}
            # Between a product with a reciprocal and its shift a gain is a fraction.
            steps = cast("dict[str, int]", {**forgotten, name: modulus})
            if steps == alone.steps:
                return not against
            alone = replace(found, steps=steps)
        return False

    return any(map(is_modulo, _MODULI))


def _completed(snapshot: Snapshot, body: Sequence[Instruction]) -> Snapshot:
    """What registers hold, and what those would that no iteration has written."""
    found = dict(snapshot)
    for item in body:
        for name in _targets(item):
            if name not in found and (values := _moved(item, found)) is not None:
                found[name] = values
    return found


def _followed(
    body: Sequence[Instruction], found: Repetition, snapshots: Sequence[Snapshot], exits: frozenset[str],
    direct: frozenset[str], open_registers: frozenset[str] | None, *, ended: bool, blocks: Sequence[int],
    whole: Collection[int], below: frozenset[int], passed: Sequence[int], chosen: Collection[int],
) -> tuple[tuple[Objection, ...], dict[str, Gain]]:  # fmt: skip
    """Objections, and what the body's instructions make each register gain."""
    written = {name for item in body for name in _targets(item)}
    gains: dict[str, Gain] = {name: found.steps.get(name, 0) for name in written}
    assumed = {name: gain for name, gain in gains.items() if any(name in snapshot for snapshot in snapshots)}
    problems: list[Objection] = []
    ending = exits | _at_the_exit(body, direct, found, snapshots)
    writes = Counter(name for item in body for name in _targets(item))
    makers = _makers(body)
    left: dict[str, Gain] = {}
    scaled: set[str] = set()
    lasting = _last_writes(body, blocks)
    order = {block: place for place, block in enumerate(passed)}
    places = [(order[blocks[at]], at) if at < len(blocks) and blocks[at] in order else None for at in range(len(body))]
    steady = steady_registers(body, places, writes)
    stepped = {name: places[at] for at, item in enumerate(body) if item.guard is None for name in _targets(item)}
    for index, item in enumerate(body):
        moving = _moving_use(item, gains, snapshots) or _carried_flag(body[:index], item, blocks[: index + 1])
        if moving:
            problems.append(Objection(item, moving))
        targets = _targets(item)
        if not targets:
            continue
        try:
            gain = (
                _comparison(
                    item,
                    gains,
                    snapshots,
                    found.period,
                    {each: count for each, count in writes.items() if not _is_before(steady.get(each), places[index])},
                    makers,
                    ending,
                    direct,
                    open_registers,
                    ended,
                    index in whole,
                    {name for name, at in stepped.items() if _is_before(at, places[index])},
                    index in chosen,
                )
                if item.row in ("setp", "set")
                else _state(item, found.steps.get(targets[0], 0), gains)
                if item.row.startswith(_ARRIVALS)
                else _below(item, gains, makers, snapshots, scaled)
                if index in below
                else _gain(item, gains, makers, snapshots, scaled)
            )
        except Inexact as doubt:
            problems.append(Objection(item, str(doubt)))
            continue
        gain = _returned(item, gain)
        for name in targets:
            if item.guard is not None and gains.get(name, 0) != gain:
                problems.append(
                    Objection(item, f"it is skipped at times, and {name} would gain {gain} or {gains.get(name, 0)}")
                )
            if (index, name) in lasting and left.setdefault(name, gain) != gain:
                problems.append(Objection(item, f"{name} gains {gain} a period here, and {left[name]} elsewhere"))
            gains[name] = gain
        _note_scaled(item, gains, scaled)
    for item in reversed(body):
        for name in _targets(item):
            if name in assumed and gains[name] != assumed[name]:
                problems.append(
                    Objection(item, f"{name} gains {gains[name]} a period by the rules, {assumed[name]} in the run")
                )
                del assumed[name]
    return tuple(problems), gains


def _makers(body: Sequence[Instruction]) -> Counter[str]:
    """How many instructions give each register a value, those as one that step it by a number: wherever these stand, it
    is near what a snapshot holds."""
    made: Counter[str] = Counter()
    stepped: set[str] = set()
    for item in body:
        match item.row, item.operands:
            case (("add" | "sub"), (Register(name), Register(source), Immediate())) if name == source:
                stepped.add(name)
            case _:
                made.update(_targets(item))
    made.update(stepped)
    return made


def _is_before(one: tuple[int, int] | None, other: tuple[int, int] | None) -> bool:
    """Whether every iteration comes to one place before it comes to the other. None: some do not come to it."""
    return one is not None and other is not None and one < other


def _last_writes(body: Sequence[Instruction], blocks: Sequence[int]) -> set[tuple[int, str]]:
    """The writes whose results a block leaves to others, each by its place in the body and the register."""
    found: dict[tuple[int, str], int] = {}
    for index, item in enumerate(body):
        for name in _targets(item):
            found[blocks[index] if blocks else 0, name] = index
    return {(index, name) for (_, name), index in found.items()}


def _width(item: Instruction) -> int:
    """Bits of an integer instruction's type; 0 if it has none."""
    return max((int(each[1:]) for each in item.modifiers if each[:1] in "usb" and each[1:].isdigit()), default=0)


def _compared_width(item: Instruction) -> int:
    """Bits of what a comparison compares; 0 if they are no integers."""
    kind = item.modifiers[-1]
    return int(kind[1:]) if kind[:1] in "usb" and kind[1:].isdigit() else 0


def _returned(item: Instruction, gain: Gain) -> Gain:
    """A gain of so much that the result, as wide as it is, holds what it held: none."""
    width = _width(item) * (2 if "wide" in item.modifiers else 1)
    wraps = item.row in ("add", "sub", "mul", "mad", "shl") and "hi" not in item.modifiers
    return 0 if wraps and width and isinstance(gain, int) and not gain % (1 << width) else gain


def _moving_use(item: Instruction, gains: Mapping[str, Gain], snapshots: Sequence[Snapshot]) -> str:
    """Why an instruction leaves another trace in each period: it addresses shared memory, or synchronizes, by a
    counter. Empty if it does not."""
    facts = facts_of(item)
    for use in facts.uses if facts.kept or facts.kind == "load" else ():
        gain = gains.get(use.register, 0)
        if not gain or use.role not in _FIXED:
            continue
        if use.role == "sync" and item.row in _WAITS and "parity" not in item.modifiers and not gain % TOKEN_PHASE:
            continue
        if use.role == "generic address":
            values = held(snapshots[-1], use.register)
            if values is not None and not ((values >= SHARED_WINDOW) & (values < SHARED_WINDOW + (1 << 32))).any():
                continue
        return f"{use.register}, its {use.role}, gains {gain} a period"
    return ""


def _carried_flag(before: Sequence[Instruction], item: Instruction, blocks: Sequence[int]) -> str:
    """Why an instruction may take a carry that no register of a snapshot shows: nothing in its block sets the flag
    before it. Empty if it takes none, or that of its block."""
    if FLAG not in facts_of(item).reads:
        return ""
    own = [each for at, each in enumerate(before) if not blocks or blocks[at] == blocks[-1]]
    if any(each.guard is None and "cc" in each.modifiers for each in own):
        return ""
    return "it takes a carry that may be of another iteration"


def _state(item: Instruction, gained: int, gains: Mapping[str, Gain]) -> int:
    """What the state that an arrival returns gains a period: so many phases as in the run."""
    if any(_gain_of(operand, gains) for operand in item.operands[1:]):
        raise Inexact("an arrival's barrier or count is a counter")
    if gained % TOKEN_PHASE:
        raise Inexact("the states of arrivals differ by more than phases")
    return gained


def _note_scaled(item: Instruction, gains: Mapping[str, Gain], scaled: set[str]) -> None:
    """Note whether the result of an instruction is a counter that a left shift or a product has moved up, so that its
    upper bits may be lost."""
    for name in _targets(item):
        moves = bool(gains.get(name, 0))
        up = item.row == "shl" or (item.row in ("mul", "mad") and not {"hi", "wide"}.intersection(item.modifiers))
        if moves and (up or any(each in scaled for operand in item.operands[1:] for each in _registers(operand))):
            scaled.add(name)
        else:
            scaled.discard(name)


def _gain(
    item: Instruction, gains: Mapping[str, Gain], makers: Mapping[str, int], snapshots: Sequence[Snapshot],
    scaled: Collection[str] = (), *, behind: bool = False,
) -> Gain:  # fmt: skip
    """What the result of an instruction gains a period. makers: see `_makers`; scaled: counters whose upper bits may be
    lost; behind: the instruction stands behind the loop. Raises Inexact."""
    sources = [_gain_of(operand, gains) for operand in item.operands[1:]]
    if item.guard is not None and gains.get(item.guard.register.name, 0):
        raise Inexact("its guard is a counter")
    for operand in item.operands[1:]:
        match operand:
            case Address(Register(name) as base) if gains.get(name, 0) and not _is_global(item, base, snapshots):
                raise Inexact("it loads from where a counter says")
            case _:
                pass
    if not any(sources):
        return 0
    if any(_FLOATING.fullmatch(each) or _LOSES.fullmatch(each) for each in item.modifiers):
        raise Inexact(f"no rule says what {item.opcode} of a counter gains")
    if item.row in _READS_ALL_BITS or "hi" in item.modifiers or "wide" in item.modifiers:
        _check_all_bits(item, sources, makers, snapshots, scaled, behind=behind)
    match item.row, sources:
        case _, [0, gain, *rest] if (
            item.row in _WAITS and "parity" not in item.modifiers and not gain % TOKEN_PHASE and not any(rest)
        ):
            return 0
        case "cvt", [gain]:
            return _converted(item, gain, makers, snapshots, behind=behind)
        case "mov" | "cvta" | "mapa", [gain, *_] if isinstance(item.operands[0], Register):
            return gain
        case "add", [one, other]:
            return one + other
        case "sub", [one, other]:
            return one - other
        case "neg" | "not", [gain]:
            return -gain
        case "selp", [one, other, 0] if one == other:
            return one
        case "mul" | "mad", [one, other, *rest] if "hi" not in item.modifiers:
            return product_gain(item, one, other) + (rest[0] if rest else 0)
        case "mul", [gain, 0] if "hi" in item.modifiers and _width(item) in (32, 64):
            factor, width = fixed(item.operands[2], "a factor"), _width(item)
            unsigned = f"u{width}" in item.modifiers
            return nearly_whole(Fraction(gain * (factor % (1 << width) if unsigned else factor), 1 << width))
        case "shl", [gain, 0]:
            return gain * (1 << fixed(item.operands[2], "a shift"))
        case "shr", [gain, 0] if _takes_the_sign(item):
            return _sign(item, gain, snapshots)
        case "shr", [gain, 0]:
            return quotient_gain(gain, 1 << fixed(item.operands[2], "a shift"))
        case "div", [gain, 0]:
            return quotient_gain(gain, fixed(item.operands[2], "a divisor"))
        case "rem", [gain, 0]:
            quotient_gain(gain, fixed(item.operands[2], "a divisor"))
            return 0
        case "and", [gain, 0]:
            return masked_gain(gain, fixed(item.operands[2], "a mask"))
        case "or" | "xor", [gain, 0]:
            return gain_above(gain, fixed(item.operands[2], "bits"))
        case "bfe", [gain, 0, 0]:
            return field_gain(gain, *(fixed(operand, "a bit field") for operand in item.operands[2:]))
        case _:
            raise Inexact(f"no rule says what {item.opcode} of a counter gains")


_READS_ALL_BITS = frozenset({"shr", "div", "rem", "bfe"})
"""Instructions whose result depends on the upper bits of a number. Others are exact modulo their width."""


def _check_all_bits(
    item: Instruction, sources: Sequence[Gain], makers: Mapping[str, int], snapshots: Sequence[Snapshot],
    scaled: Collection[str], *, behind: bool = False,
) -> None:  # fmt: skip
    """Raises Inexact where an instruction reads upper bits that a counter has lost, or will soon."""
    width = _width(item)
    if width < _SHORT:
        raise Inexact(f"{item.opcode} reads {width} bits of a counter")
    if item.row == "bfe" or (item.row == "rem" and _is_power_of_two(item.operands[2])):
        return  # of low bits: `field_gain` and `quotient_gain` see to that
    for operand, gain in zip(item.operands[1:], sources, strict=False):
        if gain and any(name in scaled and held(snapshots[-1], name) is None for name in _registers(operand)):
            raise Inexact(f"{item.opcode} reads a counter whose upper bits are shifted out")
        check_range(operand, gain, width, snapshots, makers, unsigned=_is_unsigned(item.modifiers), behind=behind)


def _is_unsigned(types: Sequence[str]) -> bool:
    """Whether an instruction of these types reads a number without a sign."""
    return not any(each[:1] == "s" and each[1:].isdigit() for each in types)


def _is_power_of_two(operand: Operand) -> bool:
    return isinstance(operand, Immediate) and operand.value > 0 and not operand.value & (operand.value - 1)


def _converted(
    item: Instruction, gain: Gain, makers: Mapping[str, int], snapshots: Sequence[Snapshot], *, behind: bool
) -> Gain:  # fmt: skip
    """A conversion takes the low bits of a counter, or makes it wider."""
    widths = [int(found[1]) for each in item.modifiers if (found := _BITS.fullmatch(each))]
    if len(widths) != 2 or "sat" in item.modifiers:
        raise Inexact(f"no rule says what {item.opcode} of a counter gains")
    to, of = widths
    if min(to, of) < _SHORT:
        return masked_gain(gain, (1 << min(to, of)) - 1)
    if to > of:
        unsigned = _is_unsigned(item.modifiers[-1:])
        check_range(item.operands[1], gain, of, snapshots, makers, unsigned=unsigned, behind=behind)
    return gain


def _below(
    item: Instruction, gains: Mapping[str, Gain], makers: Mapping[str, int], snapshots: Sequence[Snapshot],
    scaled: Collection[str],
) -> Gain:  # fmt: skip
    """What a quotient or a remainder gains whose dividend is less than its divisor. Raises Inexact."""
    dividend = item.operands[1]
    gain = _gain_of(dividend, gains)
    if item.guard is not None or gain < 0 or any((value_of(dividend, each) < 0).any() for each in snapshots):
        raise Inexact("a quotient of what may be negative")
    _check_all_bits(item, (gain,), makers, snapshots, scaled)
    return 0 if item.row == "div" else gain


def _is_global(item: Instruction, base: Register, snapshots: Sequence[Snapshot]) -> bool:
    """Whether an access leads to global memory."""
    spaces = {each.partition("::")[0] for each in item.modifiers} & {"global", "shared", "const", "local", "param"}
    if spaces:
        return spaces == {"global"}
    held = [np.asarray(snapshot[base.name]) for snapshot in snapshots if base.name in snapshot]
    return bool(held) and all(bool((each < FIRST_WINDOW).all()) for each in held)


def gain_after(
    item: Instruction, counters: Mapping[str, tuple[Gain, npt.NDArray[np.int64] | None]], kept: Snapshot
) -> tuple[Gain, npt.NDArray[np.int64] | None] | str:
    """What the result of an instruction behind a loop gains with each period that the loop iterates more, and what it
    was in the run, where that is known; in words, why no rule says so. counters: the same of the registers that gain
    anything; kept: what others hold, as far as that is known."""
    known: Snapshot = {name: value for name, (_, value) in counters.items() if value is not None}
    values = {**{name: value for name, value in kept.items() if name not in counters}, **known}
    try:
        gains, makers = {name: gain for name, (gain, _) in counters.items()}, dict.fromkeys(counters, 1)
        return _gain(item, gains, makers, [values], behind=True), _moved(item, values)
    except Inexact as doubt:
        return str(doubt)


def stay_as_apart(item: Instruction, counters: Mapping[str, tuple[Gain, npt.NDArray[np.int64] | None]]) -> bool:
    """Whether a comparison behind a loop comes out the same after any number of periods more: its sides gain the same,
    and neither overflows where that shows."""
    gains = {name: gain for name, (gain, _) in counters.items()}
    values: Snapshot = {name: value for name, (_, value) in counters.items() if value is not None}
    try:
        one, other, *rest = (_gain_of(operand, gains) for operand in item.operands[1:])
        for operand in item.operands[1:3]:
            _check_compared(item, operand, one, [values], dict.fromkeys(counters, 1), behind=True)
    except Inexact:
        return False
    return one == other and not any(rest)


def _check_compared(
    item: Instruction, operand: Operand, gain: Gain, snapshots: Sequence[Snapshot], makers: Mapping[str, int], *,
    behind: bool = False,
) -> None:  # fmt: skip
    """Raises Inexact where a side of a comparison overflows soon. What is compared for being equal alone may do so."""
    if item.modifiers[0] not in ("eq", "ne"):
        unsigned = _is_unsigned(item.modifiers[-1:])
        check_range(operand, gain, _compared_width(item), snapshots, makers, unsigned=unsigned, behind=behind)


def _moved(item: Instruction, values: Snapshot) -> npt.NDArray[np.int64] | None:
    """What an instruction gives, by lane, where everything that it reads is known."""
    width = _width(item)
    read = {name for operand in item.operands[1:] for name in _registers(operand)}
    columns = {name: values_held.tolist() for name in read if (values_held := held(values, name)) is not None}
    if item.guard is not None or not width or item.row == "cvt" or columns.keys() != read:
        return None
    lanes = [result_of(item, {name: column[lane] for name, column in columns.items()}) for lane in range(WARP_SIZE)]
    known = [signed(each, width) for each in lanes if each is not None]
    return np.array(known, np.int64) if len(known) == WARP_SIZE else None


def _takes_the_sign(item: Instruction) -> bool:
    """Whether a shift leaves nothing of a number but its sign."""
    return _width(item) > 0 and item.operands[2] == Immediate(_width(item) - 1)


def _sign(item: Instruction, gain: Gain, snapshots: Sequence[Snapshot]) -> Gain:
    """The sign bit of a counter stays as it is if the counter moves away from zero."""
    values = value_of(item.operands[1], snapshots[-1])
    if (gain > 0 and (values >= 0).all()) or (gain < 0 and (values < 0).all()):
        return 0
    raise Inexact("the sign of a counter that approaches zero")


def _gain_of(operand: Operand, gains: Mapping[str, Gain]) -> Gain:
    found = {gains.get(name, 0) for name in _registers(operand)} - {0}
    if len(found) > 1 or (found and isinstance(operand, Vector)):
        raise Inexact("a vector of counters")
    return found.pop() if found else 0


def _at_the_exit(
    body: Sequence[Instruction], direct: frozenset[str], found: Repetition, snapshots: Sequence[Snapshot]
) -> frozenset[str]:
    """Predicates that turn over in the iteration in which the loop ends, since what ends it compares the same: the same
    operands, or a register that always holds the same, with the same one."""
    same: set[str] = set()
    places = {name: at for at, item in enumerate(body) for name in _targets(item)}
    for last in (places[name] for name in direct if name in places):
        end = body[last]
        for at, item in enumerate(body):
            if (
                item.row == end.row == "setp"
                and item.guard is None
                and end.guard is None
                and len(item.operands) == len(end.operands) == 3
                and item.modifiers[1:] == end.modifiers[1:]
                and item.modifiers[0] in (end.modifiers[0], _OPPOSITE.get(end.modifiers[0]))
                and (
                    _unwritten_between(body, end, at, last)
                    if item.operands[1:] == end.operands[1:]
                    else _always_equal(places, item, end, found, snapshots)
                )
            ):
                same.update(_targets(item))
    return frozenset(same)


def _unwritten_between(body: Sequence[Instruction], end: Instruction, at: int, last: int) -> bool:
    sides = {name for operand in end.operands[1:3] for name in _registers(operand)}
    return not any(sides.intersection(_targets(each)) for each in body[min(at, last) : max(at, last)])


def _always_equal(
    places: Mapping[str, int], item: Instruction, end: Instruction, found: Repetition, snapshots: Sequence[Snapshot]
) -> bool:
    """Whether two comparisons have one side in common, which the loop does not write, and two counters that hold the
    same after each iteration. One that turned over before the loop ends has been seen to."""
    one, other = item.operands[1], end.operands[1]
    common = item.operands[2] == end.operands[2] and not any(name in places for name in _registers(item.operands[2]))
    if not common or not isinstance(one, Register) or not isinstance(other, Register):
        return False
    if found.steps.get(one.name, 0) != found.steps.get(other.name, 0):
        return False
    values = [(held(each, one.name), held(each, other.name)) for each in snapshots]
    return all(first is not None and second is not None and (first == second).all() for first, second in values)


_OPPOSITE = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq", "lo": "hs", "hs": "lo"}


def _comparison(
    item: Instruction, gains: Mapping[str, Gain], snapshots: Sequence[Snapshot], period: int,
    writes: Mapping[str, int], makers: Mapping[str, int], exits: frozenset[str], direct: frozenset[str],
    open_registers: frozenset[str] | None,
    ended: bool, executed: bool, stepped: Collection[str], at_choice: bool,
) -> int:  # fmt: skip
    """A comparison's outcome gains nothing. writes: how many instructions of the loop write each register but those
    that hold the same in each iteration; makers: see `_makers`. Raises Inexact if some trip count has an outcome that
    was never seen. Of those that end the loop, one that a launch decides and by which a branch leaves it is a condition
    of its own; any other must have ended the run. executed: it was made in the last iteration as well; stepped: what
    each iteration wrote before it made it; at_choice: a launch decides in which iterations it is made."""
    one, other, width = item.operands[1], item.operands[2], _compared_width(item)
    drift = _gain_of(one, gains) - _gain_of(other, gains)
    if any(_gain_of(operand, gains) for operand in item.operands[3:]):
        raise Inexact("it combines a counter")
    moving = [(each, gain) for each in (one, other) if (gain := _gain_of(each, gains))]
    if moving and any(_FLOATING.fullmatch(each) for each in item.modifiers):
        raise Inexact(f"no rule says what {item.opcode} of a counter gives")
    if not moving or (not drift and item.modifiers[0] in ("eq", "ne")):
        return 0
    sides = {name for operand in (one, other) for name in _registers(operand)}
    if any(name in gains and all(name not in snapshot for snapshot in snapshots) for name in sides):
        return 0  # nobody has written what it compares: the warp did not come here
    targets = _targets(item)
    once = all(writes.get(name) == 1 for name in targets)
    if drift and once and exits & set(targets):
        chosen = open_registers is None or sides & open_registers
        if (chosen and direct & set(targets)) or ((chosen or ended) and _meet(one, other, drift, snapshots, width)):
            return 0
    for operand, gain in moving:
        _check_compared(item, operand, gain, snapshots, makers)
    if not drift:
        return 0
    if any(_is_open(gain) for _, gain in moving):
        raise Inexact("it compares a counter that is stepped by what a launch chooses")
    fixed = [each for each in (one, other) if not any(name in writes for name in _registers(each))]
    if fixed and open_registers is not None and sides & open_registers:
        # Each iteration's outcome is a condition of its own.
        steps = all(writes.get(name) == 1 and name in stepped for name in sides if name in writes)
        check_met(one, other, drift, snapshots, width, executed=executed, stepped=period if steps else 0)
        return 0
    if any(writes.get(name, 0) > 1 for name in sides):
        raise Inexact("it compares a counter with what several instructions write")
    if at_choice:
        raise Inexact(
            "it compares a counter in iterations that a launch chooses, and may not have in the one that matters"
        )
    check_apart(one, other, drift, snapshots, period, width)
    return 0


def _meet(one: Operand, other: Operand, drift: Gain, snapshots: Sequence[Snapshot], width: int) -> bool:
    """Whether the sides of a comparison meet within the period after the run."""
    distance = value_of(one, snapshots[-1], width) - value_of(other, snapshots[-1], width)
    after = distance + int(drift)
    return bool(((distance < 0) & (after >= 0) if drift > 0 else (distance > 0) & (after <= 0)).all())


def _targets(item: Instruction) -> tuple[str, ...]:
    return tuple(name for name in _registers(item.operands[0]) if name != "_") if item.operands else ()


def _registers(operand: Operand) -> tuple[str, ...]:
    match operand:
        case Register(name):
            return (name,)
        case Negated(register):
            return (register.name,)
        case PairOfPredicates(first, second):
            return (first.name, second.name)
        case Vector(items):
            return tuple(name for each in items for name in _registers(each))
        case _:
            return ()
