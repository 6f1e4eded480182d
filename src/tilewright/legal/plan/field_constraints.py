"""What do the driver's rules of tensor maps say, as constraints between the fields of one map?

The rules are those of `tiled_rules`. A field is named as `Rule.reads` names it: `dtype`, `address`, `box[0]`,
`strides[1]`, `swizzle`. `solve.constraints.fields.choose` finds values that keep all constraints; `field_repairs` asks
it.

Not handled: an open rank or data type; im2col maps; the copy engine's own limits beyond the driver's rules. Checked by
tests/legal/plan/test_field_constraints.py against enumeration with `tiled_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from tilewright.legal.tensor_map.enumerations import (
    FILLS,
    INTERLEAVES,
    L2_PROMOTIONS,
    SWIZZLES,
)
from tilewright.legal.tensor_map.rule import Fields, Rule, Term, Truth, each
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.legal.tensor_map.tiled_rules import tiled_rules
from tilewright.solve.constraints.expression import Field
from tilewright.solve.constraints.fields import Constraint, Cost
from tilewright.targets import Target

_LISTS = ("dims", "strides", "box", "element_strides")
_NAMES: Mapping[str, tuple[str, ...]] = {
    "interleave": INTERLEAVES,
    "swizzle": SWIZZLES,
    "l2_promotion": L2_PROMOTIONS,
    "oob_fill": FILLS,
}


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
    target: Target, rank: int, dtype: int, baked: tuple[tuple[str, int], ...]
) -> tuple[Constraint, ...]:
    """The rules of maps of this rank and data type, as constraints between the fields that `baked` leaves open.

    One constraint for each rule and entry; rules that do not apply are left out.
    """
    known = {"dtype": dtype, "rank": rank, **dict(baked)}
    groups: dict[str, list[Rule]] = {}
    for rule in tiled_rules(target):
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


@lru_cache(maxsize=256)
def small(field: str) -> Cost:
    """The cost that prefers a small value of one field, such as a padded stride."""
    return Cost(field, (field,), _same)


def _same(value: Term) -> Term:
    return value
