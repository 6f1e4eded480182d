"""Compiled kernels that are correct are proven: no false alarm, with their launch and without.

The kernels are our own, written in Triton, Gluon and CuTe DSL (`sources/`) and in Tilewright, compiled without a
GPU. What others wrote is checked by `python -m bench corpus` and not part of the repository.
"""

from pathlib import Path

import pytest

from tilewright.base.diagnostic import Level
from tilewright.driver.check.check import check_file
from tilewright.driver.check.options import CheckOptions
from tilewright.driver.launch.launch_file import read_launch_file

_CORPUS = Path(__file__).parent.parent / "data" / "ptx" / "corpus"
_KERNELS = sorted(path.relative_to(_CORPUS).as_posix() for path in _CORPUS.rglob("*.ptx"))
_UNHURRIED = CheckOptions(budget_seconds=1_000)
# Without a launch, these are proven for the trip counts that were looked at: the stage of their ring is a remainder of
# the loop's counter, so the state at the loop's head does not return.
_SOME_TRIP_COUNTS = {
    "gluon/sm_100a/tcgen05_ws_acc2_s3.ptx",
    "gluon/sm_100a/tma_scale_ring_s4.ptx",
    "gluon/sm_90a/cp_async_mbar.ptx",
    "gluon/sm_90a/wgmma_ring_s3.ptx",
    "gluon/sm_90a/ws_copy_s3.ptx",
    "triton/sm_100a/matmul_tma_s3.ptx",
}
# Without a launch, these are left open: how often tiles and their steps iterate is decided together with much else; a
# parameter says whether a tile's first product adds to columns that nobody has written; five boxes are not known apart.
_LEFT_OPEN = {
    "triton/sm_100a/matmul_persistent_ws_s2.ptx": "what inputs decide goes more than 64 ways together",
    "cute/sm_100a/product_s3.ptx": "parameter 0 at byte 0",
    "triton/sm_100a/matmul_mxfp4.ptx": "boxes that the kernel leaves open",
    "triton/sm_100a/matmul_nvfp4.ptx": "boxes that the kernel leaves open",
}
_QUICK_WITHOUT_LAUNCH = {
    "gluon/sm_100a/tma_scale_ring_s4.ptx",
    "gluon/sm_90a/ws_copy_s3.ptx",
    "tilewright/sm_90a/matmul_cluster_2x1.ptx",
    "triton/sm_100a/matmul_tma_s3.ptx",
    "triton/sm_90a/attn_tma_full_s2.ptx",
    "triton/sm_90a/matmul_devdesc_s2.ptx",
    "triton/sm_90a/matmul_tma_s2.ptx",
    "triton/sm_90a/reduce_tma.ptx",
    "triton/sm_90a/softmax.ptx",
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("kernel", _KERNELS)
def test_correct_kernel_is_proven_with_its_launch(kernel: str) -> None:
    path = _CORPUS / kernel
    launch = read_launch_file(str(path.with_suffix(".launch.json")))
    report = check_file(str(path), launch=launch, options=_UNHURRIED)
    assert report.error is None or report.error == ""
    (checked,) = report.kernels
    assert not [finding.message for finding in checked.findings if finding.level is Level.ERROR]
    assert (checked.verdict, checked.reasons) == ("proven", ())


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "kernel",
    [name if name in _QUICK_WITHOUT_LAUNCH else pytest.param(name, marks=pytest.mark.full) for name in _KERNELS],
)
def test_correct_kernel_is_proven_without_a_launch(kernel: str) -> None:
    (checked,) = check_file(str(_CORPUS / kernel), options=_UNHURRIED).kernels
    assert not [finding.message for finding in checked.findings if finding.level is Level.ERROR]
    if kernel in _LEFT_OPEN:
        assert checked.verdict == "unknown" and any(_LEFT_OPEN[kernel] in reason for reason in checked.reasons)
        return
    assert (checked.verdict, checked.reasons) == ("proven", ())
    assert kernel in _SOME_TRIP_COUNTS or checked.scope == "all trip counts"
    assert checked.assumptions, "what was not given must be assumed"


def test_every_family_and_target_is_there() -> None:
    """A corpus that lost its files would pass every test above."""
    folders = {name.rsplit("/", 1)[0] for name in _KERNELS}
    assert folders >= {
        "cute/sm_100a",
        "gluon/sm_90a",
        "gluon/sm_100a",
        "triton/sm_90a",
        "triton/sm_100a",
        "tilewright/sm_90a",
    }
    assert len(_KERNELS) >= 27
