"""A probe's command writes what was measured where it is asked to, and nothing else."""

import json

import pytest
from bench.probes.command import run_probe

from tilewright.base.error import TilewrightError


def test_what_was_measured_is_written(tmp_path):
    output = tmp_path / "found.json"
    assert run_probe("waits", "Cycles.", lambda: {"wait": 21.5}, ["-o", str(output)]) == 0
    assert json.loads(output.read_text("utf-8")) == {"wait": 21.5}


def test_nothing_is_measured_for_an_unknown_option():
    measured = []
    with pytest.raises(SystemExit):
        run_probe("waits", "Cycles.", lambda: {"wait": measured.append(1)}, ["--fast"])
    assert not measured


def test_without_a_gpu_there_is_one_message(capsys, tmp_path):
    def measure():
        raise TilewrightError("no NVIDIA driver on this machine", remedy="install the driver")

    output = tmp_path / "found.json"
    assert run_probe("waits", "Cycles.", measure, ["-o", str(output)]) == 2
    assert "no NVIDIA driver" in capsys.readouterr().err
    assert not output.exists()
