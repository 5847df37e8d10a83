"""Emulated CUDA devices: a test double of `torch.cuda`.

``install(count)`` gives this process GPUs ``cuda:0`` to ``cuda:{count-1}`` whose tensors compute
and train. They are made as simulated GPUs are, of a machine of their own, so both kinds live in
one process as they would on a machine with CUDA. What the package and the notebooks ask of
`torch.cuda`, of `torch.accelerator` and of the profiler answers as if they were real; the wall
clock that times them is that machine's host clock. Nothing is undone: use a process of its own.

In the environment of a notebook's kernel, ``D2LMINI_DOUBLE=count:gpu:link`` installs the double
(`ipython/profile_default/startup` is what IPython then runs first).
"""

import dataclasses
import functools
import json
import os
import time
import types

import torch
from torch.utils import _device
from torch.utils._python_dispatch import _disable_current_modes

import d2lmini
from d2lmini import devices
from simgpu import naming
from simgpu.backend import pinned
from simgpu.backend.operations.call import Call
from simgpu.backend.operations.host_ops import host_ops
from simgpu.backend.operations.results import cost, launch, wrap_all
from simgpu.backend.operations.run import run
from simgpu.backend.pytorch import factories, register
from simgpu.backend.tensor import SimTensor, handles
from simgpu.clock import current, streams
from simgpu.clock.machine import Machine
from simgpu.hardware import find_gpu, find_link

FIRST_IN_CPP = 64  # cuda:i is meta:(64 + i) to PyTorch's C++
MODELS = {
    "v100": "Tesla V100-SXM2-16GB",
    "rtx4090": "NVIDIA GeForce RTX 4090",
    "h200": "NVIDIA H200",
}
TOO_OLD = (
    "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU "
    "driver by downloading and installing a new version."
)


class _Host(host_ops):
    """Charges what the CPU computes to the host clock of the double, and keeps the values."""

    machine = None  # a given one, instead of the machine in use

    def __init__(self, machine):
        super().__init__("server16")
        self.machine = types.SimpleNamespace(numerics=True, compute_on_host=machine.compute_on_host)


class _Event(streams.Event):
    def record(self, stream=None):
        super().record(stream or torch.cuda.current_stream())

    def wait(self, stream=None):
        super().wait(stream or torch.cuda.current_stream())


class _Stream(streams.Stream):
    def __init__(self, device=None, priority=0):
        super().__init__(
            torch.device("cuda", torch.cuda.current_device())
            if device is None
            else torch.device("cuda", device)
            if isinstance(device, int)
            else device
        )

    def record_event(self, event=None):
        return super().record_event(_Event() if event is None else event)


def _large_product(op, args, kwargs):
    """Take products that would keep a CPU busy for seconds to be zero; charge them as they are."""
    call = Call(op, args, kwargs)
    first, second = call.inner_args
    rows, columns = first.shape[0], second.shape[1]
    device = call.device
    if device is None or not device.machine.numerics or 2 * rows * columns * len(second) < 5e9:
        return run(op, args, kwargs)
    out = first.new_zeros(rows, columns)
    wrapped = wrap_all(call, out)
    launch(call, *cost(call, out), wrapped)
    return wrapped


# It stands in for a function of the simulator: what names a program's line passes over its frame.
_large_product.__code__ = _large_product.__code__.replace(co_filename=run.__code__.co_filename)


class _Profile:
    """Writes what the double's devices did as PyTorch's profiler does on CUDA."""

    def __init__(self, machine, cupti, own, activities=None):
        self.machine, self.cupti, self.own = machine, cupti, own(activities=activities)

    def start(self):
        self.before = len(self.machine.trace)
        self.own.start()

    def stop(self):
        self.own.stop()
        self.rows = list(self.machine.trace.spans())[self.before :]

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def export_chrome_trace(self, path):
        used = [span for span in self.rows if span.engine != "cpu"]
        if not used:
            self.own.export_chrome_trace(path)
            return
        rows = [row for span in self.rows for row in _kineto(span)]
        if not self.cupti:
            rows = [row for row in rows if row["cat"] == "cpu_op"]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schemaVersion": 1, "deviceProperties": [], "traceEvents": rows}, file)


_COPIES = {"h2d": "Memcpy HtoD (Pinned -> Device)", "d2h": "Memcpy DtoH (Device -> Pinned)",
           "p2p": "Memcpy PtoP (Device -> Device)"}  # fmt: skip


def _kineto(span):
    """One span of the simulator as events of PyTorch's profiler."""
    times = {"ph": "X", "ts": 1e9 + span.start * 1e6, "dur": span.duration * 1e6}
    if span.engine in ("launch", "sync"):
        name = "cudaLaunchKernel" if span.engine == "launch" else "cudaStreamSynchronize"
        yield times | {"cat": "cuda_runtime", "name": name, "pid": 1, "tid": 1, "args": {}}
        if span.engine == "launch":
            yield times | {"cat": "cpu_op", "name": f"aten::{span.name}", "pid": 1, "tid": 1}
    elif span.engine == "cpu":
        yield times | {"cat": "cpu_op", "name": f"aten::{span.name}", "pid": 1, "tid": 1}
    else:
        index = int(span.device.partition(":")[2])
        stream = 7 if span.stream == 0 else 9 + 4 * span.stream
        args = {"device": index, "stream": stream, "context": 1}
        name, category = _COPIES.get(span.engine), "gpu_memcpy"
        if span.engine == "compute":
            name, category = _kernel_name(span.name), "kernel"
        else:
            args["bytes"] = span.bytes
        yield times | {"cat": category, "name": name, "pid": index, "tid": stream, "args": args}


def _kernel_name(operation):
    if operation in ("mm", "addmm", "bmm", "mv", "addmv", "baddbmm"):
        return "ampere_sgemm_128x128_nn"
    if "conv" in operation:
        return "void implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1>(int)"
    return f"void at::native::vectorized_elementwise_kernel<4, at::native::{operation}_functor>()"


def install(count, gpu="v100", link="pcie3", nccl=True, cupti=True, too_old=False):
    """Put `count` GPUs of that kind into this process, for good.

    `nccl`, `cupti`: whether these libraries are there. `too_old`: the GPUs are there, but the
    driver is too old for PyTorch.
    """
    torch.distributed.is_nccl_available = lambda: nccl
    torch.cuda.device_count = lambda: count  # counted by the driver's library, whatever its age
    usable = count > 0 and not too_old
    torch.cuda.is_available = lambda: usable
    if too_old:
        torch.cuda.init = torch.cuda._lazy_init = _raise_too_old
        torch.cuda.get_device_name = lambda i=None: _raise_too_old()
    torch.accelerator.is_available = lambda: usable or naming.is_accelerator()
    unused = os.environ.get("D2LMINI_GPUS", "").startswith("sim")
    if not usable or unused:
        return None
    torch._C._accelerator_getAccelerator = _accelerator_of_cuda
    machine = Machine(count, find_gpu(gpu), find_link(link), numerics=True)
    for device in machine.devices:
        device.name, device.torch_device = (
            f"cuda:{device.index}",
            torch.device("cuda", device.index),
        )
        device.cpp_device = torch.device("meta", FIRST_IN_CPP + device.index)
    machine.trace.spans = functools.partial(_spans, machine.trace)
    _serve(machine)
    _answer_for_cuda(machine, MODELS.get(gpu, gpu))
    torch.profiler.profile = functools.partial(_Profile, machine, cupti, torch.profiler.profile)
    d2lmini.timing.time = types.SimpleNamespace(
        perf_counter=lambda: machine.host + 1e-6 * time.perf_counter()
    )
    d2lmini.gpus = devices.gpus = functools.partial(_gpus, machine, devices.gpus)
    _Host(machine).__enter__()
    torch.compile = functools.partial(_compile, torch.compile)
    return machine


def _compile(real, function=None, **options):
    """Compile as PyTorch does where no mode charges the host: in one, it compiles nothing."""
    compiled = real(function, **options)

    @functools.wraps(compiled)
    def call(*args, **kwargs):
        with _disable_current_modes():
            return compiled(*args, **kwargs)

    return call


class _DataParallel(torch.nn.Module):
    """What `nn.DataParallel` computes; PyTorch's copies by code for CUDA."""

    def __init__(self, module, devices):
        super().__init__()
        self.module, self.devices = module, devices

    def forward(self, X):
        state = dict(self.module.named_parameters()) | dict(self.module.named_buffers())
        outputs = [
            torch.func.functional_call(
                self.module, {name: value.to(device) for name, value in state.items()}, x.to(device)
            )
            for x, device in zip(X.chunk(len(self.devices)), self.devices, strict=False)
        ]
        return torch.cat([output.to(self.devices[0]) for output in outputs])


def _raise_too_old():
    raise RuntimeError(TOO_OLD)


def _accelerator_of_cuda():
    """CUDA, unless somebody has renamed PyTorch's slot: then PyTorch says that one."""
    name = torch._C._get_privateuse1_backend_name()
    return torch.device("cuda" if name == "privateuseone" else name)


def _spans(trace):
    return [
        dataclasses.replace(span, device=span.device.replace("sim:", "cuda:"))
        for span in type(trace).spans(trace)
    ]


def _gpus(machine, gpus, k, *args, numerics=True, **kwargs):
    """`gpus`, which on real GPUs computes always; here the double may keep shapes only."""
    found = gpus(k, *args, numerics=numerics, **kwargs)
    if found[0].type == "cuda":
        machine.numerics = numerics
    return found


def _serve(machine):
    """Let simulated tensors be tensors on ``cuda:i``."""
    register.register()
    naming.TYPES_OF_TENSORS.add("cuda")
    find_device, is_cpp_device = current.find_device, current.is_cpp_device

    def find(device=None):
        if device is not None and not isinstance(device, int):
            kind, index = naming.split(device)
            if kind == "cuda":
                return machine.devices[machine.current_index() if index is None else index]
            if kind == "meta" and index is not None and index >= FIRST_IN_CPP:
                return machine.devices[index - FIRST_IN_CPP]
        return find_device(device)

    current.find_device = find
    current.is_cpp_device = lambda device: (
        is_cpp_device(device)
        or (device.index is not None and 0 <= device.index - FIRST_IN_CPP < len(machine.devices))
    )
    library = torch.library.Library("aten", "IMPL")
    library.impl("empty.memory_format", factories.empty, "CUDA")
    library.impl("empty_strided", factories.empty_strided, "CUDA")
    for name in factories.FROM_NUMBERS:
        library.impl(name, factories.make_factory(name), "CUDA")
    machine.library = library
    handles(torch.ops.aten.mm)(_large_product)
    SimTensor.is_cuda = property(lambda self: self.device.type == "cuda")
    pin, is_pinned, empty = pinned.pin_memory, pinned.is_pinned, torch.empty
    torch.Tensor.pin_memory = lambda self, device=None: pin(self)
    torch.Tensor.is_pinned = lambda self, device=None: is_pinned(self)

    _device._device_constructors()  # cached: blocks of `torch.device` know PyTorch's own `empty`

    def empty_maybe_pinned(*size, pin_memory=False, **options):
        if not pin_memory:
            return empty(*size, **options)
        tensor = empty(*size, **options)
        if not machine.numerics:
            tensor = pinned.placeholder(tensor)
        pinned.mark_pinned(tensor)
        return tensor

    torch.empty = empty_maybe_pinned
    torch.nn.DataParallel = _DataParallel


def _answer_for_cuda(machine, model):
    """Put the functions of `torch.cuda` that the package and the chapters use in place."""
    cuda = torch.cuda

    def find(device=None):
        if device is None:
            return machine.devices[machine.current_index()]
        if isinstance(device, int):
            return machine.devices[device]
        return current.find_device(device)

    def wait(device=None):
        streams = find(device).streams
        machine.wait_until(max(stream.end for stream in streams), marks=streams)

    def seed(value):
        for device in machine.devices:
            device.generator.manual_seed(value)

    class Current:
        def __init__(self, device):
            self.index = find(device).index

        def __enter__(self):
            self.outer = machine.current_index()
            machine.set_current_index(self.index)

        def __exit__(self, *_):
            machine.set_current_index(self.outer)

    cuda._lazy_init = cuda.init = cuda.empty_cache = lambda: None
    cuda.is_initialized = lambda: True
    cuda._is_in_bad_fork = lambda: False
    cuda._initialized = True
    cuda.manual_seed_all = cuda.manual_seed = seed
    cuda.get_rng_state = lambda device=None: find(device).generator.get_state()
    cuda.set_rng_state = lambda state, device=None: find(device).generator.set_state(state)
    cuda.get_device_name = lambda device=None: model
    cuda.get_device_capability = lambda device=None: (9, 0)
    cuda.get_arch_list = lambda: ["sm_70", "sm_90"]
    cuda.get_device_properties = lambda device=None: types.SimpleNamespace(
        name=model, total_memory=int(machine.gpu.memory), multi_processor_count=80
    )
    cuda.current_device = machine.current_index
    cuda.set_device = lambda device: machine.set_current_index(find(device).index)
    cuda.device, cuda.stream = Current, lambda stream: stream
    cuda.synchronize = wait
    cuda.can_device_access_peer = lambda device, peer: machine.link.peer
    cuda.memory_allocated = lambda device=None: find(device).memory.allocated
    cuda.memory_reserved = lambda device=None: find(device).memory.peak  # kept, as CUDA does
    cuda.max_memory_allocated = lambda device=None: find(device).memory.peak
    cuda.reset_peak_memory_stats = lambda device=None: setattr(
        find(device).memory, "peak", find(device).memory.allocated
    )
    accelerator = {
        "getDeviceIndex": machine.current_index,
        "setDeviceIndex": machine.set_current_index,
        "getStream": lambda index: find(index).current_stream(),
        "synchronizeDevice": wait,
    }
    for name, function in accelerator.items():
        setattr(torch._C, f"_accelerator_{name}", function)
    streams.Stream.is_capturing = lambda self: False
    cuda.Stream, cuda.Event = _Stream, _Event
    cuda.current_stream = lambda device=None: find(device).current_stream()
    cuda.default_stream = lambda device=None: find(device).default_stream


def install_from_environment():
    """Install what ``D2LMINI_DOUBLE=count:gpu:link`` names, if it is set."""
    setting = os.environ.get("D2LMINI_DOUBLE")
    if setting:
        count, *kinds = setting.split(":")
        install(int(count), *kinds)
