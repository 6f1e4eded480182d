"""Which words do the agents of a structured program have, for given trip counts? Evaluation of its integers and control
flow, with everything else left out.

Loops whose trip count is open take it from the run's choice; conditions that nothing decides take the run's decision.
A loop can be *stretched*: at one of its trips, the values that it carries gain a slope, the difference to the values
one period later (known from a run without slopes). The evaluation then stands for every number of inserted periods; it
raises NotPeriodic unless the steps stay the same for all of them and the carried values come out one period on with the
same slopes. See `structured_scalar`.

Only ops that matter are evaluated: those that a dialect says have effects, and what their integers are computed from.
An op that the dialect does not know, and that it can't take for harmless, is a doubt.

Not handled (doubts): loops with effects whose number of trips is decided in their body, branches between blocks, calls.
Checked by: tests/contract/test_structured_proof.py, tests/driver/test_check_mlir.py.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from tilewright.contract.structured_scalar import (
    Atoms,
    NotPeriodic,
    Number,
    Scalar,
    TripCount,
    add,
    multiply,
    scalar,
    short,
    slopes,
    with_slope,
)
from tilewright.contract.structured_word import Box, Mark, Region, Step, Symbol, Word
from tilewright.frontends.mlir.ast import Operation, Token
from tilewright.frontends.mlir.ast import Region as Body

Distance = tuple[Number, Number]
"""What a number of trips is of: from first index to end, and the step."""

TRIPS_MAX = 4096
"""Trips of a loop whose bounds the program fixes; beyond them the loop is not followed."""


class NotFollowed(Exception):
    """Something at a line is not understood. Not an error of the input: a reason for doubt."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True)
class View:
    """A piece of memory as a value: region of an allocation, the shape that it is seen in, and which dimension of the
    allocation each dimension of that shape is (empty where it is seen otherwise)."""

    region: Region
    shape: tuple[int, ...]
    element_bits: int
    axes: tuple[int, ...]
    kind: str

    @property
    def size_bytes(self) -> int:
        size = self.element_bits
        for extent in self.shape:
            size *= extent
        return size // 8


@dataclass(frozen=True, slots=True)
class InFlight:
    """The result of an agent's asynchronous wgmma: of which of its groups."""

    group: Number


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that no step depends on."""


OPAQUE = Opaque()
Value = Number | View | InFlight | Opaque
Environment = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Insert periods of `period` trips at trip `cut` of every loop over `symbol`; plain: the values that each loop's
    trips begin with in the run without slopes, by agent, instance and trip; what they gain in a period is read off at
    trip `begin`."""

    symbol: Distance
    period: int
    begin: int
    cut: int
    plain: Mapping[tuple[str, int, int], tuple[Value, ...]]


@dataclass(slots=True)
class Choice:
    """One run: trip counts by symbol, decisions by condition; what it meets that is not chosen yet is added to
    `open_symbols` and `open_conditions`, and taken for 1 trip and true. values: of the unknowns that are a loop's
    number of trips, with slopes."""

    counts: Mapping[Distance, int]
    decisions: Mapping[Hashable, bool]
    stretch: Stretch | None = None
    open_symbols: dict[Distance, Symbol] = field(default_factory=dict[Distance, Symbol])
    open_conditions: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    trips: dict[Hashable, TripCount] = field(default_factory=dict[Hashable, TripCount])
    values: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    history: dict[tuple[Hashable, str, int, int], tuple[Value, ...]] = field(
        default_factory=dict[tuple[Hashable, str, int, int], tuple[Value, ...]]
    )

    def know(self, symbol: Distance, count: int) -> None:
        """Let comparisons with the loop's end be decided by how many trips it makes."""
        distance, step = symbol
        slope = self.stretch.period if self.stretch is not None and self.stretch.symbol == symbol else 0
        self.trips[symbol] = TripCount(distance, step, Scalar(count, slope))
        whole = scalar(distance)
        if step == 1 and len(whole.atoms) == 1 and whole.atoms[0][1:] == (1, 0) and not whole.value:
            self.values[whole.atoms[0][0]] = (count, slope)


Handler = Callable[["Walk", Operation, Environment], None]


@dataclass(frozen=True, slots=True)
class Dialects:
    """handlers: what ops do, by name; harmless: does an op without a handler do nothing to the protocol?; effects: the
    names of ops that are evaluated even if no one uses their results; hot: names of ops whose results are tensors in
    flight, so that ops which use them are looked at; operands: of the ops named here, only
    these of the uses outside of brackets matter, and what is in flight."""

    handlers: Mapping[str, Handler]
    harmless: Callable[[Operation], bool]
    effects: frozenset[str]
    hot: frozenset[str]
    operands: Mapping[str, slice]


@dataclass(slots=True)
class Program:
    """What all agents of a function share. relevant: what is evaluated."""

    dialects: Dialects
    atoms: Atoms
    choice: Choice
    relevant: Relevance
    words: dict[str, Word] = field(default_factory=dict[str, Word])


@dataclass(slots=True)
class Walk:
    """One agent's evaluation. groups: wgmma groups that it has issued, pieces: what the next one reads; single: one
    thread acts; instances: how often it entered a loop over each symbol."""

    program: Program
    word: Word
    scope: int = 0
    groups: Number = 0
    threads: int = 128
    single: bool = False
    pieces: list[Region] = field(default_factory=list[Region])
    instances: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    unknowns: int = 0

    # ------------------------------------------------------------ steps and values

    def step(self, step: Step) -> None:
        """Add a step to the word; one that tells again that the same result is used adds nothing."""
        if self.single:
            step = step._replace(single=True)
        if step.kind != "use" or not self.word.steps or self.word.steps[-1][:4] != step[:4]:
            self.word.steps.append(step)

    def number(self, environment: Environment, name: str, line: int) -> Number:
        """The integer that `name` stands for; unknown data where it is no integer."""
        value = lookup(environment, name, line)
        if isinstance(value, int | Scalar):
            return value
        return self.unknown(name)

    def integer(self, environment: Environment, name: str, line: int, what: str) -> int:
        """As `number`, for what a step names: it must be known, and the same however often a loop repeats."""
        number = self.resolved(self.number(environment, name, line))
        if isinstance(number, int):
            return number
        if number.is_known:
            raise NotPeriodic(f"{what} is not the same as a loop gets longer")
        raise NotFollowed(line, f"{what} depends on what a run alone would know")

    def resolved(self, number: Number) -> Number:
        """The number with the values of those of its unknowns that are a loop's number of trips."""
        values = self.program.choice.values
        if isinstance(number, int) or not any(atom in values for atom, _, _ in number.atoms):
            return number
        whole = Scalar(number.value, number.slope, tuple(each for each in number.atoms if each[0] not in values))
        result = short(whole)
        for atom, coefficient, slope in number.atoms:
            if atom in values:
                term = short(Scalar(*values[atom]))
                if slope and term != 0:
                    raise NotPeriodic("a value grows with the product of two loops' trips")
                result = add(result, term, coefficient)
        return result

    def view(self, environment: Environment, name: str, line: int) -> View:
        value = lookup(environment, name, line)
        if not isinstance(value, View):
            raise NotFollowed(line, f"%{name} is no piece of memory that is followed")
        return value

    def unknown(self, what: Hashable) -> Scalar:
        """A number that nothing is known of, equal to no other."""
        self.unknowns += 1
        return self.program.atoms.one_of_its_own(self.word.agent, what, self.unknowns)

    def holds(self, condition: Number, line: int) -> bool:
        """Is the condition true in this run? One that nothing decides is decided by the run's choice."""
        if isinstance(condition, int):
            return condition != 0
        if condition.is_known:
            raise NotPeriodic("a condition is not the same as a loop gets longer")
        choice = self.program.choice
        if condition.value == 1 and len(condition.atoms) == 1 and condition.atoms[0][1:] == (-1, 0):
            return not self.holds(add(1, condition, -1), line)
        if condition in choice.decisions:
            return choice.decisions[condition]
        if choice.stretch is not None:
            raise NotPeriodic("a condition that is decided nowhere changes as a loop gets longer")
        choice.open_conditions.setdefault(condition, line)
        return True

    # ------------------------------------------------------------ ops and regions

    def operations(self, operations: tuple[Operation, ...], environment: Environment) -> Operation | None:
        """Evaluate ops in order; the terminator, if there is one, is handed back unevaluated."""
        program = self.program
        handlers, chosen = program.dialects.handlers, program.relevant.operations
        for operation in operations:
            if id(operation) not in chosen:
                continue
            if operation.name in TERMINATORS:
                return operation
            handler = handlers.get(operation.name)
            if handler is None:
                self.other(operation, environment)
            else:
                handler(self, operation, environment)
        return None

    def other(self, operation: Operation, environment: Environment) -> None:
        """An op without a handler: its results are unknown, and tensors in flight that it uses must be done."""
        if not _known(operation, self.program.dialects):
            raise NotFollowed(operation.line, f"what {operation.name} does to the protocol is not known")
        for use in operation.uses:
            value = environment.get(use)
            if isinstance(value, InFlight):
                self.use_in_flight(value, operation.line)
        for name in operation.results:
            bind(environment, name, self.unknown(name) if is_integer(operation.types) else OPAQUE)

    def use_in_flight(self, value: InFlight, line: int) -> None:
        """The threads touch the registers of a wgmma's result."""
        since = add(self.groups, value.group, -1)
        if not isinstance(since, int):
            raise NotPeriodic("a result of wgmma is used at a changing distance")
        self.step(Step("use", line, value=since))

    def body(self, body: Body, environment: Environment, arguments: Mapping[str, Value]) -> tuple[Value, ...]:
        """Evaluate a region in its own scope; the values that its terminator hands over."""
        if body.blocks > 1:
            line = body.operations[0].line if body.operations else 0
            raise NotFollowed(line, "branches between blocks are not followed")
        inner = dict(environment)
        inner.update(arguments)
        end = self.operations(body.operations, inner)
        if end is None:
            return ()
        return tuple(self.carried(inner, name, end.line) for name in end.uses)

    def carried(self, environment: Environment, name: str, line: int) -> Value:
        """A value that is handed on; nothing where nobody needs it."""
        names = self.program.relevant.names
        if (self.scope, name) not in names and (self.scope, name.split("#")[0]) not in names:
            return OPAQUE
        return lookup(environment, name, line)

    # ------------------------------------------------------------ loops and conditions

    def loop(self, operation: Operation, environment: Environment) -> None:
        """scf.for."""
        index, low, high, step, carried, initial = for_parts(operation)
        line = operation.line
        lower, upper = self.number(environment, low, line), self.number(environment, high, line)
        stride = self.number(environment, step, line)
        values = tuple(self.carried(environment, name, line) for name in initial)
        distance = add(upper, lower, -1)
        if isinstance(distance, int) and isinstance(stride, int) and stride > 0:
            symbol, count = None, max(0, -(-distance // stride))
            if count > TRIPS_MAX:
                raise NotFollowed(line, f"a loop of {count} trips is not followed")
        else:
            if scalar(distance).is_known:
                raise NotPeriodic("a loop's trips change as another loop gets longer")
            symbol, count = self._trips(operation, distance, stride)
        values = self._iterate(operation, (index, lower, stride), carried, values, environment, (symbol, count))
        for name, value in zip(operation.results, values, strict=False):
            bind(environment, name, value)

    def _trips(self, operation: Operation, distance: Number, stride: Number) -> tuple[Distance, int]:
        choice = self.program.choice
        more = 0
        if isinstance(stride, int) and stride > 0 and all(value > 0 for _, value, _ in scalar(distance).atoms):
            # Loops whose bounds differ by whole steps have one symbol. What bounds them is not negative, see the
            # assumptions; differences may be.
            value = scalar(distance).value
            more, distance = value // stride, add(distance, -(value // stride) * stride)
        symbol: Distance = (distance, stride)
        if symbol not in choice.counts:
            most = self.program.atoms.at_most(distance)
            most = -(-most // stride) if most is not None and isinstance(stride, int) and stride > 0 else None
            choice.open_symbols.setdefault(symbol, Symbol(operation.line, most))
        count = choice.counts.get(symbol, 1)
        if symbol not in choice.trips:
            choice.know(symbol, count)
        return symbol, max(0, count + more)

    def _iterate(
        self,
        operation: Operation,
        index: tuple[str, Number, Number],
        carried: tuple[str, ...],
        values: tuple[Value, ...],
        environment: Environment,
        trips: tuple[Distance | None, int],
    ) -> tuple[Value, ...]:
        program = self.program
        choice, stretch = program.choice, program.choice.stretch
        symbol, count = trips
        name, lower, stride = index
        instance = self.instances.get(symbol, 0)
        shift, expected = 0, None
        if symbol is not None:
            self.instances[symbol] = instance + 1
        stretched = stretch is not None and symbol is not None and stretch.symbol == symbol
        for trip in range(count):
            if symbol is not None:
                self.word.marks.append(Mark(len(self.word.steps), symbol, instance, trip))
                if stretch is None:
                    kept = (*values, self.groups)
                    choice.history[symbol, self.word.agent, instance, trip] = kept
            if stretched:
                assert stretch is not None
                if trip == stretch.cut:
                    key = (self.word.agent, instance)
                    values, self.groups = _sloped((*values, self.groups), stretch, key, program.atoms)
                    shift = stretch.period
                    expected = (*values, self.groups)
                elif expected is not None and trip == stretch.cut + stretch.period:
                    _same_slopes(expected, (*values, self.groups), program.atoms)
            place = multiply(short(Scalar(trip, shift)), stride, program.atoms)
            arguments: dict[str, Value] = {name: add(lower, place)}
            arguments.update(zip(carried, values, strict=True))
            values = self.body(operation.regions[0], environment, arguments)
        if symbol is not None:
            self.word.marks.append(Mark(len(self.word.steps), symbol, instance, count, True))
            if stretch is None:
                choice.history[symbol, self.word.agent, instance, count] = (*values, self.groups)
        return values

    def condition(self, operation: Operation, environment: Environment) -> None:
        """scf.if."""
        line = operation.line
        number = self.number(environment, operation.uses[0], line)
        undecided = isinstance(number, Scalar) and not number.is_known
        if undecided and number not in self.program.choice.decisions and not self.has_effects(operation):
            for name in operation.results:
                bind(environment, name, self.unknown(name))
            return
        taken = 0 if self.holds(number, line) else 1
        if taken < len(operation.regions):
            results = self.body(operation.regions[taken], environment, {})
            for name, value in zip(operation.results, results, strict=False):
                bind(environment, name, value)

    def repeat(self, operation: Operation, environment: Environment) -> None:
        """scf.while: followed as far as it has no effects."""
        if self.has_effects(operation):
            raise NotFollowed(operation.line, "a loop that decides in its body whether to go on is not followed")
        for name in operation.results:
            bind(environment, name, self.unknown(name))

    def has_effects(self, operation: Operation) -> bool:
        """Is there an op in its regions that matters to the protocol?"""
        effects = self.program.dialects.effects
        return any(
            inner.name in effects or not _known(inner, self.program.dialects)
            for region in operation.regions
            for inner in all_operations(region)
        )


TERMINATORS = frozenset(
    {"scf.yield", "tt.return", "ttg.warp_yield", "ttg.warp_return", "gpu.return", "func.return", "gpu.yield"}
)


def _known(operation: Operation, dialects: Dialects) -> bool:
    return operation.name in dialects.handlers or operation.name in TERMINATORS or dialects.harmless(operation)


def _sloped(
    values: tuple[Value, ...], stretch: Stretch, key: tuple[str, int], atoms: Atoms
) -> tuple[tuple[Value, ...], Number]:
    """The values that trip `cut` begins with, with slopes: the difference to those one period later."""
    here = stretch.plain.get((*key, stretch.begin))
    later = stretch.plain.get((*key, stretch.begin + stretch.period))
    if here is None or later is None:
        raise NotPeriodic("a loop is too short to be stretched")
    found: list[Value] = []
    for value, before, after in zip(values, here, later, strict=True):
        if isinstance(value, InFlight) and isinstance(before, InFlight) and isinstance(after, InFlight):
            found.append(InFlight(with_slope(value.group, add(after.group, before.group, -1))))
        elif isinstance(value, int | Scalar) and isinstance(before, int | Scalar) and isinstance(after, int | Scalar):
            gained = add(after, before, -1)
            # Data repeats as little as it is known: it stays what it is, equal to nothing.
            found.append(value if atoms.is_fresh(value) or atoms.is_fresh(gained) else with_slope(value, gained))
        elif before != after:
            raise NotPeriodic("a memory that a loop carries changes")
        else:
            found.append(value)
    groups = found.pop()
    assert isinstance(groups, int | Scalar)
    return tuple(found), groups


def _same_slopes(expected: tuple[Value, ...], values: tuple[Value, ...], atoms: Atoms) -> None:
    """Have the values come out one period on with the slopes that they went in with?"""
    for before, after in zip(expected, values, strict=True):
        one = before.group if isinstance(before, InFlight) else before
        other = after.group if isinstance(after, InFlight) else after
        if isinstance(one, int | Scalar) != isinstance(other, int | Scalar):
            raise NotPeriodic("a value that a loop carries changes its kind")
        if isinstance(one, int | Scalar) and isinstance(other, int | Scalar):
            if atoms.is_fresh(one) or atoms.is_fresh(other):
                continue
            if slopes(one) != slopes(other):
                raise NotPeriodic("a value that a loop carries does not repeat")


# ---------------------------------------------------------------- reading ops


def lookup(environment: Environment, name: str, line: int) -> Value:
    value = environment.get(name)
    if value is None:
        value = environment.get(f"{name}#0")
    if value is None:
        raise NotFollowed(line, f"%{name} is nowhere defined")
    return value


def bind(environment: Environment, name: str, value: Value) -> None:
    environment[name] = value


@lru_cache(maxsize=4096)
def is_integer(types: str) -> bool:
    """Does an op with these types yield an integer?"""
    last = types.rsplit("->", 1)[-1].rsplit("to ", 1)[-1]
    return last in ("i1", "i8", "i16", "i32", "i64", "index")


def plain_uses(operation: Operation, until: str = "") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The values that stand outside of brackets, and those inside, up to the word `until`."""
    return _plain_uses(operation.tokens, until)


@lru_cache(maxsize=4096)
def _plain_uses(tokens: tuple[Token, ...], until: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    outside: list[str] = []
    inside: list[str] = []
    depth = 0
    for token in tokens:
        if token.kind == "mark":
            depth += (token.text in "([{<" and token.text != "") - (token.text in ")]}>" and token.text != "")
        elif token.kind == "word" and token.text == until:
            break
        elif token.kind == "value":
            (inside if depth else outside).append(token.text)
    return tuple(outside), tuple(inside)


def number_token(operation: Operation, ordinal: int = 0) -> int:
    """The `ordinal`th number that is written among the op's operands."""
    found = [token for token in operation.tokens if token.kind == "number"]
    if ordinal >= len(found) or not found[ordinal].text.isdigit():
        raise NotFollowed(operation.line, f"{operation.name} names no number that is read")
    return int(found[ordinal].text)


def attribute_number(operation: Operation, name: str) -> int:
    """The integer of an attribute, such as `pendings = 0 : i32`."""
    text = operation.attributes.get(name, "").split(":")[0]
    if not text.isdigit():
        raise NotFollowed(operation.line, f"{operation.name} has no attribute {name} that is read")
    return int(text)


def for_parts(
    operation: Operation,
) -> tuple[str, str, str, str, tuple[str, ...], tuple[str, ...]]:
    """index, lower, upper, step, the names that the body knows carried values by, and their initial values."""
    uses = operation.uses
    pairs = uses[4:]
    if "iter_args" not in (token.text for token in operation.tokens):
        pairs = ()
    return uses[0], uses[1], uses[2], uses[3], pairs[0::2], pairs[1::2]


def all_operations(body: Body) -> list[Operation]:
    """Every op of a region, nested ones included."""
    found: list[Operation] = []
    for operation in body.operations:
        found.append(operation)
        for region in operation.regions:
            found += all_operations(region)
    return found


Scoped = tuple[int, str]
"""A value's name in a scope: 0 outside of partitions, whose names are their own; in a partition, the region's id."""


@dataclass(frozen=True, slots=True)
class Relevance:
    """What has to be evaluated: ids of ops, and names of values in their scopes."""

    operations: frozenset[int]
    names: frozenset[Scoped]


@dataclass(slots=True)
class _Needs:
    """Names that are needed, as they turn up. `wanted` of a multiple result asks for the whole."""

    dialects: Dialects
    hot: frozenset[str]
    names: set[Scoped] = field(default_factory=set[Scoped])

    def wanted(self, scope: int, *names: str) -> bool:
        found = self.names
        return any((scope, name) in found or (scope, name.split("#")[0]) in found for name in names)

    def need(self, scope: int, *names: str) -> None:
        self.names.update((scope, name) for name in names)

    def of(self, scope: int, operation: Operation) -> None:
        """Add what a chosen op needs."""
        if operation.name in TERMINATORS:
            return
        if operation.name == "scf.for":
            _, low, high, step, carried, initial = for_parts(operation)
            self.need(scope, low, high, step)
            yields = _yielded(operation.regions[0])
            for place, name in enumerate(carried):
                results = operation.results[place : place + 1]
                if self.wanted(scope, name, *results):
                    self.need(scope, name, *results, *initial[place : place + 1], *yields[place : place + 1])
            return
        inside = [region for region in operation.regions if not region.label.startswith("partition")]
        for region in inside:
            for name, use in zip(operation.results, _yielded(region), strict=False):
                if self.wanted(scope, name):
                    self.need(scope, use)
        if operation.name == "scf.if":
            self.need(scope, *operation.uses[:1])
            return
        partitions = [region for region in operation.regions if region.label.startswith("partition")]
        for region in partitions:
            for argument, capture in zip(region.arguments, plain_uses(operation)[1], strict=False):
                if self.wanted(id(region), argument.name):
                    self.need(scope, capture)
        if not partitions:
            only = self.dialects.operands.get(operation.name)
            if only is None:
                self.need(scope, *operation.uses)
            else:
                self.need(scope, *plain_uses(operation)[0][only], *(use for use in operation.uses if use in self.hot))


def relevance(body: Body, dialects: Dialects) -> Relevance:
    """The ops that have effects, and what those need."""
    operations = _scoped_operations(body, 0)
    chosen: set[int] = set()
    hot = _hot_names([operation for _, operation in operations], dialects)
    needs = _Needs(dialects, hot)
    size = (-1, -1)
    while size != (len(chosen), len(needs.names)):
        size = (len(chosen), len(needs.names))
        for scope, operation in reversed(operations):
            if id(operation) not in chosen and (
                operation.name in dialects.effects
                or operation.name in TERMINATORS
                or not _known(operation, dialects)
                or any(id(each) in chosen for each in _inner(operation))
                or needs.wanted(scope, *operation.results)
                or any(use in hot for use in operation.uses)
            ):
                chosen.add(id(operation))
            if id(operation) in chosen:
                needs.of(scope, operation)
    return Relevance(frozenset(chosen), frozenset(needs.names))


def _scoped_operations(body: Body, scope: int) -> list[tuple[int, Operation]]:
    found: list[tuple[int, Operation]] = []
    for operation in body.operations:
        found.append((scope, operation))
        for region in operation.regions:
            found += _scoped_operations(region, id(region) if region.label.startswith("partition") else scope)
    return found


def _yielded(body: Body) -> tuple[str, ...]:
    """What a region's terminator hands over."""
    if body.operations and body.operations[-1].name in TERMINATORS:
        return body.operations[-1].uses
    return ()


def _inner(operation: Operation) -> list[Operation]:
    """The ops inside of an op, but for terminators, which are always chosen."""
    return [each for region in operation.regions for each in all_operations(region) if each.name not in TERMINATORS]


def _hot_names(operations: list[Operation], dialects: Dialects) -> frozenset[str]:
    """Values that may be results of wgmma in flight: of the ops that make them, and what loops make of those."""
    hot: set[str] = set()
    size = -1
    while size != len(hot):
        size = len(hot)
        for operation in operations:
            if operation.name in dialects.hot:
                hot.update(operation.results)
            if operation.name == "scf.for":
                _, _, _, _, carried, initial = for_parts(operation)
                end = operation.regions[0].operations[-1] if operation.regions[0].operations else None
                yields = end.uses if end is not None and end.name == "scf.yield" else ()
                for place, name in enumerate(carried):
                    given = initial[place : place + 1] + tuple(yields[place : place + 1])
                    if any(each in hot for each in given):
                        hot.add(name)
                        hot.update(operation.results[place : place + 1])
            if operation.name == "scf.if":
                for region in operation.regions:
                    end = region.operations[-1] if region.operations else None
                    if end is not None and end.name == "scf.yield":
                        hot.update(name for name, use in zip(operation.results, end.uses, strict=False) if use in hot)
    return frozenset(hot)


def part_of(view: View, line: int, offsets: tuple[int, ...], extents: tuple[int, ...]) -> View:
    """The part of a view that begins at `offsets` and has `extents`, in elements of the view's own shape."""
    if len(offsets) != len(view.shape) or len(extents) != len(view.shape):
        raise NotFollowed(line, "a part of memory is named by another number of dimensions than it has")
    if not view.axes:
        return View(view.region._replace(exact=False), extents, view.element_bits, (), view.kind)
    box: list[tuple[int, int]] = list(view.region.box)
    for axis, offset, extent in zip(view.axes, offsets, extents, strict=True):
        begin = box[axis][0] + offset
        box[axis] = (begin, begin + extent)
    region = view.region._replace(box=tuple(box))
    return View(region, extents, view.element_bits, view.axes, view.kind)


@lru_cache(maxsize=4096)
def indexed(view: View, line: int, index: int) -> View:
    """Slot `index` along the first dimension, which is dropped. An index outside of the shape is not followed."""
    if not view.shape or not 0 <= index < view.shape[0]:
        raise NotFollowed(line, f"index {index} is outside of a memory of shape {view.shape}")
    part = part_of(view, line, (index,) + (0,) * (len(view.shape) - 1), (1, *view.shape[1:]))
    return View(part.region, part.shape[1:], part.element_bits, part.axes[1:], part.kind)


def whole_box(shape: tuple[int, ...]) -> Box:
    """All of an allocation."""
    return tuple((0, extent) for extent in shape)


def words_until(operation: Operation, mark: str) -> tuple[Token, ...]:
    """The op's tokens before the first `mark`."""
    for index, token in enumerate(operation.tokens):
        if token.text == mark:
            return operation.tokens[:index]
    return operation.tokens
