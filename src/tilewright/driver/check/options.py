"""How is a text checked? What a caller may ask for, apart from what does it: a report that is kept needs no more.

Checked by: tests/driver/check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from tilewright.base.value import dataclass
from tilewright.driver.check.finding_filter import FindingFilter, finding_filter
from tilewright.driver.launch.given_launch import LaunchFile
from tilewright.driver.launch.launch_shapes import GivenShape
from tilewright.driver.repair.source_terms import Language

DEFAULT_BUDGET_SECONDS = 60.0
REPAIR_STEPS = 800_000
"""Work of a search for a repair: some ten seconds."""
Progress = Callable[[str, float], None]
"""Gets what is being done, and which share of it is done, 0 to 1."""


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """isa: interpretation of contested points, as `isa.readings_of` takes it; entry: check this kernel alone;
    budget_seconds: for each kernel, None for no limit; timeline: record what the roles did; progress: gets each
    kernel's name; repair_steps: work of the search for edits that fix what is refuted, 0 to look for none;
    dynamic_smem_bytes: of a launch that is not given; file_budget_seconds: for all kernels of a file, None for no
    limit; budget_steps: warp instructions for each kernel, None for no limit; block, cluster, grid: of a launch that is
    not given, or that leaves them out; allow, select, ignore: what is set aside, as `finding_filter` takes it;
    parameter_names: of the kernel, in the text's order, for messages; without them, those of the TTGIR beside the
    file; launches: of kernels of the text, each at most one; kernels that none of them names are checked without.

    source_roots: folders to look for the program's files in, as `SourceFiles` does; language: of that program, None
    where its files say so."""

    isa: str = "tolerant"
    entry: str | None = None
    budget_seconds: float | None = DEFAULT_BUDGET_SECONDS
    timeline: bool = False
    progress: Progress | None = None
    repair_steps: int = 0
    dynamic_smem_bytes: int | None = None
    file_budget_seconds: float | None = None
    source_roots: tuple[str, ...] = ()
    language: Language | None = None
    budget_steps: int | None = None
    block: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None
    grid: tuple[int, int, int] | None = None
    allow: Mapping[str, str] = field(default_factory=dict[str, str])
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    parameter_names: tuple[str, ...] = ()
    target: str | None = None
    """Of a text of the `ac` dialect, in place of the one that it names."""
    launches: tuple[LaunchFile, ...] = ()

    @property
    def set_aside(self) -> FindingFilter:
        """What the user sets aside. Raises TilewrightError for a name that no rule has."""
        return finding_filter(self.allow, self.select, self.ignore)

    @property
    def shape(self) -> GivenShape:
        return GivenShape(self.block, self.cluster, self.grid)
