"""Machines with 0 to 8 CUDA devices, by the double of `support.cuda_double`, each in a process."""

import json
import os
import subprocess
import sys

import pytest
import torch
from support.paths import PYTHONPATH

COUNTS = [pytest.param(2, marks=pytest.mark.process)]
COUNTS += [pytest.param(count, marks=pytest.mark.exhaustive) for count in (0, 1, 4, 8)]


def on_a_machine(program, count=2, setting="auto", **options):
    """Run a program where there are `count` CUDA devices; return what it puts into `found`."""
    lines = [
        "from support import cuda_double",
        f"machine = cuda_double.install({count}, **{options!r})",
        "import json, torch, d2lmini",
        "from d2lmini import *",
        "found = {}",
        program,
        "print(json.dumps(found))",
    ]
    env = os.environ | {"D2LMINI_GPUS": setting, "SIMGPU_FORCE": "", "PYTHONPATH": PYTHONPATH}
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


ONE_PROCESS = """
def train(device):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    net.to(device)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    X = torch.linspace(-1, 1, 80).reshape(10, 8).to(device)
    for _ in range(5):
        optimiser.zero_grad()
        net(X).square().mean().backward()
        optimiser.step()
    return torch.cat([p.detach().cpu().flatten() for p in net.parameters()]).tolist()

found["before"] = str(torch.accelerator.current_accelerator())
real = gpus(1)[0]
found["real"] = [train(real), str(real)]
simulated = gpus(3)[2]
found["simulated"] = [train(simulated), device_name(simulated)]
found["real again"] = [train(real), str(real)]
with Stream(real), Stream(simulated):
    pass
found["pinned"] = torch.ones(2).pin_memory().is_pinned()
found["type"] = simulated.type
found["after"] = str(torch.accelerator.current_accelerator())
found["cpu"] = train("cpu")
found["printed"] = repr(torch.ones(1, device=simulated))
"""


@pytest.mark.long
@pytest.mark.process
def test_simulated_and_real_gpus_train_in_one_process():
    found = on_a_machine(ONE_PROCESS, count=2)
    assert found["before"] == found["after"] == "cuda"
    assert found["type"] == "privateuseone"
    assert found["pinned"]
    for name, device in [("real", "cuda:0"), ("simulated", "sim:2"), ("real again", "cuda:0")]:
        weights, where = found[name]
        assert where == device
        assert weights == pytest.approx(found["cpu"], abs=1e-6)
    assert found["printed"] == "tensor([1.], device='sim:2')"


@pytest.mark.exhaustive
def test_the_slot_is_not_renamed_beside_an_accelerator_and_is_without():
    """PyTorch itself, not the double, says what its accelerator is: renaming would show here."""
    program = """
from d2lmini import sim
before = torch._C._get_accelerator().type
sim.configure(2)
found["same"] = torch._C._get_accelerator().type == before
found["name"] = torch._C._get_privateuse1_backend_name()
"""
    assert on_a_machine(program, count=2) == {"same": True, "name": "privateuseone"}
    assert on_a_machine(program, count=0) == {"same": False, "name": "sim"}
    # Where no real GPU is to be used, stored outputs say the same on a machine with GPUs.
    assert on_a_machine(program, 2, setting="sim") == {"same": False, "name": "sim"}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("setting", "name"), [("auto", "privateuseone"), ("sim", "sim")])
def test_a_setting_that_is_made_later_does_not_rename_the_slot(setting, name):
    """It can be taken back, and then the real GPUs are used. (The double claims the slot early.)"""
    program = """
import os, torch
torch.accelerator.is_available = lambda: True
from d2lmini import gpus
os.environ["D2LMINI_GPUS"] = "sim:t4"
gpus(1)
print(torch._C._get_privateuse1_backend_name())
"""
    env = os.environ | {"D2LMINI_GPUS": setting, "SIMGPU_FORCE": "", "PYTHONPATH": PYTHONPATH}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == [name], done.stderr


@pytest.mark.long
@pytest.mark.parametrize("count", COUNTS)
def test_gpus_are_real_where_there_are_enough_and_else_all_simulated(count):
    program = """
for k in (1, 2, 4, 8):
    devices = gpus(k)
    found[k] = [len(set(devices)), sorted({is_simulated(d) for d in devices})]
    with Benchmark("products", devices) as timed:
        for device in devices:
            torch.ones(100, 100, device=device) @ torch.ones(100, 100, device=device)
    found[k].append(timed.seconds.clock)
    with record(*devices) as recording:
        copies = [torch.ones(1000, device=device) for device in devices]
    found[k].append(recording.timeline.simulated)
found["one"], found["all"] = str(try_gpu(0)), len(try_all_gpus())
"""
    found = on_a_machine(program, count)
    for k in (1, 2, 4, 8):
        simulated = k > count
        clock = "simulated" if simulated else "measured"
        assert found[str(k)] == [k, [simulated], clock, simulated]
    assert found["one"] == ("cuda:0" if count else "cpu")
    assert found["all"] == max(count, 1)


@pytest.mark.exhaustive
def test_times_of_two_clocks_are_never_compared():
    program = """
def time(devices):
    with Benchmark("one", devices) as b:
        torch.ones(100, 100, device=devices[0]) @ torch.ones(100, 100, device=devices[0])
    return b.seconds

def refused(function):
    try:
        function()
    except ValueError as error:
        return str(error)

one, two = gpus(1), gpus(2)
real, simulated = time(one), time(two)
found["mixed"] = [
    refused(lambda: real < simulated), refused(lambda: real / simulated),
    refused(lambda: real - simulated), refused(lambda: max(real, simulated)),
    refused(lambda: now(one[0], two[0])), refused(lambda: Timer(one[0], two[0]).start()),
    refused(lambda: Benchmark("both").__enter__()), refused(lambda: record(one[0], two[0])),
    refused(lambda: record()),
]
"""
    mixed = on_a_machine(program, count=1)["mixed"]
    assert all(message and "clocks" in message for message in mixed), mixed


@pytest.mark.exhaustive
def test_a_driver_that_is_too_old_is_named_and_its_gpus_are_simulated():
    program = """
found["devices"] = [device_name(d) for d in gpus(2)]
found["one"], found["all"] = str(try_gpu(0)), [str(d) for d in try_all_gpus()]
"""
    found = on_a_machine(program, count=2, too_old=True)
    assert found["devices"] == ["sim:0", "sim:1"]
    assert (found["one"], found["all"]) == ("cpu", ["cpu"])
    program = """
import os
os.environ["D2LMINI_GPUS"] = "cuda"
try:
    gpus(2)
except ValueError as error:
    found["error"] = str(error)
"""
    error = on_a_machine(program, count=2, too_old=True)["error"]
    assert "driver on your system is too old" in error
    assert "D2LMINI_GPUS=auto" in error


WITHOUT_REAL_GPUS = """
import warnings
warnings.simplefilter("error")
from d2lmini import sim
import torch.distributed as dist
sim.configure(2)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
dist.barrier()
dist.destroy_process_group()
pinned = torch.arange(4.0).pin_memory()
found["pinned"] = [pinned.is_pinned(), sim.is_pinned(pinned), torch.ones(1).is_pinned()]
for workers in (0, 1):
    loader = torch.utils.data.DataLoader(
        torch.arange(8.0), batch_size=4, pin_memory=True, num_workers=workers
    )
    found[workers] = [(batch.tolist(), batch.is_pinned()) for batch in loader]
accelerator = torch.accelerator.current_accelerator()
x = torch.ones(1000, device=accelerator)
torch.accelerator.set_device_index(1)
torch.accelerator.synchronize()
found["accelerator"] = [
    str(accelerator), torch.accelerator.device_count(), torch.accelerator.current_device_index(),
    torch.accelerator.memory_allocated(0), torch.accelerator.memory_allocated(1),
]
start = sim.now()
y = pinned.to("sim:0", non_blocking=True)
found["waited"] = sim.now() - start > 1.5 * sim.get_device_spec(0).launch_overhead
"""


@pytest.mark.exhaustive
def test_barriers_pinning_and_loaders_work_where_simulated_gpus_are_the_accelerator():
    found = on_a_machine(WITHOUT_REAL_GPUS, count=0)
    assert found["pinned"] == [True, True, False]
    assert found["0"] == found["1"] == [[[0, 1, 2, 3], True], [[4, 5, 6, 7], True]]
    assert found["accelerator"] == ["sim", 2, 1, 4096, 0]
    assert not found["waited"]


@pytest.mark.process
@pytest.mark.skipif(torch.version.cuda is None, reason="needs the CUDA build of PyTorch")
def test_the_cuda_build_keeps_its_accelerator():
    program = """
from d2lmini import sim
torch.accelerator.is_available = lambda: True
sim.configure(2)
found["accelerator"] = torch._C._accelerator_getAccelerator().type
"""
    assert on_a_machine(program, count=0) == {"accelerator": "cuda"}
