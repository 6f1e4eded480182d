"""`python -m bench replay`: products compile to what is recorded; and what the command says, of made-up compilers."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bench import replay, replay_trees
from bench.replay_products import Asked, asked, matching, sample
from bench.replay_record import RECORD, ReplayError, compare, read_record, report, row_of
from bench.replay_trees import ROOT, checked_out, compiled
from bench.replay_worker import EARLIER, answer, entry_points, look_up

EXPECTED = ROOT / RECORD


def assert_as_recorded(products: Sequence[Asked]) -> None:
    compiler = entry_points()
    names = {each.name for each in products}
    recorded = {name: row for name, row in read_record(EXPECTED).items() if name in names}
    found = compare(recorded, {each.name: row_of(answer(compiler, through_json(each))) for each in products})
    if not found.equal:
        pytest.fail(f"{report(found)}\n\n{replay.ADVICE}", pytrace=False)


def through_json(product: Asked) -> dict[str, Any]:
    return json.loads(json.dumps(product.as_json()))


def test_one_product_of_each_kind_compiles_to_what_is_recorded() -> None:
    assert_as_recorded(sample(asked()))


@pytest.mark.full
def test_every_product_compiles_to_what_is_recorded() -> None:
    assert_as_recorded(asked())


def test_the_record_has_exactly_the_products_there_are() -> None:
    assert sorted(read_record(EXPECTED)) == sorted(each.name for each in asked()), replay.ADVICE


def test_products_have_names_of_their_own_and_every_kind_is_sampled() -> None:
    products = asked()
    assert [name for name, count in Counter(each.name for each in products).items() if count > 1] == []
    programs = {each.program for each in sample(products)}
    assert programs == {each.program for each in products}
    assert len(products) > 500 and len(sample(products)) < 110


def test_no_record_of_a_product_ends_by_a_fault() -> None:
    refused = {name: row["refused"] for name, row in read_record(EXPECTED).items() if "refused" in row}
    assert [name for name, words in refused.items() if "fault" in words] == []
    assert not refused, "every product of the record compiles"


def test_products_are_chosen_by_patterns() -> None:
    products = asked()
    assert {each.suite for each in matching(products, ["fp8-t*"])} == {"fp8-turned"}
    assert [each.name for each in matching(products, ["square 1024 (M=1024", "nothing"])]
    assert matching(products, None) == products and matching(products, ["nothing"]) == []


_DIGEST = """
import hashlib, json, sys
from bench.replay_products import asked, matching
from bench.replay_worker import answer, entry_points
compiler = entry_points()
chosen = matching(asked(), ["kinds: all odd", "kinds: groups", "fp8, factors of blocks", "elementwise", "gated batch"])
for product in chosen[:: int(sys.argv[1])]:
    said = json.dumps(answer(compiler, product.as_json()))
    print(product.name, len(said) > 10000, hashlib.sha256(said.encode()).hexdigest())
"""


@pytest.mark.full
def test_answers_depend_on_no_hashes_of_python_and_on_no_product_before() -> None:
    found: list[list[str]] = []
    for seed, step in (("1", "1"), ("2", "-1")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, "-c", _DIGEST, step]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        found.append(sorted(done.stdout.splitlines()))
    assert found[0] == found[1] and len(found[0]) >= 7 and sum(" True " in line for line in found[0]) >= 6


# A compiler is whatever has the entry points: this one answers with what its text says, and fails as the rows ask.
_COMPILE = """
from tilewright.base.error import TilewrightError

class Made:
    decisions, plan = {"tile_m": 128}, {"grid": [1]}

    def __init__(self, name, rows):
        self.modules, self.ptx = {name: "builtin.module {}"}, f"PTX of {rows} rows"

def compile_kernel(program, *, dims, dtype, strides, wanted, rerun, assembled):
    assert rerun is False and assembled is False and dtype == "bf16" and strides == {"b": (1, 64)}
    print("compilers may print")
    if dims["M"] == 404:
        raise TilewrightError("too many rows", remedy="use fewer")
    if dims["M"] == 500:
        raise KeyError("rows")
    if dims["M"] == 999:
        raise SystemExit(7)
    return Made(program, dims["M"])
"""
_FILES = {
    "__init__.py": "",
    "driver/compile/compile.py": _COMPILE,
    "driver/compile/kernels.py": "matmul_kernel = 'matmul'\n",
    "synth/tile/wanted.py": "class Wanted:\n"
    "    def __init__(self, *, tile=None): assert tile is None or type(tile) is tuple\n",
    "ir/decisions.py": "def to_json(value): return value\n",
    "base/plan_json.py": "def plan_to_json(plan): return plan\n",
    "base/error.py": "class TilewrightError(Exception):\n"
    "    def __init__(self, message, remedy=''): self.message, self.remedy = message, remedy\n",
}
_EARLIER_FILES = {
    "driver/compile/compile.py": "driver/compile.py",
    "driver/compile/kernels.py": "driver/kernels.py",
    "synth/tile/wanted.py": "synth/decide.py",
}


def compiler_in(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / "src" / "tilewright" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def product(rows: int, **options: Any) -> Asked:
    program = options.pop("program", "tilewright.driver.compile.kernels:matmul_kernel")
    return Asked("made up", "a product", program, {"M": rows}, strides={"b": (1, 64)}, **options)


def test_a_compiler_of_another_tree_is_asked(tmp_path: Path) -> None:
    products = [product(1), product(2, wanted={"tile": (64, 8)}), product(404), product(500)]
    products += [product(5, wanted={"color": "red"}), product(6, program="tilewright.ir.decisions:nothing")]
    heard: list[int] = []
    answers = compiled(compiler_in(tmp_path, _FILES), products, 2, lambda: heard.append(1))
    assert len(heard) == len(answers) == 6
    told = [answers[each.name] for each in products]
    for number, each in enumerate(told[:2], start=1):
        assert each == {
            "decisions": {"tile_m": 128},
            "ac": "// matmul\nbuiltin.module {}\n",
            "ptx": f"PTX of {number} rows",
            "plan": {"grid": [1]},
        }
    assert told[2] == {"refused": "too many rows (use fewer)"}
    assert told[3] == {"fault": "KeyError: 'rows' (compile.py, compile_kernel)"}
    assert "cannot be asked of this compiler" in told[4]["fault"] and "color" in told[4]["fault"]
    assert "no nothing in tilewright.ir.decisions" in told[5]["fault"]


def test_a_compiler_whose_modules_stood_elsewhere_is_asked(tmp_path: Path) -> None:
    files = {_EARLIER_FILES.get(name, name): text for name, text in _FILES.items()}
    assert compiled(compiler_in(tmp_path, files), [product(1)], 1, lambda: None)[product(1).name]["ptx"]


def test_a_compiler_that_lacks_an_entry_point_is_named(tmp_path: Path) -> None:
    files = {name: text for name, text in _FILES.items() if name != "base/plan_json.py"}
    with pytest.raises(ReplayError, match=r"no plan_to_json in tilewright\.base\.plan_json; .*EARLIER"):
        compiled(compiler_in(tmp_path, files), [product(1)], 1, lambda: None)


def test_a_process_that_ends_is_an_error_with_the_product(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"ended with 7, compiling made up: a product \(M=999\)"):
        compiled(compiler_in(tmp_path, _FILES), [product(999), product(1)], 1, lambda: None)


@pytest.mark.full
def test_a_tree_without_a_compiler_is_never_answered_for_by_another(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"is taken from .* and not from"):
        compiled(tmp_path, [product(1)], 1, lambda: None)


def test_every_entry_point_is_there_and_a_module_may_lack() -> None:
    assert all(entry_points().values())
    assert all(look_up(module, "__name__") == module for module in EARLIER)
    with pytest.raises(LookupError, match="no nobody in tilewright"):
        look_up("tilewright", "nobody")


def test_a_commit_is_checked_out_and_removed() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("these sources are no checkout")
    with checked_out("HEAD") as tree:
        assert (tree / "src" / "tilewright" / "__init__.py").exists() and tree != ROOT
    assert not tree.exists()
    listed = subprocess.run(["git", "worktree", "list"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert str(tree) not in listed.stdout
    for name in ("no-such-branch", "--help"):
        with pytest.raises(ReplayError, match=f"{name} names no commit"), checked_out(name):
            pass


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The command on three products of a made-up compiler: exit code, output and errors."""
    tree = compiler_in(tmp_path / "tree", _FILES)
    monkeypatch.setattr(replay, "ROOT", tree)
    monkeypatch.setattr(replay, "_require_own_sources", lambda: None)
    monkeypatch.setattr(replay, "asked", lambda: [product(1), product(2), product(404)])

    def run(*words: str) -> tuple[int, str, str]:
        parser = argparse.ArgumentParser()
        replay.add_arguments(parser)
        code = replay.run(parser.parse_args(["--file", str(tmp_path / "record.json"), *words]))
        return code, *capsys.readouterr()

    return run


def change(folder: Path) -> None:
    """The compiler there emits another text for the products."""
    compiler_in(folder, {**_FILES, "driver/compile/compile.py": _COMPILE.replace("PTX of", "text of")})


def test_record_and_compare(command: Any, tmp_path: Path) -> None:
    code, _, errors = command()
    assert code == 2 and errors.startswith("replay: ") and "cannot be read" in errors and errors.count("\n") == 1
    assert command("--record")[0] == 0
    code, output, errors = command()
    assert (code, errors) == (0, "")
    assert output == "3 products compile to the same decisions, ac, PTX and plan as recorded\n"
    change(tmp_path / "tree")
    code, output, _ = command("--jobs", "2")
    assert code == 1 and "Of 3 products 2 changed; 1 are as recorded." in output
    assert "ptx alone of 2 products:\n    made up: a product (M=1)\n" in output
    assert "bench replay --against HEAD" in output and "bench replay --record" in output
    # Of some products alone.
    assert command("--only", "M=404")[0] == 0
    assert command("--record", "--only", "(M=1)")[0] == 0
    code, output, _ = command()
    assert code == 1 and "ptx alone of 1 product:\n    made up: a product (M=2)\n" in output
    assert command("--record")[0] == 0 and command()[0] == 0


def test_against_a_commit(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = compiler_in(tmp_path / "other", _FILES)

    @contextmanager
    def checked(commit: str) -> Iterator[Path]:
        assert commit == "abc"
        yield other

    monkeypatch.setattr(replay, "checked_out", checked)
    code, output, _ = command("--against", "abc")
    assert code == 0 and output == "3 products compile to the same decisions, ac, PTX and plan as by abc\n"
    change(tmp_path / "tree")
    code, output, _ = command("--against", "abc", "--only", "M=[12]")
    assert code == 1 and "==== ptx of 2 products, 2 different diffs" in output
    assert "-PTX of 1 rows\n+text of 1 rows\n... and 1 diff of 1 product that differ" in output
    code, output, _ = command("--against", "abc", "--all")
    assert code == 1 and "+text of 1 rows" in output and "+text of 2 rows" in output


def test_a_fault_is_not_recorded(command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(replay, "asked", lambda: [product(1), product(500)])
    code, _, errors = command("--record")
    assert code == 2 and "nothing is recorded" in errors and "KeyError: 'rows'" in errors
    assert not (tmp_path / "record.json").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--jobs", "0"), "--jobs 0"),
        (("--only", "zzz"), "no product has zzz in its name"),
        (("--all",), "give --against COMMIT too"),
        (("--against", "no-such-branch"), "no-such-branch names no commit"),
    ],
)
def test_errors_are_one_line(command: Any, words: tuple[str, ...], told: str) -> None:
    code, output, errors = command(*words)
    assert (code, output) == (2, "") and told in errors and errors.count("\n") == 1


def test_the_compiler_must_be_the_one_beside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    replay._require_own_sources()
    monkeypatch.setattr(replay, "ROOT", tmp_path)
    with pytest.raises(ReplayError, match="set PYTHONPATH to"):
        replay._require_own_sources()


def test_the_command_is_listed() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "bench", "replay", "--help"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert all(option in done.stdout for option in ("--record", "--against COMMIT", "--all", "--only", "--jobs"))
    assert replay_trees.ROOT == ROOT
