"""Targets: every fact has a source, derived targets answer for themselves alone, schema errors are clear."""

import importlib.util
import re

import pytest

from tilewright.base.error import TilewrightError
from tilewright.targets import TARGET_NAMES, target
from tilewright.targets.schema import UNITS, parse_table
from tilewright.targets.target import BANK_TARGET_NAMES, inherit

HEADER = '[target]\nname = "sm_1"\ntitle = "A test"\n'
ROW = '[group.fact]\nvalue = 8\nunit = "bytes"\nsource = "PTX ISA, a section"\nsince = "PTX 8.0"\n'


@pytest.mark.parametrize("name", TARGET_NAMES)
def test_every_fact_has_a_source_and_a_version_or_a_probe(name: str) -> None:
    facts = target(name).facts
    assert len(facts) > 50
    for key, fact in facts.items():
        assert fact.key == key
        assert len(fact.source) > 10, key
        assert fact.since or fact.measured, key
        assert fact.unit in UNITS, key


_DOCUMENTS = re.compile(
    r"PTX ISA|CUDA (Driver API|C\+\+ Programming Guide|Occupancy Calculator)|Nsight Compute documentation|"
    r"NVIDIA Technical Blog|[Ww]hite ?paper|CDNA|AMD|LLVM|triton issues|pull request|no public document says so"
)


@pytest.mark.parametrize("name", BANK_TARGET_NAMES)
def test_every_source_is_a_document_or_a_command_that_is_there(name: str) -> None:
    """What was measured names a benchmark or probe of this repository; all else names a document."""
    for key, fact in target(name).facts.items():
        if fact.measured:
            module, *rest = fact.measured.split()
            name = f"bench.{rest[0].replace('-', '_')}" if module == "bench" else module
            assert importlib.util.find_spec(name) is not None, (key, fact.measured)
        else:
            assert _DOCUMENTS.search(fact.source), (key, fact.source)
            assert not re.search("observed|least squares|H200", fact.source), (key, fact.source)


def test_limits_that_kernels_rely_on() -> None:
    hopper = target("sm_90a")
    assert hopper.limit("cta.shared_bytes_max") == 227 * 1024
    assert hopper.limit("multiprocessor.shared_bytes") == hopper.limit("cta.shared_bytes_max") + 1024
    assert hopper.limit("mbarrier.transaction_bytes_max") == 2**20 - 1
    assert hopper.limit("tensor_map.dim_max") == 2**32
    assert hopper.limit("tensor_map.stride_limit_bytes") == 2**40
    assert hopper.limits("tensor_map.swizzle_span_bytes") == (0, 32, 64, 128)
    assert hopper.limit("device.multiprocessors") == 132


def test_blackwell_inherits_and_overrides_but_never_answers_for_hopper_alone() -> None:
    blackwell = target("sm_100a")
    assert blackwell.limit("tensor_map.rank_max") == 5
    assert blackwell.limit("tensor_map.swizzle_max") == 6
    assert target("sm_90a").supports("wgmma") and not blackwell.supports("wgmma")
    assert blackwell.supports("tcgen05") and not target("sm_90a").supports("tcgen05")
    for key in ("wgmma.m", "matrix_descriptor.base_offset_max", "device.clusters_of_2", "latency.product_cycles"):
        target("sm_90a").fact(key)
        with pytest.raises(TilewrightError, match="states no fact"):
            blackwell.fact(key)


def test_the_younger_ones_of_the_family_have_what_is_documented_of_them() -> None:
    ultra, consumer = target("sm_103a"), target("sm_120a")
    assert ultra.supports("tensor_memory") and ultra.limits("ptx.version") == (8, 8)
    assert ultra.limit("tensor_memory.columns") == 512
    assert ultra.fact("device.l2_bytes").estimate_of == "sm_100a" and not ultra.fact("tcgen05.n_max").estimate_of
    assert not any(consumer.supports(each) for each in ("tcgen05", "tensor_memory", "cta_pairs", "wgmma"))
    assert consumer.supports("bulk_tensor_copy") and consumer.supports("cluster_launch_control")
    assert consumer.limit("cta.shared_bytes_max") == 99 * 1024
    for key in ("tcgen05.n_max", "tensor_memory.columns", "product.rows", "shared_descriptor.offset_limit_bytes"):
        with pytest.raises(TilewrightError, match="states no fact"):
            consumer.fact(key)


def test_rates_and_parameters_of_hopper_devices_are_not_inherited() -> None:
    """But for those that only cost models ask for, as estimates that say so."""
    blackwell = target("sm_100a").facts
    assert not [key for key in blackwell if re.match("few_rows|latency|long_sum", key)]
    estimated = {key for key, fact in blackwell.items() if fact.estimate_of}
    groups = "exchange|grouped|pipeline|promotion|rows|stream_k|time_model"
    assert estimated == {key for key in blackwell if re.match(groups, key)}
    assert {blackwell[key].estimate_of for key in estimated} == {"sm_90a"}
    for key in set(blackwell) - estimated:
        assert not re.search("H200|fitted|least squares", blackwell[key].source), key
    assert not [key for key, fact in target("sm_90a").facts.items() if fact.estimate_of]


@pytest.mark.parametrize(("asked", "meant"), [("sm_90", "sm_90a"), ("sm90a", "sm_90a"), ("sm_100", "sm_100a")])
def test_an_unknown_target_names_the_nearest(asked: str, meant: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        target(asked)
    assert meant in caught.value.remedy


def test_an_unknown_fact_or_feature_is_an_error_and_never_a_default() -> None:
    hopper = target("sm_90a")
    with pytest.raises(TilewrightError, match=r"tensor_map\.rank_max"):
        hopper.limit("tensor_map.rank_maxx")
    with pytest.raises(TilewrightError, match="states no fact"):
        hopper.supports("warp_drive")
    with pytest.raises(TilewrightError, match="not one number"):
        hopper.limit("tensor_map.swizzle_span_bytes")
    with pytest.raises(TilewrightError, match="not one number"):
        hopper.limit("feature.wgmma")
    with pytest.raises(TilewrightError, match="not a list"):
        hopper.limits("tensor_map.rank_max")


def test_a_well_formed_table_is_read() -> None:
    (fact,) = parse_table(HEADER + ROW, "t.toml").facts.values()
    assert (fact.key, fact.value, fact.unit, fact.since, fact.measured) == ("group.fact", 8, "bytes", "PTX 8.0", "")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (ROW, "target"),
        ("not toml", "not TOML"),
        (HEADER + ROW + "not toml\n", "not TOML"),
        (HEADER + ROW + ROW, "twice"),
        (HEADER + ROW.replace("group.fact", "fact"), "group.name"),
        (HEADER + ROW.replace('source = "PTX ISA, a section"\n', ""), "no source"),
        (HEADER + ROW.replace('"PTX ISA, a section"', '" "'), "no source"),
        (HEADER + ROW.replace('since = "PTX 8.0"\n', ""), "neither since nor measured"),
        (HEADER + ROW.replace("PTX 8.0", "recently"), "not a version"),
        (HEADER + ROW + 'measured = "once, on an H200"\n', "no command"),
        (HEADER + ROW.replace('"bytes"', '"parsecs"'), "unknown unit 'parsecs'"),
        (HEADER + ROW.replace("value = 8\n", ""), "value is missing"),
        (HEADER + ROW.replace("value = 8", "value = true"), "value is a boolean"),
        (HEADER + ROW.replace("value = 8", "value = 1.5"), "wrong type"),
        (HEADER + ROW.replace("value = 8", "value = []"), "wrong type"),
        (HEADER + ROW.replace("value = 8", "value = [true]"), "wrong type"),
        (HEADER + ROW.replace('"bytes"', '"feature"'), "true or false"),
        (HEADER + ROW + 'sorce = "x"\n', "unknown field 'sorce'"),
        (HEADER + ROW.replace("group.fact", "Group.fact"), "lower-case"),
        (HEADER + "group = 3\n" + ROW.replace("group", "other"), "unknown field 'group'"),
        (HEADER + 'drops = ["group"]\n' + ROW, "drops without inherits"),
        (HEADER + 'estimates = ["group"]\n' + ROW, "estimates without inherits"),
        (HEADER + 'inherits = "sm_90a"\nestimates = "group"\n' + ROW, "list of group names"),
        (HEADER + 'inherits = "sm_90a"\ndrops = "group"\n' + ROW, "list of group names"),
    ],
)
def test_schema_errors_name_the_file_and_the_fault(text: str, complaint: str) -> None:
    with pytest.raises(TilewrightError, match=complaint) as caught:
        list(parse_table(text, "t.toml").facts.values())
    assert "t.toml" in str(caught.value)


@pytest.mark.parametrize("field", ["drops", "estimates"])
def test_naming_a_group_that_is_not_inherited_is_an_error(field: str) -> None:
    table = parse_table(HEADER + f'inherits = "sm_90a"\n{field} = ["wgmmma"]\n' + ROW, "t.toml")
    with pytest.raises(TilewrightError, match="wgmmma"):
        inherit(target("sm_90a").facts, table)
