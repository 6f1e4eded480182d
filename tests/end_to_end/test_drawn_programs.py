"""Programs that nobody wrote, on either target: NumPy's numbers, or a refusal at a line."""

import importlib.util
from pathlib import Path

import pytest
from tests.end_to_end.drawn_programs import drawn_program

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.cli.arrays import random_inputs
from tilewright.cli.commands.run_command import ERROR_LIMITS, relative_errors
from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.run.run import run_on_machine
from tilewright.frontends.tile.kernel import Kernel

_LIMIT = 2 * ERROR_LIMITS[Element.BF16]
"""What is multiplied again was rounded to 16 bits."""


def _kernel(seed: int, folder: Path) -> tuple[Kernel, dict[str, int], str]:
    drawn = drawn_program(seed)
    path = folder / f"drawn_{seed}.py"
    path.write_text(drawn.text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.drawn, drawn.dims, drawn.element


@pytest.mark.sample(2)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("seed", [*range(60), 100])
def test_a_drawn_program_is_computed_or_refused(seed: int, target: str, tmp_path: Path) -> None:
    kernel, dims, element = _kernel(seed, tmp_path)
    try:
        made = compile_kernel(kernel, target=target, dims=dims, dtype=element)
    except TilewrightError as refusal:
        assert refusal.span is not None and refusal.span.file == kernel.file and refusal.remedy, refusal
        return
    bundle = made.bundle()
    inputs = random_inputs([each for each in bundle.plan.buffers if each.role == "input"], seed)
    stored = {each.name: each.element for each in bundle.plan.buffers if each.role == "output"}
    outputs = run_on_machine(bundle, tuple(inputs.values()))
    errors = relative_errors(bundle, inputs, dict(zip(stored, outputs if len(stored) > 1 else (outputs,), strict=True)))
    multiplied = "tw.dot" in drawn_program(seed).text
    limits = {name: _LIMIT if multiplied else ERROR_LIMITS[element] for name, element in stored.items()}
    assert errors is not None and all(error <= limits[name] for name, error in errors.items()), errors


def test_most_draws_are_programs(tmp_path: Path) -> None:
    """A draw that is refused for what it says checks nothing."""
    found = 0
    for seed in range(0, 60, 5):
        kernel, dims, element = _kernel(seed, tmp_path)
        try:
            compile_kernel(kernel, dims=dims, dtype=element, rerun=False, assembled=False)
        except TilewrightError:
            continue
        found += 1
    assert found >= 9
