"""Patches of DTensor and FSDP for simulated devices.

PyTorch's C++ reports simulated tensors, and wrappers around them, as on ``meta:i``.
"""

import functools

import torch

from simgpu.backend.attention import kernels as attention
from simgpu.backend.pytorch.replacements import exists, find
from simgpu.backend.tensor import SimTensor
from simgpu.clock import current
from simgpu.kernels.facts import aten
from simgpu.naming import TYPES, is_simulated
from simgpu.ranks.process import torch_internals

DTENSOR = "torch.distributed.tensor:DTensor"
ASYNC = "torch.distributed._functional_collectives:AsyncCollectiveTensor"
REBUILD = "torch.distributed.tensor._op_schema:_rebuild_tensor_from_dtensor_meta"
FAKE_KWARGS = "torch.distributed.tensor._op_schema:OpSchema.gen_fake_kwargs"
PLAN = "torch.distributed.tensor._redistribute:_gen_transform_infos"
HANDLERS = f"{DTENSOR}._op_dispatcher._custom_op_handlers"
MOVE = f"{torch_internals.FSDP}._fsdp_init:_move_states_to_device"


def replacements() -> dict:
    """Return the replacements of PyTorch's names while ranks run."""
    return {
        f"{DTENSOR}.device": property(_device_of_dtensor),
        f"{DTENSOR}.is_meta": property(lambda self: _device_of_dtensor(self).type == "meta"),
        f"{DTENSOR}.get_device": lambda self: _device_of_dtensor(self).index,
        f"{DTENSOR}.to": _make_to(find(f"{DTENSOR}.to")),
        f"{ASYNC}.__new__": staticmethod(_new_async),
        f"{ASYNC}.device": property(lambda self: self.elem.device),
        f"{ASYNC}.is_meta": property(lambda self: self.elem.is_meta),
        REBUILD: _rebuild_on_cpu,
        FAKE_KWARGS: _name_the_cpu(find(FAKE_KWARGS)),
        MOVE: _make_move(find(MOVE)),
        HANDLERS: {**find(HANDLERS), aten.scaled_dot_product_attention.default: _attend},
        **({PLAN: _cache_per_rank(find(PLAN))} if exists(PLAN) else {}),
    }


def _cache_per_rank(plan):
    """Cache redistribution plans per rank: for unevenly split tensors they differ."""
    make, plans = getattr(plan, "__wrapped__", plan), {}

    def plan_of_rank(*args, **kwargs):
        number = current.ranks.rank.number
        if number not in plans:
            plans[number] = functools.cache(make)
        return plans[number](*args, **kwargs)

    return plan_of_rank


def _device_of_dtensor(self):
    local = self._local_tensor
    if isinstance(local, SimTensor | find(ASYNC)):
        return local.device
    return torch.Tensor.device.__get__(self)


def _make_to(own_to):
    def to(self, *args, **kwargs):
        """Extend DTensor's method to ``to("sim")``, whose index C++ cannot find."""
        device = kwargs.get("device", args[0] if args else None)
        if not isinstance(device, str | torch.device) or not is_simulated(device):
            return own_to(self, *args, **kwargs)
        if "device" in kwargs:
            kwargs.pop("device")
        else:
            args = args[1:]
        if is_simulated(self.device):
            if args and (args[0] is None or isinstance(args[0], torch.dtype)):
                kwargs["dtype"], *args = args  # as `Module.to` passes it
            return own_to(self, kwargs.pop("dtype", None) or self.dtype, *args, **kwargs)
        return own_to(self, current.find_device(None).torch_device, *args, **kwargs)

    return to


def _new_async(cls, elem):
    """Replace ``AsyncCollectiveTensor.__new__``, with the device that C++ knows."""
    result = torch.Tensor._make_wrapper_subclass(
        cls, elem.size(), strides=elem.stride(), storage_offset=elem.storage_offset(),
        dtype=elem.dtype, layout=elem.layout, requires_grad=elem.requires_grad,
        device=elem._device.cpp_device if isinstance(elem, SimTensor) else elem.device,
    )  # fmt: skip
    result.elem, result.completed = elem, False
    return result


def _rebuild_on_cpu(spec):
    """Make DTensor propagate shapes on the CPU.

    C++ has no simulated device, and PyTorch caches the results for all ranks.
    """
    meta, kind = spec.tensor_meta, spec.mesh.device_type
    device = "cpu" if kind in TYPES else kind
    return torch.empty_strided(meta.shape, meta.stride, dtype=meta.dtype, device=device)


def _name_the_cpu(fake_kwargs):
    """Make DTensor propagate the shapes of ``empty_like(x, device="cuda")`` on the CPU, too."""

    @functools.wraps(fake_kwargs)
    def on_cpu(self):
        kwargs = fake_kwargs(self)
        if kwargs.get("device") is not None and is_simulated(kwargs["device"]):
            kwargs = {**kwargs, "device": torch.device("cpu")}
        return kwargs

    return on_cpu


def _attend(op, args, kwargs):
    """Handle attention in inference mode, in which it arrives undecomposed."""
    return attention.attend(op.decompose, *args, **kwargs)


def _make_move(own_move):
    def move(params, buffers, device):
        """Extend FSDP's function: ``tensor.data = other`` cannot move a host tensor here."""
        if not is_simulated(device):
            return own_move(params, buffers, device)
        others = [[], []]
        for rest, tensors in zip(others, (params, buffers), strict=True):
            for tensor in tensors:
                if _is_on_host(tensor):
                    _move_to(tensor, device)
                else:
                    rest.append(tensor)
        return own_move(*others, device)

    return move


def _is_on_host(tensor):
    dtensor = find(DTENSOR)
    return not isinstance(tensor, SimTensor | dtensor) and tensor.device.type != "meta"


def _move_to(tensor, device):
    with torch.no_grad():
        new = tensor.to(device)
        if isinstance(tensor, torch.nn.Parameter):
            new = torch.nn.Parameter(new, tensor.requires_grad)
    torch.utils.swap_tensors(tensor, new)
