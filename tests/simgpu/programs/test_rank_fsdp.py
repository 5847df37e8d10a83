"""Unmodified FSDP2 (`fully_shard`), against one process on the CPU."""

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from support.programs.rank_models import Net, batches, largest_difference, seeded, sgd, train_alone
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

import simgpu as sim


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-2)


def shard(model, mesh, **kwargs):
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, **kwargs)
    return fully_shard(model, mesh=mesh, **kwargs)


def full_state(model):
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state = get_model_state_dict(model, options=options)
    return {name: value.clone() for name, value in state.items()}


def mesh_of(k, shape=None):
    kind = torch.accelerator.current_accelerator().type
    if shape is None:
        return init_device_mesh(kind, (k,))
    return init_device_mesh(kind, shape, mesh_dim_names=("replicate", "shard"))


def train(rank, steps=3, optimizer=sgd, shape=None, on="device", clip=None, accumulate=1,
          recompute=False, **kwargs):  # fmt: skip
    """Train on one rank; return the full state dict on rank 0, norms and local bytes."""
    dist.init_process_group()
    k, device = dist.get_world_size(), torch.accelerator.current_accelerator()
    model = seeded()
    if on == "meta":
        state = model.state_dict()
        with torch.device("meta"):
            model = Net()
    model = model.to(device) if on == "device" else model
    if recompute:
        for layer in model.layers:
            own = layer.forward
            layer.forward = lambda x, own=own: checkpoint(own, x, use_reentrant=False)
    shard(model, mesh_of(k, shape), **kwargs)
    if on == "meta":
        model.to_empty(device=device)
        for name, value in model.state_dict().items():
            value.copy_(dist.tensor.distribute_tensor(
                state[name].to(device), value.device_mesh, value.placements
            ))  # fmt: skip
    optimizer, norms = optimizer(model.parameters()), []
    for i, (x, y) in enumerate(batches(steps)):
        x, y = x.chunk(k)[rank].to(device), y.chunk(k)[rank].to(device)
        last = (i + 1) % accumulate == 0
        model.set_requires_gradient_sync(last)
        (F.mse_loss(model(x).float(), y) / accumulate).backward()
        if last:
            if clip is not None:
                norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
                norms.append(norm.full_tensor().item())
            optimizer.step()
            optimizer.zero_grad()
    local = sum(p.to_local().nbytes for p in model.parameters())
    return full_state(model), norms, local


def run(k, *args, **kwargs):
    def program(rank):
        return train(rank, *args, **kwargs)

    return sim.spawn(program, nprocs=k, gpu="a100", link="nvlink3")


@pytest.mark.sample(5)
@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("on", ["device", "host", "meta"])
@pytest.mark.parametrize("optimizer", [sgd, adamw])
def test_fsdp_trains_as_one_process(k, on, optimizer):
    reference, _ = train_alone(optimizer=optimizer)
    out = run(k, on=on, optimizer=optimizer)
    assert largest_difference(out[0][0], reference) < 2e-6
    whole = sum(value.nbytes for value in reference.values())
    assert max(local for _, _, local in out) < 1.2 * whole / k


def test_hybrid_sharding():
    reference, _ = train_alone()
    assert largest_difference(run(4, shape=(2, 2))[0][0], reference) < 1e-6


def test_accumulation_and_clipping():
    reference, norms = train_alone(steps=4, accumulate=2, clip=0.5)
    for state, own_norms, _ in run(2, steps=4, accumulate=2, clip=0.5):
        assert own_norms == pytest.approx(norms, rel=1e-5)
        if state:
            assert largest_difference(state, reference) < 1e-6


def test_activation_checkpointing():
    reference, _ = train_alone()
    assert largest_difference(run(2, recompute=True)[0][0], reference) < 1e-6


@pytest.mark.parametrize("pin_memory", [True, False])
def test_parameters_on_the_host(pin_memory):
    reference, _ = train_alone()
    policy = CPUOffloadPolicy(pin_memory=pin_memory)
    assert largest_difference(run(2, on="host", offload_policy=policy)[0][0], reference) < 1e-6


def test_mixed_precision():
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    reference, _ = train_alone()
    difference = largest_difference(run(2, mp_policy=policy)[0][0], reference)
    assert 1e-5 < difference < 2e-2


def test_distributed_checkpoints(tmp_path):
    def program(rank):
        dist.init_process_group()
        k, device = dist.get_world_size(), torch.accelerator.current_accelerator()

        def make(seed):
            torch.manual_seed(seed)
            model = shard(Net().to(device), mesh_of(k))
            return model, adamw(model.parameters())

        def step(model, optimizer):
            for x, y in batches(2):
                F.mse_loss(model(x.to(device)), y.to(device)).backward()
                optimizer.step()
                optimizer.zero_grad()

        model, optimizer = make(0)
        step(model, optimizer)
        states = get_state_dict(model, optimizer)
        dcp.save(dict(zip("mo", states, strict=True)), checkpoint_id=tmp_path)
        other, other_optimizer = make(1)
        states = dict(zip("mo", get_state_dict(other, other_optimizer), strict=True))
        dcp.load(states, checkpoint_id=tmp_path)
        set_state_dict(
            other, other_optimizer, model_state_dict=states["m"], optim_state_dict=states["o"]
        )
        step(model, optimizer)
        step(other, other_optimizer)
        return full_state(model), full_state(other)

    model, other = sim.spawn(program, nprocs=2)[0]
    assert largest_difference(model, other) == 0


@pytest.mark.exhaustive
def test_sharding_divides_memory_and_products_hide_gathering():
    def program(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(6))).to(device)
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
        sim.synchronize()
        parameters = torch.accelerator.memory_allocated()
        x = torch.empty(4096, 512, device=device)
        for _ in range(2):
            sim.synchronize()
            start = sim.now()
            model(x).sum().backward()
            sim.synchronize()
        return parameters, start, sim.now()

    whole = 6 * 513 * 512 * 4
    for k in (2, 4):
        (parameters, start, end), *_ = sim.spawn(program, nprocs=k, gpu="v100", link="nvlink2")
        assert whole / k <= parameters < 1.1 * whole / k
        spans = [s for s in sim.trace() if s.device == "rank 0 sim:0" and s.start >= start]
        busy = {e: sum(s.duration for s in spans if s.engine == e) for e in ("compute", "comm")}
        assert end - start < 0.95 * (busy["compute"] + busy["comm"])


def test_a_sharded_model_may_be_moved_to_its_own_device():
    def program(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        model = nn.Linear(8, 8, bias=False).to(device)
        fully_shard(model)
        model.to(device)
        model.to(device, torch.float64)
        model(torch.ones(2, 8, device=device, dtype=torch.float64)).sum().backward()
        return model.weight.grad.full_tensor().tolist()

    assert sim.spawn(program, nprocs=2) == [[[2.0] * 8] * 8] * 2
