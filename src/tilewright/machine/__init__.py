"""The PTX machine: runs a kernel's text exactly, on a CPU, and yields values and events.

It never reaches what chose or judged a kernel. `copy_box` is the copy engine's load of one box, by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.machine.copy.box_image import BoxImage, copy_box

__all__ = ["BoxImage", "copy_box"]


def __getattr__(name: str) -> object:
    if name in __all__:
        import tilewright.machine.copy.box_image as module

        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
