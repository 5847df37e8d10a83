"""Unmodified FSDP1 (`FullyShardedDataParallel`), against one process on the CPU, and FSDP2."""

from contextlib import nullcontext

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from support.programs.rank_models import Net, batches, largest_difference, seeded, sgd, train_alone
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    BackwardPrefetch,
    CPUOffload,
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
    StateDictType,
    fully_shard,
)
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

import simgpu as sim

pytestmark = pytest.mark.filterwarnings(
    "ignore:FSDP", "ignore:.*deprecat", "ignore:Multiple backends"
)
POLICY = ModuleWrapPolicy({nn.Sequential})


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-2)


def mine(tensor, rank, device):
    return tensor.chunk(dist.get_world_size())[rank].to(device)


def shard(model, **kwargs):
    kwargs = {"auto_wrap_policy": POLICY, "device_id": dist.get_rank()} | kwargs
    return FullyShardedDataParallel(model, **kwargs)


def whole(model):
    """Return the complete state dict, on the host."""
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT):
        return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}


def train(rank, steps=3, optimizer=sgd, clip=None, accumulate=1, hybrid=False, recompute=False,
          synchronise=False, **kwargs):  # fmt: skip
    """Train on one rank; return the complete state dict, norms and bytes of own parameters."""
    dist.init_process_group()
    device = torch.accelerator.current_accelerator()
    if hybrid:
        mesh = init_device_mesh(device.type, (2, dist.get_world_size() // 2))
        kwargs |= {"device_mesh": mesh, "sharding_strategy": ShardingStrategy.HYBRID_SHARD}
    model = shard(seeded(), **kwargs)
    if recompute:
        apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, nn.Sequential))
    optimizer, norms = optimizer(model.parameters()), []
    for i, (x, y) in enumerate(batches(steps)):
        last = (i + 1) % accumulate == 0
        with nullcontext() if last or synchronise else model.no_sync():
            predicted = model(mine(x, rank, device)).float()
            (F.mse_loss(predicted, mine(y, rank, device)) / accumulate).backward()
        if last:
            if clip is not None:
                norms.append(model.clip_grad_norm_(clip).item())
            optimizer.step()
            optimizer.zero_grad()
    return whole(model), norms, sum(p.nbytes for p in model.parameters())


def run(k, **kwargs):
    def program(rank):
        return train(rank, **kwargs)

    return sim.spawn(program, nprocs=k, gpu="a100", link="nvlink3")


LATE = {
    "backward_prefetch": BackwardPrefetch.BACKWARD_POST,
    "forward_prefetch": True,
    "limit_all_gathers": False,
}


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({}, 4),
        ({"use_orig_params": True}, 4),
        ({"optimizer": adamw, "use_orig_params": True, "backward_prefetch": None}, 4),
        ({"sharding_strategy": ShardingStrategy.SHARD_GRAD_OP}, 4),
        ({"sharding_strategy": ShardingStrategy.NO_SHARD}, 1),
        ({"hybrid": True}, 2),
        ({"recompute": True}, 4),
        ({"auto_wrap_policy": None}, 4),
        (LATE, 4),
    ],
    ids=lambda value: " ".join(value) or "plain" if isinstance(value, dict) else str(value),
)
def test_fsdp1_trains_as_one_process(options, parts):
    reference, _ = train_alone(optimizer=options.get("optimizer", sgd))
    of_one = sum(value.nbytes for value in reference.values())
    for state, _, local in run(4, **options):
        assert largest_difference(state, reference) < 2e-6
        assert of_one / parts <= local < 1.2 * of_one / parts


@pytest.mark.parametrize("synchronise", [True, False])
def test_accumulation_and_clipping(synchronise):
    reference, norms = train_alone(steps=4, accumulate=2, clip=0.5)
    options = {"steps": 4, "accumulate": 2, "clip": 0.5, "synchronise": synchronise}
    for state, own_norms, _ in run(2, use_orig_params=True, **options):
        assert own_norms == pytest.approx(norms, rel=1e-5)
        assert largest_difference(state, reference) < 1e-6


@pytest.mark.parametrize("original", [True, False])
@pytest.mark.parametrize("strategy", [ShardingStrategy.FULL_SHARD, ShardingStrategy.NO_SHARD])
def test_a_norm_that_is_that_of_a_shard_is_named(strategy, original, recwarn):
    def program(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        model = shard(seeded(), use_orig_params=original, sharding_strategy=strategy)
        model(torch.ones(2, 16, device=device)).sum().backward()
        return nn.utils.clip_grad_norm_(model.parameters(), 0.5).item()

    norms = sim.spawn(program, nprocs=2)
    named = [w for w in recwarn if "it takes the norm of that shard" in str(w.message)]
    assert bool(named) == (strategy is ShardingStrategy.FULL_SHARD) == (norms[0] != norms[1])


def test_mixed_precision():
    precision = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    reference, _ = train_alone()
    assert 1e-5 < largest_difference(run(2, mixed_precision=precision)[0][0], reference) < 2e-2


def test_a_module_without_data_gets_it_on_the_device():
    def fill(module):
        module.to_empty(device=torch.accelerator.current_accelerator(), recurse=False)
        for parameter in module.parameters(recurse=False):
            nn.init.constant_(parameter, 0.25)

    def program(rank):
        dist.init_process_group()
        with torch.device("meta"):
            model = Net()
        kinds = ModuleWrapPolicy({nn.Linear})
        return whole(shard(model, auto_wrap_policy=kinds, param_init_fn=fill))

    for state in sim.spawn(program, nprocs=2):
        assert {value.unique().item() for value in state.values()} == {0.25}


def test_checkpoints_of_shards_and_of_optimisers(tmp_path):
    def program(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()

        def step(model, optimizer):
            for x, y in batches(2):
                F.mse_loss(model(x.to(device)), y.to(device)).backward()
                optimizer.step()
                optimizer.zero_grad()

        def made(seed):
            torch.manual_seed(seed)
            model = shard(Net(), use_orig_params=True)
            return model, adamw(model.parameters())

        def states(model, optimizer):
            return {
                "m": model.state_dict(),
                "o": FullyShardedDataParallel.optim_state_dict(model, optimizer),
            }

        (model, optimizer), (other, other_optimizer) = made(0), made(1)
        step(model, optimizer)
        step(other, other_optimizer)
        for each in (model, other):
            FullyShardedDataParallel.set_state_dict_type(each, StateDictType.SHARDED_STATE_DICT)
        dcp.save(states(model, optimizer), checkpoint_id=tmp_path)
        dcp.load(loaded := states(other, other_optimizer), checkpoint_id=tmp_path)
        other.load_state_dict(loaded["m"])
        of_optimizer = FullyShardedDataParallel.optim_state_dict_to_load(
            other, other_optimizer, loaded["o"]
        )
        other_optimizer.load_state_dict(of_optimizer)
        step(model, optimizer)
        step(other, other_optimizer)
        return whole(model), whole(other)

    for model, other in sim.spawn(program, nprocs=2):
        assert largest_difference(model, other) == 0


def test_complete_states_are_taken_to_the_host_beside_gradients():
    def program(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        model = shard(seeded())
        model(torch.ones(2, 16, device=device)).sum().backward()
        before = [p.grad.clone() for p in model.parameters()]
        for _ in range(2):  # gradients are of shards while parameters are complete
            with FullyShardedDataParallel.summon_full_params(
                model, offload_to_cpu=True, writeback=False
            ):
                state = {n: p.clone() for n, p in model.named_parameters()}
        after = [p.grad for p in model.parameters()]
        assert all(map(torch.equal, before, after))
        assert {p.device.type for p in model.parameters()} == {device.type}
        return {tensor.device.type for tensor in state.values()}

    assert sim.spawn(program, nprocs=2) == [{"cpu"}] * 2


def test_a_scaler_agrees_on_what_is_not_finite():
    def program(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        model = shard(seeded(), use_orig_params=True)
        optimizer, scaler = sgd(model.parameters()), ShardedGradScaler(device.type, 8.0)
        before = whole(model)
        factor = torch.tensor(float("inf") if rank else 1.0, device=device)
        x = torch.ones(2, 16, device=device)
        scaler.scale(model(x).sum() * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        return scaler.get_scale(), largest_difference(whole(model), before)

    assert sim.spawn(program, nprocs=2) == [(4.0, 0.0)] * 2


def test_it_sends_and_keeps_what_fsdp2_does():
    def program(rank, kind):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        with device:
            model = nn.Sequential(*(nn.Sequential(nn.Linear(2048, 2048)) for _ in range(6)))
        if kind == 1:
            model = shard(model, sharding_strategy=ShardingStrategy.FULL_SHARD)
        else:
            for layer in model:
                fully_shard(layer)
            fully_shard(model)
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        x = torch.empty(16384, 2048, device=device)
        for _ in range(3):
            sim.synchronize()
            start, before = sim.now(), len(sim.trace())
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        sim.synchronize()
        spans = [s for s in sim.trace()[before:] if s.device == "rank 0 sim:0"]
        sending = sum(s.bytes for s in spans if s.engine == "comm")
        return sim.now() - start, sending, torch.accelerator.max_memory_allocated()

    options = {"nprocs": 4, "gpu": "a100", "link": "nvlink3", "numerics": False}
    old, new = (sim.spawn(program, (kind,), **options)[0] for kind in (1, 2))
    assert old == pytest.approx(new, rel=0.05)


def test_parameters_that_wait_on_the_host_are_refused_by_name():
    def program(rank):
        dist.init_process_group()
        shard(seeded(), cpu_offload=CPUOffload(offload_params=True))

    with pytest.raises(NotImplementedError, match="use fully_shard with CPUOffloadPolicy"):
        sim.spawn(program, nprocs=2)
