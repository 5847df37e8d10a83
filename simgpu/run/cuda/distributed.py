"""NCCL by its names: ``init_process_group("nccl")`` makes the simulated group.

As on real machines, a group of NCCL takes tensors on GPUs, one of gloo those of the host, and
``cpu:gloo,cuda:nccl`` both. Options of NCCL are accepted and have no effect.
"""

import datetime
import functools
import inspect
import sys
import types
import weakref

import torch

from simgpu import naming
from simgpu.backend.pytorch.replacements import find
from simgpu.clock.hooks import HOOKS
from simgpu.naming import CUDA, device_type
from simgpu.ranks.process.torch_internals import C10D
from simgpu.ranks.pytorch.patches import BackendError

_TAKES = {"nccl": (CUDA,), "gloo": ("cpu",)}  # backend -> types of devices
NCCL_VERSION = (2, 27, 5)  # the version that PyTorch 2.13 comes with, for CUDA 13
NCCL_TIMEOUT = datetime.timedelta(minutes=10)
_EITHER = {naming.NAME, naming.SLOT, "undefined"}
_names: dict = weakref.WeakKeyDictionary()  # group -> the backend that the script has named


class Options:
    """``ProcessGroupNCCL.Options``: accepted, without effect."""

    def __init__(self, is_high_priority_stream=False, **_):
        self.is_high_priority_stream = is_high_priority_stream
        self.config = types.SimpleNamespace()
        self.global_ranks_in_group, self.group_name = [], ""
        self._timeout = None


class ProcessGroupNCCL:
    """What a program takes `Options` from; no group is an instance of it."""

    Options = Options


def _kinds(backend):
    """Return the types of devices that a backend takes, None for the default ones.

    Raises
    ------
    BackendError
        If it is a backend that is not simulated.
    """
    text = "undefined" if backend is None else str(backend).lower()
    found = []
    for part in text.split(","):
        kind, _, name = part.rpartition(":")
        if name in _EITHER:
            found += [kind] if kind else ["cpu", device_type()]
        elif name in _TAKES:
            found += [kind] if kind else _TAKES[name]
        else:
            raise BackendError(
                f"init_process_group(backend={backend!r}): simulated GPUs communicate as NCCL "
                "does, and host tensors as with gloo; write 'nccl', 'gloo' or 'cpu:gloo,cuda:nccl'"
            )
    return tuple(device_type() if kind != "cpu" else kind for kind in dict.fromkeys(found))


def _wrap_helper(helper):
    """Wrap the function of PyTorch that makes every group."""
    parameters = list(inspect.signature(helper).parameters)

    @functools.wraps(helper)
    def make(*args, **kwargs):
        given = dict(zip(parameters, args, strict=False)) | kwargs
        backend = given["backend"]
        if str(backend) == "fake":  # communicates with no other rank
            return helper(**given | {"device_id": None})
        kinds = _kinds(backend)
        ours = {"backend": naming.NAME, "backend_options": kinds, "device_id": None}
        group, store = helper(**given | ours)
        if isinstance(group, torch.distributed.ProcessGroup):
            _names[group] = str(backend)
            if given.get("device_id") is not None:
                group.bound_device_id = given["device_id"]
        return group, store

    return make


def _wrap_get_backend(get_backend):
    @functools.wraps(get_backend)
    def name_of(group=None):
        """Return the name of the backend that the script has asked for."""
        name = get_backend(group)
        if str(name) != naming.NAME:
            return name
        group = group or find(f"{C10D}:_world").default_pg
        given = _names.get(group, naming.NAME)
        if given in ("undefined", "None", *_EITHER):
            given = "nccl" if device_type() == CUDA else naming.NAME
        return given

    return name_of


def _wrap_init(init, say_cuda):
    @functools.wraps(init)
    def checked(backend=None, *args, **kwargs):
        _kinds(backend)
        device = kwargs.get("device_id")
        if getattr(device, "type", None) == naming.NAME:  # of torch.device(0)
            kwargs["device_id"] = device = torch.device(CUDA, device.index)
        if "nccl" in str(backend).lower() or getattr(device, "type", None) == CUDA:
            say_cuda()
        return init(backend, *args, **kwargs)

    return checked


def _wrap_timeout(default_of):
    @functools.wraps(default_of)
    def timeout_of(backend):
        return NCCL_TIMEOUT if str(backend) == "nccl" else default_of(backend)

    return timeout_of


def is_cuda(dtensor) -> bool:
    """Return whether the local tensor of a DTensor is on a GPU."""
    return dtensor._local_tensor.is_cuda


def everywhere(value) -> list[str]:
    """Return all names in PyTorch's modules that stand for a value."""
    return [
        f"{module}:{name}"
        for module, loaded in sys.modules.copy().items()
        if module.partition(".")[0] == "torch" and isinstance(loaded, types.ModuleType)
        for name, found in list(vars(loaded).items())
        if found is value
    ]


def replacements(say_cuda) -> dict:
    """Return the replacements; `say_cuda` is called when a script names NCCL."""
    helper, get_backend = find(f"{C10D}:_new_process_group_helper"), find(f"{C10D}:get_backend")
    init = find(f"{C10D}:init_process_group")
    wrapped = (
        (helper, _wrap_helper(helper)),
        (get_backend, _wrap_get_backend(get_backend)),
        (init, _wrap_init(init, say_cuda)),
        (find(f"{C10D}:is_nccl_available"), lambda: True),
        # Checkpoints compare it with the type of tensors, which need not be CUDA's.
        (find("torch._utils:_get_available_device_type"), lambda: device_type()),
    )
    return {
        f"{C10D}:_get_default_timeout": _wrap_timeout(find(f"{C10D}:_get_default_timeout")),
        **{name: new for old, new in wrapped for name in everywhere(old)},
        **dict.fromkeys((f"{C10D}:ProcessGroupNCCL", "torch.distributed:ProcessGroupNCCL"),
                        ProcessGroupNCCL),
        "torch.cuda.nccl:version": lambda: NCCL_VERSION,
        "torch.cuda.nccl:is_available": lambda tensors: True,
        "torch.distributed.tensor:DTensor.is_cuda": property(is_cuda),
        f"{HOOKS}.accepts_all_backends": True,
    }  # fmt: skip
