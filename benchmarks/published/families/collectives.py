"""Tables of nccl-tests: one collective, its size, and its time or ``busbw``."""

import re

from benchmarks.published.shared.rows import Prediction, UnpredictableError, positive, whole
from benchmarks.published.shared.systems import find_system
from simgpu.hardware.assumptions import LAUNCH_OVERHEAD
from simgpu.network.bus_bandwidth import COLLECTIVES, seconds_at
from simgpu.network.collective_costs import cost
from simgpu.units import size

TITLE = "messages, nccl-tests {cite}`bekman2024machine`"
COLUMNS = {
    "system", "gpus", "nodes", "collective", "algorithm", "bytes", "time_us", "busbw_GBps",
}  # fmt: skip
FITTED = (
    "two constants to other machines' sweeps (sweeps.py), a channel's rate of messages on A100s to "
    "one row of sendrecv_perf"
)
ALGORITHMS = {"": None, "ring": "ring", "tree": "tree", "nvls": "nvls", "nvlstree": "nvls_tree"}
DEFAULT = re.compile(r"default|auto|any|nccl [\d.]+")  # what NCCL, or a tuner, chose
NAMES = {
    "alltoall": "all_to_all",
    "sendrecv": "send",
    "send_recv": "send",
    "allreduce": "all_reduce",
}
LARGE = 2**34  # "large", "peak" in a table: where busbw does not grow any more
# Sources that print the command: one thread launches on all GPUs of a node in turn (`-g 8`).
ONE_THREAD = ("stas00 network/README.md 'Real network throughput'",)


def num_bytes(row):
    """Return a row's size in bytes."""
    return LARGE if row["bytes"] in ("large", "peak") else whole(row, "bytes")


def predict(row):
    """Return the `Prediction` of a row (a dict); raise `UnpredictableError` if there is none."""
    collective = NAMES.get(row["collective"], row["collective"])
    if collective not in COLLECTIVES:
        raise UnpredictableError(f"unknown collective {row['collective']!r}")
    gpus, nodes = whole(row, "gpus"), whole(row, "nodes")
    cluster, preset = find_system(row["system"], gpus, nodes)
    total, algorithm = num_bytes(row), _algorithm(row["algorithm"])
    # sendrecv_perf: each GPU sends to the next one, and all have one communicator.
    members = range(2 if collective == "send" else gpus)
    try:
        found = cost(collective, total, members, cluster, algorithm, ranks=gpus)
    except ValueError as error:
        raise UnpredictableError(str(error)) from None
    if row["time_us"]:
        measured = positive(row, "time_us") * 1e-6
    else:
        rate = positive(row, "busbw_GBps") * 1e9
        measured = seconds_at(collective, total, gpus, rate)
    host, words = _host(row, gpus, found.seconds)
    what = f"{gpus} GPUs {collective} {size(total)} {row['algorithm'] or 'any'}"
    return Prediction(
        row["system"], preset, f"{what}: {found.algorithm} {found.protocol}",
        measured, found.seconds + host, assumed=words,
        fitted=collective == "send" and total == 2**27 and preset.startswith("a100"),
    )  # fmt: skip


class More:
    """The same of further sources, whose tables have the other rate, too."""

    TITLE = "messages of more machines {cite}`crazyguitar2026aws`"
    COLUMNS = frozenset(COLUMNS | {"algbw_GBps"})
    FITTED = FITTED
    predict = staticmethod(predict)


def _algorithm(text):
    """Return the algorithm that a table names; None: what NCCL chose."""
    words = text.partition("(")[0].strip().lower()
    if words in ALGORITHMS:
        return ALGORITHMS[words]
    if DEFAULT.match(words):
        return None
    raise UnpredictableError(f"unknown algorithm {text!r}")


def _host(row, gpus, seconds):
    """Return what launching adds to the time, and the words for it.

    If one thread launches on all GPUs and what it launches is shorter than to launch it, then the
    last GPU begins as many launches after the first as there are others.
    """
    if not row.get("source", "").startswith(ONE_THREAD) or seconds > gpus * LAUNCH_OVERHEAD:
        return 0.0, ""
    return (gpus - 1) * LAUNCH_OVERHEAD, f"one thread launches on {gpus} GPUs"
