"""Which preset stands for a system that a table names in words."""

import re

from benchmarks.published.shared.rows import UnpredictableError
from simgpu.network.cluster import build_cluster

# GPU in the name: its link inside a node, its usual network.
GPUS = {
    "v100": ("nvlink2", "edr"),
    "a100": ("nvlink3", "hdr"),
    "h100": ("nvlink4", "ndr"),
    "h200": ("nvlink4", "ndr"),
    "b200": ("nvlink5", "ndr"),
    "4090": ("pcie4_staged", "ethernet100"),
}
NETWORKS = (  # words in the name, in this order
    (r"efa", "efa"),
    (r"8\s*x\s*400|ndr", "ndr"),
    (r"8\s*x\s*200|hdr", "hdr"),
    (r"4\s*x\s*200", "hdr4"),
    (r"4\s*x\s*100|edr", "edr"),
    (r"ethernet.*400|400.*ethernet", "ethernet400"),
    (r"ethernet.*200|200.*ethernet", "ethernet200"),
    (r"ethernet.*100|100.*ethernet", "ethernet100"),
)


def find_system(name, gpus, nodes):
    """Return the cluster for a system's name and the words for it.

    Raises
    ------
    UnpredictableError
        If the name has no GPU that there is a preset of, or the GPUs do not fit.
    """
    text = name.lower()
    # GH200 and GB200 are on other boards.
    gpu = next((gpu for gpu in GPUS if re.search(rf"(?<!g){gpu}", text)), None)
    if gpu is None:
        raise UnpredictableError(f"no preset fits {name!r}; known are {', '.join(GPUS)}")
    link, network = GPUS[gpu]
    if "pcie" in text:
        link = "pcie5" if gpu in ("h100", "h200", "b200") else "pcie4"
    network = next((preset for words, preset in NETWORKS if re.search(words, text)), network)
    gpu = "rtx4090" if gpu == "4090" else gpu
    try:
        cluster = build_cluster(gpus, gpu, link, nodes, network if nodes > 1 else None)
    except ValueError as error:
        raise UnpredictableError(str(error)) from None
    return cluster, f"{gpu}/{link}" + (f"/{network}" if nodes > 1 else "")
