"""Where is a kernel's PTX? In what the program loaded, or beside the cubin that it loaded.

A module that was given as PTX is its own text. Of a fat binary it is the PTX that its cubin was made of, or that the
driver compiled: another architecture's text is another kernel, and is not taken. Of a cubin it is what NVRTC had when
it was made, or the `.ptx` beside a `.cubin` of equal bytes in the folders where Triton keeps its files, and in folders
that the user names. In the latter a `.ptx` counts, too, that alone declares the kernel.

Not handled: texts that nvJitLink compiled in memory; text inside a cubin's debug sections.
Checked by: tests/driver/capture/test_capture.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tilewright.driver.capture.records import Image, KernelRecord
from tilewright.frontends.fatbin import container

_ELF = b"\x7fELF"
_MAGIC = container.MAGIC.to_bytes(4, "little")
_TYPE = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)")


@dataclass(frozen=True, slots=True)
class KernelText:
    """What was found.

    text: PTX, or None; reason: why there is none; cubin: what was loaded instead, or b""
    module: the name of a text of several kernels, after the file that holds it
    """

    text: str | None
    reason: str = ""
    cubin: bytes = b""
    module: str = ""


@dataclass(slots=True)
class TextFinder:
    """Finds texts; keeps what it read. folders: those that the user named; home: the user's home folder."""

    folders: Sequence[Path]
    home: Path
    contents: dict[Image, KernelText | tuple[container.Entry, ...]] = field(
        default_factory=dict[Image, "KernelText | tuple[container.Entry, ...]"]
    )
    cubins: dict[Path, dict[int, list[Path]]] = field(default_factory=dict[Path, dict[int, list[Path]]])
    named: list[str] | None = None

    def find(self, kernel: KernelRecord) -> KernelText:
        """The text of a kernel, or why there is none."""
        found = self._loaded(kernel)
        if found.text is not None and not declares(found.text, kernel.name):
            found = KernelText(None, "what was loaded does not declare it")
        if found.text is None:
            beside = self._beside(kernel, found.cubin) if found.cubin else None
            beside = beside or self._in_folders(kernel.name)
            if beside is not None:
                return KernelText(beside, cubin=found.cubin)
        return found

    def _loaded(self, kernel: KernelRecord) -> KernelText:
        image = kernel.image
        if image is None:
            return KernelText(None, "its module was loaded in a way that is not recorded")
        if image not in self.contents:
            self.contents[image] = _read(image)
        content = self.contents[image]
        if isinstance(content, KernelText):
            return content
        cubin, texts = container.loaded(content, kernel.arch)
        try:
            found = [text for text in (entry.text() for entry in texts) if declares(text, kernel.name)]
            code = cubin.content() if cubin is not None else b""
        except ValueError as error:
            return KernelText(None, f"its fat binary can't be read: {error}")
        if found:
            module = image.path.stem if image.place == "mapped" and found[0].count(".entry") > 1 else ""
            return KernelText(found[0], cubin=code, module=module)
        if cubin is None:
            return KernelText(None, f"its fat binary has nothing for sm_{kernel.arch}")
        variant = f"sm_{cubin.arch}{cubin.variant}"
        return KernelText(None, f"its fat binary has a cubin for {variant} without its PTX", code)

    def _beside(self, kernel: KernelRecord, cubin: bytes) -> str | None:
        """The text beside a file of the same bytes."""
        recorded = kernel.image.triton_folders if kernel.image is not None else ()
        for folder in (*self.folders, *recorded, self.home / ".triton" / "cache"):
            if folder not in self.cubins:
                self.cubins[folder] = _cubins_in(folder)
            for path in self.cubins[folder].get(len(cubin), ()):
                beside = path.with_suffix(".ptx")
                text = _text_at(beside) if beside.is_file() and path.read_bytes() == cubin else None
                if text is not None and declares(text, kernel.name):
                    return text
        return None

    def _in_folders(self, name: str) -> str | None:
        """The only text of the user's folders that declares the kernel."""
        if self.named is None:
            paths = [path for folder in self.folders for path in sorted(folder.rglob("*.ptx"))]
            self.named = [text for text in map(_text_at, paths) if text is not None]
        found = {text for text in self.named if declares(text, name)}
        return found.pop() if len(found) == 1 else None


def _read(image: Image) -> KernelText | tuple[container.Entry, ...]:
    if image.place == "lost":
        return KernelText(None, "its module could not be saved")
    try:
        with open(image.path, "rb") as stream:
            stream.seek(image.offset)
            data = stream.read(image.size_bytes)
    except OSError as error:
        return KernelText(None, f"{image.path} can't be read: {error.strerror}")
    if data[:4] == _MAGIC:
        try:
            return container.entries(data)
        except ValueError as error:
            return KernelText(None, f"its fat binary can't be read: {error}")
    if data[:4] == _ELF and image.text is not None:
        text = _text_at(image.text)
        return KernelText(text.rstrip("\0") if text is not None else None, "its text can't be read", data)
    if data[:4] == _ELF:
        return KernelText(None, "it was loaded as a cubin, without PTX", data)
    try:
        return KernelText(data.rstrip(b"\0").decode("utf-8"))
    except UnicodeDecodeError:
        return KernelText(None, "its module is neither PTX nor a cubin nor a fat binary")


def _cubins_in(folder: Path) -> dict[int, list[Path]]:
    found: dict[int, list[Path]] = {}
    for path in sorted(folder.rglob("*.cubin")):
        found.setdefault(path.stat().st_size, []).append(path)
    return found


def _text_at(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def declares(text: str, name: str) -> bool:
    """Whether a PTX text has a kernel of that name."""
    return re.search(rf"\.entry\s+{re.escape(name)}(?![\w$])", text) is not None


def parameter_types(text: str, name: str) -> tuple[str, ...]:
    """The types that a kernel declares its parameters with, "f32" for `.param .f32`."""
    match = re.search(rf"\.entry\s+{re.escape(name)}(?![\w$])\s*\(([^)]*)\)", text)
    return tuple(_TYPE.findall(match[1])) if match is not None else ()
