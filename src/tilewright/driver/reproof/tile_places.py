"""Does every role of the emitted text find the same place for a tile's number, and each tile's place once?

A small instance has few tiles, in one band, so that its run says little of how the text turns the numbers of the large
one's tiles into places. That is a matter of arithmetic alone: of the counter of the loop over tiles, a coordinate of a
copy is a function that is worked out here for all numbers at once, from the text that is shipped. Whatever else it
depends on (the CTA's rank, the thread) is put at 0: it displaces all tiles alike. Held against each other, copies of
all roles must move alike from tile to tile, and so must addresses of plain stores; and the numbers must meet each place
of the program's grid of tiles once.

Of a program with a run-time axis all this is asked for each number of tiles that its range has: the text is one, and
only the numbers differ that the launch passes (`base.size`). So that is shown of every extent, and that the launch
passes as many tiles and clusters as there are, and of an axis that is walked as many iterations. Of the outermost axis
of a batch the most places stand for all where nothing is taken as known that depends on how many there are, and tiles
lie in the order of these places, so that those of fewer places are the first ones; else it is asked for each number.

Not handled (nothing is asked then): coordinates that count from anything but one counter, constants and specials, or by
operations that are no integer arithmetic; what is not followed of the address of a plain store, so that the rest may
move along some axes only; copies by threads; places by groups of rows, which are data; teams, which count parts of
tiles; tiles of walks that rounds take in alternate directions; more than _MOST_TILES tiles.
Source: PTX ISA, Integer Arithmetic. Checked by: tests/driver/reproof/test_tile_places.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product as product_of
from itertools import repeat
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.base.diagnostic import Diagnostic, Repair
from tilewright.base.plan import Launch, LaunchPlan, PointerParam, ScalarParam, TensorMapParam
from tilewright.base.size import Extent, Range, Size, axes_of, ceil_div, computed, product, value_of
from tilewright.base.span import Span
from tilewright.contract.rules.text_codes import TILES_MISPLACED
from tilewright.driver.reproof.program_sums import ArrayAxes, axes_of_map, result_arrays
from tilewright.driver.reproof.small_run_time import is_of_tiles, tile_extent
from tilewright.frontends.ptx.ast import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Module,
    Operand,
    Register,
    Symbol,
    TensorAddress,
)
from tilewright.ir.cascade import CascadeDecisions
from tilewright.ir.decisions import ElementwiseDecisions, decisions_of
from tilewright.ir.tile import operations as tile
from tilewright.ir.tile.facts import grid_axes, grouping, parameter_name
from tilewright.ir.tile.types import tensor_type
from tilewright.lower.ptx.run_time import CLUSTERS, POINTS, TILES, UNITS, WALKED, count_name, extent_name, stride_name

Words: TypeAlias = "NDArray[np.uint64]"
_MOST_TILES = 1 << 17
"""More are not looked at: they would take longer than the rest of the proof."""
_MOST_TOGETHER = 1 << 17
"""Of the numbers of tiles along several run-time axes, so many are put together: it takes a second."""
_MOST_AT_RUN_TIME = 1 << 25
"""So many places are worked out, of all numbers of tiles of a range together, in some seconds."""
_MOST_JOINTLY = 1 << 12
"""Of the numbers of tiles along several run-time axes, so many are put together where places depend on all of them."""
_WORD = np.uint64(0xFFFF_FFFF)
_DISTANCES = 16
"""So many additions are followed back from a plain store to its address."""
_AT_ZERO = frozenset({
    "%tid.x", "%laneid", "%ctaid.x", "%clusterid.x", "%cluster_ctarank", "%cluster_ctaid.x", "%cluster_ctaid.y",
    "%cluster_ctaid.z",
})  # fmt: skip
_BINARY: Mapping[str, Callable[[Words, Words], Words]] = {
    "add": np.add, "sub": np.subtract, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
_COMPARISONS: Mapping[str, Callable[[Words, Words], NDArray[np.bool_]]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Value:
    """A register for every number of a tile (or one for all). counters: registers that it counts from; pointers:
    parameters that it is displaced from, which are put at 0."""

    words: Words
    counters: frozenset[str] = frozenset()
    pointers: frozenset[str] = frozenset()


_Made: TypeAlias = tuple[str, tuple[str, ...], tuple[int, ...]]
_Result: TypeAlias = "tuple[list[Words], Words | None]"
_Displaced: TypeAlias = "tuple[Words, NDArray[np.int64]]"


@dataclass(slots=True)
class _Reader:
    """Values of a kernel's registers by name, None for what is not followed. tiles: how many numbers there are;
    scalars: numbers that the launch passes, by parameter, None for one that is not followed.

    Roles find places by the same arithmetic: what is worked out is kept by what it is made of, so that the same words
    are the same array. constants: by number; made: by operation and identities of its operands, which are kept beside;
    moved: by identity of what is displaced, and whether it has a sign."""

    kernel: Kernel
    tiles: int
    scalars: Mapping[str, int | None]
    written: dict[str, list[Instruction]] = field(default_factory=dict[str, list[Instruction]])
    known: dict[str, _Value | None] = field(default_factory=dict[str, "_Value | None"])
    constants: dict[int, Words] = field(default_factory=dict[int, Words])
    made: dict[_Made, _Result] = field(default_factory=dict[_Made, "_Result"])
    moved: dict[tuple[int, bool], _Displaced] = field(default_factory=dict[tuple[int, bool], "_Displaced"])
    numbers: Words = field(init=False)

    def __post_init__(self) -> None:
        self.numbers = np.arange(self.tiles, dtype=np.uint64)
        written = self.written
        for item in self.kernel.body:
            if isinstance(item, Instruction) and item.operands:
                target = item.operands[0]
                if type(target) is Register:
                    if target.name in written:
                        written[target.name].append(item)
                    else:
                        written[target.name] = [item]

    def read(self, operand: Operand) -> _Value | None:
        """The value of an operand."""
        match operand:
            case Immediate(value):
                return _Value(self.constant(value & (1 << 64) - 1))
            case Register(name) if type(operand) is Register:
                if name not in self.known:
                    self.known[name] = None  # what goes round in a circle is not followed
                    self.known[name] = self._of_register(name)
                return self.known[name]
            case _:
                return None

    def constant(self, value: int) -> Words:
        """A number as words."""
        if value not in self.constants:
            self.constants[value] = np.array([value], np.uint64)
        return self.constants[value]

    def from_first(self, value: _Value, *, signed: bool) -> NDArray[np.int64]:
        """How far a value is from the first tile's, for each. signed: it is one of 32 bits with a sign."""
        key = (id(value.words), signed)
        if key not in self.moved:
            words = _extended(value.words) if signed else value.words
            self.moved[key] = value.words, np.broadcast_to((words - words[0]).view(np.int64), (self.tiles,))
        return self.moved[key][1]

    def pointer(self, register: Register) -> _Value | None:
        """The address that a register is, or the one that it is so far from as is not followed; None if there is not
        one."""
        for _ in range(_DISTANCES):
            value = self.read(register)
            if value is not None:
                return value if value.pointers else None
            places = self.written.get(register.name, [])
            if len(places) != 1 or places[0].row not in ("add", "mad"):
                return None
            base = places[0].operands[-1]
            if not isinstance(base, Register):
                return None
            register = base
        return None

    def _of_register(self, name: str) -> _Value | None:
        if name in _AT_ZERO:
            return _Value(self.constant(0))
        places = self.written.get(name, [])
        if len(places) == 1:
            return self._of_instruction(places[0])
        if any(_counts(item, name) for item in places):
            return _Value(self.numbers, frozenset({name}))
        return None

    def _of_instruction(self, item: Instruction) -> _Value | None:
        if item.guard is not None:
            return None
        if item.row == "ld" and "param" in item.modifiers and isinstance(item.operands[1], Address):
            base = item.operands[1].base
            if base is not None and base.name in self.scalars:
                passed = self.scalars[base.name]
                return None if passed is None else _Value(self.constant(passed % (1 << 32)))
            return _Value(self.constant(0), pointers=frozenset({base.name})) if base is not None else None
        read = item.operands[1:2] if item.row == "shfl.sync" else item.operands[1:]
        found: list[_Value] = []
        for operand in read:
            value = self.read(operand)
            if value is None:
                return None
            found.append(value)
        sources = [each.words for each in found]
        made = (item.row, item.modifiers, tuple(map(id, sources)))
        if made not in self.made:
            self.made[made] = sources, _computed(item, sources)
        words = self.made[made][1]
        if words is None:
            return None
        counters = frozenset[str]().union(*(each.counters for each in found))
        pointers = frozenset[str]().union(*(each.pointers for each in found))
        return _Value(words, counters, pointers)


def _counts(item: Instruction, name: str) -> bool:
    """Does an instruction count a register on, or off?"""
    operands = item.operands
    return (
        item.row in ("add", "sub")
        and len(operands) == 3
        and isinstance(operands[1], Register)
        and operands[1].name == name
    )


def _computed(item: Instruction, found: Sequence[Words]) -> Words | None:
    """What an instruction makes of its operands; None where it is not followed."""
    kind = item.modifiers[-1] if item.modifiers else ""
    wide = "wide" in item.modifiers
    match item.row, found:
        case (("mov" | "shfl.sync" | "cvta"), [only]):
            return only
        case "setp", [one, other]:
            compare = _COMPARISONS.get(item.modifiers[0])
            if compare is None or len(item.modifiers) != 2 or kind not in ("u32", "s32", "b32"):
                return None
            if kind == "s32":
                one, other = one ^ np.uint64(1 << 31), other ^ np.uint64(1 << 31)
            return compare(one & _WORD, other & _WORD).astype(np.uint64)
        case "selp", [one, other, choice]:
            return np.where(choice != 0, one, other)
        case (("mul" | "mad"), [one, other, *third]) if wide and kind in ("s32", "u32"):
            if kind == "s32":
                one, other = _extended(one), _extended(other)
            return one * other + third[0] if third else one * other
        case (("mul" | "mad"), [one, other, *third]) if kind in ("u32", "s32", "b32"):
            if "hi" in item.modifiers:
                return ((one & _WORD) * (other & _WORD)) >> np.uint64(32) if kind == "u32" and not third else None
            return (one * other + third[0] if third else one * other) & _WORD
        case (("div" | "rem"), [one, other]) if kind == "u32" and bool(np.all(other & _WORD)):
            one, other = one & _WORD, other & _WORD
            return one // other if item.row == "div" else one % other
        case "cvt", [only] if item.modifiers in (("u64", "u32"), ("s64", "s32")):
            return _extended(only) if kind == "s32" else only & _WORD
        case (("add" | "sub"), [one, other]) if kind in ("u64", "s64"):
            return _BINARY[item.row](one, other)
        case (("shl" | "shr"), [one, count]) if kind in ("b32", "u32") and bool(np.all(count < 32)):
            return (one << count) & _WORD if item.row == "shl" else (one & _WORD) >> count
        case (("and" | "or" | "xor"), [one, other]) if kind == "pred":
            return _BINARY[item.row](one, other)
        case _, [one, other] if item.row in _BINARY and kind in ("u32", "b32", "s32") and len(item.modifiers) == 1:
            if kind == "s32" and item.row in ("min", "max"):
                return None
            return _BINARY[item.row](one & _WORD, other & _WORD) & _WORD
        case _:
            return None


def _extended(words: Words) -> Words:
    """Words of 32 bits with their sign, in 64."""
    return (words & _WORD).astype(np.uint32).view(np.int32).astype(np.int64).view(np.uint64)


# ---------------------------------------------------------------- places


@dataclass(frozen=True, slots=True)
class _Moved:
    """How far from the first tile's place an instruction's place is, by axis; or, of a plain store, its address."""

    span: Span
    by_axis: Mapping[str, NDArray[np.int64]]
    result: ArrayAxes | None = None
    address: NDArray[np.int64] | None = None


def misplaced_tiles(
    large: Module, program: tile.ProgramOp, launch: Launch, arrays: Mapping[str, ArrayAxes]
) -> tuple[Diagnostic, ...]:
    """Findings in how the text of a decided program finds places of tiles. launch, arrays: of its small instance, whose
    parameters are the same ones."""
    steps = _steps_of(program)
    kernel = next((each for each in large.kernels if each.name == launch.entry), None)
    if steps is None or kernel is None:
        return ()
    counts = {axis: -(-program.extents[axis] // step) for axis, step in steps.items()}
    if not 1 < math.prod(counts.values()) <= _MOST_TILES:
        return ()
    found = _misplaced(kernel, result_arrays(program), launch, arrays, steps, counts, {})
    return () if isinstance(found, str) else found


def misplaced_at_run_time(
    large: Module, program: tile.ProgramOp, plan: LaunchPlan, launch: Launch, arrays: Mapping[str, ArrayAxes]
) -> tuple[Diagnostic, ...] | str:
    """The same of a program with run-time axes, for every number of tiles that their ranges have: of an axis of the
    grid where they lie, of one that is walked how many the launch passes. plan: of the program, which says what the
    launch passes. A text, why that is not known: a range has too many, or not all of a place is followed."""
    grouped = grouping(program) is not None
    steps = {} if grouped else _steps_of(program)
    kernel = next((each for each in large.kernels if each.name == launch.entry), None)
    if steps is None or kernel is None or plan.run_time is None:
        return f"where tiles lie along {', '.join(program.run_time)} is not known of this kind of program"
    entries = [each.entry for each in plan.launches]
    sizes = plan.run_time.launches[entries.index(launch.entry)]
    passed = {
        parameter.name: one[0]
        for parameter, param, one in zip(kernel.parameters, launch.params, sizes.params, strict=True)
        if isinstance(param, ScalarParam) and one
    }
    if unlike := _other_maps(program, launch, sizes.params):
        return _misread(unlike)
    counted = _Counted(passed, sizes.grid, math.prod(launch.cluster))
    several = [axis for axis in steps if axis in program.run_time]
    # The tiles of fewer places along a batch's outermost axis are the first of all that there may be.
    outer = next((axis for axis in several if steps[axis] == 1), "")
    for axis, size in program.sizes.items():
        named = passed.get(f"size_{extent_name(size)}", size)
        if named != size:
            return _misread(f"a launch passes {named} as the extent of {axis}")
    for stride in {each for argument in program.body.block.args for each in tensor_type(argument).stride_sizes}:
        named = passed.get(f"size_{stride_name(stride)}", stride)
        if named != stride:
            return _misread(f"a launch passes {named} as a stride, which is {stride}")
    if unlike := _other_units(program, passed.get(f"size_{UNITS}")):
        return _misread(unlike)
    if grouped:
        # Where tiles lie follows from the array of limits, which clamps to the extent, at any extent alike.
        strides = {each for argument in program.body.block.args for each in tensor_type(argument).stride_sizes}
        known = {*map(extent_name, program.sizes.values()), *map(stride_name, strides)}
        others = [name for name in passed if name.removeprefix("size_") not in known]
        sized = others or not all(isinstance(each, int) for each in sizes.grid)
        return f"what a launch passes to tiles of groups, {', '.join(others)}, is not known" if sized else ()
    for axis in program.run_time.keys() & {_walked_axis(program)}:
        count, size = passed.get(f"size_{count_name(WALKED)}"), tile_extent(program, axis)
        if found := _miscounted_walk(count, axis, program.run_time[axis], size):
            return found
    alone = [axis for axis in several if axis != outer]
    found = _misplaced_along(kernel, program, counted, launch, arrays, steps, alone, outer) if several else ()
    if outer and isinstance(found, str):
        # Where tiles lie depends on how many places there are: each number is asked for, with each of tiles.
        outer, found = "", _misplaced_along(kernel, program, counted, launch, arrays, steps, several, "")
    if found:
        return found
    if outer and (found := _miscounted_together(program, counted, steps, several)):
        return found
    if not steps.keys() & program.run_time.keys():
        counts = {name: -(-program.extents[name] // step) for name, step in steps.items()}
        if 1 < math.prod(counts.values()) <= _MOST_TILES:
            return _misplaced(kernel, result_arrays(program), launch, arrays, steps, counts, dict.fromkeys(passed))
    return ()


def _walked_axis(program: tile.ProgramOp) -> str:
    decisions = decisions_of(program.attributes["decisions"])
    return decisions.streamed if isinstance(decisions, CascadeDecisions) else ""


def _other_maps(program: tile.ProgramOp, launch: Launch, sizes: Sequence[tuple[Size, ...]]) -> str:
    """In words, a tensor map that a launch encodes of other extents, or of other strides, than its array has; empty
    where there is none. sizes: of each parameter, as `LaunchSizes` has them."""
    apart, along = dict[str, set[Size]](), dict[str, set[Size]]()
    for argument in program.body.block.args:
        kind = tensor_type(argument)
        sizes_along = {program.sizes[axis] for axis in kind.axis_names}
        along[parameter_name(program, argument)] = {each for each in sizes_along if not isinstance(each, int)}
        apart[parameter_name(program, argument)] = {
            computed("*", each, kind.element_kind.bytes) for each in kind.stride_sizes if not isinstance(each, int)
        }
    for param, found in zip(launch.params, sizes, strict=True):
        if isinstance(param, TensorMapParam):
            rank = len(param.map.dims)
            parts = found[:rank], found[rank:]
            extents, strides = ({each for each in part if not isinstance(each, int)} for part in parts)
            if extents != along.get(param.buffer, set()) or strides != apart.get(param.buffer, set()):
                words = ", ".join(map(str, found))
                return f"a launch encodes a tensor map of {param.buffer} with {words}"
    return ""


def _other_units(program: tile.ProgramOp, passed: Size | None) -> str:
    """In words, another number of units than have rows, as a launch passes it; empty where it is that or none."""
    decisions = decisions_of(program.attributes["decisions"])
    if passed is None or not isinstance(decisions, CascadeDecisions):
        return ""
    right = ceil_div(Extent(decisions.row), decisions.unit_rows)
    return "" if passed == right else f"a launch passes {passed} as the units that have rows, which are {right}"


def _misplaced_along(
    kernel: Kernel, program: tile.ProgramOp, counted: _Counted, launch: Launch, arrays: Mapping[str, ArrayAxes],
    steps: Mapping[str, int], axes: Sequence[str], outer: str,
) -> tuple[Diagnostic, ...] | str:  # fmt: skip
    """For all numbers of tiles that these axes of the grid have together. outer: one more, fewer places of which are to
    be the first ones, so that the most stand for all; "" where there is none."""
    sizes = {axis: tile_extent(program, axis) for axis in axes}
    listed = [_largest_extents(program.run_time[axis], size).values() for axis, size in sizes.items()]
    fixed = {name: -(-program.extents[name] // step) for name, step in steps.items() if name not in axes}
    along = [sum(-(-extent // steps[axis]) for extent in each) for axis, each in zip(axes, listed, strict=True)]
    many, times = math.prod((*along, *fixed.values())), math.prod(map(len, listed))
    if many > _MOST_AT_RUN_TIME or (len(axes) > 1 and times > _MOST_JOINTLY):
        words = " and ".join(f"{axis} of {program.run_time[axis]}" for axis in axes)
        return f"for {words}, {many} places of tiles would have to be worked out, {times} times"
    kinds = {parameter_name(program, each): tensor_type(each) for each in program.body.block.args}
    # Strides count at one extent of each number of tiles: places are proportional to them.
    apart = {f"size_{stride_name(stride)}" for kind in kinds.values() for stride in kind.stride_sizes}
    for numbers in product_of(*listed):
        extents = _most(program) | dict(zip(axes, numbers, strict=True))
        results = {
            name: replace(each, strides=tuple(value_of(stride, extents) for stride in kinds[name].stride_sizes))
            for name, each in result_arrays(program).items()
        }
        scalars = {
            name: value_of(one, extents)
            if axes_of(one) <= {*axes} and (name in apart or all(map(is_of_tiles, repeat(one), sizes, sizes.values())))
            else None
            for name, one in counted.passed.items()
        }
        counts = fixed | {axis: -(-extents[axis] // steps[axis]) for axis in axes}
        found = _misplaced(kernel, results, launch, arrays, steps, counts, scalars, outer)
        found = found or counted.misread(extents, math.prod(counts.values()))
        if found:
            return found
    return ()


def _miscounted_together(
    program: tile.ProgramOp, counted: _Counted, steps: Mapping[str, int], several: Sequence[str]
) -> tuple[Diagnostic, ...] | str:
    """Does a launch pass as many tiles as there are, for all numbers of tiles that several axes have together?"""
    listed = [_largest_extents(program.run_time[axis], tile_extent(program, axis)).values() for axis in several]
    if math.prod(map(len, listed)) > _MOST_TOGETHER:
        return f"how many tiles there are for all of {' and '.join(several)} would take long to count"
    for extents in product_of(*listed):
        at = dict(zip(several, extents, strict=True))
        tiles = math.prod(-(-at.get(axis, program.extents[axis]) // step) for axis, step in steps.items())
        if found := counted.misread({**_most(program), **at}, tiles):
            return found
    return ()


def _most(program: tile.ProgramOp) -> dict[str, int]:
    """The largest extent of each run-time axis."""
    return {axis: values.most for axis, values in program.run_time.items()}


def _largest_extents(values: Range, size: int) -> dict[int, int]:
    """Of each number of tiles of so many elements, the largest extent."""
    return {-(-extent // size): extent for extent in values.launched}


def _miscounted_walk(passed: Size | None, axis: str, values: Range, size: int) -> tuple[Diagnostic, ...] | str:
    """Does a launch pass as many iterations as a walk along the axis has tiles, at every extent? passed: how that is
    computed; None where it is one number at all of them, which stands in the text."""
    if passed is None:
        return ()
    if not is_of_tiles(passed, axis, size):
        return f"how many iterations the walk of {axis} has, {passed}, is not known to be a number of its tiles"
    for number, extent in _largest_extents(values, size).items():
        if (found := value_of(passed, {axis: extent})) != number:
            return _misread(f"a launch at {axis} = {extent} passes {found} tiles to walk, of which there are {number}")
    return ()


@dataclass(frozen=True, slots=True)
class _Counted:
    """What a launch passes, by parameter; its grid, and CTAs of a cluster."""

    passed: Mapping[str, Size]
    grid: Sequence[Size]
    cluster_ctas: int

    def misread(self, extents: Mapping[str, int], tiles: int) -> tuple[Diagnostic, ...]:
        """Does a launch at these extents pass as many tiles as there are, and as many clusters as its grid has? That
        the text counts tiles by the one and steps by the other is shown by its runs at small sizes."""
        clusters = math.prod(value_of(each, extents) for each in self.grid) // self.cluster_ctas
        for name, right in ((f"size_{TILES}", tiles), (f"size_{CLUSTERS}", clusters)):
            given = value_of(self.passed.get(name, right), extents)
            if given != right:
                at = ", ".join(f"{axis} = {extent}" for axis, extent in extents.items())
                return _misread(f"a launch at {at} passes {given} as {name}, which is {right}")
        return ()


def _misread(message: str) -> tuple[Diagnostic, ...]:
    """A finding of what a launch passes."""
    return (Diagnostic(TILES_MISPLACED.code, TILES_MISPLACED.name, message, source=TILES_MISPLACED.source),)


def miscounted_points(large: Module, program: tile.ProgramOp, plan: LaunchPlan) -> tuple[Diagnostic, ...]:
    """Does the launch of a program of points, or of rows, pass as many as there are, at every extent, and the extents
    and strides that arrays have? Its plan has to compute these, by their form."""
    decisions = decisions_of(program.attributes["decisions"])
    if not isinstance(decisions, ElementwiseDecisions) or plan.run_time is None:
        return ()
    folded = {row.axis for row in decisions.rows}
    points = product(program.sizes[axis] for axis in grid_axes(program) if axis not in folded)
    right: dict[str, Size] = {POINTS: points}
    for argument in program.body.block.args:
        kind = tensor_type(argument)
        right |= {extent_name(size): size for size in map(program.sizes.__getitem__, kind.axis_names)}
        right |= {stride_name(size): size for size in kind.stride_sizes}
    for kernel, sizes in zip(large.kernels, plan.run_time.launches, strict=True):
        for parameter, passed in zip(kernel.parameters, sizes.params, strict=True):
            wanted = right.get(parameter.name.removeprefix("size_"))
            if passed and parameter.name.startswith("size_") and passed != (wanted,):
                return _misread(f"a launch passes {passed[0]} as {parameter.name}, which is {wanted}")
    return ()


def _steps_of(program: tile.ProgramOp) -> dict[str, int] | None:
    """How far apart clusters' tiles are along each axis of the grid; None where that is not asked."""
    d = decisions_of(program.attributes["decisions"])
    match d:
        case CascadeDecisions() if not (d.together and not program.run_time) and not d.grouping and d.teams == 1:
            across = {d.column: d.column_step * d.cluster[1]} if d.column else {}
            return {d.row: d.row_step * d.cluster[0], **across, **dict.fromkeys(d.batch, 1)}
        case _:
            return None


def _misplaced(
    kernel: Kernel, results: Mapping[str, ArrayAxes], launch: Launch, arrays: Mapping[str, ArrayAxes],
    steps: Mapping[str, int], counts: Mapping[str, int], scalars: Mapping[str, int | None], outer: str = "",
) -> tuple[Diagnostic, ...] | str:  # fmt: skip
    """Of so many tiles along each axis. results: the program's; scalars: what the launch passes then; outer: an axis
    along which tiles must lie in order, if there is one. A text, which part of a place is not followed."""
    tiles = math.prod(counts.values())
    if tiles == 1:
        return ()
    found = _moves(kernel, launch, arrays, results, tiles, frozenset(steps), scalars)
    reference: dict[str, NDArray[np.int64]] = {}
    for each in found:
        for axis, moved in each.by_axis.items():
            known = reference.setdefault(axis, moved)
            if known is not moved and bool(np.any(known != moved)):
                number = int(np.argmax(known != moved))
                return (_finding(each.span, f"tile {number} lies {_differs(axis, moved, known, number)}"),)
    right: set[tuple[int, int]] = set()
    for each in found:
        if each.address is not None and each.result is not None and reference.keys() >= steps.keys():
            if (same := (id(each.address), id(each.result))) in right:
                continue  # another store whose address is made the same way
            right.add(same)
            # Part of the place may stand in what is not followed of the address.
            wanted = _sums(each.result, reference, tiles)
            if not any(np.array_equal(one, each.address) for one in wanted):
                number = int(np.argmax(wanted[-1] != each.address))
                return (
                    _finding(
                        each.span,
                        f"tile {number} is stored {int(each.address[number])} bytes behind tile 0, and lies "
                        f"{int(wanted[-1][number])} behind",
                    ),
                )
    if missing := [axis for axis in steps if axis not in reference and counts[axis] > 1]:
        return f"where tiles lie along {', '.join(missing)} is not followed"
    if outer in reference and bool(np.any(np.diff(reference[outer]) < 0)):
        return f"tiles of fewer places along {outer} are not the first ones"
    known = {axis: step for axis, step in steps.items() if axis in reference}
    return _met_once(reference, known, {axis: counts[axis] for axis in known}, found[0].span)


def _differs(axis: str, moved: NDArray[np.int64], known: NDArray[np.int64], number: int) -> str:
    return f"{int(moved[number])} along {axis} from tile 0 here, and {int(known[number])} elsewhere"


def _met_once(
    places: Mapping[str, NDArray[np.int64]], steps: Mapping[str, int], counts: Mapping[str, int], span: Span
) -> tuple[Diagnostic, ...]:
    """Are these the places of the grid's tiles, each once?"""
    index = np.zeros(1, np.int64)
    for axis, step in steps.items():
        number, rest = np.divmod(places[axis] - places[axis].min(), step)
        if bool(np.any(rest)) or int(number.max()) >= counts[axis]:
            return (_finding(span, f"places along {axis} are not those of {counts[axis]} tiles of {step}"),)
        index = index * counts[axis] + number
    met = np.bincount(index, minlength=math.prod(counts.values()))
    if bool(np.any(met != 1)):
        return (_finding(span, f"{int(np.sum(met == 0))} of {met.size} tiles have no number"),)
    return ()


def _finding(span: Span, message: str) -> Diagnostic:
    rule = TILES_MISPLACED
    return Diagnostic(rule.code, rule.name, message, primary=span, source=rule.source, repair=Repair(rule.remedy))


def _sums(result: ArrayAxes, places: Mapping[str, NDArray[np.int64]], tiles: int) -> list[NDArray[np.int64]]:
    """Bytes from the first tile's place in an array to each one's, along any of its axes, last along all of them."""
    found = [np.zeros(tiles, np.int64)]
    for name, stride in zip(result.names, result.strides, strict=True):
        if name in places:
            found += [each + places[name] * (stride * result.element_bytes) for each in found]
    return found[1:]


def _moves(
    kernel: Kernel, launch: Launch, arrays: Mapping[str, ArrayAxes], results: Mapping[str, ArrayAxes], tiles: int,
    axes: frozenset[str], scalars: Mapping[str, int | None],
) -> list[_Moved]:  # fmt: skip
    reader = _Reader(kernel, tiles, scalars)
    parameters = {each.name: param for each, param in zip(kernel.parameters, launch.params, strict=True)}
    found: list[_Moved] = []
    for item in kernel.body:
        if not isinstance(item, Instruction):
            continue
        if item.row == "cp.async.bulk.tensor":
            moved = _of_copy(item, reader, parameters, arrays, axes)
        elif item.row == "st" and "global" in item.modifiers:
            moved = _of_store(item, reader, parameters, results)
        else:
            continue
        if moved is not None:
            found.append(moved)
    return found


def _of_copy(
    item: Instruction, reader: _Reader, parameters: Mapping[str, object], arrays: Mapping[str, ArrayAxes],
    axes: frozenset[str],
) -> _Moved | None:  # fmt: skip
    """Where a tensor copy's box lies for each tile."""
    tensor = next((each for each in item.operands if isinstance(each, TensorAddress)), None)
    param = parameters.get(_parameter(tensor.base.base, reader)) if tensor is not None else None
    if tensor is None or not isinstance(param, TensorMapParam) or param.buffer not in arrays:
        return None
    dimensions = axes_of_map(arrays[param.buffer], param.map)
    if dimensions is None or any(each.span for each in dimensions):
        return None
    found: dict[str, NDArray[np.int64]] = {}
    counters: frozenset[str] = frozenset()
    for each in dimensions:
        if each.axis not in axes:
            continue
        value = reader.read(tensor.coordinates[each.dimension])
        if value is None or value.pointers:
            return None
        counters |= value.counters
        found[each.axis] = reader.from_first(value, signed=True)
    return _Moved(item.span, found) if len(counters) <= 1 else None


def _of_store(
    item: Instruction, reader: _Reader, parameters: Mapping[str, object], results: Mapping[str, ArrayAxes]
) -> _Moved | None:
    """Where a plain store to a result writes for each tile, as far as its address is followed."""
    target = item.operands[0]
    value = reader.pointer(target.base) if isinstance(target, Address) and isinstance(target.base, Register) else None
    if value is None or len(value.pointers) != 1 or len(value.counters) != 1:
        return None
    param = parameters.get(next(iter(value.pointers)))
    result = results.get(param.buffer) if isinstance(param, PointerParam) else None
    return None if result is None else _Moved(item.span, {}, result, reader.from_first(value, signed=False))


def _parameter(base: object, reader: _Reader) -> str:
    """The parameter whose address a register holds; "" for another."""
    while isinstance(base, Register):
        places = reader.written.get(base.name, [])
        if len(places) != 1 or places[0].row not in ("mov", "cvta") or places[0].guard is not None:
            return ""
        base = places[0].operands[1]
    return base.name if isinstance(base, Symbol) else ""
