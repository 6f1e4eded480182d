"""Which values of its fields make a map legal that has no other reading: interleaved, or padded in shared memory?

Such a map keeps its form. Of the smallest sets of fields whose change can make it legal (`Legality.minimal_changes`),
each is put to the integer solver (`field_choice`): the values nearest to those given, strides, extents and addresses
upwards only, since the tensor is stored with more room. The witness is checked by the rules once more.

Not handled: what an interleaved layout costs beyond its padding; another rank or data type. Checked by
tests/legal/test_field_repairs.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tilewright.legal.enumerations import FILLS, INTERLEAVES, L2_PROMOTIONS, SWIZZLES
from tilewright.legal.legality import check
from tilewright.legal.plan_search import Question, changes_of, is_legal
from tilewright.legal.repair_plan import Kind, Part, Repair
from tilewright.legal.tensor_map import TensorMap

if TYPE_CHECKING:
    from tilewright.solve.fields import Cost

_ROOM = 256
"""Strides, extents and addresses may grow by less than this: no rule asks for a larger multiple."""
_NAMES: dict[str, Sequence[str]] = {
    "swizzle": SWIZZLES,
    "interleave": INTERLEAVES,
    "l2_promotion": L2_PROMOTIONS,
    "oob_fill": FILLS,
}
_STORED = frozenset(("strides", "dims", "address"))
_SETS_MOST = 6


def field_repairs(question: Question, map: TensorMap) -> Iterator[Repair]:
    """Legal maps that differ from `map` in a smallest set of fields, the nearest values of each."""
    for fields in check(map, question.target).minimal_changes[:_SETS_MOST]:
        names = {name.partition("[")[0] for name in fields}
        if names & (question.want.keep | {"rank", "dtype"}):
            continue
        changed = _nearest(question, map, sorted(fields))
        if changed is not None and is_legal(changed, question.target):
            yield _repair(question, map, changed)


def _nearest(question: Question, map: TensorMap, fields: list[str]) -> TensorMap | None:
    from tilewright.legal.field_choice import FieldChoice, choose_fields, field_values

    values = field_values(map)
    free: dict[str, Sequence[int | str]] = {}
    costs: list[Cost] = []
    for name in fields:
        value, field = values[name], name.partition("[")[0]
        if field in _NAMES:
            free[name] = _NAMES[field]
        elif field == "box":
            free[name] = range(1, max(value, question.limits.box_extent_max) + 1)
        elif field == "element_strides":
            free[name] = range(1, question.limits.element_stride_max + 1)
        else:
            free[name] = range(value, value + _ROOM)
        costs.append(_distance(name, value))
    answer = choose_fields(map, free, question.target, costs=costs)
    return answer.map if isinstance(answer, FieldChoice) else None


@lru_cache(maxsize=1024)
def _distance(name: str, value: int) -> Cost:
    from tilewright.solve.fields import Cost

    def squared(chosen: Any) -> Any:
        return (chosen - value) * (chosen - value)

    return Cost(f"change of {name}", (name,), squared, 0)


def _repair(question: Question, before: TensorMap, after: TensorMap) -> Repair:
    changes = changes_of(before, after)
    words = [f"{change.field} {_written(change.after)} instead of {_written(change.before)}" for change in changes]
    kind: Kind = "pad" if any(change.field in _STORED for change in changes) else "fields"
    padded = [
        (new - old) * (extent - 1)
        for old, new, extent in zip(before.strides, after.strides, before.dims[1:], strict=True)
    ]
    part = Part(after, (), after.box, (1,) * after.rank)
    cost = replace(question.base, padded_bytes=max(padded, default=0))
    return Repair(kind, "; ".join(words), (after,), cost, changes, question.reading, (part,))


def _written(value: object) -> str:
    return str(value).strip("()").replace(" ", "").rstrip(",")
