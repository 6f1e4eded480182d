"""PTX text to values and back: `reader.read`, `writer.write`, and the values of `ast`."""
