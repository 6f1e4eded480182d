"""The loop of attention's forward pass, described for the scheduler. See docs/schedules.md."""

from tilewright.ir.loop_body import Carried, Compute, LoadTile, LoopBody, Multiply

attention = LoopBody(
    "attention forward",
    (
        LoadTile("K", "k", 128, 128, 2),
        LoadTile("V", "v", 128, 128, 2),
        Multiply("scores", "", "K", 128, 128, 128, 2, accumulates=False),  # the queries stay in shared memory
        Compute("maxima", ("scores",), 128, 128),
        Compute("weights", ("scores", "maxima"), 128, 128, special_operations=100, result_registers=50),
        Compute("sums", ("weights",), 128, 128),
        Compute("rescale", ("maxima",), 128, 128),
        Multiply("output", "weights", "V", 128, 128, 128, 2),
    ),
    (Carried("maxima", "maxima"), Carried("sums", "sums"), Carried("output", "rescale")),
    consumers=2,
    consumer_registers=216,
    shared_bytes=160 * 1024,
    trips=64,
)
