"""What the machine makes of one scalar operation."""

import numpy as np
from tests.lower.lowered_programs import TARGET

from tilewright.base.plan import Launch, PointerParam
from tilewright.frontends.ptx.reader import read
from tilewright.lower.ptx.emit import Text
from tilewright.machine.core.run import run_launch

THREADS = 256


def kernel_text(emit, operands):
    """A kernel that gives thread t the value of `emit` for operand t of each input."""
    text = Text()
    thread = text.into("b32", "mad.lo.u32", text.into("b32", "mov.u32", "%ctaid.x"), THREADS, "%tid.x")
    loaded = []
    for number in range(operands):
        base = text.into("b64", "ld.param.u64", f"[p{number}]")
        place = text.into("b64", "mad.wide.u32", thread, 4, base)
        loaded.append(text.into("f32", "ld.global.f32", f"[{place}]"))
    base = text.into("b64", "ld.param.u64", "[out]")
    place = text.into("b64", "mad.wide.u32", thread, 4, base)
    text.emit("st.global.f32", f"[{place}]", emit(text, tuple(loaded)))
    text.emit("ret")
    parameters = ", ".join(f".param .u64 {name}" for name in (*(f"p{number}" for number in range(operands)), "out"))
    lines = [".version 8.0", f".target {TARGET}", ".address_size 64", f".visible .entry f({parameters})", "{"]
    return "\n".join([*lines, *text.declarations(), *text.lines, "}", ""])


def computed(emit, *inputs):
    """float32 results of `emit` for float32 inputs of one length."""
    count = -(-len(inputs[0]) // THREADS) * THREADS
    arrays = {f"p{number}": np.zeros(count, np.float32) for number in range(len(inputs))}
    for name, values in zip(arrays, inputs, strict=True):
        arrays[name][: len(values)] = values
    buffers = {name: array.view(np.uint8) for name, array in arrays.items()} | {"out": np.zeros(4 * count, np.uint8)}
    launch = Launch("f", (count // THREADS, 1, 1), (THREADS, 1, 1), tuple(PointerParam(name) for name in buffers))
    run_launch(read(kernel_text(emit, len(inputs))), launch, buffers)
    return buffers["out"].view(np.float32)[: len(inputs[0])]
