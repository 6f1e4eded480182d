"""Exchanges on the machine and before the judge: what comes out of a kernel around one plan."""

from __future__ import annotations

import numpy as np
from bench.exchange_kernel import ENTRY, exchange_kernel_smem_bytes, exchange_kernel_text, memory_kernel_text
from numpy.typing import NDArray

from tilewright.driver.check.check import check_text
from tilewright.driver.launch.launch_file import LaunchFile, launch_from_json
from tilewright.driver.rules.isa import interpretations_of
from tilewright.driver.run.run_ptx import PtxRun, buffers_for, run_on_machine
from tilewright.ir.exchange import ExchangePlan
from tilewright.layout.linear.maps import LinearLayout
from tilewright.layout.numbers import bit_matrix


def launch_of(
    source: LinearLayout, plan: ExchangePlan, back: ExchangePlan | None = None, repeat: int = 0
) -> LaunchFile:
    size = source.cosize * plan.element_bytes
    params: list[dict[str, object]] = [
        {"kind": "ptr", "buffer": "tile_in", "bytes": size},
        {"kind": "ptr", "buffer": "tile_out", "bytes": size},
    ]
    if back is not None:
        params.append({"kind": "i32", "value": repeat})
    document = {
        "entry": ENTRY,
        "grid": [1, 1, 1],
        "block": [32 * plan.warps, 1, 1],
        "dynamic_smem": exchange_kernel_smem_bytes(plan, back),
        "params": params,
    }
    return launch_from_json(document, "launch.json")


def tile(layout: LinearLayout, element_bytes: int) -> NDArray[np.uint8]:
    """Bytes of which no two elements that one exchange might mistake for another are alike."""
    numbers = np.random.default_rng(7).permutation(layout.cosize * element_bytes)
    if element_bytes == 1:
        return (numbers * 7 % 251).astype(np.uint8)
    return numbers[: layout.cosize].astype({2: np.uint16, 4: np.uint32}[element_bytes]).view(np.uint8)


def expected(destination: LinearLayout, given: NDArray[np.uint8], element_bytes: int) -> NDArray[np.uint8]:
    """The array that the destination's threads store: the elements that they hold."""
    out = np.zeros_like(given).reshape(-1, element_bytes)
    held = {0}
    for column in bit_matrix.image(destination.columns):
        held |= {each ^ column for each in held}
    places = sorted(held)
    out[places] = given.reshape(-1, element_bytes)[places]
    return out.reshape(-1)


def ran(
    source: LinearLayout,
    destination: LinearLayout,
    plan: ExchangePlan,
    given: NDArray[np.uint8],
    *,
    back: ExchangePlan | None = None,
    repeat: int = 0,
) -> PtxRun:
    text = exchange_kernel_text(source, destination, plan, back)
    launch = launch_of(source, plan, back, repeat)
    buffers = buffers_for(launch, {"tile_in": given}, "the test")
    return run_on_machine(text, "exchange.ptx", launch, buffers, interpretations=interpretations_of("tolerant"))


def stored_run(source: LinearLayout, store: ExchangePlan, given: NDArray[np.uint8]) -> PtxRun:
    text = memory_kernel_text(source, store)
    launch = launch_of(source, store)
    buffers = buffers_for(launch, {"tile_in": given}, "the test")
    return run_on_machine(text, "exchange.ptx", launch, buffers, interpretations=interpretations_of("tolerant"))


def verdict(
    source: LinearLayout, destination: LinearLayout, plan: ExchangePlan, back: ExchangePlan | None = None
) -> str:
    report = check_text(
        exchange_kernel_text(source, destination, plan, back),
        "exchange.ptx",
        launch=launch_of(source, plan, back, 2),
    )
    assert not report.error, report.error
    (kernel,) = report.kernels
    return kernel.verdict
