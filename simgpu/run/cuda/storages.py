"""``torch.load(map_location=lambda storage, location: storage.cuda(1))``.

A storage on a simulated GPU has no data, so the loaded one is marked with its device instead, as
those of other forms of `map_location` are, and its tensors move there.
"""

import torch
from torch.storage import UntypedStorage

from simgpu import saving
from simgpu.backend.pytorch.replacements import find
from simgpu.naming import CUDA

_LOCATION = "torch.serialization:_get_restore_location"


def _cuda(own):
    def cuda(self, device=None, non_blocking=False):
        if not getattr(self, "_sim_loading", False):
            return own(self, device, non_blocking)
        if device is None or device == CUDA:
            device = torch.cuda.current_device()
        name = f"{CUDA}:{device}" if type(device) is int else str(device)
        return saving.restore(self, name)

    return cuda


def _note_loading(get_location):
    """Tell storages that `map_location` is asked where they go."""

    def get(map_location):
        restore = get_location(map_location)

        def restore_noted(storage, location):
            storage._sim_loading = True
            try:
                return restore(storage, location)
            finally:
                storage._sim_loading = False

        return restore_noted

    return get


def replacements() -> dict:
    """Return the replacements."""
    return {
        "torch:UntypedStorage.cuda": _cuda(UntypedStorage.cuda),
        _LOCATION: _note_loading(find(_LOCATION)),
    }
