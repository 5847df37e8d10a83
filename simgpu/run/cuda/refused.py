"""What `torch.cuda` has and simulated GPUs do not: refused in words, with what to do instead."""

import functools

import torch
import torch.cuda.comm
import torch.cuda.jiterator
import torch.cuda.sparse
import torch.cuda.tunable

from simgpu.backend.pytorch.replacements import exists, find

_VALUES = "keep tensors, not storages: tensor.untyped_storage() compares memory, .cpu() has values"
_ALLOCATOR = "simulated memory is counted, not allocated; leave the allocator as it is"
_SENSORS = "a simulated GPU has no sensors; run this on a real one"
_KERNELS = "simulated GPUs run PyTorch's own operations only; write it with these"
_COMM = "use torch.distributed, one rank for each GPU"
_GRAPHS = "capture the call with torch.cuda.graph"
_TUNING = "simulated matrix products have one algorithm; leave out the tuning"
_SPARSE = "use dense tensors"
_STREAMS = "use torch.cuda.Stream()"

# Names of torch.cuda that a program calls -> what it does instead.
FUNCTIONS = {
    **dict.fromkeys(("caching_allocator_alloc", "caching_allocator_delete",
                     "caching_allocator_disabled", "change_current_allocator",
                     "use_mem_pool"), _ALLOCATOR),
    **dict.fromkeys(("temperature", "power_draw", "clock_rate", "memory_usage", "utilization",
                     "list_gpu_processes"), _SENSORS),
    **dict.fromkeys(("current_blas_handle", "current_solver_handle"), _KERNELS),
    "make_graphed_callables": _GRAPHS,
    "get_stream_from_external": _STREAMS,
}  # fmt: skip
# Names of classes, which stay classes: programs use them in types and with isinstance.
CLASSES = {
    "CUDAPluggableAllocator": _ALLOCATOR,
    "MemPool": _ALLOCATOR,
    "ExternalStream": _STREAMS,
    "GreenContext": _STREAMS,
    **{
        f"{name}Storage": _VALUES
        for name in ("BFloat16", "Bool", "Byte", "Char", "ComplexDouble", "ComplexFloat", "Double",
                     "Float", "Half", "Int", "Long", "Short")
    },
}  # fmt: skip
# Names of modules beside torch.cuda.
ELSEWHERE = {
    "torch.cuda.jiterator:_create_jit_fn": ("torch.cuda.jiterator", _KERNELS),
    "torch.cuda.jiterator:_create_multi_output_jit_fn": ("torch.cuda.jiterator", _KERNELS),
    **{
        f"torch.cuda.nccl:{name}": (f"torch.cuda.nccl.{name}", _COMM)
        for name in ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter")
    },
    **{
        f"{module}:{name}": (f"torch.cuda.comm.{name}", _COMM)
        for module in ("torch.cuda.comm", "torch.nn.parallel.comm")
        for name in ("broadcast", "broadcast_coalesced", "scatter", "gather")
    },
    **{
        f"torch.cuda.tunable:{name}": (f"torch.cuda.tunable.{name}", _TUNING)
        for name in torch.cuda.tunable.__all__
    },
    "torch.autograd.profiler:emit_nvtx.__enter__": (
        "emit_nvtx",
        "use --timeline to see what runs on the devices",
    ),
}


class UnsupportedError(NotImplementedError):
    """A script uses something of CUDA that simulated GPUs do not have."""


def error(what, instead) -> UnsupportedError:
    """Return the error for a name; the launcher adds the line of the script that uses it."""
    return UnsupportedError(f"{what} does not work on simulated GPUs; {instead}")


def function(name, what, instead):
    """Return a function that raises the error in place of the one that `name` stands for.

    It has the attributes of that one: PyTorch's compiler, when it is imported, reads some, such as
    ``__wrapped__``.
    """

    def refuse(*args, **kwargs):
        raise error(what, instead)

    return functools.wraps(find(name))(refuse) if exists(name) else refuse


class _Refused(type):
    def __getattr__(cls, name):
        if name.startswith("__"):  # of Python's own look-ups
            raise AttributeError(name)
        raise error(*vars(cls)["_why"])


def class_(what, instead) -> type:
    """Return a class that cannot be instantiated."""

    def refuse(cls, *args, **kwargs):
        raise error(what, instead)

    module, _, name = what.rpartition(".")
    return _Refused(name, (), {"__new__": refuse, "__module__": module, "_why": (what, instead)})


def replacements() -> dict:
    """Return the replacements."""
    return {
        **{
            f"torch.cuda:{name}": function(f"torch.cuda:{name}", f"torch.cuda.{name}", why)
            for name, why in FUNCTIONS.items()
        },
        **{f"torch.cuda:{n}": class_(f"torch.cuda.{n}", why) for n, why in CLASSES.items()},
        **{name: function(name, *why) for name, why in ELSEWHERE.items()},
        **{
            f"torch.cuda.sparse:{name}": class_(f"torch.cuda.sparse.{name}", _SPARSE)
            for name in vars(torch.cuda.sparse)
            if name.endswith("Tensor")
        },
        "torch:Tensor.__cuda_array_interface__": property(_refuse_interface),
    }


_interface = torch.Tensor.__cuda_array_interface__.fget


def _refuse_interface(tensor):
    if getattr(tensor, "_block", None) is None:
        return _interface(tensor)
    # An AttributeError, so that hasattr() is False.
    raise AttributeError(
        f"{error('__cuda_array_interface__', 'there is no memory on a GPU; use tensor.cpu()')}"
    )


_PACKAGES = {  # kernels for real GPUs
    "flash_attn": "torch.nn.functional.scaled_dot_product_attention",
    "flash_attn_interface": "torch.nn.functional.scaled_dot_product_attention",
    "xformers": "torch.nn.functional.scaled_dot_product_attention",
    "triton": "PyTorch's operations",
    "transformer_engine": "PyTorch's modules",
    "apex": "PyTorch's modules and optimizers",
}

_NO_DRIVER = "0 active drivers", "libcuda.so cannot found"  # Triton 3.6, 3.9


def hint(error) -> str:
    """Return what to do about an error of a package of CUDA kernels, or ``""``."""
    name = (getattr(error, "name", None) or "").partition(".")[0]
    if isinstance(error, ImportError) and name in _PACKAGES:
        what = f"{name} has kernels for real GPUs, which simulated GPUs do not run"
    elif any(words in str(error) for words in _NO_DRIVER):
        name, what = "triton", "simulated GPUs do not run Triton kernels"
    else:
        return ""
    return f"{what}; use {_PACKAGES[name]}"
