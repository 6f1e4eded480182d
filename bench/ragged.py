"""How many lanes do nothing in a transpose and a row reduction of odd extents: ragged layouts against padded ones?

The ragged plans are `layout.pieces.piecewise` maps. A transpose takes tiles of 32 x 32 through shared memory; what is
left at the right, at the bottom and in the corner are tiles of their own sizes, whose elements are numbered along rows
to be loaded and along columns to be stored: lane and line to number (`blocked`), number to row and column (the inverse
of `digits`). A row reduction takes whole runs of 32 columns, a row at a time, then the columns left over with a row for
each lane. Nothing is padded; a lane is masked only where a tile's last line, or the last group of rows, is not full.

Beside them: tiles of 32 x 32 under masks, and extents rounded up to powers of two. Both kernels are written as PTX too,
the transpose straight from its pieces, and run on the machine (`--run`, for extents up to 300).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.record import write
from tilewright.base.plan import Launch, PointerParam
from tilewright.frontends.ptx.reader import read
from tilewright.layout.answer import expect
from tilewright.layout.pieces import piecewise as pw
from tilewright.layout.pieces.algebra import compose, inverse
from tilewright.layout.pieces.piecewise import Piecewise
from tilewright.machine.core.run import run_launch

LANES = 32
EXTENTS = ((100, 257), (257, 100), (100, 1000), (1000, 257), (1000, 1000), (37, 41), (128, 512))
_PITCH_BYTES = 4 * (LANES + 1)
_HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"


@dataclass(frozen=True)
class Region:
    """Tiles of one size. origin: of the first; tiles: how many down and across; load, store: (lane, line) to (row,
    column) in a tile."""

    origin: tuple[int, int]
    tiles: tuple[int, int]
    load: Piecewise
    store: Piecewise

    @property
    def count(self) -> int:
        return self.tiles[0] * self.tiles[1]


def numbered(rows: int, columns: int) -> Piecewise:
    """(lane, line) to (row, column): the elements of a tile, numbered along rows, 32 in a line."""
    number = pw.blocked(rows * columns, LANES)
    place = expect(inverse(pw.digits((columns, rows))))
    return expect(compose(pw.permuted((columns, rows), (1, 0)), expect(compose(place, number))))


def tile_maps(rows: int, columns: int) -> tuple[Piecewise, Piecewise]:
    """How a tile is loaded, along rows, and stored, along columns."""
    turned = pw.permuted((columns, rows), (1, 0))
    return numbered(rows, columns), expect(compose(turned, numbered(columns, rows)))


def transpose_regions(rows: int, columns: int) -> list[Region]:
    """Tiles that cover the array exactly."""
    found: list[Region] = []
    for first_row, down, height in _runs(rows):
        for first_column, across, width in _runs(columns):
            load, store = tile_maps(height, width)
            found.append(Region((first_row, first_column), (down, across), load, store))
    return found


def masked_regions(rows: int, columns: int) -> list[Region]:
    """The same with tiles of 32 x 32 throughout, under masks: maps defined only inside the array."""
    found: list[Region] = []
    for first_row, down, height in _runs(rows):
        for first_column, across, width in _runs(columns):
            whole = pw.identity((LANES, LANES))
            inside = pw.restricted(pw.permuted(whole.extents, (1, 0)), ((0, width), (0, height)))
            turned = pw.restricted(whole, ((0, height), (0, width)))
            found.append(Region((first_row, first_column), (down, across), inside, turned))
    return found


def _runs(extent: int) -> list[tuple[int, int, int]]:
    """(first, how many tiles, their length): whole tiles, then what is left."""
    whole, tail = divmod(extent, LANES)
    return [each for each in ((0, whole, LANES), (whole * LANES, 1, tail)) if each[1] and each[2]]


def reduction_maps(rows: int, columns: int) -> list[Piecewise]:
    """Maps to (row, column): (lane, run of columns, row), and (lane, column left over, group of rows)."""
    whole, tail = divmod(columns, LANES)
    found: list[Piecewise] = []
    if whole:
        found.append(pw.affine((LANES, whole, rows), [[0, 0, 1], [1, LANES, 0]]))
    if tail:
        groups = pw.blocked(rows, LANES)
        both = pw.product(groups, pw.window((whole * LANES,), (tail,)))
        order = pw.permuted((LANES, tail, groups.extents[1]), (0, 2, 1))
        found.append(expect(compose(both, order)))
    return found


def masked(maps: Iterable[tuple[Piecewise, int]]) -> tuple[int, int]:
    """Lane slots of maps and how often each is used: all, and those without an element."""
    slots = empty = 0
    for layout, times in maps:
        slots += layout.size * times
        empty += (layout.size - layout.defined) * times
    return slots, empty


def rounded(extent: int) -> int:
    return 1 << (extent - 1).bit_length()


def row_of(kind: str, rows: int, columns: int) -> dict[str, object]:
    """Masked lanes of the ragged, the masked and the padded plan."""
    elements = rows * columns
    if kind == "transpose":
        plans: dict[str, tuple[int, int]] = {}
        for name, regions in (("ragged", transpose_regions(rows, columns)), ("tiled", masked_regions(rows, columns))):
            plans[name] = masked((each, region.count) for region in regions for each in (region.load, region.store))
        padded = 2 * rounded(rows) * rounded(columns)
        plans["padded"] = padded, padded - 2 * elements
    else:
        plans = {"ragged": masked((each, 1) for each in reduction_maps(rows, columns))}
        across = -(-columns // LANES) * LANES
        plans["tiled"] = rows * across, rows * (across - columns)
        padded = rows * max(LANES, rounded(columns))
        plans["padded"] = padded, padded - elements
    row: dict[str, object] = {"kernel": kind, "rows": rows, "columns": columns}
    for name, (slots, empty) in plans.items():
        row |= {f"{name}_slots": slots, f"{name}_masked": empty}
    return row


# ---------------------------------------------------------------- as PTX


class Body:
    """Lines of one kernel, with fresh registers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.taken = {"r": 0, "rd": 0, "f": 0, "p": 0}

    def put(self, text: str) -> None:
        self.lines.append(f"\t{text};")

    def into(self, kind: str, opcode: str, *operands: str | int) -> str:
        self.taken[kind] += 1
        register = f"%{kind}{self.taken[kind] - 1}"
        self.put(f"{opcode} {', '.join(map(str, (register, *operands)))}")
        return register

    def kernel(self, name: str) -> str:
        types = {"r": "b32", "rd": "b64", "f": "f32", "p": "pred"}
        declared = [f"\t.reg .{types[kind]} %{kind}<{count + 1}>;" for kind, count in self.taken.items()]
        head = f".visible .entry {name}(.param .u64 in, .param .u64 out)\n.reqntid 32, 1, 1\n{{"
        return "\n".join([head, *declared, "\t.shared .align 16 .b8 tile[4224];", *self.lines, "\tret;", "}", ""])


def _moves(
    body: Body, layout: Piecewise, lane: str, move: Callable[[str, tuple[int, ...], tuple[int, ...]], None]
) -> None:
    """Call `move` for each piece of each line: with a guard (or nothing), what a lane adds to row and column, and both
    at lane 0."""
    for line in range(layout.extents[1]):
        for piece in layout.pieces:
            (low, high), (first, last) = piece.box
            if not first <= line < last:
                continue
            guard = ""
            if low > 0:
                guard = body.into("p", "setp.ge.u32", lane, low)
            if high < LANES:
                below = body.into("p", "setp.lt.u32", lane, high)
                guard = body.into("p", "and.pred", guard, below) if guard else below
            steps = tuple(row[0] for row in piece.matrix)
            at = tuple(row[1] * line + offset for row, offset in zip(piece.matrix, piece.offsets, strict=True))
            move(f"@{guard} " if guard else "", steps, at)


def transpose_kernel(name: str, region: Region, rows: int, columns: int) -> str:
    """One warp for each tile: block (across, down) loads its tile into shared memory and stores it turned."""
    body = Body()
    lane = body.into("r", "mov.u32", "%tid.x")
    tile = body.into("r", "mov.u32", "tile")
    across, down = body.into("r", "mov.u32", "%ctaid.x"), body.into("r", "mov.u32", "%ctaid.y")
    row = body.into("r", "mad.lo.u32", down, LANES, region.origin[0])
    column = body.into("r", "mad.lo.u32", across, LANES, region.origin[1])
    bases: list[str] = []
    for parameter, major, minor, pitch in (("in", row, column, columns), ("out", column, row, rows)):
        pointer = body.into("rd", "ld.param.u64", f"[{parameter}]")
        place = body.into("r", "mad.lo.u32", major, pitch, minor)
        bases.append(body.into("rd", "add.u64", pointer, body.into("rd", "mul.wide.u32", place, 4)))

    def address(base: str, step: int, at: int, wide: bool) -> str:
        if not wide:
            return f"[{body.into('r', 'mad.lo.s32', lane, step, base)}+{at}]"
        return f"[{body.into('rd', 'add.s64', base, body.into('rd', 'mul.wide.s32', lane, step))}+{at}]"

    def move(loading: bool, guard: str, steps: tuple[int, ...], at: tuple[int, ...]) -> None:
        staged = address(tile, _PITCH_BYTES * steps[0] + 4 * steps[1], _PITCH_BYTES * at[0] + 4 * at[1], False)
        major, minor, pitch = (0, 1, columns) if loading else (1, 0, rows)
        ends = (4 * (pitch * steps[major] + steps[minor]), 4 * (pitch * at[major] + at[minor]))
        outside = address(bases[0 if loading else 1], *ends, True)
        body.taken["f"] += 1
        value = f"%f{body.taken['f'] - 1}"
        body.put(f"{guard}ld.{'global' if loading else 'shared'}.f32 {value}, {outside if loading else staged}")
        body.put(f"{guard}st.{'shared' if loading else 'global'}.f32 {staged if loading else outside}, {value}")

    _moves(body, region.load, lane, partial(move, True))
    body.put("bar.sync 0")
    _moves(body, region.store, lane, partial(move, False))
    return body.kernel(name)


def run_transpose(regions: list[Region], given: NDArray[np.float32]) -> NDArray[np.float32]:
    """The transpose by the CPU machine: a launch for each region."""
    rows, columns = given.shape
    out = np.zeros(columns * rows, np.float32)
    kernels = [transpose_kernel(f"region{at}", each, rows, columns) for at, each in enumerate(regions)]
    module = read(_HEADER + "\n".join(kernels))
    for at, region in enumerate(regions):
        down, across = region.tiles
        params = (PointerParam("in"), PointerParam("out"))
        launch = Launch(f"region{at}", (across, down, 1), (LANES, 1, 1), params)
        run_launch(module, launch, {"in": given.reshape(-1).view(np.uint8), "out": out.view(np.uint8)})
    return out.reshape(columns, rows)


def reduction_kernel(rows: int, columns: int) -> str:
    """A warp for each 32 rows: their whole runs of columns one row after the other, then a row for each lane."""
    whole, tail = divmod(columns, LANES)
    body = Body()
    lane, group = body.into("r", "mov.u32", "%tid.x"), body.into("r", "mov.u32", "%ctaid.x")
    first = body.into("r", "mul.lo.u32", group, LANES)
    source, result = body.into("rd", "ld.param.u64", "[in]"), body.into("rd", "ld.param.u64", "[out]")
    total = body.into("f", "mov.f32", "0f00000000")
    for number in range(LANES if whole else 0):
        row = body.into("r", "add.u32", first, number)
        outside = body.into("p", "setp.ge.u32", row, rows)
        body.put(f"@{outside} bra rows_end")
        place = body.into("r", "mad.lo.u32", row, columns, lane)
        start = body.into("rd", "add.u64", source, body.into("rd", "mul.wide.u32", place, 4))
        part = body.into("f", "mov.f32", "0f00000000")
        for step in range(whole):
            part = body.into("f", "add.f32", part, body.into("f", "ld.global.f32", f"[{start}+{4 * LANES * step}]"))
        for distance in (16, 8, 4, 2, 1):
            word = body.into("r", "mov.b32", part)
            other = body.into("r", "shfl.sync.bfly.b32", word, distance, 31, -1)
            part = body.into("f", "add.f32", part, body.into("f", "mov.b32", other))
        mine = body.into("p", "setp.eq.u32", lane, number)
        body.put(f"selp.f32 {total}, {part}, {total}, {mine}")
    body.lines.append("rows_end:")
    row = body.into("r", "add.u32", first, lane)
    inside = body.into("p", "setp.lt.u32", row, rows)
    body.put(f"@!{inside} bra done")
    place = body.into("r", "mul.lo.u32", row, columns)
    start = body.into("rd", "add.u64", source, body.into("rd", "mul.wide.u32", place, 4))
    for step in range(tail):
        value = body.into("f", "ld.global.f32", f"[{start}+{4 * (whole * LANES + step)}]")
        body.put(f"add.f32 {total}, {total}, {value}")
    end = body.into("rd", "add.u64", result, body.into("rd", "mul.wide.u32", row, 4))
    body.put(f"st.global.f32 [{end}], {total}")
    body.lines.append("done:")
    return body.kernel("reduce")


def run_reduction(given: NDArray[np.float32]) -> NDArray[np.float32]:
    """Sums of rows by the CPU machine."""
    rows, columns = given.shape
    out = np.zeros(rows, np.float32)
    module = read(_HEADER + reduction_kernel(rows, columns))
    launch = Launch("reduce", (-(-rows // LANES), 1, 1), (LANES, 1, 1), (PointerParam("in"), PointerParam("out")))
    run_launch(module, launch, {"in": given.reshape(-1).view(np.uint8), "out": out.view(np.uint8)})
    return out


def values(rows: int, columns: int) -> NDArray[np.float32]:
    """Small whole numbers, whose sums are exact."""
    return np.random.default_rng(rows * 4099 + columns).integers(-64, 64, (rows, columns)).astype(np.float32)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", action="store_true", help="run both kernels on the CPU machine too")
    parser.add_argument("--results", type=Path, default=None, help="folder for ragged.json")


def run(given: argparse.Namespace) -> int:
    rows: list[dict[str, object]] = []
    for kind in ("transpose", "reduction"):
        for height, width in EXTENTS:
            row = row_of(kind, height, width)
            if given.run and max(height, width) <= 300:
                array = values(height, width)
                if kind == "transpose":
                    right = all(
                        np.array_equal(run_transpose(make(height, width), array), array.T)
                        for make in (transpose_regions, masked_regions)
                    )
                else:
                    right = np.array_equal(run_reduction(array), array.sum(axis=1))
                row["right_on_the_machine"] = right
            rows.append(row)
            print("  ".join(f"{name} {value}" for name, value in row.items()))
    if given.results is not None:
        print(write("ragged", rows, given.results))
    return 0 if all(row.get("right_on_the_machine", True) for row in rows) else 1
