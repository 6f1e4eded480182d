"""Triton's own tests of linear layouts, run against ours: which of their expectations hold?

Two kinds of file, read where they lie, neither kept here: `python/test/unit/tools/test_linear_layout.py`, run with
`triton.LinearLayout` standing for `Face`; and `unittest/Tools/LinearLayoutTest.cpp`, whose test bodies are declarations
and expectations in a part of C++ that is read statement by statement into Python: layouts written out, calls, and
EXPECT_* or ASSERT_*. A body with anything else, such as a loop or a lambda, is `not read`; so are tests of what linear
layouts over F2 do not have (sizes that are no power of two, in forks of Triton).
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.base.error import TilewrightError
from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear import parts as linear_parts
from tilewright.layout.linear.inverse import invert, invert_and_compose, pseudo_inverse, repeats
from tilewright.layout.linear.maps import (
    LinearLayout,
    apply,
    compose,
    equal,
    identity,
    is_injective,
    is_surjective,
    linear_layout,
    strided,
    zeros,
)
from tilewright.layout.numbers import bit_matrix

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_USING = re.compile(r"\busing [^;]*;")
_TEST = re.compile(r"TEST_F\((\w+),\s*(\w+)\)\s*\{(.*?)\n\}", re.S)
_DECLARED = re.compile(r"(?:LinearLayout|auto|(?:SmallVector|std::vector)<.*>|StringAttr)\s+(\w+)\s*=\s*(.*)", re.S)
_CONSTRUCTED = re.compile(r"LinearLayout\s+(\w+)\s*\((.*)\)", re.S)
_ASSIGNED = re.compile(r"(\w+)\s*(\*?=)(?!=)\s*(.*)", re.S)
_EXPECTED = re.compile(r"(?:EXPECT|ASSERT)_(EQ|THAT|TRUE|FALSE)\((.*)\)", re.S)
_NO_POWERS_OF_TWO = ("odular", "NPOT", "npot")
_OUTSIDE = ("for (", "[&]", "[](", "push_back", "ColumnAction", "DEATH", "toString", "BlockLocal")
_WORDS = (
    (r'\bS\(("\w*")\)', r"\1"), (r"LinearLayout::BasesT\{\}|BasesArray\{\}", "()"), (r"LinearLayout::empty", "empty"),
    (r"LinearLayout::", "Face."), (r"\bLinearLayout\(", "Face.of("), (r"->", "."), (r"\bllvm::", ""),
    (r"(?<![\w)])\s*\*(?=\w)", ""), (r"\btrue\b", "True"), (r"\bfalse\b", "False"), (r"\{\s*\}", "()"),
    (r"\{", "("), (r",?\s*\}", ",)"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ran:
    """Names of the tests whose every expectation held, with those that did not and why, those not read, and those of
    sizes that are no power of two."""

    held: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]
    unread: tuple[str, ...]
    outside: tuple[str, ...] = ()


def run_python_tests(path: Path) -> Ran:
    """Triton's Python tests, with `triton.LinearLayout` standing for ours."""
    stand_ins = {name: types.ModuleType(name) for name in ("triton", "triton.tools")}
    kept = {name: sys.modules.get(name) for name in stand_ins}
    scope: dict[str, Any] = {}
    for name, module in stand_ins.items():
        module.__dict__["LinearLayout"] = Face
        sys.modules[name] = module
    try:
        exec(compile(path.read_text("utf-8"), str(path), "exec"), scope)  # the subject's own test file
    finally:
        for name, module in kept.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
    return _ran({name: test for name, test in scope.items() if name.startswith("test_")})


def run_unit_tests(path: Path) -> Ran:
    """Triton's C++ unit tests of LinearLayout."""
    text = _USING.sub("", _COMMENT.sub("", path.read_text("utf-8")))
    tests: dict[str, Callable[[], None] | None] = {}
    outside: list[str] = []
    for _, name, body in _TEST.findall(text):
        if any(word in name + body for word in _NO_POWERS_OF_TWO):
            outside.append(name)
            continue
        lines = None if any(word in body for word in _OUTSIDE) else _statements(body)
        tests[name] = None if lines is None else _runs("\n".join(lines), name)
    return replace(_ran(tests), outside=tuple(outside))


class Face:
    """Our layouts under the names of Triton's class, of its Python binding and of its C++ class."""

    def __init__(self, layout: LinearLayout) -> None:
        self.layout = layout

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Face) and self.layout == other.layout

    def __hash__(self) -> int:
        return hash(self.layout)

    def __mul__(self, other: Face) -> Face:
        return Face(linear_parts.product(self.layout, other.layout))

    @staticmethod
    def of(bases: Sequence[Any], outputs: Sequence[Any], surjective: bool = True) -> Face:
        sized = any(not isinstance(each, str) for each in outputs)
        made = linear_layout(dict(bases), dict(outputs) if sized else list(outputs))
        assert not surjective or is_surjective(made), "asked to be onto"
        return Face(made)

    @staticmethod
    def from_bases(bases: Sequence[tuple[str, Any]], names: Sequence[str], sizes: Sequence[int] | None = None) -> Face:
        outputs = list(names) if sizes is None else dict(zip(names, sizes, strict=True))
        return Face(linear_layout(dict(bases), outputs))

    @staticmethod
    def identity_1d(size: int, given: str, out: str) -> Face:
        return Face(identity(size, given, out))

    @staticmethod
    def strided_1d(size: int, stride: int, given: str, out: str) -> Face:
        return Face(strided(size, stride, given, out))

    @staticmethod
    def zeros_1d(size: int, given: str, out: str, outDimSize: int = 1) -> Face:  # Triton's name
        return Face(zeros(size, given, out, outDimSize))

    identity1D, strided1D, zeros1D = identity_1d, strided_1d, zeros_1d

    def apply(self, places: Any) -> Any:
        found = apply(self.layout, dict(places))
        return found if isinstance(places, Mapping) else tuple(found.items())

    def compose(self, outer: Face) -> Face:
        return Face(compose(outer.layout, self.layout))

    def invert(self) -> Face:
        return Face(expressed(invert(self.layout)))

    def pseudoinvert(self) -> Face:
        return Face(pseudo_inverse(self.layout))

    def invert_and_compose(self, target: Face) -> Face:
        return Face(expressed(invert_and_compose(self.layout, target.layout)))

    invertAndCompose = invert_and_compose

    def get_matrix_view(self) -> list[list[int]]:
        return matrix(self.layout)

    def is_surjective(self) -> bool:
        return is_surjective(self.layout)

    def isInvertible(self) -> bool:
        return is_surjective(self.layout) and is_injective(self.layout)

    isSurjective = is_surjective

    def getBases(self) -> tuple[Any, ...]:
        return tuple(self.layout.bases.items())

    def getInDimNames(self) -> tuple[str, ...]:
        return tuple(self.layout.input_sizes)

    def getOutDimNames(self) -> tuple[str, ...]:
        return tuple(self.layout.output_sizes)

    def getInDimSizeLog2(self, name: str) -> int:
        return dict(self.layout.input_bits)[name]

    def getOutDimSizeLog2(self, name: str) -> int:
        return dict(self.layout.output_bits)[name]

    def getTotalOutDimSize(self) -> int:
        return self.layout.cosize

    def transposeOuts(self, order: Sequence[str]) -> Face:
        return Face(linear_parts.transpose_outputs(self.layout, order))

    def transposeIns(self, order: Sequence[str]) -> Face:
        return Face(linear_parts.transpose_inputs(self.layout, order))

    def reshapeIns(self, sizes: Sequence[Any]) -> Face:
        return Face(linear_parts.split_inputs(self.layout, _bits(sizes)))

    def reshapeOuts(self, sizes: Sequence[Any]) -> Face:
        return Face(linear_parts.split_outputs(self.layout, _bits(sizes)))

    def flattenIns(self) -> Face:
        names = self.getInDimNames()
        return Face(linear_parts.flatten_inputs(self.layout, names[0])) if names else self

    def flattenOuts(self) -> Face:
        names = self.getOutDimNames()
        return Face(linear_parts.flatten_outputs(self.layout, names[0])) if names else self

    def getNumConsecutiveInOut(self) -> int:
        flat = linear_parts.flatten_outputs(linear_parts.flatten_inputs(self.layout, "in"), "out")
        sizes = [1 << each for each in range(min(flat.size, flat.cosize).bit_length())]
        return max(
            each for each in sizes
            if isinstance(linear_parts.divide_left(flat, identity(each, "in", "out")), LinearLayout)
        )  # fmt: skip

    def equalIgnoringOutDimSizes(self, other: Face) -> bool:
        sizes = {
            name: max(size, other.layout.output_sizes[name]) for name, size in self.layout.output_sizes.items()
        }  # fmt: skip
        return equal(linear_layout(self.layout.bases, sizes), linear_layout(other.layout.bases, sizes))

    def sublayout(self, inputs: Sequence[str], outputs: Sequence[str]) -> Face:
        return Face(linear_parts.sublayout(self.layout, inputs, outputs))

    def sublayoutIsZero(self, inputs: Sequence[str], outputs: Sequence[str]) -> bool:
        return not any(linear_parts.sublayout(self.layout, inputs, outputs).columns)

    def getFreeVariableMasks(self) -> tuple[tuple[str, int], ...]:
        return tuple(repeats(self.layout).items())

    def quotient(self, names: Sequence[str]) -> Face | Absent:
        """The part without names on which the layout is the identity and which meet no others."""
        layout = self.layout
        for name in names:
            size = layout.input_sizes.get(name)
            if size is None or layout.output_sizes.get(name) != size:
                return Absent()
            inputs, outputs = [[each for each in sizes if each != name]
                               for sizes in (layout.input_sizes, layout.output_sizes)]  # fmt: skip
            parts = (
                equal(linear_parts.sublayout(layout, [name], [name]), identity(size, name, name)),
                not any(linear_parts.sublayout(layout, [name], outputs).columns),
                not any(linear_parts.sublayout(layout, inputs, [name]).columns),
            )
            if not all(parts):
                return Absent()
            layout = linear_parts.sublayout(layout, inputs, outputs)
        return Face(layout)

    def isTrivialOver(self, *names: str) -> bool:
        return isinstance(self.quotient(names), Face)

    def stays(self, names: Sequence[str]) -> bool:
        """Restricted to inputs and outputs of these names, is it the identity?"""
        part = linear_parts.sublayout(self.layout, names, names)
        one = LinearLayout(part.output_bits, part.output_bits, bit_matrix.identity(part.cosize.bit_length() - 1))
        return equal(part, one)

    def has_value(self) -> bool:
        return True

    def value(self) -> Face:
        return self


class Absent:
    """An optional without a value."""

    def has_value(self) -> bool:
        return False


def expressed(found: LinearLayout | NotExpressible) -> LinearLayout:
    """The layout, where one was promised."""
    assert isinstance(found, LinearLayout), found
    return found


def matrix(layout: LinearLayout) -> list[list[int]]:
    """The rows of the matrix, as lists of bits."""
    turned = bit_matrix.transpose(layout.columns, layout.cosize.bit_length() - 1)
    return [[row >> each & 1 for each in range(len(layout.columns))] for row in turned]


def _dividing(
    divide: Callable[[LinearLayout, LinearLayout], LinearLayout | NotExpressible],
) -> Callable[[Face, Face], Face | Absent]:
    def divided(layout: Face, divisor: Face) -> Face | Absent:
        found = divide(layout.layout, divisor.layout)
        return Face(found) if isinstance(found, LinearLayout) else Absent()

    return divided


def _bits(sizes: Sequence[Any]) -> tuple[tuple[str, int], ...]:
    return tuple(
        (name, (size if isinstance(size, int) else size[0]).bit_length() - 1) for name, size in sizes
    )  # fmt: skip


def _statements(body: str) -> list[str] | None:
    """The body as lines of Python, or None where a statement is of no kind that is read."""
    lines: list[str] = []
    for statement in (each.strip() for each in body.split(";")):
        if not statement:
            continue
        if found := _EXPECTED.fullmatch(statement):
            kind, arguments = found.groups()
            line = f"expect_{kind.lower()}({_expression(arguments)})"
        elif found := _DECLARED.fullmatch(statement):
            line = f"{found[1]} = {_expression(found[2])}"
        elif found := _CONSTRUCTED.fullmatch(statement):
            line = f"{found[1]} = Face.of({_expression(found[2])})"
        elif found := _ASSIGNED.fullmatch(statement):
            line = f"{found[1]} {found[2]} {_expression(found[3])}"
        else:
            return None
        lines.append(" ".join(line.split()))
    return lines


def _expression(text: str) -> str:
    for pattern, replacement in _WORDS:
        text = re.sub(pattern, replacement, text)
    return text


def _runs(source: str, name: str) -> Callable[[], None]:
    scope: dict[str, Any] = {
        "Face": Face, "empty": lambda: Face(LinearLayout((), (), ())),
        "divideLeft": _dividing(linear_parts.divide_left), "divideRight": _dividing(linear_parts.divide_right),
        "squareSublayoutIsIdentity": lambda layout, names: layout.stays(names),
        "to_vector": tuple, "AR": tuple, "ElementsAre": lambda *each: each, "Pair": lambda *each: each,
        "IsEmpty": lambda: (), "expect_eq": _expect_equal, "expect_that": _expect_equal,
        "expect_true": lambda found: _expect_equal(bool(found), True),
        "expect_false": lambda found: _expect_equal(bool(found), False),
    }  # fmt: skip
    return lambda: exec(compile(source, name, "exec"), scope)  # made above, of the subject's test file


def _expect_equal(first: Any, second: Any) -> None:
    assert first == second, f"{getattr(first, 'layout', first)} and {getattr(second, 'layout', second)}"


def _ran(tests: Mapping[str, Callable[[], None] | None]) -> Ran:
    held: list[str] = []
    failed: list[tuple[str, str]] = []
    unread: list[str] = []
    for name, test in tests.items():
        if test is None:
            unread.append(name)
            continue
        try:
            test()
        except TilewrightError as error:
            failed.append((name, error.message))
        except AssertionError as error:
            failed.append((name, " ".join(str(error).split())))
        except (NameError, SyntaxError, TypeError, AttributeError) as error:
            unread.append(f"{name} ({error})")
        else:
            held.append(name)
    return Ran(tuple(held), tuple(failed), tuple(unread))
