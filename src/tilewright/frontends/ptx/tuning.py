"""What does a text ask of the launch and of the calling convention? Directives between a function's head and its body.

Source: PTX ISA 9.1, Performance-Tuning Directives; Cluster Dimension Directives; Miscellaneous Directives.
Checked by: tests/frontends/test_ptx_grammar.py, test_ptx_reader.py and test_ptx_fuzz.py.
"""

from __future__ import annotations

from tilewright.frontends.ptx.ast import Unread
from tilewright.frontends.ptx.constant import read_integer
from tilewright.frontends.ptx.lexer import Cursor

# The most values that each directive takes.
_VALUES = {
    ".reqntid": 3,
    ".maxntid": 3,
    ".minnctapersm": 1,
    ".maxnctapersm": 1,
    ".maxnreg": 1,
    ".reqnctapercluster": 3,
    ".explicitcluster": 0,
    ".maxclusterrank": 1,
    ".blocksareclusters": 0,
    ".noreturn": 0,
    ".abi_preserve": 1,
    ".abi_preserve_control": 1,
}
_HEAD = frozenset({"{", ";", "directive"})


def read_pragma(cursor: Cursor) -> None:
    """`.pragma "a", "b";`, the cursor after the directive."""
    cursor.expect("string", "a string")
    while cursor.accept(","):
        cursor.expect("string", "a string")
    cursor.expect(";")


def read_tuning(cursor: Cursor, unread: list[Unread] | None) -> dict[str, tuple[int, ...]]:
    """The directives at the cursor by name without dot, values as written.

    unread: where a directive that is not known goes; None to refuse it. Raises TilewrightError for a directive that is
    refused, given twice, or has a negative value.
    """
    found: dict[str, tuple[int, ...]] = {}
    while cursor.kind == "directive":
        index, word = cursor.index, cursor.take()
        if word == ".pragma":
            read_pragma(cursor)
            continue
        if word not in _VALUES:
            if unread is None:
                cursor.fail(f"{word} is not a directive that Tilewright knows here", "see PTX ISA, Directives", index)
            unread.append(cursor.pass_over_until(index, _HEAD))
            continue
        if word[1:] in found:
            cursor.fail(f"{word} is given twice", "remove one", index)
        values: list[int] = []
        if _VALUES[word]:
            values.append(read_integer(cursor))
            while len(values) < _VALUES[word] and cursor.accept(","):
                values.append(read_integer(cursor))
            if min(values) < 0:
                cursor.fail(f"{word} {min(values)} is negative", "give a positive number", index)
        found[word[1:]] = tuple(values)
    return found
