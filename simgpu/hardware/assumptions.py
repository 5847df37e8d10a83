"""Numbers that no data sheet gives: assumed, and the same for all presets.

Two of them, `PAGEABLE_TO_HOST` and `STAGING_CHUNK`, are chosen to agree with published
measurements; the others are round numbers. `simgpu.calibrate` measures most of them on a real GPU.
What fused attention reaches differs by GPU: those assumptions are in ``attention.py``, and those on
the shapes of products in ``matmul_efficiency.py``.
"""

# Large, well-shaped products reach 60 to 90 % of a data sheet's peak (clocks drop under load, tiles
# do not fit exactly); streaming kernels reach about 80 % of the bandwidth.
COMPUTE_EFFICIENCY = 0.75
MEMORY_EFFICIENCY = 0.8
# Time in Python, dispatcher and driver together, for one operation of an eager program.
LAUNCH_OVERHEAD = 5e-6
# Time on the host for one call of a compiled graph, its kernels apart: guards, and the runtime of
# AOTAutograd. Tens of microseconds are usual; this is a round number.
COMPILED_CALL = 50e-6
# Time on the host for one collective or message: the checks, records and events of PyTorch, and
# NCCL's launch. 20 to 30 us for a call of `all_reduce` (Bekman, Machine Learning Engineering,
# network/benchmarks, all_reduce_bench.py, 8 H200); 25 is taken for all calls, those that DDP makes
# in C++ included. Of a batch the first call takes it, the others LAUNCH_OVERHEAD (assumed).
COLLECTIVE_LAUNCH_OVERHEAD = 25e-6
# Gap between the end of one short kernel and the start of the next when both are already queued.
KERNEL_OVERHEAD = 2e-6
# Overhead of an operation that runs on the CPU itself: no driver, no queue.
CPU_OVERHEAD = 2e-6
# Packet headers and flow control take about a fifth of a link's raw rate. Large copies between GPUs
# were measured at 0.77 (PCIe 4: 24 of 31.5 GB/s, NVIDIA/nccl issue 841), 0.89 (PCIe 5: 56 of 63,
# local-inference-lab/rtx6kpro), 0.96 (NVLink 2: 48 of 50, Dell on PowerEdge C4130), 0.87 (NVLink 3:
# 519 of 600, both directions, NVIDIA/nccl-tests issue 100) and 0.83 (NVLink 4: 375 of 450,
# NVIDIA/nccl issue 1264). Kernels get 0.8 of NVLink (20 of 25, NVIDIA/nccl-tests issue 149).
LINK_EFFICIENCY = 0.8
COPY_LATENCY = 5e-6
# One host thread copies between pageable memory and a pinned buffer. Copies to the host are slower
# still: they land in pages that the operating system must first allocate and clear. Neither rate
# depends on the link.
PAGEABLE_TO_DEVICE = 6e9
# Fitted, not predicted: 3.2 GB in the 2.13 s that Dive into Deep Learning published for RTX 4090s
# (2.30 to 2.78 s in an older edition). Hosts differ; 1.5 to 4 GB/s is common.
PAGEABLE_TO_HOST = 1.5e9
# Without peer access the driver stages a copy between GPUs in pinned host memory, chunk by chunk:
# the target receives one chunk while the source sends the next. With this size (bytes) large copies
# reach 22.5 GB/s over PCIe 4 and 40.6 over PCIe 5; p2pBandwidthLatencyTest measured 20.0 to 22.4 on
# RTX 4090s (NVIDIA/nccl issue 814), and 36.3 to 38.9 on H100s and RTX 5090s (NVIDIA/nccl issue
# 1264, NVIDIA/nccl-tests issue 287). Short copies took 12 to 14 us there; here, two latencies.
STAGING_CHUNK = 2**20
# Total rate of all copies through a host's memory or root complex, bytes/s: eight channels of
# DDR4-3200 (204.8 GB/s) at 80 %, each byte written once and read once. Machines with two sockets or
# with PCIe switches, where GPUs copy to each other past the host, differ by half and by double.
HOST_RATE = 80e9
