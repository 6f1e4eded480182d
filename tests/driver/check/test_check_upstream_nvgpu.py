"""nvgpu MLIR as upstream's tests write it: kernels inside host functions are proven, each single mistake in them is
refuted or unknown, and what is not followed is unknown with its line."""

import re
from random import Random

import pytest
from tests.driver.check.structured_text import checked
from tests.driver.check.upstream_kernels import KERNELS, copied, launched, pipelined, specialized, stored

from tilewright.base.error import TilewrightError
from tilewright.driver.check.check import check_text
from tilewright.driver.check.mlir.check_mlir import mlir_kernels


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_proven(name):
    report = checked(KERNELS[name](), "kernel.mlir")
    assert (report.name, report.verdict) == ("main_kernel", "proven"), (report.reasons, report.findings)
    assert not report.findings
    assert any("allocation in shared memory" in each for each in report.assumptions)


DROPPED = re.compile(
    r"nvgpu\.(mbarrier\.(init|arrive|try_wait)|tma\.async\.load|device_async_wait)|gpu\.barrier|nvvm\.(fence|cp\.async)"
)
"""Each operation without which a kernel is wrong."""


def without(text):
    """The text without one of its protocol's operations, for each of them, with its line."""
    lines = text.splitlines(keepends=True)
    for place, line in enumerate(lines):
        if DROPPED.search(line):
            yield place + 1, "".join(lines[:place] + lines[place + 1 :])


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", KERNELS)
def test_no_operation_can_be_left_out(name):
    seen = 0
    for line, mutant in without(KERNELS[name]()):
        report = checked(mutant, "kernel.mlir")
        assert report.verdict == "refuted", (line, report.verdict, report.reasons)
        seen += 1
    assert seen >= 4


MUTANTS = [
    # kernel, what stands there, what instead, codes (none: unknown)
    (pipelined, "%bytes_of_stage = arith.constant 32768", "%bytes_of_stage = arith.constant 32752", {"TX104"}),
    (pipelined, "%parity = %even", "%parity = %odd", {"MB108"}),
    (pipelined, "waitGroup = 0", "waitGroup = 1", {"WG105", "MB108"}),
    (pipelined, "try_wait.parity %full[%slot]", "try_wait.parity %full[%c0]", {"MB111", "MB113", "MB114"}),
    (pipelined, "%c1, predicate = %first : !barriers", "%c2, predicate = %first : !barriers", {"MB113"}),
    (pipelined, "predicate = %fills", "predicate = %is_any", {"MB106"}),
    (pipelined, "%full[%ahead] to %a_tile, predicate = %first", "%full[%ahead] to %a_tile", set()),
    (pipelined, "%c32768 = arith.constant 32768", "%c32768 = arith.constant 32752", set()),
    (specialized, "%end = scf.for %step = %c0 to %c8 step %c1 iter_args(%parity = %odd)",
     "%end = scf.for %step = %c0 to %c8 step %c1 iter_args(%parity = %even)", {"MB114", "LV102"}),
    (specialized, "arrive %empty[%slot]", "arrive %empty[%c0]", {"MB113", "MB106", "MB107"}),
    (specialized, "scf.if %first {\n          %token", "scf.if %odd {\n          %token", {"MB106"}),
    (specialized, "waitGroup = 0", "waitGroup = 1", {"TM101", "WG105"}),
    (stored, "%c0], %even", "%c0], %odd", {"MB108", "MB111"}),
    (stored, "arith.constant 64 : index\n", "arith.constant 72 : index\n", {"NB101"}),
    (copied, "numGroups = 1", "numGroups = 2", {"BG105"}),
    (copied, "%slots[%slot, %other", "%slots[%coming_slot, %other", {"BG105"}),
    (copied, "arith.subi %c127, %thread", "arith.subi %c128, %thread", {"BG105", "NB101"}),
]  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("kernel", "old", "new", "codes"), MUTANTS, ids=[f"{row[0].__name__} {row[2][:30]}" for row in MUTANTS]
)
def test_mistakes_are_never_proven(kernel, old, new, codes):
    text = kernel()
    assert old in text
    report = checked(text.replace(old, new, 1), "kernel.mlir")
    if not codes:
        assert report.verdict == "unknown" and re.search(r":\d+: ", report.reasons[0])
    else:
        assert report.verdict == "refuted", (report.verdict, report.reasons)
        assert codes & {finding.code for finding in report.errors}, report.errors


def test_a_slot_that_nobody_fills_is_for_review():
    """Order is kept; what is read was never written, which is contested."""
    text = pipelined().replace("muli %coming_slot, %c16384", "muli %c0, %c16384")
    report = checked(text, "kernel.mlir")
    assert [(finding.code, finding.level.value) for finding in report.findings] == [("UM101", "review")]


def test_each_thread_may_read_what_it_copied_itself():
    """Without a barrier a thread knows of its own copies, and of no other's."""
    text = copied()
    own = text.replace("%slots[%slot, %other, %c0]", "%slots[%slot, %thread, %c0]").replace("      gpu.barrier\n", "")
    assert own.count("gpu.barrier") == 0
    report = checked(own, "kernel.mlir")
    assert report.verdict == "proven", (report.reasons, report.findings)


def test_a_store_that_threads_race_in_is_refuted():
    """Upstream lowers the store of 64 columns with tiles 32 rows apart, which overlap."""
    text = pipelined().replace("vector<128x128xf32>> to memref", "vector<128x64xf32>> to memref")
    report = checked(text, "kernel.mlir")
    assert report.verdict == "refuted" and "NB101" in {finding.code for finding in report.errors}


def test_equal_inits_by_all_threads_are_contested():
    text = stored().replace("%c128, predicate = %first : !barriers", "%c128 : !barriers")
    report = checked(text, "kernel.mlir")
    assert report.verdict == "proven", (report.reasons, report.findings)
    assert [(finding.code, finding.level.value) for finding in report.findings] == [("MB115", "review")]
    unordered = text.replace("%c128 : !barriers\n    gpu.barrier\n", "%c128 : !barriers\n")
    assert "MB104" in {finding.code for finding in checked(unordered, "kernel.mlir").errors}


ELECTED = """\
    %all = arith.constant -1 : i32
    %none = arith.constant 0 : i32
    %last = arith.constant 31 : i32
    %warp = arith.divui %thread, %c32 : index
    %warp_word = arith.index_cast %warp : index to i32
    %same = nvvm.shfl.sync idx %all, %warp_word, %none, %last : i32 -> i32
    %is_first_warp = arith.cmpi eq, %same, %none : i32
    %elected = nvvm.elect.sync -> i1
    %one = arith.andi %is_first_warp, %elected : i1
    %tile = memref.view %memory[%c0][] : !bytes to memref<128x64xf16, #gpu.address_space<workgroup>>
    scf.if %one {
      nvgpu.mbarrier.init %full[%c0], %c1 : !barriers
    }
    gpu.barrier
    scf.if %one {
      nvgpu.mbarrier.arrive.expect_tx %full[%c0], %c16384 : !barriers
      nvgpu.tma.async.load %a_map[%c0, %c0], %full[%c0] to %tile : !left, !barriers -> memref<128x64xf16, #gpu.address_space<workgroup>>
    }
    nvgpu.mbarrier.try_wait.parity %full[%c0], %even, %ticks : !barriers
    %value = memref.load %tile[%thread, %c0] : memref<128x64xf16, #gpu.address_space<workgroup>>
"""  # noqa: E501


def test_elected_threads():
    assert checked(launched(ELECTED), "kernel.mlir").verdict == "proven"
    assert checked(launched(ELECTED, 96), "kernel.mlir").verdict == "proven"
    # All warps elect one: four expectations where one arrival is counted.
    assert checked(launched(ELECTED.replace("%is_first_warp, %elected", "%elected, %elected")), "kernel.mlir").verdict
    # Which thread was elected is not known: it may be another one than the first.
    other = ELECTED.replace("gpu.barrier\n    scf.if %one", "scf.if %first")
    assert checked(launched(other), "kernel.mlir").verdict == "refuted"
    masked = launched(ELECTED.replace("constant -1", "constant 32"))
    report = checked(masked, "kernel.mlir")
    assert report.verdict == "unknown" and "mask" in report.reasons[0]


def test_a_part_that_waits_for_another_part_of_its_warpgroup_is_no_deadlock():
    """Thread 0 waits for an arrival that stands behind in the text, and that others make."""
    body = """\
    nvgpu.mbarrier.init %full[%c0], %c1, predicate = %first : !barriers
    gpu.barrier
    %second = arith.cmpi eq, %thread, %c1 : index
    scf.if %first {
      nvgpu.mbarrier.try_wait.parity %full[%c0], %even, %ticks : !barriers
    }
    scf.if %second {
      %token = nvgpu.mbarrier.arrive %full[%c0] : !barriers -> !nvgpu.mbarrier.token
    }
"""
    report = checked(launched(body), "kernel.mlir")
    assert report.verdict == "unknown" and not report.errors
    arrives_itself = body.replace("scf.if %second", "scf.if %first")
    assert checked(launched(arrives_itself), "kernel.mlir").verdict == "refuted"


def test_a_branch_that_nobody_takes_leaves_no_trace():
    """What a part of the threads would do there is not followed; all of the first 64 arrive in the branch taken."""
    body = """\
    nvgpu.mbarrier.init %full[%c0], %c64, predicate = %first : !barriers
    gpu.barrier
    %is_low = arith.cmpi ult, %thread, %c64 : index
    scf.if %is_low {
      scf.if %is_low {
        %token = nvgpu.mbarrier.arrive %full[%c0] : !barriers -> !nvgpu.mbarrier.token
      } else {
        scf.if %first {
          linalg.fill ins(%even : i1) outs(%full : memref<128x64xi1, 3>)
        }
      }
    }
    nvgpu.mbarrier.try_wait.parity %full[%c0], %even, %ticks : !barriers
"""
    report = checked(launched(body), "kernel.mlir")
    assert report.verdict == "proven", (report.reasons, report.findings)


NOT_FOLLOWED = [
    ("%token = nvgpu.mbarrier.arrive.nocomplete %full[%c0], %c1 : !barriers -> !nvgpu.mbarrier.token", "not complete"),
    ("%x = func.call @other(%c0) : (index) -> index", "func.call"),
    ("linalg.fill ins(%even : i1) outs(%tile : memref<128x64xi1, 3>)", "linalg.fill"),
    ("%v = vector.maskedload %tile[%c0, %c0], %m, %p : memref<128x64xf16, 3>, vector<8xi1>, vector<8xf16> into "
     "vector<8xf16>", "vector.maskedload"),
    ("memref.store %h, %elsewhere[%c0] : memref<8xf16, 3>", "%elsewhere"),
    ("nvvm.inline_ptx \"bar.sync 0;\"", "nvvm.inline_ptx"),
    ("scf.if %first {\n      gpu.barrier\n    }", "gpu.barrier by a part"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "reason"), NOT_FOLLOWED, ids=[row[1] for row in NOT_FOLLOWED])
def test_what_is_not_followed_is_unknown_with_its_line(written, reason):
    body = f"""\
    %tile = memref.view %memory[%c0][] : !bytes to memref<128x64xf16, #gpu.address_space<workgroup>>
    nvgpu.mbarrier.init %full[%c0], %c1, predicate = %first : !barriers
    gpu.barrier
    {written}
"""
    text = launched(body)
    line = text[: text.index(written)].count("\n") + 1
    report = checked(text, "kernel.mlir")
    assert report.verdict == "unknown", (report.verdict, report.findings)
    found = re.search(r":(\d+): (.*)", report.reasons[0])
    assert found is not None and line <= int(found[1]) <= line + 1 and reason in found[2], report.reasons


FUNCTION = """\
module attributes {gpu.container_module} {
  func.func @main() {
    %c1 = arith.constant 1 : index
    %c64 = arith.constant THREADS : index
    gpu.launch_func @kernels::@ring clusters in (%c1, %c1, %c1) blocks in (%c1, %c1, %c1) threads in (%c64, %c1, %c1)
    return
  }
  gpu.module @kernels [#nvvm.target<chip = "sm_90">] {
    gpu.func @ring(%n: index) workgroup(%flag: memref<64xf32, 3>) kernel {
      %x = gpu.thread_id x
      %place = gpu.cluster_id x
      %zero = arith.constant 0.0 : f32
      %last = arith.constant 63 : index
      %other = arith.subi %last, %x : index
      memref.store %zero, %flag[%x] : memref<64xf32, 3>
      gpu.barrier
      %value = memref.load %flag[%other] : memref<64xf32, 3>
      gpu.return
    }
  }
}
"""


def test_functions_that_a_launch_names():
    text = FUNCTION.replace("THREADS", "64")
    report = checked(text, "ring.mlir")
    assert (report.name, report.target, report.verdict) == ("ring", "sm_90", "proven"), report.reasons
    unordered = checked(text.replace("      gpu.barrier\n", ""), "ring.mlir")
    assert {finding.code for finding in unordered.errors} == {"NB101"}
    unlaunched = checked(text.replace("@kernels::@ring", "@kernels::@other"), "ring.mlir")
    assert unlaunched.verdict == "unknown" and "how many threads" in unlaunched.reasons[0]
    assert checked(FUNCTION.replace("THREADS", "4096"), "ring.mlir").verdict == "unknown"


def test_functions_that_nothing_launches_are_unknown():
    text = "func.func @loose() {\n  gpu.barrier\n  return\n}\n"
    report = checked(text, "loose.mlir")
    assert report.verdict == "unknown" and "nothing launches it" in report.reasons[0]


def test_entries_are_named():
    with pytest.raises(TilewrightError, match="main_kernel"):
        mlir_kernels(stored(), "kernel.mlir", entry="other")
    with pytest.raises(TilewrightError, match=r"gpu\.launch"):
        mlir_kernels("func.func @host() {\n  return\n}\n", "host.mlir")


def test_a_launch_without_a_body_and_a_loop_that_yields_less_are_unknown() -> None:
    lines = pipelined().split("\n")
    at = next(number for number, line in enumerate(lines) if line.lstrip().startswith("gpu.launch"))
    bodiless = "\n".join([*lines[:at], lines[at].split(" in ")[0], *lines[at:]])
    reports = check_text(bodiless, "k.mlir").kernels
    assert all(not each.defect for each in reports)
    assert reports[0].verdict == "unknown"
    loop = "scf.for"
    number = next(at for at, line in enumerate(lines) if loop in line and "iter_args" in line)
    fewer = [*lines]
    yields = next(at for at in range(number, len(lines)) if "scf.yield %" in lines[at])
    fewer[yields] = fewer[yields].split("scf.yield")[0] + "scf.yield"
    without_bounds = [*lines]
    without_bounds[number] = "scf.for {"
    for text in (fewer, without_bounds):
        reports = check_text("\n".join(text), "k.mlir").kernels
        assert reports and all(not each.defect and each.verdict == "unknown" for each in reports)


def test_random_edits_of_the_text_meet_no_defect() -> None:
    random, kinds = Random(0), set[str]()
    for _ in range(16):
        lines = random.choice([pipelined(), specialized()]).split("\n")
        at, other = random.randrange(len(lines)), random.randrange(len(lines))
        match random.randrange(4):
            case 0:
                del lines[at:]
            case 1:
                del lines[at]
            case 2:
                lines.insert(other, lines[at])
            case _:
                place = random.randrange(len(lines[at]) + 1)
                lines[at] = lines[at][:place] + random.choice("{}()%<>,:0") + lines[at][place + 1 :]
        report = check_text("\n".join(lines), "k.mlir")
        assert not any(each.defect for each in report.kernels) and "fault of tilewright" not in report.error
        kinds |= {each.verdict for each in report.kernels} or {"error"}
    assert {"error", "unknown"} <= kinds
