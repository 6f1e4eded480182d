"""How do views, rewrite rules and limits read as a program for the e-graph?

Text in egglog's language, from the same functions that plain Python applies: a rule of `layout.view.rewrite` and a
condition of `layout.view.descriptor_limits` are called with symbols. Dimensions are a list (`Cons`, `Nil`), a view is
an element width and a list (`Tiled`). `Legal` terms are a sort of their own: `OuterOf` maps a list and its length to
the legal lists of its class, `InnerOf` a view to its legal views; both are never extracted, what they are equal to is.

The cost of a term, as egglog sums it, is `layout.view.descriptor_limits.cost` plus 1 (for `End`): egglog counts 1 for
each number in a term, which the costs set here make up for. Not handled: numbers beyond 62 bits (`saturate` refuses
them). Checked by tests/solve/egraph/test_saturate.py, which compares costs and rules with plain Python's.
"""

from __future__ import annotations

import re

from tilewright.layout.numbers.symbol import Symbol, text_of
from tilewright.layout.view.descriptor_limits import (
    COPY_DOUBLING_COST,
    DIMENSION_COST,
    NARROW_ROW_COST,
    OTHER_ELEMENT_COST,
    DescriptorLimits,
    inner_conditions,
    outer_conditions,
)
from tilewright.layout.view.rewrite import RULES, Choices, Rewrite
from tilewright.layout.view.tiled_view import Dimension, TiledView

LIMIT_BITS = 62
"""Products in rules stay below 2 to this."""

_SCHEMA = """
(datatype Dimensions (Nil) (Cons i64 i64 i64 i64 i64 Dimensions))
(datatype View (Tiled i64 Dimensions))
(with-dynamic-cost (datatype Legal (End) (Outer i64 i64 i64 i64 i64 Legal) (Inner i64 i64 i64 i64 i64 i64 Legal)))
(constructor OuterOf (Dimensions i64) Legal :unextractable)
(constructor InnerOf (View) Legal :unextractable)
(constructor Root () View)
(relation factor (i64))
(relation pieces (i64))
(relation element (i64))
(relation asked (i64 i64))
(ruleset joined)
(ruleset split)
(ruleset factored)
(ruleset swapped)
(ruleset legal)
"""
_RULESETS = {"split": "split", "expose": "split", "factor": "factored", "swap": "swapped"}
"""By the first word of a rule's name; all others make lists shorter and stand in `joined`."""
_FIELDS = ("n", "s", "b", "p", "g")
_INTEGER = re.compile(r"-?\d+")


def program_text(limits: DescriptorLimits) -> str:
    """The schema, the rewrite rules, and legality under `limits`: the same for every question."""
    return _SCHEMA + "\n".join(rule_text(rule) for rule in RULES if rule.searched) + "\n" + _legality_text(limits)


def rule_text(rule: Rewrite) -> str:
    """`rule` as an egglog rule."""
    taken = tuple(tuple(Symbol(f"{name}{index}") for name in _FIELDS) for index in range(rule.left))
    width, choice = Symbol("e"), Symbol("c")
    rest = "d" if rule.innermost and not rule.left else "r"
    facts = [text_of(condition) for condition in rule.where(width, choice, taken)]
    if rule.choice != "none":
        facts.insert(0, f"({rule.choice} c)")
    after = _list_text(rule.becomes(width, choice, taken), rest)
    if rule.innermost:
        before = f"(Tiled e {_list_text(taken, rest)})"
        after = f"(Tiled {text_of(rule.element(width, choice) if rule.element else width)} {after})"
    else:
        before = _list_text(taken, rest)
    ruleset = _RULESETS.get(rule.name.partition("-")[0], "joined")
    return f"(rule ((= whole {before}) {' '.join(facts)}) ((union whole {after})) :ruleset {ruleset})"


def question_text(source: TiledView, choices: Choices) -> str:
    """`source` as the root, and the numbers offered to the rules."""
    facts = [f"(factor {number})" for number in choices.factor]
    facts += [f"(pieces {number})" for number in choices.pieces]
    facts += [f"(element {number})" for number in choices.element]
    facts.append(f"(asked {source.element_bytes} {source.tile_bytes})")
    return f"(union (Root) (Tiled {source.element_bytes} {_list_text(source.dimensions, '(Nil)')}))" + "".join(facts)


def _legality_text(limits: DescriptorLimits) -> str:
    """The rules by which classes get their legal terms and those their costs."""
    fields = tuple(Symbol(name) for name in _FIELDS)
    outer = " ".join(text_of(kept) for _, kept in outer_conditions(fields, limits))
    inner = " ".join(text_of(kept) for _, kept in inner_conditions(fields, Symbol("e"), limits))
    unit = limits.inner_multiple_bytes
    box_wide = Symbol(f"(/ (* {unit} (/ (+ (* b e) {unit - 1}) {unit})) e)")
    wide = " ".join(
        text_of(kept) for _, kept in inner_conditions((*fields[:2], box_wide, *fields[3:]), Symbol("e"), limits)
    )
    copies = f"(* {COPY_DOUBLING_COST} (log2 (- (* 2 p) 1)))"
    wanted = (limits.row_bytes_wanted - 1).bit_length()
    found = ["(rule ((= d (Nil))) ((union (OuterOf d 0) (End))) :ruleset legal)"]
    found.append(
        f"(rule ((= d (Cons n s b p g r)) (= l (OuterOf r k)) (< k {limits.rank_max - 1}) {outer})"
        f" ((union (OuterOf d (+ k 1)) (Outer n s b p g l))"
        f" (set-cost (Outer n s b p g l) (+ {DIMENSION_COST - 5} {copies}))) :ruleset legal)"
    )
    for conditions, box, extra in (
        (inner, "b", "0"),
        (
            f"(= g n) (= p 1) (!= 0 (% (* b e) {unit})) (= 0 (% (* {box_wide.text} e) {unit})) {wide}",
            box_wide.text,
            f"(/ (* total (- {box_wide.text} b)) b)",
        ),
    ):
        narrow = f"(* {NARROW_ROW_COST} (max 0 (- {wanted} (log2 (* {box} e)))))"
        for asked, dear in (("(asked e total)", 0), ("(asked w total) (!= e w)", OTHER_ELEMENT_COST)):
            found.append(
                f"(rule ((= v (Tiled e d)) (element e) {asked} (= d (Cons n s b p g r)) (= l (OuterOf r k))"
                f" {conditions})"
                f" ((union (InnerOf v) (Inner e n s b p g l))"
                f" (set-cost (Inner e n s b p g l)"
                f" (+ {DIMENSION_COST - 6 + dear} (+ {copies} (+ {narrow} {extra}))))) :ruleset legal)"
            )
    return "\n".join(found)


def read_view(term: str, offset_bytes: int) -> TiledView:
    """The view that the text of a `Legal` term states."""
    numbers = [int(number) for number in _INTEGER.findall(term)]
    rows = range(1, len(numbers), len(_FIELDS))
    dimensions = tuple(Dimension(*numbers[at : at + len(_FIELDS)]) for at in rows)
    return TiledView(dimensions, offset_bytes, numbers[0])


def _list_text(dimensions: tuple[tuple[object, ...], ...], rest: str) -> str:
    text = rest
    for fields in reversed(dimensions):
        text = f"(Cons {' '.join(text_of(field) for field in fields)} {text})"
    return text
