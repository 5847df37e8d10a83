"""Tensors, streams, random numbers and memory by CUDA's names."""

import pytest

START = """
import os, torch
import torch.nn.functional as F
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
"""
PARTS = {
    "tensors": """
local = int(os.environ["LOCAL_RANK"])
x = torch.ones(2).cuda()
assert x.is_cuda and x.get_device() == local and x.device == torch.device("cuda", local)
same = [x.cuda(), x.to("cuda"), x.to(local), x.to(device=f"cuda:{local}")]
assert all(one is x for one in same)
for one in (torch.ones(2).cuda(local), torch.ones(2).to(local), torch.ones(2).to("cuda"),
            torch.ones(2, device="cuda"), torch.ones(2, device=f"cuda:{local}"),
            torch.tensor([1.0, 1.0], device="cuda"), torch.cuda.FloatTensor([1, 1]),
            torch.ones(2).type(torch.cuda.FloatTensor), torch.empty_like(x).fill_(1)):
    assert one.device == x.device and torch.equal(one, x)
assert torch.ones(2).type("torch.cuda.HalfTensor").dtype is torch.float16
assert isinstance(x, torch.cuda.FloatTensor) and not isinstance(x, torch.cuda.HalfTensor)
assert not isinstance(torch.ones(2), torch.cuda.FloatTensor)
with torch.device("cuda"):
    assert torch.ones(2).device == x.device
model = torch.nn.Linear(2, 2).cuda()
assert model.weight.is_cuda and not model.cpu().weight.is_cuda
""",
    "saving": """
import io
file = io.BytesIO()
torch.save({"x": torch.arange(3.0, device="cuda")}, file)
for where in (None, "cuda", f"cuda:{torch.cuda.current_device()}", lambda s, l: s.cuda()
              if False else s):
    file.seek(0)
    assert torch.load(file, map_location=where)["x"].tolist() == [0, 1, 2]
file.seek(0)
assert torch.load(file, map_location="cpu")["x"].device.type == "cpu"
for where in (lambda s, l: s.cuda(), lambda s, l: s.cuda(torch.cuda.current_device())):
    for kind in (torch.cuda.current_device(), "cpu"):
        file = io.BytesIO()
        torch.save(torch.arange(3.0, device=kind), file)
        file.seek(0)
        x = torch.load(file, map_location=where)
        assert x.get_device() == torch.cuda.current_device() and x.tolist() == [0, 1, 2]
""",
    "autocast": """
model = torch.nn.Linear(4, 4).cuda()
x = torch.ones(2, 4, device="cuda")
with torch.autocast("cuda", dtype=torch.bfloat16):
    y = model(x)
    assert y.dtype is torch.bfloat16 and F.softmax(y, -1).dtype is torch.float32
    assert torch.cat([y, x]).dtype is torch.float32 and torch.is_autocast_enabled("cuda")
    with torch.autocast("cuda", enabled=False):
        assert model(x).dtype is torch.float32
with torch.amp.autocast("cuda"):
    assert (x @ x.T).dtype is torch.float16
assert model(x).dtype is torch.float32
expected = (x.bfloat16() @ model.weight.bfloat16().T + model.bias.bfloat16()).cpu()
torch.testing.assert_close(y.cpu(), expected)
""",
    "scaler": """
model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda", init_scale=8.0, growth_interval=2)
scales = []
for factor in (1.0, float("inf"), 1.0, 1.0):
    before = model.weight.detach().clone()
    optimizer.zero_grad()
    scaler.scale((model(torch.ones(1, 4, device="cuda")) * factor).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(before, model.weight) == (factor != 1)
    scales.append(scaler.get_scale())
assert scales == [8, 4, 4, 8], scales
""",
    "streams": """
side, main = torch.cuda.Stream(), torch.cuda.current_stream()
start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
x = torch.ones(2000, 2000, device="cuda")
torch.cuda.synchronize()
start.record(side)
with torch.cuda.stream(side):
    side.wait_stream(main)
    assert torch.cuda.current_stream() is side
    y = x @ x
    y.record_stream(side)
    end.record()
assert not end.query()
end.synchronize()
flops, milliseconds = 2 * 2000**3, start.elapsed_time(end)
assert 19.5e12 * 0.4 < flops / (milliseconds / 1000) < 19.5e12, milliseconds
assert torch.cuda.default_stream() is main and isinstance(side, torch.cuda.Stream)
""",
    "generators": """
seeds = [generator.initial_seed() for generator in torch.cuda.default_generators]
assert len(seeds) == torch.cuda.device_count() and torch.cuda.initial_seed() in seeds
def host():
    return torch.Generator().manual_seed(3)
def device():
    return torch.Generator(device="cuda").manual_seed(3)
assert device().device.type == "cuda" and isinstance(device(), torch.Generator)
for draw in (lambda d, g: torch.rand(3, device=d, generator=g),
             lambda d, g: torch.randperm(9, device=d, generator=g),
             lambda d, g: torch.empty(3, device=d).normal_(generator=g),
             lambda d, g: torch.bernoulli(torch.full((9,), 0.5, device=d), generator=g)):
    assert torch.equal(draw("cuda", device()).cpu(), draw("cpu", host()))
again = device()
first = torch.rand(2, device="cuda", generator=again)
assert not torch.equal(first, torch.rand(2, device="cuda", generator=again))
for wrong in (host(), torch.default_generator):
    try:
        torch.rand(2, device="cuda", generator=wrong)
        raise AssertionError
    except RuntimeError as error:
        assert "'cuda' device type for generator but found 'cpu'" in str(error), error
try:
    torch.rand(2, generator=device())
    print("PyTorch cannot tell a generator of a simulated GPU from one of the host")
except RuntimeError:
    pass
state = torch.cuda.get_rng_state()
first = torch.rand(2, device="cuda")
torch.cuda.set_rng_state(state)
assert torch.equal(first, torch.rand(2, device="cuda"))
torch.cuda.manual_seed_all(7)
assert torch.cuda.initial_seed() == 7
""",
    "memory": """
before = torch.cuda.memory_allocated()
x = torch.ones(2**20, device="cuda")
assert torch.cuda.memory_allocated() - before == 2**22
free, total = torch.cuda.mem_get_info()
assert total - free == torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
assert torch.cuda.memory_reserved() in (20 * 2**20, 22 * 2**20)
del x
assert torch.cuda.max_memory_allocated() - before == 2**22
assert torch.cuda.memory_stats()["allocated_bytes.all.peak"] - before == 2**22
torch.cuda.reset_peak_memory_stats()
torch.cuda.empty_cache()
assert torch.cuda.max_memory_allocated() == before
try:
    torch.empty(10**12, device="cuda")
    raise AssertionError
except torch.cuda.OutOfMemoryError as error:
    pass
""",
    "pinned": """
import simgpu
for make in (lambda p: torch.empty(2**20, pin_memory=p), lambda p: torch.zeros(2**20, pin_memory=p),
             lambda p: torch.randn(2**20, pin_memory=p)):
    seconds = {}
    for pin in (True, False):
        host = make(pin)
        assert host.is_pinned() == pin
        torch.cuda.synchronize()
        start = simgpu.now()
        host.to("cuda", non_blocking=True)
        seconds[pin] = simgpu.now() - start
    assert seconds[True] < seconds[False] / 10
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.arange(8.0))
found = [x.is_pinned() and x.cuda().sum().item() for (x,) in DataLoader(data, 4, pin_memory=True)]
assert found == [6, 22]
""",
    "properties": """
found = torch.cuda.get_device_properties("cuda")
assert found.name == torch.cuda.get_device_name() == "NVIDIA H100 80GB HBM3 (simulated)"
assert (found.major, found.minor) == torch.cuda.get_device_capability() == (9, 0)
assert found.multi_processor_count == 132 and found.total_memory == 80 * 2**30
assert torch.cuda.is_available() and torch.cuda.is_initialized()
assert torch.cuda.device_count() == torch.accelerator.device_count() == 2
assert torch.cuda.is_bf16_supported() and torch.cuda.get_arch_list() == ["sm_90"]
assert torch.version.cuda and torch.cuda.nccl.version() >= (2, 18)
assert str(torch.accelerator.current_accelerator()) == "cuda"
""",
    "settings": """
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = True
torch.backends.cuda.enable_flash_sdp(True)
torch.cuda.set_sync_debug_mode("warn")
torch.cuda.set_per_process_memory_fraction(0.9)
with torch.cuda.nvtx.range("step"):
    torch.cuda.nvtx.range_push("forward")
    torch.cuda.nvtx.range_pop()
torch.cuda.cudart().cudaProfilerStart()
torch.cuda.profiler.stop()
kinds = torch.profiler.ProfilerActivity
with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA]) if os.environ["RANK"] == "0" else (
    torch.cuda.device(1)) as profile:
    torch.ones(2, device="cuda") + 1
if os.environ["RANK"] == "0":
    assert any(event.key == "aten::add" for event in profile.key_averages())
""",
    "compile": """
@torch.compile
def once(x):
    return x + 1
@torch.compile(mode="max-autotune", fullgraph=True, dynamic=False)
def twice(x):
    return x + 2
model = torch.nn.Linear(1, 1).cuda()
compiled = torch.compile(model, backend="inductor", options={})
assert compiled._orig_mod is model and set(compiled.state_dict()) == {
    "_orig_mod.weight", "_orig_mod.bias"}
assert torch.equal(compiled(torch.ones(1, 1).cuda()), model(torch.ones(1, 1).cuda()))
assert compiled.in_features == 1 and not compiled.eval()._orig_mod.training
parallel = torch.nn.parallel.DistributedDataParallel  # keys of its state_dict: as on real GPUs
torch.distributed.init_process_group("nccl")
assert set(parallel(compiled.train()).state_dict()) == {
    "module._orig_mod.weight", "module._orig_mod.bias"}
assert model.compile(fullgraph=True) is None and set(model.state_dict()) == {"weight", "bias"}
assert torch.compile(model, disable=True) is model
assert once(torch.ones(1).cuda()).item() == 2 and twice(torch.ones(1).cuda()).item() == 3
for wrong in ({"backend": "nope"}, {"mode": "nope"}, {"mode": "default", "options": {}}):
    for make in (torch.compile, torch.nn.Module.compile, lambda m, **k: torch.compile(**k)(m)):
        try:
            make(model, **wrong)
        except RuntimeError as error:
            assert "nope" in str(error) or "both" in str(error), error
        else:
            raise AssertionError(wrong)
""",
    "new": """
x = torch.ones(2, device="cuda", dtype=torch.float16)
for one, size in ((x.new(3), (3,)), (x.new(2, 3), (2, 3)), (x.new(torch.Size([2])), (2,)),
                  (x.new(), (0,)), (x.new([1, 2]), (2,)), (x.new(x), (2,))):
    assert one.type() == "torch.cuda.HalfTensor" and one.device == x.device and one.shape == size
assert x.new([1, 2]).tolist() == [1, 2]
try:
    torch.utils.dlpack.to_dlpack(x)
except BufferError as error:
    assert "cuda:" in str(error) and "meta" not in str(error)
else:
    raise AssertionError
assert torch.utils.dlpack.to_dlpack(torch.ones(1)) is not None
""",
    "cudnn": """
assert torch.backends.cudnn.is_available() and torch.backends.cudnn.version() >= 90000
import warnings
with warnings.catch_warnings():
    warnings.simplefilter("error")
    y, _ = torch.nn.LSTM(2, 3).cuda()(torch.ones(1, 1, 2).cuda())
assert y.is_cuda
""",
    "generators of the host's draws": """
g, own = torch.Generator(device="cuda"), torch.Generator()
t = torch.full((4,), 0.5)
draws = [
    lambda g: torch.randperm(4, generator=g), lambda g: torch.randn(4, generator=g),
    lambda g: torch.normal(0.0, 1.0, (2,), generator=g), lambda g: torch.bernoulli(t, generator=g),
    lambda g: t.clone().uniform_(generator=g), lambda g: t.multinomial(2, generator=g),
    lambda g: torch.nn.init.normal_(t.clone(), generator=g),
    lambda g: list(torch.utils.data.RandomSampler(range(4), generator=g)),
]
for draw in draws:
    draw(own)
    try:
        draw(g)
    except RuntimeError as error:
        assert "Expected a 'cpu' device type for generator but found 'cuda'" in str(error)
    else:
        raise AssertionError(draw)
assert torch.randperm(4, generator=g, device="cuda").is_cuda
assert torch.randperm(4, pin_memory=True).is_pinned()
""",
    "a device that is not there": """
for name in (lambda: torch.ones(1, device="cuda:9"), lambda: torch.cuda.set_device(9)):
    try:
        name()
    except ValueError as error:
        assert "simgpu run --nproc-per-node 10" in str(error) and "configure" not in str(error)
    else:
        raise AssertionError
""",
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_cuda(part, simgpu_run):
    code, _, err = simgpu_run(
        START + PARTS[part] + "\nassert torch.ones(1, device='cuda').item() == 1\n",
        "--nproc-per-node", "2", "--gpu", "a100" if part == "streams" else "h100",
    )  # fmt: skip
    assert code == 0, err
