"""Which line of the source does an instruction come from? The `.loc` in force where it stands.

Code that was inlined has a stack of places: the line of the inlined function, that of its call, that of the call around
it, up to the kernel. The text gives the first call with the line (`inlined_at`) and gives the next ones where it gives
the call's own place as a `.loc`: the last one before. Where a text has that place with different callers, compilers
write each of them once, so that the last one is only the likeliest; such a caller is not `certain`.

A `.loc` between `// begin inline asm` and `// end inline asm` is not believed (`body` drops it): compilers count the
lines of the assembly there, on from the statement's own.

Source: PTX ISA 9.1, Debugging Directives: .loc, .file. Not handled: DWARF's own line tables.
Checked by: tests/frontends/test_ptx_grammar.py, tests/frontends/test_ptx_source.py.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from tilewright.base.diagnostic import SourcePlace
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.frontends.ptx.ast import Function, Instruction, Kernel, Label, Location, Module
from tilewright.frontends.ptx.mangled import function_name

_MOST_CALLS = 64
"""Of a stack; a longer one is a text that runs in circles."""

_Caller = tuple[int, int, int] | None
_Inlined = tuple[int, str, _Caller]
"""A function at one of its calls: file, name and the call."""


@dataclass(frozen=True, slots=True)
class PlacedLine:
    """A line of the source in a stack of calls. lines: how many lines of this function, at this call, the text has."""

    place: SourcePlace
    lines: int


@dataclass(frozen=True, slots=True)
class SourceMap:
    """The `.loc` directives of a kernel or function, to be asked many times.

    before: by place, the indices in `code.locations` of the directives that give it, in order; callers: by place, how
    many different callers it is given with; lines: of each inlined function, how many lines the text has.
    """

    module: Module
    code: Kernel | Function
    before: dict[tuple[int, int, int], list[int]]
    callers: dict[tuple[int, int, int], int]
    lines: dict[_Inlined, int]

    def has(self, span: Span) -> bool:
        """Whether the place of the PTX text is in this code's body."""
        body = self.code.body
        return body is not None and len(body) > 0 and body[0].span.line <= span.line <= body[-1].span.line

    def stack(self, span: Span) -> tuple[PlacedLine, ...]:
        """The lines of the source at a place in the PTX text, the innermost first, the kernel's last.

        Empty if no `.loc` is in force there, if it says line 0 (a compiler's own code), or if its file has no name.
        """
        at = _in_force(self.code, span)
        return tuple(self._stack(at)) if at is not None else ()

    def _stack(self, at: int) -> Iterator[PlacedLine]:
        locations = self.code.locations
        certain = later = True
        for _ in range(_MOST_CALLS):
            location = locations[at]
            name = self.module.files.get(location.file)
            if name is None or not location.line:
                return
            caller = location.inlined_at
            words = self._name(location) if caller is not None else function_name(self.code.name)
            place = SourcePlace(Span(name, location.line, location.column), words, certain)
            yield PlacedLine(place, self.lines[_inlined(location)])
            if caller is None:
                return
            found = self.before.get(caller, [])
            before = bisect_right(found, at) - 1
            if before < 0:
                # The text does not have the call's own `.loc`: its place is all that is known of it.
                file = self.module.files.get(caller[0])
                if file is not None and caller[1]:
                    yield PlacedLine(SourcePlace(Span(file, caller[1], caller[2]), "", later), 0)
                return
            # The call's place is what this line says. What the call's own `.loc` says may be another caller's.
            certain, later = later, later and self.callers[caller] == 1
            at = found[before]

    def _name(self, location: Location) -> str:
        """The inlined function, "" where the text does not say. Some compilers give the kernel's name to everything."""
        name = self.module.inlined_names.get(location.function, "")
        return function_name(name) if name != self.code.name else ""


def source_map(module: Module, code: Kernel | Function) -> SourceMap:
    """The source of the instructions of one kernel or function."""
    before: dict[tuple[int, int, int], list[int]] = {}
    callers: dict[tuple[int, int, int], set[_Caller]] = {}
    lines: dict[_Inlined, set[int]] = {}
    for index, location in enumerate(code.locations):
        place = location.file, location.line, location.column
        before.setdefault(place, []).append(index)
        callers.setdefault(place, set()).add(location.inlined_at)
        found = lines.setdefault(_inlined(location), set())
        if location.line:
            found.add(location.line)
    return SourceMap(
        module,
        code,
        before,
        {place: len(found) for place, found in callers.items()},
        {function: len(found) for function, found in lines.items()},
    )


def source_stack(maps: Iterable[SourceMap], span: Span) -> tuple[PlacedLine, ...]:
    """As `SourceMap.stack`, of the one whose body has the place."""
    for each in maps:
        if each.has(span):
            return each.stack(span)
    return ()


def _in_force(code: Kernel | Function, span: Span) -> int | None:
    """The index of the `.loc` that is in force at a place."""
    index = bisect_right(code.body or (), (span.line, span.column), key=_place) - 1
    at = bisect_right(code.locations, index, key=_index) - 1
    return at if index >= 0 and at >= 0 else None


def _inlined(location: Location) -> _Inlined:
    return location.file, location.function, location.inlined_at


def _place(item: Instruction | Label) -> tuple[int, int]:
    return item.span.line, item.span.column


def _index(location: Location) -> int:
    return location.index
