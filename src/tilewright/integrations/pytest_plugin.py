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
from typing import TYPE_CHECKING, Any, Protocol, cast

import pytest

if TYPE_CHECKING:
    from tilewright.base.check_report import FileReport

Ptx = str | PathLike[str] | object
"""PTX text (a string of several lines, or one that begins with a directive or a comment), the path of a file, or a
compiled kernel of Triton, CuPy or `tilewright.compile`."""
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

    Args:
        ptx: PTX text, the path of a file, or a compiled kernel.
        launch: A launch file's path or content. Without one, launches are explored.
        isa: Interpretation of contested points, as `--isa` takes it.
        entry: Check this kernel alone.
        allow_unknown: Accept kernels that are neither proven nor refuted.
        allow: Rules whose findings are set aside, by code or name, with the reason. Each kernel's `exceptions` names
            what they leave out.
        ignore: Rules whose findings are set aside without a reason.
        budget_seconds: For each kernel; None for no limit.

    Raises:
        AssertionError: A kernel is refuted, or unknown without `allow_unknown`, or the text can't be checked; with the
            report as text.
        TilewrightError: There is a mistake in the launch.
    """
    __tracebackhide__ = True
    from tilewright.driver.check.check import check_file, check_text
    from tilewright.driver.check.options import CheckOptions
    from tilewright.driver.check.public import is_text, launch_of, ptx_of
    from tilewright.report.findings.check_text import render_check

    options = CheckOptions(isa, entry, budget_seconds, allow=allow or {}, ignore=tuple(ignore))
    known = launch_of(launch)
    if isinstance(ptx, str) and is_text(ptx):
        report = check_text(ptx, "<ptx>", launch=known, options=options)
    elif isinstance(ptx, (str, PathLike)):
        report = check_file(fspath(cast("str | PathLike[str]", ptx)), launch=known, options=options)
    else:
        name, text = ptx_of(ptx)
        report = check_text(text, f"<{name}>", launch=known, options=options)
    accepted = ("proven", "unknown") if allow_unknown else ("proven",)
    if report.error or any(kernel.verdict not in accepted for kernel in report.kernels):
        raise AssertionError(f"not proven\n{render_check((report,))}")
    return report


@pytest.fixture(name="assert_proven")
def _fixture() -> AssertProven:  # pyright: ignore[reportUnusedFunction]  # pytest finds it by its mark
    """Fails the test unless every kernel of a PTX text is proven: `assert_proven(ptx, launch=None, isa=...)`."""
    return assert_proven
