# Axis names in annotations are data, not types: checkers of types take them for undefined names.
# ruff: noqa: F821
# pyright: basic, reportUndefinedVariable=false, reportInvalidTypeForm=false
"""Attention of 8-bit arrays against the same of 16 bits, in the forms in which the compiler can have it.

Each case is one shape. Contenders are the program in bf16; in f8e4m3, with values turned by consumers, by a kernel
before, or given turned, each with sums in two levels and by the tensor core alone; and with keys and values of 8 bits
for queries in bf16. They take turns in one run (`bench.interleaved`), on random normal data, and the first heads are
compared with float64.

    python -m bench narrow-attention --prepare --kernels out/kernels    # compile ahead, in parallel; needs no GPU
    python -m bench narrow-attention --kernels out/kernels
"""

import argparse
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench import case_suite
from bench.device_state import Sampler
from bench.interleaved import Contender, race, sets_for
from bench.prepared import Refused, facts_of, load_prepared

if TYPE_CHECKING:
    from tilewright.frontends.tile.kernel import Kernel

_SCALE = 0.125
_FORMS: dict[str, dict[str, Any]] = {
    "bf16": {},
    "f8": {},
    "f8 fast": {"accumulation": "fast"},
    "f8 turned by consumers": {"unmapped": "threads"},
    "f8 turned before": {"unmapped": "workspace"},
    "f8 turned before, fast": {"unmapped": "workspace", "accumulation": "fast"},
    "f8 given turned": {},
    "f8 given turned, fast": {"accumulation": "fast"},
    "8-bit keys and values": {},
    "8-bit keys and values, one kernel": {"cut": False},
}
"""Contenders, and what each asks for."""


@dataclass(frozen=True, slots=True)
class NarrowCase:
    batch: int
    heads: int
    shared_heads: int
    queries: int
    keys: int
    size: int
    causal: bool = False

    @property
    def name(self) -> str:
        return (
            f"{self.batch} x {self.heads} heads of {self.shared_heads}, {self.queries} x {self.keys} x {self.size}"
            f"{', causal' if self.causal else ''}"
        )


@dataclass(frozen=True, slots=True)
class NarrowForm:
    """One contender of a case."""

    case: NarrowCase
    form: str

    @property
    def program(self) -> tuple["Kernel", dict[str, Any]]:
        """The tile program, and `compile_kernel`'s options for it."""
        from tilewright.synth.tile.wanted import Wanted

        case = self.case
        dims = {
            "B": case.batch, "H": case.heads, "Q": case.queries, "T": case.keys, "E": case.size, "F": case.size
        }  # fmt: skip
        kernel = attention(self.form, case.heads // case.shared_heads, case.causal)
        return kernel, {"dims": dims, "wanted": Wanted(**_FORMS[self.form])}


def attention(form: str, sharing: int, causal: bool) -> "Kernel":
    """The program of a contender. sharing: heads of queries for one of keys."""
    import tilewright as tw

    narrow, turned = form != "bf16", "given" in form
    mixed = form.startswith("8-bit")
    cached = tw.f8e4m3 if narrow else tw.bf16
    shared = f"H/{sharing}" if sharing > 1 else "H"
    values = ("B", shared, "F", "T") if turned else ("B", shared, "T", "F")

    @tw.kernel
    def narrow_attention(
        q: tw.Tensor["B", "H", "Q", "E", tw.bf16 if mixed else cached],
        k: tw.Tensor["B", shared, "T", "E", cached],
        v: tw.Tensor[(*values, cached)],
        o: tw.Tensor["B", "H", "Q", "F", tw.bf16],
    ) -> None:
        b, h, i, t, e, f = tw.axes("B H Q T E F")
        g = h // sharing if sharing > 1 else h
        keys, brought = k[b, g, t, e], v[b, g, f, t] if turned else v[b, g, t, f]
        if mixed:
            keys, brought = keys.to(tw.bf16), brought.to(tw.bf16)
        s = tw.dot(q[b, h, i, e], keys, over=e) * _SCALE
        s = tw.where(t <= i, s, -math.inf) if causal else s
        o[b, h, i, f] = tw.dot(tw.softmax(s, over=t), brought, over=t)

    return narrow_attention


def cases() -> list[NarrowCase]:
    """Every shape of the suite."""
    return [
        NarrowCase(4, 16, 16, 4096, 4096, 128),
        NarrowCase(4, 16, 16, 4096, 4096, 128, causal=True),
        NarrowCase(16, 32, 8, 1, 8192, 128),
    ]


def forms_of(case: NarrowCase) -> list[NarrowForm]:
    return [NarrowForm(case, form) for form in _FORMS]


add_arguments = case_suite.add_arguments


def run(arguments: argparse.Namespace) -> int:
    return case_suite.run_cases(
        arguments, "narrow_attention", cases(), _measured, _line, programs=forms_of, summary=lambda rows: ()
    )


def _measured(torch: Any, case: NarrowCase, arguments: argparse.Namespace, sampler: Sampler) -> dict[str, Any]:
    torch.cuda.empty_cache()
    row: dict[str, Any] = {"case": case.name, "refused": {}, "errors": {}}
    contenders: list[Contender] = []
    kinds = {"bf16": torch.bfloat16, "f8e4m3": torch.float8_e4m3fn}
    sets = sets_for(2 * case.batch * case.shared_heads * case.keys * case.size, warm=arguments.warm)
    for each in forms_of(case):
        program = load_prepared(each, arguments.kernels)
        if isinstance(program, Refused):
            row["refused"][each.form] = program.message
            continue
        generator = torch.Generator(device="cuda").manual_seed(0)
        arrays = [
            [
                torch.randn(buffer.shape, device="cuda", generator=generator).to(kinds[buffer.element.value])
                for buffer in program.inputs
            ]
            for _ in range(sets)
        ]
        result = torch.empty(program.outputs[0].shape, device="cuda", dtype=torch.bfloat16)

        def ours(index: int, program: Any = program, arrays: Any = arrays, result: Any = result) -> None:
            program(*arrays[index % sets], out=result)

        ours(0)
        torch.cuda.synchronize()
        row["errors"][each.form] = _error(torch, case, arrays[0], result, "given" in each.form)
        contenders.append(Contender(each.form, ours, result, facts_of(program)))
    timed = race(torch, contenders, sets=sets, turns=arguments.turns, sampler=sampler)
    return row | {"contenders": {each.name: timed.row(each.name, _operations(case)) for each in contenders}}


def _operations(case: NarrowCase) -> float:
    """Of both products, of half of them where half is masked."""
    whole = 4.0 * case.batch * case.heads * case.queries * case.keys * case.size
    return whole / 2 if case.causal else whole


def _error(torch: Any, case: NarrowCase, arrays: Any, result: Any, turned: bool) -> float:
    """Of the first heads, against float64 of the same arrays: in the Frobenius norm, relative."""
    sharing = case.heads // case.shared_heads
    q, k, v = (each[:1].double() for each in arrays)
    k, v = k[:, :1], (v.transpose(-1, -2) if turned else v)[:, :1]
    scores = q[:, :sharing] @ k.transpose(-1, -2) * _SCALE
    if case.causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
    exact = torch.softmax(scores, -1) @ v
    return float((result[:1, :sharing].double() - exact).norm() / exact.norm())


def _line(row: dict[str, Any]) -> str:
    found = [
        f"  {name:36} {numbers['microseconds']:8.1f} us  {numbers['tflops']:7.1f} Tflop/s  error "
        f"{row['errors'][name]:.4f}"
        for name, numbers in row["contenders"].items()
    ]
    refused = [f"  {name:36} refused: {words}" for name, words in row["refused"].items()]
    return "\n".join([row["case"], *found, *refused])
