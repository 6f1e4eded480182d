"""Compiles products up to the text that is emitted, for `python -m bench replay`, with whatever sources are first on
PYTHONPATH: those beside it, or another commit's.

    PYTHONPATH=TREE/src python -m bench.replay_worker      # reads a JSON object a line, answers with one

The compiler of another commit is asked too, so that nothing of it is taken but the few names of `ENTRY_POINTS`, each
looked for where it stands now and where it stood before (`EARLIER`). Whoever moves one adds its earlier place there.
Emission needs neither ptxas nor a GPU; of the proofs the one of the program is made, as it comes before the text.

Not handled: texts that are compiled anew because registers spilled, which ptxas would have to say.
Checked by: tests/benchmarks/test_replay.py.
"""

from __future__ import annotations

import json
import signal
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

EARLIER: dict[str, tuple[str, ...]] = {
    "tilewright.driver.compile.compile": ("tilewright.driver.compile",),
    "tilewright.driver.compile.kernels": ("tilewright.driver.kernels",),
    "tilewright.driver.compile.kernels_scaled": ("tilewright.driver.kernels_scaled",),
    "tilewright.synth.tile.wanted": ("tilewright.synth.wanted", "tilewright.synth.decide"),
}
"""Where modules stood in earlier commits, the latest first, by where they stand now."""
ENTRY_POINTS = {
    "compile_kernel": "tilewright.driver.compile.compile",
    "Wanted": "tilewright.synth.tile.wanted",
    "to_json": "tilewright.ir.decisions",
    "plan_to_json": "tilewright.base.plan_json",
    "TilewrightError": "tilewright.base.error",
}
"""All that is taken of a compiler besides the tile programs that come with it, with the module that has it."""


def look_up(module: str, name: str) -> Any:
    """`name` of `module`, or of where that stood. Raises LookupError where neither has it."""
    places = (module, *EARLIER.get(module, ()))
    for place in places:
        try:
            return getattr(import_module(place), name)
        except (ModuleNotFoundError, AttributeError):
            continue
    raise LookupError(f"no {name} in {' or '.join(places)}")


def entry_points() -> dict[str, Any]:
    """Those of the compiler at hand. Raises LookupError where it lacks one."""
    return {name: look_up(module, name) for name, module in ENTRY_POINTS.items()}


def answer(compiler: Mapping[str, Any], product: Mapping[str, Any]) -> dict[str, Any]:
    """What the compiler makes of a product (`replay_products.Asked`, as JSON): its decisions and plan as JSON values,
    and the texts of its `ac` kernels and of its PTX. Or why there are none: `refused`, in the compiler's words, or
    `fault`, what else it ended with."""
    try:
        module, _, name = product["program"].partition(":")
        found = look_up(module, name)
        program = found if product["arguments"] is None else found(*_tuples(product["arguments"]))
        wanted = compiler["Wanted"](**{name: _tuples(value) for name, value in product["wanted"].items()})
    except Exception as error:  # a program may use what a compiler of another commit lacks
        return {"fault": f"cannot be asked of this compiler: {error}"}
    try:
        made = compiler["compile_kernel"](
            program, dims=product["dims"], dtype=product["dtype"], strides=_tuples(product["strides"]), wanted=wanted,
            rerun=False, assembled=False,
        )  # fmt: skip
    except compiler["TilewrightError"] as error:
        return {"refused": f"{error.message} ({error.remedy})" if error.remedy else error.message}
    except Exception as error:  # a compiler that is being changed may end with any, and others' texts are wanted still
        return {"fault": f"{type(error).__name__}: {error} {_place(error)}"}
    decided = [part.decisions for part in getattr(made, "parts", ())]
    return {
        "decisions": {"programs": list(map(compiler["to_json"], decided))}
        if len(decided) > 1
        else compiler["to_json"](made.decisions),
        "ac": "".join(f"// {entry}\n{module}\n" for entry, module in made.modules.items()),
        "ptx": made.ptx,
        "plan": compiler["plan_to_json"](made.plan),
    }


def _tuples(value: Any) -> Any:
    """JSON's lists as the tuples that they were."""
    if isinstance(value, list):
        return tuple(_tuples(item) for item in value)
    return {name: _tuples(item) for name, item in value.items()} if isinstance(value, dict) else value


def _place(error: Exception) -> str:
    """Where it was raised: the file's name, which is the same wherever the sources lie, and the function."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"({Path(frames[-1].filename).name}, {frames[-1].name})" if frames else ""


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks is interrupted, and then asks no more
    answers, sys.stdout = sys.stdout, sys.stderr
    try:
        compiler = entry_points()
    except LookupError as error:
        print(json.dumps({"lacks": str(error)}), file=answers, flush=True)
        return 2
    print(json.dumps({"ready": look_up("tilewright", "__file__")}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(compiler, json.loads(line))), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
