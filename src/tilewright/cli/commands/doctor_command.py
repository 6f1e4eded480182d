"""`tilewright doctor`: what is here, at which version, and how to get what is not."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from tilewright.base.error import TilewrightError

if TYPE_CHECKING:
    from tilewright.runtime.doctor import Component

EXAMPLES = """examples:
  tilewright doctor
  tilewright doctor --format json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser  # it takes none of its own


def run(arguments: argparse.Namespace) -> int:
    from dataclasses import asdict

    from tilewright.runtime.doctor import inspect

    components = [*inspect(), _profiler()]
    if arguments.format == "json":
        print(json.dumps([asdict(component) for component in components], indent=2))
        return 0
    for component in components:
        mark = "ok     " if component.present else "missing"
        details = " ".join(part for part in (component.version, component.path) if part)
        print(f"{mark}  {component.name:<16} {details}".rstrip())
        if not component.present and component.remedy:
            print(f"         needed for {component.needed_for}; {component.remedy}")
    return 0


def _profiler() -> Component:
    from tilewright.runtime.doctor import Component
    from tilewright.runtime.nsight_compute import find_ncu

    needed_for = "tilewright profile"
    try:
        return Component("ncu", True, "", find_ncu(), "", needed_for)
    except TilewrightError as error:
        return Component("ncu", False, "", "", error.remedy, needed_for)
