"""Triton's linear layouts, asked from outside: reads cases as JSON from standard input, writes answers to its output.

Runs in an environment that has Triton and not Tilewright; `bench.peers_linear` starts it. A layout is
`{"bases": [[input, [[image of each output], ...]], ...], "outputs": [[name, size], ...]}`. A case is
`{"operation": ..., ...}` with layouts or the parameters of one of Gluon's layouts; an answer is a layout, a value, or
`{"refused": text}`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import triton.experimental.gluon.language as gluon
from triton._C.libtriton import gluon_ir, ir
from triton._C.libtriton.linear_layout import LinearLayout
from triton.experimental.gluon.language import _layouts as layouts
from triton.experimental.gluon.language.amd._layouts import AMDMFMALayout
from triton.experimental.gluon.language.nvidia.blackwell import TensorMemoryLayout


def made(given: Any) -> Any:
    names = [name for name, _ in given["outputs"]]
    sizes = [size for _, size in given["outputs"]]
    return LinearLayout.from_bases([(name, images) for name, images in given["bases"]], names, sizes, False)


def shown(layout: Any) -> Any:
    return {
        "bases": [[name, images] for name, images in layout.bases],
        "outputs": [[name, size] for name, size in layout.out_dims],
    }


def algebra(case: Any) -> Any:
    layout = made(case["layout"])
    match case["operation"]:
        case "apply":
            return [layout.apply(place) for place in case["places"]]
        case "properties":
            return [layout.is_injective(), layout.is_surjective(), layout.is_invertible()]
        case "matrix":
            return layout.get_matrix_view()
        case "compose":
            return shown(layout.compose(made(case["outer"])))
        case "invert":
            return shown(layout.invert())
        case "pseudoinvert":
            return shown(layout.pseudoinvert())
        case "invert_and_compose":
            return shown(layout.invert_and_compose(made(case["target"])))
        case "product":
            return shown(layout * made(case["second"]))
        case other:
            raise ValueError(other)


def gluon_layout(case: Any, builder: Any) -> Any:
    given = case["given"]
    match case["operation"]:
        case "mma":
            layout: Any = layouts.NVMMADistributedLayout(given["version"], given["warps"], given["shape"])
        case "mfma":
            layout = AMDMFMALayout(
                given["version"], given["shape"], False, [1, 1], element_bitwidth=given["result_bits"]
            )
        case "shared":
            layout = layouts.NVMMASharedLayout(given["span"], given["bits"], transposed=given["transposed"])
        case "tensor_memory":
            layout = TensorMemoryLayout(given["block"], 1)
        case "tensor_move":
            memory = TensorMemoryLayout(given["block"], 1)
            found = gluon_ir.compute_tmem_reg_layout(
                gluon.float32, given["block"], given["block"], memory, 4, given["shape"]
            )
            return bases_of(found)
        case other:
            raise ValueError(other)
    if "operand" in given:
        layout = layouts.DotOperandLayout(given["operand"], layout, given["width"])
    return bases_of(builder.to_linear_layout(layout._to_ir(builder), given["tile"]))


def bases_of(found: Any) -> Any:
    names = ("reg_bases", "lane_bases", "warp_bases", "offset_bases", "rows", "cols")
    return {name: getattr(found, name) for name in names if hasattr(found, name)}


def main() -> None:
    context = ir.context()
    ir.load_dialects(context)
    builder = gluon_ir.GluonOpBuilder(context)
    for line in sys.stdin:
        case = json.loads(line)
        try:
            answer = gluon_layout(case, builder) if "given" in case else algebra(case)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            answer = {"refused": str(error).splitlines()[0] if str(error) else type(error).__name__}
        print(json.dumps(answer), flush=True)
    # The interpreter's end prints the bindings' own leaks.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
