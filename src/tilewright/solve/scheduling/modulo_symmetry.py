"""Which streams of a modulo problem may change places, so that a solver need not look at both ways round?

Two streams are alike if each operation that only one of them runs has a counterpart in the other, with the same times,
units and registers, and the problem reads the same with all counterparts exchanged. Then every solution has another
with the two exchanged, and an order of their first operations loses nothing. Consumers that share a tile are alike.

Not handled: symmetries of more than two streams at once (each pair is looked at alone, in order, which breaks those as
well), operations with a choice of streams. Checked by: tests/solve/scheduling/test_modulo.py, against brute force.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.solve.scheduling.modulo_problem import ModuloProblem


def ordered_pairs(problem: ModuloProblem) -> tuple[tuple[int, int], ...]:
    """(operation, operation): the first may be taken to start no later. Of each two neighbouring streams alike."""
    found: list[tuple[int, int]] = []
    for stream in range(len(problem.streams) - 1):
        one, other = _own(problem, stream), _own(problem, stream + 1)
        if one and _alike(problem, one, other):
            found.append((one[0], other[0]))
    return tuple(found)


def _own(problem: ModuloProblem, stream: int) -> list[int]:
    return [number for number, each in enumerate(problem.operations) if stream in each.streams]


def _alike(problem: ModuloProblem, one: list[int], other: list[int]) -> bool:
    operations = problem.operations
    if len(one) != len(other) or any(len(operations[number].streams) > 1 for number in (*one, *other)):
        return False
    budgets = {problem.stream_registers[operations[numbers[0]].streams[0]] for numbers in (one, other)}
    if len(budgets) > 1:
        return False
    for first, second in zip(one, other, strict=True):
        if replace(operations[first], name="", streams=()) != replace(operations[second], name="", streams=()):
            return False
    exchanged = {**dict(zip(one, other, strict=True)), **dict(zip(other, one, strict=True))}

    def at(number: int) -> int:
        return exchanged.get(number, number)

    precedences = [replace(each, source=at(each.source), target=at(each.target)) for each in problem.precedences]
    if sorted(map(str, precedences)) != sorted(map(str, problem.precedences)):
        return False
    for place in problem.places:
        pairs = [replace(each, writer=at(each.writer), reader=at(each.reader)) for each in place.pairs]
        if sorted(map(str, pairs)) != sorted(map(str, place.pairs)):
            return False
    return True
