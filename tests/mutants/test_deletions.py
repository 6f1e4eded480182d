"""Deletions of a kind of synchronization are made as said; what is still proven after one has an argument."""

import re
from pathlib import Path

import pytest

from tests.guarded.rings import ring
from tests.guarded.sections import SHARED
from tests.guarded.text import kernel_text, launch_json
from tests.mutants.arguments import Subject, argument
from tests.mutants.deletions import Deletion, deletions, with_traps
from tilewright.driver.launch.launch_file import launch_from_json, read_launch_file
from tilewright.frontends.ptx.reader import read

_CORPUS = Path(__file__).parent.parent / "data" / "ptx" / "corpus"


def _ring(change: str = "", instead: str = "") -> Subject:
    body = ring(None, "    mov.b32 %r_count, %r_n;")
    text = kernel_text("ring", body, ("n",), shared=SHARED).replace(change, instead)
    return Subject(text, "ring.ptx", "ring", launch_from_json(launch_json({"n": 5}, grid=1), "launch.json"))


def _made(subject: Subject) -> list[Deletion]:
    module = read(subject.text, subject.file, tolerant=True)
    return list(deletions(subject.text, module, module.kernels[0]))


def _verdict(subject: Subject, text: str) -> str:
    report = subject.check(text)
    return report.verdict if report is not None else "error"


@pytest.mark.full
def test_deletions_keep_lines_and_are_read() -> None:
    for path in sorted(_CORPUS.rglob("*.ptx")):
        text = path.read_text("utf-8")
        module = read(text, path.name, tolerant=True)
        made = list(deletions(text, module, module.kernels[0]))
        assert made
        for each in made:
            assert each.text != text and each.text.count("\n") == text.count("\n")
            assert not read(each.text, path.name, tolerant=True).unread


def test_a_ring_without_any_of_its_synchronization_is_refuted_or_has_an_argument() -> None:
    subject = _ring()
    assert _verdict(subject, subject.text) == "proven"
    verdicts = {each.kind: _verdict(subject, each.text) for each in _made(subject)}
    assert {"announcements", "waits: mbarrier", "arrivals: all", "inits: mbarrier"} <= verdicts.keys()
    (left,) = [each for each in _made(subject) if _verdict(subject, each.text) != "refuted"]
    assert left.kind == "fences: mbarrier init"
    assert argument(subject, left.text).startswith("contested: fenced_init (MB105 ")


def test_an_announcement_becomes_an_arrival() -> None:
    subject = _ring()
    (plain,) = [each for each in _made(subject) if each.kind == "announcements"]
    (line,) = plain.lines
    assert re.fullmatch(r"\s*mbarrier\.arrive\.shared::cta\.b64 _, \[%r\d+\];", plain.text.split("\n")[line - 1])


def test_what_is_not_executed_is_said() -> None:
    """A store that is waited for where no launch of this number gets."""
    extra = (
        "setp.gt.s32 %p_far, %r_n, 1000;\n"
        "    @%p_far cp.async.bulk.commit_group;\n    @%p_far cp.async.bulk.wait_group 0;"
    )
    body = ring(None, f"    mov.b32 %r_count, %r_n;\n    {extra}")
    text = kernel_text("ring", body, ("n",), shared=SHARED)
    subject = Subject(text, "ring.ptx", "ring", launch_from_json(launch_json({"n": 5}, grid=1), "launch.json"))
    (wait,) = [each for each in _made(subject) if each.kind == "waits: bulk group"]
    assert _verdict(subject, wait.text) == "proven"
    assert argument(subject, wait.text) == "not executed by this launch"
    trapped = with_traps(text, read(text, "ring.ptx", tolerant=True), wait.lines)
    assert re.search(r"@%p\d+ trap;", trapped)


def _commit_where(guard: str) -> tuple[Subject, Deletion]:
    """A ring with a commit of no copies under a guard, and without it, both for any launch."""
    extra = f"{guard}\n    @%p_far cp.async.bulk.commit_group;\n    @%p_far cp.async.bulk.wait_group 0;"
    body = ring(None, f"    mov.b32 %r_count, %r_n;\n    {extra}")
    subject = Subject(kernel_text("ring", body, ("n",), shared=SHARED), "ring.ptx", "ring", None)
    (commit,) = [each for each in _made(subject) if each.kind == "commits: bulk group"]
    assert _verdict(subject, subject.text) == _verdict(subject, commit.text) == "proven"
    return subject, commit


def test_what_no_launch_executes_is_said() -> None:
    subject, commit = _commit_where("and.b32 %r_x, %r_n, 7;\n    setp.eq.u32 %p_far, %r_x, 9;")
    assert argument(subject, commit.text).startswith("executed by no launch: ")


@pytest.mark.full
def test_what_some_launch_executes_is_not_said_to_be_dead() -> None:
    """A proof may assume that a trap is not met: that is no argument for what stands in its place."""
    subject, commit = _commit_where("and.b32 %r_x, %r_n, 7;\n    setp.eq.u32 %p_far, %r_x, 5;")
    trapped = subject.check(with_traps(subject.text, read(subject.text, "ring.ptx", tolerant=True), commit.lines))
    assert trapped is not None and trapped.verdict == "proven"
    assert not argument(subject, commit.text).startswith("executed by no launch")


def test_a_barrier_that_another_covers_is_said() -> None:
    subject = _ring("bar.sync 0;", "bar.sync 0;\n\tbarrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;")
    assert _verdict(subject, subject.text) == "proven"
    (barrier,) = [each for each in _made(subject) if each.kind == "waits: barriers of threads"]
    assert _verdict(subject, barrier.text) == "proven"
    assert "covered by waits: cluster barriers" in argument(subject, barrier.text)


@pytest.mark.sample(1)
@pytest.mark.parametrize("given", [True, False], ids=["launch", "no launch"])
def test_a_cluster_barrier_that_orders_nothing_is_said(given: bool) -> None:
    name = "triton/sm_90a/matmul_tma_2cta_s2"
    path = _CORPUS / f"{name}.ptx"
    text = path.read_text("utf-8")
    launch = read_launch_file(str(path.with_suffix(".launch.json"))) if given else None
    kernel = read(text, name, tolerant=True).kernels[0].name
    subject = Subject(text, name, kernel, launch)
    (barrier,) = [each for each in _made(subject) if each.kind == "waits: cluster barriers"]
    assert _verdict(subject, barrier.text) == "proven"
    assert argument(subject, barrier.text).startswith("nothing remote")


@pytest.mark.full
def test_a_fence_of_inits_that_the_clusters_barrier_has_published_is_said() -> None:
    path = _CORPUS / "gluon/sm_90a/multicast_copy.ptx"
    text = path.read_text("utf-8")
    kernel = read(text, path.name, tolerant=True).kernels[0].name
    subject = Subject(text, path.name, kernel, None)
    (fence,) = [each for each in _made(subject) if each.kind == "fences: mbarrier init"]
    assert _verdict(subject, fence.text) == "proven"
    assert argument(subject, fence.text).startswith("nothing to publish")
    before = text.replace("barrier.cluster.arrive.aligned;", "barrier.cluster.arrive.relaxed.aligned;", 1)
    assert not argument(Subject(before, path.name, kernel, None), fence.text.replace(
        "barrier.cluster.arrive.aligned;", "barrier.cluster.arrive.relaxed.aligned;", 1
    )).startswith("nothing to publish")  # fmt: skip


_DEPENDENT_ADD = _CORPUS / "triton/sm_90a/dependent_add.ptx"


@pytest.mark.parametrize(
    ("begins", "said"), [(True, "contested: grid_wait"), (False, "an ordinary launch")], ids=["begins", "does not"]
)
def test_a_wait_for_the_grid_before_is_argued_by_whether_dependents_begin(begins: bool, said: str) -> None:
    text = _DEPENDENT_ADD.read_text("utf-8")
    if not begins:
        text = text.replace("griddepcontrol.launch_dependents ;", "")
    kernel = read(text, "add.ptx", tolerant=True).kernels[0].name
    subject = Subject(text, "add.ptx", kernel, read_launch_file(str(_DEPENDENT_ADD.with_suffix(".launch.json"))))
    (wait,) = [each for each in _made(subject) if each.kind == "waits: grid before"]
    assert _verdict(subject, wait.text) == "proven"
    assert argument(subject, wait.text).startswith(said)


@pytest.mark.full
def test_maps_that_nothing_writes_are_assumed_of_the_host() -> None:
    path = _CORPUS / "triton/sm_90a/matmul_devdesc_s2.ptx"
    text = path.read_text("utf-8")
    subject = Subject(text, path.name, read(text, path.name, tolerant=True).kernels[0].name, None)
    (copies,) = [each for each in _made(subject) if each.kind == "copies of tensor maps"]
    assert _verdict(subject, copies.text) == "proven"
    assert argument(subject, copies.text).startswith("assumed of the host, which the proof prints: the tensor map at ")
