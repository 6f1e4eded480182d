"""The test data of tensor copies: of each class that `tma_copies` measured, some copies that left few bytes.

`python -m bench.probes.tma_trim FOLDER tests/data/tma_copies.npz`. The choice looks at sizes only, never at whether the
model agreed: some at even distances of those that are small enough, since they stand there by kernel.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def main() -> int:
    parser = argparse.ArgumentParser(description="Test data from the archives of tma_copies.")
    parser.add_argument("folder", type=Path, help="where the archives are")
    parser.add_argument("out", type=Path, help="the archive to write")
    parser.add_argument("--rows", type=int, default=60, help="copies of each class")
    parser.add_argument("--bytes", type=int, default=1536, help="the most that one of them may have left")
    arguments = parser.parse_args()
    arrays: dict[str, NDArray[np.generic]] = {}
    for path in sorted(arguments.folder.glob("*.npz")):
        with np.load(path) as archive:
            arrays["special"] = archive["special"]
            for key in archive.files:
                if key.endswith(".cases"):
                    name = key.removesuffix(".cases")
                    rows, data = _chosen(
                        json.loads(str(archive[key])), archive[f"{name}.data"], arguments.rows, arguments.bytes
                    )
                    arrays[key], arrays[f"{name}.data"] = np.array(json.dumps(rows)), data
    with arguments.out.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    return 0


def _chosen(
    rows: list[dict[str, Any]], data: NDArray[np.uint8], count: int, most_bytes: int
) -> tuple[list[dict[str, Any]], NDArray[np.uint8]]:
    ends = np.cumsum([row["bytes"] for row in rows])
    small = [index for index, row in enumerate(rows) if row["bytes"] <= most_bytes]
    chosen = [small[int(at)] for at in np.linspace(0, len(small) - 1, min(count, len(small)))] if small else []
    kept = [rows[index] for index in chosen]
    pieces = [data[int(ends[index]) - rows[index]["bytes"] : int(ends[index])] for index in chosen]
    return kept, np.concatenate(pieces) if pieces else data[:0]


if __name__ == "__main__":
    sys.exit(main())
