"""A kernel of structured text to be edited, and its verdict."""

import re
from pathlib import Path

from tilewright.driver.check.check import check_text
from tilewright.driver.check.options import CheckOptions

DATA = Path(__file__).parents[2] / "data" / "ttgir"


def text_of(name):
    return (DATA / f"{name}.ttgir").read_text()


def checked(text, name="kernel.ttgir"):
    report = check_text(text, name, options=CheckOptions(budget_seconds=60))
    assert not report.error, report.error
    return report.kernels[0]


def edited(text, pattern, replacement, occurrence=0):
    """The text with the `occurrence`th line that matches edited (None: left out, "twice": doubled), and its number."""
    lines = text.splitlines()
    places = [index for index, line in enumerate(lines) if re.search(pattern, line)]
    place = places[occurrence]
    if replacement is None:
        lines[place : place + 1] = []
    elif replacement == "twice":
        lines.insert(place, lines[place])
    else:
        mended = re.sub(pattern, replacement, lines[place])
        assert mended != lines[place]
        lines[place] = mended
    return "\n".join(lines) + "\n", place + 1


def more(match):
    return match[1] + str(int(match[2]) + 1)


EXPECT = r"(ttng\.barrier_expect %\S+ )(\d+)"


INIT = r"(ttng\.init_barrier %\S+ )(\d+)"


RELEASE = r"(ttng\.arrive_barrier %\S+ )(\d+)"


LOAD = r"ttng\.async_tma_copy_global_to_local"


WAIT = r"ttng\.wait_barrier"


PARITY = r"(ttng\.wait_barrier %\w+), %\w+"


PENDING = r"(pendings = )(\d+)"
