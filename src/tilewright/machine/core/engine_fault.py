"""What an engine of the machine says when it is misused: a rule broken, without a place.

An engine (copy engine, tensor core, mbarrier) knows neither the instruction's place in the text nor who issued it; the
interpreter catches this and raises its own `MachineFault` with both. Codes are those of `machine.core.fault`, or the
rule's.
"""

from __future__ import annotations


class EngineFault(Exception):
    """A misuse of an engine. code: `MF001`, `MB209`, ...; name: kebab-case; message: one line with the values."""

    def __init__(self, code: str, name: str, message: str) -> None:
        self.code = code
        self.name = name
        self.message = message
        super().__init__(f"{code} {name}: {message}")
