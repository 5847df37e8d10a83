"""Simulated GPUs wait for the script's data loader as real ones would."""

import itertools
import json
import threading

import pytest

import simgpu as sim
from simgpu.run.loader.stopwatch import Stopwatch
from simgpu.timeline import Timeline

BATCH = 0.02  # seconds that a batch takes


def test_another_word_is_refused(simgpu_run, capsys):
    with pytest.raises(SystemExit):
        simgpu_run("pass", "--loader", "fast")
    assert "--loader fast: give off, measured, or what each batch takes" in capsys.readouterr().err


TRAIN = """
import os, time, torch
from torch.utils.data import DataLoader, Dataset
device = torch.accelerator.current_accelerator()
rank = int(os.environ["RANK"])

class Data(Dataset):
    seconds = 0.0
    def __len__(self):
        return 10_000
    def __getitem__(self, i):
        time.sleep(self.seconds)
        return torch.tensor(i)

weight = torch.nn.Parameter(torch.zeros(1024, 1024, device=device))
optimizer = torch.optim.SGD([weight])

def train(loader, steps=9):
    for i, batch in zip(range(steps), loader):
        for _ in range(REPEAT):
            (weight @ weight).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
REPEAT = 1
"""
SHORT = f"{TRAIN}train(DataLoader(Data(), 1, num_workers=WORKERS))\n"
LONG = SHORT.replace("REPEAT = 1", "REPEAT = 60")


@pytest.fixture
def summary(simgpu_run):
    """Run a script on an A100 that keeps shapes only; return its summary."""

    def run(source, *options):
        options = "--gpu", "a100", "--shapes-only", "--summary", "json", *options
        code, out, err = simgpu_run(source, *options)
        assert code == 0, err
        return json.loads(out.splitlines()[-1])

    return run


@pytest.fixture
def takes(monkeypatch):
    """Let every batch take a given time, whatever the machine does."""

    def fix(seconds):
        monkeypatch.setattr(Stopwatch, "read", lambda watch: seconds)
        monkeypatch.setattr(Stopwatch, "computed", lambda watch: 0.0)

    return fix


@pytest.mark.process
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", [0, 1, 2, 4])
def test_a_step_takes_as_long_as_a_batch_if_that_is_longer(summary, takes, workers):
    source = SHORT.replace("WORKERS", str(workers))
    alone = summary(source, "--loader", "off")["step_time_seconds"]
    takes(BATCH)
    found = summary(source, "--loader", "measured")
    interval = BATCH / max(workers, 1)
    assert alone < interval / 4
    # After 8 more batches than in the first step, whatever the number of workers.
    expected = pytest.approx(interval, rel=0.01 if workers else 0.05)
    assert found["step_time_seconds"] == expected
    assert found["batch_seconds"] == pytest.approx(interval)
    assert found["loader_workers"] == workers
    assert found["limited_by"] == "input"
    assert found["time_shares"]["input"] == pytest.approx(1 - alone / interval, abs=0.05)


@pytest.mark.process
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("workers", [1, 2])
def test_gpus_that_are_slower_than_the_loader_do_not_wait(summary, takes, workers):
    source = LONG.replace("WORKERS", str(workers))
    alone = summary(source, "--loader", "off")
    takes(alone["step_time_seconds"] / 2)
    found = summary(source, "--loader", "measured")
    assert found["step_time_seconds"] == pytest.approx(alone["step_time_seconds"], rel=1e-3)
    assert found["time_shares"].get("input", 0.0) < 1e-3


def test_a_host_without_workers_makes_batches_while_the_gpu_computes(summary, takes):
    source = LONG.replace("WORKERS", "0")
    alone = summary(source, "--loader", "off")
    takes(alone["step_time_seconds"] / 2)
    found = summary(source, "--loader", "measured")
    assert found["step_time_seconds"] == pytest.approx(alone["step_time_seconds"], rel=1e-2)


@pytest.mark.process
@pytest.mark.parametrize("workers", [0, 2])
def test_really_sleeping_is_measured(summary, workers):
    source = SHORT.replace("WORKERS", str(workers)).replace("seconds = 0.0", "seconds = 0.02")
    found = summary(source, "--loader", "measured")
    share = max(workers, 1)
    assert BATCH <= found["batch_seconds"] * share < 3 * BATCH
    assert found["step_time_seconds"] > 0.9 * BATCH / share
    assert found["loader"] == "measured on this machine"


@pytest.mark.process
def test_nobody_gets_measured_times_without_asking(simgpu_run, summary):
    source = SHORT.replace("WORKERS", "2").replace("seconds = 0.0", "seconds = 0.02")
    off, usual = summary(source, "--loader", "off"), summary(source)
    assert usual == off
    assert usual["loader"] is None
    _, out, _ = simgpu_run(source, "--gpu", "a100", "--shapes-only")
    note = next(line for line in out.splitlines() if "real GPUs would wait" in line)
    assert "--loader measured lets these wait, too" in note
    assert "input" not in out
    _, out, _ = simgpu_run(source, "--gpu", "a100", "--shapes-only", "--loader", "off")
    assert "note: the loader" not in out


@pytest.mark.process
@pytest.mark.parametrize("workers", [0, 2])
def test_a_given_time_is_exact_and_has_no_workers(summary, workers):
    source = SHORT.replace("WORKERS", str(workers)).replace("seconds = 0.0", "seconds = 0.002")
    found, again = (summary(source, "--loader", "8ms") for _ in range(2))
    assert found == again
    assert found["step_time_seconds"] == pytest.approx(8e-3, rel=0.02)
    assert found["loader"] == "as given"


def test_the_lane_and_the_summary_say_where_the_times_are_from(simgpu_run, takes):
    takes(BATCH)
    source = SHORT.replace("WORKERS", "0")
    _, out, _ = simgpu_run(source, "--gpu", "a100", "--shapes-only", "--loader", "measured")
    row = next(line for line in out.splitlines() if line.startswith("input "))
    assert "% " in row
    assert row.endswith(
        "of the time the GPUs wait for your loader, which has no workers: a batch every 20 ms "
        "(measured on this machine)"
    )
    assert "mean of 8" in out
    lane = Timeline(sim.trace()).lanes()["rank 0 host", "loader"]
    assert len(lane) == 9
    assert {span.name for span in lane} == {"make a batch (measured on this machine)"}
    assert all(span.duration == pytest.approx(BATCH) for span in lane)


@pytest.mark.process
def test_each_worker_makes_one_batch_at_a_time(summary, takes):
    takes(BATCH)
    summary(SHORT.replace("WORKERS", "2"), "--loader", "measured")
    lane = Timeline(sim.trace()).lanes()["rank 0 host", "loader"]
    made = [span for span in lane if span.stream]
    assert {span.stream for span in made} == {1, 2}
    for stream in (1, 2):
        own = [span for span in made if span.stream == stream]
        for one, following in itertools.pairwise(own):
            assert following.start >= one.end - 1e-12


def test_the_others_wait_for_the_rank_with_a_slow_loader(summary, takes):
    takes(0.0)  # beside the sleep, which is simulated
    source = SHORT.replace("WORKERS", "0").replace("seconds = 0.0", "seconds = 0.02 * rank")
    source = source.replace("REPEAT = 1", "REPEAT = 1\nimport torch.distributed as dist").replace(
        "        optimizer.step()", "        dist.all_reduce(weight.grad)\n        optimizer.step()"
    )
    source = source.replace("rank = int", "torch.distributed.init_process_group()\nrank = int")
    found = summary(source, "--loader", "measured", "--nproc-per-node", "2")
    assert found["step_time_seconds"] > BATCH  # the sleep of rank 1, in simulated time
    assert 0.3 < found["time_shares"]["input"] < 0.5
    assert 0.3 < found["time_shares"]["waiting for others"] < 0.5
    late = found["waited_for"]
    assert (late["ranks"], late["cause"], late["each"]) == ([1], "input", "batch")
    assert (late["own_seconds"], late["others_seconds"]) == pytest.approx((BATCH, 0), abs=1e-9)


@pytest.mark.process
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_batches_that_were_made_ahead_are_named(simgpu_run, takes):
    takes(10 * BATCH)
    source = SHORT.replace("WORKERS", "4").replace("steps=9", "steps=4")
    _, out, _ = simgpu_run(source, "--gpu", "a100", "--shapes-only", "--loader", "measured")
    assert "these steps have used up batches that were made ahead" in out


def test_a_script_without_a_loader_says_so(simgpu_run):
    source = TRAIN + "train(range(9))\n"
    _, out, _ = simgpu_run(source, "--gpu", "a100", "--shapes-only", "--loader", "measured")
    assert "--loader measured: no rank has taken a batch from a torch.utils.data.DataLoader" in out


ALL_KINDS = f"""{TRAIN}
from torch.utils.data import IterableDataset, get_worker_info

class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        parts, own = (info.num_workers, info.id) if info else (1, 0)
        yield from (torch.tensor(i) for i in range(11) if i % parts == own)

class Few(Data):
    def __len__(self):
        return 13

class Nested(Few):
    def __getitem__(self, i):
        return next(iter(DataLoader(Few(), 1)))[0] + i

class Fails(Few):
    def __getitem__(self, i):
        raise KeyError("no such image")

loaders = [
    DataLoader(Few(), 3, num_workers=2, persistent_workers=True, pin_memory=True, shuffle=True),
    DataLoader(Stream(), 2, num_workers=2, persistent_workers=True),
    DataLoader(Few(), None, num_workers=1, prefetch_factor=1, collate_fn=lambda x: x.item()),
    DataLoader(Few(), 2, pin_memory=True, shuffle=True),
    DataLoader(Nested(), 2),
]
for epoch in range(2):
    for loader in loaders:
        print("got", [getattr(b, "tolist", lambda: b)() for b in loader])
    for number, batch in enumerate(loaders[0]):  # ends in the middle
        if number == 1:
            break
one, other = iter(loaders[0]), iter(loaders[3])  # both at once
print("got", *(len(x) for x in (next(one), next(other), next(one))))
print("got", next(other).is_pinned(), next(one).is_pinned())
for workers in (0, 1):
    try:
        next(iter(DataLoader(Fails(), 1, num_workers=workers)))
    except KeyError as error:
        print("got", "no such image" in str(error))
train(loaders[0], 2)
"""
SHARDED = f"""{TRAIN}
from torch.utils.data import DistributedSampler
torch.distributed.init_process_group()
Data.__len__ = lambda self: 13
sampler = DistributedSampler(Data())
loader = DataLoader(Data(), 3, num_workers=1, sampler=sampler)
for epoch in range(2):
    sampler.set_epoch(epoch)
    print("got", rank, [batch.tolist() for batch in loader])
train(loader, 2)
"""


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize(("source", "ranks", "lines"), [(ALL_KINDS, 1, 14), (SHARDED, 2, 4)])
def test_scripts_get_the_same_batches_as_without(simgpu_run, source, ranks, lines):
    printed = {}
    for choice in ("off", "measured"):
        options = "--gpu", "a100", "--nproc-per-node", str(ranks), "--loader", choice
        code, out, err = simgpu_run(source, *options)
        assert code == 0, err
        printed[choice] = [line for line in out.splitlines() if line.startswith("got")]
    assert len(printed["off"]) == lines
    assert printed["measured"] == printed["off"]


@pytest.mark.long
@pytest.mark.process
def test_workers_that_are_spawned_measure_too(simgpu_run, tmp_path):
    (tmp_path / "slow_data.py").write_text(
        "import time, torch\nclass Slow(torch.utils.data.Dataset):\n    def __len__(self):\n"
        "        return 100\n    def __getitem__(self, i):\n        time.sleep(0.02)\n"
        "        return torch.tensor(i)\n"
    )
    source = f"{TRAIN}from slow_data import Slow\nif __name__ == '__main__':\n    train(DataLoader("
    source += "Slow(), 1, num_workers=1, multiprocessing_context='spawn'))\n"
    options = "--gpu", "a100", "--shapes-only", "--loader", "measured", "--summary", "json"
    code, out, err = simgpu_run(source, *options)
    assert code == 0, err
    assert json.loads(out.splitlines()[-1])["batch_seconds"] >= BATCH


def test_a_loader_in_a_thread_of_the_script_counts_for_nothing(summary):
    source = TRAIN + (
        "import threading\nloader = DataLoader(Data(), 1)\n"
        "thread = threading.Thread(target=lambda: next(iter(loader)))\n"
        "thread.start()\nthread.join()\ntrain(range(9))\n"
    )
    before = threading.active_count()
    assert summary(source, "--loader", "measured")["loader"] is None
    assert threading.active_count() <= before  # those of tests before may end meanwhile
