"""PTX text to values: `reader.read`, the values of `ast`, and `source_of` for findings."""

from tilewright.frontends.ptx.source import source_of

__all__ = ["source_of"]
