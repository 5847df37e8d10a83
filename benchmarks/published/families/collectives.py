"""Tables of nccl-tests: one collective, its size, and its time or ``busbw``."""

from benchmarks.published.rows import Prediction, UnpredictableError, positive, whole
from benchmarks.published.systems import find_system
from simgpu.network.bus_bandwidth import COLLECTIVES, seconds_at
from simgpu.network.collective_costs import cost
from simgpu.units import size

COLUMNS = {
    "system", "gpus", "nodes", "collective", "algorithm", "bytes", "time_us", "busbw_GBps",
}  # fmt: skip
FITTED = "nothing: NCCL's own parameters"
ALGORITHMS = {"": None, "ring": "ring", "tree": "tree", "nvls": "nvls", "nvlstree": "nvls_tree"}
NAMES = {"alltoall": "all_to_all", "sendrecv": "send", "allreduce": "all_reduce"}
LARGE = 2**34  # "large" in a table: where busbw does not grow any more


def num_bytes(row):
    """Return a row's size in bytes."""
    return LARGE if row["bytes"] == "large" else whole(row, "bytes")


def predict(row):
    """Return the `Prediction` of a row (a dict); raise `UnpredictableError` if there is none."""
    collective = NAMES.get(row["collective"], row["collective"])
    if collective not in COLLECTIVES:
        raise UnpredictableError(f"unknown collective {row['collective']!r}")
    words = row["algorithm"].partition("(")[0].strip().lower()
    if words not in ALGORITHMS:
        raise UnpredictableError(f"unknown algorithm {row['algorithm']!r}")
    gpus, nodes = whole(row, "gpus"), whole(row, "nodes")
    cluster, preset = find_system(row["system"], gpus, nodes)
    total = num_bytes(row)
    try:
        found = cost(collective, total, range(gpus), cluster, ALGORITHMS[words])
    except ValueError as error:
        raise UnpredictableError(str(error)) from None
    if row["time_us"]:
        measured = positive(row, "time_us") * 1e-6
    else:
        rate = positive(row, "busbw_GBps") * 1e9
        measured = seconds_at(collective, total, gpus, rate)
    what = f"{gpus} GPUs {collective} {size(total)} {row['algorithm'] or 'any'}"
    return Prediction(
        row["system"], preset, f"{what}: {found.algorithm} {found.protocol}",
        measured, found.seconds,
    )  # fmt: skip
