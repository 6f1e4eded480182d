"""`import tilewright` is light, and the lower floors do not load what the upper ones need."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tilewright

HEAVY = ("z3", "egglog", "islpy", "ortools", "torch", "cuda", "xdsl", "rich", "numpy")


def loaded_after(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after `statement`."""
    program = f"import json, sys\n{statement}\nprint(json.dumps([name.partition('.')[0] for name in sys.modules]))"
    output = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    return set(json.loads(output))


def test_import_is_light() -> None:
    loaded = loaded_after("import tilewright")
    assert "tilewright" in loaded
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("package", ["base.plan", "targets", "legal.tensor_map.tensormap"])
def test_values_and_facts_need_no_library(package: str) -> None:
    assert loaded_after(f"import tilewright.{package}").isdisjoint(HEAVY)


def test_version_is_the_distribution_s() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert tilewright.__version__ == project["version"]
