"""`tilewright profile` on a stored table, and where there is no GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Tilewright
from tests.driver.views.profiled_bundles import DATA, bundle_of

from tilewright.driver.compile.place import gpu_runs
from tilewright.runtime.bundle import save


@pytest.fixture(name="bundle")
def _bundle(tmp_path: Path) -> str:
    return str(save(bundle_of(4096, 4096, 4096), tmp_path / "gemm.twb"))


TABLE = str(DATA / "matmul_4096_h200.csv")


def test_a_stored_table_as_text(tilewright: Tilewright, bundle: str) -> None:
    answer = tilewright("profile", bundle, "--from", TABLE)
    assert answer.code == 0 and "stand at barrier" in answer.out and "predicted and measured" in answer.out


def test_a_stored_table_as_json(tilewright: Tilewright, bundle: str) -> None:
    answer = tilewright("profile", bundle, "--from", TABLE, "--format", "json")
    assert answer.code == 0 and answer.document["kernels"][0]["entry"] == "matmul_kernel"


def test_a_page_is_written(tilewright: Tilewright, bundle: str, tmp_path: Path) -> None:
    page = tmp_path / "profile.html"
    answer = tilewright("profile", bundle, "--from", TABLE, "--format", "html", "--output", str(page))
    assert answer.code == 0 and not answer.out and "Why warps wait" in page.read_text()


@pytest.mark.skipif(gpu_runs("sm_90a"), reason="a GPU is here")
def test_without_a_gpu_it_exits_2_with_a_remedy(tilewright: Tilewright, bundle: str) -> None:
    answer = tilewright("profile", bundle)
    assert answer.code == 2 and "help:" in answer.err and len(answer.err.splitlines()) <= 3


@pytest.mark.parametrize(
    "arguments",
    [("--from", "nowhere.csv"), ("--from", __file__), ("--from", TABLE, "--keep", "k.csv"), ("--launches", "0"),
     ("--launches", "many")],
)  # fmt: skip
def test_bad_options_exit_2(tilewright: Tilewright, bundle: str, arguments: tuple[str, ...]) -> None:
    answer = tilewright("profile", bundle, *arguments)
    assert answer.code == 2 and answer.err
