"""The list of fresh kernels: what is drawn follows from the seed, commits are checked, entries are whole."""

import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from bench import fresh

from tilewright.base.error import TilewrightError

_LIST = tomllib.loads((Path(__file__).parents[1] / "corpus" / "fresh" / "kernels.toml").read_text("utf-8"))


def _checkout(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("", "utf-8")
    return folder


def test_a_draw_is_the_same_each_time_and_leaves_out_what_was_seen(tmp_path: Path) -> None:
    root = _checkout(tmp_path, *(f"kernels/{name}.cu" for name in "abcdefgh"), "kernels/seen.cu", "other/x.cu")
    first = fresh.drawn(root, ["kernels/*.cu"], ["seen"], 4, "7")
    assert first == fresh.drawn(root, ["kernels/*.cu"], ["seen"], 4, "7")
    assert len(set(first)) == 4 and {path.parent.name for path in first} == {"kernels"}
    assert "seen.cu" not in {path.name for path in fresh.drawn(root, ["kernels/*.cu"], ["seen"], 8, "7")}
    assert first != fresh.drawn(root, ["kernels/*.cu"], ["seen"], 4, "8")


def test_a_draw_of_more_files_than_there_are_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TilewrightError, match=r"has 1 files for .*draws 2"):
        fresh.drawn(_checkout(tmp_path, "a.cu"), ["*.cu"], [], 2, "7")


def test_a_checkout_of_another_commit_is_refused(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    identity = ["-c", "user.name=n", "-c", "user.email=e"]
    made = ["git", "-C", str(tmp_path), *identity, "commit", "--quiet", "--allow-empty", "-m", "first"]
    subprocess.run(made, check=True)
    with pytest.raises(TilewrightError, match="git checkout 0123"):
        fresh.check_out(tmp_path, "https://example.com/none", "0123")


def test_every_entry_of_the_list_names_a_repository_and_what_is_compiled() -> None:
    entries = [entry for kind in fresh.KINDS for entry in _LIST[kind]]
    assert entries
    for entry in entries:
        assert entry["target"] in ("sm_90a", "sm_100a")
        assert "package" in entry or entry["repository"] in _LIST["repositories"]
        assert sum(key in entry for key in ("code", "program", "files")) == 1
        if "program" in entry:
            assert (Path(__file__).parents[1] / "corpus" / "fresh" / entry["program"]).is_file()
    assert all(len(commit) == 40 for _, commit in _LIST["repositories"].values())


def test_a_compiler_that_is_missing_is_one_message(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "fresh", str(tmp_path), str(tmp_path), "--nvcc", "no-such-nvcc"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: no program no-such-nvcc") and "--nvcc" in line
    assert not any(tmp_path.iterdir()), "nothing is cloned before"


def test_what_a_compiler_started_ends_with_it(tmp_path: Path) -> None:
    noted = tmp_path / "number"
    command = ["sh", "-c", f"sleep 60 & echo $! > {noted}; wait"]
    assert fresh._finished(command, dict(os.environ), 1.0) is None
    state = Path(f"/proc/{noted.read_text().strip()}/stat")
    for _ in range(50):
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.1)
    pytest.fail("what the compiler started goes on")
