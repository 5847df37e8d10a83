"""Programs that hang or go wrong on real GPUs: each fails at once, and names ranks and lines."""

import _thread
import copy
import gc
import io
import pickle
import sys
import threading

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import simgpu as sim
from simgpu.ranks.process import describe_ranks


def failing(program, k=2, error=sim.RanksError):
    """Run a program that fails; return the message."""

    def with_group(rank):
        dist.init_process_group()
        return program(rank, torch.accelerator.current_accelerator())

    with pytest.raises(error) as caught:
        sim.spawn(with_group, nprocs=k, gpu="a100", link="nvlink3")
    assert not dist.is_initialized()
    return "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])


def line(offset=0):
    """Return ``file:line`` of the caller."""
    return f"test_rank_mistakes.py:{sys._getframe(1).f_lineno + offset}"


def test_a_rank_skips_a_collective():
    lines = {}

    def program(rank, device):
        x = torch.ones(4, device=device)
        if rank != 1:
            lines[rank] = line(1)
            dist.all_reduce(x)

    text = failing(program, 3)
    assert "deadlock" in text
    assert f"rank 0 waits in all_reduce of 4 float32, sum ({lines[0]}) for rank 1" in text
    assert f"rank 2 waits in all_reduce of 4 float32, sum ({lines[2]}) for rank 1" in text
    assert "rank 1 has ended" in text


def test_collectives_in_different_order():
    lines = {}

    def program(rank, device):
        x, y = torch.ones(4, device=device), torch.ones(8, device=device)
        if rank == 0:
            lines[0] = line(1)
            dist.all_reduce(x)
            dist.all_gather_into_tensor(y, x)
        else:
            lines[1] = line(1)
            dist.all_gather_into_tensor(y, x)
            dist.all_reduce(x)

    text = failing(program)
    assert f"rank 1 calls all_gather of 4 float32 ({lines[1]})" in text
    assert "has made the call" not in text, "nobody has skipped it: rank 1 calls it next"
    assert f"rank 0 called all_reduce of 4 float32, sum ({lines[0]})" in text


@pytest.mark.parametrize("change", ["size", "dtype", "operation", "root"])
def test_mismatched_calls(change):
    def program(rank, device):
        odd = rank == 1
        x = torch.ones(
            5 if odd and change == "size" else 4,
            device=device,
            dtype=torch.float16 if odd and change == "dtype" else torch.float32,
        )
        op = dist.ReduceOp.MAX if odd and change == "operation" else dist.ReduceOp.SUM
        dist.all_reduce(x, op=op)
        dist.broadcast(x, src=1 if odd and change == "root" else 0)

    text = failing(program)
    expected = {
        "size": ("5 float32", "4 float32"), "dtype": ("4 float16", "4 float32"),
        "operation": ("max", "sum"), "root": ("from rank 1", "from rank 0"),
    }[change]  # fmt: skip
    assert all(part in text for part in expected)


def save_module(x):
    module = torch.nn.Linear(2, 2, device=x.device)
    module.weight.data = x.view(2, 2)
    torch.save(module.state_dict(), io.BytesIO())


@pytest.mark.parametrize(
    "touch",
    [
        lambda x: x.cpu(), lambda x: x + 1, lambda x: x[1:].sum(), lambda x: x.tolist(),
        lambda x: x.numpy(force=True), lambda x: torch.save({"x": x}, io.BytesIO()),
        lambda x: pickle.dumps(torch.nn.Parameter(x)), lambda x: pickle.dumps(x[3:]),
        copy.deepcopy, save_module, lambda x: dist.all_gather_object([None] * 2, x),
    ],
)  # fmt: skip
def test_a_result_is_read_before_wait(touch):
    lines = {}

    def program(rank, device):
        x = torch.ones(4, device=device)
        lines["call"] = line(1)
        work = dist.all_reduce(x, async_op=True)
        if rank == 1:
            touch(x)
        work.wait()

    text = failing(program)
    assert "rank 1: '" in text
    assert f"reads the result of all_reduce of 4 float32, sum ({lines['call']})" in text


def test_a_buffer_is_changed_before_wait():
    lines = {}

    def program(rank, device):
        x, whole = torch.ones(4, device=device), torch.empty(8, device=device)
        work = dist.all_gather_into_tensor(whole, x, async_op=True)
        x.sum()  # reading it is no mistake
        lines["change"] = line(1)
        x.zero_()
        work.wait()

    text = failing(program)
    assert f"'zero' ({lines['change']}) changes a tensor that is still read by all_gather" in text


def test_two_groups_use_one_buffer_at_once():
    lines = {}

    def program(rank, device):
        x, group = torch.ones(4, device=device), dist.new_group([0, 1])
        lines["first"] = line(1)
        dist.all_reduce(x, async_op=True)
        dist.all_reduce(x, async_op=True)  # in the stream of the first, so after it
        lines["other"] = line(1)
        dist.all_reduce(x, group=group, async_op=True)

    text = failing(program)
    call = "all_reduce of 4 float32, sum"
    assert f"{call} ({lines['other']}) reads the result of {call} ({lines['first']})" in text


def test_other_parts_and_uses_after_a_wait_are_allowed():
    def program(rank):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        x = torch.ones(2, 4, device=device)
        works = [dist.all_reduce(row, async_op=True) for row in x[:1]]
        x[1] += 1
        x.view(-1)
        copy.copy(x).data_ptr()  # no values are read: the copy has the same memory
        works[0].wait()
        tensors = [torch.ones(2, device=device) for _ in range(3)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        works[-1].wait()  # the others are before it in its stream
        again = dist.all_reduce(tensors[0], async_op=True)
        while not again.is_completed():
            pass
        dropped = torch.ones(2, device=device)
        dist.all_reduce(dropped, async_op=True)
        sim.synchronize()
        return x.tolist(), [t.tolist() for t in tensors], dropped.tolist()

    out = sim.spawn(program, nprocs=2, gpu="a100", link="nvlink3")
    assert (
        out[0]
        == out[1]
        == ([[2.0] * 4] * 1 + [[2.0] * 4], [[4.0] * 2] + [[2.0] * 2] * 2, [2.0] * 2)
    )


def test_a_message_that_is_never_received():
    lines = {}

    def program(rank, device):
        if rank == 0:
            lines["send"] = line(1)
            dist.isend(torch.ones(2, device=device), 1)

    text = failing(program)
    call = f"rank 0 waits in send to rank 1 ({lines['send']}), their first message"
    assert f"{call}, for rank 1\n  rank 1 has ended" in text
    assert "batch_isend_irecv" not in text, "no message crosses another"


def test_a_second_message_that_is_never_received():
    lines = {}

    def program(rank, device):
        x = torch.ones(2, device=device)
        if rank == 0:
            dist.send(x, 1)
            lines["send"] = line(1)
            dist.isend(x, 1)
        else:
            dist.recv(x, 0)

    text = failing(program)
    call = f"rank 0 called send to rank 1 ({lines['send']})"
    assert f"{call}, but rank 1 never made the matching call" in text
    assert ", at " not in text, "it is found after all ranks have ended"


def test_two_ranks_that_both_receive_first_deadlock():
    def program(rank, device):
        x = torch.ones(2, device=device)
        dist.recv(x, 1 - rank)
        dist.send(x, 1 - rank)

    text = failing(program)
    assert "rank 0 waits in recv from rank 1" in text
    assert "rank 1 waits in recv from rank 0" in text


def test_a_message_of_another_size():
    def program(rank, device):
        if rank == 0:
            dist.send(torch.ones(2, device=device), 1)
        else:
            dist.recv(torch.ones(3, device=device), 0)

    text = failing(program)
    assert "a message of 2 float32 (test_rank_mistakes.py:" in text
    assert "a message of 3 float32 (test_rank_mistakes.py:" in text


@pytest.mark.parametrize("k", [1, 3])
def test_an_error_in_one_rank_ends_the_others(k):
    lines, ended = {}, []

    def program(rank, device):
        try:
            if rank == k - 1:
                lines["error"] = line(1)
                raise KeyError("no such thing")
            lines["wait"] = line(1)
            dist.all_reduce(torch.ones(2, device=device))
        finally:
            ended.append(rank)

    text = failing(program, k, KeyError)
    assert "no such thing" in text
    assert f"on rank {k - 1}, at {lines['error']}" in text
    if k > 1:
        assert f"rank 0 waits in all_reduce of 2 float32, sum ({lines['wait']})" in text
    assert sorted(ended) == list(range(k))


@pytest.mark.slow
def test_memory_runs_out_on_one_rank():
    def program(rank, device):
        if rank == 1:
            torch.empty(2**40, device=device)
        dist.barrier()

    text = failing(program, error=torch.OutOfMemoryError)
    assert "GPU 1" in text
    assert "rank 0 waits in barrier" in text


@pytest.mark.slow
def test_reference_cycles_are_collected_when_memory_runs_out():
    def program(rank):
        for _ in range(3):
            cycle = [torch.empty(3 * 2**30, device="sim")]  # 12 of 16 GiB
            cycle.append(cycle)
            del cycle
        return torch.accelerator.max_memory_allocated()

    assert gc.isenabled()
    assert sim.spawn(program, gpu="v100", numerics=False) == [12 * 2**30]
    assert gc.isenabled()


def test_other_backends_are_refused_by_name():
    def program(rank):
        dist.init_process_group("nccl")

    with pytest.raises(ValueError, match=r"'nccl'.*leave the backend out"):
        sim.spawn(program, nprocs=2)


@pytest.mark.slow
def test_what_is_not_supported_is_refused_by_name():
    def program(rank, what):
        dist.init_process_group()
        device = torch.accelerator.current_accelerator()
        model = torch.nn.Linear(2, 2).to(device)
        if what == "compile":
            torch.compile(model)
        else:
            torch.distributed.rpc.init_rpc(f"worker {rank}", rank=rank, world_size=2)

    for what in ("compile", "init_rpc"):
        with pytest.raises(NotImplementedError, match=what):
            sim.spawn(program, (what,), nprocs=2)
    assert callable(torch.compile(lambda x: x))  # unchanged outside ranks


@pytest.mark.parametrize("call", [lambda: sim.spawn(print), sim.reset, lambda: sim.configure(2)])
def test_a_rank_cannot_change_the_machine(call):
    with pytest.raises(RuntimeError, match=r"is not allowed in a rank of sim.spawn\(\)"):
        sim.spawn(lambda rank: call(), nprocs=1)


def test_a_run_after_a_failed_one_works():
    def program(rank):
        dist.init_process_group()
        x = torch.ones(1, device=torch.accelerator.current_accelerator())
        dist.all_reduce(x)
        return x.item()

    failing(lambda rank, device: dist.barrier() if rank else None)
    assert sim.spawn(program, nprocs=3) == [3.0] * 3


def test_ranks_have_ended_when_ctrl_c_returns():
    def program(rank):
        dist.init_process_group()
        x = torch.ones(4, device=torch.accelerator.current_accelerator())
        while True:
            dist.all_reduce(x)
            if rank == 1:
                _thread.interrupt_main()

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        sim.spawn(program, nprocs=3)
    assert threading.active_count() == before
    assert not dist.is_initialized()


@pytest.mark.slow
def test_a_rank_has_skipped_a_step_long_before():
    lines = {}

    def program(rank, device, last):
        for i in range(16):
            if rank == 1 and i == 7:
                continue
            lines["step"] = line(1)
            dist.all_reduce(torch.ones(4, device=device))
        if last:
            dist.all_reduce(torch.ones(2, device=device))

    text = failing(lambda rank, device: program(rank, device, last=True))
    assert f"rank 0 called all_reduce of 4 float32, sum ({lines['step']})" in text
    counts = f"rank 0 has made the call at {lines['step']} 16 times, rank 1 15 times"
    assert counts in text
    text = failing(lambda rank, device: program(rank, device, last=False))
    assert "deadlock" in text
    assert counts in text


def test_counts_are_not_compared_where_ranks_differ_by_right():
    def program(rank, device):
        mesh = init_device_mesh(device.type, (2, 2), mesh_dim_names=("a", "b"))
        x = torch.ones(4, device=device)
        for name in ("a", "b", "b")[: 3 - rank % 2]:
            if name == "a" or rank < 2:
                dist.all_reduce(x, group=mesh.get_group(name))

    text = failing(program, 4)
    assert "rank 0 waits in all_reduce of 4 float32, sum" in text
    assert "has made the call" in text, "in its group, rank 1 has made one call less"
    assert "rank 2 has made" not in text


def test_many_ranks_that_do_the_same_share_a_line():
    lines = {}

    def program(rank, device):
        if rank == 6:
            raise KeyError("no such thing")
        if rank == 1:
            dist.recv(torch.ones(2, device=device), 7)
        lines["wait"] = line(1)
        dist.all_reduce(torch.ones(2, device=device))

    text = failing(program, 8, KeyError)
    wait = f"all_reduce of 2 float32, sum ({lines['wait']}) for ranks 1, 6, 7"
    assert f"meanwhile ranks 0, 2-5 wait in {wait}; rank 1 waits in recv from rank 7 " in text
    assert text.endswith("; rank 7 is ready")


@pytest.mark.parametrize("nprocs", ["2", 2.0, 0])
def test_a_number_of_ranks_that_is_none(nprocs):
    with pytest.raises(ValueError, match=rf"nprocs={nprocs!r}\): give a positive int"):
        sim.spawn(print, nprocs=nprocs)


@pytest.mark.parametrize(
    ("k", "groups"),
    [
        (3, [[0, 1], [0, 2], [0, 1]]),  # other members on one rank
        (4, [[0, 1], [0, 1], [2, 3], [2, 3]]),  # each rank makes its own group only
        (2, [None, [0]]),
    ],
)
def test_groups_that_ranks_make_differently(k, groups):
    # PyTorch's documentation asks for the same order; what NCCL does otherwise was not tried.
    lines = {}

    def program(rank, device):
        lines[rank] = line(1)
        dist.new_group(groups[rank])

    text = failing(program, k)
    other = next(i for i, group in enumerate(groups) if group != groups[0])
    assert f"rank {other} makes a group of the ranks {groups[other]} ({lines[other]})" in text
    assert f"rank 0 made one of {groups[0] or list(range(k))} ({lines[0]})" in text


def test_groups_that_only_their_members_make():
    def program(rank):
        dist.init_process_group()
        own = [0, 1] if rank < 2 else [2, 3]
        group = dist.new_group(own, use_local_synchronization=True)
        x = torch.ones(1, device=torch.accelerator.current_accelerator()) * 10**rank
        dist.all_reduce(x, group=group)
        return x.item()

    assert sim.spawn(program, nprocs=4) == [11.0, 11.0, 1100.0, 1100.0]


@pytest.mark.slow
def test_memory_runs_out_on_a_rank_that_was_asked_for():
    def program(rank):
        torch.empty(2**40, device="sim")

    with pytest.raises(torch.OutOfMemoryError) as caught:
        sim.spawn(program, nprocs=8, numerics=False, ranks=[0])
    assert "on rank 0" in "\n".join(caught.value.__notes__)


@pytest.mark.parametrize("device_id", [False, True])
@pytest.mark.parametrize("kind", ["sim", "cpu"])
def test_a_message_in_a_batch_and_one_outside(device_id, kind):
    """Without device_id, NCCL sends the one by the group's communicator, the other by one of two.

    So neither arrives. With it, there is one communicator; and gloo knows no batches.
    """

    def program(rank):
        device = torch.device("sim", rank) if device_id else None
        dist.init_process_group(device_id=device)
        x = torch.full((2,), float(rank), device=kind)
        if rank == 0:
            for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, 1)]):
                work.wait()
        else:
            dist.recv(x, 0)
        return x.tolist()

    if device_id or kind == "cpu":
        assert sim.spawn(program, nprocs=2) == [[0, 0], [0, 0]]
        return
    with pytest.raises(sim.RanksError, match=r"rank 1 waits in recv from rank 0 "):
        sim.spawn(program, nprocs=2)


def test_an_error_ends_the_job_even_if_the_other_ranks_cannot_be_described(monkeypatch):
    """Else the job would hang: nobody would stop the other ranks."""

    def fail(lines):
        raise KeyError("no status")

    monkeypatch.setattr(describe_ranks, "lines", fail)

    def program(rank, device):
        if rank == 1:
            raise ZeroDivisionError("of the program")
        dist.all_reduce(torch.ones(4, device=device))

    assert "of the program" in failing(program, error=ZeroDivisionError)
