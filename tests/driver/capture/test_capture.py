"""`tilewright capture` from end to end, on a driver of the test's own: what it writes, says, and hands to `check`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runtime.fake_driver import SCALE, FakeDriver, compiled_driver

from tilewright.cli.main import main
from tilewright.driver.capture.names import short_name, unique_name
from tilewright.driver.launch.launch_file import read_launch_file
from tilewright.frontends.ptx.reader import read

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> FakeDriver:
    return compiled_driver(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def folder(driver: FakeDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the driver on the path, its text, and a home of its own."""
    for name, value in driver.environment(HOME=str(tmp_path / "home")).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    monkeypatch.delenv("TRITON_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scale.ptx").write_text(SCALE, encoding="utf-8")
    return tmp_path


def index(folder: str) -> dict[str, Any]:
    return json.loads(Path(folder, "capture.json").read_text(encoding="utf-8"))


def test_what_was_captured_can_be_checked(driver: FakeDriver, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    steps = ("data", "scale.ptx", "kernel", "scale", "launch", "300", "launch", "300", "elsewhere", "5", "say", "hello")
    assert main(["capture", "-o", "here", "--", *driver.command("table", *steps)]) == 0
    printed = capfd.readouterr()
    assert printed.out == "hello\n"
    assert "captured 1 kernel and 3 launches in here: 2 launch files of 1 kernel" in printed.err
    assert "tilewright check here/scale.ptx --launch here/scale.1.launch.json" in printed.err
    assert Path("here/scale.ptx").read_text(encoding="utf-8") == SCALE
    assert sorted(path.name for path in Path("here").iterdir()) == [
        "capture.json",
        "scale.1.launch.json",
        "scale.2.launch.json",
        "scale.ptx",
    ]
    assert Path("here/scale.1.launch.json").read_text(encoding="utf-8") == (
        '{\n  "entry": "scale",\n  "grid": [4, 1, 1],\n  "block": [128, 1, 1],\n  "dynamic_smem": 0,\n'
        '  "params": [\n    {"kind": "ptr", "bytes": 4096, "buffer": "buffer0"},\n'
        '    {"kind": "f32", "value": 0.5},\n    {"kind": "i32", "value": 300}\n  ]\n}\n'
    )
    assert [each["count"] for each in index("here")["kernels"][0]["launches"]] == [2, 1]
    for number in (1, 2):
        assert main(["check", "here/scale.ptx", "--launch", f"here/scale.{number}.launch.json"]) == 0
    # A launch of more numbers than there is room for is seen.
    assert main(["capture", "-o", "large", "--", *driver.command("dlsym", *steps[:4], "bytes", "2000")]) == 0
    document = json.loads(Path("large/scale.1.launch.json").read_text(encoding="utf-8"))
    document["grid"] = [16, 1, 1]
    Path("large/scale.1.launch.json").write_text(json.dumps(document), encoding="utf-8")
    assert main(["check", "large/scale.ptx", "--launch", "large/scale.1.launch.json"]) == 1


def test_tensor_maps_structures_and_clusters(driver: FakeDriver, folder: Path) -> None:
    steps = ("data", "scale.ptx", "kernel", "mapped", "mapped", "0", "kernel", "packed", "packed", "0")
    assert main(["capture", "-o", "here", "--", *driver.command("linked", *steps)]) == 0
    described = {
        "kind": "tensormap",
        "dtype": "bf16",
        "dims": [64, 32],
        "strides": [128],
        "box": [64, 8],
        "swizzle": "128B",
        "l2_promotion": "128B",
    }
    mapped = json.loads(Path("here/mapped.1.launch.json").read_text(encoding="utf-8"))
    assert mapped == {
        "entry": "mapped",
        "grid": [4, 2, 1],
        "block": [256, 1, 1],
        "cluster": [2, 1, 1],
        "dynamic_smem": 2048,
        "params": [
            {**described, "buffer": "buffer0", "offset": 512},
            {"kind": "ptr", "bytes": 4096, "buffer": "buffer1"},
            {"kind": "i32", "value": 7},
        ],
    }
    packed = json.loads(Path("here/packed.1.launch.json").read_text(encoding="utf-8"))
    assert packed["cluster"] == [2, 1, 1]
    (structure,) = packed["params"]
    assert structure["data"] == bytes(200).hex() + "2a00000000000000"
    assert structure["fields"] == [
        {"at": 8, "kind": "ptr", "bytes": 4096, "buffer": "buffer0"},
        {"at": 64, **described, "buffer": "buffer1", "offset": 64},
    ]
    module = read(SCALE, "scale.ptx")
    for name in ("mapped", "packed"):
        launch = read_launch_file(f"here/{name}.1.launch.json")
        launch.resolve(launch.kernel(module, "scale.ptx"))
    notes = {kernel["entry"]: kernel["launches"][0]["notes"] for kernel in index("here")["kernels"]}
    assert notes == {"mapped": ["may begin before the launch in front of it ends"], "packed": []}


def test_a_fat_binary_gives_the_text_of_its_cubin(driver: FakeDriver, folder: Path) -> None:
    image = DATA / "fatbin" / "size.fatbin"
    steps = ("wrapped", str(image), "library-kernel", "scale", "pool", "3")
    assert main(["capture", "-o", "here", "--", *driver.command("table", *steps)]) == 0
    assert ".target sm_90a\n" in Path("here/scale.ptx").read_text(encoding="utf-8")
    (kernel,) = index("here")["kernels"]
    assert kernel["text"] == "scale.ptx" and kernel["cubin"] is None
    launch = json.loads(Path("here/scale.1.launch.json").read_text(encoding="utf-8"))
    assert launch["params"][0] == {"kind": "ptr", "bytes": 1000, "buffer": "buffer0", "offset": 16}


def cubin() -> bytes:
    from tilewright.frontends.fatbin.container import entries

    return next(entry for entry in entries((DATA / "fatbin/none.fatbin").read_bytes()) if entry.kind == "cubin").payload


def test_a_cubin_without_text_is_kept_and_named(
    driver: FakeDriver, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("x.cubin").write_bytes(cubin())
    command = driver.command("table", "file", "x.cubin", "kernel", "scale", "launch", "3")
    assert main(["capture", "-o", "here", "--", *command]) == 0
    assert "1 kernel without a launch file: it was loaded as a cubin, without PTX: scale" in capfd.readouterr().err
    assert Path("here/scale.cubin").read_bytes() == cubin()
    assert not list(Path("here").glob("*.launch.json"))


@pytest.mark.parametrize("where", ["home", "cache", "triton home", "texts", "texts alone"])
def test_the_text_beside_a_cubin_is_found(
    driver: FakeDriver, folder: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    beside, arguments = Path("home/.triton/cache/abc"), ()
    if where == "cache":
        beside = Path("elsewhere/abc")
        monkeypatch.setenv("TRITON_CACHE_DIR", str(folder / "elsewhere"))
    elif where == "triton home":
        beside = Path("other/.triton/cache/abc")
        monkeypatch.setenv("TRITON_HOME", str(folder / "other"))
    elif where.startswith("texts"):
        beside, arguments = Path("dump"), ("--texts", "dump")
    beside.mkdir(parents=True)
    Path("x.cubin").write_bytes(cubin())
    if where != "texts alone":
        (beside / "scale.cubin").write_bytes(cubin())
        # One of the same size, with another content and another text.
        (beside / "other.cubin").write_bytes(cubin()[:-1] + b"\xff")
        (beside / "other.ptx").write_text(SCALE.replace("128", "64"), encoding="utf-8")
    (beside / "scale.ptx").write_text(SCALE, encoding="utf-8")
    command = driver.command("table", "file", "x.cubin", "kernel", "scale", "launch", "3")
    assert main(["capture", "-o", "here", *arguments, "--", *command]) == 0
    assert Path("here/scale.ptx").read_text(encoding="utf-8") == SCALE


def test_what_is_not_recorded_is_said(driver: FakeDriver, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    steps = ("data", "scale.ptx", "kernel", "scale", "launch", "1", "launch", "2", "launch", "3", "launch", "3")
    more = ("graph", "0", "cooperative", "0", "kernel", "refused", "plain", "0", "exit", "5")
    command = driver.command("dlsym", *steps, *more)
    assert main(["capture", "-o", "here", "--limit", "4", "--", *command]) == 5
    printed = capfd.readouterr()
    assert printed.out == "cuLaunchKernel answered 719\n"
    assert "1 launch beyond the limit (--limit) left no file" in printed.err
    assert "1 launch of graphs: their kernels are recorded once" in printed.err
    assert "1 kernel without a launch file: the driver refused it (error 719): refused" in printed.err
    scale, refused = index("here")["kernels"]
    assert [each["notes"] for each in scale["launches"]] == [[], [], [], ["a node of a graph"]]
    assert (scale["count"], scale["over_limit"], refused["launches"]) == (6, 1, [])


def test_kernels_of_one_name_and_several_texts(driver: FakeDriver, folder: Path) -> None:
    """As a tuner makes them; a limit counts for each."""
    Path("other.ptx").write_text(SCALE.replace("mul.f32", "add.f32"), encoding="utf-8")
    first = ("data", "scale.ptx", "kernel", "scale", "launch", "1", "launch", "2")
    second = ("data", "other.ptx", "kernel", "scale", "launch", "1", "launch", "2", "launch", "3")
    assert main(["capture", "-o", "here", "--limit", "1", "--", *driver.command("table", *first, *second)]) == 0
    kernels = index("here")["kernels"]
    assert [kernel["text"] for kernel in kernels] == ["scale.ptx", "scale_2.ptx"]
    assert [(kernel["over_limit"], kernel["count"]) for kernel in kernels] == [(1, 2), (2, 3)]
    assert "add.f32" in Path("here/scale_2.ptx").read_text(encoding="utf-8")


def test_kernels_are_chosen_by_name(driver: FakeDriver, folder: Path) -> None:
    steps = ("data", "scale.ptx", "kernel", "scale", "launch", "1", "kernel", "packed", "packed", "0")
    for pattern, names in (("scal", ["scale"]), ("*ed", ["packed"]), ("s*", ["scale"]), ("nothing", [])):
        output = f"here-{pattern.strip('*')}"
        assert main(["capture", "-o", output, "--kernel", pattern, "--", *driver.command("dlsym", *steps)]) == 0
        assert [kernel["entry"] for kernel in index(output)["kernels"]] == names


def test_buffers_are_saved_up_to_a_size(driver: FakeDriver, folder: Path) -> None:
    steps = ("data", "scale.ptx", "kernel", "mapped", "mapped", "0", "kernel", "scale", "graph", "0")
    assert main(["capture", "-o", "here", "--buffers=5K", "--", *driver.command("dlsym", *steps)]) == 0
    saved = sorted(Path("here").glob("*.npy"))
    # The map's buffer has 8192 bytes; a node of a graph has no contents yet.
    assert [path.name for path in saved] == ["mapped.1.buffer1.npy"]
    assert np.load(saved[0]).tolist() == [at % 256 for at in range(4096)]


def test_pointers_in_a_buffer_are_listed(driver: FakeDriver, folder: Path) -> None:
    steps = ("data", "scale.ptx", "point", "40", "kernel", "scale", "launch", "3")
    assert main(["capture", "-o", "here", "--buffers", "--", *driver.command("table", *steps)]) == 0
    launch = json.loads(Path("here/scale.1.launch.json").read_text(encoding="utf-8"))
    data = {"file": "scale.1.buffer1.npy"}
    pointer = {"at": 16, "kind": "ptr", "bytes": 8192, "buffer": "buffer1", "offset": 40, "data": data}
    assert launch["params"][0] == {
        "kind": "ptr",
        "bytes": 4096,
        "buffer": "buffer0",
        "pointers": [pointer],
        "data": {"file": "scale.1.buffer0.npy"},
    }
    read_launch_file("here/scale.1.launch.json")
    assert main(["check", "here/scale.ptx", "--launch", "here/scale.1.launch.json"]) == 0
    data = np.load("here/scale.1.buffer0.npy")
    assert data[16:24].tolist() == [0] * 8 and data[24:28].tolist() == [24, 25, 26, 27]
    assert np.load("here/scale.1.buffer1.npy")[:3].tolist() == [1, 2, 3]


@pytest.mark.parametrize("how", ["linked", "dlsym", "table"])
def test_the_text_that_a_program_compiles_is_kept(driver: FakeDriver, folder: Path, how: str) -> None:
    Path("made.cubin").write_bytes(cubin())
    Path("made.ptx").write_text(SCALE + "\0", encoding="utf-8")
    command = driver.command(how, "compile", "made", "kernel", "scale", "launch", "3")
    assert main(["capture", "-o", "here", "--", *command]) == 0
    assert Path("here/scale.ptx").read_text(encoding="utf-8") == SCALE
    assert Path("here/scale.1.launch.json").is_file()


def test_a_program_that_is_killed_leaves_its_launches(driver: FakeDriver, folder: Path) -> None:
    steps = ("data", "scale.ptx", "kernel", "scale", "launch", "1", "kill", "9")
    assert main(["capture", "-o", "here", "--", *driver.command("table", *steps)]) == 128 + 9
    assert Path("here/scale.1.launch.json").is_file()


def test_a_program_that_hangs_can_be_stopped(driver: FakeDriver, folder: Path) -> None:
    steps = ("data", "scale.ptx", "kernel", "scale", "launch", "1", "say", "launched", "sleep", "60")
    source = str(Path(sys.modules["tilewright"].__file__ or "").parents[1])
    command = [sys.executable, "-m", "tilewright", "capture", "-o", "here", "--", *driver.command("table", *steps)]
    capture = subprocess.Popen(command, env=driver.environment(PYTHONPATH=source), stdout=subprocess.PIPE)
    assert capture.stdout is not None and capture.stdout.readline() == b"launched\n"
    capture.terminate()
    assert capture.wait(timeout=30) == 128 + 15
    assert Path("here/scale.1.launch.json").is_file()


def test_forks_are_captured_as_one_kernel(driver: FakeDriver, folder: Path) -> None:
    steps = ("data", "scale.ptx", "kernel", "scale", "launch", "77", "fork", "scale.ptx")
    assert main(["capture", "-o", "here", "--", *driver.command("table", *steps)]) == 0
    (kernel,) = index("here")["kernels"]
    assert [each["count"] for each in kernel["launches"]] == [2]


def test_the_folder_is_a_new_one(driver: FakeDriver, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = driver.command("table", "data", "scale.ptx", "kernel", "scale", "launch", "1")
    for name in ("captured", "captured-2", "captured-3"):
        assert main(["capture", "--", *command]) == 0 and Path(name, "capture.json").is_file()
    assert main(["capture", "-o", "captured", "--", *command]) == 2
    assert "captured is not empty" in capfd.readouterr().err
    assert main(["capture", "-o", "scale.ptx", "--", *command]) == 2
    assert "scale.ptx is a file" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "there is no command to run"),
        (("--",), "there is no command to run"),
        (("--", "./nosuch"), "cannot run ./nosuch"),
        (("--shim", "no.so", "--", "true"), "there is no file no.so"),
        (("--texts", "no", "--", "true"), "there is no folder no"),
        (("--buffers=1X", "--", "true"), "'1X' is no number of bytes"),
        (("--buffers=1G", "--", "true"), "1G is too much"),
        (("--limit", "-1", "--", "true"), "--limit"),
    ],
)
def test_mistakes_are_named(
    folder: Path, arguments: tuple[str, ...], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["capture", *arguments]) == 2
    assert message in capfd.readouterr().err


def test_a_program_without_a_gpu_is_said_so(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["capture", "--", "true"]) == 0
    assert "captured no launch: no process used the CUDA driver" in capfd.readouterr().err
    assert main(["capture", "--format", "json", "--", "true"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert (document["exit_code"], document["kernels"], document["programs"]) == (0, [], [])


def test_capturing_needs_nothing_but_python(driver: FakeDriver, folder: Path) -> None:
    """The machine with the GPU may have none of the package's dependencies."""
    command = driver.command("table", "data", "scale.ptx", "kernel", "scale", "launch", "1")
    code = (
        "import sys\n"
        "for name in ('numpy', 'xdsl', 'rich', 'cuda', 'ml_dtypes', 'z3', 'islpy', 'egglog', 'ortools'):\n"
        "    sys.modules[name] = None\n"
        "from tilewright.cli.main import main\n"
        f"sys.exit(main(['capture', '-o', 'here', '--', *{command!r}]))\n"
    )
    source = str(Path(sys.modules["tilewright"].__file__ or "").parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code], env=driver.environment(PYTHONPATH=source), check=False, timeout=60
    )
    assert done.returncode == 0 and Path("here/scale.1.launch.json").is_file()


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ("matmul_kernel", "matmul_kernel"),
        ("_ZN7cutlass13device_kernelINS_4gemm6kernelEEEvNT_6ParamsE", "cutlass_device_kernel"),
        ("_Z5scalePffi", "scale"),
        ("_ZN2at6native54_GLOBAL__N__d8ceb000_21_DistributionNormal_cu_0cd7e83a4distv", "native_dist"),
        ("_ZN12_GLOBAL__N_14copyEv", "copy"),
        ("_ZN" + "".join(f"{len('a' * 30)}{'a' * 30}" for _ in range(9)), "a" * 30 + "_" + "a" * 17),
        ("$$", "kernel"),
    ],
)
def test_names_of_files(entry: str, name: str) -> None:
    assert short_name(entry) == name


def test_names_are_told_apart() -> None:
    taken: set[str] = set()
    assert [unique_name("a", taken) for _ in range(3)] == ["a", "a_2", "a_3"]
