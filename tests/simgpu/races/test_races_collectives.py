"""Races with collectives: inputs that are not ready, results that another stream waits for."""

import pytest
import torch
import torch.distributed as dist
from support.programs import rank_programs
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

import simgpu as sim


def race_in(program, nprocs=2):
    """Run a program on ranks; return what is said about its first race, None if there is none."""

    def on_rank(rank):
        dist.init_process_group()
        program(torch.accelerator.current_accelerator(), rank)

    try:
        with sim.check_races():
            sim.spawn(on_rank, nprocs=nprocs, gpu="a100", link="nvlink3")
    except sim.RaceError as error:
        return str(error)
    return None


def current():
    return torch.accelerator.current_stream()


def side_stream():
    side = torch.Stream()
    side.wait_stream(current())
    return side


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("waits", [False, True])
def test_an_input_that_is_not_ready(waits, is_async):
    def program(device, rank):
        x = torch.ones(1000, device=device)
        side = side_stream()
        with side:
            x.mul_(2)
        if waits:
            current().wait_stream(side)
        work = dist.all_reduce(x, async_op=is_async)
        if is_async:
            work.wait()
        x.sum()

    race = race_in(program)
    assert (race is None) == waits
    if race:
        assert "race: 'all_reduce' in stream" in race
        assert "reads a float32 tensor of shape (1000,) that 'mul' in stream 1 of sim:0" in race
        assert "should wait for stream 1 of sim:0 first" in race
        assert ("the stream in which it is called" in race) == is_async


@pytest.mark.parametrize("where", ["in the reading stream", "elsewhere", "elsewhere, joined"])
def test_a_result_that_another_stream_waits_for(where):
    def program(device, rank):
        x, side = torch.ones(1000, device=device), torch.Stream()
        work = dist.all_reduce(x, async_op=True)
        with side if where.startswith("elsewhere") else current():
            work.wait()
        if where.endswith("joined"):
            current().wait_stream(side)
        (x + 1)[0].item()

    race = race_in(program)
    assert (race is not None) == (where == "elsewhere")
    if race:
        assert "'add' in stream 0 of sim:0" in race
        assert "that 'all_reduce' in stream" in race
        assert "stream 0 of sim:0 should wait for 'all_reduce' first: call wait() on" in race


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_an_input_that_is_overwritten_too_early(is_async, waits):
    def program(device, rank):
        x, whole = torch.ones(1000, device=device), torch.empty(2000, device=device)
        side = side_stream()
        work = dist.all_gather_single(whole, x, async_op=is_async)
        if is_async:
            work.wait()
        if waits:
            side.wait_stream(current())
        with side:
            x.sum()  # to read it is no race
            x.zero_()

    race = race_in(program)
    assert (race is None) == waits
    if race:
        assert "'zero' in stream 1 of sim:0" in race
        assert "writes a float32 tensor of shape (1000,) that 'all_gather'" in race


@pytest.mark.parametrize("waits", [False, True])
def test_a_result_in_another_part_of_a_tensor(waits):
    def program(device, rank):
        x, side = torch.ones(8, device=device), side_stream()
        work = dist.all_reduce(x[:4], async_op=True)
        with side:
            work.wait()
        x[4:].mul_(2)
        if not waits:
            x[3:].mul_(2)

    assert (race_in(program) is None) == waits


@pytest.mark.parametrize("waits", [False, True])
def test_messages(waits):
    def program(device, rank):
        x, side = torch.ones(8, device=device), side_stream()
        if rank == 0:
            with side:
                x.mul_(2)
            if waits:
                current().wait_stream(side)
            dist.send(x, 1)
        else:
            work = dist.irecv(x, 0)
            with side:
                work.wait()
            if waits:
                current().wait_stream(side)
            x.sum()

    race = race_in(program)
    assert (race is None) == waits
    assert race is None or "'send'" in race or "'recv'" in race


@pytest.mark.parametrize("how", ["synchronize", "barrier", "poll", "stream", "item"])
def test_the_host_waits_for_a_collective(how):
    def program(device, rank):
        x, side = torch.ones(8, device=device), side_stream()
        work = dist.all_reduce(x, async_op=True)
        if how == "poll":
            while not work.is_completed():
                pass
        elif how == "synchronize":
            torch.accelerator.synchronize()
        else:
            with side:
                work.wait()
                if how == "stream":
                    side.synchronize()
                elif how == "item":
                    x[0].item()
                else:
                    dist.barrier()
        x.mul_(2)

    assert race_in(program) is None


def test_a_barrier_waits_for_no_other_stream():
    def program(device, rank):
        x, side = torch.ones(8, device=device), side_stream()
        with side:
            x.mul_(2)
        dist.barrier()
        x.sum()

    assert "'mul' in stream 1" in race_in(program)


def test_a_later_collective_of_the_group_comes_after_the_earlier_one():
    """One wait for the last of them is enough."""

    def program(device, rank):
        x, y = torch.ones(8, device=device), torch.ones(8, device=device)
        dist.all_reduce(x, async_op=True)
        dist.all_reduce(y, async_op=True).wait()
        x.sum()

    assert race_in(program) is None


@pytest.mark.parametrize("waits", [False, True])
def test_memory_of_a_freed_result(waits):
    """Its work is waited for in a side stream; the memory belongs to the main one."""

    def program(device, rank):
        x, side = torch.ones(8, device=device), side_stream()
        work = dist.all_reduce(x, async_op=True)
        with side:
            work.wait()
        if waits:
            current().wait_stream(side)
        del x, work
        torch.ones(8, device=device)

    race = race_in(program)
    assert (race is None) == waits
    if race:
        assert "may be that of a freed float32 tensor of shape (8,), which 'all_reduce'" in race


def test_a_collective_in_a_side_stream():
    """As FSDP does it: its input and its output belong to the main stream."""

    def program(device, rank, waits):
        x, whole = torch.ones(8, device=device), torch.empty(16, device=device)
        side = side_stream()
        with side:
            dist.all_gather_single(whole, x)
            gathered = side.record_event()
        if waits:
            current().wait_event(gathered)
        whole.sum()

    assert race_in(lambda *a: program(*a, True)) is None
    assert "'all_gather' in stream 1" in race_in(lambda *a: program(*a, False))


@pytest.mark.parametrize("waits", [False, True])
def test_futures(waits):
    def program(device, rank):
        x, side = torch.ones(8, device=device), side_stream()
        future = dist.all_reduce(x, async_op=True).get_future()
        doubled = future.then(lambda done: done.value()[0] * 2).wait()
        doubled.sum()
        if waits:
            side.wait_stream(current())
        with side:
            doubled.mul_(2)

    race = race_in(program)
    assert (race is None) == waits
    assert race is None or "'mul' in stream 1" in race


def test_a_callback_comes_after_the_work_before_the_collective():
    def program(device, rank):
        x, y = torch.ones(8, device=device), torch.ones(8, device=device)
        future = dist.all_reduce(x, async_op=True).get_future()
        future.then(lambda done: y * 2).wait().sum()

    assert race_in(program) is None


def test_a_warning_lets_the_program_go_on():
    def program(rank):
        dist.init_process_group()
        x, side = torch.ones(8, device="sim"), side_stream()
        with side:
            x.mul_(2)
        dist.all_reduce(x)
        return x[0].item()

    with sim.check_races("warn"), pytest.warns(RuntimeWarning, match="race: 'all_reduce'"):
        assert sim.spawn(program, nprocs=2) == [4, 4]


# ---- no false alarms in PyTorch's own overlap


def net(device):
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(4)]
    return nn.Sequential(*layers).to(device)


def train(model, device, steps=3):
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    for _ in range(steps):
        for _ in range(2):
            model(torch.ones(4, 16, device=device)).square().mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "hook",
    [
        None, default_hooks.allreduce_hook, default_hooks.fp16_compress_hook,
        default_hooks.bf16_compress_hook, powerSGD_hook.powerSGD_hook,
    ],
)  # fmt: skip
@pytest.mark.parametrize("views", [False, True])
@pytest.mark.slow
def test_data_parallel_training_has_no_races(hook, views):
    def program(device, rank):
        model = DistributedDataParallel(
            net(device), bucket_cap_mb=0.001, gradient_as_bucket_view=views
        )
        if hook is powerSGD_hook.powerSGD_hook:
            # With error feedback it reads a freed tensor of another stream: a race on GPUs, too.
            state = powerSGD_hook.PowerSGDState(
                None, 1, 2, use_error_feedback=False, min_compression_rate=0.5
            )
            model.register_comm_hook(state, hook)
        elif hook is not None:
            model.register_comm_hook(None, hook)
        train(model, device)

    assert race_in(program) is None


@pytest.mark.sample(4)
@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("reshard", [False, True])
@pytest.mark.slow
def test_sharded_training_has_no_races(prefetch, reshard):
    def program(device, rank):
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        model = net(device)
        for layer in model:
            fully_shard(layer, mp_policy=policy, reshard_after_forward=reshard)
        fully_shard(model, mp_policy=policy)
        if prefetch:
            layers = [*model]
            for first, second, third in zip(layers, layers[1:], layers[2:], strict=False):
                first.set_modules_to_forward_prefetch([second, third])
                third.set_modules_to_backward_prefetch([second, first])
            model.unshard(async_op=True)
        train(model, device)

    assert race_in(program) is None


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:torch.distributed.nn.functional")
@pytest.mark.parametrize("program", rank_programs.PROGRAMS, ids=lambda program: program.__name__)
def test_complete_programs_have_no_races(program):
    assert race_in(lambda device, rank: program(rank, "sim"), rank_programs.K) is None
