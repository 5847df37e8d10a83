"""Scripts that start their ranks themselves: `torch.multiprocessing.spawn`, ``Process``."""

import json
import os
import re
import subprocess
import sys

import pytest

from simgpu.run.script import Script

HEAD = """
import argparse, os, sys, time
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP
"""
# As in PyTorch's tutorials on DDP, with a device that is a GPU or the CPU.
TRAIN = f"""{HEAD}
def setup(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = os.environ.get("PORT", "12355")
    dist.init_process_group("gloo" if "cpu" in sys.argv else None, rank=rank, world_size=world_size)

def main(rank, world_size, epochs):
    setup(rank, world_size)
    device = torch.device("cpu")
    if "cpu" not in sys.argv:
        torch.accelerator.set_device_index(rank)
        device = torch.device(torch.accelerator.current_accelerator().type, rank)
    torch.manual_seed(0)
    model = DDP(torch.nn.Linear(20, 5).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.arange(80.0).reshape(4, 20)[rank :: world_size] / 80
    for epoch in range(epochs):
        loss = model(data.to(device)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"rank {{rank}}: {{loss.item():.6f}}", flush=True)
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(main, args=(2, 4), nprocs=2)
"""
AS_TORCHRUN = TRAIN.partition("if __name__")[0] + 'main(int(os.environ["RANK"]), 2, 4)\n'
USE = "torch.ones(9, device=torch.accelerator.current_accelerator()) * 2"


@pytest.mark.long
@pytest.mark.process
def test_spawn_gives_the_losses_of_processes_on_gloo(simgpu_run, tmp_path):
    (tmp_path / "real.py").write_text(TRAIN)
    env = os.environ | {"PORT": "29731", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    if sys.platform == "darwin":
        env["GLOO_SOCKET_IFNAME"] = "lo0"
    command = [sys.executable, tmp_path / "real.py", "cpu"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    code, out, _ = simgpu_run(TRAIN)
    # Lines of two processes may be mixed.
    real, simulated = (re.findall(r"rank \d: \d\.\d{6}", text) for text in (done.stdout, out))
    assert code == 0
    assert len(simulated) == 8
    assert sorted(simulated) == sorted(real)


def test_spawned_ranks_take_as_long_as_those_of_torchrun(simgpu_run):
    def summary(*command):
        code, out, err = simgpu_run(*command, "--gpu", "h100", "--summary", "json")
        assert code == 0, err
        return json.loads(out.splitlines()[-1])

    spawned = summary(TRAIN)
    assert spawned == summary(AS_TORCHRUN, "--nproc-per-node", "2")
    assert spawned["hardware"] == "2 x h100 on nvlink4"
    assert spawned["steps"] == 3


def test_a_spawned_rank_runs_the_script_anew_with_its_own_arguments(simgpu_run):
    source = f"""{HEAD}
COUNT = 0

class Config:
    pass

def main(rank, args, config, everywhere):
    global COUNT
    COUNT += 1
    args.seen.append(rank)
    assert type(config) is Config and sys.modules["__mp_main__"].Config is Config
    assert not {{"RANK", "LOCAL_RANK", "WORLD_SIZE"}} & {{*os.environ}}
    assert os.environ["MASTER_PORT"] == "7"
    dist.init_process_group(init_method="tcp://localhost:7", rank=rank, world_size=2)
    {USE}
    everywhere[rank] = 1
    print(rank, COUNT, args.seen, __name__, sys.argv[1:])

if __name__ == "__main__":
    COUNT, args, everywhere = 7, argparse.Namespace(seen=[]), torch.zeros(2)
    os.environ["MASTER_PORT"] = "7"
    count = torch.accelerator.device_count()
    before = time.time()
    mp.spawn(main, (args, Config(), everywhere), nprocs=count)
    print(count, COUNT, args.seen, everywhere.tolist(), 1 > time.time() - before > 0)
"""
    code, out, _ = simgpu_run(source, "--gpus-per-node", "2", args=["x"])
    assert code == 0
    assert out.splitlines()[:3] == [
        "0 1 [0] __mp_main__ ['x']",
        "1 1 [1] __mp_main__ ['x']",
        "2 7 [] [1.0, 1.0] True",
    ]


def test_the_pattern_of_imagenet(simgpu_run):
    source = f"""{HEAD}
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--world-size", default=-1, type=int)
    parser.add_argument("--rank", default=-1, type=int)
    parser.add_argument("--dist-url", default="tcp://224.66.41.62:23456")
    parser.add_argument("--batch-size", default=256, type=int)
    args = parser.parse_args()
    gpus = torch.accelerator.device_count()
    args.world_size = gpus * args.world_size
    mp.spawn(main_worker, nprocs=gpus, args=(gpus, args))

def main_worker(gpu, gpus, args):
    args.gpu = gpu
    args.rank = args.rank * gpus + gpu
    dist.init_process_group(
        init_method=args.dist_url, world_size=args.world_size, rank=args.rank)
    args.batch_size = int(args.batch_size / gpus)
    print(args.rank, args.world_size, args.batch_size, dist.get_rank())
    {USE}

if __name__ == "__main__":
    main()
"""
    code, out, err = simgpu_run(source, args=["--world-size", "1", "--rank", "0"])
    assert code == 0, err
    assert out.splitlines()[:8] == [f"{rank} 8 32 {rank}" for rank in range(8)]


def test_in_the_spelling_of_cuda(simgpu_run):
    source = f"""{HEAD}
def main(rank, world_size):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "12355"
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    model = DDP(torch.nn.Linear(20, 1).to(rank), device_ids=[rank])
    model(torch.ones(4, 20).cuda()).sum().backward()
    print(rank, next(model.parameters()).device)

if __name__ == "__main__":
    world_size = torch.cuda.device_count()
    mp.spawn(main, args=(world_size,), nprocs=world_size)
"""
    code, out, err = simgpu_run(source, "--gpus-per-node", "2")
    assert code == 0, err
    assert out.splitlines()[:2] == ["0 cuda:0", "1 cuda:1"]


PROCESSES = f"""{HEAD}
def run(rank, size):
    x = torch.full((3,), float(rank), device=torch.accelerator.current_accelerator())
    dist.all_reduce(x)
    print(rank, x.tolist())

def init_process(rank, size, fn, queue):
    dist.init_process_group(rank=rank, world_size=size)
    fn(rank, size)
    queue.put(rank)

if __name__ == "__main__":
    context = mp.get_context(METHOD)
    queue = context.SimpleQueue()
    processes = []
    for rank in range(3):
        p = context.Process(target=init_process, args=(rank, 3), kwargs=dict(fn=run, queue=queue))
        p.start()
        processes.append(p)
    for p in processes:
        p.join()
    print([queue.get() for p in processes], [p.exitcode for p in processes])
"""


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_become_ranks(simgpu_run, method):
    code, out, err = simgpu_run(PROCESSES.replace("METHOD", repr(method)))
    assert code == 0, err
    sums = [f"{rank} [3.0, 3.0, 3.0]" for rank in range(3)]
    assert out.splitlines()[:4] == [*sums, "[0, 1, 2] [0, 0, 0]"]


@pytest.mark.parametrize(
    ("channel", "send", "receive"),
    [
        ("Queue()", "queue.put(rank)", "queue.get()"),
        ("Pipe()", "queue[0].send(rank)", "queue[1].recv()"),
        ("Event()", "queue.set()", "queue.wait() and 0"),
    ],
)
def test_what_processes_send_can_be_read_before_the_join(simgpu_run, channel, send, receive):
    """Python's documentation asks for it: a process does not end while its queue is full."""
    source = PROCESSES.replace("METHOD", "'spawn'").replace("SimpleQueue()", channel)
    source = source.replace("queue.put(rank)", send).replace(
        "    for p in processes:\n        p.join()\n",
        f"    print('first', {receive})\n    for p in processes:\n        p.join()\n",
    ).replace("queue.get() for", "0 for")  # fmt: skip
    code, out, err = simgpu_run(source)
    assert code == 0, err
    assert out.splitlines()[3:5] == ["first 0", "[0, 0, 0] [0, 0, 0]"]


@pytest.mark.process
def test_a_process_of_a_library_stays_one(simgpu_run):
    source = f"""{HEAD}
from torch.utils.data import DataLoader
def main(rank):
    {USE}
if __name__ == "__main__":
    loader = DataLoader(torch.arange(4.0), batch_size=2, num_workers=1)
    print([batch.tolist() for batch in loader])
    mp.spawn(main, nprocs=1)
"""
    code, out, _ = simgpu_run(source)
    assert (code, out.splitlines()[0]) == (0, "[[0.0, 1.0], [2.0, 3.0]]")


def test_what_is_spawned_without_join_has_run(simgpu_run):
    source = f"""{HEAD}
def main(rank, done):
    {USE}
    done[rank] = 1
if __name__ == "__main__":
    done = torch.zeros(2)
    context = mp.start_processes(main, (done,), nprocs=2, join=False, start_method="spawn")
    while not context.join():
        pass
    print(done.tolist())
"""
    code, out, _ = simgpu_run(source)
    assert (code, out.splitlines()[0]) == (0, "[1.0, 1.0]")


def in_main(*lines):
    body = "".join(f"    {line}\n" for line in lines)
    return f"{HEAD}def main(rank, *args): {USE}\nif __name__ == '__main__':\n{body}"


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (in_main("mp.spawn(main)"), ["--nproc-per-node", "2"], "train.py:9: mp.spawn in a rank"),
        (in_main("mp.spawn(main, nprocs=9)"), [], "train.py:9: mp.spawn(nprocs=9) starts more"),
        (in_main("mp.spawn(lambda rank: 0)"), [], "train.py:9: mp.spawn: a new process cannot get"),
        (in_main("mp.spawn(main, args=(sys,))"), [], "train.py:9: mp.spawn: a new process cannot"),
        (in_main("dist.init_process_group()", "mp.spawn"), ["--gpus-per-node", "1"],
         "train.py:9: init_process_group outside of the processes that this script starts"),
        (f"{HEAD}def main(rank): mp.spawn(main)\nif __name__ == '__main__': mp.spawn(main)\n", [],
         "train.py:7: mp.spawn(nprocs=1) in a rank: ranks cannot start ranks"),
        (in_main("mp.spawn", USE), ["--gpus-per-node", "1"], "train.py started no ranks"),
    ],
)  # fmt: skip
def test_what_cannot_be_mapped_is_refused_with_its_line(simgpu_run, source, options, message):
    code, _, err = simgpu_run(source, *options)
    assert code == 1
    assert message in err


@pytest.mark.parametrize("given", ["rank=1 - rank, world_size=2", "rank=rank, world_size=3"])
def test_a_rank_that_names_another_rank_is_refused(simgpu_run, given):
    source = TRAIN.replace("rank=rank, world_size=world_size", given)
    code, _, err = simgpu_run(source)
    assert code == 1
    assert "in rank 0 of 2: give the number of the process" in err


@pytest.mark.parametrize(
    ("option", "value"),
    [("--nnodes", "2"), ("--ranks", "0"), ("--kill", "0@step1"), ("--max-restarts", "1")],
)
def test_options_for_torchrun_alone_are_refused(simgpu_run, capsys, option, value):
    with pytest.raises(SystemExit, match="2"):
        simgpu_run(TRAIN, option, value, "--shapes-only")
    assert f"{option}" in (err := capsys.readouterr().err)
    assert "this script starts its ranks itself" in err


def test_an_error_in_a_spawned_rank_is_shown_with_its_rank(simgpu_run):
    source = f"""{HEAD}
def main(rank):
    if rank == 1:
        raise KeyError("wrong")
if __name__ == "__main__":
    mp.spawn(main, nprocs=2)
"""
    code, _, err = simgpu_run(source)
    assert code == 1
    assert "[rank1]: KeyError: 'wrong'" in err
    assert err.endswith("train.py failed on rank 1 (exit code 1)\n")


@pytest.mark.parametrize(
    ("source", "starts"),
    [
        ("import torch.multiprocessing as mp\nmp.spawn(f)", True),
        ("from torch.multiprocessing import spawn\nspawn(f)", True),
        ("from torch import multiprocessing\nmultiprocessing.start_processes(f)", True),
        ("import multiprocessing as mp\nmp.get_context('fork').Process(target=f)", True),
        ("import torch.multiprocessing as mp\nmp.set_sharing_strategy('file_system')", False),
        ("import subprocess\nsubprocess.spawn(f)", False),
        ("x = (", False),
    ],
)
def test_how_such_scripts_are_recognised(tmp_path, source, starts):
    (tmp_path / "train.py").write_text(source)
    assert Script(str(tmp_path / "train.py"), []).starts_ranks() is starts


def test_processes_that_nobody_joins_run_when_the_script_exits(simgpu_run):
    source = f"""{HEAD}
def main(rank):
    store = dist.TCPStore("localhost", 23456, 2, rank == 0)  # no MASTER_PORT is set
    dist.init_process_group(store=store, rank=rank, world_size=2)
    x = {USE}
    dist.all_reduce(x)
    print(rank, x[0].item())

if __name__ == "__main__":
    for rank in range(2):
        mp.Process(target=main, args=(rank,)).start()
    sys.exit(0)
"""
    code, out, err = simgpu_run(source, "--gpus-per-node", "2")
    assert code == 0, err
    assert {"0 4.0", "1 4.0"} <= {*out.splitlines()}
