"""A Triton that compiles nothing: what `tilewright.integrations` asks of one, for tests where none is installed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


@dataclass(frozen=True)
class Options:
    num_warps: int = 4
    num_stages: int = 3
    maxnreg: int | None = None


@dataclass
class Source:
    kernel: object
    signature: dict[str, str]
    constexprs: dict[tuple[int, ...], object]
    attributes: dict[tuple[int, ...], object]


@dataclass
class Kernel:
    """As a function behind `triton.jit`."""

    arg_names: list[str]
    fn: object = None
    raw_src: list[str] = field(default_factory=list[str])
    starting_line_number: int = 1

    def __post_init__(self) -> None:
        self.__name__ = "scale"


def compiled(ptx: str, ttgir: str = "", **metadata: object) -> Any:
    """As `triton.compile` returns a kernel."""
    return SimpleNamespace(asm={"ptx": ptx, "ttgir": ttgir}, metadata={"name": "scale", "shared": 0, **metadata})


def install(monkeypatch: pytest.MonkeyPatch, compile_kernel: Callable[..., Any]) -> None:
    """Put the modules in the place of Triton's. compile_kernel: gets the source, target and options."""

    def module(name: str, **attributes: object) -> None:
        found = ModuleType(name)
        for key, value in attributes.items():
            setattr(found, key, value)
        monkeypatch.setitem(sys.modules, name, found)

    backend = SimpleNamespace(parse_options=lambda options: Options(**options))
    module("triton", compile=compile_kernel)
    module("triton.backends")
    module("triton.backends.compiler", GPUTarget=lambda *arguments: arguments)
    module("triton.compiler")
    module("triton.compiler.compiler", make_backend=lambda target: backend, ASTSource=Source)
