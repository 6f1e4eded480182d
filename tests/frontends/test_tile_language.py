# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Declaring kernels: what is accepted, what is refused, and that the language loads no IR."""

import inspect
import subprocess
import sys
from functools import partial

import pytest

import tilewright.frontends.tile.language as tw
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile.kernel import Kernel, Parameter, kernel, nearest_name, set_launcher, tensor_axes

UNARY = ("abs", "exp", "tanh", "sigmoid", "relu", "gelu", "silu", "sqrt")


@tw.kernel
def copy(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = x[i, j]


def test_a_kernel_knows_its_name_axes_place_and_source():
    assert copy.name == "copy"
    assert copy.parameters == (Parameter("x", ("M", "N")), Parameter("y", ("M", "N")))
    assert copy.axes == ("M", "N")
    assert copy.file == __file__
    assert "y[i, j] = x[i, j]" in copy.source
    assert copy.span.text == "@tw.kernel"


def test_elements_are_exported_by_name():
    assert (tw.bf16, tw.f16, tw.f32) == (Element.BF16, Element.F16, Element.F32)


def test_every_exported_name_exists():
    assert all(hasattr(tw, name) for name in tw.__all__)


def test_annotations_as_text_and_from_a_closure():
    scope: dict[str, object] = {"tw": tw}
    text = (
        "from __future__ import annotations\n"
        "@tw.kernel\n"
        "def square(x: tw.Tensor['N'], y: tw.Tensor['N']):\n"
        "    i = tw.grid('N')\n"
        "    y[i] = x[i] * x[i]\n"
    )
    exec(compile(text, "<prompt>", "exec"), scope)
    square = scope["square"]
    assert isinstance(square, Kernel)
    assert square.parameters == (Parameter("x", ("N",)), Parameter("y", ("N",)))
    assert square.source == ""

    vector = tw.Tensor["N"]

    @tw.kernel
    def negate(x: "vector", y: "vector"):
        y[tw.grid("N")] = -x[tw.grid("N")]

    assert negate.axes == ("N",)


def test_the_language_imports_no_ir_and_no_numpy():
    program = (
        "import sys, tilewright.frontends.tile.language\n"
        "print(sorted({'xdsl', 'numpy', 'ml_dtypes', 'cuda'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture
def no_launcher():
    """Whatever other tests installed is put aside."""
    before = set_launcher(None)
    yield
    set_launcher(before)


def test_calling_without_a_launcher_says_so(no_launcher):
    with pytest.raises(TilewrightError, match="nothing is installed that launches kernel copy"):
        copy()


def test_calling_runs_the_launcher(no_launcher):
    calls = []
    set_launcher(lambda kernel, arguments, keywords: calls.append((kernel, arguments, keywords)) or "launched")
    assert copy(1, y=2) == "launched"
    assert calls == [(copy, (1,), {"y": 2})]


def declared_without_annotation():
    def f(x): ...

    return f


def declared_with_int():
    def f(x: int): ...

    return f


def declared_with_default():
    def f(x: tw.Tensor["M"] = None): ...

    return f


def declared_variadic():
    def f(*x: tw.Tensor["M"]): ...

    return f


def declared_keyword_only():
    def f(*, x: tw.Tensor["M"]): ...

    return f


def declared_empty():
    def f(): ...

    return f


def declared_async():
    async def f(x: tw.Tensor["M"]): ...

    return f


def declared_generator():
    def f(x: tw.Tensor["M"]):
        yield x

    return f


def declared_unresolvable():
    def f(x: "nowhere.Tensor['M']"): ...

    return f


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (declared_without_annotation, "parameter x has no annotation"),
        (declared_with_int, "parameter x is annotated int, and no tensor with axes"),
        (declared_with_default, "parameter x has a default"),
        (declared_variadic, "parameter x is variadic"),
        (declared_keyword_only, "parameter x is variadic, positional-only or keyword-only"),
        (declared_empty, "kernel f has no parameters"),
        (declared_async, "kernel f is async or yields"),
        (declared_generator, "kernel f is async or yields"),
        (declared_unresolvable, "annotations of f cannot be read: name 'nowhere' is not defined"),
        (lambda: lambda x: x, "needs a name and annotations"),
        (lambda: 3, "decorates a function, not int"),
        (lambda: partial(print), "decorates a function, not partial"),
        (lambda: print, "decorates a function, not builtin_function_or_method"),
    ],
)
def test_wrong_declarations_are_refused_with_a_remedy(declare, message):
    with pytest.raises(TilewrightError, match=message) as caught:
        tw.kernel(declare())
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (3, "3 is no axis name"),
        ("two words", "'two words' is no axis name"),
        (("M", 4), "4 is no axis name"),
        (("M", "M"), "names axis M twice"),
        (tuple("ABCDEF"), "a tensor with 6 axes"),
        ((), "a tensor with 0 axes"),
        ("K/0", "'K/0' is no axis name"),
        ("K/8/2", "'K/8/2' is no axis name"),
        (tw.i32, "a tensor with 0 axes"),
        ((tw.i32, "M"), "is no axis name"),
    ],
)
def test_wrong_axes_are_refused(axes, message):
    with pytest.raises(TilewrightError, match=message) as refused:
        tw.Tensor[axes]
    assert refused.value.span is not None
    assert refused.value.span.text == "tw.Tensor[axes]"


@pytest.mark.parametrize(
    ("use", "name"),
    [
        (lambda: tw.grid("M"), "tw.grid"),
        (lambda: tw.loop("K"), "tw.loop"),
        (lambda: tw.zeros(), "tw.zeros"),
        (lambda: tw.dot(1, 2), "tw.dot"),
        (lambda: tw.maximum(1, 2), "tw.maximum"),
        (lambda: tw.minimum(1, 2), "tw.minimum"),
        *((partial(getattr(tw, name), 1), f"tw.{name}") for name in UNARY),
    ],
)
def test_the_language_outside_a_kernel_says_so(use, name):
    with pytest.raises(TilewrightError, match=f"{name} is used outside a kernel"):
        use()


def test_remedies_name_the_nearest():
    assert nearest_name("bais", ["a", "bias"]) == "did you mean bias?"
    assert nearest_name("m", ["M", "N"]) == "did you mean M?"
    assert nearest_name("rows", ["M", "N"]) == "known are M, N"


@pytest.mark.parametrize("names", [("größe", "x"), ("scale", "β"), ("_", "x"), ("WARP_SZ", "x")])
def test_names_that_ptx_does_not_take(names):
    kernel_name, parameter_name = names

    def function(x): ...

    function.__name__ = kernel_name
    function.__signature__ = inspect.Signature(
        [inspect.Parameter(parameter_name, inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    )
    function.__annotations__ = {parameter_name: tensor_axes("M")}
    with pytest.raises(TilewrightError, match="a name that PTX does not take"):
        kernel(function)
