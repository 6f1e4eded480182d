"""Kernels that fail behind a guard fail at their witness, their twins do not.

The long run judges the whole family; `python -m bench guarded` prints the table.
"""

import pytest

from tests.guarded.judging import ground_truth, unlaunched
from tests.guarded.kernels import GuardedKernel, family
from tilewright.frontends.ptx.reader import read

_FAMILY = family()
_SAMPLE_OF_TRUTH = _FAMILY[::8]
_PARTS = 16
"""Of the family, each a test: in one, it would be the longest of the long run, which others wait for."""


def _named(kernels: tuple[GuardedKernel, ...]) -> list[object]:
    return [pytest.param(kernel, id=kernel.name) for kernel in kernels]


def test_the_family_is_large_and_varied() -> None:
    assert len(_FAMILY) >= 600
    assert len({kernel.guard for kernel in _FAMILY}) >= 100
    assert len({(kernel.protocol, kernel.bug) for kernel in _FAMILY}) >= 55
    assert len({kernel.buggy for kernel in _FAMILY}) == len(_FAMILY)


def test_every_text_is_read_and_differs_from_its_twin() -> None:
    for kernel in _FAMILY:
        for text in (kernel.buggy, kernel.fixed):
            assert not read(text, kernel.name, tolerant=True).unread
        assert kernel.buggy != kernel.fixed


@pytest.mark.sample(30)
@pytest.mark.parametrize("kernel", _named(_SAMPLE_OF_TRUTH))
def test_a_buggy_kernel_fails_at_its_witness_and_its_twin_never(kernel: GuardedKernel) -> None:
    assert not ground_truth(kernel)


@pytest.mark.full
@pytest.mark.parametrize("part", range(_PARTS))
def test_every_buggy_kernel_fails_at_its_witness_and_its_twin_never(part: int) -> None:
    assert not [line for kernel in _FAMILY[part::_PARTS] for line in ground_truth(kernel)]


def _wrong(kernel: GuardedKernel) -> list[str]:
    """What a check without a launch gets wrong of a kernel and its twin."""
    found = unlaunched(kernel)
    return (
        [f"{found.name}: {found.buggy} ({found.buggy_why}), {found.fixed} ({found.fixed_why})"] if found.wrong else []
    )


def _of_every_group(most: int) -> tuple[GuardedKernel, ...]:
    """The groups in turn, from the middle of each."""
    groups: dict[str, list[GuardedKernel]] = {}
    for kernel in _FAMILY:
        groups.setdefault(kernel.group, []).append(kernel)
    share = -(-most // len(groups))
    spread = [each[:: max(1, len(each) // share)][:share] for each in groups.values()]
    return tuple(kernel for each in spread for kernel in each)[:most]


@pytest.mark.sample(5)
@pytest.mark.parametrize("kernel", _named(_of_every_group(29)))
def test_without_a_launch_no_buggy_kernel_is_proven_and_no_fixed_one_refuted(kernel: GuardedKernel) -> None:
    assert not _wrong(kernel)


@pytest.mark.full
@pytest.mark.parametrize("part", range(_PARTS))
def test_without_a_launch_nothing_of_the_family_is_wrong(part: int) -> None:
    assert not [line for kernel in _FAMILY[part::_PARTS] for line in _wrong(kernel)]
