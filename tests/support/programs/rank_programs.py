"""Programs for four ranks that run on simulated GPUs as on processes, with the same numbers.

Each takes its rank and a type of device, and returns numbers and host tensors.
"""

import math

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as differentiable
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook, powerSGD_hook
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

K = 4


def _model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))


def _data(size=16):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(size, 8, generator=generator), torch.randn(size, 4, generator=generator)


def _train(model, optimizer, rank, device, steps=4):
    x, y = (part.chunk(K)[rank].to(device) for part in _data())
    for _ in range(steps):
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
    return [p.detach().cpu() for p in model.parameters()]


def _sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def own_hook(rank, device):
    def hook(state, bucket):
        future = dist.all_reduce(bucket.buffer().div_(2 * K), async_op=True).get_future()
        return future.then(lambda done: done.value()[0] * 2)

    model = DistributedDataParallel(_model().to(device), bucket_cap_mb=0.0002)
    model.register_comm_hook(None, hook)
    return _train(model, _sgd(model), rank, device)


def power_sgd(rank, device):
    state = powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2, min_compression_rate=0.5)
    model = DistributedDataParallel(_model().to(device))
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return _train(model, _sgd(model), rank, device)


def post_local_sgd(rank, device):
    group, _ = dist.new_subgroups(2)
    state = post_localSGD_hook.PostLocalSGDState(None, group, start_localSGD_iter=2)
    model = DistributedDataParallel(_model().to(device))
    model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
    averager = PeriodicModelAverager(period=2, warmup_steps=2)
    optimizer = PostLocalSGDOptimizer(_sgd(model), averager)
    return _train(model, optimizer, rank, device, steps=5)


def zero_redundancy(rank, device):
    model = DistributedDataParallel(_model().to(device))
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), optimizer_class=torch.optim.AdamW, lr=0.01
    )
    out = _train(model, optimizer, rank, device)
    optimizer.consolidate_state_dict(0)
    return out, len(optimizer.state_dict()["state"]) if rank == 0 else 0


def uneven_inputs(rank, device):
    model = DistributedDataParallel(_model().to(device))
    optimizer = _sgd(model)
    x, y = (part.to(device) for part in _data())
    with model.join():
        for i in range(2 + rank):
            optimizer.zero_grad()
            part = slice(3 * i + rank, 3 * i + rank + 1)
            F.mse_loss(model(x[part]), y[part]).backward()
            optimizer.step()
    return [p.detach().cpu() for p in model.parameters()]


def redistribute(rank, device):
    mesh = init_device_mesh(device, (2, 2))
    tensor = torch.arange(70.0).view(7, 10).to(device)
    tensor, sums = distribute_tensor(tensor, mesh, [Shard(0), Shard(1)]), []
    for first in (Replicate(), Shard(0), Shard(1)):
        for second in (Replicate(), Shard(0), Shard(1)):
            tensor = tensor.redistribute(placements=[first, second])
            sums.append(tensor.to_local().sum().item())
    local = torch.full((4, 6), rank + 1.0, device=device)
    parts = DTensor.from_local(local, mesh, [Partial(), Partial("avg")])
    scattered = parts.redistribute(placements=[Shard(1), Shard(0)]).to_local().cpu()
    return sums, scattered, tensor.full_tensor().cpu()


def gradients_through_collectives(rank, device):
    x = torch.arange(4.0, device=device).add_(rank).requires_grad_()
    total, every = differentiable.all_reduce(x * x), torch.stack(differentiable.all_gather(x))
    first = differentiable.broadcast(x * (rank + 1.0), 0)
    weights = torch.arange(16.0, device=device).view(K, 4)
    (total.sum() + (every * weights).sum() + first.sum()).backward()
    return [t.detach().cpu() for t in (total, every, first, x.grad)]


def ring_attention(rank, device):
    """Causal attention over a sequence of which each rank has a part; keys and values go round."""
    generator = torch.Generator().manual_seed(2)
    whole = [torch.randn(2, 16, 8, generator=generator, dtype=torch.float64) for _ in range(3)]
    q, k, v = (t.chunk(K, 1)[rank].contiguous().to(device) for t in whole)
    high = torch.full(q.shape[:-1], -math.inf, device=device, dtype=torch.float64)
    total, out = torch.zeros_like(high), torch.zeros_like(q)
    later = torch.ones(4, 4, device=device, dtype=torch.bool).triu(1)
    for step in range(K):
        new = torch.empty_like(k), torch.empty_like(v)
        works = dist.batch_isend_irecv([
            *(dist.P2POp(dist.isend, t, (rank + 1) % K) for t in (k, v)),
            *(dist.P2POp(dist.irecv, t, (rank - 1) % K) for t in new),
        ])  # fmt: skip
        if step <= rank:  # the part is of no later tokens
            scores = q @ k.mT / math.sqrt(8)
            scores = scores.masked_fill(later, -math.inf) if step == 0 else scores
            higher = torch.maximum(high, scores.amax(-1))
            weights, scale = (scores - higher[..., None]).exp(), (high - higher).exp()
            total, high = total * scale + weights.sum(-1), higher
            out = out * scale[..., None] + weights @ v
        for work in works:
            work.wait()
        k, v = new
    parts = [torch.empty_like(out) for _ in range(K)]
    dist.all_gather(parts, out / total[..., None])
    expected = F.scaled_dot_product_attention(*whole, is_causal=True)
    assert (torch.cat([p.cpu() for p in parts], 1) - expected).abs().max() < 1e-12
    return out.cpu()


def experts(rank, device):
    """Each token goes to the rank of its expert and back: uneven parts."""
    generator = torch.Generator().manual_seed(rank)
    tokens = torch.randn(6, 3, generator=generator).to(device)
    choice = torch.randint(K, (6,), generator=generator).to(device)
    order, counts = choice.argsort(stable=True), torch.bincount(choice, minlength=K)
    incoming = torch.empty_like(counts)
    dist.all_to_all_single(incoming, counts)
    sent, received = counts.tolist(), incoming.tolist()
    here, back = torch.empty(sum(received), 3, device=device), torch.empty_like(tokens)
    dist.all_to_all_single(here, tokens[order], received, sent)
    dist.all_to_all_single(back, here * (rank + 1), sent, received)
    out = torch.empty_like(back)
    out[order] = back
    assert torch.allclose(out, tokens * (choice + 1)[:, None])
    return out.cpu(), received


def sharded_loss(rank, device):
    """Cross-entropy over a vocabulary of which each rank has a part."""
    generator = torch.Generator().manual_seed(0)
    whole, labels = torch.randn(8, 12, generator=generator), torch.arange(8) % 12
    logits = whole.chunk(K, 1)[rank].to(device).requires_grad_()
    high = logits.detach().amax(1)
    dist.all_reduce(high, dist.ReduceOp.MAX)
    total = differentiable.all_reduce((logits - high[:, None]).exp().sum(1))
    place = labels.to(device) - 3 * rank
    here = (place >= 0) & (place < 3)
    own = logits.gather(1, place.clamp(0, 2)[:, None])[:, 0] - high
    loss = (total.log() - differentiable.all_reduce(torch.where(here, own, 0.0))).mean()
    assert abs(loss.item() - F.cross_entropy(whole, labels).item()) < 1e-6
    return loss.item()


def groups(rank, device):
    x = torch.full((2,), float(rank), device=device)
    pair, _ = dist.new_subgroups(2)
    dist.all_reduce(x, group=pair)
    across, _ = dist.new_subgroups_by_enumeration([[0, 2], [3, 1]])
    dist.all_reduce(x, group=across)
    mesh = init_device_mesh(device, (1, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
    y = torch.full((1,), float(rank), device=device)
    dist.all_reduce(y, group=mesh["dp"].get_group())
    objects = [None] * K
    dist.all_gather_object(objects, {"rank": rank, "sizes": torch.ones(rank + 1)})
    places = dist.get_process_group_ranks(across), dist.get_rank(across), mesh.get_coordinate()
    return x.cpu(), y.item(), *places, [o["sizes"].numel() for o in objects]


PROGRAMS = (
    own_hook, power_sgd, post_local_sgd, zero_redundancy, uneven_inputs, redistribute,
    gradients_through_collectives, ring_attention, experts, sharded_loss, groups,
)  # fmt: skip


def run_in_process(rank, folder):
    """Run all programs as one of the processes, over gloo; save what they return."""
    torch.set_num_threads(1)
    out = {}
    for program in PROGRAMS:
        store = dist.FileStore(f"{folder}/{program.__name__}", K)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=K)
        out[program.__name__] = program(rank, "cpu")
        dist.destroy_process_group()
    torch.save(out, f"{folder}/out{rank}.pt")


def same(first, second):
    """Whether two results are the same, up to rounding."""
    if isinstance(first, torch.Tensor):
        return first.dtype == second.dtype and torch.allclose(first, second, atol=2e-6)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return math.isclose(first, second, abs_tol=1e-6, rel_tol=1e-6)
