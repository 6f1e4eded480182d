"""Bad input: one message that names the place and the remedy, exit code 2, and nothing left behind."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Tilewright

from tilewright.runtime.bundle import Bundle, from_bytes, save
from tilewright.runtime.device import probe_libcuda

SHAPE = ("--shape", "M=32,K=32")
PTX = "compiled.ptx"
RIGHT = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry right() { ret; }\n"
BUGS = Path(__file__).parents[2] / "docs" / "bugs"


@pytest.mark.parametrize(
    ("arguments", "message", "remedy"),
    [
        (("program.py:scale", *SHAPE, "--target", "sm_90"), "unknown target 'sm_90'", "did you mean 'sm_90a'?"),
        (
            ("program.py:scaled", "--shape", "M=64,N=64,K=64", "--target", "sm_100a"),
            "a product is scaled by blocks of 32 elements of K",
            "use blocks of a multiple of 64 elements",
        ),
        (("program.py:scale", *SHAPE, "--target", "gfx942"), "not compiled for gfx942", "it for sm_90a, sm_100a"),
        (("program.py:summed", *SHAPE), "tw.sum takes no axis", "over=j"),
        (("program.py:scale", "--shape", "M=32,KK=32"), "no axis KK", "did you mean K?"),
        (("program.py:scale", "--shape", "M=32"), "axis K of kernel scale has no extent", "give it one"),
        (("program.py:scale", "--shape", "M=-32,K=32"), "extent -32", "0 or more"),
        (("program.py:scale", "--shape", "M=0,K=32", "--emit", "cubin"), "launches nothing", "leave it out"),
        (("program.py:scale", "--shape", f"M={10**20},K=32"), "elements", "2^31"),
        (("program.py:scale", "--shape", "M=32x32"), "cannot read 'M=32x32'", "write it as"),
        (("program.py:scale", "--shape", "M=32,M=33,K=1"), "axis M stands twice", "once"),
        (("program.py:scale", *SHAPE, "--dtype", "bf15"), "unknown dtype 'bf15'", "use bf16, f16, f32"),
        (("program.py:scale", *SHAPE, "--dtype", "a=bf16,x=f32"), "no parameter x", "a, c"),
        (("program.py:scale", *SHAPE, "--emit", "ptxx"), "unknown stage 'ptxx'", "did you mean ptx?"),
        (("program.py:scale", *SHAPE, "-o", "no/such/folder.twb"), "cannot write", "existing folder"),
        (("program.py:scale", *SHAPE, "-o", "program.py"), "does not end in .twb", "FILE.twb"),
        (("program.py:shifted", *SHAPE), "stored outside the program's own tile", "grid's indices"),
        (("program.py:divides", *SHAPE), "program.py:28: error: ZeroDivisionError", "fix the file"),
        (("program.py:scal", *SHAPE), "declares no kernel scal", "did you mean scale?"),
        (("program.py:not_a_kernel", *SHAPE), "is no kernel", "@tw.kernel"),
        (("missing.py:scale", *SHAPE), "no file missing.py", "check the path"),
        (("program.py", *SHAPE), "names no kernel", "FILE.py:KERNEL"),
        (("program.py:", *SHAPE), "names no kernel", "FILE.py:KERNEL"),
        (("program.py:matmul", "--shape", "M=64,N=64,K=64", "--dtype", "a=bf16,b=f16"), "bf16 with f16", "cast"),
        (("program.py:matmul", "--shape", "M=64,N=64,K=64", "--tile", "100x7"), "no tile shape", "128x256"),
        (("program.py:matmul", "--shape", "M=64,N=64,K=64", "--tile", "64"), "cannot read --tile", "128x256"),
        (
            ("program.py:matmul", "--shape", "M=64,N=64,K=64", "--tile", "\u00b2x\u00b2"),
            "cannot read --tile",
            "128x256",
        ),
        (("program.py:matmul", "--shape", "M=64,N=64,K=64", "--stages", "0"), "0 stages", "2 to"),
        (("program.py:scale", *SHAPE, "--dtype", "a=bf16,a=f16"), "parameter a stands twice", "once"),
        (("program.py:scale", *SHAPE, "--dtype", "=f16"), "cannot read '=f16' in --dtype", "a=bf16"),
        (("program.py:scale", *SHAPE, "--stages", "3"), "scale has no product, of which --stages", "leave it out"),
        (("program.py:scale", *SHAPE, "-o", ""), "does not end in .twb", "FILE.twb"),
        (("p" * 300 + ".py:scale", *SHAPE), "there is no file", "check the path"),
        (("na\udcffme.py:scale", *SHAPE), "'na\\udcffme.py' is no name that can be printed", "rename"),
    ],
)
def test_compile_says_what_is_wrong(
    folder: Path, tilewright: Tilewright, arguments: tuple[str, ...], message: str, remedy: str
) -> None:
    answer = tilewright("compile", *arguments)
    assert answer.code == 2 and answer.out == ""
    assert answer.err.count("error:") == 1
    assert message in answer.err and remedy in answer.err.partition("help:")[2]
    assert os.listdir(folder) == ["program.py"] or set(os.listdir(folder)) == {"program.py", "__pycache__"}


@pytest.mark.parametrize("axes", ['"M", "M"', "3", '"1M"', '"A", "B", "C", "D", "E", "F"'])
def test_annotations_that_name_no_axes_are_shown_at_their_line(folder: Path, tilewright: Tilewright, axes: str) -> None:
    text = f"import tilewright as tw\n\n@tw.kernel\ndef k(x: tw.Tensor[{axes}], y: tw.Tensor['M']):\n    pass\n"
    (folder / "annotated.py").write_text(text, encoding="utf-8")
    answer = tilewright("compile", "annotated.py:k", "--shape", "M=8")
    assert answer.code == 2 and answer.err.startswith("annotated.py:4: error: "), answer.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(:\n", "broken.py:1"),
        ("import no_such_module\n", "ModuleNotFoundError"),
        ("import sys\nsys.exit(0)\n", "broken.py:2: error: SystemExit"),
        ("x = 1\nraise ValueError\n", "broken.py:2: error: ValueError"),
        ("class Skipped(BaseException): ...\nraise Skipped('here')\n", "broken.py:2: error: Skipped: here"),
    ],
)
def test_a_file_that_does_not_run(folder: Path, tilewright: Tilewright, text: str, message: str) -> None:
    (folder / "broken.py").write_text(text, encoding="utf-8")
    answer = tilewright("compile", "broken.py:k", *SHAPE)
    assert answer.code == 2 and message in answer.err and answer.err.count("error:") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", PTX, "--launch", ""),
        ("run", PTX, "--launch", ""),
        ("run", PTX, "--launch", "launch.json", "--inputs", ""),
        ("reduce", PTX, "--code", "PX101", "--launch", ""),
        ("banks", PTX, "--launch", ""),
    ],
)
def test_an_empty_file_name_is_not_the_option_left_out(
    folder: Path, tilewright: Tilewright, arguments: tuple[str, ...]
) -> None:
    """A shell makes one of a variable that is not set; a check without a launch would look like one with it."""
    (folder / PTX).write_text(RIGHT, encoding="utf-8")
    answer = tilewright(*arguments)
    assert answer.code == 2 and answer.err.count("error:") == 1
    assert f"argument {arguments[-2]}: name a file" in answer.err


def test_errors_as_json(folder: Path, tilewright: Tilewright) -> None:
    answer = tilewright("compile", "program.py:shifted", *SHAPE, "--format", "json")
    assert answer.code == 2 and answer.err == ""
    assert answer.document["line"] == 22 and answer.document["remedy"] and answer.document["findings"] == []


@pytest.mark.parametrize("size", [0, 1, 100, 900, -1])
def test_a_truncated_bundle(bundle: Path, tilewright: Tilewright, size: int) -> None:
    bundle.write_bytes(bundle.read_bytes()[:size])
    answer = tilewright("run", "scale.twb")
    assert answer.code == 2 and answer.err.count("error:") == 1 and "scale.twb" in answer.err


def test_files_that_are_no_bundle(folder: Path, tilewright: Tilewright) -> None:
    for given, message in (
        ("missing.twb", "cannot read missing.twb"),
        (".", "cannot read"),
        ("program.py", "compile it first"),
        ("program.py:scale", "tilewright compile program.py:scale"),
    ):
        answer = tilewright("run", given)
        assert answer.code == 2 and message in answer.err


def test_what_a_program_prints_is_no_part_of_a_report(folder: Path, tilewright: Tilewright) -> None:
    path = folder / "program.py"
    path.write_text("print('hello')\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    answer = tilewright("compile", "program.py:scale", *SHAPE, "--format", "json")
    assert answer.code == 0 and "decisions" in answer.document and "hello" in answer.err


def test_a_file_of_which_no_kernel_has_its_axes(folder: Path, tilewright: Tilewright) -> None:
    answer = tilewright("portability", "program.py", "--shape", "Q=4")
    assert answer.code == 2 and "scale: --shape has no M, K" in answer.err and "give the extents" in answer.err


def test_other_files_are_not_read_as_ptx(bundle: Path, tilewright: Tilewright) -> None:
    for given, remedy in (("scale.twb", "--emit ptx"), ("program.py", "tilewright compile")):
        answer = tilewright("check", given)
        assert answer.code == 2 and f"{given} is no PTX" in answer.out and remedy in answer.out


def test_options_of_ptx_texts_are_not_passed_over_for_bundles(bundle: Path, tilewright: Tilewright) -> None:
    answer = tilewright("run", "scale.twb", "--on", "cpu", "--isa", "strict")
    assert answer.code == 2 and "--isa is for PTX texts" in answer.err
    answer = tilewright("run", "scale.twb", "--seed", "two")
    assert answer.code == 2 and "a seed is a whole number" in answer.err


def test_a_bundle_for_another_gpu(bundle: Path, tilewright: Tilewright) -> None:
    found = from_bytes(bundle.read_bytes())
    other = Bundle(found.name, "sm_999", found.plan, found.ptx, None, found.facts, found.decisions)
    save(other, "other.twb")
    answer = tilewright("run", "other.twb", "--on", "cpu")
    assert answer.code == 2 and "unknown target 'sm_999'" in answer.err


@pytest.mark.skipif(probe_libcuda() is None, reason="there is a driver here")
def test_no_driver(bundle: Path, tilewright: Tilewright) -> None:
    answer = tilewright("run", "scale.twb", "--on", "gpu")
    assert answer.code == 2 and "no NVIDIA driver" in answer.err and "CPU machine" in answer.err
    answer = tilewright("profile", "scale.twb")
    assert answer.code == 2 and "no NVIDIA driver" in answer.err and "--from FILE.csv" in answer.err


def test_no_assembler(folder: Path, tilewright: Tilewright, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_PTXAS", "/nonexistent/ptxas")
    answer = tilewright("compile", "program.py:scale", *SHAPE)
    assert answer.code == 2 and "TILEWRIGHT_PTXAS is /nonexistent/ptxas" in answer.err
    assert not list(folder.glob("*.twb"))


def test_ptx_text_is_not_compiled_again_and_not_run_without_a_launch(
    bundle: Path, folder: Path, tilewright: Tilewright
) -> None:
    text = from_bytes(bundle.read_bytes()).ptx
    (folder / PTX).write_text(text, encoding="utf-8")
    answer = tilewright("compile", PTX)
    assert answer.code == 2 and "tilewright check" in answer.err
    answer = tilewright("run", PTX)
    assert answer.code == 2 and "--launch" in answer.err.partition("help:")[2]
    answer = tilewright("run", "scale.twb", "--launch", "launch.json")
    assert answer.code == 2 and "for PTX texts" in answer.err


# ---------------------------------------------------------------- arrays

GOOD = np.zeros((32, 32), np.uint16)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"b": GOOD}, "has no array a"),
        ({"a": GOOD, "b": GOOD}, "has an array b, which the program does not take"),
        ({"a": GOOD.astype(np.float32)}, "a in arrays.npz is float32; the program takes bf16"),
        ({"a": GOOD.astype(np.int64)}, "a in arrays.npz is int64"),
        ({"a": GOOD[:31]}, "has shape (31, 32)"),
    ],
)
def test_arrays_that_do_not_fit(
    bundle: Path, tilewright: Tilewright, arrays: dict[str, np.ndarray], message: str
) -> None:
    np.savez("arrays.npz", **arrays)
    answer = tilewright("run", "scale.twb", "--inputs", "arrays.npz", "--outputs", "out.npz")
    assert answer.code == 2 and message in answer.err and answer.err.count("error:") == 1
    assert not Path("out.npz").exists()


def test_files_that_hold_no_arrays(bundle: Path, tilewright: Tilewright) -> None:
    np.savez("good.npz", a=GOOD)
    good = Path("good.npz").read_bytes()
    Path("cut.npz").write_bytes(good[: len(good) // 2])
    Path("flipped.npz").write_bytes(good[:200] + b"\xff\xff\xff\xff" + good[204:])
    Path("empty.npz").write_bytes(b"")
    np.save("single.npy", GOOD)
    np.save("pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    for name in ("cut.npz", "flipped.npz", "empty.npz", "single.npy", "pickled.npy", "missing.npz", ".", "program.py"):
        answer = tilewright("run", "scale.twb", "--inputs", name)
        assert answer.code == 2 and answer.err.count("error:") == 1, name
        assert name == "pickled.npy" or "pickle" not in answer.err.replace(name, ""), name


def test_outputs_that_cannot_be_written(bundle: Path, folder: Path, tilewright: Tilewright) -> None:
    for name in ("no/such/out.npz", "."):
        before = sorted(os.listdir(folder))
        answer = tilewright("run", "scale.twb", "--outputs", name)
        assert answer.code == 2 and "cannot write" in answer.err
        assert sorted(os.listdir(folder)) == before


# ---------------------------------------------------------------- texts


@pytest.mark.skipif(os.name != "posix", reason="needs devices and named pipes")
@pytest.mark.parametrize("command", ["check", "lower", "launch", "reduce --code PX101", "banks --launch l.json", "run"])
def test_a_device_that_does_not_end(folder: Path, tilewright: Tilewright, command: str) -> None:
    name, *options = command.split()
    answer = tilewright(name, "/dev/zero", *options)
    assert answer.code == 2 and "/dev/zero has more than" in answer.err + answer.out


@pytest.mark.skipif(os.name != "posix", reason="needs devices and named pipes")
def test_a_launch_that_does_not_end(folder: Path, tilewright: Tilewright) -> None:
    (folder / PTX).write_text(RIGHT, encoding="utf-8")
    answer = tilewright("check", PTX, "--launch", "/dev/zero")
    assert answer.code == 2 and "/dev/zero has more than 64 MiB" in answer.err


@pytest.mark.skipif(os.name != "posix", reason="needs devices and named pipes")
def test_a_pipe_is_read_once(folder: Path, tilewright: Tilewright) -> None:
    os.mkfifo("pipe")
    writer = threading.Thread(target=Path("pipe").write_text, args=(RIGHT,))
    writer.start()
    answer = tilewright("check", "pipe", "--block", "32")
    writer.join(10)
    assert answer.code == 0 and "proven" in answer.out


def test_a_word_without_end_is_cut(folder: Path, tilewright: Tilewright) -> None:
    (folder / PTX).write_text("x" * 100_000, encoding="utf-8")
    answer = tilewright("check", PTX)
    assert answer.code == 2 and len(answer.out) < 500 and "give PTX, as compilers write it" in answer.out


def test_standard_input_is_not_edited(folder: Path, tilewright: Tilewright, monkeypatch: pytest.MonkeyPatch) -> None:
    buggy = (BUGS / "store-without-a-proxy-fence" / "buggy.ptx").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(buggy)))
    answer = tilewright("check", "-", "--fix")
    assert "standard input is not edited; --diff shows the repair" in answer.err and "no repair" not in answer.err


# ---------------------------------------------------------------- the process itself


def test_exit_codes_of_the_process(folder: Path) -> None:
    environment = {**os.environ, "TILEWRIGHT_PTXAS": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tilewright", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)

    done = call("compile", "program.py:scale", *SHAPE, "--format", "json")
    assert done.returncode == 2 and "TILEWRIGHT_PTXAS" in json.loads(done.stdout)["error"]
    done = call("run", "missing.twb")
    assert done.returncode == 2 and "Traceback" not in done.stderr and done.stderr.count("error:") == 1
    assert call("frob").returncode == 2
    assert os.listdir(folder) == ["program.py"]
