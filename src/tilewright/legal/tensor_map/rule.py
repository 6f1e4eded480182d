"""How is a rule stated once and read many ways?

A rule is a value: a code, the field it judges, the limit with its source, and two predicates over `Fields`. The same
predicates are evaluated over several domains:

    Python integers            -> bool                     `legality`: one concrete map
    NumPy columns              -> arrays of bool           `rows`: a million maps at once
    facts about integers       -> yes, no or maybe         symbolic shapes
    terms of a solver          -> a formula                choice of fields

To be read so, a predicate is built from `+ - * // %` (division by a positive constant or by a field that `defined` says
is positive), comparisons with integers, `&`, `|`, and the functions here; never `and`, `or`, `not`, `if`, nor `min`,
`max`, indexing by a field or a loop over one. What a domain must offer: a term type with those operators, right-handed
ones too, whose comparisons give a truth type with `& | ~`, also against Python's bool on either side. Where some fields
are plain integers and others are not, predicates over plain ones alone give a bool.

    fields = Fields(dtype=9, rank=2, address=a, dims=(m, k), ...)         # a, m, k: terms of the domain
    for rule in tiled_rules(target):
        truth = rule.stated(fields)                                        # bool, or the domain's truth

`applies` reads only fields of small range: data type, rank, interleave, swizzle, fill (`DISCRETE`). So the rules that
matter are chosen once for all maps that share these. `defined` guards what would have no meaning (a quotient by zero).

Checked by: every reading against the integers (tests/legal/tensor_map/test_rows.py, and the tests of the other
readings).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import mul
from typing import Any

from tilewright.base.value import dataclass

Term = Any
"""A number of the domain: int, an array, a fact, a solver's term. `Any`, since the domains share no base class."""

Truth = Any
"""A truth value of the domain: bool, an array of bool, three-valued, a formula."""

DISCRETE = frozenset(("dtype", "rank", "interleave", "swizzle", "l2_promotion", "oob_fill", "wide_mode"))
"""The fields of small range, which alone decide whether a rule applies."""


@dataclass(slots=True)
class Fields:
    """What the rules read: the arguments of the encoder, enumerations as the driver's numbers, innermost first.

    dims, box: elements; strides: bytes, of dimensions 1 to rank - 1; address: bytes. Each sequence has at least the
    entries that the rank needs; where the rank is no plain integer, all 5 (4 strides). Fields from `lower_corner` on
    are those of im2col maps, where `box` and `element_strides` keep their meaning or are empty.
    """

    dtype: Term
    rank: Term
    address: Term
    dims: tuple[Term, ...]
    strides: tuple[Term, ...]
    box: tuple[Term, ...]
    element_strides: tuple[Term, ...]
    interleave: Term
    swizzle: Term
    l2_promotion: Term
    oob_fill: Term
    lower_corner: tuple[Term, ...] = ()
    upper_corner: tuple[Term, ...] = ()
    channels_per_pixel: Term = 0
    pixels_per_column: Term = 0
    wide_mode: Term = 0


def always(fields: Fields) -> Truth:
    """The guard of a rule that holds for every map."""
    return True


def never(fields: Fields) -> Truth:
    """The test of a rule that no map keeps."""
    return False


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule about one entry of one field.

    code, name: of the rule, shared by its instances for each dimension; field, index: what is judged, in the driver's
    words (as in `Violation`); key: the target's fact that holds the limit; limit, source: from that fact;
    reads: every field that the rule reads, such as `swizzle` or `box[0]`;
    applies: whether the rule concerns a map of these discrete fields; defined: whether `holds` has a meaning;
    holds: whether the rule is kept; value: what stands there, of concrete fields; message: one line, of concrete
    fields that break the rule; enforced: whether the encoder refuses it.
    """

    code: str
    name: str
    field: str
    index: int | None
    key: str
    limit: int
    source: str
    reads: frozenset[str]
    applies: Callable[[Fields], Truth]
    holds: Callable[[Fields], Truth]
    value: Callable[[Fields], int]
    message: Callable[[Fields], str]
    defined: Callable[[Fields], Truth] = always
    enforced: bool = True

    def stated(self, fields: Fields) -> Truth:
        """Whether `fields` keep the rule: it does not apply, has no meaning, or holds. In the domain of `fields`."""
        applies = self.applies(fields)
        if applies is False:
            return True
        defined = self.defined(fields)
        if defined is False:
            return True
        return implies(applies, implies(defined, self.holds(fields)))


def implies(condition: Truth, conclusion: Truth) -> Truth:
    """`conclusion`, or not `condition`, in the domain of either."""
    if condition is True:
        return conclusion
    if condition is False or conclusion is True:
        return True
    return ~condition | conclusion


def one_of(term: Term, values: Iterable[int]) -> Truth:
    """Whether `term` equals one of `values`, of which there is at least one."""
    if isinstance(term, int):
        return term in tuple(values)
    first, *rest = values
    truth = term == first
    for value in rest:
        truth = truth | (term == value)
    return truth


def each(truths: Iterable[Truth]) -> Truth:
    """Whether all of `truths` are true; true of none. False as soon as one is plainly False, so put those first."""
    whole: Truth = True
    for truth in truths:
        if truth is False:
            return False
        whole = truth if whole is True else whole if truth is True else whole & truth
    return whole


def within(term: Term, low: int, high: int) -> Truth:
    """Whether `low <= term <= high`."""
    return (term >= low) & (term <= high)


def product(terms: Iterable[Term]) -> Term:
    """The product of `terms`, 1 of none."""
    return reduce(mul, terms, 1)
