"""Which files of a folder are checked, and which are not?

Its `*.ptx` files, sorted; a folder without any is checked by its `*.ttgir` files, else by its `*.ac.mlir` files. Other
files of kernels (TTGIR beside PTX, as in Triton's cache, MLIR, cubins) are skipped, and counted so that a report can
say so.
Checked by: tests/driver/check/sources/test_folder.py.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator

from tilewright.base.check_report import SkippedFiles
from tilewright.driver.check.sources.embedded import names_of

CHECKED_SUFFIXES = (".ptx", ".ttgir", ".ac.mlir")
"""Of the files of a folder, those with the first of these suffixes that any file has are checked."""
_KERNEL_SUFFIXES = (*CHECKED_SUFFIXES, ".mlir", ".cubin", ".fatbin", ".cu", ".twb")
"""Files that hold kernels: a reader may take them for checked."""


def expand(paths: Iterable[str]) -> Iterator[str]:
    """Files as they are, binaries as each PTX text in them; folders as the files below them that are checked. A folder
    without any is given as it is, and is then an error to read."""
    for given in paths:
        if not os.path.isdir(given):
            yield from names_of(given)
            continue
        _, found = _checked(_files(given))
        yield from sorted(found) or [given]


def skipped_files(paths: Iterable[str]) -> tuple[SkippedFiles, ...]:
    """What of each folder is not checked, where there is anything."""
    found: list[SkippedFiles] = []
    for folder in paths:
        if not os.path.isdir(folder):
            continue
        files = _files(folder)
        suffix, checked = _checked(files)
        others = Counter(os.path.splitext(path)[1] for path in files if not path.endswith(suffix))
        if checked and others:
            found.append(SkippedFiles(folder, suffix, len(checked), tuple(sorted(others.items()))))
    return tuple(found)


def _checked(files: list[str]) -> tuple[str, list[str]]:
    """The suffix of the files that are checked, and these files."""
    for suffix in CHECKED_SUFFIXES:
        if chosen := [path for path in files if path.endswith(suffix)]:
            return suffix, chosen
    return CHECKED_SUFFIXES[0], []


def _files(folder: str) -> list[str]:
    return [
        os.path.join(below, name)
        for below, _, names in os.walk(folder)
        for name in names
        if name.endswith(_KERNEL_SUFFIXES)
    ]
