"""Choices about a program that are fixed from outside; the synthesiser makes the others.

Checked by: tests/synth/test_decide.py.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wanted:
    """Choices fixed from outside (by a user or a tuner); None leaves one to the synthesiser.

    programmatic: whether the kernel is launched while the one before it still runs, and waits for it itself.
    misaligned: parameters whose arrays do not begin at a multiple of 16 bytes, which no tensor map can describe.
    """

    tile: tuple[int, int] | None = None
    stages: int | None = None
    cluster: tuple[int, int] | None = None
    programmatic: bool | None = None
    misaligned: tuple[str, ...] = ()
