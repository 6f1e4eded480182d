"""What is a value of a structured program, as its agents are followed: a number, a piece of memory, a wgmma in flight.

Pieces are taken of pieces, by offsets and extents in their own shapes; what is not understood raises NotFollowed, which
becomes a doubt. Checked by: tests/contract/words/test_structured_proof.py, tests/driver/check/mlir/test_check_mlir.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tilewright.contract.words.scalar import Number
from tilewright.contract.words.word import Box, Region


class NotFollowed(Exception):
    """Something at a line is not understood. Not an error of the input: a reason for doubt."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True)
class View:
    """A piece of memory as a value: region of an allocation, the shape that it is seen in, and which dimension of the
    allocation each dimension of that shape is (empty where it is seen otherwise). Of thread-level MLIR, strides: of its
    dimensions in elements, None where they are not known; base: the byte that its pointer names, without its offset."""

    region: Region
    shape: tuple[int, ...]
    element_bits: int
    axes: tuple[int, ...]
    kind: str
    strides: tuple[int, ...] | None = None
    base: int = 0

    @property
    def size_bytes(self) -> int:
        size = self.element_bits
        for extent in self.shape:
            size *= extent
        return size // 8


@dataclass(frozen=True, slots=True)
class InFlight:
    """The result of an agent's asynchronous wgmma: of which of its groups."""

    group: Number


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that no step depends on."""


OPAQUE = Opaque()
Value = Number | View | InFlight | Opaque
Environment = dict[str, Value]


def lookup(environment: Environment, name: str, line: int) -> Value:
    value = environment.get(name)
    if value is None:
        value = environment.get(f"{name}#0")
    if value is None:
        raise NotFollowed(line, f"%{name} is nowhere defined")
    return value


def bind(environment: Environment, name: str, value: Value) -> None:
    environment[name] = value


def part_of(view: View, line: int, offsets: tuple[int, ...], extents: tuple[int, ...]) -> View:
    """The part of a view that begins at `offsets` and has `extents`, in elements of the view's own shape."""
    if len(offsets) != len(view.shape) or len(extents) != len(view.shape):
        raise NotFollowed(line, "a part of memory is named by another number of dimensions than it has")
    if not view.axes:
        return View(view.region._replace(exact=False), extents, view.element_bits, (), view.kind)
    box: list[tuple[int, int]] = list(view.region.box)
    for axis, offset, extent in zip(view.axes, offsets, extents, strict=True):
        begin = box[axis][0] + offset
        box[axis] = (begin, begin + extent)
    region = view.region._replace(box=tuple(box))
    return View(region, extents, view.element_bits, view.axes, view.kind)


@lru_cache(maxsize=4096)
def indexed(view: View, line: int, index: int) -> View:
    """Slot `index` along the first dimension, which is dropped. An index outside of the shape is not followed."""
    if not view.shape or not 0 <= index < view.shape[0]:
        raise NotFollowed(line, f"index {index} is outside of a memory of shape {view.shape}")
    part = part_of(view, line, (index,) + (0,) * (len(view.shape) - 1), (1, *view.shape[1:]))
    return View(part.region, part.shape[1:], part.element_bits, part.axes[1:], part.kind)


def whole_box(shape: tuple[int, ...]) -> Box:
    """All of an allocation."""
    return tuple((0, extent) for extent in shape)
