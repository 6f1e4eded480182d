"""How does Triton compile a kernel for a target that the machine need not have, and what is said where it cannot?

What Triton would take in silence is refused here: options that it does not know, and targets that are not checked.
What Triton refuses is told in its own words, whole, with the place in the author's file where Triton points at one.
Source: Triton 3.9, `triton.compile`, `triton.compiler.errors`, `triton.runtime.errors`; 3.6 is the same.
Not handled: AMD targets; options of a Triton whose backend does not list them, which are passed on.
Checked by: tests/integrations/test_triton_compile.py.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, cast

from tilewright.base.error import TilewrightError
from tilewright.base.extra import MissingExtra, install
from tilewright.base.span import Span
from tilewright.targets.target import TARGET_NAMES

_TARGET = re.compile(r"sm_(\d+)a?")
_DEFINITION = re.compile(r"\s*(?:async\s+)?def\s")


def imported_triton() -> Any:
    """The module `triton`. Raises TilewrightError where it is not installed."""
    try:
        return import_module("triton")
    except ModuleNotFoundError as error:
        raise MissingExtra("triton", "compiling a Triton kernel") from error
    except ImportError as error:
        raise TilewrightError(f"Triton cannot be imported: {error}", remedy=install("triton")) from error


def compiled_kernel(
    kernel: object,
    signature: Mapping[str, str],
    constexprs: Mapping[str, object],
    target: str,
    divisible: Iterable[str] | None,
    options: Mapping[str, object],
) -> Any:
    """The kernel as `triton.compile` returns it; the arguments are those of `triton.check`. Raises TilewrightError."""
    triton = imported_triton()
    architecture = _architecture(target)
    names = parameter_names(kernel)
    for name in (*signature, *constexprs):
        if name not in names:
            raise TilewrightError(f"the kernel has no parameter {name}", remedy=f"it has {', '.join(names)}")
    missing = [name for name in names if name not in signature and name not in constexprs]
    if missing:
        raise TilewrightError(
            f"nothing is said of parameter {missing[0]}",
            remedy="give its type in signature, or its value in constexprs",
        )
    types = {name: "constexpr" if name in constexprs else signature[name] for name in names}
    pointers = (name for name, kind in types.items() if kind.startswith("*"))
    multiples = set(pointers if divisible is None else divisible)
    values = {(names.index(name),): value for name, value in constexprs.items()}
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in multiples}
    gpu = import_module("triton.backends.compiler").GPUTarget("cuda", architecture, 32)
    try:
        known = _known_options(gpu)
        for name in options:
            if known and name not in known:
                raise TilewrightError(f"Triton has no option {name}", remedy=_other_option(name, known, names))
        source = _source_class(kernel)(kernel, types, values, attributes)
        return triton.compile(source, target=gpu, options=dict(options))
    except TilewrightError:
        raise
    # Triton raises errors of its own, of LLVM and of Python for a kernel that does not compile.
    except Exception as error:
        raise compile_error(kernel, error) from error


def _architecture(target: str) -> int:
    """The number of a target that Tilewright checks. Triton takes 90 for sm_90a."""
    found = _TARGET.fullmatch(target)
    name = f"sm_{found[1]}a" if found is not None else ""
    if found is not None and name in TARGET_NAMES:
        return int(found[1])
    choices = " or ".join(TARGET_NAMES)
    if found is not None:
        raise TilewrightError(f"Tilewright does not check kernels for {target}", remedy=f"write {choices}")
    raise TilewrightError(f"{target!r} is no NVIDIA target", remedy=f"write {choices}")


def _known_options(gpu: Any) -> tuple[str, ...]:
    """The options of the backend that compiles for this target; none where it does not list them."""
    make_backend = getattr(import_module("triton.compiler.compiler"), "make_backend", None)
    parsed: Any = make_backend(gpu).parse_options({}) if make_backend is not None else None
    return tuple(field.name for field in dataclasses.fields(parsed)) if dataclasses.is_dataclass(parsed) else ()


def _other_option(name: str, known: Sequence[str], parameters: Sequence[str]) -> str:
    if name in parameters:
        return f"{name} is a parameter of the kernel: give its value in constexprs"
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"


def _source_class(kernel: object) -> Any:
    if is_gluon(kernel):
        return import_module("triton.experimental.gluon._runtime").GluonASTSource
    return import_module("triton.compiler.compiler").ASTSource


def is_gluon(kernel: object) -> bool:
    """Whether a kernel is one of `gluon.jit`, whose author writes the barriers and fences."""
    return type(kernel).__name__.startswith("Gluon")


def parameter_names(kernel: object) -> list[str]:
    """The kernel's parameters, constexprs among them. Raises TilewrightError for what is no kernel."""
    names = getattr(kernel, "arg_names", None)
    if not isinstance(names, list):
        raise TilewrightError(f"{kernel!r} is no Triton kernel", remedy="decorate it with triton.jit")
    return cast("list[str]", names)


# ---------------------------------------------------------------- what Triton says where it cannot


def compile_error(kernel: object, error: BaseException) -> TilewrightError:
    """The error of a kernel that Triton does not compile: Triton's words, all of them, and who can do something."""
    name = getattr(kernel, "__name__", "the kernel")
    kinds = {each.__name__ for each in type(error).__mro__}
    words = "\n".join(_words(error))
    if "CompilationError" in kinds:
        span = _place(kernel, error)
        remedy = "change the kernel where Triton points"
    elif "PTXASError" in kinds:
        span = None
        remedy = "the assembler refuses what Triton wrote: try other options or another Triton, or report it to Triton"
    elif isinstance(error, RuntimeError) and "PassManager" in words:
        span = None
        remedy = (
            "a pass of Triton's compiler fails, and printed to standard error which and where: "
            "try other options or another Triton, or report it to Triton"
        )
    elif isinstance(error, RuntimeError) and "compatible backends" in str(error):
        span = None
        remedy = "this installation of Triton has no NVIDIA backend: pip install --force-reinstall triton"
    else:
        span = None
        remedy = (
            "Triton does not say where: check the types in signature, the constexprs and the options; "
            "what it printed may say more"
        )
    return TilewrightError(f"Triton cannot compile {name}: {words}", span=span, remedy=remedy)


def _words(error: BaseException) -> list[str]:
    """The error's text and those of its causes, the inner function's error last."""
    found: list[str] = []
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        text = str(each).strip()
        # "'fp99'" is all that a KeyError says.
        words = text if text and not isinstance(each, LookupError) else repr(each)
        if not any(words in before for before in found):
            found.append(words)
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
    return found


def _place(kernel: object, error: BaseException) -> Span | None:
    """Where in the author's file Triton points at: lines of its message count from the kernel's `def`."""
    line = getattr(getattr(error, "node", None), "lineno", None)
    column = getattr(getattr(error, "node", None), "col_offset", 0)
    begin = getattr(kernel, "starting_line_number", None)
    source = cast("Sequence[str] | None", getattr(kernel, "raw_src", None))
    file = getattr(getattr(getattr(kernel, "fn", None), "__code__", None), "co_filename", None)
    if not (isinstance(line, int) and isinstance(begin, int) and source and isinstance(file, str)):
        return None
    decorators = next((number for number, text in enumerate(source) if _DEFINITION.match(text)), 0)
    at = decorators + line - 1
    if at >= len(source):
        return None
    text = source[at].rstrip("\n")
    indent = len(source[decorators]) - len(source[decorators].lstrip())
    return Span(file, begin + at, indent + int(column) + 1, text)
