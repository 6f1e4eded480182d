"""Which words do the agents of a structured program have, for given trip counts? Evaluation of its integers and control
flow, with everything else left out.

Loops whose trip count is open take it from the run's choice; conditions that nothing decides take the run's decision.
A loop can be *stretched*: at one of its trips, the values that it carries gain a slope, the difference to the values
one period later (known from a run without slopes). The evaluation then stands for every number of inserted periods; it
raises NotPeriodic unless the steps stay the same for all of them and the carried values come out one period on with the
same slopes. See `words.scalar`.

Only ops that matter are evaluated: those that a dialect says have effects, and what their integers are computed from.
An op that the dialect does not know, and that it can't take for harmless, is a doubt.

Not handled (doubts): loops with effects whose number of trips is decided in their body, branches between blocks, calls.
Checked by: tests/contract/words/test_structured_proof.py, tests/driver/check/mlir/test_check_mlir.py.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from tilewright.contract.words.operations import TERMINATORS, all_operations, for_parts, is_integer
from tilewright.contract.words.relevance import Relevance, is_known
from tilewright.contract.words.scalar import (
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
from tilewright.contract.words.values import OPAQUE, Environment, InFlight, NotFollowed, Value, View, bind, lookup
from tilewright.contract.words.word import Mark, Part, Region, Step, Symbol, Word
from tilewright.frontends.mlir.ast import Operation
from tilewright.frontends.mlir.ast import Region as Body

Distance = tuple[Number, Number]
"""What a number of trips is of: from first index to end, and the step."""

TRIPS_MAX = 4096
"""Trips of a loop whose bounds the program fixes; beyond them the loop is not followed."""


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
    flight or memory, so that ops which use them are looked at; operands: of the ops named here, only these of the uses
    outside of brackets matter, and what is in flight; follows_memory: ops without a handler may not use memory that is
    followed, but for these; None: they may."""

    handlers: Mapping[str, Handler]
    harmless: Callable[[Operation], bool]
    effects: frozenset[str]
    hot: frozenset[str]
    operands: Mapping[str, slice]
    follows_memory: frozenset[str] | None = None


@dataclass(slots=True)
class Program:
    """What all agents of a function share. relevant: what is evaluated; evaluated: how many operations were."""

    dialects: Dialects
    atoms: Atoms
    choice: Choice
    relevant: Relevance
    words: dict[str, Word] = field(default_factory=dict[str, Word])
    evaluated: int = 0


@dataclass(slots=True)
class Walk:
    """One agent's evaluation. groups: wgmma groups that it has issued, pieces: what the next one reads; threads, first,
    block: how many threads it has, which of its block is the first, the block's extents; part: the threads that act,
    None: all; instances: how often it entered a loop over each symbol."""

    program: Program
    word: Word
    scope: int = 0
    groups: Number = 0
    threads: int = 128
    first: int = 0
    block: tuple[int, int, int] = (128, 1, 1)
    part: Part | None = None
    pieces: list[Region] = field(default_factory=list[Region])
    instances: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    unknowns: int = 0

    # ------------------------------------------------------------ steps and values

    def step(self, step: Step) -> None:
        """Add a step to the word; one that tells again that the same result is used adds nothing."""
        if self.part is not None:
            step = step._replace(part=self.part)
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
            program.evaluated += 1
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
        if not is_known(operation, self.program.dialects):
            raise NotFollowed(operation.line, f"what {operation.name} does to the protocol is not known")
        for use in operation.uses:
            value = environment.get(use)
            if isinstance(value, InFlight):
                self.use_in_flight(value, operation.line)
            exempt = self.program.dialects.follows_memory
            if isinstance(value, View) and exempt is not None and operation.name not in exempt:
                raise NotFollowed(operation.line, f"what {operation.name} does with shared memory is not known")
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
        values = self.iterate(operation, (index, lower, stride), carried, values, environment, (symbol, count))
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

    def iterate(
        self,
        operation: Operation,
        index: tuple[str, Number, Number],
        carried: tuple[str, ...],
        values: tuple[Value, ...],
        environment: Environment,
        trips: tuple[Distance | None, int],
    ) -> tuple[Value, ...]:
        """A loop's trips; index: its name, first value and step; trips: the symbol and how many there are. The values
        that it hands over."""
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
            if len(carried) != len(values):
                raise NotFollowed(operation.line, "a loop that yields another number of values than it carries")
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
            inner.name in effects or not is_known(inner, self.program.dialects)
            for region in operation.regions
            for inner in all_operations(region)
        )


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
