"""What does a repair of a PTX text mean in the program that the text was compiled from? A line, and words for it.

An edit of PTX stands between two instructions, whose `.loc` lines say between which lines of the program; or it changes
an instruction that some line made. Where the author can write the instruction there, the words say how. Where a
compiler chose it, as Triton does, they say so: such a repair is the compiler's to make.

The words are a reading of `.loc`, not checked: what was checked again is the edited PTX.
Checked by: tests/driver/repair/test_source_edits.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from tilewright.base.check_report import FileReport, KernelReport
from tilewright.base.diagnostic import Diagnostic, Level, Repair, SourceEdit, SourcePlace
from tilewright.base.span import Span
from tilewright.base.value import dataclass
from tilewright.driver.check.sources.origin import Origins, ptx_origins
from tilewright.driver.check.sources.source_text import SourceFiles
from tilewright.driver.repair.source_terms import Language, language_of, source_term
from tilewright.frontends.ptx.ast import Address, Instruction, Kernel, Module, TensorAddress
from tilewright.targets.ptx_table import ptx_table

_STATEMENT = re.compile(r"(?:@!?\S+\s+)?[a-z][\w.:]*(?:\s.*)?;\s*(?://.*)?$", re.DOTALL)
_LINE_END = 1 << 20
"""A column behind every statement of a line."""

_OVERRIDE = "report it to Triton; until then TRITON_KERNEL_OVERRIDE=1 takes the edited PTX"
_OF_COMPILER = "report it to the compiler's authors, or load the edited PTX"


@dataclass(frozen=True, slots=True)
class _Program:
    """Where the lines of a kernel's program are, and what it is written in, "" where its files say so."""

    kernel: Kernel
    origins: Origins
    text_path: str
    language: Language | None

    def language_at(self, place: Span) -> Language:
        return self.language or language_of(place.file, self.text_path)


def with_source_edits(
    report: FileReport, module: Module, files: SourceFiles, language: Language | None = None
) -> FileReport:
    """The report with every repair's edits in terms of the program, where `.loc` lines name it. language: of the
    program, where the caller knows it."""
    kernels = {kernel.name: kernel for kernel in module.kernels}

    def of_kernel(kernel: KernelReport) -> KernelReport:
        known = kernels.get(kernel.name)
        if known is None:
            return kernel
        program = _Program(known, ptx_origins(module, known, files), report.path, language)
        return replace(kernel, findings=tuple(_with_edits(each, program) for each in kernel.findings))

    return replace(report, kernels=tuple(of_kernel(kernel) for kernel in report.kernels))


def _with_edits(finding: Diagnostic, program: _Program) -> Diagnostic:
    repair = finding.repair
    if repair is None:
        return finding
    if not repair.edits:
        return _with_advice(finding, repair, program)
    return replace(finding, repair=replace(repair, in_source=tuple(_source_edits(repair, program))))


def _with_advice(finding: Diagnostic, repair: Repair, program: _Program) -> Diagnostic:
    """Advice on an instruction of Triton's is for Triton: no line of the author's says it."""
    origin = finding.origin
    if origin is None or finding.level is not Level.ERROR or program.language_at(origin) != "Triton":
        return finding
    words = f"Triton emits this for {_words(origin, finding.stack)}, which has no word for it; {_OVERRIDE}"
    return replace(finding, repair=replace(repair, in_source=(SourceEdit(origin, words),)))


def _source_edits(repair: Repair, program: _Program) -> list[SourceEdit]:
    found: list[SourceEdit] = []
    for span, replacement in repair.edits:
        new, old = replacement.splitlines(), span.text.strip()
        if new and new[0].strip() == old:
            edits = _inserted(new[1:], span, program, after=True)
        elif new and new[-1].strip() == old:
            edits = _inserted(new[:-1], span, program, after=False)
        else:
            edits = _changed(old, new, span, program)
        found += [each for each in edits if each not in found]
    return found


def _inserted(lines: Sequence[str], span: Span, program: _Program, *, after: bool) -> list[SourceEdit]:
    origin, stack = program.origins.stack(replace(span, column=_LINE_END))
    if origin is None:
        return []
    beside = _beside(span, program, after=after)
    return [
        SourceEdit(origin, f"{_where(origin, stack, beside, after=after)}: {_insert_words(statement, origin, program)}")
        for statement in _statements(lines)
    ]


def _insert_words(statement: str, origin: Span, program: _Program) -> str:
    language = program.language_at(origin)
    term = source_term(statement, language)
    if term is not None:
        return f"insert {term}"
    match language:
        case "C++":
            return f"insert PTX `{statement}` with the operands of that place"
        case "Gluon":
            return f"Gluon has no call for `{statement}`; {_OVERRIDE}"
        case "Triton":
            return f"Triton emits what stands here, and has no word for `{statement}`; {_OVERRIDE}"
        case "Python":
            return f"a compiler emits what stands here; the source may have no word for `{statement}`; {_OF_COMPILER}"


def _changed(old: str, new: Sequence[str], span: Span, program: _Program) -> list[SourceEdit]:
    origin, stack = program.origins.stack(replace(span, column=_LINE_END))
    if origin is None or not _STATEMENT.match(old):
        return []
    statements = _statements(new)
    change = f"`{old}` becomes `{' '.join(statements)}`" if statements else f"`{old}` falls away"
    language = program.language_at(origin)
    match language:
        case "C++":
            words = change
        case "Gluon" if (term := source_term(statements[0] if statements else old, language)) is not None:
            words = f"{change}; in Gluon: {term}"
        case "Gluon" | "Triton":
            words = f"{change}; Triton emits this instruction, and the source does not say it; {_OVERRIDE}"
        case "Python":
            words = f"{change}; a compiler emits this instruction; {_OF_COMPILER}"
    return [SourceEdit(origin, f"at {_words(origin, stack)}: {words}")]


def _statements(lines: Sequence[str]) -> list[str]:
    """The instructions among lines of PTX, without declarations, labels and braces."""
    return [" ".join(line.split()) for line in lines if _STATEMENT.match(line.strip())]


def _beside(span: Span, program: _Program, *, after: bool) -> tuple[Span | None, tuple[SourcePlace, ...]]:
    """The program's line of the next instruction on the other side of what is inserted beside a line. Instructions of
    registers alone are passed over: whether one of them stands before or after makes no difference."""
    body = (item for item in program.kernel.body if isinstance(item, Instruction) and not _of_registers(item))
    if after:
        place = next((item.span for item in body if item.span.line > span.line), None)
    else:
        place = max((item.span for item in body if item.span.line < span.line), key=lambda at: at.line, default=None)
    return program.origins.stack(replace(place, column=_LINE_END)) if place is not None else (None, ())


def _of_registers(instruction: Instruction) -> bool:
    row = ptx_table().rows.get(instruction.row)
    memory = any(isinstance(operand, Address | TensorAddress) for operand in instruction.operands)
    return row is not None and row.effect == "plain" and not memory


def _where(
    origin: Span,
    stack: tuple[SourcePlace, ...],
    beside: tuple[Span | None, tuple[SourcePlace, ...]],
    *,
    after: bool,
) -> str:
    side = "after" if after else "before"
    other, other_stack = beside
    if other is None or (other.file, other.line) != (origin.file, origin.line):
        return f"{side} {_words(origin, stack)}"
    # Both instructions are of one line: only the lines of what it calls tell them apart.
    inner = stack[0].span if stack else origin
    other_inner = other_stack[0].span if other_stack else other
    if stack and (inner.file, inner.line) != (other_inner.file, other_inner.line):
        return f"inside {_words(origin, stack)}, {side} {stack[0].words}"
    return f"inside what {_words(origin, stack)} is compiled to"


def _words(origin: Span, stack: tuple[SourcePlace, ...]) -> str:
    place = next((each for each in stack if each.span == origin), SourcePlace(origin))
    function = f" ({place.function})" if place.function else ""
    return f"{origin.file}:{origin.line}{function}"
