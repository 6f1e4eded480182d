"""A list may be given in one option or in several."""

from __future__ import annotations

import argparse

import pytest

from tilewright.cli.main import build_parser
from tilewright.cli.terminal.repeated_option import Joined


@pytest.mark.parametrize(
    ("given", "list_"),
    [
        ((), "none"),
        (("--shape", "M=1,N=2"), "M=1,N=2"),
        (("--shape", "M=1", "--shape=N=2"), "M=1,N=2"),
        (("--shape", "none", "--shape", "N=2"), "N=2"),
    ],
)
def test_all_that_was_given_counts(given: tuple[str, ...], list_: str) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", action=Joined, default="none")
    assert parser.parse_args(given).shape == list_


def test_every_command_takes_extents_in_several_options() -> None:
    options = [option for command in build_parser().commands for option in command._actions]
    shapes = [option for option in options if "--shape" in option.option_strings]
    assert len(shapes) >= 4 and all(isinstance(option, Joined) for option in shapes)
