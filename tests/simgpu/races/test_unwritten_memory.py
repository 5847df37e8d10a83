"""Reads of memory that nothing has written are named, and nothing else is."""

import warnings

import pytest
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.nn.parallel import DistributedDataParallel

import simgpu as sim
from simgpu.backend import unwritten


@pytest.fixture
def named():
    """Return a function that runs a program on a device, or on ranks: what it is warned of."""

    def run(program, nprocs=None):
        with warnings.catch_warnings(record=True) as caught, unwritten.watching():
            warnings.simplefilter("always")
            if nprocs is None:
                program(*sim.configure(1))
            else:
                sim.spawn(program, nprocs=nprocs)
        return [str(w.message) for w in caught if "nothing has written" in str(w.message)]

    return run


@pytest.fixture
def named_by_launcher(simgpu_run):
    """Return a function that runs a script: what it is warned of."""

    def run(source, *options):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            code, _, err = simgpu_run(source, *options)
        assert code == 0, err
        return [str(w.message) for w in caught if "nothing has written" in str(w.message)]

    return run


def make(device, *shape):
    return torch.empty(*(shape or (4, 4)), device=device)


READS = {
    "arithmetic": lambda d: make(d) + 1,
    "the second operand": lambda d: torch.ones(4, 4, device=d) * make(d),
    "a product": lambda d: make(d) @ make(d),
    "a view": lambda d: make(d)[1:, None].exp(),
    "in place": lambda d: make(d).add_(1),
    "a function in place": lambda d: torch.nn.functional.silu(make(d), inplace=True),
    "sums in place": lambda d: make(d).cumsum_(0),
    "what rows are added to": lambda d: make(d).index_add_(
        0, torch.arange(2, device=d), torch.ones(2, 4, device=d)
    ),
    "what is put and added": lambda d: make(d).index_put_(
        (torch.arange(2, device=d),), torch.ones(2, 4, device=d), accumulate=True
    ),
    "a product added in place": lambda d: make(d).addmm_(*[torch.ones(4, 4, device=d)] * 2),
    "each of a list": lambda d: torch._foreach_mul_([make(d)], 2.0),
    "a number": lambda d: make(d, 1).item(),
    "a copy": lambda d: make(d).clone().double().relu(),
    "several together": lambda d: torch.cat([make(d), make(d)]).sum(),
    "what is added": lambda d: torch.addmm(make(d), *[torch.ones(4, 4, device=d)] * 2),
    "a parameter": lambda d: torch.nn.Parameter(make(d)).sum().backward(),
    "made like another": lambda d: torch.empty_like(torch.ones(4, device=d)).mean(),
    "made by another": lambda d: torch.ones(4, device=d).new_empty(2).max(),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_a_read_is_named(named, read):
    (text, *more) = named(read)
    assert "(test_unwritten_memory.py:" in text
    assert "reads memory that nothing has written: a float" in text
    assert "made by " in text
    assert not more  # once for a line


def test_the_line_that_reads_and_the_line_that_made_it(named):
    def program(device):
        x = torch.empty(2, 3, device=device)
        for _ in range(3):
            y = x.clone()
            y.mul(2)
            y.mul(3)

    start = program.__code__.co_firstlineno
    texts = named(program)
    assert [text.split(" reads ")[0] for text in texts] == [
        f"'mul' (test_unwritten_memory.py:{start + 4})",
    ]
    assert (
        f"tensor of shape (2, 3), made by empty (test_unwritten_memory.py:{start + 1})"
        in (texts[0])
    )


def initialise(device):
    for kind in (
        lambda: torch.nn.Linear(4, 4, device=device),
        lambda: torch.nn.Embedding(4, 4, padding_idx=0, device=device),
        lambda: torch.nn.LSTM(4, 4, device=device),
        lambda: torch.nn.MultiheadAttention(4, 2, device=device),
        lambda: torch.nn.BatchNorm1d(4, device=device),
        lambda: torch.nn.Conv2d(2, 2, 3, device=device),
    ):
        sum(parameter.sum() for parameter in kind().parameters())
    for init in (
        torch.nn.init.orthogonal_, torch.nn.init.xavier_normal_, torch.nn.init.eye_,
        torch.nn.init.trunc_normal_, torch.nn.init.kaiming_uniform_, torch.nn.init.ones_,
    ):  # fmt: skip
        init(make(device)).sum()


def load(device):
    model = torch.nn.Linear(4, 4, device="meta").to_empty(device=device).double()
    model.load_state_dict(torch.nn.Linear(4, 4).state_dict())
    model(torch.ones(4, 4, dtype=torch.float64, device=device)).sum().backward()


def overwrite_parts(device):
    ones, order = torch.ones(2, 4, device=device), torch.tensor([2, 0, 3, 1], device=device)
    for write in (
        lambda x: x[:2].copy_(ones), lambda x: x[0].fill_(1), lambda x: x.__setitem__(2, 0.5),
        lambda x: x.index_copy_(0, order, ones.repeat(2, 1)), lambda x: x.zero_(),
        lambda x: x.__setitem__(order, ones.repeat(2, 1)), lambda x: x.uniform_(),
        lambda x: x.split(2)[1].copy_(ones), lambda x: torch._foreach_copy_([x[:2]], [ones]),
        lambda x: x.masked_fill_(x.new_ones(4, 4, dtype=torch.bool), 1.0), lambda x: x.normal_(),
        lambda x: x.scatter_(0, order.view(1, 4), 1.0), lambda x: torch.add(ones[0], 1, out=x[0]),
        lambda x: torch.mm(ones.T, ones, out=x), lambda x: torch.cat([ones, ones], out=x),
        lambda x: torch.stack([ones[0]] * 4, out=x), lambda x: x.scatter_(0, order[None], True),
        lambda x: x.view(-1).view(2, 8).t().fill_(2),
    ):  # fmt: skip
        x = make(device)
        write(x)
        x.sum()


def resume(device):
    """PyTorch takes a step with an optimiser, so that its states exist and can be loaded."""
    model = torch.nn.Linear(4, 4, device="meta").to_empty(device=device)
    adam = torch.optim.AdamW(model.parameters())
    states = get_state_dict(model, adam)
    assert len(adam.state) == 2
    for tensor in torch.utils._pytree.tree_leaves(states):
        if isinstance(tensor, torch.Tensor):
            tensor.fill_(1)
    model(torch.ones(1, 4, device=device)).sum().backward()


NO_READS = {
    "initialised": initialise,
    "loaded": load,
    "in parts": overwrite_parts,
    "resumed": resume,
    "its shape, to fill another": lambda d: [torch.bernoulli(make(d), 0.5), torch.fill(make(d), 1)],
    "none of it": lambda d: make(d)[torch.arange(0, device=d)].sum(),
    "not the first": lambda d: make(d).index_reduce_(
        0, torch.arange(4, device=d), torch.ones(4, 4, device=d), "mean", include_self=False
    ).sum(),
    "its shape": lambda d: [torch.zeros_like(make(d)), make(d).new_ones(2), make(d).T.shape],
    "no elements": lambda d: make(d, 0).sum(),
    "times zero": lambda d: [
        torch.addmm(make(d), *[torch.ones(4, 4, device=d)] * 2, beta=0),
        torch.baddbmm(make(d, 1, 4, 4), *[torch.ones(1, 4, 4, device=d)] * 2, beta=0),
    ],
    "overwritten as a whole": lambda d: make(d, 4).scatter(
        0, torch.arange(4, device=d), torch.ones(4, device=d)
    ).sum(),
    "not chosen": lambda d: torch.where(
        torch.ones(4, 4, device=d) > 0, torch.ones(4, 4, device=d), make(d)
    ).sum(),
    "copied, then written": lambda d: make(d).to(torch.bfloat16).normal_().sum(),
}  # fmt: skip


@pytest.mark.parametrize("program", NO_READS.values(), ids=NO_READS.keys())
def test_a_sound_program_is_not_named(named, program):
    assert named(program) == []


def test_a_pipeline_that_finds_the_shapes_of_its_messages_is_not_named(named):
    def program(rank):
        dist.init_process_group()
        stage = PipelineStage(torch.nn.Linear(4, 4, device="sim"), rank, 2, torch.device("sim"))
        schedule = ScheduleGPipe(stage, 2, loss_fn=torch.nn.MSELoss())
        x = torch.ones(4, 4, device="sim")
        schedule.step(x) if rank == 0 else schedule.step(target=x)

    assert named(program, nprocs=2) == []


def test_what_ranks_receive_is_written(named):
    def program(rank):
        dist.init_process_group()
        own = torch.full((2,), float(rank), device="sim")

        def new(n=2):
            return torch.empty(n, device="sim")

        whole, lists, parts, part = new(4), [new(), new()], new(), new(1)
        dist.all_gather_into_tensor(whole, own)
        dist.all_gather(lists, own)
        dist.all_to_all_single(parts, own)
        dist.reduce_scatter_tensor(part, own)
        root = own if rank == 0 else new()
        dist.broadcast(root, 0)
        message = new()
        dist.send(own, 1) if rank == 0 else dist.recv(message, 0)
        scattered = new()
        dist.scatter(scattered, [own, own + 1] if rank == 0 else None)
        gathered = [new(), new()] if rank == 0 else None
        dist.gather(own, gathered)
        dist.barrier()
        kept = [None, None]
        dist.all_gather_object(kept, "x")
        read = [whole, *lists, parts, part, root, scattered, *(gathered or ())]
        return sum(x.sum().item() for x in [*read, *([message] if rank else [])])

    assert named(program, nprocs=2) == []


def test_a_sum_over_ranks_reads(named):
    def program(rank):
        dist.init_process_group()
        dist.all_reduce(torch.empty(4, device="sim"))

    (text,) = named(program, nprocs=2)
    assert text.startswith("'all_reduce' (test_unwritten_memory.py:")


def train(model):
    optimizer = torch.optim.AdamW(model.parameters(), 0.1)
    for _ in range(2):
        model(torch.ones(2, 8, device="sim")).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def layers(device="sim"):
    return torch.nn.Sequential(
        torch.nn.Linear(8, 7, device=device), torch.nn.ReLU(), torch.nn.Linear(7, 3, device=device)
    )


def test_ddp_reads_nothing_unwritten(named):
    def program(rank):
        dist.init_process_group()
        train(DistributedDataParallel(layers(), gradient_as_bucket_view=True))

    assert named(program, nprocs=2) == []


@pytest.mark.slow
def test_fsdp_reads_nothing_unwritten(named):
    from torch.distributed.fsdp import fully_shard

    def program(rank):
        dist.init_process_group()
        model = layers("meta")
        for part in (model[0], model[2], model):
            fully_shard(part)
        model.to_empty(device="sim")
        for layer in (model[0], model[2]):
            layer.reset_parameters()
        train(model)

    assert named(program, nprocs=2) == []


FORGETS = """import os, torch
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
x = torch.empty(4, 4, device="cuda")
y = x * 2
"""


@pytest.mark.parametrize("ranks", ["1", "2"])
def test_the_launcher_names_it_where_it_has_values(named_by_launcher, ranks):
    (text,) = named_by_launcher(FORGETS, "--nproc-per-node", ranks)
    assert text.startswith("'mul' (train.py:4) reads memory that nothing has written")
    assert "made by empty (train.py:3)" in text
    assert named_by_launcher(FORGETS, "--nproc-per-node", ranks, "--shapes-only") == []


CAPTURES = """import torch
x = torch.empty(4, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x * 2
x.copy_(torch.ones(4))
graph.replay()
assert y.sum().item() == 8
"""


def test_what_a_cuda_graph_captures_is_no_read(named_by_launcher):
    assert named_by_launcher(CAPTURES) == []
