"""cublasLt's algorithms called in another process, which can be ended: some do not return.

Of odd strides the lists hold such. A kernel that runs cannot be stopped but with its process. So a child builds like
matrices, asks cublasLt for the same list, and calls what it is told to. Where it says nothing for `SILENCE_SECONDS` it
is killed, and the call counts as one that did not return. A second child stands ready meanwhile, since a process takes
seconds to load PyTorch. These times only choose what is worth timing in the process of the race, where it is called
again.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from bench.cublaslt import CublasError, DidNotReturn, Plan
from bench.interleaved import captured, event_milliseconds, replay_milliseconds

if TYPE_CHECKING:
    from bench.cliffs import Case

SILENCE_SECONDS = 1.5
"""The longest that a call and another may take, loading the kernel included."""
_ROW_MILLISECONDS = 100.0
"""What calls in a row take together, but for two at the least."""
_STARTING_SECONDS = 120.0
_BUILDING_SECONDS = 30.0


Serve = Callable[[Connection], None]


class Trials:
    """Children that time algorithms of a case's list; `close` ends them."""

    def __init__(self, serve: Serve | None = None, silence_seconds: float = SILENCE_SECONDS) -> None:
        """serve: what a child does with its end of a pipe (default: cublasLt's algorithms)."""
        self._serve, self._silence_seconds = serve or serve_algorithms, silence_seconds
        self._children = [_Child(self._serve), _Child(self._serve)]
        self._asked: Case | None = None

    def milliseconds(self, case: Case, place: int, whole: bool, hopeless: float) -> float:
        """Of one call, by events, as `cublaslt.tried_in_order` asks for it. Raises CublasError where cublasLt refuses,
        DidNotReturn where it is silent for too long."""
        child = self._children[0]
        if self._asked is not case:
            child.ask(("build", case), _BUILDING_SECONDS)
            self._asked = case
        try:
            return child.ask(("call", place, whole, hopeless), self._silence_seconds)
        except DidNotReturn:
            child.end()
            self._children = [self._children[1], _Child(self._serve)]
            self._asked = None
            raise

    def close(self) -> None:
        """End all children."""
        for child in self._children:
            child.end()


class _Child:
    """A process that does as it is asked."""

    def __init__(self, serve: Serve) -> None:
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=serve, args=(there,), daemon=True)
        self._process.start()
        self._ready = False

    def ask(self, question: tuple[Any, ...], seconds: float) -> float:
        if not self._ready:
            self._said(_STARTING_SECONDS)
            self._ready = True
        self._here.send(question)
        return self._said(seconds)

    def _said(self, seconds: float) -> float:
        if not self._here.poll(seconds):
            raise DidNotReturn(f"no answer in {seconds:g} s")
        try:
            found: float | str = self._here.recv()
        except EOFError as error:
            raise DidNotReturn("its process ended") from error
        if isinstance(found, str):
            raise CublasError(found)
        return found

    def end(self) -> None:
        self._process.kill()
        self._process.join()


def serve_algorithms(connection: Connection) -> None:
    """A number when ready, and then in answer to each question a number, or the words of a refusal."""
    import torch

    from bench.cliffs import matrix
    from bench.peers_gemm import element

    warm = torch.ones(256, 256, device="cuda", dtype=torch.bfloat16)
    torch.mm(warm, warm)
    torch.cuda.synchronize()
    connection.send(0.0)
    offered: list[Any] = []
    while True:
        try:
            match connection.recv():
                case ("build", case):
                    offered.clear()
                    torch.cuda.empty_cache()
                    dtype = element(torch, case.dtype)
                    pairs = [
                        (matrix(torch, case.m, case.k, case.a, dtype), matrix(torch, case.k, case.n, case.b, dtype))
                        for _ in range(2)
                    ]
                    plan = Plan(torch, pairs, matrix(torch, case.m, case.n, case.c, dtype))
                    offered += plan.candidates()
                    torch.cuda.synchronize()
                    connection.send(0.0)
                case ("call", place, whole, hopeless):
                    candidate = offered[place]
                    call = candidate.call if whole else candidate.corner
                    milliseconds = event_milliseconds(torch, call, hopeless)
                    if whole and milliseconds <= hopeless:
                        # Some return when called alone, and do not when called in a row.
                        graph = captured(torch, call, max(2, min(8, int(_ROW_MILLISECONDS / milliseconds))))
                        replay_milliseconds(torch, graph)
                        del graph
                    connection.send(milliseconds)
                case other:
                    raise AssertionError(other)
        except CublasError as error:
            connection.send(str(error))
        except EOFError:
            return
