"""Tilewright: a verifying compiler for asynchronous GPU kernels.

    import tilewright as tw

    @tw.kernel
    def matmul(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
        i, j = tw.grid("M", "N")
        acc = tw.zeros(i, j)
        for k in tw.loop("K"):
            acc += tw.dot(a[i, k], b[k, j])
        c[i, j] = acc

    kernel = tw.compile(matmul, target="sm_90a", M=4096, N=4096, K=4096)
    c = kernel(a, b)

Importing this package loads nothing else: no solver, no IR, no CUDA. Each verb is loaded when it is first asked for. In
a notebook it also says how layouts are drawn.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tilewright.base.error import TilewrightError
    from tilewright.driver.check.public import CheckReport, check
    from tilewright.driver.compile.attention import attention, attention_backward
    from tilewright.driver.compile.gemm import gated_matmul, grouped_matmul, masked_matmul, matmul
    from tilewright.driver.compile.norms import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
    from tilewright.driver.compile.ready import compile
    from tilewright.driver.run.run import CompiledKernel
    from tilewright.frontends.tile.language import (
        Kernel,
        Tensor,
        abs,
        argmax,
        argmin,
        axes,
        bf16,
        clamp,
        dot,
        dynamic,
        equal,
        exp,
        f4e2m1x2,
        f8e4m3,
        f8e5m2,
        f16,
        f32,
        gelu,
        grid,
        group,
        i8,
        i32,
        kernel,
        log,
        logsumexp,
        loop,
        max,
        maximum,
        mean,
        min,
        minimum,
        relu,
        round,
        rsqrt,
        sigmoid,
        silu,
        softmax,
        sqrt,
        sum,
        tanh,
        ue4m3,
        ue8m0,
        where,
        within,
        zeros,
    )
    from tilewright.runtime.bundle import load

_LANGUAGE = "tilewright.frontends.tile.language"
_HOMES = {
    "TilewrightError": "tilewright.base.error",
    "CompiledKernel": "tilewright.driver.run.run",
    "CheckReport": "tilewright.driver.check.public",
    "check": "tilewright.driver.check.public",
    "compile": "tilewright.driver.compile.ready",
    "load": "tilewright.runtime.bundle",
    **dict.fromkeys(("attention", "attention_backward"), "tilewright.driver.compile.attention"),
    **dict.fromkeys(
        ("layer_norm", "layer_norm_backward", "rms_norm", "rms_norm_backward"), "tilewright.driver.compile.norms"
    ),
    **dict.fromkeys(("gated_matmul", "grouped_matmul", "masked_matmul", "matmul"), "tilewright.driver.compile.gemm"),
    **dict.fromkeys(
        (
            "Kernel", "Tensor", "abs", "argmax", "argmin", "axes", "bf16", "clamp", "dot", "dynamic", "equal", "exp",
            "f16", "f32", "f4e2m1x2", "f8e4m3", "f8e5m2", "gelu", "grid", "group", "i8", "i32", "kernel", "log",
            "logsumexp", "loop", "max", "maximum", "mean", "min", "minimum", "relu", "round", "rsqrt", "sigmoid",
            "silu", "softmax", "sqrt", "sum", "tanh", "ue4m3", "ue8m0", "where", "within", "zeros",
        ),
        _LANGUAGE,
    ),
}  # fmt: skip

__all__ = [
    "CheckReport",
    "CompiledKernel",
    "Kernel",
    "Tensor",
    "TilewrightError",
    "abs",
    "argmax",
    "argmin",
    "attention",
    "attention_backward",
    "axes",
    "bf16",
    "check",
    "clamp",
    "compile",
    "dot",
    "dynamic",
    "equal",
    "exp",
    "f4e2m1x2",
    "f8e4m3",
    "f8e5m2",
    "f16",
    "f32",
    "gated_matmul",
    "gelu",
    "grid",
    "group",
    "grouped_matmul",
    "i8",
    "i32",
    "kernel",
    "layer_norm",
    "layer_norm_backward",
    "load",
    "log",
    "logsumexp",
    "loop",
    "masked_matmul",
    "matmul",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "relu",
    "rms_norm",
    "rms_norm_backward",
    "round",
    "rsqrt",
    "sigmoid",
    "silu",
    "softmax",
    "sqrt",
    "sum",
    "tanh",
    "ue4m3",
    "ue8m0",
    "where",
    "within",
    "zeros",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        _refuse_in_kernel(name)
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}{_habit(name)}")
    value = getattr(import_module(home), name)
    if name == "kernel":
        _install_launcher()
    globals()[name] = value
    return value


def _refuse_in_kernel(name: str) -> None:
    """What a kernel's body asks for and nobody has is the author's mistake, at the line where it stands."""
    language = sys.modules.get(_LANGUAGE)
    tracer = language.active_tracer.get() if language is not None else None
    if tracer is not None and not name.startswith("__"):
        from tilewright.frontends.tile.habits import remedy_of

        tracer.refuse(f"there is no tw.{name}", remedy_of(name, language.__all__ if language is not None else ()))


def _habit(name: str) -> str:
    """What other languages' names are called here, once a program is being written: `import` asks for names too."""
    if _LANGUAGE not in sys.modules or name.startswith("_"):
        return ""
    from tilewright.frontends.tile.habits import remedy_of

    remedy = remedy_of(name)
    return "" if remedy.startswith("known are") else f": {remedy}"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _install_launcher() -> None:
    """Calling a declared kernel with arrays compiles it for them; the compiler is loaded only then."""
    from tilewright.frontends.tile.kernel import Kernel as Declared
    from tilewright.frontends.tile.kernel import set_launcher

    def launch(kernel: Declared, arguments: tuple[object, ...], keywords: dict[str, object]) -> object:
        from tilewright.driver.compile.ready import launch as launch_kernel

        return launch_kernel(kernel, arguments, keywords)

    set_launcher(launch)


if "IPython" in sys.modules:
    from tilewright.integrations.notebook import register_if_running

    register_if_running()
