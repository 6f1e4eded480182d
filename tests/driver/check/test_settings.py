"""`[tool.tilewright]`: what is read, which launch files a kernel has, and messages for tables that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.base.error import TilewrightError
from tilewright.driver.check.settings import Settings, find_settings, launches_beside, read_settings, settings_of

TABLE = """\
[project]
name = "kernels"

[tool.tilewright]
isa = "tolerant,fenced_init=strict"
budget = 30
file-budget = 90.5
jobs = 2
cache = false

[tool.tilewright.launches]
"kernels/gemm_*.ptx" = "launches/gemm.json"
"**/deep/*.ptx" = "launches/deep.json"

[tool.tilewright.allow]
PX101 = "the barrier is never reused"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(TABLE, encoding="utf-8")
    (tmp_path / "kernels" / "deep").mkdir(parents=True)
    return tmp_path


def test_the_nearest_table_counts(project: Path) -> None:
    found = find_settings(project / "kernels" / "deep")
    assert found == find_settings(project)
    assert (found.isa, found.budget_seconds, found.file_budget_seconds) == ("tolerant,fenced_init=strict", 30.0, 90.5)
    assert (found.jobs, found.cache, dict(found.allow)) == (2, False, {"PX101": "the barrier is never reused"})
    (project / "kernels" / "pyproject.toml").write_text("[project]\nname = 'no table'\n", encoding="utf-8")
    assert find_settings(project / "kernels") == found
    (project / "kernels" / "pyproject.toml").write_text("[tool.tilewright]\n", encoding="utf-8")
    assert find_settings(project / "kernels" / "deep") == Settings((project / "kernels").resolve())


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("kernels/gemm_a.ptx", ["gemm.json"]),
        ("kernels/attention.ptx", []),
        ("kernels/deep/gemm_a.ptx", ["deep.json"]),
        ("deep/x.ptx", ["deep.json"]),
        ("a/b/deep/x.ptx", ["deep.json"]),
        ("a/deep/c/x.ptx", []),
        ("kernels/gemm_a.ptx.bak", []),
    ],
)
def test_launch_files_by_glob(project: Path, path: str, names: list[str]) -> None:
    files = find_settings(project).launch_files(str(project / path), beside=True)
    assert [Path(file).name for file in files] == names
    assert all(Path(file).parent == (project / "launches").resolve() for file in files)


def test_launch_files_beside_a_kernel(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project / "kernels"
    for name in ("k.ptx", "k.launch.json", "k.second.launch.json", "kk.launch.json", "k[1].launch.json"):
        (folder / name).write_text("{}", encoding="utf-8")
    names = [Path(file).name for file in launches_beside(str(folder / "k.ptx"))]
    assert names == ["k.launch.json", "k.second.launch.json"]
    assert [Path(file).name for file in launches_beside(str(folder / "k[1].ptx"))] == ["k[1].launch.json"]
    monkeypatch.chdir(folder)
    assert Settings().launch_files("k.ptx", beside=True) == ("k.launch.json", "k.second.launch.json")
    assert Settings().launch_files("k.ptx", beside=False) == ()


@pytest.mark.parametrize(
    ("lines", "said", "remedy"),
    [
        ("buget = 3", "buget is not known", "did you mean budget?"),
        ("speed = 3", "speed is not known", "it has isa"),
        ("budget = 0", "budget is 0", "more than 0"),
        ("budget = true", "budget is True", "seconds"),
        ("budget = nan", "budget is nan", "seconds"),
        ("jobs = -1", "jobs is -1", "number of processes"),
        ("jobs = 1.5", "jobs is 1.5", "number of processes"),
        ("cache = 'yes'", "cache is 'yes'", "true or false"),
        ("isa = 'lenient'", "isa is 'lenient'", ""),
        ("isa = 3", "isa is 3", "text"),
        ("launches = 3", "launches is no table", "a glob and a launch file"),
        ("launches = { 'a' = 3 }", "launches.a is 3", "text"),
        ("allow = { PX101 = '' }", "allow.PX101 is ''", "reason"),
        ("allow = { PX1010 = 'x' }", "allow.PX1010 is no code", "did you mean PX101"),
    ],
)
def test_a_wrong_table_is_one_message_with_its_place(tmp_path: Path, lines: str, said: str, remedy: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(f"[tool.tilewright]\n{lines}\n", encoding="utf-8")
    with pytest.raises(TilewrightError) as caught:
        read_settings(path)
    assert said in caught.value.message and remedy in caught.value.remedy and caught.value.remedy
    place = caught.value.span
    assert (place is not None and place.line == 2 and place.file == str(path)) or str(path) in caught.value.message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[tool.tilewright\n", "no TOML"),
        (b"a = 1\na = 2\n", "no TOML"),
        (b"\xff", "no text"),
        (b"a=" + b"[" * 9999, "no TOML"),
    ],
)
def test_what_is_no_toml_is_one_message(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_bytes(content)
    with pytest.raises(TilewrightError, match=said) as caught:
        find_settings(tmp_path)
    assert caught.value.remedy and str(path) in str(caught.value)


def test_a_named_file_must_have_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other.toml").write_text("[tool.tilewright]\njobs = 3\n", encoding="utf-8")
    Path("empty.toml").write_text("", encoding="utf-8")
    Path("pyproject.toml").write_text("[tool.tilewright]\njobs = 5\n", encoding="utf-8")
    assert settings_of("other.toml").jobs == 3
    assert settings_of(None).jobs == 5 and settings_of(None, isolated=True).jobs is None
    for config, isolated in (("empty.toml", False), ("missing.toml", False), ("other.toml", True)):
        with pytest.raises(TilewrightError):
            settings_of(config, isolated)
