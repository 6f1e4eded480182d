"""The probe of boxes past an end: its kernels are proved before anybody's GPU runs them."""

import pytest
from bench.probes.past_end import CTAS, LAPS, SLOTS, SPAN, Box, cases, kernel_of

from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.launch.launch_file import launch_from_json


def launched(box: Box, laps: int) -> str:
    """The verdict on two CTAs' run of so many laps."""
    kernel, map_ = kernel_of(box), box.map
    held = {
        "at": 0, "kind": "tensormap", "buffer": "windows", "dtype": "bf16", "dims": list(map_.dims),
        "strides": list(map_.strides_bytes), "box": list(map_.box), "swizzle": map_.swizzle,
        "oob": map_.out_of_bounds,
    }  # fmt: skip
    launch = launch_from_json(
        {
            "entry": box.name,
            "grid": [min(2, box.ctas), 1, 1],
            "dynamic_smem": kernel.shared_bytes,
            "params": [
                {"kind": "ptr", "bytes": 128, "maps": [held]},
                {"kind": "ptr", "bytes": 8},
                {"kind": "i32", "value": laps},
            ],
        },
        "launch",
    )
    report = check_text(kernel.text, launch=launch, options=CheckOptions(repair_steps=0))
    assert not report.error, report.error
    return report.kernels[0].verdict


@pytest.mark.sample(4)
@pytest.mark.parametrize("box", cases(), ids=lambda box: box.name)
def test_every_kernel_is_proved(box: Box) -> None:
    assert launched(box, 2 * SLOTS + 3) == "proven"


def test_cases_differ_and_pass_the_end_as_they_say() -> None:
    assert len({each.name for each in cases()}) == len(cases())
    assert LAPS > SLOTS and all(kernel_of(each).ctas in (1, CTAS) for each in cases())
    for each in cases():
        assert each.map.box == (SPAN, each.rows, 1) and each.map.dims[1] == max(1, each.rows - each.outside)
