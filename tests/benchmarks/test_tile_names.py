"""Result files have one name for a tile's extents, whichever generator a product has."""

from bench.tile_names import by_tile_names

from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.synth.tile.wanted import Wanted


def names(k: int, **wanted: object) -> dict[str, object]:
    dims, wishes = {"M": 512, "N": 512, "K": k}, Wanted(**wanted)
    made = compile_kernel(matmul_kernel, dims=dims, strides={"b": (1, k)}, wanted=wishes, rerun=False, assembled=False)
    return by_tile_names(made.bundle().decisions)


def test_a_walk_and_a_pipeline_have_the_same_names() -> None:
    wished = {"tile": (128, 64), "stages": 3, "turns": True, "depth": 64}
    walk, pipeline = names(1024, **wished), names(1026, unmapped="workspace", **wished)
    for name, value in (
        ("tile_m", 128),
        ("tile_n", 64),
        ("tile_k", 64),
        ("stages", 3),
        ("swapped", 0),
        ("streamed", 0),
    ):
        assert walk[name] == pipeline[name] == value
    assert "row" in walk and "row" not in pipeline
    assert [walk["cluster_m"], walk["cluster_n"]] == [pipeline["cluster_m"], pipeline["cluster_n"]]
