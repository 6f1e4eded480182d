"""By which steps may a tiled view become another with the same meaning?

Each rule is a value: a pattern of adjacent dimensions (none, one or two; at any place or innermost only), an optional
choice of a number, conditions, and what the dimensions become. Its functions use only + * // % and comparisons, so
that they run on integers here and on symbols for the e-graph (`solve.egraph.saturate`): one statement, two readings.

`order` says what a rule keeps: "kept", every tile's landing sequence, byte for byte and fill for fill; "permuted", the
bytes of every tile, but not their places. Since the address of an element is a sum over dimensions, a rule on adjacent
dimensions holds among any others.

| rule | from | to |
| --- | --- | --- |
| split | (n, s) | (f, s) (n/f, sf), where boxes and their starts are multiples of f |
| split-inside | (n, s) | the same, where every tile lies inside one run of f |
| split-first | (n, s) | the same, where every tile begins at 0 and is at most f |
| join | (n, s) (m, ns) | (nm, s), where the inner tile is the whole extent |
| join-inside | (n, s) (m, ns) | (nm, s), where the outer tile is one and every inner tile lies inside the extent |
| join-first | (n, s) (m, ns) | (nm, s), where the outer tile is one and every inner tile begins at 0 |
| drop-unit | (1, s), box 1 | nothing |
| insert-unit | nothing | (1, 0), box 1; only derivations use it: saturation need not add what drop-unit takes away |
| expose | element of w bytes | innermost (k, w/k), element of w/k bytes |
| absorb | innermost full (k, w) | element of kw bytes |
| swap | x y | y x |
| factor | box b, p pieces | box b/k, pk pieces |
| unfactor | box b, p pieces | box bp, 1 piece; only derivations use it |

Each is proved by enumeration over all small extents, strides, tiles and choices, and by random larger ones
(tests/layout/test_rewrites.py). Widening an element is split, then absorb; an element stride is a stride here
(`StridedView.slice`). The starts of tiles map onto each other, none added and none lost: a rule that allowed more
starts would hold in one direction only, and equality saturation takes every rule for an equation. Not handled:
reversal of negative strides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from tilewright.layout.view.tiled_view import Dimension, TiledView

Choice = Literal["none", "factor", "pieces", "element"]
"""What number a rule is free in: a split's factor, a number of pieces, a new element width in bytes."""

Fields = tuple[Any, Any, Any, Any, Any]
Where = Callable[[Any, Any, tuple[Any, ...]], tuple[Any, ...]]
Becomes = Callable[[Any, Any, tuple[Any, ...]], tuple[Fields, ...]]
Starts = Callable[[int, int, tuple[Dimension, ...], tuple[int, ...]], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One rule. left: how many adjacent dimensions it takes; where, becomes: functions of (element_bytes, choice,
    dimensions taken); element: the element's new width in bytes; starts: a tile's first index there, from the one here;
    innermost: whether it takes the first dimensions only; order: what stays of the landing sequence;
    inverse: the rule that undoes it.
    """

    name: str
    left: int
    where: Where
    becomes: Becomes
    starts: Starts
    choice: Choice = "none"
    element: Callable[[Any, Any], Any] | None = None
    innermost: bool = False
    order: Literal["kept", "permuted"] = "kept"
    searched: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """One application of a rule. place: index of the first dimension it took; choice: the number chosen, 0 if none."""

    rule: str
    place: int
    choice: int = 0

    def __str__(self) -> str:
        return f"{self.rule}({self.place}, {self.choice})" if self.choice else f"{self.rule}({self.place})"


@dataclass(frozen=True, slots=True)
class Choices:
    """The numbers that a search offers to the rules, each set sorted."""

    factor: tuple[int, ...] = ()
    pieces: tuple[int, ...] = ()
    element: tuple[int, ...] = (1, 2, 4, 8)

    def of(self, choice: Choice) -> tuple[int, ...]:
        match choice:
            case "none":
                return (0,)
            case "factor":
                return self.factor
            case "pieces":
                return self.pieces
            case "element":
                return self.element


def _no_condition(width: Any, choice: Any, taken: tuple[Any, ...]) -> tuple[Any, ...]:
    return ()


# Each function takes a dimension apart into extent n, stride s, box b, pieces p and step g; m, t, c, q and h are those
# of a second dimension.


def _split_full(width: Any, f: Any, taken: tuple[Any, ...]) -> tuple[Any, ...]:
    (n, _, b, _, g) = taken[0]
    return (f > 1, n > f, n % f == 0, b % f == 0, g % f == 0)


def _splits_full(width: Any, f: Any, taken: tuple[Any, ...]) -> tuple[Fields, ...]:
    (n, s, b, p, g) = taken[0]
    return ((f, s, f, 1, f), (n // f, s * f, b // f, p, g // f))


def _split_inside(width: Any, f: Any, taken: tuple[Any, ...]) -> tuple[Any, ...]:
    (n, _, b, p, g) = taken[0]
    return (f > 1, n > f, n % f == 0, f % g == 0, b * p <= g)


def _splits_inside(width: Any, f: Any, taken: tuple[Any, ...]) -> tuple[Fields, ...]:
    (n, s, b, p, g) = taken[0]
    return ((f, s, b, p, g), (n // f, s * f, 1, 1, 1))


def _split_first(width: Any, f: Any, taken: tuple[Any, ...]) -> tuple[Any, ...]:
    (n, _, b, p, g) = taken[0]
    return (f > 1, n > f, n % f == 0, g == n, b * p <= f)


def _splits_first(width: Any, f: Any, taken: tuple[Any, ...]) -> tuple[Fields, ...]:
    (n, s, b, p, _) = taken[0]
    return ((f, s, b, p, f), (n // f, s * f, 1, 1, n // f))


def _split_starts(width: int, f: int, taken: tuple[Dimension, ...], starts: tuple[int, ...]) -> tuple[int, ...]:
    return (starts[0] % f, starts[0] // f)


def _join_full(width: Any, choice: Any, taken: tuple[Any, ...]) -> tuple[Any, ...]:
    (n, s, b, p, g), (_, t, _, _, _) = taken
    return (t == n * s, b == n, p == 1, g == n)


def _joins_full(width: Any, choice: Any, taken: tuple[Any, ...]) -> tuple[Fields, ...]:
    (n, s, _, _, _), (m, _, c, q, h) = taken
    return ((n * m, s, n * c, q, n * h),)


def _join_inside(width: Any, choice: Any, taken: tuple[Any, ...]) -> tuple[Any, ...]:
    (n, s, b, p, g), (_, t, c, q, h) = taken
    return (t == n * s, c * q == 1, h == 1, n % g == 0, b * p <= g)


def _joins_inside(width: Any, choice: Any, taken: tuple[Any, ...]) -> tuple[Fields, ...]:
    (n, s, b, p, g), (m, _, _, _, _) = taken
    return ((n * m, s, b, p, g),)


def _join_first(width: Any, choice: Any, taken: tuple[Any, ...]) -> tuple[Any, ...]:
    (n, s, b, p, g), (_, t, c, q, _) = taken
    return (t == n * s, c * q == 1, g == n, b * p <= n)


def _joins_first(width: Any, choice: Any, taken: tuple[Any, ...]) -> tuple[Fields, ...]:
    (n, s, b, p, _), (m, _, _, _, h) = taken
    return ((n * m, s, b, p, n * h),)


def _join_starts(width: int, choice: int, taken: tuple[Dimension, ...], starts: tuple[int, ...]) -> tuple[int, ...]:
    return (starts[0] + taken[0].extent * starts[1],)


def _unit(width: Any, choice: Any, taken: tuple[Any, ...]) -> tuple[Any, ...]:
    (n, _, b, p, _) = taken[0]
    return (n == 1, b * p == 1)


def _nothing(width: Any, choice: Any, taken: tuple[Any, ...]) -> tuple[Fields, ...]:
    return ()


def _a_unit(width: Any, choice: Any, taken: tuple[Any, ...]) -> tuple[Fields, ...]:
    return ((1, 0, 1, 1, 1),)


def _no_starts(width: int, choice: int, taken: tuple[Dimension, ...], starts: tuple[int, ...]) -> tuple[int, ...]:
    return ()


def _zero_start(width: int, choice: int, taken: tuple[Dimension, ...], starts: tuple[int, ...]) -> tuple[int, ...]:
    return (0,)


def _same_starts(width: int, choice: int, taken: tuple[Dimension, ...], starts: tuple[int, ...]) -> tuple[int, ...]:
    return starts


def _exposes(width: Any, narrow: Any, taken: tuple[Any, ...]) -> tuple[Any, ...]:
    return (width > narrow, width % narrow == 0)


def _exposed(width: Any, narrow: Any, taken: tuple[Any, ...]) -> tuple[Fields, ...]:
    return ((width // narrow, narrow, width // narrow, 1, width // narrow),)


def _absorbs(width: Any, wide: Any, taken: tuple[Any, ...]) -> tuple[Any, ...]:
    (n, s, b, p, g) = taken[0]
    return (s == width, n * width == wide, b == n, p == 1, g == n)


def _swapped(width: Any, choice: Any, taken: tuple[Any, ...]) -> tuple[Fields, ...]:
    return (taken[1], taken[0])


def _swap_starts(width: int, choice: int, taken: tuple[Dimension, ...], starts: tuple[int, ...]) -> tuple[int, ...]:
    return (starts[1], starts[0])


def _factors(width: Any, k: Any, taken: tuple[Any, ...]) -> tuple[Any, ...]:
    (_, _, b, _, _) = taken[0]
    return (k > 1, b % k == 0)


def _factored(width: Any, k: Any, taken: tuple[Any, ...]) -> tuple[Fields, ...]:
    (n, s, b, p, g) = taken[0]
    return ((n, s, b // k, p * k, g),)


def _in_pieces(width: Any, choice: Any, taken: tuple[Any, ...]) -> tuple[Any, ...]:
    (_, _, _, p, _) = taken[0]
    return (p > 1,)


def _whole(width: Any, choice: Any, taken: tuple[Any, ...]) -> tuple[Fields, ...]:
    (n, s, b, p, g) = taken[0]
    return ((n, s, b * p, 1, g),)


def _chosen_width(width: Any, choice: Any) -> Any:
    return choice


RULES: tuple[Rewrite, ...] = (
    Rewrite("drop-unit", 1, _unit, _nothing, _no_starts),
    Rewrite("join", 2, _join_full, _joins_full, _join_starts),
    Rewrite("join-inside", 2, _join_inside, _joins_inside, _join_starts),
    Rewrite("join-first", 2, _join_first, _joins_first, _join_starts),
    Rewrite("split", 1, _split_full, _splits_full, _split_starts, choice="factor"),
    Rewrite("split-inside", 1, _split_inside, _splits_inside, _split_starts, choice="factor"),
    Rewrite("split-first", 1, _split_first, _splits_first, _split_starts, choice="factor"),
    Rewrite("expose", 0, _exposes, _exposed, _zero_start, choice="element", element=_chosen_width, innermost=True),
    Rewrite("absorb", 1, _absorbs, _nothing, _no_starts, choice="element", element=_chosen_width, innermost=True),
    Rewrite("factor", 1, _factors, _factored, _same_starts, choice="pieces", order="permuted"),
    Rewrite("swap", 2, _no_condition, _swapped, _swap_starts, order="permuted"),
    Rewrite("insert-unit", 0, _no_condition, _a_unit, _zero_start, searched=False),
    Rewrite("unfactor", 1, _in_pieces, _whole, _same_starts, order="permuted", searched=False),
)
"""All rules, cheapest first."""

_BY_NAME = {rule.name: rule for rule in RULES}


def rule_named(name: str) -> Rewrite:
    """The rule called `name`. Raises KeyError where there is none."""
    return _BY_NAME[name]


def apply(view: TiledView, step: Step) -> TiledView | None:
    """`view` after `step`, or None where the rule does not apply there."""
    rule = _BY_NAME[step.rule]
    place = step.place
    if place < 0 or place + rule.left > view.rank or (rule.innermost and place):
        return None
    taken = view.dimensions[place : place + rule.left]
    width = view.element_bytes
    if not all(rule.where(width, step.choice, taken)):
        return None
    becomes = tuple(Dimension(*dimension) for dimension in rule.becomes(width, step.choice, taken))
    return TiledView(
        view.dimensions[:place] + becomes + view.dimensions[place + rule.left :],
        view.offset_bytes,
        rule.element(width, step.choice) if rule.element is not None else width,
    )


def moved_start(view: TiledView, step: Step, start: tuple[int, ...]) -> tuple[int, ...]:
    """Where the tile that begins at index `start` of `view` begins after `step`, which must apply."""
    rule = _BY_NAME[step.rule]
    end = step.place + rule.left
    moved = rule.starts(view.element_bytes, step.choice, view.dimensions[step.place : end], start[step.place : end])
    return start[: step.place] + moved + start[end:]


def replay(view: TiledView, steps: Iterable[Step]) -> TiledView | None:
    """`view` after all of `steps`, or None where one does not apply: how a derivation is checked."""
    found: TiledView | None = view
    for step in steps:
        if found is None:
            return None
        found = apply(found, step)
    return found


def successors(
    view: TiledView, choices: Choices, rules: tuple[Rewrite, ...] = RULES
) -> Iterator[tuple[Step, TiledView]]:
    """Every view one step of a searched rule away, in a fixed order."""
    for rule in rules:
        if not rule.searched:
            continue
        places = 1 if rule.innermost else view.rank + 1 - rule.left
        for place in range(places):
            for choice in choices.of(rule.choice):
                step = Step(rule.name, place, choice)
                found = apply(view, step)
                if found is not None:
                    yield step, found
