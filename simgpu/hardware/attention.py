"""The share of its peak that a fused attention kernel reaches, by kernel and GPU generation.

A fused kernel reads the queries, keys and values, and writes the output and one log-sum-exp a
query; the scores stay on the chip. What a kernel reaches is published for some GPUs:

- *Flash*, which is FlashAttention-2 in PyTorch: 50 to 73 % of an A100's peak (T. Dao,
  *FlashAttention-2*, 2023, abstract), 35 % of an H100's (J. Shah et al., *FlashAttention-3*, 2024,
  abstract).
- *cuDNN*: 300 to 620 of an H100's 989 TFLOP/s, forward (Shah et al., figure 5).
- *Memory-efficient* (xFormers' CUTLASS kernel): FlashAttention-2 is about twice as fast (Dao,
  abstract and section 4.1, on an A100).
- *FlexAttention*, Triton kernels that PyTorch compiles: 90 % of FlashAttention-2's rate forward,
  85 % backward (H. He et al., *FlexAttention*, PyTorch, 2024), of the blocks that they visit.

`FLASH`, `CUDNN` and `EFFICIENT` are the middle of these, for forward and backward, all lengths and
sizes of heads. Assumed: Ada, consumer Ampere and consumer Blackwell as the A100, whose instructions
for products they have; Blackwell of data centres as Hopper; Volta and Turing as Ampere's
memory-efficient kernel. None is fitted.

In float32 the memory-efficient kernel multiplies on tensor cores from Ampere on, with three TF32
products for each (CUTLASS's ``OpMultiplyAddFastF32``, which PyTorch's ``mem_eff_attention``
chooses); on older GPUs it uses the ordinary cores, which lose less (``matmul_efficiency.py``).
"""

from dataclasses import dataclass

from simgpu.hardware.device_properties import properties_of

FLASH = {8: 0.6, 9: 0.35}  # by major compute capability; newer ones as the last
_LIKE_ADA = (12,)  # Blackwell of consumers, without the instructions of data centres
CUDNN = 0.55
EFFICIENT = 0.5  # of what flash attention reaches
FLEX, FLEX_BACKWARD = 0.9, 0.85  # of the same
TF32_PRODUCTS = 3  # for one product in float32


@dataclass(frozen=True)
class FusedAttention:
    """The work of one fused attention kernel.

    Attributes
    ----------
    kernel : str
        ``"flash"``, ``"efficient"``, ``"cudnn"``, ``"flex"`` or ``"flex_backward"``.
    flops : int
        FLOPs of its products.
    """

    kernel: str
    flops: int


def attention_efficiency(gpu, kernel, dtype):
    """Return the share of the peak for `dtype` that a fused attention kernel reaches.

    Parameters
    ----------
    gpu : GPU
    kernel : str
        ``"flash"``, ``"efficient"``, ``"cudnn"``, ``"flex"`` or ``"flex_backward"``.
    dtype : str
        Key of `GPU.flops`.

    Examples
    --------
    >>> from simgpu.hardware.presets import find_gpu
    >>> for name in ("a100", "h100"):
    ...     print([attention_efficiency(find_gpu(name), kernel, "bfloat16")
    ...            for kernel in ("flash", "efficient")])
    [0.6, 0.3]
    [0.35, 0.175]
    """
    major = properties_of(gpu).capability[0]
    known = 8 if major in _LIKE_ADA else min(max(major, min(FLASH)), max(FLASH))
    flash = FLASH[known]
    share = {
        "flash": flash, "efficient": EFFICIENT * flash, "cudnn": CUDNN,
        "flex": FLEX * flash, "flex_backward": FLEX_BACKWARD * flash,
    }[kernel]  # fmt: skip
    if dtype in ("bfloat16", "float16"):
        return share if gpu.flops[dtype] > gpu.flops["float32"] else gpu.compute_efficiency
    if dtype == "float32" and major >= min(FLASH):
        return share * gpu.flops["tf32"] / TF32_PRODUCTS / gpu.flops["float32"]
    return gpu.compute_efficiency
