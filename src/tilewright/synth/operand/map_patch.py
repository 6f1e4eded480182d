"""Which fields of a tensor map must a kernel replace for each group, and are all the maps that result legal?

Grouped products: the host encodes one template, and the kernel gives it each group's address, extents and strides
(`tensormap.replace`, PTX ISA 9.7.9.28). The instruction checks nothing: an illegal map is an illegal instruction, or
wrong data, at the first copy. So legality is proved here for all groups at once (`tilewright.legal.prove`); what the
promised sizes do not suffice for becomes a condition that the kernel asks of each group.

Not handled: boxes, element strides, swizzles and element types that differ from group to group (the bytes of a stage
would differ with them); im2col maps. Checked by tests/synth/operand/test_map_patch.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.base import plan
from tilewright.base.error import TilewrightError
from tilewright.ir.map_patch import MapPatch, PatchedField, Replacement
from tilewright.layout.numbers.condition import (
    Comparison,
    Condition,
    Either,
    Every,
    at_least_zero,
    is_zero,
    parts_of,
    sides,
)
from tilewright.layout.numbers.condition_facts import refine, simplify
from tilewright.layout.numbers.integer_expression import IntegerExpression, Quotient, Remainder, as_expression, variable
from tilewright.layout.numbers.integer_fact import IntegerFact
from tilewright.legal.symbolic.guard import INT64, fits_in
from tilewright.legal.symbolic.symbolic import prove
from tilewright.legal.symbolic.symbolic_map import SymbolicMap
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.legal.tensor_map.tiled_rules import tiled_rules
from tilewright.targets import Target

_PLACEHOLDER_STRIDE_BYTES = 128
"""A multiple of what any rule asks of strides."""


def plan_patch(map: SymbolicMap, target: Target, *, slots: int = 2, trusted: bool = True) -> MapPatch:
    """How `map`, of sizes that differ from group to group, is made from one template.

    slots: maps that each CTA writes in turn; trusted: whether the kernel relies on what is declared of the sizes, or
    asks that too. Raises TilewrightError for a map that is illegal for every group, one whose box or element strides
    differ, and one whose conditions a kernel cannot compute in 64 bits.
    """
    if not target.supports("tensormap_replace"):
        raise TilewrightError(f"{target.name} has no tensormap.replace", remedy="encode one map for each group")
    if slots < 1:
        raise TilewrightError(f"{slots} slots for tensor maps", remedy="use at least one")
    for name, entries in (("box", map.box), ("element_strides", map.element_strides or ())):
        if not all(isinstance(entry, int) for entry in entries):
            raise TilewrightError(
                f"{name} differs from group to group: {', '.join(str(entry) for entry in entries)}",
                remedy="use one for all groups; what is outside a group's extents is filled",
            )
    if map.condition is not True:
        raise TilewrightError("conditions between groups' sizes are not promises of one size", remedy="give Dim bounds")
    legality = prove(map, target)
    if legality.guard is None:
        raise TilewrightError(
            f"no group has a legal tensor map: {legality.violated[0].message}", remedy="change what is broken"
        )
    replacements = tuple(_replacements(map))
    facts = dict(map.facts)
    conditions: list[Condition] = []
    if not trusted:
        conditions += [part for name, fact in facts.items() for part in _promise(name, fact)]
    conditions += legality.guard.conditions
    for item in replacements:
        if item.field == "global_dim":
            conditions.append(at_least_zero(target.limit("tensormap_replace.global_dim_max") - item.value))
    asked = _computable(conditions, facts, trusted)
    known = _after(asked, facts)
    for item in replacements:
        _require_computable(item.value, known, f"{item.field}[{item.index}]")
    return MapPatch(_template(map, target), tuple(facts.items()), replacements, asked, slots)


def _replacements(map: SymbolicMap) -> Iterator[Replacement]:
    fields: tuple[tuple[PatchedField, tuple[object, ...]], ...] = (
        ("global_address", (map.address,)),
        ("global_dim", map.dims),
        ("global_stride", map.strides),
    )
    for field, entries in fields:
        for index, entry in enumerate(entries):
            if isinstance(entry, IntegerExpression):
                yield Replacement(field, index, entry)


def _promise(name: str, fact: IntegerFact) -> Iterator[Condition]:
    """What is declared of a size, as conditions."""
    size = variable(name)
    if fact.low is not None:
        yield at_least_zero(size - fact.low)
    if fact.high is not None:
        yield at_least_zero(as_expression(fact.high) - size)
    if fact.modulus > 1:
        yield is_zero(size % fact.modulus - fact.remainder)


def _computable(conditions: list[Condition], facts: dict[str, IntegerFact], trusted: bool) -> tuple[Condition, ...]:
    """The conditions that facts leave open, each computable in 64 bits once those before it hold."""
    known = facts if trusted else dict.fromkeys(facts, INT64)
    asked: list[Condition] = []
    for condition in conditions:
        left = simplify(condition, known)
        for part in parts_of(left):
            for expression in _expressions(part):
                _require_computable(expression, known, str(part))
            asked.append(part)
            known = refine(part, known) or known
    return tuple(asked)


def _after(conditions: tuple[Condition, ...], facts: dict[str, IntegerFact]) -> dict[str, IntegerFact]:
    known = facts
    for condition in conditions:
        known = refine(condition, known) or known
    return known


def _expressions(condition: Condition) -> Iterator[IntegerExpression]:
    match condition:
        case bool():
            return
        case Comparison(expression, relation):
            # as the kernel compares them
            left, _, right = sides(expression, relation)
            yield left
            yield right
        case Every(parts) | Either(parts):
            for part in parts:
                yield from _expressions(part)


def _require_computable(expression: IntegerExpression, facts: dict[str, IntegerFact], where: str) -> None:
    if not fits_in(expression, facts):
        raise TilewrightError(
            f"{where}: {expression} may overflow 64 bits", remedy="declare upper bounds of the sizes in it"
        )
    for monomial, _ in expression.terms:
        for atom in monomial:
            if isinstance(atom, Quotient | Remainder):
                low, by = atom.dividend.fact(facts).low, atom.divisor.fact(facts).low
                if low is None or low < 0 or by is None or by < 1:
                    raise TilewrightError(
                        f"{where}: {atom} may have a negative operand, which the GPU rounds towards zero",
                        remedy="declare its sizes as at least 0",
                    )
                _require_computable(atom.dividend, facts, where)
                _require_computable(atom.divisor, facts, where)


def _template(map: SymbolicMap, target: Target) -> plan.TensorMap:
    """A legal map with the numbers that all groups share; the others are of the least tensor that has such a box."""

    def numbers(entries: tuple[object, ...], placeholders: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(
            entry if isinstance(entry, int) else other for entry, other in zip(entries, placeholders, strict=True)
        )

    box = tuple(extent for extent in map.box if isinstance(extent, int))
    (address,) = numbers((map.address,), (0,))
    made = TensorMap(
        map.dtype,
        numbers(map.dims, box),
        numbers(map.strides, (_PLACEHOLDER_STRIDE_BYTES,) * len(map.strides)),
        box,
        map.element_strides,  # pyright: ignore[reportArgumentType] - all are integers, as was asked
        map.interleave,
        map.swizzle,
        map.l2_promotion,
        map.oob_fill,
        address,
    )
    for rule in tiled_rules(target):
        if rule.stated(made.fields) is not True:
            raise TilewrightError(f"no template for the groups' tensor maps: {rule.message(made.fields)}")
    return made.to_plan()
