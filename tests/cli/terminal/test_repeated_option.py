"""A list may be given in one option or in several."""

from __future__ import annotations

import argparse

import pytest

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
