"""`assert_proven` in somebody's suite: what passes, what fails, and what the failure says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from tests.cli.checked_texts import NO_FENCE, launch_document
from tests.contract.replay_kernels import copy_text

from tilewright.base.error import TilewrightError
from tilewright.integrations.pytest_plugin import assert_proven

SUITE = """
from pathlib import Path

LAUNCH = "launch.json"


def test_good(assert_proven):
    report = assert_proven(Path("good.ptx"), LAUNCH)
    assert report.kernels[0].verdict == "proven"


def test_unfenced(assert_proven):
    assert_proven(Path("unfenced.ptx"), LAUNCH)
"""


def test_a_proven_kernel_passes_and_a_refuted_one_fails_with_the_report(tmp_path: Path) -> None:
    assert assert_proven(copy_text(), launch_document()).kernels[0].verdict == "proven"
    path = tmp_path / "unfenced.ptx"
    path.write_text(copy_text(**NO_FENCE), encoding="utf-8")
    launch = tmp_path / "launch.json"
    launch.write_text(json.dumps(launch_document()), encoding="utf-8")
    for given in (path, str(path)):
        with pytest.raises(AssertionError, match=r"error\[PX") as caught:
            assert_proven(given, launch)
        assert "unfenced.ptx:" in str(caught.value) and "= help:" in str(caught.value)


def test_what_is_allowed_passes_and_the_report_says_so() -> None:
    with pytest.raises(AssertionError, match=r"refuted by PX101") as caught:
        assert_proven(copy_text(**NO_FENCE), launch_document())
    codes = sorted(set(re.findall(r"error\[(\w+)\]", str(caught.value))))
    (kernel,) = assert_proven(copy_text(**NO_FENCE), launch_document(), allow=dict.fromkeys(codes, "a test")).kernels
    assert kernel.exceptions == tuple(f"allowed {code}: a test" for code in codes)
    (kernel,) = assert_proven(copy_text(**NO_FENCE), launch_document(), ignore=("PX",)).kernels
    assert kernel.exceptions[0].startswith("ignored PX")
    with pytest.raises(AssertionError, match="there is no rule PX9"):
        assert_proven(copy_text(), launch_document(), allow={"PX9": "a test"})


def test_unknown_fails_unless_it_is_allowed() -> None:
    loops = ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k() .reqntid 32 {\nA: bra A;\n}"
    with pytest.raises(AssertionError, match="unknown"):
        assert_proven(loops, {}, budget_seconds=1.0)
    assert assert_proven(loops, {}, budget_seconds=1.0, allow_unknown=True).kernels[0].verdict == "unknown"


def test_what_is_no_kernel_fails_and_a_wrong_launch_is_an_error() -> None:
    with pytest.raises(AssertionError, match="cannot read"):
        assert_proven("no_such_file.ptx", allow_unknown=True)
    with pytest.raises(AssertionError, match="error:"):
        assert_proven(copy_text()[:900], allow_unknown=True)
    with pytest.raises(TilewrightError, match=r"launch: grid\[0\]"):
        assert_proven(copy_text(), {"grid": [0]})


def test_the_plugin_is_announced_to_pytest() -> None:
    (found,) = [point for point in entry_points(group="pytest11") if point.name == "tilewright"]
    assert found.value == "tilewright.integrations.pytest_plugin"


def test_the_fixture_in_a_suite(tmp_path: Path) -> None:
    (tmp_path / "good.ptx").write_text(copy_text(), encoding="utf-8")
    (tmp_path / "unfenced.ptx").write_text(copy_text(**NO_FENCE), encoding="utf-8")
    (tmp_path / "launch.json").write_text(json.dumps(launch_document()), encoding="utf-8")
    (tmp_path / "test_kernels.py").write_text(SUITE, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_kernels.py"],
        capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False,
    )  # fmt: skip
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "error[PX" in done.stdout and "unfenced.ptx:" in done.stdout
