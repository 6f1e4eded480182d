"""`tilewright schedule`: kernels and described loops, every format, and each wrong input with one message."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tilewright.cli.main import main
from tilewright.ir.schedule import schedule_from_json
from tilewright.ir.task_graph import graph_from_json

PROGRAMS = """
from tilewright.frontends.tile import language as tw
from tilewright.ir.loop_body import Carried, Compute, LoadTile, LoopBody, Multiply


@tw.kernel
def matmul(a: tw.Tensor["M", "K"], b: tw.Tensor["K", "N"], c: tw.Tensor["M", "N"]):
    i, j = tw.grid("M", "N")
    acc = tw.zeros(i, j)
    for k in tw.loop("K"):
        acc += tw.dot(a[i, k], b[k, j])
    c[i, j] = acc


@tw.kernel
def double(x: tw.Tensor["N"], y: tw.Tensor["N"]):
    i = tw.grid("N")
    y[i] = x[i] + x[i]


forward = LoopBody(
    "attention",
    (
        LoadTile("K", "k", 128, 128, 2),
        LoadTile("V", "v", 128, 128, 2),
        Multiply("scores", "", "K", 128, 128, 128, 2, accumulates=False),
        Compute("maxima", ("scores",), 128, 128),
        Compute("weights", ("scores", "maxima"), 128, 128, 100, 100, 50),
        Compute("rescale", ("maxima",), 128, 128),
        Multiply("output", "weights", "V", 128, 128, 128, 2),
    ),
    (Carried("maxima", "maxima"), Carried("output", "rescale")),
    2, 216, 163840, 64,
)
small = LoopBody("small", (LoadTile("a", "r", 64, 64, 2), Multiply("p", "a", "a", 64, 64, 64, 2)), (), 1, 8, 65536, 4)
number = 3
"""
SHAPE = ["--shape", "M=4096,N=4096,K=4096"]


@pytest.fixture
def programs(tmp_path: Path) -> str:
    path = tmp_path / "programs.py"
    path.write_text(PROGRAMS, "utf-8")
    return str(path)


def test_a_kernel_s_loop_is_scheduled_and_drawn(programs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", f"{programs}:matmul", *SHAPE, "--tile", "128x256", "--graph"]) == 0
    said = capsys.readouterr().out
    for words in ("(heuristic): an iteration every", "tensor cores |", "ring slot 0", "full barrier", "proven for"):
        assert words in said, words


def test_whole_tiles_are_scheduled_both_ways(programs: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["schedule", f"{programs}:matmul", *SHAPE, "--tile", "128x128", "--epilogue-cycles", "3000"]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert said.index("ping-pong: ") < said.index("cooperative: ") < said.index("epilogue@consumer 1")


def test_attention_s_optimum_has_a_certificate(programs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", f"{programs}:forward", "--assignment", "ping-pong", "--optimal", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    graph, schedule = graph_from_json(document["graph"]), schedule_from_json(document["schedule"])
    assert schedule.certificate is not None and schedule.certificate.names == ("tensor cores",)
    assert document["verdict"] == "proven" and document["channels"] == []
    assert {one.task for one in schedule.placements} == {task.name for task in graph.tasks}


def test_a_body_takes_turns_unless_told(programs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", f"{programs}:forward"]) == 0
    assert "consumer 1 |" in capsys.readouterr().out
    assert main(["schedule", f"{programs}:forward", "--assignment", "cooperative"]) == 0
    assert "consumers |" in capsys.readouterr().out


class Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_page_holds_chart_and_tasks(programs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", f"{programs}:forward", "--format", "html", "--iterations", "3"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("<!DOCTYPE html>") and "<svg" in page and "http" not in page
    parser = Text()
    parser.feed(page)
    for words in ("Schedule of attention", "weights@consumer 1", "least interval"):
        assert words in parser.words, words


def test_the_trace_has_the_roles_as_threads(programs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", f"{programs}:matmul", *SHAPE, "--format", "perfetto"]) == 0
    events = json.loads(capsys.readouterr().out)["traceEvents"]
    threads = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"producer", "consumers", "tensor cores", "copy engine"} <= threads


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["matmul"], "axis"),
        (["matmul", "--shape", "M=0,N=1,K=1"], "M"),
        (["matmul", *SHAPE, "--tile", "1x1"], "tile"),
        (["matmul", *SHAPE, "--stages", "1"], "stages"),
        (["matmul", *SHAPE, "--release-distance", "3"], "3 products late"),
        (["forward", "--release-distance", "0"], "--release-distance with a loop body"),
        (["matmul", *SHAPE, "--iterations", "0"], "0 iterations cannot be drawn"),
        (["matmul", *SHAPE, "--assignment", "ping-pong"], "loop bodies"),
        (["matmul", *SHAPE, "--target", "sm_100a"], "sm_100a"),
        (["matmul", *SHAPE, "--target", "sm_1"], "sm_1"),
        (["double", "--shape", "N=4096"], "no loop to schedule"),
        (["double", "--shape", "N=4096", "--epilogue-cycles", "5"], "no loop to schedule"),
        (["matmul", *SHAPE, "--epilogue-cycles", "-5"], "an epilogue of -5 cycles"),
        (["forward", "--epilogue-cycles", "5"], "--epilogue-cycles with a loop body"),
        (["forward", *SHAPE], "--shape with a loop body"),
        (["forward", "--stages", "3"], "--stages with a loop body"),
        (["forward", "--helpers", "9"], "9 helpers"),
        (["small"], "no schedule"),
        (["number"], "is no kernel"),
        (["nothing"], "declares no kernel nothing"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_input_is_one_message(
    programs: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *rest = arguments
    assert main(["schedule", f"{programs}:{name}", *rest]) == 2
    said = capsys.readouterr().err
    assert words in said and said.startswith(("error: ", programs)) and "Traceback" not in said


def test_compile_takes_the_optimum_too(
    programs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["compile", f"{programs}:matmul", "--shape", "M=512,N=512,K=512", "--schedule", "optimal"]
    assert main([*arguments, "--format", "json"]) == 0
    assert "schedule (optimal)" in capsys.readouterr().out
