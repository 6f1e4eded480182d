"""What stops a run: the one exception that every engine of the machine raises for a misuse the hardware would trap or
leave undefined.

An engine knows neither the instruction's place in the text nor which warp issued it; the interpreter catches the fault
and adds both.
"""

from __future__ import annotations


class MachineFault(Exception):
    """A misuse of an engine. code: a rule's code (`MB009`) or a short kebab-case name; message: one line."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(f"{code}: {message}")
