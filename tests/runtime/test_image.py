"""A cubin cut anywhere is refused before the driver could read past its end; whole ones and PTX pass."""

from __future__ import annotations

import pytest

from tilewright.base.error import TilewrightError
from tilewright.runtime.assemble import assemble, find_ptxas
from tilewright.runtime.image import require_whole

PTX = """// a comment
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a)
{
    .reg .b64 %d<2>; .shared .align 4 .b8 scratch[4096];
    ld.param.u64 %d1, [a]; st.global.u64 [%d1], %d1; ret;
}
"""


def test_ptx_text_passes_and_other_bytes_do_not() -> None:
    require_whole(PTX.encode(), "k")
    require_whole(b"/* a\n.comment */ .version 8.0\n", "k")
    for image in (b"", b"MZ", b".target sm_90a", b"\x50\xed\x55\xba", b".versions"):
        with pytest.raises(TilewrightError, match="neither a cubin nor PTX"):
            require_whole(image, "k")
    with pytest.raises(TilewrightError, match="NUL byte"):
        require_whole(PTX.encode() + b"\0", "k")


def test_every_truncation_of_a_cubin_is_refused() -> None:
    try:
        find_ptxas()
    except TilewrightError as error:
        pytest.skip(error.message)
    cubin = assemble(PTX, "sm_90a").cubin
    require_whole(cubin, "k")
    require_whole(cubin + b"\0", "k")
    for length in range(4, len(cubin)):
        with pytest.raises(TilewrightError, match=r"machine code of k is damaged: it ends"):
            require_whole(cubin[:length], "k")
    with pytest.raises(TilewrightError, match="another machine"):
        require_whole(cubin[:18] + b"\x3e\x00" + cubin[20:], "k")
