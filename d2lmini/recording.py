"""Record the work of devices, real or simulated, as a timeline."""

import os
import re
import sys
import tempfile
from contextlib import contextmanager

import torch

import simgpu as sim
from d2lmini.devices import devices_in_use
from d2lmini.timing import synchronize
from simgpu import device_name, is_simulated
from simgpu.timeline import Timeline

# Log lines of PyTorch's profiler (Kineto): on every start and stop, and about missing GPUs.
_LOG = re.compile(rb"(USDT|STAGE|INFO):\d{4}-\d\d-\d\d .*\.cpp:\d+\]")
_LOG_OF_GPUS = re.compile(rb"(USDT|STAGE|INFO|WARNING|ERROR):\d{4}-\d\d-\d\d .*\.cpp:\d+\]")


class record:  # noqa: N801 - used like a function: with record(...) as recording
    """Record the work of devices within a ``with`` block.

    Simulated GPUs always keep a trace, so recording them costs nothing. Real GPUs and the CPU are
    recorded by `torch.profiler`, which slows the host down: do not time a recorded block.

    Parameters
    ----------
    *devices : torch.device or str
        Devices to wait for at both ends; by default all devices in use.

    Attributes
    ----------
    timeline : simgpu.timeline.Timeline
        What ran; set at the end of the block.

    Raises
    ------
    ValueError
        At the end of the block if nothing ran in it, or if simulated and other devices are mixed.
    RuntimeError
        At the end of the block if CUDA devices are recorded and the profiler saw no work on any of
        them.

    Examples
    --------
    >>> from d2lmini import gpus
    >>> device = gpus(1, gpu="v100")[0]
    gpus(1): 1 simulated GPU, v100 on nvlink2 (chosen in the call)
    >>> x = torch.ones(1000, 1000, device=device)
    >>> with record(device) as recording:
    ...     y = x @ x
    >>> recording.timeline.busy()[("sim:0", "compute")] > 0.5
    True
    """

    def __init__(self, *devices):
        self.devices = devices or devices_in_use() or [torch.device("cpu")]
        simulated = {is_simulated(device) for device in self.devices}
        if len(simulated) > 1:
            raise ValueError(
                f"{list(map(device_name, self.devices))} mixes simulated and other devices, which "
                "have different clocks; record them separately"
            )
        self._has_gpus = any(device_name(d).partition(":")[0] != "cpu" for d in self.devices)
        self._profiler = None if simulated == {True} else self._make_profiler()
        self.timeline = None

    def _make_profiler(self):
        """Return a profiler; without GPUs among the devices it records the CPU only."""
        activities = None if self._has_gpus else [torch.profiler.ProfilerActivity.CPU]
        return torch.profiler.profile(activities=activities)

    def __enter__(self):
        synchronize(*self.devices)
        if self._profiler:
            with _without_log(_LOG if self._has_gpus else _LOG_OF_GPUS):
                self._profiler.start()
        else:
            self._spans_before = len(sim.trace())
        return self

    def __exit__(self, exc_type, *args):
        try:
            synchronize(*self.devices)
        finally:
            if self._profiler:
                with _without_log(_LOG if self._has_gpus else _LOG_OF_GPUS):
                    self._profiler.stop()
        if exc_type is not None:
            return
        if self._profiler:
            self.timeline = Timeline.from_profiler(self._profiler)
            self._check_gpu_activity()
        else:
            self.timeline = Timeline(sim.trace()[self._spans_before :])

    def _check_gpu_activity(self):
        gpus = [str(d) for d in self.devices if torch.device(d).type == "cuda"]
        if gpus and not any(span.device.startswith("cuda") for span in self.timeline.spans):
            raise RuntimeError(
                f"the profiler recorded no GPU activity on {', '.join(gpus)}: run something on it "
                "inside the block; if something ran, PyTorch's profiler cannot reach the GPU (its "
                "tracer, CUPTI, is missing or refused): update the GPU's driver, end other "
                "profilers of the GPU, and leave WSL if you are in it"
            )


@contextmanager
def _without_log(log):
    """Drop lines that match `log` from the process's standard error; keep all others."""
    sys.stderr.flush()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            file.seek(0)
            os.write(2, b"".join(line for line in file if not log.match(line)))
