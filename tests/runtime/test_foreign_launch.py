"""A foreign PTX kernel through the launcher: assembled for real, launched on a recording stand-in for the driver."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.cli.checked_texts import launch_document
from tests.contract.replay_kernels import copy_text

from tilewright.base.error import TilewrightError
from tilewright.driver.launch.launch_file import launch_from_json
from tilewright.driver.run.run_ptx import buffers_for, run_on_gpu


def test_buffers_go_over_the_kernel_runs_and_every_buffer_comes_back(record: Callable[..., Any]) -> None:
    def kernel(launched: Any) -> None:
        # The stand-in's encoded map begins with the tensor's address.
        source, target = (struct.unpack_from("<Q", encoded)[0] for encoded in launched.parameters[:2])
        assert struct.unpack("<i", launched.parameters[2]) == (4,)
        ctypes.memmove(target, source, 2048)

    driver = record({"double": [128, 128, 4]}, kernel)
    launch = launch_from_json(launch_document(), "launch.json")
    values = np.arange(2048, dtype=np.uint16).view(np.uint8)[:2048]
    arrays = buffers_for(launch, {"source": values}, "the test")
    done = run_on_gpu(copy_text(), "double.ptx", launch, arrays)
    assert done.entry == "double" and np.array_equal(done.arrays["target"], values)
    assert driver.launches[0].block == (64, 1, 1) and driver.live == {}


def test_a_text_for_another_gpu_and_one_that_does_not_assemble(record: Callable[..., Any]) -> None:
    record({"double": [128, 128, 4]})
    launch = launch_from_json(launch_document(), "launch.json")
    arrays = buffers_for(launch, {}, "the test")
    with pytest.raises(TilewrightError, match=r"compute capability 9\.0"):
        run_on_gpu(copy_text().replace("sm_90a", "sm_100a"), "double.ptx", launch, arrays)
    with pytest.raises(TilewrightError, match="ptxas") as caught:
        run_on_gpu(copy_text(drain="mystery.b32 %r1, %r2;\n"), "double.ptx", launch, arrays)
    assert caught.value.remedy
