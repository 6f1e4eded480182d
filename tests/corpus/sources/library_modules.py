"""Modules of a library's checkout, without installing it: what programs for `library_launches.py` import.

CHECKOUT_NAME in the environment is the folder of a checkout (`python -m bench fresh` sets it).
"""

import importlib.util
import os
import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path

from triton.runtime.errors import OutOfResources

_EXCEPTION_CLASSES = (
    ImportError, AttributeError, TypeError, ValueError, RuntimeError, KeyError, AssertionError, OutOfResources,
)  # fmt: skip


def checkout(name):
    return Path(os.environ[f"CHECKOUT_{name.upper()}"])


def file_module(path):
    """The module of one file, outside any package."""
    spec = importlib.util.spec_from_file_location(f"file_{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def package(name, folder):
    """Make `name` a package of a folder whose `__init__.py` is not run: it may import what is not installed."""
    module = types.ModuleType(name)
    module.__path__ = [str(folder)]
    sys.modules[name] = module


def absent(*names):
    """Let imports of packages that are not installed succeed: all that they have is a stub."""
    sys.meta_path.insert(0, _Finder(names))


def tried(name, call):
    """Run a call of the library; what fails behind the launches that were caught is printed alone."""
    try:
        call()
    except _EXCEPTION_CLASSES as error:
        print(f"{name}: {type(error).__name__}: {str(error).strip().splitlines()[0][:160] if str(error) else ''}")


def launch(kernel, grid, *, warps=4, stages=3, **named):
    """One launch by names of arguments; names that the kernel lacks are left out, and its tuning and heuristics."""
    while not hasattr(kernel, "params"):
        kernel = kernel.fn
    known = {name: value for name, value in named.items() if name in kernel.arg_names}
    kernel.run(grid=grid, num_warps=warps, num_stages=stages, **known)


class _Finder:
    def __init__(self, names):
        self.names = names

    def find_spec(self, name, _path=None, _target=None):
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] in self.names else None

    def create_module(self, spec):
        module = _StubModule(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module):
        pass


class _StubModule(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Stub()


class _Stub:
    """Any value: called as a decorator it leaves the function as it is."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Stub()

    def __call__(self, *values, **named):
        return values[0] if len(values) == 1 and callable(values[0]) and not named else _Stub()

    def __iter__(self):
        return iter(())

    def __getitem__(self, _index):
        return _Stub()

    def __bool__(self):
        return False

    def __or__(self, _other):
        return object

    __ror__ = __or__

    def __mro_entries__(self, _bases):
        return (object,)
