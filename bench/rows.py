"""Programs that fold rows (`examples/rows.py`) against PyTorch's own kernels and torch.compile's, on random data.

Each case is one program and shape, bf16, timed in turns with its peers (`bench.interleaved`) and compared with float64
on random, large and NaN-carrying inputs. A row says: times, ratios to each peer with quartiles, errors, the share of a
plain copy's bandwidth in the same run.

    python -m bench rows --prepare --kernels out/kernels     # compile ahead, in parallel; needs no GPU
    python -m bench rows --kernels out/kernels
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench import case_suite
from bench.accuracy import errors_of
from bench.device_state import Sampler
from bench.interleaved import Contender, race, sets_for
from bench.prepared import Refused, facts_of, load_prepared
from bench.suite import summarised

_ELEMENTS = 1 << 25
"""Of each case's array, unless its rows are so long that fewer than 16 would be left."""
_LENGTHS = (128, 256, 512, 1024, 2048, 4096, 5120, 8192, 16384, 32768, 65536, 131072, 262144)
_NORM_LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 5120, 8192, 14336, 65536)
_PLACE_LENGTHS = (128, 1024, 4096, 8192, 32000, 50257, 128256, 262144)
"""Vocabularies among them, whose largest logit is looked for."""
_QUANTIZED_LENGTHS = (128, 1024, 2048, 4096, 5120, 8192, 14336, 65536)
_ELEMENTS_OF_TORCH = {"bf16": "bfloat16", "f32": "float32", "i32": "int32", "f8e4m3": "float8_e4m3fn", "i8": "int8"}


@dataclass(frozen=True, slots=True)
class RowCase:
    """A program of `examples/rows.py` on rows of that length."""

    program: str
    rows: int
    length: int

    @property
    def name(self) -> str:
        return f"{self.program} {self.rows} x {self.length}"


def cases() -> list[RowCase]:
    """Every program and length of the suite."""
    lengths = {"softmax": _LENGTHS, "log_softmax": _LENGTHS[3:9]}
    lengths |= {"rms_norm": _NORM_LENGTHS, "layer_norm": _NORM_LENGTHS}
    lengths |= {"argmax": _PLACE_LENGTHS}
    lengths |= {"quantize": _QUANTIZED_LENGTHS, "quantize_int8": _QUANTIZED_LENGTHS}
    return [RowCase(name, max(16, _ELEMENTS // n), n) for name, each in lengths.items() for n in each]


add_arguments = case_suite.add_arguments


def run(arguments: argparse.Namespace) -> int:
    return case_suite.run_cases(arguments, "rows", cases(), measured, line)


def measured(torch: Any, case: RowCase, arguments: argparse.Namespace, sampler: Sampler) -> dict[str, Any]:
    """The row of one case, timed with its peers and a plain copy."""
    torch._dynamo.config.recompile_limit = 1024  # one program for each case
    torch.cuda.empty_cache()
    shape = (case.rows, case.length)
    sets = sets_for(2 * case.rows * case.length, warm=arguments.warm)
    generator = torch.Generator(device="cuda").manual_seed(case.length)
    inputs = [torch.randn(shape, device="cuda", generator=generator).bfloat16() for _ in range(sets)]
    vectors = [torch.randn(case.length, device="cuda", generator=generator).bfloat16() for _ in range(2)]
    exact = _in_torch(torch, case, vectors)
    row: dict[str, object] = {"case": case.name, "program": case.program, "shape": list(shape), "dtype": "bf16"}
    program = load_prepared(case, arguments.kernels)
    if isinstance(program, Refused):
        return row | {"refused": program.message}
    buffers = program.bundle.plan.buffers
    outputs = tuple(
        torch.empty(each.shape, dtype=getattr(torch, _ELEMENTS_OF_TORCH[each.element.value]), device="cuda")
        for each in buffers
        if each.role == "output"
    )
    more = vectors[: sum(each.role == "input" for each in buffers) - 1]
    out = outputs if len(outputs) > 1 else outputs[0]

    def ours(index: int) -> None:
        program(inputs[index % sets], *more, out=out)

    contenders = [Contender("ours", ours, outputs[0], facts_of(program))]
    for name, call in (("torch", exact), ("torch.compile", torch.compile(exact, dynamic=False))):
        contenders.append(_peer(name, call, inputs, sets))
    copied = torch.empty_like(inputs[0])
    contenders.append(Contender("copy", lambda index: copied.copy_(inputs[index % sets]), copied))
    result = race(torch, contenders, sets=sets, turns=arguments.turns, sampler=sampler)
    errors: dict[str, dict[str, dict[str, object]]] = {}
    if not arguments.no_accuracy:
        wide = _in_torch(torch, case, [each.double() for each in vectors])
        errors = errors_of(torch, contenders[:-1], inputs[:1], lambda: _first(wide(inputs[0].double())).double())
    share = result.median("copy") / result.median("ours")
    names = [each for each in contenders if each.name != "copy"]
    return row | summarised(result, names, (), errors, 0.0) | {"share_of_copy": share}


def _peer(name: str, call: Callable[[Any], Any], inputs: list[Any], sets: int) -> Contender:
    held: dict[str, Any] = {}

    def run_peer(index: int) -> None:
        held["result"] = call(inputs[index % sets])

    run_peer(0)
    return Contender(name, run_peer, _first(held["result"]), fetch=lambda: _first(held["result"]))


def _first(results: Any) -> Any:
    """The result that is compared, where there are several."""
    return results[0] if isinstance(results, tuple) else results


def _in_torch(torch: Any, case: RowCase, vectors: list[Any]) -> Callable[[Any], Any]:
    functional = torch.nn.functional
    weight, bias = vectors
    match case.program:
        case "softmax":
            return lambda x: functional.softmax(x, -1)
        case "log_softmax":
            return lambda x: functional.log_softmax(x, -1)
        case "argmax":
            return lambda x: x.argmax(-1)
        case "quantize":
            return lambda x: _quantized(torch, x, 448.0)
        case "quantize_int8":
            return lambda x: _quantized(torch, x, 127.0)
        case "rms_norm":
            return lambda x: functional.rms_norm(x, x.shape[-1:], weight, 1e-6)
        case _:
            return lambda x: functional.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)


def _quantized(torch: Any, x: Any, most: float) -> tuple[Any, Any]:
    """Rows scaled to at most `most`, 448 of float8 e4m3 or 127 of int8, and their scales."""
    wide = x if x.dtype is torch.float64 else x.float()
    scales = (wide.abs().amax(-1) / most).clamp(min=1e-12)
    scaled = (wide / scales[:, None]).clamp(-most, most)
    return (scaled.round().to(torch.int8) if most == 127.0 else scaled.to(torch.float8_e4m3fn)), scales


def line(row: dict[str, Any]) -> str:
    """What is printed of a case."""
    if "refused" in row:
        return f"{row['case']:28} refused: {row['refused']}"
    ratios = ", ".join(f"{name} {each['median']:.3f}" for name, each in row["ratios"].items())
    return f"{row['case']:28} {ratios}; {row['share_of_copy']:.3f} of a copy; error no worse {row['error_no_worse']}"
