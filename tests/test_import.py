"""`import tilewright` is light, and the lower floors do not load what the upper ones need."""

import ast
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


def test_what_tests_share_stands_in_no_test_file() -> None:
    """A test file can be collected alone, whatever another one needs; shared modules are named from the root, so that
    there is one of each."""
    tests = Path(__file__).parent
    files = [file for file in tests.rglob("*.py") if not {"data", "sources"} & set(file.relative_to(tests).parts)]
    local = {file.stem for file in files}
    wrong: list[str] = []
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.ImportFrom(module=str(name), level=0):
                    names = [name]
                case ast.Import():
                    names = [each.name for each in node.names]
                case _:
                    continue
            shared = [name for name in names if name.startswith("tests.")]
            bare = [name for name in names if name in local and name != "tests"]
            if bare or any(name.rpartition(".")[2].startswith("test_") for name in shared):
                wrong.append(f"{file.relative_to(tests)}: {names}")
    assert not wrong
