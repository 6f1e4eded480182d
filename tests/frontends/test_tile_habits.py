"""What authors write by habit of NumPy, PyTorch and Triton: refused at their line, with what works, which compiles."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.base.error import TilewrightError

PROGRAM = """import math
import numpy as np
import tilewright as tw

@tw.kernel
def shared(a: tw.Tensor["M", "K"], y: tw.Tensor["M", "K"]):
    i, k = tw.axes("M K")
    y[i, k] = a[i, k]

@tw.kernel
def program({parameters}):
    i, {indices} = tw.axes("{axes}")
    {line}
"""
ROW = ('a: tw.Tensor["M", "K"], y: tw.Tensor["M"]', "k", "M K")
SAME = ('a: tw.Tensor["M", "K"], y: tw.Tensor["M", "K"]', "k", "M K")
BIAS = ('a: tw.Tensor["M", "K"], b: tw.Tensor["M"], y: tw.Tensor["M", "K"]', "k", "M K")
PRODUCT = ('a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], y: tw.Tensor["M", "N"]', "j, k", "M N K")


def declared(folder: Path, shape: tuple[str, str, str], line: str) -> tw.Kernel:
    parameters, indices, axes = shape
    path = folder / "habit.py"
    path.write_text(PROGRAM.format(parameters=parameters, indices=indices, axes=axes, line=line))
    spec = importlib.util.spec_from_file_location("habit", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.program


def refusal(kernel: tw.Kernel) -> TilewrightError:
    with pytest.raises(TilewrightError) as caught:
        tw.compile(kernel, dtype="f16", **dict.fromkeys(kernel.axes, 64))
    return caught.value


@pytest.mark.parametrize(
    ("shape", "line", "message", "remedy"),
    [
        (ROW, "y[i] = np.sum(a[i, k], axis=1)", "NumPy computes no tiles", "tw.sum(x, over=k)"),
        (ROW, "y[i] = tw.sum(a[i, k], axis=1)", "tw.sum takes no axis", "over=j"),
        (ROW, "y[i] = tw.sum(a[i, k])", "tw.sum does not say which axis", "over=j"),
        (ROW, "y[i] = a[i, k].sum()", "a tile has no sum", "tw.sum(x, over=k)"),
        (ROW, "y[i] = sum(a[i, k])", "not iterable", "tw.sum(x, over=k)"),
        (ROW, "y[i] = [x for x in a[i, k]][0]", "no elements to visit", "tw.sum(x[i, k], over=k)"),
        (ROW, "y[i] = tw.max(a[i, k], 0.0)", "takes 1 positional argument but 2", "tw.maximum(x, y)"),
        (SAME, "y[i, k] = tw.where(a[i, k] > 0, a[i, k])", "'other'", "tw.where(condition, chosen, other)"),
        (SAME, "y[i, k] = aa[i, k]", "there is no aa", "did you mean a?"),
        (SAME, "y[i, k] = round(a[i, k])", "Python's round", "tw.round(x)"),
        (SAME, "y[i, k] = tw.where((a[i, k] > 0) ^ (a[i, k] < 1), 1, 0)", "`^` is no operator", "& | ~ of conditions"),
        (SAME, "y[i, k] = +a[i, k]", "`+` is no operator", "+ - * /"),
        (SAME, "y[i, k] = tw.where(True & (a[i, k] > 0), 1, 0)", "True is used as a number", "write a number"),
        (SAME, "y[i, k] = a[i, k] * list(range(99))", "neither a tile nor a number", "use tiles"),
        (SAME, "y[i, k] = a[i, k] * np.ones((64, 64))", "an array (ndarray) meets a tile", "a parameter"),
        (ROW, "y[i] = tw.var(a[i, k], over=k)", "no tw.var", "tw.mean((x - m) * (x - m), over=j)"),
        (ROW, "y[i] = a[i, 0]", "0 is no index", "a tensor of its own"),
        (ROW, "y[i] = a[i, k]", "is stored to a tensor over (M)", "folded along K as by tw.sum"),
        (ROW, "print(f'{a[i, k]:.3f}')", "no numbers to print", "a tensor of its own"),
        (ROW, "y[i] = [a[i, k] for _ in range('K')][0]", "range visits no axis", "tw.sum(x[i, k], over=k)"),
        (ROW, "y[i] = tw.cumsum(a[i, k], over=k)", "no tw.cumsum", "tw.where(k <= j, x[i, k], 0.0)"),
        (ROW, "y[i] = tw.topk(a[i, k], 2)", "no tw.topk", "first = tw.argmax"),
        (SAME, "y[i, k] = tw.clamp(a[i, k], min=0.0, most=1.0)", "tw.clamp takes no min", "least, most"),
        (SAME, "y[i, k] = a[i, k].to('bf16')", ".to takes no 'bf16'", "use tw.bf16"),
        (SAME, "y[i, k] = a[i, 63 - k]", "a tile of numbers is used as an index", "displaced by whole numbers"),
        (ROW, "tw.atomic_add(y[i], a[i, k])", "no tw.atomic_add", "one program stores each element"),
        (SAME, "p = tw.program_id(0)", "no tw.program_id", "tw.axes('M N')"),
        (SAME, "p = tw.arange(0, 64)", "no tw.arange", "tw.axes('M N')"),
        (SAME, "x = tw.load(a, (i, k))", "tw.load", "x[i, j]"),
        (SAME, "y[i, :] = a[i, :]", "is no index", "name every axis"),
        (SAME, "y[i, k] = a[i, k] ** 2", "`**`", "x * x"),
        (SAME, "y[i, k] = np.exp(a[i, k])", "NumPy computes no tiles", "tw.exp(x)"),
        (SAME, "y[i, k] = math.exp(a[i, k])", "not a number", "functions of tw"),
        (SAME, "y[i, k] = a[i, k] / a.shape[1]", "a tensor has no shape", "enclosing scope"),
        (SAME, "y[i, k] = a[i, k] / len(a)", "no len()", "enclosing scope"),
        (SAME, "y[i, k] = a[i, k].astype(np.float16)", "a tile has no astype", "x.to(tw.bf16)"),
        (SAME, "y[i, k] = a[i, k].reshape(64, 64)", "a tile has no reshape", "names of their axes"),
        (SAME, "y[i, k] = tw.where(a[i, k] == 0, 1.0, 2.0)", "`==`", "tw.equal(x, y)"),
        (SAME, "y[i, k] = tw.where(i == k, 1.0, a[i, k])", "`==`", "tw.equal(x, y)"),
        (SAME, "y[i, k] = 1.0 if a[i, k] != 0 else 2.0", "`!=`", "~tw.equal(x, y)"),
        (SAME, "y[i, k] = tw.where(0 < a[i, k] < 1, 1.0, 2.0)", "no truth value", "& | ~"),
        (SAME, "y[i, k] = max(a[i, k], 0.0)", "no truth value", "tw.maximum"),
        (SAME, "y[i, k] = tw.softmax(a[i, k], dim=-1)", "tw.softmax takes no dim", "over=j"),
        (SAME, "y[i, k] = tw.where(k <= i, a[i, k], -tw.inf)", "no tw.inf", "float('inf')"),
        (SAME, "y[i, k] = a[i, k] / 0 + 1 / 0", "ZeroDivisionError", "fix the file"),
        (SAME, "shared(a, y)", "a kernel is called in another", "plain function"),
        (BIAS, "y[i, k] = a[i, k] * b[i, None]", "None is no index", "leave it out"),
        (PRODUCT, "y[i, j] = tw.matmul(a[i, k], b[k, j])", "tw.matmul takes arrays", "tw.dot(x, y, over=k)"),
        (PRODUCT, "y[i, j] = tw.einsum('mk,kn->mn', a[i, k], b[k, j])", "no tw.einsum", "tw.dot(x, y, over=k)"),
    ],
)
def test_a_habit_is_refused_at_its_line(
    tmp_path: Path, shape: tuple[str, str, str], line: str, message: str, remedy: str
) -> None:
    error = refusal(declared(tmp_path, shape, line))
    assert message in error.message and remedy in error.remedy
    assert error.span is not None and error.span.text.strip() == line
    assert error.span.file == str(tmp_path / "habit.py")


def test_a_mistake_in_a_function_that_a_kernel_calls_stands_there(tmp_path: Path) -> None:
    kernel = declared(tmp_path, SAME, "y[i, k] = (lambda x: x.relu())(a[i, k])")
    error = refusal(kernel)
    assert error.message == "a tile has no relu" and error.remedy == "write tw.relu(x)"


def test_a_name_that_is_asked_for_outside_a_program_has_its_remedy_too() -> None:
    with pytest.raises(AttributeError, match=r"constexpr.*the compiler chooses tiles"):
        _ = tw.constexpr


@pytest.mark.parametrize("name", ["softmax", "logsumexp", "mean", "sum"])
def test_a_fold_of_arrays_is_refused_by_its_own_name(name: str) -> None:
    with pytest.raises(TilewrightError, match=rf"tw\.{name} is used outside a kernel"):
        getattr(tw, name)(X, over=1)


def test_a_clamp_of_arrays_is_refused_by_its_own_name() -> None:
    with pytest.raises(TilewrightError, match=r"tw\.clamp is used outside a kernel"):
        tw.clamp(X, 0.0, 1.0)


INF = np.inf
X = np.random.default_rng(0).standard_normal((40, 48)).astype(np.float16)
B = np.random.default_rng(1).standard_normal(40).astype(np.float16)
WIDE = X.astype(np.float64)


LINES, COLUMNS = np.ogrid[:40, :48]
NUMBERED = WIDE * (8 - COLUMNS) / 4 - COLUMNS / 8 - 2 / (LINES + 1) - COLUMNS
SECOND = "y[i] = tw.max(tw.where(tw.equal(k, first), -math.inf, a[i, k]), over=k)"


@pytest.mark.parametrize(
    ("shape", "line", "expected"),
    [
        (ROW, "y[i] = tw.sum(a[i, k], over=k)", WIDE.sum(1)),
        (ROW, "m = tw.mean(a[i, k], over=k); y[i] = tw.mean((a[i, k] - m) * (a[i, k] - m), over=k)", WIDE.var(1)),
        (SAME, "y[i, k] = a[i, k] * a[i, k]", WIDE**2),
        (SAME, "y[i, k] = tw.exp(2 * tw.log(tw.abs(a[i, k]) + 1))", (abs(WIDE) + 1) ** 2),
        (SAME, "y[i, k] = tw.where(tw.equal(i, k), 1.0, a[i, k])", np.where(np.eye(40, 48, dtype=bool), 1, WIDE)),
        (SAME, "y[i, k] = tw.where((0 < a[i, k]) & ~(a[i, k] > 1), 1.0, 2.0)", 2 - ((WIDE > 0) & (WIDE <= 1))),
        (SAME, "y[i, k] = tw.where(~tw.equal(a[i, k], a[i, k]), 0.0, tw.exp(a[i, k] * 0.6931471805599453))", 2**WIDE),
        (SAME, "y[i, k] = tw.maximum(a[i, k].to(tw.bf16), 0.0)", np.maximum(WIDE, 0)),
        (SAME, "y[i, k] = tw.where(k <= i, a[i, k], -float('inf'))", np.where(np.tri(40, 48), WIDE, -INF)),
        (BIAS, "y[i, k] = a[i, k] * b[i]", WIDE * B[:, None]),
        (SAME, "y[i, k] = a[i, k] * (8 - k) / 4 - k / 8 - 2 / (i + 1 + 0 * k) + -k", NUMBERED),
        (ROW, f"first = tw.argmax(a[i, k], over=k); {SECOND}", np.sort(WIDE, axis=1)[:, -2]),
    ],
)  # fmt: skip
def test_what_the_remedies_propose_works(
    tmp_path: Path, shape: tuple[str, str, str], line: str, expected: np.ndarray
) -> None:
    given = (X, B) if shape == BIAS else (X,)
    assert np.allclose(declared(tmp_path, shape, line)(*given), expected, atol=2e-2, rtol=1e-2)
