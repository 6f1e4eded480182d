"""`tw.compile` and calling a kernel: the verbs of a Python program, with the cache behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.size import Range
from tilewright.driver.compile import cache
from tilewright.driver.compile.compile import Progress, compile_kernel, elements_of
from tilewright.driver.compile.tuned import Program, tuned
from tilewright.driver.run.run import CompiledKernel
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.shapes import Dims
from tilewright.frontends.tile.trace import fingerprint, trace
from tilewright.runtime.arrays import ArrayView, view_array
from tilewright.runtime.assemble import find_ptxas
from tilewright.runtime.bundle import Bundle
from tilewright.synth.decide import Wanted
from tilewright.targets import target as target_named

DEFAULT_TARGET = "sm_90a"
"""What is compiled for where the caller names nothing."""

_EXAMPLES = {"tile": (128, 256), "cluster": (2, 1)}

_memory: dict[str, CompiledKernel] = {}


def compile(  # the verb's name, as users write it: tw.compile
    kernel: Kernel,
    *,
    target: str = DEFAULT_TARGET,
    dtype: str | Element | Mapping[str, str | Element] = "bf16",
    strides: Mapping[str, tuple[int, ...]] | None = None,
    tile: tuple[int, int] | None = None,
    stages: int | None = None,
    cluster: tuple[int, int] | None = None,
    tune: bool = False,
    cached: bool = True,
    progress: Progress | None = None,
    **dims: int | Range,
) -> CompiledKernel:
    """Compile and prove `kernel` for extents given by axis name, as in `tw.compile(matmul, M=4096, N=4096, K=4096)`.

    Args:
        kernel: A function declared with `@tw.kernel`.
        target: The architecture to compile for.
        dtype: One element type for all parameters, or one by parameter name.
        strides: In elements, by parameter name, of parameters that are not row-major.
        tile: Rows and columns of a tile, instead of the compiler's choice.
        stages: Slots of the pipeline, instead of the compiler's choice.
        cluster: CTAs of a cluster along M and N, instead of the compiler's choice.
        tune: Time the most promising tiles on this machine's GPU and take the quickest, which is kept in the cache.
            Each is compiled and proven, so the first call takes some seconds more.
        cached: Use and fill the cache on disk.
        progress: Called with what is done next.
        dims: The extent of each axis, or `tw.dynamic(lo, hi)` where calls differ in it.

    Raises:
        TilewrightError: At the author's line; also for arguments of other types.
    """
    _require_types(kernel, target, strides, stages, tune, {"tile": tile, "cluster": cluster})
    if tune and (tile, stages, cluster) != (None, None, None):
        raise TilewrightError("tune=True chooses the tile itself", remedy="leave out tile, stages and cluster, or tune")
    wanted = Wanted(tile, stages, cluster)
    compiled = compile_for(kernel, dims, target, dtype, strides, wanted, cached, progress, tune=tune)
    decided = compiled.bundle.decisions
    programs = cast("list[Mapping[str, Any]]", decided.get("programs", [decided]))
    if not any(map(_sums, programs)) and (tile, stages, cluster) != (None, None, None):
        raise TilewrightError(
            f"{kernel.name} has no product, whose decisions could be fixed", remedy="leave out tile, stages and cluster"
        )
    return compiled


def _sums(decisions: Mapping[str, Any]) -> bool:
    """Whether a program sums products of whole matrices."""
    return any(slot["joined"] for slot in decisions.get("slots", ()))


def _require_types(
    kernel: object, target: object, strides: object, stages: object, tune: object, pairs: Mapping[str, object]
) -> None:
    """What annotations say, of arguments that a caller at the prompt may mistake."""
    if not isinstance(kernel, Kernel):
        raise TilewrightError(f"{type(kernel).__name__} is no kernel", remedy="declare it with @tw.kernel")
    if not isinstance(target, str):
        raise TilewrightError(f"target is {target!r}", remedy=f"name one, such as {DEFAULT_TARGET!r}")
    if strides is not None and not isinstance(strides, Mapping):
        raise TilewrightError(f"strides is {strides!r}", remedy="give them by parameter, as in {'a': (4096, 1)}")
    if stages is not None and type(stages) is not int:
        raise TilewrightError(f"stages is {stages!r}", remedy="give a whole number, such as 4")
    if not isinstance(tune, bool):
        raise TilewrightError(f"tune is {tune!r}", remedy="give True or False")
    for name, pair in pairs.items():
        entries: tuple[object, ...] = cast("tuple[object, ...]", pair) if isinstance(pair, tuple) else ()
        if pair is not None and (len(entries) != 2 or any(type(entry) is not int for entry in entries)):
            raise TilewrightError(
                f"{name} is {pair!r}", remedy=f"give two whole numbers, as in {name}={_EXAMPLES[name]}"
            )


def compile_for(
    kernel: Kernel,
    dims: Dims,
    target: str = DEFAULT_TARGET,
    dtype: str | Element | Mapping[str, str | Element] = "bf16",
    strides: Mapping[str, tuple[int, ...]] | None = None,
    wanted: Wanted | None = None,
    cached: bool = True,
    progress: Progress | None = None,
    *,
    tune: bool = False,
) -> CompiledKernel:
    """`compile` with the extents as a mapping, and `wanted` for the decisions that are fixed. Raises as it does."""
    if tune:
        wanted = tuned_for(kernel, dims, target, dtype, strides, wanted or Wanted(), cached, progress)

    def fresh() -> Bundle:
        return compile_kernel(
            kernel, target=target, dims=dims, dtype=dtype, strides=strides, wanted=wanted, progress=progress
        ).bundle()

    if not cached:
        return CompiledKernel(fresh())
    # Tracing is where an author's mistakes show, so it is never skipped; it takes about a millisecond.
    digest = fingerprint(trace(kernel, dims, elements_of(kernel, dtype), strides))
    demanded = [item.name for item in kernel.parameters if item.by_map]
    wishes = f"{wanted or Wanted()!r}{f' by map {demanded}' if demanded else ''}"
    key = cache.cache_key(digest, target, wishes, find_ptxas().version)
    found = _memory.get(key)
    if found is not None:
        return found
    bundle = cache.fetch(key)
    if bundle is None:
        bundle = fresh()
        cache.keep(key, bundle)
    return _memory.setdefault(key, CompiledKernel(bundle))


def tuned_for(
    kernel: Kernel,
    dims: Dims,
    target: str,
    dtype: str | Element | Mapping[str, str | Element],
    strides: Mapping[str, tuple[int, ...]] | None,
    wanted: Wanted,
    cached: bool = True,
    progress: Progress | None = None,
) -> Wanted:
    """`wanted` with the tile fixed that is quickest on this machine's GPU. Raises as `tuned` does, and for a range."""
    run_time = [axis for axis, extent in dims.items() if isinstance(extent, Range)]
    if run_time:
        raise TilewrightError(
            f"tiles are timed at one extent of {run_time[0]}, and it has a range", remedy="compile it without tuning"
        )

    def candidate(request: Wanted) -> Bundle:
        return compile_for(kernel, dims, target, dtype, strides, request, cached).bundle

    program = Program(kernel, dims, target, dtype, strides)
    return tuned(program, wanted, candidate, cached=cached, progress=progress)


def misaligned_names(views: Mapping[str, ArrayView]) -> tuple[str, ...]:
    """Arrays on a GPU that do not begin where a tensor map may. (CPU arrays are copied to aligned memory.)"""
    alignment = target_named(DEFAULT_TARGET).limit("tensor_map.address_alignment_bytes")
    return tuple(name for name, view in views.items() if view.device == "cuda" and view.pointer % alignment)


def alignments_of_misaligned(views: Mapping[str, ArrayView]) -> tuple[tuple[str, int], ...]:
    """Of arrays that `misaligned_names` names, the power of two that divides the address, where it is more than an
    element: threads may copy pieces of as many bytes."""
    found = ((name, views[name].pointer & -views[name].pointer) for name in misaligned_names(views))
    return tuple((name, alignment) for name, alignment in found if alignment > views[name].element.bytes)


def _check_promises(kernel: Kernel, views: Mapping[str, ArrayView]) -> None:
    for item in kernel.parameters:
        view, promised = views.get(item.name), item.alignment_bytes
        if promised is not None and view is not None and view.device == "cuda" and view.pointer % promised:
            raise TilewrightError(
                f"{item.name} begins at {view.pointer:#x}; {kernel.name} promises a multiple of {promised}",
                span=kernel.span,
                remedy=f"align the array, or promise less: align={{{item.name!r}: ...}}",
            )


def launch(kernel: Kernel, arguments: tuple[object, ...], keywords: Mapping[str, object]) -> Any:
    """Call a declared kernel with its input arrays in order (and `out`, if wanted): compile it for them and run it.

    Raises TilewrightError where the arrays do not fix every axis, or disagree on one.
    """
    unknown = set(keywords) - {"out"}
    if unknown:
        raise TilewrightError(
            f"{kernel.name} takes no argument {min(unknown)}", remedy="pass arrays in order, and out="
        )
    out = keywords.get("out")
    outputs: tuple[object, ...] = ()
    if out is not None:
        outputs = cast("tuple[object, ...]", out) if isinstance(out, tuple) else (out,)
    # What is written comes after what is read; an output given fixes its own layout and element as an input does.
    given = kernel.parameters[: len(arguments) + len(outputs)]
    dims: dict[str, int] = {}
    strides: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, str | Element] = {}
    views = [view_array(array, name=item.name) for array, item in zip((*arguments, *outputs), given, strict=False)]
    for view, item in zip(views, given, strict=False):
        if len(view.shape) != len(item.axes):
            raise TilewrightError(
                f"{item.name} has {len(view.shape)} dimensions; {kernel.name} declares {len(item.axes)}",
                span=kernel.span,
                remedy=f"pass an array over ({', '.join(item.axes)})",
            )
        for axis, extent in zip(item.axes, view.shape, strict=True):
            if dims.setdefault(axis, extent) != extent:
                raise TilewrightError(
                    f"axis {axis} is {dims[axis]} elsewhere and {extent} in {item.name}",
                    span=kernel.span,
                    remedy=f"pass arrays that have one extent along {axis}; {item.name} is over {', '.join(item.axes)}",
                )
        dtypes[item.name] = view.element
        strides[item.name] = view.strides
    for item in kernel.parameters[len(given) :]:
        dtypes[item.name] = views[0].element if views else Element.BF16
    missing = [axis for axis in kernel.axes if axis not in dims]
    if missing:
        raise TilewrightError(
            f"the arrays given to {kernel.name} do not fix axis {missing[0]}",
            span=kernel.span,
            remedy="pass every input, in the order of the parameters",
        )
    named = {item.name: view for item, view in zip(given, views, strict=False)}
    _check_promises(kernel, named)
    wanted = Wanted(misaligned=misaligned_names(named), aligned=alignments_of_misaligned(named))
    compiled = compile_for(kernel, dims, dtype=dtypes, strides=strides, wanted=wanted)
    return compiled(*arguments, out=cast("object", out))
