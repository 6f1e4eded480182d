"""Which bytes did a launch's buffers have? Saved beside the launch file as .npy, where the capture asked for them.

Checked by: tests/driver/capture/test_capture.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tilewright.driver.capture.launches import CapturedLaunch
from tilewright.driver.capture.records import LaunchRecord, Process


@dataclass(frozen=True, slots=True)
class BufferFiles:
    """Names the files of one launch: STEM.BUFFER.npy in `folder`."""

    process: Process
    launch: LaunchRecord
    folder: Path
    stem: str

    def added(self, made: CapturedLaunch) -> dict[str, object]:
        """The document, its buffers written."""
        for name, index in made.buffers.items():
            saved = self.process.buffers.get((self.launch.number, index))
            if saved is None or not saved.is_file():
                continue
            import numpy as np  # a machine with a GPU may have nothing but Python

            np.save(self.folder / f"{self.stem}.{name}.npy", np.fromfile(saved, np.uint8))
        return made.document
