"""Kernels proven in a test suite: `assert_proven(ptx, launch)` fails with the report where a kernel is not.

Installed with the package, so that the fixture is there in every suite; the function can be imported as well:

    def test_my_kernel(assert_proven):
        assert_proven(Path("kernel.ptx"), launch="launch.json")
        assert_proven(Path("other.ptx"), allow={"MB109": "the barrier is not used again"})

Unknown is no proof, and fails too unless `allow_unknown` says otherwise. Nothing of the checker is loaded before a test
asks for it. Checked by: tests/integrations/test_pytest_plugin.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from tilewright.base.check_report import FileReport
    from tilewright.driver.launch.given_launch import LaunchFile

Ptx = str | PathLike[str]
"""PTX text (a string of several lines, or one that begins with a directive or a comment), or the path of a file."""
Launch = str | PathLike[str] | Mapping[str, Any]
"""The path of a launch file, or what stands in one."""


class AssertProven(Protocol):
    """What the fixture `assert_proven` is."""

    def __call__(
        self,
        ptx: Ptx,
        launch: Launch | None = None,
        *,
        isa: str = "tolerant",
        entry: str | None = None,
        allow_unknown: bool = False,
        allow: Mapping[str, str] | None = None,
        ignore: Sequence[str] = (),
        budget_seconds: float | None = 60.0,
    ) -> FileReport: ...


def assert_proven(
    ptx: Ptx,
    launch: Launch | None = None,
    *,
    isa: str = "tolerant",
    entry: str | None = None,
    allow_unknown: bool = False,
    allow: Mapping[str, str] | None = None,
    ignore: Sequence[str] = (),
    budget_seconds: float | None = 60.0,
) -> FileReport:
    """Check every kernel of `ptx` (with a launch or `entry`, the one that it names) and return the report.

    allow: rules whose findings are set aside, by code or name, with the reason; ignore: without one. What they leave
    out is in each kernel's `exceptions`.

    Raises AssertionError, with the report as text, where a kernel is refuted or the text can't be checked; where one is
    unknown, unless `allow_unknown`. Raises TilewrightError for a mistake in the launch.
    """
    __tracebackhide__ = True
    from tilewright.driver.check.check import CheckOptions, check_file, check_text
    from tilewright.report.check_text import render_check

    options = CheckOptions(isa, entry, budget_seconds, allow=allow or {}, ignore=tuple(ignore))
    known = None if launch is None else _launch(launch)
    text = fspath(ptx)
    if isinstance(ptx, str) and _is_text(text):
        report = check_text(text, "<ptx>", launch=known, options=options)
    else:
        report = check_file(text, launch=known, options=options)
    accepted = ("proven", "unknown") if allow_unknown else ("proven",)
    if report.error or any(kernel.verdict not in accepted for kernel in report.kernels):
        raise AssertionError(f"not proven\n{render_check((report,))}")
    return report


def _is_text(ptx: str) -> bool:
    return "\n" in ptx or (ptx.lstrip().startswith((".", "//")) and not ptx.rstrip().endswith(".ptx"))


def _launch(launch: Launch) -> LaunchFile:
    from tilewright.driver.launch.launch_file import launch_from_json, read_launch_file

    if isinstance(launch, Mapping):
        return launch_from_json(dict(launch), "launch")
    return read_launch_file(fspath(launch))


@pytest.fixture(name="assert_proven")
def _fixture() -> AssertProven:  # pyright: ignore[reportUnusedFunction]  # pytest finds it by its mark
    """Fails the test unless every kernel of a PTX text is proven: `assert_proven(ptx, launch=None, isa=...)`."""
    return assert_proven
