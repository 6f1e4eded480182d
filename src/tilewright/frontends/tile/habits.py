"""What does an author who comes from NumPy, PyTorch or Triton write, and what does a tile program have instead?

A program's body is plain Python, so a habit meets the author as Python's own error: a tile has no `sum`, `sum` takes no
`axis`, NumPy knows no tiles. Such an error becomes the language's, at the innermost of the author's lines, and names
the nearest thing that works (`mistake`). So does a name of `tw` that nobody has (`remedy_of`). An error whose innermost
call is in this package is no mistake of the author's, and stays what it is.

Not handled: what is right Python and means something else here. Checked by tests/frontends/test_tile_habits.py, which
also compiles what the remedies propose.
"""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections.abc import Iterable

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.frontends.tile.kernel import nearest_name, source_line

_OVER = "name the index that is folded, as in tw.sum(x[i, j], over=j)"
_AXES = "a program names axes, not tiles: i, j = tw.axes('M N'), then x[i, j]"
_FOLDS = "folds of an axis are tw.sum, max, min, mean, argmax, argmin, logsumexp and softmax"
_OPERATORS = "use + - * /, comparisons, & | ~ of conditions, or a function of tw"
_EXTENTS = "take the number from the enclosing scope; tw.mean divides by an extent"
_MEETING = "leave it out: tiles meet by the names of their axes, in any order"
_STORED = "store each part to a tensor of its own"
_CAST = "write x.to(tw.bf16), or another of tw.f16, tw.f32, tw.f8e4m3, tw.f8e5m2 and tw.i8"
_SHARED = "share code as a plain function, without @tw.kernel"
_ONE_PLACE = (
    "name an axis there, by an index of tw.axes or tw.grid; pass a part, such as x[:, 0], as a tensor of its own"
)

_REMEDIES = {
    **dict.fromkeys(("arange", "program_id", "num_programs", "block", "ndrange", "mgrid", "ogrid", "iota"), _AXES),
    **dict.fromkeys(("load", "make_block_ptr", "make_tensor_descriptor"), "write x[i, j] to load a tile"),
    "store": "write y[i, j] = tile",
    **dict.fromkeys(("range", "static_range"), "fold an axis, as in tw.sum(x[i, k], over=k), or write tw.loop"),
    **dict.fromkeys(("constexpr",), "numbers are read from the enclosing scope; the compiler chooses tiles"),
    **dict.fromkeys(("matmul", "mm", "bmm", "einsum", "linear", "addmm", "inner"), "write tw.dot(x, y, over=k)"),
    **dict.fromkeys(("gated_matmul", "grouped_matmul", "masked_matmul"), "write tw.dot(x, y, over=k)"),
    **dict.fromkeys(("attention", "scaled_dot_product_attention"), "write tw.dot, tw.softmax and tw.dot"),
    **dict.fromkeys(("rms_norm", "layer_norm"), "write it with tw.mean and tw.rsqrt, as examples/rows.py does"),
    "cumsum": "with a further axis of the same extent, write tw.sum(tw.where(k <= j, x[i, k], 0.0), over=k)",
    "topk": "with first = tw.argmax(x, over=j), the next is tw.argmax(tw.where(tw.equal(j, first), -inf, x), over=j)",
    **dict.fromkeys(("cumprod", "sort", "argsort", "associative_scan"), _FOLDS),
    **dict.fromkeys(("prod", "any", "all", "norm", "histogram", "reduce", "amax", "amin"), _FOLDS),
    **dict.fromkeys(
        ("var", "std"), "with m = tw.mean(x, over=j), write tw.mean((x - m) * (x - m), over=j)"
    ),
    **dict.fromkeys(("atomic_add", "atomic_max", "atomic_cas"), f"one program stores each element; {_FOLDS}"),
    **dict.fromkeys(("cat", "concatenate", "stack", "hstack", "vstack", "split", "chunk", "join"), _STORED),
    **dict.fromkeys(("transpose", "trans", "permute", "swapaxes", "movedim", "t"), "write x.T, or index in any order"),
    **dict.fromkeys(
        ("reshape", "view", "flatten", "ravel", "unsqueeze", "squeeze", "expand_dims", "expand", "repeat"), _MEETING
    ),
    **dict.fromkeys(("broadcast_to", "broadcast", "newaxis", "keepdim", "keepdims"), _MEETING),
    **dict.fromkeys(("zeros_like", "full", "ones", "ones_like", "full_like", "empty"), "a number is a tile as well"),
    **dict.fromkeys(("astype", "cast", "type", "half", "bfloat16", "dtype", "float", "float16", "int", "long"), _CAST),
    "float32": "write tw.f32",
    **dict.fromkeys(("shape", "size", "numel", "ndim", "stride", "strides", "len"), _EXTENTS),
    **dict.fromkeys(("pow", "power", "square"), "write x * x, or tw.exp(y * tw.log(x))"),
    **dict.fromkeys(("exp2",), "write tw.exp(x * 0.6931471805599453)"),
    **dict.fromkeys(("log2", "log10", "log1p", "expm1", "erf", "sin", "cos", "tan", "floor", "ceil"),
                    "there are tw.exp, log, tanh, sigmoid, sqrt, rsqrt and round, of which others are made"),
    **dict.fromkeys(("rand", "randn", "randint", "dropout"), "pass random numbers as a tensor"),
    **dict.fromkeys(("print", "device_print", "printf"), "store what you want to see to a tensor of its own"),
    **dict.fromkeys(("item", "tolist", "numpy", "cpu", "cuda", "detach"), "there are no numbers while tracing"),
    **dict.fromkeys(("inf", "infinity"), "write float('inf')"),
    **dict.fromkeys(("nan", "isnan", "isinf", "isfinite"), "x is NaN where ~tw.equal(x, x) holds"),
    **dict.fromkeys(("logical_and", "logical_or", "logical_not"), "write & | ~"),
    **dict.fromkeys(("eq", "ne", "not_equal"), "write tw.equal(x, y), and ~tw.equal(x, y) for its contrary"),
    **dict.fromkeys(("clip",), "write tw.clamp(x, least, most)"),
    **dict.fromkeys(("syncthreads", "debug_barrier", "barrier"), "leave it out: the compiler synchronizes"),
    **dict.fromkeys(("axis", "axes", "dim"), _OVER),
}  # fmt: skip

_FOLDED = ("sum", "max", "min", "mean", "argmax", "argmin", "logsumexp", "softmax")
_CALLED = re.compile(r"(\w+)\(\) (?:takes|missing|got)")
_OPERATOR = re.compile(r"operand type(?:\(s\))? for (?:unary )?(\S+?):? ")
_METHOD = re.compile(r"doesn't define __(\w+)__")
_KEYWORD = re.compile(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'")
_MISSING = re.compile(r"(\w+)\(\) missing \d+ required keyword-only argument: 'over'")
_TAKES_ALL = re.compile(r"\b(len|sum|max|min|sorted|list|any|all|range|int)\(")
_FOREIGN = re.compile(r"\b(?:np|numpy|math|torch|cp|cupy|jnp|F)\.(?:\w+\.)?(\w+)")
_HANDLES = {
    "Index": "an index",
    "Remainder": "a place in a block",
    "Tile": "a tile",
    "Accumulator": "an accumulator",
    "Product": "a product",
    "TensorHandle": "a tensor",
}
_PACKAGE = __name__.partition(".")[0]


def remedy_of(name: str, known: Iterable[str] = ()) -> str:
    """What to write instead of a name: what the habit is called here, or the nearest name, or those there are."""
    return _REMEDIES.get(name) or nearest_name(name, [each for each in known if each[0].islower()])


def index_remedy(index: object) -> str:
    """What to write where something that is no index stands as one."""
    if index is None:
        return _MEETING
    if isinstance(index, slice) or index is Ellipsis:
        return "name every axis by its index, as in x[i, j]"
    return _ONE_PLACE


def mistake(error: BaseException, names: Iterable[str]) -> TilewrightError | None:
    """What the author's code raised while it was traced, at its innermost line; None for a fault that is not theirs.

    names: what the language has.
    """
    frames = list(traceback.walk_tb(error.__traceback__))
    modules = [str(frame.f_globals.get("__name__", "")) for frame, _ in frames]
    authors = [at for at, module in enumerate(modules) if not _foreign(module)]
    if not authors or (isinstance(error, TilewrightError) and error.span is not None):
        return None
    frame, line = frames[authors[-1]]
    file = frame.f_code.co_filename
    span = Span(file, line, text=source_line(file, line))
    if isinstance(error, TilewrightError):
        # Of what works on arrays, and so has no place in a program.
        called = frames[authors[-1] + 1][0].f_code.co_name if authors[-1] + 1 < len(frames) else ""
        if called == "__call__":
            return TilewrightError("a kernel is called in another", span=span, remedy=_SHARED)
        if called in _REMEDIES:
            return TilewrightError(f"tw.{called} takes arrays, not tiles", span=span, remedy=_REMEDIES[called])
        return TilewrightError(error.message, span=span, remedy=error.remedy)
    if _is_own(modules[-1]):
        return None
    if isinstance(error, NameError) and error.name and not isinstance(error, UnboundLocalError):
        return TilewrightError(f"there is no {error.name}", span=span, remedy=nearest_name(error.name, frame.f_locals))
    message, remedy = _said(error, span.text, list(names))
    return TilewrightError(message, span=span, remedy=remedy)


def _said(error: BaseException, text: str, names: list[str]) -> tuple[str, str]:
    words = str(error)
    match error:
        case AttributeError() if type(error.obj).__name__ in _HANDLES:
            return f"{_HANDLES[type(error.obj).__name__]} has no {error.name}", _instead_of(error.name or "", names)
        case TypeError() if (keyword := _KEYWORD.search(words)) and keyword[1] in names:
            return f"tw.{keyword[1]} takes no {keyword[2]}", _parameter_of(keyword[1], keyword[2])
        case TypeError() if missing := _MISSING.search(words):
            return f"tw.{missing[1]} does not say which axis it folds", _OVER
        case TypeError() if "ufunc" in words or "__array_" in words:
            called = _FOREIGN.search(text)
            name = called[1] if called else ""
            return "NumPy computes no tiles", _instead_of(name, names)
        case ValueError() if "values to unpack" in words:
            return words, "tw.axes and tw.grid give one index for each axis that they name"
        case TypeError() if "__format__" in words:
            return "there are no numbers to print while tracing", _REMEDIES["print"]
        case TypeError() if "range(" in text and "interpreted as an integer" in words:
            return "Python's range visits no axis", _REMEDIES["range"]
        case TypeError() if (operator := _OPERATOR.search(words)) and any(f"'{each}'" in words for each in _HANDLES):
            return f"`{operator[1].rstrip(':')}` is no operator of tiles and indices", _OPERATORS
        case TypeError() if (method := _METHOD.search(words)) and any(f" {each} " in words for each in _HANDLES):
            return f"Python's {method[1]} is not for tiles", _instead_of(method[1], names)
        case TypeError() if "not iterable" in words and not _TAKES_ALL.search(text):
            return "a tile has no elements to visit while tracing", _REMEDIES["range"]
        case TypeError() if any(f"'{handle}'" in words for handle in _HANDLES):
            called = _TAKES_ALL.search(text)
            return words[0].lower() + words[1:], _instead_of(called[1] if called else "", names)
        case TypeError() if (called := _CALLED.match(words)) and called[1] in _REMEDIES:
            return f"tw.{called[1]} is not for tiles", _REMEDIES[called[1]]
        case TypeError() if (called := _CALLED.match(words)) and called[1] in names:
            return f"tw.{words}", _arguments_of(called[1])
        case _:
            return f"{type(error).__name__}{': ' if words else ''}{words}", "fix the file"


def _parameter_of(function: str, name: str) -> str:
    """For a keyword that a function of the language does not take: what it takes."""
    language = sys.modules[f"{__package__}.language"]
    known = list(inspect.signature(getattr(language, function)).parameters)
    return _OVER if "over" in known and name in _REMEDIES else nearest_name(name, known)


def _arguments_of(function: str) -> str:
    """For a function of the language that is called with too few arguments, or too many: which it takes."""
    language = sys.modules[f"{__package__}.language"]
    parameters = inspect.signature(getattr(language, function)).parameters.values()
    listed = [f"{each.name}=..." if each.kind is each.KEYWORD_ONLY else each.name for each in parameters]
    larger = f"; of two tiles, tw.{function}imum(x, y)" if function in ("max", "min") else ""
    return f"write tw.{function}({', '.join(listed)}){larger}"


def _instead_of(name: str, names: list[str]) -> str:
    """For a method, or another library's function: the language's of the same name, if it has one."""
    if name in _FOLDED:
        return f"write tw.{name}(x, over=k)"
    return f"write tw.{name}(x)" if name in names else remedy_of(name, names)


def _foreign(module: str) -> bool:
    return _is_own(module) or module.partition(".")[0] in sys.stdlib_module_names or module.partition(".")[0] == "numpy"


def _is_own(module: str) -> bool:
    return module.partition(".")[0] == _PACKAGE
