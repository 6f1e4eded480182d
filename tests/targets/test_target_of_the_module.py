"""Facts come from the table of the target that a module is for, and no checking module names a target itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from tests.lower.lowered_programs import TARGET, gemm
from tests.machine.small_kernels import COPY_PARAMETERS, COPY_TILE, as_bytes, launch, module

from tilewright import legal
from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.base.plan import TensorMap, TensorMapParam
from tilewright.base.verdict import Proven, Refuted, Verdict
from tilewright.contract.replay.replay import replay
from tilewright.contract.typestate.typestate import verify
from tilewright.machine import copy_box
from tilewright.machine.core import model
from tilewright.targets import TARGET_NAMES, Target, nearest_target, target
from tilewright.targets.schema import FactValue

_ROOT = Path(__file__).parents[2] / "src" / "tilewright"
_CHECKING = (
    "contract", "machine", "legal", "driver/check", "driver/explore", "driver/launch", "driver/reduce", "driver/repair",
    "driver/reproof", "driver/capture", "driver/run",
)  # fmt: skip
_NAME = re.compile(r"(sm_\d+[af]?|gfx\w+)")
MAP = TensorMap(Element.BF16, (256, 64), (512,), (64, 64), swizzle="128B")


def changed(facts: Target, key: str, value: FactValue) -> Target:
    """The same target with another value in one row of its table."""
    return replace(facts, facts=MappingProxyType(dict(facts.facts) | {key: replace(facts.fact(key), value=value)}))


def verdict_of(name: str) -> Verdict:
    """The verdict on a kernel that loads a tile of a tensor map and stores it, as text for `name`."""
    kernel = module(COPY_TILE, parameters=COPY_PARAMETERS)
    params = TensorMapParam("source", MAP), TensorMapParam("target", MAP)
    tensor = np.zeros((64, 256), np.uint16)
    buffers = {each: as_bytes(tensor.copy()) for each in ("source", "target")}
    return replay(replace(kernel, target=(name,)), launch(*params, threads=64, grid=4), buffers)


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("mbarrier.count_max", 0, "MB201"),
        ("mbarrier.transaction_bytes_max", 8191, "MB201"),
        ("tensor_copy.extent_max", 255, "MF007"),
        ("tensor_map.stride_limit_bytes", 512, "MF007"),
        ("tensor_map.element_stride_max", 0, "MF007"),
        ("tensor_map.alignment_bytes", 256, None),
    ],
)
@pytest.mark.parametrize("name", TARGET_NAMES)
def test_another_value_in_a_target_s_table_changes_the_verdict_of_its_modules_alone(
    monkeypatch: pytest.MonkeyPatch, name: str, key: str, value: int, code: str | None
) -> None:
    def nearest(wanted: str) -> Target | None:
        found = nearest_target(wanted)
        return changed(found, key, value) if found is not None and found.name == name else found

    assert all(isinstance(verdict_of(each), Proven) for each in TARGET_NAMES)
    monkeypatch.setattr(model, "nearest_target", nearest)
    for other in TARGET_NAMES:
        if other != name:
            assert isinstance(verdict_of(other), Proven)
    if code is None:
        with pytest.raises(TilewrightError, match=f"declare it .align {value}"):
            verdict_of(name)
        return
    verdict = verdict_of(name)
    assert isinstance(verdict, Refuted) and verdict.findings[0].code == code


def test_the_typestate_proof_asks_the_target_that_it_is_given() -> None:
    (kernel,) = gemm(256, 256, 256).kernels
    facts = target(TARGET)
    assert isinstance(verify(kernel, facts), Proven)
    assert not isinstance(verify(kernel, changed(facts, "cta.shared_bytes_max", 1024)), Proven)
    assert not isinstance(verify(kernel, changed(facts, "mbarrier.transaction_bytes_max", 16)), Proven)


def test_legality_and_copies_ask_the_target_that_they_are_given() -> None:
    map, memory = legal.TensorMap("bf16", (256, 64), (512,), (64, 64), swizzle="128B"), np.zeros(1 << 16, np.uint8)
    for name in TARGET_NAMES:
        facts = target(name)
        narrow = changed(facts, "tensor_map.box_extent_max", 32)
        assert legal.check(map, facts).legal and not legal.check(map, narrow).legal
        assert copy_box(map, memory, (0, 0), target=facts).transaction_bytes == 8192
        with pytest.raises(TilewrightError, match="beyond a copy's 255"):
            copy_box(map, memory, (0, 0), target=changed(facts, "tensor_copy.extent_max", 255))


def names_in(text: str) -> Iterator[str]:
    """The targets that a module's code names: words of the text that are a target's name and nothing else."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAME.fullmatch(node.value):
            yield f"{node.lineno}: {node.value}"


def test_a_named_target_is_found() -> None:
    assert list(names_in('def f(a="sm_90a"):\n    """For sm_90a."""\n    return a == "gfx942"')) == [
        "1: sm_90a",
        "3: gfx942",
    ]


@pytest.mark.sample(4)
@pytest.mark.parametrize("folder", _CHECKING)
def test_no_module_that_checks_names_a_target(folder: str) -> None:
    files = sorted((_ROOT / folder).rglob("*.py"))
    assert files
    named = [f"{path.relative_to(_ROOT)}:{found}" for path in files for found in names_in(path.read_text("utf-8"))]
    assert named == []
