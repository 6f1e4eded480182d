"""Does the emitted text do what was proven of its program? The second proof."""
