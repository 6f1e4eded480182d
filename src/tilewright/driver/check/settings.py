"""What does a project say of its checks? `[tool.tilewright]` in `pyproject.toml`, and launch files beside kernels.

    [tool.tilewright]
    isa = "tolerant,fenced_init=strict"
    budget = 30
    jobs = 4

    [tool.tilewright.launches]
    "kernels/gemm_*.ptx" = "launches/gemm.json"

    [tool.tilewright.allow]
    PX101 = "threads of one warp alone use it"

The table of the nearest `pyproject.toml` that has one counts, from the working folder upward; options of the command
line go before it. Globs and paths are relative to that file's folder, and `**` stands for any folders.

A kernel's launch is that of `--launch`, else those of every glob that matches its file, else, where a folder is
checked, those that lie beside it: `NAME.launch.json`, and `NAME.*.launch.json` for files of several kernels. Reading is
strict: what is not understood is one error with its place. Checked by: tests/driver/check/test_settings.py.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, NoReturn, cast

from tilewright.base.error import TilewrightError
from tilewright.base.span import Span
from tilewright.base.value import dataclass

FIELDS = ("isa", "budget", "file-budget", "jobs", "cache", "launches", "allow")
BUDGET_MOST_SECONDS = 86_400.0
JOBS_MOST = 1024
_NAME = "pyproject.toml"


@dataclass(frozen=True, slots=True)
class Settings:
    """What is not said is None or empty. folder: that globs and paths are relative to; budget_seconds,
    file_budget_seconds: for each kernel, for each file; launches: globs of kernels' files with launch files; allow:
    reasons by code."""

    folder: Path = field(default_factory=Path)
    isa: str | None = None
    budget_seconds: float | None = None
    file_budget_seconds: float | None = None
    jobs: int | None = None
    cache: bool | None = None
    launches: tuple[tuple[str, Path], ...] = ()
    allow: Mapping[str, str] = field(default_factory=dict[str, str])

    def launch_files(self, path: str, *, beside: bool) -> tuple[str, ...]:
        """Launch files for the kernels of the file at `path`: of the globs that match it, else those beside it.

        beside: the file was found in a folder. One that is named is checked for every launch: a file that happens to
        lie beside it must not make its proof a weaker one."""
        place = Path(os.path.realpath(path))
        named = [str(launch) for pattern, launch in self.launches if _matches(place, self.folder, pattern)]
        return tuple(dict.fromkeys(named)) or (launches_beside(path) if beside else ())


def launches_beside(path: str) -> tuple[str, ...]:
    """Launch files that lie beside a kernel's file, by their names."""
    stem = os.path.splitext(path)[0]
    several = sorted(glob.glob(f"{glob.escape(stem)}.*.launch.json"))
    own = f"{stem}.launch.json"
    return (*([own] if os.path.isfile(own) else []), *several)


def find_settings(folder: Path | None = None) -> Settings:
    """The settings that count in `folder` (the working folder if None); none at all where no file has the table.

    Raises TilewrightError, with file and place, for a table that is wrong.
    """
    start = (folder or Path()).resolve()
    for each in (start, *start.parents):
        path = each / _NAME
        if path.is_file():
            found = read_settings(path)
            if found is not None:
                return found
    return Settings()


def settings_of(config: str | None, isolated: bool = False) -> Settings:
    """The settings of the file `config`; without it, those that count in the working folder; isolated: none.

    Raises TilewrightError as `find_settings`, and where `config` has no `[tool.tilewright]`.
    """
    if config is None:
        return Settings() if isolated else find_settings()
    if isolated:
        raise TilewrightError("--config and --isolated contradict each other", remedy="leave one of them out")
    found = read_settings(Path(config))
    if found is None:
        raise TilewrightError(f"{config} has no [tool.tilewright]", remedy="add the table, or drop --config")
    return found


def read_settings(path: Path) -> Settings | None:
    """The settings of one file, None where it has no `[tool.tilewright]`. Raises TilewrightError as above."""
    import tomllib  # most folders have no such file

    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except OSError as error:
        raise TilewrightError(f"cannot read {path}: {error.strerror}", remedy="check the path") from error
    except UnicodeDecodeError as error:
        raise TilewrightError(f"{path} is no text: byte {error.start} is not UTF-8", remedy="write TOML") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        place = re.search(r"line (\d+), column (\d+)", str(error))
        line, column = (int(place[1]), int(place[2])) if place else (1, 1)
        span = Span(str(path), line, column)
        raise TilewrightError(
            f"no TOML: {str(error).split(' (at')[0]}", span=span, remedy="correct the file"
        ) from error
    tools: object = document.get("tool")
    table = cast("dict[str, object]", tools).get("tilewright") if isinstance(tools, dict) else None
    if table is None:
        return None
    return _Reader(path, text).settings(table)


@dataclass(frozen=True, slots=True)
class _Reader:
    path: Path
    text: str

    def refuse(self, key: str, problem: str, remedy: str) -> NoReturn:
        """Raise the error of a key, at its line."""
        last = key.rsplit(".", 1)[-1]
        lines = self.text.splitlines()
        pattern = re.compile(rf"""^\s*(\[tool\.tilewright\.)?["']?{re.escape(last)}["']?\s*[=\].]""")
        numbers = [number for number, line in enumerate(lines, start=1) if pattern.match(line)]
        span = Span(str(self.path), numbers[-1], 1, lines[numbers[-1] - 1]) if numbers else None
        place = "" if span is not None else f"{self.path}: "
        raise TilewrightError(f"{place}tool.tilewright.{key} {problem}", span=span, remedy=remedy)

    def settings(self, table: object) -> Settings:
        if not isinstance(table, dict):
            self.refuse("", "is no table", "write [tool.tilewright]")
        values = cast("dict[str, Any]", table)
        for name in values:
            if name not in FIELDS:
                from difflib import get_close_matches

                near = get_close_matches(name, FIELDS, n=1)
                remedy = f"did you mean {near[0]}?" if near else f"it has {', '.join(FIELDS)}"
                self.refuse(name, "is not known", remedy)
        return Settings(
            self.path.parent.resolve(),
            self._isa(values.get("isa")),
            self._seconds(values, "budget"),
            self._seconds(values, "file-budget"),
            self._jobs(values.get("jobs")),
            self._truth(values.get("cache")),
            tuple(
                (pattern, self.path.parent.resolve() / launch)
                for pattern, launch in self._texts(values, "launches", "a glob and a launch file").items()
            ),
            self._allow(values),
        )

    def _isa(self, value: object) -> str | None:
        from tilewright.driver.rules.isa import interpretations_of

        if value is None:
            return None
        if not isinstance(value, str):
            self.refuse("isa", f"is {value!r}", 'write text, as in isa = "strict"')
        try:
            interpretations_of(value)
        except TilewrightError as error:
            self.refuse("isa", f"is {value!r}: {error.message}", error.remedy)
        return value

    def _seconds(self, values: Mapping[str, Any], name: str) -> float | None:
        value = values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= BUDGET_MOST_SECONDS:
            self.refuse(name, f"is {value!r}", f"write seconds, more than 0 and at most {BUDGET_MOST_SECONDS:g}")
        return float(value)

    def _jobs(self, value: object) -> int | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= JOBS_MOST:
            self.refuse("jobs", f"is {value!r}", "write a number of processes; 0 for one on each processor")
        return value

    def _truth(self, value: object) -> bool | None:
        if value is not None and not isinstance(value, bool):
            self.refuse("cache", f"is {value!r}", "write true or false")
        return value

    def _texts(self, values: Mapping[str, Any], name: str, what: str) -> dict[str, str]:
        held = values.get(name, {})
        if not isinstance(held, dict):
            self.refuse(name, "is no table", f"write [tool.tilewright.{name}] with lines of {what}")
        for key, value in cast("dict[str, Any]", held).items():
            if not isinstance(value, str) or not value.strip():
                self.refuse(f"{name}.{key}", f"is {value!r}", f"write {what}, as text")
        return cast("dict[str, str]", held)

    def _allow(self, values: Mapping[str, Any]) -> dict[str, str]:
        from tilewright.driver.rules.catalog import all_rules

        allowed = self._texts(values, "allow", "a code and a reason")
        codes = {rule.code for rule in all_rules()}
        for code in allowed:
            if code not in codes:
                from difflib import get_close_matches

                near = get_close_matches(code, codes, n=1)
                remedy = f"did you mean {near[0]}?" if near else "`tilewright explain` lists the codes"
                self.refuse(f"allow.{code}", "is no code of a finding", remedy)
        return allowed


def _matches(place: Path, folder: Path, pattern: str) -> bool:
    """Does a glob, relative to `folder`, name this file? `*` stays within a folder, `**` does not."""
    try:
        relative = place.relative_to(folder).as_posix()
    except ValueError:
        return False
    expression = "".join(
        ".*" if part == "**" else re.escape(part) if not any(mark in part for mark in "*?[") else _within(part)
        for part in re.split(r"(\*\*|/)", pattern)
    ).replace(r".*/", r"(?:.*/)?")
    return re.fullmatch(expression, relative) is not None


def _within(part: str) -> str:
    """A glob without `/` as a regular expression whose wildcards match no `/`."""
    translated = fnmatch.translate(part)
    return translated.removeprefix("(?s:").removesuffix(r")\Z").replace(".*", "[^/]*")
