"""Devices: how many there are, which one is current, what they are."""

import os
import types
import uuid

from simgpu.clock import current, queries
from simgpu.hardware.device_properties import properties_of
from simgpu.naming import split


def is_available() -> bool:
    """Return whether there are simulated GPUs."""
    return current.device_count() > 0


def device_count() -> int:
    """Return how many GPUs the program sees; in a rank those of its node."""
    if current.ranks is None:
        return current.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible:
        return len(visible.split(","))
    return int(os.environ.get("LOCAL_WORLD_SIZE", current.device_count()))


def set_device(device) -> None:
    """Make a device the current one; without a number, or with a negative one, do nothing."""
    if isinstance(device, int):
        if device >= 0:
            current.set_device(device)
    elif split(device)[1] is not None:
        current.set_device(device)


def exchange(index) -> int:
    """Make a device the current one; return the number of the one before."""
    before = current.current_device()
    if index >= 0:
        current.set_device(index)
    return before


class DeviceContext:
    """``with torch.cuda.device(i):``; None or a negative number changes nothing."""

    def __init__(self, device):
        self.idx = -1 if device is None or device == -1 else current.find_device(device).index
        self.prev_idx = -1

    def __enter__(self):
        if self.idx >= 0:
            self.prev_idx = current.find_device().index
            machine = current.current_machine()
            machine.set_current_index(self.idx)

    def __exit__(self, *_):
        if self.idx >= 0:
            current.current_machine().set_current_index(self.prev_idx)
        return False


class DeviceOf(DeviceContext):
    """``with torch.cuda.device_of(tensor):``; a host tensor changes nothing."""

    def __init__(self, obj):
        super().__init__(obj.device if getattr(obj, "is_cuda", False) else -1)


def get_device_properties(device=None):
    """Return the properties of a device under the names of `torch.cuda`."""
    found = current.find_device(device)
    spec, known = found.machine.gpu, properties_of(found.machine.gpu)
    return types.SimpleNamespace(
        name=f"{known.name} (simulated)", major=known.capability[0], minor=known.capability[1],
        total_memory=int(spec.memory), multi_processor_count=spec.multiprocessors or 80,
        warp_size=32, max_threads_per_block=1024, max_threads_per_multi_processor=known.threads,
        regs_per_multiprocessor=known.registers, shared_memory_per_block=48 * 2**10,
        shared_memory_per_block_optin=known.shared_optin,
        shared_memory_per_multiprocessor=known.shared, L2_cache_size=known.l2_cache,
        is_integrated=0, is_multi_gpu_board=0, gcnArchName="", uuid=uuid.UUID(int=found.index),
        pci_domain_id=0, pci_bus_id=found.index, pci_device_id=0,
    )  # fmt: skip


def get_device_name(device=None) -> str:
    """Return the name of a device, which says that it is simulated."""
    return get_device_properties(device).name


def get_device_capability(device=None) -> tuple:
    """Return the compute capability of a device."""
    found = get_device_properties(device)
    return found.major, found.minor


def get_arch_list() -> list:
    """Return the architecture for which PyTorch has kernels: that of the simulated GPU."""
    return ["sm_{}{}".format(*get_device_capability())] if is_available() else []


def is_bf16_supported(including_emulation=True) -> bool:
    """Return whether the GPU computes with bfloat16; as in CUDA, older ones emulate it."""
    return including_emulation or get_device_capability() >= (8, 0)


def is_tf32_supported() -> bool:
    """Return whether the GPU has units for TF32."""
    return get_device_capability() >= (8, 0)


def can_device_access_peer(device, peer_device) -> bool:
    """Return whether two different devices copy directly."""
    first, second = (current.find_device(one) for one in (device, peer_device))
    return first is not second and first.machine.link.peer


def synchronize(device=None) -> None:
    """Make the host wait until all work on a device is done, by default the current one."""
    queries.synchronize(current.find_device(device).torch_device)
