"""In IPython, layouts draw themselves as soon as tilewright is imported; without IPython nothing is loaded."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET

from tilewright.integrations.notebook import html_of_choice, register, svg_of
from tilewright.layout import parse_layout
from tilewright.layout.linear.maps import identity
from tilewright.legal.bank.placement import Buffer, BufferAccess, Digit
from tilewright.legal.bank.swizzle_choice import choose_placement
from tilewright.legal.descriptor.instruction_layout import instruction_layout

SESSION = """
import json, sys, types
shown = {}
class Formatter:
    def __init__(self, kind): self.kind = kind
    def for_type_by_name(self, module, name, function): shown[self.kind, module, name] = function
class Shell:
    class display_formatter:
        formatters = {kind: Formatter(kind) for kind in ("image/svg+xml", "text/html", "text/plain")}
ipython = types.ModuleType("IPython")
ipython.get_ipython = lambda: RUNNING
sys.modules["IPython"] = ipython
import tilewright
print(json.dumps([sorted(map(list, shown)), sorted(name for name in sys.modules if name in ("numpy", "xdsl", "rich"))]))
"""


def session(running: str) -> list[list[list[str]]]:
    done = subprocess.run(
        [sys.executable, "-c", SESSION.replace("RUNNING", running)], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def test_an_import_in_a_notebook_registers_by_name_and_loads_nothing() -> None:
    shown, loaded = session("Shell")
    assert ["image/svg+xml", "tilewright.layout.layout", "Layout"] in shown
    assert ["text/html", "tilewright.legal.bank.swizzle_choice", "SwizzleChoice"] in shown
    assert not loaded


def test_without_a_shell_nothing_is_registered() -> None:
    assert session("None") == [[], []]
    register(object())


def test_the_names_are_those_of_the_types() -> None:
    for _, module, name in session("Shell")[0]:
        imported = __import__(module, fromlist=[name])
        assert isinstance(getattr(imported, name), type)


def test_layouts_are_drawn() -> None:
    for value in (
        parse_layout("(4,8):(8,1)"),
        identity(16, "lane", "bank"),
        instruction_layout("mma.m16n8k8.tf32", "A"),
    ):
        drawn = svg_of(value)
        assert drawn is not None and ET.fromstring(drawn).tag.endswith("svg")


def test_a_large_layout_shows_its_corner_and_a_symbolic_one_its_text() -> None:
    drawn = svg_of(parse_layout("(1048576,1048576):(1048576,1)"))
    assert drawn is not None and "shown: i 0 to 31 of 1048576, j 0 to 63 of 1048576" in drawn
    assert svg_of(parse_layout("(N,8):(8,1)")) is None


def test_a_choice_is_a_table() -> None:
    read = BufferAccess("ld.shared.b32", (Digit(32, 1),), (Digit(32, 0, 4),))
    table = html_of_choice(choose_placement(Buffer(32, 128, (read,)), "sm_90a"))
    rows = ET.fromstring(table).findall("tr")
    assert len(rows) > 2 and "(chosen)" in table and table.count("(chosen)") == 1
    assert "no conflicts" in table
