# ruff: noqa: F821  (axis names are quoted in annotations and are no forward references)
"""Kernels of every kind that `lower` makes, and some written by hand, as `ac` modules: together they have every
operation of the dialect."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from bench.kernel_kinds import KINDS
from bench.our_products import arguments_of
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation

import tilewright.frontends.tile.language as tw
from tests.contract.gemm_program import gemm
from tests.docs.pages import ROOT
from tests.end_to_end.factor_programs import of_four_bits
from tests.fragment_kernels import Shape, kernel_text, multiply
from tests.lower import cascade_programs
from tilewright.driver.compile.compile import aligned, elements_of
from tilewright.driver.compile.kernels import gated_kernel, matmul_kernel
from tilewright.driver.compile.kernels_attention import query_gradient_kernel
from tilewright.driver.compile.sequence import Part, uncut
from tilewright.frontends.ac.reader import read_ac
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.trace import trace
from tilewright.ir.ac.text import ac_text
from tilewright.ir.tile.facts import the_program
from tilewright.lower.tile_to_ac import lower_program
from tilewright.synth.tile.wanted import Wanted
from tilewright.targets import target

TARGET = "sm_90a"


@tw.kernel
def batched(
    a: tw.Tensor["B", "M", "K"], w: tw.Tensor["B", "N", "K"], r: tw.Tensor["B", "M", "N"], c: tw.Tensor["B", "M", "N"]
):
    p, i, j = tw.grid("B", "M", "N")
    acc = tw.zeros(p, i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[p, i, k], w[p, j, k].T)
    c[p, i, j] = acc + r[p, i, j]


@tw.kernel
def by_blocks(a: tw.Tensor["M", "K"], b: tw.Tensor["N", "K"], s: tw.Tensor["M", "K/128"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[j, k].T) * s[i, k // 128]
    c[i, j] = acc


@tw.kernel
def dequantized(x: tw.Tensor["M", "N"], s: tw.Tensor["M", "N/7"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = tw.gelu(x[i, j] * s[i, j // 7] + 0.5)


@tw.kernel
def rows_and_depth_scaled(
    a: tw.Tensor["M", "K"], s: tw.Tensor["M"], g: tw.Tensor["K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]
):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((a[i, k] * s[i] * g[k]).to(tw.bf16), b[k, j])
    c[i, j] = acc


@tw.kernel
def softmax(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = tw.softmax(x[i, j], over=j)


@tw.kernel
def masked(x: tw.Tensor["M", "N"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    y[i, j] = tw.softmax(tw.where(j <= i, x[i, j], -math.inf), over=j)


@tw.kernel
def placed(x: tw.Tensor["M", "N"], where: tw.Tensor["M", tw.i32], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    largest = tw.argmax(x[i, j], over=j)
    where[i] = largest
    y[i, j] = tw.where(j <= largest, x[i, j], 0.0)


@tw.kernel
def turned(x: tw.Tensor["M", "N"], y: tw.Tensor["N", "M"]):
    i, j = tw.grid("N", "M")
    y[i, j] = x[j, i].T


@tw.kernel
def of_scaled_rows(x: tw.Tensor["M", "K"], s: tw.Tensor["M"], w: tw.Tensor["N", "K"], y: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot((x[i, k] * s[i]).to(tw.bf16), w[j, k].T)
    y[i, j] = acc


@tw.kernel
def causal(q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["M", "F"]):
    i, t, e, f = tw.axes("M T E F")
    scores = tw.where(t <= i, tw.dot(q[i, e], k[t, e], over=e), -math.inf)
    o[i, f] = tw.dot(tw.softmax(scores, over=t), v[t, f], over=t)


@tw.kernel
def unmasked(q: tw.Tensor["M", "E"], k: tw.Tensor["T", "E"], v: tw.Tensor["T", "F"], o: tw.Tensor["M", "F"]):
    i, t, e, f = tw.axes("M T E F")
    o[i, f] = tw.dot(tw.softmax(tw.dot(q[i, e], k[t, e], over=e), over=t), v[t, f], over=t)


@tw.kernel
def in_pages(
    q: tw.Tensor["M", "E"],
    k: tw.Tensor["P", "S", "E"],
    v: tw.Tensor["P", "S", "F"],
    pages: tw.Tensor["T/16", tw.i32],
    o: tw.Tensor["M", "F"],
):
    i, t, e, f = tw.axes("M T E F")
    weights = tw.softmax(tw.dot(q[i, e], k[pages[t // 16], t % 16, e], over=e), over=t)
    o[i, f] = tw.dot(weights, v[pages[t // 16], t % 16, f], over=t)


@tw.kernel
def rows_by_number(x: tw.Tensor["R", "N"], rows: tw.Tensor["M", tw.i32], y: tw.Tensor["M", "N"]):
    i, j = tw.axes("M N")
    y[i, j] = tw.softmax(x[rows[i], j], over=j)


_E4M3 = {"a": "f8e4m3", "b": "f8e4m3", "s": "f32", "c": "f32"}
_MORE: Mapping[str, tuple[Kernel, dict[str, Any]]] = {
    "batch": (batched, {"dims": {"B": 3, "M": 512, "N": 520, "K": 256}}),
    "products in order": (
        query_gradient_kernel(0.125, False, 1),
        {
            "dims": {"B": 1, "H": 2, "Q": 1024, "T": 1024, "E": 64, "F": 64},
            "wanted": Wanted(consumers=2, ordered=True),
        },
    ),
    "extents that only a launch knows": (
        matmul_kernel,
        {"dims": {"M": tw.dynamic(0, 1000), "N": 256, "K": 256}, "wanted": Wanted(tile=(64, 64), prefetch=2)},
    ),
    "keys whose number only a launch knows": (
        causal,
        {"dims": {"M": 64, "T": tw.dynamic(1, 640), "E": 64, "F": 64}},
    ),
    "a sum whose length only a launch knows": (
        matmul_kernel,
        {"dims": {"M": 128, "N": 128, "K": tw.dynamic(8, 640, multiple_of=8)}},
    ),
    "values of 8 bits turned by threads": (
        causal,
        {
            "dims": {"M": 64, "T": 64, "E": 64, "F": 64},
            "dtype": {**dict.fromkeys("qkv", "f8e4m3"), "o": "f32"},
            "wanted": Wanted(unmapped="threads"),
        },
    ),
    "element by element": (dequantized, {"dims": {"M": 40, "N": 49}, "dtype": "f32"}),
    "keys in pages": (in_pages, {"dims": {"M": 64, "T": 96, "E": 16, "F": 16, "P": 9, "S": 16}}),
    "rows by number": (rows_by_number, {"dims": {"M": 40, "N": 48, "R": 9}}),
    "rows folded": (softmax, {"dims": {"M": 96, "N": 1000}}),
    "long rows folded by several warps": (softmax, {"dims": {"M": 8, "N": 20000}}),
    "rows masked by their indices": (masked, {"dims": {"M": 96, "N": 96}}),
    "places in rows": (placed, {"dims": {"M": 96, "N": 96}}),
    "transposed copy": (turned, {"dims": {"M": 512, "N": 520}}),
    "left operand scaled along both axes": (
        rows_and_depth_scaled,
        {"dims": {"M": 256, "N": 256, "K": 256}, "wanted": Wanted(computed="registers")},
    ),
    "asked for ahead": (
        matmul_kernel,
        {"dims": {"M": 64, "N": 128, "K": 512}, "wanted": Wanted(tile=(64, 64), split=2, prefetch=4)},
    ),
    "streamed, tiles in turn": (
        matmul_kernel,
        {
            "dims": {"M": 4096, "N": 2112, "K": 4096},
            "wanted": Wanted(tile=(128, 128), stages=2, turns=True, stream_k=True),
        },
    ),
    "keys asked for before the launch before ends": (
        unmasked,
        {"dims": {"M": 1, "T": 4096, "E": 64, "F": 64}},
    ),
    "attention to what came before": (
        cascade_programs.causal,
        {
            "dims": {"B": 132, "Q": 440, "T": 440, "E": 64, "F": 64},
            "wanted": Wanted(consumers=2, depth=64),
        },
    ),
    "sums in tensor memory": (
        cascade_programs.window,
        {"dims": {"Q": 200, "T": 200, "E": 64, "F": 64}, "target": "sm_100a"},
    ),
    "tiles that the hardware hands out": (
        cascade_programs.window,
        {"dims": {"Q": 300, "T": 300, "E": 64, "F": 64}, "wanted": Wanted(handed=True), "target": "sm_100a"},
    ),
    "a sum that stays in tensor memory": (
        of_scaled_rows,
        {"dims": {"M": 200, "N": 72, "K": 256}, "target": "sm_100a"},
    ),
    "sums in slots of tensor memory": (
        matmul_kernel,
        {"dims": {"M": 512, "N": 520, "K": 256}, "wanted": Wanted(tile=(128, 128)), "target": "sm_100a"},
    ),
    "factors of blocks": (of_four_bits, {"dims": {"M": 256, "N": 72, "K": 640}, "target": "sm_100a"}),
    "walks that sum two products": (
        gated_kernel("silu"),
        {"dims": {"M": 256, "N": 264, "K": 256}, "wanted": Wanted(tile=(64, 64))},
    ),
    "parts of a cluster": (
        matmul_kernel,
        {"dims": {"M": 512, "N": 520, "K": 256}, "wanted": Wanted(tile=(64, 128), stages=2, cluster=(2, 1))},
    ),
}


def _cases() -> dict[str, tuple[Kernel, dict[str, Any]]]:
    return {kind.name: arguments_of(kind) for kind in KINDS} | dict(_MORE)


def _written() -> dict[str, str]:
    """Texts of kernels that are written by hand."""
    shape = Shape(units=2)
    read = f"""{multiply(shape, "%x")}
    %y_values = ac.fragment.map inputs(%product) (%one) -> F {{
      ac.yield %one
    }}
    %r = ac.fragment.fold add %y_values
    """
    return {
        "attention": (ROOT / "examples" / "attention.ac.mlir").read_text("utf-8"),
        "fragment read": kernel_text(shape, read),
        "accumulators mapped": ac_text((gemm(),), TARGET),
    }


def target_of(name: str) -> str:
    """The architecture that a case is for."""
    return _cases()[name][1].get("target", TARGET) if name in _cases() else TARGET


TRACED = tuple(_cases())
"""Those that come of tile programs."""
NAMES = (*TRACED, *_written())


@cache
def _parts(name: str) -> tuple[Part, ...]:
    """The programs of a case, decided, in launch order."""
    kernel, options = _cases()[name]
    elements = elements_of(kernel, options.get("dtype", "bf16"))
    kernel, wanted = aligned(kernel, elements, options.get("wanted") or Wanted())
    module = trace(kernel, options["dims"], elements, options.get("strides"))
    return uncut(module, target(target_of(name)), wanted)


def tile_of(name: str) -> ModuleOp:
    """What its author wrote of a case, with its decisions."""
    return _parts(name)[-1].module


@cache
def modules_of(name: str) -> tuple[ModuleOp, ...]:
    """The kernels of a case, in launch order."""
    if name in _written():
        return tuple(each.module for each in read_ac(_written()[name], f"{name}.ac.mlir").kernels)
    programs = (lower_program(the_program(part.module)) for part in _parts(name))
    return tuple(each.module for program in programs for each in program.kernels)


def equal(first: Operation, second: Operation) -> bool:
    """Are two programs the same but for names of values? `is_structurally_equivalent` does not look at the types of
    results."""
    return first.is_structurally_equivalent(second) and _types(first) == _types(second)


def _types(op: Operation) -> list[tuple[Attribute, ...]]:
    found: list[tuple[Attribute, ...]] = []
    for each in op.walk():
        found.append(tuple(each.result_types))
        found += [tuple(block.arg_types) for region in each.regions for block in region.blocks]
    return found
