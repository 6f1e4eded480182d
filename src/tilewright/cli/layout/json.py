"""What does `tilewright layout` say as JSON?

`input` is the layout, `steps` each operation with its answer, `result` the last layout there was, `picture` the cells
where `--show` asks for them. An answer's `kind` says what it is. Stable within `version`. Checked by:
tests/cli/commands/test_layout_command.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.cli.layout.lines import properties
from tilewright.cli.layout.steps import Answer, Chain
from tilewright.layout.answer import NotDecided, NotExpressible
from tilewright.layout.equality import Different, Equal
from tilewright.layout.layout import Layout
from tilewright.layout.linear.hierarchy import Hierarchy
from tilewright.layout.linear.maps import LinearLayout
from tilewright.layout.nested import Nested
from tilewright.layout.pieces.piecewise import Piecewise
from tilewright.solve.layout_relation import Relation

if TYPE_CHECKING:
    from tilewright.legal.descriptor.instruction_layout import InstructionLayout
    from tilewright.report.figures.layout_grid import LayoutGrid

VERSION = 1


def chain_to_json(chain: Chain, operand: InstructionLayout | None, grid: LayoutGrid | None) -> dict[str, Any]:
    """The whole of what is printed."""
    document: dict[str, Any] = {"version": VERSION, "input": answer_to_json(chain.start)}
    if operand is not None:
        document["instruction"] = {
            "name": operand.name,
            "operand": operand.operand,
            "inputs": list(operand.inputs),
            "outputs": list(operand.outputs),
            "source": operand.source,
            "targets": list(operand.targets),
        }
    document["steps"] = [
        {"operation": step.operation, "argument": step.argument, "answer": answer_to_json(step.answer)}
        for step in chain.steps
    ]
    document["result"] = answer_to_json(chain.result)
    if grid is not None:
        document["picture"] = grid_to_json(grid)
    return document


def answer_to_json(answer: Answer) -> dict[str, Any]:
    """One layout, or what an operation says instead."""
    match answer:
        case Layout():
            return layout_to_json(answer)
        case LinearLayout():
            return {
                "kind": "linear",
                "inputs": answer.input_sizes,
                "outputs": answer.output_sizes,
                "bases": {name: [list(image) for image in images] for name, images in answer.bases.items()},
            }
        case Hierarchy():
            return {
                "kind": "hierarchy",
                "levels": [
                    {
                        "name": level.name,
                        "modes": [{"extent": mode.extent, "steps": list(mode.steps)} for mode in level.modes],
                    }
                    for level in answer.levels
                ],
                "outputs": dict(answer.outputs),
                "offsets": list(answer.offsets),
            }
        case Piecewise():
            return {
                "kind": "affine",
                "extents": list(answer.extents),
                "outputs": answer.outputs,
                "pieces": [
                    {
                        "box": [list(each) for each in piece.box],
                        "matrix": [list(row) for row in piece.matrix],
                        "offsets": list(piece.offsets),
                    }
                    for piece in answer.pieces
                ],
            }
        case NotExpressible(reason):
            return {"kind": "not-expressible", "reason": reason}
        case NotDecided(reason, would_decide):
            return {"kind": "undecided", "reason": reason, "would_decide": would_decide}
        case Different(coordinate, left, right, sizes):
            return {
                "kind": "different", "coordinate": coordinate, "left": left, "right": right, "sizes": dict(sizes),
            }  # fmt: skip
        case Equal(by):
            return {"kind": "equal", "by": by}
        case Relation():
            return {"kind": "set", "text": answer.complete, "symbols": dict(answer.symbols)}
        case int() | str():
            return {"kind": "value", "value": answer}


def layout_to_json(layout: Layout) -> dict[str, Any]:
    """A layout's fields; symbolic sizes as texts."""
    swizzle = layout.swizzle
    return {
        "kind": "layout",
        "text": str(layout),
        "shape": _plain(layout.shape),
        "stride": _plain(layout.stride),
        "offset": _plain(layout.offset),
        "swizzle": None if swizzle is None else [swizzle.bits, swizzle.base, swizzle.shift],
        "size": _plain(layout.size),
        "cosize": None if layout.is_symbolic else layout.cosize,
        **properties(layout),
    }


def grid_to_json(grid: LayoutGrid) -> dict[str, Any]:
    """The labels of a picture's cells, by row."""
    return {
        "row_name": grid.row_name,
        "column_name": grid.column_name,
        "first_row": grid.first_row,
        "first_column": grid.first_column,
        "rows": grid.rows,
        "columns": grid.columns,
        "cells": [[None if cell is None else cell.label for cell in row] for row in grid.cells],
    }


def _plain(value: Nested) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value if isinstance(value, int) else str(value)
