"""What `torch.cuda.get_device_properties` says of the GPUs that the presets stand for."""

from dataclasses import dataclass

from simgpu.hardware.cards import CARDS

_GUIDE = "NVIDIA, CUDA C++ Programming Guide 12.9, 2025: technical specifications by capability"
_DRIVER = "as NVIDIA's driver names the module"


@dataclass(frozen=True)
class DeviceProperties:
    """Properties of a GPU that do not enter the simulated time.

    Attributes
    ----------
    name : str
        As the driver gives it.
    capability : tuple of int
        The compute capability, major and minor.
    threads : int
        The most resident threads of a multiprocessor.
    registers : int
        32-bit registers of a multiprocessor.
    shared, shared_optin : int
        Bytes of shared memory of a multiprocessor, and the most that a block may use.
    l2_cache : int
        Bytes of the L2 cache.
    sources : dict
        Where each number comes from.
    """

    name: str
    capability: tuple
    threads: int
    registers: int
    shared: int
    shared_optin: int
    l2_cache: int
    sources: dict


_KIB, _MIB = 2**10, 2**20
# By compute capability: threads, registers, shared memory of a multiprocessor and of a block.
_BY_CAPABILITY = {
    (3, 7): (2048, 131072, 112 * _KIB, 48 * _KIB),
    (6, 0): (2048, 65536, 64 * _KIB, 48 * _KIB),
    (7, 0): (2048, 65536, 96 * _KIB, 96 * _KIB),
    (7, 5): (1024, 65536, 64 * _KIB, 64 * _KIB),
    (8, 0): (2048, 65536, 164 * _KIB, 163 * _KIB),
    (8, 6): (1536, 65536, 100 * _KIB, 99 * _KIB),
    (8, 9): (1536, 65536, 100 * _KIB, 99 * _KIB),
    (9, 0): (2048, 65536, 228 * _KIB, 227 * _KIB),
    (10, 0): (2048, 65536, 228 * _KIB, 227 * _KIB),
    (10, 3): (2048, 65536, 228 * _KIB, 227 * _KIB),
    (12, 0): (1536, 65536, 100 * _KIB, 99 * _KIB),
}


def _properties(name, capability, l2_cache, l2_source, name_source=_DRIVER):
    by_guide = ("capability", "threads", "registers", "shared", "shared_optin")
    sources = {"name": name_source, **dict.fromkeys(by_guide, _GUIDE), "l2_cache": l2_source}
    return DeviceProperties(
        name, capability, *_BY_CAPABILITY[capability], int(l2_cache * _MIB), sources
    )  # fmt: skip


PROPERTIES = {  # by the name of the preset
    name: _properties(card.device, card.capability, card.l2, card.l2_source)
    for name, card in CARDS.items()
}


_GDDR = 1.5e12  # bytes a second that the memory of no card of Ada's generation reaches


def properties_of(gpu) -> DeviceProperties:
    """Return the properties of a `GPU`; of one without a preset, those of a similar generation.

    The generation follows from the data types for which the GPU has faster units, and of those with
    8-bit numbers from the memory: Hopper's stacks (HBM) are faster than Ada's chips (GDDR).

    Examples
    --------
    >>> from dataclasses import replace
    >>> from simgpu.hardware.presets import find_gpu
    >>> properties_of(replace(find_gpu("h100"), name="h100-96")).capability
    (9, 0)
    """
    if gpu.name in PROPERTIES:
        return PROPERTIES[gpu.name]
    single = gpu.flops["float32"]
    if "float8" in gpu.flops:
        capability = (9, 0) if gpu.memory_bandwidth > _GDDR else (8, 9)
    elif gpu.flops["bfloat16"] > single:
        capability = (8, 0)
    else:
        capability = (7, 0) if gpu.flops["float16"] > single else (6, 0)
    return _properties(gpu.name, capability, 40, "assumed: an A100's", "the GPU's spec")
