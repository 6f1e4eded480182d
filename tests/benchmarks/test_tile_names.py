"""Result files have one name for a tile's extents, whichever kernels a product has."""

from bench.tile_names import by_tile_names

from tilewright.driver.compile.compile import compile_kernel
from tilewright.driver.compile.kernels import matmul_kernel
from tilewright.synth.tile.wanted import Wanted


def names(k: int, **wanted: object) -> dict[str, object]:
    dims, wishes = {"M": 512, "N": 512, "K": k}, Wanted(**wanted)
    made = compile_kernel(matmul_kernel, dims=dims, strides={"b": (1, k)}, wanted=wishes, rerun=False, assembled=False)
    return by_tile_names(made.bundle().decisions)


def test_a_walk_and_one_behind_a_copy_have_the_same_names() -> None:
    wished = {"tile": (128, 64), "stages": 3, "turns": True, "depth": 64}
    walk, behind = names(1024, **wished), names(1026, unmapped="workspace", **wished)
    assert "programs" in behind and "programs" not in walk
    for name, value in (
        ("tile_m", 128),
        ("tile_n", 64),
        ("tile_k", 64),
        ("stages", 3),
        ("swapped", 0),
        ("streamed", 0),
    ):
        assert walk[name] == behind[name] == value
    assert [walk["cluster_m"], walk["cluster_n"]] == [behind["cluster_m"], behind["cluster_n"]] == [1, 1]
