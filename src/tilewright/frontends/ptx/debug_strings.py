"""What are inlined functions called? The strings of the debug section that `function_name` of a `.loc` points at.

Source: PTX ISA 9.1, Debugging Directives: .loc, .section. Bytes stand as `.b8` numbers behind labels, each string ends
in a zero. Not handled: strings whose bytes are given as wider numbers; such functions have no name.
Checked by: tests/frontends/test_ptx_source.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.frontends.ptx.ast import Function, Kernel


class DebugStrings:
    """The bytes of `.debug_str`, and where in them its labels stand."""

    def __init__(self) -> None:
        self._content = bytearray()
        self._labels: dict[str, int] = {}

    def take(self, kinds: Sequence[str], texts: Sequence[str]) -> None:
        """Read the tokens between a section's braces."""
        bytewise = False
        for index, (kind, text) in enumerate(zip(kinds, texts, strict=True)):
            if kind == "directive":
                bytewise = text in (".b8", ".s8", ".u8")
            elif kind == "word" and kinds[index + 1 : index + 2] == [":"]:
                self._labels[text] = len(self._content)
            elif kind == "integer" and bytewise:
                self._content.append(_number(text) & 0xFF)

    def names(self, kernels: Iterable[Kernel], functions: Iterable[Function]) -> dict[str, str]:
        """The strings that the code's `.loc` directives point at, by the words that they say it with."""
        wanted = {location.function for code in (*kernels, *functions) for location in code.locations}
        found = {words: self._string(words) for words in wanted if words}
        return {words: name for words, name in sorted(found.items()) if name}

    def _string(self, words: str) -> str:
        label, _, distance = words.partition("+")
        begin = self._labels.get(label)
        if begin is None:
            return ""
        begin += int(distance or 0)
        end = self._content.find(b"\0", begin)
        return self._content[begin : end if end >= 0 else None].decode("utf-8", "replace") if begin >= 0 else ""


def _number(text: str) -> int:
    """A PTX integer as the lexer takes it: hexadecimal, binary, octal behind a zero, or decimal."""
    digits = text.removesuffix("U")
    prefix = digits[:2].lower()
    if prefix in ("0x", "0b"):
        return int(digits, 16 if prefix == "0x" else 2)
    return int(digits, 8 if digits.startswith("0") else 10)
