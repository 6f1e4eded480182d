"""Kernels that commands check, with a launch: one without a fault, two with one, one that runs for long."""

from __future__ import annotations

from typing import Any

STEPS = 4


BAD_EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r12], 1024;\n"


NO_FENCE = {"fence": "bar.warp.sync 0xffffffff;\n"}
"""Without the proxy fence between the stores to shared memory and the bulk store that reads them."""


def launch_document() -> dict[str, Any]:
    shape = {"kind": "tensormap", "dtype": "f32", "dims": [32, 4 * STEPS], "strides": [128], "box": [32, 4]}
    return {
        "block": [64, 1, 1],
        "params": [{**shape, "buffer": "source"}, {**shape, "buffer": "target"}, {"kind": "i32", "value": STEPS}],
    }
