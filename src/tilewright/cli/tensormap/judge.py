"""What is asked of one map on a command line, and what is the answer? Legality, one copy, repairs, remarks.

The parts are `legal`'s: `check` of the map, `check_copy` where coordinates, shared memory, a mode or a direction are
given, `repair` of maps that are illegal or are to be planned. A repair is shown only if its maps are legal for
the driver that was named, too. Remarks are about the input: what decoding found, dimensions that look reversed.
Checked by: tests/cli/test_tensormap.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.legal.plan.repair_plan import Repair
from tilewright.legal.plan.repairs import repair_as_installed
from tilewright.legal.plan.want import Want
from tilewright.legal.tensor_map.copy_check import check_copy
from tilewright.legal.tensor_map.im2col_map import AnyMap
from tilewright.legal.tensor_map.legality import Legality, check
from tilewright.legal.tensor_map.tensor_map import TensorMap
from tilewright.legal.tensor_map.violation import Violation

_RANK_PLANNED = 1000
"""No plan is looked for beyond: plans take time that grows with the square of the rank."""
_EXTENT_MOST = 1 << 32
"""No one means a longer row."""
Driver = tuple[int, int] | int | None


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of every map of a command line.

    copy: keyword arguments of `check_copy`, empty where no copy is asked about; synthesize: whether plans are wanted
    whether or not the map is legal; error: what the encoder answered, a CUresult; map_address: of the map's own bytes.
    """

    target: str
    driver: Driver
    copy: dict[str, Any]
    want: Want
    synthesize: bool
    error: int | None = None
    map_address: int | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """One concrete map with its answer.

    copy_violations, copy_warnings: rules of the one copy that was asked about, broken or to know of.
    """

    map: AnyMap
    legality: Legality
    copy_violations: tuple[Violation, ...] = ()
    copy_warnings: tuple[Violation, ...] = ()
    remarks: tuple[str, ...] = ()
    repairs: tuple[Repair, ...] = ()
    synthesized: bool = False

    @property
    def legal(self) -> bool:
        return self.legality.legal and not self.copy_violations

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Of the map, then of the copy."""
        return (*self.legality.violations, *self.copy_violations)

    @property
    def warnings(self) -> tuple[Violation, ...]:
        return (*self.legality.warnings, *self.copy_warnings)

    @property
    def exit_code(self) -> int:
        """0 where the map is legal, or where only a plan was missing and there is one; else 1."""
        if self.synthesized:
            return 0 if self.repairs and not self.copy_violations else 1
        return 0 if self.legal else 1


def judge(map: AnyMap, question: Question, remarks: tuple[str, ...] = ()) -> Judged:
    """The answer for one map. Raises TilewrightError as `check`, `check_copy` and `repair` do."""
    legality = check(map, question.target, question.driver)
    broken: tuple[Violation, ...] = ()
    warned: tuple[Violation, ...] = ()
    if question.copy:
        copied = check_copy(map, target=question.target, driver=question.driver, **question.copy)
        broken = tuple(each for each in copied.violations if each not in legality.violations)
        warned = tuple(each for each in copied.warnings if each not in legality.warnings)
    repairs: tuple[Repair, ...] = ()
    if map.rank <= _RANK_PLANNED and (question.synthesize or not legality.legal):
        plans, missing = repair_as_installed(map, question.want, target=question.target)
        repairs = tuple(
            found
            for found in plans
            if all(check(each, question.target, question.driver).legal for each in maps_of(found))
        )
        if missing is not None:
            remarks = (
                *remarks,
                f"plans that no short chain of changes reaches were not sought: {missing.message} ({missing.remedy})",
            )
    if isinstance(map, TensorMap):
        remarks = (*remarks, *_order_remarks(map))
    if question.map_address is not None:
        broken = (*broken, *_place_violations(question.map_address, legality))
        remarks = (*remarks, *_place_remarks(question.map_address, legality))
    if question.error is not None and legality.legal and not broken:
        remarks = (*remarks, _error_remark(question.error))
    return Judged(map, legality, broken, warned, remarks, repairs, question.synthesize)


def maps_of(repair: Repair) -> tuple[AnyMap, ...]:
    """Every map that a repair copies through, tiled or im2col."""
    return repair.maps if repair.im2col is None else (*repair.maps, repair.im2col)


def null_remarks(map: AnyMap) -> tuple[str, ...]:
    """What to say of a map whose address is stated to be 0."""
    if map.address:
        return ()
    return (
        "the tensor's address is null: a driver of API 13.0 encodes it all the same (measured), older ones answered "
        "CUDA_ERROR_INVALID_VALUE (CUTLASS issue 947), and a copy through the map finds no memory",
    )


_RESULTS = {
    1: "CUDA_ERROR_INVALID_VALUE",
    700: "CUDA_ERROR_ILLEGAL_ADDRESS",
    715: "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    716: "CUDA_ERROR_MISALIGNED_ADDRESS",
    719: "CUDA_ERROR_LAUNCH_FAILED",
    999: "CUDA_ERROR_UNKNOWN",
}
_INVALID_VALUE = 1


def _error_remark(error: int) -> str:
    """Why the encoder answered so although the map is legal. Source: CUDA Driver API, CUresult."""
    name = _RESULTS.get(error, "another error")
    if error == 0:
        return "the encoder took the map, as it should"
    if error == _INVALID_VALUE:
        return (
            "the map breaks no rule known, yet the encoder answered CUDA_ERROR_INVALID_VALUE: look whether the pointer "
            "to the map is a multiple of 64 and the tensor's address is not null, and whether these are the values "
            "that it was given"
        )
    return (
        f"the map is legal: {error} ({name}) is an earlier error of the context, which every later call answers with; "
        "look at the kernels launched before, with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer"
    )


def _place_violations(address: int, legality: Legality) -> tuple[Violation, ...]:
    """TM201: the 128 bytes do not stand where they can be encoded or used."""
    key = "tensor_map.alignment_bytes"
    alignment = legality.target.limit(key)
    if address % alignment == 0:
        return ()
    message = f"the tensor map itself stands at {address:#x}, no multiple of {alignment}"
    source = legality.target.fact(key).source
    return (Violation("TM201", "no-tensor-map", "tensorMap", None, address, alignment, message, source),)


def _place_remarks(address: int, legality: Legality) -> tuple[str, ...]:
    alignment = legality.target.limit("tensor_map.alignment_bytes")
    if address % alignment or not address % (2 * alignment):
        return ()
    return (
        f"CUtensorMap is aligned to {2 * alignment} bytes from CUDA 13.0 on and to {alignment} before: {address:#x} is "
        "refused by code compiled for the newer, and structures that hold a map are laid out differently",
    )


def _order_remarks(map: TensorMap) -> tuple[str, ...]:
    """Rows that overlap although they would not with the dimensions the other way round."""
    data_type = map.data_type
    if data_type is None or map.rank < 2 or min((*map.dims, *map.strides)) < 1 or max(map.dims) > _EXTENT_MOST:
        return ()
    row_bytes = map.dims[0] * data_type.global_bits // 8
    turned = map.dims[::-1]
    if map.strides[0] >= row_bytes or turned == map.dims:
        return ()
    reach_bytes = turned[0] * data_type.global_bits // 8
    for stride, extent in zip(map.strides, turned[1:], strict=True):
        if stride < reach_bytes:
            return ()
        reach_bytes = stride * extent
    return (
        f"rows of {row_bytes} bytes stand {map.strides[0]} bytes apart, so they overlap; dimensions are innermost "
        f"first: were dims {','.join(str(extent) for extent in turned)} meant?",
    )
