"""What does a name mean here? Nested `{ }` scopes become one flat namespace.

Registers and variables are known before they are used, so a name is settled when it is read. Labels may come later: an
operand that names one is noted and settled when the scope that declares the label closes, or at last against
parameters, module symbols and functions. The first use of a name in a function keeps it; later ones get `$1`, `$2`, ...
Source: PTX ISA 8.8, Identifiers; Labels and Function Names; State Spaces.
Checked by: tests/frontends/test_ptx_reader.py and test_ptx_fuzz.py.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import Register, Symbol, Vector

# What a name stands for. A vector register stands for its elements.
Meaning = Register | Symbol | Vector

_MOST_SUGGESTIONS = 1000
_LONGEST_SUGGESTION = 64
# A vector's elements have two names each.
_COLORS = {"x": "r", "y": "g", "z": "b", "w": "a"}

# Tells the place that used a label under its old name what the label is called now.
Patch = Callable[[str, str], None]


class _Use(NamedTuple):
    span: Span
    is_label: bool
    patch: Patch


@dataclass(slots=True)
class _Scope:
    opened: Span
    declared: set[str] = field(default_factory=set[str])
    shadowed: list[tuple[str, Meaning | None]] = field(default_factory=list[tuple[str, Meaning | None]])
    # Names that nothing had before, thousands at a time.
    fresh: list[Sequence[str]] = field(default_factory=list[Sequence[str]])
    labels: dict[str, str] = field(default_factory=dict[str, str])
    pending: dict[str, list[_Use]] = field(default_factory=dict[str, "list[_Use]"])


class Names:
    """The names of one function's body.

    symbols: what the module declares; parameters: what the function's head does. A parameter in a register is known at
    once; a symbol may yet be hidden by a label. changes: how often names have got another meaning.
    """

    def __init__(
        self, symbols: Mapping[str, Symbol], parameters: Mapping[str, Symbol | Register], opened: Span
    ) -> None:
        self.visible: dict[str, Meaning] = {
            name: meaning for name, meaning in parameters.items() if isinstance(meaning, Register)
        }
        self._symbols = symbols
        self._parameters = parameters
        self._used: set[str] = set()
        self._scopes = [_Scope(opened)]
        self._next_suffix: dict[str, int] = {}
        self.changes = 0

    def _is_outer(self, name: str) -> bool:
        return name in self._parameters or name in self._symbols

    @property
    def depth(self) -> int:
        return len(self._scopes)

    @property
    def opened(self) -> Span:
        """Where the innermost scope was opened."""
        return self._scopes[-1].opened

    def push(self, opened: Span) -> None:
        self._scopes.append(_Scope(opened))

    def pop(self) -> None:
        """Close the innermost scope: settle its labels, and uncover what its declarations hid."""
        scope = self._scopes.pop()
        self.changes += 1
        for name, hidden in reversed(scope.shadowed):
            if hidden is None:
                del self.visible[name]
            else:
                self.visible[name] = hidden
        for names in scope.fresh:
            for name in names:
                del self.visible[name]
        pending = scope.pending
        for name, unique in scope.labels.items():
            uses = pending.pop(name, ())
            if unique != name:
                for use in uses:
                    use.patch(name, unique)
        if self._scopes:
            self._scopes[-1].pending = _merge(self._scopes[-1].pending, pending)
            return
        unknown = [
            (use.span, name)
            for name, uses in pending.items()
            for use in uses
            if use.is_label or not self._is_outer(name)
        ]
        if unknown:
            span, name = min(unknown, key=lambda each: (each[0].line, each[0].column))
            self._refuse(name, span, scope)

    def _refuse(self, name: str, span: Span, scope: _Scope) -> None:
        known = itertools.islice(itertools.chain(scope.labels, self._parameters, self._symbols), _MOST_SUGGESTIONS)
        # Long names are compared in a time that grows with their square.
        candidates = [each for each in known if len(each) <= _LONGEST_SUGGESTION]
        near = difflib.get_close_matches(name, candidates, n=1, cutoff=0.7)
        remedy = f"did you mean {near[0]}?" if near else "declare it, as a label, a variable or a register"
        raise TilewrightError(f"{name} is not declared", span=span, remedy=remedy)

    def declare_registers(self, names: Sequence[str], span: Span) -> Sequence[str]:
        """The flat names of registers declared in the innermost scope."""
        scope, fresh = self._scopes[-1], set(names)
        taken = (scope.declared, self._used, self._parameters.keys(), self._symbols.keys())
        if len(fresh) < len(names) or not all(fresh.isdisjoint(each) for each in taken):
            return [self._declare_register(name, span) for name in names]
        # All at once, since kernels have thousands: each name is its own flat name, and hides none, since what has been
        # visible has been used.
        scope.declared |= fresh
        self._used |= fresh
        scope.fresh.append(names)
        self.visible.update(zip(names, map(Register, names), strict=True))
        self.changes += 1
        return names

    def _declare_register(self, name: str, span: Span) -> str:
        unique = self._declare(name, span)
        self._show(name, Register(unique))
        return unique

    def declare_vector(self, name: str, elements: tuple[str, ...], span: Span) -> tuple[str, ...]:
        """The flat names of a vector register's elements, which the text calls `name.x`, `name.y`, ..."""
        self._declare(name, span)
        unique = tuple(self._declare(f"{name}${letter}", span) for letter in elements)
        for letter, flat in zip(elements, unique, strict=True):
            self._show(f"{name}.{letter}", Register(flat))
            if letter in _COLORS:
                self._show(f"{name}.{_COLORS[letter]}", Register(flat))
        self._show(name, Vector(tuple(Register(flat) for flat in unique)))
        return unique

    def declare_variable(self, name: str, span: Span) -> str:
        """The flat name of a variable declared in the innermost scope."""
        unique = self._declare(name, span)
        self._show(name, Symbol(unique))
        return unique

    def declare_label(self, name: str, span: Span) -> str:
        """The flat name of a label, or of a branch table, that stands in the innermost scope."""
        unique = self._declare(name, span)
        self._scopes[-1].labels[name] = unique
        return unique

    def use(self, name: str, span: Span, patch: Patch, *, is_label: bool = False) -> None:
        """Note a name that is not declared yet. is_label: nothing but a label will do."""
        self._scopes[-1].pending.setdefault(name, []).append(_Use(span, is_label, patch))

    def _show(self, name: str, meaning: Meaning) -> None:
        self.changes += 1
        self._scopes[-1].shadowed.append((name, self.visible.get(name)))
        self.visible[name] = meaning

    def _declare(self, name: str, span: Span) -> str:
        scope = self._scopes[-1]
        if name in scope.declared:
            raise TilewrightError(f"{name} is declared twice in one scope", span=span, remedy="rename one of the two")
        scope.declared.add(name)
        unique = name
        if unique in self._used or self._is_outer(unique):
            suffix = self._next_suffix.get(name, 1)
            while (unique := f"{name}${suffix}") in self._used or self._is_outer(unique):
                suffix += 1
            self._next_suffix[name] = suffix + 1
        self._used.add(unique)
        return unique


def _merge(outer: dict[str, list[_Use]], inner: dict[str, list[_Use]]) -> dict[str, list[_Use]]:
    """The uses of both, the smaller added to the larger, so that deep nesting costs no more than its text."""
    small, large = (inner, outer) if len(inner) <= len(outer) else (outer, inner)
    for name, uses in small.items():
        have = large.setdefault(name, uses)
        if have is uses:
            continue
        if len(have) < len(uses):
            large[name], uses = uses, have
        large[name] += uses
    return large
