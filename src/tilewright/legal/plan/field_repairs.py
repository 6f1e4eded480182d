"""Which values of its fields make a map legal that has no other reading: interleaved, or padded in shared memory?

Such a map keeps its form. Its box is cut to size first. Of the smallest sets of fields whose change can make it legal
(`Legality.minimal_changes`), each is put to the integer solver (by `field_constraints`): values nearest to those given,
strides, extents and addresses upwards only, since the tensor is stored with more room. The witness is checked by the
rules once more.

Not handled: what an interleaved layout costs beyond its padding; another rank, data type or element stride. Checked by
tests/legal/plan/test_field_repairs.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import gcd, prod
from typing import TYPE_CHECKING, Any

from tilewright.legal.plan.plan_search import Question, changes_of, is_legal
from tilewright.legal.plan.repair_plan import Kind, Part, Repair
from tilewright.legal.tensor_map.enumerations import FILLS, INTERLEAVES, L2_PROMOTIONS, SWIZZLES
from tilewright.legal.tensor_map.legality import check
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.solve.bounded import Effort

if TYPE_CHECKING:
    from tilewright.solve.constraints.fields import Cost

_ROOM = 256
"""Strides, extents and addresses may grow by less than this: no rule asks for a larger multiple."""
_NAMES: dict[str, Sequence[str]] = {
    "swizzle": SWIZZLES,
    "interleave": INTERLEAVES,
    "l2_promotion": L2_PROMOTIONS,
    "oob_fill": FILLS,
}
_STORED = frozenset(("strides", "dims", "address"))
_MEANING = frozenset(("rank", "dtype", "element_strides"))
"""Fields that say which elements are fetched: another value is another question."""
_SETS_MOST = 4
_EFFORT = Effort(search_steps=4000)
"""A question about a few fields takes some hundred steps."""


def field_repairs(question: Question, map: TensorMap) -> Iterator[Repair]:
    """Legal maps that differ from `map` in a smallest set of fields, the nearest values of each."""
    padded = map.data_type is not None and map.data_type.global_bits != map.data_type.shared_bits
    if padded and not question.target.supports("packed_tensor_elements"):
        return
    sized = map if "box" in question.want.keep else _sized_box(question, map)
    if sized != map and is_legal(sized, question.target):
        yield _repair(question, map, sized)
        return
    for fields in check(sized, question.target).minimal_changes[:_SETS_MOST]:
        names = {name.partition("[")[0] for name in fields}
        if names & (question.want.keep | _MEANING):
            continue
        changed = _nearest(question, sized, sorted(fields))
        if changed is not None and is_legal(changed, question.target):
            yield _repair(question, map, changed)


def _sized_box(question: Question, map: TensorMap) -> TensorMap:
    """`map` with its inner row rounded up, its box cut to the largest extents and to what shared memory holds, the
    outermost dimension first.

    That a product of extents fits is the one rule between many fields; the solver is left those of few.
    """
    box = [min(extent, question.limits.box_extent_max) for extent in map.box]
    bits = 8 if map.data_type is None else map.data_type.shared_bits
    if map.data_type is not None and map.data_type.global_bits != bits:
        box[0] = question.target.limit("tensor_map.padded_inner_elements")
    else:
        unit = question.limits.inner_multiple_bytes * 8 // gcd(bits, question.limits.inner_multiple_bytes * 8)
        box[0] = -(-box[0] // unit) * unit
    most = min(question.limits.box_footprint_bytes_max, question.limits.shared_bytes_max)
    for at in range(len(box) - 1, 0, -1):
        while prod(box) * bits // 8 > most and box[at] > 1:
            box[at] = -(-box[at] // 2)
    return replace(map, box=tuple(box))


def _nearest(question: Question, map: TensorMap, changed: list[str]) -> TensorMap | None:
    """`map` with the fields `changed` replaced by the nearest values that the rules accept."""
    from tilewright.legal.plan.field_constraints import field_values, rule_constraints, small, with_values
    from tilewright.solve.constraints.fields import Chosen, choose

    values = field_values(map)
    fields: dict[str, Sequence[int]] = {name: (value,) for name, value in values.items()}
    costs: list[Cost] = []
    for name in changed:
        value, field = values[name], name.partition("[")[0]
        most = question.limits.box_extent_max
        if field in _NAMES:
            fields[name] = range(len(_NAMES[field]))
        elif field in _STORED or value <= most:
            # What is too small for a rule grows: by less than any multiple that a rule asks for, or to the limit.
            fields[name] = range(value, value + _ROOM if field in _STORED else most + 1)
            costs.append(small(name))
        else:
            fields[name] = range(1, most + 1)
            costs.append(_large(name))
    baked = tuple((name, values[name]) for name in _NAMES if name not in changed)
    rules = rule_constraints(question.target, map.rank, values["dtype"], baked)
    answer = choose(fields, rules, costs, engine="search", effort=_EFFORT)
    if not isinstance(answer, Chosen):
        return None
    return with_values(map, {name: answer.values[name] for name in changed})


@lru_cache(maxsize=1024)
def _large(name: str) -> Cost:
    from tilewright.solve.constraints.fields import Cost

    def negated(chosen: Any) -> Any:
        return -chosen

    return Cost(f"loss of {name}", (name,), negated)


def _repair(question: Question, before: TensorMap, after: TensorMap) -> Repair:
    changes = changes_of(before, after)
    words = [f"{change.field} {_written(change.after)} instead of {_written(change.before)}" for change in changes]
    kind: Kind = "pad" if any(change.field in _STORED for change in changes) else "fields"
    padded = [
        (new - old) * (extent - 1)
        for old, new, extent in zip(before.strides, after.strides, before.dims[1:], strict=True)
    ]
    part = Part(after, (), after.box, (1,) * after.rank)
    copies = prod(-(-whole // size) for whole, size in zip(question.want.box or before.box, after.box, strict=True))
    cost = replace(question.base, padded_bytes=max(padded, default=0), extra_copies=copies - 1)
    return Repair(kind, "; ".join(words), (after,), cost, changes, question.reading, (part,))


def _written(value: object) -> str:
    return str(value).strip("()").replace(" ", "").rstrip(",")
