"""Which values for the open fields of a tensor map are legal, do what is wanted, and cost least? If none: why?

    choose_fields(map, {"box[0]": range(1, 257), "swizzle": ("32B", "64B", "128B")}, target("sm_90a"),
                  wants=(...,), costs=(largest_box(map, 232448),))

The rules are those of `tiled_rules`, read as constraints between fields; a want is a constraint of the caller's. A
field is named as `Rule.reads` names it: `dtype`, `address`, `box[0]`, `strides[1]`, `swizzle`. An answer was checked by
every rule anew, on plain integers. Where there is none, `NoChoice` lists all smallest conflicts between rules, wants
and the fields that the map fixes, and all smallest sets of wants and fixed fields whose release makes the rest
possible. The rank, the data type and interleave "none" are not questioned there: they stand.

Not handled: an open rank or data type; im2col maps; the copy engine's own limits beyond the driver's rules. Checked by
tests/legal/plan/test_field_choice.py against enumeration with `tiled_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

from tilewright.base.error import TilewrightError
from tilewright.legal.tensor_map.common_rules import Driver
from tilewright.legal.tensor_map.enumerations import (
    DATA_TYPES,
    FILLS,
    INTERLEAVE_NONE,
    INTERLEAVES,
    L2_PROMOTIONS,
    SWIZZLES,
    number_of,
)
from tilewright.legal.tensor_map.rule import Fields, Rule, Term, Truth, each, product
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.legal.tensor_map.tiled_rules import tiled_rules
from tilewright.solve.bounded import DEFAULT_EFFORT, Effort, Undetermined
from tilewright.solve.cores import fixed, minimal_cores
from tilewright.solve.expression import Field
from tilewright.solve.fields import Chosen, Constraint, Cost, Engine, choose
from tilewright.targets import Target

_LISTS = ("dims", "strides", "box", "element_strides")
_NAMES: Mapping[str, tuple[str, ...]] = {
    "interleave": INTERLEAVES,
    "swizzle": SWIZZLES,
    "l2_promotion": L2_PROMOTIONS,
    "oob_fill": FILLS,
}
_BITS = 8

_PLAIN = ("interleave", INTERLEAVE_NONE)
"""Stands where it is given: interleaved layouts are another format, not a way out."""

_ANY_NUMBER = range(0, 1 << 64)
"""What a number that is questioned may be instead: a rule, not its type, has to say why it may not."""
_ANY_ENUMERATION = range(0, 16)


@dataclass(frozen=True, slots=True)
class FieldChoice:
    """A legal map. costs: in the order asked; least: whether no choice costs less (False: the limit came first)."""

    map: TensorMap
    costs: tuple[int, ...]
    least: bool
    engine: str
    steps: int


@dataclass(frozen=True, slots=True)
class NoChoice:
    """cores: every smallest conflict, by the names of rules (`TM012 stride-multiple globalStrides[0]`), wants, and
    fixed fields (`strides[0] = 200 bytes`); releases: every smallest set of wants and fixed fields to give up instead.
    complete: whether these are all.
    """

    cores: tuple[tuple[str, ...], ...]
    releases: tuple[tuple[str, ...], ...]
    complete: bool


def choose_fields(
    map: TensorMap,
    free: Mapping[str, Sequence[int | str]],
    target: Target,
    *,
    wants: Sequence[Constraint] = (),
    costs: Sequence[Cost] = (),
    driver: Driver | None = None,
    engine: Engine = "auto",
    effort: Effort = DEFAULT_EFFORT,
) -> FieldChoice | NoChoice | Undetermined:
    """The cheapest legal map that is `map` but for the fields of `free`, each from its domain (numbers; for
    enumerations names too), and that keeps every want.

    Raises TilewrightError for a field that the map has not, and as `solve.fields.choose` does.
    """
    values = field_values(map)
    domains = {name: _domain(name, domain, values) for name, domain in free.items()}
    empty = tuple((f"{name} has no value to choose",) for name, domain in domains.items() if not domain)
    if empty:
        return NoChoice(empty, (), True)
    fixed_values = {name: value for name, value in values.items() if name not in domains}
    fields: dict[str, Sequence[int]] = {name: domains.get(name, (value,)) for name, value in values.items()}
    baked = tuple((name, value) for name, value in fixed_values.items() if name in _NAMES)
    rules = rule_constraints(target, driver, map.rank, values["dtype"], baked)
    answer = choose(fields, (*rules, *wants), costs, engine=engine, effort=effort)
    if isinstance(answer, Chosen):
        return _rechecked(map, answer, target, driver)
    if isinstance(answer, Undetermined):
        return answer
    return _explained(map, fields, fixed_values, target, driver, wants, engine, effort)


def field_values(map: TensorMap) -> dict[str, int]:
    """Every field that may be open, and the data type, with its number, in the order of the encoder's arguments."""
    read = map.fields
    found: dict[str, int] = {"dtype": read.dtype, "address": read.address}
    for name in _LISTS:
        entries: tuple[int, ...] = getattr(read, name)
        found.update((f"{name}[{index}]", value) for index, value in enumerate(entries))
    found.update((name, getattr(read, name)) for name in _NAMES)
    return found


def with_values(map: TensorMap, values: Mapping[str, int]) -> TensorMap:
    """`map` with the fields of `values` replaced."""
    lists = {name: list(cast("tuple[int, ...]", getattr(map.fields, name))) for name in _LISTS}
    single: dict[str, Any] = {}
    for name, value in values.items():
        entry, bracket, index = name.partition("[")
        if bracket:
            lists[entry][int(index[:-1])] = value
        else:
            single[name] = value
    return replace(map, **{name: tuple(entries) for name, entries in lists.items()}, **single)


@lru_cache(maxsize=512)
def rule_constraints(
    target: Target, driver: Driver | None, rank: int, dtype: int, baked: tuple[tuple[str, int], ...]
) -> tuple[Constraint, ...]:
    """The rules of maps of this rank and data type, as constraints between the fields that `baked` leaves open.

    One constraint for each rule and entry; rules that do not apply are left out.
    """
    known = {"dtype": dtype, "rank": rank, **dict(baked)}
    groups: dict[str, list[Rule]] = {}
    for rule in tiled_rules(target, driver):
        if _may_apply(rule, known):
            groups.setdefault(_rule_name(rule), []).append(rule)
    return tuple(_constraint(name, tuple(rules), known, rank) for name, rules in groups.items())


def _may_apply(rule: Rule, known: Mapping[str, int]) -> bool:
    """Whether the rule reads entries that there are, and its guard is not plainly false of the known fields."""
    if any(_entry_index(name) >= known["rank"] - (name.startswith("strides")) for name in rule.reads if "[" in name):
        return False
    # An open field stands as a term that no guard decides.
    terms: dict[str, Term] = {name: Field(at) for at, name in enumerate(sorted(rule.reads - known.keys()))}
    return rule.applies(_fields({**known, **terms}, known["rank"])) is not False


def _constraint(name: str, rules: tuple[Rule, ...], known: Mapping[str, int], rank: int) -> Constraint:
    reads = tuple(sorted({read for rule in rules for read in rule.reads if read not in known}))

    def holds(*values: Term) -> Truth:
        fields = _fields({**known, **dict(zip(reads, values, strict=True))}, rank)
        return each(rule.stated(fields) for rule in rules)

    return Constraint(name, reads, holds)


def _fields(values: Mapping[str, Term], rank: int) -> Fields:
    """What rules read, from fields by name; what is not given is not read."""

    def entries(name: str, count: int) -> tuple[Term, ...]:
        return tuple(values.get(f"{name}[{index}]", 0) for index in range(count))

    return Fields(
        values.get("dtype", 0),
        rank,
        values.get("address", 0),
        entries("dims", rank),
        entries("strides", rank - 1),
        entries("box", rank),
        entries("element_strides", rank),
        values.get("interleave", 0),
        values.get("swizzle", 0),
        values.get("l2_promotion", 0),
        values.get("oob_fill", 0),
    )


def _rule_name(rule: Rule) -> str:
    return f"{rule.code} {rule.name} {rule.field}{'' if rule.index is None else f'[{rule.index}]'}"


def _entry_index(name: str) -> int:
    return int(name.partition("[")[2][:-1])


def _domain(name: str, domain: Sequence[int | str], values: Mapping[str, int]) -> Sequence[int]:
    if name not in values or name == "dtype":
        known = ", ".join(other for other in values if other != "dtype")
        raise TilewrightError(f"a tensor map has no open field {name!r}", remedy=f"fields: {known}")
    if isinstance(domain, range):
        return domain
    names = _NAMES.get(name)
    numbers: list[int] = []
    for value in domain:
        if isinstance(value, str):
            if names is None:
                raise TilewrightError(f"tensor map: {name} is a number, not {value!r}")
            numbers.append(number_of(value, tuple(names), name))
        else:
            numbers.append(value)
    return tuple(numbers)


def _rechecked(map: TensorMap, answer: Chosen, target: Target, driver: Driver | None) -> FieldChoice | Undetermined:
    found = with_values(map, {name: value for name, value in answer.values.items() if name != "dtype"})
    broken = [rule.code for rule in tiled_rules(target, driver) if rule.stated(found.fields) is not True]
    if broken:
        return Undetermined(
            f"the choice breaks {', '.join(broken)} when it is checked anew", "a look at how these rules are read"
        )
    return FieldChoice(found, answer.costs, answer.least, answer.engine, answer.steps)


def _explained(
    map: TensorMap,
    fields: dict[str, Sequence[int]],
    fixed_values: Mapping[str, int],
    target: Target,
    driver: Driver | None,
    wants: Sequence[Constraint],
    engine: Engine,
    effort: Effort,
) -> NoChoice:
    """Conflicts between rules, wants and fixed fields, a fixed field being one that could be anything instead."""
    settled = {name: value for name, value in fixed_values.items() if name == "dtype" or (name, value) == _PLAIN}
    baked = tuple((name, value) for name, value in settled.items() if name != "dtype")
    rules = rule_constraints(target, driver, map.rank, settled["dtype"], baked)
    doubted = {name: value for name, value in fixed_values.items() if name not in settled}
    questioned = [fixed(_fixed_name(name, value), name, value) for name, value in doubted.items()]
    domains = fields | {name: _anything(name, value) for name, value in doubted.items()}
    found = minimal_cores(domains, (*rules, *wants, *questioned), engine=engine, effort=effort)
    stated = {rule.name for rule in rules}
    releases = tuple(names for names in found.corrections if not stated.intersection(names))
    return NoChoice(found.cores, releases, found.complete)


def _anything(name: str, value: int) -> range:
    widest = _ANY_ENUMERATION if name in _NAMES else _ANY_NUMBER
    return range(min(widest.start, value), max(widest.stop, value + 1))


def _fixed_name(name: str, value: int) -> str:
    names = _NAMES.get(name, ())
    written = names[value] if 0 <= value < len(names) else f"{value:#x}" if name == "address" else str(value)
    return f"{name} = {written}{' bytes' if name.startswith('strides') else ''}"


def largest_box(map: TensorMap, limit_bytes: int) -> Cost:
    """The cost that prefers the most bytes in a box; limit_bytes: what no box exceeds, by a rule or a want."""
    return _largest_box(map.rank, map.fields.dtype, limit_bytes)


@lru_cache(maxsize=256)
def small(field: str) -> Cost:
    """The cost that prefers a small value of one field, such as a padded stride."""
    return Cost(field, (field,), _same)


def _same(value: Term) -> Term:
    return value


@lru_cache(maxsize=256)
def _largest_box(rank: int, dtype: int, limit_bytes: int) -> Cost:
    bits = DATA_TYPES[dtype].shared_bits

    def value(*box: Term) -> Term:
        return -(product(box) * bits // _BITS)

    return Cost("box bytes", tuple(f"box[{index}]" for index in range(rank)), value, -limit_bytes)
