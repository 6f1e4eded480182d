"""Is this map legal, and if not: which rules does it break, and which fields would have to change?

`check` judges one concrete map by the rules of its kind (`tiled_rules`, `im2col_rules`, `im2col_wide_rules`), in
microseconds: the rules that concern maps of its rank, data type, interleave, swizzle and fill are chosen once and kept,
and what to say of those broken is made when it is asked for.

What is minimal: a map has every field given, so each rule that it breaks is broken by itself, whatever is done about
the others. `minimal_sets` is therefore one set for each rule broken, and fixing a map means to leave none of them.
That several rules may together leave no value for a field shows in `conflicts`: fields that cannot all stay as they
are, with the rules that say so; `minimal_changes` are the smallest sets of fields that touch every conflict.

Not handled: one copy through the map (`copy_check`); bytes that a driver wrote (`tensor_map_format`). Checked by:
tests/legal/tensor_map/test_legality.py; the rules by tests/legal/tensor_map/test_tensormap_driver.py and
test_im2col.py, against a driver.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache

from tilewright.base import plan
from tilewright.base.value import dataclass
from tilewright.legal.argument import target_of
from tilewright.legal.tensor_map.cautions import cautions_of
from tilewright.legal.tensor_map.common_rules import Driver, driver_version
from tilewright.legal.tensor_map.conflicts import Conflict, find_conflicts
from tilewright.legal.tensor_map.footprint import copy_bytes
from tilewright.legal.tensor_map.im2col_map import AnyMap, Im2colMap, Im2colWideMap, map_of
from tilewright.legal.tensor_map.im2col_rules import im2col_rules, im2col_wide_rules
from tilewright.legal.tensor_map.rule import DISCRETE, Fields, Rule, Truth, always, never
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.legal.tensor_map.tiled_rules import tiled_rules
from tilewright.legal.tensor_map.violation import Violation
from tilewright.targets import Target

RuleSet = Callable[[Target, Driver | None], tuple[Rule, ...]]


@dataclass(frozen=True)
class Legality:
    """The verdict on one map.

    map, target, driver: what was judged; broken: the rules that it breaks; legal: whether there are none.
    Everything else is computed when first asked for.
    """

    map: AnyMap
    target: Target
    driver: Driver | None
    broken: tuple[Rule, ...]
    legal: bool

    def __bool__(self) -> bool:
        return self.legal

    @cached_property
    def violations(self) -> tuple[Violation, ...]:
        """Every rule broken, by code, each with value, limit and source. Of rules that sharpen each other, the sharpest
        one broken."""
        return violations_of(self.map.fields, self.broken)

    @property
    def minimal_sets(self) -> tuple[tuple[Violation, ...], ...]:
        """All minimal sets of rules that exclude the map as given: one for each violation. Empty for a legal map."""
        return tuple((violation,) for violation in self.violations)

    @cached_property
    def conflicts(self) -> tuple[Conflict, ...]:
        """All minimal sets of fields that cannot stay as they are together, each with the rules that exclude it.

        A conflict of several rules is one that no value of the fields outside it resolves: 256 bytes of inner box under
        a swizzle of 128 in a map of rank 2, whatever the interleave. Empty for a legal map.
        """
        return self._explained[0]

    @cached_property
    def minimal_changes(self) -> tuple[frozenset[str], ...]:
        """All minimal sets of fields whose change alone can make the map legal, the smallest first.

        Names are those of `Rule.reads`: `swizzle`, `box[0]`, `strides[1]` (of dimension 2). `rank` means other
        dimensions. Empty for a legal map.
        """
        return self._explained[1]

    @cached_property
    def _explained(self) -> tuple[tuple[Conflict, ...], tuple[frozenset[str], ...]]:
        kind = rules_of(self.map)

        def broken_by(fields: Fields) -> tuple[Rule, ...]:
            return judge(fields, kind, self.target, self.driver)

        return find_conflicts(self.map.fields, kind(self.target, self.driver), broken_by, self.target)

    @cached_property
    def warnings(self) -> tuple[Violation, ...]:
        """What the driver passes and the device does not, or what surprises there. Judged for legal maps only."""
        return cautions_of(self.map, self.target, self.driver) if self.legal else ()

    @cached_property
    def _bytes(self) -> tuple[int, int] | None:
        return copy_bytes(self.map, self.target)

    @property
    def footprint_bytes(self) -> int | None:
        """Bytes of shared memory that one copy needs; None where the map has no meaning."""
        return None if self._bytes is None else self._bytes[0]

    @property
    def transaction_bytes(self) -> int | None:
        """Bytes that one copy adds to its mbarrier; None where the map has no meaning."""
        return None if self._bytes is None else self._bytes[1]


def check(map: AnyMap | plan.TensorMap, target: str | Target, driver: object = None) -> Legality:
    """Whether `map` is legal on `target`.

    map: tiled, im2col, or a launch plan's map of a buffer at address 0.
    driver: the driver API's version as (major, minor) or as `cuDriverGetVersion` answers it; rules that came with a
    version, and bugs that went with one, are judged where it is given. Raises TilewrightError for an unknown target, a
    version that is none, and what is no map.
    """
    if not isinstance(map, TensorMap | Im2colMap | Im2colWideMap):
        map = map_of(map)
    facts = target_of(target)
    version = None if driver is None else driver_version(driver)
    broken = judge(map.fields, rules_of(map), facts, version)
    return Legality(map, facts, version, broken, not broken)


def rules_of(map: AnyMap) -> RuleSet:
    """The rules of a map's kind, by target and driver version."""
    match map:
        case TensorMap():
            return tiled_rules
        case Im2colMap():
            return im2col_rules
        case _:
            return im2col_wide_rules


def judge(fields: Fields, rules: RuleSet, target: Target, driver: Driver | None = None) -> tuple[Rule, ...]:
    """The rules that concrete `fields` break, in the order of their codes."""
    tests = _relevant(
        rules, target, driver, fields.dtype, fields.rank, fields.interleave, fields.swizzle, fields.l2_promotion,
        fields.oob_fill, fields.wide_mode,
    )  # fmt: skip
    return tuple([rule for holds, rule in tests if not holds(fields)])


def violations_of(fields: Fields, broken: tuple[Rule, ...]) -> tuple[Violation, ...]:
    """What there is to say of rules broken by concrete `fields`; of several limits of one entry, the highest."""
    sharpest: dict[tuple[str, str, int | None], Rule] = {}
    for rule in broken:
        place = (rule.code, rule.field, rule.index)
        known = sharpest.get(place)
        if known is None or known.limit < rule.limit:
            sharpest[place] = rule
    return tuple(violation_of(rule, fields) for rule in sharpest.values())


def violation_of(rule: Rule, fields: Fields) -> Violation:
    """What there is to say of one rule that concrete `fields` break."""
    return Violation(
        rule.code,
        rule.name,
        rule.field,
        rule.index,
        rule.value(fields),
        rule.limit,
        rule.message(fields),
        rule.source,
        rule.enforced,
    )


@lru_cache(maxsize=4096)
def _relevant(
    rules: RuleSet, target: Target, driver: Driver | None, dtype: int, rank: int, interleave: int, swizzle: int,
    l2_promotion: int, oob_fill: int, wide_mode: int,
) -> tuple[tuple[Callable[[Fields], Truth], Rule], ...]:  # fmt: skip
    """The rules that maps of these discrete fields can break, each with its test. Those that they do break: always."""
    known = Fields(
        dtype=dtype, rank=rank, address=0, dims=(), strides=(), box=(), element_strides=(), interleave=interleave,
        swizzle=swizzle, l2_promotion=l2_promotion, oob_fill=oob_fill, wide_mode=wide_mode,
    )  # fmt: skip
    tests: list[tuple[Callable[[Fields], Truth], Rule]] = []
    for rule in rules(target, driver):
        if not rule.applies(known):
            continue
        if rule.reads <= DISCRETE:
            if not rule.holds(known):
                tests.append((never, rule))
        else:
            tests.append((rule.holds if rule.defined is always else rule.stated, rule))
    return tuple(tests)
