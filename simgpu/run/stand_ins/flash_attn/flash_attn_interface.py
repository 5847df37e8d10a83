"""The functions of the package, where it has them itself."""

from flash_attn import (
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
)

__all__ = [
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
]


class _Kernels:
    """Stands for the package's part in C++, which xformers looks up when it is imported."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotImplementedError(
            f"flash_attn_gpu.{name} is a kernel of CUDA; on simulated GPUs call flash_attn_func "
            "and its like, or scaled_dot_product_attention"
        )


flash_attn_gpu = _Kernels()
