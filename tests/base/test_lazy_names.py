"""Names of a package that are loaded when they are asked for: each is there, and no other is."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

from tilewright import layout, legal, machine


@pytest.mark.parametrize("package", [layout, legal, machine], ids=lambda package: package.__name__)
def test_every_name_is_found_and_no_other(package: ModuleType) -> None:
    for name in package.__all__:
        assert getattr(package, name).__module__.startswith("tilewright.")
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'chek'"):
        _ = package.chek


def test_a_module_is_loaded_with_its_first_name() -> None:
    code = (
        "import sys; from tilewright import layout; name = 'tilewright.layout.swizzle'; assert name not in sys.modules;"
        "layout.Swizzle; assert name in sys.modules and 'Swizzle' in vars(layout)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
