"""How does a package give names of its modules without loading them before they are asked for?

Checked by: tests/base/test_lazy_names.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The package's `__getattr__`. names: of each module those that it defines, with spaces between."""
    homes = {name: module for module, listed in names.items() for name in listed.split()}

    def find(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
