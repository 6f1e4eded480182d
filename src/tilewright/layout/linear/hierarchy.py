"""Where does what each level of a machine holds stand in a tile: maps with one index for each named level?

Theory: a level, such as "register", "lane", "warp" or "cta", has an index of any size, read as mixed-radix digits, its
modes, the first mode fastest. Each step of a mode moves the element by fixed distances along the named outputs, such as
"row" and "column"; the moves of all modes of all levels add up. That is CuTe's shape:stride layout with the levels kept
apart and several coordinates at once. It takes sizes that are no power of two and offsets, as `layout.linear.maps` does
not.

Moves that never carry into each other's bits make addition XOR: exactly then, and with power-of-two extents, a
hierarchy is a linear layout (`linear_of`), and exactly then a linear layout is a hierarchy (`hierarchy_of`).

Level names are the caller's words; nothing here knows a machine.

Not handled: swizzles on sizes that are no power of two; levels whose map depends on an outer index in another way than
by addition. Checked by tests/layout/linear/test_hierarchy.py against enumeration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from tilewright.base.error import TilewrightError
from tilewright.base.value import value
from tilewright.layout.answer import NotExpressible
from tilewright.layout.linear.maps import LinearLayout, by_bit, pack, unpack

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_PLACES = 1 << 26
"""Places that `coordinates` enumerates; above it raises."""


@value
class Mode:
    """One digit of a level's index. extent: its values, at least 1; steps: what one step adds to each output."""

    extent: int
    steps: tuple[int, ...]


@value
class Level:
    """One named index and its digits, the fastest first; none: one place."""

    name: str
    modes: tuple[Mode, ...]

    @property
    def size(self) -> int:
        """Values of the index."""
        return prod(mode.extent for mode in self.modes)


@value
class Hierarchy:
    """A map from the indices of named levels to named outputs.

    levels: the innermost first; outputs: name and size of each, sizes of any value; offsets: the image of the origin,
    one for each output, or empty for 0. Raises TilewrightError where a name comes twice, an extent is below 1, or an
    image leaves 0 .. size - 1.
    """

    levels: tuple[Level, ...]
    outputs: tuple[tuple[str, int], ...]
    offsets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.outputs)
        for names in ([each.name for each in self.levels], [name for name, _ in self.outputs]):
            if len(set(names)) != len(names):
                raise TilewrightError(f"hierarchy: a name comes twice in {names}")
        if not self.offsets:
            object.__setattr__(self, "offsets", (0,) * count)
        modes = [mode for level in self.levels for mode in level.modes]
        if len(self.offsets) != count or any(len(mode.steps) != count for mode in modes):
            raise TilewrightError(f"hierarchy: each mode and the offsets say {count} numbers, one for each output")
        if any(mode.extent < 1 for mode in modes):
            raise TilewrightError("hierarchy: an extent is below 1")
        for place, (name, size) in enumerate(self.outputs):
            moves = [(mode.extent - 1) * mode.steps[place] for mode in modes]
            least = self.offsets[place] + sum(min(0, each) for each in moves)
            most = self.offsets[place] + sum(max(0, each) for each in moves)
            if least < 0 or most >= size:
                raise TilewrightError(f"hierarchy: {name} goes from {least} to {most}, of 0 to {size - 1}")

    @property
    def input_sizes(self) -> dict[str, int]:
        """Values of each level's index."""
        return {level.name: level.size for level in self.levels}

    @property
    def output_sizes(self) -> dict[str, int]:
        """Values of each output, reached or not."""
        return dict(self.outputs)

    @property
    def size(self) -> int:
        """Places of all levels together."""
        return prod(level.size for level in self.levels)

    def __call__(self, **places: int) -> dict[str, int]:
        """The image of one place, every level by name. Raises TilewrightError for others."""
        if sorted(places) != sorted(self.input_sizes):
            raise TilewrightError(f"hierarchy: levels are {list(self.input_sizes)}, not {list(places)}")
        found = list(self.offsets)
        for level in self.levels:
            index = places[level.name]
            if not 0 <= index < level.size:
                raise TilewrightError(f"hierarchy: {level.name} is 0 to {level.size - 1}, not {index}")
            for mode in level.modes:
                index, digit = divmod(index, mode.extent)
                for place, step in enumerate(mode.steps):
                    found[place] += digit * step
        return {name: value for (name, _), value in zip(self.outputs, found, strict=True)}

    def __str__(self) -> str:
        lines = [f"{level.name}: {_level_text(level, self.outputs)}" for level in self.levels]
        at = ", ".join(f"{name} ({size})" for name, size in self.outputs)
        start = f" from {self.offsets}" if any(self.offsets) else ""
        return "\n".join([*lines, f"to {at}{start}"])


def hierarchy(levels: Mapping[str, Sequence[tuple[int, Mapping[str, int]]]], outputs: Mapping[str, int]) -> Hierarchy:
    """The map with the given digits: by level, the innermost first, pairs of an extent and what a step adds, by output
    name. Raises TilewrightError."""
    names = list(outputs)
    for modes in levels.values():
        for _, steps in modes:
            strange = set(steps) - set(names)
            if strange:
                raise TilewrightError(f"hierarchy: no output {sorted(strange)}; there are {names}")
    return Hierarchy(
        tuple(
            Level(level, tuple(Mode(extent, tuple(steps.get(name, 0) for name in names)) for extent, steps in modes))
            for level, modes in levels.items()
        ),
        tuple(outputs.items()),
    )


def coordinates(given: Hierarchy) -> dict[str, NDArray[np.int64]]:
    """Each output over all places: by output an array with one axis for each level, in order. Raises TilewrightError
    for more than `MOST_PLACES`."""
    import numpy as np

    if given.size > MOST_PLACES:
        raise TilewrightError(f"hierarchy: {given.size} places are too many to list; at most {MOST_PLACES}")
    rank = len(given.levels)
    found: dict[str, NDArray[np.int64]] = {}
    for place, (name, _) in enumerate(given.outputs):
        total = np.full((1,) * rank, given.offsets[place], np.int64)
        for axis, level in enumerate(given.levels):
            index = np.arange(level.size, dtype=np.int64)
            moved = np.zeros_like(index)
            for mode in level.modes:
                moved += index % mode.extent * mode.steps[place]
                index //= mode.extent
            total = total + moved.reshape([-1 if each == axis else 1 for each in range(rank)])
        found[name] = np.ascontiguousarray(total)
    return found


def linear_of(given: Hierarchy) -> LinearLayout | NotExpressible:
    """The same map as a linear layout. Domain: power-of-two extents and outputs, offset 0, and no two moves by powers
    of two that share a bit of an output; then, and only then, the map is linear."""
    if any(given.offsets):
        return NotExpressible(f"the origin goes to {given.offsets}, and a linear map sends it to 0")
    for name, size in given.outputs:
        if size & size - 1:
            return NotExpressible(f"{name} has {size} places, no power of two")
    output_bits = tuple((name, size.bit_length() - 1) for name, size in given.outputs)
    input_bits: list[tuple[str, int]] = []
    columns: list[int] = []
    taken = [0] * len(output_bits)
    for level in given.levels:
        before = len(columns)
        for mode in level.modes:
            if mode.extent & mode.extent - 1:
                return NotExpressible(f"{level.name} has a digit of {mode.extent} values, no power of two")
            for bit in range(mode.extent.bit_length() - 1):
                moves = [step << bit for step in mode.steps]
                for place, move in enumerate(moves):
                    if move < 0 or move & taken[place]:
                        name = output_bits[place][0]
                        return NotExpressible(f"moves of {level.name} carry into others along {name}: + is not XOR")
                    taken[place] |= move
                columns.append(pack(moves, output_bits))
        input_bits.append((level.name, len(columns) - before))
    return LinearLayout(tuple(input_bits), output_bits, tuple(columns))


def hierarchy_of(layout: LinearLayout) -> Hierarchy | NotExpressible:
    """The same map by addition, with the fewest digits. Domain: no two bases that share a bit of an output."""
    taken = 0
    for (name, bit), column in zip(by_bit(layout.input_bits), layout.columns, strict=True):
        if column & taken:
            return NotExpressible(f"{name} = {1 << bit} shares output bits with another base: XOR is not +")
        taken |= column
    levels: list[Level] = []
    start = 0
    for name, bits in layout.input_bits:
        modes: list[Mode] = []
        for column in layout.columns[start : start + bits]:
            steps = unpack(column, layout.output_bits)
            last = modes[-1] if modes else None
            if last is not None and steps == tuple(step * last.extent for step in last.steps):
                modes[-1] = Mode(2 * last.extent, last.steps)
            else:
                modes.append(Mode(2, steps))
        levels.append(Level(name, tuple(modes)))
        start += bits
    return Hierarchy(tuple(levels), tuple(layout.output_sizes.items()))


def _level_text(level: Level, outputs: Sequence[tuple[str, int]]) -> str:
    parts: list[str] = []
    for mode in level.modes:
        steps = " ".join(f"{name} {step:+d}" for (name, _), step in zip(outputs, mode.steps, strict=True) if step)
        parts.append(f"{mode.extent} x ({steps or 'same'})")
    return ", ".join(parts) or "one place"
