"""Triton and Gluon kernels checked where they are compiled, without a GPU.

    from tilewright.integrations import triton as tw_triton

    tw_triton.check(kernel, signature={"x": "*fp16", "n": "i32"}, constexprs={"BLOCK": 128}, target="sm_90a")

    with tw_triton.checking():
        ...  # whatever is compiled in here is checked; one that is refuted raises CheckFailed

The launch is read off what Triton says of its kernel: threads from `num_warps` (with those of warp-specialised
partitions), shared memory, the cluster from `num_ctas`, and the scratch buffers that it passes as hidden parameters.
With `arguments` (shapes of pointers and descriptors, values of numbers) and `grid` the launch is complete and tensor
maps are as Triton's own launcher encodes them; without, numbers are explored and tensor maps unknown. Findings point at
lines of the kernel's Python source.

Source: Triton 3.9, `triton.compile`, `CompiledKernel.metadata` and `knobs.compilation.listener`; other releases may
pass other hidden parameters, which is noticed by their number and sizes. Not handled: AMD targets; kernels called with
constexpr tensors. Checked by: tests/integrations/test_triton.py, where Triton is installed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, cast

from tilewright.base.check_report import FileReport
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import (
    NullPointerParam,
    Param,
    PointerParam,
    ScalarParam,
    Swizzle,
    TensorMap,
    TensorMapParam,
)
from tilewright.driver.check.check import beside_ttgir, check_text
from tilewright.driver.check.mlir.ttgir_beside import Ttgir
from tilewright.driver.check.options import REPAIR_STEPS, CheckOptions
from tilewright.driver.check.sources.origin import at_origin
from tilewright.driver.launch.given_launch import BufferSize, LaunchFile
from tilewright.driver.launch.parameter_names import names_in_ttgir
from tilewright.integrations.triton_compile import compiled_kernel, imported_triton, is_gluon, parameter_names
from tilewright.report.findings.check_text import render_check

_ELEMENTS: dict[str, Element] = {
    "fp16": Element.F16, "bf16": Element.BF16, "fp32": Element.F32, "fp64": Element.F64,
    "i8": Element.U8, "u8": Element.U8, "i1": Element.U8, "fp8e4nv": Element.U8, "fp8e5": Element.U8,
    "fp8e4b15": Element.U8, "i16": Element.U16, "u16": Element.U16, "i32": Element.S32, "u32": Element.U32,
    "i64": Element.S64, "u64": Element.U64,
}  # fmt: skip
_DESCRIPTOR_ELEMENTS = (
    Element.U8, Element.U16, Element.U32, Element.S32, Element.U64, Element.S64, Element.F16, Element.F32,
    Element.F32, Element.F64, Element.BF16,
)  # fmt: skip
"""By Triton's numbering of a descriptor's elements."""
_SWIZZLES: tuple[Swizzle, ...] = ("none", "32B", "64B", "128B")
_DESCRIPTOR = re.compile(r"tensordesc<(?P<element>\w+)\[(?P<block>[\d, ]+)\]")

Argument = int | float | Sequence[int] | None
"""The value of a number; the shape of the tensor behind a pointer or descriptor; None for a null pointer."""


class CheckFailed(AssertionError):
    """A kernel that was compiled inside `checking` is not proven. `report` says why."""

    def __init__(self, report: FileReport) -> None:
        self.report = report
        super().__init__(render_check((report,)))


def check(
    kernel: object,
    *,
    signature: Mapping[str, str],
    constexprs: Mapping[str, object] | None = None,
    target: str = "sm_90a",
    arguments: Mapping[str, Argument] | None = None,
    grid: Sequence[int] = (1,),
    divisible: Iterable[str] | None = None,
    isa: str = "tolerant",
    allow: Mapping[str, str] | None = None,
    budget_seconds: float | None = 60.0,
    repair: bool = False,
    **options: object,
) -> FileReport:
    """Compile `kernel` (of `triton.jit` or `gluon.jit`) for `target` and check it. No GPU is needed.

    Args:
        kernel: A function of `triton.jit` or `gluon.jit`.
        signature: Triton's type of each parameter that is no constexpr ("*fp16", "i32", "tensordesc<fp16[128, 64]>").
        constexprs: Values of the other parameters.
        target: The architecture to compile for.
        arguments: Of the parameters in `signature`, for a complete launch.
        grid: Programs along x, y, z.
        divisible: Pointers and numbers that are multiples of 16; by default all pointers.
        isa: Interpretation of contested points, as `--isa` takes it.
        allow: Rules whose findings are set aside, with the reason.
        budget_seconds: For each kernel; None for no limit.
        repair: Look for an edit of the PTX with which a refuted kernel is proven, and describe it in terms of the
            source.
        options: Triton's compile options (`num_warps`, `num_stages`, `num_ctas`, ...).

    Raises:
        TilewrightError: Triton is missing, cannot compile the kernel (with its own words) or does not know an option;
            the target is not one that Tilewright checks; an argument is missing or does not fit.
    """
    compiled = compiled_kernel(kernel, signature, constexprs or {}, target, divisible, options)
    text = str(compiled.asm["ptx"])
    ttgir = str(compiled.asm.get("ttgir", ""))
    metadata = _as_dict(compiled.metadata)
    launch = None
    if arguments is not None:
        names = [name for name in parameter_names(kernel) if name in signature]
        launch = launch_of(metadata, [(name, signature[name]) for name in names], arguments, grid)
    options_of_check = CheckOptions(isa, budget_seconds=budget_seconds, allow=allow or {})
    known = replace(
        options_of_check, repair_steps=REPAIR_STEPS if repair else 0, language="Gluon" if is_gluon(kernel) else "Triton"
    )
    return _checked(text, metadata, launch, known, ttgir)


@dataclass(slots=True)
class Checking:
    """What `checking` gives: the reports of all kernels compiled so far, in order."""

    reports: list[FileReport] = field(default_factory=list[FileReport])


@contextmanager
def checking(
    *,
    isa: str = "tolerant",
    allow_unknown: bool = True,
    raise_errors: bool = True,
    allow: Mapping[str, str] | None = None,
    budget_seconds: float | None = 60.0,
) -> Generator[Checking, None, None]:
    """Check every kernel that Triton compiles inside the block, also where its cache has it.

    A listener that was there before is called as well.

    Args:
        isa: As for `check`.
        allow_unknown: Accept kernels that are neither proven nor refuted.
        raise_errors: Raise CheckFailed where a kernel that is refuted, or not accepted, is compiled. Otherwise look at
            `reports`.
        allow: As for `check`.
        budget_seconds: As for `check`.
    """
    knobs = import_module("triton.knobs") if imported_triton() is not None else None
    compilation: Any = getattr(knobs, "compilation", None)
    if compilation is None or not hasattr(compilation, "listener"):
        raise TilewrightError(
            "this Triton has no knobs.compilation.listener", remedy="use Triton 3.4 or newer, or tw_triton.check"
        )
    before: Callable[..., None] | None = compilation.listener
    found = Checking()
    options = CheckOptions(isa, budget_seconds=budget_seconds, allow=allow or {})

    def listener(*, metadata: Mapping[str, Any], metadata_group: Mapping[str, str], **others: Any) -> None:
        if before is not None:
            before(metadata=metadata, metadata_group=metadata_group, **others)
        for name, path in metadata_group.items():
            if name.endswith(".ptx"):
                structured = metadata_group.get(f"{name.removesuffix('.ptx')}.ttgir")
                ttgir = _read(structured) if structured is not None else ""
                report = _checked(_read(path), metadata, None, options, ttgir)
                found.reports.append(report)
                accepted = ("proven", "unknown") if allow_unknown else ("proven",)
                bad = report.error or any(kernel.verdict not in accepted for kernel in report.kernels)
                if bad and raise_errors:
                    raise CheckFailed(report)

    compilation.listener = listener
    try:
        yield found
    finally:
        compilation.listener = before


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def _checked(
    text: str, metadata: Mapping[str, Any], launch: LaunchFile | None, options: CheckOptions, ttgir: str
) -> FileReport:
    """ttgir: of the same kernel, for the names of its parameters, and where its PTX is unknown; may be empty."""
    name = str(metadata.get("name", "kernel"))
    known = replace(
        options,
        entry=name,
        dynamic_smem_bytes=int(metadata.get("shared", 0) or 0),
        parameter_names=names_in_ttgir(ttgir, name),
    )
    report = check_text(text, f"<{name}.ptx>", launch=launch, options=known)
    return at_origin(beside_ttgir(report, Ttgir(f"<{name}.ttgir>", ttgir) if ttgir else None, known))


def _as_dict(metadata: Any) -> dict[str, Any]:
    return dict(metadata._asdict()) if hasattr(metadata, "_asdict") else dict(metadata)


# ---------------------------------------------------------------- launching


def launch_of(
    metadata: Mapping[str, Any],
    types: Sequence[tuple[str, str]],
    arguments: Mapping[str, Argument],
    grid: Sequence[int],
) -> LaunchFile:
    """The launch that Triton's own launcher makes. types: name and Triton type of each parameter, in order.

    Raises TilewrightError for an argument that is missing or is not of its parameter's kind.
    """
    described = list(cast("Sequence[Mapping[str, Any]]", metadata.get("tensordesc_meta") or ()))
    params: list[Param] = []
    buffers: list[BufferSize] = []
    for name, kind in types:
        if name not in arguments:
            raise TilewrightError(f"arguments has no {name}", remedy="give a number, or the shape of the tensor")
        value = arguments[name]
        if kind.startswith("*"):
            params.append(_pointer(name, kind[1:], value, buffers))
        elif kind.startswith("tensordesc"):
            params += _descriptor(name, kind, value, described.pop(0) if described else None, buffers)
        else:
            params.append(_number(name, kind, value))
    ctas = int(metadata.get("num_ctas", 1) or 1)
    x, y, z = (*grid, 1, 1, 1)[:3]
    blocks = x * ctas * y * z
    for scratch in ("global_scratch", "profile_scratch"):
        size = int(metadata.get(f"{scratch}_size", 0) or 0) * blocks
        if size:
            buffers.append(BufferSize(scratch, size, int(metadata.get(f"{scratch}_align", 16) or 16)))
        params.append(PointerParam(scratch) if size else NullPointerParam())
    return LaunchFile(
        "arguments",
        str(metadata.get("name")),
        (x * ctas, y, z),
        None,
        (ctas, 1, 1) if ctas > 1 else None,
        int(metadata.get("shared", 0) or 0),
        tuple(params),
        tuple(buffers),
    )


def _shape(name: str, value: Argument) -> tuple[int, ...]:
    if not isinstance(value, Sequence) or not all(extent > 0 for extent in value):
        raise TilewrightError(f"argument {name} is {value!r}, not a shape", remedy="give the tensor's extents")
    return tuple(int(extent) for extent in value)


def _pointer(name: str, element: str, value: Argument, buffers: list[BufferSize]) -> Param:
    if value is None:
        return NullPointerParam()
    shape = _shape(name, value)
    buffers.append(BufferSize(name, math.prod(shape) * _element(name, element).bytes, 256))
    return PointerParam(name)


def _element(name: str, kind: str) -> Element:
    found = _ELEMENTS.get(kind)
    if found is None:
        raise TilewrightError(f"{name} has elements {kind!r}", remedy=f"known are {', '.join(_ELEMENTS)}")
    return found


def _number(name: str, kind: str, value: Argument) -> Param:
    if isinstance(value, bool | int) and kind in ("i32", "u32", "i16", "u16", "i8", "u8", "i1"):
        return ScalarParam("i32", int(value))
    if isinstance(value, int) and kind in ("i64", "u64"):
        return ScalarParam("i64", value)
    if isinstance(value, int | float) and kind in ("fp32", "f32"):
        return ScalarParam("f32", float(value))
    raise TilewrightError(f"argument {name} is {value!r}, and its type is {kind}", remedy="give a number of that type")


def _descriptor(
    name: str, kind: str, value: Argument, described: Mapping[str, Any] | None, buffers: list[BufferSize]
) -> list[Param]:
    """The tensor map of a host descriptor, and the shape and strides that follow it."""
    parsed = _DESCRIPTOR.match(kind)
    if parsed is None:
        raise TilewrightError(f"{name} has type {kind!r}", remedy="write tensordesc<fp16[128, 64]>")
    shape = _shape(name, value)
    strides = [math.prod(shape[index + 1 :]) for index in range(len(shape))]
    element = _element(name, parsed["element"])
    buffers.append(BufferSize(name, math.prod(shape) * element.bytes, 256))
    tail: list[Param] = [ScalarParam("i32", extent) for extent in shape]
    tail += [ScalarParam("i64", stride) for stride in strides]
    if described is None:
        # Before Hopper's copies: base, shape, strides and two flags take the descriptor's place.
        wide: list[Param] = [ScalarParam("i64", number) for number in (*shape, *strides)]
        return [PointerParam(name), *wide, ScalarParam("i32", 0), ScalarParam("i32", 0), *tail]
    box = tuple(int(extent) for extent in reversed(cast("Sequence[int]", described["block_size"])))
    tensor_map = TensorMap(
        _DESCRIPTOR_ELEMENTS[int(described["elem_type"])],
        tuple(reversed(shape)),
        tuple(stride * element.bytes for stride in reversed(strides[:-1])),
        box,
        (1,) * len(box),
        _SWIZZLES[int(described["swizzle"])],
    )
    return [TensorMapParam(name, tensor_map), *tail]
