"""Programs of products and folds (`examples/fused.py`) against PyTorch's attention kernels and torch.compile's.

Each case is one program and shape, bf16 on random normal data, timed in turns with its peers (`bench.interleaved`) and
compared with float64 on a part of the result. Peers of attention are what PyTorch offers for it: cuDNN's and its own
flash kernels, flex attention compiled where there is a mask of its own; of the others, PyTorch's operations one after
the other and compiled. A peer that refuses a case is named with its words.

    python -m bench fused --prepare --kernels out/kernels    # compile ahead, in parallel; needs no GPU
    python -m bench fused --kernels out/kernels
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench import case_suite
from bench.device_state import Sampler
from bench.interleaved import Contender, race, sets_for
from bench.peers_gemm import Absent
from bench.prepared import Refused, facts_of, load_prepared
from bench.suite import summarised

_SCALE = 0.125
_HEADS_PER_GROUP = 4
_DTYPES: dict[str, Callable[[Any], Any]] = {"bf16": lambda torch: torch.bfloat16, "i32": lambda torch: torch.int32}
"""Of results."""
_COMPARED = 2
"""Rows of the first axis, and of the second of a result of four, that are compared with float64."""


@dataclass(frozen=True, slots=True)
class FusedCase:
    """A program of `examples/fused.py` with these extents."""

    program: str
    dims: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        return f"{self.program} {' x '.join(f'{axis}={extent}' for axis, extent in self.dims)}"


def _case(program: str, **dims: int) -> FusedCase:
    return FusedCase(program, tuple(dims.items()))


def attention_case(
    program: str, batch: int, heads: int, length: int, width: int, *, queries: int | None = None
) -> FusedCase:
    """queries: of each head, where not one for each key."""
    rows = length if queries is None else queries
    return _case(program, B=batch, H=heads, Q=rows, T=length, E=width, F=width)


def cases() -> list[FusedCase]:
    """Every program and shape of the suite."""
    shapes = ((4, 16, 4096, 128), (4, 32, 4096, 64), (16, 16, 1024, 128), (1, 32, 16384, 128))
    found = [attention_case(program, *shape) for program in ("attention", "causal_attention") for shape in shapes]
    found += [attention_case("grouped_heads", 4, 32, 4096, 128), attention_case("sliding", 2, 16, 8192, 64)]
    found += [attention_case("variable_lengths", 8, 16, 2048, 128), attention_case("attention", 1, 8, 1024, 128)]
    found += [attention_case(program, 16, 32, 8192, 128, queries=1) for program in ("attention", "grouped_heads")]
    few = ((1, 32, 8192), (1, 8, 32768), (4, 8, 131072))
    found += [attention_case("attention", *shape, 128, queries=1) for shape in few]
    found += [attention_case("grouped_heads", 1, 32, 32768, 128, queries=1)]
    found += [attention_case("grouped_heads", 16, 32, 8192, 128, queries=count) for count in (8, 40)]
    found += [_case("matmul_softmax", M=16384, N=256, K=1024), _case("matmul_softmax", M=4096, N=4096, K=1024)]
    found += [_case("matmul_rms_norm", M=4096, N=8192, K=1024), _case("matmul_argmax", M=4096, N=32000, K=1024)]
    found += [_case("rms_norm_matmul", M=8192, N=4096, K=4096), _case("mlp", M=65536, K=128, L=512, N=128)]
    return found


add_arguments = case_suite.add_arguments


def run(arguments: argparse.Namespace) -> int:
    return case_suite.run_cases(arguments, "fused", cases(), measured, line)


Call = Callable[..., Any]


def measured(torch: Any, case: FusedCase, arguments: argparse.Namespace, sampler: Sampler) -> dict[str, Any]:
    """The row of one case, timed with its peers."""
    torch.cuda.empty_cache()
    row: dict[str, object] = {"case": case.name, "program": case.program, "dims": dict(case.dims), "dtype": "bf16"}
    program = load_prepared(case, arguments.kernels)
    if isinstance(program, Refused):
        return row | {"refused": program.message}
    generator = torch.Generator(device="cuda").manual_seed(0)
    inputs = [each for each in program.bundle.plan.buffers if each.role == "input"]
    outputs = [each for each in program.bundle.plan.buffers if each.role == "output"]
    size = sum(2 * _count(each.shape) for each in inputs)
    sets = sets_for(size, warm=arguments.warm)
    arrays = [[_filled(torch, each, generator) for each in inputs] for _ in range(sets)]
    results = [torch.empty(each.shape, device="cuda", dtype=_DTYPES[each.element.value](torch)) for each in outputs]

    def ours(index: int) -> None:
        program(*arrays[index % sets], out=tuple(results) if len(results) > 1 else results[0])

    contenders = [Contender("ours", ours, results[0], facts_of(program))]
    absent: list[Absent] = []
    for name, call in _peers(torch, case).items():
        held: dict[str, Any] = {}

        def peer(index: int, call: Call = call, held: dict[str, Any] = held) -> None:
            held["result"] = call(*arrays[index % sets])

        try:
            peer(0)
        except RuntimeError as error:  # how PyTorch refuses a backend
            absent.append(Absent(name, str(error).split("\n")[0]))
            continue
        contenders.append(Contender(name, peer, held["result"], fetch=lambda held=held: held["result"]))
    result = race(torch, contenders, sets=sets, turns=arguments.turns, sampler=sampler)
    row |= summarised(result, contenders, absent, {}, float(str(program.bundle.facts["operations"])))
    if not arguments.no_accuracy:
        row["errors"] = _errors(torch, case, contenders, arrays[0])
    return row


def _count(shape: tuple[int, ...]) -> int:
    return shape[0] * _count(shape[1:]) if shape else 1


def _filled(torch: Any, buffer: Any, generator: Any) -> Any:
    if buffer.element.value == "i32":
        # Lengths: each of another one, the first whole.
        (count,), longest = buffer.shape, 2048
        return torch.arange(longest, 0, -longest // count, device="cuda", dtype=torch.int32)[:count]
    return torch.randn(buffer.shape, device="cuda", generator=generator).bfloat16()


def _peers(torch: Any, case: FusedCase) -> Mapping[str, Call]:
    """What computes a case's first result, by name."""
    exact = _composed(torch, case)
    composed = {"torch": exact, "torch.compile": torch.compile(exact, dynamic=False)}
    match case.program:
        case "attention" | "causal_attention" | "grouped_heads":
            grouped = case.program == "grouped_heads"
            return attention_peers(torch, causal=case.program == "causal_attention", grouped=grouped)
        case "sliding":
            return {"flex attention": _flexible(torch, case, lambda b, h, q, t: (t <= q) & (q - t < 128))}
        case "variable_lengths":
            return {"torch": exact, "torch.compile": composed["torch.compile"]}
        case _:
            return composed


def attention_peers(torch: Any, *, causal: bool, grouped: bool) -> dict[str, Call]:
    """PyTorch's kernels of attention, by name."""
    attention, functional = torch.nn.attention, torch.nn.functional

    def by(backend: Any) -> Call:
        def call(q: Any, k: Any, v: Any) -> Any:
            with attention.sdpa_kernel(backend):
                return functional.scaled_dot_product_attention(
                    q, k, v, is_causal=causal, scale=_SCALE, enable_gqa=grouped
                )

        return call

    kinds = attention.SDPBackend
    return {"cuDNN": by(kinds.CUDNN_ATTENTION), "flash": by(kinds.FLASH_ATTENTION)}


def _flexible(torch: Any, case: FusedCase, mask: Call) -> Call:
    flex = torch.nn.attention.flex_attention
    dims = dict(case.dims)
    blocks = flex.create_block_mask(mask, None, None, dims["Q"], dims["T"], device="cuda")
    compiled = torch.compile(flex.flex_attention, dynamic=False)
    return lambda q, k, v: compiled(q, k, v, block_mask=blocks, scale=_SCALE)


def _composed(torch: Any, case: FusedCase) -> Call:
    """The program's first result by PyTorch's operations, in the elements of what it is given."""
    functional = torch.nn.functional
    match case.program:
        case "matmul_softmax":
            return lambda x, w: functional.softmax(x @ w.T, -1)
        case "matmul_rms_norm":
            return lambda x, w, g: functional.rms_norm(x @ w.T, w.shape[:1], g, 1e-6)
        case "matmul_argmax":
            return lambda x, w: (x @ w.T).argmax(-1)
        case "rms_norm_matmul":
            return lambda x, g, w: functional.rms_norm(x, x.shape[-1:], g, 1e-6) @ w.T
        case "mlp":
            return lambda x, up, down: functional.silu(x @ up.T) @ down.T
        case _:
            return lambda q, k, v, *lengths: _attended(torch, case, q, k, v, *lengths)


def _attended(torch: Any, case: FusedCase, q: Any, k: Any, v: Any, *lengths: Any) -> Any:
    if case.program == "grouped_heads":
        k, v = (each.repeat_interleave(_HEADS_PER_GROUP, 1) for each in (k, v))
    scores = (q @ k.transpose(-1, -2)) * _SCALE
    rows = torch.arange(scores.shape[-2], device=q.device)[:, None]
    keys = torch.arange(scores.shape[-1], device=q.device)[None]
    match case.program:
        case "causal_attention":
            scores = scores.masked_fill(keys > rows, -torch.inf)
        case "sliding":
            scores = scores.masked_fill((keys > rows) | (rows - keys >= 128), -torch.inf)
        case "variable_lengths":
            scores = scores.masked_fill(keys >= lengths[0][: q.shape[0], None, None, None], -torch.inf)
        case _:
            pass
    return torch.softmax(scores, -1) @ v


def _errors(torch: Any, case: FusedCase, contenders: list[Contender], arrays: list[Any]) -> dict[str, float]:
    """Relative error of each contender, in the Frobenius norm, over the first rows or heads."""
    exact, found = _composed(torch, case), dict[str, float]()
    if case.program == "matmul_argmax":
        # Of another choice, how much less the chosen number is, against the largest.
        rows = (arrays[0][: 64 * _COMPARED].double() @ arrays[1].double().T).cpu()
        for each in contenders:
            each.call(0)
            chosen = rows.gather(1, each.result()[: len(rows), None].long().cpu())[:, 0]
            most = rows.max(-1).values
            found[each.name] = ((most - chosen).norm() / most.norm()).item()
        return found
    if case.program in ("matmul_softmax", "matmul_rms_norm", "rms_norm_matmul", "mlp"):
        rows = arrays[0][: 64 * _COMPARED].double()
        wanted, part = exact(rows, *(each.double() for each in arrays[1:])), (slice(0, 64 * _COMPARED),)
    else:
        heads = _HEADS_PER_GROUP if case.program == "grouped_heads" else 1
        q, k, v = (each[:1, : 1 if number else heads].double() for number, each in enumerate(arrays[:3]))
        wanted, part = exact(q, k, v, *arrays[3:]), (slice(0, 1), slice(0, heads))
    for each in contenders:
        each.call(0)
        torch.cuda.synchronize()
        got = each.result()[part].double()
        found[each.name] = ((got - wanted).norm() / wanted.norm()).item()
    return found


def line(row: dict[str, Any]) -> str:
    """What is printed of a case."""
    if "refused" in row:
        return f"{row['case']}: refused: {row['refused']}"
    ratios = ", ".join(f"{name} {each['median']:.3f}" for name, each in row["ratios"].items())
    gone = "".join(f"; no {name}: {why[:60]}" for name, why in row["absent"].items())
    errors = ", ".join(f"{name} {error:.2e}" for name, error in row.get("errors", {}).items())
    return f"{row['case']}: {row['contenders']['ours']['microseconds']:.0f} us; {ratios}{gone}; errors {errors}"
