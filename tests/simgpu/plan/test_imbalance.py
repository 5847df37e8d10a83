"""``--imbalance``: an expert layer whose busiest rank has more tokens than the mean."""

import json
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist

import simgpu as sim
from simgpu.__main__ import main
from simgpu.network.cluster import build_cluster
from simgpu.plan.simulate import run
from simgpu.plan.step.experts import Experts, Places, most_imbalance
from simgpu.plan.step.job import Job, Model, PlanError, Program
from simgpu.plan.step.products import Products
from simgpu.plan.step.tensor_parallel import Split

RANKS, FACTOR = 4, 2.5
# So large that launches do not count; eight experts on each rank.
MODEL = Model(4096, 32, 2, 4096, 8192, inner=4096, gated=True, experts=32, active=4)
NODE = build_cluster(RANKS, "a100")
PROGRAM = Program("none", overlap=False, reduce_bytes=2)


def job(factor=1.0, **more):
    return Job(MODEL, replace(PROGRAM, imbalance=factor), NODE, data=RANKS, expert=RANKS, **more)


def test_products_and_messages_of_the_busiest_rank_are_so_many_times_larger():
    traces = {}
    for factor in (1.0, FACTOR):
        run(job(factor))
        traces[factor] = sim.trace()
    even, busy = traces[1.0], traces[FACTOR]
    sent = [sum(s.bytes for s in t if s.collective == "all_to_all") for t in (even, busy)]
    assert sent[1] == pytest.approx(FACTOR * sent[0], rel=1e-3)
    products = [sum(s.flops for s in t if s.name == "mm") for t in (even, busy)]
    assert products[0] == products[1] > 0  # of layers without experts
    flops = sum(s.flops for s in busy if s.name == "bmm")
    rows = FACTOR * MODEL.seq * MODEL.active  # of a micro-batch of one sequence
    assert flops == pytest.approx(MODEL.layers * 6 * MODEL.expert_parameters * rows, rel=1e-3)


class _Uneven(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, into, out):
        ctx.sizes = into, out
        y = x.new_empty(sum(into), x.shape[1])
        dist.all_to_all_single(y, x.contiguous(), into, out)
        return y

    @staticmethod
    def backward(ctx, grad):
        into, out = ctx.sizes
        return _Uneven.apply(grad, out, into), None, None


class UnevenExperts(Experts):
    """The same layer, each rank with its own number of tokens: the first with most."""

    def forward(self, x):
        tokens, rank = x.flatten(0, 1), dist.get_rank()
        chances = torch.nn.functional.linear(tokens, self.router).float().softmax(-1)
        chances, _ = chances.topk(self.model.active, -1)
        copies = len(tokens) * self.model.active
        most = round(copies * FACTOR / RANKS)
        sizes = [most] + [(copies - most) // (RANKS - 1)] * (RANKS - 1)
        order = torch.empty(copies, dtype=torch.int64, device=x.device)
        y = _Uneven.apply(tokens.index_select(0, order), [sizes[rank]] * RANKS, sizes)
        y = self.own(y, RANKS)
        y = _Uneven.apply(y, sizes, [sizes[rank]] * RANKS).index_select(0, order)
        y = y.view(len(tokens), self.model.active, -1) * chances.to(y.dtype).unsqueeze(-1)
        return y.sum(1).view(x.shape)


def layer(rank, kind, factor):
    """Time one layer forward and backward."""
    dist.init_process_group()
    device = torch.accelerator.current_accelerator()
    places = Places(dist.group.WORLD, Split(Products(PROGRAM), overlap=False), None)
    experts = kind(MODEL, replace(PROGRAM, imbalance=factor), places)
    experts = experts.to(torch.bfloat16).to(device)
    x = torch.empty(MODEL.seq, 1, MODEL.hidden, dtype=torch.bfloat16, device=device)
    dist.barrier()
    torch.accelerator.synchronize()
    start = sim.now()
    experts(x.requires_grad_())[0].sum().backward()
    torch.accelerator.synchronize()
    return sim.now() - start


@pytest.mark.long
def test_a_run_whose_ranks_have_uneven_loads_takes_as_long():
    def seconds(kind, factor):
        found = sim.spawn(layer, (kind, factor), RANKS, gpu="a100", numerics=False)
        return max(found)

    even = seconds(Experts, 1.0)
    uneven, assumed = seconds(UnevenExperts, 1.0), seconds(Experts, FACTOR)
    assert uneven > 1.5 * even
    assert assumed == pytest.approx(uneven, rel=0.1)


def test_the_busiest_rank_gets_a_token_once_for_each_of_its_experts():
    assert most_imbalance(MODEL, 4) == 4  # eight experts: all four copies of each token
    assert most_imbalance(replace(MODEL, experts=8, active=2), 8) == 4  # one expert: half of them
    assert run(job(100.0)).seconds == run(job(4.0)).seconds


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.json"
    sizes = {
        "hidden_size": 2048, "num_attention_heads": 8, "num_hidden_layers": 2, "vocab_size": 4096,
        "max_position_embeddings": 4096, "num_local_experts": 8, "num_experts_per_tok": 2,
    }  # fmt: skip
    path.write_text(json.dumps(sizes), encoding="utf-8")
    return str(path)


def test_the_report_says_what_is_assumed(small, capsys):
    words = ["plan", small, "--gpus", "8", "--ep", "4", "--imbalance", "1.5"]
    assert main(words) == 0
    assert "gets 1.5 times the mean's tokens" in capsys.readouterr().out
    main([*words, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["imbalance"] == 1.5
    even = sim.plan(small, gpus=8, ep=4)
    assert found["step_time_seconds"] > even.step_time_seconds
    assert found["peak_memory_bytes"] > even.peak_memory_bytes
    assert even.imbalance == 1.0
    assert sim.plan("gpt2-124m", gpus=1).imbalance is None


REFUSED = {
    "0.5": (4, "give a number of at least 1"),
    "nan": (4, "give a number of at least 1"),
    "1.5": (1, "needs --ep 2 or more"),
    "3": (2, "has at most 2 times the mean; give 1 to 2"),
    "4.5": (8, "has at most 4 times the mean"),
}


@pytest.mark.parametrize("factor", REFUSED)
def test_what_no_routing_can_be(small, factor):
    ep, message = REFUSED[factor]
    with pytest.raises(PlanError, match=message) as error:
        sim.plan(small, gpus=8, ep=ep, imbalance=float(factor))
    assert f"--imbalance {factor}" in str(error.value)


def test_a_model_without_experts_has_no_imbalance():
    with pytest.raises(PlanError, match="--imbalance 2: gpt2-124m has no experts; leave it out"):
        sim.plan("gpt2-124m", gpus=1, imbalance=2)
