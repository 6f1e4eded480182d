"""The pre-commit hook and the GitHub action: what they call exists, and means what they take it to mean."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.checked_texts import NO_FENCE
from tests.contract.replay_kernels import copy_text

from tilewright.cli.main import build_parser

ROOT = Path(__file__).parents[2]


def test_the_hook_calls_a_command_that_takes_files() -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    (entry,) = re.findall(r"entry: (.*)", text)
    (pattern,) = re.findall(r"files: (.*)", text)
    program, *arguments = shlex.split(entry)
    assert program == "tilewright"
    assert build_parser().parse_args([*arguments, "a.ptx", "b/c.ptx"]).paths == ["a.ptx", "b/c.ptx"]
    assert re.search(pattern, "kernels/a.ptx") and not re.search(pattern, "kernels/a.ptx.json")


def script() -> str:
    """The last step's script in the action."""
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    return "\n".join(line.removeprefix(" " * 8) for line in text.rpartition("run: |\n")[2].splitlines())


def run_script(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """The script, with `tilewright` as this checkout's."""
    names = {"PATHS": ".", "LAUNCH": "", "ISA": "tolerant", "BUDGET": "10", "SARIF": "", "ALLOW_UNKNOWN": "false"}
    program = f'tilewright() {{ "{sys.executable}" -m tilewright "$@"; }}\n'
    return subprocess.run(
        ["bash", "-e", "-c", program + script()],
        capture_output=True, text=True, cwd=folder, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **names, **inputs},
    )  # fmt: skip


def test_the_action_passes_inputs_as_variables_alone() -> None:
    assert "${{" not in script()


@pytest.mark.parametrize(("allow", "code"), [("false", 3), ("true", 0)])
def test_unknown_passes_only_where_it_is_allowed(tmp_path: Path, allow: str, code: int) -> None:
    # No directive says how many threads a block has, so nothing is decided without a launch.
    text = copy_text(**NO_FENCE)
    (tmp_path / "a b.ptx").write_text(text, encoding="utf-8")
    done = run_script(tmp_path, ALLOW_UNKNOWN=allow)
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout.startswith("::warning file=./a b.ptx,title=unknown::")


def test_with_sarif_the_kernels_are_checked_once(tmp_path: Path) -> None:
    assert script().count("tilewright check") == 1
    (tmp_path / "kernel.ptx").write_text(copy_text(**NO_FENCE), encoding="utf-8")
    done = run_script(tmp_path, PATHS="kernel.ptx", SARIF="out.sarif")
    (run,) = json.loads((tmp_path / "out.sarif").read_text(encoding="utf-8"))["runs"]
    assert done.returncode == 3 and run["invocations"]


def test_the_action_and_the_hook_install_the_core_alone() -> None:
    action = (ROOT / "action.yml").read_text(encoding="utf-8")
    (command,) = re.findall(r"run: (python -m pip install .*)", action)
    assert "extras:\n    description" in action and action.count('default: ""') == 3
    for extras, wanted in (("", "/it"), ("solver", "/it[solver]")):
        printed = subprocess.run(
            ["bash", "-c", command.replace("python -m pip", "echo")],
            capture_output=True, text=True, env={"ACTION_PATH": "/it", "EXTRAS": extras}, check=True,
        )  # fmt: skip
        assert printed.stdout.split() == ["install", "--quiet", "--disable-pip-version-check", wanted]
    assert "additional_dependencies" not in (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")


def test_what_cannot_be_checked_fails_and_sarif_is_written(tmp_path: Path) -> None:
    (tmp_path / "cut.ptx").write_text(copy_text()[:500], encoding="utf-8")
    done = run_script(tmp_path, PATHS="cut.ptx missing.ptx; exit 0", SARIF="out.sarif")
    assert done.returncode == 2 and done.stdout.count("::error") >= 2
    assert '"2.1.0"' in (tmp_path / "out.sarif").read_text(encoding="utf-8")
