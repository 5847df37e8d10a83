"""One GPU that can be bought or rented, as its documents describe it."""

from dataclasses import dataclass, field

TENSOR = "tensor cores, without sparsity"
TENSOR_64 = "tensor cores, which matrix libraries use for float64 products"
NO_TF32 = "no TF32 units: float32's rate"
NO_BF16 = "no bfloat16 units: float32's rate (assumed)"
SIXTY_FOURTH = {"flops.float64": "1/64 of float32"}
_L2 = "NVIDIA's whitepapers and board specifications of the preset"


@dataclass(frozen=True)
class Card:
    """The numbers of a GPU in the units of data sheets, and where they come from.

    Attributes
    ----------
    name : str
        Of the preset.
    device : str
        As the driver gives it.
    capability : tuple of int
        The compute capability, major and minor.
    memory : float
        Capacity, GiB.
    bandwidth : float
        Peak of the memory, GB/s.
    peaks : tuple of float
        TFLOP/s of float64, float32, TF32, bfloat16 and float16.
    sms : int
        Multiprocessors.
    l2 : float
        The L2 cache, MiB.
    link : str
        With which machines with it usually come (`simgpu.hardware.links`).
    source : str
        Of all numbers, if `remarks` does not say otherwise.
    remarks : dict of str to str
        By the number's name in `simgpu.GPU.sources`: what is to be said after the source. A text
        that begins with a capital letter, "no" or "assumed" stands in its place.
    float8, int8 : float, optional
        TFLOP/s; None: no such units, or unknown.
    matmul : float, optional
        Share of the peak that the best products were measured to reach.
    tensor : str
        What is said of the peaks above float32's.
    l2_source : str
    """

    name: str
    device: str
    capability: tuple
    memory: float
    bandwidth: float
    peaks: tuple
    sms: int
    l2: float
    link: str
    source: str
    remarks: dict = field(default_factory=dict, hash=False)
    float8: float | None = None
    int8: float | None = None
    matmul: float | None = None
    tensor: str = TENSOR
    l2_source: str = _L2
