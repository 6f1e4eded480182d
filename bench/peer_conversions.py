"""The peer's side of `bench conversions`: Gluon kernels around `gl.convert_layout`, compiled to PTX without a GPU.

Runs as a program of an environment that has Triton: reads from standard input one JSON line for each kernel and writes
one for each. The layouts come as bases, so that the compiler is asked for exactly the same conversion. Between the two
conversions of a round trip stands an inline move that the compiler cannot see through, or it would fold both away; the
assembler drops it. Several trips stand in the loop's body, since the compiler carries halves and quarters of words
around it one by one, which is no part of a conversion.
"""

from __future__ import annotations

import json
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource


@gluon.jit
def opaque(value, PACK: gl.constexpr):
    return gl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [value], dtype=value.dtype, is_pure=False, pack=PACK)


@gluon.jit
def places(LAYOUT: gl.constexpr, ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    row = gl.arange(0, ROWS, layout=gl.SliceLayout(1, LAYOUT))
    column = gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, LAYOUT))
    return column[None, :] * ROWS + row[:, None]


@gluon.jit
def exchange(
    tile_in,
    tile_out,
    repeat,
    SOURCE: gl.constexpr,
    DESTINATION: gl.constexpr,
    ROWS: gl.constexpr,
    COLUMNS: gl.constexpr,
    PACK: gl.constexpr,
    TRIPS: gl.constexpr,
):
    value = gl.load(tile_in + places(SOURCE, ROWS, COLUMNS))
    for _ in range(repeat):
        for _trip in gl.static_range(TRIPS):
            there = opaque(gl.convert_layout(value, DESTINATION), PACK)
            value = opaque(gl.convert_layout(there, SOURCE), PACK)
    gl.store(tile_out + places(DESTINATION, ROWS, COLUMNS), gl.convert_layout(value, DESTINATION))


def layout(bases: dict[str, list[list[int]]], shape: list[int]) -> gl.DistributedLinearLayout:
    return gl.DistributedLinearLayout(bases["register"], bases["lane"], bases["warp"], [], shape)


def compiled(job: dict) -> dict:
    element = {1: "i8", 2: "i16", 4: "i32"}[job["element_bytes"]]
    signature = {"tile_in": f"*{element}", "tile_out": f"*{element}", "repeat": "i32"}
    constants = {
        "SOURCE": layout(job["source"], job["shape"]),
        "DESTINATION": layout(job["destination"], job["shape"]),
        "ROWS": job["shape"][0],
        "COLUMNS": job["shape"][1],
        "PACK": 4 // job["element_bytes"],
        "TRIPS": job["trips"],
    }
    signature |= dict.fromkeys(constants, "constexpr")
    aligned = {(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]}
    values = {(exchange.arg_names.index(name),): value for name, value in constants.items()}
    source = GluonASTSource(exchange, signature, values, aligned)
    kernel = triton.compile(
        source, target=GPUTarget("cuda", 90, 32), options={"ptx_version": job["ptx_version"], "num_warps": 4}
    )
    return {"ptx": kernel.asm["ptx"], "shared_bytes": kernel.metadata.shared, "entry": kernel.metadata.name}


def main() -> None:
    for line in sys.stdin:
        try:
            answer = compiled(json.loads(line))
        except Exception as error:  # a program of its own: whatever the peer raises is its answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    print(json.dumps({"version": triton.__version__}), flush=True)
    main()
