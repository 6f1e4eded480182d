"""What does a GPU architecture allow?

`target("sm_90a")` reads the architecture's table once, with what it inherits, and answers by key. Code asks for a limit
or a feature; it never compares architecture names. A key that a target does not state is an error, never a default:
a limit taken from another architecture would make a wrong proof.

Not handled: facts of the particular device in the machine (ask the driver, in `runtime`); the `device` group says what
one device was measured to be, for cost models. Checked by tests/targets/test_target.py.
"""

from __future__ import annotations

import re
from dataclasses import field
from difflib import get_close_matches
from functools import cache

from tilewright.base.error import TilewrightError
from tilewright.base.value import dataclass
from tilewright.targets.schema import Fact, Facts, TargetTable, parse_table
from tilewright.targets.sections import table_text

TARGET_NAMES = ("sm_90a", "sm_100a", "sm_103a", "sm_120a")
"""Architectures whose PTX is checked and run, in order of age."""

COMPILED_TARGET_NAMES = TARGET_NAMES[:3]
"""Those of them that programs are compiled for: their tables say what a product is, and what it takes."""

_ARCHITECTURE = re.compile(r"sm_(\d+)[af]?")

BANK_TARGET_NAMES = (*TARGET_NAMES, "gfx942", "gfx950")
"""Architectures whose shared memory is modelled; those of another vendor state facts of little else."""


@dataclass(frozen=True, slots=True)
class Target:
    """One architecture: its name as `.target` writes it, a title, and its facts by key."""

    name: str
    title: str
    facts: Facts = field(repr=False, hash=False)

    def fact(self, key: str) -> Fact:
        """The row `key` (such as `tensor_map.rank_max`). Raises TilewrightError where this target states none."""
        found = self.facts.get(key)
        if found is None:
            stated = [name for name in BANK_TARGET_NAMES if name != self.name and key in target(name).facts]
            near = [] if stated else get_close_matches(key, self.facts, n=1)
            remedy = f"choose {' or '.join(stated)}" if stated else f"did you mean {near[0]!r}?" if near else ""
            raise TilewrightError(f"{self.name} states no fact {key!r}", remedy=remedy)
        return found

    def limit(self, key: str) -> int:
        """The number at `key`, in the row's unit. Raises TilewrightError where there is none or it is no integer."""
        value = self.fact(key).value
        if type(value) is not int:  # nor true or false
            raise TilewrightError(f"{self.name}: {key!r} is not one number: {value!r}")
        return value

    def limits(self, key: str) -> tuple[int, ...]:
        """The numbers at `key`, in the row's unit. Raises TilewrightError where there is none or it is no list."""
        value = self.fact(key).value
        if not isinstance(value, tuple):
            raise TilewrightError(f"{self.name}: {key!r} is not a list of numbers: {value!r}")
        return value

    def supports(self, feature: str) -> bool:
        """Whether the architecture has `feature` (such as `wgmma`). Raises TilewrightError for an unknown feature."""
        value = self.fact(f"feature.{feature}").value
        if not isinstance(value, bool):
            raise TilewrightError(f"{self.name}: feature {feature!r} is not true or false: {value!r}")
        return value


@cache
def target(name: str) -> Target:
    """The architecture called `name`. Raises TilewrightError, naming the nearest known one, where there is none."""
    if name not in BANK_TARGET_NAMES:
        # Another number is another architecture: only its suffix or its spelling can be a slip.
        digits = "".join(filter(str.isdigit, name))
        alike = [known for known in BANK_TARGET_NAMES if "".join(filter(str.isdigit, known)) == digits]
        near = get_close_matches(name, alike, n=1, cutoff=0.5)
        known = ", ".join(BANK_TARGET_NAMES)
        raise TilewrightError(
            f"unknown target {name!r}", remedy=f"did you mean {near[0]!r}?" if near else f"known targets: {known}"
        )
    table = _read(name)
    inherited = target(table.inherits).facts if table.inherits else Facts({})
    return Target(table.name, table.title, inherit(inherited, table))


def nearest_target(name: str) -> Target | None:
    """The table with whose limits text for `name` (such as `sm_103f`) is read; None where there is none.

    Of several that say so it is the one of fewest architectures. Text that names none is read as text for the oldest.
    """
    found = _ARCHITECTURE.fullmatch(name or "sm_0")
    if found is None:
        return None
    tables = [(each.architectures, each.name) for each in map(_read, TARGET_NAMES) if each.architectures is not None]
    fitting = [(last - first, name) for (first, last), name in tables if first <= int(found[1]) <= last]
    return target(min(fitting)[1]) if fitting else None


def inherit(inherited: Facts, table: TargetTable) -> Facts:
    """The facts of `table` over those `inherited`, without the groups it drops, and with others as mere estimates.

    Raises TilewrightError where a group that it names is not inherited at all: the name is then a mistake.
    """
    groups = {key.partition(".")[0] for key in inherited}
    for group in (*table.drops, *table.estimates):
        if group not in groups:
            raise TilewrightError(f"{table.name} names {group!r}, which it does not inherit")
    kept = {key: rows for key, rows in inherited.rows.items() if key.partition(".")[0] not in table.drops}
    own = dict(table.facts.rows)
    estimated = {key: table.inherits for key in kept if key.partition(".")[0] in table.estimates and key not in own}
    return Facts(kept | own, {**inherited.estimates, **estimated})


@cache
def _read(name: str) -> TargetTable:
    file = f"{name}.toml"
    table = parse_table(table_text(name), file)
    if table.name != name:
        raise TilewrightError(f"{file}: [target]: name is {table.name!r}")
    return table
