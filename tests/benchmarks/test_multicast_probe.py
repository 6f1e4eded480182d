"""The probe of multicast: its kernels are proved before anybody's GPU runs them."""

import pytest
from bench.probes.multicast import CTAS, SLOT_BYTES, SLOTS, Reading, cases, kernel_of

from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.launch.launch_file import launch_from_json

BUFFER_BYTES = 2 * 16 * SLOT_BYTES


def launched(case: Reading, laps: int) -> str:
    """The verdict on one pair's run of so many laps."""
    kernel = kernel_of(case)
    launch = launch_from_json(
        {
            "entry": case.name,
            "grid": [2, 1, 1],
            "cluster": [2, 1, 1],
            "dynamic_smem": kernel.shared_bytes,
            "params": [
                {"kind": "ptr", "bytes": BUFFER_BYTES},
                {"kind": "ptr", "bytes": 8},
                {"kind": "i32", "value": laps},
            ],
        },
        "launch",
    )
    report = check_text(kernel.text, launch=launch, options=CheckOptions(repair_steps=0))
    assert not report.error, report.error
    return report.kernels[0].verdict


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_every_kernel_is_proved(case: Reading):
    assert launched(case, 2 * SLOTS + 3) == "proven"


def test_cases_differ_in_name_and_fill_all_multiprocessors():
    assert len({case.name for case in cases()}) == len(cases()) == 7
    assert CTAS % 2 == 0 and all(kernel_of(case).ctas == CTAS for case in cases())
