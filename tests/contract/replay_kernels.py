"""Kernels in PTX that the re-proof of text is tested on, in pieces that a test can leave out or replace.

`copy_text`: warp 0 fills a ring of two slots by tensor copies; warp 1 reads each slot, doubles it into a staging buffer
and stores that by a tensor copy. One CTA does `steps` boxes of 4 rows of 32 floats.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from tilewright.base.element import Element
from tilewright.base.plan import Launch, ScalarParam, TensorMap, TensorMapParam

ROWS, COLUMNS = 4, 32
BOX_BYTES = ROWS * COLUMNS * 4

COPY_PIECES = {
    "open": """.version 8.6
.target sm_90a
.address_size 64
.visible .entry double(.param .align 64 .b8 source[128], .param .align 64 .b8 target[128], .param .u32 steps) {
.reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<8>; .reg .f32 %f<4>;
.shared .align 128 .b8 slots[1024];
.shared .align 128 .b8 staging[512];
.shared .align 8 .b8 bars[32];
mov.u32 %r1, %tid.x;
mov.u32 %r2, slots;
mov.u32 %r3, bars;
mov.u32 %r4, staging;
ld.param.u32 %r5, [steps];
mov.u32 %r6, 0;
mov.u32 %r20, %ctaid.x;
and.b32 %r7, %r1, 31;
setp.ne.u32 %p1, %r7, 0;
setp.ge.u32 %p2, %r1, 32;
setp.ne.u32 %p3, %r1, 0;
@%p3 bra READY;
""",
    "init": """mbarrier.init.shared::cta.b64 [%r3], 1;
mbarrier.init.shared::cta.b64 [%r3+8], 1;
mbarrier.init.shared::cta.b64 [%r3+16], 1;
mbarrier.init.shared::cta.b64 [%r3+24], 1;
""",
    "init fence": "fence.mbarrier_init.release.cluster;\n",
    "ready": "READY:\n",
    "cta sync": "bar.sync 0;\n",
    "roles": "@%p2 bra CONSUMER;\n@%p3 bra DONE;\nmov.b64 %rd1, source;\ncvta.param.u64 %rd1, %rd1;\nPRODUCE:\n",
    "produce": """setp.ge.u32 %p4, %r6, %r5;
@%p4 bra DONE;
and.b32 %r8, %r6, 1;
shr.u32 %r9, %r6, 1;
and.b32 %r9, %r9, 1;
xor.b32 %r10, %r9, 1;
shl.b32 %r11, %r8, 3;
add.u32 %r12, %r3, %r11;
shl.b32 %r13, %r8, 9;
add.u32 %r14, %r2, %r13;
shl.b32 %r15, %r6, 2;
""",
    "empty wait": "EMPTY:\nmbarrier.try_wait.parity.shared::cta.b64 %p5, [%r12+16], %r10;\n@!%p5 bra EMPTY;\n",
    "expect": "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r12], 512;\n",
    "load": "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    " [%r14], [%rd1, {0, %r15}], [%r12];\n",
    "produce end": "add.u32 %r6, %r6, 1;\nbra PRODUCE;\n"
    "CONSUMER:\nmov.b64 %rd2, target;\ncvta.param.u64 %rd2, %rd2;\nCONSUME:\n",
    "consume": """setp.ge.u32 %p4, %r6, %r5;
@%p4 bra DRAIN;
and.b32 %r8, %r6, 1;
shr.u32 %r9, %r6, 1;
and.b32 %r9, %r9, 1;
shl.b32 %r11, %r8, 3;
add.u32 %r12, %r3, %r11;
shl.b32 %r13, %r8, 9;
add.u32 %r14, %r2, %r13;
shl.b32 %r16, %r7, 4;
add.u32 %r14, %r14, %r16;
add.u32 %r17, %r4, %r16;
shl.b32 %r15, %r6, 2;
""",
    "full wait": "FULL:\nmbarrier.try_wait.parity.shared::cta.b64 %p5, [%r12], %r9;\n@!%p5 bra FULL;\n",
    "read": "ld.shared.v4.f32 {%f0, %f1, %f2, %f3}, [%r14];\n",
    "read fence": "fence.proxy.async.shared::cta;\n",
    "release": "bar.warp.sync 0xffffffff;\n@!%p1 mbarrier.arrive.shared::cta.b64 _, [%r12+16];\n",
    "double": "add.f32 %f0, %f0, %f0;\nadd.f32 %f1, %f1, %f1;\nadd.f32 %f2, %f2, %f2;\nadd.f32 %f3, %f3, %f3;\n",
    "staging wait": "@!%p1 cp.async.bulk.wait_group.read 0;\nbar.warp.sync 0xffffffff;\n",
    "stage": "st.shared.v4.f32 [%r17], {%f0, %f1, %f2, %f3};\n",
    "fence": "fence.proxy.async.shared::cta;\nbar.warp.sync 0xffffffff;\n",
    "store": "@!%p1 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd2, {0, %r15}], [%r4];\n",
    "commit": "@!%p1 cp.async.bulk.commit_group;\n",
    "consume end": "add.u32 %r6, %r6, 1;\nbra CONSUME;\nDRAIN:\n",
    "drain": "@!%p1 cp.async.bulk.wait_group 0;\n",
    "close": "DONE:\nret;\n}\n",
}
"""The kernel, by name of its pieces, in the order of the text."""


def copy_text(**changed: str) -> str:
    """The kernel with some pieces replaced (spaces of a piece's name are underscores here)."""
    new = {name.replace("_", " "): text for name, text in changed.items()}
    assert new.keys() <= COPY_PIECES.keys(), new.keys() - COPY_PIECES.keys()
    return "".join((COPY_PIECES | new).values())


def copy_buffers(steps: int) -> dict[str, NDArray[np.uint8]]:
    source = np.arange(steps * ROWS * COLUMNS, dtype=np.float32)
    return {"source": source.view(np.uint8), "target": np.zeros_like(source).view(np.uint8)}


def copy_launch(steps: int, grid: int = 1) -> Launch:
    shape = TensorMap(Element.F32, (COLUMNS, ROWS * steps), (COLUMNS * 4,), (COLUMNS, ROWS))
    params = (TensorMapParam("source", shape), TensorMapParam("target", shape), ScalarParam("i32", steps))
    return Launch("double", (grid, 1, 1), (64, 1, 1), params)


def machine_tests(name: str) -> ModuleType:
    """A module that stands beside the machine's tests."""
    path = Path(__file__).parent.parent / "machine" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
