"""Which rules does an emitted text break that is not its program's, before it is run? Checked by:
tests/driver/reproof/test_tile_places.py, test_edited_text.py."""

from __future__ import annotations

from tilewright.contract.rules.typestate_codes import Rule

OTHER_TEXT = Rule(
    "LV090",
    "text-is-not-the-proven-text",
    "the emitted text is not that of its small instance but for extents",
    "The text that is run stands for the text that is shipped only if they differ in extents alone.",
    "derived: the argument of the second proof",
    "A lowering that unrolls by the extent.",
    "Report the program: this is a fault of the compiler.",
)
TILES_MISPLACED = Rule(
    "UM107",
    "tiles-misplaced",
    "the numbers of tiles do not lead each role to every place once",
    "Roles find a tile's place by its number: all to the same one, and each place of the grid by one number.",
    "derived: the program's meaning",
    "The producer takes bands of tiles to be 12 high, and the consumers 11.",
    "Report this: the emitted text is wrong.",
)
