"""Which ops of a structured program have to be evaluated? Those that have effects, and what those need.

An op that no dialect knows, and that can't be taken for harmless, counts as one with effects: it becomes a doubt when
it is come to. Checked by: tests/contract/words/test_structured_proof.py, tests/driver/check/mlir/test_check_mlir.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.contract.words.operations import TERMINATORS, all_operations, for_parts, plain_uses
from tilewright.frontends.mlir.ast import Operation
from tilewright.frontends.mlir.ast import Region as Body

if TYPE_CHECKING:
    from tilewright.contract.words.walk import Dialects


def is_known(operation: Operation, dialects: Dialects) -> bool:
    return operation.name in dialects.handlers or operation.name in TERMINATORS or dialects.harmless(operation)


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
                or not is_known(operation, dialects)
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
