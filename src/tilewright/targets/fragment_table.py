"""Which instructions have operands spread over registers, lanes or tensor memory, and by which rule?

Reads `data/fragments.toml`, whose head describes its rows, and fills names and numbers in: one `FragmentRow` for each
instruction and operand. Knows no layouts: a row's digits are numbers, of which `legal.descriptor.instruction_layout`
makes them.

Not handled: operands in shared memory, which descriptors name; sparse operands and their metadata; matrix instructions
of several blocks, and of the f8f6f4 types, on CDNA. Checked by tests/targets/test_fragment_table.py.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, cast

from tilewright.targets.sections import table_text

Digits = tuple[tuple[int, str, int], ...]
"""Of one level: (extent, output, step) of each digit, the fastest first."""

_RANGE = re.compile(r"(\d+)\.\.(\d+)/(\d+)")
Number = int | str


@dataclass(frozen=True, slots=True)
class FragmentRow:
    """One operand of one instruction. levels: the innermost first; outputs: name and size; targets: those that have the
    instruction; parameters: the numbers its name stands for, such as k and n."""

    name: str
    operand: str
    levels: tuple[tuple[str, Digits], ...]
    outputs: tuple[tuple[str, int], ...]
    targets: tuple[str, ...]
    source: str
    parameters: tuple[tuple[str, Number], ...]


@dataclass(frozen=True, slots=True)
class FragmentInstruction:
    """One instruction: its parameters, and which rule each operand follows."""

    name: str
    parameters: tuple[tuple[str, Number], ...]
    operands: tuple[tuple[str, str], ...]
    targets: tuple[str, ...]


@lru_cache(maxsize=1)
def fragment_instructions() -> dict[str, FragmentInstruction]:
    """Every instruction by name, in the table's order."""
    found: dict[str, FragmentInstruction] = {}
    for row in cast("list[dict[str, Any]]", _document()["instructions"]):
        for parameters in _combinations(row["with"]):
            known = dict(parameters)
            operands = tuple((name, rule.format(**known)) for name, rule in row["operands"].items())
            name = row["name"].format(**known)
            if name in found:
                raise AssertionError(f"fragments.toml: {name} comes twice")
            found[name] = FragmentInstruction(name, parameters, operands, tuple(row["targets"]))
    return found


@lru_cache(maxsize=1)
def fragment_aliases() -> dict[str, str]:
    """Other names of instructions, such as `ldmatrix.x4`."""
    return {
        alias.format(**dict(parameters)): row["name"].format(**dict(parameters))
        for row in cast("list[dict[str, Any]]", _document()["instructions"])
        for alias in row.get("aliases", ())
        for parameters in _combinations(row["with"])
    }


@lru_cache(maxsize=512)
def fragment_row(name: str, operand: str) -> FragmentRow:
    """The row of an instruction's operand. Raises KeyError where there is none."""
    instruction = fragment_instructions()[name]
    rule = cast("dict[str, Any]", _document()["rules"])[dict(instruction.operands)[operand]]
    numbers = {key: value for key, value in instruction.parameters if isinstance(value, int)}
    return FragmentRow(
        name,
        operand,
        tuple((level, _digits(text, numbers)) for level, text in rule["places"].items()),
        tuple((output, _number(text, numbers)) for output, text in rule["outputs"].items()),
        instruction.targets,
        rule["source"],
        instruction.parameters,
    )


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    return tomllib.loads(table_text("fragments"))


def _combinations(given: dict[str, Any]) -> list[tuple[tuple[str, Number], ...]]:
    choices = [_values(each) for each in given.values()]
    return [tuple(zip(given, each, strict=True)) for each in product(*choices)]


def _values(given: str | list[Number]) -> list[Number]:
    if isinstance(given, list):
        return given
    return [
        number
        for first, last, step in _RANGE.findall(given)
        for number in range(int(first), int(last) + 1, int(step))
    ]  # fmt: skip


def _digits(text: str, numbers: dict[str, int]) -> Digits:
    digits: list[tuple[int, str, int]] = []
    for part in text.split(","):
        extent, output, step = part.split()
        digits.append((_number(extent, numbers), output, _number(step, numbers)))
    return tuple(digits)


def _number(text: str, numbers: dict[str, int]) -> int:
    """Products and quotients, from the left; a quotient that leaves a rest is a mistake in the table."""
    value = 1
    for operator, word in re.findall(r"([*/]?)(\w+)", text):
        number = numbers[word] if word in numbers else int(word)
        if operator == "/":
            value, rest = divmod(value, number)
            assert rest == 0, f"fragments.toml: {text} with {numbers} leaves a rest"
        else:
            value *= number
    return value
