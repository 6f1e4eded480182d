"""Who else multiplies matrices? torch.mm, the best of cublasLt's list, and Triton tuned for the shape.

Each peer is given what helps it: its own tuning over these very arrays, workspaces, fast paths that a user could turn
on. PyTorch's default of reduced-precision reductions in split-K products stays on, as users have it; cublasLt's list is
asked for float32 computation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.cublaslt import RACE_SECONDS, Watch
from bench.gemm_suites import Product
from bench.interleaved import Contender

NAMES = ("torch", "cublasLt", "triton")


@dataclass(frozen=True, slots=True)
class Arrays:
    """Input sets of a product, and the factors of fp8 operands, if any: of a and of b."""

    pairs: Sequence[tuple[Any, Any]]
    a_scale: Any = None
    b_scale: Any = None


@dataclass(frozen=True, slots=True)
class Absent:
    """A peer that did not take part, and why."""

    name: str
    why: str


def element(torch: Any, dtype: str) -> Any:
    """PyTorch's type."""
    names = {"bf16": "bfloat16", "f16": "float16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
    return getattr(torch, names[dtype])


def result_element(torch: Any, product: Product) -> Any:
    """fp8 operands give bf16."""
    return element(torch, product.dtype if product.scaling == "none" else "bf16")


def empty_result(torch: Any, product: Product) -> Any:
    return torch.empty(product.m, product.n, device="cuda", dtype=result_element(torch, product))


def peers_of(
    torch: Any,
    product: Product,
    arrays: Arrays,
    *,
    sets: int,
    wanted: Sequence[str] = NAMES,
    output: Callable[[], Any] | None = None,
    seconds: float = math.inf,
    watch: Watch | None = None,
) -> tuple[list[Contender], list[Absent]]:
    """The peers that can run this product, each with an output of its own. output: makes one (default: dense rows);
    seconds: how long into cublasLt's tuning algorithms of its list are still begun; watch: told of their calls."""
    fresh = output or (lambda: empty_result(torch, product))
    makers: dict[str, Callable[[], list[Contender]]] = {
        "torch": lambda: _torch(torch, product, arrays, sets, fresh),
        "cublasLt": lambda: _cublaslt(torch, product, arrays, sets, fresh, seconds, watch),
        "triton": lambda: _triton(torch, product, arrays, sets, fresh),
    }
    found: list[Contender] = []
    absent: list[Absent] = []
    for name in wanted:
        try:
            found += makers[name]()
        except (ValueError, RuntimeError, NotImplementedError, ImportError) as error:
            absent.append(Absent(name, str(error).splitlines()[0] if str(error) else type(error).__name__))
            if watch is not None:
                watch.calling(None, RACE_SECONDS)
    return found, absent


def has_precise_sums(product: Product) -> bool:
    """Whether long sums of 8-bit operands are to be kept in float32; with factors of blocks they are anyhow."""
    return product.scaling in ("tensor", "row") and product.accumulation == "precise"


def _torch(torch: Any, product: Product, arrays: Arrays, sets: int, fresh: Callable[[], Any]) -> list[Contender]:
    output = fresh()
    pairs = arrays.pairs
    if product.scaling == "none":

        def multiply(index: int) -> None:
            torch.mm(*pairs[index % sets], out=output)

        return [Contender("torch", multiply, output)]
    a_scale, b_scale = _torch_scales(arrays, product)
    result, fast = fresh(), product.accumulation == "fast"

    def scaled(index: int) -> None:
        a, b = pairs[index % sets]
        # It takes b column-major alone.
        turned = b if product.transposed else b.t().contiguous().t()
        torch._scaled_mm(a, turned, a_scale, b_scale, out_dtype=torch.bfloat16, use_fast_accum=fast, out=result)

    scaled(0)
    return [Contender(_accumulating("torch", product), scaled, result, {"accumulation": product.accumulation})]


def _accumulating(name: str, product: Product) -> str:
    """A peer's name. Who competes keeps as many bits of sums of 8-bit operands as ours does."""
    return f"{name} fast accumulation" if product.accumulation == "fast" else name


def _torch_scales(arrays: Arrays, product: Product) -> tuple[Any, Any]:
    """In the shapes that torch._scaled_mm wants: () , (m, 1) and (1, n), or (m, k/128) and (k/128, n/128), whose lines
    run along m and along k."""
    if product.scaling == "tensor":
        return arrays.a_scale.reshape(()), arrays.b_scale.reshape(())
    if product.scaling == "row":
        return arrays.a_scale.reshape(-1, 1), arrays.b_scale.reshape(1, -1)
    return arrays.a_scale.t().contiguous().t(), arrays.b_scale.t()


def _cublaslt(
    torch: Any,
    product: Product,
    arrays: Arrays,
    sets: int,
    fresh: Callable[[], Any],
    seconds: float,
    watch: Watch | None,
) -> list[Contender]:
    from bench.cublaslt import Scales, best

    output = fresh()
    if product.scaling == "none":
        return [best(torch, arrays.pairs, output, sets=sets, seconds=seconds, watch=watch)]
    a_scale = arrays.a_scale.t().contiguous() if product.scaling == "block" else arrays.a_scale
    scales = Scales(a_scale, arrays.b_scale, product.scaling)
    fast, name = product.accumulation == "fast", _accumulating("cublasLt", product)
    return [
        best(
            torch, arrays.pairs, output, sets=sets, scales=scales, fast_accumulation=fast, name=name, seconds=seconds,
            watch=watch,
        )
    ]  # fmt: skip


def _triton(torch: Any, product: Product, arrays: Arrays, sets: int, fresh: Callable[[], Any]) -> list[Contender]:
    from bench.triton_tuning import tuned

    scales = None if product.scaling == "none" else (arrays.a_scale, arrays.b_scale)
    precise = has_precise_sums(product)
    return [tuned(torch, arrays.pairs, fresh(), sets=sets, scales=scales, scaling=product.scaling, precise=precise)]
