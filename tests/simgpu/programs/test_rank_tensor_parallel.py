"""DTensor, tensor and sequence parallelism, alone and with FSDP, against one process."""

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from support.programs.rank_models import WIDTH, largest_difference, sgd
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
    randn,
)
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

import simgpu as sim

WORDS, LENGTH = 32, 8


class Block(nn.Module):
    """Norm and feed-forward with a residual."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Language(nn.Module):
    """Embedding, blocks, and a head over words."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words):
        return self.head(self.norm(self.blocks(self.embed(words))))


def texts(steps=3):
    generator = torch.Generator().manual_seed(3)
    return torch.randint(WORDS, (steps, 4, LENGTH + 1), generator=generator)


def make():
    torch.manual_seed(0)
    return Language()


def loss_of(logits, words):
    return F.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten())


def train_alone():
    model = make()
    optimizer = sgd(model.parameters())
    for words in texts():
        loss_of(model(words[:, :-1]), words).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.state_dict()


TENSOR_PLAN = {
    "embed": RowwiseParallel(input_layouts=Replicate()),
    **{f"blocks.{i}.up": ColwiseParallel() for i in range(2)},
    **{f"blocks.{i}.down": RowwiseParallel() for i in range(2)},
    "head": ColwiseParallel(output_layouts=Replicate()),
}
SEQUENCE_PLAN = {
    "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    **{f"blocks.{i}.norm": SequenceParallel() for i in range(2)},
    **{f"blocks.{i}.up": ColwiseParallel(input_layouts=Shard(1)) for i in range(2)},
    **{f"blocks.{i}.down": RowwiseParallel(output_layouts=Shard(1)) for i in range(2)},
    "norm": SequenceParallel(),
    "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
}
LOSS_PLAN = {
    **TENSOR_PLAN,
    "head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
}


def train(rank, plan, shape, with_loss_parallel=False):
    dist.init_process_group()
    device = torch.accelerator.current_accelerator()
    mesh = init_device_mesh(device.type, shape, mesh_dim_names=("dp", "tp"))
    model = parallelize_module(make().to(device), mesh["tp"], plan)
    if shape[0] > 1:
        for block in model.blocks:
            fully_shard(block, mesh=mesh["dp"])
        fully_shard(model, mesh=mesh["dp"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    for words in texts():
        words = words.chunk(shape[0])[mesh["dp"].get_local_rank()].to(device)
        logits = model(words[:, :-1])
        if with_loss_parallel:
            with loss_parallel():
                loss_of(logits, words).backward()
        else:
            loss_of(logits, words).backward()
        optimizer.step()
        optimizer.zero_grad()
    return {
        name: (value.full_tensor() if isinstance(value, DTensor) else value).cpu()
        for name, value in model.state_dict().items()
    }


@pytest.mark.sample(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "shape", "with_loss_parallel"),
    [
        (TENSOR_PLAN, (1, 2), False), (TENSOR_PLAN, (1, 4), False), (SEQUENCE_PLAN, (1, 2), False),
        (SEQUENCE_PLAN, (1, 4), False), (LOSS_PLAN, (1, 2), True), (TENSOR_PLAN, (2, 2), False),
        pytest.param(SEQUENCE_PLAN, (2, 2), False, marks=pytest.mark.exhaustive),
        pytest.param(TENSOR_PLAN, (4, 2), False, marks=pytest.mark.exhaustive),
    ],
    ids=["tp2", "tp4", "sp2", "sp4", "loss", "fsdp2 x tp2", "fsdp2 x sp2", "fsdp4 x tp2"],
)  # fmt: skip
def test_a_language_model_trains_as_in_one_process(plan, shape, with_loss_parallel):
    out = sim.spawn(
        train, (plan, shape, with_loss_parallel), nprocs=shape[0] * shape[1], gpu="a100",
        link="nvlink3",
    )  # fmt: skip
    reference = train_alone()
    for state in out:
        assert largest_difference(state, reference) < 1e-6


def test_distributed_tensors():
    whole = torch.randn(8, 12, generator=torch.Generator().manual_seed(1))

    def program(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        rows = distribute_tensor(whole.to(device), mesh, [Shard(0)])
        columns = rows.redistribute(placements=[Shard(1)])
        total = (rows @ columns.T.redistribute(placements=[Replicate()])).full_tensor()
        partial = DTensor.from_local(torch.full((3,), rank + 1.0, device=device), mesh, [Partial()])
        return {
            "device": str(rows.device),
            "here": torch.equal(rows.to_local().cpu(), whole.chunk(4)[rank]),
            "columns": torch.equal(columns.to_local().cpu(), whole.chunk(4, 1)[rank]),
            "product": (total.cpu() - whole @ whole.T).abs().max().item(),
            "sum": partial.full_tensor().tolist(),
            "moved": str(rows.to(device).device),
            "mean": rows.mean().full_tensor().item(),
        }  # fmt: skip

    for rank, out in enumerate(sim.spawn(program, nprocs=4)):
        assert out["device"] == out["moved"] == f"sim:{rank}"
        assert out["here"]
        assert out["columns"]
        assert out["product"] < 1e-5
        assert out["sum"] == [10.0] * 3
        assert out["mean"] == pytest.approx(whole.mean().item(), abs=1e-6)


def test_random_numbers_of_distributed_tensors():
    def program(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        torch.manual_seed(11)
        copies = randn(6, device_mesh=mesh, placements=[Replicate()]).to_local().cpu()
        parts = randn(6, device_mesh=mesh, placements=[Shard(0)]).to_local().cpu()
        return copies, parts, torch.rand(3, device=device).cpu()

    (copies, part, own), (others, other_part, others_own) = sim.spawn(program, nprocs=2)
    assert torch.equal(copies, others)
    assert not torch.equal(part, other_part)
    assert torch.equal(own, others_own)  # same seed, same number of draws
    assert len({*copies.tolist(), *part.tolist(), *other_part.tolist()}) == 12


def test_collectives_are_counted():
    def program(rank, plan):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        model = parallelize_module(make().to(device), mesh, plan)
        words = texts(1)[0].to(device)
        with CommDebugMode() as forward:
            loss = loss_of(model(words[:, :-1]), words)
        with CommDebugMode() as backward:
            loss.backward()
        return [
            {str(kind).rpartition(".")[2]: n for kind, n in mode.get_comm_counts().items()}
            for mode in (forward, backward)
        ]

    # The embedding and two blocks add parts, the head gathers them.
    forward, backward = {"all_reduce": 3, "all_gather_into_tensor": 1}, {"all_reduce": 3}
    assert sim.spawn(program, (TENSOR_PLAN,), nprocs=2) == [[forward, backward]] * 2


@pytest.mark.parametrize("dim", [0, 1])
def test_redistribution_plans_are_cached_per_rank(dim):
    whole = torch.arange(63.0).view(7, 9)

    def program(rank):
        dist.init_process_group()
        mesh = init_device_mesh("sim", (2, 2))
        tensor = distribute_tensor(whole.to("sim"), mesh, [Replicate(), Replicate()])
        tensor = tensor.redistribute(placements=[Shard(dim), Shard(dim)])  # parts of 2, 2, 2, 1
        return torch.equal(tensor.full_tensor().cpu(), whole)

    assert sim.spawn(program, nprocs=4) == [True] * 4


@pytest.mark.parametrize("split", [[Shard(0)], [Shard(1)], [Replicate()], [Shard(0), Shard(1)]])
def test_attention_of_dtensors_is_that_of_the_whole(split):
    """Uneven parts among them: three heads on two ranks."""
    shape = (4, 3, LENGTH, 4)
    whole = [torch.randn(shape, generator=torch.Generator().manual_seed(i)) for i in range(3)]
    leaves = [x.clone().requires_grad_() for x in whole]
    expected = F.scaled_dot_product_attention(*leaves, is_causal=True)
    (expected * whole[0]).sum().backward()

    def program(rank):
        dist.init_process_group()
        mesh = init_device_mesh("sim", (2,) * len(split))
        parts = [distribute_tensor(x.to("sim"), mesh, split).requires_grad_() for x in whole]
        out = F.scaled_dot_product_attention(*parts, is_causal=True)
        assert out.shape == shape
        assert list(out.placements) == split
        (out * distribute_tensor(whole[0].to("sim"), mesh, split)).sum().backward()
        return [x.full_tensor().cpu() for x in (out.detach(), *(part.grad for part in parts))]

    for found in sim.spawn(program, nprocs=2 ** len(split)):
        for one, other in zip(found, (expected.detach(), *(x.grad for x in leaves)), strict=True):
            torch.testing.assert_close(one, other)
