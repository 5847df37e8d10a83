"""What `torch.cuda` has and simulated GPUs do not: refused in words, with the script's line."""

import torch

from simgpu.ranks.process import user_frame

_VALUES = "keep tensors, not storages: tensor.untyped_storage() compares memory, .cpu() has values"
_ALLOCATOR = "simulated memory is counted, not allocated; leave the allocator as it is"
_SENSORS = "a simulated GPU has no sensors; run this on a real one"
_KERNELS = "simulated GPUs run PyTorch's own operations only; write it with these"
_COMM = "use torch.distributed, one rank for each GPU"
_GRAPHS = "run the operations themselves; --gpu with a smaller launch_overhead shows the gain"
_STREAMS = "use torch.cuda.Stream()"

# Names of torch.cuda that a program calls -> what it does instead.
FUNCTIONS = {
    **dict.fromkeys(("caching_allocator_alloc", "caching_allocator_delete",
                     "caching_allocator_disabled", "change_current_allocator",
                     "memory_snapshot", "use_mem_pool"), _ALLOCATOR),
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
}


class UnsupportedError(NotImplementedError):
    """A script uses something of CUDA that simulated GPUs do not have."""


def error(what, instead) -> UnsupportedError:
    """Return the error for a name, with the line of the script that uses it."""
    line = user_frame.line()
    return UnsupportedError(f"{what} ({line}) does not work on simulated GPUs; {instead}")


def function(what, instead):
    """Return a function that raises the error."""

    def refuse(*args, **kwargs):
        raise error(what, instead)

    return refuse


def class_(what, instead) -> type:
    """Return a class that cannot be instantiated."""

    def refuse(cls, *args, **kwargs):
        raise error(what, instead)

    module, _, name = what.rpartition(".")
    return type(name, (), {"__new__": refuse, "__module__": module})


def replacements() -> dict:
    """Return the replacements."""
    return {
        **{f"torch.cuda:{n}": function(f"torch.cuda.{n}", why) for n, why in FUNCTIONS.items()},
        **{f"torch.cuda:{n}": class_(f"torch.cuda.{n}", why) for n, why in CLASSES.items()},
        **{name: function(*why) for name, why in ELSEWHERE.items()},
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
