"""What is a check's report as JSON? Stable names, every key always present.

`version` is of this format; it is raised when an older reader would misunderstand. A file that could not be checked has
an `error` and no kernels. Checked by: tests/report/test_check_report.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.base.check_report import FileReport, KernelReport, SkippedFiles
from tilewright.report.findings.beside_text import beside_to_json
from tilewright.report.findings.finding_groups import FindingGroup, grouped_findings
from tilewright.report.findings.findings_json import finding_to_json, findings_to_json

CHECK_FORMAT = 1


def check_to_json(files: Iterable[FileReport], *, tool: str, skipped: Iterable[SkippedFiles] = ()) -> dict[str, object]:
    """The report of one run of `tool` (its name and version) as a JSON object. skipped: of folders."""
    return {
        "version": CHECK_FORMAT,
        "tool": tool,
        "files": [_file(file) for file in files],
        "skipped": [{"folder": each.folder, "files": dict(each.by_suffix)} for each in skipped],
    }


def _file(file: FileReport) -> dict[str, object]:
    error: dict[str, object] | None = None
    if file.error:
        error = {
            "message": file.error,
            "line": file.error_line,
            "column": file.error_column,
            "remedy": file.remedy,
            "findings": findings_to_json(file.error_findings),
        }
    return {
        "path": file.path,
        "kernels": [_kernel(kernel) for kernel in file.kernels],
        "findings": findings_to_json(file.findings),
        "notes": list(file.notes),
        "error": error,
    }


def _kernel(kernel: KernelReport) -> dict[str, object]:
    return {
        "name": kernel.name,
        "target": kernel.target,
        "verdict": kernel.verdict,
        "scope": kernel.scope or None,
        "assumptions": list(kernel.assumptions),
        "claims": list(kernel.claims),
        "reasons": list(kernel.reasons),
        "findings": findings_to_json(kernel.findings),
        "groups": [_group(group) for group in grouped_findings(kernel.findings)],
        "suppressed": [
            {**finding_to_json(each.finding), "reason": each.reason, "by": each.by} for each in kernel.suppressed
        ],
        "exceptions": list(kernel.exceptions),
        "launches": kernel.launches,
        "ranges": list(kernel.ranges),
        "seconds": round(kernel.seconds, 3),
        "steps": kernel.steps,
        "defect": kernel.defect or None,
        "launch": kernel.launch,
        "beside": beside_to_json(kernel.beside, _kernel(kernel.beside.kernel) if kernel.beside is not None else None),
    }


def _group(group: FindingGroup) -> dict[str, object]:
    """Findings that say the same, which stand one by one in `findings`: how many, and the first place."""
    first = group.first
    return {
        "code": first.code,
        "name": first.name,
        "level": first.level.value,
        "contested": first.contested or None,
        "count": group.count,
        "file": first.primary.file if first.primary is not None else None,
        "line": first.primary.line if first.primary is not None else None,
    }
