"""NCCL by its names, the current device of a rank, and what would share GPU 0."""

import pytest

FORGOTTEN = (
    "import os, torch, torch.distributed as dist\n"
    "dist.init_process_group('nccl')\n"
    "{}\n"
    "x = {}\n"
    "dist.all_reduce(x)\n"
    "print('sum', x.tolist())\n"
)
WHERE = [
    "torch.ones(1).cuda()",
    "torch.ones(1).cuda(); dist.device_mesh.init_device_mesh('cuda', (2,))",  # too late
    "torch.ones(1).to('cuda')",
    "torch.ones(1, device='cuda')",
    "torch.ones(1, device=torch.device('cuda'))",
    "torch.nn.Linear(1, 1).cuda().weight.detach()",
    "torch.nn.Linear(1, 1, device='cuda').weight.detach()",
]


@pytest.mark.parametrize("make", WHERE)
def test_a_forgotten_set_device_is_refused(simgpu_run, make):
    code, _, err = simgpu_run(FORGOTTEN.format("", make), "--nproc-per-node", "2")
    assert code == 1
    assert "rank 1 puts a tensor on 'cuda' (train.py:4) and communicates (train.py:5)" in err
    assert "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))" in err
    assert "failed on rank 1" in err


LOCAL = "int(os.environ['LOCAL_RANK'])"
NAMED = "'cuda:' + os.environ['LOCAL_RANK']"
MESH = "dist.device_mesh.init_device_mesh('cuda', (2,))"
BOUND = {
    "set_device": f"torch.cuda.set_device({LOCAL})",
    "by name": f"torch.cuda.set_device({NAMED})",
    "accelerator": f"torch.accelerator.set_device_index({LOCAL})",
    "a mesh": MESH,
    "a mesh before": f"{MESH}\ntorch.cuda.set_device({LOCAL})",
}


@pytest.mark.parametrize("bind", BOUND)
def test_what_sets_the_device_is_legal(simgpu_run, bind):
    source = FORGOTTEN.format(BOUND[bind], "torch.ones(1).cuda()")
    code, out, err = simgpu_run(source, "--nproc-per-node", "2")
    assert (code, out.count("sum [2.0]")) == (0, 2), err


def test_the_current_device_is_0_until_it_is_set(simgpu_run):
    number = "print('now', torch.cuda.current_device()); "
    source = FORGOTTEN.format(number, "torch.ones(1, device=torch.cuda.current_device())")
    code, out, err = simgpu_run(source, "--nproc-per-node", "2")
    assert (code, out.count("now 0"), "Duplicate GPU detected" in err) == (1, 2, True)
    chosen = source.replace("print", f"torch.cuda.set_device({LOCAL}); print")
    code, out, err = simgpu_run(chosen, "--nproc-per-node", "2")
    assert (code, out.count("now 0"), out.count("now 1"), out.count("sum [2.0]")) == (0, 1, 1, 2)


def test_what_needs_no_set_device_is_legal(simgpu_run):
    numbered = FORGOTTEN.format("", f"torch.ones(1, device={NAMED})")
    inside = FORGOTTEN.format(f"block = torch.cuda.device({LOCAL})", "torch.ones(1)")
    inside = inside.replace("dist.all_reduce(x)", "with block: x = x.cuda(); dist.all_reduce(x)")
    one = FORGOTTEN.format("", "torch.ones(1).cuda()")
    for source, options in ((numbered, 2), (inside, 2), (one, 1)):
        code, out, err = simgpu_run(source, "--nproc-per-node", str(options))
        assert (code, out.count(f"sum [{float(options)}]")) == (0, options), err


def test_a_device_is_also_what_torch_cuda_device_makes(simgpu_run):
    made = f"torch.cuda.device({LOCAL})"
    check = f"print('on', x.device, torch.cuda.memory_allocated({made}) > 0)\n"
    source = FORGOTTEN.format(f"torch.cuda.set_device({made})", "torch.ones(1).cuda()") + check
    code, out, err = simgpu_run(source, "--nproc-per-node", "2")
    assert code == 0, err
    assert "on cuda:0 True\n" in out
    assert "on cuda:1 True\n" in out


def test_each_rank_may_see_its_own_gpu_alone(simgpu_run):
    visible = "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = os.environ['LOCAL_RANK']\n"
    check = "assert (torch.cuda.device_count(), torch.cuda.current_device()) == (1, 0)\n"
    source = visible + FORGOTTEN.format("", "torch.ones(1).cuda()") + "print(x.device)\n" + check
    numbered = source.replace("torch.ones(1).cuda()", "torch.ones(1, device='cuda:0')")
    chosen = source.replace("x =", "torch.cuda.set_device(0); x =")
    for one in (source, numbered, chosen):
        code, out, err = simgpu_run(one, "--nproc-per-node", "2")
        assert (code, out.count("sum [2.0]"), out.count("cuda:0\n")) == (0, 2, 2), err


def test_a_device_id_does_not_set_the_current_device(simgpu_run):
    """It does not on real GPUs either: `init_process_group` only binds the group to it."""
    bound = f"'nccl', device_id=torch.device('cuda', {LOCAL})"
    source = FORGOTTEN.format("", "torch.ones(1).cuda()").replace("'nccl'", bound)
    code, _, err = simgpu_run(source, "--nproc-per-node", "2")
    assert (code, "has never called torch.cuda.set_device" in err) == (1, True)


GROUPS = """
import os, torch, torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
assert dist.is_nccl_available()
options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
dist.init_process_group("nccl", pg_options=options,
                        device_id=torch.device("cuda", torch.cuda.current_device()))
assert dist.get_backend() == "nccl" == dist.Backend.NCCL
def attempt(tensor, group=None):
    try:
        dist.all_reduce(tensor, group=group)
        return tensor.tolist()
    except RuntimeError as error:
        return str(error).partition(": ")[0]
gloo = dist.new_group(backend="gloo")
both = dist.new_group(backend="cpu:gloo,cuda:nccl")
assert dist.get_backend(gloo) == "gloo"
assert attempt(torch.ones(1).cuda()) == [2]
assert attempt(torch.ones(1)) == "No backend type associated with device type cpu"
assert attempt(torch.ones(1), gloo) == [2]
dist.monitored_barrier(gloo)
assert "with a tensor on a GPU in a group of gloo" in attempt(torch.ones(1).cuda(), gloo)
assert attempt(torch.ones(1), both) == attempt(torch.ones(1).cuda(), both) == [2]
found = [None, None]
for group in (None, gloo, both):
    dist.all_gather_object(found, dist.get_rank(), group=group)
    assert found == [0, 1]
    dist.barrier(group=group)
dist.barrier(device_ids=[torch.cuda.current_device()])
dist.destroy_process_group()
dist.init_process_group()
assert dist.get_backend() == "nccl"
print("done")
"""


@pytest.mark.parametrize("device", [LOCAL, f"torch.device({LOCAL})", f"torch.device({NAMED})"])
def test_a_device_id_may_be_a_number_or_a_device(simgpu_run, device):
    source = (
        "import os, torch, torch.distributed as dist\n"
        f"dist.init_process_group('nccl', device_id={device})\n"
        f"torch.cuda.set_device({device})\nx = torch.ones(1, device={device})\n"
        "dist.all_reduce(x)\nprint('sum', x.tolist(), x.device)\n"
    )
    code, out, err = simgpu_run(source, "--nproc-per-node", "2")
    assert code == 0, err
    assert out.splitlines()[:2] == ["sum [2.0] cuda:0", "sum [2.0] cuda:1"]


SPLIT = """
import os, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("dp", "tp"))
def total(group):
    x = torch.tensor([float(rank)], device="cuda")
    dist.all_reduce(x, group=group)
    return x.item()
pair = dist.split_group(split_ranks=[[0, 3], [1]])
assert (pair is None) == (rank == 2)
inner = dist.split_group(mesh.get_group("dp"), [[0, 1]])
print(rank, *(total(mesh.get_group(name)) for name in ("dp", "tp")), pair and total(pair),
      total(inner), dist.get_process_group_ranks(inner))
"""


def test_a_group_with_a_device_id_can_be_split(simgpu_run):
    """PyTorch splits it for the dimensions of a mesh; ranks are counted in the parent."""
    code, out, err = simgpu_run(SPLIT, "--nproc-per-node", "4")
    assert code == 0, err
    assert sorted(out.splitlines()[:4]) == [
        "0 2.0 1.0 3.0 2.0 [0, 2]", "1 4.0 1.0 1.0 4.0 [1, 3]",
        "2 2.0 5.0 None 2.0 [0, 2]", "3 4.0 5.0 3.0 4.0 [1, 3]",
    ]  # fmt: skip


def test_each_rank_may_set_how_it_starts_processes(simgpu_run):
    source = (
        "import multiprocessing, os, torch\nrank = int(os.environ['RANK'])\n"
        "print(rank, multiprocessing.get_start_method(allow_none=True))\n"
        "torch.multiprocessing.set_start_method(['spawn', 'forkserver'][rank])\n"
        "torch.cuda.set_device(rank)\ntorch.distributed.init_process_group('nccl')\n"
        "torch.distributed.barrier()\nprint(rank, multiprocessing.get_start_method())\n"
    )
    code, out, err = simgpu_run(source, "--nproc-per-node", "2")
    assert code == 0, err
    assert sorted(out.splitlines()[:4]) == ["0 None", "0 spawn", "1 None", "1 forkserver"]


def test_groups_take_the_tensors_of_their_backend(simgpu_run):
    code, out, err = simgpu_run(GROUPS, "--nproc-per-node", "2")
    assert (code, out.count("done\n")) == (0, 2), err
    assert "Warning" not in err


@pytest.mark.parametrize("bound", [True, False])
def test_a_device_id_mutes_the_warning_of_barriers(simgpu_run, bound):
    source = (
        "import os, torch, torch.distributed as dist\n"
        f"torch.cuda.set_device({LOCAL})\n"
        f"device = torch.device('cuda', {LOCAL}) if {bound} else None\n"
        "dist.init_process_group('nccl', device_id=device)\n"
        "sub = dist.new_group([0])\n"
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as found:\n"
        "    warnings.simplefilter('always')\n"
        "    dist.barrier()\n"
        "    dist.barrier(dist.new_group())\n"
        "print(['barrier()' in str(one.message) for one in found])\n"
    )
    code, out, err = simgpu_run(source, "--nproc-per-node", "2")
    assert code == 0, err
    assert ("[True" in out) == (not bound)


def test_another_backend_is_refused(simgpu_run):
    code, _, err = simgpu_run("import torch\ntorch.distributed.init_process_group('mpi')\n")
    assert code == 1
    assert "simgpu run: train.py:2: init_process_group(backend='mpi')" in err


GRAPH = """
import torch, simgpu
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, capturable=True)
static = torch.zeros(4, 8, device="cuda")
def step():
    loss = model(static).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss
def train(run):
    for i in range(4):
        static.copy_(torch.randn(4, 8, generator=torch.Generator().manual_seed(i)))
        torch.cuda.synchronize()
        start = simgpu.now()
        loss = run()
        launched = simgpu.now() - start
        torch.cuda.synchronize()
        print("loss", loss.item())
    print("host", launched)
for _ in range(2):
    step()
"""
CAPTURE = """
before = [p.detach().clone() for p in model.parameters()]
graph = torch.cuda.CUDAGraph()
optimizer.zero_grad()
with torch.cuda.graph(graph):
    assert torch.cuda.is_current_stream_capturing()
    loss = step()
assert not torch.cuda.is_current_stream_capturing()
assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
def replay():
    graph.replay()
    return loss
train(replay)
"""


def test_a_replayed_graph_trains_as_eager_with_one_launch(simgpu_run):
    code, eager, err = simgpu_run(GRAPH + "train(step)\n")
    assert code == 0, err
    code, replayed, err = simgpu_run(GRAPH + CAPTURE)
    assert code == 0, err
    assert replayed.splitlines()[:4] == eager.splitlines()[:4]
    host = [float(out.splitlines()[4].split()[1]) for out in (eager, replayed)]
    assert host[1] == pytest.approx(5e-6)
    assert host[0] > 20 * host[1]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("model(static).sum().item()", "it waits for the GPU"),
        ("model(static).cpu()", "copy after the replay"),
        ("torch.distributed.all_reduce(static)", "capture the computation alone"),
    ],
)
def test_what_a_graph_cannot_capture_is_refused(simgpu_run, line, why):
    start = "import torch\ntorch.distributed.init_process_group('nccl')\n"
    source = f"with torch.cuda.graph(torch.cuda.CUDAGraph()):\n    {line}\n"
    code, _, err = simgpu_run(start + GRAPH + source)
    assert code == 1
    assert why in err
