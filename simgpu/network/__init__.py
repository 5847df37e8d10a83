"""What connects GPUs: boards, networks, NCCL's algorithms, and the cost of collectives.

``cluster.py`` combines boards (``boards.py``) and a network (``networks.py``). Start reading in
``collective_costs.py``: the time of a collective, from the algorithm that NCCL would choose
(``nccl_choices.py``, by the model of ``nccl_model.py`` with the numbers of ``nccl_parameters.py``),
the traffic on each edge (``traffic.py``), and what is measured beyond (``measured.py``).
``bus_bandwidth.py`` converts times to the bandwidths that ``nccl-tests`` reports.

Imports `simgpu.hardware`, and no torch.
"""

from simgpu.hardware.assumptions import HOST_RATE
from simgpu.network.cluster import SYSTEMS, Cluster, build_cluster, find_cluster
from simgpu.network.collective_costs import Cost, cost
from simgpu.network.measured import FILL
from simgpu.network.networks import NETWORKS, Network, find_network

__all__ = [
    "FILL",
    "HOST_RATE",
    "NETWORKS",
    "SYSTEMS",
    "Cluster",
    "Cost",
    "Network",
    "build_cluster",
    "cost",
    "find_cluster",
    "find_network",
]
