"""The names of PyTorch's profiler that ranks replace, so that nothing of Kineto starts."""

import functools
import os
import socket

from torch.autograd import DeviceType, ProfilerActivity

from simgpu.backend.pytorch.replacements import exists, find
from simgpu.clock import current
from simgpu.clock.hooks import hooks
from simgpu.naming import CUDA, device_type
from simgpu.ranks.pytorch.profiler import ranges
from simgpu.ranks.pytorch.profiler.recording import Options, Recording
from simgpu.ranks.pytorch.profiler.result import Result

NOTE = "torch.profiler shows simulated times: those of the simulated GPUs and their hosts"
_PROFILER, _PROFILE = "torch.autograd.profiler", "torch.autograd.profiler:profile"
_HANDLER = ("torch.profiler:tensorboard_trace_handler",)
_HANDLER += ("torch.profiler.profiler:tensorboard_trace_handler",)
_OBSERVER = "torch.profiler.profiler:ExecutionTraceObserver.register_callback"
_TIMELINE = "torch.profiler.profiler:_KinetoProfile.export_memory_timeline"
_TOGGLE = "torch.profiler.profiler:_KinetoProfile.toggle_collection_dynamic"


def replacements() -> dict:
    """Return the replacements while ranks run; a name that this PyTorch lacks is left out."""
    found = {
        f"{_PROFILE}.__init__": _init(find(f"{_PROFILE}.__init__")),
        f"{_PROFILE}._prepare_trace": _prepare,
        f"{_PROFILE}._start_trace": _starter(),
        f"{_PROFILER}:_disable_profiler": _stop,
        f"{_PROFILER}:_kineto_step": lambda: None,
        "torch.autograd:_add_metadata_json": _add_metadata,
        "torch.autograd:_is_kineto_stopped": lambda: False,
        **dict.fromkeys(
            ("torch.autograd:_supported_activities", f"{_PROFILER}:_supported_activities"),
            _activities,
        ),
        **dict.fromkeys(_HANDLER, _handler(find(_HANDLER[0]))),
        _OBSERVER: _refuse("ExecutionTraceObserver", "use export_chrome_trace"),
        _TOGGLE: _refuse("toggle_collection_dynamic", "use a schedule"),
        _TIMELINE: _refuse("export_memory_timeline", "use torch.cuda.memory._dump_snapshot"),
        **ranges.replacements(),
    }
    return {name: value for name, value in found.items() if exists(name)}


def _on_device():
    """Return the activity of simulated GPUs."""
    is_cuda = device_type() == CUDA
    return ProfilerActivity.CUDA if is_cuda else ProfilerActivity.PrivateUse1


def _activities():
    return {ProfilerActivity.CPU, _on_device()}


def _init(real):
    """Make a profile of CUDA one of the simulated GPUs, whatever they are called."""

    @functools.wraps(real)
    def init(self, enabled=True, *, use_cuda=False, use_device=None, **given):
        is_cuda = use_cuda or use_device == CUDA
        real(self, enabled, use_device=device_type() if is_cuda else use_device, **given)

    return init


def _prepare(profile):
    """Prepare nothing: a warm-up is for Kineto."""
    profile.entered = True


def _starter():
    told = []  # whether it was said that times are simulated

    def start(profile):
        profile.entered = True
        if hooks.say is not None and not told:
            told.append(True)
            hooks.say(NOTE)
        options = Options(
            profile.use_cpu, profile.use_device is not None, profile.record_shapes,
            profile.with_stack, profile.profile_memory,
        )  # fmt: skip
        ranges.begin(Recording(current.ranks.rank, options))

    return start


def _stop():
    recording = ranges.end()
    if recording is None:
        raise RuntimeError("Can't disable Kineto profiler when it's not running")  # as PyTorch does
    recording.stop()
    is_cuda = device_type() == CUDA
    return Result(recording, DeviceType.CUDA if is_cuda else DeviceType.PrivateUse1)


def _add_metadata(key, value):
    if (recording := ranges.recording_of_rank()) is not None:
        recording.options.metadata[key] = value


def _handler(real):
    """Name the files of ranks differently: they share a process, and often a simulated time."""

    @functools.wraps(real)
    def handler(dir_name, worker_name=None, *args, **kwargs):
        if worker_name is None:
            rank = current.ranks.rank.number
            worker_name = f"{socket.gethostname()}_{os.getpid()}_rank{rank}"
        return real(dir_name, worker_name, *args, **kwargs)

    return handler


def _refuse(what, instead):
    def refuse(*args, **kwargs):
        raise NotImplementedError(
            f"{what} of torch.profiler does not work on simulated GPUs; {instead}"
        )

    return refuse
