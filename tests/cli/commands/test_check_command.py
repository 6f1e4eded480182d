"""`tilewright check`: exit codes, formats, files and folders, allowances, and input from an enemy."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.checked_texts import BAD_EXPECT, NO_FENCE, launch_document
from tests.cli.conftest import Answer, Tilewright
from tests.contract.replay_kernels import copy_text
from tests.driver.boxed_kernels import boxed_text


@pytest.fixture
def kernels(folder: Path) -> Path:
    """A correct kernel, two broken ones, and how they are launched."""
    (folder / "good.ptx").write_text(copy_text(), encoding="utf-8")
    (folder / "unfenced.ptx").write_text(copy_text(**NO_FENCE), encoding="utf-8")
    (folder / "hangs.ptx").write_text(copy_text(expect=BAD_EXPECT), encoding="utf-8")
    (folder / "launch.json").write_text(json.dumps(launch_document()), encoding="utf-8")
    return folder


def check(tilewright: Tilewright, *arguments: str) -> Answer:
    return tilewright("check", *arguments, "--launch", "launch.json")


def test_exit_codes(kernels: Path, tilewright: Tilewright) -> None:
    assert check(tilewright, "good.ptx").code == 0
    assert check(tilewright, "unfenced.ptx").code == 1
    assert check(tilewright, "hangs.ptx").code == 1
    assert check(tilewright, "good.ptx", "unfenced.ptx").code == 1
    assert check(tilewright, "good.ptx", "missing.ptx").code == 2


def test_text_names_verdict_line_rule_and_repair(kernels: Path, tilewright: Tilewright) -> None:
    answer = check(tilewright, "good.ptx", "unfenced.ptx")
    assert "good.ptx: double (sm_90a): proven for" in answer.out
    line = 1 + copy_text(**NO_FENCE).splitlines().index(
        "@!%p1 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd2, {0, %r15}], [%r4];"
    )
    assert "unfenced.ptx: double (sm_90a): refuted" in answer.out
    assert f"--> unfenced.ptx:{line}" in answer.out and "error[PX" in answer.out
    assert "= rule: PTX ISA" in answer.out and ("= help:" in answer.out or "= repair:" in answer.out)
    assert answer.out.rstrip().endswith("2 kernels checked: 1 proven, 1 refuted")
    assert "\x1b" not in answer.out


def test_json_has_the_documented_shape(kernels: Path, tilewright: Tilewright) -> None:
    document = check(tilewright, "unfenced.ptx", "--format", "json").document
    assert set(document) == {"version", "tool", "files", "skipped"} and document["version"] == 1
    (file,) = document["files"]
    assert file["path"] == "unfenced.ptx" and file["error"] is None
    (kernel,) = file["kernels"]
    assert (kernel["name"], kernel["target"], kernel["verdict"]) == ("double", "sm_90a", "refuted")
    assert kernel["assumptions"] == [] and kernel["reasons"] == []
    finding = kernel["findings"][0]
    assert {"code", "name", "message", "line", "conflicts_with_line", "interleaving", "repair", "level"} <= set(finding)
    assert finding["code"].startswith("PX") and finding["level"] == "error" and finding["line"] > 0
    good = check(tilewright, "good.ptx", "--format", "json").document["files"][0]["kernels"][0]
    assert good["verdict"] == "proven" and good["scope"] in ("this launch", "all trip counts") and good["assumptions"]


def test_a_bad_file_does_not_keep_others_from_being_reported(kernels: Path, tilewright: Tilewright) -> None:
    (kernels / "binary.ptx").write_bytes(b"\xff\xfe\x00\x01")
    (kernels / "cut.ptx").write_text(copy_text()[:900], encoding="utf-8")
    answer = check(tilewright, "binary.ptx", "cut.ptx", "good.ptx", "--format", "json")
    assert answer.code == 2
    binary, cut, good = answer.document["files"]
    assert "not UTF-8" in binary["error"]["message"] and binary["kernels"] == []
    assert cut["error"]["line"] > 1 and cut["error"]["remedy"]
    assert good["kernels"][0]["verdict"] == "proven"


def test_folders_are_searched_and_standard_input_is_read(
    kernels: Path, tilewright: Tilewright, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kernels / "deep" / "er").mkdir(parents=True)
    (kernels / "deep" / "er" / "other.ptx").write_text(copy_text(), encoding="utf-8")
    (kernels / "deep" / "notes.txt").write_text("no kernel", encoding="utf-8")
    document = check(tilewright, "deep", "--format", "json").document
    assert [file["path"] for file in document["files"]] == [os.path.join("deep", "er", "other.ptx")]
    (kernels / "empty").mkdir()
    assert "no .ptx file in it" in check(tilewright, "empty").out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(copy_text(**NO_FENCE).encode())))
    answer = check(tilewright, "-", "--format", "json")
    assert answer.code == 1 and answer.document["files"][0]["path"] == "-"
    assert check(tilewright, "-", "-").code == 2


def test_the_time_of_a_file_is_bounded_and_no_kernel_is_lost(
    kernels: Path, tilewright: Tilewright, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(*_: object) -> None:
        while True:
            pass

    monkeypatch.setattr("tilewright.driver.check.check.judge_kernel", endless)
    first = copy_text()
    second = first.partition(".visible")[2].replace("double(", "second(", 1)
    (kernels / "two.ptx").write_text(f"{first}.visible{second}", encoding="utf-8")
    answer = tilewright("check", "two.ptx", "--file-budget", "1", "--no-repair")
    assert answer.code == 3 and "2 kernels checked: 2 unknown" in answer.out
    assert "stopped: the 1 s for the file are over; raise --file-budget" in answer.out
    assert "not reached: the 1 s for the file were over after 1 of 2 kernels" in answer.out
    assert tilewright("check", "two.ptx", "--file-budget", "0").code == 2


def test_a_mistake_in_the_launch_is_one_message(kernels: Path, tilewright: Tilewright) -> None:
    document = launch_document()
    document["params"][0]["swizzle"] = "128"
    (kernels / "launch.json").write_text(json.dumps(document), encoding="utf-8")
    answer = check(tilewright, "good.ptx")
    assert answer.code == 2 and answer.out == ""
    assert answer.err.count("error:") == 1 and "launch.json: params[0].swizzle" in answer.err


def test_a_tensor_map_that_the_driver_refuses_is_a_finding(kernels: Path, tilewright: Tilewright) -> None:
    document = launch_document()
    document["params"][0]["strides"] = [120]
    (kernels / "launch.json").write_text(json.dumps(document), encoding="utf-8")
    answer = check(tilewright, "good.ptx", "--format", "json", "--no-repair")
    codes = [finding["code"] for finding in answer.document["files"][0]["kernels"][0]["findings"]]
    assert answer.code == 1 and any(code.startswith("TM") for code in codes)


# ---------------------------------------------------------------- other formats


def test_sarif(kernels: Path, tilewright: Tilewright) -> None:
    log = check(tilewright, "unfenced.ptx", "missing.ptx", "--format", "sarif").document
    (run,) = log["runs"]
    assert log["version"] == "2.1.0"
    result = run["results"][0]
    assert result["ruleId"].startswith("PX") and result["level"] == "error" and result["partialFingerprints"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "unfenced.ptx"
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert "missing.ptx" in invocation["toolExecutionNotifications"][0]["message"]["text"]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} >= {result["ruleId"]}


def test_github_commands(kernels: Path, tilewright: Tilewright) -> None:
    answer = check(tilewright, "unfenced.ptx", "good.ptx", "--format", "github")
    lines = [line for line in answer.out.splitlines() if line]
    assert lines and all(line.startswith("::") for line in lines)
    assert lines[0].startswith("::error file=unfenced.ptx,line=") and "title=PX" in lines[0]


def test_sarif_is_written_beside_another_report(kernels: Path, tilewright: Tilewright) -> None:
    answer = check(tilewright, "unfenced.ptx", "--sarif", "both.sarif")
    alone = check(tilewright, "unfenced.ptx", "--format", "sarif")
    assert answer.code == alone.code == 1
    assert "refuted" in answer.out
    assert json.loads((kernels / "both.sarif").read_text(encoding="utf-8")) == json.loads(alone.out)


def test_html_and_trace_are_written(kernels: Path, tilewright: Tilewright) -> None:
    answer = check(tilewright, "unfenced.ptx", "--format", "html", "--output", "report.html", "--trace", "trace.json")
    assert answer.code == 1 and answer.out == ""
    page = (kernels / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>") and "refuted" in page and 'class="timeline"' in page
    trace = json.loads((kernels / "trace.json").read_text(encoding="utf-8"))
    names = {event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    assert "CTA 0 producer warp 0" in names and "CTA 0 copy engine" in names


def test_a_report_that_cannot_be_written(kernels: Path, tilewright: Tilewright) -> None:
    answer = check(tilewright, "good.ptx", "--output", "no/such/folder/report.txt")
    assert answer.code == 2 and "cannot write" in answer.err


# ---------------------------------------------------------------- allowances


def allowed(text: str, code: str, instruction: str, comment: str = "because it is a test") -> str:
    return text.replace(instruction, f"// tilewright: allow[{code}] {comment}\n{instruction}", 1)


def test_an_allowed_error_does_not_refute_but_is_listed(kernels: Path, tilewright: Tilewright) -> None:
    findings = check(tilewright, "unfenced.ptx", "--format", "json").document["files"][0]["kernels"][0]["findings"]
    codes = ", ".join(sorted({finding["code"] for finding in findings if finding["level"] == "error"}))
    store = "@!%p1 cp.async.bulk.tensor.2d.global"
    (kernels / "unfenced.ptx").write_text(allowed(copy_text(**NO_FENCE), codes, store), encoding="utf-8")
    answer = check(tilewright, "unfenced.ptx", "--format", "json")
    (kernel,) = answer.document["files"][0]["kernels"]
    assert answer.code == 0 and kernel["verdict"] == "proven"
    assert kernel["suppressed"][0]["reason"] == "it is a test"
    assert any("is allowed" in assumption for assumption in kernel["assumptions"])
    assert answer.document["files"][0]["findings"] == []


def test_an_allowance_at_which_the_run_ends_leaves_the_rest_unknown(kernels: Path, tilewright: Tilewright) -> None:
    findings = check(tilewright, "hangs.ptx", "--format", "json").document["files"][0]["kernels"][0]["findings"]
    text = copy_text(expect=BAD_EXPECT)
    lines = text.split("\n")
    for finding in findings:
        if finding["level"] == "error":
            lines[finding["line"] - 1] += f" // tilewright: allow[{finding['code']}] because it is a test"
    (kernels / "hangs.ptx").write_text("\n".join(lines), encoding="utf-8")
    answer = check(tilewright, "hangs.ptx", "--format", "json")
    (kernel,) = answer.document["files"][0]["kernels"]
    assert answer.code == 3 and kernel["verdict"] == "unknown" and kernel["suppressed"] and kernel["reasons"]


@pytest.mark.parametrize(
    ("code", "comment", "expected"),
    [("PX101", "because it is a test", "AW001"), ("PX101", "", "AW002"), ("PX999", "because it is a test", "AW003")],
)
def test_allowances_that_do_nothing_are_reported(
    kernels: Path, tilewright: Tilewright, code: str, comment: str, expected: str
) -> None:
    (kernels / "good.ptx").write_text(allowed(copy_text(), code, "READY:", comment), encoding="utf-8")
    answer = check(tilewright, "good.ptx", "--format", "json")
    (finding,) = answer.document["files"][0]["findings"]
    assert answer.code == 0 and finding["code"] == expected and finding["level"] == "review"


# ---------------------------------------------------------------- hostile input

HOSTILE = {
    "empty": b"",
    "spaces": b" \n\t" * 1000,
    "nul": b".version 8.0\0\0.target sm_90a",
    "binary": bytes(range(256)) * 20,
    "cubin": b"\x7fELF" + bytes(100),
    "one long line": b".version 8.0 " + b"x" * 3_000_000,
    "deep": b".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k() {" + b"{" * 20_000,
    "huge variable": b".version 8.6\n.target sm_90a\n.address_size 64\n.global .b8 x[99999999999999];\n"
    b".visible .entry k() { ret; }",
    "endless loop": b".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k() .reqntid 32 {\nA: bra A;\n}",
    "no kernel": b".version 8.6\n.target sm_90a\n.address_size 64\n",
    "bidirectional": ".version 8.6\n// \u202e\x1b[31m\n.target sm_90a\nfoo\u202e;\n".encode(),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_input_ends_with_a_message(folder: Path, tilewright: Tilewright, name: str) -> None:
    (folder / "hostile.ptx").write_bytes(HOSTILE[name])
    (folder / "launch.json").write_text('{"params": []}', encoding="utf-8")
    for arguments in ((), ("--launch", "launch.json")):
        answer = tilewright("check", "hostile.ptx", "--budget", "2", *arguments)
        assert answer.code in (2, 3), answer.out
        assert "Traceback" not in answer.err + answer.out
        assert "\x1b" not in answer.out and "\u202e" not in answer.out


def test_the_check_as_a_process(kernels: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", "check", "good.ptx", "--launch", "launch.json"],
        capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")},
    )  # fmt: skip
    assert done.returncode == 0 and "proven" in done.stdout
    # A busy machine needs so long that progress is shown.
    assert done.stderr in ("", "checking double\n")


SHAPED = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry k() .reqntid 64
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .shared .align 128 .b8 tile[1024];
    mov.u32 %r1, %cluster_ctarank;
    setp.eq.u32 %p1, %r1, 1;
    @%p1 st.shared.u32 [tile], %r1;
    ret;
}
"""


def test_a_shape_alone_leaves_the_rest_unknown(kernels: Path, tilewright: Tilewright) -> None:
    (kernels / "shaped.ptx").write_text(SHAPED, encoding="utf-8")
    for options, said in (((), True), (("--cluster", "1", "--grid", "4,2"), False)):
        answer = tilewright("check", "shaped.ptx", *options, "--format", "json")
        (kernel,) = json.loads(answer.out)["files"][0]["kernels"]
        assert kernel["verdict"] == "proven"
        assert any("clusters of 1" in line for line in kernel["assumptions"]) is said


@pytest.mark.parametrize(
    ("arguments", "message", "remedy"),
    [
        (("--block", "96"), "--block: is (96, 1, 1); .reqntid of", "choose another kernel with --entry"),
        (("--grid", "3", "--cluster", "2"), "--grid: is (3, 1, 1), no multiple of the cluster (2, 1, 1)", "round"),
        (("--block", "0"), "an extent is at least 1", ""),
        (("--cluster", "64"), "asks for 64 CTAs; a cluster has at most 16", "correct what is given"),
        (("--cluster", "2,x"), "write X, X,Y or X,Y,Z", ""),
        (("--block", "96", "--launch", "grid.json"), "--block: is (96, 1, 1); .reqntid of", "leave block out"),
        (("--grid", "7", "--launch", "grid.json"), "grid.json: grid: is (2, 1, 1); --grid says (7, 1, 1)", "one of"),
    ],
)
def test_shapes_that_cannot_be(
    kernels: Path, tilewright: Tilewright, arguments: tuple[str, ...], message: str, remedy: str
) -> None:
    (kernels / "shaped.ptx").write_text(SHAPED, encoding="utf-8")
    (kernels / "grid.json").write_text('{"grid": [2]}', encoding="utf-8")
    answer = tilewright("check", "shaped.ptx", *arguments)
    assert answer.code == 2 and message in answer.out + answer.err and remedy in answer.out + answer.err


def test_the_launch_that_refutes_is_written_and_refutes_again(folder: Path, tilewright: Tilewright) -> None:
    unsynchronized = ("mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r8], %r6;\n    @!%p4 bra FULL;", "")
    (folder / "pipe.ptx").write_text(boxed_text(unsynchronized), encoding="utf-8")
    answer = tilewright("check", "pipe.ptx", "--no-repair", "--write-launch", "found.json")
    assert answer.code == 1 and "found.json: the launch that refutes pipe" in answer.err
    assert "shown by a launch with grid 1x1x1, block 64x1x1, cluster 1x1x1, parameter 2 = " in answer.out
    again = tilewright("check", "pipe.ptx", "--no-repair", "--launch", "found.json", "--write-launch", "other.json")
    assert again.code == 1 and "other.json is not written" in again.err and not (folder / "other.json").exists()
    refused = tilewright("check", "pipe.ptx", "--launch", "found.json", "--write-launch", "found.json")
    assert refused.code == 2
