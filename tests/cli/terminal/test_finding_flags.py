"""Options that choose what is shown and what counts, of `check` and of `run`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Answer, Tilewright

ROOT = Path(__file__).parents[3]
UNFENCED = ROOT / "docs" / "bugs" / "store-without-a-proxy-fence" / "buggy.ptx"
REVIEWED = ROOT / "docs" / "bugs" / "refill-after-ordinary-reads" / "buggy.ptx"
UNDECIDED = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry open(.param .u64 counts) .reqntid 32
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    .shared .align 8 .b8 barrier[8];
    mov.u32 %r1, %smid;
    mbarrier.init.shared::cta.b64 [barrier], %r1;
    ret;
}
"""


@pytest.fixture
def texts(folder: Path) -> Path:
    for name, path in (("unfenced.ptx", UNFENCED), ("reviewed.ptx", REVIEWED)):
        (folder / name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "open.ptx").write_text(UNDECIDED, encoding="utf-8")
    return folder


def check(tilewright: Tilewright, *arguments: str) -> Answer:
    return tilewright("check", "--no-repair", *arguments)


def test_quiet_says_nothing_of_what_is_proven(texts: Path, tilewright: Tilewright) -> None:
    assert check(tilewright, "reviewed.ptx", "-q").out == ""
    answer = check(tilewright, "reviewed.ptx", "unfenced.ptx", "--quiet")
    assert answer.code == 1 and answer.out.splitlines() == [
        "unfenced.ptx: kernel (sm_90a): refuted by PX101",
        "  error[PX101] write-not-fenced: at unfenced.ptx:28:2",
    ]


def test_statistics_and_full_reviews(texts: Path, tilewright: Tilewright) -> None:
    counted = check(tilewright, "reviewed.ptx", "unfenced.ptx", "--statistics").out.splitlines()
    assert counted[0] == "1  PX101  write-not-fenced                 error"
    assert counted[1].startswith("1  PX102  access-not-fenced-before-refill  review  contested: fence_before_refill")
    plain, full = (check(tilewright, "reviewed.ptx", *extra).out for extra in ((), ("--show-reviews",)))
    assert "review[PX102] access-not" in plain and "a run that shows it" not in plain
    assert "review[PX102]: " in full and "a run that shows it" in full and "contested: fence_before_refill" in full


@pytest.mark.parametrize("options", [("-q", "--all"), ("--statistics", "--show-reviews"), ("-q", "--statistics")])
def test_options_that_contradict_each_other(texts: Path, tilewright: Tilewright, options: tuple[str, ...]) -> None:
    answer = check(tilewright, "reviewed.ptx", *options)
    assert answer.code == 2 and "contradict each other" in answer.err and answer.out == ""


def test_allow_ignore_and_select_change_verdict_and_exit_code(texts: Path, tilewright: Tilewright) -> None:
    allowed = check(tilewright, "unfenced.ptx", "--allow", "PX101=no engine reads these")
    assert allowed.code == 0 and allowed.err == ""
    assert "proven for all trip counts except allowed PX101: no engine reads these" in allowed.out.splitlines()[0]
    assert allowed.out.endswith("1 kernel checked: 1 proven except for what is set aside\n")
    for options in (("--ignore", "TX,write-not-fenced"), ("--select", "TX", "--select", "MB"), ("--ignore", "PX1")):
        ignored = check(tilewright, "unfenced.ptx", *options, "-q")
        assert ignored.code == 0 and "except ignored PX101" in ignored.out
    assert check(tilewright, "unfenced.ptx", "--select", "PX").code == 1
    reviews = check(tilewright, "reviewed.ptx", "--ignore", "PX102")
    assert reviews.code == 0 and "review[" not in reviews.out
    assert "  ignored PX102 (at reviewed.ptx:29:2)" in reviews.out and "except" not in reviews.out.splitlines()[0]
    document = check(tilewright, "unfenced.ptx", "--allow", "PX101=why", "--format", "json").document
    (kernel,) = document["files"][0]["kernels"]
    assert kernel["exceptions"] == ["allowed PX101: why"] and kernel["suppressed"][0]["by"] == "option"


def test_an_allowance_that_allows_nothing_is_reported(texts: Path, tilewright: Tilewright) -> None:
    answer = check(tilewright, "reviewed.ptx", "--allow", "PX101=a reason")
    assert answer.code == 0 and "--allow PX101 allowed nothing" in answer.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--allow", "PX101"), "--allow PX101: there is no reason"),
        (("--allow", "PX101= "), "there is no reason"),
        (("--allow", "=why"), "there is no rule"),
        (("--allow", "PX1011=why"), "did you mean PX101?"),
        (("--ignore", "PX101,write-not-fence"), "did you mean write-not-fenced?"),
        (("--select", "fenced_init"), "--isa tolerant,fenced_init=strict"),
    ],
)
def test_mistakes_are_one_message(texts: Path, tilewright: Tilewright, options: tuple[str, ...], message: str) -> None:
    answer = check(tilewright, "unfenced.ptx", "reviewed.ptx", *options)
    assert answer.code == 2 and answer.out == "" and answer.err.count("error:") == 1 and message in answer.err


def test_exit_codes_that_are_asked_for(texts: Path, tilewright: Tilewright) -> None:
    assert check(tilewright, "open.ptx").code == 3
    assert check(tilewright, "open.ptx", "--allow-unknown").code == 0
    assert check(tilewright, "open.ptx", "unfenced.ptx", "--allow-unknown").code == 1
    assert check(tilewright, "open.ptx", "unfenced.ptx", "--exit-zero").code == 0
    assert check(tilewright, "unfenced.ptx", "missing.ptx", "--exit-zero", "--allow-unknown").code == 2
    assert check(tilewright, "open.ptx", "--ignore", "MB").code == 3


def test_a_folder_says_what_it_skipped(texts: Path, tilewright: Tilewright) -> None:
    (texts / "more").mkdir()
    (texts / "more" / "k.ptx").write_text(REVIEWED.read_text(encoding="utf-8"), encoding="utf-8")
    (texts / "more" / "k.ttgir").write_text("", encoding="utf-8")
    answer = check(tilewright, "more")
    assert answer.code == 0 and "more: 1 .ptx file checked; skipped: 1 .ttgir (name a file to check it)" in answer.out
    document = check(tilewright, "more", "--format", "json").document
    assert document["skipped"] == [{"folder": "more", "files": {".ttgir": 1}}]


# ---------------------------------------------------------------- run


def run(tilewright: Tilewright, *arguments: str) -> Answer:
    return tilewright("run", "unfenced.ptx", "--launch", "launch.json", "--on", "cpu", *arguments)


@pytest.fixture
def launched(texts: Path) -> Path:
    document = {"params": [{"kind": "ptr", "bytes": 4096}, {"kind": "ptr", "bytes": 4096}]}
    (texts / "launch.json").write_text(json.dumps(document), encoding="utf-8")
    return texts


def test_a_run_says_how_it_ended_first_and_groups_what_it_found(launched: Path, tilewright: Tilewright) -> None:
    answer = run(tilewright)
    assert answer.code == 1
    assert answer.out.startswith("kernel on the CPU machine: ran to its end, ") and "error[PX101]: " in answer.out
    assert answer.out.count("error[PX101]") == 1
    brief = run(tilewright, "-q").out.splitlines()
    assert len(brief) == 2 and brief[1].startswith("  error[PX101] write-not-fenced: ")
    assert "PX101  write-not-fenced  error" in run(tilewright, "--statistics").out


def test_findings_of_a_run_are_set_aside(launched: Path, tilewright: Tilewright) -> None:
    allowed = run(tilewright, "--allow", "PX101=a test")
    assert allowed.code == 0 and "  allowed PX101: a test (" in allowed.out and "error[" not in allowed.out
    assert run(tilewright, "--ignore", "PX", "-q").out == ""
    assert run(tilewright, "--select", "PX").code == 1 and run(tilewright, "--exit-zero").code == 0
    document = run(tilewright, "--ignore", "PX", "--format", "json").document
    assert document["findings"] == [] and {each["by"] for each in document["suppressed"]} == {"ignored"}


def test_a_bundle_has_no_findings_to_choose_from(bundle: Path, tilewright: Tilewright) -> None:
    answer = tilewright("run", "scale.twb", "--on", "cpu", "--ignore", "PX")
    assert answer.code == 2 and "--ignore is for the findings of PTX texts" in answer.err
    assert tilewright("run", "scale.twb", "--on", "cpu", "-q").out == ""


def test_a_text_that_is_not_there_is_the_mistake_not_its_launch(texts: Path, tilewright: Tilewright) -> None:
    answer = tilewright("run", "nope.ptx")
    assert answer.code == 2 and "cannot read 'nope.ptx'" in answer.err and "launch" not in answer.err
