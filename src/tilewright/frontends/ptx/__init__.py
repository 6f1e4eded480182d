"""PTX text to values: `reader.read`, the values of `ast`, and `source.source_map` for findings."""
