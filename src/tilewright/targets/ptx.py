"""Is this a PTX instruction, and which one? The rows of `ptx_table`, and the check of text against them.

An opcode belongs to the row whose key is its longest dotted prefix; the rest are modifiers. A row's forms are sequences
of groups; one pass over the modifiers with a set of possible positions decides membership, so a form may hold ambiguous
optional groups. Checked: modifiers, operands in number and kind, vector lengths, PTX version and target. Not
checked: register widths (the machine does), and pairs of modifiers that no form separates. Source: PTX ISA 9.1, chapter
Instruction Set. `tests/targets/test_ptx_table.py` lets ptxas assemble every row's example.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, NoReturn

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.targets.ptx_fragment import fragment_registers
from tilewright.targets.ptx_table import (
    ACCEPTS,
    Effect,
    Form,
    InstructionRow,
    ModifierGroup,
    OperandGroup,
    OperandShape,
    PtxTable,
    Shape,
    ptx_table,
)

__all__ = [
    "Effect",
    "Form",
    "InstructionRow",
    "ModifierGroup",
    "OperandGroup",
    "OperandShape",
    "PtxTable",
    "Shape",
    "check",
    "instruction_row",
    "is_known",
    "later_target",
    "no_such_register",
    "ptx_table",
    "try_check",
]

_VECTOR_LENGTHS = {"v2": 2, "v4": 4, "v8": 8, "x1": 1, "x2": 2, "x4": 4}
_DIMENSIONS = {"1d": 1, "2d": 2, "3d": 3, "4d": 4, "5d": 5}
# Four rows, and one column, whatever the tensor's dimensions.
_ROWS_AND_A_COLUMN = frozenset({"tile::gather4", "tile::scatter4"})
# Modifiers whose order among themselves has a meaning: types, state spaces, cache levels, layouts.
_TYPE = re.compile(r"(?:u|s|b|f|bf|tf|e)[0-9].*|pred")
_SPACES = frozenset({"const", "global", "local", "param", "shared", "shared::cta", "shared::cluster", "L2"})
# The dotted parts of the longest key.
_MOST_KEY_PARTS = 6
_TARGET = re.compile(r"(sm_\d+)([af]?)")


# ---------------------------------------------------------------- lookup


@lru_cache(maxsize=4096)
def _split(opcode: str) -> tuple[InstructionRow, tuple[str, ...]] | None:
    rows = ptx_table().rows
    parts = opcode.split(".")
    for length in range(min(len(parts), _MOST_KEY_PARTS), 0, -1):
        row = rows.get(".".join(parts[:length]))
        if row is not None:
            return row, tuple(parts[length:])
    return None


def is_known(opcode: str) -> bool:
    """Whether some row's key is a dotted prefix of `opcode`."""
    return _split(opcode) is not None


def instruction_row(opcode: str, span: Span | None = None) -> tuple[InstructionRow, tuple[str, ...]]:
    """The row that `opcode` belongs to, and its modifiers in order, without dots.

    Raises TilewrightError, naming the nearest known mnemonic, if there is no such instruction.
    """
    found = _split(opcode)
    if found is None:
        rows = ptx_table().rows
        near = difflib.get_close_matches(opcode, rows, n=1, cutoff=0.5) or difflib.get_close_matches(
            opcode.split(".")[0], rows, n=1, cutoff=0.5
        )
        raise TilewrightError(
            f"{opcode} is not an instruction that Tilewright knows",
            span=span,
            remedy=f"did you mean {near[0]}?" if near else "add a row for it to the instruction table",
        )
    return found


# ---------------------------------------------------------------- check


def check(
    opcode: str,
    shapes: tuple[OperandShape, ...],
    version: tuple[int, int] | None = None,
    targets: tuple[str, ...] = (),
    span: Span | None = None,
) -> tuple[InstructionRow, tuple[str, ...]]:
    """The row of an instruction whose operands have `shapes`, and its modifiers in the order of the form that fits.

    version and targets: the module's, None and empty to leave them unchecked. Raises TilewrightError at `span`: unknown
    instruction or modifier, missing modifier, wrong number or kind of operands, or an older version or another target.
    """
    row, _ = instruction_row(opcode, span)
    verdict = _judge(opcode, shapes, version, targets)
    if isinstance(verdict, _Problem):
        raise TilewrightError(verdict.message, span=span, remedy=verdict.remedy)
    return row, verdict


def try_check(opcode: str, shapes: tuple[OperandShape, ...]) -> tuple[str, tuple[str, ...]] | None:
    """The row's key and the modifiers as `check` gives them, version and target left aside; None if nothing fits."""
    found = _split(opcode)
    if found is None:
        return None
    verdict = _judge(opcode, shapes, None, ())
    return None if isinstance(verdict, _Problem) else (found[0].key, verdict)


@lru_cache(maxsize=65536)
def later_target(opcode: str, shapes: tuple[OperandShape, ...], targets: tuple[str, ...]) -> str:
    """The least target that has an instruction which `try_check` knows, where each of `targets` is older than that;
    else an empty text. Only numbers are compared, so that a table that is behind refuses no newer target."""
    row, written = instruction_row(opcode)
    needed: list[tuple[int, str]] = []
    for form in row.forms:
        modifiers = _arrange(form.modifiers, written)
        if modifiers is None or not _operands_fit(form.operands, modifiers, shapes):
            continue
        if not form.targets:
            return ""
        needed += [(_number_of(name), name) for name in form.targets]
    if not needed or not targets or max(map(_number_of, targets)) >= min(needed)[0]:
        return ""
    return min(needed)[1]


def _number_of(target: str) -> int:
    """90 of `sm_90a`; of what is no architecture (`texmode_independent`), 0."""
    found = _TARGET.fullmatch(target)
    return int(found[1][3:]) if found is not None else 0


class _Problem(NamedTuple):
    message: str
    remedy: str


@lru_cache(maxsize=65536)
def _judge(
    opcode: str, shapes: tuple[OperandShape, ...], version: tuple[int, int] | None, targets: tuple[str, ...]
) -> tuple[str, ...] | _Problem:
    """The modifiers in a form's order, or what is wrong."""
    row, written = instruction_row(opcode)
    spelled = [(form, modifiers) for form in row.forms if (modifiers := _arrange(form.modifiers, written)) is not None]
    if not spelled:
        return _modifier_problem(opcode, row, written)
    fitting = [(form, modifiers) for form, modifiers in spelled if _operands_fit(form.operands, modifiers, shapes)]
    if not fitting:
        return _operand_problem(opcode, [form for form, _ in spelled], written, shapes)
    vectors = [shape.length for shape in shapes if shape.kind == "vector"]
    for name, have, needed in zip("dabc", vectors, fragment_registers(row.key, written), strict=False):
        if have != needed:
            return _Problem(f"fragment {name} of {opcode} has {have} registers", f"it takes {needed}")
    if version is not None:
        present = [(form, modifiers) for form, modifiers in fitting if form.ptx <= version]
        if not present:
            major, minor = min(form.ptx for form, _ in fitting)
            message = f"{opcode} needs PTX {major}.{minor}; the module says {version[0]}.{version[1]}"
            return _Problem(message, f"write .version {major}.{minor} or later")
        fitting = present
    if targets:
        present = [(form, modifiers) for form, modifiers in fitting if _is_available(form.targets, targets)]
        if not present:
            needed_targets = sorted({name for form, _ in fitting for name in form.targets})
            remedy = f"it needs .target {' or '.join(needed_targets)}"
            return _Problem(f"{opcode} does not exist for {', '.join(targets)}", remedy)
        fitting = present
    return fitting[0][1]


def _arrange(groups: Sequence[ModifierGroup], modifiers: tuple[str, ...]) -> tuple[str, ...] | None:
    """The modifiers in the form's order, or None if they are not this form's.

    The ISA writes one order; ptxas takes most others, and compilers use them (`atom.global.acq_rel.gpu.cas.b32`).
    """
    if _reach(groups, modifiers)[0] == "all":
        return modifiers
    left, arranged = list(modifiers), list[str]()
    for group in groups:
        found = next((modifier for modifier in left if modifier in group.alternatives), None)
        if found is not None:
            left.remove(found)
            arranged.append(found)
        elif group.required:
            return None
    if left or any(_in_kind(arranged, kind) != _in_kind(modifiers, kind) for kind in range(4)):
        return None
    return tuple(arranged)


def _in_kind(modifiers: Sequence[str], kind: int) -> list[str]:
    """Those of one kind whose order has a meaning: 0 types, 1 spaces, 2 cache levels, 3 layouts."""
    match kind:
        case 0:
            return [modifier for modifier in modifiers if _TYPE.fullmatch(modifier)]
        case 1:
            return [modifier for modifier in modifiers if modifier in _SPACES]
        case 2:
            return [modifier for modifier in modifiers if modifier.startswith("L2::evict")]
        case _:
            return [modifier for modifier in modifiers if modifier in ("row", "col")]


def _is_available(needed: tuple[str, ...], targets: tuple[str, ...]) -> bool:
    """Whether one of the module's targets has a form: `sm_90` asks for 9.0 or later, `sm_90a` for itself.

    `sm_100f` asks for a member of its family that is not older, read for the family or for itself alone.
    """
    if not needed:
        return True
    for name in targets:
        have = _TARGET.fullmatch(name)
        if have is None:
            continue
        for wanted in needed:
            want = _TARGET.fullmatch(wanted)
            if want is None:
                continue
            later = int(have[1][3:]) >= int(want[1][3:])
            same_family = have[1] == want[1] or any({have[1], want[1]} <= family for family in ptx_table().families)
            match want[2]:
                case "":
                    fits = later
                case "f":
                    fits = later and have[2] != "" and same_family
                case _:
                    fits = have[0] == want[0]
            if fits:
                return True
    return False


def _reach(groups: Sequence[ModifierGroup], modifiers: tuple[str, ...]) -> tuple[str, int, frozenset[str]]:
    """How far a form's groups take the modifiers: "all", or "short" or "stuck" with what could have come next."""
    positions = {0}
    for taken, modifier in enumerate(modifiers):
        following: set[int] = set()
        expected: set[str] = set()
        for start in positions:
            for index in range(start, len(groups)):
                expected |= groups[index].alternatives
                if modifier in groups[index].alternatives:
                    following.add(index + 1)
                if groups[index].required:
                    break
        if not following:
            return "stuck", taken, frozenset(expected)
        positions = following
    if any(not any(group.required for group in groups[start:]) for start in positions):
        return "all", len(modifiers), frozenset()
    missing: set[str] = set()
    for start in positions:
        missing |= next(group.alternatives for group in groups[start:] if group.required)
    return "short", len(modifiers), frozenset(missing)


def _modifier_problem(opcode: str, row: InstructionRow, modifiers: tuple[str, ...]) -> _Problem:
    reached = [_reach(form.modifiers, modifiers) for form in row.forms]
    furthest = max(taken for _, taken, _ in reached)
    expected = sorted({name for _, taken, names in reached if taken == furthest for name in names})
    choices = ", ".join(f".{name}" for name in expected[:16]) + (", ..." if len(expected) > 16 else "")
    remedy = f"{row.source}: expected {choices}" if expected else f"{row.source}: nothing may follow"
    if furthest == len(modifiers):
        return _Problem(f"{opcode} lacks a modifier", remedy)
    modifier = modifiers[furthest]
    near = difflib.get_close_matches(modifier, expected, n=1, cutoff=0.75)
    if near and near[0] != modifier:
        remedy = f"did you mean .{near[0]}?"
    return _Problem(f"modifier .{modifier} of {opcode} is not known in this place", remedy)


def _operands_fit(
    groups: tuple[OperandGroup, ...], modifiers: tuple[str, ...], shapes: tuple[OperandShape, ...]
) -> bool:
    wanted = [group for group in groups if not group.present_with or not group.present_with.isdisjoint(modifiers)]
    positions = {0}
    for shape in shapes:
        following: set[int] = set()
        for start in positions:
            for index in range(start, len(wanted)):
                if any(_kind_fits(kind, modifiers, shape) for kind in wanted[index].kinds):
                    following.add(index + 1)
                if wanted[index].required:
                    break
        positions = following
    return any(not any(group.required for group in wanted[start:]) for start in positions)


def _kind_fits(kind: str, modifiers: tuple[str, ...], shape: OperandShape) -> bool:
    if shape.kind not in ACCEPTS[kind]:
        return False
    if kind == "tensor":
        if not _ROWS_AND_A_COLUMN.isdisjoint(modifiers):
            return shape.length == 5
        return all(_DIMENSIONS.get(modifier, shape.length) == shape.length for modifier in modifiers)
    lengths = [_VECTOR_LENGTHS[modifier] for modifier in modifiers if modifier in _VECTOR_LENGTHS]
    if kind in ("loaded", "stored"):
        # `{%r1}` is a scalar: compilers write it.
        return (lengths or [1]) == [shape.length] if shape.kind == "vector" else not lengths
    return kind != "vector" or not lengths or lengths == [shape.length]


def _operand_problem(
    opcode: str, forms: list[Form], modifiers: tuple[str, ...], shapes: tuple[OperandShape, ...]
) -> _Problem:
    signatures: list[str] = []
    counts: set[int] = set()
    for form in forms:
        wanted = [g for g in form.operands if not g.present_with or not g.present_with.isdisjoint(modifiers)]
        signature = ", ".join(str(group) for group in wanted) or "nothing"
        if signature not in signatures:
            signatures.append(signature)
        counts |= set(range(sum(group.required for group in wanted), len(wanted) + 1))
    remedy = f"it takes {'; or '.join(signatures)}"
    if len(shapes) not in counts:
        plural = "" if len(shapes) == 1 else "s"
        return _Problem(f"{opcode} has {len(shapes)} operand{plural}", remedy)
    written = ", ".join(f"{shape.kind} of {shape.length}" if shape.length else shape.kind for shape in shapes)
    return _Problem(f"{opcode} does not take operands of these kinds: {written}", remedy)


def no_such_register(name: str, span: Span | None) -> NoReturn:
    """Refuse `name`, a name with a `%` that is neither declared nor a special register."""
    near = difflib.get_close_matches(name, sorted(ptx_table().special_registers), n=1, cutoff=0.7)
    raise TilewrightError(
        f"register {name} is not declared",
        span=span,
        remedy=f"declare it with .reg, or did you mean {near[0]}?" if near else "declare it with .reg",
    )
