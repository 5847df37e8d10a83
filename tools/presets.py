"""The simulator's numbers for the calculators: ``python -m tools.presets`` writes them.

`assets/published.js` holds the published steps of ``simgpu.compare``, and the sizes of the models
of ``simgpu.plan``.

`assets/presets.js` holds what the formulas of ``assets/kernels.js`` and ``model.js`` read: GPUs,
links with their boards, networks, and NCCL's parameters, all from ``simgpu.hardware``.
"""

import json
from dataclasses import astuple, fields, replace
from pathlib import Path

from simgpu.clock.contention import MOST
from simgpu.compare import published
from simgpu.hardware import matmul_efficiency
from simgpu.hardware.cards import CARDS, FAMILIES
from simgpu.hardware.device_properties import properties_of
from simgpu.hardware.links import LINKS, find_link
from simgpu.hardware.presets import GPUS
from simgpu.hardware.specs import ITEM_BYTES
from simgpu.network import measured
from simgpu.network import nccl_parameters as nccl
from simgpu.network.boards import board_of
from simgpu.network.collective_costs import NETWORK_CHANNELS
from simgpu.network.networks import NETWORKS
from simgpu.plan.presets import PRESETS

PATH = Path(__file__).parents[1] / "assets" / "presets.js"
MODELS = {
    "gpt2-124m": "GPT-2 124M", "gpt2-1.5b": "GPT-2 1.5B", "llama2-7b": "Llama 2 7B",
    "llama3-8b": "Llama 3 8B", "llama2-13b": "Llama 2 13B", "llama3-70b": "Llama 3 70B",
    "llama3-405b": "Llama 3 405B", "gpt3-175b": "GPT-3 175B",
}  # fmt: skip
PUBLISHED = PATH.with_name("published.js")
HEAD = "/* Written by `python -m tools.presets` from simgpu.hardware; do not edit. */\n"


def gpu(spec):
    """Return what the calculators need of a GPU."""
    return {
        "name": properties_of(spec).name.removeprefix("NVIDIA ").replace("-", " "),
        "flops": dict(spec.flops),
        "memory": spec.memory,
        "bandwidth": spec.memory_bandwidth,
        "launch": spec.launch_overhead,
        "collectiveLaunch": spec.collective_launch_overhead,
        "kernel": spec.kernel_overhead,
        "computeEfficiency": spec.compute_efficiency,
        "matmulEfficiency": spec.matmul_efficiency or matmul_efficiency.BEST,
        "multiprocessors": spec.multiprocessors,
        "memoryEfficiency": spec.memory_efficiency,
        "link": CARDS[spec.name].link,
    }


def links():
    """Return the links by name: the presets, and those that GPUs usually have."""
    usual = {card.link: find_link(card.link) for card in CARDS.values()}
    return LINKS | usual


def model(name):
    """Return the stack of square layers that has a model's width and as many weights."""
    found = PRESETS[name]
    layers = round(found.parameters / found.hidden**2)
    return {"name": MODELS[name], "width": found.hidden, "layers": layers}


def link(spec):
    """Return what the calculators need of a link: the board that it stands for."""
    board = board_of(spec)
    rates = [board.ring_rate(tuple(range(k))) for k in range(2, board.gpus + 1)]
    return {
        "kind": board.kind,
        "hardware": board.hardware,
        "channels": board.channels,
        "rate": board.rate,
        "generation": board.generation,
        "hostRate": board.host_rate,
        "pcieRate": board.pcie_rate,
        "cpu": board.cpu,
        "inSwitch": board.in_switch,
        "inSwitchRates": in_switch_rates(board),
        "ringRates": [0, 0, *rates],  # by the number of GPUs
    }


def in_switch_rates(board):
    """Return what NCCL expects of sums in a board's switch, by the number of GPUs."""
    if not board.in_switch:
        return []
    rates = (nccl.in_switch_rate(board.generation, board.rate, k) for k in range(board.gpus + 1))
    return [rate * board.in_switch for rate in rates]


def network(spec):
    """Return what the calculators need of a network; all presets have one level of switches."""
    if spec.nodes_per_leaf is not None:
        raise ValueError(f"network {spec.name} has two levels, which assets/model.js does not know")
    return {
        "nics": spec.nics,
        "rate": spec.nic_rate,
        "latency": spec.latency,
        "cpu": spec.cpu,
        "ordered": spec.ordered,
    }


def presets():
    """Return all numbers as plain data."""
    efficiency = {
        kind: {p: [nccl.efficiency(kind, p, k) for k in (1, 2)] for p in nccl.PROTOCOLS}
        for kind in ("ring", "tree")
    }
    posts = {
        cpu: {p: nccl.post_overhead(p, cpu) for p in nccl.PROTOCOLS} for cpu in nccl.POST_OVERHEAD
    }
    return {
        "gpus": {name: gpu(spec) for name, spec in GPUS.items()},
        "families": [[card.name for card in cards] for cards in FAMILIES.values()],
        "links": {name: link(spec) for name, spec in links().items()},
        "networks": {name: network(spec) for name, spec in NETWORKS.items()},
        "models": {name: model(name) for name in MODELS},
        "itemBytes": ITEM_BYTES,
        "matmul": {
            "tiles": matmul_efficiency.TILES,
            "tileLoss": matmul_efficiency.TILE_LOSS,
            "depthLoss": matmul_efficiency.DEPTH_LOSS,
            "splits": matmul_efficiency.SPLITS,
            "thin": matmul_efficiency.THIN,
        },
        "contention": {"most": MOST, "networkChannels": NETWORK_CHANNELS},
        "nccl": {
            "base": nccl.BASE_LATENCY,
            "step": nccl.STEP_LATENCY,
            "inSwitch": nccl.IN_SWITCH_LATENCY,
            "inSwitchNet": nccl.IN_SWITCH_NET_LATENCY,
            "inSwitchTreeRate": nccl.IN_SWITCH_TREE_RATE,  # of a channel, on two nodes, on more
            "posts": posts,
            "plateau": nccl.PLATEAU,
            "plateauFrom": nccl.PLATEAU_FROM,
            "efficiency": efficiency,  # on one node, on several
            "llRate": nccl.LL_RATE,
            "llRateOverNodes": nccl.LL_RATE_OVER_NODES,  # on two nodes, on more
            "threads": nccl.THREADS,
            "threadBytes": nccl.THREAD_BYTES,
            "treeCorrection": nccl.TREE_CORRECTION,
        },
        "measured": {"wire": measured.WIRE, "fill": measured.FILL},
    }


def sizes(name):
    """Return what a run of a model is compared by: parameters, and FLOPs of a token.

    These are a number, and another for each position of the sequence.
    """
    found = PRESETS[name]
    short, long = (replace(found, seq=n).flops(1) / n for n in (1, 2))
    idle = found.layers * (found.experts - found.active) * found.expert_parameters
    return {
        "name": MODELS.get(name, name),
        "billions": found.parameters / 1e9,
        "active": (found.parameters - idle) / 1e9,
        "sequence": found.seq,
        "flops": [2 * short - long, long - short],
    }


def published_rows():
    """Return the published steps and the models as plain data."""
    return {
        "columns": [field.name for field in fields(published.TrainingRun)],
        "rows": [astuple(row) for row in published.published()],
        "near": published.NEAR,
        "other": {"gpu": published.OTHER_GPU, "kind": published.OTHER_KIND},
        "models": {name: sizes(name) for name in PRESETS},
    }


def text():
    """Return the file of presets."""
    return f"{HEAD}globalThis.d2lPresets = {json.dumps(presets(), indent=1)};\n"


def published_text():
    """Return the file of published steps: a line for each."""
    found = published_rows()
    rows = ",\n".join(json.dumps(row) for row in found.pop("rows"))
    head = HEAD.replace("simgpu.hardware", "simgpu.compare")
    return (
        f"{head}globalThis.d2lPublished = {json.dumps(found)};\nd2lPublished.rows = [\n{rows}\n];\n"
    )


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
    PUBLISHED.write_text(published_text(), encoding="utf-8")
