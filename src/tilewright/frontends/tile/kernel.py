"""What a kernel is before anyone runs it: a Python function whose parameters are tensors with named axes.

Theory: nothing is compiled when a kernel is declared; the declaration fixes names, axes and the source. Shapes come
later, when the kernel is traced. What calling a kernel does is decided by whoever installs a launcher (the driver).

Not handled: default values, keyword-only and variadic parameters, parameters other than tensors (Python numbers that a
kernel needs are read from its closure). Checked by tests/frontends/test_tile_language.py.
"""

from __future__ import annotations

import difflib
import inspect
import linecache
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import cast, overload

from tilewright.base.element import Element, element_of
from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.ir.tile.axes import base_axis, is_axis_name

MAX_TENSOR_AXES = 5
_ELEMENT_NAMES = {element.value for element in Element} | {"float16", "bfloat16", "float32", "int8", "int32"}


@dataclass(frozen=True, slots=True)
class TensorAxes:
    """The annotation `tw.Tensor["M", "K"]`: the names of a tensor's axes, outermost first, and its element where the
    author fixes it, as in `tw.Tensor["G", tw.i32]`."""

    axes: tuple[str, ...]
    element: Element | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A tensor parameter of a kernel, with its axes outermost first.

    alignment_bytes: what the author promises of its address, or None; where: what is promised of its axes, as text;
    by_map: the author wants it reached by a tensor map of its own; element: the one that the author fixed, or None.
    """

    name: str
    axes: tuple[str, ...]
    alignment_bytes: int | None = None
    where: str = ""
    by_map: bool = False
    element: Element | None = None


Launcher = Callable[["Kernel", tuple[object, ...], dict[str, object]], object]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A tile program as declared. Calling it runs the launcher that `set_launcher` installed.

    source is "" where Python cannot find it (a kernel typed at the prompt). It is what the author wrote, not what the
    kernel means: closures and functions it calls are outside it. `trace.fingerprint` identifies a traced program.
    """

    name: str
    parameters: tuple[Parameter, ...]
    file: str
    line: int
    source: str = field(repr=False)
    function: Callable[..., object] = field(repr=False)

    @property
    def axes(self) -> tuple[str, ...]:
        """Every axis that a parameter names, by elements or in blocks (`K/128` names K), as they first appear."""
        return tuple(dict.fromkeys(base_axis(axis) for parameter in self.parameters for axis in parameter.axes))

    @property
    def block_axes(self) -> tuple[str, ...]:
        """The axes of blocks that parameters name, such as `K/128`. Their extents follow from those of `axes`."""
        named = dict.fromkeys(axis for parameter in self.parameters for axis in parameter.axes)
        return tuple(axis for axis in named if base_axis(axis) != axis)

    @property
    def span(self) -> Span:
        return Span(self.file, self.line, text=source_line(self.file, self.line))

    def __call__(self, *arguments: object, **keywords: object) -> object:
        """Run the installed launcher on these arguments. Raises TilewrightError if there is none."""
        launcher = _launchers.get("launch")
        if launcher is None:
            raise TilewrightError(
                f"nothing is installed that launches kernel {self.name}",
                span=self.span,
                remedy="import the compiler's driver, or trace the kernel instead of calling it",
            )
        return launcher(self, arguments, keywords)


_launchers: dict[str, Launcher] = {}


def set_launcher(launcher: Launcher | None) -> Launcher | None:
    """Decide what calling a kernel does; None takes the behaviour away. Returns what held before."""
    before = _launchers.get("launch")
    if launcher is None:
        _launchers.pop("launch", None)
    else:
        _launchers["launch"] = launcher
    return before


@overload
def kernel(function: Callable[..., object], /) -> Kernel: ...
@overload
def kernel(
    *, align: Mapping[str, int] | None = None, where: str = "", by_map: Iterable[str] = ()
) -> Callable[[Callable[..., object]], Kernel]: ...
def kernel(
    function: Callable[..., object] | None = None,
    /,
    *,
    align: Mapping[str, int] | None = None,
    where: str = "",
    by_map: Iterable[str] = (),
) -> Kernel | Callable[[Callable[..., object]], Kernel]:
    """Declare a tile program. Every parameter is annotated `tw.Tensor[axis names]`.

    It takes promises, as in `@tw.kernel(align={"a": 128}, where="K % 8 == 0, M <= 65536")`. What contradicts a promise
    is refused: extents when the kernel is compiled, addresses when it is called.

    Args:
        function: A plain function whose parameters are annotated.
        align: Bytes of which a parameter's address is a multiple; 16 for those that it does not name. Fewer than 16
            where the parameter may begin anywhere.
        where: Conditions on axes.
        by_map: Parameters that must be reached by a tensor map of their own, without a copy. Where something is
            promised of their axes, this holds for every program that the promise allows.

    Raises:
        TilewrightError: It is no plain function with such parameters.
    """
    enclosing = sys._getframe(1).f_locals  # pyright: ignore[reportPrivateUsage]
    if function is not None:
        return _declared(function, enclosing, {}, "", ())
    demanded = (by_map,) if isinstance(by_map, str) else tuple(by_map)
    return lambda function: _declared(function, enclosing, align or {}, where, demanded)


def _declared(
    function: Callable[..., object],
    enclosing: dict[str, object],
    align: Mapping[str, int],
    where: str,
    by_map: tuple[str, ...],
) -> Kernel:
    if not isinstance(function, types.FunctionType):
        raise TilewrightError(
            f"tw.kernel decorates a function, not {type(function).__name__}", remedy="put it above a `def`"
        )
    code = function.__code__
    file, line, source = code.co_filename, code.co_firstlineno, _source(function)
    span = Span(file, line, text=source_line(file, line))
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise TilewrightError(f"kernel {function.__name__} is async or yields", span=span, remedy="write a plain `def`")
    if not function.__name__.isidentifier():
        raise TilewrightError("a kernel needs a name and annotations", span=span, remedy="write a `def`")
    _require_plain_name(function.__name__, "kernel", span)
    annotations = _annotations(function, enclosing, span)
    parameters = tuple(
        _parameter(parameter, annotations, span) for parameter in inspect.signature(function).parameters.values()
    )
    if not parameters:
        raise TilewrightError(
            f"kernel {function.__name__} has no parameters", span=span, remedy="give it a tensor to store to"
        )
    names = [parameter.name for parameter in parameters]
    for name in by_map:
        if name not in names:
            raise TilewrightError(f"by_map names no parameter {name}", span=span, remedy=nearest_name(name, names))
    parameters = tuple(
        replace(parameter, by_map=parameter.name in by_map) for parameter in promised(parameters, align, where, span)
    )
    return Kernel(function.__name__, parameters, file, line, source, function)


def _require_plain_name(name: str, what: str, span: Span) -> None:
    """Names become those of PTX entries and parameters: ASCII (PTX ISA, Identifiers), and not the one predefined
    constant."""
    if not (name.isascii() and name.strip("_")) or name == "WARP_SZ":
        raise TilewrightError(
            f"{what} {name} has a name that PTX does not take",
            span=span,
            remedy="name it with ASCII letters and digits",
        )


def _parameter(parameter: inspect.Parameter, annotations: dict[str, object], span: Span) -> Parameter:
    name = parameter.name
    _require_plain_name(name, "parameter", span)
    if parameter.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
        raise TilewrightError(
            f"parameter {name} is variadic, positional-only or keyword-only", span=span, remedy="make it a plain one"
        )
    if parameter.default is not inspect.Parameter.empty:
        raise TilewrightError(
            f"parameter {name} has a default", span=span, remedy="drop it; read numbers from the enclosing scope"
        )
    annotation = annotations.get(name)
    if not isinstance(annotation, TensorAxes):
        kind = annotation.__name__ if isinstance(annotation, type) else repr(annotation)
        wrong = "has no annotation" if annotation is None else f"is annotated {kind}, and no tensor with axes"
        remedy = f'name its axes, as in {name}: tw.Tensor["M", "K"]'
        if annotation in (int, float, bool):
            remedy = "read numbers from the enclosing scope; every parameter is a tensor"
        raise TilewrightError(f"parameter {name} {wrong}", span=span, remedy=remedy)
    return Parameter(name, annotation.axes, element=annotation.element)


def _annotations(function: types.FunctionType, enclosing: dict[str, object], span: Span) -> dict[str, object]:
    """Annotations as objects, also under `from __future__ import annotations`, which leaves them as text."""
    try:
        return inspect.get_annotations(function, globals=function.__globals__, locals=enclosing, eval_str=True)
    except TilewrightError as error:
        raise TilewrightError(error.message, span=error.span or span, remedy=error.remedy) from None
    except (NameError, AttributeError, SyntaxError) as error:
        raise TilewrightError(
            f"the annotations of {function.__name__} cannot be read: {error}",
            span=span,
            remedy="import tilewright at the top of the module",
        ) from error


def tensor_axes(axes: object) -> TensorAxes:
    """The annotation for axes as `tw.Tensor[...]` receives them. Raises TilewrightError for anything but names."""
    names = cast("tuple[object, ...]", axes) if isinstance(axes, tuple) else (axes,)
    element = element_of(names[-1]) if names and not isinstance(names[-1], str) else None
    checked: list[str] = []
    for name in names if element is None else names[:-1]:
        if isinstance(name, str) and name in _ELEMENT_NAMES:
            raise TilewrightError(
                f"{name!r} is an element and no axis",
                remedy='write it without quotes behind the axes, as in tw.Tensor["M", tw.f16], or give dtype=',
            )
        if not (isinstance(name, str) and is_axis_name(name)):
            raise TilewrightError(
                f"{name!r} is no axis name",
                remedy='quote the names, as in tw.Tensor["M", "K"]; blocks of 128 elements of K are "K/128"',
            )
        checked.append(name)
    if not 1 <= len(checked) <= MAX_TENSOR_AXES:
        raise TilewrightError(f"a tensor with {len(checked)} axes", remedy=f"give it one to {MAX_TENSOR_AXES} axes")
    if len(set(checked)) != len(checked):
        raise TilewrightError(
            f"a tensor names axis {checked[0]} twice", remedy="name the axes apart; two may have the same extent"
        )
    return TensorAxes(tuple(checked), element)


def at_line(error: TilewrightError, file: str, line: int) -> TilewrightError:
    """The error at a line of a file; as it is where the line is none of a file, as that of a text is none."""
    if error.span is not None or file.startswith("<"):
        return error
    return TilewrightError(error.message, span=Span(file, line, text=source_line(file, line)), remedy=error.remedy)


def promised(
    parameters: tuple[Parameter, ...], align: Mapping[str, int], where: str, span: Span
) -> tuple[Parameter, ...]:
    """The parameters with what the author promises of them. Raises TilewrightError for a promise that says nothing."""
    # A kernel without promises needs no parser of them.
    if not align and not where:
        return parameters
    from tilewright.ir.refinement import about, alignment_problem
    from tilewright.layout.numbers.condition import condition_text, names_of, parts_of
    from tilewright.layout.numbers.condition_parser import parse_where

    names = [parameter.name for parameter in parameters]
    for name, alignment in align.items():
        if name not in names:
            raise TilewrightError(f"align names no parameter {name}", span=span, remedy=nearest_name(name, names))
        problem = alignment_problem(alignment)
        if problem:
            raise TilewrightError(f"parameter {name}: {problem}", span=span, remedy="give bytes, such as 16 or 128")
    try:
        condition = parse_where(where) if where else True
    except TilewrightError as error:
        raise TilewrightError(error.message, span=span, remedy=error.remedy) from None
    if condition is False:
        raise TilewrightError(f"no sizes satisfy where={where!r}", span=span, remedy="promise what can be kept")
    axes = list(dict.fromkeys(axis for parameter in parameters for axis in parameter.axes))
    for part in parts_of(condition):
        for name in sorted(names_of(part)):
            if name not in axes:
                raise TilewrightError(f"where names no axis {name}", span=span, remedy=nearest_name(name, axes))
        if not any(names_of(part) <= set(parameter.axes) for parameter in parameters):
            raise TilewrightError(
                f"no parameter has all axes of {part}", span=span, remedy="promise something of one tensor's axes"
            )
    texts = (about(condition, parameter.axes) for parameter in parameters)
    return tuple(
        replace(
            parameter,
            alignment_bytes=align.get(parameter.name),
            where="" if text is True else condition_text(text),
        )
        for parameter, text in zip(parameters, texts, strict=True)
    )


def nearest_name(name: str, known: Iterable[str]) -> str:
    """A remedy for a misspelt name: the nearest of `known`, or all of them where none is near."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if not near:
        near = [other for other in names if other.casefold() == name.casefold()][:1]
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"


def source_line(file: str, line: int) -> str:
    """The text of a line of Python source, without its indentation; "" where it is not to be had."""
    return linecache.getline(file, line).strip()


def _source(function: types.FunctionType) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""
