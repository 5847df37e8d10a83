"""Save and load simulated tensors: ``torch.save``, ``torch.load``, ``pickle``.

A saved tensor records its device, as a CUDA tensor does. ``map_location`` overrides it; with
``map_location="cpu"`` it can be loaded without a simulated machine, once a name of `simgpu` was
used, or `simgpu` imported after PyTorch.
``map_location="sim:1"`` loads tensors of other devices onto a simulated GPU.

Without values (``numerics=False``), a tensor is saved as its shape, and loaded as one whose values
are NaN, as those of a copy on the host are (integers: 0): the file is small however large the model
is.
"""

import copyreg
import functools

import torch

from simgpu.backend import tensor as backend
from simgpu.backend.tensor import META, SimTensor, wrap
from simgpu.clock import current
from simgpu.clock.memory import Block
from simgpu.kernels.facts import aten, lookup
from simgpu.naming import TYPES, spelling
from simgpu.races import detector as races


def _rebuild(storage, offset, size, stride, requires_grad, is_parameter):
    """Rebuild the tensor on the device that `storage` is tagged with."""
    untyped = storage._untyped_storage
    data = torch.empty(0, dtype=storage.dtype, device="cpu").set_(untyped, offset, size, stride)
    tensor = _move_to_location(data, untyped)
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def _move_to_location(data, untyped):
    location = getattr(untyped, "_sim_location", None)
    return data if location is None else _move(data, untyped, current.find_device(location))


def _move(data, untyped, device):
    """Move loaded data to a device; tensors that shared a storage when saved share it again."""
    block = getattr(untyped, "_sim_block", None)
    if block is None:
        block = untyped._sim_block = Block(device, untyped.nbytes())
        if untyped.nbytes():
            device.from_host(untyped.nbytes())
    if data.is_conj() or data.is_neg():  # its values may not have been loaded yet
        raise NotImplementedError(
            f"a conjugate view cannot be loaded onto {device.name}; load it with "
            f"map_location='cpu' and move it by .to({device.name!r})"
        )
    data = data.detach()
    if not device.machine.numerics:
        data = torch.empty_strided(data.shape, data.stride(), dtype=data.dtype, device=META)
    return wrap(data, device, block)


def _reduce(tensor):
    device, data = tensor._device, tensor._data
    current.check_alive(device.machine, f"a tensor on {device.name}")
    if not device.machine.numerics:
        return _rebuild_shape, _shape_of(tensor)
    if backend.watch is not None:  # saving reads the values as a copy does
        backend.watch(lookup(aten._to_copy.default), (tensor,), None)
    if data.nbytes:
        if races.active is not None:
            races.active.touch(device, f"copy {device.name} -> cpu", [tensor])
        device.to_host(data.nbytes)
    storage = data.untyped_storage()
    storage._sim_location = device.name
    typed = torch.storage.TypedStorage(wrap_storage=storage, dtype=data.dtype, _internal=True)
    state = (
        typed, data.storage_offset(), tuple(data.shape), data.stride(), tensor.requires_grad,
        getattr(tensor, "_is_param", False),
    )  # fmt: skip
    return _rebuild, state


def _shape_of(tensor):
    """Return what is saved of a tensor without values: a storage of one element tells where."""
    device, data = tensor._device, tensor._data
    if data.nbytes:
        device.to_host(data.nbytes)
    storage = torch.zeros(1, dtype=data.dtype)._typed_storage()
    storage._untyped_storage._sim_location = device.name
    is_parameter = getattr(tensor, "_is_param", False)
    return storage, tuple(data.shape), data.stride(), tensor.requires_grad, is_parameter


def _rebuild_shape(storage, size, stride, requires_grad, is_parameter):
    """Rebuild a tensor of which only the shape was saved."""
    location = getattr(storage._untyped_storage, "_sim_location", None)
    if location is None:  # a missing value is never a number that could be right
        tensor = torch.empty_strided(size, stride, dtype=storage.dtype, device="cpu")
        tensor.fill_(torch.nan if tensor.is_floating_point() or tensor.is_complex() else 0)
    else:
        device = current.find_device(location)
        if device.machine.numerics:
            raise RuntimeError(
                "this file has no values: it was saved on a machine that keeps shapes only, and "
                f"{device.name} keeps values; load it where numerics=False, or save it again"
            )
        data = torch.empty_strided(size, stride, dtype=storage.dtype, device=META)
        block = Block(device, data.untyped_storage().nbytes())
        if block.size:
            device.from_host(block.size)
        tensor = wrap(data, device, block)
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def _tag(storage):
    return getattr(storage, "_sim_location", None)


def restore(storage, location):
    """Mark a loaded storage with the simulated device at `location`; None for another device."""
    kind, _, index = location.partition(":")
    if kind not in TYPES:
        return None
    index = int(index) if index else None
    count = current.device_count()
    if count == 0 or (index is not None and index >= count):
        raise RuntimeError(
            f"Attempting to deserialize object on {location} but there are {count} simulated "
            "GPUs. Use torch.load with map_location to map your storages to an existing device, "
            "or simgpu.configure() to make more."
        )
    storage._sim_location = spelling.name if index is None else f"{spelling.name}:{index}"
    return storage


def _rebuild_at_location(rebuild):
    """Wrap PyTorch's function `rebuild` to move the tensor to where `map_location` says."""

    @functools.wraps(rebuild)
    def rebuild_and_move(storage, *args, **kwargs):
        tensor = rebuild(storage, *args, **kwargs)
        moved = _move_to_location(tensor, storage._untyped_storage)
        return tensor if moved is tensor else moved.requires_grad_(tensor.requires_grad)

    return rebuild_and_move


def _register() -> None:
    """Register simulated devices with `torch.save` and `torch.load`."""
    for name in ("_rebuild_tensor_v2", "_rebuild_tensor_v3"):
        setattr(torch._utils, name, _rebuild_at_location(getattr(torch._utils, name)))
    torch._weights_only_unpickler._get_allowed_globals.cache_clear()  # it holds the old functions
    copyreg.pickle(SimTensor, _reduce)
    torch.serialization.register_package(9, _tag, restore)
    torch.serialization.add_safe_globals([_rebuild, _rebuild_shape])


_register()
