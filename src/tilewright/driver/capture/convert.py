"""What do the records of a program become? A folder of PTX texts, launch files, and an index `capture.json`.

Kernels of several processes that have the same name and text are one kernel. Launches that make the same launch file
are one launch, with a count. A kernel without text leaves its cubin, where there is one, and no launch file, since
nothing could read it.

Checked by: tests/driver/capture/test_capture.py.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from tilewright.driver.capture.buffers import contents, write_npy
from tilewright.driver.capture.launches import captured
from tilewright.driver.capture.names import short_name, unique_name
from tilewright.driver.capture.records import COOPERATIVE, IN_GRAPH, PROGRAMMATIC, LaunchRecord, Process
from tilewright.driver.capture.texts import KernelText, TextFinder, parameter_types

INDEX = "capture.json"
_NOTES = {
    COOPERATIVE: "cooperative",
    PROGRAMMATIC: "may begin before the launch in front of it ends",
    IN_GRAPH: "a node of a graph",
}


@dataclass(slots=True)
class CapturedFile:
    """A launch file. count: launches that make it; notes: what the file does not say."""

    file: str
    count: int
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class CapturedKernel:
    """A kernel that was launched.

    text: its PTX's file, or None, and `reason` says why; cubin: its file, where the text is missing
    over: launches beyond the limit; unusable: launches that no file was made of, by reason
    """

    entry: str
    text: str | None
    reason: str
    cubin: str | None
    launches: list[CapturedFile] = field(default_factory=list[CapturedFile])
    over: int = 0
    unusable: Counter[str] = field(default_factory=Counter[str])
    count: int = 0


@dataclass(slots=True)
class Capture:
    """Everything that was captured, in `folder`. programs: those that used the driver; notes: what is not recorded."""

    folder: Path
    programs: tuple[str, ...] = ()
    kernels: list[CapturedKernel] = field(default_factory=list[CapturedKernel])
    notes: list[str] = field(default_factory=list[str])

    def to_json(self) -> dict[str, object]:
        """The index."""
        return {
            "folder": str(self.folder),
            "programs": list(self.programs),
            "kernels": [
                {
                    "entry": kernel.entry,
                    "text": kernel.text,
                    "reason": kernel.reason or None,
                    "cubin": kernel.cubin,
                    "count": kernel.count,
                    "launches": [
                        {"file": each.file, "count": each.count, "notes": list(each.notes)} for each in kernel.launches
                    ],
                    "over_limit": kernel.over,
                    "unusable": dict(kernel.unusable),
                }
                for kernel in self.kernels
            ],
            "notes": self.notes,
        }


def convert(processes: Sequence[Process], folder: Path, finder: TextFinder) -> Capture:
    """Write texts, launch files and the index into `folder`."""
    programs = tuple(dict.fromkeys(process.program for process in processes))
    work = _Conversion(folder, finder, Capture(folder, programs))
    for process in processes:
        for launch in process.launches:
            work.launch(process, launch)
        for record, count in process.over.items():
            kernel, _ = work.kernel(record.name, finder.find(record))
            kernel.over += count
            kernel.count += count
    work.capture.notes = _notes(processes)
    (folder / INDEX).write_text(json.dumps(work.capture.to_json(), indent=2) + "\n", encoding="utf-8")
    return work.capture


@dataclass(slots=True)
class _Conversion:
    folder: Path
    finder: TextFinder
    capture: Capture
    stems: set[str] = field(default_factory=set[str])
    kernels: dict[tuple[str, str | bytes], tuple[CapturedKernel, str]] = field(
        default_factory=dict[tuple[str, "str | bytes"], tuple[CapturedKernel, str]]
    )
    files: dict[str | bytes, str] = field(default_factory=dict["str | bytes", str])
    documents: dict[tuple[str, str], CapturedFile] = field(default_factory=dict[tuple[str, str], CapturedFile])

    def launch(self, process: Process, launch: LaunchRecord) -> None:
        text = self.finder.find(launch.kernel)
        kernel, stem = self.kernel(launch.kernel.name, text)
        count = process.counts[launch.number]
        kernel.count += count
        failure = process.failures.get(launch.number)
        if failure is not None:
            kernel.unusable[f"the driver refused it (error {failure})"] += count
            return
        if text.text is None:
            return
        if launch.kernel.places is None:
            kernel.unusable["the driver does not say where parameters lie (CUDA 12.4 or later does)"] += count
            return
        types = parameter_types(text.text, launch.kernel.name)
        if len(types) != len(launch.kernel.places):
            kernel.unusable[f"it has {len(launch.kernel.places)} parameters, its text {len(types)}"] += count
            return
        try:
            made = captured(launch, process.maps, launch.kernel.places, types, contents(process, launch))
        except ValueError as error:
            kernel.unusable[str(error)] += count
            return
        known = self.documents.get((stem, json.dumps(made.document)))
        if known is not None:
            known.count += count
            return
        number = len(kernel.launches) + 1
        notes = [note for flag, note in _NOTES.items() if launch.flags & flag]
        found = CapturedFile(f"{stem}.{number}.launch.json", count, tuple(notes))
        self.documents[stem, json.dumps(made.document)] = found
        kernel.launches.append(found)
        for name, (pointer, content) in made.saved.items():
            pointer["data"] = {"file": f"{stem}.{number}.{name}.npy"}
            write_npy(self.folder / f"{stem}.{number}.{name}.npy", content)
        (self.folder / found.file).write_text(launch_text(made.document), encoding="utf-8")

    def kernel(self, name: str, text: KernelText) -> tuple[CapturedKernel, str]:
        """The kernel of that name and text, and the stem of its files' names; its text is written."""
        content = text.text if text.text is not None else text.cubin
        known = self.kernels.get((name, content))
        if known is not None:
            return known
        stem = unique_name(short_name(name), self.stems)
        file: str | None = None
        if content:
            file = self.files.get(content)
            if file is None:
                base = unique_name(short_name(text.module), self.stems) if text.module else stem
                file = f"{base}.ptx" if isinstance(content, str) else f"{base}.cubin"
                data = content.encode("utf-8") if isinstance(content, str) else content
                (self.folder / file).write_bytes(data)
                self.files[content] = file
        if text.text is not None:
            kernel = CapturedKernel(name, file, "", None)
        else:
            kernel = CapturedKernel(name, None, text.reason, file)
        self.capture.kernels.append(kernel)
        self.kernels[name, content] = kernel, stem
        return kernel, stem


def launch_text(document: dict[str, object]) -> str:
    """A launch file as a person writes it: a line for each field and each parameter."""
    lines: list[str] = []
    for name, value in document.items():
        if name == "params" and value:
            params = ",\n    ".join(map(json.dumps, cast("list[object]", value)))
            lines.append(f'  "params": [\n    {params}\n  ]')
        else:
            lines.append(f"  {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _notes(processes: Sequence[Process]) -> list[str]:
    notes: list[str] = []
    graphs = sum(process.graph_launches for process in processes)
    if graphs:
        notes.append(
            f"{graphs} launch{'es' if graphs > 1 else ''} of graphs: their kernels are recorded once, when a stream is "
            "captured or a node is added; other kernels of graphs are not"
        )
    lost = sum(process.lost for process in processes)
    if lost:
        notes.append(f"{lost} launch{'es' if lost > 1 else ''} of kernels that the driver has no name for")
    for process in processes:
        if process.cut:
            notes.append(f"{process.program} was killed while it wrote a record; what came before is here")
    return notes
