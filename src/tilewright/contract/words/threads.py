"""Which threads of an agent does an op of thread-level MLIR concern, and what is a value for each of them?

An agent's threads run the same code with their own numbers. A value that is made of thread numbers and of what is the
same for all is a list of integers, one per thread; integer ops are evaluated for each. A condition that is such a value
picks threads: what it guards is the act of a part of the agent (`word.Part`). `nvvm.elect.sync` picks one thread of
each warp, and which one is not known.

Not handled (doubts): conditions and bounds of loops made of data that threads load, and what else is left of the
elected thread. Checked by: tests/contract/words/test_structured_run.py (parts),
tests/driver/check/test_check_upstream_nvgpu.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from tilewright.contract.words.operations import for_parts, is_integer
from tilewright.contract.words.scalar import Number, Scalar, add, multiply, scalar
from tilewright.contract.words.values import Environment, NotFollowed, Value, bind, lookup
from tilewright.contract.words.walk import TRIPS_MAX, Handler, Walk
from tilewright.contract.words.word import Part
from tilewright.frontends.mlir.ast import Operation

WARP_THREADS = 32
_EACH, _ELECTED, _BOTH, _FRESH = "threads", "elected", "both", "fresh"
_NOT_THE_SAME = "a condition that is not the same for all threads, and that no thread numbers decide, is not followed"


# ---------------------------------------------------------------- values


def numbers(walk: Walk) -> range:
    """The numbers of an agent's threads in its block."""
    return range(walk.first, walk.first + walk.threads)


def each(walk: Walk, values: tuple[int, ...]) -> Number:
    """The value that is `values[n]` for an agent's thread n."""
    base = values[0]
    shifted = tuple(value - base for value in values)
    return add(walk.program.atoms.of(_EACH, shifted), base) if any(shifted) else base


def by_thread(walk: Walk, number: Number) -> tuple[int, ...] | None:
    """What a number is for each thread; None where that is not known."""
    number = walk.resolved(number)
    if isinstance(number, int):
        return (number,) * walk.threads
    if number.slope:
        return None
    found = [number.value] * walk.threads
    for atom, coefficient, slope in number.atoms:
        key = _key(walk, atom)
        if key[0] != _EACH or slope:
            return None
        found = [value + coefficient * own for value, own in zip(found, cast("tuple[int, ...]", key[1]), strict=True)]
    return tuple(found)


def _key(walk: Walk, atom: int) -> tuple[object, ...]:
    return cast("tuple[object, ...]", walk.program.atoms.keys[atom])


def varies(walk: Walk, number: Number) -> bool:
    """May the number differ from thread to thread?"""
    if isinstance(number, int):
        return False
    known = walk.program.atoms.varying
    if number not in known:
        roots = walk.program.atoms.roots(number)
        known[number] = any(_key(walk, atom)[0] in (_EACH, _ELECTED, _BOTH, _FRESH) for atom in roots)
    return known[number]


def of_each_thread(handler: Handler) -> Handler:
    """An integer op, evaluated for each thread where its operands differ."""

    def handle(walk: Walk, operation: Operation, environment: Environment) -> None:
        if len(operation.results) != 1 or not is_integer(operation.types):
            handler(walk, operation, environment)
            return
        operands = [environment.get(name) for name in operation.uses]
        if not any(isinstance(operand, Scalar) for operand in operands):
            handler(walk, operation, environment)
            return
        given = [walk.number(environment, name, operation.line) for name in operation.uses]
        found = _conjunction(walk, given) if operation.name == "arith.andi" and operation.types == "i1" else None
        if found is None:
            found = _computed(walk, operation, given, handler)
        if found is None:
            handler(walk, operation, environment)
        else:
            bind(environment, operation.results[0], found)

    return handle


def _computed(walk: Walk, operation: Operation, given: list[Number], handler: Handler) -> Number | None:
    if not any(varies(walk, number) for number in given):
        return None
    numbers, known = tuple(map(walk.resolved, given)), walk.program.atoms.by_thread
    words = tuple([token.text for token in operation.tokens if token.kind != "value"])
    question = (operation.name, operation.types, words, walk.threads, numbers)
    if question not in known:
        known[question] = _evaluated(walk, operation, numbers, handler)
    return known[question]


def _evaluated(walk: Walk, operation: Operation, given: tuple[Number, ...], handler: Handler) -> Number | None:
    rows = [by_thread(walk, number) for number in given]
    if any(row is None for row in rows):
        return None
    known: dict[tuple[int, ...], int] = {}
    values: list[int] = []
    for operands in zip(*cast("list[tuple[int, ...]]", rows), strict=True):
        if operands not in known:
            own: Environment = dict(zip(operation.uses, operands, strict=True))
            handler(walk, operation, own)
            value = own.get(operation.results[0])
            if not isinstance(value, int):
                return None
            known[operands] = value
        values.append(known[operands])
    walk.program.evaluated += len(known)
    return each(walk, tuple(values))


def _conjunction(walk: Walk, given: list[Number]) -> Number | None:
    """Of two conditions; None where it takes no more than the numbers of threads, or is not followed."""
    for one, other in (given, given[::-1]):
        if isinstance(one, int):
            return other if one else 0
    for one, other in (given, given[::-1]):
        warps = _elected(walk, one)
        if warps is not None and (members := _members(walk, other)) is not None and _is_whole_warps(walk, members):
            return walk.program.atoms.of(_ELECTED, warps & members) if warps & members else 0
        if varies(walk, one) and not varies(walk, other):
            return walk.program.atoms.of(_BOTH, scalar(other), scalar(one))
    return None


# ---------------------------------------------------------------- parts


def everyone(walk: Walk) -> int:
    """All threads of an agent, as bits."""
    return (1 << walk.threads) - 1


def acting(walk: Walk) -> int:
    """The threads that act, as bits."""
    return everyone(walk) if walk.part is None else walk.part.members


def count(walk: Walk) -> int:
    """How many threads act."""
    return walk.threads if walk.part is None else walk.part.size


def is_one(walk: Walk) -> bool:
    return count(walk) == 1


def elect(walk: Walk, operation: Operation, environment: Environment) -> None:
    """nvvm.elect.sync: one thread of each warp."""
    bind(environment, operation.results[0], walk.program.atoms.of(_ELECTED, everyone(walk)))


def chosen(walk: Walk, condition: Number, line: int) -> bool | Part:
    """For which of the acting threads a condition holds: for all, for none, or for a part of them."""
    condition = walk.resolved(condition)
    if isinstance(condition, int):
        return condition != 0
    members, warps = _members(walk, condition), _elected(walk, condition)
    if members is not None:
        return _narrowed(walk, members, False, line)
    if warps is not None:
        return _narrowed(walk, warps, True, line)
    key = _only_key(walk, condition)
    if key is not None and key[0] == _BOTH:
        same, other = cast("tuple[Scalar, Scalar]", key[1:])
        return walk.holds(same, line) and chosen(walk, other, line)
    if varies(walk, condition):
        raise NotFollowed(line, _NOT_THE_SAME)
    return walk.holds(condition, line)


def _only_key(walk: Walk, number: Number) -> tuple[object, ...] | None:
    """What a number is that is one unknown alone."""
    if isinstance(number, Scalar) and not number.value and len(number.atoms) == 1 and number.atoms[0][1:] == (1, 0):
        return _key(walk, number.atoms[0][0])
    return None


def _members(walk: Walk, condition: Number) -> int | None:
    values = by_thread(walk, condition)
    return None if values is None else sum(1 << place for place, value in enumerate(values) if value)


def _elected(walk: Walk, condition: Number) -> int | None:
    """The threads of the warps that a condition holds for one thread of; None if it is no such condition."""
    key = _only_key(walk, condition)
    return cast("int", key[1]) if key is not None and key[0] == _ELECTED else None


def _is_whole_warps(walk: Walk, members: int) -> bool:
    warp = (1 << WARP_THREADS) - 1
    own = everyone(walk)
    return all((members >> begin & warp) in (0, own >> begin & warp) for begin in range(0, walk.threads, WARP_THREADS))


def _narrowed(walk: Walk, members: int, elected: bool, line: int) -> bool | Part:
    """The threads that are picked of those that act."""
    before = walk.part
    old = acting(walk)
    was_elected = before is not None and before.elected
    if (elected and not _is_whole_warps(walk, old)) or (was_elected and not _is_whole_warps(walk, members)):
        raise NotFollowed(line, "whether the elected thread of a warp is among others is not followed")
    members &= old
    elected = elected or was_elected
    if not members:
        return False
    if members == old and elected == was_elected:
        return True
    return part_of_agent(walk, members, elected)


def part_of_agent(walk: Walk, members: int, elected: bool = False) -> Part:
    """Threads of an agent, named by their numbers in the block."""
    places = [place for place in range(walk.threads) if members >> place & 1]
    first, last = walk.first + places[0], walk.first + places[-1]
    warps = sorted({(walk.first + place) // WARP_THREADS for place in places})
    if elected:
        name = f"the elected thread of warp {warps[0]}" if len(warps) == 1 else "the elected threads"
    elif len(places) == 1:
        name = f"thread {first}"
    elif len(places) == last - first + 1:
        name = f"threads {first} to {last}"
    else:
        name = f"{len(places)} threads"
    return Part(name, members, elected)


def acts(walk: Walk, part: Part | None, act: Callable[[], object]) -> None:
    """Do what a part of the threads does."""
    before, walk.part = walk.part, part
    try:
        act()
    finally:
        walk.part = before  # what is not followed may be passed over (`_quietly`)


def remaining(walk: Walk, part: Part) -> Part | None:
    """The threads that act and are not in `part`; None where there are none, or which they are is not known."""
    members = acting(walk) & ~part.members
    return part_of_agent(walk, members) if members and not part.elected else None


# ---------------------------------------------------------------- conditions and loops


def condition(walk: Walk, operation: Operation, environment: Environment) -> None:
    """scf.if: what it guards is done by the threads that it picks."""
    number = walk.resolved(walk.number(environment, operation.uses[0], operation.line))
    if isinstance(number, int):
        walk.condition(operation, environment)
    elif not _quietly(walk, operation, environment):
        part = chosen(walk, number, operation.line)
        if isinstance(part, bool):
            _taken(walk, operation, environment, part)
        else:
            _apart(walk, operation, environment, part)


def _taken(walk: Walk, operation: Operation, environment: Environment, holds: bool) -> None:
    place = 0 if holds else 1
    if place < len(operation.regions):
        found = walk.body(operation.regions[place], environment, {})
        for name, value in zip(operation.results, found, strict=False):
            bind(environment, name, value)


def _apart(walk: Walk, operation: Operation, environment: Environment, part: Part) -> None:
    """Some threads take one branch, the others the other one."""
    others = remaining(walk, part)
    branches: list[tuple[Value, ...]] = []
    for threads, region in zip((part, others), operation.regions, strict=False):
        if threads is None and region.operations:
            raise NotFollowed(operation.line, "what threads do that are not elected is not followed")
        if threads is not None:
            acts(walk, threads, lambda region=region: branches.append(walk.body(region, environment, {})))
    for place, name in enumerate(operation.results):
        given = [branch[place] for branch in branches if place < len(branch)]
        bind(environment, name, _merged(walk, name, given, part))


def _merged(walk: Walk, name: str, given: list[Value], part: Part) -> Value:
    if len(given) == 2 and not part.elected:
        yes, no = given
        if yes == no:
            return yes
        if isinstance(yes, int | Scalar) and isinstance(no, int | Scalar):
            rows = by_thread(walk, yes), by_thread(walk, no)
            if rows[0] is not None and rows[1] is not None:
                picked = (rows[0 if part.members >> place & 1 else 1] for place in range(walk.threads))
                return each(walk, tuple(row[place] for place, row in enumerate(cast("list[tuple[int, ...]]", picked))))
    return walk.unknown(name)


def _quietly(walk: Walk, operation: Operation, environment: Environment) -> bool:
    """Evaluate all branches of a condition. Where they do nothing to the protocol, its outcome does not matter; else
    nothing has happened, and the answer is no."""
    word = walk.word
    before = len(word.steps), len(word.marks), walk.groups, list(walk.pieces), dict(walk.instances), walk.unknowns
    reason: NotFollowed | None = None
    try:
        for region in operation.regions:
            walk.body(region, environment, {})
    except NotFollowed as found:
        reason = found
    if reason is None and (len(word.steps), walk.groups, walk.pieces) == (before[0], before[2], before[3]):
        for name in operation.results:
            bind(environment, name, walk.unknown(name))
        return True
    del word.steps[before[0] :], word.marks[before[1] :]
    walk.groups, walk.pieces, walk.instances, walk.unknowns = before[2:]
    return False


def loop(walk: Walk, operation: Operation, environment: Environment) -> None:
    """scf.for, whose bounds may differ from thread to thread."""
    index, low, high, step, carried, initial = for_parts(operation)
    line = operation.line
    lower, upper, stride = (walk.number(environment, name, line) for name in (low, high, step))
    distance = walk.resolved(add(upper, lower, -1))
    differs = varies(walk, distance) or varies(walk, stride)
    large = isinstance(distance, int) and isinstance(stride, int) and stride > 0 and distance > stride * TRIPS_MAX
    if not differs and not large:
        walk.loop(operation, environment)
        return
    distances = by_thread(walk, distance)
    if large or distances is None or not isinstance(stride, int) or stride <= 0:
        _skipped(walk, operation, environment)
        return
    trips = tuple(max(0, -(-each_distance // stride)) for each_distance in distances)
    places = [place for place in range(walk.threads) if acting(walk) >> place & 1]
    wanted = {trips[place] for place in places}
    if len(wanted) == 1 and next(iter(wanted)) <= TRIPS_MAX:
        values = tuple(walk.carried(environment, name, line) for name in initial)
        head = (index, lower, stride)
        values = walk.iterate(operation, head, carried, values, environment, (None, next(iter(wanted))))
        for name, value in zip(operation.results, values, strict=False):
            bind(environment, name, value)
        return
    if carried or max(wanted) > TRIPS_MAX:
        _skipped(walk, operation, environment)
        return
    for trip in range(max(wanted)):
        going = sum(1 << place for place in places if trips[place] > trip)
        if walk.part is not None and walk.part.elected and going != walk.part.members:
            raise NotFollowed(line, "how many trips the elected thread makes is not followed")
        same = going == acting(walk)
        part = walk.part if same else part_of_agent(walk, going)
        arguments: dict[str, Value] = {index: add(lower, multiply(trip, stride, walk.program.atoms))}
        acts(walk, part, lambda arguments=arguments: walk.body(operation.regions[0], environment, arguments))


def _skipped(walk: Walk, operation: Operation, environment: Environment) -> None:
    """A loop whose trips are not known: nothing to follow if its body does nothing to the protocol."""
    index, _, _, _, carried, _ = for_parts(operation)
    inner: Environment = {**environment, **{name: walk.unknown(name) for name in (index, *carried)}}
    if not _quietly(walk, operation, inner):
        raise NotFollowed(operation.line, "a loop whose number of trips differs between threads is not followed")
    for name in operation.results:
        bind(environment, name, walk.unknown(name))


def bind_thread_number(walk: Walk, environment: Environment, name: str, axis: int) -> None:
    """A thread's number along an axis of its block."""
    x, y, _ = walk.block
    apart, extent = ((1, x), (x, y), (x * y, walk.block[2]))[axis]
    bind(environment, name, each(walk, tuple(number // apart % extent for number in numbers(walk))))


def thread_number(walk: Walk, operation: Operation, environment: Environment) -> None:
    """gpu.thread_id, along an axis of the block."""
    bind_thread_number(walk, environment, operation.results[0], _axis(operation))


def _axis(operation: Operation) -> int:
    axis = "xyz".find(operation.tokens[0].text) if operation.tokens else -1
    if axis < 0:
        raise NotFollowed(operation.line, f"{operation.name} along an axis that is not read")
    return axis


def lane_number(walk: Walk, operation: Operation, environment: Environment) -> None:
    """gpu.lane_id, gpu.subgroup_id."""
    lanes = operation.name == "gpu.lane_id"
    values = (number % WARP_THREADS if lanes else number // WARP_THREADS for number in numbers(walk))
    bind(environment, operation.results[0], each(walk, tuple(values)))


def block_extent(walk: Walk, operation: Operation, environment: Environment) -> None:
    """gpu.block_dim."""
    bind(environment, operation.results[0], walk.block[_axis(operation)])


def shuffle(walk: Walk, operation: Operation, environment: Environment) -> None:
    """A value that is the same for a warp's threads stays what it is; that the mask names all of them is asked of
    nvvm.shfl.sync, whose first operand it is."""
    line = operation.line
    place = 1 if operation.name == "nvvm.shfl.sync" else 0
    value = lookup(environment, operation.uses[place], line)
    found: Value = walk.unknown(operation.results[0])
    if place and environment.get(operation.uses[0]) not in (-1, 0xFFFFFFFF):
        raise NotFollowed(line, f"{operation.name} whose mask does not name all threads of a warp is not followed")
    if isinstance(value, int | Scalar):
        values = by_thread(walk, value)
        if isinstance(value, int) or (values is not None and _same_in_warps(values)):
            found = value
    bind(environment, operation.results[0], found)
    for name in operation.results[1:]:
        bind(environment, name, 1)


def _same_in_warps(values: tuple[int, ...]) -> bool:
    return all(value == values[place - place % WARP_THREADS] for place, value in enumerate(values))
