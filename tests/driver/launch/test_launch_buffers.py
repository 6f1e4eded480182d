"""Contents of buffers in launch files: what they decide, how they are written, and what is wrong with them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.base.check_report import KernelReport
from tilewright.base.error import TilewrightError
from tilewright.contract.rules.interpretations import tolerant
from tilewright.driver.check.check import check_text
from tilewright.driver.launch.launch_file import launch_from_json, read_launch_file
from tilewright.driver.run.run_ptx import buffers_for, run_on_machine

# Counts of groups in a buffer, read by a pointer that stands in another one: as grouped products do. Each group is one
# phase of a barrier; thread 0 arrives for the first `count` of them, all wait for as many.
GROUPS = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry groups(.param .u64 tables, .param .u64 out, .param .u32 index) .reqntid 32
{
    .reg .pred %p<6>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .shared .align 8 .b8 full[8];
    ld.param.u64 %rd1, [tables];
    ld.param.u64 %rd4, [out];
    ld.param.u32 %r6, [index];
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0;
    @!%p1 mbarrier.init.shared::cta.b64 [full], 1;
    bar.sync 0;
    ld.global.u64 %rd2, [%rd1+8];
    mul.wide.u32 %rd3, %r6, 4;
    add.s64 %rd3, %rd2, %rd3;
    ld.global.u32 %r2, [%rd3];
    mov.u32 %r3, 0;
GROUP:
    setp.ge.u32 %p2, %r3, %r2;
    @%p2 bra DONE;
    @!%p1 mbarrier.arrive.shared::cta.b64 _, [full];
    and.b32 %r4, %r3, 1;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], %r4;
    @!%p3 bra WAIT;
    bar.sync 0;
    add.u32 %r3, %r3, 1;
    bra GROUP;
DONE:
    st.global.u32 [%rd4], %r3;
    ret;
}
"""
HANGS_AT_FIVE = GROUPS.replace(
    "DONE:\n",
    """DONE:
    setp.ne.u32 %p4, %r2, 5;
    @%p4 bra END;
SIXTH:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 1;
    @!%p3 bra SIXTH;
END:
""",
)
COUNTS = [3, 5, 2]


def document(index: int | None = 0, **counts: Any) -> dict[str, Any]:
    counts = counts or {"data": COUNTS, "dtype": "u32"}
    table = {
        "kind": "ptr",
        "buffer": "tables",
        "bytes": 32,
        "pointers": [{"at": 8, "buffer": "counts", "bytes": 64, **counts}],
    }
    out = {"kind": "ptr", "buffer": "out", "bytes": 4}
    return {"grid": [1], "params": [table, out, None if index is None else {"kind": "i32", "value": index}]}


def checked(text: str, launch: dict[str, Any]) -> KernelReport:
    report = check_text(text, "k.ptx", launch=launch_from_json(launch, "launch.json"))
    assert not report.error, report.error
    return report.kernels[0]


def test_a_count_that_is_given_decides_the_protocol() -> None:
    kernel = checked(GROUPS, document())
    assert (kernel.verdict, kernel.scope) == ("proven", "this launch"), kernel.reasons
    assert checked(HANGS_AT_FIVE, document(0)).verdict == "proven"
    assert checked(HANGS_AT_FIVE, document(1)).verdict == "refuted"


def test_what_is_not_given_may_be_anything() -> None:
    kernel = checked(GROUPS, document(3))
    assert kernel.verdict == "proven" and any("may be anything" in each for each in kernel.assumptions)
    assert checked(HANGS_AT_FIVE, document(3)).verdict == "unknown"
    whole = document()
    del whole["params"][0]["pointers"]
    assert checked(GROUPS, whole).verdict == "unknown"


def test_a_buffer_that_the_kernel_writes_is_no_longer_known() -> None:
    text = GROUPS.replace("    ld.global.u32 %r2", "    st.global.u32 [%rd3+4], %r1;\n    ld.global.u32 %r2")
    assert any("may be anything" in each for each in checked(text, document()).assumptions)
    hangs = HANGS_AT_FIVE.replace("    ld.global.u32 %r2", "    st.global.u32 [%rd3+4], %r1;\n    ld.global.u32 %r2")
    assert checked(hangs, document()).verdict == "unknown"


@pytest.mark.parametrize("index", [0, 1])
def test_data_that_a_bulk_copy_brings_is_known(index: int) -> None:
    """The counts are copied to shared memory first."""
    copied = """ld.shared.u32 %r2, [%r8];
    mov.u32 %r3, 0;
    bar.sync 0;
    @!%p1 mbarrier.inval.shared::cta.b64 [full];
    @!%p1 mbarrier.init.shared::cta.b64 [full], 1;
    bar.sync 0;"""
    loads = """    @!%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 16;
    @!%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [list], [%rd2], 16, [full];
LIST:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0;
    @!%p3 bra LIST;
    mov.u32 %r7, list;
    mad.lo.u32 %r8, %r6, 4, %r7;
    """
    old = "ld.global.u32 %r2, [%rd3];\n    mov.u32 %r3, 0;"
    assert HANGS_AT_FIVE.count(old) == 1
    text = HANGS_AT_FIVE.replace("    " + old, loads + copied)
    text = text.replace(
        "    .shared .align 8 .b8 full[8];", "    .shared .align 8 .b8 full[8];\n    .shared .align 16 .b8 list[16];"
    )
    kernel = checked(text, document(index, data=[*COUNTS, 0], dtype="u32"))
    assert kernel.verdict == ("proven", "refuted")[index], kernel.reasons


def test_contents_count_where_other_parts_are_open() -> None:
    """The index is left out: every count that it may choose is data, and beyond the data nothing is known."""
    fixed = GROUPS.replace("mul.wide.u32 %rd3, %r6, 4;", "mov.b64 %rd3, 4;")
    kernel = checked(fixed, document(None))
    assert (kernel.verdict, kernel.scope) == ("proven", "this launch"), kernel.reasons
    hangs = HANGS_AT_FIVE.replace("mul.wide.u32 %rd3, %r6, 4;", "mov.b64 %rd3, 4;")
    assert checked(hangs, document(None)).verdict == "refuted"


# ---------------------------------------------------------------- how data is written

WORDS = np.array(COUNTS, np.uint32)


def known(counts: dict[str, Any], folder: Path | None = None) -> bytes:
    """The bytes that are known of the counts."""
    if folder is None:
        launch = launch_from_json(document(**counts), "launch.json")
    else:
        path = folder / "launch.json"
        path.write_text(json.dumps(document(**counts)), encoding="utf-8")
        launch = read_launch_file(str(path))
    (contents,) = [each for each in launch.contents if each.name == "counts"]
    assert contents.known == ((0, contents.data.size),)
    return contents.data.tobytes()


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"data": [1, -1], "dtype": "i8"}, b"\x01\xff"),
        ({"data": [1, 255], "dtype": "u8"}, b"\x01\xff"),
        ({"data": [2**63], "dtype": "u64"}, (2**63).to_bytes(8, "little")),
        ({"data": [0.5, -2], "dtype": "f32"}, np.array([0.5, -2], np.float32).tobytes()),
        ({"data": [1.0, 1.00390625], "dtype": "bf16"}, bytes.fromhex("803f803f")),
        ({"data": "0300000005"}, bytes.fromhex("0300000005")),
        ({"data": "base64:" + base64.b64encode(b"\0\x01\x02").decode()}, b"\0\x01\x02"),
        ({"data": [], "dtype": "u32"}, b""),
    ],
)
def test_data_in_the_file(counts: dict[str, Any], expected: bytes) -> None:
    assert known(counts) == expected


def test_data_beside_the_file(tmp_path: Path) -> None:
    np.save(tmp_path / "counts.npy", WORDS.astype(">u4"))
    np.savez(tmp_path / "several.npz", counts=WORDS, other=np.zeros(2))
    np.savez(tmp_path / "one.npz", counts=np.asfortranarray(WORDS[:2].reshape(1, 2)))
    for data in ({"file": "counts.npy"}, {"file": "several.npz", "array": "counts"}):
        assert known({"data": data, "dtype": "u32"}, tmp_path) == WORDS.tobytes()
    assert known({"data": {"file": "one.npz"}}, tmp_path) == WORDS[:2].tobytes()


def test_a_run_starts_with_the_data() -> None:
    launch = launch_from_json(document(2), "launch.json")
    done = run_on_machine(GROUPS, "k.ptx", launch, buffers_for(launch, {}, "no file"), interpretations=tolerant())
    assert done.finished and done.arrays["out"].view(np.uint32).tolist() == [2]


def test_pointers_follow_one_another_and_may_be_null() -> None:
    pointers = [{"buffer": "a", "bytes": 8, "offset": 4}, {"bytes": 0}, {"kind": "ptr", "buffer": "b", "bytes": 16}]
    launch = launch_from_json({"params": [{"kind": "ptr", "buffer": "table", "pointers": pointers}]}, "launch.json")
    assert {each.name: each.size_bytes for each in launch.buffers} == {"table": 24, "a": 8, "b": 16}
    (contents,) = launch.contents
    assert contents.known == ((0, 8), (8, 16), (16, 24))


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"data": [1, 2]}, r"pointers\[0\].dtype: is missing"),
        ({"data": [1], "dtype": "b32"}, r"dtype: is 'b32'"),
        ({"data": [256], "dtype": "u8"}, r"data\[0\]: is 256"),
        ({"data": [0.5], "dtype": "i32"}, r"data\[0\]: is 0.5"),
        ({"data": [True], "dtype": "u8"}, r"data\[0\]: is no number"),
        ({"data": [[1]], "dtype": "u8"}, r"data\[0\]: is no number"),
        ({"data": [10**400], "dtype": "f32"}, r"data: has a number that f32 does not take"),
        ({"data": "0g"}, r"data: is '0g'"),
        ({"data": "base64:?"}, r"data: is 'base64:\?'"),
        ({"data": None}, r"data: is no contents"),
        ({"data": {"path": "a.npy"}}, r"data.path: is no field here"),
        ({"data": {"array": "a"}}, r"data.file: is missing"),
        ({"data": {"file": "none.npy"}}, r"data.file: cannot be read"),
        ({"data": {"file": "text.npy"}}, r"data.file: is .*text.npy, no .npy or .npz file"),
        ({"data": {"file": "short.npy"}}, r"data.file: is .*short.npy, which is damaged"),
        ({"data": {"file": "broken.npz"}}, r"data.file: is .*broken.npz, which is damaged"),
        ({"data": {"file": "objects.npy"}}, r"holds Python objects"),
        ({"data": {"file": "objects.npz"}}, r"holds Python objects"),
        ({"data": {"file": "records.npy"}}, r"data: is an array of"),
        ({"data": {"file": "words.npy"}, "dtype": "i32"}, r"data.file: holds uint32, not i32"),
        ({"data": {"file": "words.npy", "array": "a"}}, r"data.array: stands beside an .npy file"),
        ({"data": {"file": "two.npz"}}, r"data.array: is missing"),
        ({"data": {"file": "two.npz", "array": "c"}}, r"data.array: is 'c', which"),
        ({"dtype": "u32"}, r"dtype: stands without data"),
        ({"data": "00" * 65}, r"pointers\[0\].bytes: is 64; what the buffer holds takes 65"),
    ],
)
def test_mistakes_are_one_message(tmp_path: Path, counts: dict[str, Any], message: str) -> None:
    np.save(tmp_path / "words.npy", WORDS)
    (tmp_path / "text.npy").write_text("words", encoding="utf-8")
    (tmp_path / "short.npy").write_bytes((tmp_path / "words.npy").read_bytes()[:-4])
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 and no more")
    np.save(tmp_path / "objects.npy", np.array([{}, None], object), allow_pickle=True)
    np.savez(tmp_path / "objects.npz", counts=np.array([{}], object))
    np.save(tmp_path / "records.npy", np.zeros(2, [("a", "u4"), ("b", "u4")]))
    np.savez(tmp_path / "two.npz", a=WORDS, b=WORDS)
    path = tmp_path / "launch.json"
    path.write_text(json.dumps(document(**counts)), encoding="utf-8")
    with pytest.raises(TilewrightError, match=message) as caught:
        read_launch_file(str(path))
    assert caught.value.message.startswith(str(path)) and caught.value.remedy


@pytest.mark.parametrize(
    ("pointer", "message"),
    [
        ({"buffer": "x", "bytes": 8, "at": 4}, r"pointers\[0\].at: is 4, no multiple of 8"),
        ({"bytes": 8}, r"pointers\[0\].buffer: is missing"),
        ({"kind": "i32", "value": 1, "bytes": 0}, r"pointers\[0\].bytes: is no field here"),
        (7, r"pointers\[0\]: is the number 7"),
        ({"buffer": "x"}, r"pointers\[0\].bytes: is missing, and no other parameter"),
    ],
)
def test_mistakes_of_pointers(pointer: object, message: str) -> None:
    with pytest.raises(TilewrightError, match=message):
        launch_from_json({"params": [{"kind": "ptr", "buffer": "table", "pointers": [pointer]}]}, "launch.json")


def test_data_of_a_buffer_is_given_once() -> None:
    again = {"kind": "ptr", "buffer": "x", "data": "00"}
    with pytest.raises(TilewrightError, match=r"params\[1\].data: is the second of buffer x"):
        launch_from_json({"params": [again, again]}, "launch.json")


def test_contents_are_of_buffers_that_fit_in_memory() -> None:
    large = {"kind": "ptr", "buffer": "x", "data": "00", "bytes": 1 << 40}
    with pytest.raises(TilewrightError, match="buffer x has 1099511627776 bytes, some of which are given"):
        launch_from_json({"params": [large]}, "launch.json")
