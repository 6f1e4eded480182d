"""Public issues about tensor maps, each with the map that it is about, and the table of docs/tensormap-issues.md that
says what Tilewright answers: `python -m tests.docs.tensormap_issues` writes it anew.

Values are those that the issue publishes; where it gives none, they are an example of the cause that was found there,
and the table says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.docs.pages import ROOT

from tilewright.cli.tensormap.judge import Judged, Question, judge, null_remarks
from tilewright.driver.rules.catalog import explain
from tilewright.legal import Im2colMap, TensorMap, Want
from tilewright.legal.tensor_map.im2col_map import AnyMap


@dataclass(frozen=True, slots=True)
class Case:
    """One map of an issue with what was done with it.

    cause: the code that must come first; "" where the map is legal and a remark is the answer. words: what the answer
    must say; repair: the kind of the repair to show, "" for the rule's remedy. copy: arguments of `check_copy`.
    """

    map: AnyMap
    cause: str
    words: str
    repair: str = ""
    target: str = "sm_90a"
    driver: tuple[int, int] | None = None
    copy: dict[str, Any] = field(default_factory=dict[str, Any])
    error: int | None = None
    map_address: int | None = None
    published: bool = False
    stated_null: bool = False

    def judged(self) -> Judged:
        question = Question(self.target, self.driver, self.copy, Want(), False, self.error, self.map_address)
        return judge(self.map, question, null_remarks(self.map) if self.stated_null else ())

    def answer(self) -> str:
        """What is said first: of violations the first, of warnings the one that is the cause, else the remark."""
        judged = self.judged()
        if judged.violations:
            first = judged.violations[0]
            return f"`{first.code}` {first.message}"
        if self.cause:
            first = next(each for each in judged.warnings if each.code == self.cause)
            return f"legal, with a warning: `{first.code}` {first.message}"
        return f"legal; {judged.remarks[0].removeprefix('the map is legal: ')}"

    def mend(self) -> str:
        """The repair of the kind that is shown, with its cost; else the remedy of the rule."""
        if self.repair:
            found = next(each for each in self.judged().repairs if each.kind == self.repair)
            return f"{found.title} (costs {found.cost.line})"
        if not self.cause:
            return "nothing of the map"
        return next(rule.remedy for rule in explain(self.cause))


@dataclass(frozen=True, slots=True)
class Issue:
    """One row. links: as owner/name#number; saw: what the user saw, or asked for."""

    links: tuple[str, ...]
    saw: str
    cases: tuple[Case, ...]

    @property
    def published(self) -> bool:
        return all(case.published for case in self.cases)


_PAGE = TensorMap("f16", (4096, 4096), (8192,), (64, 64), swizzle="128B")

ISSUES: tuple[Issue, ...] = (
    Issue(
        ("NVIDIA/cutlass#947",),
        "`Failed to initialize the TMA descriptor 1`, for a kernel without a C operand",
        (
            Case(
                TensorMap("f16", (1024, 1024, 1), (2048, 2097152), (64, 128, 1), swizzle=3, address=0),
                "", "address is null", published=True, stated_null=True,
            ),
        ),
    ),
    Issue(
        ("NVIDIA/recsys-examples#86",),
        "the same, in training, for a batch that happened to be empty",
        (Case(TensorMap("bf16", (128, 0, 4), (1024, 256), (64, 128, 1), swizzle=3), "TM011", "extent 0"),),
    ),
    Issue(
        ("sgl-project/sglang#16327",),
        "the same, for some requests only: the tensor begins at an address that ends in c0c",
        (
            Case(
                TensorMap("bf16", (7168, 4096), (14336,), (64, 128), swizzle="128B", address=0x7F4C49E00C0C),
                "TM009", "is not a multiple of 16", "copy",
            ),
        ),
    ),
    Issue(
        ("sgl-project/sglang#13775", "flashinfer-ai/flashinfer#2134"),
        "`Failed to initialize the TMA descriptor due to invalid argument`, with long contexts",
        (
            Case(
                TensorMap(
                    "bf16", (192, 131072, 128, 1), (49152, 384, 2305843007066210304), (64, 128, 1, 1), swizzle=3,
                    address=0x7B4CC0000000,
                ),
                "TM013", "2305843007066210304", "merge", published=True,
            ),
        ),
    ),
    Issue(
        ("flashinfer-ai/flashinfer#2232", "flashinfer-ai/flashinfer#2274"),
        "the same where there is one head of keys and values; and an illegal memory access reported by the encoder",
        (
            Case(
                TensorMap(
                    "bf16", (64, 16, 1, 7721128), (128, 2, 4096), (64, 16, 1, 1), swizzle=3, address=0xF64D740000
                ),
                "TM012", "stride of dimension 2, 2 bytes", "merge", published=True,
            ),
            Case(
                TensorMap(
                    "bf16", (128, 7, 2, 24), (256, 1792, 3584), (64, 8, 1, 1), swizzle=3, address=0xC903C15000
                ),
                "", "earlier error", error=700, published=True,
            ),
        ),
    ),
    Issue(
        ("vllm-project/vllm#13961", "Soul-AILab/SoulX-FlashTalk#9"),
        "`Failed to initialize the TMA descriptor 700`, then 715; elsewhere 999",
        (
            Case(
                TensorMap("f16", (64, 1, 32), (12288, 128), (64, 192, 1), swizzle=3, address=0x40167E202000),
                "", "700 (CUDA_ERROR_ILLEGAL_ADDRESS) is an earlier error", error=700, published=True,
            ),
            Case(
                TensorMap(
                    "f16", (64, 16, 32, 23434), (4096, 128, 65536), (64, 192, 1, 1), swizzle=3, l2_promotion=2,
                    address=0x400540000000,
                ),
                "", "715 (CUDA_ERROR_ILLEGAL_INSTRUCTION) is an earlier error", error=715, published=True,
            ),
            Case(
                TensorMap(
                    "bf16", (128, 1512, 40, 1), (10240, 256, 0), (64, 128, 1, 1), swizzle=3, l2_promotion=2,
                    address=0x77F154000000,
                ),
                "", "999 (CUDA_ERROR_UNKNOWN) is an earlier error", error=999, published=True,
            ),
        ),
    ),
    Issue(
        ("Dao-AILab/flash-attention#1296",),
        "`Failed to initialize the TMA descriptor 1` at head dimension 192, though shared memory suffices",
        (
            Case(
                TensorMap(
                    "f32", (32, 49152, 16, 1), (128, 6291456, 100663296), (32, 384, 1, 1), swizzle=3, l2_promotion=2
                ),
                "TM014", "384", "box", published=True,
            ),
        ),
    ),
    Issue(
        ("deepseek-ai/DeepGEMM#96",),
        "works only where the stride of the rows is a multiple of 64: what is the rule?",
        (
            Case(
                TensorMap("u8", (1000, 4096), (1000,), (128, 128), swizzle="128B"),
                "TM012", "1000 bytes is not a multiple of 16", "pad",
            ),
        ),
    ),
    Issue(
        ("tile-ai/tilelang#1931",),
        "an opaque error for an f32 matrix of 1733 columns",
        (
            Case(
                TensorMap("f32", (1733, 128), (6932,), (64, 32)),
                "TM012", "6932 bytes is not a multiple of 16", "pad", published=True,
            ),
        ),
    ),
    Issue(
        ("tile-ai/tilelang#2630", "tile-ai/tilelang#2578"),
        "a box wider than the swizzle's span compiles, and fails at launch; tiled, and im2col",
        (
            Case(
                TensorMap("f16", (48, 64), (96,), (48, 64), swizzle="32B"),
                "TM016", "96 bytes exceeds the swizzle's span of 32", "swizzle", published=True,
            ),
            Case(
                Im2colMap(
                    "f16", (128, 8, 8, 1), (256, 2048, 16384), (-1, -1), (-1, -1), 128, 16, swizzle=3, l2_promotion=2
                ),
                "TM016", "256 bytes exceeds the swizzle's span of 128", "box", published=True,
            ),
        ),
    ),
    Issue(
        ("tile-ai/tilelang#2379", "NVIDIA/Fuser#4096", "cloudrift-ai/emmy#200"),
        "wrong values where the shared tile begins 128 bytes after a multiple of 1024",
        (Case(_PAGE, "TM058", "0x80 is no multiple of 1024", copy={"shared_address": 128}, published=True),),
    ),
    Issue(
        ("NVIDIA/Fuser#3023", "inclusionAI/humming#21"),
        "`CUDA_ERROR_MISALIGNED_ADDRESS` from a copy",
        (Case(_PAGE, "TM056", "0x40 is no multiple of 128", copy={"shared_address": 64}, published=True),),
    ),
    Issue(
        ("triton-lang/triton#8657",),
        "`an illegal instruction was encountered`, from a store of a vector's tail",
        (
            Case(
                TensorMap("f32", (1024,), (), (32,)),
                "TM054", "raises an illegal instruction", copy={"coords": (993,), "direction": "store"},
            ),
        ),
    ),
    Issue(
        ("triton-lang/triton#10927", "triton-lang/triton#10931"),
        "wrong products, without an error, for bf16 rows of 511 elements in a map made on the device",
        (
            Case(
                TensorMap("bf16", (511, 512), (1022,), (64, 64), swizzle="128B"),
                "TM012", "1022 bytes is not a multiple of 16", "pad", published=True,
            ),
        ),
    ),
    Issue(
        ("triton-lang/triton#11583",),
        "a store writes past the tensor's inner extent of 466 bytes",
        (
            Case(
                TensorMap("u8", (466, 32), (512,), (128, 32)),
                "TM036", "14 bytes beyond", copy={"coords": (384, 0), "direction": "store"}, published=True,
            ),
        ),
    ),
    Issue(
        ("triton-lang/triton#10474",),
        "`misaligned address` once the loop has three stages or more: stages smaller than 128 bytes follow each other",
        (
            Case(
                TensorMap("f32", (4096,), (), (8,)),
                "TM056", "0x20 is no multiple of 128", copy={"shared_address": 32},
            ),
        ),
    ),
    Issue(
        ("triton-lang/triton#10442", "triton-lang/triton#9235", "triton-lang/triton#11011"),
        "sporadic illegal accesses on Blackwell, for small tensors with gaps",
        (
            Case(
                TensorMap("bf16", (64, 8), (8192,), (64, 8), swizzle="128B"),
                "TM042", "clear it", target="sm_100a", driver=(13, 0),
            ),
        ),
    ),
    Issue(
        ("triton-lang/triton#9439",),
        "`CUtensorMap must be aligned to 128B, but got (&map) mod 128 = 64`",
        (Case(_PAGE, "", "aligned to 128 bytes from CUDA 13.0 on", map_address=0x7F00_0000_0040, published=True),),
    ),
    Issue(
        ("triton-lang/triton#7028", "triton-lang/triton#4419"),
        "asks for more than `invalid argument`",
        (
            Case(
                TensorMap("bf16", (100, 4096), (200,), (128, 512), swizzle="128B", address=8),
                "TM009", "0x8 is not a multiple of 16", "copy",
            ),
        ),
    ),
    Issue(
        ("triton-lang/triton#6776", "facebookexperimental/triton#2033", "NVIDIA/Fuser#3472"),
        "blocks of more than 256 are refused; asks that they be cut into several copies",
        (Case(TensorMap("bf16", (4096, 4096), (8192,), (64, 512), swizzle="128B"), "TM014", "512", "box"),),
    ),
    Issue(
        ("pytorch/helion#2555",),
        "a block larger than the tensor is treated as illegal",
        (Case(TensorMap("bf16", (64, 100), (128,), (64, 128), swizzle="128B"), "TM035", "128 of dimension 1"),),
    ),
    Issue(
        ("NVIDIA/cutlass#3121", "NVIDIA/cutlass#3458"),
        "undefined descriptors for broadcast dimensions; a multicast of 33 slices reads out of bounds",
        (
            Case(TensorMap("u8", (128, 512), (0,), (128, 4)), "TM037", "repeats the same bytes 512 times"),
            Case(
                TensorMap("f16", (64, 32), (128,), (8, 4)),
                "TM059", "a multicast of 33 slices", copy={"multicast_ctas": 33}, published=True,
            ),
        ),
    ),
    Issue(
        ("NVIDIA/cutlass#3236",),
        "a 4-bit descriptor that a DSL made fails where the driver's own works",
        (
            Case(
                TensorMap("u4x16_align16", (128, 128), (64,), (128, 128), swizzle="128B"),
                "TM044", "loads alone", target="sm_100a", published=True,
            ),
        ),
    ),
    Issue(
        ("tile-ai/tilelang#2833",),
        "must a tensor begin at a multiple of 128 bytes under a swizzle?",
        (
            Case(
                TensorMap("bf16", (4080, 4096), (8192,), (64, 64), swizzle="128B", address=0x7F0000000020),
                "TM040", "the encoder takes it",
            ),
        ),
    ),
    Issue(
        ("tile-ai/tilelang#2107", "tile-ai/tilelang#2086"),
        "strides of 4-bit tensors are reckoned in whole bytes an element, or rounded up",
        (
            Case(
                TensorMap("u4x16_align8", (30, 512), (15,), (32, 64)),
                "TM012", "15 bytes is not a multiple of 16", "pad", target="sm_100a",
            ),
        ),
    ),
)  # fmt: skip

PAGE = ROOT / "docs" / "tensormap-issues.md"
BEGIN, END = "<!-- table of issues: made by tests/docs/tensormap_issues.py -->", "<!-- end of the table -->"


def table() -> str:
    """The rows as Markdown."""
    lines = ["| issue | what was seen | what Tilewright names | what fixes it |", "| --- | --- | --- | --- |"]
    for issue in ISSUES:
        links = ", ".join(_link(link) for link in issue.links)
        example = "" if issue.published else " *(values: an example)*"
        answers = "<br>".join(case.answer() for case in issue.cases)
        mends = "<br>".join(dict.fromkeys(case.mend() for case in issue.cases))
        lines.append(f"| {links} | {issue.saw}{example} | {answers} | {mends} |")
    return "\n".join(lines) + "\n"


def _link(issue: str) -> str:
    name, _, number = issue.partition("#")
    return f"[{issue}](https://github.com/{name}/issues/{number})"


def current() -> str:
    """The table that the page has."""
    return PAGE.read_text("utf-8").partition(BEGIN + "\n")[2].partition(END)[0]


if __name__ == "__main__":
    text = PAGE.read_text("utf-8")
    PAGE.write_text(text.replace(BEGIN + "\n" + current() + END, BEGIN + "\n" + table() + END), "utf-8")
