"""CUDA graphs: the operations of a capture, replayed in order with one launch.

A capture runs its operations once, and puts back what they have changed: on a real GPU it runs
none. A replay runs them again and writes the results into the tensors of the capture. It costs the
host one launch; its kernels follow each other as fast as the device runs them.

All tensors of a capture stay in memory as long as the graph: CUDA's pool uses freed ones again, so
it needs less. Random operations draw new numbers at each replay, as on CUDA. Waiting for the device
and communicating are refused inside a capture.
"""

import dataclasses

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from simgpu.backend.tensor import SimTensor
from simgpu.clock import current
from simgpu.clock.hooks import HOOKS
from simgpu.clock.streams import Stream
from simgpu.device_api import devices
from simgpu.hardware.assumptions import LAUNCH_OVERHEAD
from simgpu.kernels.facts import aten
from simgpu.run.cuda import refused

_active: list = []  # the captures in progress
_WAITS = {aten._local_scalar_dense, aten.nonzero, aten.masked_select, aten._unique2}
_WITHOUT_KERNEL = {aten.empty, aten.empty_strided, aten.detach, aten.alias}


def _simulated(values):
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, SimTensor)]


def _written(func, args, kwargs):
    """Return the simulated tensors that an operation writes to."""
    found = []
    for i, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found += _simulated(args[i] if i < len(args) else kwargs.get(argument.name))
    return found


class _Capture(TorchDispatchMode):
    """Runs operations and records them."""

    def __init__(self):
        super().__init__()
        self.calls = []  # (operation, arguments, keyword arguments, new tensors)
        self._before = {}  # block -> tensor, and its values before the capture
        self._made = set()  # ids of blocks from the capture

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        inputs = _simulated((args, kwargs))
        packet = func.overloadpacket
        if inputs and packet in _WAITS:
            raise refused.error(
                f"{func} in the capture of a CUDA graph",
                "it waits for the GPU; move it out of the capture, as for a real GPU",
            )
        for tensor in _written(func, args, kwargs):
            self._keep(tensor)
        out = func(*args, **kwargs)
        outputs = _simulated(out)
        if inputs and not outputs and isinstance(out, torch.Tensor):
            raise refused.error(
                "a copy to the host in the capture of a CUDA graph",
                "copy after the replay, as for a real GPU",
            )
        known = {id(tensor._block) for tensor in inputs}
        new = [tensor for tensor in outputs if id(tensor._block) not in known]
        self._made.update(id(tensor._block) for tensor in new)
        if packet not in _WITHOUT_KERNEL and (new or func._schema.is_mutable):
            self.calls.append((func, args, kwargs, new))
        return out

    def _keep(self, tensor):
        block = tensor._block
        if id(block) not in self._made and block not in self._before:
            self._before[block] = tensor, tensor._data.untyped_storage().clone()

    def put_back(self):
        """Put back the values that tensors had before the capture."""
        for tensor, values in self._before.values():
            if tensor._data.device.type == "cpu":
                tensor._data.untyped_storage().copy_(values)
        self._before.clear()


class CUDAGraph:
    """`torch.cuda.CUDAGraph`."""

    def __init__(self, keep_graph=False):
        self._calls = None

    def capture_begin(self, pool=None, capture_error_mode="global"):
        """Record operations from now on."""
        self._capture = _Capture()
        _active.append(self._capture)
        self._capture.__enter__()

    def capture_end(self):
        """End the recording."""
        _active.remove(self._capture)
        self._capture.__exit__(None, None, None)
        self._capture.put_back()
        self._calls = self._capture.calls

    def instantiate(self):
        """Do nothing: the graph can be replayed."""

    def replay(self):
        """Run the recorded operations again, with one launch."""
        if self._calls is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        device = current.find_device()
        gpu = device.gpu
        with device.machine.lock:
            device.machine.host += min(gpu.launch_overhead, LAUNCH_OVERHEAD)
        device.gpu = dataclasses.replace(gpu, launch_overhead=0.0, collective_launch_overhead=0.0)
        device.launch_seconds = 0.0
        try:
            with torch._C._AutoDispatchBelowAutograd():
                for func, args, kwargs, new in self._calls:
                    _run_again(func, args, kwargs, new)
        finally:
            device.gpu, device.launch_seconds = gpu, None

    def reset(self):
        """Forget the recording."""
        self._calls = None

    def pool(self):
        """Return the identity of the graph's memory."""
        return (0, id(self))

    def enable_debug_mode(self):
        """Do nothing: there is no graph to dump."""

    def debug_dump(self, debug_path):
        """Do nothing: there is no graph to dump."""


def _run_again(func, args, kwargs, new):
    inputs = {id(tensor._block) for tensor in _simulated((args, kwargs))}
    again = [t for t in _simulated(func(*args, **kwargs)) if id(t._block) not in inputs]
    for old, tensor in zip(new, again, strict=True):
        if old._data.device.type == "cpu":
            old._data.copy_(tensor._data)


class graph:  # noqa: N801
    """`torch.cuda.graph`: a ``with`` block whose operations a graph records."""

    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="global"):
        self._graph, self._stream = cuda_graph, stream

    def __enter__(self):
        devices.synchronize()
        self._stream = self._stream or Stream()
        self._stream.__enter__()
        self._graph.capture_begin()

    def __exit__(self, kind, *error):
        self._graph.capture_end()
        self._stream.__exit__(kind, *error)


def is_capturing() -> bool:
    """Return whether a graph is being captured."""
    return bool(_active)


def _refuse_communication(check):
    def before(rank):
        if _active:
            raise refused.error(
                "a collective in the capture of a CUDA graph", "capture the computation alone"
            )
        check(rank)

    return before


def replacements(check) -> dict:
    """Return the replacements; `check` is called before ranks communicate."""
    found = {"CUDAGraph": CUDAGraph, "graph": graph, "graph_pool_handle": lambda: (0, 0),
             "is_current_stream_capturing": is_capturing}  # fmt: skip
    return {
        **{f"torch.cuda:{name}": value for name, value in found.items()},
        **{f"torch.cuda.graphs:{name}": value for name, value in found.items()},
        "simgpu.clock.streams:Stream.is_capturing": lambda self: is_capturing(),
        f"{HOOKS}.before_communication": _refuse_communication(check),
    }
