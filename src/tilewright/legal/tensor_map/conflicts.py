"""Which fields of an illegal map cannot stay together, and which smallest sets of fields would have to change?

A set of fields conflicts if no values of the others make the map legal while it keeps its own. Minimal conflicts and
minimal changes are each other's minimal hitting sets (R. Reiter, A theory of diagnosis from first principles, 1987);
both are found at once: the smallest set of fields that touches every known conflict either suffices, and is a minimal
change, or the fields outside it hold another conflict, which is shrunk to a minimal one and added.

Whether a set of fields suffices is decided by values that witness it. For a number the most permissive one is tried:
rules about numbers demand multiples and ranges, so an address of 0, a large extent, a stride of 0, a box extent of
1, the smallest legal inner row and the largest element stride break no rule that another value would keep. Of each
enumeration every value that could matter is tried. A change of the rank adds dimensions of extent 1, or drops the
outermost of more than five.

Not handled: views, splits and merges of dimensions (`repairs`). Where a map breaks so
much that the search passes its bound, the changes found are minimal but may not be all. Checked by:
tests/legal/tensor_map/test_conflicts.py, against all assignments of small maps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import combinations, product
from math import gcd
from typing import Any

from tilewright.base.value import dataclass
from tilewright.legal.tensor_map.enumerations import (
    DATA_TYPES,
    INTERLEAVE_16B,
    INTERLEAVE_NONE,
    PADDED_TYPES,
    SWIZZLE_128B,
    SWIZZLE_NONE,
)
from tilewright.legal.tensor_map.rule import Fields, Rule
from tilewright.targets import Target

_MOST_ROUNDS = 256
_CHOICES = ("dtype", "interleave", "swizzle", "wide_mode")
_RANK_RULES = ("TM007", "TM008")
_LISTS = ("dims", "strides", "box", "element_strides", "lower_corner", "upper_corner")
_ADDED = {"dims": 1, "strides": 0, "box": 1, "element_strides": 1, "lower_corner": 0, "upper_corner": 0}


@dataclass(frozen=True, slots=True)
class Conflict:
    """Fields that cannot stay as they are together, by the names of `Rule.reads`, and the codes of the rules that
    exclude it, whatever the other fields are."""

    fields: frozenset[str]
    codes: tuple[str, ...]


def find_conflicts(
    fields: Fields, rules: tuple[Rule, ...], broken_by: Callable[[Fields], tuple[Rule, ...]], target: Target
) -> tuple[tuple[Conflict, ...], tuple[frozenset[str], ...]]:
    """All minimal conflicts of concrete `fields`, and all minimal sets of fields to change, smallest first.

    rules: those of the map's kind; broken_by: which of them a map breaks. Nothing conflicts where it breaks none.
    """
    broken = broken_by(fields)
    if not broken:
        return (), ()
    search = _Search(fields, rules, broken_by, target)
    conflicts: list[frozenset[str]] = [search.shrunk(_may_change(rule)) for rule in broken]
    conflicts = _minimal(conflict for conflict in conflicts if conflict)
    changes: list[frozenset[str]] = []
    hitting: list[frozenset[str]] = [frozenset()]
    for conflict in conflicts:
        hitting = _touching(hitting, conflict)
    for _ in range(_MOST_ROUNDS):
        candidate = next((each for each in hitting if each not in changes), None)
        if candidate is None:
            break
        if search.suffices(candidate):
            changes.append(candidate)
        else:
            conflict = search.shrunk(search.names - candidate)
            if not conflict:  # nothing suffices: no map of this kind is legal on the target
                break
            # None of them holds another: each is minimal, and the candidate touches all but the new one.
            conflicts.append(conflict)
            hitting = _touching(hitting, conflict)
    changes = [change for change in changes if not any(other < change for other in changes)]
    named = tuple(Conflict(conflict, search.codes(conflict)) for conflict in conflicts)
    order = sorted(changes, key=lambda change: (len(change), sorted(change)))
    return tuple(sorted(named, key=lambda conflict: (len(conflict.fields), sorted(conflict.fields)))), tuple(order)


def _may_change(rule: Rule) -> frozenset[str]:
    """The fields that a rule reads, without the rank where it only says which entries exist."""
    return rule.reads if rule.code in _RANK_RULES else rule.reads - {"rank"}


def _minimal(sets: Iterable[frozenset[str]]) -> list[frozenset[str]]:
    kept: list[frozenset[str]] = []
    for each in sorted(set(sets), key=lambda names: (len(names), sorted(names))):
        if not any(other <= each for other in kept):
            kept.append(each)
    return kept


def _touching(found: list[frozenset[str]], conflict: frozenset[str]) -> list[frozenset[str]]:
    """The minimal sets of fields that touch each conflict so far, `found`, and one more; smallest first."""
    extended: list[frozenset[str]] = []
    for each in found:
        extended += [each] if each & conflict else [each | {name} for name in conflict]
    # A hostile map breaks so many rules that their combinations explode: the smallest are kept.
    return _minimal(extended)[:_MOST_ROUNDS]


class _Search:
    """Decides which sets of fields suffice to make a map legal, remembering the answers."""

    def __init__(
        self, fields: Fields, rules: tuple[Rule, ...], broken_by: Callable[[Fields], tuple[Rule, ...]], target: Target
    ) -> None:
        self._fields, self._rules, self._broken_by, self._target = fields, rules, broken_by, target
        types = list(enumerate(DATA_TYPES[: target.limit("tensor_map.data_type_max") + 1]))
        widths = {each.global_bits: number for number, each in reversed(types) if number not in PADDED_TYPES}
        floats = {each.global_bits: number for number, each in reversed(types) if each.is_float}
        # One type of each width, a float where there is one: all rules see of a type is its width and its kind.
        self._types = tuple(sorted((widths | floats).values()))
        self._sufficient: list[frozenset[str]] = []
        self._insufficient: list[frozenset[str]] = []
        named = frozenset(name for rule in rules for name in rule.reads)
        self._is_tiled = any(name.startswith("box[") for name in named)
        self.names = frozenset(name for name in named if _exists(fields, name)) | {"rank"}

    def suffices(self, free: frozenset[str]) -> bool:
        """Whether values of `free` exist under which the map is legal, all else as it is."""
        if any(known <= free for known in self._sufficient):
            return True
        if any(free <= known for known in self._insufficient):
            return False
        found = any(not self._broken_by(fields) for fields in self._assignments(free))
        (self._sufficient if found else self._insufficient).append(free)
        return found

    def shrunk(self, fixed: frozenset[str]) -> frozenset[str]:
        """A minimal part of `fixed` that already conflicts; empty where nothing suffices, whatever is changed."""
        if self.suffices(self.names - fixed):
            return frozenset()
        for name in sorted(fixed):
            if not self.suffices(self.names - (fixed - {name})):
                fixed -= {name}
        return fixed

    def codes(self, conflict: frozenset[str]) -> tuple[str, ...]:
        """The rules that exclude a conflict: a smallest set of codes that no values of the other fields keep."""
        assignments = list(self._assignments(self.names - conflict))
        breaks = [frozenset(rule.code for rule in self._broken_by(fields)) for fields in assignments]
        codes = sorted({code for each in breaks for code in each})
        for size in range(1, len(codes) + 1):
            for chosen in combinations(codes, size):
                if all(not each.isdisjoint(chosen) for each in breaks):
                    return chosen
        return tuple(codes)

    def _assignments(self, free: frozenset[str]) -> Iterator[Fields]:
        """The maps in which `free` has its most permissive values, one for each choice of the enumerations."""
        for rank in self._ranks() if "rank" in free else (self._fields.rank,):
            start = self._fields if rank == self._fields.rank else _with_rank(self._fields, rank, self._is_tiled)
            names = sorted(name for name in free if name != "rank" and _exists(start, name))
            choices = [name for name in names if name in _CHOICES]
            for chosen in product(*(self._choices(name) for name in choices)):
                values = dict(zip(choices, chosen, strict=True))
                dtype = values.get("dtype", int(start.dtype))
                values |= {name: self._value(name, dtype, rank) for name in names if name not in _CHOICES}
                yield _with(start, values)

    def _ranks(self) -> tuple[int, ...]:
        """The rank as it is, and as it must at least be, without and with interleave."""
        given: int = self._fields.rank
        least = max((rule.limit for rule in self._rules if rule.key.endswith("rank_min")), default=given)
        lowest = min((rule.limit for rule in self._rules if rule.key.endswith("rank_min")), default=given)
        most = self._target.limit("tensor_map.rank_max")
        return tuple(dict.fromkeys(min(rank, most) for rank in (given, max(given, lowest), max(given, least))))

    def _choices(self, name: str) -> tuple[int, ...]:
        """Values of an enumeration, of which each allows what another does not."""
        match name:
            case "dtype":
                return self._types
            case "interleave":  # 32B is stricter than 16B in all
                return (INTERLEAVE_NONE, INTERLEAVE_16B)
            case "swizzle":  # the widest span serves where there must be one
                return (SWIZZLE_NONE, SWIZZLE_128B)
            case _:
                return (0, 1)

    def _value(self, name: str, dtype: int, rank: int) -> int:
        """The most permissive value of a number, or of an enumeration without couplings."""
        limit = self._target.limit
        match name.partition("[")[0]:
            case "box" if name == "box[0]":
                return self._inner_extent(dtype)
            case "channels_per_pixel":
                return self._inner_extent(dtype)
            case "dims":  # far above what corners take away, far below where the driver's words end
                return limit("tensor_map.im2col_pixel_box_limit") // 2
            case "element_strides":
                return limit("tensor_map.element_stride_max")
            case "lower_corner":
                return -self._corner(rank)
            case "upper_corner":
                return self._corner(rank) - 1
            case "box" | "pixels_per_column":
                return 1
            case _:  # address, strides, l2_promotion, oob_fill
                return 0

    def _inner_extent(self, dtype: int) -> int:
        """The smallest legal inner row of a data type, in elements."""
        if not 0 <= dtype < len(DATA_TYPES):
            return 1
        if dtype in PADDED_TYPES and "tensor_map.padded_inner_elements" in self._target.facts:
            return self._target.limit("tensor_map.padded_inner_elements")
        row_bits = self._target.limit("tensor_map.box_inner_multiple_bytes") * 8
        return row_bits // gcd(row_bits, DATA_TYPES[dtype].global_bits)

    def _corner(self, rank: int) -> int:
        limits = self._target.limits("tensor_map.im2col_corner_limits")
        low = self._target.limit("tensor_map.im2col_rank_min")
        return limits[min(max(rank - low, 0), len(limits) - 1)]


def _exists(fields: Fields, name: str) -> bool:
    attribute, _, index = name.rstrip("]").partition("[")
    return not index or int(index) < len(getattr(fields, attribute))


def _with(fields: Fields, values: dict[str, int]) -> Fields:
    changed: dict[str, Any] = {}
    for name, value in values.items():
        attribute, _, index = name.rstrip("]").partition("[")
        if not index:
            changed[attribute] = value
            continue
        entries = list(changed.get(attribute, getattr(fields, attribute)))
        entries[int(index)] = value
        changed[attribute] = tuple(entries)
    return replace(fields, **changed)


def _with_rank(fields: Fields, rank: int, is_tiled: bool) -> Fields:
    """The map with outer dimensions of extent 1 added, or its outermost dropped."""
    changed: dict[str, Any] = {"rank": rank}
    for name in _LISTS:
        entries = tuple(getattr(fields, name))
        length = {"strides": rank - 1, "lower_corner": rank - 2, "upper_corner": rank - 2}.get(name, rank)
        if (is_tiled and name.endswith("corner")) or (name == "box" and not is_tiled):
            continue
        length = max(length, 0)
        changed[name] = entries[:length] + (_ADDED[name],) * (length - len(entries))
    return replace(fields, **changed)
