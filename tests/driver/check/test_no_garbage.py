"""A check leaves nothing that only a search for circles would free: such searches took an eighth of its time."""

from __future__ import annotations

import gc
from collections.abc import Generator
from pathlib import Path

import pytest

from tilewright.driver.check.check import check_file
from tilewright.driver.launch.launch_file import read_launch_file

_CORPUS = Path(__file__).parents[2] / "data" / "ptx" / "corpus"


@pytest.fixture
def _collector_disabled() -> Generator[None, None, None]:
    enabled = gc.isenabled()
    gc.disable()
    yield
    if enabled:
        gc.enable()


@pytest.mark.usefixtures("_collector_disabled")
@pytest.mark.parametrize(
    "name", ["gluon/sm_90a/cp_async_mbar", "gluon/sm_100a/tcgen05_ws_acc2_s3", "triton/sm_90a/matmul_persistent_s3"]
)
def test_all_is_freed_as_soon_as_nobody_names_it(name: str) -> None:
    path = str(_CORPUS / f"{name}.ptx")
    launch = read_launch_file(str(_CORPUS / f"{name}.launch.json"))
    check_file(path, launch=launch)  # loads what is needed
    gc.collect()
    report = check_file(path, launch=launch)
    assert report.kernels
    assert gc.collect() == 0
