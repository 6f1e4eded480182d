"""The engine alone, and then the package, in a process of their own."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys
from tilewright.solve.egraph.egglog_bindings import bindings
graph = bindings().egraph()
sizes = graph.run_program(*graph.parse_program("(datatype Number (One)) (One) (print-size One)"))
assert [size.size for size in sizes] == [1], sizes
assert "egglog.builtins" not in sys.modules
assert "RAYON_NUM_THREADS" not in __import__("os").environ
import egglog
assert sys.modules["egglog.bindings"].EGraph is bindings().egraph
assert str(egglog.EGraph().extract(egglog.i64(3))) == "i64(3)"
print("both")
"""


def test_the_engine_loads_without_the_package_and_the_package_after_it() -> None:
    environment = {"PYTHONPATH": "src", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "both", done.stderr
