"""Every name of `torch.cuda` works or is refused in words, and all are restored afterwards."""

import os
import subprocess
import sys

import pytest
import torch
from support.paths import PYTHONPATH
from support.torch_snapshot import STAYS

import simgpu as sim
from simgpu.device_api.table import FUNCTIONS
from simgpu.hardware import GPUS
from simgpu.hardware.device_properties import PROPERTIES, properties_of
from simgpu.run.cuda import current_device, generators, graphs, names, refused

MODULES = ("memory", "random", "streams", "graphs", "nvtx", "tunable")
# PyTorch's own values serve: exceptions, codes, and modules, whose names are walked themselves.
KEPT = {"CudaError", "DeferredCudaCallError", "cudaStatus"}
KEPT |= {"amp", "graphs", "jiterator", "memory", "nccl", "nvtx", "profiler", "random", "sparse"}
KEPT |= {"streams", "tunable"}


def replaced():
    tables = (names, current_device, generators)
    found = {name for table in tables for name in table.replacements()}
    return found | graphs.replacements(None).keys()


@pytest.mark.parametrize("module", ["", *MODULES])
def test_every_name_is_replaced(module):
    where = f"torch.cuda.{module}".rstrip(".")
    public = getattr(sys.modules[where], "__all__", ["Stream", "Event", "ExternalStream"])
    left = {name for name in public if f"{where}:{name}" not in replaced()}
    assert left <= (set() if module else KEPT)
    assert module or left == KEPT, "take from KEPT what is replaced now"


def test_torch_sim_and_torch_cuda_share_a_table():
    found = names.replacements()
    assert len(FUNCTIONS) > 60
    assert all(found[f"torch.cuda:{name}"] is value for name, value in FUNCTIONS.items())


def test_what_is_refused_looks_like_what_it_stands_for():
    """PyTorch 2.14 reads ``torch.cuda.use_mem_pool.__wrapped__`` when its compiler is imported."""
    before = {name: vars(torch.cuda).get(name) for name in refused.FUNCTIONS}
    found = refused.replacements()
    for name, original in before.items():
        if original is not None:
            stand_in = found[f"torch.cuda:{name}"]
            assert vars(original).keys() <= vars(stand_in).keys(), name
            assert (stand_in.__name__, stand_in.__doc__) == (name, original.__doc__)
    assert hasattr(found["torch.cuda:use_mem_pool"], "__wrapped__")


REFUSED = {
    **{f"torch.cuda.{name}()": name for name in refused.FUNCTIONS},
    **{f"torch.cuda.{name}()": name for name in refused.CLASSES},
    "torch.cuda.GreenContext.create(1)": "use torch.cuda.Stream()",
    "torch.cuda.sparse.FloatTensor()": "use dense tensors",
    "torch.cuda.comm.broadcast(torch.ones(1).cuda(), [0])": "torch.distributed",
    "torch.nn.parallel.comm.gather([torch.ones(1).cuda()])": "torch.distributed",
    "torch.cuda.jiterator._create_jit_fn('x')": "PyTorch's own operations",
    "torch.cuda.tunable.enable()": "leave out the tuning",
    "torch.cuda.nccl.all_reduce([torch.ones(1).cuda()])": "torch.distributed",
    "fake().from_tensor(x)": "one operation at a time",
    "torch.export.export(torch.nn.Linear(2, 2).cuda(), (x,))": "one operation at a time",
    "torch.ones(1, device='cuda', requires_grad=under(fake()))": "one operation at a time",
}


@pytest.mark.slow
def test_what_is_refused_names_the_line_and_the_way_out(simgpu_run):
    source = (
        "import torch\n"
        "import torch.cuda.comm, torch.cuda.tunable, torch.nn.parallel.comm\n"
        "from torch._subclasses.fake_tensor import FakeTensorMode as fake\n"
        "x = torch.ones(2, device='cuda')\n"
        "def under(mode):\n"
        "    mode.__enter__()\n"
        "    return True\n"
        "def modes():\n"
        "    return torch.utils._python_dispatch._get_current_dispatch_mode_stack()\n"
    )
    for i, line in enumerate(REFUSED):
        source += (
            f"try:\n    {line}\n    print({i}, 'nothing')\n"
            f"except NotImplementedError as error:\n    print({i}, error)\n"
            "while modes():\n    modes()[-1].__exit__(None, None, None)\n"
        )
    code, out, err = simgpu_run(source)
    assert code == 0, err
    lines = dict(line.split(" ", 1) for line in out.splitlines() if line[:1].isdigit())
    for i, (line, way_out) in enumerate(REFUSED.items()):
        text = lines[str(i)]
        assert "does not work on simulated GPUs; " in text, line
        assert way_out in text, line
    _, _, err = simgpu_run("import torch\n\ntorch.cuda.temperature()\n")
    assert "simgpu run: train.py:3: torch.cuda.temperature does not work" in err
    assert "Traceback" not in err


def test_packages_of_kernels_get_a_hint(simgpu_run):
    code, _, err = simgpu_run("import flash_attn_interface\n")
    assert code == 1
    assert "use torch.nn.functional.scaled_dot_product_attention" in err


@pytest.mark.parametrize(
    "error", ["0 active drivers ([]). There should only be one.", "libcuda.so cannot found!\\n"]
)
def test_a_triton_kernel_gets_a_hint(error, simgpu_run):
    """Triton can be imported without a GPU, and says this when a kernel is to run."""
    code, _, err = simgpu_run(f"raise RuntimeError('{error}')\n")
    assert code == 1
    assert "simulated GPUs do not run Triton kernels; use PyTorch's operations" in err
    _, _, err = simgpu_run("raise RuntimeError('no active drivers')\n")
    assert "Triton" not in err


def test_wrappers_around_simulated_tensors_do_not_end_the_process(simgpu_run):
    code, out, err = simgpu_run(
        "import torch\n"
        "class Own(torch.Tensor):\n"
        "    @staticmethod\n"
        "    def __new__(cls, inner):\n"
        "        own = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype,\n"
        "            device=inner.device, requires_grad=True)\n"
        "        own.inner = inner\n"
        "        return own\n"
        "    @classmethod\n"
        "    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):\n"
        "        return func(*[getattr(a, 'inner', a) for a in args], **(kwargs or {}))\n"
        "x = Own(torch.ones(3, device='cuda'))\n"
        "y = (x * 2).sum()\n"
        "y.backward()\n"
        "print(y.item(), y.device)\n"
    )
    assert (code, out.splitlines()[0]) == (0, "6.0 cuda:0"), err


def test_devices_are_called_cuda_once_a_rank_has_said_so(simgpu_run):
    code, _, err = simgpu_run(
        "import torch\nx = torch.ones(3, device=torch.accelerator.current_accelerator())\n"
        "assert str(x.device) == 'sim:0'\n"
        "y = torch.ones(3, device='cu' + 'da') + 1\n"
        "assert str(x.device) == str(y.device) == 'cu' + 'da:0'\n"
    )
    assert code == 0, err
    assert {span.device for span in sim.trace()} == {"rank 0 host", "rank 0 cuda:0"}


def test_there_is_no_pointer_to_hand_out(simgpu_run):
    code, _, err = simgpu_run(
        "import torch\nx = torch.ones(3, device='cuda')\n"
        "assert not hasattr(x, '__cuda_array_interface__')\n"
    )
    assert code == 0, err


def test_properties_have_sources_and_capabilities_follow_the_data_types():
    assert PROPERTIES.keys() == GPUS.keys()
    for name, gpu in GPUS.items():
        found = properties_of(gpu)
        fields = set(found.__dataclass_fields__) - {"sources"}
        assert found.sources.keys() == fields
        assert (found.capability >= (8, 0)) == (gpu.flops["bfloat16"] > gpu.flops["float32"])
        assert ("float8" in gpu.flops) == (found.capability >= (8, 9)), name


SNAPSHOT = """
import os, sys, warnings
import torch, torch.distributed.fsdp, torch.distributed.pipelining, torch.distributed.tensor
import torch.optim, torch.utils.checkpoint, torch.cuda.comm
import torch.nn.attention.flex_attention
from simgpu import naming
from simgpu.run.command import main
from support.torch_snapshot import changed, snapshot
warnings.simplefilter("ignore")

script = sys.argv[1]
net = torch.nn.Linear(4, 2)
torch.optim.AdamW(net.parameters()).step()
before = snapshot()
visible = os.environ.get("CUDA_VISIBLE_DEVICES")
main(["--nproc-per-node", "2", script])
__import__("simgpu").close()
print("RESULT", changed(before))
assert naming.TYPES == {"sim", "privateuseone"} and naming.device_type() == "sim"
assert os.environ.get("CUDA_VISIBLE_DEVICES") == visible
x = torch.ones(2, 2)
with torch.autocast("cpu", dtype=torch.bfloat16):
    assert (x @ x).dtype is torch.bfloat16
try:
    torch.ones(1, device="cuda")
    raise SystemError("made a tensor on cuda")
except (RuntimeError, AssertionError, NotImplementedError):
    pass
"""
HOOKS = ("torch.utils.hooks:RemovableHandle", "next_id")  # counts the hooks that there were


@pytest.mark.process
def test_torch_cuda_is_restored(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import os, torch, torch.distributed as dist\n"
        "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n"
        "dist.init_process_group('nccl')\n"
        "net = torch.nn.Linear(4, 2).cuda()\n"
        "optimizer = torch.optim.AdamW(net.parameters())\n"
        "with torch.autocast('cuda'):\n"
        "    net(torch.ones(3, 4, device='cuda')).sum().backward()\n"
        "optimizer.step()\n"
        "dist.all_reduce(torch.ones(2).cuda())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", SNAPSHOT, str(script)],
        capture_output=True, text=True, env=os.environ | {"PYTHONPATH": PYTHONPATH},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "step time" in done.stdout
    assert set(eval(done.stdout.partition("RESULT ")[2])) <= STAYS | {HOOKS}


def test_outside_of_the_launcher_cuda_is_not_simulated():
    sim.configure(1)
    assert torch.cuda.set_device.__module__ == "torch.cuda"
    with pytest.raises(ValueError, match="cuda:0 is not a simulated GPU"):
        sim.set_device("cuda:0")
