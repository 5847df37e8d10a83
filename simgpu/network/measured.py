"""What measured collectives take beyond NCCL's own model: slower links, and a pipeline that fills.

NCCL's model is made to choose. It expects that all links are busy from the first byte to the last,
and is too fast for 2 to 256 MiB. In fact a collective moves chunks, a step waits for its chunk to
be there, and a small message is few of them::

    seconds = NCCL's + START + per_byte x (size x (1 / WIRE - 1) + fill x size / (size + fill))
    fill = FILL x channels x levels of nodes over which data are summed for all (at least 1)

`per_byte` is that of the busiest link. So small messages move at half of the rate, and large ones
take as long as if they had `fill` bytes more: a slice for each channel.

`WIRE` is fitted to sweeps that are in no table by which predictions are judged. `FILL` is a number
of NCCL's, and these sweeps choose it too. ``benchmarks/published/sweeps.csv`` has them;
``sweeps.py`` chooses both constants again with each machine left out.
"""

# Share of NCCL's rate that large messages reach.
WIRE = 0.96
# Bytes of a slice, the piece that a channel passes on at once: a quarter of the 4 MiB buffer of
# NCCL's Simple protocol (NCCL_BUFFSIZE, ALLREDUCE_SLICESTEPS = NCCL_STEPS / 4).
FILL = 2**20
# Seconds before the first byte beyond NCCL's, by kind, of a sweep over eight B200s at 1 KiB (in the
# same file). Sums for all have none: over nodes of H100s they take the latencies that NCCL was
# tuned with. (On those B200s they took 10 us longer: small reduce-scatters look too dear beside
# them.)
START = {"all_gather": 5.5e-6, "reduce_scatter": 5.5e-6, "all_to_all": 4e-6, "send": 2e-6}
# Rate at which one channel moves a message between two GPUs, bytes/s: sendrecv_perf on A100s at
# 128 MiB (8 channels, 111 GB/s: li-plus/playground), on B200s at 64 MiB (4 channels, 85 GB/s: the
# same sweep). The other two are assumed.
PAIR_CHANNEL_RATE = {"volta": 14e9, "ampere": 14e9, "hopper": 18e9, "blackwell": 21e9}


def start(collective):
    """Return the seconds before the first byte beyond those that NCCL expects."""
    return START.get(collective, 0.0)


def slower(num_bytes, per_byte):
    """Return the seconds by which bytes move longer than NCCL expects."""
    return num_bytes * per_byte * (1 / WIRE - 1)


def filling(num_bytes, per_byte, channels, levels):
    """Return the seconds in which links are idle because chunks have not arrived yet.

    Parameters
    ----------
    num_bytes : int
    per_byte : float
        Seconds for each byte on the busiest link.
    channels : int
        Channels of a large message.
    levels : int
        Levels of nodes over which data are summed for all, at least 1.
    """
    fill = FILL * channels * levels
    return per_byte * fill * num_bytes / (num_bytes + fill)
