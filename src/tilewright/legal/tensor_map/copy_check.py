"""May this one copy be made through this map? Coordinates, shared memory, mode, direction, multicast.

A legal map says nothing about one copy: the encoder never sees coordinates or shared addresses. These are the rules of
`cp.async.bulk.tensor`, `cp.reduce.async.bulk.tensor` and `cp.async.bulk.prefetch.tensor` (PTX ISA 9.7.9.27), and those
that were measured: the innermost start coordinate times the element's size is a multiple of 16 bytes, or the copy
raises an illegal instruction. An illegal map's violations come first.

Not handled: whether the buffers exist, barriers and fences (`contract`); what bytes arrive (`machine.copy_box`).
Checked by: tests/legal/tensor_map/test_copy_check.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from tilewright.base.error import TilewrightError
from tilewright.legal.argument import integer, integers, shown
from tilewright.legal.tensor_map.cautions import caution
from tilewright.legal.tensor_map.enumerations import DATA_TYPES, INTERLEAVE_NONE, PADDED_TYPES
from tilewright.legal.tensor_map.im2col_map import AnyMap, Im2colMap, Im2colWideMap
from tilewright.legal.tensor_map.legality import Legality, check
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.legal.tensor_map.violation import Violation
from tilewright.targets import Target

Direction = Literal["load", "store", "reduce", "prefetch"]
Mode = Literal["tile", "tile::gather4", "tile::scatter4", "im2col", "im2col_no_offs", "im2col::w", "im2col::w::128"]
Reduction = Literal["add", "min", "max", "inc", "dec", "and", "or", "xor"]

_COPY = "PTX ISA 9.7.9.27 (cp.async.bulk.tensor)"
_REDUCE = "PTX ISA 9.7.9.27 (cp.reduce.async.bulk.tensor): types of each operation"
_DIRECTIONS: dict[Mode, tuple[Direction, ...]] = {
    "tile": ("load", "store", "reduce", "prefetch"),
    "tile::gather4": ("load", "prefetch"),
    "tile::scatter4": ("store",),
    "im2col": ("load", "prefetch"),
    "im2col_no_offs": ("store", "reduce"),
    "im2col::w": ("load", "prefetch"),
    "im2col::w::128": ("load", "prefetch"),
}
_MAPS: dict[Mode, type] = {
    "tile": TensorMap,
    "tile::gather4": TensorMap,
    "tile::scatter4": TensorMap,
    "im2col": Im2colMap,
    "im2col_no_offs": Im2colMap,
    "im2col::w": Im2colWideMap,
    "im2col::w::128": Im2colWideMap,
}
_REDUCED: dict[Reduction, tuple[str, ...]] = {
    "add": ("u32", "i32", "u64", "f32", "f32_ftz", "f16", "bf16"),
    "min": ("u32", "i32", "u64", "i64", "f16", "bf16"),
    "max": ("u32", "i32", "u64", "i64", "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("u32", "i32", "u64", "i64"),
    "or": ("u32", "i32", "u64", "i64"),
    "xor": ("u32", "i32", "u64", "i64"),
}


_GATHER = "PTX ISA 5.5.5 (tile::gather4 and tile::scatter4 modes)"

Name = TypeVar("Name", bound=str)


@dataclass(frozen=True, slots=True)
class CopyLegality:
    """The verdict on one copy.

    map: that on its map; violations: of the map, then of the copy; warnings: of this copy alone;
    footprint_bytes, transaction_bytes: of this copy, None where the map has no meaning.
    """

    map: Legality
    violations: tuple[Violation, ...]
    warnings: tuple[Violation, ...]
    footprint_bytes: int | None
    transaction_bytes: int | None

    @property
    def legal(self) -> bool:
        return not self.violations

    @property
    def minimal_sets(self) -> tuple[tuple[Violation, ...], ...]:
        """All minimal sets of rules that exclude the copy: one for each violation, as every argument is given."""
        return tuple((violation,) for violation in self.violations)

    def __bool__(self) -> bool:
        return self.legal


@dataclass(frozen=True, slots=True)
class _Copy:
    map: AnyMap
    mode: Mode
    direction: Direction
    coordinates: tuple[int, ...] | None
    shared_address: int | None
    multicast_ctas: int
    offsets: tuple[int, ...] | None
    reduction: Reduction | None
    buffer_bytes: int | None
    legality: Legality
    target: Target

    @property
    def rows(self) -> int:
        """How many boxes one copy moves: four rows of one, or one."""
        gathers = self.mode in ("tile::gather4", "tile::scatter4")
        return self.target.limit("tensor_copy.gather_rows") if gathers else 1

    @property
    def footprint_bytes(self) -> int | None:
        single = self.legality.footprint_bytes
        return None if single is None else single * self.rows


def check_copy(
    map: AnyMap,
    mode: str | None = None,
    coords: object = None,
    shared_address: int | None = None,
    multicast_ctas: int = 1,
    direction: str = "load",
    *,
    target: str | Target,
    offsets: object = None,
    reduction: str | None = None,
    buffer_bytes: int | None = None,
    driver: object = None,
) -> CopyLegality:
    """Whether one copy through `map` is legal on `target`.

    mode: as PTX writes it, `tile` (the default for tiled maps), `tile::gather4`, `im2col` and so on; coords: start
    coordinates, innermost first, in elements (in slices where the map is interleaved; for gather4 and scatter4 the
    column and four rows), or None where they are not known; shared_address: of the destination, or of a store's source,
    in bytes; multicast_ctas: how many blocks of a cluster each load one such slice for all, the slices one after
    another; offsets: those of im2col, W first, or halo and offset of the modes along W; reduction: the operation of a
    reduce; buffer_bytes: of the shared buffer, which needs the footprint. What is None is not judged. Raises
    TilewrightError for unknown modes, directions, operations and for what is no integer.
    """
    legality = check(map, target, driver)
    map = legality.map
    copy = _Copy(
        map=map,
        mode=_mode(mode, map),
        direction=_one_of("direction", direction, get_args(Direction)),
        coordinates=None if coords is None else integers("coords", coords),
        shared_address=None if shared_address is None else integer("shared_address", shared_address),
        multicast_ctas=integer("multicast_ctas", multicast_ctas),
        offsets=None if offsets is None else integers("offsets", offsets),
        reduction=None if reduction is None else _one_of("reduction", reduction, get_args(Reduction)),
        buffer_bytes=None if buffer_bytes is None else integer("buffer_bytes", buffer_bytes),
        legality=legality,
        target=legality.target,
    )
    mode_faults = (*_mode_rules(copy),)
    # Coordinates and shapes have no meaning in a mode that the map or the target does not have.
    own = mode_faults or (
        *_shape_rules(copy),
        *_coordinate_rules(copy),
        *_offset_rules(copy),
        *_shared_rules(copy),
        *_type_rules(copy),
    )
    transaction = legality.transaction_bytes
    return CopyLegality(
        map=legality,
        violations=(*legality.violations, *sorted(own, key=lambda violation: violation.code)),
        warnings=tuple(_warnings(copy)) if legality.legal and not own else (),
        footprint_bytes=copy.footprint_bytes,
        transaction_bytes=None if transaction is None else transaction * copy.rows,
    )


def _mode(mode: object, map: AnyMap) -> Mode:
    if mode is None:
        match map:
            case TensorMap():
                return "tile"
            case Im2colMap():
                return "im2col"
            case Im2colWideMap():
                return "im2col::w::128" if map.mode == "w128" else "im2col::w"
    short = {"gather4": "tile::gather4", "scatter4": "tile::scatter4"}
    return _one_of("mode", short.get(mode, mode) if isinstance(mode, str) else mode, get_args(Mode))


def _one_of(field: str, value: object, names: tuple[Name, ...]) -> Name:
    for name in names:
        if isinstance(value, str) and name == value:
            return name
    raise TilewrightError(
        f"tensor copy: {field} has no value {shown(value)}", remedy=f"the values are {', '.join(names)}"
    )


def _violation(
    code: str, name: str, field: str, index: int | None, value: int, limit: int, message: str, source: str
) -> Violation:
    return Violation(code, name, field, index, value, limit, message, source)


def _mode_rules(copy: _Copy) -> Iterator[Violation]:
    if not isinstance(copy.map, _MAPS[copy.mode]):
        yield _violation(
            "TM050", "copy-mode", "mode", None, 0, 0,
            f"mode {copy.mode} takes another kind of map than {type(copy.map).__name__}", _COPY,
        )  # fmt: skip
    if copy.direction not in _DIRECTIONS[copy.mode]:
        allowed = " and ".join(_DIRECTIONS[copy.mode])
        yield _violation(
            "TM050", "copy-mode", "mode", None, 0, 0, f"mode {copy.mode} is for {allowed}, not {copy.direction}", _COPY
        )
    for feature, modes in (
        ("tensor_gather", ("tile::gather4", "tile::scatter4")),
        ("im2col_wide", ("im2col::w", "im2col::w::128")),
    ):
        if copy.mode in modes and not copy.target.supports(feature):
            yield _violation(
                "TM051", "copy-mode-target", "mode", None, 0, 0, f"{copy.target.name} has no mode {copy.mode}",
                copy.target.fact(f"feature.{feature}").source,
            )  # fmt: skip
    if isinstance(copy.map, Im2colWideMap) and copy.mode.startswith("im2col::w"):
        counts = "im2col::w::128" if copy.map.mode == "w128" else "im2col::w"
        if copy.mode != counts:
            yield _violation(
                "TM050", "copy-mode", "mode", None, 0, 0, f"the map is made for mode {counts}, not {copy.mode}", _COPY
            )


def _shape_rules(copy: _Copy) -> Iterator[Violation]:
    if copy.rows == 1:
        return
    map = copy.map
    for field, value, wanted, what in (
        ("tensorRank", map.rank, 2, "rank"),
        ("interleave", map.fields.interleave, INTERLEAVE_NONE, "interleave"),
    ):
        if value != wanted:
            yield _violation(
                "TM057", "gather-shape", field, None, value, wanted,
                f"mode {copy.mode} takes {what} {wanted}, not {value}", _GATHER,
            )  # fmt: skip
    if isinstance(map, TensorMap) and map.rank == 2 and map.box[1] != 1:
        yield _violation(
            "TM057", "gather-shape", "boxDim", 1, map.box[1], 1,
            f"mode {copy.mode} takes a box of one row, not {map.box[1]}",
            _GATHER,
        )  # fmt: skip


def _coordinate_rules(copy: _Copy) -> Iterator[Violation]:
    coordinates = copy.coordinates
    if coordinates is None:
        return
    wanted = copy.map.rank if copy.rows == 1 else 1 + copy.rows
    if len(coordinates) != wanted:
        yield _violation(
            "TM052", "coordinate-count", "tensorCoords", None, len(coordinates), wanted,
            f"{len(coordinates)} coordinates; mode {copy.mode} of rank {copy.map.rank} takes {wanted}", _COPY,
        )  # fmt: skip
        return
    limit = copy.target.limit("tensor_copy.coordinate_limit")
    stores = copy.direction in ("store", "reduce")
    for index, value in enumerate(coordinates):
        if not -limit <= value < limit:
            yield _violation(
                "TM053", "coordinate-range", "tensorCoords", index, value, limit,
                f"coordinate {value} is no signed 32-bit number",
                copy.target.fact("tensor_copy.coordinate_limit").source,
            )  # fmt: skip
        elif stores and value < 0:
            yield _violation(
                "TM055", "store-coordinate", "tensorCoords", index, value, 0,
                f"a {copy.direction} starts at coordinate {value}: negative ones are for loads", _COPY,
            )  # fmt: skip
    if coordinates:
        yield from _inner_coordinate(copy, coordinates[0])
    if isinstance(copy.map, Im2colMap) and copy.legality.legal:
        yield from _column_start(copy.map, coordinates)


def _column_start(map: Im2colMap, coordinates: tuple[int, ...]) -> Iterator[Violation]:
    """TM065: a column begins inside the box of pixels. Spatial dimensions are the first of interleaved maps."""
    first_spatial = 1 if map.fields.interleave == INTERLEAVE_NONE else 0
    for index, (lower, upper) in enumerate(zip(map.lower_corner, map.upper_corner, strict=True)):
        dimension = index + first_spatial
        value, last = coordinates[dimension], map.dims[dimension] - 1 + upper
        if not lower <= value <= last:
            yield _violation(
                "TM065", "column-outside", "tensorCoords", dimension, value, lower if value < lower else last,
                f"coordinate {value} of dimension {dimension} is outside the box of pixels, {lower} to {last}: the "
                "copy raises an illegal instruction",
                "CUDA_ERROR_ILLEGAL_INSTRUCTION for columns that begin outside (probe tma_copies)",
            )  # fmt: skip


def _inner_coordinate(copy: _Copy, value: int) -> Iterator[Violation]:
    dtype: int = copy.map.fields.dtype
    if copy.map.fields.interleave != INTERLEAVE_NONE or not 0 <= dtype < len(DATA_TYPES):
        return
    bits = DATA_TYPES[dtype].global_bits
    key = "tensor_map.coordinate_0_multiple_bytes"
    multiple_bytes = copy.target.limit(key)
    multiple = multiple_bytes * 8 // bits
    source = copy.target.fact(key).source
    if dtype in PADDED_TYPES and "tensor_map.padded_inner_elements" in copy.target.facts:
        multiple = copy.target.limit("tensor_map.padded_inner_elements")
        source = "PTX ISA 9.7.9.27.1.1, restrictions of sub-byte types"
    if value % multiple:
        yield _violation(
            "TM054", "inner-coordinate-alignment", "tensorCoords", 0, value, multiple,
            f"innermost coordinate {value} is no multiple of {multiple} elements of {bits} bits: the copy raises an "
            "illegal instruction",
            source,
        )  # fmt: skip


def _offset_rules(copy: _Copy) -> Iterator[Violation]:
    target = copy.target
    if copy.direction in ("store", "reduce") and isinstance(copy.map, Im2colMap):
        for field, corners, wrong in (
            ("pixelBoxLowerCorner", copy.map.lower_corner, [v < 0 for v in copy.map.lower_corner]),
            ("pixelBoxUpperCorner", copy.map.upper_corner, [v > 0 for v in copy.map.upper_corner]),
        ):
            for index, value in enumerate(corners):
                if wrong[index]:
                    yield _violation(
                        "TM061", "store-pixel-box", field, index, value, 0,
                        f"a {copy.direction} needs a box of pixels inside the tensor; corner {value} leaves it", _COPY,
                    )  # fmt: skip
    if copy.offsets is None:
        return
    match copy.mode:
        case "im2col" if 3 <= copy.map.rank <= 5:
            limit = target.limits("tensor_copy.im2col_offset_limits")[copy.map.rank - 3]
            limits, source = (limit,) * (copy.map.rank - 2), target.fact("tensor_copy.im2col_offset_limits").source
        case "im2col::w" | "im2col::w::128":
            halo = target.limits("tensor_copy.wide_halo_limits")[copy.mode == "im2col::w::128"]
            limits = (halo, target.limit("tensor_copy.wide_offset_limit"))
            source = target.fact("tensor_copy.wide_halo_limits").source
        case _:
            limits, source = (), _COPY
    if len(copy.offsets) != len(limits):
        yield _violation(
            "TM062", "im2col-offsets", "im2colOffsets", None, len(copy.offsets), len(limits),
            f"{len(copy.offsets)} offsets; mode {copy.mode} of rank {copy.map.rank} takes {len(limits)}", source,
        )  # fmt: skip
        return
    for index, (value, limit) in enumerate(zip(copy.offsets, limits, strict=True)):
        if not 0 <= value < limit:
            yield _violation(
                "TM062", "im2col-offsets", "im2colOffsets", index, value, limit,
                f"offset {value} is not between 0 and {limit - 1}", source,
            )  # fmt: skip


def _shared_rules(copy: _Copy) -> Iterator[Violation]:
    target = copy.target
    alignment = target.limit("tensor_map.shared_alignment_bytes")
    source = target.fact("tensor_map.shared_alignment_bytes").source
    if copy.shared_address is not None and copy.direction != "prefetch" and copy.shared_address % alignment:
        yield _violation(
            "TM056", "shared-alignment", "dstMem" if copy.direction == "load" else "srcMem", None, copy.shared_address,
            alignment, f"shared address {copy.shared_address:#x} is no multiple of {alignment}", source,
        )  # fmt: skip
    needed, slices = copy.footprint_bytes, max(copy.multicast_ctas, 1)
    if copy.buffer_bytes is not None and needed is not None and copy.buffer_bytes < needed * slices:
        yield _violation(
            "TM064", "buffer-overrun", "dstMem" if copy.direction == "load" else "srcMem", None, copy.buffer_bytes,
            needed * slices,
            f"a buffer of {copy.buffer_bytes} bytes is too small for the {needed * slices} that the copy occupies",
            "CUDA C++ Programming Guide, Tensor Memory Access: rows stand a swizzle's span apart; probe tma_load",
        )  # fmt: skip
    if copy.multicast_ctas == 1:
        return
    most = min(target.limit("tensor_copy.multicast_ctas_max"), target.limit("cluster.ctas_max"))
    if not 1 <= copy.multicast_ctas <= most:
        yield _violation(
            "TM059", "multicast", "ctaMask", None, copy.multicast_ctas, most,
            f"a multicast of {copy.multicast_ctas} slices; a cluster has 1 to {most} blocks",
            target.fact("tensor_copy.multicast_ctas_max").source,
        )  # fmt: skip
    if copy.direction != "load":
        yield _violation(
            "TM059",
            "multicast",
            "ctaMask",
            None,
            copy.multicast_ctas,
            1,
            f"a {copy.direction} cannot be multicast",
            _COPY,
        )
    footprint_bytes = copy.footprint_bytes
    if footprint_bytes is not None and footprint_bytes % alignment:
        yield _violation(
            "TM059", "multicast", "dstMem", None, footprint_bytes, alignment,
            f"slices of {footprint_bytes} bytes, one after another, do not all begin at a multiple of {alignment}",
            source,
        )  # fmt: skip


def _type_rules(copy: _Copy) -> Iterator[Violation]:
    if copy.direction in ("store", "reduce", "load"):
        forbidden = "TM044" if copy.direction != "load" else "TM045"
        for warning in copy.legality.warnings:
            if warning.code == forbidden:
                yield Violation(
                    warning.code, warning.name, warning.field, warning.index, warning.value, warning.limit,
                    warning.message, warning.source,
                )  # fmt: skip
    if copy.direction != "reduce":
        return
    data_type = copy.map.data_type
    if data_type is None:
        return
    if data_type.is_packed:
        yield _violation(
            "TM060", "reduction-type", "tensorDataType", None, copy.map.fields.dtype, 0,
            f"no reduction takes {data_type.driver_name}", _REDUCE,
        )  # fmt: skip
    elif copy.reduction is not None and data_type.name not in _REDUCED[copy.reduction]:
        yield _violation(
            "TM060", "reduction-type", "tensorDataType", None, copy.map.fields.dtype, 0,
            f"reduction {copy.reduction} takes {', '.join(_REDUCED[copy.reduction])}, not {data_type.name}", _REDUCE,
        )  # fmt: skip


def _warnings(copy: _Copy) -> Iterator[Violation]:
    target, map = copy.target, copy.map
    swizzle: int = map.fields.swizzle
    period = target.limits("tensor_map.swizzle_period_bytes")[swizzle]
    source = target.fact("tensor_map.swizzle_period_bytes").source
    if copy.shared_address is not None and copy.direction != "prefetch" and copy.shared_address % period:
        yield caution(
            "TM058", "swizzle-phase", "dstMem" if copy.direction == "load" else "srcMem", None, copy.shared_address,
            period,
            f"shared address {copy.shared_address:#x} is no multiple of {period}: the swizzle follows the address, and "
            "begins inside its pattern",
            source,
        )  # fmt: skip
    footprint_bytes = copy.footprint_bytes
    if copy.multicast_ctas > 1 and footprint_bytes is not None and footprint_bytes % period:
        yield caution(
            "TM058", "swizzle-phase", "dstMem", None, footprint_bytes, period,
            f"slices of {footprint_bytes} bytes begin inside the swizzle's pattern, which repeats after {period}",
            source,
        )  # fmt: skip
    if copy.coordinates is None or not isinstance(map, TensorMap) or map.fields.interleave != INTERLEAVE_NONE:
        return
    if copy.rows == 1:
        yield from _reach(map, copy.coordinates)
    if copy.direction in ("store", "reduce"):
        end = copy.coordinates[0] + map.box[0]
        for warning in copy.legality.warnings:
            if warning.code == "TM036" and end > map.dims[0]:
                yield warning


def _reach(map: TensorMap, coordinates: tuple[int, ...]) -> Iterator[Violation]:
    steps = (1, *map.steps[1:])
    for index, (start, extent, box, step) in enumerate(zip(coordinates, map.dims, map.box, steps, strict=True)):
        last = start + (box - 1) // step * step
        if start >= extent or last < 0:
            yield caution(
                "TM063", "box-outside", "tensorCoords", index, start, extent,
                f"the box begins at {start} in dimension {index} of extent {extent}: nothing of it is inside",
                "CUDA Driver API, cuTensorMapEncodeTiled: oobFill",
            )  # fmt: skip
