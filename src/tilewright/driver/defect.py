"""What does a user see of a mistake of this program? One message with the place in our source, never a traceback.

Used around what works on foreign input, where an oversight of ours can be met by anyone's text, and around every
command. It is an error of the tool, exit code 2, and never a verdict. The environment variable TILEWRIGHT_TRACEBACK
lets the exception through. Checked by: tests/driver/test_check.py, tests/cli/test_commands.py.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tilewright.base.error import TilewrightError

_DEFECTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What a mistake of a program raises; what the user can mend raises TilewrightError."""


@contextmanager
def defects_as_errors(what: str) -> Generator[None, None, None]:
    """Raise a TilewrightError in place of what a mistake of ours raises inside. what: what is being worked on."""
    try:
        yield
    except RecursionError as error:
        raise TilewrightError(f"{what} is nested too deeply", remedy="give a text that a compiler wrote") from error
    except MemoryError as error:
        raise TilewrightError(f"{what} needs more memory than there is", remedy="give a smaller one") from error
    except OSError as error:
        reason = f"{error.strerror}: {error.filename}" if error.filename is not None else error.strerror or str(error)
        raise TilewrightError(
            f"{what} met an error of the system: {reason}", remedy="see to that, and try again"
        ) from error
    except _DEFECTS as error:
        if os.environ.get("TILEWRIGHT_TRACEBACK"):
            raise
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        raise TilewrightError(
            f"a fault of tilewright itself over {what}: {type(error).__name__} at {place}",
            remedy="please report it, with the input; TILEWRIGHT_TRACEBACK=1 shows more",
        ) from error
