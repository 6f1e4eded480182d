"""What does a user see of a mistake of this program? One message with the place in our source, never a traceback.

Used around what works on foreign input, where anyone's text can meet an oversight of ours, and around every command.
Outside a kernel it is an error of the tool, exit code 2. Inside a kernel it is that kernel's alone: its verdict is
unknown, and `check` keeps the other kernels of the file. The environment variable TILEWRIGHT_TRACEBACK lets the
exception through. Checked by: tests/driver/check/test_check.py, tests/cli/test_commands.py.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tilewright.base.error import TilewrightError
from tilewright.driver.check.limits.budget import BudgetSpent
from tilewright.driver.check.limits.work import WorkSpent

_OURS = Path(__file__).parents[2]
"""The folder of this package: the place of a defect is the innermost call in it."""


class DefectError(TilewrightError):
    """A mistake of this program. exception: its type; place: file and line of our source."""

    def __init__(self, what: str, exception: BaseException) -> None:
        frames = traceback.extract_tb(exception.__traceback__)
        ours = [frame for frame in frames if _OURS in Path(frame.filename).parents] or frames[-1:]
        self.place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "an unknown place"
        self.exception = type(exception).__name__
        super().__init__(
            f"a fault of tilewright itself over {what}: {self.exception} at {self.place}",
            remedy="please report it, with the input (CONTRIBUTING.md); TILEWRIGHT_TRACEBACK=1 shows more",
        )


@contextmanager
def defects_as_errors(what: str) -> Generator[None, None, None]:
    """Raise a TilewrightError in place of what a mistake of ours raises inside. what: what is being worked on."""
    try:
        yield
    except (TilewrightError, BudgetSpent, WorkSpent):
        raise
    except RecursionError as error:
        raise TilewrightError(f"{what}: the input is nested too deeply", remedy="nest it less, or split it") from error
    except MemoryError as error:
        raise TilewrightError(f"{what} needs more memory than there is", remedy="give a smaller one") from error
    except OSError as error:
        reason = f"{error.strerror}: {error.filename}" if error.filename is not None else error.strerror or str(error)
        raise TilewrightError(
            f"{what} met an error of the system: {reason}", remedy="see to that, and try again"
        ) from error
    except Exception as error:
        if os.environ.get("TILEWRIGHT_TRACEBACK"):
            raise
        raise DefectError(what, error) from error
