"""Cases that may kill their context: what each says comes back, found or fault, and nothing else passes for either."""

import json
import subprocess

import pytest
from bench.probes import lost_contexts
from bench.probes.lost_contexts import answered, apart

from tilewright.base.error import TilewrightError


def _fault() -> object:
    raise TilewrightError("an illegal instruction\nand more")


@pytest.mark.parametrize(
    ("find", "code", "said"),
    [(lambda: [1], 0, {"found": [1]}), (_fault, 3, {"fault": "an illegal instruction"})],
    ids=["found", "fault"],
)
def test_what_a_process_prints_comes_back(find, code, said, capsys, monkeypatch):
    assert answered(find) == code
    done = subprocess.CompletedProcess([], code, capsys.readouterr().out, "")
    monkeypatch.setattr(lost_contexts.subprocess, "run", lambda *_, **__: done)
    assert apart("empty_copies", "case") == said and json.loads(done.stdout) == said


def test_what_ends_otherwise_is_no_answer(monkeypatch):
    with pytest.raises(TilewrightError, match=r"(?s)empty_copies no_such_case 0: .*ValueError"):
        apart("empty_copies", "no_such_case", "0")

    def late(*_, **__):
        raise subprocess.TimeoutExpired("probe", 20)

    monkeypatch.setattr(lost_contexts.subprocess, "run", late)
    assert apart("empty_copies", "case") == {"fault": "hangs"}
