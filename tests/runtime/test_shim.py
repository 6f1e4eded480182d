"""The shim in front of a driver of the test's own: every way to the driver is seen, and no program notices it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.runtime.fake_driver import FakeDriver, compiled_driver

from tilewright.base.error import TilewrightError
from tilewright.runtime.shim import build
from tilewright.runtime.shim.build import built_shim, compiler, preloaded

WAYS = ("linked", "dlsym", "default", "table", "old", "thread")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> FakeDriver:
    return compiled_driver(tmp_path_factory.mktemp("driver"))


def run(
    driver: FakeDriver, folder: Path | None, how: str, *steps: str, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run the test's program, with the shim where `folder` says where its records go."""
    environment = driver.environment(FAKE_LOG="1", **more)
    if folder is not None:
        environment = preloaded(driver.shim, environment) | {"TILEWRIGHT_CAPTURE": str(folder)}
    command = driver.command(how, *steps)
    return subprocess.run(
        command, env=environment, cwd=driver.folder, capture_output=True, text=True, timeout=60, check=False
    )


def tags(folder: Path) -> list[str]:
    """The tags of all records, in order."""
    found: list[str] = []
    for path in sorted(folder.glob("*.records")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            found.append(data[at : at + 4].decode("ascii"))
            at += 12 + int.from_bytes(data[at + 4 : at + 12], "little")
    return found


STEPS = ("data", "scale.ptx", "kernel", "scale", "launch", "3", "say", "hello", "launch", "3", "elsewhere", "3")


@pytest.mark.sample(2)
@pytest.mark.parametrize("how", WAYS)
def test_every_way_to_the_driver_is_seen(driver: FakeDriver, tmp_path: Path, how: str) -> None:
    seen = run(driver, tmp_path, how, *STEPS)
    assert tags(tmp_path) == ["OPEN", "IMAG", "KERN", "LNCH", "SAME", "LNCH"]
    # The driver is called as without the shim, and the program prints and ends as without.
    alone = run(driver, None, how, *STEPS)
    assert (seen.returncode, seen.stdout, seen.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    word = "launch on a thread's stream" if how == "thread" else "launch"
    assert seen.stderr.count(f"driver: {word} scale 4 128") == 3 and seen.stdout == "hello\n"


@pytest.mark.parametrize("how", ["table", "old", "thread"])
def test_a_table_may_hold_other_addresses(driver: FakeDriver, tmp_path: Path, how: str) -> None:
    """cuGetProcAddress need not answer with the addresses that dlsym gives."""
    seen = run(driver, tmp_path, how, *STEPS, FAKE_ALIASES="1")
    assert seen.stderr.count("launch by another address scale 4 128") == 3
    assert tags(tmp_path).count("LNCH") == 2


@pytest.mark.parametrize(
    ("steps", "codes"),
    [
        (("exit", "7"), 7),
        (("kill", "9"), -9),
        (("kernel", "nosuch"), 0),
    ],
)
def test_a_program_ends_as_it_would(driver: FakeDriver, tmp_path: Path, steps: Sequence[str], codes: int) -> None:
    arguments = ("data", "scale.ptx", "kernel", "scale", "launch", "1", *steps)
    seen, alone = run(driver, tmp_path, "table", *arguments), run(driver, None, "table", *arguments)
    assert seen.returncode == alone.returncode == codes and seen.stdout == alone.stdout
    # What was launched before is on the disk, whatever ended the program.
    assert tags(tmp_path) == ["OPEN", "IMAG", "KERN", "LNCH"]


def test_threads_and_forks_leave_complete_records(driver: FakeDriver, tmp_path: Path) -> None:
    steps = ("data", "scale.ptx", "kernel", "scale", "launch", "1", "threads", "0", "fork", "scale.ptx", "launch", "99")
    assert run(driver, tmp_path, "dlsym", *steps).returncode == 0
    found = tags(tmp_path)
    assert len(list(tmp_path.glob("*.records"))) == 2
    # 8 threads of 500 launches, 10 of them different; one launch was made before, one comes after and one in the child.
    assert found.count("LNCH") == 10 + 1 + 1 + 1 and found.count("SAME") == 4000 - 10
    assert found.count("OPEN") == found.count("IMAG") == found.count("KERN") == 2


def test_a_program_without_a_folder_is_left_alone(driver: FakeDriver, tmp_path: Path) -> None:
    environment = preloaded(driver.shim, driver.environment())
    subprocess.run(driver.command("table", *STEPS), env=environment, cwd=driver.folder, check=True, capture_output=True)
    subprocess.run(["true"], env={**environment, "TILEWRIGHT_CAPTURE": str(tmp_path)}, check=True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_no_fault_of_the_program(driver: FakeDriver, tmp_path: Path) -> None:
    seen = run(driver, tmp_path / "missing", "dlsym", *STEPS)
    assert seen.returncode == 0 and seen.stdout == "hello\n"


FIRST = """
#define _GNU_SOURCE
#include <dlfcn.h>
int answer(void) { return 1 + ((int (*)(void))dlsym(RTLD_NEXT, "answer"))(); }
"""


def test_the_next_symbol_counts_from_the_caller(tmp_path: Path) -> None:
    """dlsym(RTLD_NEXT) looks behind the library that calls it; behind the shim, it would find that library itself."""
    found = compiler()
    if found is None:
        pytest.skip("there is no C compiler")
    (tmp_path / "first.c").write_text(FIRST)
    (tmp_path / "second.c").write_text("int answer(void) { return 40; }\n")
    (tmp_path / "main.c").write_text("int answer(void);\nint main(void) { return answer(); }\n")
    for name in ("first", "second"):
        shared = ["-fPIC", "-shared", f"-Wl,-soname,lib{name}.so", "-o", str(tmp_path / f"lib{name}.so")]
        subprocess.run([found, "-w", *shared, str(tmp_path / f"{name}.c"), "-ldl"], check=True)
    libraries = [f"-L{tmp_path}", "-Wl,--no-as-needed", "-lfirst", "-lsecond", f"-Wl,-rpath,{tmp_path}"]
    subprocess.run([found, "-o", str(tmp_path / "main"), str(tmp_path / "main.c"), *libraries], check=True)
    environment = preloaded(built_shim(tmp_path / "cache"), dict(os.environ)) | {"TILEWRIGHT_CAPTURE": str(tmp_path)}
    assert subprocess.run([str(tmp_path / "main")], env=environment, timeout=20, check=False).returncode == 41


def test_memory_that_is_mapped_in_pieces_is_one_range(driver: FakeDriver, tmp_path: Path) -> None:
    steps = ("data", "scale.ptx", "kernel", "scale", "map", "0", "map", "2", "map", "1", "map", "4", "mapping", "1")
    run(driver, tmp_path, "table", *steps, "unmap", "1", "mapping", "2", "mapping", "4")
    from tilewright.driver.capture.records import MemoryRange, read_processes

    (process,) = read_processes(tmp_path)
    base = 0x7E0000000000
    assert [launch.ranges for launch in process.launches] == [
        (MemoryRange(base, 0x3000),),
        (MemoryRange(base + 0x2000, 0x1000),),
        # The last launch is like the one before: 64 bytes into a range of 0x1000.
    ]
    assert list(process.counts.values()) == [1, 2]


def test_the_sources_compile_without_a_warning(tmp_path: Path) -> None:
    found = compiler()
    if found is None:
        pytest.skip("there is no C compiler")
    sources = sorted(map(str, build.SOURCES.glob("*.c")))
    flags = ["-O2", "-std=gnu11", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([found, *flags, "-o", str(tmp_path / "shim.so"), *sources, "-ldl", "-lpthread"], check=True)


def test_the_library_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if compiler() is None:
        pytest.skip("there is no C compiler")
    path = built_shim(tmp_path)
    monkeypatch.setattr(build, "compiler", lambda: None)
    assert built_shim(tmp_path) == path
    with pytest.raises(TilewrightError, match="there is no C compiler") as caught:
        built_shim(tmp_path / "other")
    assert "--shim" in caught.value.remedy and "apt install gcc" in caught.value.remedy


def test_a_compiler_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "compiler", lambda: "/bin/false")
    with pytest.raises(TilewrightError, match="/bin/false does not compile") as caught:
        built_shim(tmp_path)
    assert "CC" in caught.value.remedy and list(tmp_path.iterdir()) == []


def test_what_is_preloaded_comes_after_the_shim(tmp_path: Path) -> None:
    shim = tmp_path / "shim.so"
    assert preloaded(shim, {})["LD_PRELOAD"] == str(shim)
    assert preloaded(shim, {"LD_PRELOAD": "/x.so", "A": "b"}) == {"LD_PRELOAD": f"{shim}:/x.so", "A": "b"}
    with pytest.raises(TilewrightError, match="separator"):
        preloaded(tmp_path / "a b" / "shim.so", {})
