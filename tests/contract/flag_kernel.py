"""A kernel in pieces: CTAs hand partial sums to the CTA above through global memory, with a flag for each.

Every CTA but the last writes two words of each thread's into its slot, and sets its flag when all threads have; every
CTA but the first waits for the flag below, sets it back, and stores what it found, plus its number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.base.plan import Launch, PointerParam

THREADS = 64

PIECES = {
    "open": """.version 8.6
.target sm_90a
.address_size 64
.visible .entry hand(.param .u64 slots, .param .u64 flags, .param .u64 sums) {
.reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<32>;
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
mov.u32 %r3, %nctaid.x;
ld.param.u64 %rd1, [slots];
ld.param.u64 %rd2, [flags];
ld.param.u64 %rd3, [sums];
setp.ne.u32 %p1, %r1, 0;
sub.u32 %r4, %r2, 1;
add.u32 %r5, %r2, 1;
mul.wide.u32 %rd4, %r2, 4;
add.u64 %rd4, %rd2, %rd4;
mul.wide.u32 %rd5, %r4, 4;
add.u64 %rd5, %rd2, %rd5;
mad.lo.u32 %r6, %r2, 64, %r1;
mul.wide.u32 %rd6, %r6, 8;
add.u64 %rd6, %rd1, %rd6;
mad.lo.u32 %r7, %r4, 64, %r1;
mul.wide.u32 %rd7, %r7, 8;
add.u64 %rd7, %rd1, %rd7;
mul.wide.u32 %rd8, %r6, 8;
add.u64 %rd8, %rd3, %rd8;
setp.eq.u32 %p2, %r5, %r3;
setp.eq.u32 %p3, %r2, 0;
mov.u32 %r20, 1;
""",
    "grid wait": "",
    "before": "",
    "last": "@%p2 bra HANDED;\n",
    "write": "st.global.v2.u32 [%rd6], {%r6, %r2};\n",
    "gather": "bar.sync 0;\n",
    "elect": "@%p1 bra HANDED;\n",
    "release": "st.release.gpu.global.u32 [%rd4], %r20;\n",
    "handed": "HANDED:\n@%p3 bra DONE;\n@%p1 bra TAKEN;\n",
    "wait": "WAIT:\nld.acquire.gpu.global.u32 %r8, [%rd5];\nsetp.ne.u32 %p4, %r8, 1;\n@%p4 bra WAIT;\n",
    "reset": "st.relaxed.gpu.global.u32 [%rd5], 0;\n",
    "taken": "TAKEN:\n",
    "spread": "bar.sync 1;\n",
    "read": "ld.global.v2.u32 {%r9, %r10}, [%rd7];\n",
    "sum": "add.u32 %r10, %r10, %r2;\nst.global.v2.u32 [%rd8], {%r9, %r10};\n",
    "after": "",
    "done": "DONE:\nret;\n}\n",
}
"""The wait is for the CTA below, which has handed its part over before it waits itself."""


def flag_text(**changed: str) -> str:
    """The kernel; a keyword (with _ for a blank) replaces a piece."""
    pieces = PIECES | {name.replace("_", " "): piece for name, piece in changed.items()}
    assert pieces.keys() == PIECES.keys(), pieces.keys() - PIECES.keys()
    return "".join(pieces.values())


def flag_launch(ctas: int = 3, *, programmatic: bool = False) -> Launch:
    params = (PointerParam("slots"), PointerParam("flags"), PointerParam("sums"))
    return Launch("hand", (ctas, 1, 1), (THREADS, 1, 1), params, programmatic=programmatic)


def flag_buffers(ctas: int = 3, flag: int = 0) -> dict[str, NDArray[np.uint8]]:
    words = {"slots": 2 * THREADS * ctas, "flags": ctas, "sums": 2 * THREADS * ctas}
    buffers = {name: np.zeros(4 * count, np.uint8) for name, count in words.items()}
    buffers["flags"].view(np.uint32)[:] = flag
    return buffers
