"""The core without extras: verbs that need none work, others say which extra, and no verdict changes silently."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.core_environment import ROOT, linked_packages, run_alone
from tests.docs.pages import blocks_of
from tilewright.base.check_report import KernelReport
from tilewright.driver.check.check import check_file
from tilewright.driver.check.options import CheckOptions

_PACKED_ROWS = ["--dtype", "bf16", "--dims", "100,4096", "--strides", "200", "--box", "64,128", "--swizzle", "128B"]
_RACE = "docs/bugs/store-without-a-proxy-fence/buggy.ptx"
_CORPUS = "tests/data/ptx/corpus"
_TRITON, _GLUON = f"{_CORPUS}/triton/sm_90a/matmul_tma_s2", f"{_CORPUS}/gluon/sm_100a/tcgen05_two_products"
_NEEDS_THE_SOLVER = "docs/bugs/zero-trips-are-waited-for/buggy.ptx"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return linked_packages(tmp_path_factory.mktemp("core"))


def test_the_extras_are_not_there(packages: Path) -> None:
    names = ("z3", "egglog", "islpy", "ortools", "cuda", "nvidia", "triton", "torch", "pandas", "pytest")
    program = f"from importlib.util import find_spec; print([name for name in {names!r} if find_spec(name)])"
    assert run_alone(packages, program=program).stdout.strip() == "[]"


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("arguments", "code", "printed"),
    [
        (["--version"], 0, "tilewright "),
        (["check", "examples/ring.ptx"], 0, "proven for all trip counts"),
        (["check", "examples/ring.ptx", "--launch", "examples/ring.launch.json"], 0, "proven"),
        (["check", f"{_TRITON}.ptx", "--launch", f"{_TRITON}.launch.json"], 0, "proven"),
        (["check", f"{_GLUON}.ptx", "--launch", f"{_GLUON}.launch.json"], 0, "proven"),
        (["check", _RACE], 1, "fence.proxy.async.shared::cta"),
        (["check", _RACE, "--format", "sarif"], 1, "PX101"),
        (["run", "examples/ring.ptx", "--launch", "examples/ring.launch.json"], 0, "ran to its end"),
        (["tensormap", *_PACKED_ROWS], 1, "pad the row stride"),
        (["banks", "examples/transpose.ptx", "--launch", "examples/transpose.launch.json"], 1, "wavefronts"),
        (["banks", "--layout", "(32,32):(32,1)", "--access", "st.shared.b32:rows", "--synthesize"], 0, "best of"),
        (["layout", "--mma", "wgmma.m64n128k16", "--operand", "C", "--show"], 0, "wgmma"),
        (["layout", "equal", "(8,(4,N)):(1,(8,32))", "(32,N):(1,32)"], 0, "equal for all sizes"),
        (["reduce", _RACE, "--code", "PX101"], 0, "cp.async.bulk"),
        (["explain", "PX101"], 0, "proxy fence"),
        (["doctor"], 0, "pip install 'tilewright[solver]'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_verb_works(packages: Path, arguments: list[str], code: int, printed: str) -> None:
    done = run_alone(packages, *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    assert printed in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["compile", "examples/linear.py:linear", "--shape", "M=512,N=512,K=512"], "compile"),
        (["schedule", "examples/matmul.py:matmul", "--shape", "M=512,N=512,K=512", "--optimal"], "optimal"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_needs_an_extra_is_one_message_that_names_it(packages: Path, arguments: list[str], extra: str) -> None:
    done = run_alone(packages, *arguments, assembler=False)
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"pip install 'tilewright[{extra}]'" in done.stderr
    assert done.stderr.count("error:") == 1 and "Traceback" not in done.stderr


def test_a_message_is_json_where_json_is_asked_for(packages: Path) -> None:
    shape = ("--shape", "M=512,N=512,K=512", "--format", "json")
    done = run_alone(packages, "compile", "examples/linear.py:linear", *shape, assembler=False)
    assert done.returncode == 2
    assert "tilewright[compile]" in json.loads(done.stdout)["remedy"]


def test_a_proof_that_needs_the_solver_is_unknown_and_says_so(packages: Path) -> None:
    done = run_alone(packages, "check", _NEEDS_THE_SOLVER)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "z3-solver is not installed" in done.stdout and "pip install 'tilewright[solver]'" in done.stdout


def test_a_tensor_map_whose_plans_need_the_e_graph_says_so(packages: Path) -> None:
    arguments = (
        "tensormap", "--dtype", "bf16",
        "--dims", "5,3,5,3,5,2", "--strides", "500,100,1500,20,10", "--box", "5,3,5,3,5,2",
    )  # fmt: skip
    done = run_alone(packages, *arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "plans that no short chain of changes reaches were not sought" in done.stdout
    assert "pip install 'tilewright[optimal]'" in done.stdout


def test_layouts_that_need_integer_sets_are_undecided_and_say_so(packages: Path) -> None:
    done = run_alone(packages, "layout", "equal", "Sw<3,0,6> o 0 o (N):(1)", "(N):(1)", "--where", "N <= 64")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "pip install 'tilewright[optimal]'" in done.stdout


def test_the_library_says_which_extra_runs_on_a_gpu(packages: Path) -> None:
    program = """
from tilewright.base.error import TilewrightError
from tilewright.runtime import device
device.probe_libcuda = lambda: None
try:
    device.driver()
except TilewrightError as error:
    print(error)
"""
    assert "pip install 'tilewright[gpu]'" in run_alone(packages, program=program).stdout


_EVERY_MODULE = """
import importlib, pkgutil, sys
for name in {hidden!r}:
    sys.modules[name] = None
import tilewright
from tilewright.base.extra import MissingExtra
left = []
for found in pkgutil.walk_packages(tilewright.__path__, "tilewright."):
    try:
        importlib.import_module(found.name)
    except MissingExtra:
        left.append(found.name)
    except ModuleNotFoundError as error:
        left.append(f"{{found.name}}: {{error.name}}")
print(*left, sep="\\n")
"""
_POSIX_ONLY = ("fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty")


def test_every_module_is_imported_and_none_needs_a_posix_module(packages: Path) -> None:
    hidden = tuple(name for name in _POSIX_ONLY if name != "posix" or sys.platform == "win32")
    done = run_alone(packages, program=_EVERY_MODULE.format(hidden=hidden))
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split("\n")[:-1]) == {
        "tilewright.cli.editor.language_server: lsprotocol",
        "tilewright.integrations.pytest_plugin: pytest",
        "tilewright.integrations.torch_layers: torch",
        "tilewright.integrations.torch_operators: torch",
        "tilewright.integrations.torch_registration: torch",
        "tilewright.solve.scheduling.modulo",
        "tilewright.solve.scheduling.register_order",
    }


_AS_ON_WINDOWS = """
import os, signal, subprocess, sys, tempfile
import numpy, rich.console
for module, names in ((signal, ("SIGALRM", "SIGHUP", "SIGKILL", "SIGUSR1", "setitimer", "getitimer", "alarm", "pause")),
                      (os, ("fork", "forkpty", "getuid", "geteuid", "getgid", "setsid", "killpg", "uname"))):
    for name in names:
        delattr(module, name)
from tilewright.cli.main import main
raise SystemExit(main())
"""


def test_a_check_uses_nothing_that_windows_has_not(packages: Path) -> None:
    done = run_alone(packages, "check", _RACE, "--budget", "30", program=_AS_ON_WINDOWS)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "PX101" in done.stdout


def _kernels(path: Path) -> dict[str, KernelReport]:
    report = check_file(str(path), options=CheckOptions(budget_seconds=60))
    assert not report.error, report.error
    return {each.name: each for each in report.kernels}


@pytest.mark.sample(1)
@pytest.mark.parametrize("folder", ["docs/bugs", "examples", pytest.param(_CORPUS, marks=pytest.mark.full)])
def test_without_the_solver_a_verdict_is_the_same_or_unknown_with_the_extra_s_name(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = sorted((ROOT / folder).rglob("*.ptx"))
    assert paths
    usual = {path: _kernels(path) for path in paths}
    monkeypatch.setitem(sys.modules, "z3", None)
    changed: list[str] = []
    for path in paths:
        for name, kernel in _kernels(path).items():
            if kernel.verdict != usual[path][name].verdict:
                changed.append(path.relative_to(ROOT).as_posix())
                assert kernel.verdict == "unknown"
                assert any("pip install 'tilewright[solver]'" in reason for reason in kernel.reasons)
    assert bool(changed) == (folder != "examples"), changed


def test_the_install_page_names_every_extra() -> None:
    from tests.core_environment import project

    commands = "\n".join(block.body for block in blocks_of("docs/how-to/install.md"))
    for extra in project()["optional-dependencies"]:
        assert f"tilewright[{extra}]" in commands or extra == "dev"
