"""What a kernel means for given shapes: runs its Python body once and records a `tile` program.

Theory: see `tracer` for how a body becomes ops. A traced program is verified and holds nothing that reaches no store.
Checked by tests/frontends/test_tile_trace.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from io import StringIO

from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

from tilewright.base.element import Element
from tilewright.base.error import TilewrightError
from tilewright.frontends.tile.habits import mistake
from tilewright.frontends.tile.kernel import Kernel
from tilewright.frontends.tile.language import __all__ as LANGUAGE
from tilewright.frontends.tile.language import active_tracer
from tilewright.frontends.tile.shapes import Dims, all_extents, require_promises, settled_dims, tensor_types
from tilewright.frontends.tile.tracer import KernelTracer


def trace(
    kernel: Kernel,
    dims: Dims,
    elements: Mapping[str, Element],
    strides: Mapping[str, tuple[int, ...]] | None = None,
) -> ModuleOp:
    """The verified module with one `tile.program` that `kernel` means.

    dims: extent in elements of every axis that a parameter names (those of blocks follow), or what it may be where only
    a launch knows it: then the program has the largest; elements: of every parameter; strides: in elements, outermost
    first, of parameters that are not row-major and dense. Raises TilewrightError at the author's line.
    """
    known, ranges = settled_dims(kernel, dims)
    types = tensor_types(kernel, known, elements, strides or {}, ranges)
    if active_tracer.get() is not None:
        raise TilewrightError(
            f"kernel {kernel.name} is traced while another is", remedy="share code as a plain Python function"
        )
    require_promises(kernel, known, ranges)
    extents = all_extents(kernel, known)
    tracer = KernelTracer(kernel, types, extents, ranges)
    token = active_tracer.set(tracer)
    try:
        returned = kernel.function(*(tracer.tensor(parameter) for parameter in kernel.parameters))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        mistaken = mistake(error, LANGUAGE)
        if mistaken is None:
            raise
        raise mistaken from error
    finally:
        active_tracer.reset(token)
    return tracer.finish(returned)


def fingerprint(module: ModuleOp) -> str:
    """A hexadecimal digest of what a traced module means: its text without the places in the author's files."""
    bare = module.clone()
    for op in bare.walk():
        op.properties.pop("place", None)
    # The generic form prints each property that is there and asks for none.
    text = StringIO()
    Printer(stream=text, print_generic_format=True).print_op(bare)
    return hashlib.sha256(text.getvalue().encode()).hexdigest()
