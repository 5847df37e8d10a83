"""Saving and loading of simulated tensors: ``torch.save``, ``torch.load``, ``pickle``.

A saved tensor remembers its device as a CUDA tensor does. ``map_location`` sends it elsewhere; with
``map_location="cpu"`` it can be loaded where nothing is simulated (`d2lmini` must be importable).
"""

import torch

from d2lmini.sim import access, races
from d2lmini.sim.memory import Block
from d2lmini.sim.naming import NAME, SLOT
from d2lmini.sim.tensor import META, SimTensor, shapes_only, wrap


def _rebuild(storage, offset, size, stride, requires_grad, is_parameter):
    """Build the tensor again, where `storage` says that it belongs."""
    untyped = storage._untyped_storage
    data = torch.empty(0, dtype=storage.dtype, device="cpu").set_(untyped, offset, size, stride)
    location = getattr(untyped, "_sim_location", None)
    tensor = data if location is None else _put(data, untyped, access.find_device(location))
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def _put(data, untyped, device):
    """Put loaded data on a device; tensors that shared memory when saved share it again."""
    block = getattr(untyped, "_sim_block", None)
    if block is None:
        block = untyped._sim_block = Block(device, untyped.nbytes())
        if untyped.nbytes():
            end = device.machine.copy_to_device(device, untyped.nbytes(), pinned=False)
            device.machine.wait_until(
                end, f"wait for copy cpu -> {device.name}", (device.current_stream(),)
            )
    if not device.machine.numerics:
        data = torch.empty_strided(data.shape, data.stride(), dtype=data.dtype, device=META)
    return wrap(data, device, block)


def _reduce(self, protocol):
    device, data = self._device, self._data
    access.check_alive(device.machine, f"a tensor on {device.name}")
    if not device.machine.numerics:
        raise shapes_only("saving a tensor")
    if data.nbytes:
        end = device.machine.copy_to_host(device, data.nbytes, pinned=False)
        if races.active is not None:
            races.active.touch(device, f"copy {device.name} -> cpu", [self])
        device.machine.wait_until(
            end, f"wait for copy {device.name} -> cpu", (device.current_stream(),)
        )
    storage = data.untyped_storage()
    storage._sim_location = device.name
    typed = torch.storage.TypedStorage(wrap_storage=storage, dtype=data.dtype, _internal=True)
    state = (
        typed, data.storage_offset(), tuple(data.shape), data.stride(), self.requires_grad,
        getattr(self, "_is_param", False),
    )  # fmt: skip
    return _rebuild, state


def _tag(storage):
    return getattr(storage, "_sim_location", None)


def _restore(storage, location):
    kind, _, index = location.partition(":")
    if kind not in (NAME, SLOT):
        return None
    index = int(index) if index else None
    count = access.device_count()
    if count == 0 or (index is not None and index >= count):
        raise RuntimeError(
            f"Attempting to deserialize object on {location} but there are {count} simulated "
            "GPUs. Use torch.load with map_location to map your storages to an existing device, "
            "or d2lmini.sim.configure() to make more."
        )
    storage._sim_location = NAME if index is None else f"{NAME}:{index}"
    return storage


def register() -> None:
    """Teach `torch.save` and `torch.load` about simulated devices."""
    SimTensor.__reduce_ex__ = _reduce
    torch.serialization.register_package(9, _tag, _restore)
    torch.serialization.add_safe_globals([_rebuild])
