"""The environment's inspection: complete, truthful about what is missing, and light."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.base.error import TilewrightError
from tilewright.runtime import doctor
from tilewright.runtime.doctor import inspect


def test_what_is_here_has_a_version_and_what_is_not_a_remedy() -> None:
    components = {component.name: component for component in inspect()}
    assert set(components) == {
        "python", "tilewright", "numpy", "ml_dtypes", "xdsl", "rich", "islpy", "egglog", "z3-solver", "ortools",
        "cuda-bindings", "triton", "ptxas", "driver", "gpu",
    }  # fmt: skip
    for component in components.values():
        assert bool(component.version) == component.present or component.name == "driver"
        assert component.needed_for and (component.present or component.remedy)
    assert components["numpy"].version == importlib.metadata.version("numpy")


def test_missing_pieces_are_reported_without_raising(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_found() -> None:
        raise TilewrightError("no ptxas found", remedy="pip install it")

    monkeypatch.setattr(doctor, "find_ptxas", none_found)
    monkeypatch.setattr(doctor, "probe_libcuda", lambda: "libcuda.so.1: not found")
    monkeypatch.setattr(doctor, "_PACKAGES", (("surely-not-a-package", "nothing"),))
    components = {component.name: component for component in inspect()}
    for name, remedy in (("ptxas", "pip install it"), ("driver", "CPU runs"), ("surely-not-a-package", "pip install")):
        assert not components[name].present
        assert remedy in components[name].remedy


def test_nothing_heavy_is_imported() -> None:
    program = (
        "import sys, tilewright.runtime.doctor as doctor; doctor.inspect(); "
        "heavy = {'torch', 'cuda', 'xdsl', 'numpy', 'cupy'} & set(sys.modules); print(sorted(heavy))"
    )
    source = str(Path(doctor.__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={"PYTHONPATH": source})
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
