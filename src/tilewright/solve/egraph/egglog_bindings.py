"""How is the e-graph engine loaded without the Python language built around it?

`import egglog` takes 0.2 to 0.3 s, most of it for a Python front end (with a code formatter) that text programs do not
need; its extension module alone takes 0.01 s. It is loaded from where the package lies and registered under its own
name, so that a later `import egglog` finds it and goes on as usual. Where the package keeps it elsewhere, the ordinary
import is taken. Checked by tests/solve/egraph/test_egglog_bindings.py.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from tilewright.solve.installed import solver

if TYPE_CHECKING:
    from egglog.bindings import EGraph, ExtractVariants, PrintFunctionSize

_NAME = "egglog.bindings"


class Bindings(NamedTuple):
    """The classes in use: an e-graph, and two kinds of answers that it gives."""

    egraph: type[EGraph]
    extract_variants: type[ExtractVariants]
    print_function_size: type[PrintFunctionSize]


@cache
def bindings() -> Bindings:
    """The engine's classes. Raises MissingExtra where egglog is not installed.

    The engine's pool of threads, made here, gets one thread: the graphs are small, and waiting for threads costs more
    than they save.
    """
    module = sys.modules.get(_NAME) or _extension() or solver("egglog.bindings")
    found = Bindings(module.EGraph, module.ExtractVariants, module.PrintFunctionSize)
    threads = os.environ.get("RAYON_NUM_THREADS")
    os.environ["RAYON_NUM_THREADS"] = "1"
    try:
        graph = found.egraph()
        graph.run_program(*graph.parse_program("(relation one (i64)) (one 1) (push) (run 1) (pop)"))
    finally:
        if threads is None:
            del os.environ["RAYON_NUM_THREADS"]
        else:
            os.environ["RAYON_NUM_THREADS"] = threads
    return found


def _extension() -> ModuleType | None:
    """The extension module alone, registered; None where it is not found beside the package."""
    package = find_spec("egglog")
    for folder in (package.submodule_search_locations or ()) if package is not None else ():
        spec = FileFinder(folder, (ExtensionFileLoader, EXTENSION_SUFFIXES)).find_spec("bindings")
        if spec is None or spec.origin is None or spec.loader is None:
            continue
        spec.name = _NAME
        spec.loader = ExtensionFileLoader(_NAME, spec.origin)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[_NAME] = module
        return module
    return None
