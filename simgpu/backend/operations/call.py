"""One call of an operation: the user's simulated tensors, and the tensors that hold the values."""

import torch

from simgpu.backend.tensor import SimTensor, mixed_devices
from simgpu.clock import current

# Most arguments that are not tensors are of these types. Looking a type up in a set takes a
# fraction of the time of an `isinstance` that is false, which calls the tensors' metaclass.
_NO_TENSORS = frozenset({
    int, float, bool, type(None), str, torch.dtype, torch.layout, torch.memory_format, torch.device,
})  # fmt: skip


class Call:
    """One call of an operation on simulated tensors.

    Attributes
    ----------
    op : Op
        The facts about the operation.
    args, kwargs
        As PyTorch passes them, with the user's simulated tensors: results alias *these*.
    inner_args, inner_kwargs : list, dict
        The same with the tensors inside: CPU tensors, or meta tensors if only shapes are kept. The
        operation runs on them.
    tensors : list of torch.Tensor
        All tensors among the inner arguments, in order.
    plain : list of torch.Tensor
        Those among them that are the user's own host tensors.
    device : Device
        The device of the simulated tensors and of the results.
    is_complex : bool
        Whether one of the tensors is complex.

    Raises
    ------
    RuntimeError
        If the simulated tensors are on several devices.
    """

    __slots__ = (
        "args", "device", "inner_args", "inner_kwargs", "is_complex", "kwargs", "op", "plain",
        "tensors",
    )  # fmt: skip

    def __init__(self, op, args, kwargs):
        self.op, self.args, self.kwargs = op, args, kwargs
        self.device, self.is_complex, self.tensors, self.plain = None, False, [], ()
        self.inner_args = self._unwrap(args)
        self.inner_kwargs = (
            dict(zip(kwargs, self._unwrap(kwargs.values()), strict=True)) if kwargs else {}
        )

    def _unwrap(self, values):
        inner, tensors, device = [], self.tensors, self.device
        for value in values:
            kind = type(value)
            if kind is SimTensor:
                own = value._device
                if device is None:
                    device = self.device = own
                elif own is not device:
                    self._set_device(own)
                value = value._data
                tensors.append(value)
                if value.is_complex():
                    self.is_complex = True
            elif kind not in _NO_TENSORS:
                is_nested = kind is list or kind is tuple
                value = kind(self._unwrap(value)) if is_nested else self._unwrap_other(value)
                device = self.device
            inner.append(value)
        return inner

    def _unwrap_other(self, value):
        """Return the tensor inside a tensor of another class, or any other value unchanged."""
        if not isinstance(value, torch.Tensor):
            return value
        if isinstance(value, SimTensor):
            self._set_device(value._device)
            value = value._data
        else:
            self.plain = [*self.plain, value]
        self.tensors.append(value)
        if value.is_complex():
            self.is_complex = True
        return value

    def _set_device(self, device):
        """Set the device of the call; raise an error if another tensor has a different one."""
        if self.device is not None and self.device is not device:
            for one in (self.device, device):
                current.check_alive(one.machine, f"a tensor on {one.name}")
            raise mixed_devices(self.device.name, device.name)
        self.device = device
