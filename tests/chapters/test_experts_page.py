"""The page on experts: what it compares and times, and its code in processes that use gloo."""

import ast
import subprocess
from functools import partial

import nbformat
import pytest
import torch
import torch.distributed as dist
from support.paths import CHAPTERS

from d2lmini.ddp import launcher_environment, torchrun_command
from d2lmini.pages import experts

PAGE = nbformat.read(CHAPTERS / "experts.ipynb", as_version=4)
CELLS = [cell.source for cell in PAGE.cells if cell.cell_type == "code"]
SMALL = experts.Sizes(hidden=16, width=32, experts=8, active=2)
HEAD = """\
from collections import namedtuple
from functools import partial

import torch
import torch.distributed as dist
from torch.nn import functional as F
from d2lmini.pages import experts
from d2lmini.pages.experts import Sizes
"""
BODY = """
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
experts._join = lambda: torch.device("cpu")
small = Sizes(16, 32, 8, 2)
for layer in moe, partial(with_capacity, factor=8.0):
    found = experts._differences(rank, layer, one_by_one, small)
    assert len(found) == 5 and max(found.values()) < 1e-5, found
rights = experts._mean_gradients(one_by_one, small)
for ep in 1, 2, 4:
    gots = experts._averaged(rank, moe, average, small, ep)
    assert experts.difference(rights[0], gots[0]) < 1e-5
    for right, got in zip(rights[1:], gots[1:], strict=True):
        assert experts.difference(right.chunk(ep)[rank % ep], got) < 1e-5
wrong = partial(average, over_replicas=True)
_, up, _ = experts._averaged(rank, moe, wrong, small, 2)
assert abs((up / rights[1].chunk(2)[rank % 2]).mean() - 2) < 1e-3
dist.barrier()  # or one that ends first takes the connections from the others
print("equal to one process", flush=True)
dist.destroy_process_group()
"""


def defined():
    """Return what the page defines."""
    nodes = [node for source in CELLS for node in ast.parse(source).body]
    kept = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return "\n\n".join(map(ast.unparse, kept))


@pytest.mark.exhaustive
@pytest.mark.process
def test_layer_and_averages_are_those_of_one_process(tmp_path):
    script = tmp_path / "experts.py"
    script.write_text("\n".join([HEAD, defined(), BODY]))
    command = torchrun_command(script, nproc_per_node=4)
    env = launcher_environment(threads=1) | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("equal to one process") == 4


def every_expert(x, weights, active):
    """Return the sum of all experts, each weighted by its probability: no choice, no sort."""
    probs = (x @ weights[0].T).softmax(-1)
    gate, up = torch.einsum("th,ehf->etf", x, weights[1]).chunk(2, -1)
    y = torch.einsum("etf,efh->teh", torch.nn.functional.silu(gate) * up, weights[2])
    return (y * probs[..., None]).sum(1)


def of_all_ranks(tensor):
    """Gather what the ranks have; in the backward pass, the sum of their gradients comes back."""

    class Gather(torch.autograd.Function):
        @staticmethod
        def forward(ctx, own):
            parts = [torch.empty_like(own) for _ in range(dist.get_world_size())]
            dist.all_gather(parts, own.contiguous())
            return torch.cat(parts)

        @staticmethod
        def backward(ctx, gradient):
            dist.all_reduce(gradient := gradient.contiguous().clone())
            return gradient.chunk(dist.get_world_size())[dist.get_rank()]

    return Gather.apply(tensor)


def gathered(x, weights, active, group=None, **_):
    """Compute with the experts of all ranks."""
    return every_expert(x, [weights[0], *map(of_all_ranks, weights[1:])], active)


def own_only(x, weights, active, group=None, **_):
    """Compute with the experts of this rank, as if there were no others."""
    own, rank = len(weights[1]), dist.get_rank()
    return every_expert(x, [weights[0][own * rank : own * (rank + 1)], *weights[1:]], active)


def test_a_layer_that_differs_from_one_gpu_is_found():
    off = experts.compare_with_one(gathered, every_expert, SMALL, nprocs=2)
    assert set(off) == {"output", "tokens", "router", "up", "down"}
    assert max(off.values()) < 1e-5
    wrong = experts.compare_with_one(own_only, every_expert, SMALL, nprocs=2)
    assert min(wrong.values()) > 0.1


def divided_by_all(weights, replicas):
    for w in weights:
        group = None if w is weights[0] else replicas
        dist.all_reduce(w.grad, group=group)
        w.grad /= dist.get_world_size()


def divided_by_replicas(weights, replicas):
    divided_by_all(weights, replicas)
    for w in weights[1:]:
        w.grad *= dist.get_world_size() / dist.get_world_size(replicas)


def test_an_average_that_is_too_large_is_found():
    layers = gathered, every_expert
    right, off = experts.compare_average(*layers, divided_by_all, SMALL, 2, nprocs=2)
    assert right == pytest.approx(1, abs=1e-5)
    assert off < 1e-5
    ratio, off = experts.compare_average(*layers, divided_by_replicas, SMALL, 2, nprocs=2)
    assert ratio == pytest.approx(2, abs=1e-5)
    assert off > 0.5


def exchange(x, weights, active, group, count):
    """Send one row for each copy that ``count`` finds to the rank of its expert."""
    counts = count(torch.zeros(len(x) * active, dtype=torch.long, device=x.device), len(weights[0]))
    sent = counts.view(dist.get_world_size(group), -1).sum(1).tolist()
    received = torch.zeros(len(sent), dtype=torch.long, device=x.device)
    dist.all_to_all_single(received, torch.tensor(sent, device=x.device), group=group)
    rows = x.new_empty(sum(received.tolist()), x.shape[1])
    dist.all_to_all_single(rows, x.repeat(active, 1), received.tolist(), sent, group=group)
    return rows @ weights[1][0]


def test_a_pass_is_timed_on_the_slowest_rank_and_told_by_kind():
    sizes = experts.Sizes(1024, 1024, 8, 2)
    how = {"nprocs": 8, "tokens": 65536, "backward": False}
    near = experts.time_layer(exchange, sizes, **how)
    kinds = experts.seconds_by_kind(near)
    assert kinds["products"] > 0
    assert kinds["all-to-all"] > 0
    assert 0.8 * near.seconds < sum(kinds.values()) <= near.seconds
    cards = experts.time_layer(exchange, sizes, nodes=8, **how)
    assert experts.seconds_by_kind(cards)["all-to-all"] > 5 * kinds["all-to-all"]
    busy = experts.time_layer(exchange, sizes, load=[0.5, *[0.5 / 7] * 7], **how)
    assert busy.seconds > 2 * near.seconds


@pytest.mark.parametrize("slow", [0, 1])
def test_a_pass_ends_with_the_slowest_rank(slow):
    def products(x, weights, active, group, count, many=20):
        for _ in range(many if dist.get_rank() == slow else 1):
            y = x @ weights[1][0]
        return y

    sizes, how = experts.Sizes(4096, 2048, 2, 1), {"load": [0.5, 0.5], "backward": False}
    both = experts.time_layer(products, sizes, 2, 4096, **how).seconds
    one = experts.time_layer(partial(products, many=1), sizes, 2, 4096, **how).seconds
    assert both > 10 * one


def test_groups_of_experts_are_neighbours_or_spread_over_the_nodes():
    sizes = experts.Sizes(1024, 1024, 8, 2)
    how = {"nprocs": 16, "tokens": 65536, "ep": 8, "backward": False}
    near, far = (
        experts.seconds_by_kind(experts.time_layer(exchange, sizes, spread=spread, **how))
        for spread in (False, True)
    )
    assert far["all-to-all"] > 2 * near["all-to-all"]


def test_all_copies_are_counted_and_the_busiest_expert_gets_what_rounding_leaves():
    count = experts._count([0.2, 0.5, 0.3])
    assert count(torch.zeros(7), 3).tolist() == [1, 4, 2]
    assert experts._count([1 / 3] * 3)(torch.zeros(100), 3).tolist() == [34, 33, 33]


def test_words_are_rare_as_in_a_language_and_the_same_in_every_call():
    x, targets = experts.make_tokens(3, tokens=2000)
    again, _ = experts.make_tokens(3, tokens=2000)
    other, _ = experts.make_tokens(4, tokens=2000)
    assert torch.equal(x, again)
    assert not torch.equal(x, other)
    most = targets[:, 0].unique(return_counts=True)[1].sort(descending=True).values.tolist()
    assert 0.1 < most[0] / 2000 < 0.2  # 1 / (1 + 1/2 + ... + 1/512) is 0.147
    assert most[0] > 1.5 * most[1]
