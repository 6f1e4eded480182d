"""What does an author promise of a tensor beyond its type? How its address is aligned, and which sizes it may have.

    @tw.kernel(align={"a": 128}, where="K % 8 == 0, 1 <= M <= 65536")

Theory: refinement types over integers. The promise travels on `!tile.tensor` as an alignment in bytes and a
conjunction of conditions on its axes (`tilewright.layout.numbers.condition`). A type whose shape contradicts its own
promise does not verify, so that the contradiction shows where the kernel is declared; an address that contradicts it is
refused when the program is called. What the compiler concludes from a promise it asks by `facts_of`, as intervals and
congruences.

Not handled: promises about strides (a program is compiled for known ones). Checked by tests/ir/test_refinement.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr, StringAttr
from xdsl.ir import ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tilewright.base.error import TilewrightError
from tilewright.layout.numbers.condition import Condition, every, holds, names_of, parts_of
from tilewright.layout.numbers.condition_facts import refine
from tilewright.layout.numbers.condition_parser import parse_where
from tilewright.layout.numbers.integer_fact import AT_LEAST_ONE, IntegerFact

DEFAULT_ALIGNMENT_BYTES = 16
"""What is taken for granted of an array's address where nothing is promised: every allocator gives it."""

MOST_ALIGNMENT_BYTES = 4096


@irdl_attr_definition
class Refinement(ParametrizedAttribute):
    """A promise: the tensor begins at a multiple of `alignment` bytes, and its axes satisfy `where` (text; "": all)."""

    name = "tile.refinement"
    alignment: IntAttr
    where: StringAttr

    @classmethod
    def of(cls, alignment_bytes: int = DEFAULT_ALIGNMENT_BYTES, where: str = "") -> Refinement:
        return cls(IntAttr(alignment_bytes), StringAttr(where))

    @property
    def alignment_bytes(self) -> int:
        return self.alignment.data

    @property
    def condition(self) -> Condition:
        """What holds of the axes."""
        return parse_where(self.where.data) if self.where.data else True

    def verify(self) -> None:
        problem = alignment_problem(self.alignment_bytes)
        if problem:
            raise VerifyException(problem)
        try:
            parsed = self.condition
        except TilewrightError as error:
            raise VerifyException(error.message) from error
        if parsed is False:
            raise VerifyException(f"no sizes satisfy {self.where.data!r}")

    def print_tail(self, printer: Printer) -> None:
        """What differs from no promise at all, as it ends a tensor's type."""
        if self.alignment_bytes != DEFAULT_ALIGNMENT_BYTES:
            printer.print_string(f", align {self.alignment_bytes}")
        if self.where.data:
            printer.print_string(", where ")
            printer.print_string_literal(self.where.data)

    @classmethod
    def parse_tail(cls, parser: AttrParser) -> Refinement:
        """What `print_tail` writes."""
        alignment, where = DEFAULT_ALIGNMENT_BYTES, ""
        while parser.parse_optional_punctuation(",") is not None:
            if parser.parse_optional_keyword("align") is not None:
                alignment = parser.parse_integer(allow_boolean=False, allow_negative=False)
            else:
                parser.parse_keyword("where")
                where = parser.parse_str_literal()
        return cls.of(alignment, where)


def alignment_problem(alignment_bytes: object) -> str:
    """What is wrong with an alignment, or ""."""
    if not isinstance(alignment_bytes, int) or isinstance(alignment_bytes, bool):
        return f"alignment {alignment_bytes!r} is no whole number"
    if not 1 <= alignment_bytes <= MOST_ALIGNMENT_BYTES or alignment_bytes & (alignment_bytes - 1):
        return f"alignment {alignment_bytes} is not a power of two from 1 to {MOST_ALIGNMENT_BYTES}"
    return ""


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """What is known of a tensor in every call that keeps the promise.

    address: of its first element, in bytes; extents: elements along each axis; where: what relates the axes besides.
    """

    address: IntegerFact
    extents: Mapping[str, IntegerFact]
    where: Condition


def promised_facts(refinement: Refinement, axes: Sequence[str]) -> TensorFacts:
    """What a promise says of a tensor over `axes`, whatever its shape is in one call."""
    condition = refinement.condition
    positive = dict.fromkeys(axes, AT_LEAST_ONE)
    extents = refine(condition, positive) or positive
    return TensorFacts(IntegerFact(0, None, refinement.alignment_bytes), extents, condition)


def broken_promise(refinement: Refinement, sizes: Mapping[str, int]) -> Condition:
    """The first condition that these extents break; True where they keep the promise."""
    for part in parts_of(refinement.condition):
        if not holds(part, sizes):
            return part
    return True


def about(condition: Condition, axes: Sequence[str]) -> Condition:
    """The part of a conjunction that speaks of these axes alone."""
    return every(part for part in parts_of(condition) if names_of(part) <= set(axes))
