"""The extras of pyproject.toml, the table by which messages name them, and what the core may not need."""

from __future__ import annotations

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.core_environment import ROOT, closure, project
from tilewright.base.extra import EXTRA_OF

EXTRAS: dict[str, list[Requirement]] = {
    extra: [Requirement(text) for text in texts] for extra, texts in project()["optional-dependencies"].items()
}


def members(extra: str) -> set[str]:
    """The distributions that an extra installs on some machine, extras that it names among them."""
    found: set[str] = set()
    for each in EXTRAS[extra]:
        found |= set().union(*(members(other) for other in each.extras)) if each.name == "tilewright" else {each.name}
    return found


def test_the_core_needs_no_solver_no_assembler_and_nothing_of_cuda() -> None:
    core = {canonicalize_name(name) for name in closure(project()["dependencies"])}
    assert {"numpy", "ml-dtypes", "rich", "xdsl"} <= core
    assert core.isdisjoint(EXTRA_OF)
    assert not any(name.startswith(("nvidia", "cuda")) for name in core)


def test_a_message_names_the_smallest_extra_that_has_the_package() -> None:
    for distribution, named in EXTRA_OF.items():
        having = [extra for extra in EXTRAS if distribution in members(extra)]
        assert named in having, distribution
        assert len(members(named)) == min(len(members(extra)) for extra in having), distribution


def test_every_optional_package_has_an_extra_and_all_has_every_one() -> None:
    everything = set().union(*(members(extra) for extra in EXTRAS if extra not in ("all", "dev")))
    assert everything == set(EXTRA_OF) == members("all")


def test_developers_install_every_extra_but_triton() -> None:
    wanted = {str(each) for extra in ("compile", "gpu", "optimal", "solver") for each in EXTRAS[extra]}
    assert {each for each in wanted if not each.startswith("tilewright")} <= {str(each) for each in EXTRAS["dev"]}


def test_the_lock_holds_what_developers_install() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pinned = {
        canonicalize_name(line.partition("==")[0]): line.partition("==")[2].strip()
        for line in lock.splitlines()
        if "==" in line and not line.lstrip().startswith("#")
    }
    assert "tilewright" not in pinned and "file://" not in lock
    wanted = [Requirement(text) for text in project()["dependencies"]]
    wanted += [each for extra in EXTRAS if extra not in ("all", "triton") for each in EXTRAS[extra]]
    for each in wanted:
        if each.name != "tilewright":
            assert each.specifier.contains(pinned[canonicalize_name(each.name)]), each
