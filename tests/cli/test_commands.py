"""What the commands print and write when all is well, and that they start quickly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.conftest import Tilewright

from tilewright.base.diagnostic import Diagnostic
from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.cli import main as command_line
from tilewright.cli.main import COMMANDS, error_text, error_to_json
from tilewright.runtime.bundle import Bundle, from_bytes, load, save


def test_help_names_every_command_and_shows_examples(tilewright: Tilewright) -> None:
    overview = tilewright("--help")
    assert overview.code == 0 and all(name in overview.out for name in COMMANDS)
    for name in COMMANDS:
        answer = tilewright(name, "--help")
        assert answer.code == 0 and f"tilewright {name}" in answer.out.partition("examples:")[2]
        # What a server or a shell reads has one form.
        assert ("--format {text}" if name in ("lsp", "completion") else "--format {text,json") in answer.out


@pytest.mark.parametrize("arguments", [("--help",), ("doctor",), ("explain", "--help")])
def test_parsing_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    code = (
        "import sys; from tilewright.cli.main import main; main(sys.argv[1:]); "
        "sys.exit(' '.join(m for m in ('numpy', 'xdsl', 'rich', 'cuda', 'ml_dtypes') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_compile_writes_every_stage(folder: Path, tilewright: Tilewright) -> None:
    stages = "tile,ac,nvgpu,ptx,cubin,plan"
    shape = "M=64,N=64,K=64"
    answer = tilewright("compile", "program.py:matmul", "--shape", shape, "--emit", stages, "--format", "json")
    assert answer.code == 0 and answer.err == ""
    document = answer.document
    assert document["proof"]["verdict"] == "proven" and document["text_proof"]["verdict"] == "proven"
    assert document["decisions"]["unit_rows"] == 64
    names = ["matmul.twb", *(f"matmul.{suffix}" for suffix in ("tile.mlir", "ac.mlir", "nvgpu.mlir"))]
    names += ["matmul.ptx", "matmul.cubin", "matmul.plan.json"]
    assert document["written"] == names
    bundle = load("matmul.twb")
    assert Path("matmul.ptx").read_text(encoding="utf-8") == bundle.ptx
    assert Path("matmul.cubin").read_bytes() == bundle.cubin and document["cubin_bytes"] == len(bundle.cubin or b"")
    assert json.loads(Path("matmul.plan.json").read_text(encoding="utf-8"))["launches"]
    assert not list(folder.glob(".*"))


def test_compile_takes_the_quickest_by_a_timer(
    folder: Path, tilewright: Tilewright, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: list[Any] = []

    def timer(bundles: list[Any]) -> list[list[float]]:
        timed.append(list(bundles))
        return [[10.0 - place] for place in range(len(bundles))]

    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "programs"))
    monkeypatch.setattr("tilewright.tune.candidates.MOST", 1)
    arguments = ("compile", "program.py:matmul", "--shape", "M=64,N=256,K=256", "--tune", "--format", "json")
    answer = tilewright(*arguments, "--tile", "64x64")
    assert answer.code == 2 and "--tune chooses what --tile would fix" in answer.out + answer.err
    monkeypatch.setattr("tilewright.driver.compile.tuned.gpu_timer", lambda program: timer)
    answer = tilewright(*arguments)
    assert answer.code == 0 and [len(each) for each in timed] == [2, 2]
    assert answer.document["decisions"]["tile_columns"] == timed[0][1].decisions["tile_columns"]
    assert tilewright(*arguments).code == 0 and len(timed) == 2, "the winner is kept"


def test_upstream_text_of_a_product_that_would_be_split(folder: Path, tilewright: Tilewright) -> None:
    arguments = ("compile", "program.py:matmul", "--shape", "M=128,N=4096,K=7168", "--emit", "nvgpu")
    answer = tilewright(*arguments, "--format", "json")
    assert answer.code == 0 and answer.document["decisions"]["split"] == 1
    assert answer.err == (
        "compiled without CTAs that share a contracted axis (split-K): --emit nvgpu cannot write that\n"
    )
    assert "gpu.func @matmul" in Path("matmul.nvgpu.mlir").read_text(encoding="utf-8")
    refused = tilewright(
        "compile", "program.py:matmul", "--shape", "M=4096,N=2112,K=7168", "--emit", "nvgpu", "--stream-k"
    )
    assert refused.code == 2 and "leave nvgpu out of --emit" in refused.err


def test_compile_says_what_was_decided_and_proved(folder: Path, tilewright: Tilewright) -> None:
    answer = tilewright("compile", "program.py:matmul", "--shape", "M=64,N=64,K=64", "--tile", "64x64", "-o", "m.twb")
    assert answer.code == 0
    for word in ("64 x 64 x 64", "proven", "for all trip counts", "on the emitted text", "ptxas", "wrote m.twb"):
        assert word in answer.out


def test_run_compares_with_numpy(bundle: Path, tilewright: Tilewright) -> None:
    answer = tilewright("run", "scale.twb", "--on", "cpu")
    assert answer.code == 0 and "c matches NumPy" in answer.out
    answer = tilewright("run", "scale.twb", "--on", "cpu", "--format", "json", "--seed", "5")
    assert answer.document["matches"] is True and answer.document["relative_errors"]["c"] < 1e-2


def test_run_reads_and_writes_raw_bfloat16(bundle: Path, tilewright: Tilewright) -> None:
    ones = np.full((32, 32), 0x3F80, np.uint16)  # 1.0 as bfloat16
    np.savez("in.npz", a=ones)
    answer = tilewright("run", "scale.twb", "--on", "cpu", "--inputs", "in.npz", "--outputs", "out.npz")
    assert answer.code == 0
    with np.load("out.npz") as archive:
        assert archive["c"].dtype == np.uint16 and (archive["c"] == 0x4000).all()  # 2.0
    # What NumPy writes of a bfloat16 array has no type, two bytes wide.
    np.savez("in.npz", a=ones.view("V2"))
    assert tilewright("run", "scale.twb", "--on", "cpu", "--inputs", "in.npz").code == 0


def test_a_range_of_extents_is_compiled_and_run(folder: Path, tilewright: Tilewright) -> None:
    answer = tilewright("compile", "program.py:scale", "--shape", "M=0..64:2,K=32", "-o", "ranged.twb")
    assert answer.code == 0, answer.err
    np.savez("in.npz", a=np.full((6, 32), 0x3F80, np.uint16))
    answer = tilewright("run", "ranged.twb", "--on", "cpu", "--inputs", "in.npz", "--outputs", "out.npz")
    assert answer.code == 0 and "c matches NumPy" in answer.out
    with np.load("out.npz") as archive:
        assert archive["c"].shape == (6, 32) and (archive["c"] == 0x4000).all()
    assert tilewright("run", "ranged.twb", "--on", "cpu").code == 0  # random arrays of the largest extent
    np.savez("in.npz", a=np.full((7, 32), 0x3F80, np.uint16))
    answer = tilewright("run", "ranged.twb", "--on", "cpu", "--inputs", "in.npz")
    assert answer.code == 2 and "axis M is 7; the program was compiled for 0 to 64 in multiples of 2" in answer.err


@pytest.mark.parametrize("shape", ["M=1..,K=32", "M=1..x,K=32", "M=1..64:,M=2,K=32", "M=64..1,K=32", "M=1..64:0,K=32"])
def test_other_ranges_are_refused(shape: str, folder: Path, tilewright: Tilewright) -> None:
    answer = tilewright("compile", "program.py:scale", "--shape", shape, "-o", "ranged.twb")
    assert answer.code == 2 and not Path("ranged.twb").exists()


def test_run_exits_1_where_the_result_is_another(bundle: Path, tilewright: Tilewright) -> None:
    found = from_bytes(bundle.read_bytes())
    # The same program but for the constant 2.0, which becomes 2.5; the facts still say 2.0.
    wrong = found.ptx.replace("0f40000000", "0f40200000")
    assert wrong != found.ptx
    save(Bundle(found.name, found.target, found.plan, wrong, None, found.facts, found.decisions), "wrong.twb")
    answer = tilewright("run", "wrong.twb", "--on", "cpu")
    assert answer.code == 1 and "DOES NOT MATCH" in answer.out
    answer = tilewright("run", "wrong.twb", "--on", "cpu", "--format", "json")
    assert answer.code == 1 and answer.document["matches"] is False


def test_numbers_that_are_none_match_where_numpy_has_none(folder: Path, tilewright: Tilewright) -> None:
    Path("roots.py").write_text(
        "import tilewright as tw\n\n\n@tw.kernel\n"
        'def roots(x: tw.Tensor["N", tw.f32], y: tw.Tensor["N", tw.f32], z: tw.Tensor["N", tw.f32]):\n'
        '    i = tw.axes("N")\n    y[i] = tw.sqrt(x[i])\n    z[i] = tw.log(tw.relu(x[i]))\n'
    )
    assert tilewright("compile", "roots.py:roots", "--shape", "N=64", "-o", "roots.twb").code == 0
    answer = tilewright("run", "roots.twb", "--on", "cpu")
    assert answer.code == 0 and "y matches NumPy" in answer.out and "z matches NumPy" in answer.out
    found = from_bytes(Path("roots.twb").read_bytes())
    wrong = found.ptx.replace("sqrt.rn.f32", "abs.f32")
    assert wrong != found.ptx
    save(Bundle(found.name, found.target, found.plan, wrong, None, found.facts, found.decisions), "wrong.twb")
    answer = tilewright("run", "wrong.twb", "--on", "cpu")
    assert answer.code == 1 and "y DOES NOT MATCH" in answer.out and "z matches NumPy" in answer.out


def test_run_exits_1_where_the_kernel_faults(bundle: Path, tilewright: Tilewright) -> None:
    found = from_bytes(bundle.read_bytes())
    trapped = found.ptx.replace("\tret;", "\ttrap;\n\tret;")
    assert trapped != found.ptx
    save(Bundle(found.name, found.target, found.plan, trapped, None, found.facts, found.decisions), "trap.twb")
    answer = tilewright("run", "trap.twb", "--on", "cpu")
    assert answer.code == 1 and "MF008" in answer.err and "trap;" in answer.err
    answer = tilewright("run", "trap.twb", "--on", "cpu", "--format", "json")
    assert answer.code == 1 and answer.document["findings"][0]["code"] == "MF008"


def test_explain(folder: Path, tilewright: Tilewright) -> None:
    answer = tilewright("explain", "tx001")
    assert answer.code == 0 and "bytes-do-not-add-up" in answer.out and "Remedy:" in answer.out
    assert tilewright("explain", "TX001", "--format", "json").document[0]["code"] == "TX001"
    listed = tilewright("explain")
    assert listed.code == 0 and len(listed.out.splitlines()) == len(tilewright("explain", "--format", "json").document)
    wrong = tilewright("explain", "TX01")
    assert wrong.code == 2 and "did you mean TX" in wrong.err
    assert tilewright("explain", "frobnicate").code == 2


def test_explain_shows_the_contested_points_of_a_rule(folder: Path, tilewright: Tilewright) -> None:
    answer = tilewright("explain", "PX102")
    for point in ("proxy_fence", "fence_before_refill"):
        assert f"Contested: {point}. " in answer.out and f"--isa tolerant,{point}=strict" in answer.out
    assert answer.out.count("  Strict: ") == answer.out.count("  Tolerant: ") == 2
    assert "Contested" not in tilewright("explain", "TX104").out
    assert tilewright("explain", "PX102", "--format", "json").document[0]["contested"] == [
        "proxy_fence", "fence_before_refill",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("checck", "k.ptx"), "there is no command 'checck': did you mean check?"),
        (("frobnicate",), "there is no command 'frobnicate': the commands are check, compile"),
        (("check", "k.ptx", "--lanch", "x"), "unrecognized arguments: --lanch x: did you mean --launch?"),
        (("check", "k.ptx", "--zzzzzzzz"), "unrecognized arguments: --zzzzzzzz\n"),
    ],
)
def test_mistyped_commands_and_options(
    folder: Path, tilewright: Tilewright, arguments: tuple[str, ...], meant: str
) -> None:
    answer = tilewright(*arguments)
    assert answer.code == 2 and meant in answer.err and answer.out == ""


def test_another_architecture_is_no_slip_of_the_pen(folder: Path, tilewright: Tilewright) -> None:
    def asked(target: str) -> str:
        return tilewright("compile", "program.py:scale", "--shape", "M=32,K=32", "--target", target).err

    assert "did you mean" not in asked("sm_80") and "known targets: sm_90a, sm_100a" in asked("sm_80")
    assert "did you mean 'sm_90a'?" in asked("sm_90") and "did you mean 'sm_100a'?" in asked("sm100a")


def test_an_entry_that_is_not_there_is_said_once(folder: Path, tilewright: Tilewright) -> None:
    (folder / "k.ptx").write_text(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry good() { ret; }\n", encoding="utf-8"
    )
    answer = tilewright("check", "k.ptx", "--entry", "god")
    assert answer.code == 2 and "--entry: k.ptx has no kernel 'god'" in answer.out and "good" in answer.out


def test_explain_writes_pages_and_removes_old_ones(folder: Path, tilewright: Tilewright) -> None:
    rules = folder / "rules"
    rules.mkdir()
    (rules / "ZZ999.md").write_text("old")
    (rules / "notes.md").write_text("mine")
    assert tilewright("explain", "--write", "rules").code == 0
    assert not (rules / "ZZ999.md").exists() and (rules / "notes.md").exists()
    assert (rules / "TX001.md").read_text(encoding="utf-8").startswith("# TX001 bytes-do-not-add-up\n")
    assert tilewright("explain", "TX001", "--write", "rules").code == 2
    assert tilewright("explain", "--write", "program.py").code == 2


def test_doctor(tilewright: Tilewright) -> None:
    answer = tilewright("doctor")
    assert answer.code == 0 and "ptxas" in answer.out and "driver" in answer.out
    names = [component["name"] for component in tilewright("doctor", "--format", "json").document]
    assert names[:2] == ["python", "tilewright"] and names[-1] == "ncu"


def test_an_error_is_shown_with_its_place_line_and_remedy() -> None:
    error = TilewrightError("no such\x1b[31m axis", span=Span("p.py", 3, 1, "    i = 1"), remedy="fix it")
    assert error_text(error) == "p.py:3: error: no such\\x1b[31m axis\n    i = 1\n  help: fix it"
    finding = Diagnostic("MF008", "trap", "a trap", Span("k.ptx", 9, 1, "trap;"))
    text = error_text(TilewrightError("MF008 a trap", findings=(finding,) * 5))
    assert text.count("error[MF008]") == 3 and "and 2 more findings" in text
    assert error_to_json(error)["line"] == 3


def test_an_interrupted_command_exits_130(monkeypatch: pytest.MonkeyPatch, tilewright: Tilewright) -> None:
    import tilewright.cli.commands.doctor_command as doctor

    def interrupt(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "run", interrupt)
    assert command_line.main(["doctor"]) == 130


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        (KeyError("x"), "a fault of tilewright itself over `tilewright doctor`: KeyError at"),
        (PermissionError(13, "Permission denied", "/etc/x"), "an error of the system: Permission denied: /etc/x"),
        (MemoryError(), "needs more memory than there is"),
    ],
)
def test_a_mistake_of_ours_is_no_verdict(
    raised: Exception, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python would end with 1, which says that something was refuted."""
    import tilewright.cli.commands.doctor_command as doctor

    def fail(arguments: object) -> int:
        raise raised

    monkeypatch.setattr(doctor, "run", fail)
    assert command_line.main(["doctor"]) == 2
    told = capsys.readouterr().err
    assert words in told and "Traceback" not in told


def test_output_that_nobody_reads_is_no_error() -> None:
    command = f"{sys.executable} -m tilewright explain | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == "" and done.stdout.count("\n") == 1
