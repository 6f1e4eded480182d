"""The backward pass of attention (`tilewright.attention_backward`) against PyTorch's, cuDNN's and Flash Attention's.

Each case is one length and head size, bf16 on random normal data, of 16384 rows of 2048 elements in all. What is timed
is everything that leads from the result's gradient to those of queries, keys and values: our three kernels one after
the other, the peers' backward operators. Contenders take turns (`bench.interleaved`), and the gradients of the first
heads are compared with float64. Operations are those of five products, however many are done.

    python -m bench backward --prepare --kernels out/kernels    # compile ahead, in parallel; needs no GPU
    python -m bench backward --kernels out/kernels
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bench import case_suite
from bench.device_state import Sampler
from bench.interleaved import Contender, race, sets_for
from bench.peers_gemm import Absent
from bench.prepared import Refused, facts_of, load_prepared
from bench.suite import summarised

if TYPE_CHECKING:
    from tilewright.runtime.call import Program

_ROWS, _ELEMENTS = 16384, 2048
_LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
_PRODUCTS = 5
PARTS = ("delta", "query_gradient", "key_gradients")
"""The programs of a backward pass, in launch order."""

Call = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class BackwardCase:
    """part: one of PARTS; "" for all of them. rows: of all batches together; elements: of a row, in all heads."""

    length: int
    size: int
    causal: bool
    part: str = ""
    rows: int = _ROWS
    elements: int = _ELEMENTS

    @property
    def dims(self) -> dict[str, int]:
        """By axis of the programs."""
        batch, heads = self.rows // self.length, self.elements // self.size
        found = {"B": batch, "H": heads, "Q": self.length, "T": self.length, "E": self.size, "F": self.size}
        return {axis: extent for axis, extent in found.items() if self.part != "delta" or axis not in "TE"}

    @property
    def name(self) -> str:
        part = f"{self.part.replace('_', ' ')} of " if self.part else ""
        return f"{part}{self.length} rows of {self.size}{', causal' if self.causal else ''}"

    @property
    def scale(self) -> float:
        return 1.0 / math.sqrt(self.size)


def cases() -> list[BackwardCase]:
    """Every case of the suite."""
    return [BackwardCase(length, size, causal) for size in (64, 128) for causal in (False, True) for length in _LENGTHS]


def parts_of(case: BackwardCase) -> list[BackwardCase]:
    """The programs of a case."""
    return [replace(case, part=part) for part in PARTS]


add_arguments = case_suite.add_arguments


def run(arguments: argparse.Namespace) -> int:
    return case_suite.run_cases(arguments, "backward", cases(), _measured, _line, programs=parts_of)


def _measured(torch: Any, case: BackwardCase, arguments: argparse.Namespace, sampler: Sampler) -> dict[str, Any]:
    torch.cuda.empty_cache()
    row: dict[str, object] = {"case": case.name, "length": case.length, "size": case.size, "causal": case.causal}
    programs: list[Program] = []
    for part in parts_of(case):
        program = load_prepared(part, arguments.kernels)
        if isinstance(program, Refused):
            return row | {"refused": program.message}
        programs.append(program)
    dims = case.dims
    shape = (dims["B"], dims["H"], case.length, case.size)
    generator = torch.Generator(device="cuda").manual_seed(0)
    sets = sets_for(5 * 2 * math.prod(shape), warm=arguments.warm)
    given = [[torch.randn(shape, device="cuda", generator=generator).bfloat16() for _ in range(4)] for _ in range(sets)]
    forward = _peers(torch, case)
    kept: dict[str, list[Any]] = {}
    absent: list[Absent] = []
    for name, (ahead, _) in forward.items():
        try:
            kept[name] = [ahead(*arrays[:3]) for arrays in given]
        except RuntimeError as error:  # how PyTorch refuses a backend
            absent.append(Absent(name, str(error).split("\n")[0]))
    # Of the same result, and the same sums, for all that take them.
    results = kept["flash"]
    delta, query_gradient, key_gradients = programs
    rows = torch.empty(shape[:3], device="cuda", dtype=torch.float32)
    found = [torch.empty(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3)]

    def ours(index: int) -> None:
        q, k, v, g = given[index % sets]
        out, lse = results[index % sets][:2]
        delta(g, out, out=rows)
        query_gradient(q, k, v, g, lse, rows, out=found[0])
        key_gradients(q, k, v, g, lse, rows, out=(found[1], found[2]))

    notes = {part: facts_of(program) for part, program in zip(PARTS, programs, strict=True)}
    contenders = [Contender("ours", ours, found, notes)]
    for name, saved in kept.items():
        held: dict[str, Any] = {}

        def peer(index: int, name: str = name, held: dict[str, Any] = held, saved: list[Any] = saved) -> None:
            q, k, v, g = given[index % sets]
            held["result"] = forward[name][1](g, q, k, v, saved[index % sets])

        try:
            peer(0)
        except (RuntimeError, TypeError) as error:
            absent.append(Absent(name, str(error).split("\n")[0]))
            continue
        contenders.append(Contender(name, peer, None, fetch=lambda held=held: held["result"]))
    result = race(torch, contenders, sets=sets, turns=arguments.turns, sampler=sampler)
    operations = _PRODUCTS * 2 * math.prod(shape) * case.length / (2 if case.causal else 1)
    row |= summarised(result, contenders, absent, {}, operations)
    if not arguments.no_accuracy:
        row["errors"] = _errors(torch, case, contenders, given[0])
    return row


def _peers(torch: Any, case: BackwardCase) -> Mapping[str, tuple[Call, Call]]:
    """The forward and the backward operator of each of PyTorch's backends."""
    aten, causal, scale = torch.ops.aten, case.causal, case.scale

    def flash(q: Any, k: Any, v: Any) -> Any:
        return aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)

    def flash_back(g: Any, q: Any, k: Any, v: Any, kept: Any) -> Any:
        return aten._scaled_dot_product_flash_attention_backward(
            g, q, k, v, *kept[:6], 0.0, causal, kept[6], kept[7], scale=scale
        )

    def cudnn(q: Any, k: Any, v: Any) -> Any:
        return aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal, False, scale=scale)

    def cudnn_back(g: Any, q: Any, k: Any, v: Any, kept: Any) -> Any:
        out, sums, cum_q, cum_k, max_q, max_k, seed, offset, _ = kept
        return aten._scaled_dot_product_cudnn_attention_backward(
            g, q, k, v, out, sums, seed, offset, None, cum_q, cum_k, max_q, max_k, 0.0, causal, scale=scale
        )

    return {"cuDNN": (cudnn, cudnn_back), "flash": (flash, flash_back)}


def _errors(torch: Any, case: BackwardCase, contenders: list[Contender], arrays: list[Any]) -> dict[str, list[float]]:
    """Relative errors of the three gradients of the first head, in the Frobenius norm."""
    wide = [each[:1, :1].double().requires_grad_() for each in arrays[:3]]
    scores = wide[0] @ wide[1].transpose(-1, -2) * case.scale
    if case.causal:
        above = torch.ones(scores.shape[-2:], dtype=torch.bool, device="cuda").triu(1)
        scores = scores.masked_fill(above, -torch.inf)
    exact = torch.autograd.grad(torch.softmax(scores, -1) @ wide[2], wide, arrays[3][:1, :1].double())
    del scores
    found: dict[str, list[float]] = {}
    for each in contenders:
        each.call(0)
        torch.cuda.synchronize()
        pairs = zip(each.result(), exact, strict=True)
        found[each.name] = [((one[:1, :1].double() - other).norm() / other.norm()).item() for one, other in pairs]
    return found


def _line(row: dict[str, Any]) -> str:
    if "refused" in row:
        return f"{row['case']}: refused: {row['refused']}"
    ratios = ", ".join(f"{name} {each['median']:.3f}" for name, each in row["ratios"].items())
    gone = "".join(f"; no {name}: {why[:60]}" for name, why in row["absent"].items())
    errors = ", ".join(
        f"{name} {' '.join(f'{error:.2e}' for error in each)}" for name, each in row.get("errors", {}).items()
    )
    ours = row["contenders"]["ours"]
    return (
        f"{row['case']}: {ours['microseconds']:.0f} us, {ours['tflops']:.0f} TFLOP/s; {ratios}{gone}; errors {errors}"
    )
