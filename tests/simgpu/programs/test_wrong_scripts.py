"""Mistakes that users make in their first scripts for several GPUs: each is named, by its line."""

import pytest

START = """import os, torch, torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
dist.init_process_group("nccl")
folder = os.environ["FOLDER"]
x = torch.ones(5, device="cuda")
model = torch.nn.Linear(64, 64).cuda()
"""
PINNED = """buffer = torch.empty(1000, 1000).pin_memory()
for i in range(2):
    buffer.fill_(float(i))
    {wait}
    x = buffer.to("cuda", non_blocking=True)
    {after}
print("sum", x.sum().item())
"""
SHARDED = """fully_shard(model)
model(torch.ones(1, 64, device="cuda")).sum().backward()
if dist.get_rank() == 0{or_all}:
    {save}
"""
LOAD = """if local == 0:
    torch.save(model.state_dict(), folder + "/model.pt")
dist.barrier()
model.load_state_dict(torch.load(folder + "/model.pt"{where}))
print(torch.cuda.get_device_name(0), torch.cuda.memory_allocated(0) > 0)
"""
STEPS = """model = DistributedDataParallel(model)
for part in torch.ones(33, 64)[local::2].split(4)[{drop}:]:
    model(part.cuda()).sum().backward()
dist.barrier()
"""
DCP = "dcp.save(model.state_dict(), checkpoint_id=folder)"
SAVE = "torch.save(model.state_dict(), folder + '/shard.pt')"
# name: (the script after START, whether it fails, what it is told)
MISTAKES = {
    "no wait": ("dist.all_reduce(x, async_op=True)\ny = x / 2", True,
                "'div' (train.py:12) reads the result of all_reduce"),
    "sizes": ("dist.all_reduce(torch.ones(5 + local).cuda())", True,
              "all_reduce of 6 float32, sum (train.py:11) where rank 0 called all_reduce of 5"),
    "steps": (STEPS.format(drop=0), True,
              "rank 0 has made the call at train.py:13 7 times, rank 1 6 times"),
    "pinned": (PINNED.format(wait="pass", after="pass"), True,
               "race: the host has overwritten pinned memory that a non-blocking copy to cuda:"),
    "pinned, at the end": (
        PINNED.format(wait="pass", after="buffer.numpy()[:] = 7"), True, "(train.py:15) may still"),
    "dcp on one rank": (SHARDED.format(or_all="", save=DCP), True, "deadlock: no rank can go on"),
    "torch.save on one rank": (SHARDED.format(or_all="", save=SAVE), False, ""),
    "map_location": (LOAD.format(where=", map_location='cuda:0'"), False,
                     "rank 1 puts a tensor on cuda:0 (train.py:14), the GPU of another rank"),
    "no map_location": (LOAD.format(where=""), False,
                        "rank 1 puts a tensor on cuda:0 (train.py:14), the GPU of another rank"),
}  # fmt: skip
RIGHT = {
    "wait": "dist.all_reduce(x, async_op=True).wait()\ny = x / 2",
    "steps": STEPS.format(drop="1 - local"),
    "pinned": PINNED.format(wait="torch.cuda.synchronize()", after="pass").replace(
        "buffer.fill_(float(i))\n    torch.cuda.synchronize()",
        "torch.cuda.synchronize()\n    buffer.fill_(float(i))",
    ),
    "pinned, an event": PINNED.format(
        wait="pass", after="event = torch.cuda.Event(); event.record(); event.synchronize()"
    ),
    "pinned, in parts": "b = torch.ones(2, 9).pin_memory()\n"
    "y = b[0].to('cuda', non_blocking=True)\nb[1] = 3\nz = b[1].to('cuda', non_blocking=True)\n"
    "assert y.sum().item() == 9 and z.sum().item() == 27",
    "pinned, blocking": PINNED.format(wait="pass", after="pass").replace(", non_blocking=True", ""),
    "dcp": SHARDED.format(or_all=" or True", save=DCP),
    "shards": SHARDED.format(or_all=" or True", save=SAVE.replace("shard", "{local}").replace(
        "'/", "f'/")),
    "map_location": LOAD.format(where=", map_location=f'cuda:{local}'"),
    "on the host": LOAD.format(where=", map_location='cpu'"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.filterwarnings("ignore")
def test_a_mistake_is_named(name, simgpu_run, tmp_path, monkeypatch):
    monkeypatch.setenv("FOLDER", str(tmp_path))
    source, fails, text = MISTAKES[name]
    code, _, err = simgpu_run(START + source + "\n", "--nproc-per-node", "2")
    assert code == fails, err
    assert text in err


def test_shards_that_one_rank_saves_are_named_by_a_warning(simgpu_run, tmp_path, monkeypatch):
    monkeypatch.setenv("FOLDER", str(tmp_path))
    with pytest.warns(RuntimeWarning, match=r"rank 0 has saved sharded tensors \(train.py:14\)"):
        simgpu_run(START + SHARDED.format(or_all="", save=SAVE), "--nproc-per-node", "2")


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.filterwarnings("error:rank 0 has saved")
def test_the_right_way_is_accepted(name, simgpu_run, tmp_path, monkeypatch):
    monkeypatch.setenv("FOLDER", str(tmp_path))
    code, _, err = simgpu_run(START + RIGHT[name] + "\n", "--nproc-per-node", "2")
    assert code == 0, err
    assert "another rank" not in err


def test_a_forgotten_set_device_without_communication_of_tensors_on_gpus(simgpu_run):
    source = (
        "import torch, torch.distributed as dist\ndist.init_process_group('gloo')\n"
        "x = torch.ones(3, device='cuda').cpu()\ndist.all_reduce(x)\n"
    )
    code, _, err = simgpu_run(source, "--nproc-per-node", "2")
    assert code == 1
    assert "rank 1 puts a tensor on 'cuda' (train.py:3), but has never called" in err
