"""What stands after an option that takes extents, seconds or a number of processes? Said once, for every command.

Checked by: tests/cli/commands/test_check_command.py, tests/cli/test_several.py.
"""

from __future__ import annotations

import argparse

from tilewright.driver.check.settings import BUDGET_MOST_SECONDS, JOBS_MOST


def extents(text: str) -> tuple[int, int, int]:
    """X, X,Y or X,Y,Z of an option."""
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or any(not part.strip().isdecimal() for part in parts):
        raise argparse.ArgumentTypeError("write X, X,Y or X,Y,Z, as in 128 or 2,1,1")
    x, y, z = (*(int(part) for part in parts), 1, 1)[:3]
    if not all(1 <= extent < 1 << 31 for extent in (x, y, z)):
        raise argparse.ArgumentTypeError("an extent is at least 1 and less than 2^31")
    return x, y, z


def processes(text: str) -> int:
    """How many work at once."""
    if not text.isdecimal() or int(text) > JOBS_MOST:
        raise argparse.ArgumentTypeError("write a number of processes, 0 for one on each processor")
    return int(text)


def file_name(text: str) -> str:
    """A file of an option. An empty name, which a shell makes of an unset variable, is not the option left out."""
    if not text:
        raise argparse.ArgumentTypeError("name a file, or leave the option out")
    return text


def seconds(text: str) -> float:
    """A budget of an option."""
    try:
        found = float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError("write a number of seconds") from error
    if not 0 < found <= BUDGET_MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"a budget is more than 0 and at most {BUDGET_MOST_SECONDS:g} seconds")
    return found
