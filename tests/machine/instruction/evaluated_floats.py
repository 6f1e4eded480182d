"""What the machine makes of one instruction on given numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from tests.machine.small_kernels import as_bytes, launch

from tilewright.base.plan import PointerParam
from tilewright.frontends.ptx.reader import read
from tilewright.machine.core.run import run_launch

Array = NDArray[np.generic]


HEADER = ".version 8.8\n.target sm_100a\n.address_size 64\n"


REGISTERS = (
    ".reg .pred %p<16>; .reg .b16 %h<40>; .reg .b32 %r<64>; .reg .b64 %rd<32>; .reg .f32 %f<72>; .reg .f64 %fd<16>;"
)


def evaluate(text: str, inputs: dict[str, Array], output: str, dtype: type[np.generic]) -> Array:
    """As `small_kernels.evaluate`, for Blackwell."""
    lines = ["mov.u32 %r63, %tid.x;"]
    buffers: dict[str, NDArray[np.uint8]] = {}
    for index, (register, values) in enumerate(inputs.items()):
        width = values.dtype.itemsize
        buffers[f"in{index}"] = as_bytes(np.ascontiguousarray(values))
        lines.append(
            f"ld.param.u64 %rd30, [in{index}]; mad.wide.u32 %rd30, %r63, {width}, %rd30;"
            f"ld.global.b{8 * width} {register}, [%rd30];"
        )
    width = np.dtype(dtype).itemsize
    result = np.zeros(32, dtype)
    buffers["out"] = as_bytes(result)
    lines += [
        text,
        f"ld.param.u64 %rd30, [out]; mad.wide.u32 %rd30, %r63, {width}, %rd30;",
        f"st.global.b{8 * width} [%rd30], {output}; ret;",
    ]
    parameters = ", ".join(f".param .u64 {name}" for name in buffers)
    kernel = f"{HEADER}.visible .entry k({parameters}) {{\n{REGISTERS}\n" + "\n".join(lines) + "\n}\n"
    run_launch(read(kernel, "k.ptx"), launch(*[PointerParam(name) for name in buffers]), buffers)
    return result
