"""What measured collectives take beyond NCCL's own model: a pipeline that fills, and kernels.

NCCL's model chooses well and is too fast for 2 to 256 MiB: it expects that all links are busy from
the first byte to the last. In fact a collective moves chunks, a step waits for a chunk to be there,
and small messages make few of them. So::

    seconds = latency + START + size / (WIRE x rate) + FILL x rounds x size / (size + FILL_HALF)

`FILL` is what a round over the links adds once there are enough bytes for chunks of full size, and
`FILL_HALF` the size at which half of it is reached; a sum for everyone has two rounds. The
constants are fitted to the sweeps of ``benchmarks/published/sweeps.csv``, which are other machines'
than those by which predictions are judged; ``benchmarks/published/sweeps.py`` fits them again with each
machine left out.
"""

# Share of NCCL's rate that large messages reach, on one node and over several.
WIRE = 0.96
# Bytes of which the way is added while the pipeline fills, and the size at which half of it is reached.
FILL = 20e6
# Seconds before the first byte beyond NCCL's: of a sweep over 8 B200s at 1 KiB. An all-reduce has
# none: its latencies are those that NCCL was tuned with.
START = {"all_gather": 5.5e-6, "reduce_scatter": 5.5e-6, "all_to_all": 4e-6, "send": 2e-6}
# Rate at which one channel moves a message between two GPUs, bytes/s: of sendrecv_perf on A100s at
# 128 MiB (8 channels, 111 GB/s) and B200s at 1 to 256 MiB (4 to 16 channels, 85 to 331 GB/s). The other
# two are assumed between.
PAIR_CHANNEL_RATE = {"volta": 14e9, "ampere": 14e9, "hopper": 18e9, "blackwell": 21e9}


def start(collective):
    """Return the seconds before the first byte beyond those that NCCL expects."""
    return START.get(collective, 0.0)


def slower(num_bytes, per_byte):
    """Return the seconds by which bytes move longer than NCCL expects."""
    return num_bytes * per_byte * (1 / WIRE - 1)


def filling(num_bytes, per_byte, depth):
    """Return the seconds in which links are idle since chunks are not there yet.

    Parameters
    ----------
    num_bytes : int
    per_byte : float
        Seconds for each byte on the busiest edge.
    depth : int
        Levels of nodes over which data are summed, at least 1.
    """
    fill = FILL * depth
    return per_byte * fill * num_bytes / (num_bytes + fill)
